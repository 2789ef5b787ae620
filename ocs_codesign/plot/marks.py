"""Colours and marks of frontiers, the same in every picture of one."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from ocs_codesign.plot.files import drawing
from ocs_codesign.plot.labels import FONT_SIZE, plain, shortened
from ocs_codesign.quantities import format_bandwidth, format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from fractions import Fraction

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ocs_codesign.cost import MessageSizes

FRONT, BEST, REST, BOUND = "#0b5fa5", "#c8442b", "#b4bac1", "#5f7a1f"
_PICTURE_IN, _AXIS_IN, _TITLE_IN = 4.7, 0.5, 0.4
_BASELINE_COLOURS = ("#8a5a2b", "#d08a2e", "#8e6bbf", "#4a4f57", "#c77ba0", "#2f8f83", "#111111")


@final
@dataclass(frozen=True, slots=True)
class Baseline:
    """A design that a frontier is compared with: where it is drawn, and its cost in words."""

    name: str
    x: float
    y: float
    cost: str


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


def mark_baselines(axes: Axes, baselines: Sequence[Baseline]) -> None:
    """What a cluster would be without a search, on the edge of the picture if it is beyond that."""
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    for colour, one in zip(_BASELINE_COLOURS, baselines, strict=False):
        sides = {"<": one.x < left, ">": one.x > right, "v": one.y < bottom, "^": one.y > top}
        beyond = [marker for marker, is_so in sides.items() if is_so]
        axes.plot(
            [min(max(one.x, left), right)],
            [min(max(one.y, bottom), top)],
            linestyle="",
            marker=beyond[0] if beyond else "D",
            markersize=6,
            color=colour,
            markeredgecolor="white",
            label=f"{plain(shortened(one.name))}: {one.cost}{' (beyond)' * bool(beyond)}",
            clip_on=False,
            zorder=4.5,
        )
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)


def steps_text(steps: int, t_b: float) -> str:
    """A cost as a legend has it."""
    return f"{steps} step{'s' * (steps != 1)}, {t_b:.4g}"


@contextmanager
def drawing_over_legend(num_entries: int) -> Iterator[Figure]:
    """A figure of one picture, as high as it takes to have so many entries of a legend below."""
    legend_in = 0.15 + 0.19 * -(-num_entries // 2)
    height_in = _PICTURE_IN + legend_in
    with drawing(8, height_in) as figure:
        bottom, top = (_AXIS_IN + legend_in) / height_in, 1 - _TITLE_IN / height_in
        figure.subplots_adjust(left=0.1, right=0.97, top=top, bottom=bottom)
        yield figure


def draw_legend(axes: Axes) -> None:
    """The legend, below the axes in two columns."""
    axes.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -_AXIS_IN / (_PICTURE_IN - _AXIS_IN - _TITLE_IN)),
        ncols=2,
        columnspacing=1.5,
        frameon=False,
        fontsize=FONT_SIZE - 0.5,
    )
