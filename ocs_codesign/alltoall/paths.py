"""Path tables: where fabrics route in the network card, which paths a message takes in what parts.

``path_table`` routes an optimal flow, ``disjoint_path_table`` balances a few disjoint short paths
of every pair by a linear program. Both come with a bound. Source: Basu et al. (arXiv 2309.13541),
link-based and path-based multi-commodity flow.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.alltoall.automorphisms import quotient_and_images
from ocs_codesign.alltoall.chunks import chunk_flow, common_denominator, walks_of
from ocs_codesign.alltoall.stepped import checked_size, likely_prices, optimal_flow
from ocs_codesign.alltoall.time_network import routing_network
from ocs_codesign.lp import LinearProgram, Options, Status, solve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.alltoall.automorphisms import Images
    from ocs_codesign.alltoall.chunks import Walks
    from ocs_codesign.alltoall.quotient import Quotient
    from ocs_codesign.topology import Topology

MAX_PARTS = 720
MAX_PATH_LINKS = 100_000_000
"""Largest table that is made: 800 MB of link numbers."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class PathTable:
    """Paths of every pair and the parts of its message that they carry, sorted by (source, node).

    Path i takes ``part[i]`` of ``num_parts`` equal parts of the message of ``source[i]`` for
    ``node[i]`` over the links ``link[start[i] : start[i + 1]]``; all columns are int64. ``bound``
    is the time, in M/B, that no routing of the same kind can beat.
    """

    topology: Topology
    num_parts: int
    source: NDArray[np.int64]
    node: NDArray[np.int64]
    part: NDArray[np.int64]
    start: NDArray[np.int64]
    link: NDArray[np.int64]
    bound: Fraction

    @property
    def num_paths(self) -> int:
        """Paths of all pairs."""
        return len(self.part)

    def hops(self) -> NDArray[np.int64]:
        """Links of every path."""
        return np.diff(self.start)

    def link_loads(self) -> NDArray[np.int64]:
        """Parts that cross every link, shape (links,)."""
        load = np.zeros(self.topology.num_links, dtype=np.int64)
        np.add.at(load, self.link, np.repeat(self.part, self.hops()))
        return load

    @property
    def time(self) -> Fraction:
        """All-to-all time in M/B over these paths, exact."""
        loads, speeds = self.link_loads(), self.topology.speeds()
        busiest = max(
            Fraction(int(loads[speeds == speed].max()), int(speed)) for speed in np.unique(speeds)
        )
        return self.topology.t_b(busiest / self.num_parts)

    def paths(self, source: int, node: int) -> list[tuple[Fraction, list[int]]]:
        """The paths of one pair: the share of its message and the links."""
        found = np.flatnonzero((self.source == source) & (self.node == node)).tolist()
        ends = [(self.start[at], self.start[at + 1]) for at in found]
        links = [self.link[first:last].tolist() for first, last in ends]
        parts = [Fraction(part, self.num_parts) for part in self.part[found].tolist()]
        return list(zip(parts, links, strict=True))


def path_table(
    topology: Topology,
    max_hops: int | None = None,
    max_parts: int = MAX_PARTS,
    time_limit_s: float | None = None,
) -> PathTable:
    """Paths of at most ``max_hops`` links (default: diameter + 1) that make up an optimal flow.

    The bound is for all routings over such paths. Raises ValueError as ``stepped_plan``.

    >>> from ocs_codesign.families.dense import complete_bipartite
    >>> table = path_table(complete_bipartite(4))
    >>> table.time, table.bound
    (Fraction(5, 4), Fraction(5, 4))
    """
    most = topology.diameter() + 1 if max_hops is None else max_hops
    whole, group, distance = checked_size(topology, most, max_parts, "max_hops")
    network = routing_network(whole, distance, most)
    smooth, bound = optimal_flow(network, time_limit_s)
    flow = chunk_flow(network, smooth, max_parts)
    rows = _path_rows(walks_of(network, flow))
    return _table(topology, whole, group, flow.chunks, rows, topology.t_b(bound))


