"""Independent check of simulations: nothing before its time, one message at a time on a link."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.verification.sends import Witness

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from numpy.typing import NDArray

    from ocs_codesign.schedules.simulate.aggregating import AggregationJob, AggregationPlan
    from ocs_codesign.schedules.simulate.engine import Simulated


TOO_SOON = "this transfer begins before one that it waits for has ended"
OVERTAKES = "this transfer begins before the one before it on its pair"
NOT_THERE = "this transfer begins on a link before it has come to the node"
TAKEN = "this transfer begins while another one is on the link"
WRONG_ARRIVAL = "this transfer does not arrive when its last link has brought it"
WRONG_END = "this transfer does not end when what follows its arrival is over"
IDLE = "this transfer could have begun earlier: its link was free"
OUT_OF_TURN = "this transfer came to the link later than one that begins after it"


def check_simulated(simulated: Simulated) -> Witness | None:
    """The first transfer, as ``row``, that breaks a rule of its simulation; None if none does.

    What a message takes is computed anew, number by number. Nothing begins before what it waits for
    has ended, nor on a link before it has come to its tail; a link carries one message at a time.
    Where nodes take no time, nothing waits at a free link or behind what came later, so no
    transfer begins later than it must.

    >>> from ocs_codesign.core.network import Network
    >>> from ocs_codesign.schedules.simulate.engine import simulate_transfers
    >>> from ocs_codesign.schedules.simulate.transfers import TimingRules
    >>> from ocs_codesign.schedules.simulate.transfers import Transfers
    >>> line = Network(3, 3, [0, 1], [1, 2], [1, 1], [5, 5])
    >>> relay = Transfers(line, 8, [1, 1], [0, 1, 2], [0, 1], [0, 0, 1], [0])
    >>> check_simulated(simulate_transfers(relay, TimingRules(unit_Bps=10**9)))
    """
    return next(_faults(simulated), None)


def _faults(done: Simulated) -> Iterator[Witness]:
    """One witness of every rule that is broken, the first of its kind."""
    transfers, rules = done.transfers, done.rules
    num, hops = transfers.num_transfers, np.diff(transfers.path_start)
    owner = np.repeat(np.arange(num), hops)
    first = np.zeros(len(owner), dtype=bool)
    first[transfers.path_start[:-1][hops > 0]] = True
    last = np.append(first[1:], True)[: len(first)]
    busy, flight = _ticks(done, owner)
    may_begin = _may_begin(done)
    begin = done.arrival.copy()
    begin[owner[first]] = done.hop_start[first]
    yield from _where(begin < may_begin, TOO_SOON)
    previous = np.flatnonzero(transfers.previous >= 0)
    gap = begin[previous] - begin[transfers.previous[previous]]
    yield from _where(gap < 0, OVERTAKES, previous)

    came, whole = _came(done, owner, first, busy, flight, may_begin)
    link = transfers.path_link
    yield from _where(done.hop_start < came, NOT_THERE, owner, link)
    leaves = np.maximum(done.hop_start + busy, whole)
    brings = leaves + flight - busy
    free = brings if rules.blocking else leaves
    order = np.lexsort((came, free, done.hop_start, link))
    same = np.diff(link[order], prepend=-1) == 0
    free_before = np.where(same, np.roll(free[order], 1), 0)
    start = done.hop_start[order]
    yield from _where(start < free_before, TAKEN, owner[order], link[order])
    own = np.arange(num)[hops > 0]
    late = done.arrival[own] - brings[last]
    is_wrong = late != 0 if rules.injection_Bps is None else late < 0
    yield from _where(is_wrong, WRONG_ARRIVAL, own)
    late = done.end - done.arrival - transfers.compute
    yield from _where(late != 0 if rules.is_free_at_ends else late < 0, WRONG_END)
    if rules.is_free_at_ends and not rules.pipelined:
        yield from _where(start > np.maximum(came[order], free_before), IDLE, owner[order])
        turns = same & (came[order] < np.roll(came[order], 1))
        yield from _where(turns, OUT_OF_TURN, owner[order], link[order])
        yield from _where((begin != may_begin) & (hops == 0), IDLE)


def _where(
    broken: NDArray[np.bool_],
    rule: str,
    row: NDArray[np.int64] | None = None,
    link: NDArray[np.int32] | None = None,
) -> Iterator[Witness]:
    if broken.any():
        at = int(broken.argmax())
        yield Witness(
            rule,
            row=at if row is None else int(row[at]),
            link=None if link is None else int(link[at]),
        )


def _may_begin(done: Simulated) -> NDArray[np.int64]:
    """When all that each transfer waits for has ended, and the one before it has arrived."""
    transfers = done.transfers
    at = np.zeros(transfers.num_transfers, dtype=np.int64)
    who = np.repeat(np.arange(len(at)), np.diff(transfers.wait_start))
    np.maximum.at(at, who, done.end[transfers.wait_for])
    if not done.rules.pipelined:
        chained = np.flatnonzero(transfers.previous >= 0)
        at[chained] = np.maximum(at[chained], done.arrival[transfers.previous[chained]])
    return at


def _ticks(
    done: Simulated, owner: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ticks of every hop until it has left its link, and until it has arrived."""
    transfers, rules = done.transfers, done.rules
    network = transfers.network
    size, link = transfers.size[owner], transfers.path_link
    asked = np.stack([size, network.bandwidth[link], network.latency[link]], axis=1)
    kinds, which = np.unique(asked, axis=0, return_inverse=True)
    found = np.zeros((len(kinds), 2), dtype=np.int64)
    for at, (chunks, bandwidth, latency) in enumerate(kinds.tolist()):
        num_bytes: Fraction = chunks * transfers.chunk_bytes
        rate: Fraction = bandwidth * rules.unit_Bps * network.tick_s
        lasts = float(num_bytes) / float(rate) if rules.in_doubles else num_bytes / rate
        lasts = ceil(lasts) if rules.rounds_up else lasts
        found[at] = int(lasts), int(latency + lasts)
    return found[which.ravel(), 0], found[which.ravel(), 1]


