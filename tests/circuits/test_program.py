"""Programs of circuits that are made: known answers, bounds, independent judges."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from program_oracle import is_valid_program
from replay_oracle import runs_correctly
from scipy.optimize import linprog
from strategies import without_symmetry

from ocs_codesign.circuits.programs.designs import build_sequence
from ocs_codesign.circuits.programs.wiring import wire
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.topology import Topology
from ocs_codesign.graphs.text import parse


def circulants(num_nodes, *offsets):
    return [parse(f"DirectedCirculant({num_nodes}, {given})") for given in offsets]


def changed_circuits(design):
    return [change.num_circuits for change in design.verdict.changes if change.step > 1]


# Sequences of circulants, all-to-all.


@pytest.mark.parametrize(
    ("num_nodes", "offsets", "units"),
    [
        (8, ["(1,)"], 28),
        (8, ["(1,)", "(3,)"], 14),
        (8, ["(1,)", "(2,)", "(5,)"], 11),
        (8, ["(1,)", "(2,)", "(3,)", "(4,)"], 10),
        (8, [f"({offset},)" for offset in range(1, 8)], 7),
        (8, ["(1, 2)", "(3, 4)", "(5, 6)", "(7, 7)"], Fraction(7, 2)),
    ],
)
def test_known_transmission_times_of_circulant_sequences(num_nodes, offsets, units):
    """The optimum over phases of any duration, met by whole chunks and whole steps."""
    recipes = circulants(num_nodes, *offsets)
    design = build_sequence(recipes, steps_each=8 if len(recipes) < 7 else 1)
    assert sum(design.verdict.max_loads) == units
    assert design.cost.t_b == design.bound
    assert design.verdict.num_configurations == len(recipes)
    assert runs_correctly(design.schedule)


def test_steps_in_which_nothing_is_sent_are_left_out():
    design = build_sequence(circulants(5, "(1,)", "(2,)", "(3,)", "(4,)"), steps_each=3)
    assert design.cost == Cost(4, Fraction(4, 5))
    assert design.recipe_of_step == (0, 1, 2, 3)


def least_sum_of_loads(topologies, used):
    """The time-stepped program, one flow a source on all links, solved by scipy."""
    nodes, steps = topologies[0].num_nodes, len(used)
    columns, loads = [], []
    for source in range(nodes):
        for step, number in enumerate(used, 1):
            topology = topologies[number]
            links = zip(topology.tail.tolist(), topology.head.tolist(), strict=True)
            moves = [(tail, head, (step, link)) for link, (tail, head) in enumerate(links)]
            waits = [(node, node, None) for node in range(nodes)]
            for tail, head, load in moves + waits:
                columns.append((source, step, tail, head))
                loads.append(load)
    count = len(columns)
    index = {key: row for row, key in enumerate(np.ndindex(nodes, steps + 1, nodes))}
    equal = np.zeros((len(index), count + steps))
    given = np.zeros(len(index))
    for column, (source, step, tail, head) in enumerate(columns):
        equal[index[source, step - 1, tail], column] -= 1
        equal[index[source, step, head], column] += 1
    for source in range(nodes):
        given[index[source, 0, source]] = -nodes
        for node in range(nodes):
            given[index[source, steps, node]] += 1
    keys = sorted({load for load in loads if load is not None})
    row = {key: number for number, key in enumerate(keys)}
    upper = np.zeros((len(keys), count + steps))
    for column, load in enumerate(loads):
        if load is not None:
            upper[row[load], column] = 1
    for key, number in row.items():
        upper[number, count + key[0] - 1] = -1
    cost = np.append(np.zeros(count), np.ones(steps))
    found = linprog(cost, upper, np.zeros(len(keys)), equal, given, method="highs")
    return found.fun if found.success else None


@given(st.data())
@settings(max_examples=40)
def test_sequences_of_random_topologies(data):
    """Bound and schedule against an LP without symmetry, sources grouped or anything shared."""
    nodes, degree = data.draw(st.integers(2, 5)), data.draw(st.integers(1, 2))
    row = st.permutations(range(nodes))
    topologies = []
    for _ in range(data.draw(st.integers(1, 3))):
        heads = [data.draw(row) for _ in range(degree)]
        tail = list(range(nodes)) * degree
        topologies.append(Topology(nodes, tail, [head for one in heads for head in one]))
    sizes = {"min_size": len(topologies), "max_size": len(topologies)}
    steps = data.draw(st.lists(st.integers(1, 3), **sizes))
    used = [number for number, count in enumerate(steps) for _ in range(count)]
    least = least_sum_of_loads(topologies, used)
    if least is None:
        with pytest.raises(ValueError, match="reach"):
            build_sequence(topologies, steps_each=steps)
        return
    design = build_sequence(topologies, steps_each=steps)
    assert is_valid_program(design.program, design.schedule)
    assert runs_correctly(design.schedule)
    assert float(design.bound) * nodes == pytest.approx(least * design.program.node_speed())
    assert design.bound <= design.cost.t_b
    assert float(design.cost.t_b) <= float(design.bound) * 1.02


def test_symmetry_changes_nothing_but_the_size():
    recipes = circulants(12, "(1, 3)", "(2, 5)")
    plain = [without_symmetry(recipe.topology()) for recipe in recipes]
    symmetric = build_sequence(recipes, steps_each=3)
    assert build_sequence(plain, steps_each=3).bound == symmetric.bound


def test_one_group_is_not_taken_for_another():
    """Two Cayley graphs of unlike groups have one orbit each, but none together."""
    recipes = [parse("DirectedCirculant(6, (1, 5))")]
    recipes += [parse("Cayley(Dihedral(3), ((1, 0), (0, 1)))")]
    together = build_sequence(recipes, steps_each=2)
    plain = [without_symmetry(recipe.topology()) for recipe in recipes]
    assert together.bound == build_sequence(plain, steps_each=2).bound
    assert runs_correctly(together.schedule)


def test_few_chunks_are_a_choice():
    recipes = circulants(9, "(1, 3)", "(2, 4)")
    fine, coarse = (build_sequence(recipes, steps_each=2, max_chunks=most) for most in (720, 1))
    assert coarse.schedule.chunks_per_unit == 1
    assert coarse.bound == fine.bound <= fine.cost.t_b <= coarse.cost.t_b


# Circuits that stay.


def test_circuits_that_are_wanted_again_stay_up():
    design = build_sequence(circulants(8, "(1, 3)", "(3, 5)"))
    assert changed_circuits(design) == [8]
    shared = design.program.plane[design.program.topology.num_links - 8 :]
    assert len(set(shared.tolist())) == 1


def test_the_same_recipe_twice_is_no_change():
    twice = build_sequence(circulants(8, "(1, 3)", "(1, 3)"), steps_each=2)
    assert changed_circuits(twice) == []
    assert len(twice.recipes) == 1


def test_a_configuration_may_come_back():
    design = build_sequence(circulants(9, "(1,)", "(3,)"), "allreduce", 2)
    assert design.recipe_of_step == (0, 0, 1, 1, 1, 1, 0, 0)
    assert design.verdict.num_configurations == 3
    assert design.program.topology.num_links == 18
    assert len(design.program.link) == 27


# Refusals.


@pytest.mark.parametrize(
    ("texts", "options", "rule"),
    [
        ([], {}, "a sequence needs at least one configuration"),
        (["UniRing(1, 4)", "UniRing(1, 5)"], {}, "configuration 1 has 5 nodes of degree 1"),
        (["UniRing(1, 4)", "UniRing(2, 4)"], {}, "the first 4 of degree 1: circuits change"),
        (["DirectedCirculant(6, (2,))"], {}, "out of node .*, however many steps"),
        (["UniRing(1, 6)"], {"steps_each": 3}, "out of node .* in the 3 steps"),
        (["UniRing(1, 6)"], {"steps_each": 0}, "0 steps: a configuration is up for at least one"),
        (["UniRing(1, 6)"], {"steps_each": [2, 2]}, "2 numbers of steps for 1 configurations"),
        (["UniRing(1, 6)"], {"steps_each": 10**6}, "1,000,000 steps: a sequence has at most"),
        (["UniRing(1, 6)"], {"max_chunks": 0}, "max_chunks is 0"),
        (["UniRing(1, 6)"], {"collective": "gossip"}, "unknown collective 'gossip'"),
        (["UniRing(1, 6)"], {"collective": "allgather", "steps_each": 2}, "in the 2 steps"),
    ],
)
def test_sequences_that_cannot_be(texts, options, rule):
    with pytest.raises(ValueError, match=rule):
        build_sequence([parse(text) for text in texts], **options)


def test_ports_of_unlike_speed_are_refused():
    fast = Topology(2, [0, 1], [1, 0], [1, 2])
    with pytest.raises(ValueError, match="configuration 1 differ in speed"):
        build_sequence([Topology(2, [0, 1], [1, 0]), fast])


@pytest.mark.parametrize(
    ("leads_to", "rule"), [(3, "a node, 0 to 2"), (-2, "or is dark: -1"), (-1, "one circuit")]
)
def test_ports_that_lead_nowhere_are_refused(leads_to, rule):
    with pytest.raises(ValueError, match=rule):
        wire(np.full((2, 1, 3), leads_to, dtype=np.int32))


def test_a_program_that_does_not_verify_is_not_handed_out(monkeypatch):
    from ocs_codesign.circuits.programs import wiring

    honest = wiring.wire

    def without_pauses(targets):
        program, link = honest(targets)
        return type(program)(program.topology, *program.columns()[:-1], []), link

    monkeypatch.setattr(wiring, "wire", without_pauses)
    with pytest.raises(RuntimeError, match=r"program made by eager fails: step .* without a dark"):
        build_sequence(circulants(8, "(1,)", "(3,)"), "allgather")
