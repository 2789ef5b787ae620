"""All-to-all time against N, d = 4: ours, generalized Kautz, torus, circulant, ShiftedRing.

The time is that of the best routing when messages may split over paths, as a multiple of what no
topology of the size can beat: the hops of a full 4-ary tree. Ours is the point of the all-to-all
frontier with the least time, as a search of default effort finds it. Every time carries the bound
that link prices prove; the gap between them is 0 for all but large programs, of generalized Kautz
digraphs first of all, which are solved to a certified gap of mostly a thousandth and less than half
a percent. ShiftedRing has all ports on rings: here two parallel links each way. The published value
for a generalized Kautz digraph, at N = 1000, is within 5.2 % of the bound (Zhao et al., arXiv
2202.03356).

    python experiments/alltoall_by_nodes.py [--quick] [--out DIR]

writes figures/alltoall_by_nodes.csv and .png in about ten minutes; --quick runs N = 16, 25, 36.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import compress
from math import isqrt
from typing import TYPE_CHECKING, Any

from reporting import (
    KAUTZ,
    OURS,
    PUBLISHED,
    RING,
    TREE,
    Report,
    new_figure,
    parse_arguments,
    plain_log_axis,
    publish,
)

from ocs_codesign import Recipe, bound
from ocs_codesign.graphs import BiRing, GeneralizedKautz, Torus
from ocs_codesign.schedules.paths.throughput import throughput
from ocs_codesign.search.bases import optimal_circulant
from ocs_codesign.search.frontiers import joint_frontier
from ocs_codesign.search.pareto import proven_t_b

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEGREE = 4
QUICK = (16, 25, 36)
SIZES = (*QUICK, 49, 64, 81, 100, 144, 196, 256, 400, 576, 784, 1000, 1024)
FIELDS = (
    *("nodes", "set", "label", "recipe", "t_b", "over_bound", "proven_bound_over_bound"),
    *("is_exact", "diameter"),
)
STYLES: dict[str, dict[str, Any]] = {
    "ShiftedRing": {"color": RING, "marker": "v"},
    "torus": {"color": TREE, "marker": "D", "markersize": 5},
    "circulant": {"color": PUBLISHED, "marker": "s", "fillstyle": "none", "markersize": 7},
    "generalized Kautz": {"color": KAUTZ, "marker": "x"},
    "ours": {"color": OURS, "marker": "o", "markersize": 5},
}
RATIO_TICKS = (1, 1.5, 2, 3, 5, 10, 20, 50, 100)
CLOSE_TICKS = (1, 1.02, 1.04, 1.06, 1.08, 1.1, 1.12, 1.14, 1.16, 1.18)


def others(nodes: int) -> Iterator[tuple[str, Recipe]]:
    """The sets that are compared with ours, where they have this size."""
    yield "generalized Kautz", GeneralizedKautz(DEGREE, nodes)
    side = isqrt(nodes)
    if side * side == nodes:
        yield "torus", Torus((side, side))
    yield "circulant", optimal_circulant(nodes)
    yield "ShiftedRing", BiRing(DEGREE, nodes)


def rows(nodes: int) -> Iterator[dict[str, object]]:
    """A row for every set."""
    best = min(
        joint_frontier(nodes, DEGREE, with_allgather=False).candidates,
        key=lambda design: (design.cost.t_b, design.cost.steps),
    )
    yield row(nodes, "ours", best.recipe, best.cost.t_b, proven_t_b(best))
    for name, recipe in others(nodes):
        found = throughput(recipe)
        yield row(nodes, name, recipe, found.time, found.bound)


def row(
    nodes: int, name: str, recipe: Recipe, t_b: Fraction, proven: Fraction
) -> dict[str, object]:
    """One topology's time and what is proven of it, in M/B."""
    least = bound(nodes, DEGREE, "alltoall").t_b
    return {
        "nodes": nodes,
        "set": name,
        "label": recipe.label(),
        "recipe": repr(recipe),
        "t_b": str(t_b) if t_b == proven else f"{float(t_b):.6f}",
        "over_bound": f"{float(t_b / least):.5f}",
        "proven_bound_over_bound": f"{float(proven / least):.5f}",
        "is_exact": t_b == proven,
        "diameter": recipe.topology().diameter(),
    }


def picture(table: Sequence[dict[str, object]]) -> Figure:
    """All sets above, those near the bound enlarged below."""
    figure, panels = new_figure(8.6, 7.2, 2, 1, heights=(1, 0.9))
    for axes, ticks in zip(panels, (RATIO_TICKS, CLOSE_TICKS), strict=True):
        for name, style in STYLES.items():
            here = [line for line in table if line["set"] == name]
            over = [float(str(line["over_bound"])) for line in here]
            near = [ratio <= ticks[-1] for ratio in over]
            axes.plot(
                [int(str(line["nodes"])) for line in compress(here, near)],
                list(compress(over, near)),
                label=name,
                linewidth=0.8 if all(near) else 0.0,  # no line to what is outside
                **style,
            )
        plain_log_axis(axes, "x", (16, 32, 64, 128, 256, 512, 1024))
        plain_log_axis(axes, "y", ticks)
        axes.set_ylim(ticks[0] * 0.93, ticks[-1])
        axes.set_ylabel("all-to-all time\nover the bound (×)")
    panels[0].set_title(
        "All-to-all, degree 4, messages may split over paths; below, the same close to the bound",
        fontsize=11.5,
    )
    panels[1].set_ylim(0.992, CLOSE_TICKS[-1])
    panels[1].set_xlabel("nodes N")
    panels[0].legend(frameon=False, fontsize=9, loc="upper left")
    return figure


def main() -> None:
    """Run, print and write."""
    arguments = parse_arguments(__doc__)
    sizes = QUICK if arguments.quick else SIZES
    table = [line for nodes in sizes for line in rows(nodes)]
    publish(Report("alltoall_by_nodes", FIELDS, table, picture(table)), arguments)


if __name__ == "__main__":
    main()
