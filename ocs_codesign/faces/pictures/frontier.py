"""The frontier of a question as a figure, made without pyplot: no window, no global figure."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.core.bounds import fewest_steps
from ocs_codesign.core.cost import MessageSizes, undominated
from ocs_codesign.core.quantities import format_bandwidth, format_size, format_time
from ocs_codesign.faces.pictures.drawing import (
    FONT_SIZE,
    Label,
    close_up,
    draw_labels,
    is_within,
    on_grid,
    one_axes,
    plain,
    shortened,
)
from ocs_codesign.faces.pictures.files import drawing, drawn_alone, pictured
from ocs_codesign.search.pareto import closed_baselines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from fractions import Fraction

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ocs_codesign.core.cost import Cost, CostModel
    from ocs_codesign.schedules.design import Design
    from ocs_codesign.search.pareto import Frontier


# Colours and marks of frontiers, the same in every picture of one.


FRONT, BEST, REST, BOUND = "#0b5fa5", "#c8442b", "#b4bac1", "#5f7a1f"
_PICTURE_IN, _AXIS_IN, _TITLE_IN = 4.7, 0.5, 0.4
_BASELINE_COLOURS = ("#8a5a2b", "#d08a2e", "#8e6bbf", "#4a4f57", "#c77ba0", "#2f8f83", "#111111")


@final
@dataclass(frozen=True, slots=True)
class Baseline:
    """A design that a frontier is compared with: where it is drawn, and its cost in words."""

    name: str
    x: float
    y: float
    cost: str


def mark_candidates(axes: Axes, x: Sequence[float], y: Sequence[float]) -> None:
    """The points of a frontier, with how many there are in the legend."""
    axes.plot(
        x,
        y,
        linestyle="",
        marker="o",
        markersize=6.5,
        color=FRONT,
        markeredgecolor="white",
        label=f"frontier: {len(x)} candidate{'s' * (len(x) != 1)}",
        zorder=5,
    )


def mark_best(
    axes: Axes,
    asked: MessageSizes,
    points: Iterable[tuple[float, float]],
    times_s: Iterable[Fraction],
    each: str = "",
) -> None:
    """A star on the point that is best for every message size, with its time in the legend."""
    best: dict[tuple[float, float], list[tuple[str, str]]] = {}
    for point, size, time_s in zip(points, asked.sizes_bytes, times_s, strict=True):
        best.setdefault(point, []).append((format_size(size), format_time(time_s)))
    alpha, bandwidth = asked.model.alpha_s, asked.model.node_bandwidth_Bps
    model = f"(α = {format_time(alpha)}, B = {format_bandwidth(bandwidth)})"
    for (x, y), texts in best.items():
        sizes, times = map(", ".join, zip(*texts, strict=True))
        axes.plot(
            [x],
            [y],
            linestyle="",
            marker="*",
            markersize=15,
            color=BEST,
            markeredgecolor="white",
            label=f"best for {sizes}{each} {model}: {times}",
            zorder=6,
        )


def mark_baselines(axes: Axes, baselines: Sequence[Baseline]) -> None:
    """What a cluster would be without a search, on the edge of the picture if it is beyond that."""
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    for colour, one in zip(_BASELINE_COLOURS, baselines, strict=False):
        sides = {"<": one.x < left, ">": one.x > right, "v": one.y < bottom, "^": one.y > top}
        beyond = [marker for marker, is_so in sides.items() if is_so]
        axes.plot(
            [min(max(one.x, left), right)],
            [min(max(one.y, bottom), top)],
            linestyle="",
            marker=beyond[0] if beyond else "D",
            markersize=6,
            color=colour,
            markeredgecolor="white",
            label=f"{plain(shortened(one.name))}: {one.cost}{' (beyond)' * bool(beyond)}",
            clip_on=False,
            zorder=4.5,
        )
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)


def steps_text(steps: int, t_b: float) -> str:
    """A cost as a legend has it."""
    return f"{steps} step{'s' * (steps != 1)}, {t_b:.4g}"


@contextmanager
def drawing_over_legend(num_entries: int) -> Iterator[Figure]:
    """A figure of one picture, as high as it takes to have so many entries of a legend below."""
    legend_in = 0.15 + 0.19 * -(-num_entries // 2)
    height_in = _PICTURE_IN + legend_in
    with drawing(8, height_in, None) as figure:
        bottom, top = (_AXIS_IN + legend_in) / height_in, 1 - _TITLE_IN / height_in
        figure.subplots_adjust(left=0.1, right=0.97, top=top, bottom=bottom)
        yield figure


def draw_legend(axes: Axes) -> None:
    """The legend, below the axes in two columns."""
    axes.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -_AXIS_IN / (_PICTURE_IN - _AXIS_IN - _TITLE_IN)),
        ncols=2,
        columnspacing=1.5,
        frameon=False,
        fontsize=FONT_SIZE - 0.5,
    )


_PUBLISHED = "#6b7280"
_LOG_RATIO = 5
_WIDEST = 8
_MOST_ENTRIES = 6
"""Of the legend besides messages and baselines."""


@pictured(
    lambda frontier, model=None, *sizes_bytes: drawing_over_legend(
        (_MOST_ENTRIES + bool(_drops(frontier)) + len(sizes_bytes))
        + len(_baselines(frontier, _asked(model, sizes_bytes)))
    )
)
def draw_frontier(
    frontier: Frontier, model: CostModel | None = None, *sizes_bytes: float, ax: Axes | None = None
) -> Axes:
    """The frontier as a staircase of steps against t_b, with what it dominates and the bounds.

    The published designs of the size are labelled too; ring, torus, double binary tree and the
    bound of a fat tree are marked, on the edge where they lie beyond it. With a cost model and
    message sizes, the candidate with the least time for each is marked. Where many labelled points
    lie close above the bound, a close-up shows them. Dominated candidates far from the frontier are
    left out of the picture and counted in its legend.
    """
    axes, asked = one_axes(ax), _asked(model, sizes_bytes)
    shown = _in_view(frontier)
    _set_axes(axes, frontier, shown)
    _draw_bounds(axes, frontier)
    _draw_dominated(axes, frontier, shown)
    _draw_staircases(axes, frontier)
    _draw_forests(axes, frontier)
    published = [c for c in frontier.published if c in shown]
    labels = [_label(c, strong=True) for c in frontier.candidates]
    labels += [_label(c, strong=False) for c in published if c not in frontier.candidates]
    least = float(frontier.bound.t_b)
    close = close_up(axes, labels, [_point(c) for c in shown], least)
    if close is not None:
        _draw_bounds(close, frontier)
        _draw_dominated(close, frontier, shown)
        _draw_staircases(close, frontier)
        _draw_forests(close, frontier)
        inside = [label for label in labels if is_within(close, label.x, label.y)]
        draw_labels(close, inside, least, drops=[*_drops(frontier), *_risers(frontier, close)])
        labels = [label for label in labels if label not in inside]
    if labels:
        drops = [*_drops(frontier), *_risers(frontier, axes)]
        draw_labels(axes, labels, least, close, drops)
    if asked is not None:
        _draw_best(axes, frontier, asked)
    mark_baselines(axes, _baselines(frontier, asked))
    draw_legend(axes)
    # What is drawn here keeps its frame; what a reader adds later widens it.
    _ = axes.get_xlim(), axes.get_ylim()
    axes.set_autoscale_on(True)
    return axes


frontier_figure = drawn_alone(draw_frontier)


@pictured(
    lambda _, frontier, model=None, *sizes_bytes: drawing_over_legend(
        (_MOST_ENTRIES + 1 + bool(_drops(frontier)) + len(sizes_bytes))
        + len(_baselines(frontier, _asked(model, sizes_bytes)))
    )
)
def draw_frontier_beside(
    own: tuple[str, Cost],
    frontier: Frontier,
    model: CostModel | None = None,
    *sizes_bytes: float,
    ax: Axes | None = None,
) -> Axes:
    """The picture of ``draw_frontier``, and in it the cost of a graph of one's own, by its name."""
    axes, (name, cost) = draw_frontier(frontier, model, *sizes_bytes, ax=ax), own
    steps, t_b = cost.steps, float(cost.t_b)
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    text = f"{shortened(name)}: {steps_text(steps, t_b)}"
    axes.plot([steps], [t_b], "*", ms=13, color="#c8442b", label=text, zorder=6)
    axes.set_xlim(left, max(right, steps + 0.5))
    axes.set_ylim(low, max(high, t_b + 0.08 * (t_b - low)))
    draw_legend(axes)
    return axes


