"""Random states of planes, topologies near them, and oracles of their own."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np

from ocs_codesign.core.topology import Topology
from ocs_codesign.fabric.description import PortModel


def random_state(num_planes, nodes, random):
    """Permutations, one a plane."""
    return np.array([random.permutation(nodes) for _ in range(num_planes)], dtype=np.int32)


def near_topology(state, num_swaps, random):
    """The links of a state with some heads exchanged, in random order: as regular as before."""
    planes, nodes = state.shape
    tail, head = np.tile(np.arange(nodes), planes), state.ravel().copy()
    for _ in range(num_swaps):
        i, j = random.integers(len(head), size=2)
        head[i], head[j] = head[j], head[i]
    order = random.permutation(len(head))
    return Topology(nodes, tail[order], head[order])


def most_kept_by_force(state, topology):
    """One-way circuits kept at most: all choices of a plane for every link, one after the other."""
    links = list(zip(topology.tail.tolist(), topology.head.tolist(), strict=True))
    table = {frozenset(): 0}
    for tail, head in links:
        longer = {}
        for used, kept in table.items():
            for plane in range(len(state)):
                ports = {(plane, "a", tail), (plane, "b", head)}
                if not ports & used:
                    key = used | ports
                    value = kept + (state[plane][tail] == head)
                    longer[key] = max(longer.get(key, -1), value)
        table = longer
    return max(table.values())


def most_kept_two_way(state, pairs, port_model):
    """The same for two-way circuits, which may also be turned where there are two sides."""
    table = {frozenset(): 0}
    for u, v in pairs:
        longer = {}
        ways = {(u, v), (v, u)} if port_model is PortModel.TWO_SIDED else {(u, v)}
        for (used, kept), plane, (a, b) in product(table.items(), range(len(state)), sorted(ways)):
            second = "b" if port_model is PortModel.TWO_SIDED else "a"
            ports = {(plane, "a", a), (plane, second, b)}
            if not ports & used:
                key = used | ports
                longer[key] = max(longer.get(key, -1), kept + (state[plane][a] == b))
        table = longer
    return max(table.values())


def most_kept_anywhere(state, topology):
    """The most over all placements of nodes on hosts."""
    return max(
        most_kept_by_force(state, topology.relabelled(host))
        for host in permutations(range(topology.num_nodes))
    )


def reaches_all(nodes, links):
    """Whether every node reaches every other one, by marking from each."""
    after = {node: set() for node in range(nodes)}
    for tail, head in links:
        after[tail].add(head)
    for start in range(nodes):
        seen, left = {start}, [start]
        while left:
            for head in after[left.pop()] - seen:
                seen.add(head)
                left.append(head)
        if len(seen) < nodes:
            return False
    return True
