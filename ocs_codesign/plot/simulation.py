"""A simulation as a picture: what the busiest links do when, and how long every link is in use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.plot.files import drawing
from ocs_codesign.plot.gantt import bar_colour, set_time_axis
from ocs_codesign.plot.labels import FONT_SIZE
from ocs_codesign.plot.panels import one_axes, panels_in
from ocs_codesign.quantities import format_time
from ocs_codesign.simulate.reasons import IDLE_REASONS, idle_ticks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from numpy.typing import NDArray

    from ocs_codesign.simulate.simulated import Simulated

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
