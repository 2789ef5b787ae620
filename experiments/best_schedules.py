"""Designs of the frontier against torus, ring and fat tree, each under the best schedule it has.

A host has 400 Gb/s in all: four links of 100 Gb/s with 1 us each, or one of 400 Gb/s to the fat
tree's switch with 0.5 us each way, which stands for a tree that is never the bottleneck. BFB,
expansions, forests, greedy matching, time-stepped all-to-all, rings side by side and the
classic algorithms in the table play; all schedules are checked and simulated on one clock, where
latency flies, links are queues and switches pass on at once. ``over_best`` is time over that of the
best network.

    python experiments/best_schedules.py [--quick] [--out DIR]

writes figures/best_schedules.csv and .png; --quick takes 9 hosts of degree 4 and two sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from reporting import (
    KAUTZ,
    OURS,
    PUBLISHED,
    RING,
    TREE,
    Report,
    new_figure,
    parse_arguments,
    publish,
    size_axis,
    time_log_axis,
)

from ocs_codesign import Collective, frontier, parse
from ocs_codesign.core.networks.builders import direct, star
from ocs_codesign.schedules.compare.contest import Contest
from ocs_codesign.schedules.compare.play import entrants, play

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ocs_codesign.schedules.compare.play import Entrant

DEGREE, UNIT_BPS = 4, Fraction(12_500_000_000)
COLLECTIVES = ("allgather", "allreduce", "alltoall")
EXPONENTS, QUICK_EXPONENTS = (10, 14, 18, 20, 22, 26, 30), (10, 30)
TORI = {9: "Torus((3, 3))", 64: "Torus((8, 8))"}
PLAYERS = (
    *("bfb", "expansion", "forest", "greedy", "stepped", "rings", "direct", "shift"),
    *("recursive-doubling", "recursive-doubling-full", "rabenseifner", "bruck", "ring"),
    *("bucket-multiport", "swing-multiport", "double-binary-tree"),
)
STYLES = {
    "frontier: fewest steps": (OURS, "-"),
    "frontier: least t_b": (KAUTZ, (0, (4, 2))),
    "torus": (PUBLISHED, "-"),
    "ring": (RING, "-"),
    "fat tree": (TREE, (0, (1, 1.5))),
}
FIELDS = ("hosts", "collective", "network", "message_bytes", "time_us", "over_best", "schedule")


def contests(hosts: int, collective: str, exponents: Sequence[int]) -> Iterator[Contest]:
    """A contest a network."""
    sizes = tuple(2**exponent for exponent in exponents)
    found = [candidate.recipe for candidate in frontier(hosts, DEGREE).candidates]
    recipes = {"frontier: fewest steps": found[0], "frontier: least t_b": found[-1]}
    if hosts in TORI:
        recipes["torus"] = parse(TORI[hosts])
    recipes["ring"] = parse(f"BiRing({DEGREE}, {hosts})")
    wanted = Collective(collective)
    for name, recipe in recipes.items():
        network = direct(recipe.topology(), 1, 1000)
        yield Contest(name, network, wanted, sizes, UNIT_BPS, recipe)
    yield Contest("fat tree", star(hosts, DEGREE, 500), wanted, sizes, UNIT_BPS)


def takes_part(entrant: Entrant) -> bool:
    """Whether this choice of a maker plays: of forests and trees some numbers of parts only."""
    options = dict(entrant.options)
    chunks = options.get("chunks_per_tree", 1)
    is_wide = "trees" not in options and options.get("parts", 1) in (1, 4, 64)
    return entrant.maker in PLAYERS and is_wide and chunks in (1, 16)


def rows(hosts: int, collective: str, exponents: Sequence[int]) -> Iterator[dict[str, object]]:
    """A row for every network and message."""
    best = []
    for contest in contests(hosts, collective, exponents):
        outcomes = [play(contest, entrant) for entrant in entrants(contest) if takes_part(entrant)]
        played = [outcome for outcome in outcomes if outcome.times_s]
        for at, size in enumerate(contest.sizes_bytes):
            quickest = [(one.times_s[at], one.num_transfers) for one in played]
            winner = played[quickest.index(min(quickest))]
            best.append((contest.name, size, winner.times_s[at], winner.entrant.label))
    for name, size, seconds, label in best:
        least = min(other[2] for other in best if other[1] == size)
        yield {
            "hosts": hosts,
            "collective": collective,
            "network": name,
            "message_bytes": size,
            "time_us": f"{seconds * 1e6:.3f}",
            "over_best": f"{seconds / least:.3f}",
            "schedule": label,
        }


def picture(table: Sequence[dict[str, object]], exponents: Sequence[int]) -> Figure:
    """A panel for every number of hosts and collective: time over M."""
    sizes = list(dict.fromkeys(int(str(line["hosts"])) for line in table))
    figure, panels = new_figure(11.0, 0.7 + 3.3 * len(sizes), len(sizes), len(COLLECTIVES))
    places = [(hosts, collective) for hosts in sizes for collective in COLLECTIVES]
    for axes, (hosts, collective) in zip(panels, places, strict=True):
        for name, (colour, dashes) in STYLES.items():
            mine = [
                (int(str(line["message_bytes"])), float(str(line["time_us"])) * 1e-6)
                for line in table
                if (line["hosts"], line["collective"], line["network"]) == (hosts, collective, name)
            ]
            if mine:
                axes.plot(*zip(*mine, strict=True), color=colour, linestyle=dashes, label=name)
        axes.set_title(f"{collective}, {hosts} hosts", fontsize=10)
        size_axis(axes, range(min(exponents), max(exponents) + 1, 5))
        time_log_axis(axes, "y", [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1])
    for at in range(0, len(panels), len(COLLECTIVES)):
        panels[at].set_ylabel("time")
    for axes in panels[-len(COLLECTIVES) :]:
        axes.set_xlabel("message M (buffer of a rank)")
    drawn = [axes.get_legend_handles_labels() for axes in panels]
    named = {
        label: line for lines, labels in drawn for line, label in zip(lines, labels, strict=True)
    }
    panels[0].legend(named.values(), named.keys(), frameon=False, fontsize=8.5, loc="upper left")
    figure.suptitle("Every network under the best schedule it has, 400 Gb/s a host", fontsize=11.5)
    return figure


def main() -> None:
    """Run, print and write."""
    arguments = parse_arguments(__doc__)
    exponents = QUICK_EXPONENTS if arguments.quick else EXPONENTS
    sizes = (9,) if arguments.quick else (9, 61, 64)
    table = [
        line
        for hosts in sizes
        for collective in COLLECTIVES
        for line in rows(hosts, collective, QUICK_EXPONENTS if hosts == sizes[0] else exponents)
    ]
    # Of the smallest only two messages are in the table: no curve.
    shown = [line for line in table if len(sizes) == 1 or line["hosts"] != sizes[0]]
    publish(Report("best_schedules", FIELDS, table, picture(shown, exponents)), arguments)


if __name__ == "__main__":
    main()
