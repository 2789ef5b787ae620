"""Lower bounds on steps and t_b: what no topology, or no schedule on a topology, can beat."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.compute.cuts import allgather_dissemination, bottleneck
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.given import takes_topology

if TYPE_CHECKING:
    from ocs_codesign.core.compute.cuts import Cut
    from ocs_codesign.core.topology import Topology


def moore_steps(num_nodes: int, degree: int) -> int:
    """Least k with 1 + d + ... + d^k >= N, the directed Moore bound on the diameter.

    >>> moore_steps(1024, 4), moore_steps(8, 1)
    (5, 7)
    """
    _check_sizes(num_nodes, degree)
    if degree == 1:
        return num_nodes - 1
    steps, layer, reached = 0, 1, 1
    while reached < num_nodes:
        layer *= degree
        reached += layer
        steps += 1
    return steps


def fewest_steps(num_nodes: int, degree: int, *, bidirectional: bool = False) -> int:
    """Fewest steps that counting leaves room for, on one-way links or on links in both directions.

    A node is reached within k steps by at most 1 + d + ... + d^k nodes, and on links in both
    directions by at most 1 + d + d (d - 1) + ... + d (d - 1)^(k - 1), since going back reaches
    nothing new. The first is never met with d > 1 and k > 1 (Plesnik and Znam 1974; Bridges and
    Toueg 1980): one walk of length at most k would lead from every node to every other, none back
    to it, so I + A + ... + A^k = J for the adjacency matrix A. Its eigenvalues but d are (k + 1)-st
    roots of unity, and no power of A up to the k-th has a trace. By that of A the others add up to
    -d; by that of A^k their conjugates, which are their k-th powers, add up to -d^k; so d = d^k.
    """
    steps = moore_steps(num_nodes, degree)
    if not bidirectional:
        is_full = num_nodes == sum(degree**hops for hops in range(steps + 1))
        return steps + (is_full and degree > 1 and steps > 1)
    if degree == 1:
        return num_nodes - 1
    reached, layer, steps = 1, degree, 0
    while reached < num_nodes:
        reached, layer, steps = reached + layer, layer * (degree - 1), steps + 1
    return steps


def least_t_b(
    num_nodes: int,
    degree: int,
    steps: int,
    collective: Collective | str = "allgather",
    *,
    bidirectional: bool = False,
) -> Fraction | None:
    """Least t_b that counting allows any topology in so many steps, None where it allows none.

    In an allgather in k steps every node must be within k hops of every other, so k is at least
    ``fewest_steps``. Every node receives N - 1 shards of M/N over links of together B, so t_b is at
    least (N - 1)/N; that no more can be proven so is shown by what a receiver may get at each step:
    at most d^t shards at step t, and these leave room for N - 1 in all. An allreduce needs both
    halves, each in at least the fewest steps. With d odd and links in both directions N must be
    even, or there is no such topology.
    """
    collective = Collective.parse(collective)
    fewest = fewest_steps(num_nodes, degree, bidirectional=bidirectional)
    halves = 2 if collective == Collective.ALLREDUCE else 1
    if steps < halves * fewest or (bidirectional and num_nodes % 2 and degree % 2):
        return None
    return bound(num_nodes, degree, collective).t_b


def hop_sum(num_nodes: int, degree: int, *, bidirectional: bool = False) -> int:
    """Least sum of the distances from a node to all others: that of a full d-ary out-tree.

    On links in both directions that of a tree without ways back.

    >>> hop_sum(1024, 4), hop_sum(8, 1), hop_sum(36, 4), hop_sum(36, 4, bidirectional=True)
    (4667, 28, 81, 85)
    """
    _check_sizes(num_nodes, degree)
    if degree == 1:
        return num_nodes * (num_nodes - 1) // 2
    total, hops, layer, left = 0, 0, degree, num_nodes - 1
    while left:
        hops, layer = hops + 1, min(layer, left)
        total += hops * layer
        left -= layer
        layer *= degree - bidirectional
    return total


def bound(
    num_nodes: int,
    degree: int,
    collective: Collective | str = "allgather",
    *,
    bidirectional: bool = False,
) -> Cost:
    """Least steps and least t_b of any topology with N nodes of degree d; no one need meet both.

    t_b >= (N - 1)/N, since every node must receive (or send) all other shards; an allreduce needs
    both halves. In an all-to-all every piece of M/N uses as many links as it goes hops, so
    t_b >= hop_sum / N. ``bidirectional`` asks for those of links both ways.

    >>> bound(1024, 4), bound(1024, 4, bidirectional=True)
    (Cost(steps=5, t_b=Fraction(1023, 1024)), Cost(steps=6, t_b=Fraction(1023, 1024)))
    >>> bound(8, 2, "alltoall")
    Cost(steps=3, t_b=Fraction(13, 8))
    """
    collective = Collective.parse(collective)
    size = num_nodes, degree
    steps = fewest_steps(*size, bidirectional=True) if bidirectional else moore_steps(*size)
    if collective == Collective.ALLTOALL:
        return Cost(steps, Fraction(hop_sum(*size, bidirectional=bidirectional), num_nodes))
    once = Cost(steps, Fraction(num_nodes - 1, num_nodes))
    return once + once if collective == Collective.ALLREDUCE else once


@takes_topology
def topology_bound(
    topology: Topology,
    collective: Collective | str = "allgather",
    diameter: int | None = None,
    reached_t_b: Fraction | None = None,
) -> Cost:
    """Least steps and t_b of any schedule on one topology, with its own ports and link speeds.

    In an allgather all shards inside a set of nodes have to leave it, unless it holds all nodes:
    the narrowest such cut bounds t_b, and no number is smaller, for spanning trees in many pieces
    come as close as one likes. A reduce-scatter is the same with links reversed; for an allreduce
    it is what a reduce-scatter followed by an allgather takes at least. An all-to-all brings N - 1
    pieces into and out of every node, and all its hops together must fit on all links, as what it
    has to bring over those cuts must. B is the
    largest egress of a node. A ``diameter`` that is known is not computed; the search for a cut
    ends early if a schedule with ``reached_t_b`` leaves nothing to prove.

    >>> from ocs_codesign.core.topology import Topology
    >>> loops = Topology(2, [0, 0, 1, 1], [0, 1, 0, 1])
    >>> topology_bound(loops).t_b
    Fraction(1, 1)
    """
    collective = Collective.parse(collective)
    if topology.num_nodes < 2:
        raise ValueError("a collective needs at least two nodes")
    if not topology.ingress_speed() or not topology.egress_speed():
        raise ValueError("not strongly connected: a node has no link in, or none out")
    steps = topology.diameter() if diameter is None else diameter
    missing = Fraction(topology.num_nodes - 1, topology.num_nodes) * topology.node_speed()
    gather, scatter = missing / topology.ingress_speed(), missing / topology.egress_speed()
    of_node = {"allgather": gather, "reduce-scatter": scatter, "allreduce": gather + scatter}
    if reached_t_b is not None and reached_t_b == of_node.get(collective.name):
        return Cost(steps * len(collective.halves()), reached_t_b)
    if collective == Collective.ALLTOALL:
        cuts = [narrowest_cut(topology, half) for half in Collective.ALLREDUCE.halves()]
        across = [cut.inv_rate * (topology.num_nodes - cut.weight) for cut in cuts]
        hops = _least_time_of_all_hops(topology)
        return Cost(steps, max(gather, scatter, hops, *map(topology.t_b, across)))
    rates = [narrowest_cut(topology, half).inv_rate for half in collective.halves()]
    costs = [Cost(steps, topology.t_b(inv_rate)) for inv_rate in rates]
    return sum(costs[1:], costs[0])


def narrowest_cut(topology: Topology, half: Collective) -> Cut:
    """The cut that bounds an allgather, or a reduce-scatter as an allgather over reversed links."""
    forward = topology if half == Collective.ALLGATHER else topology.transpose()
    return bottleneck(allgather_dissemination(forward))


def _least_time_of_all_hops(topology: Topology) -> Fraction:
    """Time in M/B in which all links together can carry a piece over every shortest path."""
    hops = int(topology.distances().sum())
    useful = int(topology.speeds()[topology.tail != topology.head].sum())
    return topology.t_b(Fraction(hops, useful))


def _check_sizes(num_nodes: int, degree: int) -> None:
    if num_nodes < 1 or degree < 1:
        raise ValueError(f"N = {num_nodes}, d = {degree}: both must be at least 1")
