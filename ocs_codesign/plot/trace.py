"""The plan of a trace as a figure: which design is held when, and when it is dark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.collective import Collective
from ocs_codesign.plot.files import drawing
from ocs_codesign.plot.labels import FONT_SIZE, shortened
from ocs_codesign.plot.panels import Panels, panels_in
from ocs_codesign.quantities import format_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from ocs_codesign.reconfigure.hold.plan import SwitchPlan, SwitchRun
    from ocs_codesign.reconfigure.hold.trace_plan import TracePlan

_COLOURS = {
    Collective.ALLGATHER: "#5b9bd5",
    Collective.REDUCE_SCATTER: "#7fb77e",
    Collective.ALLREDUCE: "#0b5fa5",
    Collective.ALLTOALL: "#d08a2e",
}
_GAP, _HIDDEN, _DARK, _MIXED, _HELD = "#e6e8eb", "#e7a196", "#b3231a", "#7d8794", "#c9ced6"
_HEIGHT = 0.62
_WIDTH_IN = 10.0
_MAX_JOBS_DRAWN = 2000
_MAX_RUNS_DRAWN = 4000


def trace_figure(plan: TracePlan, title: str = "") -> Figure:
    """Two timelines, one above the other: the optimum in hindsight, and the online policy.

    A lane for every design that either holds; bars are collectives, by colour, and gaps between
    them; what a switch shows of its dead time is drawn in the lane that it leads to, what a gap
    hides as well. Long traces are drawn run by run, very long ones only in their beginning, and say
    so.
    """
    shown = _shown(plan)
    height = 1.3 + len(shown) * (0.75 + 0.38 * len(_lanes(plan)))
    with drawing(_WIDTH_IN, height) as figure:
        draw_trace(plan, title, figure=figure)
        figure.tight_layout(rect=(0, 0.34 / height, 1, 1))
    return figure


def draw_trace(
    plan: TracePlan,
    title: str = "",
    *,
    figure: Figure | SubFigure | None = None,
    axes: Iterable[Axes] | None = None,
) -> tuple[Axes, ...]:
    """The picture of ``trace_figure`` in an empty (sub)figure, in axes, or in a new figure's.

    ``axes`` are two, one for a plan without an online policy; the legend is below the last.
    """
    if figure is None and axes is None:
        return tuple(trace_figure(plan, title).axes)
    shown, lanes = _shown(plan), _lanes(plan)
    labels = [shortened(plan.options[option].label) for option in lanes]
    panels = panels_in(figure, axes, len(shown), 1, sharex=True)
    colours: set[str] = set()
    for panel, (name, chosen) in zip(panels.axes, shown, strict=True):
        colours |= _draw(panel, plan, chosen, lanes)
        _set_axes(panel, labels, f"{name}: {_summary(plan, chosen)}")
    for panel in panels.lowest():
        _set_time(panel, max(0.0, *(each.dataLim.x1 for each in panels.axes)))
    _draw_legend(panels, colours)
    if title:
        panels.set_title(title, fontsize=11.5, x=0.01, ha="left")
    return panels.axes


def _shown(plan: TracePlan) -> list[tuple[str, SwitchPlan]]:
    both = ("optimum in hindsight", plan.offline), ("online policy", plan.online)
    return [(name, chosen) for name, chosen in both if chosen is not None]


def _lanes(plan: TracePlan) -> list[int]:
    """The designs that either holds."""
    return sorted({int(at) for _, chosen in _shown(plan) for at in set(chosen.choice.tolist())})


def _summary(plan: TracePlan, chosen: SwitchPlan) -> str:
    total = f"{format_time(float(chosen.total))} without computation"
    if plan.trace.compute_s:
        total += f" ({format_time(float(chosen.total + plan.trace.compute_s))} with it)"
    dark = format_time(float(chosen.switching))
    many = chosen.num_switches
    return f"{total}, {many} switch{'es' * (many != 1)}, dark for {dark}"


def _draw(axes: Axes, plan: TracePlan, chosen: SwitchPlan, lanes: Sequence[int]) -> set[str]:
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
            spans, (lane - _HEIGHT / 2, _HEIGHT), facecolors=colour, edgecolor="none", zorder=3
        )
    if len(drawn) < len(runs):
        text = f"the first {len(drawn)} of {len(runs)} runs are drawn"
        axes.text(1.0, 1.02, text, transform=axes.transAxes, ha="right", fontsize=FONT_SIZE)
    return {colour for _, colour in bars}


def _bars(plan: TracePlan, run: SwitchRun, by_job: bool) -> Iterator[tuple[str, float, float]]:
    """Colour, begin and length of what a run is made of."""
    begin, gap, dark, hidden = map(float, (run.begin, run.gap, run.switching, run.hidden))
    yield _HIDDEN, begin, hidden
    yield _GAP, begin + hidden, gap - hidden
    yield _DARK, begin + gap, dark
    now = begin + gap + dark
    rows = plan.steps.rows[run.first_step - 1 : run.last_step].tolist()
    if not by_job:
        kinds = {plan.steps.demands[row].collective for row in set(rows)}
        yield _COLOURS[kinds.pop()] if len(kinds) == 1 else _MIXED, now, float(run.end) - now
        return
    for at, row in enumerate(rows):
        demand = plan.steps.demands[row]
        if at:
            yield _GAP, now, float(demand.gap_s)
            now += float(demand.gap_s)
        length = float(plan.problem.costs[row, run.topology])
        yield _COLOURS[demand.collective], now, length
        now += length


def _set_axes(axes: Axes, labels: Sequence[str], title: str) -> None:
    axes.set_yticks(range(len(labels)), labels, fontsize=FONT_SIZE)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_title(title, loc="left", fontsize=9.5)
    for lane in range(len(labels)):
        axes.axhline(lane, color=_HELD, linewidth=0.6, zorder=1)
    axes.grid(axis="x", color="#e8e8e8", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _set_time(axes: Axes, end: float) -> None:
    from matplotlib.ticker import FuncFormatter

    axes.set_xlim(0, end * 1.005 or 1)
    units = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))
    unit, scale = next((one for one in units if end >= one[1]), units[-1])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / scale:.6g}"))
    axes.set_xlabel(f"time ({unit})")


def _draw_legend(panels: Panels, colours: set[str]) -> None:
    from matplotlib.patches import Patch

    names = {colour: collective.name for collective, colour in _COLOURS.items()}
    names |= {
        _MIXED: "jobs of several kinds",
        _GAP: "computation",
        _HIDDEN: "switch hidden in computation",
        _DARK: "dark: all wait for a switch",
    }
    entries = [
        Patch(color=colour, label=name) for colour, name in names.items() if colour in colours
    ]
    panels.draw_legend(
        entries, "lower left", len(entries), _WIDTH_IN, columnspacing=1.4, handlelength=1.2
    )
