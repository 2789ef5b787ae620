"""Chakra: graphs of programs, their bytes, what a check of them sees, and their time."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from folders import DATA
from program_by_hand import gathering_program, ring_schedule
from simulate_samples import ASTRA

import ocs_codesign as oc
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.network import Network, direct_routes
from ocs_codesign.core.networks.builders import star
from ocs_codesign.core.plans import (
    ADD,
    COPY,
    NOP,
    PUT,
    RECEIVE,
    RECEIVE_ADD,
    SCRATCH,
    SEND,
    RankProgram,
)
from ocs_codesign.interop.chakra import schema
from ocs_codesign.interop.chakra.check import (
    check_bytes,
    check_graph,
    checked_graph,
    checked_traces,
    clocked,
)
from ocs_codesign.interop.chakra.graph import MAX_TAG
from ocs_codesign.interop.chakra.making import IDLE, graph_of_program
from ocs_codesign.interop.chakra.reading import (
    delimited,
    frames,
    parse_graph,
    read_graph,
    write_graph,
)
from ocs_codesign.interop.chakra.workload import CollectiveNode, ComputationNode, workload_graph
from ocs_codesign.interop.exports import exported
from ocs_codesign.schedules.classic.registry import CLASSIC
from ocs_codesign.schedules.design import build
from ocs_codesign.schedules.simulate.engine import simulate_transfers
from ocs_codesign.schedules.simulate.making import transfers_of_schedule

GOLDEN = DATA / "golden"
MIB = 2**20


def golden(prefix: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(GOLDEN.glob(f"{prefix}.*.et"))}


def named(files):
    return {rank: (name, data) for rank, (name, data) in enumerate(files.items())}


def test_the_ring_of_four_is_the_golden_one():
    graph = graph_of_program(gathering_program(ring_schedule(4)), 4 * MIB)
    assert write_graph(graph, "ring4") == golden("ring4")
    assert {len(data) for data in golden("ring4").values()} == {524}


def test_the_golden_ring_is_read():
    graph = read_graph(GOLDEN / "ring4.2.et")
    assert graph == graph_of_program(gathering_program(ring_schedule(4)), 4 * MIB)
    verdict = check_graph(graph)
    assert (verdict.ok, verdict.num_messages, verdict.num_bytes) == (True, 12, 12 * MIB)
    assert check_bytes(graph, ring_schedule(4), 4 * MIB) is None
    # 3 (500 + 19,531): what unmodified ASTRA-sim says of these files.
    assert clocked(graph, 50.0, 500).total_ticks == 60_093


def test_workloads_are_the_golden_ones():
    graph = workload_graph([CollectiveNode(Collective.ALLGATHER, 4 * MIB)], 4)
    assert write_graph(graph, "workload") == golden("workload")
    assert parse_graph(named(golden("workload"))) == graph


def test_chains_of_workloads():
    nodes = [ComputationNode(7), CollectiveNode(Collective.ALLTOALL, 10), ComputationNode(0)]
    graph = workload_graph(nodes, 3)
    assert parse_graph(named(write_graph(graph, "w"))) == graph
    assert graph.comm_type.tolist() == [-1, 6, -1] * 3
    assert graph.size.tolist() == [-1, 10, -1] * 3
    assert workload_graph([CollectiveNode(Collective.ALLGATHER, 10)], 3).size.tolist() == [4] * 3
    with pytest.raises(ValueError, match="broadcast, root 0 is no node of ASTRA-sim"):
        workload_graph([CollectiveNode(Collective("broadcast", 0), 8)], 2)
    with pytest.raises(ValueError, match="a workload has a node"):
        workload_graph([], 2)
    with pytest.raises(ValueError, match="message_bytes is 0"):
        workload_graph([CollectiveNode(Collective.ALLREDUCE, 0)], 2)


RECIPES = ("Torus((3,4))", "Line(Complete(3))", "Complete(5)", "DirectedCirculant(7, (1, 2))")


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("message_bytes", [1, 12345, 7 * MIB + 1])
def test_graphs_of_designs(recipe, message_bytes):
    schedule = build(oc.parse(recipe), "allgather").schedule
    program = gathering_program(schedule)
    for joined in (True, False):
        graph = graph_of_program(program, message_bytes, joined=joined)
        verdict = check_graph(graph)
        assert verdict.witness is None
        assert parse_graph(named(write_graph(graph, "x"))) == graph
        assert check_bytes(graph, schedule, message_bytes) is None
        sends = graph.kind == schema.SEND
        assert sorted(graph.tag[sends].tolist()) == list(range(verdict.num_messages))
        crossings = len({*zip(schedule.step.tolist(), schedule.link.tolist(), strict=True)})
        assert verdict.num_messages == (crossings if joined else schedule.num_sends)


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_clock_of_a_graph_is_that_of_its_schedule(recipe):
    schedule = build(oc.parse(recipe), "allgather").schedule
    topology = schedule.topology
    # Chunks of whole bytes, so that nothing is rounded.
    message = 7919 * schedule.num_chunks * topology.num_nodes
    graph = graph_of_program(gathering_program(schedule), message)
    links = topology.num_links
    ends = topology.num_nodes, topology.num_nodes, topology.tail, topology.head
    network = Network(*ends, [50] * links, [500] * links)
    transfers = transfers_of_schedule(schedule, direct_routes(topology, network), message)
    expected = simulate_transfers(transfers, ASTRA).total_ticks
    assert clocked(graph, 50.0, 500).total_ticks == expected


def program(kinds, num_ranks=2, **columns):
    names = ("rank", "stream", "peer", "count", "step")
    given = {"kind": kinds, **{name: columns.pop(name) for name in names if name in columns}}
    given.setdefault("count", [1] * len(kinds))
    needs = columns.pop("needs", [[] for _ in kinds])
    return RankProgram(
        columns.pop("collective", Collective("reduce-scatter")),
        num_ranks,
        1,
        False,
        columns.pop("scratch", [8] * num_ranks),
        given | {"source_buffer": [SCRATCH] * len(kinds), "target_buffer": [SCRATCH] * len(kinds)},
        np.cumsum([0, *map(len, needs)]),
        np.array([need for each in needs for need in each], dtype=np.int64),
    )


def waits(graph, row):
    """Names of what a node waits for: for order, and for data."""
    entries = range(graph.wait_start[row], graph.wait_start[row + 1])
    told = [(bool(graph.is_data[at]), graph.name[graph.wait[at]]) for at in entries]
    return [name for data, name in told if not data], [name for data, name in told if data]


def test_what_is_added_takes_a_computation_that_others_wait_for():
    kinds = [SEND, RECEIVE, RECEIVE_ADD, NOP, SEND]
    one = program(
        kinds,
        rank=[0, 0, 1, 1, 1],
        stream=[0, 1, 0, 1, 1],
        peer=[1, 1, 0, -1, 0],
        needs=[[], [], [], [2], []],
    )
    graph = graph_of_program(one, 100)
    assert graph.name == ("s1", "r1", "s1", "r1", "a1")
    # The send follows a nop in its stream, which waits for the addition.
    assert waits(graph, 2) == ([], ["a1"])
    assert waits(graph, 4) == ([], ["r1"])
    assert graph.size.tolist() == [50, 50, 50, 50, -1]
    assert clocked(graph, 1.0, 500).total_ticks == 2 * (500 + int(50 / 1.073741824)) + 1


def test_copies_pass_on_what_they_wait_for_and_receives_wait_for_what_they_overwrite():
    kinds = [SEND, RECEIVE, RECEIVE, COPY, SEND, SEND, RECEIVE]
    one = program(
        kinds,
        rank=[0, 0, 1, 1, 1, 1, 1],
        stream=[0, 1, 0, 1, 2, 3, 4],
        peer=[1, 1, 0, -1, 0, 2, 2],
        num_ranks=3,
        needs=[[], [], [], [2], [3], [], [4]],
    )
    with pytest.raises(ValueError, match="rank 1 sends to 2 over channel 0 more or less often"):
        graph_of_program(one, 100)
    full = program(
        [*kinds, RECEIVE, SEND],
        rank=[0, 0, 1, 1, 1, 1, 1, 2, 2],
        stream=[0, 1, 0, 1, 2, 3, 4, 0, 1],
        peer=[1, 1, 0, -1, 0, 2, 2, 1, 1],
        num_ranks=3,
        needs=[[], [], [], [2], [3], [], [4], [], []],
    )
    graph = graph_of_program(full, 90)
    rows = {graph.place(row): row for row in range(graph.num_nodes)}
    by_tag = {(graph.rank[row], graph.kind[row], graph.peer[row]): row for row in rows.values()}
    assert waits(graph, by_tag[1, schema.SEND, 0]) == ([], ["r1"])
    assert waits(graph, by_tag[1, schema.SEND, 2]) == ([], [])
    assert waits(graph, by_tag[1, schema.RECV, 2]) == (["s1"], [])


def test_a_stream_to_two_peers_waits_for_what_the_first_waited_for_alone():
    one = program(
        [SEND, RECEIVE, RECEIVE, SEND, SEND, RECEIVE],
        rank=[0, 0, 1, 1, 1, 2],
        stream=[0, 1, 0, 1, 1, 0],
        peer=[1, 1, 0, 2, 0, 1],
        num_ranks=3,
        needs=[[], [], [], [2], [], []],
    )
    graph = graph_of_program(one, 90)
    sends = [row for row in range(graph.num_nodes) if graph.kind[row] == schema.SEND]
    assert [waits(graph, row)[1] for row in sends] == [[], ["r1"], ["r1"]]
    assert all(waits(graph, row)[0] == [] for row in sends)


def test_local_additions_are_computations_and_neighbours_one():
    one = program(
        [SEND, RECEIVE, RECEIVE, ADD, ADD, SEND],
        rank=[0, 0, 1, 1, 1, 1],
        stream=[0, 1, 0, 1, 1, 1],
        peer=[1, 1, 0, -1, -1, 0],
        step=[1, 2, 1, 1, 1, 2],
        needs=[[], [], [], [2], [], []],
    )
    graph = graph_of_program(one, 100)
    assert [graph.name[row] for row in range(2, graph.num_nodes)] == ["r1", "a1", "s2"]
    assert waits(graph, 4) == ([], ["a1"])


def test_a_rank_without_sends_has_a_node():
    one = program([SEND, RECEIVE], rank=[0, 2], stream=[0, 0], peer=[2, 0], num_ranks=3)
    graph = graph_of_program(one, 9)
    assert (graph.rank.tolist(), graph.name) == ([0, 1, 2], ("s1", IDLE, "r1"))
    assert check_graph(graph).ok


@pytest.mark.parametrize(
    ("columns", "rule"),
    [
        ({"kinds": [PUT], "rank": [0], "peer": [1]}, "operation 0 is a put: Chakra has sends"),
        ({"kinds": [SEND], "rank": [0], "peer": [1]}, "rank 0 sends to 1 over channel 0 more or"),
        (
            {"kinds": [SEND, RECEIVE], "rank": [0, 1], "peer": [1, 0], "count": [1, 2]},
            "operation 0 sends 1 chunks, but operation 1, which meets it, receives 2",
        ),
        (
            {"kinds": [SEND, RECEIVE], "rank": [0, 1], "peer": [1, 0], "count": [0, 0]},
            "operation 0 sends nothing",
        ),
        (
            {
                "kinds": [SEND, SEND, RECEIVE, RECEIVE],
                "rank": [0, 0, 1, 1],
                "peer": [1, 1, 0, 0],
                "stream": [0, 1, 0, 0],
            },
            "rank 0 has two streams with rank 1 over channel 0",
        ),
    ],
)
def test_programs_that_no_trace_carries(columns, rule):
    kinds = columns.pop("kinds")
    with pytest.raises(ValueError, match=rule):
        graph_of_program(program(kinds, **columns), 8)


def test_sizes_that_are_none():
    ring = gathering_program(ring_schedule(3))
    for wrong in (0, -1, 2**62):
        with pytest.raises(ValueError, match="message_bytes is"):
            graph_of_program(ring, wrong)
    assert set(graph_of_program(ring, 4).size.tolist()) == {2}  # 4/3 bytes, rounded up


def changed(graph, **columns):
    values = {name: np.array(column) for name, column in columns.items()}
    return replace(graph, **values)


def test_mutants_of_graphs_are_seen():
    schedule = build(oc.parse("Torus((3,3))"), "allgather").schedule
    graph = graph_of_program(gathering_program(schedule), 9 * schedule.num_chunks * 64)
    random = np.random.default_rng(5)
    sends = np.flatnonzero(graph.kind == schema.SEND)
    receives = np.flatnonzero(graph.kind == schema.RECV)
    for _ in range(60):
        row = int(random.choice(np.concatenate([sends, receives])))
        for name, value in (
            ("size", graph.size[row] + 1),
            ("tag", len(sends) + 5),
            ("tag", (graph.tag[row] + 1) % len(sends)),
            ("tag", MAX_TAG),
            ("peer", (graph.peer[row] + 1) % 9),
        ):
            column = getattr(graph, name).copy()
            column[row] = value
            assert not check_graph(changed(graph, **{name: column})).ok, (row, name)
    for row in random.choice(sends, 20).tolist():
        size = graph.size.copy()
        size[graph.tag == graph.tag[row]] += 5  # at both ends: it meets, but is no longer the plan
        mutant = changed(graph, size=size)
        assert check_graph(mutant).ok
        message = 9 * schedule.num_chunks * 64
        assert "but the plan has" in check_bytes(mutant, schedule, message)


def test_circles_are_seen():
    graph = graph_of_program(gathering_program(ring_schedule(3)), 3)
    late = np.flatnonzero((graph.kind == schema.SEND) & (np.diff(graph.wait_start) > 0))
    wait = graph.wait.copy()
    for row in late.tolist():
        # Wait for the receive of the last step instead of the one before.
        own = np.flatnonzero((graph.rank == graph.rank[row]) & (graph.kind == schema.RECV))
        first, last = graph.wait_start[row : row + 2]
        old = wait[first:last]
        wait[first:last] = np.where(graph.kind[old] == schema.RECV, own[-1], old)
    verdict = check_graph(changed(graph, wait=wait))
    assert "it waits in a circle" in str(verdict.witness)


def test_collectives_in_another_order_wait_for_ever():
    """Another kind in the same place, and, of two groups, another group first."""
    two = [CollectiveNode(Collective(name), 64) for name in ("allreduce", "allgather")]
    graph = workload_graph(two, 2)
    assert check_graph(graph).ok
    order = np.array([0, 1, 3, 2])
    crossed = changed(graph, comm_type=graph.comm_type[order], size=graph.size[order])
    assert "rank 1, node 0 differs from rank 0, node 0" in str(check_graph(crossed).witness)
    alike = changed(
        graph, comm_type=np.repeat(graph.comm_type[:1], 4), size=np.repeat(graph.size[:1], 4)
    )
    assert check_graph(replace(alike, group=("a", "b", "a", "b"))).ok
    circle = replace(alike, group=("a", "b", "b", "a"))
    assert "it waits in a circle" in str(check_graph(circle).witness)


def test_a_plan_of_others_is_not_these_bytes():
    graph = graph_of_program(gathering_program(ring_schedule(4)), 64)
    assert "4 traces, but a plan of 5 ranks" in str(check_bytes(graph, ring_schedule(5), 64))
    assert "bytes to 1, but the plan has" in str(check_bytes(graph, ring_schedule(4), 640))
    messages = ring_messages(4)
    assert check_bytes(graph, messages, 64) is None


def ring_messages(num_ranks):
    from ocs_codesign.core.schedule import Messages

    plan = ring_schedule(num_ranks)
    ends = plan.topology.tail[plan.link], plan.topology.head[plan.link]
    adds = np.zeros(plan.num_sends, dtype=bool)
    columns = plan.step, *ends, plan.item, adds
    return Messages(num_ranks, Collective.ALLGATHER, num_ranks, *columns)


def test_without_protobuf_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    schema.schema.cache_clear()
    with pytest.raises(ValueError, match="pip install protobuf"):
        schema.schema()


def test_a_published_reader_parses_what_is_written():
    """The schema's field numbers, written down once more, by the protobuf library's own text."""
    node = schema.schema().node(
        id=2, name="n", type=5, ctrl_deps=[1], data_deps=[300], duration_micros=4
    )
    node.attr.add(name="x", double_val=0.0)
    node.attr.add(name="y", bool_val=False)
    node.attr.add(name="z", string_val="")
    assert node.SerializeToString().hex() == (
        "0802" "12016e" "1805" "220101" "2a02ac02" "3804"
        "520c0a017819" + "00" * 8 + "52060a0179d80100" "52060a017aea0100"
    )  # fmt: skip


@pytest.mark.parametrize("length", [0, 1, 127, 128, 300, 20_000])
def test_frames(length):
    content = b"x" * length
    assert list(frames(delimited(content) + delimited(b"y"))) == [content, b"y"]


def test_fractions_of_a_byte_are_rounded_up_once_a_message():
    schedule = build(oc.parse("Torus((3,3))"), "allgather").schedule
    graph = graph_of_program(gathering_program(schedule), 1000)
    chunk = Fraction(1000, 9 * schedule.num_chunks)
    first = schedule.step == 1
    link = int(schedule.link[first][0])
    count = int((schedule.hi - schedule.lo)[first & (schedule.link == link)].sum())
    tail = schedule.topology.tail[link]
    head = schedule.topology.head[link]
    row = np.flatnonzero((graph.rank == tail) & (graph.peer == head) & (graph.kind == schema.SEND))[
        0
    ]
    assert graph.size[row] == -int(-(count * chunk) // 1)


def test_over_a_switch_no_send_waits_for_one_to_another_rank():
    """They are numbered from the next rank on, so that not all send to one at once."""
    messages = CLASSIC["direct"].messages("allgather", 4)
    export = exported("it", messages, star(4, 50), message_bytes=4 * MIB)
    graph = checked_graph(export)
    sends = np.flatnonzero(graph.kind == schema.SEND)
    assert len(sends) == 12
    assert all(waits(graph, row) == ([], []) for row in sends)
    ahead = (graph.peer[sends] - graph.rank[sends]) % 4
    assert ahead.tolist() == [1, 2, 3] * 4


@pytest.mark.slow
def test_a_thousand_nodes_take_two_gigabytes_at_most(tmp_path):
    code = (
        "import re\n"
        "from pathlib import Path\n"
        "from ocs_codesign.faces.cli import main\n"
        "ask = ['export', '#433ab9', '--format', 'chakra', '--out', 'out', '--message', '1GiB']\n"
        "assert main([*ask, '--json', 'answer.json']) == 0\n"
        "status = Path('/proc/self/status').read_text()\n"  # rusage has the starting process too
        "print(int(re.search(r'VmHWM:\\s+(\\d+)', status)[1]) / 2**20)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert float(done.stdout.splitlines()[-1]) < 2
    assert len(list((tmp_path / "out").glob("*.et"))) == 1024
    found = dict(checked_traces(tmp_path / "out").facts)
    assert (found["ranks"], found["messages"]) == (1024, 20_480)
    assert found["bytes sent"] == 1_047_552 * MIB
