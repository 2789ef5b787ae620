"""Independent check of schedules: replay every send, then recompute what the schedule costs.

Nothing here is shared with the code that makes schedules: the replay knows only the links, the
columns and the demand, whose items are replayed by their kind.

* Copies (allgather, broadcast): a node sends a chunk only after the step in which it received it,
  receives no chunk twice, and in the end all have it that must.
* Sums (reduce-scatter, reduce): a node sends its partial sum of a chunk exactly once, after the
  last contribution it received; the root never does. So every contribution arrives exactly once.
* Moves (all-to-all, scatter, gather): every chunk is at one node at a time. A node sends it on only
  after the step in which it arrived, its root never gets it back, and the node that it is for never
  sends it on; in the end all are there. What a node has for itself is never sent.
* An allreduce sums in phase 0 and copies in phase 1; a root may copy a chunk out only after its
  last contribution arrived.

Nodes that are no hosts are switches: what they get they pass on in the same step
(``verification.switches``).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.compute.kernels import for_work
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.demand import COPY, MOVE, SUM
from ocs_codesign.core.network import who_relays
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.shown import Brief
from ocs_codesign.verification import kernels
from ocs_codesign.verification.sends import (
    FORWARD_ONLY,
    Abilities,
    Sends,
    Witness,
    direct_sends,
    sends_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from numpy.typing import NDArray

    from ocs_codesign.core.demand import Demand
    from ocs_codesign.core.network import Routes


EXACTLY_ONCE, AT_LEAST_ONCE = "exactly once", "at least once"
"""How often a node may receive what it must have: a second copy is a fault, or is dropped."""

_BLOCK_ENTRIES = 2**27

_RULES = {
    1: "the sender does not hold this chunk before the step",
    2: "the receiver already holds this chunk",
    3: "the root sends away the sum that must end with it",
    4: "the sender has already sent its partial sum of this chunk",
    5: "the sender receives a contribution in this very step, so its partial sum is incomplete",
    6: "the receiver has already sent its partial sum of this chunk, so the contribution is lost",
    7: "this chunk is of the root's piece for itself, which is never sent",
    8: "the sender has already sent this chunk on",
    9: "the sender is the node that this chunk is for, so it must stay",
    10: "the link leads from the sender to itself, so this chunk does not move",
    11: "this chunk comes back to the root that sent it",
    12: "the sender has nothing of this chunk to add",
}


@final
@dataclass(frozen=True, slots=True, repr=False)
class Verdict(Brief):
    """What the replay found: the cost recomputed from the sends, and the first witness if any.

    ``max_loads`` are the largest link loads of the steps in shards (in an all-to-all in pieces,
    which are M/N bytes too) a unit of link speed.
    """

    cost: Cost
    max_loads: tuple[Fraction, ...]
    witness: Witness | None

    @property
    def ok(self) -> bool:
        """Whether the schedule achieves its collective (and has the claimed cost, if one was)."""
        return self.witness is None

    def __bool__(self) -> bool:
        """The same: a verdict is true if nothing is wrong."""
        return self.ok


PASSED_ON = "this host is no relay, and sends what came to it before"


def check_relays(schedule: Schedule, relays: Collection[int]) -> Witness | None:
    """The first send of what is not its own by a host that is none of ``relays``.

    What a host adds up for others, or copies or moves on, has come to it in an earlier step. The
    root of an item may send it; switches pass on all.

    >>> import ocs_codesign as oc
    >>> ring = oc.bfb("BiRing(2, 4)")
    >>> check_relays(ring, range(4)), check_relays(ring, ()).node
    (None, 0)
    """
    is_bound = np.zeros(schedule.topology.num_nodes, dtype=bool)
    is_bound[: schedule.num_hosts] = ~who_relays(schedule.num_hosts, relays)
    ends = (schedule.topology.tail[schedule.link], schedule.topology.head[schedule.link])
    out, into = (np.flatnonzero(is_bound[end] & (end != schedule.root)) for end in ends)
    came: dict[tuple[int, int], list[int]] = {}
    columns = (into.tolist(), ends[1][into].tolist(), schedule.root[into].tolist())
    for came_by, node, root in zip(*columns, strict=True):
        came.setdefault((node, root), []).append(came_by)
    for row in out.tolist():
        node, root = int(ends[0][row]), int(schedule.root[row])
        before = np.array(came.get((node, root), ()), dtype=np.int64)
        is_same = (schedule.lo[before] < schedule.hi[row]) & (
            schedule.lo[row] < schedule.hi[before]
        )
        if (is_same & (schedule.step[before] < schedule.step[row])).any():
            step, link = int(schedule.step[row]), int(schedule.link[row])
            return Witness(PASSED_ON, root=root, node=node, row=row, step=step, link=link)
    return None


def verify(
    schedule: Schedule,
    claimed: Cost | None = None,
    *,
    strictness: str = EXACTLY_ONCE,
    abilities: Abilities | None = None,
) -> Verdict:
    """Replay a schedule and recompute its cost; ``claimed`` must then be exactly that cost.

    Items are replayed in blocks that fit in memory; the witness is the first bad send of the first
    block that fails, or else the first thing missing. ``strictness`` EXACTLY_ONCE is what reversing
    a schedule needs; with AT_LEAST_ONCE a node may get copies that it has. Switches among the nodes
    only forward, but for those that have ``abilities``. A design stands for its schedule, with the
    abilities that it says. Raises ValueError for what is neither.

    >>> from ocs_codesign.core.collective import Collective
    >>> from ocs_codesign.core.topology import Topology
    >>> from ocs_codesign.core.schedule import Schedule
    >>> pair = Topology(2, [0, 1], [1, 0])
    >>> half = Schedule(pair, Collective.ALLGATHER, 1, [0], [0], [1], [0], [1])
    >>> print(verify(half).witness)
    root 1, chunk 0, node 0: the node never receives this chunk
    """
    if abilities is None:
        abilities = getattr(schedule, "abilities", FORWARD_ONLY)
    schedule = _schedule_of(schedule)
    max_loads = _max_loads(schedule)
    total = sum(max_loads, Fraction(0))
    # B is the largest egress of a host, and loads count units of which M has so many.
    units = max(demand.message_units for demand in schedule.demands)
    speed = schedule.topology.node_speed(schedule.num_hosts)
    cost = Cost(len(max_loads), total * speed / units)
    witness = replay(schedule, abilities, strictness) or wrong_claim(claimed, cost)
    return Verdict(cost, max_loads, witness)


def _schedule_of(given: Any) -> Schedule:
    """A schedule, or that of a design."""
    if getattr(given, "circuits", None) is not None:
        raise ValueError("its circuits change: verify_design replays it")
    found = getattr(given, "schedule", given)
    if not isinstance(found, Schedule):
        raise ValueError(
            f"{given!r} is no schedule: build makes one of a recipe, load_design reads one"
        )
    return found


def wrong_claim(claimed: Cost | None, cost: Cost) -> Witness | None:
    """The witness of a claimed cost that the sends do not have."""
    if claimed is None or claimed == cost:
        return None
    return Witness(
        f"the claimed cost is {claimed.steps} steps and t_b {claimed.t_b}, "
        f"the sends take {cost.steps} steps and t_b {cost.t_b}"
    )


def _max_loads(schedule: Schedule) -> tuple[Fraction, ...]:
    """Largest load / speed of every step; the sends are sorted by (step, link)."""
    step, link, unit = schedule.step, schedule.link, schedule.chunks_per_unit
    if not len(step):
        return ()
    changes = (step[1:] != step[:-1]) | (link[1:] != link[:-1])
    start = np.concatenate([[0], np.flatnonzero(changes) + 1])
    load = np.add.reduceat(schedule.hi.astype(np.int64) - schedule.lo, start)
    step, speed = step[start], schedule.topology.speeds()[link[start]]
    loads = [Fraction(0)] * int(step[-1])
    for value in np.unique(speed).tolist():
        here = np.flatnonzero(speed == value)
        first = np.flatnonzero(np.diff(step[here], prepend=-1))
        top = np.maximum.reduceat(load[here], first)
        for at, chunks in zip(step[here][first].tolist(), top.tolist(), strict=True):
            loads[at - 1] = max(loads[at - 1], Fraction(chunks, value * unit))
    return tuple(loads)


def replay(schedule: Schedule, abilities: Abilities, strictness: str) -> Witness | None:
    """The first witness of the first block of items that fails; the switches have abilities."""
    sends = sends_of(schedule)
    if schedule.topology.num_nodes == schedule.num_hosts:
        return replay_sends(schedule, sends, strictness)
    passed = direct_sends(schedule, sends, abilities)
    return passed if isinstance(passed, Witness) else replay_sends(schedule, passed, strictness)


def replay_sends(schedule: Schedule, sends: Sends, strictness: str) -> Witness | None:
    """The first witness of the first block of items that fails, of sends from host to host."""
    if strictness not in (EXACTLY_ONCE, AT_LEAST_ONCE):
        raise ValueError(f"strictness is {strictness!r}: {EXACTLY_ONCE!r} or {AT_LEAST_ONCE!r}")
    parts = [
        (demand, {kind: sends.of(phase, kind) for kind in np.unique(demand.kind).tolist()})
        for phase, demand in enumerate(schedule.demands)
    ]
    nodes = 2 if (schedule.demands[0].kind == MOVE).all() else schedule.topology.num_nodes
    for items in _blocks(schedule.demands[0].num_items, nodes * len(sends.spans)):
        since = np.zeros((len(items), len(sends.spans)), dtype=np.int32)
        for demand, by_kind in parts:
            for kind in (SUM, COPY, MOVE):
                if kind not in by_kind:
                    continue
                block = _Block(schedule, demand, by_kind[kind], items, kind)
                if kind == SUM:
                    witness, since = _replay_sums(block)
                elif kind == COPY:
                    witness = _replay_copies(block, since, strictness == EXACTLY_ONCE)
                else:
                    witness = _replay_moves(block)
                if witness is not None:
                    return witness
    return None


def _blocks(num_items: int, entries: int) -> Iterator[NDArray[np.int64]]:
    """All items, in blocks that fit in memory when each takes so many entries."""
    block = max(1, _BLOCK_ENTRIES // max(1, entries))
    for first in range(0, num_items, block):
        yield np.arange(first, min(num_items, first + block))


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """Some items of a demand, of one kind or not, and all sends of that kind."""

    schedule: Schedule
    demand: Demand
    sends: Sends
    items: NDArray[np.int64]
    kind: int

    def root(self) -> NDArray[np.int32]:
        """The roots of the items."""
        return self.demand.root[self.items]

    def shape(self) -> tuple[int, int, int]:
        """Items, nodes and spans."""
        return len(self.items), self.schedule.topology.num_nodes, len(self.sends.spans)

    def columns(self) -> list[NDArray[np.int32]]:
        """What the loops read of the sends."""
        sends = self.sends
        return [
            sends.sender,
            sends.receiver,
            sends.item,
            sends.lo,
            sends.hi,
            sends.start,
            sends.end,
        ]

    def pieces(self) -> NDArray[np.int64]:
        """The piece of every item and span, -1 where there is none; shape (items, spans)."""
        ends = self.demand.first_units() * self.schedule.chunks_per_unit
        first = ends[self.demand.piece_start[self.items]][:, None]
        last = ends[self.demand.piece_start[self.items + 1]][:, None]
        chunk = first + self.sends.spans
        piece = np.searchsorted(ends, chunk, side="right") - 1
        is_there = (chunk < last) & (self.demand.kind[self.items] == self.kind)[:, None]
        return np.where(is_there, piece, -1)

    def concerned(self) -> NDArray[np.bool_]:
        """Whether every node is of the group of every item's every span; the shape of the block."""
        demand, piece = self.demand, self.pieces()
        of_group = np.zeros((len(demand.group_start), self.shape()[1]), dtype=bool)
        group = np.repeat(np.arange(len(demand.group_start) - 1), np.diff(demand.group_start))
        of_group[group, demand.member] = True  # the last row is of no group
        return of_group[np.where(piece < 0, -1, demand.group[piece])].transpose(0, 2, 1)

    def rounds(self) -> int:
        """Rounds of a loop over the spans of all sends."""
        return int((self.sends.hi.astype(np.int64) - self.sends.lo).sum())

    def bad(self, at: int, span: int, fault: int) -> Witness:
        """Witness of the send at a position among these sends."""
        row = int(self.sends.row[at])
        return Witness(
            _RULES[fault],
            int(self.demand.root[self.sends.item[at]]),
            int(self.sends.spans[span]),
            None,
            row,
            int(self.schedule.step[row]),
            int(self.schedule.link[row]),
        )

    def missing(self, rule: str, where: NDArray[np.bool_]) -> Witness | None:
        """Witness of the first of the things that never happen, by item, node and span."""
        if not where.any():
            return None
        item, node, span = np.unravel_index(int(where.argmax()), where.shape)
        return Witness(rule, int(self.root()[item]), int(self.sends.spans[span]), int(node))


