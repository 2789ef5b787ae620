"""ASTRA-sim's native algorithms on its own networks against ours, at equal bandwidth of a host.

ASTRA-sim runs a ring on its Ring, the direct algorithm on FullyConnected, halving-doubling and a
double binary tree on a Switch; its ring goes one way. A host has the same bandwidth everywhere,
over all of its links, each with 500 ns: two ways on a ring, N - 1 links, one to the switch, or four
links of the frontier's designs, which are given BFB, greedy matching, rings side by side, forests
and time-stepped all-to-alls. All are simulated with ASTRA-sim's arithmetic: doubles, truncated to
ns, GB/s of 2^30 bytes, store and forward, the next send of a pair after the last has arrived, 1 ns
an addition.

    python experiments/native_algorithms.py [--quick] [--out DIR]

writes figures/native_algorithms.csv and .png; --quick takes 16 hosts alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
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
    publish,
    size_axis,
    time_log_axis,
)

from ocs_codesign import Collective, Network, Topology, frontier, parse
from ocs_codesign.core.network import direct_routes, shortest_routes
from ocs_codesign.core.networks.builders import direct, star
from ocs_codesign.schedules.classic.registry import CLASSIC
from ocs_codesign.schedules.registry import SCHEDULERS, Task, made_by
from ocs_codesign.schedules.simulate.engine import simulate_transfers
from ocs_codesign.schedules.simulate.making import transfers_of_messages, transfers_of_schedule
from ocs_codesign.schedules.simulate.transfers import TimingRules
from ocs_codesign.verification.messages import check_messages
from ocs_codesign.verification.schedules import verify

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ocs_codesign.schedules.simulate.transfers import Transfers

RULES = TimingRules(unit_Bps=Fraction(2**30), in_doubles=True)
LATENCY_NS, DEGREE = 500, 4
EXPONENTS = (10, 15, 20, 25, 30)
HOST_GBPS = {16: 60, 61: 60, 64: 252}
"""GB/s of a host, which its links divide without rest on every network."""

COLLECTIVES = ("allgather", "allreduce", "alltoall")
NATIVE: Mapping[str, tuple[tuple[str, str, Mapping[str, int]], ...]] = {
    "allgather": (
        ("ring", "Ring", {}),
        ("direct", "FullyConnected", {}),
        ("recursive-doubling", "Switch", {}),
    ),
    "allreduce": (
        ("ring", "Ring", {}),
        ("direct", "FullyConnected", {}),
        ("recursive-doubling", "Switch", {}),
        ("double-binary-tree", "Switch", {"chunks_per_tree": 8}),
    ),
    "alltoall": (("ring-relay", "Ring", {}), ("direct", "FullyConnected", {})),
}
"""What runs where; ASTRA-sim's all-to-all on a ring relays as well."""

OURS_MAKERS: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("bfb", {}),
    ("greedy", {}),
    ("rings", {}),
    ("forest", {"parts": 8}),
    ("stepped", {}),
)
STYLES = {
    "ring": (RING, "-"),
    "ring-relay": (RING, "-"),
    "direct": (PUBLISHED, "-"),
    "recursive-doubling": (TREE, "-"),
    "double-binary-tree": (KAUTZ, (0, (4, 2))),
    "ours": (OURS, "-"),
}
LABELS = {
    "ring": "ring on Ring",
    "ring-relay": "ring on Ring",
    "direct": "direct on FullyConnected",
    "recursive-doubling": "halving-doubling on Switch",
    "double-binary-tree": "double binary tree on Switch",
    "ours": "the best of ours, four links",
}
FIELDS = ("hosts", "collective", "network", "algorithm", "message_bytes", "time_ns", "over_ours")