frontier_beside_figure = drawn_alone(draw_frontier_beside)


def _asked(model: CostModel | None, sizes_bytes: Sequence[float]) -> MessageSizes | None:
    return None if model is None or not sizes_bytes else MessageSizes(model, tuple(sizes_bytes))


def _baselines(frontier: Frontier, asked: MessageSizes | None) -> list[Baseline]:
    closed = closed_baselines(frontier.question, frontier.collective, asked)
    return [
        Baseline(one.label, *_point(one), steps_text(*_point(one)))
        for one in (*frontier.baselines, *closed)
    ]


def _label(candidate: Design, *, strong: bool) -> Label:
    return Label(candidate.recipe.label(), *_point(candidate), strong)


def _point(candidate: Design) -> tuple[int, float]:
    return candidate.cost.steps, float(candidate.cost.t_b)


def _in_view(frontier: Frontier) -> list[Design]:
    """The candidates that are drawn: those not far above or to the right of the frontier."""
    least = float(frontier.bound.t_b)
    front = max(float(candidate.cost.t_b) for candidate in frontier.candidates)
    span = max(1.5 * (front - least), 0.1 * least)
    top = least + max(2 * span, 0.35 * least)
    right = _WIDEST * frontier.candidates[-1].cost.steps
    rest = [
        candidate
        for candidate in frontier.dominated
        if candidate.cost.t_b <= top and candidate.cost.steps <= right
    ]
    return [*frontier.candidates, *rest]


