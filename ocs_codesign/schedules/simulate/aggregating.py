"""Sums in the network as transfers: packets up to switches that add them up, results down again.

A packet is added up in a slot of its switch, number p in slot p modulo those of its job; results
go down the way that packets came up. A worker has so many packets on their way, and sends the next
one when the first is back; a switch begins a sum when the packets of all below have come, and when
the result that had the slot before has been copied to all below. What a switch and a host do one
after the other - adding up at a rate, converting - are links of their own behind them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.network import MAX_BANDWIDTH, MAX_LATENCY, Network
from ocs_codesign.schedules.simulate.transfers import ADD, BARRIER, COPY, Transfers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.core.networks.aggregation import AggregationProfile, AggregationTree


MAX_HOPS = 2**24
"""Transfers and hops of one simulation."""


@final
@dataclass(frozen=True, slots=True)
class AggregationJob:
    """Packets over one tree, in ``num_slots`` slots of each of its switches."""

    tree: AggregationTree
    num_packets: int
    num_slots: int

    @property
    def num_transfers(self) -> int:
        """Of one packet: up and down of all children, and a sum a switch."""
        return 2 * len(self.tree.child) + len(self.tree.adders)


@final
@dataclass(frozen=True, slots=True, eq=False)
class AggregationPlan:
    """Jobs whose packets share a network, as transfers of packets.

    Transfers of job j begin at ``first[j]``: packet after packet, those of one packet being the
    children's up, the sums of ``tree.adders``, and the children's down. ``unit_Bps`` is what a
    unit of bandwidth of the transfers' network is, which has ``num_nodes`` nodes and, after them,
    what takes turns inside of nodes.
    """

    jobs: tuple[AggregationJob, ...]
    profile: AggregationProfile
    transfers: Transfers
    first: tuple[int, ...]
    unit_Bps: Fraction  # noqa: N815 - units keep their case
    num_nodes: int


def aggregation_plan(
    network: Network,
    profile: AggregationProfile,
    unit_Bps: Fraction,  # noqa: N803
    jobs: Sequence[AggregationJob],
) -> AggregationPlan:
    """The transfers of these jobs; ValueError if a pool has fewer slots than they take of it."""
    _check_pools(profile, jobs)
    hops = sum(
        job.num_packets * (job.num_transfers + sum(map(len, (*job.tree.up, *job.tree.down))))
        for job in jobs
    )
    if hops > MAX_HOPS:
        raise ValueError(f"{hops:,} hops of packets: at most {MAX_HOPS:,} are simulated")
    wider, unit, behind = _with_engines(network, profile, unit_Bps, jobs)
    latency = profile.latency_s / network.tick_s
    if latency.denominator != 1 or latency > MAX_LATENCY:
        raise ValueError(
            f"latency_s of {profile.name} is {float(latency):g} ticks of the network: it must be "
            "a whole number of them"
        )
    parts = []
    first = [0]
    for job in jobs:
        parts.append(_packets_of(job, profile, behind, int(latency), first[-1]))
        first.append(first[-1] + job.num_transfers * job.num_packets)
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    path, paths, wait, waits, compute, kind, step = columns
    transfers = Transfers(
        wider,
        profile.packet_bytes,
        np.where(kind == BARRIER, 0, 1),
        np.concatenate([[0], np.cumsum(paths)]),
        path,
        np.concatenate([[0], np.cumsum(waits)]),
        wait,
        compute=compute,
        kind=kind,
        step=step,
    )
    return AggregationPlan(
        tuple(jobs), profile, transfers, tuple(first[:-1]), unit, network.num_nodes
    )


def shared_slots(profile: AggregationProfile, trees: Sequence[AggregationTree]) -> tuple[int, ...]:
    """Slots of each tree's job where those of one switch share its pool evenly."""
    users: dict[int, int] = {}
    for tree in trees:
        for switch in tree.switches:
            users[switch] = users.get(switch, 0) + 1
    return tuple(
        profile.num_slots // max(users[switch] for switch in tree.switches) for tree in trees
    )


def _check_pools(profile: AggregationProfile, jobs: Sequence[AggregationJob]) -> None:
    used: dict[int, int] = {}
    for job in jobs:
        if job.num_slots < 1 or job.num_packets < 0:
            raise ValueError(
                f"a job of {job.num_packets} packets in {job.num_slots} slots: it needs a slot of "
                f"every switch; {profile.name} has {profile.num_slots}"
            )
        for switch in job.tree.switches:
            used[switch] = used.get(switch, 0) + job.num_slots
            if used[switch] > profile.num_slots:
                raise ValueError(
                    f"jobs take {used[switch]} slots of switch {switch}: {profile.name} has "
                    f"{profile.num_slots}"
                )


