"""Pictures of comparisons: time and bus bandwidth by size of the message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.core.quantities import format_size, format_time
from ocs_codesign.faces.pictures.circuits import bar_colour, set_time_axis
from ocs_codesign.faces.pictures.drawing import FONT_SIZE, one_axes, panels_in, plain
from ocs_codesign.faces.pictures.files import drawing
from ocs_codesign.schedules.simulate.reasons import IDLE_REASONS, idle_ticks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from numpy.typing import NDArray

    from ocs_codesign.schedules.compare.comparison import Comparison
    from ocs_codesign.schedules.compare.play import Outcome
    from ocs_codesign.schedules.simulate.engine import Simulated


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


# A simulation as a picture: what the busiest links do when, and how long every link is in use.


MAX_ROWS, MAX_BARS = 24, 20_000
_HEIGHT = 0.72
_SENDS = "#0b5fa5"
_IDLE = dict(
    zip(
        IDLE_REASONS,
        ("#e0a03c", "#b07cc6", "#7f8896", "#3b4048", "#d9747a", "#eef0f2"),
        strict=True,
    )
)


def simulation_figure(simulated: Simulated, title: str = "") -> Figure:
    """A row a link, bars coloured by step, over the shares of time that every link sends and waits.

    Of many links the busiest are drawn, and of very many bars the first; the picture says so.
    """
    height = 1.5 + 0.22 * _num_rows(simulated) + 2.9
    with drawing(10, height) as figure:
        below = 0.75 / height
        figure.subplots_adjust(0.11, below, 0.975, 1 - 0.45 / height, hspace=2.2 / height)
        draw_simulation(simulated, title, figure=figure)
    return figure


def draw_simulation(
    simulated: Simulated,
    title: str = "",
    *,
    figure: Figure | SubFigure | None = None,
    axes: Iterable[Axes] | None = None,
) -> tuple[Axes, ...]:
    """The picture of ``simulation_figure`` in an empty (sub)figure or 2 axes, or a new figure's."""
    if figure is None and axes is None:
        return tuple(simulation_figure(simulated, title).axes)
    heights = 0.22 * _num_rows(simulated) + 0.4, 2.2
    panels = panels_in(figure, axes, 2, 1, height_ratios=heights)
    gantt, use = panels.axes
    draw_transfers(simulated, title, ax=gantt)
    _draw_use(use, simulated)
    num_links = simulated.transfers.network.num_links
    use.set_title(f"use of {num_links} links", loc="left", fontsize=11)
    return panels.axes


def draw_transfers(simulated: Simulated, title: str = "", *, ax: Axes | None = None) -> Axes:
    """The upper half of ``simulation_figure`` in these axes, or in a new figure's; the axes."""
    if ax is None:
        return simulation_figure(simulated, title).axes[0]
    ax = one_axes(ax)
    rows = np.argsort(-simulated.link_busy(), kind="stable")[:MAX_ROWS]
    note = _draw_bars(ax, simulated, np.sort(rows))
    named = f"{title}: " if title else ""
    ax.set_title(f"{named}{format_time(simulated.total_s)}{note}", loc="left", fontsize=11)
    return ax


def _num_rows(simulated: Simulated) -> int:
    return min(simulated.transfers.network.num_links, MAX_ROWS)


def _draw_bars(axes: Axes, simulated: Simulated, rows: NDArray[np.int64]) -> str:
    """The bars of some links; what is left out, in words."""
    transfers = simulated.transfers
    network, tick_s = transfers.network, float(transfers.network.tick_s)
    on_row = np.isin(transfers.path_link, rows)
    entries = np.flatnonzero(on_row)
    entries = entries[np.argsort(simulated.hop_start[entries], kind="stable")][:MAX_BARS]
    lasts, step = simulated.hop_ticks()[0], transfers.step[simulated.owner()]
    row = np.searchsorted(rows, transfers.path_link)
    for number in np.unique(step[entries]).tolist():
        for place in range(len(rows)):
            here = entries[(step[entries] == number) & (row[entries] == place)]
            if len(here):
                spans = np.stack([simulated.hop_start[here], lasts[here]], axis=1) * tick_s
                axes.broken_barh(
                    [(float(begin), float(width)) for begin, width in spans],
                    (place - _HEIGHT / 2, _HEIGHT),
                    facecolors=bar_colour(number - 1),
                    edgecolor="white",
                    linewidth=0.4 if len(entries) < 1000 else 0.0,
                    zorder=3,
                )
    names = [
        f"{network.name(int(network.tail[link]))} to {network.name(int(network.head[link]))}"
        for link in rows.tolist()
    ]
    end = float(simulated.total_s) or 1.0
    axes.set_yticks(range(len(rows)), names, fontsize=FONT_SIZE)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0, end)
    set_time_axis(axes, end)
    notes = [f"the {len(rows)} busiest of {network.num_links} links"] * (
        len(rows) < network.num_links
    )
    notes += [f"the first {MAX_BARS} sends"] * (len(entries) < int(on_row.sum()))
    return "".join(f", {note}" for note in ["colours are steps", *notes])


def _draw_use(axes: Axes, simulated: Simulated) -> None:
    """Every link as a column of shares of the time, those that send longest first."""
    total = max(simulated.total_ticks, 1)
    busy, idle = simulated.link_busy(), idle_ticks(simulated)
    order = np.argsort(-busy, kind="stable")
    parts = [("sends", busy, _SENDS)]
    names = {why: f"waits: {why}" for why in IDLE_REASONS} | {"done": "done"}
    parts += [(names[why], idle[:, at], _IDLE[why]) for at, why in enumerate(IDLE_REASONS)]
    edges = np.arange(len(order) + 1)
    below = np.zeros(len(order))
    for name, ticks, colour in parts:
        if ticks.any():
            above = below + ticks[order] / total
            axes.stairs(above, edges, baseline=below, fill=True, color=colour, label=name)
            below = above
    axes.set_xlim(0, max(len(order), 1))
    axes.set_ylim(0, 1)
    axes.set_yticks([0, 0.5, 1], ["0 %", "50 %", "100 %"])
    axes.set_xlabel("links, busiest first", loc="right", labelpad=1)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(
        loc="upper left", bbox_to_anchor=(0, -0.16), ncols=7, frameon=False, fontsize=FONT_SIZE
    )
