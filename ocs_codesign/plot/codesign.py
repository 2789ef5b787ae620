"""Pictures of a co-design: where the time of every candidate goes, and the winner's timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.plot.files import drawing
from ocs_codesign.plot.gantt import bar_colour, set_time_axis
from ocs_codesign.plot.jobs import draw_timeline
from ocs_codesign.plot.labels import FONT_SIZE
from ocs_codesign.plot.panels import panels_in
from ocs_codesign.quantities import format_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from ocs_codesign.workload.codesign.outcomes import JobOutcome
    from ocs_codesign.workload.issue import JobRun

_COMPUTES, _IDLE, _DARK = "#8c9bab", "#e3e7ec", "#222222"
MAX_CLASSES = 4


def codesign_figure(
    rows: Sequence[tuple[str, JobOutcome]], done: JobRun, title: str = ""
) -> Figure:
    """A bar a row in computation, exposed messages of each kind and waiting, and a timeline.

    The timeline is the run of the first row, a few classes of it.
    """
    with drawing(10, sum(_heights(rows, done)) + 0.6, "constrained") as figure:
        draw_codesign(rows, done, title, figure=figure)
    return figure


def draw_codesign(
    rows: Sequence[tuple[str, JobOutcome]],
    done: JobRun,
    title: str = "",
    *,
    figure: Figure | SubFigure | None = None,
    axes: Iterable[Axes] | None = None,
) -> tuple[Axes, ...]:
    """The picture of ``codesign_figure`` in an empty (sub)figure or 2 axes, or a new figure's."""
    if figure is None and axes is None:
        return tuple(codesign_figure(rows, done, title).axes)
    panels = panels_in(figure, axes, 2, 1, height_ratios=_heights(rows, done))
    bars, line = panels.axes
    _draw_bars(bars, rows, done.graph.labels)
    bars.set_title(title, loc="left", fontsize=11)
    note = draw_timeline(line, done, min(done.graph.num_owners, MAX_CLASSES))
    told = format_time(done.total_s)
    line.set_title(f"{rows[0][0]} on the clock: {told}{note}", loc="left", fontsize=FONT_SIZE)
    return panels.axes


def _heights(rows: Sequence[tuple[str, JobOutcome]], done: JobRun) -> tuple[float, float]:
    classes = min(done.graph.num_owners, MAX_CLASSES)
    return 0.9 + 0.34 * len(rows), 0.8 + 0.45 * classes


def _draw_bars(
    axes: Axes, rows: Sequence[tuple[str, JobOutcome]], of_timeline: Sequence[str]
) -> None:
    """The bars; messages have the colours that they have in the timeline."""
    labels = sorted({label for _, one in rows for label in one.exposed_s})
    numbers = list(dict.fromkeys([*of_timeline, *labels]))
    parts = [("computes", _COMPUTES, [float(one.compute_s) for _, one in rows])]
    for label in labels:
        seconds = [float(one.exposed_s.get(label, 0)) for _, one in rows]
        parts.append((f"{label}, exposed", bar_colour(numbers.index(label)), seconds))
    parts.append(("waits for others", _IDLE, [float(one.idle_s) for _, one in rows]))
    parts.append(("circuits change", _DARK, [float(one.dark_s) for _, one in rows]))
    left = [0.0] * len(rows)
    for name, colour, seconds in parts:
        if any(seconds):
            axes.barh(range(len(rows)), seconds, left=left, color=colour, label=name)
            left = [a + b for a, b in zip(left, seconds, strict=True)]
    for place, (_, one) in enumerate(rows):
        axes.text(
            max(left[place], float(one.period_s)),
            place,
            f" {format_time(one.period_s)}",
            va="center",
            fontsize=FONT_SIZE,
        )
        axes.plot([one.bound_s] * 2, [place - 0.4, place + 0.4], color="#222222", linewidth=1.2)
    axes.set_yticks(range(len(rows)), [name for name, _ in rows], fontsize=FONT_SIZE)
    axes.invert_yaxis()
    most = 1.15 * max(max(left), *(float(one.period_s) for _, one in rows))
    axes.set_xlim(0, most)
    set_time_axis(axes, most)
    axes.plot([], [], color="#222222", linewidth=1.2, label="bound")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=FONT_SIZE)
