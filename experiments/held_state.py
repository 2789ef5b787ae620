"""What planes hold against a memory of one step: what the shorter memory costs, or promises.

A published program for planes that change while others send lets a plane pay dead time before step
i if and only if step i needs another configuration than step i - 1. Planes hold circuits longer
than that, so allreduces come out too slow; and a plane that was not there in step i - 1 sends in
step i for nothing, so other lists come out too fast. Rows "listed" are the step lists of published
optima, two planes of 50 GB/s, cold start, barriers; rows "sweep" are lists of the same kind with
dead times from a hundredth to ten times what one plane needs to send it all. Both optima are exact,
and "really" is what the plan of the shorter memory takes on planes as they are.

    python experiments/held_state.py [--quick] [--out DIR]

writes figures/held_state.csv and .png in seconds; --quick runs the listed ones alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
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

from ocs_codesign.circuits.change import Change
from ocs_codesign.circuits.planes.labels import Entries, LabelEffort, search
from ocs_codesign.circuits.planes.plan import plan_of_usage, plan_planes
from ocs_codesign.circuits.planes.problem import PlaneProblem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NUM_PLANES, PLANE_BPS = 2, 50 * 10**9
LISTED = (
    ((1, 2, 2, 1), (4, 2, 2, 4), Fraction("0.2")),
    ((1, 2, 2, 1), (16, 8, 8, 16), Fraction("0.2")),
    ((1, 2, 2, 1), (16, 8, 8, 16), Fraction("0.5")),
    ((1, 2, 3, 3, 2, 1), (4, 2, 1, 1, 2, 4), Fraction("0.2")),
    ((1, 2, 2), (10, 1, 10), Fraction("0.2")),
)
"""Configurations, MB a step and dead time in ms."""

SWEPT = {
    "allreduce, 4 nodes": ((1, 2, 2, 1), (2, 1, 1, 2)),
    "allreduce, 8 nodes": ((1, 2, 3, 3, 2, 1), (4, 2, 1, 1, 2, 4)),
    "allreduce, 16 nodes": ((1, 2, 3, 4, 4, 3, 2, 1), (8, 4, 2, 1, 1, 2, 4, 8)),
    "1, 2, 2 with 10, 1, 10": ((1, 2, 2), (10, 1, 10)),
    "1, 2, 2, 3, 3 with 9, 1, 9, 1, 9": ((1, 2, 2, 3, 3), (9, 1, 9, 1, 9)),
}
"""Configurations and the relative bytes of the steps."""

RATIOS = tuple(Fraction(round(10 ** (k / 8) * 10**4), 10**6) for k in range(25))
"""Dead time over the time in which one plane sends it all."""

COLOURS = dict(zip(SWEPT, (RING, KAUTZ, OURS, PUBLISHED, TREE), strict=True))
FIELDS = (
    *("row", "list", "configurations", "sizes", "delta_ms", "delta_over_sending", "held_ms"),
    *("one_step_ms", "one_step_over_held", "really_ms"),
)


@dataclass(frozen=True, slots=True)
class OneStep:
    """The optimum with a memory of one step: what it says, and what its plan really takes."""

    total_s: float
    really_s: Fraction


def one_step(problem: PlaneProblem) -> OneStep:
    """By label search: all planes are alike, and the step says whether they pay."""
    needed = problem.configurations
    kind = np.array([1, *(int(a != b) for a, b in pairwise(needed))])
    unit = max(problem.cost.fixed_s, *problem.send_s)
    entries = Entries(
        send=np.array([float(send / unit) for send in problem.send_s]),
        latency=0.0,
        dead=np.array([[0.0, float(problem.cost.fixed_s / unit)]]),
        kind=kind,
        after=np.zeros(len(needed), dtype=np.int64),
        start=(0,) * problem.num_planes,
    )
    found = search(entries, LabelEffort(20_000, 1024))
    if found.total - found.bound > 1e-9 * found.total:
        raise RuntimeError(f"not proven: {found}")
    really = plan_of_usage(problem, found.usage).total_s
    return OneStep(found.total * float(unit), really)


def row(
    kind: str, name: str, needed: Sequence[int], sizes: Sequence[Fraction], delta_s: Fraction
) -> dict[str, object]:
    """Both optima of a step list."""
    cost = Change(delta_s)
    problem = PlaneProblem(needed, sizes, NUM_PLANES, PLANE_BPS, cost)
    held, short = plan_planes(problem), one_step(problem)
    if not held.is_optimal:
        raise RuntimeError(f"not proven: {held.status}")
    return {
        "row": kind,
        "list": name,
        "configurations": " ".join(map(str, needed)),
        "sizes": " ".join(f"{float(size) / 1e6:.6g}" for size in sizes),
        "delta_ms": f"{float(delta_s) * 1e3:.6g}",
        "delta_over_sending": f"{float(delta_s / sum(problem.send_s)):.6g}",
        "held_ms": f"{float(held.total_s) * 1e3:.6g}",
        "one_step_ms": f"{short.total_s * 1e3:.6g}",
        "one_step_over_held": f"{short.total_s / float(held.total_s):.4f}",
        "really_ms": f"{float(short.really_s) * 1e3:.6g}",
    }


def listed_rows() -> Iterator[dict[str, object]]:
    """The lists of published optima."""
    for needed, megabytes, delta_ms in LISTED:
        sizes = [Fraction(10**6 * size) for size in megabytes]
        yield row("listed", f"{len(needed)} steps", needed, sizes, delta_ms / 1000)


def swept_rows() -> Iterator[dict[str, object]]:
    """Every list over dead times; its sends take a plane a millisecond in all."""
    sending = Fraction(1, 1000)
    for name, (needed, parts) in SWEPT.items():
        sizes = [PLANE_BPS * sending * part / sum(parts) for part in parts]
        for ratio in RATIOS:
            yield row("sweep", name, needed, sizes, sending * ratio)


def _described(name: str) -> str:
    """A list of steps in a legend: what it is, or its configurations and what they carry."""
    needed, parts = SWEPT[name]
    if not name[0].isdigit():
        return name
    return f"circuits {', '.join(map(str, needed))} with bytes {' : '.join(map(str, parts))}"


def picture(table: Sequence[dict[str, object]]) -> Figure:
    """The ratio of the two optima over the dead time, and the listed instances as points."""
    figure, (axes,) = new_figure(8.6, 4.8, 1, 1)
    axes.axhline(1.0, color="#444444", linewidth=0.9)

    def points(lines: Sequence[dict[str, object]]) -> tuple[list[float], list[float]]:
        names = ("delta_over_sending", "one_step_over_held")
        first, second = ([float(str(line[name])) for line in lines] for name in names)
        return first, second

    for name in SWEPT:
        mine = [line for line in table if (line["row"], line["list"]) == ("sweep", name)]
        if mine:
            axes.plot(*points(mine), color=COLOURS[name], linewidth=1.8, label=_described(name))
    style: dict[str, Any] = {"color": "#222222", "marker": "o", "markersize": 5, "linestyle": ""}
    axes.plot(
        *points([line for line in table if line["row"] == "listed"]),
        label="published lists",
        **style,
    )
    plain_log_axis(axes, "x", (0.01, 0.1, 1, 10))
    axes.set_xlabel("dead time of a change / time in which one plane sends everything")
    axes.set_ylabel("optimum with a memory of one step / real optimum")
    axes.annotate("too slow: circuits are held, not made again", (0.0105, 1.03), fontsize=8.5)
    axes.annotate("too fast: circuits that nobody made", (0.0105, 0.86), fontsize=8.5)
    axes.legend(frameon=False, fontsize=8.5, title="steps", alignment="left")
    axes.set_title("Two planes, cold start: a memory of one step against what is held", fontsize=11)
    return figure


def main() -> None:
    """Run, print and write."""
    arguments = parse_arguments(__doc__)
    table = list(listed_rows())
    if not arguments.quick:
        table += swept_rows()
    publish(Report("held_state", FIELDS, table, picture(table)), arguments)


if __name__ == "__main__":
    main()
