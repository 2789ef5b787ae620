"""Slices of pods: all that is known of them, exactly or inside its interval."""

from __future__ import annotations

import json
import re
from fractions import Fraction

import numpy as np
import pytest
from folders import ROOT

from ocs_codesign.core.lp import Options
from ocs_codesign.graphs.families.pods import (
    PodLattice,
    PodSlice,
    cube_of,
    hermite,
    joined_cubes,
    moves,
)
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.paths.certificates import price_bound
from ocs_codesign.schedules.paths.throughput import throughput
from ocs_codesign.search.pods.bound import pod_bound
from ocs_codesign.search.pods.cost import pod_cost
from ocs_codesign.search.pods.design import best_lattices, best_lifts, known_costs, known_slices
from ocs_codesign.search.pods.lattices import lattices
from ocs_codesign.search.pods.lifts import annealed, lift_families
from ocs_codesign.search.pods.orbits import pod_quotient, turns

CUBE = (4, 4, 4)
CASES = json.loads((ROOT / "tests" / "data" / "pods.json").read_text(encoding="utf-8"))


def cases(*kinds):
    """Cases of these kinds; slices of many cubes take their time."""
    return [
        pytest.param(
            case,
            id=case["name"],
            marks=[pytest.mark.slow] * (case["kind"] != "cover_bound" and case["cubes"] > 4),
        )
        for case in CASES
        if case["kind"] in kinds
    ]


def tuples(value):
    return tuple(map(tuples, value)) if isinstance(value, list) else value


def slice_of_case(case):
    if "permutations" in case:
        return PodSlice(CUBE, tuples(case["permutations"]))
    return PodLattice(CUBE, tuples(case["rows"]))


def lift_of(group, voltages):
    """Cubes of 2 x 2 chips that a group numbers, joined to their products with voltages."""
    cubes = np.arange(group.order)
    rows = [[group.right_multiply(cubes, voltage).tolist() for voltage in row] for row in voltages]
    return PodSlice((2, 2), tuples(rows))


@pytest.mark.parametrize("case", cases("lattice", "best_lattice"))
def test_lattices_are_exact(case):
    slice_ = slice_of_case(case)
    found = pod_cost(CUBE, slice_.circuits())
    assert found.value == found.bound == Fraction(case["U"])
    assert found.t_b == 6 * found.value / slice_.num_nodes
    assert found.steps == found.diameter == case["diameter"]
    if "distance_sum" in case:
        assert slice_.topology().distances()[0].sum() == case["distance_sum"]


@pytest.mark.parametrize("case", cases("lattice")[:12:3] + cases("design")[:1])
def test_allgather_is_that_of_bfb(case):
    slice_ = slice_of_case(case)
    found = pod_cost(CUBE, slice_.circuits(), "allgather")
    known = case["allgather_bfb"]
    assert (found.steps, found.t_b) == (known["steps"], Fraction(known["t_b"]))
    assert found.bound_all == Fraction(slice_.num_nodes - 1, 6)


@pytest.mark.slow
@pytest.mark.parametrize("case", cases("design"))
def test_designs_are_exact(case):
    """The value of a routing is the bound of prices, as rationals, known to be so or between."""
    slice_ = slice_of_case(case)
    assert slice_.topology().distances()[:64].sum() == case["distance_sum_64"]
    if isinstance(case["U"], str):
        found = pod_cost(CUBE, slice_.circuits())
        assert found.value == found.bound == Fraction(case["U"])
        assert abs(float(found.value) - case["U_decimal"]) < 1e-12 * case["U_decimal"]
    else:
        least, most = case["U"]
        found = pod_cost(CUBE, slice_.circuits(), options=Options(relative_gap=1e-4))
        assert least * (1 - 1e-9) <= found.value <= found.bound * (1 + Fraction(1, 10**4))
        assert found.bound <= most * (1 + 1e-9)
    assert found.bound_all <= found.value
    assert found.diameter == case["diameter"]


@pytest.mark.parametrize("case", [one for one in cases("design") if "random 4" in one.id])
def test_symmetries_that_fix_chips_change_nothing(case):
    circuits = slice_of_case(case).circuits()
    whole = pod_quotient(CUBE, circuits)
    assert whole.num_sources < 64
    assert whole.weights().sum() == 256
    assert whole.speed.sum() == whole.topology.num_links
    found = pod_cost(CUBE, circuits)
    least, most = (case["U"],) * 2 if isinstance(case["U"], str) else case["U"]
    assert found.value == found.bound
    assert Fraction(least) * (1 - Fraction(1, 10**9)) <= found.value
    assert found.value <= Fraction(most) * (1 + Fraction(1, 10**9))


def test_a_quotient_takes_as_long_as_the_whole_graph():
    """Against the program without any symmetry, on cubes that are small enough for it."""
    for recipe in (
        PodLattice((2, 2), ((1, 1), (0, 3))),
        lift_of(parse("Cayley(Dihedral(3), ((1, 0),))").group, ((1, 2), (0, 4))),
        PodSlice((2, 3), (((1, 2, 0), (0, 1, 2), (1, 0, 2)), ((0, 1, 2), (2, 0, 1)))),
    ):
        topology = recipe.topology()
        plain = type(topology)(topology.num_nodes, topology.tail, topology.head)
        found = pod_cost(recipe.cube, recipe.circuits())
        assert found.t_b == throughput(plain).time
        assert found.bound_all <= found.value


