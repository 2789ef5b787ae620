"""Forests that keep to a sketch: what copies or adds up goes over one set of links after another.

In a phase whoever has a piece spreads it over the phase's links to hosts of its group, and hosts
alone pass on to the next phase. Groups are the hosts that the links join, or only those of them
that have the same place in all groups of later phases: one of a box is enough where another phase
reaches the rest; or a piece takes one only of the ways that lead to the same groups, as one of the
rails between two boxes. Phases may be left out, and the data divided between such orders. Hosts
that do not relay send in any phase what is their own, and are leaves of other trees.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from itertools import combinations, pairwise
from math import lcm
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.compute.components import connected
from ocs_codesign.core.demand import SUM, demand_of
from ocs_codesign.core.lp import LinearProgram, solve
from ocs_codesign.core.lp.exact import exact_vertex
from ocs_codesign.core.network import Network, who_relays
from ocs_codesign.core.networks.builders import as_network
from ocs_codesign.core.plans import Forest
from ocs_codesign.core.topology import row_numbers, starts_of
from ocs_codesign.schedules.forest.piece_sets import (
    Use,
    after,
    bits,
    classes_of,
    covering,
    one_of_alike,
    senders,
    shared_out,
    union,
)
from ocs_codesign.schedules.forest.spreads import PhaseTrees, spread

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.core.given import NetworkLike
    from ocs_codesign.schedules.exchange.sketches import Sketch


MAX_PHASES_LEFT_OUT = 6
"""Phases up to which orders are tried that leave some of them out."""

MAX_PARTS = 64
"""Parts up to which what a root has is divided between ways that are alike."""


class _Placed(NamedTuple):
    """Trees of one part of a phase's links, and what each of its hosts spreads along them."""

    trees: PhaseTrees
    uses: list[Use]


class _Links:
    """The links of one phase as trees go, in parts that they join."""

    def __init__(
        self, network: Network, ids: NDArray[np.int64], relays: NDArray[np.bool_], *, is_sum: bool
    ) -> None:
        ends = (network.tail[ids], network.head[ids])
        self.tail, self.head = (end.astype(np.int64) for end in (ends[::-1] if is_sum else ends))
        self.num_hosts, self.ids, self.bandwidth = network.num_hosts, ids, network.bandwidth[ids]
        self.part = connected(self.tail, self.head, network.num_nodes)
        self.relays, self.all_relay = relays, bool(relays.all())
        self.known: dict[Any, PhaseTrees] = {}

    @cached_property
    def _next(self) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
        """Where links lead to, and where they come from."""
        both: tuple[dict[int, list[int]], dict[int, list[int]]] = ({}, {})
        for tail, head in zip(self.tail.tolist(), self.head.tolist(), strict=True):
            both[0].setdefault(tail, []).append(head)
            both[1].setdefault(head, []).append(tail)
        return both

    def reached(self, host: int, group: set[int], *, back: bool = False) -> set[int]:
        """The hosts of a group that one of them reaches, or that reach it, over no others."""
        near, seen, queue = self._next[back], {host}, [host]
        for node in queue:
            for other in near.get(node, ()):
                if other not in seen and (other >= self.num_hosts or other in group):
                    seen.add(other)
                    if other >= self.num_hosts or self.relays[other]:
                        queue.append(other)
        return seen & group

    def spread(self, group: NDArray[np.int64], uses: list[Use], one_way: set[int]) -> list[_Placed]:
        """Trees of every part in which something is spread; ``one_way``: groups (labels)."""
        of_part: dict[int, list[Use]] = {}
        for use in uses:
            of_part.setdefault(int(self.part[use.source]), []).append(use)
        order = np.argsort(self.part, kind="stable")
        begin = starts_of(np.bincount(self.part))
        mine = np.argsort(self.part[self.tail], kind="stable")
        first = np.searchsorted(self.part[self.tail][mine], np.arange(len(begin)))
        made = []
        for part, all_uses in of_part.items():
            nodes = order[begin[part] : begin[part + 1]]
            links = mine[first[part] : first[part + 1]]
            made.append(_Placed(self._trees(nodes, links, group, all_uses, one_way), all_uses))
        return made

    def _trees(
        self,
        nodes: NDArray[np.int64],
        links: NDArray[np.int64],
        group: NDArray[np.int64],
        uses: list[Use],
        one_way: set[int],
    ) -> PhaseTrees:
        """The trees of a part, which are made once for all that are alike."""
        hosts = nodes[nodes < self.num_hosts]
        place = {node: at for at, node in enumerate(nodes.tolist())}
        weight = np.zeros(len(hosts), dtype=np.int64)
        for use in uses:
            weight[place[use.source]] += use.pieces.bit_count()
        labels = group[hosts]
        named, near = np.unique(labels, return_inverse=True)
        near = np.where((np.bincount(near) > 1)[near], near, -1)
        near[near >= 0] = np.unique(near[near >= 0], return_inverse=True)[1]
        ends = np.searchsorted(nodes, [self.tail[links], self.head[links]])
        is_one_way = not one_way.isdisjoint(named.tolist())
        relays = None if self.all_relay else self.relays[hosts]
        columns = (*ends, self.bandwidth[links], near, weight, self.relays[hosts])
        key = (len(nodes), is_one_way, *(column.tobytes() for column in columns))
        if key not in self.known:
            network = Network(len(hosts), len(nodes), ends[0], ends[1], self.bandwidth[links])
            self.known[key] = spread(network, near, weight, relays, one_way=is_one_way)
        return self.known[key].placed(nodes, self.ids[links])


