"""Sketches that say who relays, for what copies and adds up: known optima, pairs without a path."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog
from test_exchange import CASES, network_of, random_network

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.network import Network
from ocs_codesign.faces.cli import main
from ocs_codesign.graphs.text import parse_network
from ocs_codesign.schedules.exchange.sketches import Sketch, sketch_on
from ocs_codesign.schedules.forest.building import forests_of
from ocs_codesign.schedules.forest.optimum import optimum
from ocs_codesign.schedules.forest.phases import phased
from ocs_codesign.schedules.registry import Task, made_by
from ocs_codesign.verification.forests import check_forest, check_forests
from ocs_codesign.verification.schedules import check_relays, verify

HALVES = (Collective.ALLGATHER, Collective.REDUCE_SCATTER)
COLLECTIVES = ("allgather", "reduce-scatter", "allreduce", "broadcast", "reduce")
SPINE = "leaf_spine(3, 3, 2, 4, 3)"


def wanted(name: str, root: int = 0) -> Collective:
    return Collective(name, root=root if name in ("broadcast", "reduce") else None)


def inv_rate(network: Network, name: str, phases: list, relays: tuple, root: int = 0) -> Fraction:
    found = phased(network, wanted(name, root), sketch_on(network, phases).phases, relays)
    assert check_forest(found.forest()) is None
    return found.inv_rate


FIXED = [case for case in CASES if case.get("hosts_relay") is False and "matrix" not in case]


@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize("case", FIXED, ids=lambda case: case["name"])
def test_who_copies_nothing_on_sends_all_pairs_as_an_alltoall(case, half):
    """An item is sent to each by its root, so known times of exchanges without relays hold."""
    found = optimum(network_of(case), half, ())
    assert found.inv_rate == Fraction(case["time"])
    assert check_forests(forests_of(found), found.inv_rate) is None


@pytest.mark.parametrize(
    ("text", "name", "phases", "relays", "value"),
    [
        # Everybody sends straight to everybody, a root all of it over each of its links.
        *(("Complete(5)", name, ["all"], (), 1) for name in COLLECTIVES if name != "allreduce"),
        ("star(6, 5)", "broadcast", ["all"], (), 1),
        ("star(6, 5)", "allgather", ["all"], (), 1),
        # Eight units from senders of a width of 4 each: the root alone, or with two or three more.
        *((SPINE, name, ["all"], (), 2) for name in ("broadcast", "reduce")),
        *((SPINE, name, ["all"], (0, 3, 6), Fraction(2, 3)) for name in ("broadcast", "reduce")),
        *((SPINE, name, ["all"], (1, 3, 6), Fraction(1, 2)) for name in ("broadcast", "reduce")),
        # 54 pieces cross leaves over 3 x 6 of them; one of a leaf that copies them takes 27.
        *((SPINE, name, ["all"], (), 3) for name in ("allgather", "reduce-scatter")),
        # One GPU of a box is the way to the other: its link of 50 takes all eight of the box.
        *(
            ("h100_rail(2)", name, phases, (0, 8), Fraction(8, 50))
            for name in ("allgather", "reduce-scatter")
            for phases in (["all"], ["inside", "rail", "inside"])
        ),
        ("h100_rail(2)", "broadcast", ["inside", "rail", "inside"], (0, 8), Fraction(1, 50)),
        ("h100_rail(2)", "reduce", ["inside", "rail", "inside"], (0, 8), Fraction(1, 50)),
        ("h100_rail(2)", "allgather", ["inside", "rail", "inside"], range(16), Fraction(3, 100)),
    ],
)
def test_known_optima_of_relays(text, name, phases, relays, value):
    assert inv_rate(parse_network(text), name, phases, tuple(relays)) == value


def trees_of(network: Network, root: int, relays: set[int]) -> list[tuple[int, ...]]:
    """All spanning trees out of a root, as links, in which other hosts than relays are leaves."""
    into = [
        [
            link
            for link in range(network.num_links)
            if network.head[link] == host and int(network.tail[link]) in relays | {root}
        ]
        for host in range(network.num_hosts)
        if host != root
    ]
    found = []
    for links in itertools.product(*into):
        reached = {root}
        for _ in links:
            reached |= {int(network.head[at]) for at in links if int(network.tail[at]) in reached}
        if len(reached) == network.num_hosts:
            found.append(links)
    return found


def packed_rate(network: Network, relays: set[int]) -> float:
    """The best rate of an allgather by a program with a column for every tree there is."""
    trees = [(root, tree) for root in range(4) for tree in trees_of(network, root, relays)]
    loads = np.zeros((network.num_links, len(trees) + 1))
    rates = np.zeros((4, len(trees) + 1))
    rates[:, -1] = -1
    for column, (root, tree) in enumerate(trees):
        loads[list(tree), column] = 1
        rates[root, column] = 1
    cost = np.append(np.zeros(len(trees)), -1)
    return -linprog(cost, loads, network.bandwidth, rates, np.zeros(4), method="highs").fun


@pytest.mark.parametrize("seed", range(12))
def test_no_packing_of_trees_does_better(seed):
    rng = np.random.default_rng(seed)
    pairs = [pair for pair in itertools.permutations(range(4), 2) if rng.random() < 0.8]
    pairs += [(host, (host + 1) % 4) for host in range(4) if (host, (host + 1) % 4) not in pairs]
    network = Network(4, 4, *zip(*pairs, strict=True), rng.integers(1, 5, len(pairs)))
    relays = {0, 1, 2, 3} - {int(rng.integers(4)), int(rng.integers(4))}
    best = packed_rate(network, relays)
    turned = Network(4, 4, network.head, network.tail, network.bandwidth)
    for half, graph in zip(HALVES, (network, turned), strict=True):
        if best < 1e-9:
            with pytest.raises(ValueError, match="cannot be reached"):
                optimum(graph, half, relays)
            continue
        found = optimum(graph, half, relays)
        assert float(1 / found.inv_rate) == pytest.approx(best)
        assert check_forests(forests_of(found), found.inv_rate) is None
        every = [np.arange(graph.num_links)]
        assert phased(graph, half, every, tuple(relays)).inv_rate == found.inv_rate


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("seed", range(6))
def test_schedules_keep_to_relays_in_any_phases(name, seed):
    """On random networks: who is no relay sends only what is its own, or nothing is made."""
    network, rng = random_network(seed), np.random.default_rng(seed)
    relays = tuple(np.flatnonzero(rng.random(network.num_hosts) < 0.4).tolist())
    phases = tuple(np.flatnonzero(rng.random(network.num_links) < 0.9) for _ in range(1 + seed % 3))
    sketch = Sketch(("some",) * len(phases), phases, relays)
    task = Task(network.topology(), wanted(name), network=network, sketch=sketch, parts=2)
    try:
        made = made_by("forest", task)
    except ValueError as error:
        assert "no path leads there in these phases" in str(error)  # noqa: PT017
        return
    assert verify(made.schedule).witness is None
    assert check_relays(made.schedule, relays) is None


@pytest.mark.parametrize("name", [*COLLECTIVES, "alltoall"])
def test_a_host_that_passes_on_is_found(name):
    network = parse_network("Torus((3, 3))")
    maker = "flow" if name == "alltoall" else "forest"
    relays = (0, 1, 2, 3, 6)
    sketch = sketch_on(network, ["all"])
    task = Task(network.topology(), wanted(name), network=network, sketch=sketch, parts=2)
    free = made_by(maker, task).schedule
    assert check_relays(free, range(9)) is None
    witness = check_relays(free, relays)
    assert witness is not None
    assert witness.node not in (*relays, witness.root)
    assert "no relay" in str(witness)
    told = Task(
        *(network.topology(), wanted(name)),
        network=network,
        sketch=sketch._replace(relays=relays),
        parts=2,
    )
    assert check_relays(made_by(maker, told).schedule, relays) is None


def test_pairs_without_a_path_are_named():
    ring = parse_network("BiRing(2, 5)")
    every = sketch_on(ring, ["all"]).phases
    for name, text in (
        ("allgather", "h2 has something for h0"),
        ("reduce-scatter", "h0 has something for h2"),
        ("broadcast", "h0 has something for h2"),
        ("reduce", "h2 has something for h0"),
    ):
        rule = f"{text}, and no path leads there in these phases without relays"
        with pytest.raises(ValueError, match=rule):
            phased(ring, wanted(name), every, ())
    # Those of one side pass on: the others get what is for them, and send what is their own.
    assert inv_rate(ring, "broadcast", ["all"], (1, 4)) == Fraction(1, 1)
    with pytest.raises(ValueError, match="relays are hosts, 0 to 4"):
        phased(ring, "allgather", every, (5,))
    with pytest.raises(ValueError, match="hosts that do not relay times"):
        optimum(parse_network("h100_rail(32)"), "allgather", ())


def test_relays_of_sketch_files(tmp_path, capsys):
    file, made = tmp_path / "sketch.yaml", tmp_path / "made"
    file.write_text("phases: [all]\nrelays: [h0, h3, h6]\n")
    asked = [SPINE, "-c", "reduce-scatter", "--sketch", str(file)]
    assert main(["optimum", *asked, "--json", str(tmp_path / "told.json")]) == 0
    assert "h0, h3, h6; others send what is their own" in capsys.readouterr().out
    told = json.loads((tmp_path / "told.json").read_bytes())["sketch"]
    assert told == {
        "collective": "reduce-scatter",
        "phases": ["all"],
        "relays": "h0, h3, h6",
        "free": "2",
        "loss": "11/10",
    }
    for name in (*COLLECTIVES, "alltoall"):
        build = ["build", "--network", SPINE, "-c", name, "--sketch", str(file), "-q"]
        assert main([*build, "--out", str(made / name)]) == 0, name
        assert main(["verify", str(made / name), "-q"]) == 0
    file.write_text("phases: [inside, rail, inside]\nrelays: none\n")
    capsys.readouterr()
    for name in ("allgather", "alltoall"):
        build = ["build", "--network", "h100_rail(2)", "-c", name, "--sketch", str(file)]
        assert main([*build, "--out", str(made / "none")]) == 2
        told = capsys.readouterr().err
        assert "no path leads there in these phases without relays" in told
