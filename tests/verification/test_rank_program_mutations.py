"""Spoiled programs of ranks: none that does harm is accepted, none that does none is refused."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from lowering_samples import small_plans
from rank_program_mutations import MUTATIONS, does_harm, mutant
from test_rank_programs import gets_of_two, puts_round_the_ring

from ocs_codesign.interop.lowering.lowering import lower
from ocs_codesign.verification import rank_order as rank_program_cells
from ocs_codesign.verification.rank_programs import check_program

DEPTHS = (None, 1, 2)


@pytest.fixture(scope="module")
def programs():
    one_sided = [puts_round_the_ring(4), gets_of_two()]
    return [lower(plan, in_place=in_place) for plan, in_place in small_plans()] + one_sided


def spoiled(programs, names, number, seed):
    """So many mutants, each with a depth of channels and a number to run it by."""
    choose = random.Random(seed)
    made = 0
    while made < number:
        program = mutant(choose.choice(programs), choose.choice(names), choose)
        if program is not None:
            made += 1
            yield program, choose.choice(DEPTHS), choose.randrange(10**6)


def test_programs_that_are_right_do_no_harm(programs):
    for program in programs:
        for depth in DEPTHS:
            assert check_program(program, fifo_depth=depth).ok
            assert not does_harm(program, 1, depth)


@pytest.mark.parametrize("name", MUTATIONS)
def test_what_does_harm_is_found_and_nothing_else(name, programs, monkeypatch):
    """Whether slots are taken one by one or in cells."""
    for program, depth, seed in spoiled(programs, [name], 25, f"few {name}"):
        monkeypatch.setattr(rank_program_cells, "LARGE", 8 * (seed % 2))
        verdict = check_program(program, fifo_depth=depth)
        assert verdict.ok is not does_harm(program, seed, depth), str(verdict.witness)


@pytest.mark.slow
def test_thousands(programs, monkeypatch):
    """Whether what is refused does harm is asked of a tenth; what is accepted must do none."""
    found: Counter = Counter()
    for program, depth, seed in spoiled(programs, list(MUTATIONS), 4_000, "many"):
        monkeypatch.setattr(rank_program_cells, "LARGE", 8 * (seed % 2))
        verdict = check_program(program, fifo_depth=depth)
        found[verdict.ok] += 1
        if verdict.ok or seed % 10 == 0:
            assert verdict.ok is not does_harm(program, seed, depth), str(verdict.witness)
    assert found[False] > 3_333
    assert found[True] > 100
