"""The program of an exchange, made small by colour refinement, and what its prices prove.

Flows f[s, e] >= 0 of every source on every link keep what is demanded at every node and load no
link more than U times its bandwidth; U is least. Rows and columns of one colour are one row and one
column: the optimum is the same, and no symmetry has to be known or even to be there.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ocs_codesign.core.compute.components import strong_components
from ocs_codesign.core.compute.kernels import compiled
from ocs_codesign.core.lp import LinearProgram
from ocs_codesign.core.network import who_relays
from ocs_codesign.core.topology import starts_of
from ocs_codesign.schedules.exchange.refinement_kernels import (
    add_rows,
    mix,
    refine_rows,
    row_colours,
    tree_distances,
    tree_loads,
)
from ocs_codesign.schedules.paths.certificates import as_prices, dot

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.core.network import Network

MAX_CELLS = 2**28
"""Sources times nodes and links up to which a program is refined: 2 GB of colours."""


class ExchangeLinks(NamedTuple):
    """What hosts have for each other on arcs, where all that arrive at a node may go on.

    Arcs (``tail``, ``head``) are links, numbered by ``wire``, or -1 where a host goes on to its
    next phase: in a phase a node is one of its own. A host that does not relay is two: what it
    sends leaves the host, what is for it, or ``demand`` (int64, hosts x hosts, 0 on the diagonal)
    says so, comes to ``sink``. ``width`` (int64, a wire) are bandwidths without their common
    divisor, ``link`` (a wire) ids in the network, ``demand`` is in units of ``size``: what these
    links take for it is to be multiplied by ``scale``.
    """

    num_nodes: int
    tail: NDArray[np.int64]
    head: NDArray[np.int64]
    wire: NDArray[np.int64]
    width: NDArray[np.int64]
    link: NDArray[np.int64]
    leaves_host: NDArray[np.bool_]
    sink: NDArray[np.int64]
    demand: NDArray[np.int64]
    scale: Fraction
    size: int

    @property
    def num_hosts(self) -> int:
        """Hosts, which are the first nodes."""
        return len(self.sink)

    def of_arcs(self, of_wires: NDArray[Any], between_phases: Any) -> NDArray[Any]:
        """What arcs have of what wires have."""
        return np.append(of_wires, np.array([between_phases], dtype=of_wires.dtype))[self.wire]


def exchange_of(
    network: Network,
    demand: NDArray[np.int64] | None = None,
    relays: Collection[int] | None = None,
    phases: Sequence[NDArray[np.int64]] | None = None,
) -> ExchangeLinks:
    """The exchange of a matrix, or of a unit for every pair; all hosts relay unless some are named.

    ``phases`` are ids of links, in the order in which a path may use them.

    Raises ValueError for a matrix that is not of the network's hosts, negative or all 0, for
    relays that are no hosts, for too many hosts and links, and, by name, for a pair that has no
    path.
    """
    hosts, times = network.num_hosts, 1 if phases is None else len(phases)
    cells = hosts * times * (network.num_nodes + network.num_links)
    if cells > MAX_CELLS:
        raise ValueError(
            f"{hosts} hosts and {network.num_links} links are {cells:,} cells: at most "
            f"{MAX_CELLS:,} are refined"
        )
    off = ~np.eye(hosts, dtype=bool)
    if demand is not None and (np.shape(demand) != off.shape or (demand < 0).any()):
        raise ValueError(f"a demand of {hosts} hosts is {hosts} rows of {hosts} numbers, none < 0")
    wanted = off.astype(np.int64) if demand is None else np.where(off, demand, 0).astype(np.int64)
    if not wanted.any():
        raise ValueError("nothing is to be sent: no host has anything for another")
    size = 1 if demand is None else int(np.gcd.reduce(wanted[wanted > 0]))
    unit = max(1, int(np.gcd.reduce(network.bandwidth)))
    passes_on = who_relays(hosts, relays)
    kept = np.flatnonzero(network.tail != network.head)
    num_nodes, (tail, head), wire, sink = _arcs(network, kept, passes_on, phases)
    found = ExchangeLinks(
        *(num_nodes, tail, head, wire, network.bandwidth[kept] // unit, kept),
        np.append(network.tail[kept] < hosts, False)[wire],
        *(sink, wanted // size, Fraction(size, unit), size),
    )
    _check_paths(network, found, relays is not None, phases is not None)
    return found


def _arcs(
    network: Network,
    kept: NDArray[np.int64],
    passes_on: NDArray[np.bool_],
    phases: Sequence[NDArray[np.int64]] | None,
) -> tuple[int, list[NDArray[np.int64]], NDArray[np.int64], NDArray[np.int64]]:
    """The number of nodes, ends of arcs, their wires and the hosts' sinks."""
    nodes, hosts = network.num_nodes, np.arange(network.num_hosts)
    given = [kept] if phases is None else phases
    is_fixed = ~passes_on
    fixed, times = np.flatnonzero(is_fixed), len(given)
    # Where what is for a node of a phase arrives.
    arrives = np.arange(times)[:, None] * nodes + np.arange(nodes)
    arrives[:, fixed] = times * nodes + np.arange(times * len(fixed)).reshape(times, -1)
    tails, heads, wires = [], [], []
    number = np.full(network.num_links, -1)
    number[kept] = np.arange(len(kept))
    for phase, links in enumerate(given):
        wire = np.unique(number[links])
        wire = wire[wire >= 0]
        tails.append(phase * nodes + network.tail[kept[wire]].astype(np.int64))
        heads.append(arrives[phase, network.head[kept[wire]]])
        wires.append(wire)
        if phase:
            # A host keeps what is its own, and what has come, for what is still to be.
            mine = np.append((phase - 1) * nodes + hosts, arrives[phase - 1, fixed])
            tails.append(mine)
            heads.append(np.append(phase * nodes + hosts, arrives[phase, fixed]))
            wires.append(np.full(len(mine), -1))
    ends = [np.concatenate(tails), np.concatenate(heads)]
    num_nodes = times * (nodes + len(fixed))
    return num_nodes, ends, np.concatenate(wires), arrives[-1, hosts]