def _replay_sums(block: _Block) -> tuple[Witness | None, NDArray[np.int32]]:
    """First witness of the sends that sum, and the step at which every root's sum is complete."""
    concerned, root = block.concerned(), block.root()
    state = np.where(concerned, 0, kernels.NEVER).astype(np.int32)
    loop = for_work(kernels.replay_sums, block.rounds())
    at, span, fault = loop(*block.columns(), int(block.items[0]), root, state)
    complete = state[np.arange(len(root)), root]
    if fault:
        return block.bad(at, span, fault), complete
    unsent = (state >= 0) & (state != kernels.NEVER)
    unsent[np.arange(len(root)), root] = False
    rule = "the node's contribution to this chunk is never sent"
    return block.missing(rule, unsent), np.where(complete == kernels.NEVER, 0, complete)


def _replay_copies(block: _Block, own_since: NDArray[np.int32], once: bool) -> Witness | None:
    """First witness of the sends that copy; a root holds its own chunks from ``own_since`` on."""
    held_since = np.full(block.shape(), kernels.NEVER, dtype=np.int32)
    held_since[np.arange(len(block.items)), block.root()] = own_since
    loop = for_work(kernels.replay_copies, block.rounds())
    at, span, fault = loop(*block.columns(), int(block.items[0]), once, held_since)
    if fault:
        return block.bad(at, span, fault)
    never = held_since == kernels.NEVER
    if never.any():
        never &= block.concerned()
    return block.missing("the node never receives this chunk", never)


