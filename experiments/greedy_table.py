"""TACOS's table: an allgather of 1 MiB shards on meshes and tori, by greedy matching.

Links have 50 GiB/s and 0.5 us, and are busy until a chunk has arrived: 20.03125 us for each. On
"unequal" meshes those of one dimension have 100 GiB/s and 0.5 us, those of the other 50 GiB/s and
1 us. ``tacos_us`` is the smallest of 20 to 100 runs of the public tool, release 1.3.0, and
``tacos_cpu_s`` what one run took; neither was run here. ``bound_us``: nothing is faster.
``cpu_ratio`` is theirs over ours, of different machines: an order of magnitude.

    python experiments/greedy_table.py [--quick] [--out DIR]

writes figures/greedy_table.csv and .png; --quick takes up to 64 hosts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from reporting import KAUTZ, OURS, PUBLISHED, Report, new_figure, parse_arguments, publish

from ocs_codesign import Collective, Network, Topology
from ocs_codesign.core.networks.builders import mesh, torus
from ocs_codesign.schedules.greedy.problem import BLOCKING
from ocs_codesign.schedules.greedy.synthesis import synthesis
from ocs_codesign.verification.circuits import check_timed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EQUAL, UNEQUAL = (1, 1, 1), (2, 1)
"""Ticks of a chunk on the links of every dimension."""

TICK_US = {EQUAL: 20.03125, UNEQUAL: 10.265625}
Case = tuple[str, tuple[int, ...], tuple[int, ...], float]
CASES: tuple[Case, ...] = (
    ("mesh", (4, 4), EQUAL, 160.2),
    ("mesh", (8, 8), EQUAL, 641.0),
    ("mesh", (12, 12), EQUAL, 1442.2),
    ("mesh", (16, 16), EQUAL, 2564.0),
    ("mesh", (20, 20), EQUAL, 4006.2),
    ("mesh", (24, 24), EQUAL, 5769.0),
    ("torus", (4, 4), EQUAL, 80.1),
    ("torus", (8, 8), EQUAL, 340.5),
    ("torus", (12, 12), EQUAL, 741.2),
    ("torus", (16, 16), EQUAL, 1302.0),
    ("torus", (20, 20), EQUAL, 2023.0),
    ("torus", (24, 24), EQUAL, 2925.0),
    ("torus", (32, 32), EQUAL, 5168.0),
    ("torus", (4, 2, 2), EQUAL, 100.2),
    ("torus", (4, 4, 4), EQUAL, 220.3),
    ("torus", (6, 6, 4), EQUAL, 480.8),
    ("torus", (8, 8, 4), EQUAL, 861.3),
    ("torus", (10, 8, 5), EQUAL, 1342.1),
    ("torus", (9, 8, 8), EQUAL, 1923.0),
    ("mesh", (4, 2, 2), EQUAL, 120.2),
    ("mesh", (4, 4, 4), EQUAL, 420.7),
    ("mesh", (6, 6, 4), EQUAL, 961.5),
    ("mesh", (8, 8, 4), EQUAL, 1702.7),
    ("mesh", (10, 8, 5), EQUAL, 2664.2),
    ("mesh", (9, 8, 8), EQUAL, 3846.0),
    ("mesh", (4, 4), UNEQUAL, 102.7),
    ("mesh", (8, 8), UNEQUAL, 431.2),
    ("mesh", (12, 12), UNEQUAL, 985.5),
    ("mesh", (16, 16), UNEQUAL, 1745.2),
)
"""Graph, sides, ticks of every dimension, and the smallest published time in us."""

TACOS_CPU_S = {256: "0.45-0.87", 576: "6-12", 1024: "48-97"}
QUICK_HOSTS = 64
FIELDS = (
    *("graph", "hosts", "ticks", "bound_ticks", "ours_us", "bound_us", "tacos_us"),
    *("tacos_over_ours", "ours_cpu_s", "tacos_cpu_s", "cpu_ratio"),
)


def network_of(kind: str, sides: tuple[int, ...], ticks: tuple[int, ...]) -> Network:
    """The grid with its links known by the ticks that a chunk takes."""
    grid = {"mesh": mesh, "torus": torus}[kind](
        sides, tuple(2 // each for each in ticks)[: len(sides)]
    )
    busy = 2 // np.asarray(grid.bandwidth)
    ends = grid.num_hosts, grid.num_nodes, grid.tail, grid.head
    return Network(*ends, grid.bandwidth, chunk_ticks=busy)


def rows(*, quick: bool) -> Iterator[dict[str, object]]:
    """A row a graph, checked by a replay of every transfer."""
    for warm_up in ("mesh", "torus"):
        # Compiling is no part of the times.
        topology, collective, network = _asked(warm_up, (16, 16), EQUAL)
        synthesis(topology, collective, network=network, model=BLOCKING)
    for kind, sides, ticks, published_us in CASES:
        hosts = prod(sides)
        if quick and hosts > QUICK_HOSTS:
            continue
        topology, collective, network = _asked(kind, sides, ticks)
        start = time.process_time()
        made = synthesis(topology, collective, network=network, model=BLOCKING)
        took_s = time.process_time() - start
        witness = check_timed(made.timed, made.links.delay, chunk_ticks=made.links.busy)
        if witness is not None:
            raise RuntimeError(f"{kind} {sides}: {witness}")
        ours_us = made.ticks * TICK_US[ticks]
        theirs = TACOS_CPU_S.get(hosts, "")
        yield {
            "graph": f"{'' if ticks == EQUAL else 'unequal '}{kind} {'x'.join(map(str, sides))}",
            "hosts": hosts,
            "ticks": made.ticks,
            "bound_ticks": made.bound,
            "ours_us": f"{ours_us:.2f}",
            "bound_us": f"{made.bound * TICK_US[ticks]:.2f}",
            "tacos_us": published_us,
            "tacos_over_ours": f"{published_us / ours_us:.4f}",
            "ours_cpu_s": f"{took_s:.2g}",
            "tacos_cpu_s": theirs,
            "cpu_ratio": "-".join(f"{float(s) / took_s:.2g}" for s in theirs.split("-") if s),
        }


def _asked(
    kind: str, sides: tuple[int, ...], ticks: tuple[int, ...]
) -> tuple[Topology, Collective, Network]:
    network = network_of(kind, sides, ticks)
    return network.topology(), Collective.ALLGATHER, network


def picture(table: Sequence[dict[str, object]]) -> Figure:
    """How many times the bound ours and theirs take, a graph a line."""
    figure, panels = new_figure(7.4, 1.4 + 0.26 * len(table), 1, 1)
    axes, places = panels[0], range(len(table))
    bound = [float(str(line["bound_us"])) for line in table]
    for name, colour, marker in (("tacos_us", PUBLISHED, "s"), ("ours_us", OURS, "o")):
        ratio = [float(str(line[name])) / least for line, least in zip(table, bound, strict=True)]
        label = {"tacos_us": "TACOS, its smallest", "ours_us": "greedy matching"}[name]
        ours = name == "ours_us"
        style: dict[str, Any] = {"markersize": 4 if ours else 8, "color": colour}
        style |= {} if ours else {"markerfacecolor": "white", "markeredgewidth": 1.3}
        axes.plot(ratio, places, marker, label=label, **style)
    axes.axvline(1, color=KAUTZ, linewidth=1.2, zorder=1.5, label="bound")
    axes.set_yticks(list(places), [str(line["graph"]) for line in table], fontsize=9)
    axes.invert_yaxis()
    axes.set_xlabel("time over the bound (×)")
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    axes.set_title("Allgather of 1 MiB shards: greedy matching and TACOS", fontsize=11.5)
    return figure


def main() -> None:
    """Run, print and write."""
    arguments = parse_arguments(__doc__)
    table = list(rows(quick=arguments.quick))
    note = "CPU timings differ from run to run"
    publish(Report("greedy_table", FIELDS, table, picture(table), note), arguments)


if __name__ == "__main__":
    main()
