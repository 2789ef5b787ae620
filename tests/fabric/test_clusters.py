"""``cluster``: scores of recipes on servers, files, fabrics with servers, answers, bad input."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import pytest

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.networks.formats import import_network
from ocs_codesign.core.topology import Topology
from ocs_codesign.fabric import clusters as scoring
from ocs_codesign.fabric.clusters import Card, Cluster, Inner, dealt, score_cluster
from ocs_codesign.fabric.files.cluster_files import cluster_json_schema, parse_cluster
from ocs_codesign.fabric.files.fabric_files import fabric_text, load_fabric, parse_fabric
from ocs_codesign.fabric.profiles import cluster_of
from ocs_codesign.faces.answers.networks import _runs
from ocs_codesign.faces.cli import main
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.forest.optimum import optimum

GB = 10**9
OPTIONS = ["--servers", "8", "--gpus", "4", "--inner", "switch=450GB/s", "--ports", "2"]
OPTIONS += ["--port-bandwidth", "200Gbps"]
FILE = """
name: pod
servers: {count: 8, gpus: 4, switch: 450GB/s}
nics:
- {count: 4, ports: 2, port_bandwidth: 25GB/s}
"""
FABRIC = """
version: 1
name: pod
hosts: {count: 8, pattern: 'host{:02d}'}
planes:
- count: 4
  switches:
  - {profile: polatis-384, ports: 8}
alpha: 10us
port_bandwidth: 400Gbps
losses: {connector_db: 0.25, budget_db: DR4}
"""
SERVERS = """servers:
  gpus: 4
  switch: 450GB/s
  nics:
  - {planes: [0, 1], gpus: [0, 1]}
  - {planes: [2, 3], gpus: [2, 3]}
