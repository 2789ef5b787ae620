"""N = 5 to 12, d = 4: the sizes of the published testbed, our designs, and a two-way ring.

For every size: the frontier's points, the published testbed's design measured, and the allreduce
time of a bidirectional ring over theirs from 1 KiB to 1 GiB, at alpha = 10 us a step and 100 Gb/s a
node. The ring uses its four ports as two parallel links each way and the same scheduler. Source of
the designs: Zhao et al. (arXiv 2202.03356), optical testbed.

    python experiments/testbed_sizes.py [--quick] [--out DIR]

writes figures/testbed_sizes.csv and .png; --quick runs N = 5 to 8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reporting import (
    OURS,
    PUBLISHED,
    RING,
    TESTBED,
    Report,
    new_figure,
    parse_arguments,
    publish,
    size_axis,
)

from ocs_codesign import Design, Recipe, frontier, measure
from ocs_codesign.core.quantities import format_size
from ocs_codesign.graphs import BiRing, Circulant, Complete, CompleteBipartite, Hamming, Named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.figure import Figure

DEGREE = 4
DESIGNS: dict[int, Recipe] = {
    5: Complete(5),
    6: Named("octahedron"),
    7: Circulant(7, (2, 3)),
    8: CompleteBipartite(4),
    9: Hamming(2, 3),
    10: Circulant(10, (2, 3)),
    11: Circulant(11, (2, 3)),
    12: Circulant(12, (2, 3)),
}
"""The published testbed's design of every size."""
MESSAGES = tuple(2**exponent for exponent in range(10, 31, 2))
RATIOS = tuple(f"ring_over_this_{format_size(size).replace(' ', '')}" for size in MESSAGES)
FIELDS = (
    *("nodes", "set", "recipe", "label", "steps", "t_b", "allreduce_steps", "allreduce_t_b"),
    *("bw_optimal", "moore_optimal", *RATIOS),
)
SETS: dict[str, dict[str, Any]] = {
    "frontier": {"color": OURS, "linewidth": 2.0},
    "testbed": {"color": PUBLISHED, "linestyle": "", "marker": "s", "fillstyle": "none"},
    "ring": {"color": RING, "linewidth": 1.2},
}
LEGEND = {"frontier": "ours", "testbed": "published testbed", "ring": "bidirectional ring"}


def allreduce_s(candidate: Design, message_bytes: int) -> float:
    """Seconds of the reduce-scatter and the allgather one after the other."""
    both = candidate.cost_of("allreduce")
    return float(both.time_s(TESTBED, message_bytes))


def designs(nodes: int, ring: Design) -> Iterator[tuple[str, Design]]:
    """The frontier's points of a size, the published design and the ring, each with its set."""
    for candidate in frontier(nodes, DEGREE).candidates:
        yield "frontier", candidate
    yield "testbed", measure(DESIGNS[nodes])
    yield "ring", ring


def rows(nodes: int) -> Iterator[dict[str, object]]:
    """A row for every design of a size."""
    ring = measure(BiRing(DEGREE, nodes))
    for name, candidate in designs(nodes, ring):
        both = candidate.cost_of("allreduce")
        ratios = [allreduce_s(ring, size) / allreduce_s(candidate, size) for size in MESSAGES]
        yield {
            "nodes": nodes,
            "set": name,
            "recipe": repr(candidate.recipe),
            "label": candidate.recipe.label(),
            "steps": candidate.cost.steps,
            "t_b": str(candidate.cost.t_b),
            "allreduce_steps": both.steps,
            "allreduce_t_b": str(both.t_b),
            "bw_optimal": candidate.bw_optimal,
            "moore_optimal": candidate.moore_optimal,
            **{field: f"{float(ratio):.4f}" for field, ratio in zip(RATIOS, ratios, strict=True)},
        }


def picture(table: list[dict[str, object]]) -> Figure:
    """A panel for every size: how many times faster than the ring."""
    sizes = sorted({int(str(row["nodes"])) for row in table})
    figure, panels = new_figure(9.5, 5.2, 2, len(sizes) // 2)
    for axes, nodes in zip(panels, sizes, strict=True):
        here = [row for row in table if row["nodes"] == nodes]
        for row in sorted(here, key=lambda row: list(SETS).index(str(row["set"]))):
            ratios = [float(str(row[field])) for field in RATIOS]
            axes.plot(MESSAGES, ratios, label=LEGEND[str(row["set"])], **SETS[str(row["set"])])
        size_axis(axes, (10, 20, 30))
        axes.set_ylim(0.8, 3.2)
        axes.set_title(f"N = {nodes}: {DESIGNS[nodes].label()}", fontsize=9.5, parse_math=False)
    figure.set_layout_engine("constrained", wspace=0.05)
    figure.supxlabel("allreduce message size M", fontsize=9.5)
    figure.supylabel("speed-up over the bidirectional ring (×)", fontsize=9.5)
    times = {name: [row[RATIOS[0]] for row in table if row["set"] == name] for name in SETS}
    verdict = ": ours are the published designs" if times["frontier"] == times["testbed"] else ""
    title = f"Testbed sizes, four ports, α = 10 µs, 100 Gb/s a node{verdict}"
    figure.suptitle(title, fontsize=11.5)
    panels[1].legend(loc="upper right", frameon=False, fontsize=8.5)
    return figure


def main() -> None:
    """Run, print and write."""
    arguments = parse_arguments(__doc__)
    sizes = [nodes for nodes in DESIGNS if nodes <= 8 or not arguments.quick]
    table = [row for nodes in sizes for row in rows(nodes)]
    publish(Report("testbed_sizes", FIELDS, table, picture(table)), arguments)


if __name__ == "__main__":
    main()