def _check_paths(
    network: Network, exchange: ExchangeLinks, has_fixed: bool, has_phases: bool
) -> None:
    """ValueError for the first pair without a path."""
    part = strong_components(exchange.tail, exchange.head, exchange.num_nodes)
    if len(np.unique(part)) == 1:
        return
    distance = _distances(exchange, np.ones(len(exchange.tail), dtype=np.int64))
    missing = (exchange.demand > 0) & (distance[:, exchange.sink] < 0)
    if missing.any():
        source, target = np.argwhere(missing)[0].tolist()
        why = " in these phases" * has_phases + " without relays" * has_fixed
        raise ValueError(
            f"{network.name(source)} has something for {network.name(target)}, and no path leads "
            f"there{why}"
        )


def _distances(exchange: ExchangeLinks, price: NDArray[np.int64]) -> NDArray[np.int64]:
    """Cheapest ways from all hosts to all nodes, -1 for none."""
    return _from(np.arange(exchange.num_hosts), exchange, price)


def _from(
    sources: NDArray[np.int64], links: ExchangeLinks, price: NDArray[np.int64]
) -> NDArray[np.int64]:
    order = np.argsort(links.tail, kind="stable")
    start = starts_of(np.bincount(links.tail, minlength=links.num_nodes))
    found = np.empty((len(sources), links.num_nodes), dtype=np.int64)
    compiled(tree_distances)(sources, links.head, start, order, price, found)
    return found


def price_bound(exchange: ExchangeLinks, price: NDArray[np.int64]) -> Fraction:
    """The U that integer prices of wires prove: what all pay at least over what all wires take.

    Links without a price make nodes one, so that few are left to be looked at.
    """
    cost = exchange.of_arcs(price, 0)
    free = cost == 0
    part = strong_components(exchange.tail[free], exchange.head[free], exchange.num_nodes)
    parts, number = np.unique(part, return_inverse=True)
    tail, head = number[exchange.tail], number[exchange.head]
    kept = tail != head
    few = exchange._replace(num_nodes=len(parts), tail=tail[kept], head=head[kept])
    sources, row = np.unique(number[: exchange.num_hosts], return_inverse=True)
    sinks, column = np.unique(number[exchange.sink], return_inverse=True)
    wanted = np.zeros((len(sources), exchange.num_hosts), dtype=np.int64)
    np.add.at(wanted, row, exchange.demand)
    between = np.zeros((len(sinks), len(sources)), dtype=np.int64)
    np.add.at(between, column, wanted.T)
    far = _from(sources, few, cost[kept])[:, sinks].T
    is_far = between > 0
    paid = sum(map(int.__mul__, between[is_far].tolist(), far[is_far].tolist()))
    taken = sum(map(int.__mul__, price.tolist(), exchange.width.tolist()))
    return exchange.scale * Fraction(paid, taken)


