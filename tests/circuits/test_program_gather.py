"""Gathering over sequences of configurations: least loads, BFB, recursive doubling."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replay_oracle import runs_correctly
from strategies import regular_multigraphs

from ocs_codesign.circuits.programs.designs import build_sequence
from ocs_codesign.core.collective import GATHERING
from ocs_codesign.core.cost import Cost
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.design import build


@pytest.mark.parametrize("collective", GATHERING)
@pytest.mark.parametrize(
    "text", ["GeneralizedKautz(2, 9)", "Line(Complete(3))", "DeBruijn(2, 3)", "UniRing(1, 6)"]
)
def test_a_single_configuration_is_bfb(text, collective):
    recipe = parse(text)
    design = build_sequence([recipe], collective)
    assert design.cost == build(recipe, collective, "bfb").cost
    assert design.verdict.num_configurations == 1


def least_loads(topologies, used):
    """Largest loads when all take what they can: Hall's condition over all sets of neighbours."""
    nodes = topologies[0].num_nodes
    held = [{node} for node in range(nodes)]
    loads = []
    for number in used:
        topology = topologies[number]
        before = [set(has) for has in held]
        load = Fraction(0)
        for node in range(nodes):
            links = [
                int(topology.tail[link])
                for link in range(topology.num_links)
                if topology.head[link] == node != topology.tail[link]
            ]
            new = set().union(*(before[tail] for tail in links)) - before[node]
            for size in range(1, len(set(links)) + 1):
                for chosen in combinations(sorted(set(links)), size):
                    confined = sum(
                        all(tail in chosen for tail in links if shard in before[tail])
                        for shard in new
                    )
                    load = max(load, Fraction(confined, sum(tail in chosen for tail in links)))
            held[node] |= new
        loads.append(load)
    return loads if all(len(has) == nodes for has in held) else None


@pytest.mark.slow
@given(st.data())
@settings(max_examples=60)
def test_gathering_over_random_sequences(data):
    nodes = data.draw(st.integers(2, 6))
    degree = data.draw(st.integers(1, 3))
    graph = regular_multigraphs(6, 3).filter(lambda t: (t.num_nodes, t.degree) == (nodes, degree))
    topologies = data.draw(st.lists(graph, min_size=1, max_size=3))
    used = data.draw(st.lists(st.integers(0, len(topologies) - 1), min_size=1, max_size=6))
    loads = least_loads(topologies, used)
    chosen = [topologies[number] for number in used]
    if loads is None:
        with pytest.raises(ValueError, match="out of node"):
            build_sequence(chosen, "allgather", 1)
        return
    design = build_sequence(chosen, "allgather", 1)
    assert design.verdict.max_loads == tuple(load for load in loads if load)
    assert runs_correctly(design.schedule)
    turned = [topology.transpose() for topology in chosen[::-1]]
    mirrored = build_sequence(turned, "reduce-scatter", 1)
    assert mirrored.verdict.max_loads == design.verdict.max_loads[::-1]
    assert runs_correctly(mirrored.schedule)


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
def test_pairings_are_recursive_doubling(dimensions):
    group = "DirectProduct(" + ", ".join(["Cyclic(2)"] * max(2, dimensions)) + ")"
    units = np.eye(max(2, dimensions), dtype=int).tolist()
    recipes = [parse(f"Cayley({group}, ({tuple(unit)},))") for unit in units]
    num_nodes = 2 ** len(units)
    design = build_sequence(recipes, "allreduce", 1)
    assert design.cost == Cost(2 * len(units), Fraction(2 * (num_nodes - 1), num_nodes))
    assert design.recipe_of_step == (*range(len(units)), *reversed(range(len(units))))
