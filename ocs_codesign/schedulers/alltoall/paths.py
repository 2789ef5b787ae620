"""Path tables: where fabrics route in the network card, which paths a message takes in what parts.

``path_table`` routes an optimal flow, ``disjoint_path_table`` balances a few disjoint short paths
of every pair by a linear program. Both come with a bound. Source: Basu et al. (arXiv 2309.13541),
link-based and path-based multi-commodity flow.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.given import takes_topology
from ocs_codesign.lp import DEFAULT_OPTIONS, Options, Status, solve
from ocs_codesign.schedulers.alltoall.choices import (
    MAX_PATH_LINKS,
    Choices,
    Shares,
    disjoint_choices,
    soft_shares,
)
from ocs_codesign.schedulers.alltoall.chunks import chunk_flow, common_denominator, walks_of
from ocs_codesign.schedulers.alltoall.result import PathTable
from ocs_codesign.schedulers.alltoall.stepped import (
    by_vertex,
    checked_size,
    likely_prices,
    optimal_flow,
)
from ocs_codesign.schedulers.alltoall.time_network import routing_network
from ocs_codesign.symmetry.automorphisms import quotient_and_images

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from ocs_codesign.schedulers.alltoall.chunks import Walks
    from ocs_codesign.symmetry.automorphisms import Images
    from ocs_codesign.symmetry.quotient import Quotient
    from ocs_codesign.topology import Topology

MAX_PARTS = 720
MAX_LP_PATHS = 200_000
"""Paths to choose from up to which the best shares are a linear program's."""


@takes_topology
def path_table(
    topology: Topology,
    max_hops: int | None = None,
    max_parts: int = MAX_PARTS,
    options: Options = DEFAULT_OPTIONS,
) -> PathTable:
    """Paths of at most ``max_hops`` links (default: diameter + 1) that make up an optimal flow.

    The bound is for all routings over such paths. Raises as ``stepped_plan`` does.

    >>> from ocs_codesign.graphs.families.dense import CompleteBipartite
    >>> table = path_table(CompleteBipartite(4).topology())
    >>> table.time, table.bound
    (Fraction(5, 4), Fraction(5, 4))
    """
    most = topology.diameter() + 1 if max_hops is None else max_hops
    whole, group, distance = checked_size(topology, most, max_parts, "max_hops")
    network = routing_network(whole, distance, most)
    smooth, bound = optimal_flow(network, options)
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


@takes_topology
def disjoint_path_table(
    topology: Topology,
    num_paths: int = 4,
    max_parts: int = MAX_PARTS,
    options: Options = DEFAULT_OPTIONS,
) -> PathTable:
    """Up to ``num_paths`` short link-disjoint paths of every pair, in the best parts.

    Each path is a shortest one that avoids the links of those before it. The bound is for all parts
    over these paths. Large tables, and those that the solver leaves unfinished for time or memory,
    are close to the best parts, and the bound says how close. Raises ValueError if the topology is
    not strongly connected or too large, SolverUnavailableError if the solver cannot take the
    program.

    >>> from ocs_codesign.graphs.families.rings import BiRing
    >>> table = disjoint_path_table(BiRing(2, 6).topology(), 2)
    >>> table.time, [links for _, links in table.paths(0, 2)]
    (Fraction(3, 2), [[0, 2]])
    """
    topology.diameter()
    whole, group = quotient_and_images(topology)
    is_down = np.zeros(topology.num_links, dtype=bool)
    return balanced_table(topology, whole, group, is_down, num_paths, max_parts, options)


def balanced_table(
    topology: Topology,
    whole: Quotient,
    group: Sequence[Images],
    is_down: NDArray[np.bool_],
    num_paths: int,
    max_parts: int,
    options: Options,
) -> PathTable:
    """The table of disjoint paths that take links of ``is_down`` last, in the best parts."""
    if topology.num_nodes < 2:
        raise ValueError("an all-to-all needs at least two nodes")
    if num_paths < 1 or max_parts < 1:
        raise ValueError(f"{num_paths} paths in {max_parts} parts: at least one of each is needed")
    choices = disjoint_choices(whole, is_down, num_paths)
    found = _best_shares(choices, options)
    tries = likely_prices(found.weights)
    bound = topology.t_b(max(choices.bound(prices) for prices in tries))
    parts = common_denominator(found.share, max_parts) or max_parts
    part = _whole_parts(found.share, choices.pair, parts)
    rows = (choices.source, choices.node, part, choices.hops(), choices.link)
    return _table(topology, whole, group, parts, rows, bound)


def _best_shares(choices: Choices, options: Options) -> Shares:
    """Those of the program while it is small and the solver finishes, else close ones."""
    began = time.monotonic()
    if choices.num_paths <= MAX_LP_PATHS:
        solution = solve(choices.program(), options=by_vertex(options)).taken()
        finished = solution.status is Status.OPTIMAL
        if finished and solution.values is not None and solution.row_duals is not None:
            share = np.maximum(solution.values[:-1], 0.0)
            share /= np.bincount(choices.pair, share)[choices.pair]
            return Shares(share, -solution.row_duals[choices.num_pairs :])
    return soft_shares(choices, options.after(time.monotonic() - began))


def _whole_parts(
    share: NDArray[np.float64], pair: NDArray[np.int64], parts: int
) -> NDArray[np.int64]:
    """Shares as whole numbers of parts, rounded so that those of a pair sum to all."""
    share = share * parts
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
