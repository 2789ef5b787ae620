"""A demand matrix and the switches that serve it: what is wanted, and when what is up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.plot.files import drawing
from ocs_codesign.plot.labels import FONT_SIZE
from ocs_codesign.plot.panels import figure_of, panels_in
from ocs_codesign.quantities import format_time

if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from ocs_codesign.reconfigure.demand.plan import DemandPlan

_UP, _UP_NEXT, _DARK, _BOUND = "#0b5fa5", "#6ea8d8", "#c8442b", "#5f7a1f"
_NUMBER, _NUMBER_NEXT = "white", "#10243a"
_SCALES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_NUMBERED = 0.02
_MOST_TICKS = 16


def demand_figure(plan: DemandPlan) -> Figure:
    """The demand as a heat map, and every switch over time: making configurations, holding them."""
    with drawing(10.4, 3.9, "constrained") as figure:
        draw_demand(plan, figure=figure)
    return figure


def draw_demand(
    plan: DemandPlan,
    *,
    figure: Figure | SubFigure | None = None,
    axes: Iterable[Axes] | None = None,
) -> tuple[Axes, ...]:
    """The picture of ``demand_figure`` in an empty (sub)figure or 2 axes, or in a new figure's.

    The colour bar takes room of the first of the axes.
    """
    if figure is None and axes is None:
        return tuple(demand_figure(plan).axes[:2])
    panels = panels_in(figure, axes, 1, 2, width_ratios=(1, 1.75))
    left, right = panels.axes
    _draw_matrix(left, plan)
    _draw_switches(right, plan)
    return panels.axes


def _draw_matrix(axes: Axes, plan: DemandPlan) -> None:
    from matplotlib.ticker import MaxNLocator, MultipleLocator

    second = plan.demand.unit_bytes / plan.bandwidth_Bps
    scale, unit = _scale(max(plan.demand.units.ravel().tolist()) * second)
    times = (plan.demand.units * float(second) / scale).astype(float)
    image = axes.imshow(times, cmap="Blues", vmin=0.0, vmax=times.max() or 1.0)
    bar = figure_of(axes).colorbar(image, ax=axes, shrink=0.8)
    bar.set_label(f"time on one circuit ({unit})")
    axes.set_xlabel("to node")
    axes.set_ylabel("from node")
    few = len(times) <= _MOST_TICKS
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MultipleLocator(1) if few else MaxNLocator("auto", integer=True))
    axes.set_title("demand", fontsize=11)


def _draw_switches(axes: Axes, plan: DemandPlan) -> None:
    scale, unit = _scale(plan.total_s)
    made: list[list[tuple[float, float]]] = [[] for _ in range(plan.num_switches)]
    held: list[list[tuple[float, float]]] = [[] for _ in range(plan.num_switches)]
    timeline = zip(plan.switch.tolist(), plan.up_from_s(), plan.durations_s, strict=True)
    for switch, up_s, duration_s in timeline:
        from_s = float(up_s - plan.delta_s)
        made[switch].append((from_s / scale, float(plan.delta_s) / scale))
        held[switch].append((float(up_s) / scale, float(duration_s) / scale))
    total = float(plan.total_s) / scale
    for switch in range(plan.num_switches):
        row = (switch - 0.36, 0.72)
        colours = [(_UP, _UP_NEXT)[at % 2] for at in range(len(held[switch]))]
        axes.broken_barh(held[switch], row, facecolors=colours)
        axes.broken_barh(made[switch], row, facecolors=_DARK)
        for at, (start, length) in enumerate(held[switch], 1):
            if length > _NUMBERED * total:
                axes.text(
                    start + length / 2,
                    switch,
                    str(at),
                    ha="center",
                    va="center",
                    color=(_NUMBER_NEXT, _NUMBER)[at % 2],
                    fontsize=FONT_SIZE,
                )
    # Behind the bars, so that it crosses no number.
    bound = float(plan.bound_s) / scale
    axes.axvline(bound, color=_BOUND, linestyle=(0, (5, 3)), linewidth=1.2, zorder=0)
    _finish(axes, plan, unit, total)


def _finish(axes: Axes, plan: DemandPlan, unit: str, total: float) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    axes.set_ylim(plan.num_switches - 0.5, -0.5)
    axes.set_yticks(range(plan.num_switches))
    axes.set_xlim(0, 1.03 * (total or 1.0))
    axes.set_xlabel(f"time ({unit})")
    axes.set_ylabel("switch")
    axes.spines[["top", "right"]].set_visible(False)
    proof = "optimal" if plan.is_optimal else f"at most {float(plan.gap):.2%} over the best"
    axes.set_title(
        f"{plan.num_configurations} configurations, {format_time(float(plan.total_s))}: {proof}",
        fontsize=11,
    )
    line = Line2D([], [], color=_BOUND, linestyle=(0, (5, 3)), linewidth=1.2)
    axes.legend(
        [Patch(color=_UP), Patch(color=_DARK), line],
        ["circuits up", f"dark, {format_time(float(plan.delta_s))} each", "bound"],
        loc="upper center",
        bbox_to_anchor=(0.5, -0.16),
        ncols=3,
        frameon=False,
        fontsize=FONT_SIZE,
    )


def _scale(longest: Fraction) -> tuple[float, str]:
    """Seconds of the unit that suits a time, and its name."""
    seconds = float(longest)
    return next((scale for scale in _SCALES if seconds >= scale[0]), _SCALES[-1])
