"""Comparisons as answers: who is fastest for which message, by how much, how far from the bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.aggregation import profile_json, profile_text
from ocs_codesign.answers.sections import Facts, Table, counted
from ocs_codesign.quantities import format_bandwidth, format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.comparison.comparison import Comparison
    from ocs_codesign.comparison.contest import Contest
    from ocs_codesign.comparison.play import Outcome

_SHOWN = 16
"""Entrants of a network that are listed; --json FILE has all."""


def compare_json(comparisons: Sequence[Comparison], book: str | None) -> dict[str, Any]:
    """The JSON form: every time of every entrant, and who is best from which size on."""
    first = comparisons[0].contest
    return {
        "collective": first.collective.name,
        "sizes_bytes": list(first.sizes_bytes),
        "barriers": first.barriers,
        "aggregation": None if first.aggregation is None else profile_json(first.aggregation),
        "networks": [_comparison_json(each) for each in comparisons],
        "out": book,
    }


def _comparison_json(found: Comparison) -> dict[str, Any]:
    contest = found.contest
    return {
        "network": contest.name,
        "hosts": contest.num_hosts,
        "switches": contest.network.num_nodes - contest.num_hosts,
        "unit_Bps": str(contest.unit_Bps),
        "least_s": list(found.least_s),
        "best": [
            {"from_bytes": size, "entrant": best.entrant.label} for size, best in found.ranges()
        ],
        "entrants": [
            {
                "entrant": each.entrant.label,
                "classic": each.entrant.is_classic,
                "steps": each.steps,
                "transfers": each.num_transfers,
                "times_s": list(each.times_s),
                "refusal": each.refusal,
            }
            for each in found.outcomes
        ],
    }


def compare_sections(comparisons: Sequence[Comparison]) -> Iterator[Section]:
    """A table of the best by size for every network, then all that played."""
    for number, found in enumerate(comparisons):
        if number:
            yield ""
        contest = found.contest
        latency, byte = found.floor_s
        bound = f"{format_time(latency)}, {format_time(byte * 2**20)} a MiB"
        yield Facts(
            ("network", contest.name),
            ("collective", f"{contest.collective.name} of {counted(contest.num_hosts, 'host')}"),
            ("nothing is faster than", bound),
            ("switches add up", _aggregation_text(contest)),
        )
        yield ""
        yield _by_size(found)
        yield ""
        yield _by_entrant(found)
        refused = [each for each in found.outcomes if each.refusal is not None]
        if refused:
            names = ", ".join(each.entrant.label for each in refused[:4])
            more = f" and {len(refused) - 4} more" if len(refused) > 4 else ""
            yield f"Did not play: {names}{more}; --json FILE says why."
    if len(comparisons) > 1:
        yield ""
        yield _by_network(comparisons)


def _aggregation_text(contest: Contest) -> str | None:
    return None if contest.aggregation is None else profile_text(contest.aggregation)


def _by_size(found: Comparison) -> Table:
    contest = found.contest
    rows = []
    for position, size in enumerate(contest.sizes_bytes):
        best, classic = found.best(position), found.best(position, classic=True)
        if best is None:
            continue
        over = best.times_s[position] / found.least_s[position]
        other = "-"
        if classic is not None:
            slower = classic.times_s[position] / best.times_s[position]
            other = f"{slower:.2f} x {classic.entrant.label}"
        rows.append(
            (
                format_size(size),
                format_time(best.times_s[position]),
                format_bandwidth(found.busbw_Bps(best, position)),
                f"{over:.2f}",
                best.entrant.label,
                other,
            )
        )
    columns = ("message", "time", "busbw", "over bound", "best", "best classic takes")
    return Table(columns, rows, numbers=4, texts=2)


def _by_entrant(found: Comparison) -> Table:
    """Times at the smallest, a middle and the largest size, the best of the largest first."""
    sizes = found.contest.sizes_bytes
    positions = sorted({0, len(sizes) // 2, len(sizes) - 1})
    ordered = sorted(found.played, key=lambda each: each.times_s[-1])
    rows = [
        (
            *(format_time(each.times_s[position]) for position in positions),
            str(each.steps),
            each.entrant.label,
        )
        for each in ordered[:_SHOWN]
    ]
    columns = (*(format_size(sizes[position]) for position in positions), "steps", "entrant")
    return Table(columns, rows, numbers=len(columns) - 1, texts=1)


def _by_network(comparisons: Sequence[Comparison]) -> Table:
    """The best of every network by size, and which network that is."""
    sizes = comparisons[0].contest.sizes_bytes
    rows = []
    for position, size in enumerate(sizes):
        bests: list[tuple[float, str, Outcome]] = []
        for each in comparisons:
            best = each.best(position)
            if best is not None:
                bests.append((best.times_s[position], each.contest.name, best))
        time_s, name, best = min(bests, key=lambda entry: entry[0])
        slowest = max(bests, key=lambda entry: entry[0])
        rows.append(
            (
                format_size(size),
                format_time(time_s),
                f"{name}: {best.entrant.label}",
                f"{slowest[0] / time_s:.2f} x {slowest[1]}",
            )
        )
    columns = ("message", "time", "best of all networks", "the slowest network takes")
    return Table(columns, rows, numbers=2, texts=2)
