"""Pictures of the trees of a forest: who sends to whom, and which arcs lead through switches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.plot.files import drawing
from ocs_codesign.plot.labels import FONT_SIZE, plain
from ocs_codesign.plot.network import INSIDE, LEGEND_IN, MAX_NODES, OUTSIDE
from ocs_codesign.plot.panels import legend_below, one_axes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ocs_codesign.forest import Forest


def tree_figure(forest: Forest, tree: int) -> Figure:
    """One tree of a forest, a row an arc from its root; arcs through switches are dashed.

    Switches at which it branches, as they copy or add up, are orange squares. Raises ValueError for
    a tree that is not there, and for more than ``MAX_NODES`` hosts.
    """
    x, depth = _places(forest, tree)
    width_in = float(np.clip(0.36 * (max(x.values()) + 1), 5.0, 14.0))
    with drawing(width_in, 1.4 + 0.85 * max(depth.values()), "constrained") as figure:
        _draw_tree(figure.subplots(), forest, tree)
        figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8.5)
    return figure


def draw_tree(forest: Forest, tree: int, *, ax: Axes | None = None) -> Axes:
    """The picture of ``tree_figure`` in these axes, or in those of a new figure; the axes.

    Its legend is below the axes. Raises ValueError as ``tree_figure`` does.
    """
    if ax is None:
        return tree_figure(forest, tree).axes[0]
    ax = one_axes(ax)
    _draw_tree(ax, forest, tree)
    legend_below(ax, ax.get_legend_handles_labels()[0], 3, LEGEND_IN, fontsize=8.5)
    return ax


def tallest_tree_figure(forests: Sequence[Forest]) -> Figure:
    """The tallest tree of some forests, the first of equals: it is what their steps come from.

    Raises ValueError as ``tree_figure`` does.
    """
    return tree_figure(*_tallest(forests))


def draw_tallest_tree(forests: Sequence[Forest], *, ax: Axes | None = None) -> Axes:
    """The picture of ``tallest_tree_figure``, drawn as ``draw_tree`` does; the axes."""
    return draw_tree(*_tallest(forests), ax=ax)


def _tallest(forests: Sequence[Forest]) -> tuple[Forest, int]:
    forest = max(forests, key=lambda each: each.height)
    return forest, int(forest.heights().argmax())


def _draw_tree(axes: Axes, forest: Forest, tree: int) -> None:
    into, (x, depth) = _into(forest, tree), _places(forest, tree)
    axes.set_axis_off()
    axes.set_ylim(max(depth.values()) + 0.4, -0.4)
    axes.margins(x=0.04)
    axes.set_title(_tree_title(forest, tree), fontsize=10)
    direct: Any = {"color": INSIDE, "linestyle": "-"}
    switched: Any = {"color": OUTSIDE, "linestyle": (0, (4, 2))}
    if not all(through for _, through in into.values()):
        axes.plot([], [], label="a link", **direct)
    if any(through for _, through in into.values()):
        axes.plot([], [], label="a path through switches", **switched)
    for head, (tail, through) in sorted(into.items()):
        ends = [x[tail], x[head]], [depth[tail], depth[head]]
        axes.plot(*ends, linewidth=1.3, zorder=1, **(switched if through else direct))
    if max(x) >= forest.network.num_hosts:
        able: Any = {"color": "white", "markeredgecolor": OUTSIDE, "markersize": 8}
        what = "adds up" if forest.is_sum else "copies"
        axes.plot([], [], linestyle="", marker="s", label=f"a switch that {what}", **able)
    for node, level in depth.items():
        is_host = node < forest.network.num_hosts
        axes.annotate(
            plain(forest.network.name(node)),
            (x[node], level),
            ha="center",
            va="center",
            fontsize=FONT_SIZE - 1,
            fontweight="normal" if level else "bold",
            bbox={
                "boxstyle": "round,pad=0.25" if is_host else "square,pad=0.25",
                "facecolor": "white",
                "edgecolor": INSIDE if is_host else OUTSIDE,
            },
            zorder=2,
        )


def _places(forest: Forest, tree: int) -> tuple[dict[int, float], dict[int, int]]:
    """Where the nodes of a tree stand; ValueError if it is not there or too large."""
    if not 0 <= tree < len(forest.root):
        raise ValueError(f"tree is {tree}: there are trees 0 to {len(forest.root) - 1}")
    hosts = int(forest.is_rank.sum())
    if hosts > MAX_NODES:
        raise ValueError(
            f"a tree of {hosts} hosts is too large for a picture: at most {MAX_NODES} are drawn"
        )
    return _tree_places(int(forest.root[tree]), _into(forest, tree))


def _tree_title(forest: Forest, tree: int) -> str:
    root, height = int(forest.root[tree]), int(forest.heights()[tree])
    whole, mine = forest.num_trees * int(forest.weight[root]), int(forest.multiplicity[tree])
    part = "all of " if mine == whole else f"{mine} of {whole} parts of "
    what = f"the sum for {plain(forest.network.name(root))}" if forest.is_sum else "the data of "
    what += "" if forest.is_sum else plain(forest.network.name(root))
    return f"tree {tree + 1} of {len(forest.root)}, height {height}\n{part}{what}"


def _into(forest: Forest, tree: int) -> dict[int, tuple[int, bool]]:
    """From where every host but the root hangs, and whether a part of that leads over switches."""
    into: dict[int, tuple[int, bool]] = {}
    for part in np.flatnonzero(forest.tree == tree).tolist():
        path, head = forest.path[part], int(forest.head[part])
        through = bool(forest.path_start[path + 1] - forest.path_start[path] > 1)
        into[head] = (int(forest.tail[part]), through or into.get(head, (0, False))[1])
    return into


def _tree_places(
    root: int, into: dict[int, tuple[int, bool]]
) -> tuple[dict[int, float], dict[int, int]]:
    """Where hosts stand, leaves one beside the other and parents above their middle; how deep."""
    below: dict[int, list[int]] = {}
    for head, (tail, _) in sorted(into.items()):
        below.setdefault(tail, []).append(head)
    x: dict[int, float] = {}
    depth, leaves, rest = {root: 0}, 0, [(root, False)]
    while rest:
        node, is_done = rest.pop()
        children = below.get(node, [])
        if is_done:
            x[node] = (x[children[0]] + x[children[-1]]) / 2
        elif children:
            rest.append((node, True))
            rest += [(child, False) for child in reversed(children)]
            depth.update(dict.fromkeys(children, depth[node] + 1))
        else:
            x[node], leaves = float(leaves), leaves + 1
    return x, depth
