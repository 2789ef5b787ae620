"""A map of nodes by ports: how far t_b in the shipped catalogue is above what counting allows.

For every N to 2048 with 2 to 8 ports, and to 512 with links in both directions: by how much the
least stored t_b of an allgather exceeds the bound, at the fewest steps that any topology of the
size can have and up to four more. The table has shares of the sizes of four bands, the picture maps
links in any direction size by size.

    python experiments/gaps_by_nodes.py [--quick] [--out DIR]

writes figures/gaps_by_nodes.csv and .png in seconds; --quick maps 8 ports in one direction.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from reporting import Report, parse_arguments, publish

from ocs_codesign.faces.pictures.gaps import gaps_figure
from ocs_codesign.schedules.design import Question
from ocs_codesign.search.catalogue.store import Catalogue
from ocs_codesign.search.gaps import THRESHOLDS, gaps_of, shares_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.search.gaps import Gap

DEGREES, QUICK = range(2, 9), range(8, 9)
MOST_NODES, MOST_NODES_BOTH_WAYS = 2048, 512
BANDS = ((2, 64), (65, 256), (257, 1024), (1025, 2048))
FIELDS = (
    *("degree", "links", "nodes", "sizes", "steps_above_fewest", "with_design_percent"),
    *(f"within_{float(100 * most):g}_percent" for most in THRESHOLDS),
    *("mean_excess_percent", "largest_excess_percent"),
)


def questions(*, quick: bool) -> list[Question]:
    """Every size that is asked for, with any links and, where there are few nodes, two-way."""
    found = []
    for degree in QUICK if quick else DEGREES:
        found += [Question(nodes, degree) for nodes in range(2, MOST_NODES + 1)]
        both_ways = range(2, MOST_NODES_BOTH_WAYS + 1) if not quick else ()
        found += [Question(nodes, degree, bidirectional=True) for nodes in both_ways]
    return found


def rows(gaps: Sequence[Gap]) -> Iterator[dict[str, object]]:
    """A row for every band, degree, kind of links and number of steps."""
    for first, last in BANDS:
        for shares in shares_of(gap for gap in gaps if first <= gap.question.num_nodes <= last):
            within = {
                f"within_{float(100 * most):g}_percent": percent(share)
                for most, share in zip(THRESHOLDS, shares.within, strict=True)
            }
            yield {
                "degree": shares.degree,
                "links": "both ways" if shares.bidirectional else "any",
                "nodes": f"{first}-{last}",
                "sizes": shares.num_sizes,
                "steps_above_fewest": shares.offset,
                "with_design_percent": percent(shares.with_design),
                **within,
                "mean_excess_percent": percent(shares.mean),
                "largest_excess_percent": percent(shares.largest),
            }


def percent(share: Fraction | None) -> str:
    """A share in percent, empty where there is none."""
    return "" if share is None else f"{float(100 * share):.2f}"


def main() -> None:
    """Run, print and write."""
    arguments = parse_arguments(__doc__)
    with Catalogue() as catalogue:
        gaps = gaps_of(catalogue, questions(quick=arguments.quick))
    figure = gaps_figure([gap for gap in gaps if not gap.question.bidirectional])
    publish(Report("gaps_by_nodes", FIELDS, list(rows(gaps)), figure), arguments)


if __name__ == "__main__":
    main()