class _Followed(NamedTuple):
    """What hosts spread in every phase, groups that links join one way, what all have then.

    Of ``parts`` of what a root has each goes one of the ways that are alike; 0 if none are.
    """

    uses: list[list[Use]]
    one_way: list[set[int]]
    have: list[int]
    parts: int


class _Order(NamedTuple):
    """Phases (numbers) in order, with the group of every host in each.

    With ``is_divided`` a piece goes only one of the ways to the same groups of the next phase.
    """

    links: Sequence[_Links]
    phases: tuple[int, ...]
    groups: list[NDArray[Any]]
    is_divided: bool = False

    def follow(self, have: list[int]) -> _Followed:
        """Phase after phase from what hosts have first."""
        uses, one_way, parts, own = [], [], 0, have
        for at, (phase, group) in enumerate(zip(self.phases, self.groups, strict=True)):
            used, ways = _spread_in(self.links[phase], group, have, own)
            if self.is_divided and at + 1 < len(self.phases):
                used, more = one_of_alike(used, self.groups[at + 1], self.links[phase].relays)
                parts = lcm(parts, more) if parts and more else max(parts, more)
            have = after(used, have)
            uses.append(used)
            one_way.append(ways)
        return _Followed(uses, one_way, have, parts)

    def placed(self, followed: _Followed) -> list[_Placed]:
        """The trees of all phases, one after the other."""
        rows = zip(self.phases, self.groups, followed.uses, followed.one_way, strict=True)
        return [
            tree
            for at, group, used, ways in rows
            for tree in self.links[at].spread(group, used, ways)
        ]


def _spread_in(
    links: _Links, group: NDArray[np.int64], have: list[int], own: list[int]
) -> tuple[list[Use], set[int]]:
    """Who spreads what in one phase, and groups that links join one way only.

    Who does not relay spreads what is its own.
    """
    order = np.argsort(group, kind="stable")
    uses: list[Use] = []
    one_way: set[int] = set()
    for hosts in np.split(order, starts_of(np.bincount(group))[1:-1]):
        members = hosts.tolist()
        every = union(have[host] for host in members)
        if len(members) < 2 or not every:
            continue
        inside, everyone = set(members), union(1 << host for host in members)
        classes = classes_of(members, have, every)
        is_apart = sum(have[host].bit_count() for host in members) == every.bit_count()
        if not _all_reach_all(links, members, inside):
            one_way.add(int(group[members[0]]))
            reach = {host: union(1 << to for to in links.reached(host, inside)) for host in members}
            for holders, pieces, sources in senders(links.relays, own, classes):
                uses += covering(holders, pieces, {host: reach[host] for host in sources})
        elif is_apart:
            may = (
                (host, have[host] & (-1 if links.relays[host] else own[host])) for host in members
            )
            uses += [Use(host, 1 << host, mine, everyone) for host, mine in may if mine]
        else:
            for holders, pieces, sources in senders(links.relays, own, classes):
                if holders != everyone:
                    uses += shared_out(holders, pieces, everyone, sources)
    return uses, one_way