def _set_axes(axes: Axes, frontier: Frontier, shown: Sequence[Design]) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

    bound = frontier.bound
    steps = [candidate.cost.steps for candidate in shown]
    low, high = min(bound.steps, *steps), max(*steps, bound.steps + 1)
    if high > _LOG_RATIO * max(low, 1):
        axes.set_xscale("log")
        ticks = [tick for tick in _round_ticks(low, high) if low <= tick <= 1.25 * high]
        axes.set_xticks(ticks)
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))
        axes.set_xlim(low / 1.25, high * 1.25)
    else:
        margin = max(0.5, 0.05 * (high - low))
        axes.set_xlim(low - margin, high + margin)
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    least, top = float(bound.t_b), max(float(candidate.cost.t_b) for candidate in shown)
    top = max(top, 1.1 * least)
    axes.set_ylim(least - 0.16 * (top - least), top + 0.08 * (top - least))
    axes.set_xlabel(r"steps  ($T_L$ in units of $\alpha$)")
    axes.set_ylabel(r"$t_b$  ($T_B$ in units of $M/B$)")
    axes.set_title(
        f"{frontier.num_nodes} nodes of degree {frontier.degree}: "
        f"{frontier.collective.name} frontier",
        fontsize=11.5,
    )
    on_grid(axes)


def _round_ticks(low: int, high: int) -> list[int]:
    """Round numbers of every decade, more of them where the range is short."""
    digits = (1.0, 2.0, 5.0) if high > 100 * low else (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)
    return [
        round(digit * 10**decade)
        for decade in range(len(str(high)) + 1)
        for digit in digits
        if (digit * 10**decade).is_integer()
    ]


def _draw_bounds(axes: Axes, frontier: Frontier) -> None:
    """The least steps and t_b, and the corner below and left of which no topology can be."""
    bound = frontier.bound
    style: dict[str, Any] = {"color": BOUND, "linewidth": 1, "zorder": 1.5}
    axes.axvline(
        bound.steps, linestyle=(0, (5, 3)), label=f"fewest steps (Moore): {bound.steps}", **style
    )
    axes.axhline(
        float(bound.t_b), linestyle=(0, (1.5, 2)), label=rf"least $t_b$: {bound.t_b}", **style
    )
    question, (left, right), (low, _) = frontier.question, axes.get_xlim(), axes.get_ylim()
    both = question.bidirectional
    fewest = fewest_steps(question.num_nodes, question.degree, bidirectional=both)
    fewest *= len(frontier.collective.halves())
    shade: dict[str, Any] = {"color": BOUND, "alpha": 0.08, "linewidth": 0, "zorder": 0.5}
    axes.axvspan(left, fewest, **shade)
    axes.fill_between([fewest, right], low, float(bound.t_b), **shade)
    axes.set_xlim(left, right)


