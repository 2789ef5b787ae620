"""The plan of planes as a Gantt chart: what every plane sends when, and when it is dark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.core.circuits import Activity
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.quantities import format_time
from ocs_codesign.faces.pictures.drawing import (
    FONT_SIZE,
    Panels,
    bar_colour,
    heat_map,
    legend_below,
    on_grid,
    one_axes,
    panels_in,
    plain,
    set_time_axis,
    shortened,
    unit_of_time,
)
from ocs_codesign.faces.pictures.files import drawing, drawn_alone, pictured

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.patches import Patch

    from ocs_codesign.circuits.demand.matrix import DemandPlan
    from ocs_codesign.circuits.legs.plan import LegPlan, LegRun
    from ocs_codesign.circuits.legs.trace import TracePlan
    from ocs_codesign.circuits.planes.problem import PlanePlan
    from ocs_codesign.core.circuits import Interval


_DARK, _IDLE, _HATCH = "#3b4048", "#eef0f2", "#c9ced6"
_HEIGHT = 0.66
_MAX_LEGEND, _MAX_TEXTS, _MAX_BARRIERS = 12, 160, 120
_MAX_DRAWN = 20_000
_WIDTH_IN, _LINE_LETTERS, _LEGEND_LINE = 10.0, 140, 0.19
_LEGEND_STYLE: dict[str, Any] = {"columnspacing": 1.4, "handlelength": 1.4}


def _height_in(plan: PlanePlan, names: Sequence[str] | None = None, _: str = "") -> float:
    legend = _legend(_drawn(plan), names)
    lines = -(-len(legend) // _columns(legend))
    return 1.37 + _LEGEND_LINE * lines + 0.5 * plan.problem.num_planes


@pictured(lambda *arguments: drawing(_WIDTH_IN, _height_in(*arguments)))
def draw_planes(
    plan: PlanePlan, names: Sequence[str] | None = None, title: str = "", *, ax: Axes | None = None
) -> Axes:
    """A row a plane: sends coloured by configuration, changes dark and hatched, the rest idle.

    Sends carry the number of their step where there is room, and dotted lines are barriers. Of very
    long timelines only the beginning is drawn, and the picture says so.
    """
    ax = one_axes(ax)
    legend, note = _legend(_drawn(plan), names), _note(plan)
    _draw(ax, plan)
    ax.set_title(f"{_title(plan, title)}{f', {note}' * bool(note)}", loc="left", fontsize=11)
    legend_below(ax, legend, _columns(legend), _WIDTH_IN, **_LEGEND_STYLE)
    return ax


planes_figure = drawn_alone(draw_planes)


def _draw(axes: Axes, plan: PlanePlan) -> None:
    drawn = _drawn(plan)
    end = float(max(one.end_s for one in drawn))
    axes.set_xlim(0, end)
    _draw_bars(axes, plan, drawn)
    _draw_barriers(axes, plan, end)
    _draw_steps(axes, drawn, end)
    planes = range(plan.problem.num_planes)
    axes.set_yticks(planes, [f"plane {plane}" for plane in planes])
    set_time_axis(axes, end)


def _drawn(plan: PlanePlan) -> list[Interval]:
    return sorted(plan.timeline, key=lambda one: (one.start_s, one.plane))[:_MAX_DRAWN]


def _note(plan: PlanePlan) -> str:
    """What is left out, in words."""
    drawn, every = len(_drawn(plan)), len(plan.timeline)
    return f"the first {drawn} of {every} intervals are drawn" if drawn < every else ""


def _title(plan: PlanePlan, title: str) -> str:
    gap = "optimal" if plan.is_optimal else f"gap at most {float(plan.gap):.2g}"
    text = f"{plain(shortened(title))}: " if title else ""
    return f"{text}{format_time(float(plan.total_s))}, {gap}"


def _draw_bars(axes: Axes, plan: PlanePlan, drawn: Sequence[Interval]) -> None:
    """One collection a row and kind, so that thousands of bars stay quick."""
    bars: dict[tuple[int, Activity, str], list[tuple[float, float]]] = {}
    for one in drawn:
        colour = bar_colour(one.configuration) if one.activity is Activity.SEND else ""
        span = (float(one.start_s), float(one.end_s - one.start_s))
        bars.setdefault((one.plane, one.activity, colour), []).append(span)
    styles: dict[Activity, dict[str, Any]] = {
        Activity.IDLE: {"facecolors": _IDLE, "edgecolor": "none"},
        Activity.RECONFIGURE: {"facecolors": _DARK, "edgecolor": _HATCH, "hatch": "////"},
        Activity.SEND: {"edgecolor": "white"},
    }
    for (plane, activity, colour), spans in bars.items():
        style = dict(styles[activity])
        if colour:
            style["facecolors"] = colour
        width = 0.8 if len(drawn) < 1000 and activity is Activity.SEND else 0.0
        axes.broken_barh(spans, (plane - _HEIGHT / 2, _HEIGHT), linewidth=width, zorder=3, **style)
    axes.set_ylim(plan.problem.num_planes - 0.5, -0.5)


def _draw_barriers(axes: Axes, plan: PlanePlan, end: float) -> None:
    """Where a step ends and the next one may begin."""
    if not plan.problem.cost.barrier or plan.problem.num_steps > _MAX_BARRIERS:
        return
    ends: dict[int, float] = {}
    for one in plan.timeline:
        if one.step is not None:
            ends[one.step] = max(ends.get(one.step, 0.0), float(one.end_s))
    inside = [time for time in sorted(ends.values())[:-1] if time < end]
    axes.vlines(
        inside, -0.5, plan.problem.num_planes - 0.5, color="#9aa1ab", lw=0.7, ls=":", zorder=2
    )


def _draw_steps(axes: Axes, drawn: Sequence[Interval], end: float) -> None:
    """The number of the step in every bar that is wide enough for it."""
    sends = [one for one in drawn if one.step is not None]
    if len(sends) > _MAX_TEXTS:
        return
    for one in sends:
        width = float(one.end_s - one.start_s)
        if width > end * 0.011 * len(str(one.step)):
            middle = float(one.start_s + one.end_s) / 2
            axes.text(
                middle,
                one.plane,
                str(one.step),
                ha="center",
                va="center",
                fontsize=FONT_SIZE,
                color="#15181c",
                zorder=4,
            )


def _legend(drawn: Sequence[Interval], names: Sequence[str] | None) -> list[Patch]:
    """What the colours mean, of what is there."""
    from matplotlib.patches import Patch

    sends = {one.configuration for one in drawn if one.activity is Activity.SEND}
    used = sorted(one for one in sends if one is not None)
    entries = [Patch(color=bar_colour(one), label=_label(one, names)) for one in used[:_MAX_LEGEND]]
    if len(used) > _MAX_LEGEND:
        entries.append(Patch(color="none", label=f"and {len(used) - _MAX_LEGEND} more, in turn"))
    kinds = {one.activity for one in drawn if one.end_s > one.start_s}
    if Activity.RECONFIGURE in kinds:
        dark = Patch(facecolor=_DARK, edgecolor=_HATCH, hatch="////", label="reconfiguration")
        entries.append(dark)
    if Activity.IDLE in kinds:
        entries.append(Patch(color=_IDLE, label="idle"))
    return entries


def _label(configuration: int, names: Sequence[str] | None) -> str:
    if names is None:
        return f"configuration {configuration}"
    return plain(shortened(names[configuration]))


def _columns(entries: Sequence[Patch]) -> int:
    """As many columns as the longest label leaves room for."""
    longest = max(len(str(entry.get_label())) for entry in entries)
    return max(1, min(len(entries), 7, _LINE_LETTERS // (longest + 6)))


# A demand matrix and the switches that serve it: what is wanted, and when what is up.


_UP, _UP_NEXT, _DEMAND_DARK, _BOUND = "#0b5fa5", "#6ea8d8", "#c8442b", "#5f7a1f"
_NUMBER, _NUMBER_NEXT = "white", "#10243a"
_NUMBERED = 0.02


@pictured(lambda _: drawing(10.4, 3.9))
def draw_demand(
    plan: DemandPlan,
    *,
    figure: Figure | SubFigure | None = None,
    axes: Iterable[Axes] | None = None,
) -> tuple[Axes, ...]:
    """The demand as a heat map, and every switch over time: making configurations, holding them.

    The colour bar takes room of the first of 2 axes.
    """
    panels = panels_in(figure, axes, 1, 2, width_ratios=(1, 1.75))
    left, right = panels.axes
    _draw_matrix(left, plan)
    _draw_switches(right, plan)
    return panels.axes


demand_figure = drawn_alone(draw_demand)


def _draw_matrix(axes: Axes, plan: DemandPlan) -> None:
    second = plan.demand.unit_bytes / plan.bandwidth_Bps
    unit, scale = unit_of_time(max(plan.demand.units.ravel().tolist()) * second)
    times = (plan.demand.units * float(second) / scale).astype(float)
    heat_map(axes, times, f"time on one circuit ({unit})")
    axes.set_title("demand", fontsize=11)


def _draw_switches(axes: Axes, plan: DemandPlan) -> None:
    unit, scale = unit_of_time(plan.total_s)
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
        axes.broken_barh(made[switch], row, facecolors=_DEMAND_DARK)
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
        [Patch(color=_UP), Patch(color=_DEMAND_DARK), line],
        ["circuits up", f"dark, {format_time(float(plan.delta_s))} each", "bound"],
        loc="upper center",
        bbox_to_anchor=(0.5, -0.16),
        ncols=3,
        frameon=False,
        fontsize=FONT_SIZE,
    )


# The plan of a trace as a figure: which design is held when, and when it is dark.


_COLOURS = {
    Collective.ALLGATHER: "#5b9bd5",
    Collective.REDUCE_SCATTER: "#7fb77e",
    Collective.ALLREDUCE: "#0b5fa5",
    Collective.ALLTOALL: "#d08a2e",
}
_GAP, _HIDDEN, _TRACE_DARK, _MIXED, _HELD = "#e6e8eb", "#e7a196", "#b3231a", "#7d8794", "#c9ced6"
_TRACE_HEIGHT = 0.62
_TRACE_WIDTH_IN = 10.0
_MAX_JOBS_DRAWN = 2000
_MAX_RUNS_DRAWN = 4000


@pictured(
    lambda plan, _="": drawing(
        _TRACE_WIDTH_IN, 1.3 + len(_shown(plan)) * (0.75 + 0.38 * len(_lanes(plan)))
    )
)
def draw_trace(
    plan: TracePlan,
    title: str = "",
    *,
    figure: Figure | SubFigure | None = None,
    axes: Iterable[Axes] | None = None,
) -> tuple[Axes, ...]:
    """Two timelines, one above the other: the optimum in hindsight, and the online policy.

    A lane for every design that either holds; bars are collectives, by colour, and gaps between
    them; what a switch shows of its dead time is drawn in the lane that it leads to, what a gap
    hides as well. Long traces are drawn run by run, very long ones only in their beginning, and say
    so. ``axes`` are two, one for a plan without an online policy.
    """
    shown, lanes = _shown(plan), _lanes(plan)
    labels = [shortened(plan.options[option].label) for option in lanes]
    panels = panels_in(figure, axes, len(shown), 1, sharex=True)
    colours: set[str] = set()
    for panel, (name, chosen) in zip(panels.axes, shown, strict=True):
        colours |= _draw_trace(panel, plan, chosen, lanes)
        _set_axes(panel, labels, f"{name}: {_summary(plan, chosen)}")
    for panel in panels.lowest():
        _set_time(panel, max(0.0, *(each.dataLim.x1 for each in panels.axes)))
    _draw_legend(panels, colours)
    if title:
        panels.set_title(title, fontsize=11.5, x=0.01, ha="left")
    return panels.axes


trace_figure = drawn_alone(draw_trace)


def _shown(plan: TracePlan) -> list[tuple[str, LegPlan]]:
    both = ("optimum in hindsight", plan.offline), ("online policy", plan.online)
    return [(name, chosen) for name, chosen in both if chosen is not None]


def _lanes(plan: TracePlan) -> list[int]:
    """The designs that either holds."""
    return sorted({int(at) for _, chosen in _shown(plan) for at in set(chosen.choice.tolist())})


def _summary(plan: TracePlan, chosen: LegPlan) -> str:
    total = f"{format_time(float(chosen.total))} without computation"
    if plan.trace.compute_s:
        total += f" ({format_time(float(chosen.total + plan.trace.compute_s))} with it)"
    dark = format_time(float(chosen.switching))
    many = chosen.num_switches
    return f"{total}, {many} switch{'es' * (many != 1)}, dark for {dark}"


def _draw_trace(axes: Axes, plan: TracePlan, chosen: LegPlan, lanes: Sequence[int]) -> set[str]:
    """Draw the runs of a plan; returns the colours that it took."""
    runs = chosen.runs()
    drawn = runs[:_MAX_RUNS_DRAWN]
    by_job = drawn[-1].last_step <= _MAX_JOBS_DRAWN
    bars: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for run in drawn:
        for colour, begin, length in _bars(plan, run, by_job):
            if length > 0:
                bars.setdefault((lanes.index(run.topology), colour), []).append((begin, length))
    for (lane, colour), spans in bars.items():
        axes.broken_barh(
            spans,
            (lane - _TRACE_HEIGHT / 2, _TRACE_HEIGHT),
            facecolors=colour,
            edgecolor="none",
            zorder=3,
        )
    if len(drawn) < len(runs):
        text = f"the first {len(drawn)} of {len(runs)} runs are drawn"
        axes.text(1.0, 1.02, text, transform=axes.transAxes, ha="right", fontsize=FONT_SIZE)
    return {colour for _, colour in bars}


def _bars(plan: TracePlan, run: LegRun, by_job: bool) -> Iterator[tuple[str, float, float]]:
    """Colour, begin and length of what a run is made of."""
    begin, gap, dark, hidden = map(float, (run.begin, run.gap, run.switching, run.hidden))
    yield _HIDDEN, begin, hidden
    yield _GAP, begin + hidden, gap - hidden
    yield _TRACE_DARK, begin + gap, dark
    now = begin + gap + dark
    rows = plan.legs.rows[run.first_step - 1 : run.last_step].tolist()
    if not by_job:
        kinds = {plan.legs.legs[row].collective for row in set(rows)}
        yield _COLOURS[kinds.pop()] if len(kinds) == 1 else _MIXED, now, float(run.end) - now
        return
    for at, row in enumerate(rows):
        demand = plan.legs.legs[row]
        if at:
            yield _GAP, now, float(demand.gap_s)
            now += float(demand.gap_s)
        length = float(plan.problem.costs[row, run.topology])
        yield _COLOURS[demand.collective], now, length
        now += length


def _set_axes(axes: Axes, labels: Sequence[str], title: str) -> None:
    axes.set_yticks(range(len(labels)), labels, fontsize=FONT_SIZE)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_title(title, loc="left", fontsize=9.5)
    for lane in range(len(labels)):
        axes.axhline(lane, color=_HELD, linewidth=0.6, zorder=1)
    on_grid(axes, "x", is_open=True)
    axes.tick_params(axis="y", length=0)


def _set_time(axes: Axes, end: float) -> None:
    axes.set_xlim(0, end * 1.005 or 1)
    set_time_axis(axes, end)


def _draw_legend(panels: Panels, colours: set[str]) -> None:
    from matplotlib.patches import Patch

    names = {colour: collective.name for collective, colour in _COLOURS.items()}
    names |= {
        _MIXED: "jobs of several kinds",
        _GAP: "computation",
        _HIDDEN: "switch hidden in computation",
        _TRACE_DARK: "dark: all wait for a switch",
    }
    entries = [
        Patch(color=colour, label=name) for colour, name in names.items() if colour in colours
    ]
    panels.draw_legend(
        entries, "lower left", len(entries), _TRACE_WIDTH_IN, columnspacing=1.4, handlelength=1.2
    )
