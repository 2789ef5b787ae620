"""Independent check of a forest: its trees, the paths of their arcs, and the loads of links."""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.verification.sends import Witness

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.core.plans import Forest


NOT_A_RANK = "the tree leads to or from a host that is not of the group"
NOT_ABLE = "the tree branches at a switch that only forwards"
KEPT = "the tree ends at a switch, which keeps nothing"
TWO_PARENTS = "the tree enters this host from two hosts"
NO_PARENT = "the tree does not reach this host"
INTO_THE_ROOT = "the tree leads into its own root"
CYCLE = "the way up from this host never ends at the root"
NOT_WHOLE = "the parts of the arc into this host do not add up to the tree's multiplicity"
TOO_FEW = "the trees of this root are not as many as its weight asks for"
NO_PATH = "the path does not lead from the tail of its arc to the head"
THROUGH_RANKS = "the path leads through a host of the group, where data would have to stop"
OVERLOADED = "the loads of this link exceed its part of the bandwidth"
MISSHAPEN = "the columns of the forest do not fit each other"


def check_forest(forest: Forest) -> Witness | None:
    """The first rule that a forest breaks, None if it is one.

    Every tree reaches every host of its group once from its root, every root has as many trees as
    its weight asks for, arcs lead over links end to end with nothing of the group inside, and no
    link carries more than ``scale`` times its bandwidth. At a switch a tree may branch if that
    copies (adds up, for sums): it gets there once, all of it, and goes on.
    """
    return _misshapen(forest) or _broken_tree(forest) or _broken_path(forest) or _overload(forest)


