"""The frontier of all-to-all as a figure: against the diameter, or against the allgather."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.circuits.frontier import best_static, break_even_of, t_b_bound
from ocs_codesign.core.bounds import bound
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.quantities import format_bandwidth, format_size, format_time
from ocs_codesign.faces.pictures.drawing import (
    FONT_SIZE,
    Label,
    draw_labels,
    on_grid,
    one_axes,
    panels_in,
    plain_log,
)
from ocs_codesign.faces.pictures.files import drawing, drawn_alone, pictured
from ocs_codesign.faces.pictures.frontier import (
    BOUND,
    FRONT,
    REST,
    Baseline,
    draw_legend,
    drawing_over_legend,
    mark_baselines,
    mark_best,
    mark_candidates,
    steps_text,
)
from ocs_codesign.search.frontiers import best_jointly, counts_allgather, joint_times
from ocs_codesign.search.pareto import fat_tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from ocs_codesign.core.cost import Cost, CostModel, MessageSizes
    from ocs_codesign.schedules.design import Design, Question
    from ocs_codesign.search.pareto import Frontier


_ABOVE, _BESIDE = 0.1, 0.15
"""Room beyond the frontier in which dominated ones are drawn, relative to the bounds."""
_MOST_ENTRIES = 5
"""Of the legend besides messages and baselines."""


@pictured(
    lambda frontier, asked=None: drawing_over_legend(
        _MOST_ENTRIES + _num_sizes(asked) + len(_baselines(frontier))
    )
)
def draw_joint(
    frontier: Frontier, asked: MessageSizes | None = None, *, ax: Axes | None = None
) -> Axes:
    """All-to-all time against the allgather's t_b, with the steps as labels, and the bounds.

    Without the allgather against the diameter. Dominated candidates near the frontier are drawn,
    those that hops ruled out at the least time that these prove. The candidate with the
    least time is marked for every message size asked for; so are ring, torus and the bound of a fat
    tree, on the edge where they lie beyond it. Raises ValueError if none was solved.
    """
    if not frontier.candidates:
        raise ValueError("no candidate was solved: there is nothing to draw")
    axes = one_axes(ax)
    shown = _in_view(frontier)
    _set_axes(axes, frontier, [*frontier.candidates, *shown])
    _draw_bounds(axes, frontier)
    _draw_dominated(axes, frontier, shown)
    _draw_candidates(axes, frontier)
    labels = [Label(_name(frontier, c), *_at(frontier, c), True) for c in frontier.candidates]
    draw_labels(axes, labels, float(frontier.bound.t_b))
    if asked is not None:
        _draw_best(axes, frontier, asked)
    mark_baselines(axes, _baselines(frontier))
    draw_legend(axes)
    return axes


joint_figure = drawn_alone(draw_joint)


def _num_sizes(asked: MessageSizes | None) -> int:
    return 0 if asked is None else len(asked.sizes_bytes)


def _at(frontier: Frontier, one: Design) -> tuple[float, float]:
    """Where a candidate is drawn: all-to-all time over the allgather's t_b or the diameter."""
    gather = float(one.cost_of(Collective.ALLGATHER).t_b)
    return gather if counts_allgather(frontier) else one.cost.steps, float(one.cost.t_b)


def _baselines(frontier: Frontier) -> list[Baseline]:
    both = counts_allgather(frontier)
    whole = fat_tree(frontier.num_nodes, frontier.collective)
    places = [(one.label, *_at(frontier, one)) for one in frontier.baselines]
    places.append((whole.label, float(whole.cost.t_b) if both else 1, float(whole.cost.t_b)))
    return [
        Baseline(name, x, y, f"{x:.4g}, {y:.4g}" if both else steps_text(int(x), y))
        for name, x, y in places
    ]


def _name(frontier: Frontier, one: Design) -> str:
    """Its label, where the steps are no axis with them in front."""
    if not counts_allgather(frontier):
        return one.label
    steps = one.cost_of(Collective.ALLGATHER).steps
    return f"{steps} step{'s' * (steps != 1)}: {one.label}"


def _least(frontier: Frontier) -> tuple[float, float]:
    """The bounds of both axes."""
    gather = _gather_bound(frontier.question)
    return float(gather.t_b if counts_allgather(frontier) else gather.steps), float(
        frontier.bound.t_b
    )


def _gather_bound(question: Question) -> Cost:
    size, both = (question.num_nodes, question.degree), question.bidirectional
    return bound(*size, Collective.ALLGATHER, bidirectional=both)


def _in_view(frontier: Frontier) -> list[Design]:
    """The dominated candidates that are not far above or to the right of the frontier."""
    places = [_at(frontier, one) for one in frontier.candidates]
    least = _least(frontier)
    beside = _BESIDE * least[0] if counts_allgather(frontier) else 1
    right = max(x for x, _ in places) + beside
    top = max(y for _, y in places) + _ABOVE * least[1]
    near = [(one, _at(frontier, one)) for one in frontier.dominated]
    return [one for one, (x, y) in near if x <= right and y <= top]


