"""Pictures of networks: hosts, switches and links, with the bottleneck cut."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.faces.pictures.drawing import (
    FONT_SIZE,
    heat_map,
    legend_below,
    one_axes,
    panels_in,
    plain,
)
from ocs_codesign.faces.pictures.files import drawing, drawn_alone, pictured

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from numpy.typing import NDArray

    from ocs_codesign.core.compute.cuts import Cut
    from ocs_codesign.core.network import Network
    from ocs_codesign.core.plans import Forest
    from ocs_codesign.schedules.exchange.optimum import ExchangeOptimum
    from ocs_codesign.schedules.forest.optimum import Optimum


MAX_NODES = 300
"""Nodes of a network, and hosts of a tree, up to which they are drawn; more are a black disc."""

_MAX_NAMED = 80
_APART = 1.0
"""How far the sides of the bottleneck stand apart, as neighbours do."""

_RANDOM_STARTS, _BETTER = 2, 0.99
"""Starts of a layout beside the circle, and the part of the least error that is worth another."""

LEGEND_IN = 6.6
INSIDE, OUTSIDE, _NARROW, _LINK, _BUSY = "#0b5fa5", "#e0a030", "#c8442b", "#9aa3ad", "#3a4048"
_MATRIX_IN = 5.0


@pictured(lambda optimum, _: drawing(*_size_in(optimum.network)))
def draw_network(optimum: Optimum | ExchangeOptimum, name: str, *, ax: Axes | None = None) -> Axes:
    """A network of this name; the two sides of its narrowest cut and the links of it stand out.

    Hosts are discs, switches squares above them in tiers, lines wider where links are. Raises
    ValueError for a network of more than ``MAX_NODES`` nodes.
    """
    ax = one_axes(ax)
    _draw_network(ax, optimum, name)
    legend_below(ax, ax.get_legend_handles_labels()[0], 3, LEGEND_IN, fontsize=8.5)
    return ax


network_figure = drawn_alone(draw_network)


@pictured(lambda optimum, *_: drawing(_size_in(optimum.network)[0] + _MATRIX_IN, 4.8))
def draw_exchange(
    optimum: ExchangeOptimum,
    name: str,
    relays: Collection[int] | None = None,
    phases: Sequence[NDArray[np.int64]] | None = None,
    *,
    figure: Figure | SubFigure | None = None,
    axes: Iterable[Axes] | None = None,
) -> tuple[Axes, ...]:
    """The same of an exchange, its busiest links as well, and its matrix: 2 axes.

    Links are as busy as on paths of fewest hops, by hosts that relay in ``phases`` as ``optimum``
    has them. What crosses the cut is red; the colour bar takes room of the matrix.
    """
    from ocs_codesign.schedules.exchange.paths import exchange_paths

    wide = _size_in(optimum.network)[0] / _MATRIX_IN
    panels = panels_in(figure, axes, 1, 2, width_ratios=(wide, 1))
    left, right = panels.axes
    hosts, cut = optimum.network.num_hosts, optimum.bottleneck
    _check_size(optimum.network)
    paths = exchange_paths(optimum.network, optimum.demand, relays, phases=phases)
    _draw_network(left, optimum, name, paths.busiest_links().tolist())
    legend_below(left, left.get_legend_handles_labels()[0], 3, LEGEND_IN, fontsize=8.5)
    units = 1.0 - np.eye(hosts) if optimum.demand is None else optimum.demand.astype(float)
    side = np.zeros(hosts, dtype=bool) if cut is None else cut.side[:hosts]
    heat_map(right, units, "data (units of demand)", side[:, None] & ~side)
    right.set_title("demand" if cut is None else "demand, red across the bottleneck", fontsize=10)
    return panels.axes


exchange_figure = drawn_alone(draw_exchange)


def _size_in(network: Network) -> tuple[float, float]:
    """A square for hosts alone; else as wide as the hosts need, and a row a tier."""
    if network.num_nodes == network.num_hosts:
        size = float(np.clip(3.5 + 0.55 * network.num_nodes**0.5, 5.0, 11.0))
        return size, size
    return float(np.clip(0.45 * network.num_hosts, 6.0, 14.0)), 4.8


def _check_size(network: Network) -> None:
    if network.num_nodes > MAX_NODES:
        raise ValueError(
            f"a network of {network.num_nodes} nodes is too large for a picture: "
            f"at most {MAX_NODES} are drawn"
        )


def _draw_network(
    axes: Axes, optimum: Optimum | ExchangeOptimum, name: str, busiest: Sequence[int] = ()
) -> None:
    network = optimum.network
    _check_size(network)
    has_switches = network.num_nodes > network.num_hosts
    place = (
        _tiers(network, optimum.bottleneck)
        if has_switches
        else _layout(network, optimum.bottleneck)
    )
    axes.set_aspect("auto" if has_switches else "equal")
    axes.set_axis_off()
    axes.margins(0.08)
    axes.set_title(_title(optimum, name), fontsize=10)
    _draw_links(axes, network, place, optimum.leaving().tolist(), busiest)
    _draw_nodes(axes, network, place, optimum)


def _title(optimum: Optimum | ExchangeOptimum, name: str) -> str:
    network, cut = optimum.network, optimum.bottleneck
    unit = f" {network.unit}" if network.unit else ""
    rate = f"{plain(name)}: algbw {float(optimum.algbw):.5g}{unit} at best"
    if cut is None:
        return rate
    hosts = int((~cut.side[: network.num_hosts]).sum())
    verb = "out of" if optimum.is_sum else "into"
    short = "the orange host" if hosts == 1 else f"the {hosts} orange hosts"
    return f"{rate}\nbottleneck: a bandwidth of {cut.capacity}{unit} {verb} {short}"


def _layout(network: Network, cut: Cut | None) -> NDArray[np.float64]:
    """Places in the plane about as far apart as hops, the sides of the cut moved apart."""
    ends = zip(network.tail.tolist(), network.head.tolist(), strict=True)
    place = hop_layout(network.num_nodes, ends)
    if cut is not None:
        apart = place[~cut.side].mean(axis=0) - place[cut.side].mean(axis=0)
        place[~cut.side] += _APART * apart / (np.hypot(*apart) or 1.0)
    return place


def hop_layout(num_nodes: int, ends: Iterable[tuple[int, int]]) -> NDArray[np.float64]:
    """Places in the plane about as far apart as hops: the best of a circle and a few random starts.

    From a circle alone a hypercube stays folded, with all its long links through the middle.
    """
    from networkx import Graph, all_pairs_shortest_path_length, kamada_kawai_layout

    graph = Graph()
    graph.add_nodes_from(range(num_nodes))
    graph.add_edges_from(ends)
    hops = np.full((num_nodes, num_nodes), float(num_nodes))
    far = dict(all_pairs_shortest_path_length(graph))
    for node, lengths in far.items():
        hops[node, list(lengths)] = list(lengths.values())
    np.fill_diagonal(hops, 1.0)
    rng = np.random.default_rng(0)
    best, least = np.zeros((num_nodes, 2)), np.inf
    for start in (None, *rng.standard_normal((_RANDOM_STARTS, num_nodes, 2))):
        begin = None if start is None else dict(enumerate(start))
        places: dict[int, NDArray[np.float64]] = kamada_kawai_layout(graph, far, begin)
        place = np.array([places[node] for node in range(num_nodes)])
        apart = np.linalg.norm(place[:, None] - place, axis=2) / hops
        error = 1 - apart.sum() ** 2 / ((apart**2).sum() or 1.0) / apart.size
        if error < _BETTER * least:
            best, least = place, error
    return best


def _tiers(network: Network, cut: Cut | None) -> NDArray[np.float64]:
    """Hosts in a row, those beyond the cut at an end; above them switches, tier by tier.

    Switches of a tier that lead to the same part of the row stand over each other, the one that
    leads to more of it higher: a rail over the boxes that it joins. Hosts are left in their order.
    """
    hosts, nodes = network.num_hosts, network.num_nodes
    inside = np.ones(nodes, dtype=bool) if cut is None else cut.side
    place = np.zeros((nodes, 2))
    index = np.arange(hosts)
    beyond = index[~inside[:hosts]]
    is_left = 2 * beyond.sum() < (hosts - 1) * len(beyond)
    place[np.lexsort((index, inside[:hosts] == is_left)), 0] = index
    near = [set[int]() for _ in range(nodes)]
    for tail, head in zip(network.tail.tolist(), network.head.tolist(), strict=True):
        near[tail].add(head)
        near[head].add(tail)
    row, below, waiting = 0, set(range(hosts)), set(range(hosts, nodes))
    while waiting:
        tier = {node for node in waiting if near[node] & below} or waiting
        waiting = waiting - tier
        ends = {node: _ends(place, near[node] & below) for node in tier}
        level: dict[int, int] = {}
        for node in sorted(tier, key=lambda node: (ends[node][1] - ends[node][0], node)):
            low, high = ends[node]
            under = (
                level[other]
                for other in level
                if ends[other][1] - ends[other][0] < high - low
                and low <= ends[other][1]
                and ends[other][0] <= high
            )
            level[node] = 1 + max(under, default=0)
        for height in sorted(set(level.values())):
            mine = sorted(node for node in tier if level[node] == height)
            mine.sort(key=lambda node: (~inside[node], sum(ends[node])))
            place[mine, 0] = _spread([sum(ends[node]) / 2 for node in mine], hosts - 1.0)
            place[mine, 1] = row + height
        row += max(level.values())
        below = tier
    if len(beyond):
        edge = len(beyond) if is_left else hosts - len(beyond)
        place[place[:, 0] > edge - 0.75, 0] += _APART
    return place


def _ends(place: NDArray[np.float64], nodes: set[int]) -> tuple[float, float]:
    across = place[sorted(nodes), 0] if nodes else np.zeros(1)
    return float(across.min()), float(across.max())


def _spread(wished: list[float], width: float) -> list[float]:
    """Places as wished for, ascending; evenly over the width if they are not apart."""
    if all(b - a >= 1 for a, b in pairwise(wished)):
        return wished
    step = (width + 1) / len(wished)
    return [step * (number + 0.5) - 0.5 for number in range(len(wished))]


def _draw_links(
    axes: Axes,
    network: Network,
    place: NDArray[np.float64],
    cut_links: list[int],
    busiest: Sequence[int],
) -> None:
    """A line a cable, an arrow where it leads one way only or is of the cut, those on top."""
    ends = list(zip(network.tail.tolist(), network.head.tolist(), strict=True))
    is_flat = network.num_nodes == network.num_hosts
    width_of: dict[tuple[int, int], int] = {}
    for pair, bandwidth in zip(ends, network.bandwidth.tolist(), strict=True):
        width_of[pair] = width_of.get(pair, 0) + bandwidth
    narrow, widest = {ends[link] for link in cut_links}, max(width_of.values(), default=1)
    busy = {pair for link in busiest for pair in (ends[link], ends[link][::-1])}
    for (tail, head), width in sorted(width_of.items()):
        is_narrow, two_way = (tail, head) in narrow, (head, tail) in width_of
        is_drawn = two_way and (tail > head or (head, tail) in narrow)
        if tail == head or (is_drawn and not is_narrow):
            continue
        style: dict[str, Any] = {
            "color": _NARROW if is_narrow else _BUSY if (tail, head) in busy else _LINK,
            "linewidth": 0.7 + 2.0 * width / widest,
            "zorder": 2 if is_narrow else 1,
            "shrinkA": 4,
            "shrinkB": 6,
            "arrowstyle": "-|>" if is_narrow or not two_way else "-",
        }
        if place[tail, 1] == place[head, 1] and not is_flat:  # else through those between
            style["connectionstyle"] = f"arc3,rad={0.35 if tail < head else -0.35}"
        axes.annotate("", place[head], place[tail], arrowprops=style)
    axes.plot([], [], color=_LINK, linewidth=2, label="link, wider where it is faster")
    if busy - narrow:
        axes.plot([], [], color=_BUSY, linewidth=2, label="link that is busy all the time")
    if narrow:
        axes.plot([], [], color=_NARROW, linewidth=2, label="link of the bottleneck")


def _draw_nodes(
    axes: Axes, network: Network, place: NDArray[np.float64], optimum: Optimum | ExchangeOptimum
) -> None:
    nodes = network.num_nodes
    inside = np.ones(nodes, dtype=bool) if optimum.bottleneck is None else optimum.bottleneck.side
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
            name, width = plain(network.name(node)), (area if is_host[node] else 0.6 * area) ** 0.5
            axes.annotate(
                name,
                place[node],
                ha="center",
                va="center",
                fontsize=float(np.clip((1.1 if is_host[node] else 1.3) * width / len(name), 5, 7)),
                color=colour,
                zorder=4,
            )


# Pictures of the trees of a forest: who sends to whom, and which arcs lead through switches.


def _tree_size_in(forest: Forest, tree: int) -> tuple[float, float]:
    x, depth = _places(forest, tree)
    return float(np.clip(0.36 * (max(x.values()) + 1), 5.0, 14.0)), 1.4 + 0.85 * max(depth.values())


@pictured(lambda forest, tree: drawing(*_tree_size_in(forest, tree)))
def draw_tree(forest: Forest, tree: int, *, ax: Axes | None = None) -> Axes:
    """One tree of a forest, a row an arc from its root; arcs through switches are dashed.

    Switches at which it branches, as they copy or add up, are orange squares. Raises ValueError for
    a tree that is not there, and for more than ``MAX_NODES`` hosts.
    """
    ax = one_axes(ax)
    _draw_tree(ax, forest, tree)
    legend_below(ax, ax.get_legend_handles_labels()[0], 3, LEGEND_IN, fontsize=8.5)
    return ax


tree_figure = drawn_alone(draw_tree)


def draw_tallest_tree(forests: Sequence[Forest], *, ax: Axes | None = None) -> Axes:
    """The tallest tree of some forests, the first of equals: it is what their steps come from.

    Raises ValueError as ``draw_tree`` does.
    """
    return draw_tree(*_tallest(forests), ax=ax)


tallest_tree_figure = drawn_alone(draw_tallest_tree)


def check_drawable(forests: Sequence[Forest]) -> None:
    """ValueError, before anything is written, where ``draw_tallest_tree`` raises one."""
    _places(*_tallest(forests))


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
