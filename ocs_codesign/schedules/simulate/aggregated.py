"""Sums in the network on the clock: all packets of a message, or as many as repeat themselves."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.networks.aggregation import HOST, POOL, SWITCH
from ocs_codesign.core.networks.aggregation_trees import aggregation_trees
from ocs_codesign.schedules.simulate.aggregating import (
    MAX_HOPS,
    AggregationJob,
    aggregation_plan,
    senders,
    shared_slots,
)
from ocs_codesign.schedules.simulate.engine import simulate_transfers
from ocs_codesign.schedules.simulate.transfers import TimingRules, with_fine_ticks
from ocs_codesign.verification.simulated import check_aggregation, check_simulated

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.core.network import Network
    from ocs_codesign.core.networks.aggregation import AggregationProfile, AggregationTree
    from ocs_codesign.schedules.simulate.aggregating import AggregationPlan
    from ocs_codesign.schedules.simulate.engine import Simulated


_SAMPLED = 8
_FIRST_WINDOWS = 4
"""Pools of packets that are simulated before one looks whether they repeat themselves."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class TreeRun:
    """One tree's part of an allreduce: its job, its round trip, and what limits it.

    ``limits_Bps`` are bytes of the message a second by limit; after ``total_ticks`` the last host
    has the last of its packets.
    """

    job: AggregationJob
    round_trip_s: Fraction
    limits_Bps: dict[str, Fraction]  # noqa: N815 - units keep their case
    total_ticks: int

    @property
    def rate_Bps(self) -> Fraction:  # noqa: N802
        """Bytes of the message a second, of long messages."""
        return min(self.limits_Bps.values())

    @property
    def limit(self) -> str:
        """What decides the rate."""
        return min(self.limits_Bps, key=lambda name: self.limits_Bps[name])


@final
@dataclass(frozen=True, slots=True, eq=False)
class Aggregated:
    """An allreduce that switches add up, on the clock: one run a tree, and what they take."""

    network: Network
    profile: AggregationProfile
    runs: tuple[TreeRun, ...]
    num_packets: int
    total_ticks: int
    num_simulated: int
    is_exact: bool = True

    @property
    def total_s(self) -> Fraction:
        """Seconds until the last host has the last result."""
        return self.total_ticks * self.network.tick_s

    @property
    def rate_Bps(self) -> Fraction:  # noqa: N802
        """Bytes of a long message a second, over all trees."""
        return sum((run.rate_Bps for run in self.runs), Fraction(0))


def simulate_plan(plan: AggregationPlan) -> Simulated:
    """The packets of a plan on the clock, all checked; RuntimeError for a wrong simulation."""
    rules = TimingRules(unit_Bps=plan.unit_Bps, pipelined=True, rounds_up=True)
    done = simulate_transfers(plan.transfers, rules)
    witness = check_simulated(done) or check_aggregation(plan, done)
    if witness is not None:
        raise RuntimeError(f"the aggregation fails: {witness}")
    return done


