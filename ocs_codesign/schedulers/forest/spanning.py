"""Switches that copy or add up, used: trees span them as they span ranks, with no root there.

A tree enters such a switch once and leaves it as often as it likes. To reach a switch costs a tree
an arc, so spanning one that trees need not may lower the rate: which to span is tried.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from ocs_codesign.schedulers.forest.group_task import GroupTask
    from ocs_codesign.schedulers.forest.packing import Trees
    from ocs_codesign.schedulers.forest.shares import SharedLinks

Tasks = tuple["GroupTask", ...]
Found = tuple["Fraction", "SharedLinks | None"]
"""A rate, and the shares of the links that it takes where it takes any."""


def forwarding(tasks: Sequence[GroupTask]) -> Tasks:
    """Tasks in which no switch copies or adds up."""
    return tuple(task.spanning(np.zeros_like(task.able)) for task in tasks)


def best_spanning(
    tasks: Sequence[GroupTask],
    num_hosts: int,
    solved: Callable[[Tasks], Found],
    most: Fraction,
) -> tuple[Tasks, Found]:
    """Tasks in which every switch that is able is spanned or forwards, and what they reach.

    ``solved`` finds what such tasks reach, or raises ValueError if a node cannot be reached. None
    is spanned, or all are that could help, or those left when all of a kind after those of another
    are tried the other way; ``most`` is a rate that nothing exceeds, which ends the search. Where
    hosts are relays none is: a host passes on a step later, and a switch keeps nothing for it.
    """
    kinds = _kinds(tasks)
    if not all(task.problem.is_rank[:num_hosts].all() for task in tasks):
        kinds = []

    def reached(switches: NDArray[np.bool_]) -> tuple[Tasks, Found]:
        made = tuple(task.spanning(switches) for task in tasks)
        return made, solved(made)

    spanned = np.zeros_like(tasks[0].able)
    best = reached(spanned)
    for at in range(-1, len(kinds)):
        if best[1][0] >= most or not kinds:
            break
        trial = spanned ^ (np.any(kinds, axis=0) if at < 0 else kinds[at])
        if any(comes_back(task, trial) for task in tasks):
            continue
        try:
            found = reached(trial)
        except ValueError:
            continue
        if found[1][0] > best[1][0]:
            best, spanned = found, trial
    return best


def comes_back(task: GroupTask, switches: NDArray[np.bool_]) -> bool:
    """Whether a tree that branches at these switches may lead to one that only forwards twice.

    That is where such a one is among switches that can reach each other through switches, and it
    joins more than two nodes: what comes back to it in the same step would wait for itself.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    problem, nodes = task.problem, task.problem.num_nodes
    spanned = task.able & switches
    dumb = ~problem.is_rank & ~task.able & (_neighbours(task) > 2)
    between = ~problem.is_rank[problem.tail] & ~problem.is_rank[problem.head]
    ends = (problem.tail[between], problem.head[between])
    graph = coo_array((np.ones(len(ends[0])), ends), shape=(nodes, nodes))
    label = connected_components(graph, connection="strong")[1]
    return bool(np.isin(label[dumb], label[spanned]).any())


def _neighbours(task: GroupTask) -> NDArray[np.int64]:
    """Number of nodes that every node has a link with."""
    ends = np.sort(np.stack([task.problem.tail, task.problem.head]), axis=0)
    pairs = np.unique(ends, axis=1)
    return np.bincount(pairs.ravel(), minlength=task.problem.num_nodes)


def _kinds(tasks: Sequence[GroupTask]) -> list[NDArray[np.bool_]]:
    """The switches (bool, nodes) at which trees could branch, by number and capacity of links."""
    useful = np.zeros_like(tasks[0].able)
    for task in tasks:
        problem, nodes = task.problem, task.problem.num_nodes
        neighbours = _neighbours(task)
        leaving = np.bincount(problem.tail, minlength=nodes)
        useful |= task.able & (leaving >= 2) & (neighbours >= 3)
    width = np.zeros((2, len(useful)), dtype=np.int64)
    np.add.at(width[0], problem.tail, problem.capacity)
    np.add.at(width[1], problem.head, problem.capacity)
    alike = np.stack([neighbours, *np.sort(width, axis=0)])
    of_kind = np.unique(alike[:, useful], axis=1)
    return [useful & (alike == kind[:, None]).all(axis=0) for kind in of_kind.T]


def without_idle_switches(
    trees: Trees, tail: NDArray[np.int64], is_host: NDArray[np.bool_]
) -> Trees:
    """Trees without the switches at which they end; arcs are those of a ``tail`` each."""
    arc_into = trees.arc_into.copy()
    while True:
        tree, node = np.nonzero(arc_into >= 0)
        goes_on = np.zeros(arc_into.shape, dtype=bool)
        goes_on[tree, tail[arc_into[tree, node]]] = True
        idle = ~is_host & ~goes_on & (arc_into >= 0)
        if not idle.any():
            return replace(trees, arc_into=arc_into)
        arc_into[idle] = -1
