"""The frontier with reconfiguration: t_b against configurations, and times against dead times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.collective import Collective
from ocs_codesign.plot.files import drawing
from ocs_codesign.plot.labels import FONT_SIZE
from ocs_codesign.plot.panels import panels_in
from ocs_codesign.quantities import format_bandwidth, format_size, format_time
from ocs_codesign.reconfigure.frontier.reconfigured import best_static, break_even_of, t_b_bound

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from ocs_codesign.cost import CostModel, MessageSizes
    from ocs_codesign.design import Design
    from ocs_codesign.search.pareto import Frontier

_STATIC, _SWITCHING, _REST, _BOUND, _ASKED = "#0b5fa5", "#c8442b", "#b4bac1", "#5f7a1f", "#6b7280"
_MOST_OVER_FRONT = 3.0
_LOG_RATIO = 10


def reconfigured_figure(
    frontier: Frontier,
    deltas_s: Sequence[float] = (),
    asked: MessageSizes | None = None,
) -> Figure:
    """t_b of all candidates with the bound: against configurations, of an allreduce against steps.

    For every message size asked for also the time against the dead time of a change: the fastest
    static design, what is fastest at each dead time, and below which dead time changes pay;
    ``deltas_s`` are marked.
    """
    num_panels = 1 if asked is None else 1 + len(asked.sizes_bytes)
    with drawing(5.4 * num_panels, 4.6, "constrained") as figure:
        draw_reconfigured(frontier, deltas_s, asked, figure=figure)
    return figure


def draw_reconfigured(
    frontier: Frontier,
    deltas_s: Sequence[float] = (),
    asked: MessageSizes | None = None,
    *,
    figure: Figure | SubFigure | None = None,
    axes: Iterable[Axes] | None = None,
) -> tuple[Axes, ...]:
    """The picture of ``reconfigured_figure`` in an empty (sub)figure, in axes, or a new figure's.

    ``axes`` are one, and one more for every message size asked for.
    """
    if figure is None and axes is None:
        return tuple(reconfigured_figure(frontier, deltas_s, asked).axes)
    sizes = () if asked is None else asked.sizes_bytes
    panels = panels_in(figure, axes, 1, 1 + len(sizes))
    for panel in panels.axes:
        panel.grid(color="#e8e8e8", linewidth=0.7)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
    _draw_costs(panels.axes[0], frontier)
    if asked is not None:
        for panel, size in zip(panels.axes[1:], sizes, strict=True):
            _draw_times(panel, frontier, deltas_s, asked.model, size)
    what = f"{frontier.num_nodes} nodes of degree {frontier.degree}"
    panels.set_title(f"{what}: {frontier.collective.name}", fontsize=11.5)
    return panels.axes


def _draw_costs(axes: Axes, frontier: Frontier) -> None:
    by_steps = frontier.collective == Collective.ALLREDUCE
    top = _MOST_OVER_FRONT * max(_t_b(design) for design in frontier.candidates)
    rest = [design for design in frontier.dominated if _t_b(design) <= top]
    sets: list[tuple[Sequence[Design], str, str, float]] = [
        (rest, "dominated", _REST, 4.5),
        (frontier.switching, "circuits change", _SWITCHING, 6.5),
        (frontier.static, "static", _STATIC, 6.5),
    ]
    for members, name, colour, size in sets:
        if members:
            x = [_across(design, by_steps=by_steps) for design in members]
            y = [_t_b(design) for design in members]
            style: dict[str, Any] = {
                "color": colour,
                "markersize": size,
                "markeredgecolor": "white",
            }
            axes.plot(x, y, linestyle="", marker="o", label=f"{name}: {len(members)}", **style)
    heights = [_t_b(design) for design in (*frontier.candidates, *rest)]
    if max(heights) > _LOG_RATIO * min(heights):
        _set_plain_log(axes, "y", (1, 2, 5))
    _annotate(axes, frontier, by_steps=by_steps)
    _draw_bound(axes, frontier, by_steps=by_steps)
    axes.set_ylabel(r"$t_b$  ($T_B$ in units of $M/B$)")
    axes.legend(frameon=False, fontsize=FONT_SIZE)


def _annotate(axes: Axes, frontier: Frontier, *, by_steps: bool) -> None:
    """What the axes leave out, steps or configurations; points that coincide share their text."""
    texts: dict[tuple[int, str], set[int]] = {}
    for design in frontier.candidates:
        place = (_across(design, by_steps=by_steps), f"{_t_b(design):.2g}")
        texts.setdefault(place, set()).add(_across(design, by_steps=not by_steps))
    for (x, height), numbers in texts.items():
        listed = ", ".join(map(str, sorted(numbers)))
        axes.annotate(
            f"C = {listed}" if by_steps else f"{listed} steps",
            (x, float(height)),
            xytext=(5, 4),
            textcoords="offset points",
            fontsize=FONT_SIZE - 1.5,
            color="#444444",
        )


def _draw_bound(axes: Axes, frontier: Frontier, *, by_steps: bool) -> None:
    style: dict[str, Any] = {"color": _BOUND, "linestyle": (0, (5, 3)), "linewidth": 1}
    if by_steps:
        from matplotlib.ticker import MaxNLocator

        axes.axhline(float(frontier.bound.t_b), label="no design is below", **style)
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        axes.margins(x=0.12)
        axes.set_xlabel(r"steps  ($T_L$ in units of $\alpha$)")
        return
    most = max(design.cost.num_configurations for design in frontier.candidates)
    numbers = range(1, most + 1)
    bounds = [float(t_b_bound(frontier, number)) for number in numbers]
    axes.plot(numbers, bounds, label="no design is below", **style)
    _set_plain_log(axes, "x", (1, 2, 4, 8), base=16)
    axes.set_xlim(0.85, 1.45 * max(most, 2))
    axes.set_xlabel("configurations held in turn")


def _set_plain_log(axes: Axes, which: str, digits: Sequence[int], base: int = 10) -> None:
    """A logarithmic axis, x or y, with plain numbers at these multiples of powers of the base."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    getattr(axes, f"set_{which}scale")("log")
    axis = getattr(axes, f"{which}axis")
    axis.set_major_locator(LogLocator(base, subs=digits))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def _draw_times(
    axes: Axes,
    frontier: Frontier,
    deltas_s: Sequence[float],
    model: CostModel,
    message_bytes: float,
) -> None:
    import numpy as np

    found = break_even_of(frontier, model, message_bytes)
    even = float(found[0]) if found is not None else 0.0
    asked = [delta for delta in deltas_s if delta > 0]
    static = best_static(frontier, model, message_bytes).cost.time_s(model, message_bytes)
    middle = even or float(static) / 10
    low = min([middle * 10**-3, *(delta / 3 for delta in asked)])
    high = max([middle * 10, *(delta * 3 for delta in asked)])
    deltas = np.logspace(np.log10(low), np.log10(high), 400)
    envelope = np.full(len(deltas), float(static))
    for design in frontier.switching:
        base = float(design.cost.time_s(model, message_bytes))
        times = base + (design.cost.num_configurations - 1) * deltas
        axes.plot(deltas, times, color=_REST, linewidth=0.8, zorder=1.5)
        envelope = np.minimum(envelope, times)
    axes.axhline(float(static), color=_STATIC, linewidth=1.6, label="fastest static design")
    axes.plot(deltas, envelope, color=_SWITCHING, linewidth=2, label="fastest", zorder=3)
    if even:
        label = f"changes pay below {format_time(even)}"
        axes.axvline(even, color=_BOUND, linestyle=(0, (5, 3)), linewidth=1, label=label)
    for number, delta in enumerate(asked):
        name = f"asked: {', '.join(map(format_time, asked))}" if number == 0 else "_"
        axes.axvline(delta, color=_ASKED, linestyle=(0, (1, 2)), linewidth=1.2, label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low, high)
    axes.set_ylim(0.7 * envelope.min(), 2.2 * float(static))
    _set_time_axes(axes)
    axes.set_xlabel("dead time of a change")
    axes.set_ylabel("time")
    axes.set_title(
        f"{format_size(message_bytes)}, α = {format_time(model.alpha_s)}, "
        f"{format_bandwidth(model.node_bandwidth_Bps)} a node",
        fontsize=9.5,
    )
    axes.legend(framealpha=0.9, edgecolor="none", fontsize=FONT_SIZE)


def _set_time_axes(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for axis, digits in ((axes.xaxis, (1.0,)), (axes.yaxis, (1.0, 2.0, 5.0))):
        axis.set_major_locator(LogLocator(subs=digits))
        axis.set_major_formatter(FuncFormatter(lambda value, _: format_time(value)))
        axis.set_minor_formatter(NullFormatter())


def _across(design: Design, *, by_steps: bool) -> int:
    return design.cost.steps if by_steps else design.cost.num_configurations


def _t_b(design: Design) -> float:
    return float(design.cost.t_b)
