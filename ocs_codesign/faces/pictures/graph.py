"""Pictures of graphs, and of how the data of a node go over one, step by step."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.faces.pictures.drawing import one_axes, panels_in, plain
from ocs_codesign.faces.pictures.files import drawing, drawn_alone, pictured
from ocs_codesign.faces.pictures.network import INSIDE, MAX_NODES, OUTSIDE, hop_layout

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from numpy.typing import NDArray

    from ocs_codesign.core.schedule import Schedule
    from ocs_codesign.core.topology import Topology

MAX_SPREAD_NODES, MAX_PANELS = 64, 12
"""Of a schedule: what can be told apart in a panel, and the steps that have one."""

_LINK, _NOT_YET, _NAME = "#9aa3ad", "#ffffff", "#222222"
_MAX_NAMED, _MAX_SHARES = 80, 24
_COLUMNS, _PANEL_IN = 3, 3.4
_BEND = 0.2
"""Of a link that is busy both ways at once."""


def _side_in(nodes: int) -> float:
    return float(np.clip(2.6 + 0.4 * nodes**0.5, 3.6, 9.0))


@pictured(lambda topology, _: drawing(*[_side_in(topology.num_nodes)] * 2))
def draw_graph(topology: Topology, name: str, *, ax: Axes | None = None) -> Axes:
    """A topology of this name, nodes about as far apart as hops: a line both ways, an arrow one.

    Links side by side are one wide line; a link from a node to itself is a ring beside it. Raises
    ValueError for more than ``MAX_NODES`` nodes.
    """
    ax = one_axes(ax)
    _check(topology, MAX_NODES)
    nodes = topology.num_nodes
    ends = _ends(topology)
    place = hop_layout(nodes, ends)
    _open(ax, f"{plain(name)}: {nodes} nodes, {topology.num_links} links")
    count = Counter(ends)
    for (tail, head), links in sorted(count.items()):
        is_both = (head, tail) in count
        if not (is_both and tail > head and count[head, tail] == links):
            _draw_link(ax, place, tail, head, "-" if is_both else "-|>", linewidth=0.8 * links)
    _draw_nodes(ax, place, [INSIDE] * nodes)
    return ax


graph_figure = drawn_alone(draw_graph)


@pictured(lambda schedule, _: drawing(*_spread_in(schedule)))
def draw_spread(
    schedule: Schedule,
    item: int,
    *,
    figure: Figure | SubFigure | None = None,
    axes: Iterable[Axes] | None = None,
) -> tuple[Axes, ...]:
    """How the data of one node go: a panel a step, who gets some in it and over which links.

    What a link carries is said as a share of the item where it is not all of it. Raises ValueError
    where ``check_spread`` does.
    """
    check_spread(schedule)
    topology, steps = schedule.topology, _num_steps(schedule)
    rows, columns = _grid(steps)
    panels = panels_in(figure, axes, rows, columns)
    place = hop_layout(topology.num_nodes, _ends(topology))
    took_part = {item}
    for step, ax in enumerate(panels.axes, 1):
        if step > steps:
            ax.set_axis_off()
            continue
        carried = _carried(schedule, item, step)
        getting = {head for _, head in carried}
        _open(ax, f"step {step}: {_links(len(carried))}")
        _draw_graph_behind(ax, topology, place, set(carried))
        for (tail, head), share in carried.items():
            bend = _BEND if (head, tail) in carried else 0.0
            style = {"color": OUTSIDE, "linewidth": 2.2, "zorder": 2}
            _draw_link(ax, place, tail, head, "-|>", bend, **style)
            if share != 1 and len(carried) <= _MAX_SHARES:
                _write_share(ax, place, tail, head, share, bend)
        took_part |= {tail for tail, _ in carried}
        colours = [
            OUTSIDE if node in getting else INSIDE if node in took_part else _NOT_YET
            for node in range(topology.num_nodes)
        ]
        _draw_nodes(ax, place, colours)
        took_part |= getting
    panels.set_title(f"{schedule.collective.name}: the data of node {item}", fontsize=11)
    panels.draw_legend(_keys(), "lower center", 3, 6.0)
    return panels.axes


spread_figure = drawn_alone(draw_spread)


def check_spread(schedule: Schedule) -> None:
    """ValueError, before anything is written, where ``draw_spread`` has too much to draw."""
    _check(schedule.topology, MAX_SPREAD_NODES)
    if _num_steps(schedule) > MAX_PANELS:
        raise ValueError(
            f"a schedule of {_num_steps(schedule)} steps is too long for a picture: "
            f"at most {MAX_PANELS} are drawn"
        )


def _check(topology: Topology, most: int) -> None:
    if topology.num_nodes > most:
        raise ValueError(
            f"a graph of {topology.num_nodes} nodes is too large for a picture: "
            f"at most {most} are drawn"
        )


def _num_steps(schedule: Schedule) -> int:
    return int(schedule.step.max(initial=1))


def _grid(steps: int) -> tuple[int, int]:
    columns = 2 if steps == 4 else min(steps, _COLUMNS)
    return ceil(steps / columns), columns


def _spread_in(schedule: Schedule) -> tuple[float, float]:
    rows, columns = _grid(_num_steps(schedule))
    return max(2, columns) * _PANEL_IN, rows * _PANEL_IN + 0.9


def _ends(topology: Topology) -> list[tuple[int, int]]:
    return list(zip(topology.tail.tolist(), topology.head.tolist(), strict=True))


def _links(count: int) -> str:
    return f"{count} link{'s' * (count != 1)}"


def _carried(schedule: Schedule, item: int, step: int) -> dict[tuple[int, int], Fraction]:
    """What share of the item crosses from which node to which in a step."""
    mine = (schedule.item == item) & (schedule.step == step)
    tail, head = schedule.topology.tail, schedule.topology.head
    shares: Counter[tuple[int, int]] = Counter()
    for link, chunks in zip(
        schedule.link[mine].tolist(), (schedule.hi - schedule.lo)[mine].tolist(), strict=True
    ):
        shares[int(tail[link]), int(head[link])] += chunks
    return {ends: Fraction(chunks, schedule.num_chunks) for ends, chunks in sorted(shares.items())}


def _open(ax: Axes, title: str) -> None:
    ax.set_aspect("equal")
    ax.set_axis_off()
    ax.margins(0.1)
    ax.set_title(title, fontsize=9.5)


def _draw_graph_behind(
    ax: Axes, topology: Topology, place: NDArray[np.float64], busy: set[tuple[int, int]]
) -> None:
    """All links, pale: a line a pair that is not busy."""
    for tail, head in sorted({(min(each), max(each)) for each in _ends(topology)}):
        if (tail, head) not in busy and (head, tail) not in busy:
            _draw_link(ax, place, tail, head, "-", color="#d4d9de", linewidth=0.7)


def _draw_link(
    ax: Axes,
    place: NDArray[np.float64],
    tail: int,
    head: int,
    arrow: str,
    bend: float = 0.0,
    **style: Any,
) -> None:
    style = {"color": _LINK, "zorder": 1, **style}
    if tail == head:
        away = place[tail] - place.mean(axis=0)
        x, y = place[tail] + 0.09 * away / (np.hypot(*away) or 1.0)
        style = {"edgecolors": style["color"], "linewidths": style["linewidth"]}
        ax.scatter([x], [y], s=120, facecolors="none", zorder=1, **style)
        return
    line = {"arrowstyle": arrow, "connectionstyle": f"arc3,rad={bend}", "shrinkA": 5, "shrinkB": 7}
    ax.annotate("", place[head], place[tail], arrowprops={**style, **line})


def _write_share(
    ax: Axes, place: NDArray[np.float64], tail: int, head: int, share: Fraction, bend: float
) -> None:
    across, up = place[head] - place[tail]
    middle = (place[tail] + place[head]) / 2 + bend / 2 * np.array([up, -across])
    box = {"boxstyle": "round,pad=0.12", "facecolor": "white", "edgecolor": "none"}
    ax.text(
        middle[0], middle[1], str(share), fontsize=7, ha="center", va="center", zorder=4, bbox=box
    )


def _draw_nodes(ax: Axes, place: NDArray[np.float64], colours: list[str]) -> None:
    nodes = len(colours)
    area = float(np.clip(3600 / nodes, 30, 240))
    x, y = place.T
    ax.scatter(x, y, s=area, c=colours, edgecolors=_LINK, linewidths=1.0, zorder=3)
    for node in range(nodes if nodes <= _MAX_NAMED else 0):
        ax.annotate(
            str(node),
            place[node],
            ha="center",
            va="center",
            fontsize=float(np.clip(0.55 * area**0.5, 5, 8)),
            color="white" if colours[node] == INSIDE else _NAME,
            zorder=5,
        )


def _keys() -> list[Any]:
    from matplotlib.lines import Line2D

    kinds = ((INSIDE, "had its part before"), (OUTSIDE, "gets data in this step"))
    return [
        Line2D([], [], linestyle="", marker="o", color=colour, markeredgecolor=_LINK, label=label)
        for colour, label in (*kinds, (_NOT_YET, "not yet"))
    ]
