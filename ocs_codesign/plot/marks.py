"""Colours and marks of frontiers, the same in every picture of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.plot.labels import FONT_SIZE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

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


def mark_best(axes: Axes, x: float, y: float, label: str) -> None:
    """A star on the point that is best for what was asked."""
    axes.plot(
        [x],
        [y],
        linestyle="",
        marker="*",
        markersize=15,
        color=BEST,
        markeredgecolor="white",
        label=label,
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
