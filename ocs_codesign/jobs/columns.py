"""What compiled loops of a job read: columns that travel together."""

from __future__ import annotations

from typing import Any, NamedTuple


class IssueColumns(NamedTuple):
    """What loops of events read of a job: kinds (0 compute, 1 send, 2 receive, 3 a collective).

    Owners and instances are those of nodes; ``members`` of every instance and ``after`` every node
    are CSR; ``rank_of`` a node is its place by priority, ``node_of`` a place its node, and
    ``first_slot`` (2, owners + 1) where the computations and the communications of an owner begin.
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


class IssueRule(NamedTuple):
    """How ranks issue: see ``Discipline``."""

    arrival_sign: int
    window: int
    exclusive: bool
    preemptive: bool


class Pieces(NamedTuple):
    """What channels served: an instance from begin to end, a row a piece."""

    instance: Any
    begin: Any
    end: Any


class ShapeColumns(NamedTuple):
    """Transfers of all shapes: rows of hops, who follows whom, paths, ticks by class of size."""

    hop_logical: Any
    hop_class: Any
    hop_waits: Any
    hop_compute: Any
    hop_following: Any
    follow_start: Any
    follow: Any
    path_start: Any
    path_link: Any
    link_class: Any
    busy: Any
    flight: Any


class LinkRule(NamedTuple):
    """How links serve, and how many states of transfers there are."""

    blocking: bool
    cuts_through: bool
    follows_at_once: bool
    num_states: int


class LinkUse(NamedTuple):
    """When links are free, and the ticks that hops waited behind those of other instances."""

    free: Any
    waited: Any
    waited_of: Any


class Lanes(NamedTuple):
    """Bars of the busiest links: ``of`` a link is its lane or -1, the others are a row a bar."""

    of: Any
    link: Any
    begin: Any
    end: Any
    instance: Any