def _all_reach_all(links: _Links, members: list[int], inside: set[int]) -> bool:
    """Whether every host of a group reaches all of it: one does, and is reached, if all relay."""
    if links.all_relay:
        both = (False, True)
        return all(links.reached(members[0], inside, back=back) == inside for back in both)
    return all(links.reached(host, inside) == inside for host in members)


class _Loaded(NamedTuple):
    """An order with its trees: a piece has ``trees`` units, of all of which links carry ``load``.

    What a root has are ``parts`` pieces.
    """

    placed: list[_Placed]
    parts: int
    trees: int
    load: NDArray[np.int64]

    @property
    def units(self) -> int:
        """Of all that a root has."""
        return self.parts * self.trees


class Phased(NamedTuple):
    """How a collective takes least that keeps to phases, as far as was found.

    A unit of weight takes ``inv_rate``, where a unit of bandwidth carries one in a time of 1.
    ``shares`` of every piece go as each of several orders says.
    """

    network: Network
    collective: Collective
    inv_rate: Fraction
    shares: tuple[Fraction, ...]
    orders: tuple[_Loaded, ...]

    def forest(self) -> Forest:
        """The trees of all pieces, as one forest of the network."""
        parts = tuple(zip(self.shares, self.orders, strict=True))
        num_trees = lcm(*((share / order.units).denominator for share, order in parts))
        known: dict[tuple[int, ...], int] = {}
        rows: list[tuple[int, int, NDArray[np.int64]]] = []
        for share, order in parts:
            times = int(share * num_trees / order.units)
            for piece, cut in _of_pieces(order, known).items():
                root, whole = piece // order.parts, _cut_up(cut, order.trees)
                rows += [(root, times * units, arcs) for units, arcs in whole]
        rows.sort(key=lambda row: row[0])
        arcs = np.concatenate([arcs for _, _, arcs in rows], axis=1)
        tree = np.repeat(np.arange(len(rows)), [arcs.shape[1] for _, _, arcs in rows])
        roots, units = (np.array([row[at] for row in rows], dtype=np.int64) for at in range(2))
        demand = demand_of(self.collective, self.network.num_hosts)
        weight = np.bincount(demand.root, minlength=self.network.num_hosts)
        lengths = np.array([len(links) for links in known], dtype=np.int64)
        return Forest(
            network=self.network,
            is_sum=bool((demand.kind == SUM).all()),
            weight=weight,
            is_rank=weight >= 0,
            num_trees=num_trees,
            scale=self.inv_rate * num_trees,
            root=roots,
            multiplicity=units,
            tree=tree,
            tail=arcs[0],
            head=arcs[1],
            path=arcs[2],
            units=units[tree],
            path_start=starts_of(lengths),
            link=np.array([link for links in known for link in links], dtype=np.int64),
        )


def _overlaps(placed: _Placed) -> Iterator[tuple[Use, int, int, NDArray[np.int64]]]:
    """Of every use and tree: units from and to of the use's pieces, arcs to who has not got it."""
    trees = placed.trees
    begin = np.searchsorted(trees.tree, np.arange(len(trees.units) + 1))
    of: dict[int, list[int]] = {}
    for tree, source in enumerate(trees.source.tolist()):
        of.setdefault(source, []).append(tree)
    end: dict[int, int] = {}
    units = trees.units.tolist()
    for use in placed.uses:
        low = end.get(use.source, 0)
        high = end[use.source] = low + use.pieces.bit_count() * trees.trees
        at = 0
        for tree in of.get(use.source, ()):
            first, last = max(low, at), min(high, at + units[tree])
            at += units[tree]
            if first < last:
                arcs = np.arange(begin[tree], begin[tree + 1])
                if use.holders.bit_count() > 1:
                    new = [not use.holders >> head & 1 for head in trees.head[arcs].tolist()]
                    arcs = arcs[np.array(new, dtype=bool)]
                yield use, first - low, last - low, arcs


def _loaded(network: Network, placed: list[_Placed], parts: int) -> _Loaded:
    trees = lcm(*(one.trees.trees for one in placed))
    load = np.zeros(network.num_links, dtype=np.int64)
    for one in placed:
        times, found = trees // one.trees.trees, one.trees
        if all(use.holders.bit_count() == 1 for use in one.uses):
            load += times * found.loads(network.num_links)
            continue
        for _, low, high, arcs in _overlaps(one):
            for arc in arcs.tolist():
                load[found.link[found.start[arc] : found.start[arc + 1]]] += times * (high - low)
    return _Loaded(placed, parts, trees, load)


