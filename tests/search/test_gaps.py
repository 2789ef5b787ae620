"""Gaps to the bound: exact, by number of steps, and how they are shown."""

from __future__ import annotations

from fractions import Fraction

import pytest
from test_sweep import run

from ocs_codesign.core.bounds import fewest_steps, least_t_b
from ocs_codesign.faces.cli import main
from ocs_codesign.schedules.design import Question, measure
from ocs_codesign.search.catalogue.entry import Provenance, as_entry
from ocs_codesign.search.catalogue.store import Catalogue
from ocs_codesign.search.gaps import (
    NUM_OFFSETS,
    Gap,
    GapLine,
    gap_between,
    is_above,
    largest_first,
    shares_of,
)


def entry(recipe):
    return as_entry(measure(recipe, "allreduce"))


def test_the_excess_is_that_of_the_best_within_as_many_steps():
    quick, even = entry("GeneralizedKautz(3, 12)"), entry("DirectedCirculant(12, (1, 2, 5))")
    gap = gap_between(Question(12, 3), [even, quick])
    assert gap.fewest == quick.allgather.steps == fewest_steps(12, 3)
    assert gap.excess == (Fraction(1, 11), 0, 0, 0, 0)
    assert gap.size == 0
    alone = gap_between(Question(12, 3), [even])
    assert alone.excess == (None, 0, 0, 0, 0)


def test_every_excess_is_against_the_bound_of_that_many_steps():
    question, one = Question(21, 2), entry("GeneralizedKautz(2, 21)")
    gap = gap_between(question, [one])
    for offset, over in enumerate(gap.excess):
        steps = gap.fewest + offset
        least = least_t_b(21, 2, steps)
        expected = one.allgather.t_b / least - 1 if one.allgather.steps <= steps else None
        assert over == expected
    assert len(gap.excess) == NUM_OFFSETS


def test_the_size_of_a_gap_leaves_the_fewest_steps_out():
    question = Question(21, 2)
    assert Gap(question, 4, (None, Fraction(1, 2), Fraction(0))).size == Fraction(1, 4)
    assert Gap(question, 4, (Fraction(0), None, Fraction(3))).size == 1


def test_shares_and_order():
    gaps = [
        Gap(Question(nodes, 2), 4, (None, Fraction(nodes, 1000)))
        for nodes in (10, 40, 41, 120, 300, 301)
    ]
    fewest, later = shares_of(gaps)
    assert (fewest.with_design, fewest.mean, fewest.largest) == (0, None, None)
    assert (later.with_design, later.largest) == (1, Fraction(301, 1000))
    assert later.mean == Fraction(812, 6000)
    shares = (Fraction(number, 6) for number in (1, 2, 3, 3, 4, 4, 5))
    assert later.within == tuple(shares)
    assert [gap.question.num_nodes for gap in largest_first(gaps)] == [301, 300, 120, 41, 40, 10]


def test_degrees_and_kinds_of_links_are_apart():
    gaps = [
        Gap(Question(9, degree, both), 2, (Fraction(0), Fraction(0)))
        for degree in (3, 2)
        for both in (True, False)
    ]
    kinds = [(one.bidirectional, one.degree, one.num_sizes) for one in shares_of(gaps)[::2]]
    assert kinds == [(False, 2, 1), (False, 3, 1), (True, 2, 1), (True, 3, 1)]


def test_command(capsys, tmp_path):
    ask = ("catalogue", "gaps", "--nodes", "65-70", "--degree", "2-3", "--links", "both")
    picture = tmp_path / "map.svg"
    code, value = run(capsys, *ask, "--plot", picture)
    assert code == 0
    assert picture.read_bytes().startswith(b"<?xml")
    assert len(value["shares"]) == 4 * NUM_OFFSETS
    listed = [Fraction(one["gap"]) for one in value["sizes"]]
    assert listed == sorted(listed, reverse=True)
    with Catalogue() as store:
        for one in value["sizes"]:
            question = Question(one["nodes"], one["degree"], one["bidirectional"])
            gap = gap_between(question, store.entries(question))
            assert one["excess"] == [None if x is None else str(x) for x in gap.excess]
    first = picture.read_bytes()
    assert main([*ask, "--plot", str(picture)]) == 0
    out = capsys.readouterr().out
    assert picture.read_bytes() == first
    assert out.count("fewest") >= 4
    assert "Largest gaps" in out


