"""Going on without hosts on a fabric: what switches let be joined, and bundles that stay valid."""

from __future__ import annotations

import json
from functools import cache
from itertools import product

import pytest
from bundle_samples import (
    carried,
    files_of,
    links_by_light,
    named,
    rotor_fabric,
    small_deployment,
    small_fabric,
    stages_fabric,
    written,
)
from embed_samples import fabric
from test_day_two import carried_out

from ocs_codesign.fabric.bundle.read import read_bundle
from ocs_codesign.fabric.bundle.verify import check_bundle
from ocs_codesign.fabric.deployments.day_two import repaired, restored
from ocs_codesign.fabric.deployments.deploy import Failures, deploy
from ocs_codesign.fabric.deployments.held import spliced, spliced_up
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.embedding.embed import embed
from ocs_codesign.fabric.files.fabric_files import save_fabric
from ocs_codesign.fabric.infeasible import InfeasibleError
from ocs_codesign.fabric.light import topology_of
from ocs_codesign.fabric.repairs.splicing import Where, ends_in_place, spliced_configuration
from ocs_codesign.fabric.wiring import Port
from ocs_codesign.faces.cli import main
from ocs_codesign.graphs.expansions.edits import spliced_topology
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.breadth_first.loads import bfb_loads
from ocs_codesign.search.splices import best_splices

ONE_WAY = (("one", "DirectedCirculant(8, (1, 3))"), ("two", "DirectedCirculant(8, (1, 2))"))
MODELS = (PortModel.SIMPLEX, PortModel.TWO_SIDED, PortModel.MATCHING)


@cache
def configuration(text, model=PortModel.SIMPLEX, planes=4):
    return embed(small_fabric(model, planes), parse(text).topology()).configuration


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("hosts", [("h3", "h5"), ("h3", "h4"), ("h0", "h2", "h5", "h6")])
def test_in_place_every_circuit_stays_in_its_switch(model, hosts):
    """Whatever is possible with the cross-connects, found by trying all links between ends."""
    before = configuration("Circulant(8, (1, 3))", model)
    try:
        made = spliced_configuration(before, hosts, "allgather")
    except InfeasibleError:
        assert feasible_costs(before, hosts) == set()
        return
    after = made.configuration
    held, now = cross_connects(before), cross_connects(after)
    # Nothing but the ports of circuits of lost hosts changes.
    lost = ports_of_hosts(before, hosts)
    changed = {port for row in held - now for port in ends(row, model)}
    assert {port for row in now - held for port in ends(row, model)} == changed - lost
    assert (len(held - now), len(now - held)) == (made.num_removed, made.num_made)
    cost = made.choice.cost
    assert (cost.t_b, cost.steps) == min(feasible_costs(before, hosts))
    light = topology_of(after)
    assert (light.t_b(sum(bfb_loads(light))), light.diameter()) == (cost.t_b, cost.steps)


def cross_connects(made):
    columns = (made.switch, made.a_port, made.b_port)
    return set(zip(*(column.tolist() for column in columns), strict=True))


def ends(row, model=PortModel.SIMPLEX):
    switch, a_port, b_port = row
    return (switch, "A", a_port), (switch, "B" if model.has_b_side else "A", b_port)


def ports_of_hosts(made, hosts):
    cabling, model = made.cabling, made.cabling.fabric.port_model
    sides = [("A", cabling.a_switch, cabling.a_port), ("B", cabling.b_switch, cabling.b_port)]
    numbers = [cabling.fabric.hosts.index(name) for name in hosts]
    return {
        (int(switch[host, plane]), side, int(port[host, plane]))
        for side, switch, port in sides[: 1 + model.has_b_side]
        for host in numbers
        for plane in range(cabling.fabric.num_planes)
    }


def feasible_costs(made, hosts):
    """By pairing loose ports plane by plane, each plane being one switch, and a slow product."""
    gone = [int((made.host == made.cabling.fabric.hosts.index(name)).argmax()) for name in hosts]
    try:
        loose = ends_in_place(made, gone)
    except InfeasibleError:
        return set()
    costs = set()
    for joining in product(*(list(block.joinings()) for block in loose.blocks)):
        topology = spliced_topology(made.topology, gone, loose.joined(list(joining)))
        if (topology.distances() >= 0).all():
            loads = bfb_loads(topology)
            costs.add((topology.t_b(sum(loads)), len(loads)))
    return costs


def test_one_host_has_one_way_in_place_and_all_ways_anywhere():
    before = configuration("Circulant(8, (1, 3))")
    there = spliced_configuration(before, ["h3"], "allgather")
    anywhere = spliced_configuration(before, ["h3"], "allgather", Where.ANYWHERE)
    assert (there.choice.splices.num_possible, there.num_ports) == (1, 8)
    assert (anywhere.choice.splices.num_possible, anywhere.num_ports) == (24, 18)
    assert str(there.choice.cost.t_b) == "20/21"
    assert str(anywhere.choice.cost.t_b) == "6/7"
    assert str(there.choice.holes.t_b) == "8/7"
    # Of a ring in place is as good as it gets, and needs the fewest ports.
    ring = configuration("UniRing(2, 8)")
    assert spliced_configuration(ring, ["h3"], "allgather", "anywhere").where is Where.IN_PLACE


