"""Placements of nodes on hosts by branch and bound on the links that they can share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray


def placements(
    target: NDArray[np.int64],
    held: NDArray[np.int64],
    first_hosts: NDArray[np.bool_],
    at_least: Callable[[], int],
) -> Iterator[NDArray[np.int32] | None]:
    """All placements (the host of every node) that share ``at_least()`` links, which may grow.

    ``target`` has the links between nodes and ``held`` those between hosts (N x N), parallel ones
    as often as they are; shared are as many as both have. Where the first node that is placed goes,
    ``first_hosts`` says. Yields None for every partial placement that is looked at.

    >>> ring = np.roll(np.eye(4, dtype=np.int64), 1, axis=1)
    >>> every = np.ones(4, dtype=np.bool_)
    >>> found = placements(ring, ring.T, every, lambda: 4)
    >>> [host.tolist() for host in found if host is not None]
    [[0, 3, 2, 1], [1, 0, 3, 2], [2, 1, 0, 3], [3, 2, 1, 0]]
    """
    order = _neighbours_first(target)
    ordered, every = target[np.ix_(order, order)], np.arange(len(order))

    def extended(
        hosts: list[int], shared: int, tried: NDArray[np.int64]
    ) -> Iterator[NDArray[np.int32] | None]:
        yield None
        now, most = _shared(ordered, held, hosts, tried)
        for host, more, most_shared in zip(tried.tolist(), now, most, strict=True):
            if shared + most_shared < at_least():
                continue
            placed = [*hosts, host]
            if len(placed) < len(order):
                yield from extended(placed, shared + more, np.setdiff1d(every, placed))
            else:
                whole = np.empty(len(order), dtype=np.int32)
                whole[order] = placed
                yield whole

    yield from extended([], 0, np.flatnonzero(first_hosts))


def _shared(
    target: NDArray[np.int64], held: NDArray[np.int64], hosts: list[int], tried: NDArray[np.int64]
) -> tuple[list[int], list[int]]:
    """What the node after those on ``hosts`` shares on each host tried, and what others can then.

    The first are its links with nodes placed before; the second are these and all links that are
    not between nodes placed before.
    """
    depth = len(hosts)
    there = np.column_stack([np.tile(np.array(hosts, int), (len(tried), 1)), tried])
    free = np.ones((len(tried), len(target)), dtype=np.int64)
    np.put_along_axis(free, there, 0, axis=1)
    place = tried[:, None]
    now = np.minimum(target[depth, :depth], held[place, there[:, :depth]]).sum(axis=1)
    now += np.minimum(target[: depth + 1, depth], held[there, place]).sum(axis=1)
    most = now.copy()
    for wanted, links in ((target, held), (target.T, held.T)):
        left = wanted[: depth + 1, depth + 1 :].sum(axis=1)
        most += np.minimum(left, np.einsum("cjh,ch->cj", links[there], free)).sum(axis=1)
    others = np.einsum("cg,gh,ch->c", free, held, free)
    most += np.minimum(target[depth + 1 :, depth + 1 :].sum(), others)
    return now.tolist(), most.tolist()


def _neighbours_first(target: NDArray[np.int64]) -> NDArray[np.int64]:
    """Nodes in an order in which each has most links with those before."""
    links = target + target.T
    order = [int(links.sum(axis=0).argmax())]
    while len(order) < len(links):
        weight = links[order].sum(axis=0)
        weight[order] = -1
        order.append(int(weight.argmax()))
    return np.array(order, dtype=np.int64)