def _draw_dominated(axes: Axes, frontier: Frontier, shown: Sequence[Design]) -> None:
    rest = [candidate for candidate in shown if candidate not in frontier.candidates]
    if not rest:
        return
    missing = len(frontier.dominated) - len(rest)
    note = f" ({missing} more outside the picture)" if missing else ""
    _dots(axes, rest, f"dominated: {len(rest)}{note}", color=REST, markeredgewidth=0, zorder=2)
    known = frontier.published
    published = [candidate for candidate in rest if candidate in known]
    if published:
        note = f"published designs: {len(published)}"
        _dots(axes, published, note, color="white", markeredgecolor=_PUBLISHED, zorder=3)


def _dots(axes: Axes, candidates: Sequence[Design], label: str, **style: Any) -> None:
    x, y = zip(*(_point(candidate) for candidate in candidates), strict=True)
    axes.plot(x, y, linestyle="", marker="o", markersize=4.5, label=label, **style)


def _draw_staircases(axes: Axes, frontier: Frontier) -> None:
    """The frontier, and that of the published designs alone where it is another."""
    costs = [candidate.cost for candidate in frontier.candidates]
    known = undominated(frontier.published, lambda design: design.cost)
    published = [design.cost for design in known]
    if published and published != costs:
        note = f"published frontier: {len(published)} of them"
        style: dict[str, Any] = {"color": _PUBLISHED, "linestyle": (0, (4, 2)), "zorder": 1.7}
        _draw_staircase(axes, published, label=note, **style)
    _draw_staircase(axes, costs, color=FRONT, zorder=1.8)
    mark_candidates(axes, *zip(*((cost.steps, float(cost.t_b)) for cost in costs), strict=True))


def _draw_staircase(axes: Axes, costs: Sequence[Cost], **style: Any) -> None:
    """Steps down from one cost to the next, to the edges of the picture at both ends."""
    limits = axes.get_xlim(), axes.get_ylim()
    steps = [costs[0].steps, *(cost.steps for cost in costs), limits[0][1]]
    t_b = [limits[1][1], *(float(cost.t_b) for cost in costs), float(costs[-1].t_b)]
    axes.step(steps, t_b, where="post", linewidth=1.4, **style)
    axes.set_xlim(limits[0])
    axes.set_ylim(limits[1])


def _drops(frontier: Frontier) -> list[tuple[float, float, float]]:
    """Steps, what forests come near to, and t_b of every candidate that they take down."""
    return [
        (design.cost.steps, float(design.forest_t_b), float(design.cost.t_b))
        for design in frontier.candidates
        if design.forest_t_b is not None and design.forest_t_b < design.cost.t_b
    ]


def _risers(frontier: Frontier, axes: Axes) -> list[tuple[float, float, float]]:
    """Steps and both ends of the upright parts of the staircases, as far as they are drawn."""
    _, top = axes.get_ylim()
    found: list[tuple[float, float, float]] = []
    for designs in (frontier.candidates, undominated(frontier.published, lambda each: each.cost)):
        ends = [min(top, float(design.cost.t_b)) for design in designs]
        found += zip((design.cost.steps for design in designs), ends, (top, *ends), strict=False)
    return found


def _draw_forests(axes: Axes, frontier: Frontier) -> None:
    drops = _drops(frontier)
    style: dict[str, Any] = {"color": FRONT, "zorder": 1.9}
    for x, low, high in drops:
        axes.plot([x, x], [low, high], linestyle=(0, (1, 1.5)), linewidth=1.1, **style)
    if drops:
        ends = [(x, low) for x, low, _ in drops]
        mark: dict[str, Any] = {"marker": "D", "markersize": 5, "markerfacecolor": "white"}
        axes.plot(
            *zip(*ends, strict=True),
            linestyle="",
            label="what forests come near to",
            **mark,
            **style,
        )


def _draw_best(axes: Axes, frontier: Frontier, asked: MessageSizes) -> None:
    best = [frontier.best(asked.model, size) for size in asked.sizes_bytes]
    times_s = (
        each.cost.time_s(asked.model, size)
        for each, size in zip(best, asked.sizes_bytes, strict=True)
    )
    mark_best(axes, asked, map(_point, best), times_s)