def test_what_cannot_be_joined_says_why():
    matching = configuration("Circulant(8, (1, 3))", PortModel.MATCHING)
    with pytest.raises(InfeasibleError, match="1 ends are loose in switch p0s0, and it joins"):
        spliced_configuration(matching, ["h3"], "allgather")
    with pytest.raises(InfeasibleError, match="14 links join 7 nodes, and a matching has at most"):
        spliced_configuration(matching, ["h3"], "allgather", "anywhere")
    odd = configuration("Hypercube(3)", PortModel.TWO_SIDED)
    for where in Where:
        with pytest.raises(InfeasibleError, match=r"(ends are loose|odd number)"):
            spliced_configuration(odd, ["h3"], "allgather", where)
    with pytest.raises(ValueError, match="'x' is no host of the fabric"):
        spliced_configuration(odd, ["x"], "allgather")
    with pytest.raises(ValueError, match="host h9 is no node"):
        spliced_configuration(odd, ["h9"], "allgather")


def test_small_switches_join_only_what_meets_in_them():
    """Planes of two switches of eight ports: in each, ends are joined with those of the same."""
    there = fabric(8, [[4, 4]] * 2)
    made = embed(there, parse("DirectedCirculant(8, (1, 3))").topology()).configuration
    loose = ends_in_place(made, [0, 1])
    assert len(loose.blocks) >= 2
    free = spliced_configuration(made, ["h0", "h1"], "allgather")
    switches = {port[0] for row in cross_connects(free.configuration) for port in ends(row)}
    assert switches <= {0, 1, 2, 3}
    assert topology_of(free.configuration).is_regular


@pytest.mark.parametrize("where", list(Where))
@pytest.mark.parametrize(
    ("make", "hosts"),
    [
        (small_deployment, ("h3",)),
        (lambda: small_deployment(PortModel.TWO_SIDED), ("h3", "h5")),
        (lambda: small_deployment(PortModel.MATCHING), ("h3", "h4")),
        (lambda: deploy(stages_fabric(), named(*ONE_WAY)), ("h6",)),
    ],
)
def test_a_bundle_goes_on_without_hosts(make, hosts, where, tmp_path):
    first = written(make(), tmp_path / "first")
    deployment = read_bundle(first)
    done = spliced(deployment, Failures(hosts), where)
    second = written(done.deployment, tmp_path / "second")
    verdict = check_bundle(second)
    assert (verdict.ok, verdict.findings) == (True, ())
    assert written_again(second, tmp_path / "third") == files_of(second)
    carried_out(files_of(first), files_of(second))
    left = deployment.num_nodes - len(hosts)
    assert done.deployment.num_nodes == left
    up = done.deployment.configuration(deployment.up)
    light = links_by_light(second, deployment.up)
    assert sum(light.values()) == up.topology.num_links
    assert not any(set(pair) & set(hosts) for pair in light)
    assert {one.name for one in done.deployment.configurations} | {
        name for name, _ in done.torn_down
    } == set(deployment.names)


def written_again(bundle, place):
    return files_of(written(read_bundle(bundle), place))


def test_listed_states_are_not_joined_in_place(tmp_path):
    deployment = deploy(rotor_fabric(), named(*ONE_WAY))
    with pytest.raises(InfeasibleError, match="listed states"):
        spliced(deployment, Failures(("h3",)))
    done = spliced(deployment, Failures(("h3",)), "anywhere")
    assert check_bundle(written(done.deployment, tmp_path / "bundle")).ok


def test_losses_one_after_the_other_and_what_works_again_is_a_spare(tmp_path):
    done = carried(spliced(small_deployment(), Failures(("h3",))).deployment)
    again = carried(spliced(done, Failures(("h0",)), "anywhere").deployment)
    assert again.num_nodes == 6
    assert again.failures.hosts == ("h3", "h0")
    mended = restored(again, Failures(("h3",)))
    last, repair = repaired(carried(mended), Failures(("h1",)))
    assert repair.hosts[0].after in ("h3", "h8", "h9")
    assert check_bundle(written(last, tmp_path / "last")).ok
    with pytest.raises(ValueError, match="host:h0 has failed already"):
        spliced(again, Failures(("h0",)))
    for lost in (Failures((), (Port("p0s0", "A", 1),)), Failures(switches=("p0s0",)), Failures()):
        with pytest.raises(ValueError, match="joined in place of lost hosts"):
            spliced_up(again, lost)


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    return code, *capsys.readouterr()


