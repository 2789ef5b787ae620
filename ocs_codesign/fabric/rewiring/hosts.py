"""Rewiring with free hosts: which host is which node, such that the fewest circuits change.

Relaxed quadratic assignments from random starts give placements that share many links with what is
held; small fabrics are searched through by branch and bound, others get a bound from closed walks.
Source of the relaxation: J. T. Vogelstein et al. (2015), Fast approximate quadratic programming for
graph matching.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.given import as_topology
from ocs_codesign.core.lp import Options
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.rewiring.minimum import TIME_LIMIT_S, Rewiring, minimum_rewiring
from ocs_codesign.fabric.rewiring.state import checked_state, state_circuits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.core.given import TopologyLike
    from ocs_codesign.core.topology import Topology


# Placements of nodes on hosts by branch and bound on the links that they can share.


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


MAX_SEARCHED_NODES = 10
MAX_SEARCHED = 200_000
"""Nodes up to which all placements are searched, and partial placements looked at."""
MAX_RELAXED_NODES = 512
MAX_RELAXED, RELAXED_WORK = 64, 20_000_000
NUM_FINALISTS = 6
"""Starts of the relaxation, nodes cubed that all starts may take, placements whose planes are
chosen."""
MAX_WALK = 8
MAX_WALK_NODES = 512
"""Length of the closed walks that are compared, and nodes up to which they are."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class FreeRewiring:
    """A placement of a topology's nodes on hosts, and its rewiring.

    Node v of the topology is on host ``host[v]`` (int32, N), where ``rewiring`` has it.
    ``fewest_changed`` circuits change at least, whatever the placement and the planes.
    """

    host: NDArray[np.int32]
    rewiring: Rewiring
    fewest_changed: int

    @property
    def num_changed(self) -> int:
        """Circuits that have to be made."""
        return self.rewiring.num_changed

    @property
    def is_optimal(self) -> bool:
        """Whether it is proven that no placement and no planes need fewer new circuits."""
        return self.num_changed == self.fewest_changed


@final
class _Trials:
    """Placements whose planes were chosen, and the best of them so far."""

    def __init__(self, rewired: Callable[[NDArray[np.int32]], Rewiring], topology: Topology):
        self.rewired, self.topology = rewired, topology
        self.host = np.arange(topology.num_nodes, dtype=np.int32)
        self.best = rewired(self.host)
        self.most_kept = self.best.most_kept
        self.tried = {self._key(self.host)}

    def _key(self, host: NDArray[np.int32]) -> bytes:
        ends = host[self.topology.tail].astype(np.int64) * len(host) + host[self.topology.head]
        return np.sort(ends).tobytes()

    def try_placement(self, host: NDArray[np.int32]) -> None:
        """Choose planes for a placement, unless the same links were there before."""
        key = self._key(host)
        if key in self.tried:
            return
        self.tried.add(key)
        rewiring = self.rewired(host)
        self.most_kept = max(self.most_kept, rewiring.most_kept)
        if rewiring.num_kept > self.best.num_kept:
            self.best, self.host = rewiring, host


def free_rewiring(
    held: ArrayLike,
    topology: TopologyLike,
    port_model: PortModel = PortModel.SIMPLEX,
    *,
    options: Options | None = None,
    seed: int = 0,
) -> FreeRewiring:
    """Place the nodes of a topology on hosts, and its circuits on planes, to keep most circuits.

    Up to MAX_SEARCHED_NODES nodes all placements are searched, if MAX_SEARCHED and the time
    (``options.time_limit_s``, 60 s) allow; else the best that relaxations find, with a bound.
    Raises as ``minimum_rewiring`` does.

    >>> from ocs_codesign.graphs.families.rings import DirectedCirculant
    >>> from ocs_codesign.core.compute.factorisation import factorise, plane_heads
    >>> ring, third = (DirectedCirculant(8, (step,)).topology() for step in (1, 3))
    >>> free = free_rewiring(plane_heads(ring, factorise(ring)), third)
    >>> free.num_changed, free.is_optimal
    (0, True)
    """
    graph = as_topology(topology)
    begin, limit = time.monotonic(), options or Options(time_limit_s=TIME_LIMIT_S)
    state = checked_state(held, port_model, graph.num_nodes)

    def left() -> Options:
        return limit.after(time.monotonic() - begin)

    def rewired(host: NDArray[np.int32]) -> Rewiring:
        placed = graph.relabelled(host)
        return minimum_rewiring(state, placed, port_model, options=left(), seed=seed)

    trials = _Trials(rewired, graph)
    _, held_a, held_b = state_circuits(state, port_model).T
    planes = trials.best.planes
    is_two_way, nodes = port_model.is_bidirectional, graph.num_nodes
    target = _link_matrix(planes.a_node, planes.b_node, nodes, is_two_way)
    there = _link_matrix(held_a, held_b, nodes, is_two_way)
    least = _fewest_by_walks(target, there, is_two_way)
    if trials.best.num_changed > least and nodes <= MAX_RELAXED_NODES:
        for host in _relaxed(target, there, seed):
            if left().time_limit_s != 0:
                trials.try_placement(host)
    if trials.best.num_changed > least and nodes <= MAX_SEARCHED_NODES:
        most_kept = _searched(trials, target, there, 2 if is_two_way else 1, left)
        if most_kept is not None:
            least = max(least, planes.num_circuits - most_kept)
    return FreeRewiring(trials.host, trials.best, least)