def _path_rows(walks: Walks) -> tuple[NDArray[Any], ...]:
    """Source number, node, part, hops and links of the paths that walks take, each path once."""
    link = np.take_along_axis(walks.via, np.argsort(walks.via < 0, axis=1, kind="stable"), axis=1)
    keys = np.column_stack([walks.source, walks.node, link])
    keys, number = np.unique(keys, axis=0, return_inverse=True)
    part = np.zeros(len(keys), dtype=np.int64)
    np.add.at(part, number.ravel(), walks.hi - walks.lo)
    link = keys[:, 2:]
    return keys[:, 0], keys[:, 1], part, (link >= 0).sum(axis=1), link[link >= 0]


def disjoint_path_table(
    topology: Topology,
    num_paths: int = 4,
    max_parts: int = MAX_PARTS,
    time_limit_s: float | None = None,
) -> PathTable:
    """Up to ``num_paths`` short link-disjoint paths of every pair, in the best parts.

    Each path is a shortest one that avoids the links of those before it. The bound is for all parts
    over these paths. Raises ValueError if the topology is not strongly connected or too large,
    RuntimeError if the solver does not finish in ``time_limit_s``.

    >>> from ocs_codesign.families.rings import bi_ring
    >>> table = disjoint_path_table(bi_ring(2, 6), 2)
    >>> table.time, [links for _, links in table.paths(0, 2)]
    (Fraction(3, 2), [[0, 2]])
    """
    topology.diameter()
    whole, group = quotient_and_images(topology)
    is_down = np.zeros(topology.num_links, dtype=bool)
    return balanced_table(topology, whole, group, is_down, num_paths, max_parts, time_limit_s)


def balanced_table(
    topology: Topology,
    whole: Quotient,
    group: Sequence[Images],
    is_down: NDArray[np.bool_],
    num_paths: int,
    max_parts: int,
    time_limit_s: float | None,
) -> PathTable:
    """The table of disjoint paths that take links of ``is_down`` last, in the best parts."""
    if topology.num_nodes < 2:
        raise ValueError("an all-to-all needs at least two nodes")
    if num_paths < 1 or max_parts < 1:
        raise ValueError(f"{num_paths} paths in {max_parts} parts: at least one of each is needed")
    ends, start, link = _disjoint_paths(topology, whole.sources, is_down, num_paths)
    pair = np.cumsum(np.any(np.diff(ends, axis=1, prepend=ends[:, :1]) != 0, axis=0))
    if pair[-1] + 1 < whole.num_sources * (topology.num_nodes - 1):
        raise ValueError("some pair has no path")
    program = _path_program(whole, pair, start, link)
    solution = solve(program, options=Options(method="ipx", time_limit_s=time_limit_s))
    if (
        solution.status is not Status.OPTIMAL
        or solution.values is None
        or solution.row_duals is None
    ):
        raise RuntimeError(f"path table: {solution.status.value}")
    tries = likely_prices(-solution.row_duals[-whole.num_orbits :])
    bound = topology.t_b(max(_path_bound(whole, pair, start, link, prices) for prices in tries))
    share = np.maximum(solution.values[:-1], 0.0)
    parts = common_denominator(share, max_parts) or max_parts
    part = _whole_parts(share, pair, parts)
    rows = (ends[0], ends[1], part, np.diff(start), link)
    return _table(topology, whole, group, parts, rows, bound)


