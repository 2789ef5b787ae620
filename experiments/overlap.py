"""Planes that change circuits while others send, against a fabric that stops for every change.

An allreduce by recursive halving and doubling and a direct all-to-all, 64 MiB a node, whose steps
need circuits of their own; a node has 800 Gb/s on one plane or split over two, three or four. The
times are optima, cold start, barriers between steps: of planes that change one by one (overlap), of
a fabric that stops (serial), and of planes that never change, where the planes are enough for all
configurations. A single plane has nothing to overlap.

    python experiments/overlap.py [--quick] [--out DIR]

writes figures/overlap.csv and .png in seconds; --quick runs N = 8 at a few dead times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from reporting import (
    KAUTZ,
    OURS,
    PUBLISHED,
    RING,
    Report,
    new_figure,
    parse_arguments,
    publish,
    time_log_axis,
)

from ocs_codesign.circuits.change import Change
from ocs_codesign.circuits.planes.plan import plan_planes, static_plan_of_planes
from ocs_codesign.circuits.planes.problem import PlaneProblem
from ocs_codesign.circuits.step_matched import matched

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUICK, SIZES = (8,), (8, 16)
PLANES = (1, 2, 3, 4)
MESSAGE, NODE_BPS = 2**26, 100 * 10**9
COLLECTIVES = {"allreduce": "recursive-doubling", "alltoall": "shift"}
"""The algorithm of each, whose steps want circuits of their own."""
TITLES = {
    "allreduce": "allreduce, recursive halving and doubling",
    "alltoall": "all-to-all, every shift directly",
}
DELTAS_S = tuple(Fraction(round(10 ** (k / 4)), 10**7) for k in range(4, 21))
COLOURS = dict(zip(PLANES, (RING, KAUTZ, PUBLISHED, OURS), strict=True))
STYLES: dict[str, dict[str, Any]] = {
    "planes change one by one": {"linewidth": 1.9},
    "the fabric stops for a change": {"linewidth": 1.5, "linestyle": (0, (4, 2))},
    "circuits never change": {"linewidth": 1.5, "linestyle": (0, (1, 1.5)), "zorder": 1.9},
}
FIELDS = (
    *("collective", "nodes", "steps", "configurations", "planes", "delta_us", "overlap_us"),
    *("serial_us", "serial_over_overlap", "static_us"),
)


def rows(nodes: int, deltas_s: Sequence[Fraction]) -> Iterator[dict[str, object]]:
    """A row for every collective, number of planes and dead time."""
    for collective, algorithm in COLLECTIVES.items():
        exchanges = matched(algorithm, collective, nodes)
        needed, sizes = exchanges.needed, exchanges.bytes_per_node(MESSAGE)
        for planes in PLANES:
            for delta in deltas_s:
                cost = Change(delta)
                problem = PlaneProblem(needed, sizes, planes, Fraction(NODE_BPS, planes), cost)
                overlap = plan_planes(problem)
                serial = plan_planes(problem.with_cost(Change(delta, overlap=False)), "labels")
                if not (overlap.is_optimal and serial.is_optimal):
                    raise RuntimeError(f"not proven: {collective}, {nodes} nodes, {planes} planes")
                static = static_plan_of_planes(problem)
                yield {
                    "collective": collective,
                    "nodes": nodes,
                    "steps": len(needed),
                    "configurations": problem.num_configurations,
                    "planes": planes,
                    "delta_us": f"{float(delta) * 1e6:g}",
                    "overlap_us": micros(overlap.total_s),
                    "serial_us": micros(serial.total_s),
                    "serial_over_overlap": f"{float(serial.total_s / overlap.total_s):.4f}",
                    "static_us": "" if static is None else micros(static.total_s),
                }


def micros(seconds: Fraction) -> str:
    """A time in us, to a nanosecond."""
    return f"{float(seconds) * 1e6:.3f}"


def picture(table: Sequence[dict[str, object]], nodes: int = SIZES[-1]) -> Figure:
    """A panel a collective: the time, and below it what overlap gains."""
    figure, panels = new_figure(10.0, 6.6, 2, len(COLLECTIVES), heights=(2, 1))
    for at, collective in enumerate(COLLECTIVES):
        above, below = panels[at], panels[at + len(COLLECTIVES)]
        for planes in PLANES:
            mine = [
                line
                for line in table
                if (line["collective"], line["nodes"], line["planes"])
                == (collective, nodes, planes)
            ]
            deltas = [float(str(line["delta_us"])) * 1e-6 for line in mine]
            style: dict[str, Any] = {"color": COLOURS[planes]}

            def times(name: str, lines: Sequence[dict[str, object]] = mine) -> list[float]:
                return [float(str(line[name])) * 1e-6 for line in lines]

            label = f"{planes} plane{'s' * (planes > 1)}"
            overlap, serial, static = STYLES.values()
            above.plot([], [], label=label, linewidth=4, **style)
            above.plot(deltas, times("overlap_us"), **style, **overlap)
            above.plot(deltas, times("serial_us"), **style, **serial)
            if mine[0]["static_us"]:
                above.plot(deltas, times("static_us"), **style, **static)
            ratios = [float(str(line["serial_over_overlap"])) for line in mine]
            below.plot(deltas, ratios, **style, **overlap)
        above.set_title(TITLES[collective], fontsize=10)
        time_log_axis(below, "x", [10.0**k for k in range(-6, -1)])
        below.set_xlabel("dead time of a change, δ")
    time_log_axis(panels[0], "y", [10.0**k for k in range(-3, 0)])
    panels[0].set_ylabel("time of the collective")
    panels[len(COLLECTIVES)].set_ylabel("time when all stop,\nover one by one")
    for name, style in STYLES.items():
        panels[0].plot([], [], color="#222222", label=name, **style)
    panels[0].legend(frameon=False, fontsize=8.5)
    figure.suptitle(
        f"{nodes} nodes, 64 MiB, 800 Gb/s a node: planes that change while others send, "
        "and a fabric that stops",
        fontsize=11.5,
    )
    return figure


def main() -> None:
    """Run, print and write."""
    arguments = parse_arguments(__doc__)
    sizes, deltas_s = (QUICK, DELTAS_S[::4]) if arguments.quick else (SIZES, DELTAS_S)
    table = [line for nodes in sizes for line in rows(nodes, deltas_s)]
    publish(Report("overlap", FIELDS, table, picture(table, sizes[-1])), arguments)


if __name__ == "__main__":
    main()