def simulate_aggregation(
    network: Network,
    profile: AggregationProfile,
    unit_Bps: Fraction,  # noqa: N803
    message_bytes: Fraction | float,
    trees: Sequence[AggregationTree] | None = None,
    slots: Sequence[int] | None = None,
) -> Aggregated:
    """An allreduce of M = ``message_bytes`` over trees of switches, each with its part of M.

    The trees are those of ``aggregation_trees`` unless others are given; M is divided in proportion
    to their rates. Trees that meet at a switch share its pool evenly, unless their ``slots`` are
    given; what it adds up, and what hosts convert, in proportion to their bandwidth. Where a tree
    meets no other, packets are simulated until they repeat themselves; the rest follows exactly.
    Of trees that meet all packets are simulated, or as many as can be: then the result is not
    ``is_exact``, and what the later half of them took is what the rest takes. Raises ValueError
    where no tree joins the hosts.
    """
    network = with_fine_ticks(network)
    trees = _with_slots(profile, aggregation_trees(network)) if trees is None else tuple(trees)
    slots = shared_slots(profile, trees) if slots is None else slots
    adding = _least_shares(trees, [tree.switches for tree in trees])
    converting = _least_shares(trees, [senders(tree) for tree in trees])
    found = []
    for at, (tree, num_slots) in enumerate(zip(trees, slots, strict=True)):
        trip_s, held_s = round_trips_s(network, profile, unit_Bps, tree, num_slots)
        link_Bps = tree.bandwidth * unit_Bps  # noqa: N806
        limits = profile.limits_Bps(link_Bps, held_s, num_slots)
        if tree.adding_hosts and POOL in limits:
            # Two windows go round the whole way where only one is in the network.
            whole = profile.limits_Bps(link_Bps, trip_s, num_slots)
            limits[POOL] = min(limits[POOL], 2 * whole[POOL])
        for name, share in ((SWITCH, adding[at]), (HOST, converting[at])):
            if name in limits:
                limits[name] *= share
        found.append((tree, num_slots, trip_s, limits))
    packets = _divided(
        profile.num_packets(message_bytes), [min(limits.values()) for *_, limits in found]
    )
    jobs = [
        AggregationJob(tree, number, num_slots)
        for (tree, num_slots, *_), number in zip(found, packets, strict=True)
    ]
    ticks, num_simulated, is_exact = _ticks(network, profile, unit_Bps, jobs)
    runs = tuple(
        TreeRun(job, trip_s, limits, end)
        for job, (*_, trip_s, limits), end in zip(jobs, found, ticks, strict=True)
    )
    total = sum(packets)
    return Aggregated(network, profile, runs, total, max(ticks), num_simulated, is_exact)


def round_trips_s(
    network: Network,
    profile: AggregationProfile,
    unit_Bps: Fraction,  # noqa: N803
    tree: AggregationTree,
    num_slots: int = 1,
) -> tuple[Fraction, Fraction]:
    """Seconds of a packet alone over a tree and back, and of them in slots of its switches."""
    alone = aggregation_plan(network, profile, unit_Bps, [AggregationJob(tree, 1, num_slots)])
    once = simulate_plan(alone)
    return once.total_s, _held_s(alone, once)


def _least_shares(
    trees: Sequence[AggregationTree], places: Sequence[Iterable[int]]
) -> list[Fraction]:
    """What each tree has of its places, by bandwidth, where it has least."""
    total: dict[int, Fraction] = {}
    for tree, nodes in zip(trees, places, strict=True):
        for node in nodes:
            total[node] = total.get(node, Fraction(0)) + tree.bandwidth
    return [
        min((tree.bandwidth / total[node] for node in nodes), default=Fraction(1))
        for tree, nodes in zip(trees, places, strict=True)
    ]


def _with_slots(
    profile: AggregationProfile, trees: tuple[AggregationTree, ...]
) -> tuple[AggregationTree, ...]:
    """The first of the trees, as many as have a slot of each of their switches."""
    while len(trees) > 1 and min(shared_slots(profile, trees)) < 1:
        trees = trees[:-1]
    return trees


def _held_s(plan: AggregationPlan, done: Simulated) -> Fraction:
    """Seconds from when a window of a packet alone begins until its result is back, at most.

    It is that of hosts that send to switches; where hosts add up first, the rest is outside.
    """
    tree = plan.jobs[0].tree
    if not tree.adding_hosts:
        return done.total_s
    switches, down = set(tree.switches), len(tree.child) + len(tree.adders)
    senders = [at for at, node in enumerate(tree.parent.tolist()) if node in switches]
    ticks = max(int(done.end[down + at] - done.start[at]) for at in senders)
    return ticks * done.transfers.network.tick_s


def _divided(number: int, rates: Sequence[Fraction]) -> list[int]:
    """So many packets in proportion to rates: every share is within one of its part.

    >>> _divided(10, [Fraction(1), Fraction(1), Fraction(2)])
    [3, 2, 5]
    """
    total = sum(rates, Fraction(0))
    exact = [number * rate / total for rate in rates]
    whole = [int(share) for share in exact]
    order = sorted(range(len(rates)), key=lambda at: (whole[at] - exact[at], at))
    for at in order[: number - sum(whole)]:
        whole[at] += 1
    return whole