def check_forests(forests: Sequence[Forest], inv_rate: Fraction) -> Witness | None:
    """The first rule that one of these forests breaks, or all of them when they run at once.

    Then a unit of weight of every one takes ``inv_rate``, so what all of them carry of it must be
    within that times the bandwidth of every link.
    """
    for forest in forests:
        witness = check_forest(forest)
        if witness is not None:
            return witness
    common = lcm(*(forest.num_trees for forest in forests))
    load = sum(common // forest.num_trees * _loads(forest) for forest in forests)
    most = forests[0].network.bandwidth.astype(object) * inv_rate.numerator * common
    over = load * inv_rate.denominator > most
    return Witness(OVERLOADED, link=int(over.argmax())) if over.any() else None


def check_inv_rate(forest: Forest, side: NDArray[np.bool_], inv_rate: Fraction) -> Witness | None:
    """Whether a set of nodes proves that no forest takes less than ``inv_rate`` a unit of weight.

    The set, of shape (nodes,), lacks a host of the group, and what leaves it (enters it, for sums)
    has so little bandwidth for what is inside.
    """
    network, hosts = forest.network, forest.network.num_hosts
    inside = [node for node in range(network.num_nodes) if side[node]]
    if all(side[host] for host in range(hosts) if forest.is_rank[host]):
        return Witness("the set has all hosts of the group, so nothing has to leave it")
    weight = sum(int(forest.weight[node]) for node in inside if node < hosts)
    capacity = 0
    for tail, head, width in zip(network.tail, network.head, network.bandwidth, strict=True):
        first, last = (head, tail) if forest.is_sum else (tail, head)
        capacity += int(width) if side[first] and not side[last] else 0
    if capacity * inv_rate != weight:
        return Witness(f"the set proves {Fraction(weight, capacity)}, not {inv_rate}")
    return None


def _misshapen(forest: Forest) -> Witness | None:
    parts, hosts = len(forest.tree), forest.network.num_hosts
    columns = (forest.tail, forest.head, forest.path, forest.units)
    fits = (
        all(len(column) == parts for column in columns)
        and len(forest.weight) == len(forest.is_rank) == hosts
        and len(forest.root) == len(forest.multiplicity)
        and _within(forest.tree, len(forest.root))
        and all(_within(ends, forest.network.num_nodes) for ends in (forest.tail, forest.head))
        and _within(forest.root, hosts)
        and _within(forest.path, len(forest.path_start) - 1)
        and _within(forest.link, forest.network.num_links)
        and forest.path_start[0] == 0
        and forest.path_start[-1] == len(forest.link)
        and bool((np.diff(forest.path_start) >= 1).all())
        and bool((forest.units >= 1).all())
        and forest.num_trees >= 1
    )
    return None if fits else Witness(MISSHAPEN)


def _within(values: NDArray[np.int64], end: int) -> bool:
    return bool(((values >= 0) & (values < end)).all())


def _broken_tree(forest: Forest) -> Witness | None:
    network, trees, hosts = forest.network, len(forest.root), forest.network.num_hosts
    nodes = network.num_nodes
    may_be_in = np.array(network.aggregate if forest.is_sum else network.multicast)
    may_be_in[:hosts] = forest.is_rank
    for ends in (forest.tail, forest.head):
        outside = ~may_be_in[ends]
        if outside.any():
            row = int(outside.argmax())
            return Witness(NOT_A_RANK if ends[row] < hosts else NOT_ABLE, row=row)
    parent = np.full((trees, nodes), -1)
    units = np.zeros((trees, nodes), dtype=np.int64)
    parent[forest.tree, forest.head] = forest.tail
    differs = parent[forest.tree, forest.head] != forest.tail
    if differs.any():
        return _at(forest, TWO_PARENTS, int(differs.argmax()))
    np.add.at(units, (forest.tree, forest.head), forest.units)
    every = np.arange(trees)
    if (parent[every, forest.root] >= 0).any():
        tree = int((parent[every, forest.root] >= 0).argmax())
        return Witness(INTO_THE_ROOT, root=int(forest.root[tree]), row=tree)
    goes_on = np.zeros((trees, nodes), dtype=bool)
    goes_on[forest.tree, forest.tail] = True
    needed = goes_on.copy()
    needed[:, :hosts] = forest.is_rank
    needed[every, forest.root] = False
    ends_there = (parent >= 0) & ~goes_on
    ends_there[:, :hosts] = False
    for rule, wrong in (
        (NO_PARENT, needed & (parent < 0)),
        (KEPT, ends_there),
        (NOT_WHOLE, needed & (units != forest.multiplicity[:, None])),
        (CYCLE, needed & ~_rooted(forest, parent)),
    ):
        if wrong.any():
            tree, node = np.argwhere(wrong)[0]
            return Witness(rule, root=int(forest.root[tree]), node=int(node), row=int(tree))
    made = np.zeros(hosts, dtype=np.int64)
    np.add.at(made, forest.root, forest.multiplicity)
    short = made != forest.num_trees * forest.weight
    return Witness(TOO_FEW, node=int(short.argmax())) if short.any() else None


def _rooted(forest: Forest, parent: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which nodes of which trees end at the root when one goes up often enough, by doubling."""
    nodes = parent.shape[1]
    above = np.where(parent < 0, np.arange(nodes), parent)
    for _ in range(max(1, nodes.bit_length())):
        above = np.take_along_axis(above, above, axis=1)
    is_rooted: NDArray[np.bool_] = above == forest.root[:, None]
    return is_rooted


def _broken_path(forest: Forest) -> Witness | None:
    network = forest.network
    tail, head = network.tail[forest.link], network.head[forest.link]
    if forest.is_sum:
        tail, head = head, tail
    first, last = forest.path_start[:-1], forest.path_start[1:] - 1
    wrong = (tail[first][forest.path] != forest.tail) | (head[last][forest.path] != forest.head)
    begins = np.zeros(len(forest.link), dtype=bool)
    begins[first] = True
    breaks = ~begins & (np.roll(head, 1) != tail)
    wrong |= np.logical_or.reduceat(breaks, first)[forest.path]
    if wrong.any():
        return _at(forest, NO_PATH, int(wrong.argmax()))
    is_rank = np.zeros(network.num_nodes, dtype=bool)
    is_rank[: network.num_hosts] = forest.is_rank
    stops = np.logical_or.reduceat(~begins & is_rank[tail], first)[forest.path]
    return _at(forest, THROUGH_RANKS, int(stops.argmax())) if stops.any() else None


def _overload(forest: Forest) -> Witness | None:
    most = forest.network.bandwidth.astype(object) * forest.scale.numerator
    over = _loads(forest) * forest.scale.denominator > most
    return Witness(OVERLOADED, link=int(over.argmax())) if over.any() else None


def _loads(forest: Forest) -> NDArray[np.object_]:
    """How often every link is taken, in Python's integers."""
    of_path = np.zeros(len(forest.path_start) - 1, dtype=np.int64)
    np.add.at(of_path, forest.path, forest.units)
    load = np.zeros(forest.network.num_links, dtype=object)
    np.add.at(load, forest.link, np.repeat(of_path, np.diff(forest.path_start)))
    return load


def _at(forest: Forest, rule: str, part: int) -> Witness:
    root = int(forest.root[forest.tree[part]])
    return Witness(rule, root=root, node=int(forest.head[part]), row=part)
