"""Fabrics for the tests of planes and embeddings: switches of any model, sizes and spares."""

from __future__ import annotations

import numpy as np

from ocs_codesign.circuits.change import Change
from ocs_codesign.core.cost import CostModel
from ocs_codesign.core.topology import Topology
from ocs_codesign.fabric.description import Fabric, PortModel, Switch, SwitchProfile


def profile(model, ports, loss_db=1.0):
    change = Change(0.025)
    return SwitchProfile("make", "piezo", model, ports, loss_db, change, None, None, ())


def fabric(
    hosts, planes, model=PortModel.SIMPLEX, *, spares=0, spare_hosts=0, budget_db=10.0, states=None
):
    """Planes of switches with so many ports a side; every switch keeps ``spares`` of them free."""
    switches = [
        Switch(f"p{plane}s{number}", plane, profile(model, ports), ports, spares, states)
        for plane, sizes in enumerate(planes)
        for number, ports in enumerate(sizes)
    ]
    return Fabric(
        "test",
        tuple(f"h{number}" for number in range(hosts)),
        spare_hosts,
        tuple(switches),
        CostModel(1e-6, 12.5e9),
        budget_db,
        0.5,
        0.5,
    )


def undirected(nodes, edges):
    """Both directions of every edge; an edge of a node with itself is two self-loops."""
    ends = np.array(edges, dtype=np.int32).reshape(-1, 2)
    both = np.stack([ends, ends[:, ::-1]], axis=1).reshape(-1, 2)
    return Topology(nodes, both[:, 0], both[:, 1])


def random_undirected(nodes, degree, seed, *, loops=False):
    """A random regular multigraph (nodes * degree even), parallel links and perhaps loops."""
    random = np.random.default_rng(seed)
    ends = np.repeat(np.arange(nodes), degree)
    for _ in range(10_000):
        pairs = random.permutation(ends).reshape(-1, 2)
        if loops or (pairs[:, 0] != pairs[:, 1]).all():
            return undirected(nodes, [tuple(pair) for pair in pairs.tolist()])
    raise RuntimeError("no multigraph without loops was drawn")


def random_directed(nodes, degree, seed):
    """The union of random permutations, in shuffled order: parallel links and loops happen."""
    random = np.random.default_rng(seed)
    tail = np.tile(np.arange(nodes), degree)
    head = np.concatenate([random.permutation(nodes) for _ in range(degree)])
    order = random.permutation(len(tail))
    return Topology(nodes, tail[order], head[order])


def pairs_of(topology):
    """The multiset of links, sorted."""
    return sorted(zip(topology.tail.tolist(), topology.head.tolist(), strict=True))
