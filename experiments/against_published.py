"""Our allgather frontier against that of the published closed forms, N = 64 to 2048, d = 2 to 8.

The published side is what the finder of Zhao et al. (arXiv 2202.03356) can know of a size: our
finder without searched bases and lifts, every cost the prediction of a formula, and the source's
ModifiedDeBruijn(2, n) under its line expansion and power. Of that base, a graph whose schedule a
solver made, only the cost is published: n + 1 steps at the bandwidth bound for n = 3 and 4. Its
rows have a label but no recipe.

Every point of the published frontier gets a verdict: `better` if a point of ours is no worse in
steps and t_b and better in one, `equal` if ours has this very cost, else `worse`. The columns
`ours_...` are that point, the one with the fewest steps. All points of ours are rows too.

    python experiments/against_published.py [--quick] [--out DIR]

writes figures/against_published.csv and .png in one to two minutes and exits with 1 if a published
point is better than ours; --quick runs N = 64 and 128.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any, final

from reporting import (
    OURS,
    PUBLISHED,
    Report,
    new_figure,
    parse_arguments,
    plain_log_axis,
    publish,
)

from ocs_codesign import Cost, Frontier, Recipe, Schedule, Topology, frontier
from ocs_codesign.cost import undominated
from ocs_codesign.families.shape import Shape
from ocs_codesign.finder import CLOSED_FORMS
from ocs_codesign.finder.moves import line, power
from ocs_codesign.question import Question

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DEGREES = (2, 3, 4, 8)
QUICK = (64, 128)
SIZES = (*QUICK, 256, 512, 1024, 2048)
MODIFIED = (3, 4)
FIELDS = (
    *("nodes", "degree", "side", "steps", "t_b", "t_b_over_optimal", "label", "recipe"),
    *("verdict", "ours_steps", "ours_t_b", "ours_label"),
)
VERDICTS = ("better", "equal", "worse")
STYLES: dict[str, dict[str, Any]] = {
    "published": {"color": PUBLISHED, "marker": "s", "markersize": 6, "fillstyle": "none"},
    "ours": {"color": OURS, "marker": "o", "markersize": 4},
}
STEP_TICKS = (2, 5, 10, 20, 50, 100)
EXCESS_TICKS = (0, 0.1, 1, 10, 50)


@final
@dataclass(frozen=True, slots=True, repr=False)
class ModifiedDeBruijn(Recipe):
    """The published base with 2^n nodes of degree 2, known by its cost: it cannot be built.

    The formulas of the expansions use only the number and the sum of its loads.
    """

    n: int

    @property
    def shape(self) -> Shape:
        """2^n nodes of degree 2."""
        return Shape(2**self.n, 2)

    def gather_loads(self, *, transposed: bool = False) -> tuple[Fraction, ...]:
        """The loads of n + 1 equal steps at the bandwidth bound."""
        del transposed
        steps = self.n + 1
        return (Fraction(self.num_nodes - 1, self.degree * steps),) * steps

    def label(self) -> str:
        """The source's name."""
        return f"DBJMod(2,{self.n})"

    def topology(self) -> Topology:
        """Always ValueError."""
        raise ValueError(f"{self.label()}: only its cost is published")

    def gather_schedule(self, *, transposed: bool = False) -> Schedule:
        """Always ValueError."""
        del transposed
        raise ValueError(f"{self.label()}: only its cost is published")

    reverse_symmetric = has_self_loops = bidirectional = False


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a frontier; the recipe is empty where only the cost is known."""

    label: str
    recipe: str
    cost: Cost


def modified_de_bruijn(question: Question) -> Iterator[Recipe]:
    """What the modified de Bruijn graphs, their line expansions and powers have of a size."""
    for n in MODIFIED:
        if question.is_answered_by(ModifiedDeBruijn(n)):
            yield ModifiedDeBruijn(n)
    for move in (*line(question), *power(question)):
        yield from filter(None, map(move.make, modified_de_bruijn(*move.parts)))


def published_points(nodes: int, degree: int) -> list[Point]:
    """The frontier of the published closed forms, ascending in steps."""
    known = frontier(nodes, degree, effort=CLOSED_FORMS).candidates
    points = [Point(c.recipe.label(), repr(c.recipe), c.cost) for c in known]
    modified = modified_de_bruijn(Question(nodes, degree))
    points += [Point(recipe.label(), "", recipe.predict()) for recipe in modified]
    return undominated(points, lambda point: point.cost)


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
    ours = frontier(nodes, degree)
    points = [("published", point) for point in published_points(nodes, degree)]
    points += [("ours", Point(c.recipe.label(), repr(c.recipe), c.cost)) for c in ours.candidates]
    for side, point in points:
        yield {
            "nodes": nodes,
            "degree": degree,
            "side": side,
            "steps": point.cost.steps,
            "t_b": str(point.cost.t_b),
            "t_b_over_optimal": f"{float(point.cost.t_b / ours.bound.t_b):.6f}",
            "label": point.label,
            "recipe": point.recipe,
            **(verdict(ours, point.cost) if side == "published" else {}),
        }


def totals(table: Sequence[dict[str, object]]) -> Counter[str]:
    """How many published points got every verdict."""
    return Counter(str(row["verdict"]) for row in table if row["side"] == "published")


def in_words(counts: Counter[str], verdicts: Iterable[str], between: str = ", ") -> str:
    """The numbers of these verdicts."""
    return between.join(f"{counts[verdict]} {verdict}" for verdict in verdicts)


def draw(axes: Axes, table: Sequence[dict[str, object]]) -> None:
    """Both frontiers of one question as staircases, and the verdicts in the empty corner."""
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
    counts = totals(table)
    axes.annotate(
        in_words(counts, filter(counts.get, VERDICTS), between="\n"),
        (1, 1),
        xycoords="axes fraction",
        xytext=(-3, -3),
        textcoords="offset points",
        ha="right",
        va="top",
        fontsize=8,
        color="#6b7280",
    )


def picture(table: Sequence[dict[str, object]], sizes: Sequence[int]) -> Figure:
    """A row for every degree, a column for every number of nodes."""
    from matplotlib.ticker import NullLocator

    figure, panels = new_figure(2 * len(sizes) + 1, 8.2, len(DEGREES), len(sizes))
    for place, (axes, (degree, nodes)) in enumerate(
        zip(panels, product(DEGREES, sizes), strict=True)
    ):
        draw(axes, [row for row in table if (row["degree"], row["nodes"]) == (degree, nodes)])
        axes.set_yscale("symlog", linthresh=0.1, linscale=0.6)
        axes.set_yticks(EXCESS_TICKS, [str(tick) for tick in EXCESS_TICKS])
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_ylim(-0.03, 400)
        if place < len(sizes):
            axes.set_title(f"N = {nodes}", fontsize=11.5)
        if place % len(sizes) == 0:
            axes.set_ylabel(f"degree {degree}\n$t_b$ above optimum (%)")
        if place >= len(panels) - len(sizes):
            axes.set_xlabel("allgather steps")
    for axes in panels:
        plain_log_axis(axes, "x", STEP_TICKS)
        axes.set_xlim(1.6, 130)
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False
    )
    return figure


def main() -> None:
    """Run, print and write; SystemExit with 1 if a published point is better than ours."""
    arguments = parse_arguments(__doc__)
    sizes = QUICK if arguments.quick else SIZES
    table = [row for degree in DEGREES for nodes in sizes for row in rows(nodes, degree)]
    counts = totals(table)
    note = f"ours against {counts.total()} published points: {in_words(counts, VERDICTS)}"
    report = Report("against_published", FIELDS, table, picture(table, sizes), note)
    publish(report, arguments)
    if counts["worse"]:
        sys.exit(f"{counts['worse']} published points are better than ours")


if __name__ == "__main__":
    main()