def _of_pieces(order: _Loaded, known: dict[tuple[int, ...], int]) -> dict[int, Any]:
    """Of every piece: units from and to, and tail, head and path of the arcs that carry them."""
    cuts: dict[int, list[tuple[int, int, NDArray[np.int64]]]] = {}
    for placed in order.placed:
        trees, times = placed.trees, order.trees // placed.trees.trees
        links = np.split(trees.link, trees.start[1:-1])
        path = [known.setdefault(tuple(each.tolist()), len(known)) for each in links]
        table = np.array([trees.tail, trees.head, path], dtype=np.int64)
        for use, low, high, arcs in _overlaps(placed):
            columns = table[:, arcs]
            pieces = bits(use.pieces)
            for at in range(low // trees.trees, -(-high // trees.trees)):
                begin = at * trees.trees
                first, last = max(low, begin) - begin, min(high, begin + trees.trees) - begin
                cuts.setdefault(pieces[at], []).append((times * first, times * last, columns))
    return cuts


def _cut_up(
    cut: list[tuple[int, int, NDArray[np.int64]]], trees: int
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Whole trees of a piece: between neighbouring places where one of its phases changes trees."""
    bounds = sorted({0, trees, *(low for low, _, _ in cut), *(high for _, high, _ in cut)})
    for low, high in pairwise(bounds):
        arcs = [arcs for first, last, arcs in cut if first <= low and high <= last]
        yield high - low, np.concatenate(arcs, axis=1)


# Which orders there are, and how data are divided between them.


def phased_halves(network: Network, collective: Collective, sketch: Sketch) -> tuple[Phased, ...]:
    """Every half of a collective by a sketch: an allreduce copies back what it added up.

    Raises ValueError as ``phased`` does.
    """
    halves, phases = collective.halves(), sketch.phases
    orders, relays = (phases, phases[::-1]), sketch.relays
    each = zip(halves, orders, strict=False)
    return tuple(phased(network, half, order, relays) for half, order in each)


def phased(
    network: NetworkLike,
    collective: Collective | str,
    phases: Sequence[NDArray[np.int64]],
    relays: Collection[int] | None = None,
) -> Phased:
    """The least time of a collective that copies or adds up and keeps to phases, each ids of links.

    Phases of a sum are in the order of time. Hosts that are no ``relays``, all unless some are
    named, send nothing of others: they copy what is their own, and add up what is for them. Raises
    ValueError for what has unequal shards or groups, for relays that are no hosts, and for a pair
    of hosts that phases and relays leave without a path.

    >>> from ocs_codesign.core.networks.products import h100_rail
    >>> from ocs_codesign.schedules.exchange.sketches import sketch_on
    >>> network = h100_rail(2)
    >>> found = phased(network, Collective.ALLGATHER, sketch_on(network, ["rail", "inside"]).phases)
    >>> found.inv_rate, found.forest().height
    (Fraction(7, 225), 2)
    """
    network, collective = as_network(network), Collective.parse(collective)
    if collective.sizes is not None or collective.groups is not None:
        raise ValueError("phases are for equal shards of all hosts")
    demand = demand_of(collective, network.num_hosts)
    is_sum = bool((demand.kind == SUM).any())
    for ids in phases:
        if len(ids) and not 0 <= min(ids) <= max(ids) < network.num_links:
            raise ValueError(f"links of a phase are from 0 to {network.num_links - 1}")
    in_order = list(phases)[::-1] if is_sum else list(phases)
    roots = demand.root.tolist()
    have, every = _first(network.num_hosts, roots, 1)
    who = who_relays(network.num_hosts, relays)
    links = [_Links(network, ids, who, is_sum=is_sum) for ids in in_order]
    groups = [each.part[: len(have)] for each in links]
    _check_whole(network, _Order(links, tuple(range(len(links))), groups), have, is_sum=is_sum)
    made = [
        _loaded(network, order.placed(followed), parts)
        for order in _orders(links, groups)
        for followed, parts in _followed(order, have, every, roots)
    ]
    shares, inv_rate = _divided(network, made)
    used = [(share, order) for share, order in zip(shares, made, strict=True) if share]
    kept, taken = zip(*used, strict=True)
    return Phased(network, collective, inv_rate, kept, taken)


def _followed(
    order: _Order, have: list[int], every: int, roots: list[int]
) -> Iterator[tuple[_Followed, int]]:
    """What hosts do in an order that brings all to all, in how many parts of what a root has."""
    followed, parts = order.follow(have), 1
    if set(followed.have) != {every} or (order.is_divided and not followed.parts):
        return
    if 1 < followed.parts <= MAX_PARTS:
        own, all_parts = _first(len(have), roots, followed.parts)
        divided = order.follow(own)
        if set(divided.have) == {all_parts}:
            followed, parts = divided, followed.parts
    yield followed, parts


def _first(num_hosts: int, roots: list[int], parts: int) -> tuple[list[int], int]:
    """The pieces that hosts have first, and all."""
    have = [0] * num_hosts
    for root in roots:
        have[root] = ((1 << parts) - 1) << parts * root
    return have, union(have)


def _check_whole(network: Network, full: _Order, have: list[int], *, is_sum: bool) -> None:
    every = union(have)
    for host, mask in enumerate(full.follow(have).have):
        if mask != every:
            ends = [bits(every & ~mask)[0], host]
            source, target = (network.name(node) for node in (ends[::-1] if is_sum else ends))
            why = "" if full.links[0].all_relay else " without relays"
            raise ValueError(
                f"{source} has something for {target}, and no path leads there in these phases{why}"
            )


def _orders(links: Sequence[_Links], joined: Sequence[NDArray[Any]]) -> Iterator[_Order]:
    """Orders that differ: all phases or some, groups whole, divided or of the same places."""
    count = len(links)
    sizes = range(1, count + 1) if count <= MAX_PHASES_LEFT_OUT else [count]
    seen = set()
    for phases in (each for size in sizes for each in combinations(range(count), size)):
        whole = [joined[phase] for phase in phases]
        for groups in (_of_same_places(whole), whole):
            groups = [row_numbers(each) for each in groups]
            if count <= MAX_PHASES_LEFT_OUT and any(np.bincount(e).max() < 2 for e in groups):
                continue
            key = tuple(
                (links[at].ids.tobytes(), each.tobytes())
                for at, each in zip(phases, groups, strict=True)
            )
            if key not in seen:
                seen.add(key)
                yield _Order(links, phases, groups)
        yield _Order(links, phases, [row_numbers(each) for each in whole], is_divided=True)


def _of_same_places(whole: Sequence[NDArray[Any]]) -> list[NDArray[np.int64]]:
    """Groups parted by the places that hosts have in the groups of all later phases."""
    groups: list[NDArray[np.int64]] = []
    place = np.zeros(len(whole[0]), dtype=np.int64)
    for label in reversed(whole):
        group = row_numbers(label, place)
        groups.insert(0, group)
        order = np.argsort(group, kind="stable")
        number = np.empty_like(order)
        number[order] = np.arange(len(order)) - np.searchsorted(group[order], group[order])
        place = row_numbers(place, number)
    return groups


def _divided(network: Network, made: Sequence[_Loaded]) -> tuple[list[Fraction], Fraction]:
    """What part of the data every order takes so that the busiest link takes least; that time."""
    common = lcm(*(one.units for one in made))
    loads = np.array([one.load * (common // one.units) for one in made] + [network.bandwidth])
    rows = np.unique(loads, axis=1).T
    alone = [max(Fraction(row[at], row[-1]) for row in rows.tolist()) for at in range(len(made))]
    best = alone.index(min(alone))
    shares = [Fraction(int(at == best)) for at in range(len(made))]
    if len(made) > 1:
        size, width = len(rows), len(made) + 1
        program = LinearProgram(
            np.append(np.zeros(len(made)), 1.0),
            np.append(np.arange(size + 1) * width, (size + 1) * width - 1),
            np.append(np.tile(np.arange(width), size), np.arange(len(made))),
            np.append((rows * np.append(np.ones(len(made)), -1)).ravel(), np.ones(len(made))),
            *(np.append(np.full(size, -np.inf), 1.0), np.append(np.zeros(size), 1.0)),
            *(np.zeros(width), np.full(width, np.inf)),
        )
        vertex = exact_vertex(program, solve(program))
        if vertex is not None and vertex.objective < alone[best]:
            return list(vertex.values[:-1]), vertex.objective / common
    return shares, alone[best] / common
