"""Pictures of networks: hosts, switches and links, with the bottleneck cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.faces.pictures.drawing import FONT_SIZE, legend_below, one_axes, plain
from ocs_codesign.faces.pictures.files import drawing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from ocs_codesign.core.network import Network
    from ocs_codesign.core.plans import Forest
    from ocs_codesign.schedules.forest.optimum import Optimum


MAX_NODES = 300
"""Nodes of a network, and hosts of a tree, up to which they are drawn; more are a black disc."""

_MAX_NAMED = 80
LEGEND_IN = 7.0
INSIDE, OUTSIDE, _NARROW, _LINK = "#0b5fa5", "#e0a030", "#c8442b", "#9aa3ad"


def network_figure(optimum: Optimum, name: str) -> Figure:
    """A network of this name; the two sides of its narrowest cut and the links of it stand out.

    Hosts are discs, switches squares, lines wider where links are. Raises ValueError for a network
    of more than ``MAX_NODES`` nodes.
    """
    size_in = float(np.clip(3.5 + 0.55 * optimum.network.num_nodes**0.5, 5.0, 11.0))
    with drawing(size_in, size_in, "constrained") as figure:
        _draw_network(figure.subplots(), optimum, name)
        columns = 2 if size_in < 7 else 3
        figure.legend(loc="outside lower center", ncols=columns, frameon=False, fontsize=8.5)
    return figure


def draw_network(optimum: Optimum, name: str, *, ax: Axes | None = None) -> Axes:
    """The picture of ``network_figure`` in these axes, or in those of a new figure; the axes.

    Its legend is below the axes. Raises ValueError as ``network_figure`` does.
    """
    if ax is None:
        return network_figure(optimum, name).axes[0]
    ax = one_axes(ax)
    _draw_network(ax, optimum, name)
    legend_below(ax, ax.get_legend_handles_labels()[0], 3, LEGEND_IN, fontsize=8.5)
    return ax


def _draw_network(axes: Axes, optimum: Optimum, name: str) -> None:
    network = optimum.network
    if network.num_nodes > MAX_NODES:
        raise ValueError(
            f"a network of {network.num_nodes} nodes is too large for a picture: "
            f"at most {MAX_NODES} are drawn"
        )
    place = _layout(network)
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.margins(0.08)
    axes.set_title(_title(optimum, name), fontsize=10)
    _draw_links(axes, network, place, optimum.leaving().tolist())
    _draw_nodes(axes, network, place, optimum)


def _title(optimum: Optimum, name: str) -> str:
    network, cut = optimum.network, optimum.cut
    unit = f" {network.unit}" if network.unit else ""
    rate = f"{plain(name)}: algbw {float(optimum.algbw):.5g}{unit} at best"
    if cut is None:
        return rate
    hosts = int((~cut.side[: network.num_hosts]).sum())
    verb = "out of" if optimum.tasks[0].is_sum else "into"
    short = "the orange host" if hosts == 1 else f"the {hosts} orange hosts"
    return f"{rate}\nbottleneck: a bandwidth of {cut.capacity}{unit} {verb} {short}"


def _layout(network: Network) -> NDArray[np.float64]:
    """Places in the plane that are about as far apart as hops, the same for the same network."""
    from networkx import Graph, kamada_kawai_layout

    graph = Graph()
    graph.add_nodes_from(range(network.num_nodes))
    graph.add_edges_from(zip(network.tail.tolist(), network.head.tolist(), strict=True))
    places: dict[int, NDArray[np.float64]] = kamada_kawai_layout(graph)
    return np.array([places[node] for node in range(network.num_nodes)])


def _draw_links(
    axes: Axes, network: Network, place: NDArray[np.float64], cut_links: list[int]
) -> None:
    """A line a cable, an arrow where it leads one way only or is of the cut, those on top."""
    ends = list(zip(network.tail.tolist(), network.head.tolist(), strict=True))
    width_of: dict[tuple[int, int], int] = {}
    for pair, bandwidth in zip(ends, network.bandwidth.tolist(), strict=True):
        width_of[pair] = width_of.get(pair, 0) + bandwidth
    narrow, widest = {ends[link] for link in cut_links}, max(width_of.values(), default=1)
    for (tail, head), width in sorted(width_of.items()):
        is_narrow, two_way = (tail, head) in narrow, (head, tail) in width_of
        is_drawn = two_way and (tail > head or (head, tail) in narrow)
        if tail == head or (is_drawn and not is_narrow):
            continue
        style: dict[str, Any] = {
            "color": _NARROW if is_narrow else _LINK,
            "linewidth": 0.7 + 2.0 * width / widest,
            "zorder": 2 if is_narrow else 1,
            "shrinkA": 4,
            "shrinkB": 6,
            "arrowstyle": "-|>" if is_narrow or not two_way else "-",
        }
        axes.annotate("", place[head], place[tail], arrowprops=style)
    axes.plot([], [], color=_LINK, linewidth=2, label="link, wider where it is faster")
    if narrow:
        axes.plot([], [], color=_NARROW, linewidth=2, label="link of the bottleneck")


def _draw_nodes(axes: Axes, network: Network, place: NDArray[np.float64], optimum: Optimum) -> None:
    nodes = network.num_nodes
    inside = np.ones(nodes, dtype=bool) if optimum.cut is None else optimum.cut.side
    is_host = np.arange(nodes) < network.num_hosts
    area = float(np.clip(9000 / nodes, 25, 260))
    beyond = ", beyond the bottleneck"
    for marker, kind, chosen, size in (
        ("o", "host", is_host, area),
        ("s", "switch", ~is_host, 0.6 * area),
    ):
        for colour, mine, where in (
            (INSIDE, chosen & inside, ""),
            (OUTSIDE, chosen & ~inside, beyond),
        ):
            if not mine.any():
                continue
            face, edge = (colour, "white") if kind == "host" else ("white", colour)
            x, y = place[mine].T
            axes.scatter(
                x, y, s=size, c=face, edgecolors=edge, linewidths=1.5, marker=marker, zorder=3
            )
            style: Any = {"color": face, "markeredgecolor": edge, "markersize": 8}
            axes.plot([], [], linestyle="", marker=marker, label=kind + where, **style)
    if nodes <= _MAX_NAMED:
        for node in range(nodes):
            colour = "white" if is_host[node] and inside[node] else "#222222"
            axes.annotate(
                plain(network.name(node)),
                place[node],
                ha="center",
                va="center",
                fontsize=6 if nodes > _MAX_NAMED // 2 else 7,
                color=colour,
                zorder=4,
            )


# Pictures of the trees of a forest: who sends to whom, and which arcs lead through switches.


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