def _ticks(
    network: Network,
    profile: AggregationProfile,
    unit_Bps: Fraction,  # noqa: N803
    jobs: Sequence[AggregationJob],
) -> tuple[list[int], int, bool]:
    """When each job has ended, how many packets were simulated for that, and if it is exact.

    It is not where jobs meet that have more packets than can be simulated.
    """
    users = [
        {
            *(("link", link) for link in job.tree.link_loads()),
            *(("switch", switch) for switch in job.tree.switches),
            *(("host", host) for host in senders(job.tree)),
        }
        for job in jobs
    ]
    if sum(map(len, users)) == len(set().union(*users)):
        ends = [_repeating_ticks(network, profile, unit_Bps, job) for job in jobs]
        return [end for end, _ in ends], sum(number for _, number in ends), True
    packets = [job.num_packets for job in jobs]
    hops = max(map(_hops, jobs))
    if sum(packets) * hops <= MAX_HOPS:
        return _joint_ticks(network, profile, unit_Bps, jobs), sum(packets), True
    runs = []
    sampled = max(2 * len(jobs), MAX_HOPS // _SAMPLED // hops)
    for number in (sampled // 2, sampled):
        fewer = _divided(number, [Fraction(many) for many in packets])
        some = [replace(job, num_packets=few) for job, few in zip(jobs, fewer, strict=True)]
        runs.append((fewer, _joint_ticks(network, profile, unit_Bps, some)))
    found = []
    for at, number in enumerate(packets):
        (before, first), (after, second) = ((fewer[at], ends_of[at]) for fewer, ends_of in runs)
        slope = Fraction(second - first, max(1, after - before))
        found.append(second + ceil((number - after) * slope))
    return found, sampled, False


def _hops(job: AggregationJob) -> int:
    """Transfers and hops of a packet."""
    return job.num_transfers + sum(map(len, (*job.tree.up, *job.tree.down)))


def _joint_ticks(
    network: Network,
    profile: AggregationProfile,
    unit_Bps: Fraction,  # noqa: N803
    jobs: Sequence[AggregationJob],
) -> list[int]:
    """When each of the jobs has ended, all of their packets simulated together."""
    plan = aggregation_plan(network, profile, unit_Bps, jobs)
    end = simulate_plan(plan).end
    bounds = [*plan.first, len(end)]
    return [int(end[a:b].max(initial=0)) for a, b in itertools.pairwise(bounds)]


def _repeating_ticks(
    network: Network,
    profile: AggregationProfile,
    unit_Bps: Fraction,  # noqa: N803
    job: AggregationJob,
) -> tuple[int, int]:
    """When a job that meets no other has ended, and how many of its packets were simulated.

    The packets of a pool begin as those of the pool before have left everything. If two pools of
    packets differ by one time everywhere, all that follow do, but for the last, which end alike.
    """
    # Where boxes add up first, a packet may wait for one of two pools before.
    windows, period = _FIRST_WINDOWS, job.num_slots * (2 if job.tree.adding_hosts else 1)
    while True:
        number = min(
            job.num_packets, windows * period + (job.num_packets - windows * period) % period
        )
        short = AggregationJob(job.tree, number, job.num_slots)
        plan = aggregation_plan(network, profile, unit_Bps, [short])
        done = simulate_plan(plan)
        if number == job.num_packets:
            return done.total_ticks, number
        shift = _shift(done, job, number, period)
        if shift is not None:
            return done.total_ticks + (job.num_packets - number) // period * shift, number
        windows *= 2


def _shift(done: Simulated, job: AggregationJob, number: int, period: int) -> int | None:
    """Ticks from a period of packets to the next, if all of both differ by as many; None if not."""
    hops = len(done.hop_start) // number
    shifts: set[int] = set()
    columns: tuple[tuple[NDArray[np.int64], int], ...] = (
        (done.hop_start, hops),
        (done.arrival, job.num_transfers),
        (done.end, job.num_transfers),
    )
    for column, each in columns:
        rows = column.reshape(number, each)
        last = number - period
        later, earlier = rows[last - period : last], rows[last - 2 * period : last - period]
        shifts.update(np.unique(later - earlier).tolist())
    return shifts.pop() if len(shifts) == 1 else None