def _disjoint_paths(
    topology: Topology, sources: NDArray[np.int64], is_down: NDArray[np.bool_], num_paths: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Source number and node (2 x paths), start and links of the paths."""
    from ocs_codesign.alltoall.route_kernels import disjoint_paths

    out = topology.links_by_tail()
    given = (sources, topology.head, topology.tail, out.start, out.order, is_down, num_paths)
    none = np.empty((2, 0), dtype=np.int64)
    paths, links = disjoint_paths(*given, none, none[0], none[0])
    if links > MAX_PATH_LINKS:
        raise ValueError(f"a table of {links:,} links: at most {MAX_PATH_LINKS:,} are made")
    ends, start = np.empty((2, paths), dtype=np.int64), np.zeros(paths + 1, dtype=np.int64)
    link = np.empty(links, dtype=np.int64)
    disjoint_paths(*given, ends, start, link)
    return ends, start, link


def _path_program(
    whole: Quotient, pair: NDArray[np.int64], start: NDArray[np.int64], link: NDArray[np.int64]
) -> LinearProgram:
    """Minimise U: a column a path, then U; a row a pair (its shares are 1), then a link orbit."""
    from scipy.sparse import csr_matrix

    paths, pairs, orbits = len(pair), int(pair[-1]) + 1, whole.num_orbits
    path, orbit = np.repeat(np.arange(paths), np.diff(start)), whole.link_orbit[link]
    row = np.concatenate([pair, pairs + orbit, pairs + np.arange(orbits)])
    column = np.concatenate([np.arange(paths), path, np.full(orbits, paths)])
    value = np.concatenate([np.ones(paths + len(path)), -whole.speed])
    matrix = csr_matrix((value, (row, column)), shape=(pairs + orbits, paths + 1))
    matrix.sum_duplicates()
    return LinearProgram(
        np.append(np.zeros(paths), 1.0),
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.int64),
        matrix.data,
        np.concatenate([np.ones(pairs), np.full(orbits, -np.inf)]),
        np.concatenate([np.ones(pairs), np.zeros(orbits)]),
        np.zeros(paths + 1),
        np.full(paths + 1, np.inf),
    )


def _path_bound(
    whole: Quotient,
    pair: NDArray[np.int64],
    start: NDArray[np.int64],
    link: NDArray[np.int64],
    prices: NDArray[np.int64],
) -> Fraction:
    """The load that prices prove necessary: cheapest paths of all pairs / price of all speed."""
    cost = np.add.reduceat(prices[whole.link_orbit[link]], start[:-1])
    cheapest = np.minimum.reduceat(cost, np.flatnonzero(np.diff(pair, prepend=-1)))
    return Fraction(int(cheapest.sum()), int((prices * whole.speed).sum()))


def _whole_parts(
    share: NDArray[np.float64], pair: NDArray[np.int64], parts: int
) -> NDArray[np.int64]:
    """Shares as whole numbers of parts, rounded so that those of a pair sum to all."""
    share = share / np.bincount(pair, share)[pair] * parts
    part = np.floor(share + 1e-5).astype(np.int64)
    left = parts - np.bincount(pair, part).astype(np.int64)
    by_rest = np.lexsort((part - share, pair))
    first = np.searchsorted(pair, np.arange(pair[-1] + 1))
    rank = np.empty(len(pair), dtype=np.int64)
    rank[by_rest] = np.arange(len(pair))
    return part + (rank - first[pair] < left[pair])


def _table(
    topology: Topology,
    whole: Quotient,
    group: Sequence[Images],
    num_parts: int,
    rows: tuple[NDArray[Any], ...],
    bound: Fraction,
) -> PathTable:
    """The rows (source number, node, part, hops, links) for all sources, empty ones left out."""
    number, node, part, hops, link = rows
    used = part > 0
    link = link[np.repeat(used, hops)].astype(np.int64)
    number, node, part, hops = (column[used] for column in (number, node, part, hops))
    source = whole.sources[number]
    if group:
        owner = np.repeat(number, hops)
        copies = np.array([len(one.nodes) for one in group])
        if int(copies[owner].sum()) > MAX_PATH_LINKS:
            raise ValueError(f"the table is too large: at most {MAX_PATH_LINKS:,} links are kept")
        parts = []
        for at, one in enumerate(group):
            mine, times = number == at, len(one.nodes)
            ends = [one.nodes[:, column[mine]].ravel() for column in (source, node)]
            numbers = [np.tile(column[mine], times) for column in (part, hops)]
            parts.append([*ends, *numbers, one.links(link[owner == at]).ravel()])
        source, node, part, hops, link = (
            np.concatenate(column).astype(np.int64) for column in zip(*parts, strict=True)
        )
    start = np.concatenate([[0], np.cumsum(hops)])
    order = np.lexsort((node, source))
    place = np.repeat(start[order] - np.cumsum(hops[order]) + hops[order], hops[order])
    link = link[place + np.arange(len(link))]
    start = np.concatenate([[0], np.cumsum(hops[order])])
    return PathTable(
        topology, num_parts, source[order], node[order], part[order], start, link, bound
    )
