"""Forests on switches above switches: every one can be built and replayed, none has a valley."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.network import Network
from ocs_codesign.core.networks.builders import fat_tree
from ocs_codesign.core.networks.products import leaf_spine
from ocs_codesign.schedules.forest.building import forests_of
from ocs_codesign.schedules.forest.optimum import optimum
from ocs_codesign.schedules.registry import Task, made_by
from ocs_codesign.verification.forests import check_forests
from ocs_codesign.verification.schedules import verify

LEAF_SPINES = list(product((2, 3, 4, 5), (1, 2, 3), (1, 2, 3), (4,), (1, 2, 3, 4, 6)))
"""Leaves, hosts of a leaf, spines, width of a host, width of a spine's link: 180 of them."""


def heights(network):
    """Links from the nearest host to every node, found one by one."""
    height = dict.fromkeys(range(network.num_hosts), 0)
    rest = list(height)
    for node in rest:
        for tail, head in zip(network.tail.tolist(), network.head.tolist(), strict=True):
            if tail == node and head not in height:
                height[head] = height[node] + 1
                rest.append(head)
    return height


def valleys(forest):
    """The paths that rise after they fell."""
    network, found = forest.network, []
    height = heights(network)
    for first, last in zip(forest.path_start[:-1], forest.path_start[1:], strict=True):
        links = forest.link[first:last]
        nodes = [int(network.tail[links[0]]), *network.head[links].tolist()]
        if forest.is_sum:
            nodes = [int(network.head[links[0]]), *network.tail[links].tolist()]
        rises = np.diff([height[node] for node in nodes])
        if (np.diff(np.sign(rises)) > 0).any():
            found.append(nodes)
    return found


def check(network, collective):
    """Its forests are as fast as the optimum, lead through no valley, and replay."""
    for half in collective.halves():
        found = optimum(network, half)
        made = forests_of(found)
        assert check_forests(made, found.inv_rate) is None
        assert max(forest.inv_rate for forest in made) == found.inv_rate
        assert not [path for forest in made for path in valleys(forest)]
    made = made_by("forest", Task(network.topology(), collective, network=network))
    verdict = verify(made.schedule)
    assert verdict.ok, verdict.witness


@pytest.mark.parametrize("name", ["allgather", "reduce-scatter", "allreduce"])
@pytest.mark.parametrize("sizes", [(3, 3, 2, 4, 3), (4, 2, 3, 4, 2), (5, 3, 3, 4, 6)])
def test_leaf_spines_are_built(sizes, name):
    check(leaf_spine(*sizes), Collective(name))


@pytest.mark.slow
@pytest.mark.parametrize("index", range(len(LEAF_SPINES)))
def test_every_leaf_spine_is_built(index):
    name = ("allgather", "reduce-scatter", "allreduce")[index // 5 % 3]
    check(leaf_spine(*LEAF_SPINES[index]), Collective(name))


@pytest.mark.slow
def test_leaf_spines_with_wide_uplinks_are_built():
    check(leaf_spine(4, 8, 4, 100, 200), Collective("allgather"))


def random_tree_of_switches(seed):
    """Two or three levels of switches of random sizes and widths; a third have lost a cable."""
    rng = np.random.default_rng(seed)
    levels = int(rng.integers(2, 4))
    children = rng.integers(2, 4, levels).tolist()
    parents = [1, *rng.integers(1, 4 if levels == 2 else 3, levels - 1).tolist()]
    whole = fat_tree(children, parents, rng.integers(1, 7, levels).tolist())
    if seed % 3:
        return whole
    up = np.flatnonzero((whole.tail >= whole.num_hosts) & (whole.tail < whole.head))
    up = up[np.bincount(whole.tail[up])[whole.tail[up]] > 1]
    if not len(up):
        return whole
    lost = int(rng.choice(up))
    ends = (whole.tail[lost], whole.head[lost])
    kept = ~np.isin(whole.tail, ends) | ~np.isin(whole.head, ends)
    columns = (whole.tail[kept], whole.head[kept], whole.bandwidth[kept])
    return Network(whole.num_hosts, whole.num_nodes, *columns)


def check_any(seed):
    rng = np.random.default_rng(seed)
    network = random_tree_of_switches(seed)
    name = ("allgather", "reduce-scatter", "allreduce", "broadcast")[seed % 4]
    root = int(rng.integers(network.num_hosts)) if name == "broadcast" else None
    task = Task(network.topology(), Collective(name, root), network=network)
    verdict = verify(made_by("forest", task).schedule)
    assert verdict.ok, verdict.witness


@pytest.mark.parametrize("seed", range(12))
def test_switches_above_switches(seed):
    check_any(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12, 72))
def test_many_switches_above_switches(seed):
    check_any(seed)
