"""Time of an allreduce whose switches add up, beside a ring, a double tree and the best forest.

One switch with 8 hosts and a leaf-spine of four leaves with four hosts each, links of 100 Gb/s and
500 ns (400 Gb/s from leaf to spine), all on one clock: switchml, with 512 slots and with 16, and
sharp; classic algorithms as messages over shortest paths; forests in the best of several
numbers of parts. Profiles are those of ocs_codesign/core/networks/aggregation.toml, with what
is assumed there. The bound is what no allreduce exceeds where switches only forward: what is below
it, in the figure, is won by sums in the network alone.

    python experiments/in_network.py [--quick] [--out DIR]

writes figures/in_network.csv and .png in minutes; --quick runs one switch, three sizes.
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
    TREE,
    Report,
    new_figure,
    parse_arguments,
    plain_log_axis,
    publish,
    size_axis,
    time_log_axis,
)

from ocs_codesign import Collective, fat_tree, star
from ocs_codesign.core.networks.aggregation import aggregation_named
from ocs_codesign.schedules.compare.contest import Contest, most_algbw
from ocs_codesign.schedules.compare.play import Entrant, entrants, play

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ocs_codesign import Network

EXPONENTS = tuple(range(10, 31, 2))
GBPS = Fraction(10**9, 8)
PROFILES = ("switchml", "switchml(num_slots=16)", "sharp")
CLASSICS = ("ring", "double-binary-tree")
FOREST, BOUND = "best forest", "bound without sums in switches"
FIELDS = ("network", "hosts", "message_bytes", "design", "time_us", "times_faster_than_ring")
STYLES: dict[str, dict[str, Any]] = {
    "switchml": {"color": OURS, "linewidth": 2.0},
    "switchml(num_slots=16)": {"color": OURS, "linewidth": 1.4, "linestyle": (0, (2, 2))},
    "sharp": {"color": KAUTZ, "linewidth": 2.0},
    FOREST: {"color": PUBLISHED, "linewidth": 1.5, "linestyle": (0, (4, 2))},
    "double-binary-tree": {"color": TREE, "linewidth": 1.5, "linestyle": (0, (4, 2))},
    "ring": {"color": RING, "linewidth": 1.5, "linestyle": (0, (1, 1.5))},
    BOUND: {"color": "#222222", "linewidth": 1.0, "linestyle": (0, (6, 3))},
}
LABELS = {"switchml(num_slots=16)": "switchml with 16 slots", "double-binary-tree": "double tree"}


def networks(*, quick: bool) -> dict[str, Network]:
    """The networks by name."""
    found = {"one switch": star(8, 100, 500, "Gbps")}
    if not quick:
        found["leaf-spine"] = fat_tree((4, 4), (1, 2), (100, 400), (500, 500), "Gbps")
    return found


def times_us(network: Network, sizes: tuple[int, ...]) -> dict[str, list[float]]:
    """Microseconds of every design for all sizes."""

    def contest(profile: str | None) -> Contest:
        by = None if profile is None else aggregation_named(profile)
        return Contest("", network, Collective.ALLREDUCE, sizes, GBPS, aggregation=by)

    plain = contest(None)
    made: dict[str, list[tuple[float, ...]]] = {}
    for profile in PROFILES:
        given = contest(profile)
        made[profile] = [_times(given, entrants(given)[0])]
    for each in entrants(plain):
        if each.maker in CLASSICS and not dict(each.options).get("rank_to_node"):
            made.setdefault(each.maker, []).append(_times(plain, each))
        elif each.maker == "forest":
            made.setdefault(FOREST, []).append(_times(plain, each))
    most = most_algbw(network, Collective.ALLREDUCE) * GBPS
    latency = plain.floor_s()[0]
    made[BOUND] = [tuple(float(max(latency, size / most)) for size in sizes)]
    return {
        name: [1e6 * min(options) for options in zip(*rows, strict=True)]
        for name, rows in made.items()
    }


def _times(contest: Contest, entrant: Entrant) -> tuple[float, ...]:
    outcome = play(contest, entrant)
    if outcome.refusal is not None:
        raise RuntimeError(f"{entrant.label}: {outcome.refusal}")
    return outcome.times_s


def rows(name: str, network: Network, sizes: tuple[int, ...]) -> Iterator[dict[str, object]]:
    """A row a design and size."""
    found = times_us(network, sizes)
    for design in STYLES:
        for size, time, ring in zip(sizes, found[design], found["ring"], strict=True):
            yield {
                "network": name,
                "hosts": network.num_hosts,
                "message_bytes": size,
                "design": design,
                "time_us": f"{time:.3f}",
                "times_faster_than_ring": f"{ring / time:.3f}",
            }


def picture(table: Sequence[dict[str, object]], given: dict[str, Network] | None = None) -> Figure:
    """Time above, the ring's time over it below, a column a network: of those given, or all."""
    given = given or networks(quick=False)
    figure, panels = new_figure(5.4 * len(given), 7.4, 2, len(given))
    for column, (name, network) in enumerate(given.items()):
        top, bottom = panels[column], panels[len(given) + column]
        for design, style in STYLES.items():
            here = [row for row in table if (row["network"], row["design"]) == (name, design)]
            sizes = [int(str(row["message_bytes"])) for row in here]
            label = LABELS.get(design, design)
            top.plot(sizes, [1e-6 * float(str(r["time_us"])) for r in here], label=label, **style)
            gain = [float(str(row["times_faster_than_ring"])) for row in here]
            if design != BOUND:
                bottom.plot(sizes, gain, **style)
            else:
                most = [(s, g) for s, g in zip(sizes, gain, strict=True) if s >= 2**18]
                bottom.plot(*zip(*most, strict=True), **style)
        time_log_axis(top, "y", [10.0**power for power in range(-6, 0)])
        top.set_title(f"{name}, {network.num_hosts} hosts at 100 Gb/s", fontsize=11)
        bottom.set_xlabel("allreduce message size M")
        size_axis(bottom, EXPONENTS[::2])
    plain_log_axis(panels[len(given)], "y", [0.5, 1, 1.5, 2, 3, 5, 10])
    panels[len(given)].set_ylim(0.5, 16)
    panels[0].set_ylabel("time")
    panels[len(given)].set_ylabel("faster than the ring (×)")
    panels[0].legend(frameon=False, fontsize=8.5)
    return figure


def main() -> None:
    """Run, print and write."""
    arguments = parse_arguments(__doc__)
    given = networks(quick=arguments.quick)
    sizes = tuple(2**exponent for exponent in EXPONENTS[:: 5 if arguments.quick else 1])
    table = [row for name, network in given.items() for row in rows(name, network, sizes)]
    publish(Report("in_network", FIELDS, table, picture(table, given)), arguments)


if __name__ == "__main__":
    main()