def _link_matrix(
    a: NDArray[np.int32], b: NDArray[np.int32], num_nodes: int, is_two_way: bool
) -> NDArray[np.int64]:
    """Circuits between any two nodes; two-way ones are written in both directions."""
    matrix = np.zeros((num_nodes, num_nodes), dtype=np.int64)
    np.add.at(matrix, (a, b), 1)
    if is_two_way:
        np.add.at(matrix, (b, a), 1)
    return matrix


def _relaxed(
    target: NDArray[np.int64], held: NDArray[np.int64], seed: int
) -> list[NDArray[np.int32]]:
    """Placements by relaxed quadratic assignments, those that share most links first.

    From random doubly stochastic starts; without parallel links the relaxed gain is their number.
    """
    from scipy.optimize import quadratic_assignment

    random = np.random.default_rng(seed)
    shared_by: dict[bytes, tuple[int, NDArray[np.int32]]] = {}
    for _ in range(max(1, min(MAX_RELAXED, RELAXED_WORK // len(target) ** 3))):
        host = quadratic_assignment(
            target.astype(float),
            held.astype(float),
            method="faq",
            options={"maximize": True, "P0": "randomized", "rng": random},
        ).col_ind.astype(np.int32)
        shared = int(np.minimum(target, held[np.ix_(host, host)]).sum())
        shared_by[host.tobytes()] = (shared, host)
    ranked = sorted(shared_by.values(), key=lambda entry: -entry[0])
    return [host for _, host in ranked[:NUM_FINALISTS]]


def _searched(
    trials: _Trials,
    target: NDArray[np.int64],
    held: NDArray[np.int64],
    per_circuit: int,
    left: Callable[[], Options],
) -> int | None:
    """Most circuits that any placement keeps, by branch and bound; None if it was not finished."""
    search = placements(
        target,
        held,
        _first_hosts(trials.topology),
        # Placements that share no more links than circuits are kept cannot be better.
        lambda: per_circuit * (trials.best.num_kept + 1),
    )
    for looked_at, host in enumerate(search):
        if looked_at == MAX_SEARCHED or left().time_limit_s == 0:
            return None
        if host is not None:
            trials.try_placement(host)
    return max(trials.most_kept, trials.best.num_kept)


def _first_hosts(topology: Topology) -> NDArray[np.bool_]:
    """Hosts that the first node is tried on: one if an automorphism moves it to any other node."""
    symmetry, nodes = topology.symmetry, topology.num_nodes
    first = np.ones(nodes, dtype=np.bool_)
    if symmetry is not None and int(symmetry.node_orbit.max()) == 0:
        first[1:] = False
    return first


def _fewest_by_walks(target: NDArray[np.int64], held: NDArray[np.int64], is_two_way: bool) -> int:
    """A bound on new circuits that holds for every placement, from numbers of closed walks.

    Closed walks of a length are as many wherever the nodes are. Those of the target that the held
    links do not have go through new links, and as many go through a link as it has walks back,
    times the length; held ones that the target does not have, through links that are torn down.
    """
    links, there = int(target.sum()), int(held.sum())
    new = max(0, links - there)
    for length in _walk_lengths(target, held):
        walks, back = _closed_walks(target, length)
        held_walks, held_back = _closed_walks(held, length)
        new = max(new, _links_for(walks - held_walks, back, length))
        torn_down = _links_for(held_walks - walks, held_back, length)
        new = max(new, torn_down + links - there)
    return -(-new // 2) if is_two_way else new


def _walk_lengths(target: NDArray[np.int64], held: NDArray[np.int64]) -> range:
    """Lengths whose walks are compared: none in large graphs, nor where numbers would overflow."""
    if len(target) > MAX_WALK_NODES:
        return range(0)
    degree = max(2, int(target.sum(axis=1).max()), int(held.sum(axis=1).max()))
    longest = int(np.log(2.0**60 / (len(target) * MAX_WALK)) / np.log(degree))
    return range(1, min(MAX_WALK, longest) + 1)


def _closed_walks(links: NDArray[np.int64], length: int) -> tuple[int, NDArray[np.int64]]:
    """How many there are, and for every link how many walks lead back from its head."""
    power = np.linalg.matrix_power(links, length - 1)
    tail, head = np.nonzero(links)
    back = np.repeat(power[head, tail], links[tail, head])
    return int((power * links.T).sum()), np.sort(back)[::-1]


def _links_for(walks: int, back: NDArray[np.int64], length: int) -> int:
    """The fewest links that so many closed walks can go through."""
    if walks <= 0:
        return 0
    return int(np.searchsorted(np.cumsum(back) * length, walks)) + 1
