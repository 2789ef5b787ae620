"""Seeded random networks with switches: rates against all cuts, forests built and replayed.

A seed makes a network of one of three kinds (balanced, with a link lost, any) and a demand of one
of four (all hosts, weights, one root, a group or two). The oracle is a program with every cut
written out, in floats.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import linprog

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.demand import demand_of
from ocs_codesign.core.network import Network
from ocs_codesign.schedules.forest.building import forests, forests_of
from ocs_codesign.schedules.forest.optimum import optimum
from ocs_codesign.schedules.forest.packing import exactly, few_trees
from ocs_codesign.schedules.forest.pipeline import (
    Pipeline,
    allreduce_at_once,
    allreduce_optimum,
    partition_bound,
)
from ocs_codesign.schedules.forest.task import group_tasks
from ocs_codesign.verification.forests import check_forests
from ocs_codesign.verification.schedules import verify

BALANCED, DAMAGED, ANY = range(3)
FAST, ALL = range(36), range(36, 300)


def random_network(rng, kind):
    """Rounds of random widths through hosts and switches: as much leads into a node as out."""
    hosts, switches = int(rng.integers(2, 5)), int(rng.integers(1, 3))
    nodes, width = hosts + switches, {}
    for at in range(int(rng.integers(1, 5))):
        size = nodes if not at else int(rng.integers(2, nodes + 1))
        walk = rng.permutation(nodes)[:size].tolist()
        wide = int(rng.integers(1, 9))
        for pair in zip(walk, walk[1:] + walk[:1], strict=True):
            width[pair] = width.get(pair, 0) + wide
    if kind == DAMAGED and len(width) > nodes:
        del width[list(width)[int(rng.integers(len(width)))]]
    if kind == ANY:
        width = {pair: int(rng.integers(1, 9)) for pair in width}
    ends = np.array([(*pair, wide) for pair, wide in width.items()])
    return Network(hosts, nodes, *ends.T)


def random_collective(rng, hosts):
    """An allgather or its mirror, equal or not; a broadcast or a reduction; over groups or all."""
    name = str(rng.choice(["allgather", "reduce-scatter"]))
    kind = int(rng.integers(4))
    if kind == 1:
        sizes = rng.integers(0, 4, hosts)
        sizes[int(rng.integers(hosts))] = 2
        return Collective(name, sizes=sizes.tolist())
    if kind == 2:
        return Collective(str(rng.choice(["broadcast", "reduce"])), root=int(rng.integers(hosts)))
    if kind == 3 and hosts == 4:
        groups = [rng.permutation(4).tolist()]
        split = [groups[0][:2], groups[0][2:]]
        return Collective(name, groups=split if rng.integers(2) else [groups[0][:3]])
    return Collective(name)


def drawn(seed):
    rng = np.random.default_rng(seed)
    network = random_network(rng, seed % 3)
    return rng, network, random_collective(rng, network.num_hosts)


def by_every_cut(network, demand):
    """The best rate with all cuts of all groups written out."""
    tasks = group_tasks(network, demand)
    links, nodes = network.num_links, network.num_nodes
    columns = 1 + links * len(tasks)
    most, limit, balance = [], [], []
    for at, task in enumerate(tasks):
        tail, head = task.ends(network)
        is_rank, weight, first = task.problem.is_rank, task.problem.weight, 1 + links * at
        for inside in (set(c) for n in range(1, nodes) for c in combinations(range(nodes), n)):
            sent = int(weight[sorted(inside)].sum())
            if sent and not set(np.flatnonzero(is_rank).tolist()) <= inside:
                row = np.zeros(columns)
                row[0] = sent
                row[first : first + links] = [
                    -(int(a) in inside and int(b) not in inside)
                    for a, b in zip(tail, head, strict=True)
                ]
                most.append(row)
                limit.append(0)
        for node in np.flatnonzero(~is_rank).tolist():
            row = np.zeros(columns)
            row[first : first + links] = (head == node) * 1.0 - (tail == node)
            balance.append(row)
    for link in range(links):
        row = np.zeros(columns)
        row[1 + link :: links] = 1
        most.append(row)
        limit.append(int(network.bandwidth[link]))
    equal = (np.array(balance), np.zeros(len(balance))) if balance else (None, None)
    return -linprog([-1.0] + [0.0] * (columns - 1), np.array(most), limit, *equal).fun


def check_rate(seed):
    """The rate is that of all cuts; widths, names and one more link do to it what they should."""
    rng, network, collective = drawn(seed)
    least = by_every_cut(network, demand_of(collective, network.num_hosts))
    if least < 1e-9:
        with pytest.raises(ValueError, match="cannot be reached"):
            optimum(network, collective)
        return None
    found = optimum(network, collective)
    assert float(found.rate) == pytest.approx(least, rel=1e-6)
    shape = (network.num_hosts, network.num_nodes)
    ends = (network.tail, network.head)
    wider = Network(*shape, *ends, network.bandwidth * 7)
    assert optimum(wider, collective).rate == 7 * found.rate
    order = rng.permutation(network.num_links)
    switches = np.arange(network.num_nodes)
    switches[network.num_hosts :] = rng.permutation(switches[network.num_hosts :])
    renamed = Network(*shape, *(switches[end][order] for end in ends), network.bandwidth[order])
    assert optimum(renamed, collective).rate == found.rate
    pair = rng.permutation(network.num_nodes)[:2]
    more = [np.append(end, node) for end, node in zip(ends, pair, strict=True)]
    added = Network(*shape, *more, np.append(network.bandwidth, 3))
    assert optimum(added, collective).rate >= found.rate
    return network, collective, found


def check_built(collective, found):
    """The forests are right and as fast; replayed where their trees are not too many."""
    made = forests_of(found)
    assert check_forests(made, found.inv_rate) is None
    pipeline = Pipeline(made, collective)
    if pipeline.num_chunks(2) > 20_000:
        return
    schedule = pipeline.schedule(2)
    assert schedule.steady_state_t_b() <= found.t_b
    verdict = verify(schedule, pipeline.cost(2))
    assert verdict.ok, verdict.witness


def check_few(network, collective, found):
    """A tree takes one of a link: rounded capacities are balanced again, within the guarantee."""
    if len(found.tasks) > 1:
        with pytest.raises(ValueError, match="groups share"):
            few_trees(found, 1)
        return
    needed = min(part for part in found.parts(0) if part)
    for number in range(1, min(3, found.trees[1]) + 1):
        few = exactly(found, number)
        assert few.num_trees == number
        assert few.inv_rate - found.inv_rate <= 1 / (number * needed)
        assert (few.capacity <= network.bandwidth * few.scale).all()
    best = few_trees(found, 3)
    made = forests(network, collective, num_trees=3)
    assert check_forests(made, best.inv_rate) is None


def check_allreduce(network):
    """Both halves at once do what no shares of the links exceed, and no less than in turn."""
    try:
        rates = [optimum(network, half).inv_rate for half in Collective.ALLREDUCE.halves()]
    except ValueError:
        return
    sized, found = allreduce_at_once(network)
    assert found.algbw == allreduce_optimum(network) >= network.num_hosts / sum(rates)
    assert partition_bound(network) >= found.algbw
    check_built(sized, found)


def check_all(seed):
    told = check_rate(seed)
    if told is None:
        return
    check_built(*told[1:])
    check_few(*told)
    if seed % 2 == 0:
        check_allreduce(told[0])


@pytest.mark.parametrize("seed", FAST)
def test_random_networks(seed):
    check_all(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", ALL)
def test_more_random_networks(seed):
    check_all(seed)


def test_the_networks_are_of_all_kinds():
    """Balanced and not, reachable and not, with every demand, and rounding that needs repair."""
    drawn_all = [drawn(seed)[1:] for seed in (*FAST, *ALL)]
    demands = {
        (c.name, c.sizes is not None, 0 if c.groups is None else len(c.groups))
        for _, c in drawn_all
    }
    assert len(demands) == 10
    repaired = unbalanced = 0
    for network, collective in drawn_all[:40]:
        try:
            found = optimum(network, collective)
        except ValueError:
            continue
        unbalanced += found.shares is not None
        if len(found.tasks) == 1:
            few = exactly(found, 1)
            rounded = [int(part * few.scale) for part in found.parts(0)]
            repaired += few.capacity.tolist() != rounded
    assert min(repaired, unbalanced) > 3


def test_rounded_widths_are_balanced_again():
    """Six links of 1 in, two of 3 out: at 3/4 they are rounded to 0 and 2, at 1 all are whole."""
    ends = [(host, 6, 1) for host in range(6)] + [(6, 0, 3), (6, 1, 3)]
    ring = [(host, (host + 1) % 6, 2) for host in range(6)]
    network = Network(6, 7, *np.array(ends + ring).T)
    found = optimum(network, Collective.ALLGATHER)
    few = exactly(found, 1)
    into = few.capacity[network.head == 6].sum()
    assert into == few.capacity[network.tail == 6].sum()
    assert found.inv_rate <= few.inv_rate <= found.inv_rate + Fraction(1)
    (made,) = forests(network, Collective.ALLGATHER, num_trees=1)
    assert check_forests([made], few.inv_rate) is None
