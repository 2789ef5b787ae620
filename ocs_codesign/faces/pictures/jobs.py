"""Pictures of a co-design: where the time of every candidate goes, and the winner's timeline."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.core.quantities import format_time
from ocs_codesign.faces.pictures.drawing import (
    FONT_SIZE,
    bar_colour,
    one_axes,
    panels_in,
    set_time_axis,
    shortened,
)
from ocs_codesign.faces.pictures.files import drawing, drawn_alone, pictured
from ocs_codesign.jobs.job_graph import COMPUTE
from ocs_codesign.jobs.on_links import MAX_LANES
from ocs_codesign.jobs.reconfigured.clock import CHANGE, cuts_of, is_change

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from fractions import Fraction

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from numpy.typing import NDArray

    from ocs_codesign.jobs.cluster_design.outcomes import JobOutcome
    from ocs_codesign.jobs.issue import JobRun
    from ocs_codesign.jobs.on_links import LinkRun
    from ocs_codesign.jobs.policies import PolicyOutcome
    from ocs_codesign.jobs.reconfigured.clock import SwitchedIteration
    from ocs_codesign.jobs.reconfigured.planning import ReconfiguredIteration


# Pictures of jobs: what ranks compute and send when, and the periods of policies.


MAX_OWNERS, MAX_BARS = 16, 20_000
_NARROWEST = 1 / 300
"""Share of the time that a bar with seams takes at least."""
_COMPUTE_COLOUR, _CHANGE_COLOUR, _HATCH = "#8c9bab", "#3b4048", "#c9ced6"
_BEST, _OTHER, _EXPOSED = "#0b5fa5", "#9db7cf", "#d9747a"


@pictured(lambda done, _="": drawing(10, 1.3 + 0.5 * _num_owners(done)))
def draw_job(done: JobRun, title: str = "", *, ax: Axes | None = None) -> Axes:
    """Two rows an owner: what it computes, and what its channel sends, coloured by label.

    Of many owners the first are drawn, and of very many bars the first; the picture says so.
    """
    return _draw_run(one_axes(ax), done, title, None)


job_figure = drawn_alone(draw_job)


@pictured(
    lambda run, _="": drawing(10, 1.6 + 0.5 * _num_owners(run.job_run, run) + 0.25 * len(run.lanes))
)
def draw_link_job(run: LinkRun, title: str = "", *, ax: Axes | None = None) -> Axes:
    """The same of a job on links, with a row for each of the busiest links below.

    A link's bar is coloured by the label of the message that it sends.
    """
    return _draw_run(one_axes(ax), run.job_run, title, run)


link_job_figure = drawn_alone(draw_link_job)


def _num_owners(done: JobRun, links: LinkRun | None = None) -> int:
    return min(done.graph.num_owners, MAX_OWNERS - (MAX_LANES if links is not None else 0))


def _draw_run(axes: Axes, done: JobRun, title: str, links: LinkRun | None) -> Axes:
    note = draw_timeline(axes, done, _num_owners(done, links), links)
    named = f"{title}: " if title else ""
    axes.set_title(f"{named}{format_time(done.total_s)}{note}", loc="left", fontsize=11)
    return axes


def _bars(done: JobRun, num_owners: int, links: LinkRun | None) -> tuple[NDArray[np.int64], ...]:
    """Row, begin, width and label (-1: it computes) of every bar, owners first, then links."""
    graph = done.graph
    owner, node, begin, end = done.channel_pieces()
    computes = np.flatnonzero(graph.kind == COMPUTE)
    rows = [2 * graph.owner[computes].astype(np.int64), 2 * owner + 1]
    begins, ends = [done.start[computes], begin], [done.end[computes], end]
    labels = [np.full(len(computes), -1), graph.label[node]]
    keep = np.concatenate(rows) < 2 * num_owners
    if links is not None:
        talks = graph.is_communication
        of_instance = np.zeros(graph.num_instances, dtype=np.int64)
        of_instance[graph.instance[talks]] = graph.label[talks]
        place = np.zeros(int(links.lanes.max(initial=0)) + 1, dtype=np.int64)
        place[links.lanes] = np.arange(len(links.lanes))
        rows.append(2 * num_owners + place[links.bar_link])
        begins.append(links.bar_begin)
        ends.append(links.bar_end)
        labels.append(of_instance[links.bar_instance])
        keep = np.append(keep, np.ones(len(links.bar_link), dtype=bool))
    begin = np.concatenate(begins)
    columns = np.concatenate(rows), begin, np.concatenate(ends) - begin, np.concatenate(labels)
    return tuple(column[keep & (columns[2] > 0)] for column in columns)


def _row_names(num_owners: int, links: LinkRun | None) -> list[str]:
    what = "rank" if links is not None else "class"
    names = [f"{text} {one}" for one in range(num_owners) for text in (what, "sends")]
    if links is not None:
        network = links.placed.network
        for link in links.lanes.tolist():
            ends = int(network.tail[link]), int(network.head[link])
            names.append(" to ".join(map(network.name, ends)))
    return names


def draw_timeline(axes: Axes, done: JobRun, num_owners: int, links: LinkRun | None = None) -> str:
    """Draw the rows of the first owners, and of the busiest links; what is left out, in words."""
    graph, tick_s = done.graph, float(done.graph.tick_s)
    rows, begins, widths, labels = _bars(done, num_owners, links)
    chosen = np.arange(len(rows))
    drawn = chosen[np.argsort(begins[chosen], kind="stable")][:MAX_BARS]
    # Where bars are as narrow as the seams between them, a full row would look empty.
    seams = _NARROWEST * tick_s * float((begins + widths)[drawn].max(initial=0))
    for label in np.unique(labels[drawn]).tolist():
        first = True
        for row in np.unique(rows[drawn][labels[drawn] == label]).tolist():
            here = drawn[(labels[drawn] == label) & (rows[drawn] == row)]
            spans = np.stack([begins[here], widths[here]], axis=1) * tick_s
            name = "computes" if label < 0 else graph.labels[label] or "message"
            axes.broken_barh(
                [(float(left), float(width)) for left, width in spans],
                (row - 0.4, 0.8),
                facecolors=_COMPUTE_COLOUR if label < 0 else bar_colour(label),
                edgecolor="white",
                linewidth=np.where(spans[:, 1] > seams, 0.4, 0.0),
                label=name if first else None,
            )
            first = False
    names = _row_names(num_owners, links)
    axes.set_yticks(range(len(names)), names, fontsize=FONT_SIZE)
    axes.set_ylim(len(names) - 0.5, -0.5)
    is_cut = len(drawn) < len(chosen)
    until = float((begins + widths)[drawn].max()) * tick_s if is_cut else float(done.total_s)
    axes.set_xlim(0, until or 1.0)
    set_time_axis(axes, until or 1.0)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=FONT_SIZE)
    what = "classes" if links is None else "ranks"
    every = graph.num_owners - (graph.labels[-1] == CHANGE)  # the last owner is the circuits
    notes = [f"the first {num_owners} of {every} {what}"] * (num_owners < every)
    notes += [f"the first {MAX_BARS} bars"] * is_cut
    return "".join(f", {note}" for note in notes)


@pictured(lambda outcomes, *_: drawing(8, 1.2 + 0.32 * len(outcomes)))
def draw_policies(
    outcomes: Sequence[PolicyOutcome], bound_s: Fraction, title: str = "", *, ax: Axes | None = None
) -> Axes:
    """A bar a policy, the shortest period first, its exposed part apart; the bound is a line."""
    axes = one_axes(ax)
    ordered = sorted(outcomes, key=lambda one: one.steady.period_s)
    periods = [float(one.steady.period_s) for one in ordered]
    exposed = [float(one.steady.exposed_s) for one in ordered]
    rest = [whole - part for whole, part in zip(periods, exposed, strict=True)]
    places = range(len(ordered))
    colours = [_BEST if period == periods[0] else _OTHER for period in periods]
    axes.barh(places, rest, color=colours, label="period")
    axes.barh(places, exposed, left=rest, color=_EXPOSED, label="of it exposed communication")
    axes.axvline(float(bound_s), color="#222222", linestyle=(0, (4, 2)), label="bound")
    for place, period in zip(places, periods, strict=True):
        axes.text(period, place, f" {format_time(period)}", va="center", fontsize=FONT_SIZE)
    axes.set_yticks(places, [one.name for one in ordered])
    axes.invert_yaxis()
    most = 1.18 * max(*periods, float(bound_s), 1e-12)
    axes.set_xlim(0, most)
    set_time_axis(axes, most)
    axes.legend(
        loc="upper left",
        bbox_to_anchor=(0, -0.5 / len(ordered)),
        ncols=3,
        frameon=False,
        fontsize=FONT_SIZE,
    )
    axes.set_title(title, loc="left", fontsize=11)
    return axes


policies_figure = drawn_alone(draw_policies)


_IDLE = "#e3e7ec"
MAX_CLASSES = 4


@pictured(lambda rows, done, _="": drawing(10, sum(_heights(rows, done)) + 0.6))
def draw_codesign(
    rows: Sequence[tuple[str, JobOutcome]],
    done: JobRun,
    title: str = "",
    *,
    figure: Figure | SubFigure | None = None,
    axes: Iterable[Axes] | None = None,
) -> tuple[Axes, ...]:
    """A bar a row in computation, exposed messages of each kind and waiting, and a timeline.

    The timeline is the run of the first row, a few classes of it.
    """
    panels = panels_in(figure, axes, 2, 1, height_ratios=_heights(rows, done))
    bars, line = panels.axes
    _draw_bars(bars, rows, done.graph.labels)
    bars.set_title(title, loc="left", fontsize=11)
    note = draw_timeline(line, done, min(done.graph.num_owners, MAX_CLASSES))
    told = format_time(done.total_s)
    line.set_title(f"{rows[0][0]} on the clock: {told}{note}", loc="left", fontsize=FONT_SIZE)
    return panels.axes


codesign_figure = drawn_alone(draw_codesign)


def _heights(rows: Sequence[tuple[str, JobOutcome]], done: JobRun) -> tuple[float, float]:
    classes = min(done.graph.num_owners, MAX_CLASSES)
    return 0.9 + 0.34 * len(rows), 0.8 + 0.45 * classes


def _draw_bars(
    axes: Axes, rows: Sequence[tuple[str, JobOutcome]], of_timeline: Sequence[str]
) -> None:
    """The bars; messages have the colours that they have in the timeline."""
    labels = sorted({label for _, one in rows for label in one.exposed_s})
    numbers = list(dict.fromkeys([*of_timeline, *labels]))
    parts = [("computes", _COMPUTE_COLOUR, [float(one.compute_s) for _, one in rows])]
    for label in labels:
        seconds = [float(one.exposed_s.get(label, 0)) for _, one in rows]
        parts.append((f"{label}, exposed", bar_colour(numbers.index(label)), seconds))
    parts.append(("waits for others", _IDLE, [float(one.idle_s) for _, one in rows]))
    parts.append(("circuits change", _CHANGE_COLOUR, [float(one.dark_s) for _, one in rows]))
    left = [0.0] * len(rows)
    for name, colour, seconds in parts:
        if any(seconds):
            style: dict[str, Any] = {"color": colour, "label": name}
            if colour == _CHANGE_COLOUR:
                style |= {"hatch": "////", "edgecolor": _HATCH, "linewidth": 0}
            axes.barh(range(len(rows)), seconds, left=left, **style)
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
    names = [fill(name, 42, max_lines=2, placeholder="…") for name, _ in rows]
    axes.set_yticks(range(len(rows)), names, fontsize=FONT_SIZE)
    axes.invert_yaxis()
    most = 1.15 * max(max(left), *(float(one.period_s) for _, one in rows))
    axes.set_xlim(0, most)
    set_time_axis(axes, most)
    axes.plot([], [], color="#222222", linewidth=1.2, label="bound")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=FONT_SIZE)


# The picture of a job whose circuits change: what ranks do, what is held, and when it is dark.


_MAX_STRETCHES = 4000
_FIRST_COLOUR = 8
"""Configurations take the end of the palette, messages the beginning."""
_DRAWN_ITERATIONS = 2


@pictured(lambda planned, _="": drawing(10, 1.8 + 0.5 * _num_owners(planned.best.steady.job_run)))
def draw_changes(
    planned: ReconfiguredIteration, title: str = "", *, ax: Axes | None = None
) -> Axes:
    """Two rows a class as in ``job_figure``, and one of the circuits: the configuration, or dark.

    The first two iterations; changes are dark and hatched. Of many classes
    the first are drawn, and of very many bars.
    """
    ax, best = one_axes(ax), planned.best
    done = best.steady.job_run
    num = _num_owners(done)
    note = draw_timeline(ax, done, num)
    row = 2 * num
    for configuration, (begin, width) in _stretches(best):
        is_dark = configuration < 0
        ax.broken_barh(
            list(zip(begin, width, strict=True)),
            (row - 0.4, 0.8),
            facecolors=_CHANGE_COLOUR if is_dark else bar_colour(_FIRST_COLOUR + configuration),
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


changes_figure = drawn_alone(draw_changes)


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
