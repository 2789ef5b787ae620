"""The frontier of all-to-all as a figure: against the diameter, or against the allgather."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.bounds import bound
from ocs_codesign.collective import Collective
from ocs_codesign.plot.labels import Label, draw_labels
from ocs_codesign.plot.marks import (
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
from ocs_codesign.plot.panels import one_axes
from ocs_codesign.search.baselines import fat_tree
from ocs_codesign.search.joint import best_jointly, counts_allgather, joint_times

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ocs_codesign.cost import MessageSizes
    from ocs_codesign.design import Design
    from ocs_codesign.search.pareto import Frontier

_ABOVE, _BESIDE = 0.1, 0.15
"""Room beyond the frontier in which dominated ones are drawn, relative to the bounds."""
_MOST_ENTRIES = 5
"""Of the legend besides messages and baselines."""


def joint_figure(frontier: Frontier, asked: MessageSizes | None = None) -> Figure:
    """All-to-all time against the allgather's t_b, with the steps as labels, and the bounds.

    Without the allgather against the diameter. Dominated candidates near the frontier are drawn,
    those that hops ruled out at the least time that these prove. The candidate with the
    least time is marked for every message size asked for; so are ring, torus and the bound of a fat
    tree, on the edge where they lie beyond it. Raises ValueError if none was solved.
    """
    if not frontier.candidates:
        raise ValueError("no candidate was solved: there is nothing to draw")
    baselines, sizes = _baselines(frontier), () if asked is None else asked.sizes_bytes
    with drawing_over_legend(_MOST_ENTRIES + len(sizes) + len(baselines)) as figure:
        draw_joint(frontier, asked, ax=figure.add_subplot())
    return figure


def draw_joint(
    frontier: Frontier, asked: MessageSizes | None = None, *, ax: Axes | None = None
) -> Axes:
    """The picture of ``joint_figure`` in these axes, or in those of a new figure; the axes.

    Its legend is below the axes. Raises ValueError as ``joint_figure`` does.
    """
    if ax is None:
        return joint_figure(frontier, asked).axes[0]
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
    return ax


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
    question = frontier.question
    gather = bound(question.num_nodes, question.degree, Collective.ALLGATHER)
    return float(gather.t_b if counts_allgather(frontier) else gather.steps), float(
        frontier.bound.t_b
    )


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
    axes.grid(color="#e8e8e8", linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _draw_bounds(axes: Axes, frontier: Frontier) -> None:
    style: dict[str, Any] = {"color": BOUND, "linewidth": 1, "zorder": 1.5}
    question, (x, y) = frontier.question, _least(frontier)
    gather = bound(question.num_nodes, question.degree, Collective.ALLGATHER)
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