_ROUNDS, _MAX_WORK, _RISE = 100, 2**27, 0.6


def weighed_bound(network: Network) -> Fraction:
    """The U of an even exchange that prices prove which rise with what cheapest paths load.

    The first prices are 1, whose bound is all hops over all links; the last are the mean of the
    later half. There are fewer rounds on networks of many hosts and links.

    >>> from ocs_codesign.core.networks.builders import mesh
    >>> 0.9 < weighed_bound(mesh((4, 5), 1)) / 24 <= 1
    True
    """
    tail, width = network.tail.astype(np.int64), network.bandwidth
    order = np.argsort(tail, kind="stable")
    start = starts_of(np.bincount(tail, minlength=network.num_nodes))
    loads = np.zeros(network.num_links, dtype=np.int64)
    rounds = max(1, min(_ROUNDS, _MAX_WORK // max(1, network.num_hosts * network.num_links)))
    best, share, total = Fraction(0), width.astype(float), np.zeros(network.num_links)
    for turn in range(rounds + (rounds > 1)):
        price = as_prices((total if turn == rounds else share) / width)
        loads[:] = 0
        graph = tail, network.head, start, order
        compiled(tree_loads)(*graph, price, network.num_hosts, loads)
        best = max(best, Fraction(dot(price, loads), dot(price, width)))
        use = loads / width
        share = share * np.exp(_RISE * use / use.max())
        share /= share.sum()
        total += share * (2 * turn >= rounds)
    return best


class Refined(NamedTuple):
    """Colours of the program: of nodes in a row of every kind, and of arcs in all rows.

    ``rows`` are a row of every colour, of which there are ``row_copies``, ``colour`` all colours
    of nodes (uint64, hosts x nodes), ``wires`` a wire of every colour and ``wire_class`` the number
    of that of every wire.
    """

    colour: NDArray[np.uint64]
    arc_colour: NDArray[np.uint64]
    rows: NDArray[np.int64]
    row_copies: NDArray[np.int64]
    wires: NDArray[np.int64]
    wire_class: NDArray[np.int64]


def refined(exchange: ExchangeLinks) -> Refined:
    """The coarsest colours that the program's rows and columns keep."""
    hosts, tail, head = exchange.num_hosts, exchange.tail, exchange.head
    colour = np.zeros((hosts, exchange.num_nodes), dtype=np.uint64)
    colour[:, hosts:] = 1
    colour[:, exchange.sink] = exchange.demand.astype(np.uint64) + np.uint64(3)
    colour[np.arange(hosts), np.arange(hosts)] = 2
    blend: Callable[[NDArray[np.uint64]], NDArray[np.uint64]] = mix
    own, is_wire = blend(exchange.width.astype(np.uint64)), exchange.wire >= 0
    own_of_arc = exchange.of_arcs(own, 0)
    signature, seen = np.empty(hosts, dtype=np.uint64), 0
    while True:
        arc_colour = own_of_arc.copy()
        compiled(add_rows)(colour, tail, head, own_of_arc, arc_colour)
        # A wire has those of its arcs in all phases, and they have the wire's.
        wire_colour = own.copy()
        np.add.at(wire_colour, exchange.wire[is_wire], blend(arc_colour[is_wire]))
        arc_colour += exchange.of_arcs(wire_colour, 0)
        compiled(refine_rows)(colour, tail, head, arc_colour, signature)
        _, rows, copies = np.unique(signature, return_index=True, return_counts=True)
        _, wires, wire_class = np.unique(wire_colour, return_index=True, return_inverse=True)
        classes = len(wires) + sum(len(np.unique(colour[row])) for row in rows.tolist())
        if classes == seen:
            return Refined(colour, arc_colour, rows, copies, wires, wire_class)
        seen = classes


class ColourProgram(NamedTuple):
    """The program of the colours; the last rows are those of the classes of wires, U is last.

    Its numbers are in powers of two of which they are near 1, which makes interior points several
    times as fast: U is ``scale`` times the last column, and flows are in ``demand_unit``. Of every
    other column there are its colour's ``name`` (uint64), how many flows it stands for, and whether
    these leave hosts.
    """

    program: LinearProgram
    num_classes: int
    scale: Fraction
    name: NDArray[np.uint64]
    copies: NDArray[np.int64]
    from_host: NDArray[np.bool_]
    demand_unit: int


_MAX_BITS = 20
"""Of these powers: exact vertices are of multiples of 2**-20."""


def colour_program(exchange: ExchangeLinks, found: Refined) -> ColourProgram:
    """A column for every colour of row and link, a row for every colour of row and node."""
    tail, head, links = exchange.tail, exchange.head, np.arange(len(exchange.tail))
    ask = compiled(row_colours)
    entries: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]] = []
    names, most, needed, copies, from_host, wires = [], [], [], [], [], []
    columns = rows = 0
    for row, row_copies in zip(found.rows.tolist(), found.row_copies.tolist(), strict=True):
        here = np.empty(len(links), dtype=np.uint64)
        ask(found.colour, tail, head, found.arc_colour, row, links, here)
        name, first, column, alike = np.unique(
            here, return_index=True, return_inverse=True, return_counts=True
        )
        names.append(name)
        copies.append(alike * row_copies)
        from_host.append(exchange.leaves_host[first])
        wires.append(exchange.wire[first])
        most.append(np.where(head[first] == row, 0.0, np.inf))
        _, node, node_class = np.unique(found.colour[row], return_index=True, return_inverse=True)
        is_shown = np.zeros(exchange.num_nodes, dtype=bool)
        is_shown[node] = True
        for ends, sign in ((head, 1.0), (tail, -1.0)):
            kept = is_shown[ends]
            entries.append(
                (
                    rows + node_class[ends[kept]],
                    columns + column[kept],
                    np.full(int(kept.sum()), sign),
                )
            )
        wants = np.zeros(exchange.num_nodes)
        wants[exchange.sink] = exchange.demand[row]
        wants[row] -= exchange.demand[row].sum()
        needed.append(wants[node])
        columns, rows = columns + len(name), rows + len(node)
    units = [
        2 ** min(_MAX_BITS, int(one.max()).bit_length())
        for one in (exchange.demand, exchange.width)
    ]
    # On a wire there is of every colour its share of all flows of that colour.
    classes, count = len(found.wires), np.concatenate(copies)
    wire = np.concatenate(wires)
    shared = np.flatnonzero(wire >= 0)
    kind = found.wire_class[wire[shared]]
    entries.append((rows + kind, shared, count[shared] / np.bincount(found.wire_class)[kind]))
    last = np.arange(classes)
    entries.append(
        (rows + last, np.full(classes, columns), -exchange.width[found.wires] / units[1])
    )
    needed = [each / units[0] for each in needed]
    program = _program(entries, needed, most, classes)
    return ColourProgram(
        program,
        classes,
        exchange.scale * Fraction(*units),
        np.concatenate(names),
        count,
        np.concatenate(from_host),
        units[0],
    )


def _program(
    entries: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]],
    needed: list[NDArray[np.float64]],
    most: list[NDArray[np.float64]],
    classes: int,
) -> LinearProgram:
    from scipy.sparse import coo_array

    row, column, value = (np.concatenate(part) for part in zip(*entries, strict=True))
    lower, upper = np.concatenate(needed), np.append(np.concatenate(most), np.inf)
    shape = (len(lower) + classes, len(upper))
    matrix = coo_array((value, (row, column)), shape=shape).tocsr()
    matrix.eliminate_zeros()
    return LinearProgram(
        np.eye(1, shape[1], shape[1] - 1)[0],
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.int64),
        matrix.data,
        np.append(lower, np.full(classes, -np.inf)),
        np.append(lower, np.zeros(classes)),
        np.zeros(shape[1]),
        upper,
    )
