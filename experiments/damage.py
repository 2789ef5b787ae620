"""What damage costs: the rate of an allgather that is left when cables are lost.

Of every network so many cables are lost at random, 40 times; of clusters of servers those between
servers, so that a cable is a network card as well, of a leaf-spine those between switches, for a
host has no other than its own. "forest" is the best rate that is left, reached
by spanning trees made anew, "bfb" what breadth-first broadcast made anew does on links between
hosts, both as a part of what the network could do before. A draw that cuts a host off leaves 0.
Designs of four ports a node are the best of our frontier, a torus, and a ring of two cables side by
side; a leaf-spine has the same bandwidth a host, servers have 8 GPUs (A100, H100) or 16 (MI250).

    python experiments/damage.py [--quick] [--out DIR]

writes figures/damage.csv and .png in a minute; --quick loses up to two cables of two networks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from statistics import mean
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
)

from ocs_codesign import parse
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.networks.builders import direct
from ocs_codesign.core.networks.products import a100, h100_rail, leaf_spine, mi250
from ocs_codesign.core.networks.servers import _OUTER_LEVEL as OUTER
from ocs_codesign.schedules.design import measure_topology
from ocs_codesign.schedules.forest.optimum import optimum

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ocs_codesign.core.network import Network

DRAWS, LOST = 40, (1, 2, 4, 8)
SEED = 1
OWN = "ours, 64 nodes"
DESIGNS = {
    OWN: "Lift(Cyclic(16), ((32, 36, 41, 55), (19, 29, 48, 62), (0, 7, 12, 61), (9, 16, 18, 35)))",
    "torus 8x8": "Torus((8, 8))",
    "ring of 64, cables doubled": "BiRing(4, 64)",
}
LEAF_SPINE = "leaf-spine, 64 hosts"
STYLES = {
    OWN: (OURS, "-"),
    "torus 8x8": (PUBLISHED, "-"),
    "ring of 64, cables doubled": (RING, "-"),
    LEAF_SPINE: (TREE, "-"),
    "A100 x 4": (KAUTZ, "-"),
    "H100-rail x 4": ("#c98a1b", "--"),
    "MI250 x 2": ("#7a5230", ":"),
}
FIELDS = (
    *("network", "hosts", "cables", "lost", "draws", "cut_off"),
    *("forest_worst", "forest_mean", "bfb_worst", "bfb_mean"),
)


def networks() -> dict[str, Network]:
    """Every network by name."""
    found = {name: direct(parse(recipe).build(), 1) for name, recipe in DESIGNS.items()}
    return found | {
        LEAF_SPINE: leaf_spine(8, 8, 4, 4, 8),
        "A100 x 4": a100(4),
        "H100-rail x 4": h100_rail(4),
        "MI250 x 2": mi250(2),
    }


def cables(network: Network) -> list[tuple[int, ...]]:
    """Links of every cable that may be lost, one each way between two nodes."""
    pairs: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
    between = np.ones(network.num_links, dtype=bool)
    if network.dimension is not None:
        between = network.dimension == OUTER
    for link in np.flatnonzero(between).tolist():
        tail, head = int(network.tail[link]), int(network.head[link])
        ways = pairs.setdefault((min(tail, head), max(tail, head)), ([], []))
        ways[tail > head].append(link)
    return [both for ways in pairs.values() for both in zip(*ways, strict=True)]


def left(network: Network) -> tuple[Fraction, Fraction | None]:
    """Best algbw, and that of BFB where all links are between hosts; 0 if a host is cut off."""
    is_direct = network.num_hosts == network.num_nodes
    try:
        best = optimum(network, Collective.ALLGATHER)
    except ValueError:
        return Fraction(0), Fraction(0) if is_direct else None
    if not is_direct:
        return best.algbw, None
    topology = network.topology()
    t_b = measure_topology(topology).cost.t_b
    return best.algbw, network.host_bandwidth() / t_b


def rows(chosen: Sequence[str], numbers: Sequence[int], draws: int) -> Iterator[dict[str, object]]:
    """A row for every network and number of lost cables."""
    for name, network in networks().items():
        if name not in chosen:
            continue
        whole, _ = left(network)
        every = cables(network)
        generator = np.random.default_rng(SEED)
        for lost in numbers:
            forest, bfb = [], []
            for _ in range(draws):
                gone = generator.choice(len(every), size=lost, replace=False)
                links = sorted(link for cable in gone for link in every[cable])
                best, broadcast = left(network.without(links=links))
                forest.append(best / whole)
                bfb.append(None if broadcast is None else broadcast / whole)
            known = [value for value in bfb if value is not None]
            yield {
                "network": name,
                "hosts": network.num_hosts,
                "cables": len(every),
                "lost": lost,
                "draws": draws,
                "cut_off": forest.count(Fraction(0)),
                "forest_worst": percent(min(forest)),
                "forest_mean": percent(mean(forest)),
                "bfb_worst": percent(min(known)) if known else "",
                "bfb_mean": percent(mean(known)) if known else "",
            }


def percent(part: Fraction) -> str:
    """A part of one, to four places."""
    return f"{float(part):.4f}"


def picture(table: Sequence[dict[str, object]]) -> Figure:
    """Mean rate left by number of lost cables: by new trees, and by new BFB where that applies."""
    figure, (forest, bfb) = new_figure(10.0, 4.6, 1, 2)
    numbers = sorted({int(str(line["lost"])) for line in table})
    for name, (colour, line_style) in STYLES.items():
        mine = [line for line in table if line["network"] == name]
        for axes, kind in ((forest, "forest"), (bfb, "bfb")):
            if not mine or not mine[0][f"{kind}_mean"]:
                continue
            means, worst = (
                [100 * float(str(line[f"{kind}_{which}"])) for line in mine]
                for which in ("mean", "worst")
            )
            style: dict[str, Any] = {"color": colour, "linestyle": line_style}
            label = name if axes is forest else None
            axes.plot(numbers, means, marker="o", markersize=4.5, label=label, **style)
            axes.plot(numbers, worst, marker="v", markersize=4.5, linewidth=0, color=colour)
    forest.plot(
        [], [], marker="v", markersize=4.5, linewidth=0, color="#222222", label="worst of 40 draws"
    )
    forest.set_title("spanning trees made anew (the best there is)", fontsize=10)
    bfb.set_title("breadth-first broadcast made anew", fontsize=10)
    forest.set_ylabel("rate left (% of the undamaged optimum)")
    forest.set_ylim(bottom=0)
    for axes in (forest, bfb):
        axes.set_xticks(numbers)
        axes.set_xlabel("cables lost")
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=8.5)
    return figure


def main() -> None:
    """Run, print and write."""
    arguments = parse_arguments(__doc__)
    chosen = (LEAF_SPINE, "torus 8x8") if arguments.quick else tuple(STYLES)
    table = list(rows(chosen, LOST[:2] if arguments.quick else LOST, DRAWS))
    publish(Report("damage", FIELDS, table, picture(table)), arguments)


if __name__ == "__main__":
    main()
