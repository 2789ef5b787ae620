"""Cables gathered group by group, each a link there and one back, and the network they make."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ocs_codesign.network import Network

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


T = TypeVar("T")

MAX_HOSTS = 2**20


def check_hosts(num_hosts: int) -> None:
    """ValueError for none, or for more than anything here is built for."""
    if not 1 <= num_hosts <= MAX_HOSTS:
        raise ValueError(f"{num_hosts} hosts: there are 1 to {MAX_HOSTS}")


class Cables:
    """Links with the bandwidth, latency and dimension of the group they come in."""

    def __init__(self) -> None:
        self._groups: list[np.ndarray] = []

    def add(
        self,
        tail: ArrayLike,
        head: ArrayLike,
        bandwidth: ArrayLike,
        latency: ArrayLike,
        dimension: int,
        *,
        both_ways: bool = True,
    ) -> None:
        """Append links, all there first and then all back."""
        ends = np.broadcast_arrays(np.asarray(tail), np.asarray(head))
        columns = [*(end.ravel() for end in ends), bandwidth, latency, dimension]
        links = np.stack([np.broadcast_to(column, ends[0].size) for column in columns])
        self._groups.append(links)
        if both_ways:
            self._groups.append(links[[1, 0, 2, 3, 4]])

    def network(
        self,
        num_hosts: int,
        num_nodes: int,
        unit: str,
        multicast: Collection[int] = (),
        aggregate: Collection[int] = (),
    ) -> Network:
        """The network of so many hosts and nodes with all the links."""
        columns = np.concatenate(self._groups, axis=1) if self._groups else np.zeros((5, 0), int)
        return Network(
            num_hosts, num_nodes, *columns, multicast=multicast, aggregate=aggregate, unit=unit
        )


def one_each(values: T | Collection[T], number: int, name: str) -> list[T]:
    """A value for each of so many; ValueError unless one was given, or one each."""
    listed = list(values) if isinstance(values, Collection) else [values] * number
    if len(listed) != number:
        raise ValueError(f"{len(listed)} values of {name}: give one, or {number}")
    return listed