def _replay_moves(block: _Block) -> Witness | None:
    """First witness of the sends that move."""
    demand, piece, root = block.demand, block.pieces(), block.root()
    owner = demand.member[demand.group_start[demand.group[piece]]].astype(np.int32)
    owner = np.where(piece < 0, root[:, None], owner)
    place = np.repeat(root[:, None], owner.shape[1], axis=1)
    since = np.zeros_like(place)
    loop = for_work(kernels.replay_moves, block.rounds())
    at, span, fault = loop(*block.columns(), int(block.items[0]), root, owner, place, since)
    if fault:
        sent_on = fault == kernels.NOT_HELD and _sent_earlier(block.sends, at, span)
        return block.bad(at, span, kernels.SENT_ON if sent_on else fault)
    if not (astray := place != owner).any():
        return None
    item, span = np.unravel_index(int(astray.argmax()), astray.shape)
    rule = "this chunk never reaches the node that it is for"
    chunk = int(block.sends.spans[span])
    return Witness(rule, int(root[item]), chunk, int(owner[item, span]))


def _sent_earlier(sends: Sends, at: int, span: int) -> bool:
    """Whether an earlier row takes the same chunks of the same item away from the same sender."""
    same = (sends.item[:at] == sends.item[at]) & (sends.lo[:at] <= span) & (span < sends.hi[:at])
    return bool((same & (sends.sender[:at] == sends.sender[at])).any())


