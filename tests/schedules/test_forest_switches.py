"""Trees that branch at switches that copy or add up: rates, replays, and the checker's mutants."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from forest_samples import KNOWN, known_network, networks
from hypothesis import given, settings
from hypothesis import strategies as st

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.network import Network
from ocs_codesign.core.networks.products import a100, leaf_spine
from ocs_codesign.core.plans import Forest
from ocs_codesign.faces.cli import main
from ocs_codesign.schedules.files.archive import read_archive, write_schedule
from ocs_codesign.schedules.forest.building import forests, forests_of, shortened
from ocs_codesign.schedules.forest.optimum import optimum
from ocs_codesign.schedules.forest.pipeline import Pipeline, allreduce_at_once
from ocs_codesign.verification import forests as rules
from ocs_codesign.verification import sends as switches
from ocs_codesign.verification.forests import check_forest, check_forests
from ocs_codesign.verification.schedules import verify
from ocs_codesign.verification.sends import Abilities

HALVES = Collective.ALLREDUCE.halves()
UP_1_DOWN_3 = ([0, 1, 2, 3, 4, 4, 4, 4], [4, 4, 4, 4, 0, 1, 2, 3], [1, 1, 1, 1, 3, 3, 3, 3])


def built(network, found, collective, num_parts=2):
    """The forests of an optimum, checked; the schedule, replayed in switches that can."""
    made = forests_of(found)
    assert check_forests(made, found.inv_rate) is None
    assert max(forest.inv_rate for forest in made) == found.inv_rate
    pipeline = Pipeline(made, collective)
    schedule = pipeline.schedule(num_parts)
    assert schedule.steady_state_t_b() <= found.t_b
    verdict = verify(schedule, pipeline.cost(num_parts), abilities=Abilities.of(network))
    assert verdict.ok, verdict.witness
    return schedule


@pytest.mark.parametrize(
    "name", ["a100-1", "leafspine-4x4-2-4-4", "star-10-10-10-10-5-5-5-5", "up1-down3", "up3-down1"]
)
def test_known_allreduces_through_switches(name):
    """1.75 times what forwarding does on an A100 box; the replay tells that switches do it."""
    network = known_network(name, able=True)
    collective, found = allreduce_at_once(network)
    facts = KNOWN[name]["allreduce_lp"]
    assert found.algbw == Fraction(facts["algbw_all_switches_capable"]) > Fraction(facts["algbw"])
    assert found.is_attained
    schedule = built(network, found, collective)
    assert verify(schedule).witness.rule in (switches.DUPLICATED, switches.MERGED)
    only_copies = replace(Abilities.of(network), aggregate=frozenset())
    assert verify(schedule, abilities=only_copies).witness.rule == switches.MERGED


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rate", "num_kinds"),
    [("a100-2", 200, 1), ("a100-4", 200, 2), ("h100rail-2", 400, 1), ("mi250-8+8", 208, 5)],
)
def test_larger_allreduces_through_switches(name, rate, num_kinds):
    """A tree branches at one rail of two, or at one of many relays: that takes several kinds."""
    network = known_network(name, able=True)
    collective, found = allreduce_at_once(network)
    assert rate == Fraction(KNOWN[name]["allreduce_lp"]["algbw_all_switches_capable"])
    assert (found.algbw, found.is_attained) == (rate, True)
    assert found.algbw > Fraction(KNOWN[name]["allreduce_lp"]["algbw"])
    assert found.num_kinds >= num_kinds > 1 or found.num_kinds == num_kinds
    built(network, found, collective, 1)


TWO_RAILS = [(host, 4 + host // 2, 10) for host in range(4)] + [
    (host, 6 + host % 2, 1) for host in range(4)
]


def test_trees_of_two_kinds_share_the_links():
    """Two boxes of two, a rail each: trees that span both rails pay for two, one is enough."""
    links = np.array(TWO_RAILS + [(head, tail, width) for tail, head, width in TWO_RAILS]).T
    network = Network(4, 8, *links, multicast=range(4, 8), aggregate=range(4, 8))
    collective, found = allreduce_at_once(network)
    assert (found.algbw, found.is_attained) == (2, True)
    schedule = built(network, found, collective)
    forests_made = forests_of(found)
    assert len(forests_made) == 2
    for forest in forests_made:
        rails = np.zeros((len(forest.root), 2), dtype=bool)
        through = forest.tail >= 6
        rails[forest.tree[through], forest.tail[through] - 6] = True
        assert not rails.all(axis=1).any(), "no tree pays for both rails"
    assert schedule.num_chunks >= 1


@pytest.mark.parametrize("leaves", [False, True])
def test_spines_that_copy_above_leaves_that_do_not(leaves):
    """What a spine sent back to the leaf that it got it from would wait for itself there.

    So trees do not branch at the spines alone: the loss is stated, and what is built can be sent.
    """
    network = leaf_spine(4, 4, 2, 4, 4)
    able = range(16 if leaves else 20, 22)
    columns = (network.tail, network.head, network.bandwidth)
    network = Network(16, 22, *columns, multicast=able, aggregate=able)
    collective, found = allreduce_at_once(network)
    assert found.algbw == (4 if leaves else Fraction(32, 15))
    assert found.is_attained == leaves
    built(network, found, collective, 1)


def test_a_tree_visits_a_switch_once():
    """Host 0 by switch 3 to switch 4, and from there back by 3 to host 1: 3 copies instead."""
    pairs = np.array([(0, 3), (3, 4), (4, 3), (3, 1), (4, 2), (1, 0), (2, 0)]).T
    network = Network(3, 5, *pairs, [1] * 7, multicast=[3, 4])
    arcs = [(0, 4, (0, 1), 2), (4, 1, (2, 3), 1), (4, 1, (2, 3), 1), (4, 2, (4,), 2)]
    tail, head, paths, units = zip(*arcs, strict=True)
    trees = (np.array([2, 0, 0]), np.ones(3), 1, Fraction(2), np.array([0]), np.array([2]))
    start = np.cumsum([0, *map(len, paths)])
    columns = map(np.array, ([0] * 4, tail, head, range(4), units))
    forest = Forest(network, False, *trees, *columns, start, np.concatenate(paths))
    assert check_forest(forest) is None
    made = shortened(forest)
    assert check_forest(made) is None
    each = zip(made.tail.tolist(), made.head.tolist(), made.hops()[1].tolist(), strict=True)
    assert sorted(each) == sorted([(0, 3, 0), (3, 4, 1), (3, 1, 3), (4, 2, 4)] * 2)
    assert made.multiplicity.tolist() == [1, 1]
    only = replace(forest, network=Network(3, 5, *pairs, [1] * 7, multicast=[4]))
    assert shortened(only) is only


def test_a_switch_that_copies_feeds_wide_links():
    """Up 1, down 3: an allgather takes a third of the time, in one step."""
    network = Network(4, 5, *UP_1_DOWN_3, multicast=[4])
    found = optimum(network, Collective.ALLGATHER)
    assert (found.rate, found.least_inv_rate, found.is_attained) == (1, 1, True)
    schedule = built(network, found, Collective.ALLGATHER, 1)
    assert (schedule.num_steps, schedule.num_sends) == (1, 16)
    # What the switch cannot add up it forwards: at a third of the rate that it would add up at.
    scatter = optimum(network, Collective.REDUCE_SCATTER)
    assert (scatter.rate, scatter.cut.inv_rate) == (Fraction(1, 3), 3)
    built(network, scatter, Collective.REDUCE_SCATTER)


def test_switches_are_spanned_only_where_it_helps():
    """Balanced switches that forward are as fast, and need nothing of the network."""
    box = a100(1)
    able = Network(
        *(box.num_hosts, box.num_nodes, box.tail, box.head, box.bandwidth),
        multicast=range(box.num_hosts, box.num_nodes),
    )
    for network in (box, able):
        found = optimum(network, Collective.ALLGATHER)
        assert not found.tasks[0].problem.is_rank[box.num_hosts :].any()
        assert verify(built(network, found, Collective.ALLGATHER)).ok


@pytest.mark.parametrize("more", [[], [(7, 1)]])
def test_the_butterfly_takes_two_kinds_of_trees(more):
    """One source, two sinks: the cut allows 2, trees reach 3/2, spanning all switches does 1.

    Also beside a switch that nothing leads to.
    """
    links = [(0, 3), (0, 4), (3, 1), (3, 5), (4, 2), (4, 5), (5, 6), (6, 1), (6, 2), (1, 0), (2, 0)]
    widths = [1] * 9 + [9] * 2 + [1] * len(more)
    nodes = 7 + len(more)
    network = Network(3, nodes, *np.array(links + more).T, widths, multicast=range(3, nodes))
    broadcast = Collective("broadcast", root=0)
    found = optimum(network, broadcast)
    assert (found.least_inv_rate, found.is_attained) == (Fraction(1, 2), False)
    assert (found.rate, found.num_kinds) == (Fraction(3, 2), 2)
    built(network, found, broadcast)


def test_hosts_that_relay_leave_switches_alone():
    """A host of another group passes on a step later: no tree branches at switches then."""
    network = Network(4, 5, *UP_1_DOWN_3, multicast=[4], aggregate=[4])
    pair = Collective("allgather", groups=[(0, 1, 2)])
    found = optimum(network, pair)
    assert (found.rate, found.least_inv_rate) == (Fraction(1, 2), 1)
    built(network, found, pair)


@st.composite
def able_networks(draw):
    network = draw(networks())
    able = [draw(st.sets(st.integers(network.num_hosts, network.num_nodes - 1)))
            if network.num_hosts < network.num_nodes else [] for _ in range(2)]  # fmt: skip
    links = (network.tail, network.head, network.bandwidth)
    return Network(network.num_hosts, network.num_nodes, *links, multicast=able[0],
                   aggregate=able[1])  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(network=able_networks())
def test_any_network(network):
    """Between what forwarding does and what nothing exceeds, and built."""
    plain = Network(
        *(network.num_hosts, network.num_nodes), *(network.tail, network.head, network.bandwidth)
    )
    for collective in HALVES:
        try:
            least = optimum(plain, collective)
        except ValueError:
            return
        found = optimum(network, collective)
        # What is shown as the bottleneck proves what nothing exceeds, or it is not shown.
        for one in (least, found):
            cut = one.bottleneck
            assert cut is None or cut.inv_rate == one.least_inv_rate
            assert (len(one.leaving()) == 0) >= (cut is None)
            if cut is not None:
                told = int(one.network.bandwidth[one.leaving()].sum())
                assert Fraction(cut.weight, told) == one.least_inv_rate
        assert least.rate <= found.rate <= 1 / found.least_inv_rate <= 1 / found.cut.inv_rate
        if found.trees[1] < 1000:
            built(network, found, collective, 1)


def test_mutants_at_switches_are_found():
    """A switch that cannot, that gets nothing, part of it or twice, or that keeps what it gets."""
    network = Network(4, 5, *UP_1_DOWN_3, multicast=[4])
    (forest,) = forests(network, Collective.ALLGATHER)
    assert check_forest(forest) is None
    plain = Network(4, 5, *UP_1_DOWN_3)
    assert check_forest(replace(forest, network=plain)).rule == rules.NOT_ABLE
    adds = Network(4, 5, *UP_1_DOWN_3, aggregate=[4])
    assert check_forest(replace(forest, network=adds)).rule == rules.NOT_ABLE
    columns = ("tree", "tail", "head", "path", "units")

    def kept(rows):
        return replace(forest, **{name: getattr(forest, name)[rows] for name in columns})

    into = (forest.tree == 0) & (forest.head == 4)
    out = (forest.tree == 0) & (forest.tail == 4)
    assert (into.sum(), out.sum()) == (1, 3)
    assert check_forest(kept(~into)).rule == rules.NO_PARENT
    assert check_forest(kept(~out)).rule == rules.NO_PARENT
    some = np.flatnonzero(~into)
    twice = kept(np.concatenate([some, np.flatnonzero(into), np.flatnonzero(into)]))
    assert check_forest(twice).rule == rules.NOT_WHOLE
    lone = replace(forest, network=Network(4, 6, *UP_1_DOWN_3, multicast=[4, 5]))
    assert check_forest(lone) is None
    row = int(np.flatnonzero(out)[0])
    tail, head = np.array(forest.tail), np.array(forest.head)
    head[row] = 5
    assert check_forest(replace(lone, head=head)).rule == rules.NO_PARENT
    extra = {name: np.append(getattr(lone, name), getattr(lone, name)[row]) for name in columns}
    extra["head"][-1] = 5
    assert check_forest(replace(lone, **extra)).rule == rules.KEPT
    tail[row] = 5
    assert check_forest(replace(lone, tail=tail)).rule == rules.NO_PARENT


def test_designs_say_what_switches_must_do(capsys, tmp_path):
    """The saved design is valid in switches that copy, and says that it needs them."""
    links = [list(map(int, link)) for link in zip(*UP_1_DOWN_3, strict=True)]
    path, design = tmp_path / "n.json", tmp_path / "d"
    network = {"num_hosts": 4, "num_nodes": 5, "links": links, "multicast": [4], "aggregate": [4]}
    path.write_text(json.dumps(network), encoding="utf-8")
    for collective in ("allgather", "reduce-scatter", "allreduce"):
        command = ["build", "--network", str(path), "--collective", collective]
        assert main([*command, "--out", str(design)]) == 0
        capsys.readouterr()
        assert main(["verify", str(design)]) == 0
        assert "multicast in switches  1" in capsys.readouterr().out
        assert main(["verify", str(design), "--json", "-"]) == 0
        assert json.loads(capsys.readouterr().out)["multicast"] == [4]
    assert main(["optimum", str(path)]) == 0
    assert "allgather               algbw 4, attained" in capsys.readouterr().out
    archive = read_archive(design / "schedule.npz")
    content = io.BytesIO()
    write_schedule(content, archive.schedule, None, Abilities(frozenset([3])))
    (tmp_path / "bad.npz").write_bytes(content.getvalue())
    assert main(["verify", str(tmp_path / "bad.npz")]) == 2
    assert "multicast names node 3, which is no switch" in capsys.readouterr().err
