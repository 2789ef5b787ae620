"""Time of an allgather from 1 KiB to 4 GiB: forests, BFB, a ring, and what nothing beats.

At alpha = 10 us a step and 100 Gb/s a host. The networks: of 64 nodes with four ports the candidate
of our frontier with the fewest steps and the one that is best at an all-to-all, which BFB leaves 8
and 17 % above the bound; what a cluster may have instead, a torus and a ring; and with switches, a
leaf-spine of 4 x 4 hosts and two boxes of 16 GPUs. A message takes the fastest of several forests,
in the best number of parts with chunks of 1 KiB or more. The bound is alpha times the fewest steps
and the bytes at the narrowest cut; no one schedule need meet both. The ring is one through all
hosts that takes all bandwidth of a host both ways, where the network has one.

    python experiments/forest_times.py [--quick] [--out DIR]

writes figures/forest_times.csv and .png in seconds; --quick runs the leaf-spine alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from reporting import (
    KAUTZ,
    OURS,
    PUBLISHED,
    RING,
    TESTBED,
    Report,
    new_figure,
    parse_arguments,
    plain_log_axis,
    publish,
    size_axis,
)

from ocs_codesign import Collective, Cost, direct, frontier, parse
from ocs_codesign.core.networks.products import leaf_spine, mi250
from ocs_codesign.schedules.forest.choice import contenders

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ocs_codesign import Network
    from ocs_codesign.schedules.forest.choice import Choice

MESSAGES = tuple(2**exponent for exponent in range(10, 33))
ALLTOALL = (
    "Lift(Cyclic(8), ((38, 46, 55, 62), (2, 10, 18, 26), (37, 45, 53, 60), (3, 11, 19, 27), "
    "(37, 45, 53, 61), (38, 46, 54, 62), (2, 3, 26, 27), (10, 11, 18, 19)))"
)
"""The best at an all-to-all of 64 nodes with four ports, by `frontier --criteria joint`."""
FIELDS = (
    *("network", "hosts", "message_bytes", "bound_us", "bfb_us", "ring_us", "forest_us"),
    *("forest_over_bound", "best", "trees", "height", "parts", "steps"),
)
STYLES: dict[str, dict[str, Any]] = {
    "forest": {"color": OURS, "linewidth": 2.0},
    "bfb": {"color": PUBLISHED, "linewidth": 1.5, "linestyle": (0, (4, 2))},
    "ring": {"color": RING, "linewidth": 1.5, "linestyle": (0, (1, 1.5))},
}
LOW = 2
"""Up to where an axis has ticks for every tenth."""

LABELS = {"forest": "best forest", "bfb": "BFB", "ring": "ring of all bandwidth"}


@dataclass(frozen=True, slots=True)
class Case:
    """A network with a name, and whether a ring of all bandwidth of its hosts is on it."""

    name: str
    network: Network
    ring_steps: int | None


def cases(*, quick: bool) -> Iterator[Case]:
    """The networks, one after the other."""
    if not quick:
        fewest = frontier(64, 4).candidates[0].recipe
        yield Case("frontier: fewest steps", direct(fewest.topology(), 1), None)
        yield Case("frontier: best all-to-all", direct(parse(ALLTOALL).topology(), 1), None)
        yield Case("torus 8 x 8", direct(parse("Torus((8, 8))").topology(), 1), None)
        yield Case("ring, both ways", direct(parse("BiRing(4, 64)").topology(), 1), 32)
    yield Case("leaf-spine, 4 x 4 hosts", leaf_spine(4, 4, 2, 4, 4), 15)
    if not quick:
        yield Case("MI250, 2 boxes of 16 GPUs", mi250(2), None)


def rows(case: Case) -> Iterator[dict[str, object]]:
    """A row for every message."""
    hosts = case.network.num_hosts
    field = contenders(case.network, Collective.ALLGATHER)
    ring = None
    if case.ring_steps is not None:
        ring = Cost(case.ring_steps, Fraction(hosts - 1, hosts))
    for size in MESSAGES:
        choice = field.choice(TESTBED, size)
        forest = next(one for one in choice.contenders if one.pipeline is not None)
        bfb = next((one.cost for one in choice.contenders if one.maker == "bfb"), None)
        bound, took = choice.time_s(choice.least), choice.time_s(forest.cost)
        yield {
            "network": case.name,
            "hosts": hosts,
            "message_bytes": size,
            "bound_us": micros(choice, choice.least),
            "bfb_us": micros(choice, bfb),
            "ring_us": micros(choice, ring),
            "forest_us": micros(choice, forest.cost),
            "forest_over_bound": f"{float(took / bound):.4f}",
            "best": choice.best.maker,
            "trees": forest.pipeline.trees_a_unit if forest.pipeline else "",
            "height": forest.height,
            "parts": forest.num_parts,
            "steps": forest.cost.steps,
        }


def micros(choice: Choice, cost: Cost | None) -> str:
    """The time of a cost in us, to a nanosecond; nothing for none."""
    return "" if cost is None else f"{float(choice.time_s(cost)) * 1e6:.3f}"


def picture(table: Sequence[dict[str, object]]) -> Figure:
    """A panel a network: how many times the bound everything takes, by message size."""
    names = list(dict.fromkeys(str(line["network"]) for line in table))
    columns = min(3, len(names))
    lines = -(-len(names) // columns)
    figure, panels = new_figure(11.0, 0.6 + 3.4 * lines, lines, columns)
    for axes, name in zip(panels, names, strict=True):
        mine = [line for line in table if line["network"] == name]
        axes.axhline(1, color=KAUTZ, linewidth=1.2, zorder=1.5)
        for kind, style in STYLES.items():
            times = [(line["message_bytes"], over_bound(line, kind)) for line in mine]
            if mine[0][f"{kind}_us"]:
                axes.plot(*zip(*times, strict=True), **style)
        heights = sorted({int(str(line["height"])) for line in mine})
        span = f"height {heights[0]}" + f" to {heights[-1]}" * (len(heights) > 1)
        axes.set_title(f"{name}\n{mine[0]['hosts']} hosts, trees of {span}", fontsize=10)
        size_axis(axes, range(10, 33, 5))
    for at in range(0, len(panels), columns):
        high = panels[at].get_ylim()[1]
        is_low = high < LOW
        ticks = [1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.75] if is_low else [1, 1.5, 2, 3, 5, 10, 15]
        plain_log_axis(panels[at], "y", [tick for tick in ticks if tick <= high])
        panels[at].set_ylim(0.98 if is_low else 0.92, high)
        panels[at].set_ylabel("time over the bound (×)")
    for axes in panels[-columns:]:
        axes.set_xlabel("message M (buffer of a rank)")
    for kind, style in STYLES.items():
        panels[0].plot([], [], label=LABELS[kind], **style)
    panels[0].plot([], [], color=KAUTZ, linewidth=1.2, label="bound")
    panels[0].legend(frameon=False, fontsize=9, loc="upper right")
    figure.suptitle(
        "Allgather, α = 10 µs, 100 Gb/s a host: how far from what no schedule can beat",
        fontsize=11.5,
    )
    return figure


def over_bound(line: Mapping[str, object], kind: str) -> float:
    """How many times the bound a schedule takes, nan where there is none."""
    return float(str(line[f"{kind}_us"] or "nan")) / float(str(line["bound_us"]))


def main() -> None:
    """Run, print and write."""
    arguments = parse_arguments(__doc__)
    table = [line for case in cases(quick=arguments.quick) for line in rows(case)]
    publish(Report("forest_times", FIELDS, table, picture(table)), arguments)


if __name__ == "__main__":
    main()
