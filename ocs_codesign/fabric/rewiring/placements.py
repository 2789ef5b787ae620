"""Placements of nodes on hosts by branch and bound on the links that they can share."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

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
    search = _Search(target[np.ix_(order, order)], held, at_least)
    for hosts in search.extended([], 0, np.flatnonzero(first_hosts)):
        if hosts is None:
            yield None
        else:
            host = np.empty(len(order), dtype=np.int32)
            host[order] = hosts
            yield host


@final
class _Search:
    """Nodes are placed in their order; ``held`` is indexed by hosts."""

    def __init__(
        self, target: NDArray[np.int64], held: NDArray[np.int64], at_least: Callable[[], int]
    ) -> None:
        self.target, self.held, self.at_least = target, held, at_least

    def extended(
        self, hosts: list[int], shared: int, tried: NDArray[np.int64]
    ) -> Iterator[list[int] | None]:
        """Whole placements that begin with ``hosts``, the next node on one of those ``tried``."""
        yield None
        now, most = self._shared(hosts, shared, tried)
        for host, shared_now, most_shared in zip(tried, now.tolist(), most.tolist(), strict=True):
            if most_shared < self.at_least():
                continue
            more = [*hosts, int(host)]
            if len(more) == len(self.target):
                yield more
            else:
                free = np.setdiff1d(np.arange(len(self.target)), more)
                yield from self.extended(more, shared_now, free)

    def _shared(
        self, hosts: list[int], shared: int, tried: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """With the next node on each host: links that are shared, and that can be in the end."""
        depth, target, held = len(hosts), self.target, self.held
        there = np.column_stack([np.tile(np.array(hosts, int), (len(tried), 1)), tried])
        free = np.ones((len(tried), len(target)), dtype=np.int64)
        np.put_along_axis(free, there, 0, axis=1)
        node, place = depth, tried[:, None]
        now = shared + np.minimum(target[node, :depth], held[place, there[:, :depth]]).sum(axis=1)
        now += np.minimum(target[: depth + 1, node], held[there, place]).sum(axis=1)
        most = now.copy()
        # Links from placed nodes to others and back, and those between others.
        for wanted, links in ((target, held), (target.T, held.T)):
            left = wanted[: depth + 1, depth + 1 :].sum(axis=1)
            most += np.minimum(left, np.einsum("cjh,ch->cj", links[there], free)).sum(axis=1)
        others = np.einsum("cg,gh,ch->c", free, held, free)
        most += np.minimum(target[depth + 1 :, depth + 1 :].sum(), others)
        return now, most


def _neighbours_first(target: NDArray[np.int64]) -> NDArray[np.int64]:
    """Nodes in an order in which each has most links with those before."""
    links = target + target.T
    order = [int(links.sum(axis=0).argmax())]
    while len(order) < len(links):
        weight = links[order].sum(axis=0)
        weight[order] = -1
        order.append(int(weight.argmax()))
    return np.array(order, dtype=np.int64)
