"""Frontiers against N, d = 4 and 2: ours, generalized Kautz digraphs and published closed forms.

Three numbers of an allgather for every size and set: how many steps the point with the fewest steps
is above the directed Moore bound, how far its t_b is above the optimum (N - 1)/N, and how many
steps above the Moore bound a bandwidth-optimal t_b takes. The published closed forms are what the
finder of Zhao et al. (arXiv 2202.03356) can know of a size: our finder without its searches, every
cost the prediction of a formula. A cell is empty where a set has no such design.

    python experiments/frontier_by_nodes.py [--quick] [--out DIR]

writes figures/frontier_by_nodes.csv and .png in minutes; --quick runs N = 8, 12, 16, 24.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from reporting import (
    KAUTZ,
    OURS,
    PUBLISHED,
    Report,
    new_figure,
    parse_arguments,
    plain_log_axis,
    publish,
)

from ocs_codesign import Design, bound, frontier, measure
from ocs_codesign.graphs import GeneralizedKautz
from ocs_codesign.search.bases import CLOSED_FORMS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DEGREES = (4, 2)
QUICK = (8, 12, 16, 24)
SIZES = (
    *(8, 12, 16, 24, 32, 48, 64, 96, 100, 128, 192, 256),
    *(384, 500, 512, 768, 900, 1000, 1024),
)
FIELDS = (
    *("degree", "nodes", "set", "moore_steps", "fewest_steps", "steps_above_moore"),
    *("t_b_at_fewest_steps", "t_b_over_optimal", "fewest_steps_recipe"),
    *("bw_optimal_steps", "bw_optimal_steps_above_moore", "bw_optimal_recipe"),
)
STYLES: dict[str, dict[str, Any]] = {
    "published closed forms": {
        "color": PUBLISHED,
        "marker": "s",
        "markersize": 8,
        "fillstyle": "none",
    },
    "generalized Kautz": {"color": KAUTZ, "marker": "x", "markersize": 5.5},
    "ours": {"color": OURS, "marker": "o", "markersize": 4.5},
}
PANELS = (
    ("steps_above_moore", "fewest steps −\nMoore bound (steps)"),
    ("t_b_over_optimal", "$t_b$ at the fewest steps\nover the optimum (×)"),
    ("bw_optimal_steps_above_moore", "fewest steps at optimal $t_b$\n− Moore bound (steps)"),
)

STEP_TICKS = (0, 1, 2, 5, 10, 20, 50)


def candidates(nodes: int, degree: int) -> dict[str, Sequence[Design]]:
    """Every set's designs of a size."""
    return {
        "ours": frontier(nodes, degree).candidates,
        "generalized Kautz": [measure(GeneralizedKautz(degree, nodes))],
        "published closed forms": frontier(nodes, degree, effort=CLOSED_FORMS).candidates,
    }


def rows(nodes: int, degree: int) -> Iterator[dict[str, object]]:
    """A row for every set: its point with the fewest steps and its bandwidth-optimal one."""
    least = bound(nodes, degree)
    for name, designs in candidates(nodes, degree).items():
        fewest = min(designs, key=lambda design: (design.cost.steps, design.cost.t_b))
        row: dict[str, object] = {
            "degree": degree,
            "nodes": nodes,
            "set": name,
            "moore_steps": least.steps,
            "fewest_steps": fewest.cost.steps,
            "steps_above_moore": fewest.cost.steps - least.steps,
            "t_b_at_fewest_steps": str(fewest.cost.t_b),
            "t_b_over_optimal": f"{float(Fraction(fewest.cost.t_b, least.t_b)):.6f}",
            "fewest_steps_recipe": repr(fewest.recipe),
        }
        optimal = [design for design in designs if design.bw_optimal]
        if optimal:
            best = min(optimal, key=lambda design: design.cost.steps)
            row["bw_optimal_steps"] = best.cost.steps
            row["bw_optimal_steps_above_moore"] = best.cost.steps - least.steps
            row["bw_optimal_recipe"] = repr(best.recipe)
        yield row


def draw(axes: Axes, table: Sequence[dict[str, object]], field: str) -> None:
    """One quantity against N, a line for every set."""
    for name, style in STYLES.items():
        here = [row for row in table if row["set"] == name and row.get(field) not in (None, "")]
        sizes = [int(str(row["nodes"])) for row in here]
        values = [float(str(row[field])) for row in here]
        axes.plot(sizes, values, label=name, linestyle="", **style)
    plain_log_axis(axes, "x", [2**exponent for exponent in range(3, 11)])


def picture(table: Sequence[dict[str, object]]) -> Figure:
    """A column for every degree, a row for every quantity."""
    figure, panels = new_figure(9.5, 7.6, len(PANELS), len(DEGREES), heights=(0.6, 1, 1))
    for place, axes in enumerate(panels):
        (field, label), degree = PANELS[place // len(DEGREES)], DEGREES[place % len(DEGREES)]
        draw(axes, [row for row in table if row["degree"] == degree], field)
        if place % len(DEGREES) == 0:
            axes.set_ylabel(label)
        if place < len(DEGREES):
            axes.set_title(f"degree {degree}: allgather", fontsize=11.5)
        if place >= len(panels) - len(DEGREES):
            axes.set_xlabel("nodes N")
    for axes in panels[: len(DEGREES)]:
        axes.set_yticks([0, 1])
        axes.set_ylim(-0.5, 1.5)
    for axes in panels[-len(DEGREES) :]:
        axes.set_yscale("symlog", linthresh=1, linscale=0.5)
        axes.set_yticks(STEP_TICKS, [str(tick) for tick in STEP_TICKS])
        axes.set_ylim(-0.4, 100)
    panels[-1].legend(frameon=False, fontsize=8.5, loc="upper left")
    return figure


def main() -> None:
    """Run, print and write."""
    arguments = parse_arguments(__doc__)
    sizes = QUICK if arguments.quick else SIZES
    table = [row for degree in DEGREES for nodes in sizes for row in rows(nodes, degree)]
    publish(Report("frontier_by_nodes", FIELDS, table, picture(table)), arguments)


if __name__ == "__main__":
    main()
