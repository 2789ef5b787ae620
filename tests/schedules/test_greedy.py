"""Greedy synthesis against known times, the independent replay, and what nobody should ask."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from folders import DATA
from hypothesis import given, settings
from hypothesis import strategies as st
from replay_oracle import is_valid, runs_correctly

from ocs_codesign.core.circuits import Timed
from ocs_codesign.core.collective import WITHOUT_PARAMETERS, Collective
from ocs_codesign.core.compute import kernels
from ocs_codesign.core.network import Network
from ocs_codesign.core.networks.builders import fat_tree, mesh, star, torus
from ocs_codesign.core.networks.servers import boxes
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.topology import Topology
from ocs_codesign.faces.cli import main
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.greedy.synthesis import synthesis
from ocs_codesign.schedules.registry import Task, made_by
from ocs_codesign.verification.circuits import check_timed
from ocs_codesign.verification.schedules import verify

KNOWN = json.loads((DATA / "matching.json").read_text(encoding="utf-8"))
GRAPHS = {row["name"]: row for row in KNOWN["graphs"]}
MIB = 2**20


def ticks_network(row):
    tail, head, busy, *latency = np.array(
        [link if len(link) > 2 else [*link, 1] for link in row["links"]]
    ).T
    whole = int(np.lcm.reduce(busy))
    return Network(
        *(row["nodes"], row["nodes"], tail, head, whole // busy, *latency), chunk_ticks=busy
    )


def synthesised(network, collective, chunks=1, seed=0, **options):
    """The answer, after everything in it was replayed."""
    made = synthesis(network.topology(), collective, chunks, seed, network=network, **options)
    checked(made)
    return made


def checked(made):
    timed, schedule = made.timed, made.schedule
    assert check_timed(timed, made.links.delay, chunk_ticks=made.links.busy) is None
    assert verify(timed.schedule).ok
    assert verify(schedule).ok
    assert made.ticks == int(timed.end.max())
    assert made.ticks >= made.bound


LONG = {"dgx1", "genkautz-2-9"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in sorted(GRAPHS)],
)
def test_known_graphs(name):
    row = GRAPHS[name]
    network = ticks_network(row)
    for half in ("allgather", "reduce_scatter"):
        made = synthesised(network, Collective.parse(half), row["chunks"])
        assert (made.ticks, made.bound) == (row[half]["T"], row[half]["T"])
        assert made.is_optimal
        assert made.bound >= Fraction(row[half]["fluid"])
    both = synthesised(network, Collective.ALLREDUCE, row["chunks"])
    assert both.ticks <= row["allreduce_T"]


def demanded(text):
    """The collective and the chunks that a row of small cases names."""
    name, *words = text.split()
    groups = None
    if "group" in words:
        groups = [tuple(map(int, words[words.index("group") + 1 :]))]
    root = 0 if name in ("broadcast", "scatter", "gather") else None
    return Collective(name, root=root, groups=groups), 4 if "4 chunks" in text else 1


@pytest.mark.parametrize(("graph", "text", "ticks"), KNOWN["small_cases"])
def test_small_cases_are_solved_and_proven(graph, text, ticks):
    made = synthesised(ticks_network(KNOWN["small_graphs"][graph]), *demanded(text))
    assert (made.ticks, made.bound) == (ticks, ticks)


@pytest.mark.parametrize("row", KNOWN["published"], ids=lambda row: f"{row[0]} c{row[1]}")
def test_published_times(row):
    graph, chunks, chunk_bytes, bandwidths, alpha_us, best_us = row
    kind, sizes = graph.split()
    sides = tuple(map(int, sizes.split("x")))
    latency = int(1000 * alpha_us)
    network = {"mesh": mesh, "torus": torus}[kind](sides, bandwidths, latency, "GiB/s")
    message = Fraction(chunk_bytes * chunks * network.num_hosts)
    options = {"message_bytes": message, "model": "blocking"}
    made = synthesised(network, Collective.ALLGATHER, chunks, **options)
    assert float(made.timed.total_s) * 1e6 == pytest.approx(best_us, rel=1e-6)
    assert made.is_optimal


def table_network(text):
    """The network of a row of the table: 50 GiB/s and 0.5 us, or twice that in one dimension."""
    words = text.split()
    sides = tuple(map(int, words[2 if words[0] == "hetero" else 1].split("x")))
    if words[0] == "hetero":
        return mesh(sides, (50, 100), (1000, 500), "GiB/s")
    return {"mesh": mesh, "torus": torus}[words[0]](sides, 50, 500, "GiB/s")


@pytest.mark.slow
@pytest.mark.parametrize("row", KNOWN["table"], ids=lambda row: row["graph"])
def test_the_published_table(row):
    network = table_network(row["graph"])
    message = Fraction(MIB * network.num_hosts)
    options = {"message_bytes": message, "model": "blocking"}
    for collective in (Collective.ALLGATHER, Collective.ALLREDUCE):
        made = synthesised(network, collective, **options)
        halves = len(collective.halves())
        assert float(made.timed.total_s) * 1e6 <= halves * (row["best_us"] + 0.01)
        assert made.is_optimal or halves == 2


@st.composite
def networks(draw):
    """Strongly connected networks of a few hosts with links of any times."""
    hosts = draw(st.integers(2, 6))
    more = draw(st.lists(st.tuples(*[st.integers(0, hosts - 1)] * 2), max_size=8))
    order = draw(st.permutations(range(hosts)))
    ends = [(order[i - 1], order[i]) for i in range(hosts)] + more
    links = len(ends)
    busy = draw(st.lists(st.sampled_from([1, 2, 3]), min_size=links, max_size=links))
    latency = draw(st.lists(st.integers(0, 2), min_size=links, max_size=links))
    tail, head = np.array(ends).T
    return Network(*(hosts, hosts, tail, head, 6 // np.array(busy), latency), chunk_ticks=busy)


@st.composite
def collectives(draw, hosts):
    name = draw(st.sampled_from(["allgather", "reduce-scatter", "allreduce", "alltoall"]))
    if draw(st.booleans()):
        name = draw(st.sampled_from(["broadcast", "reduce", "scatter", "gather"]))
        return Collective(name, root=draw(st.integers(0, hosts - 1)))
    if name == "alltoall" and draw(st.booleans()):
        row = st.lists(st.integers(0, 3), min_size=hosts, max_size=hosts)
        sizes = draw(st.lists(row, min_size=hosts, max_size=hosts))
        sizes[0][1] = 1
        return Collective(name, sizes=sizes)
    if draw(st.booleans()):
        size = draw(st.integers(2, hosts))
        return Collective(name, groups=[tuple(draw(st.permutations(range(hosts)))[:size])])
    return Collective(name)


@settings(max_examples=15)
@given(st.data())
def test_any_network_and_collective(data):
    network = data.draw(networks())
    collective = data.draw(collectives(network.num_hosts))
    chunks, seed = data.draw(st.integers(1, 2)), data.draw(st.integers(0, 9))
    options = {"model": data.draw(st.sampled_from(["pipelined", "blocking"]))}
    made = synthesised(network, collective, chunks, seed, **options)
    if collective in WITHOUT_PARAMETERS:
        assert is_valid(made.timed.schedule)
        assert runs_correctly(made.timed.schedule)
    again = synthesis(network.topology(), collective, chunks, seed, network=network, **options)
    assert again.schedule == made.schedule
    assert np.array_equal(again.timed.start, made.timed.start)


def mutants(made):
    """Timed schedules that are wrong: too early, a send short, one twice, two swapped."""
    timed = made.timed
    s, start, end = timed.schedule, timed.start, timed.end
    late = int(np.flatnonzero(start)[0])
    earlier = np.arange(len(start)) == late
    if s.collective == Collective.ALLGATHER:  # of sums some may wait for no reason
        yield "early", Timed(s, start - earlier, end - earlier, timed.tick_s)
    yield "hasty", Timed(s, start, end - earlier, timed.tick_s)
    columns = [s.item, s.lo, s.hi, s.link, s.step]
    for name, rows in (
        ("dropped", np.delete(np.arange(len(start)), late)),
        ("doubled", np.append(np.arange(len(start)), late)),
    ):
        other = Schedule(s.topology, s.collective, s.num_chunks, *(c[rows] for c in columns))
        order = rows[np.lexsort((s.link[rows], s.step[rows]))]
        yield name, Timed(other, start[order], end[order], timed.tick_s)
    item = s.item.copy()
    tail = s.topology.tail[s.link]
    two = np.flatnonzero((s.item != s.item[late]) & (tail != tail[late]))[0]
    item[[late, two]] = item[[two, late]]
    swapped = Schedule(s.topology, s.collective, s.num_chunks, item, *columns[1:])
    yield "swapped", Timed(swapped, start, end, timed.tick_s)


@pytest.mark.parametrize("name", ["heteromesh-4x4", "digraph-9-s41", "mesh-4x4-pipelined"])
@pytest.mark.parametrize("half", ["allgather", "reduce_scatter"])
def test_mutants_are_rejected(name, half):
    made = synthesised(ticks_network(GRAPHS[name]), Collective.parse(half))
    for kind, timed in mutants(made):
        witness = check_timed(timed, made.links.delay, chunk_ticks=made.links.busy)
        assert witness is not None, kind
        if kind in ("early", "hasty"):
            assert witness.row is not None


SWITCHED = {
    "star": star(8, 1),
    "unequal star": star(4, (10, 10, 10, 5), 3),
    "boxes": boxes(2, 4, 300, 25),
    "fat tree": fat_tree((4, 4), (1, 2), (4, 4)),
}


@pytest.mark.parametrize("name", sorted(SWITCHED))
@pytest.mark.parametrize("collective", ["allgather", "reduce-scatter", "allreduce", "alltoall"])
def test_switches_are_unrolled(name, collective):
    network = SWITCHED[name]
    made = synthesised(network, Collective.parse(collective))
    assert made.schedule.num_hosts == network.num_hosts
    assert made.schedule.topology.num_nodes == network.num_nodes
    if name == "star" and collective != "allreduce":
        assert (made.ticks, made.bound) == (7, 7)


@pytest.mark.parametrize("lost", ["both ways", "one way", "node"])
def test_failures(lost):
    grid = torus((4, 4), 1)
    pair = np.flatnonzero(np.isin(grid.tail, (0, 1)) & np.isin(grid.head, (0, 1))).tolist()
    damaged = grid.without(nodes=[0]) if lost == "node" else grid.without(links=pair)
    if lost == "one way":
        damaged = grid.without(links=pair[:1])
    assert synthesised(damaged, Collective.ALLGATHER).ticks == 5


@pytest.mark.parametrize(
    ("recipe", "chunks", "gather", "exchange"),
    [
        ("Torus((4, 4))", 1, 4, 8),
        ("Torus((4, 4))", 3, 12, 24),
        ("Torus((3, 3))", 1, 2, 3),
        ("Torus((5, 3, 2))", 1, 6, None),
        ("Circulant(12, (2, 3))", 1, 3, 5),
        ("Transpose(DirectedCirculant(13, (1, 5)))", 1, 6, None),
        ("Cayley(Dihedral(8), ((0, 1), (1, 1)))", 1, 8, None),
    ],
)
def test_one_orbit_reaches_the_bound(recipe, chunks, gather, exchange):
    topology = parse(recipe).topology()
    for collective, ticks in ((Collective.ALLGATHER, gather), (Collective.ALLTOALL, exchange)):
        if ticks is None:
            continue
        made = synthesis(topology, collective, chunks)
        checked(made)
        assert (made.ticks, made.bound, made.how) == (ticks, ticks, "one orbit")
        # Every link carries as much as any other of its type.
        loads = np.bincount(made.schedule.link, minlength=topology.num_links)
        orbit = topology.symmetry.link_orbit
        assert len(np.unique(np.stack([orbit, loads]), axis=1).T) == len(np.unique(orbit))


def test_losing_a_link_never_lowers_the_bound():
    grid = ticks_network(GRAPHS["heteromesh-4x4"])
    whole = synthesis(grid.topology(), Collective.ALLGATHER, network=grid).bound
    for link in (0, 7, 20):
        less = grid.without(links=[link])
        assert synthesis(less.topology(), Collective.ALLGATHER, network=less).bound >= whole


def test_a_pipeline_is_never_slower_than_links_that_are_held():
    grid = mesh((4, 4), (50, 100), (1000, 500), "GiB/s")
    options = {"message_bytes": Fraction(16 * MIB)}
    times = [
        synthesised(grid, Collective.ALLGATHER, model=model, **options).timed.total_s
        for model in ("pipelined", "blocking")
    ]
    assert times[0] <= times[1] == Fraction(10265625, 10**11)


def test_loops_make_the_same_as_written_and_compiled(monkeypatch):
    network, made = ticks_network(KNOWN["small_graphs"]["biring-6"]), []
    for little in (10**9, 0):
        monkeypatch.setattr(kernels, "LITTLE_WORK", little)
        both = (Collective.ALLGATHER, Collective.ALLTOALL)
        made.append([synthesised(network, one, seed=5) for one in both])
    for written, compiled in zip(*made, strict=True):
        assert written.schedule == compiled.schedule


def write(path, links, nodes=3, **others):
    record = {"num_hosts": nodes, "num_nodes": nodes, "links": links, "unit": "ticks", **others}
    path.write_text(json.dumps(record))
    return str(path)


def test_the_command_line(tmp_path, capsys):
    ring = write(tmp_path / "ring.json", [[0, 1, 2], [1, 2, 2, 3], [2, 0, 2]])
    command = ["build", "--network", ring, "--scheduler", "greedy", "--chunks", "2", "--seed", "7"]
    assert main([*command, "--collective", "allgather", "--json", "-"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["ticks"] == answer["bound_ticks"] == 11
    assert (answer["optimal"], answer["seed"]) == (True, 7)
    assert answer["latency_model"] == "pipelined"
    assert answer["seconds"] >= 0
    assert main([*command, "--collective", "allgather", "--latency-model", "blocking"]) == 0
    assert "20" in capsys.readouterr().out
    saved = ["--out", str(tmp_path / "design")]
    for collective in ("alltoall", "broadcast", "gather"):
        assert main([*command, "--collective", collective, *saved]) == 0
        assert main(["verify", str(tmp_path / "design")]) == 0
    first = (tmp_path / "design/schedule.npz").read_bytes()
    assert main([*command, "--collective", "gather", *saved]) == 0
    assert (tmp_path / "design/schedule.npz").read_bytes() == first


@pytest.mark.parametrize(
    ("links", "words", "message"),
    [
        ([[0, 1, 1], [1, 0, 1], [1, 2, 1]], [], "node 0 is out of node 2's reach"),
        ([[0, 1, 0], [1, 0, 1]], [], "links[0] is occupied for 0 ticks"),
        ([[0, 1, -3], [1, 0, 1]], [], "links[0] is occupied for -3 ticks"),
        ([[0, 1, 1], [1, 2, 1], [2, 0, 1]], ["--chunks", "0"], "--chunks"),
        ([[0, 1, 1], [1, 2, 1], [2, 0, 1]], ["--message", "1MiB"], "how many ticks a chunk takes"),
        ([[0, 1, 1], [1, 2, 1], [2, 0, 1]], ["--root", "1"], "allgather has none"),
        ([[0, 1, 1], [1, 2, 1], [2, 0, 1]], ["--chunks", "9000000"], "chunks in all"),
        ([[0, 1, 999983], [1, 2, 9999991], [2, 0, 1]], [], "no common multiple"),
    ],
)
def test_bad_input(links, words, message, tmp_path, capsys):
    path = write(tmp_path / "bad.json", links)
    assert main(["build", "--network", path, "--scheduler", "greedy", *words]) == 2
    assert message in capsys.readouterr().err


def test_bad_units_and_single_hosts(tmp_path, capsys):
    bare = ["build", "--network", "mesh((2, 2), 1)", "--scheduler", "greedy", "--message", "1MiB"]
    assert main(bare) == 2
    assert "without a unit" in capsys.readouterr().err
    on_a_recipe = ["build", "Complete(3)", "--scheduler", "greedy", "--message", "1MiB"]
    assert main(on_a_recipe) == 2
    assert "on a network with bandwidths" in capsys.readouterr().err
    alone = write(tmp_path / "one.json", [], nodes=1)
    assert main(["build", "--network", alone, "--scheduler", "greedy"]) == 2
    assert "nothing is to be sent" in capsys.readouterr().err
    assert main(["build", "Complete(3)", "--seed", "1", "--out", str(tmp_path / "d")]) == 2
    assert "--seed is for --scheduler greedy" in capsys.readouterr().err
    with pytest.raises(ValueError, match="model is 'eager'"):
        synthesis(Topology(2, [0, 1], [1, 0]), Collective.ALLGATHER, model="eager")
    with pytest.raises(ValueError, match="0 chunks"):
        made_by("greedy", Task(Topology(2, [0, 1], [1, 0]), Collective.ALLGATHER, chunks=0))


def test_networks_of_ticks_keep_them_in_every_format():
    from ocs_codesign.core.networks.formats import FORMATS

    network = ticks_network(GRAPHS["dgx1"])
    for form in FORMATS.values():
        again = form.read(form.write(network, "dgx1").encode(), "dgx1")
        assert np.array_equal(again.chunk_ticks, network.chunk_ticks)
        assert np.array_equal(again.bandwidth, network.bandwidth)
    with pytest.raises(ValueError, match="inverse proportion"):
        Network(2, 2, [0, 1], [1, 0], [1, 2], chunk_ticks=[1, 2])
