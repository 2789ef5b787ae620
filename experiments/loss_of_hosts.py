"""What the loss of 1 to 8 hosts costs: their circuits spliced, or left as holes and routed around.

Of 64, 256 and 1024 hosts with four ports each so many are lost, three times at random. "spliced"
joins every circuit into a lost host with one out of it, the best that a seeded search of one-way
splices finds by exact cost (all of them are scored where one host is lost), so that all that are
left have their four ports again; "holes" joins nothing, and breadth-first broadcast is made anew on
what is left. t_b is of an allgather, over the least that any topology of so many hosts can have.
Ours are the two ends of the stored frontier: fewest steps, and least t_b. Beside them stand a torus
and a ring of two cables side by side, whose circuits joined straight through make a ring again.

    python experiments/loss_of_hosts.py [--quick] [--out DIR]

writes figures/loss_of_hosts.csv and .png in some minutes; --quick loses one of 64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from statistics import mean
from typing import TYPE_CHECKING, Any

import numpy as np
from reporting import (
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

from ocs_codesign import parse
from ocs_codesign.core.bounds import bound
from ocs_codesign.core.cost import Cost
from ocs_codesign.fabric.survival import cost_without
from ocs_codesign.graphs.families.rings import BiRing
from ocs_codesign.schedules.design import measure_topology
from ocs_codesign.search.splices import best_splices, loose_ends

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ocs_codesign.core.topology import Topology

DEGREE, DRAWS, MOST, SEED = 4, 3, 8, 1
SCORED = {64: 1500, 256: 500, 1024: 150}
"""Splices of several hosts that are scored, beside those of one host after the other."""
FEWEST, LEAST, TORUS, DOUBLE = "ours, fewest steps", "ours, least t_b", "torus", "ring"
GROUP = "Cayley(Dihedral(8), ((0, 1), (1, 0), (3, 1), (6, 0)))"
LARGE = "Cayley(Semidirect(32, 8, 3), ((0, 1), (12, 7), (15, 3), (17, 6)))"
DESIGNS = {
    64: {
        FEWEST: f"Line({GROUP})",
        LEAST: "Cayley(Semidirect(8, 8, 3), ((0, 2), (1, 2), (1, 5), (3, 4)))",
        TORUS: "Torus((8, 8))",
        DOUBLE: "BiRing(4, 64)",
    },
    256: {
        FEWEST: f"Line(Line({GROUP}))",
        LEAST: LARGE,
        TORUS: "Torus((16, 16))",
        DOUBLE: "BiRing(4, 256)",
    },
    1024: {
        FEWEST: f"Line(Line(Line({GROUP})))",
        LEAST: f"Line({LARGE})",
        TORUS: "Torus((32, 32))",
        DOUBLE: "BiRing(4, 1024)",
    },
}
HOLES = "holes"
LABELS = {"spliced": "spliced", HOLES: "holes left"}
COLOURS = {FEWEST: OURS, LEAST: TREE, TORUS: PUBLISHED, DOUBLE: RING}
FIELDS = (
    *("nodes", "design", "lost", "draws", "bound_steps", "spliced_steps", "spliced_t_b"),
    *("spliced_over_bound", "spliced_worst", "holes_steps", "holes_over_bound", "holes_worst"),
    "cut_off",
)


def spliced(name: str, topology: Topology, gone: Sequence[int]) -> Cost:
    """The least t_b that is found, in the fewest steps."""
    nodes = topology.num_nodes
    if name == DOUBLE:
        return measure_topology(BiRing(DEGREE, nodes - len(gone)).topology()).cost
    ends = loose_ends(topology, gone)
    return best_splices(topology, ends, seed=SEED, most_scored=SCORED[nodes]).found[0].cost


def rows(sizes: Sequence[int], most: int) -> Iterator[dict[str, object]]:
    """A row for every size, design and number of lost hosts, and one for the whole design."""
    for nodes in sizes:
        for name, recipe in DESIGNS[nodes].items():
            topology = parse(recipe).topology()
            whole = measure_topology(topology).cost
            yield row(nodes, name, 0, [whole], [whole])
            for lost in range(1, most + 1):
                generator = np.random.default_rng((SEED, nodes, lost))
                draws = [
                    sorted(generator.choice(nodes, lost, replace=False).tolist())
                    for _ in range(DRAWS)
                ]
                joined = [spliced(name, topology, gone) for gone in draws]
                holes = [cost_without(topology, gone, "allgather") for gone in draws]
                yield row(nodes, name, lost, joined, holes)


def row(
    nodes: int, name: str, lost: int, joined: Sequence[Cost], holes: Sequence[Cost | None]
) -> dict[str, object]:
    """What draws have in common: mean and worst t_b over the bound, and the most steps."""
    least = bound(nodes - lost, DEGREE)
    left = [cost for cost in holes if cost is not None]
    ratios, worse = ([cost.t_b / least.t_b for cost in costs] for costs in (joined, left))
    return {
        "nodes": nodes,
        "design": name,
        "lost": lost,
        "draws": len(joined),
        "bound_steps": least.steps,
        "spliced_steps": max(cost.steps for cost in joined),
        "spliced_t_b": str(min(cost.t_b for cost in joined)),
        "spliced_over_bound": ratio(mean(ratios)),
        "spliced_worst": ratio(max(ratios)),
        "holes_steps": max((cost.steps for cost in left), default=""),
        "holes_over_bound": ratio(mean(worse)) if worse else "",
        "holes_worst": ratio(max(worse)) if worse else "",
        "cut_off": holes.count(None),
    }


def ratio(value: Fraction) -> str:
    """To four places."""
    return f"{float(value):.4f}"


def picture(table: Sequence[dict[str, object]]) -> Figure:
    """Above t_b over the bound, below steps, by number of lost hosts; a column a size."""
    sizes = sorted({int(str(line["nodes"])) for line in table})
    figure, panels = new_figure(4.0 * len(sizes) + 0.6, 6.4, 2, len(sizes), heights=(3, 2))
    for at, nodes in enumerate(sizes):
        above, below = panels[at], panels[len(sizes) + at]
        for name, colour in COLOURS.items():
            mine = [line for line in table if (line["nodes"], line["design"]) == (nodes, name)]
            for kind, style in (("spliced", "-"), (HOLES, ":")):
                known = [line for line in mine if line[f"{kind}_over_bound"] != ""]
                lost = [int(str(line["lost"])) for line in known]
                values = [float(str(line[f"{kind}_over_bound"])) for line in known]
                steps = [int(str(line[f"{kind}_steps"])) for line in known]
                label = (
                    f"{name.replace('t_b', '$t_b$')}, {LABELS[kind]}"
                    f"{' (two cut it)' * (name == DOUBLE and kind == HOLES)}"
                )
                look: dict[str, Any] = {"color": colour, "linestyle": style}
                look |= {"marker": "o", "markersize": 3.5}
                above.plot(lost, values, label=label if at == 0 else None, **look)
                below.plot(lost, steps, **look)
        above.set_title(f"{nodes} hosts, 4 ports each", fontsize=10)
        below.set_xticks(range(max(int(str(line["lost"])) for line in table) + 1))
        below.set_xlabel("hosts lost")
    plain_log_axis(panels[len(sizes)], "y", [3, 10, 30, 100, 300, 1000])
    panels[0].set_ylabel("allgather $t_b$ over the bound (×)\n(mean of 3 draws)")
    panels[len(sizes)].set_ylabel("steps (most of 3 draws)")
    columns = min(4, 1 + len(sizes))
    figure.legend(loc="outside lower center", ncols=columns, frameon=False, fontsize=8.5)
    return figure


def main() -> None:
    """Run, print and write."""
    arguments = parse_arguments(__doc__)
    sizes, most = ((64,), 1) if arguments.quick else (tuple(DESIGNS), MOST)
    table = list(rows(sizes, most))
    publish(Report("loss_of_hosts", FIELDS, table, picture(table)), arguments)


if __name__ == "__main__":
    main()
