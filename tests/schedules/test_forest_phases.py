"""Forests that keep to sketches: phases of hierarchies, losses against the free optimum."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.network import Network
from ocs_codesign.core.networks.builders import Cables, star
from ocs_codesign.faces.cli import main
from ocs_codesign.graphs.text import parse_network
from ocs_codesign.schedules.exchange.sketches import sketch_on
from ocs_codesign.schedules.forest.optimum import helpful_links, optimum
from ocs_codesign.schedules.forest.phases import phased, phased_halves
from ocs_codesign.schedules.forest.spreads import spread
from ocs_codesign.schedules.registry import Task, made_by
from ocs_codesign.verification.forests import check_forest
from ocs_codesign.verification.schedules import verify

HALVES = (Collective.ALLGATHER, Collective.REDUCE_SCATTER)


def losses(text: str, phases: list) -> list[Fraction]:
    """Of an allgather and of a reduce-scatter, whose phases go the other way."""
    network, told = parse_network(text), []
    for half, order in zip(HALVES, (phases, phases[::-1]), strict=True):
        found = phased(network, half, sketch_on(network, order).phases)
        forest = found.forest()
        assert check_forest(forest) is None
        assert forest.inv_rate == found.inv_rate
        assert sum(found.shares) == 1
        told.append(found.inv_rate / optimum(network, half).inv_rate)
    return told


@pytest.mark.parametrize(
    ("text", "phases", "loss"),
    [
        # A box brings its own in by as many links as it has, and boxes are more than what they do
        # inside: rail first loses nothing from five boxes on, 7 b / 450 against (b - 1) / 50.
        ("h100_rail(5)", ["rail", "inside"], 1),
        ("h100_rail(2)", ["rail", "inside"], Fraction(28, 27)),
        ("h100_rail(2)", ["inside", "rail", "inside"], 1),
        # Every piece on every rail: eight times what one rail each takes.
        ("h100_rail(5)", ["inside", "rail"], 8),
        ("a100(2)", ["rail", "inside"], 1),
        ("a100(4)", ["inside", "rail", "inside"], 1),
        ("boxes(2, 3, 6, 2, outer=3)", ["all"], 1),
        ("Torus((3, 4))", ["all"], 1),
    ],
)
def test_losses_of_dimensions(text, phases, loss):
    assert losses(text, phases) == [loss, loss]


def test_hierarchies_of_p2_and_sketches_of_taccl():
    """P2's sums inside, across and back; TACCL's senders between boxes, one or all of a kind."""
    network = parse_network("h100_rail(8)")
    halves = phased_halves(network, Collective.ALLREDUCE, sketch_on(network, ["inside", "rail"]))
    free = [optimum(network, half).inv_rate for half in HALVES]
    assert [half.inv_rate for half in halves] == free[::-1]
    # DGX-2: odd GPUs send to even ones of the other box, over InfiniBand of their own.
    assert losses("dgx2(2)", ["inside", "rail", "inside"]) == [1, 1]
    # One GPU of a box does it all: its link has what eight could share.
    one = [["h0>s2", "s2>h8", "h8>s2", "s2>h0"], "inside"]
    with pytest.raises(ValueError, match="h9 has something for h0, and no path leads"):
        losses("h100_rail(2)", one)
    assert losses("h100_rail(2)", ["inside", *one]) == [Fraction(16, 3)] * 2


def test_data_are_divided_between_nvlink_and_pcie_as_blink_does():
    """Eight GPUs on NVLink of 150 in all, and on PCIe of 10 each: nothing less than both."""
    server, cables = parse_network("dgx1()"), Cables()
    cables.add(server.tail, server.head, server.bandwidth, 0, 0, both_ways=False)
    cables.add(np.arange(8), 8 + np.arange(8) // 2, 10, 0, 1)
    cables.add(np.arange(8, 12), 12 + np.arange(4) // 2, 10, 0, 1)
    cables.add(np.array([12]), 13, 10, 0, 1)
    network = cables.network(8, 14, "GB/s")
    for collective in (Collective.ALLGATHER, Collective("broadcast", root=0)):
        free = optimum(network, collective).inv_rate
        told = []
        for phases in (["inside"], ["outside"], ["inside", "outside"]):
            found = phased(network, collective, sketch_on(network, phases).phases)
            assert check_forest(found.forest()) is None
            told.append(found.inv_rate / free)
        assert told == [Fraction(16, 15), 16, 1]
        assert found.shares == (Fraction(15, 16), Fraction(1, 16))


def test_hosts_that_no_one_else_reaches_are_covered():
    """0 and 1 have what 0 had: 2 gets it over one, 3 over the other, 4 once over either."""
    links = [(0, 1), (1, 0), (0, 2), (0, 4), (1, 3), (1, 4)]
    back = [(2, 0), (3, 0), (4, 0)]
    tail, head = np.array([*links, *back]).T
    network = Network(5, 5, tail, head, np.ones(len(tail), dtype=np.int64))
    both, one_way, home = np.arange(2), np.arange(2, 6), np.arange(6, 9)
    found = phased(network, Collective("broadcast", root=0), [both, one_way])
    assert check_forest(found.forest()) is None
    assert phased(network, "allgather", [home, both, one_way]).inv_rate >= 4
    with pytest.raises(ValueError, match="h2 has something for h0"):
        phased(network, "allgather", [both, one_way])


@pytest.mark.parametrize("name", ["broadcast", "reduce"])
def test_rooted_collectives_keep_to_phases(name):
    network = parse_network("boxes(2, 3, 6, 2, outer=3)")
    wanted = Collective(name, root=4)
    found = phased(network, wanted, sketch_on(network, ["inside", "rail", "inside"]).phases)
    assert check_forest(found.forest()) is None
    # A third of the data over every rail: as fast as a box's links in and out allow.
    assert found.inv_rate == optimum(network, wanted).inv_rate == Fraction(1, 6)


@pytest.mark.parametrize("seed", range(4))
def test_phases_of_any_links_never_help(seed):
    rng = np.random.default_rng(seed)
    network = parse_network(
        ["mi250(1)", "Torus((3, 4))", "dgx1()", "star(6, (4, 4, 2, 2, 1, 1))"][seed]
    )
    drawn = [np.flatnonzero(rng.random(network.num_links) < 0.7) for _ in range(2)]
    for phases in (
        [*drawn, np.arange(network.num_links)],
        [drawn[0], np.arange(network.num_links)],
    ):
        found = phased(network, Collective.ALLGATHER, phases)
        assert check_forest(found.forest()) is None
        assert found.inv_rate >= optimum(network, Collective.ALLGATHER).inv_rate


def test_spreads_go_straight_where_links_of_hosts_bind():
    found = spread(star(4, 3), np.zeros(4, np.int64), np.array([1, 1, 0, 1]), one_way=False)
    assert (found.trees, found.units.tolist()) == (1, [1, 1, 1])
    assert found.loads(8).tolist()
    assert len(found.tree) == 9


@pytest.mark.parametrize("name", ["allgather", "allreduce", "broadcast"])
def test_made_by_a_sketch(name):
    network = parse_network("boxes(3, 2, 6, 2, outer=2)")
    sketch = sketch_on(network, ["rail", "inside"])
    wanted = Collective(name, root=0 if name == "broadcast" else None)
    task = Task(network.topology(), wanted, network=network, sketch=sketch, parts=2)
    made = made_by("forest", task)
    assert verify(made.schedule).witness is None
    assert made.schedule.synchronous_cost().t_b >= made.bound


def test_losses_on_the_command_line(tmp_path, capsys):
    assert main(["optimum", "h100_rail(8)", "--sketch", "rail,inside"]) == 0
    assert "nothing is lost" in capsys.readouterr().out
    asked = ["--collective", "reduce-scatter", "--sketch", "rail,inside"]
    assert main(["optimum", "h100_rail(8)", *asked]) == 0
    assert "8 times as long as without" in capsys.readouterr().out
    assert main(["optimum", "h100_rail(2)", "--sketch", "rail"]) == 2
    assert "no path leads there in these phases" in capsys.readouterr().err
    file = tmp_path / "sketch.yaml"
    file.write_text("phases: [inside, rail]\nparts: 3\n")
    build = ["build", "--network", "a100(2)", "--collective", "allreduce", "--out"]
    assert main([*build, str(tmp_path / "made"), "--sketch", str(file)]) == 0
    assert main(["verify", str(tmp_path / "made")]) == 0
    file.write_text("phases: [inside, rail]\nrelays: none\n")
    assert main([*build, str(tmp_path / "made"), "--sketch", str(file)]) == 2
    assert "no path leads there in these phases without relays" in capsys.readouterr().err


def test_no_link_helps_where_another_cut_is_as_narrow():
    assert helpful_links(optimum(parse_network("h100_rail(4)"), Collective.ALLGATHER)) == []
    assert helpful_links(optimum(star(3, (4, 4, 1)), Collective.ALLGATHER)) != []


@pytest.mark.slow
@pytest.mark.parametrize("text", ["h100_rail(64)", "a100(64)"])
def test_hierarchies_of_hundreds(text):
    network = parse_network(text)
    found = phased_halves(network, Collective.ALLREDUCE, sketch_on(network, ["inside", "rail"]))
    free = [optimum(network, half).inv_rate for half in HALVES]
    assert [half.inv_rate for half in found] == free[::-1]
    assert check_forest(found[0].forest()) is None
