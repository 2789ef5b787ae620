"""All-to-all, N = 64, d = 4: how many configurations to hold in turn, by the dead time of a change.

The rows "t_b" give the transmission time of the best sequence found for every number C of
configurations, in M/B, with three bounds: what link prices prove for that very sequence, what no
sequence of C topologies can beat (walks of ports in the order of the phases), and the weaker hops
of a full (C d)-ary tree. C = 1 are the best static topologies known. The rows "best" say which C is
the fastest, T = (C - 1) * delta + alpha * steps + t_b * M / B, for messages of three sizes at
alpha = 10 us and 100 Gb/s a port.

    python experiments/configurations.py [--quick] [--out DIR]

writes figures/configurations.csv and .png in a minute; --quick runs N = 16.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from reporting import (
    KAUTZ,
    OURS,
    PUBLISHED,
    Report,
    new_figure,
    parse_arguments,
    publish,
    time_log_axis,
)

from ocs_codesign import Cost, CostModel
from ocs_codesign.circuits.phases import sequence_bound, tree_bound
from ocs_codesign.circuits.sequences import search_sequences
from ocs_codesign.core.quantities import format_size
from ocs_codesign.search.frontiers import joint_frontier

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEGREE = 4
QUICK, SIZES = (16,), (16, 64)
CONFIGURATIONS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16)
MODEL = CostModel(alpha_s=10e-6, node_bandwidth_Bps=DEGREE * 12.5e9)
MESSAGES = (2**20, 2**24, 2**28)
DELTAS_S = tuple(Fraction(round(10 ** (k / 8)), 10**9) for k in range(16, 65))
FIELDS = (
    *("row", "nodes", "configurations", "sequence", "steps", "t_b", "t_b_decimal", "proven_bound"),
    *("bound", "gap", "tree_bound", "tree_gap"),
    *("message_bytes", "delta_us", "time_us", "over_static"),
)
STYLES: dict[int, dict[str, Any]] = {
    2**20: {"color": KAUTZ},
    2**24: {"color": PUBLISHED},
    2**28: {"color": OURS},
}


def costs(nodes: int) -> Iterator[tuple[str, Cost, Fraction]]:
    """The best sequence of every number of configurations: its text, cost and proven bound."""
    most = -(-(nodes - 1) // DEGREE)
    for number in CONFIGURATIONS:
        if number <= most:
            found = search_sequences(nodes, DEGREE, number)
            text = " ".join(map(repr, found.recipes))
            cost = replace(found.alltoall.cost, num_configurations=number)
            known = [(text, cost, found.alltoall.bound)]
            if number == 1:
                known += static_costs(nodes)
            for one in known:
                if not any(other[1].dominates(one[1]) for other in known):
                    yield one


def static_costs(nodes: int) -> Iterator[tuple[str, Cost, Fraction]]:
    """What the finder knows without changes."""
    for one in joint_frontier(nodes, DEGREE, with_allgather=False).candidates:
        yield repr(one.recipe), one.cost, one.least_t_b or one.cost.t_b


def rows(nodes: int) -> Iterator[dict[str, object]]:
    """First t_b of every number of configurations, then the best number for every dead time."""
    found = list(costs(nodes))
    for text, switched, proven in found:
        number, t_b = switched.num_configurations, switched.t_b
        bound = sequence_bound(nodes, DEGREE, number)
        tree = tree_bound(nodes, DEGREE, number)
        yield {
            "row": "t_b",
            "nodes": nodes,
            "configurations": number,
            "sequence": text,
            "steps": switched.steps,
            "t_b": str(t_b),
            "t_b_decimal": f"{float(t_b):.6f}",
            "proven_bound": str(proven),
            "bound": str(bound),
            "gap": f"{float(t_b / bound - 1):.5f}",
            "tree_bound": str(tree),
            "tree_gap": f"{float(t_b / tree - 1):.5f}",
        }
    for message in MESSAGES:
        fixed = [one for _, one, _ in found if one.num_configurations == 1]
        static = min(one.time_s(MODEL, message, 0) for one in fixed)
        for delta in DELTAS_S:
            timed = [(one.time_s(MODEL, message, delta), one) for _, one, _ in found]
            time, best = min(timed, key=lambda pair: pair[0])
            yield {
                "row": "best",
                "nodes": nodes,
                "configurations": best.num_configurations,
                "message_bytes": message,
                "delta_us": f"{float(delta) * 1e6:.6g}",
                "time_us": f"{float(time) * 1e6:.6g}",
                "over_static": f"{float(time / static):.5f}",
            }


def picture(table: Sequence[dict[str, object]], nodes: int = SIZES[-1]) -> Figure:
    """Time over that of the static topology above, the best number of configurations below."""
    figure, (top, bottom) = new_figure(7.8, 6.4, 2, 1)
    lines = [line for line in table if line["row"] == "best" and line["nodes"] == nodes]
    for message, style in STYLES.items():
        here = [line for line in lines if line["message_bytes"] == message]
        deltas = [float(str(line["delta_us"])) * 1e-6 for line in here]
        shares = [float(str(line["over_static"])) for line in here]
        numbers = [int(str(line["configurations"])) for line in here]
        top.plot(deltas, shares, label=format_size(message), linewidth=1.8, **style)
        bottom.step(deltas, numbers, where="post", linewidth=1.8, **style)
    top.set_ylabel("time over the best static topology")
    top.set_ylim(0, 1.05)
    top.legend(frameon=False, fontsize=9, title="message a node, M")
    bottom.set_yticks(sorted({int(str(line["configurations"])) for line in lines}))
    bottom.set_ylabel("best number of configurations")
    ticks = [10.0**-k for k in range(7, 0, -1)]
    time_log_axis(bottom, "x", ticks)
    bottom.set_xlabel("dead time of a change")
    top.set_title(f"{nodes} nodes, four ports of 100 Gb/s, α = 10 µs: all-to-all", fontsize=11.5)
    return figure


def main() -> None:
    """Run, print and write."""
    arguments = parse_arguments(__doc__)
    sizes = QUICK if arguments.quick else SIZES
    table = [line for nodes in sizes for line in rows(nodes)]
    publish(Report("configurations", FIELDS, table, picture(table, sizes[-1])), arguments)


if __name__ == "__main__":
    main()
