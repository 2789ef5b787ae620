"""Every size: t_b above what counting allows, a step or two above the fewest, published and ours.

For primes of 67 to 1021 with 2, 3, 4 and 8 ports: by how much the least t_b of an allgather within
so many steps exceeds the bound at that number of steps. Published are the closed forms of the
literature (arXiv 2202.03356), what our finder knows without its searches; ours is what the shipped
catalogue has. Zero is proven: no topology of that size and degree is below it.

    python experiments/every_size.py [--quick] [--out DIR]

writes figures/every_size.csv and .png in minutes; --quick runs three sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from reporting import OURS, PUBLISHED, Report, new_figure, parse_arguments, publish

from ocs_codesign import frontier
from ocs_codesign.core.bounds import fewest_steps, least_t_b
from ocs_codesign.schedules.design import Question
from ocs_codesign.search.bases import CLOSED_FORMS
from ocs_codesign.search.catalogue.store import Catalogue

if TYPE_CHECKING:
    from fractions import Fraction

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ocs_codesign.core.cost import Cost

DEGREES = (2, 3, 4, 8)
OFFSETS = (1, 2)
"""Steps above the fewest that any topology of the size can have."""
SIZES = tuple(
    size
    for size in range(67, 1022, 2)
    if all(size % part for part in range(3, int(size**0.5) + 1, 2))
)
"""The primes; sizes that factor are easier."""
QUICK = (67, 331, 1021)
FIELDS = (
    *("degree", "nodes", "steps", "steps_above_fewest", "bound_t_b"),
    *("published_t_b", "ours_t_b", "published_excess_percent", "ours_excess_percent"),
)


def rows(catalogue: Catalogue, degree: int, sizes: Iterable[int]) -> Iterator[dict[str, object]]:
    """A row for every size and number of steps."""
    for nodes in sizes:
        stored = catalogue.entries(Question(nodes, degree))
        ours = [entry.allgather for entry in stored]
        published = [one.cost for one in frontier(nodes, degree, effort=CLOSED_FORMS).candidates]
        fewest = fewest_steps(nodes, degree)
        for offset in OFFSETS:
            least = least_t_b(nodes, degree, fewest + offset)
            assert least is not None
            row: dict[str, object] = {
                "degree": degree,
                "nodes": nodes,
                "steps": fewest + offset,
                "steps_above_fewest": offset,
                "bound_t_b": str(least),
            }
            for name, costs in (("published", published), ("ours", ours)):
                t_b = least_within(costs, fewest + offset)
                if t_b is not None:
                    row[f"{name}_t_b"] = str(t_b)
                    row[f"{name}_excess_percent"] = f"{float(100 * (t_b / least - 1)):.3f}"
            yield row


def least_within(costs: Iterable[Cost], steps: int) -> Fraction | None:
    """The least t_b within so many steps, None if nothing needs so few."""
    return min((cost.t_b for cost in costs if cost.steps <= steps), default=None)


def draw(axes: Axes, table: Sequence[dict[str, object]]) -> None:
    """The excess by size, a colour a set."""
    for name, colour in (("published", PUBLISHED), ("ours", OURS)):
        here = [line for line in table if f"{name}_t_b" in line]
        excess = [float(str(line[f"{name}_excess_percent"])) for line in here]
        nodes = [int(str(line["nodes"])) for line in here]
        marker = {"published": "x", "ours": "o"}[name]
        axes.plot(nodes, excess, marker, color=colour, markersize=3.4, label=name)
    axes.axhline(0, color="#222222", linewidth=0.9, linestyle=(0, (4, 2)), label="bound")
    axes.set_yscale("symlog", linthresh=10, linscale=1.2)
    axes.set_yticks((0, 2, 4, 6, 8, 10, 30, 100), ("0", "2", "4", "6", "8", "10", "30", "100"))
    axes.set_ylim(-0.6, 130)


def picture(table: Sequence[dict[str, object]]) -> Figure:
    """A row a number of steps above the fewest, a column a degree."""
    figure, panels = new_figure(12.0, 6.4, len(OFFSETS), len(DEGREES))
    for place, axes in enumerate(panels):
        offset, degree = OFFSETS[place // len(DEGREES)], DEGREES[place % len(DEGREES)]
        here = [
            line
            for line in table
            if (line["degree"], line["steps_above_fewest"]) == (degree, offset)
        ]
        draw(axes, here)
        if place < len(DEGREES):
            axes.set_title(f"{degree} ports", fontsize=11)
        else:
            axes.set_xlabel("nodes N")
        if place % len(DEGREES) == 0:
            more = f"{offset} step{'s' * (offset > 1)} above the fewest"
            axes.set_ylabel(f"{more}:\n$t_b$ above the bound, %")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    figure.suptitle("Allgather at prime sizes", fontsize=11.5)
    return figure


def main() -> None:
    """Run, print and write."""
    arguments = parse_arguments(__doc__)
    sizes = QUICK if arguments.quick else SIZES
    with Catalogue() as catalogue:
        table = [line for degree in DEGREES for line in rows(catalogue, degree, sizes)]
    publish(Report("every_size", FIELDS, table, picture(table)), arguments)


if __name__ == "__main__":
    main()
