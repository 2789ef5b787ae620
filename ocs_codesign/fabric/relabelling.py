"""Rewiring with free hosts: which host is which node, such that the fewest circuits change.

Small fabrics are searched through by branch and bound; others start from a relaxed quadratic
assignment and random placements, improve by exchanges, and get a bound from closed walks. Source of
the relaxation: J. T. Vogelstein et al. (2015), Fast approximate quadratic programming for graph
matching.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.rewiring import TIME_LIMIT_S, Rewiring, minimum_rewiring
from ocs_codesign.fabric.rewiring_state import checked_state, state_circuits
from ocs_codesign.lp import Options

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.topology import Topology

MAX_SEARCHED_NODES = 10
MAX_VISITS = 3_000_000
MAX_LEAVES = 4000
"""Nodes up to which all placements are searched; partial placements and whole ones looked at."""
MAX_RELAXED_NODES = 256
NUM_RELAXED = 4
RESTART_WORK = 40_000_000
MAX_RESTARTS = 60
NUM_FINALISTS = 6
"""Starts from the relaxation; links looked at, and starts, of the exchanges; placements whose
planes are chosen."""
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

    def __init__(
        self,
        held: NDArray[np.int32],
        topology: Topology,
        port_model: PortModel,
        options: Options,
        seed: int,
    ) -> None:
        self.held, self.topology, self.port_model = held, topology, port_model
        self.options, self.seed = options, seed
        self.begin = time.monotonic()
        self.host = np.arange(topology.num_nodes, dtype=np.int32)
        self.best = self._rewired(self.host)
        self.most_kept = self.best.most_kept
        self.tried = {self._key(self.host)}

    def _rewired(self, host: NDArray[np.int32]) -> Rewiring:
        left = self.options.after(time.monotonic() - self.begin)
        placed = self.topology.relabelled(host)
        return minimum_rewiring(self.held, placed, self.port_model, options=left, seed=self.seed)

    def _key(self, host: NDArray[np.int32]) -> bytes:
        ends = host[self.topology.tail].astype(np.int64) * len(host) + host[self.topology.head]
        return np.sort(ends).tobytes()

    def is_time(self) -> bool:
        """Whether some of the time limit is left."""
        limit = self.options.time_limit_s
        return limit is None or time.monotonic() - self.begin < limit

    def try_placement(self, host: NDArray[Any]) -> None:
        """Choose planes for a placement, unless the same links were there before."""
        key = self._key(host)
        if key in self.tried:
            return
        self.tried.add(key)
        found = self._rewired(host.astype(np.int32))
        self.most_kept = max(self.most_kept, found.most_kept)
        if found.num_kept > self.best.num_kept:
            self.best, self.host = found, host.astype(np.int32)


def free_rewiring(
    held: ArrayLike,
    topology: Topology,
    port_model: PortModel = PortModel.SIMPLEX,
    *,
    options: Options | None = None,
    seed: int = 0,
) -> FreeRewiring:
    """Place the nodes of a topology on hosts, and its circuits on planes, to keep most circuits.

    Up to MAX_SEARCHED_NODES nodes all placements are searched, if MAX_VISITS and the time
    (``options.time_limit_s``, 60 s) allow; else the best that local searches find, with a bound.
    Raises as ``minimum_rewiring`` does.

    >>> from ocs_codesign.graphs.families.rings import DirectedCirculant
    >>> from ocs_codesign.factorisation import factorise, plane_heads
    >>> ring = DirectedCirculant(8, (1,)).topology()
    >>> other = DirectedCirculant(8, (3,)).topology()
    >>> found = free_rewiring(plane_heads(ring, factorise(ring)), other)
    >>> found.num_changed, found.is_optimal
    (0, True)
    """
    options = options or Options(time_limit_s=TIME_LIMIT_S)
    state = checked_state(held, port_model, topology.num_nodes)
    trials = _Trials(state, topology, port_model, options, seed)
    circuits = state_circuits(state, port_model)
    planes = trials.best.planes
    is_two_way, nodes = port_model.is_bidirectional, topology.num_nodes
    target = _link_matrix(planes.a_node, planes.b_node, nodes, is_two_way)
    there = _link_matrix(circuits[:, 1], circuits[:, 2], nodes, is_two_way)
    least = _fewest_by_walks(target, there, is_two_way)
    if trials.best.num_changed > least:
        _climbed(trials, target, there, seed)
    if trials.best.num_changed > least and nodes <= MAX_SEARCHED_NODES:
        searched = _searched(trials, target, there, 2 if is_two_way else 1)
        least = max(least, planes.num_circuits - searched) if searched is not None else least
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


def _climbed(
    trials: _Trials, target: NDArray[np.int64], held: NDArray[np.int64], seed: int
) -> None:
    """Try the placements that exchanges lead to, those that share most links first."""
    from ocs_codesign.fabric import rewiring_kernels as kernels

    random = np.random.default_rng(seed)
    nodes = len(target)
    starts: list[NDArray[np.int64]] = [np.arange(nodes)]
    if nodes <= MAX_RELAXED_NODES:
        starts += [_relaxed(target, held, random) for _ in range(NUM_RELAXED)]
    restarts = min(MAX_RESTARTS, RESTART_WORK // nodes**3)
    starts += [random.permutation(nodes) for _ in range(restarts)]
    found: dict[bytes, tuple[int, NDArray[np.int64]]] = {}
    for start in starts:
        if found and not trials.is_time():
            break
        host = start.astype(np.int64)
        kernels.climb(host, random.permutation(nodes), target, held)
        found.setdefault(host.tobytes(), (kernels.shared_links(host, target, held), host))
    ranked = sorted(found.values(), key=lambda one: -one[0])
    for _, host in ranked[:NUM_FINALISTS]:
        if trials.is_time():
            trials.try_placement(host)


def _relaxed(
    target: NDArray[np.int64], held: NDArray[np.int64], random: np.random.Generator
) -> NDArray[np.int64]:
    """A placement by the relaxed quadratic assignment, from a random doubly stochastic start."""
    from scipy.optimize import quadratic_assignment

    found = quadratic_assignment(
        target.astype(float),
        held.astype(float),
        method="faq",
        options={"maximize": True, "P0": "randomized", "rng": random},
    )
    host: NDArray[np.int64] = found.col_ind
    return host


def _searched(
    trials: _Trials, target: NDArray[np.int64], held: NDArray[np.int64], per_circuit: int
) -> int | None:
    """Most circuits that any placement keeps, by branch and bound; None if it was not finished."""
    from ocs_codesign.fabric import rewiring_kernels as kernels

    nodes = len(target)
    host = np.full(nodes, kernels.NONE, dtype=np.int64)
    used, progress = np.zeros(nodes, dtype=np.bool_), np.zeros(2, dtype=np.int64)
    order, first = _neighbours_first(target), _first_hosts(trials.topology)
    for _ in range(MAX_LEAVES):
        # Placements that share no more links than circuits are kept cannot be better.
        more_than = per_circuit * (trials.best.num_kept + 1) - 1
        verdict = kernels.next_placement(
            host, used, order, progress, first, target, held, more_than, MAX_VISITS
        )
        if verdict == kernels.DONE:
            return max(trials.most_kept, trials.best.num_kept)
        if verdict == kernels.GAVE_UP or not trials.is_time():
            return None
        trials.try_placement(host)
    return None


def _neighbours_first(target: NDArray[np.int64]) -> NDArray[np.int64]:
    """Nodes in an order in which each has most links with those before."""
    links = target + target.T
    order = [int(links.sum(axis=0).argmax())]
    while len(order) < len(links):
        weight = links[order].sum(axis=0)
        weight[order] = -1
        order.append(int(weight.argmax()))
    return np.array(order, dtype=np.int64)


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
