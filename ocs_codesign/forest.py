"""Forest: spanning trees, how often each is taken, and the links that their arcs lead over."""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.runs import places

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.network import Network


@final
@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Trees of one group of hosts, ``num_trees`` for every unit of weight of a root.

    ``weight`` (int64, hosts) is what a host is the root of, ``is_rank`` (bool, hosts) tells the
    group. Tree t is rooted at host ``root[t]`` and taken ``multiplicity[t]`` times. Part p leads
    into node ``head[p]`` of tree ``tree[p]`` from node ``tail[p]``, hosts of the group or switches
    that copy (add up) and at which a tree may branch, over the links
    ``link[path_start[path[p]] : path_start[path[p] + 1]]`` and is taken ``units[p]`` times; parts
    of one arc are neighbours and add up to the multiplicity of their tree. Loads are at most
    ``scale`` times a link's bandwidth, so a unit of weight takes scale / num_trees where a unit of
    bandwidth carries one in a time of 1. With ``is_sum`` the trees are those of sums, over reversed
    links: data go from the leaves to the root. Arrays (int64 unless said) are copied to read-only.
    """

    network: Network
    is_sum: bool
    weight: NDArray[np.int64]
    is_rank: NDArray[np.bool_]
    num_trees: int
    scale: Fraction
    root: NDArray[np.int64]
    multiplicity: NDArray[np.int64]
    tree: NDArray[np.int64]
    tail: NDArray[np.int64]
    head: NDArray[np.int64]
    path: NDArray[np.int64]
    units: NDArray[np.int64]
    path_start: NDArray[np.int64]
    link: NDArray[np.int64]

    def __post_init__(self) -> None:
        for field in fields(self):
            value: Any = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                column = np.array(value, dtype=bool if field.name == "is_rank" else np.int64)
                column.setflags(write=False)
                object.__setattr__(self, field.name, column)

    def __repr__(self) -> str:
        hosts = int(self.is_rank.sum())
        return f"Forest({len(self.root)} trees of height {self.height} over {hosts} hosts)"

    @property
    def inv_rate(self) -> Fraction:
        """Time of a unit of weight, where a unit of bandwidth carries one in a time of 1."""
        return self.scale / self.num_trees

    @property
    def height(self) -> int:
        """The height of the tallest tree."""
        return int(self.heights().max(initial=0))

    def heights(self) -> NDArray[np.int64]:
        """Hosts from the root of every tree to its farthest leaf, the root not counted."""
        hops = self.from_hosts().astype(np.int64)
        tallest = np.zeros(len(self.root), dtype=np.int64)
        np.maximum.at(tallest, self.tree, self.hops_before(hops) + hops)
        return tallest

    def hops(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Every link of the paths of all parts, end to end: the part that it is of, and its id."""
        first, end = self.path_start[self.path], self.path_start[self.path + 1]
        part, place = places(first, end - first)
        return part, self.link[place]

    def passes_twice(self) -> bool:
        """Whether two arcs of a tree lead through one host that is not of the group.

        Such a host passes sums on once: what comes later would be lost.
        """
        part, link = self.hops()
        ends = (self.network.tail, self.network.head)
        node = ends[not self.is_sum][link]
        hosts = self.network.num_hosts
        outside = (node < hosts) & ~self.is_rank[np.minimum(node, hosts - 1)]
        arc = (self.tree * self.network.num_nodes + self.head)[part[outside]]
        visits = np.unique(np.stack([self.tree[part[outside]], node[outside], arc]), axis=1)
        return len(np.unique(visits[:2], axis=1).T) < len(visits.T)

    def from_hosts(self) -> NDArray[np.bool_]:
        """Whether the tail of every part is a host, which passes on a step after it got."""
        is_host: NDArray[np.bool_] = self.tail < self.network.num_hosts
        return is_host

    def hops_before(self, hops: NDArray[np.int64]) -> NDArray[np.int64]:
        """Hops from the root to every part's tail, where an arc takes the most of its parts."""
        nodes = self.network.num_nodes
        into = np.full(len(self.root) * nodes, -1)
        place, above = self.tree * nodes + self.head, self.tree * nodes + self.tail
        into[place] = above
        most = np.zeros(len(into), dtype=np.int64)
        np.maximum.at(most, place, hops)
        before = np.zeros(len(self.tree), dtype=np.int64)
        node = above
        while (into[node] >= 0).any():
            below_root = into[node] >= 0
            before += np.where(below_root, most[node], 0)
            node = np.where(below_root, into[node], node)
        return before