# Independent check of a schedule over the links of a network: paths, switches, loads and cost.


NOT_THESE_LINKS = "the links of the schedule are not those of the routes"
NOT_END_TO_END = "the path of this link does not lead from its tail to its head over switches"


def verify_on(
    routes: Routes,
    schedule: Schedule,
    claimed: Cost | None = None,
    *,
    strictness: str = EXACTLY_ONCE,
) -> Verdict:
    """Replay a schedule whose links are paths of a network, and recompute what it costs there.

    Paths are followed anew. Sends that name switches as nodes may do there what the network's
    switches can. ``max_loads`` are the largest loads of network links in every step, in units of
    weight a unit of bandwidth; t_b is in M/B, B being the largest bandwidth out of a host.

    >>> from ocs_codesign.core.collective import Collective
    >>> from ocs_codesign.core.network import Network
    >>> from ocs_codesign.core.network import Routes
    >>> from ocs_codesign.core.schedule import Schedule
    >>> from ocs_codesign.core.topology import Topology
    >>> star = Network(2, 3, [0, 1, 2, 2], [2, 2, 0, 1], [1, 1, 1, 1])
    >>> pair = Topology(2, [0, 1], [1, 0])
    >>> swap = Schedule(pair, Collective.ALLGATHER, 1, [0, 1], [0, 0], [1, 1], [0, 1], [1, 1])
    >>> verify_on(Routes(pair, star, [0, 2, 4], [0, 3, 1, 2]), swap).cost
    Cost(steps=1, t_b=Fraction(1, 2))
    """
    max_loads = _max_loads_on(routes, schedule)
    network = routes.network
    egress = np.zeros(network.num_nodes, dtype=np.int64)
    np.add.at(egress, network.tail, network.bandwidth)
    units = max(demand.message_units for demand in schedule.demands)
    speed = int(egress[: schedule.num_hosts].max())
    cost = Cost(len(max_loads), sum(max_loads, Fraction(0)) * speed / units)
    abilities = Abilities.of(network)
    witness = (
        _broken_path(routes, schedule)
        or replay(schedule, abilities, strictness)
        or wrong_claim(claimed, cost)
    )
    return Verdict(cost, max_loads, witness)


