"""Direct schedules of any demand, routes over one switch, and a slow judge of what arrives."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.core.demand import SUM, demands_of
from ocs_codesign.core.network import Routes
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.topology import Topology

if TYPE_CHECKING:
    from ocs_codesign.core.collective import Collective
    from ocs_codesign.core.demand import Demand
    from ocs_codesign.core.network import Network


def complete(hosts: int) -> Topology:
    """A link from every host to every other, by tail, then head."""
    pairs = [(tail, head) for tail in range(hosts) for head in range(hosts) if tail != head]
    return Topology(hosts, *zip(*pairs, strict=True))


def link_between(hosts: int, tail: int, head: int) -> int:
    """The link of ``complete`` from one host to another."""
    return tail * (hosts - 1) + head - (head > tail)


def over_star(network: Network) -> Routes:
    """The complete topology over a star: up one link, down another."""
    hosts = network.num_hosts
    pairs = [(tail, head) for tail in range(hosts) for head in range(hosts) if tail != head]
    links = [link for tail, head in pairs for link in (tail, hosts + head)]
    return Routes(complete(hosts), network, np.arange(0, len(links) + 1, 2), links)


def directly(collective: Collective, hosts: int, chunks: int = 1) -> Schedule:
    """Everything straight from where it is to where it must be, in one step a half."""
    demands = demands_of(collective, hosts)
    rows = [
        [*row, half + 1, half]
        for half, demand in enumerate(demands)
        for row in _straight(demand, hosts, chunks)
    ]
    item, lo, hi, link, step, phase = (
        np.array(column, dtype=int) for column in zip(*rows, strict=True)
    )
    largest = max(int(demand.item_weight().max()) for demand in demands)
    has_phase = phase if len(demands) > 1 else None
    return Schedule(
        complete(hosts), collective, largest * chunks, item, lo, hi, link, step, has_phase
    )


def _straight(demand: Demand, hosts: int, chunks: int) -> list[tuple[int, int, int, int]]:
    rows = []
    for item in range(demand.num_items):
        lo, root = 0, int(demand.root[item])
        for piece in range(demand.piece_start[item], demand.piece_start[item + 1]):
            hi = lo + int(demand.weight[piece]) * chunks
            for host in demand.hosts_of(piece).tolist():
                ends = (host, root) if demand.kind[item] == SUM else (root, host)
                if host != root and hi > lo:
                    rows.append((item, lo, hi, link_between(hosts, *ends)))
            lo = hi
    return rows


def arrives(schedule: Schedule) -> bool:
    """Whether everyone ends with what is demanded, followed chunk by chunk on hosts.

    What a host has of a chunk is the count of every host's contribution to it; a copied or moved
    chunk has one, its root's.
    """
    has: dict[tuple[int, int, int], Counter[int]] = {}
    for half, demand in enumerate(schedule.demands):
        wanted = _begin(schedule, demand, has)
        for step in range(1, schedule.num_steps + 1):
            before = {place: Counter(count) for place, count in has.items()}
            for row in np.flatnonzero(schedule.step == step).tolist():
                if schedule.phase is not None and schedule.phase[row] != half:
                    continue
                _send(schedule, demand, row, before, has)
        if any(has.get(place, Counter()) != count for place, count in wanted.items()):
            return False
    return True


def _begin(
    schedule: Schedule, demand: Demand, has: dict[tuple[int, int, int], Counter[int]]
) -> dict[tuple[int, int, int], Counter[int]]:
    """Puts everything where it is at first; returns what must be where in the end."""
    wanted = {}
    for item in range(demand.num_items):
        lo, root = 0, int(demand.root[item])
        for piece in range(demand.piece_start[item], demand.piece_start[item + 1]):
            hi = lo + int(demand.weight[piece]) * schedule.chunks_per_unit
            hosts = demand.hosts_of(piece).tolist()
            for chunk in range(lo, hi):
                if demand.kind[item] == SUM:
                    has.update({(host, item, chunk): Counter([host]) for host in hosts})
                    wanted[root, item, chunk] = Counter(hosts)
                else:
                    made = has.setdefault((root, item, chunk), Counter([root]))
                    wanted.update({(host, item, chunk): made for host in hosts})
            lo = hi
    return {place: Counter(count) for place, count in wanted.items()}


def _send(
    schedule: Schedule,
    demand: Demand,
    row: int,
    before: dict[tuple[int, int, int], Counter[int]],
    has: dict[tuple[int, int, int], Counter[int]],
) -> None:
    item, link = int(schedule.item[row]), int(schedule.link[row])
    tail, head = int(schedule.topology.tail[link]), int(schedule.topology.head[link])
    for chunk in range(int(schedule.lo[row]), int(schedule.hi[row])):
        sent = before.get((tail, item, chunk), Counter())
        if demand.kind[item] == SUM:
            has[head, item, chunk] = has.get((head, item, chunk), Counter()) + sent
        elif sent:
            has[head, item, chunk] = Counter(sent)
