"""What the loop of events reads and writes: columns that travel together."""

from __future__ import annotations

from typing import Any, NamedTuple


class TransferColumns(NamedTuple):
    """Transfers: paths (CSR), how many others each waits for, who waits for it (CSR).

    ``following`` is the next on a pair or -1, ``adds`` whether the receiver adds up, classes are
    those of sizes (transfers) and of links. Of those that ``Places`` repeats, ``waits`` are those
    that are in flight, and what follows counts from the first of its shape.
    """

    path_start: Any
    path_link: Any
    waits: Any
    after_start: Any
    after: Any
    following: Any
    compute: Any
    adds: Any
    size_class: Any


class LinkColumns(NamedTuple):
    """Links and nodes: ends, classes, ticks by class, and when each is free again.

    ``busy`` and ``flight`` (classes of sizes, classes of links) are the ticks until a link is free
    again and until the message has arrived; ``injection`` and ``addition`` those of a sender's
    ports and a receiver's memory; ``node_free`` (3, nodes) when processor, ports and memory of a
    node are free.
    """

    tail: Any
    head: Any
    link_class: Any
    busy: Any
    flight: Any
    injection: Any
    addition: Any
    link_free: Any
    node_free: Any


class Rules(NamedTuple):
    """How links and nodes serve: see ``TimingRules``."""

    overhead: int
    blocking: bool
    cuts_through: bool
    follows_at_once: bool


class Seen(NamedTuple):
    """When hops began, and when transfers had arrived and ended."""

    hop_start: Any
    arrival: Any
    end: Any


class JobColumns(NamedTuple):
    """A job: kinds (0 compute, 1 send, 2 receive, 3 a collective), who waits for whom, what it is.

    Owners and instances are those of nodes; ``members`` of every instance and ``after`` every node
    are CSR; ``rank_of`` a node is its place by priority, ``node_of`` a place its node, and
    ``first_slot`` (2, owners + 1) where the computations and the communications of an owner begin.
    A node takes its owner ``ticks``, and is over ``lag`` later.
    """

    kind: Any
    owner: Any
    instance: Any
    num_members: Any
    member_start: Any
    members: Any
    waits: Any
    after_start: Any
    after: Any
    rank_of: Any
    node_of: Any
    first_slot: Any
    ticks: Any
    lag: Any
    start: Any
    end: Any


class IssueRule(NamedTuple):
    """How ranks issue: see ``Discipline``; ``in_turn``, what they have in flight one by one."""

    arrival_sign: int
    window: int
    exclusive: bool
    preemptive: bool
    in_turn: bool


class Pieces(NamedTuple):
    """What channels served: an instance from begin to end, a row a piece."""

    instance: Any
    begin: Any
    end: Any


class Lanes(NamedTuple):
    """Bars of the busiest links: ``of`` a link is its lane or -1, the others are a row a bar."""

    of: Any
    link: Any
    begin: Any
    end: Any
    instance: Any


class Places(NamedTuple):
    """Which transfers the messages of a job are: ``shape_of`` each, -1 for one that takes a time.

    ``shape`` (shapes, 5) are its first transfer in flight, how many it has, its first row, of
    paths, and of classes of sizes; up to a window of messages of it are in flight. ``logical`` is
    the path of a row, or -1. ``waited`` (links) and ``waited_of`` (instances) count the ticks that
    hops wait behind those of other instances.
    """

    shape_of: Any
    shape: Any
    logical: Any
    waits: Any
    instance: Any
    waited: Any
    waited_of: Any


class Ranks(NamedTuple):
    """What ranks do: heaps of what is ready, what is in flight, and how far messages are."""

    keys: Any
    codes: Any
    sizes: Any
    queue: Any
    queue_first: Any
    queue_size: Any
    in_flight: Any
    serves: Any
    computes: Any
    at_head: Any
    heads: Any
    left: Any
    began: Any
    until: Any
    posted: Any
    arrived: Any
