"""Paths in the order of the dimensions, for networks whose rings make a torus.

A packet goes round one dimension until it is there, then round the next. With an even load these
paths are as fast as any on a torus, since every ring carries what its cut has to, and they free of
deadlock what mixed paths do not: only within a ring does a link wait for one before it. Source:
Dally and Seitz (1987).
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.core.lp import DEFAULT_OPTIONS
from ocs_codesign.schedules.paths.channels import with_channels
from ocs_codesign.schedules.paths.tables import check_links, sorted_table

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from ocs_codesign.core.lp import Options
    from ocs_codesign.core.topology import Topology
    from ocs_codesign.schedules.paths.certificates import PathTable
    from ocs_codesign.schedules.paths.channels import Channelled


def dimension_ordered(topology: Topology, bound: Fraction) -> PathTable | None:
    """The shortest paths of a torus in the order of its dimensions, None where it is none.

    The links of every node go up and down one dimension after the other. Opposite nodes of a ring
    get half each way. ``bound`` is what no routing is below.

    >>> from ocs_codesign.graphs.families.rings import BiRing
    >>> table = dimension_ordered(BiRing(2, 4).topology(), Fraction(1))
    >>> table.time, table.paths(0, 2)
    (Fraction(1, 1), [(Fraction(1, 2), [0, 2]), (Fraction(1, 2), [1, 7])])
    """
    nodes, ways = topology.num_nodes, topology.num_links // topology.num_nodes
    if ways % 2 or not np.array_equal(topology.tail, np.repeat(np.arange(nodes), ways)):
        return None
    heads = topology.head.reshape(nodes, ways)
    lengths = [_length(heads[:, 2 * at]) for at in range(ways // 2)]
    if prod(lengths) != nodes:
        return None
    every = [each for each in product(*map(_offsets, lengths)) if any(far for far, _ in each)]
    check_links(nodes * sum(abs(far) for offsets in every for far, _ in offsets))
    parts = prod(2 if length % 2 == 0 else 1 for length in lengths)
    columns: list[tuple[NDArray[np.int64], ...]] = []
    for offsets in every:
        here, link = np.arange(nodes), []
        for at, (far, _) in enumerate(offsets):
            way = 2 * at + (far < 0)
            for _ in range(abs(far)):
                link.append(here * ways + way)
                here = heads[here, way]
        part = parts * prod(share for _, share in offsets)
        columns.append((here, np.full(nodes, int(part)), np.column_stack(link)))
    if not _reaches_all(columns, parts, topology):
        return None
    return _table(topology, columns, parts, bound)


def with_fewest_channels(table: PathTable, options: Options = DEFAULT_OPTIONS) -> Channelled:
    """``with_channels`` of the table, or of a torus' paths in order where these need fewer.

    Those are no slower than the table's and share a message out in no more parts.
    """
    found = with_channels(table, options)
    ordered = None if found.is_fewest else dimension_ordered(table.topology, table.bound)
    if ordered is None or ordered.time > table.time or ordered.num_parts > table.num_parts:
        return found
    return min(found, with_channels(ordered, options), key=lambda one: one.num_channels)


def _length(up: NDArray[np.integer[Any]]) -> int:
    """Steps after which going up is back at every node."""
    here, nodes = up, np.arange(len(up))
    for length in range(1, len(up) + 1):
        if (here == nodes).all():
            return length
        here = up[here]
    return 0


def _offsets(length: int) -> list[tuple[int, Fraction]]:
    """How far up or down a ring a packet goes, and which share of what has to go as far."""
    half = length // 2
    even = [(far, Fraction(1)) for far in range(-((length - 1) // 2), (length - 1) // 2 + 1)]
    return even if length % 2 else [*even, (half, Fraction(1, 2)), (-half, Fraction(1, 2))]


def _reaches_all(columns: list[Any], parts: int, topology: Topology) -> bool:
    """Whether every node gets all from every other, over as few hops as there are between them."""
    nodes, hops = topology.num_nodes, topology.distances()
    got, every = np.zeros((nodes, nodes), dtype=np.int64), np.arange(nodes)
    for node, part, link in columns:
        if (hops[every, node] != link.shape[1]).any():
            return False
        got[every, node] += part
    return bool((got[~np.eye(nodes, dtype=bool)] == parts).all())


def _table(topology: Topology, columns: list[Any], parts: int, bound: Fraction) -> PathTable:
    source = np.tile(np.arange(topology.num_nodes), len(columns))
    node, part = (np.concatenate([column[at] for column in columns]) for at in (0, 1))
    hops = np.repeat([column[2].shape[1] for column in columns], topology.num_nodes)
    link = np.concatenate([column[2].ravel() for column in columns])
    return sorted_table(topology, parts, (source, node, part, hops, link), bound)
