"""What a late schedule does: the busiest link of every step, under BFB and with items that wait.

On the same graph and in as many steps: BFB sends every item along shortest paths at once, a late
schedule lets some arrive later than their distance. Bars are shares of (N - 1)/d, what every link
carries in all if none carries more than another; those of a schedule add up to 100 % and what t_b
is above the bound.

    python experiments/late_schedules.py [--quick] [--out DIR]

writes figures/late_schedules.csv and .png in ten seconds; --quick leaves out the larger graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reporting import KAUTZ, OURS, PUBLISHED, Report, new_figure, parse_arguments, publish

from ocs_codesign import parse
from ocs_codesign.core.bounds import bound
from ocs_codesign.core.cost import total
from ocs_codesign.schedules.breadth_first.loads import bfb_loads
from ocs_codesign.schedules.stepped.arrivals import late_arrivals

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from matplotlib.figure import Figure

GRAPHS = ("AffineSpliced(61, 3, (0, 22, 24, 2))", "AffineSpliced(1021, 256, (0, 1, 368, 652))")
FIELDS = ("recipe", "nodes", "degree", "schedule", "t_b", "items_late_percent", "step", "load")
BFB, LATE = "BFB", "late"


def rows(text: str) -> Iterator[dict[str, object]]:
    """The loads of both schedules of a graph, a row a step."""
    topology = parse(text).topology()
    eager = bfb_loads(topology)
    arrivals = late_arrivals(topology, len(eager))
    moved = 100 * (arrivals.step != topology.distances()).mean()
    for name, loads, share in ((BFB, eager, 0.0), (LATE, arrivals.loads(), moved)):
        for step, load in enumerate(loads, 1):
            yield {
                "recipe": text,
                "nodes": topology.num_nodes,
                "degree": topology.degree,
                "schedule": name,
                "t_b": str(topology.t_b(total(loads))),
                "items_late_percent": f"{share:.2f}",
                "step": step,
                "load": str(load),
            }


def picture(lines: Sequence[dict[str, Any]]) -> Figure:
    """A panel a graph: two bars a step, and what t_b comes to."""
    from fractions import Fraction

    graphs = list(dict.fromkeys(line["recipe"] for line in lines))
    figure, panels = new_figure(3.9 * len(graphs), 3.6, 1, len(graphs), sharex=False)
    for axes, recipe in zip(panels, graphs, strict=True):
        axes.tick_params(labelleft=True)
        for shift, (name, colour) in zip(
            (-0.2, 0.2), ((BFB, PUBLISHED), (LATE, OURS)), strict=True
        ):
            mine = [line for line in lines if (line["recipe"], line["schedule"]) == (recipe, name)]
            t_b = Fraction(str(mine[0]["t_b"]))
            nodes, degree = int(mine[0]["nodes"]), int(mine[0]["degree"])
            even = Fraction(nodes - 1, degree)
            loads = [100 * float(Fraction(str(line["load"])) / even) for line in mine]
            places = [int(line["step"]) + shift for line in mine]
            label = f"{name}: $T_B$ {_over_bound(t_b, mine[0]):.1f} % above the bound"
            axes.bar(places, loads, 0.4, color=colour, label=label)
        axes.set_title(f"{nodes} nodes, {degree} ports", fontsize=10, color=KAUTZ)
        axes.set_xlabel("step")
        axes.set_xticks(range(1, len(mine) + 1))
        axes.set_ylim(0, 75)
        axes.legend(frameon=False, fontsize=8, loc="upper left")
    panels[0].set_ylabel("busiest link, % of (N - 1)/d shards")
    return figure


def _over_bound(t_b: Fraction, line: dict[str, Any]) -> float:
    return 100 * float(t_b / bound(int(line["nodes"]), int(line["degree"])).t_b - 1)


def main() -> None:
    """Run, print and write."""
    arguments = parse_arguments(__doc__)
    lines = [line for text in GRAPHS[: 1 if arguments.quick else 2] for line in rows(text)]
    publish(Report("late_schedules", FIELDS, lines, picture(lines)), arguments)


if __name__ == "__main__":
    main()