def _broken_path(routes: Routes, schedule: Schedule) -> Witness | None:
    """The first logical link whose path is none, or that the schedule does not have."""
    topology, network = schedule.topology, routes.network
    if schedule.num_hosts != network.num_hosts or len(routes.start) != topology.num_links + 1:
        return Witness(NOT_THESE_LINKS)
    tail, head = network.tail[routes.link], network.head[routes.link]
    first, last = routes.start[:-1], routes.start[1:] - 1
    if (first > last).any():
        return Witness(NOT_END_TO_END, link=int((first > last).argmax()))
    goes_wrong = (tail[first] != topology.tail) | (head[last] != topology.head)
    is_inside = np.ones(len(routes.link), dtype=bool)
    is_inside[first] = False
    breaks = is_inside & ((np.roll(head, 1) != tail) | (tail < network.num_hosts))
    goes_wrong |= np.add.reduceat(breaks, first) > 0
    return Witness(NOT_END_TO_END, link=int(goes_wrong.argmax())) if goes_wrong.any() else None


def _max_loads_on(routes: Routes, schedule: Schedule) -> tuple[Fraction, ...]:
    """Largest load / bandwidth of a network link in every step, every send spread over its path."""
    hops = np.diff(routes.start)[schedule.link]
    row = np.repeat(np.arange(schedule.num_sends), hops)
    within = np.arange(len(row)) - np.repeat(np.cumsum(hops) - hops, hops)
    link = routes.link[routes.start[schedule.link[row]] + within]
    chunks = (schedule.hi.astype(np.int64) - schedule.lo)[row]
    loads = [Fraction(0)] * schedule.num_steps
    keys, at = np.unique(
        schedule.step[row].astype(np.int64) * routes.network.num_links + link, return_inverse=True
    )
    total = np.zeros(len(keys), dtype=np.int64)
    np.add.at(total, at, chunks)
    steps, links = np.divmod(keys, routes.network.num_links)
    width = routes.network.bandwidth[links]
    for bandwidth in np.unique(width).tolist():
        here = np.flatnonzero(width == bandwidth)
        top = np.zeros(schedule.num_steps + 1, dtype=np.int64)
        np.maximum.at(top, steps[here], total[here])
        for step, load in enumerate(top[1:].tolist()):
            loads[step] = max(loads[step], Fraction(load, bandwidth * schedule.chunks_per_unit))
    return tuple(loads)