def test_commands_on_a_bundle(tmp_path, capsys):
    bundle, out, other = (tmp_path / name for name in ("bundle", "out", "other"))
    written(small_deployment(), bundle)
    arguments = ("survive", "--bundle", bundle, "--repair", "host:h3")
    code, text, errors = run(capsys, *arguments, "--what-if", "--json", "-")
    offer = json.loads(text)["splice"]
    assert (code, errors) == (0, "")
    code, text, errors = run(
        capsys, *arguments, "--splice", "in-place", "--out", out, "--json", "-"
    )
    answer = json.loads(text)
    assert (code, errors) == (0, "")
    assert (answer["splice"]["after"], answer["splice"]["nodes"]) == (offer["after"], 7)
    assert answer["failed"] == ["host:h3"]
    creates = [row for stage in answer["stages"] for row in stage["creates"]]
    assert len(creates) == answer["created"] == answer["splice"]["cross_connects_made"] == 2
    assert answer["splice"]["ports_changed"] == 4
    assert run(capsys, "verify-bundle", out)[0] == 0
    code, text, _ = run(capsys, "rewire", "--bundle", bundle, "--without", "h3", "--out", other)
    assert (code, files_of(other)) == (0, files_of(out))
    assert "the only way to join the ends" in text
    code, text, _ = run(capsys, *arguments, "--what-if")
    assert "Without spares: --splice in-place goes on without h3 on 7 hosts" in text


def test_commands_on_what_is_invented(tmp_path, capsys):
    path = tmp_path / "lab.yaml"
    save_fabric(small_fabric(), path)
    recipe = "Circulant(8, (1, 3))"
    arguments = ("survive", recipe, "--fabric", path, "--what-if", "--repair", "host:h3")
    code, text, _ = run(capsys, *arguments, "--splice", "anywhere", "--json", "-")
    answer = json.loads(text)["splice"]
    assert (code, answer["after"], answer["optimal"]) == (0, {"steps": 2, "t_b": "6/7"}, True)
    lost = [part for host in ("h0", "h1", "h2") for part in ("--repair", f"host:{host}")]
    code, text, _ = run(capsys, *arguments[:5], *lost, "--json", "-")
    assert (code, json.loads(text)["splice"]["nodes"]) == (1, 5)
    given = ("rewire", recipe, "--without", "3", "--what-if")
    code, text, _ = run(capsys, *given, "--json", "-")
    answer = json.loads(text)
    assert (code, answer["splice"]["after"]) == (0, {"steps": 2, "t_b": "6/7"})
    assert answer["nodes"] == 7
    assert parse(answer["to"]).predict().t_b == parse("Complete(7)").predict().t_b
    assert answer["hitless"]
    code, text, _ = run(capsys, *given, "--port-model", "two-sided")
    assert (code, "the best of all 3 ways" in text) == (0, True)


def test_the_seed_draws_what_is_scored_and_is_told(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("ocs_codesign.search.splices._budget", lambda _: 40)
    path = tmp_path / "lab.yaml"
    save_fabric(small_fabric(), path)
    lost = [part for host in ("h0", "h1", "h2") for part in ("--repair", f"host:{host}")]
    ask = ("survive", "Circulant(8, (1, 3))", "--fabric", path, "--what-if", *lost)
    drawn = []

    def noted(*given, seed, **more):
        drawn.append(seed)
        return best_splices(*given, seed=seed, **more)

    monkeypatch.setattr("ocs_codesign.fabric.repairs.splicing.best_splices", noted)
    code, text, _ = run(capsys, *ask, "--splice", "anywhere", "--seed", 3, "--json", "-")
    answer = json.loads(text)["splice"]
    assert (code, answer["seed"], set(drawn)) == (0, 3, {3})
    assert answer["ways_scored"] < answer["ways"]
    drawn.clear()
    code, _, _ = run(capsys, *ask, "--splice", "anywhere")
    assert (code, set(drawn)) == (0, {0})
    code, text, errors = run(capsys, *ask, "--seed", 3)
    assert (code, text) == (2, "")
    assert "--seed is for the search of --splice" in errors


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("survive", "UniRing(1, 8)", "--splice", "anywhere"), "--fabric FILE is for"),
        (("survive", "--bundle", "x", "--splice", "anywhere"), "--splice is for hosts that"),
        (("rewire", "UniRing(1, 8)", "--splice", "anywhere", "--what-if"), "--splice is how"),
        (("rewire", "--without", "3", "--what-if"), "give FROM, of which nodes are lost"),
        (("rewire", "a", "b", "--without", "3", "--what-if"), "there is FROM, and TO is"),
        (("rewire", "--bundle", "x"), "give TO, a configuration of the bundle"),
        (("rewire", "UniRing(1, 8)", "--without", "h3", "--what-if"), "--without 'h3'"),
        (("rewire", "UniRing(1, 8)", "--without", "8", "--what-if"), "nodes are 0 to 7"),
        (
            ("rewire", "UniRing(1, 8)", "--without", "3", "--what-if", "--splice", "in-place"),
            "depends on cables",
        ),
        (
            ("rewire", "UniRing(1, 8)", "--without", "3", "--what-if", "--port-model", "matching"),
            "links without a reverse",
        ),
    ],
)
def test_bad_input(arguments, sentence, capsys):
    code, text, errors = run(capsys, *arguments)
    assert (code, text) == (2, "")
    assert sentence in errors