def _with_engines(
    network: Network,
    profile: AggregationProfile,
    unit_Bps: Fraction,  # noqa: N803
    jobs: Sequence[AggregationJob],
) -> tuple[Network, Fraction, dict[tuple[str, int], int]]:
    """The network with a link for all that takes turns inside a node; unit; link of (what, node).

    A packet takes such a link as long as its data takes at the rate.
    """
    wire = Fraction(profile.packet_bytes, profile.slot_bytes)
    wanted: list[tuple[str, int, Fraction, Fraction]] = []
    switches = sorted({switch for job in jobs for switch in job.tree.switches})
    hosts = sorted({host for job in jobs for host in senders(job.tree)})
    if profile.rate_Bps is not None:
        turn = profile.latency_s / network.tick_s
        wanted += [("adds", node, profile.rate_Bps * wire, turn) for node in switches]
    if profile.conversion_Bps is not None:
        rate = profile.conversion_Bps * wire
        for node in hosts:
            wanted += [("encodes", node, rate, Fraction(0)), ("decodes", node, rate, Fraction(0))]
    scale = lcm(1, *((rate / unit_Bps).denominator for _, _, rate, _ in wanted))
    widest = max([Fraction(int(network.bandwidth.max())), *(w[2] / unit_Bps for w in wanted)])
    if scale * widest > MAX_BANDWIDTH:
        scale = max(1, int(MAX_BANDWIDTH // widest))
    nodes = network.num_nodes + len(wanted)
    extra = network.num_nodes + np.arange(len(wanted))
    owner = np.array([node for _, node, _, _ in wanted], dtype=np.int64)
    goes_out = np.array([what == "encodes" for what, _, _, _ in wanted], dtype=bool)
    wider = Network(
        network.num_hosts,
        nodes,
        np.concatenate([network.tail, np.where(goes_out, extra, owner)]),
        np.concatenate([network.head, np.where(goes_out, owner, extra)]),
        np.concatenate(
            [
                network.bandwidth * scale,
                np.array([max(1, int(rate * scale / unit_Bps)) for _, _, rate, _ in wanted], int),
            ]
        ),
        np.concatenate([network.latency, np.array([int(turn) for *_, turn in wanted], int)]),
        tick_s=network.tick_s,
    )
    behind = {(what, node): network.num_links + at for at, (what, node, _, _) in enumerate(wanted)}
    return wider, unit_Bps / scale, behind


def senders(tree: AggregationTree) -> dict[int, int]:
    """The hosts whose packets go to a switch that adds up, and which children of the tree they are.

    They convert them; the switch has their window.
    """
    switches = set(tree.switches)
    pairs = enumerate(zip(tree.child.tolist(), tree.parent.tolist(), strict=True))
    return {
        tree.place(node): at
        for at, (node, parent) in pairs
        if parent in switches and node not in switches
    }


def _packets_of(
    job: AggregationJob,
    profile: AggregationProfile,
    behind: dict[tuple[str, int], int],
    latency: int,
    first: int,
) -> tuple[NDArray[np.int64], ...]:
    """Columns of the transfers of a job's packets: paths, waits, compute, kind, step."""
    tree, adders = job.tree, job.tree.adders
    num, place = len(tree.child), {node: at for at, node in enumerate(adders)}
    child = tree.child.tolist()
    under: list[list[int]] = [[] for _ in adders]
    for at, parent in enumerate(tree.parent.tolist()):
        under[place[parent]].append(at)
    paths: list[list[int]] = []
    # What a transfer waits for: (which of a packet's transfers, how many packets before).
    waits: list[list[tuple[int, int]]] = []
    compute, kind = [], []
    flying, down = profile.in_flight(job.num_slots), num + len(adders)
    to_switches = set(senders(tree).values())
    for at, node in enumerate(child):
        converts = at in to_switches and ("encodes", tree.place(node)) in behind
        begins = [behind["encodes", tree.place(node)]] if converts else []
        paths.append([*begins, *tree.up[at]])
        waits.append([(num + place[node], 0)] if node in place else [])
        if at in to_switches:
            waits[-1].append((down + at, flying))
        elif node not in place:
            waits[-1].append((down + at, 2 * flying))
        compute.append(0)
        kind.append(ADD if paths[-1] else BARRIER)
    for at, adder in enumerate(adders):
        takes_turns, is_switch = ("adds", adder) in behind, adder < tree.first_adder
        paths.append([behind["adds", adder]] if takes_turns else [])
        waits.append([(below, 0) for below in under[at]])
        if is_switch:
            waits[-1] += [(down + below, job.num_slots) for below in under[at]]
        compute.append(latency if is_switch and not takes_turns else 0)
        kind.append(COPY if takes_turns else BARRIER)
    for at, node in enumerate(child):
        converts = at in to_switches and ("decodes", tree.place(node)) in behind
        ends = [behind["decodes", tree.place(node)]] if converts else []
        paths.append([*tree.down[at], *ends])
        parent = int(tree.parent[at])
        above = child.index(parent) if parent != tree.root else None
        waits.append([(num + place[parent], 0) if above is None else (down + above, 0)])
        compute.append(latency if node in place and node < tree.first_adder else 0)
        kind.append(COPY if paths[-1] else BARRIER)
    return _repeated(job, first, paths, waits, compute, kind)


def _repeated(
    job: AggregationJob,
    first: int,
    paths: list[list[int]],
    waits: list[list[tuple[int, int]]],
    compute: list[int],
    kind: list[int],
) -> tuple[NDArray[np.int64], ...]:
    """The transfers of one packet for all packets, without waits for packets before the first."""
    each, packets = len(paths), np.arange(job.num_packets)
    path = np.array([link for links in paths for link in links], dtype=np.int64)
    lengths = np.array([len(links) for links in paths], dtype=np.int64)
    of = np.repeat(np.arange(each), [len(wait) for wait in waits])
    pairs = np.array([pair for wait in waits for pair in wait], dtype=np.int64).reshape(-1, 2)
    before = packets[:, None] - pairs[None, :, 1]
    is_there = before >= 0
    wait_for = (first + before * each + pairs[None, :, 0])[is_there]
    counts = np.zeros((job.num_packets, each), dtype=np.int64)
    rows, columns = np.nonzero(is_there)
    np.add.at(counts, (rows, of[columns]), 1)
    return (
        np.tile(path, job.num_packets),
        np.tile(lengths, job.num_packets),
        wait_for,
        counts.ravel(),
        np.tile(np.array(compute, dtype=np.int64), job.num_packets),
        np.tile(np.array(kind, dtype=np.int64), job.num_packets),
        np.repeat(packets + 1, each),
    )
