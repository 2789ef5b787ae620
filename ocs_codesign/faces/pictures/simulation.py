"""Pictures of comparisons: time, bus bandwidth and distance to the bound by message size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.core.quantities import format_size, format_time
from ocs_codesign.faces.pictures.drawing import (
    FONT_SIZE,
    bar_colour,
    legend_below,
    on_grid,
    one_axes,
    panels_in,
    plain,
    plain_log,
    set_time_axis,
)
from ocs_codesign.faces.pictures.files import drawing, drawn_alone, pictured
from ocs_codesign.schedules.simulate.reasons import IDLE_REASONS, idle_ticks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from numpy.typing import NDArray

    from ocs_codesign.schedules.compare.comparison import Comparison
    from ocs_codesign.schedules.compare.play import Outcome
    from ocs_codesign.schedules.simulate.engine import Simulated


_COLOURS = (
    *("#0b5fa5", "#c8442b", "#5f7a1f", "#7b4fa3", "#b8860b", "#3a8a8a"),
    *("#d45f9e", "#7a4a2b", "#5aaee0", "#9ab83c"),
)
_MARKERS = "os^DvP<X>h"
"""A colour and a marker a line, none twice: lines beyond are grey."""

_REST, _BOUND = "#d5dae0", "#222222"
_ALWAYS = ("ring", "rings", "double-binary-tree", "direct")
"""Classics that everybody has today: always named."""

_ALIKE, _MOST_NAMES = 0.005, 3
"""Lines are drawn as one where they differ by less everywhere."""


@pictured(lambda comparisons: drawing(6.4 * len(comparisons) + 0.4, 10.0))
def draw_comparison(
    comparisons: Sequence[Comparison],
    *,
    figure: Figure | SubFigure | None = None,
    axes: Iterable[Axes] | None = None,
) -> tuple[Axes, ...]:
    """Three panels a network over the message's size: time, bus bandwidth, time over the bound.

    Named are those that are the best somewhere, the best of a maker that is, and the classics that
    everybody has; the rest is grey. The dashed line is what nothing can beat, and a marker is a
    size that was played. ``axes`` are three a comparison, first those of time.
    """
    columns = len(comparisons)
    panels = panels_in(figure, axes, 3, columns, sharex=True, sharey="row")
    named = [_named(found) for found in comparisons]
    labels = dict.fromkeys(_label(same) for lines in named for same in lines)
    looks = dict(zip(labels, zip(_COLOURS, _MARKERS, strict=True), strict=False))
    for at, (lines, found) in enumerate(zip(named, comparisons, strict=True)):
        _draw(panels.axes[at::columns], found, lines, looks)
        panels.axes[at].set_title(_title(found), fontsize=10)
    for panel in panels.lowest(columns):
        panel.set_xlabel("message M")
    names = ("time", "bus bandwidth (GB/s)", "time over the least (×)")
    for at in range(3 * columns):
        if panels.axes[at] in panels.leftmost(columns):
            panels.axes[at].set_ylabel(names[at // columns])
    return panels.axes


comparison_figure = drawn_alone(draw_comparison)


def _title(found: Comparison) -> str:
    contest = found.contest
    name = plain(contest.name)
    name = name if len(name) <= 60 else f"{name[:57]}..."
    return f"{contest.collective.name} on {name}, {contest.num_hosts} hosts"


def _draw(
    panels: Sequence[Axes],
    found: Comparison,
    lines: Sequence[Sequence[Outcome]],
    looks: Mapping[str, tuple[str, str]],
) -> None:
    """The lines of one network."""
    sizes, least_s = found.contest.sizes_bytes, found.least_s
    factor = float(found.contest.busbw_factor()) / 1e9

    def draw(times_s: Sequence[float], **style: Any) -> None:
        busbw = [factor * size / each for size, each in zip(sizes, times_s, strict=True)]
        over = [each / least for each, least in zip(times_s, least_s, strict=True)]
        for axes, values in zip(panels, (times_s, busbw, over), strict=True):
            axes.plot(sizes, values, **style)

    drawn = [each for same in lines if _label(same) in looks for each in same]
    for each in found.played:
        if each not in drawn:
            draw(each.times_s, color=_REST, linewidth=0.9, zorder=1)
    for at, same in enumerate(lines):
        if (name := _label(same)) in looks:
            colour, marker = looks[name]
            mark: dict[str, Any] = {"marker": marker, "markersize": max(3.5, 7.0 - 0.5 * at)}
            draw(same[0].times_s, color=colour, linewidth=1.3, zorder=3, label=name, **mark)
    panels[0].plot([], [], color=_REST, label="others")
    bound: dict[str, Any] = {"color": _BOUND, "linestyle": (0, (4, 2)), "linewidth": 1.2}
    draw(least_s, label="nothing is faster", **bound)
    for axes in map(on_grid, panels):
        _size_axis(axes, sizes)
        axes.set_yscale("log")
    _time_axis(panels[0])
    plain_log(panels[1], "y", (1, 2, 5))
    plain_log(panels[2], "y", (1, 1.5, 2, 3, 5))
    legend_below(panels[-1], panels[0].get_legend_handles_labels()[0], 2, 5.0)


def _label(same: Sequence[Outcome]) -> str:
    """The names of those that are drawn as one."""
    names = list(dict.fromkeys(each.entrant.label for each in same))
    more = len(names) - _MOST_NAMES
    return plain(", ".join(names[:_MOST_NAMES]) + f" and {more} more" * (more > 0))


def _named(found: Comparison) -> list[list[Outcome]]:
    """Winners first, then the best of every other maker that is no classic, then the everyday.

    Those that take the same time at every size stand together.
    """
    named = [best for _, best in found.ranges()]
    makers = {each.entrant.maker for each in named}
    for each in sorted(found.played, key=lambda each: each.times_s[-1]):
        maker = each.entrant.maker
        if maker in makers or (each.entrant.is_classic and maker not in _ALWAYS):
            continue
        makers.add(maker)
        named.append(each)
    lines: list[list[Outcome]] = []
    for each in dict.fromkeys(named):
        alike = [same for same in lines if np.allclose(each.times_s, same[0].times_s, _ALIKE, 0)]
        if alike:
            alike[0].append(each)
        else:
            lines.append([each])
    return lines


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


@pictured(lambda simulated, _="": drawing(10, 4.6 + 0.22 * _num_rows(simulated)))
def draw_simulation(
    simulated: Simulated,
    title: str = "",
    *,
    figure: Figure | SubFigure | None = None,
    axes: Iterable[Axes] | None = None,
) -> tuple[Axes, ...]:
    """A row a link, bars coloured by step, over the shares of time that every link sends and waits.

    Of many links the busiest are drawn, and of very many bars the first; the picture says so.
    """
    heights = 0.22 * _num_rows(simulated) + 0.4, 2.2
    panels = panels_in(figure, axes, 2, 1, height_ratios=heights)
    gantt, use = panels.axes
    draw_transfers(simulated, title, ax=gantt)
    _draw_use(use, simulated)
    num_links = simulated.transfers.network.num_links
    use.set_title(f"use of {num_links} links", loc="left", fontsize=11)
    return panels.axes


simulation_figure = drawn_alone(draw_simulation)


@pictured(lambda simulated, _="": drawing(10, 1.5 + 0.22 * _num_rows(simulated)))
def draw_transfers(simulated: Simulated, title: str = "", *, ax: Axes | None = None) -> Axes:
    """The upper half of ``simulation_figure``."""
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
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(
        loc="upper left", bbox_to_anchor=(0, -0.16), ncols=7, frameon=False, fontsize=FONT_SIZE
    )