@pytest.mark.parametrize("case", cases("best_lattice"))
def test_best_lattices(case):
    best, *_ = best_lattices(CUBE, case["cubes"])
    assert best.cost.value == best.cost.bound == Fraction(case["U"])
    assert len(lattices(CUBE, case["cubes"])) == case["classes"]


@pytest.mark.slow
def test_lifts_are_alike_under_what_their_family_is():
    rng = np.random.default_rng(3)
    for family in lift_families(CUBE, 4)[:9]:
        hops, voltages = annealed(family, rng)
        lift = family.lift(voltages)
        assert lift.topology().distances()[:64].sum() == hops
        whole = pod_quotient(CUBE, lift.circuits())
        assert len(np.unique(family.member)) >= 48
        assert whole.num_orbits <= 192


@pytest.mark.slow
def test_known_lifts_are_those_that_are_known():
    costs = known_costs()
    for cubes in (2, 3, 4, 5, 6, 7, 8, 12, 16, 32, 64):
        (known,) = known_slices(CUBE, cubes)
        assert known.num_cubes == cubes
        whole = pod_quotient(CUBE, known.circuits())
        least, _ = price_bound(whole, np.ones(whole.num_orbits, dtype=np.int64))
        assert pod_bound(CUBE, cubes).least <= least * known.num_nodes / 6 <= costs[cubes]


def test_costs_of_known_lifts_are_at_most_those_that_others_have():
    found = known_costs()
    most = {2: "3407/48", 3: "1357/12", 4: "2529/16", 6: "12271/48", 8: "362.1", 16: "828.2"}
    most |= {12: "590.9", 32: "1926", 64: "4747"}
    assert all(found[cubes] <= Fraction(value) for cubes, value in most.items())
    designs = {str(case["U"]): case for case in CASES if case["kind"] == "design"}
    for cubes in (2, 3, 6):
        (known,) = known_slices(CUBE, cubes)
        assert known.permutations == tuples(designs[str(found[cubes])]["permutations"])


@pytest.mark.slow
def test_lifts_are_better_than_any_lattice():
    best, *_ = best_lifts(CUBE, 2, fresh=True, draws=30)
    assert best.cost.bound_all <= best.cost.bound <= best.cost.value < Fraction(220, 3)
    again = pod_cost(CUBE, best.slice.circuits())
    assert again.bound <= best.cost.value


@pytest.mark.parametrize("case", cases("cover_bound"))
def test_bound_of_all_permutations(case):
    found = pod_bound(CUBE, case["cubes"])
    assert found == (Fraction(case["U_at_least"]), case["diameter_at_least"])


@pytest.mark.slow
def test_nothing_is_below_the_bound_of_all_permutations():
    rng = np.random.default_rng(1)
    for _ in range(20):
        cubes = int(rng.integers(2, 6))
        circuits = np.stack([rng.permutation(cubes) for _ in range(4)])
        if len(joined_cubes(circuits)) == 1:
            assert pod_bound((2, 2), cubes).least <= pod_cost((2, 2), circuits).bound


@pytest.mark.parametrize("case", cases("refused"))
def test_wrong_permutations_are_refused_by_name(case):
    with pytest.raises(ValueError, match=r"dimension 2, position 5|not connected") as refused:
        slice_of_case(case)
    assert case["names"] in str(refused.value)


def test_moves_are_those_of_the_group():
    lift = lift_of(parse("Cayley(Dihedral(3), ((1, 0),))").group, ((1, 2), (0, 4)))
    circuits = lift.circuits()
    found = moves(circuits)
    assert sorted(found[:, 0].tolist()) == list(range(6))
    for row in found:
        assert (row[circuits] == circuits[:, row]).all()


def test_turns_of_a_cube():
    for turn in turns(CUBE):
        assert sorted(turn.chips) == list(range(64))
        inner = cube_of(CUBE).inner
        moved = np.where(inner >= 0, turn.chips[inner], -1)
        assert (inner[turn.chips][:, turn.directions] == moved).all()
        switches = np.where(turn.switches < 0, ~turn.switches, turn.switches)
        assert sorted(switches) == list(range(48))


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("PodLattice((4, 4, 4), ((1, 0, 0), (0, 1, 0), (0, 0, 0)))", "do not repeat"),
        ("PodLattice((4, 4, 4), ((1, 0), (0, 1)))", "3 of 3 integers"),
        ("PodLattice((1, 4), ((1, 0), (0, 1)))", "at least 2"),
        ("PodSlice((2, 2), (((1, 0), (1, 0)), ((0, 1),)))", "of [2, 2] lists"),
        ("PodSlice((2, 2), (((1, 2), (1, 0)), ((0, 1), (0, 1))))", "cubes are 0 to 1"),
    ],
)
def test_bad_slices(text, rule):
    with pytest.raises(ValueError, match=re.escape(rule)):
        parse(text)


def test_rows_of_one_lattice_are_one_recipe():
    assert hermite(((2, 0, 0), (1, 1, 0), (1, 0, 1)), 3) == ((1, 0, 1), (0, 1, 1), (0, 0, 2))
    one = PodLattice(CUBE, ((-1, 0, -1), (0, 1, 1), (1, 1, 0)))
    assert repr(one) == "PodLattice((4, 4, 4), ((1, 0, 1), (0, 1, 1), (0, 0, 2)))"
