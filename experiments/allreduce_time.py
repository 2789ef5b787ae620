"""N = 1024, d = 4: allreduce time from 1 KiB to 1 GiB, ours against rings, trees, a torus.

At alpha = 10 us a step and 100 Gb/s a node, each design with the better of its schedules:

- ShiftedRing: every port on rings, 2(N - 1) steps, bandwidth-optimal; here UniRing(4, N).
- Double binary tree of Sanders, Speck, Traeff (Parallel Computing 35, 2009): two binary trees of
  height h = ceil(log2 N), a node inside one is a leaf of the other, so four ports hold both. Each
  tree reduces and then broadcasts one half of M. Unpipelined, each of 2h steps moves M/2 over links
  of B/4: T = 2h (alpha + 2 M/B). Pipelined in k pieces, T = (2h + k - 1)(alpha + 2 M/(k B)) with
  the best k. Both are closed forms of ours on that model; the paper has the trees.
- Torus 32 x 32 with BFB; the best published design (Zhao et al., arXiv 2202.03356) of each size,
  the torus excepted; and the best candidate of our frontier.

The source reports 56x over ShiftedRing and 10x over the double binary tree near N = 1000 at
M/B = 80 us. With those parameters we get 66-73x and 10.9-12.0x over its designs of N = 1024 (the
generalized Kautz digraph and the best for the size), so a parameter of the published run differs;
the ratios here are computed, ours and theirs.

    python experiments/allreduce_time.py [--quick] [--out DIR]

writes figures/allreduce_time.csv and .png; --quick runs N = 64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isqrt
from typing import TYPE_CHECKING, Any

from reporting import (
    KAUTZ,
    OURS,
    PUBLISHED,
    RING,
    TESTBED,
    TREE,
    Report,
    new_figure,
    parse_arguments,
    plain_log_axis,
    publish,
    size_axis,
    time_log_axis,
)

from ocs_codesign import Cost, frontier, measure
from ocs_codesign.graphs import GeneralizedKautz, Torus, UniRing
from ocs_codesign.search.pareto import double_binary_tree, pipelined_tree

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEGREE = 4
MESSAGES = tuple(2**exponent for exponent in range(10, 31))
COMPARED_BYTES = 80e-6 * TESTBED.node_bandwidth_Bps
"""M with M/B = 80 us, where the source gives its ratios."""
REPORTED = {"ShiftedRing": "56", "double binary tree": "10"}
FIELDS = ("row", "design", "recipe", "steps", "t_b", "message_bytes", "time_us", "over", "ratio")
NOTE = (
    "M/B = 80 us: the published 56x and 10x are not what closed forms give at these parameters "
    "(66-73x and 10.9-12.0x over the published designs of N = 1024), so a parameter differs"
)
STYLES: dict[str, dict[str, Any]] = {
    "ShiftedRing": {"color": RING},
    "double binary tree": {"color": TREE},
    "double binary tree, pipelined": {"color": TREE, "linestyle": (0, (4, 2))},
    "torus": {"color": KAUTZ},
    "best published": {"color": PUBLISHED},
    "ours": {"color": OURS, "linewidth": 2.2},
}


@dataclass(frozen=True, slots=True)
class Option:
    """A cost that a design offers; the recipe is empty for a closed form."""

    recipe: str
    cost: Cost

    def time_s(self, message_bytes: float) -> float:
        """Seconds for a message."""
        return float(self.cost.time_s(TESTBED, message_bytes))


def fixed_designs(nodes: int) -> dict[str, list[Option]]:
    """Every design but the pipelined tree: the costs of which it takes the best for each size."""
    answer = frontier(nodes, DEGREE, "allreduce")
    side = isqrt(nodes)
    ring, torus = (measure(r, "allreduce") for r in (UniRing(DEGREE, nodes), Torus((side, side))))
    published = [c for c in answer.published if not isinstance(c.recipe, Torus)]
    sets = {
        "ShiftedRing": [ring],
        "torus": [torus],
        "best published": published,
        "generalized Kautz": [c for c in published if isinstance(c.recipe, GeneralizedKautz)],
        "ours": answer.candidates,
    }
    options = {
        name: [Option(repr(candidate.recipe), candidate.cost) for candidate in candidates]
        for name, candidates in sets.items()
    }
    tree = double_binary_tree(nodes, DEGREE)
    if tree is None:
        raise ValueError(f"a double binary tree needs 4 ports, not {DEGREE}")
    return {**options, "double binary tree": [Option("", tree.cost)]}


def best_options(
    nodes: int, fixed: dict[str, list[Option]], message_bytes: float
) -> dict[str, Option]:
    """What every design uses for a message."""
    best = {
        name: min(options, key=lambda option: (option.time_s(message_bytes), option.cost.steps))
        for name, options in fixed.items()
    }
    pipelined = pipelined_tree(nodes, DEGREE, TESTBED, message_bytes)
    if pipelined is None:
        raise ValueError(f"a double binary tree needs 4 ports, not {DEGREE}")
    return {**best, "double binary tree, pipelined": Option("", pipelined.cost)}


def row(
    kind: str, design: str, over: str, best: dict[str, Option], message_bytes: float
) -> dict[str, object]:
    """One design at one message size, and how many times longer than another it takes."""
    option = best[design]
    seconds = option.time_s(message_bytes)
    return {
        "row": kind,
        "design": design,
        "recipe": option.recipe,
        "steps": option.cost.steps,
        "t_b": str(option.cost.t_b),
        "message_bytes": round(message_bytes),
        "time_us": f"{seconds * 1e6:.3f}",
        "over": over,
        "ratio": f"{float(seconds / best[over].time_s(message_bytes)):.3f}",
    }


def rows(nodes: int) -> Iterator[dict[str, object]]:
    """Times of all sizes, then the ratios at M/B = 80 us next to the reported ones."""
    fixed = fixed_designs(nodes)
    for size in MESSAGES:
        best = best_options(nodes, fixed, size)
        for design in STYLES:
            yield row("time", design, "ours", best, size)
    best = best_options(nodes, fixed, COMPARED_BYTES)
    for over in ("ours", "best published", "generalized Kautz"):
        for design in (*REPORTED, "double binary tree, pipelined"):
            yield row("M/B = 80 us", design, over, best, COMPARED_BYTES)
    for design, ratio in REPORTED.items():
        yield {
            "row": "reported in the source near N = 1000",
            "design": design,
            "message_bytes": round(COMPARED_BYTES),
            "over": "theirs",
            "ratio": ratio,
        }


def picture(table: Sequence[dict[str, object]], nodes: int = 1024) -> Figure:
    """Time above, time over ours below, both against the message size."""
    figure, (top, bottom) = new_figure(8.2, 7.2, 2, 1)
    times = [row for row in table if row["row"] == "time"]
    for design, style in STYLES.items():
        here = [row for row in times if row["design"] == design]
        label = f"torus {isqrt(nodes)}×{isqrt(nodes)}, BFB" if design == "torus" else design
        top.plot(MESSAGES, [1e-6 * float(str(r["time_us"])) for r in here], label=label, **style)
        bottom.plot(MESSAGES, [float(str(r["ratio"])) for r in here], **style)
    size_axis(bottom, range(10, 31, 4))
    time_log_axis(top, "y", [10.0**power for power in range(-4, 1)])
    top.set_ylabel("allreduce time")
    top.legend(frameon=False, fontsize=8.5)
    largest = max(float(str(r["ratio"])) for r in times)
    ticks = [tick for a, b in pairwise((1, 10, 100, 1000)) for tick in (a, 2 * a, b / 2)]
    plain_log_axis(bottom, "y", [tick for tick in ticks if tick < 1.5 * largest])
    bottom.set_ylabel("time over ours (×)")
    bottom.set_xlabel("allreduce message size M")
    bottom.axvline(COMPARED_BYTES, color="#b4bac1", linewidth=1, linestyle=(0, (2, 2)))
    bottom.annotate(
        "M/B = 80 µs",
        (COMPARED_BYTES, 1),
        xycoords=("data", "axes fraction"),
        xytext=(4, -10),
        textcoords="offset points",
        fontsize=8.5,
        color="#6b7280",
    )
    top.set_title(
        f"{nodes} nodes, four ports, α = 10 µs, 100 Gb/s a node: allreduce", fontsize=11.5
    )
    return figure


def main() -> None:
    """Run, print and write."""
    arguments = parse_arguments(__doc__)
    nodes = 64 if arguments.quick else 1024
    table = list(rows(nodes))
    publish(Report("allreduce_time", FIELDS, table, picture(table, nodes), NOTE), arguments)


if __name__ == "__main__":
    main()