def _came(
    done: Simulated,
    owner: NDArray[np.int64],
    first: NDArray[np.bool_],
    busy: NDArray[np.int64],
    flight: NDArray[np.int64],
    may_begin: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """When every hop's message may go on from the tail of its link, and when it is whole there."""
    came = np.where(first, may_begin[owner], 0)
    whole = came.copy()
    rest = np.flatnonzero(~first)
    if not done.rules.cut_through:
        came[rest] = whole[rest] = done.hop_start[rest - 1] + flight[rest - 1]
        return came, whole
    latency = flight - busy
    came[rest] = done.hop_start[rest - 1] + latency[rest - 1]
    place = np.arange(len(owner)) - done.transfers.path_start[owner]
    for hop in range(1, int(place.max(initial=0)) + 1):
        at = np.flatnonzero(place == hop)
        leaves = np.maximum(done.hop_start[at - 1] + busy[at - 1], whole[at - 1])
        whole[at] = leaves + latency[at - 1]
    return came, whole


# Independent check of sums in the network: every host's part once, in slots that are there.


TOO_EARLY = "this sum begins before a packet that belongs to it has come"
NOT_ALL = "this result does not hold what every host sent exactly once"
NOT_ADDED = "this packet leaves a switch before its sum is made"
SLOT_TAKEN = "this sum begins before the result that had its slot was copied to all"
TOO_MANY_SLOTS = "more sums are under way in this switch than its pool has slots"
TOO_MANY_PACKETS = "this host has more packets on their way than its window"
NO_TREE = "what adds up is no tree below this root"
NOT_JOINED = "the links of the tree do not lead from this node to the one above it and back"
WRONG_WAY = "this packet does not take the links of its tree"


def check_aggregation(plan: AggregationPlan, done: Simulated) -> Witness | None:
    """The first packet, as ``row``, that breaks a rule of sums in the network; None if none does.

    What a switch sends up or down is followed from the hosts on, by the times of its arrivals: all
    results hold the part of every host once, and come to every host. A sum holds a slot from when
    the first of its packets is there, and the slot is free, until all copies of the result have
    come below; no switch has more of these than slots, no host more packets on their way than the
    window, or two of them where a host of its box adds up first. Such a host is node ``num_nodes``
    and its number; it has memory of its own.
    """
    return next(_aggregation_faults(plan, done), None)


def _aggregation_faults(plan: AggregationPlan, done: Simulated) -> Iterator[Witness]:
    held: dict[int, list[tuple[NDArray[np.int64], NDArray[np.int64]]]] = {}
    for number, job in enumerate(plan.jobs):
        if job.num_packets:
            yield from _faults_of(plan, done, number, job, held)
    for switch, spans in held.items():
        begin = np.concatenate([span[0] for span in spans])
        end = np.concatenate([span[1] for span in spans])
        time = np.concatenate([end, begin])
        change = np.repeat([-1, 1], len(begin))
        # What is free at a tick may be taken at that tick.
        order = np.lexsort((change, time))
        if (np.cumsum(change[order]) > plan.profile.num_slots).any():
            yield Witness(TOO_MANY_SLOTS, node=switch)


def _faults_of(
    plan: AggregationPlan,
    done: Simulated,
    number: int,
    job: AggregationJob,
    held: dict[int, list[tuple[NDArray[np.int64], NDArray[np.int64]]]],
) -> Iterator[Witness]:
    first, each, packets = plan.first[number], job.num_transfers, job.num_packets
    span = slice(first, first + each * packets)
    start, end = (column[span].reshape(packets, each) for column in (done.start, done.end))
    child, parent = job.tree.child.tolist(), job.tree.parent.tolist()
    adders = list(dict.fromkeys(parent))
    down = len(child) + len(adders)
    yield from _ways(plan, job, span)

    rank = {host: at for at, host in enumerate(child) if host not in adders}
    holds: dict[int, NDArray[np.int64]] = {
        host: np.eye(1, len(rank), at, dtype=np.int64)[0] for at, host in enumerate(sorted(rank))
    }
    knows: dict[int, NDArray[np.int64]] = {}
    order = _upwards(child, parent, job.tree.root)
    if order is None:
        yield Witness(NO_TREE, node=job.tree.root)
        return
    for adder in order:
        below = [at for at, node in enumerate(parent) if node == adder]
        summed = len(child) + adders.index(adder)
        yield from _late(
            start[:, summed] < end[:, below].max(axis=1), TOO_EARLY, first, each, summed
        )
        holds[adder] = sum((holds[child[at]] for at in below), np.zeros(len(rank), np.int64))
        if adder >= plan.num_nodes:  # a host, which has memory of its own
            if adder - plan.num_nodes not in {child[at] for at in below}:
                yield Witness(NOT_ALL, node=adder - plan.num_nodes)
            continue
        copied = end[:, [down + at for at in below]].max(axis=1)
        free = np.concatenate([np.zeros(job.num_slots, np.int64), copied])[:packets]
        yield from _late(start[:, summed] < free, SLOT_TAKEN, first, each, summed)
        held.setdefault(adder, []).append((np.maximum(end[:, below].min(axis=1), free), copied))
    if (holds[job.tree.root] != 1).any():
        yield Witness(NOT_ALL, node=job.tree.root)
    knows[job.tree.root] = holds[job.tree.root]
    for above in reversed(order):
        made = len(child) + adders.index(above)
        if above != job.tree.root:
            made = down + child.index(above)
        for at in (at for at, node in enumerate(parent) if node == above):
            node = child[at]
            yield from _late(start[:, down + at] < end[:, made], NOT_ADDED, first, each, down + at)
            knows[node] = knows[above]
            if node not in rank:
                own = len(child) + adders.index(node)
                yield from _late(start[:, at] < end[:, own], NOT_ADDED, first, each, at)
            if node in adders and node < plan.num_nodes:
                continue
            # Below a host that adds up, one window more is inside of the box.
            flying = min(plan.profile.window, job.num_slots)
            if above >= plan.num_nodes:
                if node not in rank:
                    continue
                flying *= 2
            early = start[flying:, at] < end[:, down + at][: max(packets - flying, 0)]
            yield from _late(early, TOO_MANY_PACKETS, first + flying * each, each, at)
    if any((knows[host] != 1).any() for host in rank):
        yield Witness(NOT_ALL)


def _upwards(child: list[int], parent: list[int], root: int) -> list[int] | None:
    """What adds up, each after all that is below it and the root last; None if it is no tree."""
    above = dict(zip(child, parent, strict=True))
    adders = set(parent)
    depth: dict[int, int] = {}
    for adder in adders:
        node, links = adder, 0
        while node != root:
            if node not in above or links > len(child):
                return None
            node, links = above[node], links + 1
        depth[adder] = links
    if len(above) < len(child) or root in above:
        return None
    return sorted(adders, key=lambda adder: (-depth[adder], adder))


def _ways(plan: AggregationPlan, job: AggregationJob, span: slice) -> Iterator[Witness]:
    """All packets take the links of the tree; what is behind a node comes before or after."""
    transfers, tree = plan.transfers, job.tree
    path, starts = transfers.path_link, transfers.path_start[span.start : span.stop + 1]
    network = transfers.network
    is_real = np.maximum(network.tail, network.head) < plan.num_nodes
    num_sums = len(set(tree.parent.tolist()))
    hosts = plan.num_nodes
    wanted = [*tree.up, *[()] * num_sums, *tree.down]
    tail, head = network.tail.tolist(), network.head.tolist()
    pairs = zip(tree.child.tolist(), tree.parent.tolist(), tree.up, tree.down, strict=True)
    for at, (child, parent, up, down) in enumerate(pairs):
        own = parent == hosts + child  # what a host adds up itself is there
        at_child, at_parent = (node - hosts if node >= hosts else node for node in (child, parent))
        for links, begin, end in ((up, at_child, at_parent), (down, at_parent, at_child)):
            if own and not links:
                continue
            met = [begin, *(head[link] for link in links)]
            if own or not links or met[:-1] != [tail[link] for link in links] or met[-1] != end:
                yield Witness(NOT_JOINED, row=span.start + at, node=child)
    for at, way in enumerate(wanted):
        taken = path[starts[at] : starts[at + 1]]
        if taken[is_real[taken]].tolist() != list(way):
            yield Witness(WRONG_WAY, row=span.start + at)
    lengths = np.diff(starts).reshape(-1, job.num_transfers)
    rows = path[starts[0] : starts[-1]]
    if (lengths != lengths[0]).any() or (
        rows.reshape(len(lengths), -1) != rows[: lengths[0].sum()]
    ).any():
        yield Witness(WRONG_WAY, row=span.start)


def _late(
    broken: NDArray[np.bool_], rule: str, first: int, each: int, column: int
) -> Iterator[Witness]:
    if broken.any():
        yield Witness(rule, row=first + int(broken.argmax()) * each + column)