"""


def cluster(num_servers, gpus, ports, **options):
    """Servers with a switch and a NIC of ports of 25 GB/s a GPU."""
    names = tuple(f"server{at}" for at in range(num_servers))
    cards = tuple(Card(ports, Fraction(25 * GB), (gpu,)) for gpu in range(gpus))
    return Cluster("pod", names, Inner("switch", gpus, Fraction(450 * GB)), cards, **options)


def answer(capsys, *arguments):
    assert main(["cluster", *arguments, "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("num_servers", [2, 3, 7, 16])
@pytest.mark.parametrize("ports", [1, 2, 3])
def test_the_frontier_is_limited_by_nics(num_servers, ports):
    """Of at least as many other servers as ports, or of several ports a link."""
    found = score_cluster(cluster(num_servers, 4, ports), Collective.ALLGATHER)
    limit = Fraction(num_servers * 4 * ports * 25 * GB, num_servers - 1)
    assert found.bound.algbw_Bps == found.baselines[-2].algbw_Bps == limit
    assert found.best.algbw_Bps <= limit
    assert (found.bound.steps, found.baselines[-2].steps) == (1, 2)
    for design in (*found.candidates, *found.dominated):
        assert design.algbw_Bps <= limit
        (half,) = design.halves
        assert half.algbw * design.unit_Bps == design.algbw_Bps
        assert {recipe.num_nodes for recipe in design.recipes} == {num_servers}


def test_allreduce_is_both_halves():
    allgather, both = (
        score_cluster(cluster(6, 2, 2), Collective.parse(name), [parse("GeneralizedKautz(2, 6)")])
        for name in ("allgather", "allreduce")
    )
    scatter = score_cluster(
        cluster(6, 2, 2), Collective.REDUCE_SCATTER, [parse("GeneralizedKautz(2, 6)")]
    )
    halves = allgather.best, scatter.best
    assert 1 / both.best.algbw_Bps == sum(1 / half.algbw_Bps for half in halves)
    assert both.best.steps == sum(half.steps for half in halves)


def test_times_are_least_ones():
    alpha, size = Fraction(1, 10**5), Fraction(3 * GB)
    found = score_cluster(cluster(6, 2, 2, alpha_s=alpha), Collective.ALLGATHER, messages=[size])
    best = found.best
    assert found.least_time_s(best, size) == best.steps * alpha + 3 * GB / best.algbw_Bps


def test_a_link_lost_where_nics_hang_on_switches():
    """What is left of 16 ports into a server is its cut, and the program of 192 GPUs attains it."""
    plain = cluster(24, 8, 2)
    cards = tuple(Card(card.num_ports, card.port_Bps) for card in plain.cards)
    lost = replace(plain, cards=cards, lost=("server0.nic1>server1.nic1",))
    recipe = [parse("DirectedCirculant(24, (1, 2))")]
    found = score_cluster(lost, Collective.ALLGATHER, recipe).best
    assert found.halves[0].shares is not None
    assert found.algbw_Bps == Fraction(24 * 15 * 25 * GB, 23)


def test_loops_of_a_recipe_cost_the_cluster_half():
    """Node 0 of a generalized Kautz digraph of 16 nodes has a loop, so one link in is left."""
    recipes = [parse("GeneralizedKautz(2, 16)"), parse("DirectedCirculant(16, (1, 4))")]
    found = score_cluster(cluster(16, 8, 2), Collective.ALLGATHER, recipes)
    by_recipe = {one.recipes[0]: one for one in (*found.candidates, *found.dominated)}
    assert by_recipe[recipes[0]].algbw_Bps * 2 == by_recipe[recipes[1]].algbw_Bps


def test_across_rails_the_order_of_nics_matters():
    found = score_cluster(
        cluster(4, 4, 2, wiring="across"), Collective.ALLGATHER, [parse("BiRing(2, 16)")]
    )
    by_server, by_rail = sorted((*found.candidates, *found.dominated), key=lambda one: one.by_rail)
    # Of four NICs in a row on the ring only the outer ones lead out of a server.
    assert by_server.algbw_Bps * 4 == by_rail.algbw_Bps == found.bound.algbw_Bps


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("ports", [(1,), (2, 2), (4,) * 3, (2, 4, 6), (8,) * 8])
def test_rails_are_dealt_circulants(ports, bidirectional):
    for num_servers in range(2, 30):
        recipes = dealt(num_servers, ports, bidirectional=bidirectional)
        if not recipes:
            most = num_servers // 2 if bidirectional else num_servers - 1
            assert max(ports) // (1 + bidirectional) > most or (bidirectional and 1 in ports)
            continue
        assert [recipe.degree for recipe in recipes] == list(ports)
        assert all(recipe.bidirectional or not bidirectional for recipe in recipes)
        links = {
            (int(tail), int(head))
            for recipe in recipes
            for tail, head in zip(recipe.topology().tail, recipe.topology().head, strict=True)
        }
        one = Topology(num_servers, *zip(*links, strict=True))
        assert len(links) == num_servers * min(sum(ports), num_servers - 1) or bidirectional
        assert one.diameter() <= most_hops(num_servers, sum(ports), bidirectional)


def most_hops(num_servers, ports, bidirectional):
    """The fewest digits to whose base there are ports for all digits; with too few ports, enough.

    Where links lead both ways digits may be negative.
    """
    for places in range(1, 6):
        base = next(base for base in range(2, 40) if base**places >= num_servers)
        digits = 2 * (base // 2) if bidirectional else base - 1
        if places * digits <= ports:
            return places
    return num_servers - 1


def test_rails_that_differ_take_fewer_steps():
    found = score_cluster(cluster(16, 8, 2), Collective.ALLGATHER)
    dealt_rails, same = found.candidates[0], found.dominated[0]
    assert (dealt_rails.steps, same.steps) == (3, 5)
    assert dealt_rails.algbw_Bps == same.algbw_Bps == found.bound.algbw_Bps
    again = score_cluster(
        cluster(16, 8, 2, lost=("server0.nic0>server1.nic0",)),
        Collective.ALLGATHER,
        dealt_rails.recipes,
        each_rail=True,
    )
    assert again.best.recipes == dealt_rails.recipes
    # One of the sixteen links that lead into server 1 is gone.
    assert again.best.algbw_Bps == found.bound.algbw_Bps * Fraction(15, 16)
    with pytest.raises(ValueError, match="2 recipes are given, but there are 8 rails"):
        score_cluster(
            cluster(16, 8, 2), Collective.ALLGATHER, dealt_rails.recipes[:2], each_rail=True
        )


def test_what_is_lost_and_slow():
    recipe = [parse("BiRing(2, 6)")]
    plain = score_cluster(cluster(6, 2, 2), Collective.ALLGATHER, recipe)
    lost = score_cluster(cluster(6, 2, 2, lost=("server2",)), Collective.ALLGATHER, recipe)
    assert lost.best.network.num_hosts == 10
    assert lost.best.algbw_Bps == Fraction(10 * 2 * 25 * GB, 8)
    slow = cluster(6, 2, 2, slow=(("server1", Fraction(5 * GB)),))
    assert score_cluster(slow, Collective.ALLGATHER, recipe).best.algbw_Bps == Fraction(
        12 * 20 * GB, 10
    )
    link = cluster(6, 2, 2, lost=("server0.nic0>server1.nic0",))
    damaged = score_cluster(link, Collective.ALLGATHER, recipe)
    assert damaged.best.algbw_Bps == plain.best.algbw_Bps * Fraction(3, 4)
    assert damaged.bound.algbw_Bps == plain.bound.algbw_Bps
    with pytest.raises(ValueError, match="a link is of one recipe: give the recipe too"):
        score_cluster(link, Collective.ALLGATHER)


def test_recipes_that_are_cut_off(capsys):
    lost = ["--lost", "server3"]
    # Server 2 of this recipe has links to itself and to server 3 alone.
    given = ["--designs", "GeneralizedKautz(2, 8)"]
    assert main(["cluster", *OPTIONS, *lost, *given, "--designs", "BiRing(2, 8)"]) == 0
    told = capsys.readouterr().out
    assert "Some GPUs do not reach all others any more on Π(2,8)." in told
    found = answer(capsys, *OPTIONS, *lost, *given, "--designs", "BiRing(2, 8)")
    assert found["cut_off"] == [["GeneralizedKautz(2, 8)"]]
    assert main(["cluster", *OPTIONS, *lost, *given]) == 2
    assert "nothing joins all GPUs: server0.gpu0 cannot be reached" in capsys.readouterr().err


def test_unequal_nics_take_a_recipe_each(capsys, tmp_path):
    path = tmp_path / "pod.yaml"
    text = FILE.replace("count: 4, ports: 2", "count: 2, ports: 2")
    path.write_text(text + "- {count: 2, ports: 1, port_bandwidth: 10GB/s}\n", encoding="utf-8")
    found = answer(capsys, str(path))
    assert found["recipes_of"] == [{"nodes": 8, "degree": 1}, {"nodes": 8, "degree": 2}]
    limit = Fraction(8 * (2 * 50 + 2 * 10) * GB, 7)
    same = [one for one in found["dominated"] if len(one["recipes"]) == 2]
    assert same
    assert {one["algbw_Bps"] for one in (*found["candidates"], *same)} == {str(limit)}
    given = [part for recipe in same[0]["recipes"] for part in ("--designs", recipe)]
    assert answer(capsys, str(path), *given)["candidates"][0]["recipes"] == same[0]["recipes"]
    assert main(["cluster", str(path), "--designs", "UniRing(1, 8)"]) == 2
    assert "no recipe was given for the NICs of 2 ports" in capsys.readouterr().err


def test_options_and_files_say_the_same(capsys, tmp_path):
    path, other = tmp_path / "pod.yaml", tmp_path / "pod.json"
    path.write_text(FILE, encoding="utf-8")
    other.write_text(
        json.dumps(
            {
                "name": "pod",
                "servers": {"names": [f"server{at}" for at in range(8)], "gpus": 4,
                            "switch": "3600Gbps"},
                "nics": [{"count": 4, "ports": 2, "port_bandwidth": "200Gbps"}],
            }
        ),
        encoding="utf-8",
    )  # fmt: skip
    answers = [answer(capsys, *way) for way in (OPTIONS, [str(path)], [str(other)])]
    assert answers[0].pop("cluster") != answers[1].pop("cluster") == answers[2].pop("cluster")
    assert answers[0] == answers[1] == answers[2]
    assert main(["fabric", "schema", "cluster"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema == cluster_json_schema()
    assert set(schema["properties"]) >= {"name", "servers", "nics", "lost"}
    assert main(["fabric", "schema", "cluster", "workload"]) == 2
    assert "unexpected extra argument" in capsys.readouterr().err


def test_servers_in_a_row_are_named_by_the_first_and_the_last():
    pod = parse_cluster(FILE.encode(), "pod.yaml")
    assert _runs(pod, [f"server{at}" for at in (0, 1, 2, 5)]) == "server0-server2, server5"
    assert _runs(pod, ["server3"]) == "server3"


def test_the_answer_to_read(capsys):
    assert main(["cluster", *OPTIONS, "--alpha", "10us", "--message", "1MiB,64MiB"]) == 0
    told = capsys.readouterr().out
    assert "8 of 4 GPUs, 450 GB/s each to a switch" in told
    assert "4 rails, a recipe of 8 nodes of degree 2 each; on the way data pass a GPU" in told
    assert "28 of 32 shards pass 200 GB/s: into the NICs of server0" in told
    assert "8 links: server" in told
    tables = told.split("wiring")[1].split("Of all schedules")[0]
    assert max(map(len, tables.splitlines())) <= 100
    assert "1 MiB >=  64 MiB >=" in told
    assert "Of all schedules none has a higher algbw, which forests reach, or fewer steps." in told
    assert main(["cluster", *OPTIONS, "--collective", "allreduce"]) == 0
    told = capsys.readouterr().out
    assert "Of all schedules of a reduce-scatter and then an allgather none" in told


def test_the_bottleneck_is_named_at_ports_where_cards_are_as_narrow(capsys):
    shared = [*OPTIONS, "--nics", "2", "--nic-on", "shared"]
    for collective in ("allgather", "reduce-scatter"):
        found = answer(capsys, *shared, "--collective", collective)
        best = found["candidates"][found["best"]]
        assert "28 of 32 shards pass 100 GB/s" in best["bottleneck"]
        assert "the NICs of server" in best["bottleneck"]
        assert sum(link["bandwidth"] for link in best["links_to_upgrade"]) == 800
        assert best["unit"] == "Gbps"
    narrow = [*OPTIONS[:5], "switch=10GB/s", *OPTIONS[6:]]
    found = answer(capsys, *narrow)
    assert "the links inside server0" in found["candidates"][0]["bottleneck"]


@pytest.mark.parametrize(
    "more",
    [
        [],
        ["--relay", "nic", "--lost", "server2"],
        ["--nics", "1", "--nic-on", "shared"],
        ["--nics", "1", "--nic-on", "switch"],
    ],
)
def test_the_network_goes_on(capsys, tmp_path, more):
    """What is written has the fixed form; other commands take it, and find the same."""
    file, design = tmp_path / "network.json", tmp_path / "design"
    small = ["--servers", "3", "--gpus", "2", "--inner", "switch=100GB/s", "--ports", "2"]
    found = answer(capsys, *small, "--port-bandwidth", "10GB/s", "--out", str(file), *more)
    record = json.loads(file.read_text(encoding="utf-8"))
    assert {"num_hosts", "num_nodes", "links", "unit"} <= set(record)
    assert {len(link) for link in record["links"]} == {3}
    best = found["candidates"][found["best"]]
    network = import_network(file)
    assert network.names[:2] == ("server0.gpu0", "server0.gpu1")
    algbw = optimum(network, Collective.ALLGATHER).algbw
    assert str(algbw * GB) == best["algbw_Bps"]
    assert main(["optimum", str(file), "--json", "-", "--no-allreduce"]) == 0
    assert json.loads(capsys.readouterr().out)["algbw"] == str(algbw)
    command = ["build", "--network", str(file), "--scheduler", "forest", "--parts", "2"]
    assert main([*command, "--out", str(design)]) == 0
    assert main(["verify", str(design)]) == 0


def test_a_row_is_picked(capsys, tmp_path):
    file = tmp_path / "network.json"
    given = ["--designs", "BiRing(2, 8)", "--designs", "DirectedCirculant(8, (1, 3))"]
    assert main(["cluster", *OPTIONS, *given, "--pick", "2", "--out", str(file)]) == 0
    assert capsys.readouterr().out == "BiRing(2, 8)\n"
    assert import_network(file).num_links == 8 * 4 * 2 + 4 * 16
    assert main(["cluster", *OPTIONS, *given, "--pick", "3"]) == 2
    assert "--pick is 3: the answer has 2 rows" in capsys.readouterr().err


def test_rails_that_were_picked_can_be_given(capsys):
    assert main(["cluster", *OPTIONS, "--pick", "1"]) == 0
    rails = capsys.readouterr().out.splitlines()
    assert len(rails) == 4
    given = [part for recipe in rails for part in ("--designs", recipe)]
    found = answer(capsys, *OPTIONS, *given, "--wiring", "each-rail")
    assert found["candidates"][0]["recipe_of_rail"] == rails
    assert found["dominated"] == []


def test_nothing_is_written_if_interrupted(capsys, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(scoring, "host_diameter", interrupted)
    files = ["--out", str(tmp_path / "n.json"), "--json", str(tmp_path / "a.json")]
    assert main(["cluster", *OPTIONS, *files]) == 130
    assert "Interrupted: nothing was written." in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_thousand_gpus(capsys):
    large = ["--servers", "128", "--gpus", "8", *OPTIONS[4:]]
    found = answer(capsys, *large)
    best = found["candidates"][found["best"]]
    assert (best["of_bound"], best["steps"]) == ("1", 7)


@pytest.mark.parametrize("hosts", ["servers", "nics"])
@pytest.mark.parametrize("as_json", [False, True])
def test_fabric_files_with_servers(hosts, as_json):
    text = FABRIC + SERVERS
    if hosts == "nics":
        text = FABRIC + "servers:\n  mesh: 50GB/s\n  gpus: 4\n  hosts: nics\n  relay: nic\n"
        text += "  wiring: across\n  nics:\n  - {count: 2, gpus: shared, host_bandwidth: 200GB/s}\n"
    fabric = parse_fabric(text.encode(), "f.yaml")
    again = parse_fabric(fabric_text(fabric, as_json=as_json).encode(), "g", is_json=as_json)
    assert again.servers == fabric.servers
    assert fabric_text(again) == fabric_text(fabric)
    found = cluster_of(again)
    assert [card.gpus for card in found.cards] == [(0, 1), (2, 3)]
    assert {card.port_Bps for card in found.cards} == {50 * GB}
    (question,) = found.questions()
    expected = (8, 2) if hosts == "servers" else (8, 4)
    assert (question.num_nodes, question.degree) == expected
    assert len(found.names) == (8 if hosts == "servers" else 4)
    assert parse_fabric(FABRIC.encode(), "f.yaml").servers is None


def test_a_fabric_with_servers_works_everywhere(capsys, tmp_path):
    file, bundle = tmp_path / "fabric.yaml", tmp_path / "bundle"
    file.write_text(FABRIC + SERVERS, encoding="utf-8")
    assert main(["fabric", "check", str(file)]) == 0
    told = capsys.readouterr().out
    assert "8 of 4 GPUs, 450 GB/s each to a switch" in told
    assert "2 of 2 ports of 50 GB/s, of 2 GPUs each" in told
    found = answer(capsys, str(file), "--message", "64MiB")
    assert found["alpha_s"] == 1e-5
    assert found["cluster"]["servers"][0] == "host00"
    best = found["candidates"][found["best"]]
    assert best["algbw_Bps"] == str(Fraction(32 * 4 * 50 * GB, 28))
    command = ["deploy", "one=GeneralizedKautz(4, 8)", "--fabric", str(file)]
    assert main([*command, "--out", str(bundle)]) == 0
    assert main(["verify-bundle", str(bundle)]) == 0
    assert load_fabric(bundle / "fabric.json").servers == load_fabric(file).servers


BAD_FILES = [
    (FILE.replace("gpus: 4,", "gpu: 4,"), "line 3: servers.gpu is no known key: did you mean gpus"),
    (FILE.replace("gpus: 4, ", ""), "line 3: servers must have gpus: how many has a server?"),
    (FILE.replace("switch", "mesh: 3GB/s, switch"), "switch and mesh are given"),
    (FILE.replace("450GB/s", "450"), "servers.switch is 450: write a bandwidth as text"),
    (FILE.replace("ports: 2", "ports: 0"), "line 5: nics[0].ports is 0: it must be at least 1"),
    (FILE.replace("ports: 2", "ports: 2, gpus: [4]"), "NIC 0 hangs on GPUs (4,)"),
    (FILE.replace("ports: 2", "ports: 2, gpus: both"), "nics[0].gpus is 'both': write gpu, shared"),
    (FILE.replace("count: 4, ports", "count: 3, gpus: shared, ports"), "cannot share 3 NICs"),
    (FILE.replace("count: 8, ", ""), "servers must have either count or names"),
    (FILE.replace("count: 8", "count: 1"), "a cluster has at least 2"),
    (FILE.replace("count: 8", "names: [a, a]"), "two servers have the same name"),
    (FILE.replace("count: 8, gpus: 4, switch: 450GB/s", "count: 8, network: mi250(1), gpus: 4"),
     "servers must not have gpus 4: the network has 16"),
    (FILE.replace("gpus: 4, switch: 450GB/s", "network: Complete(4)"), "Complete(4) has no unit"),
    (FILE.replace("gpus: 4, switch: 450GB/s", "network: mi250(1"), "servers: cannot read"),
    (FILE + "wiring: rail\n", "line 6: wiring is 'rail': it must be 'rails' or 'across'"),
    (FILE + "lost: [server9]\n", "server9 is no server and no NIC"),
    (FILE + "- {ports: 1, port_bandwidth: 1GB/s}\nwiring: across\n", "NICs have 1 and 2 ports"),
    (FILE.replace("450GB/s", "1e-99GB/s"), "bandwidths from 1e-90 to"),
    ("[]", "a cluster file holds a map of keys to values"),
    (FABRIC, "nothing is said of servers: describe what the hosts"),
    (FABRIC + SERVERS.replace("[2, 3], gpus", "[1, 2], gpus"), "planes 0 to 3 are each of one NIC"),
    (FABRIC + SERVERS.replace("servers:\n", "servers:\n  wiring: across\n"), "no recipe goes"),
    (FABRIC + SERVERS.replace("servers:\n", "servers:\n  hosts: nics\n"), "list no planes"),
    (FABRIC + SERVERS.replace("planes: [0, 1]", "plan: [0, 1]"), "nics[0].plan is no known"),
    (FABRIC + SERVERS.replace("[0, 1], gpus", "[0, 1], count: 2, gpus"), "a plane is of one NIC"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "rule"), BAD_FILES)
def test_bad_files(capsys, tmp_path, text, rule):
    path = tmp_path / "c.yaml"
    path.write_text(text, encoding="utf-8")
    assert main(["cluster", str(path), "--out", str(tmp_path / "out.json")]) == 2
    told = capsys.readouterr().err
    assert rule in told
    assert (told.count("\n"), [file.name for file in tmp_path.iterdir()]) == (1, ["c.yaml"])


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ([], "give a FILE, or --servers"),
        (["--servers", "4"], "give a FILE, or --ports"),
        (OPTIONS[4:] + OPTIONS[:2], "servers must have gpus"),
        ([*OPTIONS, "--message", "1MiB"], "--alpha and --message are only given together"),
        ([*OPTIONS, "--alpha", "1us"], "--alpha and --message are only given together"),
        ([*OPTIONS, "--designs", "BiRing(2, 9)"], "BiRing(2, 9) has 9 nodes: 8 are wanted"),
        ([*OPTIONS, "--designs", "BiRing(4, 8)"], "the 2 ports of a NIC are no multiple of it"),
        ([*OPTIONS, "--bidirectional", "--designs", "GeneralizedKautz(2, 8)"], "has links one way"),
        ([*OPTIONS, "--lost", "server1.gpu0"], "is no server and no NIC"),
        ([*OPTIONS, "--inner", "mi250(1)"], "--inner is given 2 times"),
        (["pod.yaml", *OPTIONS], "give either a FILE or --servers"),
        (["none.yaml", "--relay", "nic"], "none.yaml: no such file or directory"),
    ],
)
def test_bad_options(capsys, arguments, rule):
    assert main(["cluster", *arguments]) == 2
    told = capsys.readouterr().err
    assert rule in told
    assert told.count("\n") == 1


def test_units_are_found_in_which_all_is_whole():
    def unit(*rates):
        cards = tuple(Card(1, Fraction(rate), (0,)) for rate in rates)
        return Cluster("c", ("a", "b"), Inner("switch", 1, Fraction(GB)), cards).unit()

    assert unit(25 * GB)[0] == "GB/s"
    assert unit(Fraction(25 * GB, 2)) == ("Gbps", Fraction(GB, 8))
    assert unit(Fraction(GB, 3))[0] == "1/3 bps"
    assert parse_cluster(FILE.encode(), "c").unit()[0] == "GB/s"
