"""The picture of a job whose circuits change: what ranks do, what is held, and when it is dark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.plot.files import drawing
from ocs_codesign.plot.gantt import bar_colour, set_time_axis
from ocs_codesign.plot.jobs import MAX_OWNERS, draw_timeline
from ocs_codesign.plot.labels import FONT_SIZE, shortened
from ocs_codesign.plot.panels import one_axes
from ocs_codesign.quantities import format_time
from ocs_codesign.workload.reconfigured.dark import is_change
from ocs_codesign.workload.reconfigured.inserting import cuts_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ocs_codesign.workload.reconfigured.clock import SwitchedIteration
    from ocs_codesign.workload.reconfigured.planning import ReconfiguredIteration

_DARK, _HATCH, _MAX_STRETCHES = "#3b4048", "#c9ced6", 4000
_FIRST_COLOUR = 8
"""Configurations take the end of the palette, messages the beginning."""
_DRAWN_ITERATIONS = 2


def changes_figure(planned: ReconfiguredIteration, title: str = "") -> Figure:
    """Two rows a class as in ``job_figure``, and one of the circuits: the configuration, or dark.

    The first two iterations; changes are dark and hatched. Of many classes
    the first are drawn, and of very many bars.
    """
    num = min(planned.job.graph.num_owners, MAX_OWNERS)
    with drawing(10, 1.8 + 0.5 * num, "constrained") as figure:
        draw_changes(planned, title, ax=figure.add_subplot())
    return figure


def draw_changes(
    planned: ReconfiguredIteration, title: str = "", *, ax: Axes | None = None
) -> Axes:
    """The picture of ``changes_figure`` in these axes, or in those of a new figure; the axes."""
    if ax is None:
        return changes_figure(planned, title).axes[0]
    ax, best = one_axes(ax), planned.best
    done = best.steady.job_run
    num = min(planned.job.graph.num_owners, MAX_OWNERS)
    note = draw_timeline(ax, done, num)
    row = 2 * num
    for configuration, (begin, width) in _stretches(best):
        is_dark = configuration < 0
        ax.broken_barh(
            list(zip(begin, width, strict=True)),
            (row - 0.4, 0.8),
            facecolors=_DARK if is_dark else bar_colour(_FIRST_COLOUR + configuration),
            edgecolor=_HATCH if is_dark else "white",
            hatch="////" if is_dark else None,
            linewidth=0.0 if is_dark else 0.4,
            label="dark" if is_dark else shortened(planned.job.options[configuration].label),
        )
    ax.set_yticks([*ax.get_yticks(), row], [*_names(ax), "circuits"], fontsize=FONT_SIZE)
    ax.set_ylim(row + 0.5, -0.5)
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=FONT_SIZE)
    until = min(float(done.total_s), _DRAWN_ITERATIONS * float(best.period_s)) or 1.0
    ax.set_xlim(0, until)
    set_time_axis(ax, until)
    named = f"{title}: " if title else ""
    every = f"iterations of {format_time(best.period_s)}"
    ax.set_title(f"{named}{every}{note}", loc="left", fontsize=11)
    return ax


def _names(axes: Axes) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def _stretches(best: SwitchedIteration) -> list[tuple[int, tuple[list[float], list[float]]]]:
    """Begins and widths in seconds of what is held, by configuration; -1 where it is dark."""
    done = best.steady.job_run
    tick_s, total = float(done.graph.tick_s), done.total_ticks
    changes = np.flatnonzero(is_change(done))[:_MAX_STRETCHES]
    if not len(changes):
        return [(int(best.choice[0]), ([0.0], [total * tick_s]))]
    cuts = cuts_of(best.choice)
    begin, end = done.start[changes], done.end[changes]
    held = best.choice[cuts][np.arange(len(changes)) % len(cuts)]
    until = np.append(begin[1:], total)
    first = int(best.choice[cuts[0] - 1])
    starts = np.concatenate([[0], end, begin])
    ends = np.concatenate([begin[:1], until, end])
    which = np.concatenate([[first], held, np.full(len(changes), -1)])
    found = []
    for one in sorted(set(which.tolist()), key=lambda number: (number < 0, number)):
        mine = (which == one) & (ends > starts)
        if mine.any():
            spans = starts[mine] * tick_s, (ends - starts)[mine] * tick_s
            found.append((one, (spans[0].tolist(), spans[1].tolist())))
    return found
