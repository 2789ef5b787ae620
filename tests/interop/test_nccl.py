"""NCCL: rings of plans as graph files, books as rules of its tuner, and what it would misread."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from fractions import Fraction

import numpy as np
import pytest
from folders import DATA
from plan_samples import plans
from program_by_hand import gathering_program, ring_schedule

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.network import Network
from ocs_codesign.core.plans import Book, Page
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.topology import Topology
from ocs_codesign.graphs.text import parse
from ocs_codesign.interop.nccl.graph import graph_text, parse_graph_file, rings_of, write_graph_file
from ocs_codesign.interop.nccl.plugin import plugin_text, write_plugin
from ocs_codesign.interop.nccl.tuner import (
    ALGORITHMS,
    COLLECTIVES,
    PROTOCOLS,
    TunerRule,
    parse_tuner,
    rules_of,
    tuner_text,
    write_tuner,
)
from ocs_codesign.interop.registry import Export
from ocs_codesign.schedules.classic.registry import CLASSIC
from ocs_codesign.schedules.design import build

GOLDEN = DATA / "golden"


def export(plan) -> Export:
    return Export("it", plan, gathering_program(ring_schedule(2)), Network(1, 1, [], [], []))


def test_the_golden_graph():
    assert write_graph_file(export(ring_schedule(4))) == {
        "graph.xml": (GOLDEN / "graph.xml").read_bytes()
    }
    (graph,) = parse_graph_file((GOLDEN / "graph.xml").read_bytes(), "graph.xml")
    assert (graph.graph_id, graph.pattern, graph.channels) == (0, 4, ((0, 1, 2, 3),))
    assert graph.devices == {rank: rank for rank in range(4)}


def both_ways(num_ranks: int, order=None) -> Topology:
    """A ring one way, in an order, and the other."""
    ring = np.arange(num_ranks) if order is None else np.array(order)
    after = np.roll(ring, -1)
    return Topology(num_ranks, np.append(ring, after), np.append(after, ring))


@pytest.mark.parametrize("collective", ["allgather", "reduce-scatter", "allreduce"])
@pytest.mark.parametrize("nodes", [2, 3, 5, 8])
def test_rings_of_schedules_and_messages(collective, nodes):
    schedule = build(parse(f"UniRing(1,{nodes})"), collective).schedule
    assert rings_of(schedule) == [list(range(nodes))]
    assert rings_of(CLASSIC["ring"].messages(collective, nodes)) == [list(range(nodes))]


def two_rings(collective: str = "allgather", share: int = 1) -> Schedule:
    """Three shards of chunks round one ring of five one way, one chunk round it the other way."""
    links, steps, items, chunks = [], [], [], []
    for step in range(1, 5):
        for root in range(5):
            for chunk in range(share + 1):
                ahead = chunk < share
                at = (root + step - 1) % 5 if ahead else (root - step + 1) % 5
                links.append(at if ahead else 5 + (at - 1) % 5)
                steps.append(step)
                items.append(root)
                chunks.append(chunk)
    lo = np.array(chunks)
    gather = Schedule(
        both_ways(5), Collective.ALLGATHER, share + 1, items, lo, lo + 1, links, steps
    )
    return gather if collective == "allgather" else gather.reversed()


@pytest.mark.parametrize("share", [1, 2, 3])
def test_a_ring_that_takes_more_is_there_more_often(share):
    forward, backward = [0, 1, 2, 3, 4], [0, 4, 3, 2, 1]
    assert rings_of(two_rings(share=share)) == [forward] * share + [backward]
    # What sums up on the way runs on the reversed links: the same cycles, turned round.
    assert rings_of(two_rings("reduce-scatter", share)) == [forward] + [backward] * share


def test_rings_in_another_order():
    order = [0, 3, 1, 4, 2]
    plan = ring_schedule(5)
    relabelled = Topology(
        5, *(np.array(order)[end] for end in (plan.topology.tail, plan.topology.head))
    )
    items = np.array(order)[plan.item]
    moved = Schedule(relabelled, plan.collective, 1, items, plan.lo, plan.hi, plan.link, plan.step)
    assert rings_of(moved) == [order]
    text = graph_text(rings_of(moved))
    assert parse_graph_file(text.encode(), "g")[0].channels == (tuple(order),)


@pytest.mark.parametrize(
    ("plan", "rule"),
    [
        ("allgather", "this is no ring: rank 0 sends the same chunk to|neither rank"),
        ("all-to-all", "rings do allgather, reduce-scatter, allreduce of all ranks"),
        ("groups", "rings do allgather, reduce-scatter, allreduce of all ranks"),
        ("weighted", "shards of unequal sizes"),
        ("pat", "this is no ring"),
        ("switch", "rings do allgather"),
    ],
)
def test_plans_that_are_no_rings(plan, rule):
    with pytest.raises(ValueError, match=rule):
        rings_of(plans()[plan])


def test_more_ways_to_be_no_ring():
    for name in ("swing", "recursive-doubling", "bruck", "direct"):
        with pytest.raises(ValueError, match="this is no ring"):
            rings_of(CLASSIC[name].messages("allgather", 8))
    pair = Topology(2, [0, 1], [1, 0])
    half = Schedule(pair, Collective.ALLGATHER, 1, [0], [0], [1], [0], [1])
    with pytest.raises(ValueError, match="neither rank 0 nor 1 passes on chunk 1"):
        rings_of(half)


def test_halves_that_go_both_ways_are_two_rings():
    messages = CLASSIC["ring-halves"].messages("allgather", 4)
    assert rings_of(messages) == [[0, 1, 2, 3], [0, 3, 2, 1]]


def graph(text: str) -> str:
    return (GOLDEN / "graph.xml").read_text().replace(*text.split(" -> "))


BAD_GRAPHS = {
    "version": (graph('version="1" -> version="2"'), "version is '2': NCCL reads 1"),
    "id": (graph('id="0" -> id="9"'), "id is 9: it is from 0"),
    "pattern": (graph('pattern="4" -> pattern="1"'), "pattern is 1: of graph 0 it is 4"),
    "channels": (graph('nchannels="1" -> nchannels="2"'), "nchannels is 2, but there are 1"),
    "many": (graph('nchannels="1" -> nchannels="33"'), "nchannels is 33: from"),
    "speed": (graph('speedintra="20" -> speedintra="fast"'), "speedintra is 'fast'"),
    "no speed": (graph('speedintra="20" -> speedintra="0"'), "speedintra is 0"),
    "type": (graph('typeintra="NVL" -> typeintra="NVLINK"'), "typeintra is 'NVLINK': it is one of"),
    "unknown": (graph('crossnic="0" -> crossnic="0" ports="3"'), "the attribute 'ports' is unkn"),
    "missing": (graph(' samechannels="1" -> '), "samechannels is missing"),
    "decimal": (graph('dev="0x3" -> dev="3"'), "dev is '3': it is hexadecimal"),
    "rank": (graph('rank="3" -> rank="x"'), "rank is 'x'"),
    "twice": (graph('rank="3" -> rank="2"'), "rank 2 is in a channel twice"),
    "a device twice": (graph('dev="0x3" -> dev="0x2"'), "two ranks are one device"),
    "element": (graph("<channel> -> <lane>"), "a 'lane' in a 'graph' is unknown"),
    "net": (graph('<gpu dev="0x1" -> <net dev="0"/><gpu dev="0x1"'), "a net between GPUs"),
    "entities": (
        '<!DOCTYPE graphs [<!ENTITY a "x">]>' + graph("x -> x"),
        "a document type, and with it any entity, is refused",
    ),
    "nothing": ("", "this is not XML"),
    "no graph": ('<graphs version="1"></graphs>', "there is no graph"),
    "other": ("<system/>", "a 'system' in a 'document' is unknown"),
}


@pytest.mark.parametrize("case", BAD_GRAPHS)
def test_graphs_that_nccl_would_misread(case):
    text, rule = BAD_GRAPHS[case]
    with pytest.raises(ValueError, match=rule) as caught:
        parse_graph_file(text.encode(), "g")
    assert str(caught.value).startswith("g, line")


def test_dumps_of_nccl_are_read():
    """Without ranks a GPU is its device, zero is printed without 0x, a graph may be empty."""
    text = graph_text([[0, 1, 2], [0, 2, 1]])
    plain = re.sub(' rank="[0-9]*"', "", text).replace('dev="0x0"', 'dev="0"')
    assert parse_graph_file(plain.encode(), "g") == parse_graph_file(text.encode(), "g")
    start, end = text.index("  <graph "), text.index("</graphs>")
    empty = re.sub("<channel>.*</channel>", "", text[start:end], flags=re.DOTALL)
    empty = empty.replace('id="0"', 'id="3"').replace('nchannels="2"', 'nchannels="0"')
    both = parse_graph_file((text[:end] + empty + text[end:]).encode(), "g")
    assert [len(one.channels) for one in both] == [2, 0]


def test_channels_of_other_gpus_and_two_graphs_of_an_id():
    two = graph_text([[0, 1, 2], [0, 2, 1]])
    assert len(parse_graph_file(two.encode(), "g")[0].channels) == 2
    other = two.replace('dev="0x2" rank="2"', 'dev="0x3" rank="3"', 1)
    with pytest.raises(ValueError, match="all channels of a graph visit the same GPUs"):
        parse_graph_file(other.encode(), "g")
    start, end = two.index("  <graph "), two.index("</graphs>")
    with pytest.raises(ValueError, match="two graphs have the id 0: NCCL takes the first"):
        parse_graph_file((two[:end] + two[start:]).encode(), "g")
    with pytest.raises(ValueError, match="33 rings: NCCL has from 1 to 32"):
        graph_text([[0, 1]] * 33)
    with pytest.raises(ValueError, match="a way is one of LOC"):
        graph_text([[0, 1]], way="ETH")


def test_nets_stand_at_the_ends():
    text = graph('<gpu dev="0x0" -> <net dev="0"/><gpu dev="0x0"')
    text = text.replace('rank="3"/>', 'rank="3"/><net dev="0"/>')
    assert parse_graph_file(text.encode(), "g")[0].channels == ((0, 1, 2, 3),)


def test_the_golden_rules():
    (rule,) = parse_tuner((GOLDEN / "tuner.csv").read_bytes(), "tuner.csv")
    assert rule == TunerRule("allgather", 0, 2**32 - 1, "ring", num_servers=1, num_ranks=4)
    assert tuner_text([rule]).encode() == (GOLDEN / "tuner.csv").read_bytes()


def book(collective: str, *pages: tuple[int, str]) -> Book:
    plans = {"bfb": CLASSIC["direct"].messages(collective, 4)}
    rings = CLASSIC["ring"].messages(collective, 4)
    ring = Topology(4, [0, 1, 2, 3], [1, 2, 3, 0])
    network = Network(4, 4, ring.tail, ring.head, [1] * 4)
    made = tuple(Page(begin, maker, plans.get(maker, rings)) for begin, maker in pages)
    return Book(network, Fraction(10**9), Collective(collective), made)


def test_rules_of_a_book():
    pages = (0, "pat"), (1000, "bfb"), (5000, "ring rank_map=snake"), (9000, "double-binary-tree")
    lines = write_tuner(book("allgather", *pages), "b")["b.tuner.csv"].decode().splitlines()
    assert lines == [
        "allgather,0,999,pat,simple,2,-1,4,-1,-1",
        "allgather,5000,8999,ring,simple,2,-1,4,-1,-1",
    ]
    rules = rules_of(book("allreduce", *pages), num_channels=8, protocol="ll", num_servers=2)
    assert [rule.line() for rule in rules] == [
        "allreduce,5000,8999,ring,ll,8,2,4,-1,-1",
        "allreduce,9000,4294967295,tree,ll,8,2,4,-1,-1",
    ]
    assert parse_tuner(tuner_text(rules).encode(), "t") == rules
    with pytest.raises(ValueError, match="NCCL has none of these: bfb"):
        rules_of(book("allgather", (0, "bfb")))
    beyond = book("allgather", (0, "bfb"), (2**32, "ring"))
    with pytest.raises(ValueError, match="NCCL has none of these"):
        rules_of(beyond)


def test_what_goes_round_in_rings_is_one_whoever_made_it():
    (rule,) = rules_of(book("allreduce", (0, "exact"), (2**20, "bfb")))
    assert rule.line() == "allreduce,0,1048575,ring,simple,2,-1,4,-1,-1"


def test_an_all_to_all_has_no_rules():
    plan = CLASSIC["shift"].messages("alltoall", 3)
    star = Network(3, 3, [0, 1, 2], [1, 2, 0], [1] * 3)
    one = Book(star, Fraction(1), Collective.ALLTOALL, (Page(0, "ring-relay", plan),))
    with pytest.raises(ValueError, match="alltoall: NCCL's tuner knows broadcast"):
        rules_of(one)


GOOD = "allgather,0,99,ring,simple,2,1,4,-1,-1\n"
BAD_RULES = {
    "header": ("collective,min,max,algorithm,protocol,channels,nNodes,nRanks\n" + GOOD, 1, "takes"),
    "all-to-all": ("alltoall,0,9,ring,simple,2,1,4\n", 1, "'alltoall' is none of broadcast"),
    "our word": (GOOD + "reduce-scatter,0,9,ring,simple,2,1,4\n", 2, "takes it for allreduce"),
    "algorithm": (GOOD.replace("ring", "bfb"), 1, "the plugin takes it for ring"),
    "protocol": (GOOD.replace("simple", "Simple"), 1, "the plugin takes it for simple"),
    "no channels": (GOOD.replace(",2,", ",-1,"), 1, "channels is -1: the plugin makes one of it"),
    "zero channels": (GOOD.replace(",2,", ",0,"), 1, "channels is 0"),
    "words": (GOOD.replace(",2,", ",two,"), 1, "channels is 'two'"),
    "space": (GOOD.replace(",2,", ", 2,"), 1, "channels is ' 2'"),
    "few": ("allgather,0,9,ring,simple,2,1\n", 1, "7 cells: a rule has 8 to 10"),
    "many": (GOOD.replace("\n", ",1\n"), 1, "11 cells"),
    "empty range": (GOOD.replace("0,99", "99,0"), 1, "from 99 to 0 bytes: this range is empty"),
    "unlimited": (GOOD.replace("0,99", "0,-1"), 1, "this range is empty"),
    "tree": (GOOD.replace("ring", "tree"), 1, "NCCL has no tree for allgather"),
    "hidden": (GOOD + GOOD.replace(",1,4", ",1,4").replace("0,99", "5,9"), 2, "rule 1 matches all"),
    "no ranks": (GOOD.replace(",4,", ",0,"), 1, "ranks is 0: it matches nothing"),
    "registered": (GOOD.replace("-1\n", "2\n"), 1, "registered is '2'"),
    "long": (GOOD.replace("99", "9" * 300), 1, "more than 255 characters"),
}


@pytest.mark.parametrize("case", BAD_RULES)
def test_rules_that_the_plugin_would_misread(case):
    text, line, rule = BAD_RULES[case]
    with pytest.raises(ValueError, match=rule) as caught:
        parse_tuner(text.encode(), "t")
    assert str(caught.value).startswith(f"t, line {line}: ")


def test_rules_with_comments_and_without_rules():
    assert len(parse_tuner(b"# ours\n\n" + GOOD.encode(), "t")) == 1
    with pytest.raises(ValueError, match="t: there are no rules"):
        parse_tuner(b"# nothing\n", "t")
    # The same sizes for another number of ranks is no rule that is hidden.
    assert len(parse_tuner((GOOD + GOOD.replace(",4,", ",8,")).encode(), "t")) == 2


# What others found of a table of costs, -1 where NCCL cannot: the first rule that matches counts.
COSTS = [[30, 25, 20], [33, 22, 12], [-1] * 3, [-1] * 3, [-1, -1, 15], [-1] * 3, [-1, -1, 40]]
RULES = [
    TunerRule("allreduce", 0, 65535, "ring", "ll", 4, -1, 16),
    TunerRule("allreduce", 65536, 2**40, "tree", "simple", 8, -1, -1),
    TunerRule("allgather", 0, 2**40, "pat", "simple", 0, 2, -1),
    TunerRule("broadcast", 0, 2**40, "nvls_tree", "simple", 2, -1, -1),
]
TAKEN = [
    (("allreduce", 65535, 16, 2), ("ring", "ll", 4)),
    (("allreduce", 65536, 16, 2), ("tree", "simple", 8)),
    (("allreduce", 65535, 8, 1), ("ring", "simple", 0)),
    (("allgather", 5, 16, 2), ("pat", "simple", 0)),
    (("allgather", 5, 16, 4), ("ring", "simple", 0)),
    (("reduce", 9, 16, 2), ("ring", "simple", 0)),
    (("broadcast", 7, 4, 1), ("ring", "simple", 0)),
    (("allreduce", 2**40 + 1, 4, 1), ("ring", "simple", 0)),
]
PLACE, NUMBER, SIZE = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
_BEGIN_5 = ctypes.CFUNCTYPE(NUMBER, PLACE, ctypes.c_uint64, SIZE, SIZE, PLACE, PLACE, PLACE)
BEGINS = {
    4: (
        ctypes.CFUNCTYPE(NUMBER, SIZE, SIZE, PLACE, PLACE),
        lambda call, place, ranks, nodes: call(ranks, nodes, None, place),
    ),
    5: (_BEGIN_5, lambda call, place, ranks, nodes: call(place, 7, ranks, nodes, *[None] * 3)),
}
BEGINS[6] = BEGINS[5]
_CHOOSE = ctypes.CFUNCTYPE(
    NUMBER, PLACE, NUMBER, SIZE, NUMBER, PLACE, NUMBER, NUMBER, NUMBER, PLACE
)


def compiled(source: bytes, place):
    """A plug-in as NCCL loads it."""
    compiler = shutil.which("cc")
    assert compiler is not None, "no cc here: apt-get install gcc libc6-dev"
    (place / "it.tuner.c").write_bytes(source)
    words = ["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", "it.so", "it.tuner.c"]
    subprocess.run([compiler, *words], cwd=place, check=True)
    return ctypes.CDLL(str(place / "it.so"))


def taken(library, version: int, call):
    """What NCCL takes after the plug-in of a version was asked: the least that it can."""
    begin_of, begin_by = BEGINS[version]

    class Plugin(ctypes.Structure):
        _fields_ = [
            ("name", ctypes.c_char_p),
            ("begin", begin_of),
            ("choose", _CHOOSE),
            ("end", ctypes.CFUNCTYPE(NUMBER, PLACE)),
            ("chunk_size", PLACE),
        ][: 5 if version == 6 else 4]

    collective, size, ranks, nodes = call
    plugin = Plugin.in_dll(library, f"ncclTunerPlugin_v{version}")
    context, channels = ctypes.c_void_p(), ctypes.c_int(0)
    table = (ctypes.c_float * 21)(*(cost for row in COSTS for cost in row))
    number = list(COLLECTIVES.values()).index(collective)
    assert plugin.name == b"ocs-codesign"
    assert begin_by(plugin.begin, ctypes.byref(context), ranks, nodes) == 0
    shown = ctypes.byref(table), 7, 3, 0, ctypes.byref(channels)
    assert plugin.choose(context, number, size, 1, *shown) == 0
    assert plugin.end(context) == 0
    assert version < 6 or plugin.chunk_size is None
    least = min(range(21), key=lambda at: (table[at] < 0, table[at], at))
    return ALGORITHMS[least // 3], PROTOCOLS[least % 3], channels.value


@pytest.mark.slow
def test_a_compiled_plug_in_answers_as_the_rules_say(tmp_path):
    library = compiled(plugin_text(RULES, "it").encode(), tmp_path)
    for version in BEGINS:
        for call, wanted in TAKEN:
            assert taken(library, version, call) == wanted, (version, call)


@pytest.mark.slow
def test_a_plug_in_of_a_book_has_no_largest_size(tmp_path):
    pages = book("allreduce", (0, "bfb"), (1000, "ring"), (9000, "double-binary-tree"))
    (name, source), *_ = write_plugin(pages, "contest").items()
    assert name == "contest.tuner.c"
    library = compiled(source, tmp_path)
    sizes = {500: ("ring", "simple"), 5000: ("ring", "simple"), 2**50: ("tree", "simple")}
    for size, wanted in sizes.items():
        assert taken(library, 5, ("allreduce", size, 4, 1)) == (*wanted, 0)
    assert taken(library, 5, ("allreduce", 2**50, 8, 1))[0] == "ring"
