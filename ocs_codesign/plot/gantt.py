"""The plan of planes as a Gantt chart: what every plane sends when, and when it is dark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.plot.files import STYLE
from ocs_codesign.plot.labels import FONT_SIZE, plain, shortened
from ocs_codesign.plot.panels import legend_below, one_axes
from ocs_codesign.quantities import format_time
from ocs_codesign.timeline import Activity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    from ocs_codesign.reconfigure.planes.problem import PlanePlan
    from ocs_codesign.timeline import Interval

_PALETTE = (
    *("#5b9bd5", "#7fb77e", "#d08a2e", "#b07cc6", "#d9747a", "#4fb3ab"),
    *("#c2a83e", "#8c9bab", "#e39ac0", "#6f86d6", "#a3b864", "#b98b6a"),
)
_DARK, _IDLE, _HATCH = "#3b4048", "#eef0f2", "#c9ced6"
_HEIGHT = 0.66
_MAX_LEGEND, _MAX_TEXTS, _MAX_BARRIERS = 12, 160, 120
_MAX_DRAWN = 20_000
_WIDTH_IN, _LINE_LETTERS, _LEGEND_LINE = 10.0, 140, 0.19
_LEGEND_STYLE: dict[str, Any] = {
    "frameon": False,
    "fontsize": FONT_SIZE,
    "columnspacing": 1.4,
    "handlelength": 1.4,
}


def planes_figure(plan: PlanePlan, names: Sequence[str] | None = None, title: str = "") -> Figure:
    """A row a plane: sends coloured by configuration, changes dark and hatched, the rest idle.

    Sends carry the number of their step where there is room, and dotted lines are barriers. Of very
    long timelines only the beginning is drawn, and the picture says so.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context({**STYLE, "hatch.linewidth": 0.7}):
        legend = _legend(_drawn(plan), names)
        columns = _columns(legend)
        below = 0.62 + _LEGEND_LINE * -(-len(legend) // columns)
        height = 0.75 + below + 0.5 * plan.problem.num_planes
        figure = Figure(figsize=(_WIDTH_IN, height), dpi=100)
        FigureCanvasAgg(figure)
        figure.subplots_adjust(left=0.08, right=0.975, top=1 - 0.55 / height, bottom=below / height)
        axes = figure.add_subplot()
        _draw(axes, plan)
        axes.set_title(_title(plan, title), loc="left", fontsize=11)
        place: Any = {"loc": "lower left", "bbox_to_anchor": (0.07, 0.0)}
        figure.legend(handles=legend, ncols=columns, **place, **_LEGEND_STYLE)
        if note := _note(plan):
            figure.text(0.985, 1 - 0.22 / height, note, ha="right", fontsize=FONT_SIZE)
    return figure


def draw_planes(
    plan: PlanePlan,
    names: Sequence[str] | None = None,
    title: str = "",
    *,
    ax: Axes | None = None,
) -> Axes:
    """The picture of ``planes_figure`` in these axes, or in those of a new figure; the axes.

    Its legend is below the axes.
    """
    if ax is None:
        return planes_figure(plan, names, title).axes[0]
    ax = one_axes(ax)
    legend, note = _legend(_drawn(plan), names), _note(plan)
    _draw(ax, plan)
    ax.set_title(f"{_title(plan, title)}{f', {note}' * bool(note)}", loc="left", fontsize=11)
    legend_below(ax, legend, _columns(legend), _WIDTH_IN, **_LEGEND_STYLE)
    return ax


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


def bar_colour(number: int | None) -> str:
    """The colour of a configuration or a step."""
    return _PALETTE[(number or 0) % len(_PALETTE)]


def set_time_axis(axes: Axes, end_s: float) -> None:
    """Label the x axis, in seconds until ``end_s``, in the unit that suits it; no frame but it."""
    from matplotlib.ticker import FuncFormatter

    units = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))
    unit, scale = next((one for one in units if end_s >= one[1]), units[-1])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / scale:.6g}"))
    axes.set_xlabel(f"time ({unit})", loc="right", labelpad=1)
    axes.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


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
