"""What experts that are not alike cost on fabrics of 64 GPUs, as they lie and placed by popularity.

The exact least time of a dispatch over that of an even one with as many tokens, a token once a
rank: 256 experts, the best 8 of each token, 512 tokens a GPU, the mean and the most of four layers.
Placed, with a spare place a GPU, experts are where the step before would have them. ``moved`` would
go elsewhere for the next step, and ``moving_ms`` is what these take in the mean of the layers, of
44 MB each. Links are in GB/s.

    python experiments/experts_by_fabric.py [--quick] [--out DIR]

writes figures/experts_by_fabric.csv and .png in half a minute; --quick: two kinds, two fabrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np
from reporting import KAUTZ, OURS, PUBLISHED, TREE, Report, new_figure, parse_arguments, publish

from ocs_codesign.schedules import (
    exchange_optimum,
    expert_counts,
    expert_tokens,
    moved_experts,
    placed_experts,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

FABRICS = {
    "rails": "h100_rail(8)",
    "leaves 4:1": "leaf_spine(8, 8, 2, 50, 50)",
    "leaves 2:1": "leaf_spine(8, 8, 2, 50, 100)",
    "one switch": "star(64, 50)",
}
QUICK_FABRICS = ("rails", "one switch")
KINDS = ("zipf", "hot_rank", "hot_spread", "moving", "ragged", "silent")
QUICK_KINDS = ("zipf", "moving")
RANKS, LAYERS, SPARE = 64, 4, 64
counts_of = partial(expert_counts, experts=256, top_k=8, ranks=RANKS, tokens=512)
tokens_of = partial(expert_tokens, experts=256, top_k=8, ranks=RANKS, tokens=512)
EXPERT_BYTES = 44_040_192
"""Three matrices of 7168 x 2048, a byte a number."""
COLOURS = dict(zip(FABRICS, (OURS, KAUTZ, TREE, PUBLISHED), strict=True))
FIELDS = (
    *("fabric", "network", "kind", "lie", "lie_most", "placed", "placed_most"),
    *("moved", "moving_ms"),
)


@cache
def least(network: str, demand: bytes) -> Fraction:
    """The least time of a matrix, as bytes of int64."""
    return exchange_optimum(network, np.frombuffer(demand, np.int64).reshape(RANKS, RANKS)).value


def over_even(network: str, counts: NDArray[np.int64]) -> float:
    """The time of a dispatch over that of an even one of as many tokens."""
    even = exchange_optimum(network).value * int(counts.sum()) / RANKS**2
    return float(least(network, counts.tobytes()) / even)


def row(fabric: str, network: str, kind: str) -> dict[str, object]:
    """One kind of experts on one fabric."""
    lie, placed, moved, moving = [], [], 0, Fraction(0)
    for layer in range(LAYERS):
        homes = [
            placed_experts(tokens_of(kind, step=step, layer=layer), RANKS, SPARE) for step in (0, 1)
        ]
        lie.append(over_even(network, counts_of(kind, step=1, layer=layer)))
        placed.append(over_even(network, counts_of(kind, step=1, layer=layer, home=homes[0])))
        moves = moved_experts(homes[0], homes[1], RANKS)
        moved += int(moves.sum())
        if moves.any():
            moving += least(network, moves.tobytes()) * EXPERT_BYTES / 10**6
    return {
        **{"fabric": fabric, "network": network, "kind": kind},
        **{"lie": f"{sum(lie) / LAYERS:.4f}", "lie_most": f"{max(lie):.4f}"},
        **{"placed": f"{sum(placed) / LAYERS:.4f}", "placed_most": f"{max(placed):.4f}"},
        **{"moved": moved, "moving_ms": f"{float(moving) / LAYERS:.2f}"},
    }


def rows(fabrics: Sequence[str], kinds: Sequence[str]) -> Iterator[dict[str, object]]:
    """Every kind on every fabric."""
    for fabric in fabrics:
        for kind in kinds:
            yield row(fabric, FABRICS[fabric], kind)


def picture(table: Sequence[dict[str, object]]) -> Figure:
    """Times over that of an even dispatch by kind, as experts lie and placed, a line a fabric."""
    figure, panels = new_figure(9.6, 4.2, 1, 2)
    for number, (fabric, colour) in enumerate(COLOURS.items()):
        mine = [line for line in table if line["fabric"] == fabric]
        kinds = [str(line["kind"]) for line in mine]
        places = np.arange(len(mine)) + 0.12 * (number - 1.5)  # side by side where times are equal
        for axes, column in zip(panels, ("lie", "placed"), strict=True):
            times = [float(str(line[column])) for line in mine]
            axes.plot(places, times, color=colour, marker="o", ms=4, linestyle="", label=fabric)
    for axes, title in zip(panels, ("as they lie", "placed by the step before"), strict=True):
        axes.set_yscale("log")
        axes.set_yticks([1, 2, 4, 8], ["1", "2", "4", "8"])
        axes.minorticks_off()
        axes.set_xticks(range(len(kinds)), kinds)
        axes.set_title(title, fontsize=11)
        axes.tick_params(axis="x", rotation=30)
    panels[0].set_ylabel("dispatch, times an even one")
    panels[0].legend(frameon=False, fontsize=9)
    figure.suptitle("256 experts on 64 GPUs: what popularity costs, by fabric", fontsize=11)
    return figure


def main() -> None:
    """Run, print and write."""
    arguments = parse_arguments(__doc__)
    quick = arguments.quick
    table = list(rows(QUICK_FABRICS if quick else tuple(FABRICS), QUICK_KINDS if quick else KINDS))
    publish(Report("experts_by_fabric", FIELDS, table, picture(table)), arguments)


if __name__ == "__main__":
    main()