def test_lines_are_exact_and_any_counts():
    gap = Gap(Question(21, 2), 4, (None, Fraction(1, 5), Fraction(1, 25)))
    assert not is_above(gap, [])
    assert not is_above(gap, [GapLine(1, Fraction(1, 5)), GapLine(2, Fraction(1, 25))])
    assert is_above(gap, [GapLine(1, Fraction(1, 5)), GapLine(2, Fraction(1, 26))])
    assert is_above(gap, [GapLine(0, Fraction(10**9))])  # nothing needs so few steps
    for offset, most in ((-1, 0), (NUM_OFFSETS, 0), (1, Fraction(-1, 9))):
        with pytest.raises(ValueError, match=r"above the fewest|below the bound"):
            GapLine(offset, Fraction(most))


def test_sizes_above_a_line_are_listed(capsys):
    ask = ("catalogue", "gaps", "--nodes", "257-290", "--degree", "4")
    _, whole = run(capsys, *ask)
    code, value = run(capsys, *ask, "--above", "2:4.5", "--above", "1:8")
    assert code == 0
    assert value["shares"] == whole["shares"]
    assert value["above"][0] == {"steps_above_fewest": 2, "excess": "9/200"}
    expected = [
        one
        for one in whole["sizes"]
        if Fraction(one["excess"][2]) > Fraction(9, 200)
        or Fraction(one["excess"][1]) > Fraction(8, 100)
    ]
    assert 0 < len(expected) < len(whole["sizes"])
    assert value["sizes"] == expected
    assert main([*ask, "--above", "2:4.5", "--top", "1"]) == 0
    assert "further above the bound than 4.5 % at +2." in capsys.readouterr().out


@pytest.mark.parametrize("text", ["2", "2:", ":4", "5:4", "-1:4", "1:-4", "1:nan", "1:1e9", "x:y"])
def test_what_is_no_line(text, capsys):
    assert main(["catalogue", "gaps", "--above", text]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert text in error


def test_nothing_there_is_said(tmp_path, capsys):
    path = tmp_path / "c.sqlite"
    with Catalogue(path, writable=True) as store:
        store.record(Question(12, 3), [entry("Kautz(3, 1)")][:0], Provenance("t", "0", 1, 0.0))
    for more in (["--nodes", "12-20"], ["--nodes", "9-8"], ["--top", "-1"]):
        assert main(["catalogue", "gaps", "--catalogue", str(path), *more]) == 2
        assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.slow
def test_the_shipped_catalogue_is_near_the_bound_at_every_size(capsys):
    """What improving it has reached, at N of 257 to 1024: a share of sizes within a percentage."""
    code, value = run(capsys, "catalogue", "gaps", "--degree", "2-8")
    assert code == 0
    within = {
        (one["degree"], one["steps_above_fewest"]): dict(
            zip(value["thresholds"], map(Fraction, one["within"]), strict=True)
        )
        for one in value["shares"]
    }
    for degree, offset, most, share in (
        (4, 1, "2/25", 0.9),
        (4, 2, "1/25", 1),
        (3, 2, "3/25", 0.9),
        (3, 3, "7/100", 0.9),
        (2, 2, "3/10", 0.9),
        (2, 4, "9/50", 0.9),
        (8, 1, "1/25", 0.9),
        (5, 2, "2/25", 1),
        (6, 2, "2/25", 1),
        (7, 2, "2/25", 1),
    ):
        assert within[degree, offset][most] >= share, (degree, offset)
