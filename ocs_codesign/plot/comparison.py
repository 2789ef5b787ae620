"""Pictures of comparisons: time and bus bandwidth by size of the message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.plot.files import drawing
from ocs_codesign.plot.labels import plain
from ocs_codesign.plot.panels import panels_in
from ocs_codesign.quantities import format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from ocs_codesign.comparison.comparison import Comparison
    from ocs_codesign.comparison.play import Outcome

_COLOURS = ("#0b5fa5", "#c8442b", "#5f7a1f", "#7b4fa3", "#b8860b", "#3a8a8a", "#8d5a9e")
_STYLES = ("-", "--", ":", "-.")
_REST, _BOUND = "#d5dae0", "#222222"
_ALWAYS = ("ring", "rings", "double-binary-tree", "direct")
"""Classics that everybody has today: always named."""


def comparison_figure(comparisons: Sequence[Comparison]) -> Figure:
    """Two panels a network, time above and bus bandwidth below, both over the message's size.

    Named are those that are the best somewhere, the best of a maker that is, and the classics that
    everybody has; the rest is grey. The dashed line is what nothing can beat.
    """
    with drawing(6.4 * len(comparisons) + 0.4, 8.6, "constrained") as figure:
        draw_comparison(comparisons, figure=figure)
    return figure


def draw_comparison(
    comparisons: Sequence[Comparison],
    *,
    figure: Figure | SubFigure | None = None,
    axes: Iterable[Axes] | None = None,
) -> tuple[Axes, ...]:
    """The picture of ``comparison_figure`` in an empty (sub)figure, in axes, or in a new figure's.

    ``axes`` are two a comparison, first those of time, then those of bus bandwidth.
    """
    if figure is None and axes is None:
        return tuple(comparison_figure(comparisons).axes)
    columns = len(comparisons)
    panels = panels_in(figure, axes, 2, columns, sharex=True, sharey="row")
    times, bandwidths = panels.axes[:columns], panels.axes[columns:]
    makers = [each.entrant.maker for found in comparisons for each in _named(found)]
    colours = {maker: number for number, maker in enumerate(dict.fromkeys(makers))}
    for time, bandwidth, found in zip(times, bandwidths, comparisons, strict=True):
        _draw(time, bandwidth, found, colours)
        time.set_title(_title(found), fontsize=10)
    for panel in panels.lowest(columns):
        panel.set_xlabel("message M")
    for panel in panels.leftmost(columns):
        panel.set_ylabel("time" if panel in times else "bus bandwidth (GB/s)")
    return panels.axes


def _title(found: Comparison) -> str:
    contest = found.contest
    name = plain(contest.name)
    name = name if len(name) <= 60 else f"{name[:57]}..."
    return f"{contest.collective.name} on {name}, {contest.num_hosts} hosts"


def _draw(time: Axes, bandwidth: Axes, found: Comparison, colours: Mapping[str, int]) -> None:
    """The lines of one network; those that coincide lie on each other, wide ones below."""
    sizes = found.contest.sizes_bytes
    named = _named(found)
    for each in [*named, *(each for each in found.played if each not in named)]:
        style: dict[str, Any] = {"color": _REST, "linewidth": 0.9, "zorder": 1}
        if each in named:
            colour = colours[each.entrant.maker]
            same = [other for other in named if other.entrant.maker == each.entrant.maker]
            style = {
                "color": _COLOURS[colour % len(_COLOURS)],
                "linestyle": _STYLES[same.index(each) % len(_STYLES)],
                "linewidth": max(1.2, 4.0 - 0.7 * named.index(each)),
                "zorder": 3,
                "label": plain(each.entrant.label),
            }
        time.plot(sizes, each.times_s, **style)
        busbw = [found.busbw_Bps(each, at) / 1e9 for at in range(len(sizes))]
        bandwidth.plot(sizes, busbw, **style)
    time.plot([], [], color=_REST, label="others")
    bound: dict[str, Any] = {"color": _BOUND, "linestyle": (0, (4, 2)), "linewidth": 1.2}
    time.plot(sizes, found.least_s, label="nothing is faster", **bound)
    factor = float(found.contest.busbw_factor())
    least = [factor * size / least / 1e9 for size, least in zip(sizes, found.least_s, strict=True)]
    bandwidth.plot(sizes, least, **bound)
    for axes in (time, bandwidth):
        _size_axis(axes, sizes)
        axes.grid(color="#e8e8e8", linewidth=0.7)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    _time_axis(time)
    bandwidth.set_yscale("log")
    time.legend(frameon=False, fontsize=8, loc="upper left")


def _named(found: Comparison) -> list[Outcome]:
    """Winners first, then the best of every other maker that is no classic, then the everyday."""
    named = [best for _, best in found.ranges()]
    makers = {each.entrant.maker for each in named}
    for each in sorted(found.played, key=lambda each: each.times_s[-1]):
        maker = each.entrant.maker
        if maker in makers or (each.entrant.is_classic and maker not in _ALWAYS):
            continue
        makers.add(maker)
        named.append(each)
    return list(dict.fromkeys(named))


def _size_axis(axes: Axes, sizes: Sequence[int]) -> None:
    from matplotlib.ticker import NullLocator

    axes.set_xscale("log", base=2)
    ticks = [2**power for power in range(0, 60, 5) if sizes[0] <= 2**power <= sizes[-1]]
    axes.set_xticks(ticks or [sizes[0]])
    axes.set_xticklabels([format_size(tick) for tick in ticks or [sizes[0]]])
    axes.xaxis.set_minor_locator(NullLocator())


def _time_axis(axes: Axes) -> None:
    from matplotlib.ticker import NullFormatter

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    ticks = [10.0**power for power in range(-9, 6) if low <= 10.0**power <= high]
    axes.set_yticks(ticks)
    axes.set_yticklabels([format_time(tick).replace("us", "µs") for tick in ticks])
    axes.yaxis.set_minor_formatter(NullFormatter())
