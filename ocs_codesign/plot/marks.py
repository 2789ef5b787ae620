"""Colours and marks of frontiers, the same in every picture of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.plot.labels import FONT_SIZE
from ocs_codesign.quantities import format_bandwidth, format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from fractions import Fraction

    from matplotlib.axes import Axes

    from ocs_codesign.cost import MessageSizes

FRONT, BEST, REST, BOUND = "#0b5fa5", "#c8442b", "#b4bac1", "#5f7a1f"


def mark_candidates(axes: Axes, x: Sequence[float], y: Sequence[float]) -> None:
    """The points of a frontier, with how many there are in the legend."""
    axes.plot(
        x,
        y,
        linestyle="",
        marker="o",
        markersize=6.5,
        color=FRONT,
        markeredgecolor="white",
        label=f"frontier: {len(x)} candidate{'s' * (len(x) != 1)}",
        zorder=5,
    )


def mark_best(
    axes: Axes,
    asked: MessageSizes,
    points: Iterable[tuple[float, float]],
    times_s: Iterable[Fraction],
    each: str = "",
) -> None:
    """A star on the point that is best for every message size, with its time in the legend."""
    best: dict[tuple[float, float], list[tuple[str, str]]] = {}
    for point, size, time_s in zip(points, asked.sizes_bytes, times_s, strict=True):
        best.setdefault(point, []).append((format_size(size), format_time(time_s)))
    alpha, bandwidth = asked.model.alpha_s, asked.model.node_bandwidth_Bps
    model = f"(α = {format_time(alpha)}, B = {format_bandwidth(bandwidth)})"
    for (x, y), texts in best.items():
        sizes, times = map(", ".join, zip(*texts, strict=True))
        axes.plot(
            [x],
            [y],
            linestyle="",
            marker="*",
            markersize=15,
            color=BEST,
            markeredgecolor="white",
            label=f"best for {sizes}{each} {model}: {times}",
            zorder=6,
        )


def draw_legend(axes: Axes) -> None:
    """The legend, below the axes in two columns."""
    axes.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.13),
        ncols=2,
        columnspacing=1.5,
        frameon=False,
        fontsize=FONT_SIZE,
    )