def _set_axes(axes: Axes, frontier: Frontier, shown: Sequence[Design]) -> None:
    from matplotlib.ticker import MaxNLocator

    least = _least(frontier)
    places = [_at(frontier, one) for one in shown]
    right = max(*(x for x, _ in places), least[0] * 1.05)
    top = max(*(y for _, y in places), least[1] * 1.03)
    if counts_allgather(frontier):
        margin = 0.07 * (right - least[0])
        axes.set_xlabel(r"allgather $t_b$  ($T_B$ in units of $M/B$)")
    else:
        margin = 0.5
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        axes.set_xlabel(r"diameter  (steps, $T_L$ in units of $\alpha$)")
    axes.set_xlim(least[0] - margin, right + (3 if counts_allgather(frontier) else 1) * margin)
    axes.set_ylim(least[1] - 0.16 * (top - least[1]), top + 0.12 * (top - least[1]))
    axes.set_ylabel(r"all-to-all $t_b$  ($T_B$ in units of $M/B$)")
    question = frontier.question
    both = "allgather and all-to-all" if counts_allgather(frontier) else "all-to-all"
    axes.set_title(
        f"{question.num_nodes} nodes of degree {question.degree}: {both} frontier", fontsize=11.5
    )
    on_grid(axes)


def _draw_bounds(axes: Axes, frontier: Frontier) -> None:
    style: dict[str, Any] = {"color": BOUND, "linewidth": 1, "zorder": 1.5}
    gather, (x, y) = _gather_bound(frontier.question), _least(frontier)
    note = f"fewest steps (Moore): {gather.steps}"
    if counts_allgather(frontier):
        note = f"least allgather $t_b$: {gather.t_b}"
    axes.axvline(x, linestyle=(0, (5, 3)), label=note, **style)
    note = f"least all-to-all $t_b$: {frontier.bound.t_b}"
    axes.axhline(y, linestyle=(0, (1.5, 2)), label=note, **style)


def _draw_dominated(axes: Axes, frontier: Frontier, shown: Sequence[Design]) -> None:
    """Grey dots for those that were solved, triangles for what hops prove of the others."""
    solved = [one for one in shown if one.measured]
    bounded = [one for one in shown if not one.measured]
    missing = len(frontier.dominated) - len(shown)
    outside = f" ({missing} more outside)" if missing else ""
    kinds = (
        (solved, "o", f"dominated: {len(solved)}{outside}"),
        (bounded, "^", f"ruled out by hops, at least: {len(bounded)}"),
    )
    for some, marker, text in kinds:
        if some:
            x, y = zip(*(_at(frontier, one) for one in some), strict=True)
            style: dict[str, Any] = {"color": REST, "markeredgewidth": 0, "zorder": 2}
            axes.plot(x, y, linestyle="", marker=marker, markersize=4.5, label=text, **style)


def _draw_candidates(axes: Axes, frontier: Frontier) -> None:
    x, y = zip(*(_at(frontier, one) for one in frontier.candidates), strict=True)
    if not counts_allgather(frontier):
        axes.step(x, y, where="post", color=FRONT, linewidth=1.4, zorder=1.8)
    mark_candidates(axes, x, y)


def _draw_best(axes: Axes, frontier: Frontier, asked: MessageSizes) -> None:
    both = counts_allgather(frontier)
    points, times_s = [], []
    for size in asked.sizes_bytes:
        best = best_jointly(frontier, asked.model, size)
        times = joint_times(best, asked.model, size)
        points.append(_at(frontier, best))
        times_s.append(times.total_s if both else times.alltoall_s)
    mark_best(axes, asked, points, times_s, " each" * both)


# The frontier with reconfiguration: t_b against configurations, and times against dead times.


_STATIC, _SWITCHING, _REST, _BOUND, _ASKED = "#0b5fa5", "#c8442b", "#b4bac1", "#5f7a1f", "#6b7280"
_MOST_OVER_FRONT = 3.0
_LOG_RATIO = 10


@pictured(lambda _, __=(), asked=None: drawing(5.4 * (1 + _num_sizes(asked)), 4.6))
def draw_reconfigured(
    frontier: Frontier,
    deltas_s: Sequence[float] = (),
    asked: MessageSizes | None = None,
    *,
    figure: Figure | SubFigure | None = None,
    axes: Iterable[Axes] | None = None,
) -> tuple[Axes, ...]:
    """t_b of all candidates with the bound: against configurations, of an allreduce against steps.

    For every message size asked for also the time against the dead time of a change: the fastest
    static design, what is fastest at each dead time, and below which dead time changes pay;
    ``deltas_s`` are marked. ``axes`` are one, and one more for every message size.
    """
    sizes = () if asked is None else asked.sizes_bytes
    panels = panels_in(figure, axes, 1, 1 + len(sizes))
    for panel in panels.axes:
        on_grid(panel)
    _draw_costs(panels.axes[0], frontier)
    if asked is not None:
        for panel, size in zip(panels.axes[1:], sizes, strict=True):
            _draw_times(panel, frontier, deltas_s, asked.model, size)
    what = f"{frontier.num_nodes} nodes of degree {frontier.degree}"
    panels.set_title(f"{what}: {frontier.collective.name}", fontsize=11.5)
    return panels.axes


reconfigured_figure = drawn_alone(draw_reconfigured)


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
        plain_log(axes, "y", (1, 2, 5))
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
    plain_log(axes, "x", (1, 2, 4, 8), base=16)
    axes.set_xlim(0.85, 1.45 * max(most, 2))
    axes.set_xlabel("configurations held in turn")


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
