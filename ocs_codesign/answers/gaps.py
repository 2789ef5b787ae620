"""Gaps of a catalogue as answers: shares of sizes near the bound, and those furthest from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.sections import Facts, Table, counted
from ocs_codesign.search.gaps import NUM_OFFSETS, THRESHOLDS, is_above, largest_first, shares_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.search.gaps import Gap, GapLine, SharesNearBound
    from ocs_codesign.search.improving import Improved

_OFFSETS = ("fewest", *(f"+{offset}" for offset in range(1, NUM_OFFSETS)))


def gaps_json(gaps: list[Gap], above: Sequence[GapLine] = ()) -> dict[str, Any]:
    """The JSON form of gaps: all sizes, the largest gap first, and the shares.

    With lines, only sizes ``above`` any; the shares are of all.
    """
    return {
        "thresholds": [str(most) for most in THRESHOLDS],
        "above": [{"steps_above_fewest": line.offset, "excess": str(line.most)} for line in above],
        "shares": [_shares_json(shares) for shares in shares_of(gaps)],
        "sizes": [
            {
                "nodes": gap.question.num_nodes,
                "degree": gap.question.degree,
                "bidirectional": gap.question.bidirectional,
                "fewest_steps": gap.fewest,
                "excess": [None if over is None else str(over) for over in gap.excess],
                "gap": str(gap.size),
            }
            for gap in largest_first(gaps)
            if not above or is_above(gap, above)
        ],
    }


def _shares_json(shares: SharesNearBound) -> dict[str, Any]:
    return {
        "degree": shares.degree,
        "bidirectional": shares.bidirectional,
        "steps_above_fewest": shares.offset,
        "sizes": shares.num_sizes,
        "with_design": str(shares.with_design),
        "within": [str(share) for share in shares.within],
        "mean": None if shares.mean is None else str(shares.mean),
        "largest": None if shares.largest is None else str(shares.largest),
    }


def gaps_sections(
    gaps: list[Gap], num_worst: int, above: Sequence[GapLine] = ()
) -> Iterator[Section]:
    """The shares of sizes near the bound, and the sizes that are furthest from it."""
    yield (
        f"How far the least stored t_b of an allgather is above what counting allows, for "
        f"{counted(len(gaps), 'size')} with designs: mean and largest excess, and the share of "
        f"sizes with some design of so few steps, and within 1 to 30 % of the bound. All in %."
    )
    limits = [f"<={100 * most}" for most in THRESHOLDS]
    columns = ("d", "links", "sizes", "steps", "mean", "largest", "some", *limits)
    rows: list[tuple[str, ...]] = [
        (
            str(shares.degree),
            _links(shares.bidirectional),
            str(shares.num_sizes),
            _OFFSETS[shares.offset],
            _percent(shares.mean),
            _percent(shares.largest),
            _percent(shares.with_design),
            *map(_percent, shares.within),
        )
        for shares in shares_of(gaps)
    ]
    yield Table(columns, rows, len(columns))
    wanted = [gap for gap in largest_first(gaps) if gap.size]
    if above:
        wanted = [gap for gap in largest_first(gaps) if is_above(gap, above)]
        most = " or ".join(
            f"{100 * float(line.most):g} % at {_OFFSETS[line.offset]}" for line in above
        )
        yield f"\n{counted(len(wanted), 'size')} further above the bound than {most}."
    worst = wanted[:num_worst]
    if not worst:
        return
    yield "\nLargest gaps, by the mean excess of all but the fewest steps, in %:"
    largest: list[tuple[str, ...]] = [
        (
            str(gap.question.num_nodes),
            str(gap.question.degree),
            _links(gap.question.bidirectional),
            str(gap.fewest),
            *map(_percent, gap.excess),
            _percent(gap.size),
        )
        for gap in worst
    ]
    columns = ("N", "d", "links", "fewest", "there", *_OFFSETS[1:], "mean")
    yield Table(columns, largest, len(columns))


def _links(bidirectional: bool) -> str:
    return "both" if bidirectional else "any"


def _percent(share: Fraction | None) -> str:
    return "-" if share is None else f"{100 * float(share):.1f}"


def improved_json(answer: Improved, path: str) -> dict[str, Any]:
    """The JSON form of what searching on has added to a catalogue."""
    return {
        "catalogue": path,
        "searched": answer.num_searched,
        "better": answer.num_better,
        "added": answer.num_added,
    }


def improved_facts(answer: Improved, path: str) -> Facts:
    """What searching on has added to a catalogue."""
    return Facts(
        ("catalogue", path),
        ("questions searched", answer.num_searched),
        ("with better answers", answer.num_better),
        ("designs added", answer.num_added),
    )
