"""Our allgather frontier against that of the published closed forms, N = 64 to 2048, d = 2 to 8.

The published side is what the finder of Zhao et al. (arXiv 2202.03356) can know of a size: our
finder without searched bases and lifts, every cost the prediction of a formula. Of its modified de
Bruijn digraphs, DBJMod(d, n), only the cost is published, n + 1 steps at the bandwidth bound for
four sizes: their graphs are our ModifiedDeBruijn(d, n), whose stored schedules have that cost.

Every point of the published frontier gets a verdict: `better` if a point of ours is no worse in
steps and t_b and better in one, `equal` if ours has this very cost, else `worse`. The columns
`ours_...` are that point, the one with the fewest steps. All points of ours are rows too.

Ours are measured on the built graphs, and formulas of line expansions are upper bounds only. So
every published point is measured as well: `measured_...` is what its topology costs, by the same
exact BFB as ours, and `verdict_measured` compares that. `verdict` takes it as published.

    python experiments/against_published.py [--quick] [--out DIR]

writes figures/against_published.csv and .png in one to two minutes and exits with 1 if a published
point is better than ours; --quick runs N = 64 and 128.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any

from reporting import OURS, PUBLISHED, Report, new_figure, parse_arguments, plain_log_axis, publish

from ocs_codesign import Cost, Design, Frontier, frontier, measure
from ocs_codesign.search.bases import CLOSED_FORMS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DEGREES = (2, 3, 4, 8)
QUICK = (64, 128)
SIZES = (*QUICK, 256, 512, 1024, 2048)
FIELDS = (
    *("nodes", "degree", "side", "steps", "t_b", "t_b_over_optimal", "label", "recipe"),
    *("verdict", "ours_steps", "ours_t_b", "ours_label"),
    *("measured_steps", "measured_t_b", "verdict_measured"),
)
VERDICTS = ("better", "equal", "worse")
STYLES: dict[str, dict[str, Any]] = {
    "published": {"color": PUBLISHED, "marker": "s", "markersize": 6, "fillstyle": "none"},
    "ours": {"color": OURS, "marker": "o", "markersize": 4},
}
STEP_TICKS = (2, 5, 20, 100)
EXCESS_TICKS = (0, 0.1, 1, 10, 50)


def verdict(ours: Frontier, cost: Cost) -> dict[str, object]:
    """How our frontier compares with a cost, and the point of ours that is no worse."""
    met = ours.dominator(cost)
    if met is None:
        return {"verdict": "worse"}
    return {
        "verdict": "equal" if met.cost == cost else "better",
        "ours_steps": met.cost.steps,
        "ours_t_b": str(met.cost.t_b),
        "ours_label": met.recipe.label(),
    }


def rows(nodes: int, degree: int) -> Iterator[dict[str, object]]:
    """The points of the published frontier with their verdicts, then those of ours."""
    published, ours = frontier(nodes, degree, effort=CLOSED_FORMS), frontier(nodes, degree)
    points = [("published", point) for point in published.candidates]
    points += [("ours", point) for point in ours.candidates]
    for side, point in points:
        yield {
            "nodes": nodes,
            "degree": degree,
            "side": side,
            "steps": point.cost.steps,
            "t_b": str(point.cost.t_b),
            "t_b_over_optimal": f"{float(point.cost.t_b / ours.bound.t_b):.6f}",
            "label": point.recipe.label(),
            "recipe": repr(point.recipe),
            **(verdicts(ours, point) if side == "published" else {}),
        }


def verdicts(ours: Frontier, published: Design) -> dict[str, object]:
    """How ours compares with a published point as its formula has it, and as it is measured."""
    cost = measure(published.recipe).cost
    return {
        **verdict(ours, published.cost),
        "measured_steps": cost.steps,
        "measured_t_b": str(cost.t_b),
        "verdict_measured": verdict(ours, cost)["verdict"],
    }


def totals(table: Sequence[dict[str, object]], column: str = "verdict_measured") -> Counter[str]:
    """How many published points got every verdict, both sides measured or as published."""
    return Counter(str(row[column]) for row in table if row["side"] == "published")


def in_words(counts: Counter[str], verdicts: Iterable[str], between: str = ", ") -> str:
    """The numbers of these verdicts."""
    return between.join(f"{counts[verdict]} {verdict}" for verdict in verdicts)


def draw(axes: Axes, table: Sequence[dict[str, object]]) -> None:
    """Both frontiers as staircases, and the verdicts, both measured, in the empty corner.

    Where a published point is measured to be better than its formula an open mark shows it.
    """
    for side, style in STYLES.items():
        here = [row for row in table if row["side"] == side]
        steps = [int(str(row["steps"])) for row in here]
        excess = [100 * (float(str(row["t_b_over_optimal"])) - 1) for row in here]
        axes.step(
            [*steps, 2 * STEP_TICKS[-1]],
            [*excess, excess[-1]],
            where="post",
            color=style["color"],
            linewidth=1.1,
            alpha=0.6,
        )
        axes.plot(steps, excess, label=side, linestyle="", **style)
    draw_measured(axes, table)
    counts = totals(table)
    axes.annotate(
        in_words(counts, filter(counts.get, VERDICTS), between="\n"),
        (1, 1),
        xycoords="axes fraction",
        xytext=(-3, -3),
        textcoords="offset points",
        ha="right",
        va="top",
        fontsize=9,
        color="#444444",
    )


def draw_measured(axes: Axes, table: Sequence[dict[str, object]]) -> None:
    """Where the published topologies are when they are measured, as formulas only bound them."""
    better = [
        (row, Fraction(str(row["measured_t_b"])))
        for row in table
        if row["side"] == "published"
        and (row["steps"], row["t_b"]) != (row["measured_steps"], row["measured_t_b"])
    ]
    least = {
        row["nodes"]: Fraction(int(str(row["nodes"])) - 1, int(str(row["nodes"]))) for row in table
    }
    axes.plot(
        [int(str(row["measured_steps"])) for row, _ in better],
        [100 * (float(t_b / least[row["nodes"]]) - 1) for row, t_b in better],
        label="published, measured",
        linestyle="",
        color=PUBLISHED,
        marker="x",
        markersize=6,
    )


def picture(table: Sequence[dict[str, object]], sizes: Sequence[int] = SIZES) -> Figure:
    """A row for every degree, a column for every number of nodes."""
    from matplotlib.ticker import NullLocator

    figure, panels = new_figure(1.55 * len(sizes) + 0.7, 6.8, len(DEGREES), len(sizes))
    for place, (axes, (degree, nodes)) in enumerate(
        zip(panels, product(DEGREES, sizes), strict=True)
    ):
        draw(axes, [row for row in table if (row["degree"], row["nodes"]) == (degree, nodes)])
        axes.set_yscale("symlog", linthresh=0.1, linscale=0.6)
        axes.set_yticks(EXCESS_TICKS, [str(tick) for tick in EXCESS_TICKS])
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_ylim(-0.03, 2000)
        if place < len(sizes):
            axes.set_title(f"N = {nodes}", fontsize=11.5)
        if place % len(sizes) == 0:
            axes.set_ylabel(f"degree {degree}")
    for axes in panels:
        plain_log_axis(axes, "x", STEP_TICKS)
        axes.set_xlim(1.6, 130)
    figure.supxlabel("allgather steps", fontsize=10.5)
    figure.supylabel("$t_b$ above the optimum (%)", fontsize=10.5)
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False
    )
    return figure


def main() -> None:
    """Run, print and write; SystemExit with 1 if a published point is better than ours."""
    arguments = parse_arguments(__doc__)
    sizes = QUICK if arguments.quick else SIZES
    table = [row for degree in DEGREES for nodes in sizes for row in rows(nodes, degree)]
    counts, formula = totals(table), totals(table, "verdict")
    note = (
        f"ours against {counts.total()} published points, both measured: "
        f"{in_words(counts, VERDICTS)}; these by their formulas: {in_words(formula, VERDICTS)}"
    )
    report = Report("against_published", FIELDS, table, picture(table, sizes), note)
    publish(report, arguments)
    if worse := counts["worse"] + formula["worse"]:
        sys.exit(f"{worse} published points are better than ours")


if __name__ == "__main__":
    main()
