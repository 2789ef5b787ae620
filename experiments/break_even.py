"""All-to-all, N = 64, d = 4: the dead time below which changing circuits pays, by message size.

Sequences of C = 2, 4, 8, 16 Cayley digraphs in turn, as the search finds them, and 16 circulants
that connect everybody directly, against the best static topology known; 100 and 400 Gb/s a port,
so B is four times that. With C configurations held in turn the dead time may be

    (T_static - T_C) / (C - 1),  T = alpha * steps + t_b * M / B,

before it eats what they gain; it is given for alpha = 0 and 10 us. Two more rows are about
generalized Kautz digraphs, the published static choice: once with the time of their best routing,
and once by hop counts alone, N - 1 against the largest sum of distances from a node (171), as if
every port could always be busy. Only the second gives 2.36 us for 1 MiB at 100 Gb/s.

    python experiments/break_even.py [--quick] [--out DIR]

writes figures/break_even.csv and .png in a minute; --quick runs N = 16.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
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
    publish,
    size_axis,
    time_log_axis,
)

from ocs_codesign import Cost, CostModel
from ocs_codesign.circuits.frontier import alltoall_candidates
from ocs_codesign.circuits.phases import break_even_delta_s
from ocs_codesign.graphs import GeneralizedKautz
from ocs_codesign.schedules.design import Design
from ocs_codesign.schedules.paths.throughput import throughput

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEGREE = 4
CONFIGURATIONS = (2, 4, 8, 16)
QUICK, SIZES = (16,), (16, 64)
PORT_GBPS = (100, 400)
ALPHAS_US = (0, 10)
MESSAGES = tuple(2**exponent for exponent in range(14, 31))
FIELDS = (
    *("nodes", "port_Gbps", "alpha_us", "static", "static_t_b", "design", "configurations", "t_b"),
    *("bound", "message_bytes", "break_even_us"),
)
STYLES: dict[str, dict[str, Any]] = {
    "2 in turn": {"color": OURS},
    "4 in turn": {"color": KAUTZ},
    "8 in turn": {"color": TREE},
    "16 in turn": {"color": PUBLISHED},
    "direct": {"color": RING, "linestyle": "", "marker": "o", "fillstyle": "none"},
}
HOPS = "hop counts only"


@dataclass(frozen=True, slots=True)
class Pair:
    """A design that changes circuits and the static ones that it is compared with."""

    static_name: str
    static: tuple[Cost, ...]
    design: str
    switched: Cost
    bound: str


def pairs(nodes: int) -> Iterator[Pair]:
    """The comparisons at one size; fewer configurations where fewer connect everybody directly."""
    most = -(-(nodes - 1) // DEGREE)
    found = alltoall_candidates(nodes, DEGREE, most)
    static = tuple(one.cost for one in found if one.cost.num_configurations == 1)
    best = min(static, key=lambda one: one.t_b)
    kept = tuple(one for one in static if not best.dominates(one))
    for one in found:
        number = one.cost.num_configurations
        if one.maker == "direct":
            yield Pair("best known", kept, "direct", one.cost, "")
        elif one.maker == "sequence" and number in CONFIGURATIONS:
            yield Pair("best known", kept, f"{number} in turn", one.cost, str(one.least_t_b))
    direct = next(one for one in found if one.maker == "direct")
    yield from kautz_pairs(nodes, direct)


def kautz_pairs(nodes: int, direct: Design) -> Iterator[Pair]:
    """Generalized Kautz digraphs against the direct sequence: really, and by hop counts."""
    topology = GeneralizedKautz(DEGREE, nodes).topology()
    routed = Cost(topology.diameter(), throughput(topology).time)
    yield Pair("generalized Kautz", (routed,), "direct", direct.cost, "")
    sums = Fraction(int(topology.distances().sum(axis=1).max()), nodes)
    counted = Cost(topology.diameter(), sums)
    number = direct.cost.num_configurations
    ideal = Cost(number, Fraction(nodes - 1, nodes), number)
    yield Pair(f"generalized Kautz, {HOPS}", (counted,), f"direct, {HOPS}", ideal, "")


def rows(nodes: int) -> Iterator[dict[str, object]]:
    """A row for every comparison, port speed, alpha and message.

    Of several sequences of as many configurations it is the one that pays up to most dead time.
    """
    compared: dict[tuple[str, str], list[Pair]] = {}
    for pair in pairs(nodes):
        compared.setdefault((pair.static_name, pair.design), []).append(pair)
    for port in PORT_GBPS:
        for alpha in ALPHAS_US:
            model = CostModel(alpha * 1e-6, DEGREE * port * 1e9 / 8)
            for alike in compared.values():
                for message in MESSAGES:
                    deltas = [
                        break_even_delta_s(pair.static, pair.switched, model, message)
                        for pair in alike
                    ]
                    delta = max(deltas)
                    pair = alike[deltas.index(delta)]
                    yield {
                        "nodes": nodes,
                        "port_Gbps": port,
                        "alpha_us": alpha,
                        "static": pair.static_name,
                        "static_t_b": str(min(one.t_b for one in pair.static)),
                        "design": pair.design,
                        "configurations": pair.switched.num_configurations,
                        "t_b": str(pair.switched.t_b),
                        "bound": pair.bound,
                        "message_bytes": message,
                        "break_even_us": f"{float(delta) * 1e6:.4g}" if delta > 0 else "never",
                    }


def picture(table: Sequence[dict[str, object]], nodes: int = SIZES[-1]) -> Figure:
    """A column a port speed and a row an alpha."""
    figure, panels = new_figure(9.6, 7.2, len(ALPHAS_US), len(PORT_GBPS))
    here = [line for line in table if line["nodes"] == nodes and line["break_even_us"] != "never"]
    for axes, (alpha, port) in zip(panels, product(ALPHAS_US, PORT_GBPS), strict=True):
        for design, style in STYLES.items():
            mine = [
                line
                for line in here
                if (line["port_Gbps"], line["alpha_us"], line["design"], line["static"])
                == (port, alpha, design, "best known")
            ]
            axes.plot(
                [int(str(line["message_bytes"])) for line in mine],
                [float(str(line["break_even_us"])) * 1e-6 for line in mine],
                label=design,
                **style,
            )
        size_axis(axes, range(14, 31, 4))
        axes.set_yscale("log")
        alpha_text = f"α = {alpha} µs" if alpha else "α = 0"
        axes.set_title(f"{port} Gb/s a port, {alpha_text}", fontsize=10)
    for axes in panels[:: len(PORT_GBPS)]:
        low, high = axes.get_ylim()
        ticks = [10.0**k for k in range(-9, 0) if low <= 10.0**k <= high]
        time_log_axis(axes, "y", ticks)
        axes.set_ylabel("dead time below which\nchanging circuits pays")
    for axes in panels[-len(PORT_GBPS) :]:
        axes.set_xlabel("all-to-all message a node, M")
    panels[0].legend(frameon=False, fontsize=8.5)
    figure.suptitle(
        f"{nodes} nodes, four ports: configurations in turn against the best static topology",
        fontsize=11.5,
    )
    return figure


def main() -> None:
    """Run, print and write."""
    arguments = parse_arguments(__doc__)
    sizes = QUICK if arguments.quick else SIZES
    table = [line for nodes in sizes for line in rows(nodes)]
    publish(Report("break_even", FIELDS, table, picture(table, sizes[-1])), arguments)


if __name__ == "__main__":
    main()