def networks(hosts: int) -> dict[str, Network]:
    """ASTRA-sim's, by its names for them."""
    whole = HOST_GBPS[hosts]
    source, target = np.divmod(np.arange(hosts**2), hosts)
    apart = source != target
    pairs = Topology(hosts, source[apart], target[apart])
    ring = parse(f"BiRing(2, {hosts})").topology()
    return {
        "Ring": direct(ring, whole // 2, LATENCY_NS),
        "FullyConnected": direct(pairs, whole // (hosts - 1), LATENCY_NS),
        "Switch": star(hosts, whole, LATENCY_NS),
    }


def native(hosts: int, collective: str) -> Iterator[tuple[str, str, Transfers]]:
    """Network, algorithm and transfers, for M = 1, of what ASTRA-sim brings along."""
    for algorithm, name, options in NATIVE[collective]:
        if hosts & (hosts - 1) and CLASSIC[algorithm].takes:
            continue
        made = CLASSIC[algorithm].messages(collective, hosts, **options)
        witness = check_messages(made)
        if witness is not None:
            raise RuntimeError(f"{algorithm}: {witness}")
        pairs = np.unique(made.source.astype(np.int64) * hosts + made.target)
        routes = shortest_routes(Topology(hosts, *np.divmod(pairs, hosts)), networks(hosts)[name])
        yield name, algorithm, transfers_of_messages(made, routes, 1)


def ours(hosts: int, collective: str) -> Iterator[tuple[str, str, Transfers]]:
    """The same of every design of the frontier and every maker of schedules for it."""
    wanted = Collective(collective)
    for candidate in frontier(hosts, DEGREE).candidates:
        topology = candidate.recipe.topology()
        network = direct(topology, HOST_GBPS[hosts] // DEGREE, LATENCY_NS)
        for maker, limits in OURS_MAKERS:
            if not SCHEDULERS[maker].can_make(wanted):
                continue
            try:
                made = made_by(maker, Task(topology, wanted, candidate.recipe, **limits)).schedule
            except ValueError:
                # Not every graph has a ring.
                continue
            if made is None or not verify(made).ok:
                raise RuntimeError(f"{maker} makes no right {collective} of {candidate.recipe!r}")
            transfers = transfers_of_schedule(made, direct_routes(made.topology, network), 1)
            yield f"frontier, {candidate.cost.steps} steps", maker, transfers


def nanoseconds(transfers: Transfers, size: int) -> int:
    """Time of a message."""
    return int(
        simulate_transfers(transfers.with_chunk_bytes(transfers.chunk_bytes * size), RULES).total_s
        * 10**9
    )


def rows(hosts: int, collective: str) -> Iterator[dict[str, object]]:
    """A row for every native algorithm and for the best of ours, and message."""
    theirs, mine = list(native(hosts, collective)), list(ours(hosts, collective))
    for exponent in EXPONENTS:
        size = 2**exponent
        best = min((nanoseconds(made, size), name, maker) for name, maker, made in mine)
        times = [(nanoseconds(made, size), name, algorithm) for name, algorithm, made in theirs]
        for took, name, algorithm in (*times, best):
            yield {
                "hosts": hosts,
                "collective": collective,
                "network": name,
                "algorithm": algorithm,
                "message_bytes": size,
                "time_ns": took,
                "over_ours": f"{took / best[0]:.3f}",
            }


def picture(table: Sequence[dict[str, object]]) -> Figure:
    """A panel for every number of hosts and collective: time over M."""
    sizes = list(dict.fromkeys(int(str(line["hosts"])) for line in table))
    figure, panels = new_figure(11.0, 0.7 + 3.3 * len(sizes), len(sizes), len(COLLECTIVES))
    places = [(hosts, collective) for hosts in sizes for collective in COLLECTIVES]
    for axes, (hosts, collective) in zip(panels, places, strict=True):
        lines: dict[str, list[tuple[int, float]]] = {}
        for line in table:
            if (line["hosts"], line["collective"]) == (hosts, collective):
                is_ours = str(line["network"]).startswith("frontier")
                kind = "ours" if is_ours else str(line["algorithm"])
                point = int(str(line["message_bytes"])), int(str(line["time_ns"])) * 1e-9
                lines.setdefault(kind, []).append(point)
        for kind, points in lines.items():
            colour, dashes = STYLES[kind]
            width = 2.2 if kind == "ours" else 1.4
            axes.plot(*zip(*points, strict=True), color=colour, linestyle=dashes, linewidth=width)
        axes.set_title(f"{collective}, {hosts} hosts of {HOST_GBPS[hosts]} GB/s", fontsize=10)
        size_axis(axes, EXPONENTS)
        time_log_axis(axes, "y", [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1])
    for kind in [*NATIVE_KINDS, "ours"]:
        colour, dashes = STYLES[kind]
        panels[1].plot([], [], color=colour, linestyle=dashes, label=LABELS[kind])
    panels[1].legend(frameon=False, fontsize=8.5, loc="upper left")
    for at in range(0, len(panels), len(COLLECTIVES)):
        panels[at].set_ylabel("time")
    for axes in panels[-len(COLLECTIVES) :]:
        axes.set_xlabel("message M (buffer of a rank)")
    figure.suptitle("ASTRA-sim's native algorithms and ours, by ASTRA-sim's rules", fontsize=11.5)
    return figure


NATIVE_KINDS = ("ring", "direct", "recursive-doubling", "double-binary-tree")


def main() -> None:
    """Run, print and write."""
    arguments = parse_arguments(__doc__)
    sizes = (16,) if arguments.quick else (16, 61, 64)
    table = [line for hosts in sizes for name in COLLECTIVES for line in rows(hosts, name)]
    publish(Report("native_algorithms", FIELDS, table, picture(table)), arguments)


if __name__ == "__main__":
    main()
