"""Groups of nodes side by side on one topology: what their messages load its links with.

Every message takes all shortest paths evenly. All groups of a span send at once: the nodes whose
number differs by multiples of a stride inside a block; or one group, or pairs of nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import permutations
from math import ceil
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.compute.kernels import for_work
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.topology import starts_of
from ocs_codesign.jobs.cluster_design.kernels import all_hops, walk_messages
from ocs_codesign.jobs.models.layer import DATA, EXPERT, EXPERT_DATA, TENSOR

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ocs_codesign.core.topology import Topology
    from ocs_codesign.jobs.models.building import Parallel


MAX_NODES_ROUTED = 4096
"""Largest topology whose shortest paths are all walked in passing."""
_GRAIN = 2**20


@final
@dataclass(frozen=True, slots=True)
class GroupCosts:
    """What groups of nodes side by side pay on a topology whose links they share.

    ``gathers`` are costs of an allgather, of which the mirror is a reduce-scatter: each rank sends
    its shard to all others, or round the group as round a ring, one way or both. ``exchange``
    is that of an all-to-all, ``hand_on`` that of a message to the next rank, the dearer way.
    """

    gathers: tuple[Cost, ...]
    exchange: Cost
    hand_on: Cost


@lru_cache(maxsize=4096)
def group_costs(topology: Topology, size: int, stride: int) -> GroupCosts:
    """What the groups of ``size`` nodes that are ``stride`` apart pay, in M over a node's egress.

    Loads are rounded up to a millionth. Raises ValueError for topologies that are too large, links
    of different speeds, and groups that do not divide the nodes.

    >>> from ocs_codesign.graphs.text import parse
    >>> group_costs(parse("Torus((4, 4))").topology(), 4, 1).exchange
    Cost(steps=2, t_b=Fraction(2, 1))
    """
    _check(topology, size, stride)
    nodes = topology.num_nodes
    targets = _others(nodes, size, stride).ravel()
    loads, most_hops = _walked(topology, np.arange(nodes + 1) * (size - 1), targets)
    return _costs(topology.degree, size, loads, most_hops)


@lru_cache(maxsize=4096)
def lone_group_costs(topology: Topology, members: tuple[int, ...]) -> GroupCosts:
    """What one group of any nodes pays, in this order round a ring, if no other sends meanwhile.

    >>> from ocs_codesign.graphs.text import parse
    >>> lone_group_costs(parse("BiRing(2, 5)").topology(), (0, 1, 3)).exchange
    Cost(steps=2, t_b=Fraction(2, 3))
    """
    _check_routed(topology)
    size = len(members)
    round_it = np.array(members)[_others(size, size, 1)]
    num_targets = np.zeros(topology.num_nodes, dtype=np.int64)
    num_targets[list(members)] = size - 1
    targets = round_it[np.argsort(members)].ravel()
    loads, most_hops = _walked(topology, starts_of(num_targets).astype(np.int64), targets)
    return _costs(topology.degree, size, loads, most_hops)


@lru_cache(maxsize=4096)
def pairs_cost(topology: Topology, pairs: tuple[tuple[int, int], ...]) -> Cost:
    """What a message of M bytes between the nodes of each of these pairs takes, all at once.

    >>> from ocs_codesign.graphs.text import parse
    >>> pairs_cost(parse("BiRing(2, 5)").topology(), ((0, 2), (1, 3)))
    Cost(steps=2, t_b=Fraction(4, 1))
    """
    _check_routed(topology)
    source, target = np.unique(np.array(pairs), axis=0).T
    first = starts_of(np.bincount(source, minlength=topology.num_nodes)).astype(np.int64)
    loads, most_hops = _walked(topology, first, np.ascontiguousarray(target))
    return Cost(most_hops[0], loads[0] * topology.degree)


@lru_cache(maxsize=4096)
def least_group_costs(topology: Topology, size: int, stride: int) -> GroupCosts:
    """What these groups do not pay less than: as if all links had an even share of all hops.

    Takes a hundredth of the time of ``group_costs``, whose errors it raises.

    >>> from ocs_codesign.graphs.text import parse
    >>> least_group_costs(parse("Torus((4, 4))").topology(), 4, 1).exchange
    Cost(steps=2, t_b=Fraction(1, 1))
    """
    _check(topology, size, stride)
    others = _others(topology.num_nodes, size, stride)
    hops = _hops(topology)[np.arange(topology.num_nodes)[:, None], others]
    kinds = hops, hops[:, :1], hops[:, -1:]
    totals = [int(part.sum(dtype=np.int64)) for part in kinds]
    both = totals[1] + totals[2] if size > 2 else totals[1]
    mean = [Fraction(total, topology.num_links) for total in (*totals, both)]
    return _costs(topology.degree, size, mean, [int(part.max(initial=0)) for part in kinds])


def _costs(degree: int, size: int, loads: list[Fraction], hops: list[int]) -> GroupCosts:
    """Costs by loads of a link: to all others, to the next, to the one before, and to both."""
    everyone, forward, backward, both = (load * degree for load in loads)
    next_hops = max(hops[1:])
    # Neighbours that hand on do not close the ring, but the last of one may share links with it.
    whole = Fraction(size - 1, size)
    return GroupCosts(
        (
            Cost(hops[0], everyone / size),
            Cost((size - 1) * next_hops, max(forward, backward) * whole),
            Cost(size // 2 * next_hops, both * whole / (2 if size > 2 else 1)),
        ),
        Cost(hops[0], everyone / size),
        Cost(next_hops, max(forward, backward)),
    )


def _check(topology: Topology, size: int, stride: int) -> None:
    nodes = topology.num_nodes
    _check_routed(topology)
    if nodes % (size * stride):
        raise ValueError(f"groups of {size}, {stride} apart, do not divide {nodes} equal nodes")


def _check_routed(topology: Topology) -> None:
    if topology.num_nodes > MAX_NODES_ROUTED:
        raise ValueError(
            f"{topology.num_nodes} nodes: at most {MAX_NODES_ROUTED} are routed in passing"
        )
    if len(set(topology.speeds().tolist())) > 1:
        raise ValueError("links have different speeds: what groups load them with is not known")


def _others(num: int, size: int, stride: int) -> NDArray[np.int64]:
    """The others of the group of each of so many nodes, from the next round to the one before."""
    node = np.arange(num)
    place = node // stride % size
    steps = np.arange(1, size)
    return (node - place * stride)[:, None] + (place[:, None] + steps) % size * stride


def _walked(
    topology: Topology, first: NDArray[np.int64], targets: NDArray[np.int64]
) -> tuple[list[Fraction], list[int]]:
    """Loads of links and hops of the messages of each node to its targets, as ``_costs`` asks."""
    nodes, num_links = topology.num_nodes, topology.num_links
    loads, most_hops = np.zeros((3, num_links)), np.zeros(3, dtype=np.int64)
    walk = for_work(walk_messages, nodes * (nodes + 4 * num_links))
    walk(*_leaving(topology), first, targets, loads, most_hops)
    # The two of a group of two are each other's next: that message goes once.
    both = loads[1] if (np.diff(first) < 2).all() else loads[1] + loads[2]
    return [
        _rounded_up(float(load.max(initial=0.0))) for load in (*loads, both)
    ], most_hops.tolist()


@lru_cache(maxsize=4)
def _hops(topology: Topology) -> NDArray[np.int16]:
    """Hops between all nodes; at most MAX_NODES_ROUTED, so that two bytes hold them."""
    nodes = topology.num_nodes
    hops = np.full((nodes, nodes), -1, dtype=np.int16)
    for_work(all_hops, nodes * (nodes + topology.num_links))(*_leaving(topology), hops)
    return hops


def _leaving(topology: Topology) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    """The links that leave every node as a CSR, and their heads."""
    link = np.argsort(topology.tail, kind="stable")
    return starts_of(topology.out_degrees()).astype(np.int64), link, topology.head


def _rounded_up(load: float) -> Fraction:
    return Fraction(ceil(load * _GRAIN - 1e-6), _GRAIN)


# Placements: in which order dimensions of parallelism lie on ranks, and what stays in servers.


REPLICA, PIPELINE = "replica", "pipeline"
DIMENSIONS = (TENSOR, EXPERT, REPLICA, PIPELINE)
"""Dimensions of parallelism: copies that share experts, and those that do not, are two."""

DIMENSIONS_OF = {
    TENSOR: (TENSOR,),
    EXPERT: (EXPERT,),
    DATA: (EXPERT, REPLICA),
    EXPERT_DATA: (REPLICA,),
}
"""The dimensions that a group of ranks spans."""


def sizes_of(parallel: Parallel) -> dict[str, int]:
    """Ranks of every dimension.

    >>> from ocs_codesign.jobs.models.building import Parallel
    >>> sizes_of(Parallel(data=8, expert=4, pipeline=2))
    {'tensor': 1, 'expert': 4, 'replica': 2, 'pipeline': 2}
    """
    replicas = parallel.data // parallel.expert
    return dict(
        zip(
            DIMENSIONS, (parallel.tensor, parallel.expert, replicas, parallel.pipeline), strict=True
        )
    )


def group_of(parallel: Parallel, num_ranks: int, stride: int) -> str:
    """The name of the groups of so many ranks so far apart; ValueError if there are none.

    >>> from ocs_codesign.jobs.models.building import Parallel
    >>> group_of(Parallel(data=8, expert=4, tensor=2), 4, 2)
    'expert'
    """
    for name in (TENSOR, EXPERT, DATA, EXPERT_DATA):
        if parallel.size(name) == num_ranks and parallel.stride(name) == stride:
            return name
    raise ValueError(f"no group has {num_ranks} ranks that are {stride} apart in {parallel}")


@final
@dataclass(frozen=True, slots=True)
class Span:
    """How a dimension lies: ``inside`` a server so many, and over ``outside`` servers.

    ``stride`` is how many servers are between neighbours.
    """

    dimension: str
    inside: int
    outside: int
    stride: int


@final
@dataclass(frozen=True, slots=True)
class RankPlacement:
    """The spans of all dimensions of more than one rank, the innermost first."""

    spans: tuple[Span, ...]

    def span(self, dimension: str) -> Span:
        """That of a dimension, of one rank if it is not there."""
        found = [span for span in self.spans if span.dimension == dimension]
        return found[0] if found else Span(dimension, 1, 1, 1)

    @property
    def optical(self) -> tuple[Span, ...]:
        """The spans that need light, the innermost first."""
        return tuple(span for span in self.spans if span.outside > 1)

    @property
    def num_servers(self) -> int:
        """Servers that are in use."""
        product = 1
        for span in self.spans:
            product *= span.outside
        return product

    def text(self) -> str:
        """In words, the innermost first."""
        parts = []
        for span in self.spans:
            places = [f"{span.inside} in a server"] * (span.inside > 1)
            places += [f"{span.outside} over servers"] * (span.outside > 1)
            parts.append(f"{span.dimension} {' x '.join(places)}")
        return ", ".join(parts) or "one rank"


def placements(parallel: Parallel, accelerators_a_server: int) -> Iterator[RankPlacement]:
    """Every order of the dimensions that does not cut a server unevenly, each placement once.

    In which order dimensions lie that stay in a server makes no difference.

    >>> from ocs_codesign.jobs.models.building import Parallel
    >>> [placed.text() for placed in placements(Parallel(data=4, tensor=2), 2)]
    ['tensor 2 in a server, replica 4 over servers', 'replica 2 in a server x 2 over servers, \
tensor 2 over servers']
    """
    sizes = {name: size for name, size in sizes_of(parallel).items() if size > 1}
    seen = set()
    for order in permutations(sizes):
        spans = _spans([(name, sizes[name]) for name in order], accelerators_a_server)
        if spans is None:
            continue
        inside = frozenset(span for span in spans if span.outside == 1)
        key = inside, tuple(span for span in spans if span.outside > 1)
        if key not in seen:
            seen.add(key)
            yield RankPlacement(spans)


def _spans(order: list[tuple[str, int]], block: int) -> tuple[Span, ...] | None:
    """The spans of dimensions in an order, None if a server would be cut unevenly."""
    spans, ranks, servers = [], 1, 1
    for name, size in order:
        inside = min(size, max(1, block // ranks))
        if ranks < block and (block % (ranks * inside) or size % inside):
            return None
        outside = size // inside
        spans.append(Span(name, inside, outside, servers if outside > 1 else 1))
        servers *= outside
        ranks *= size
    return tuple(spans)
