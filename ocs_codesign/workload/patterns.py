"""GroupPattern: the transfers of a collective between the ranks of a group, wherever they are."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.collective import Collective
from ocs_codesign.kernels import for_work
from ocs_codesign.messages import Messages
from ocs_codesign.networks.direct import direct
from ocs_codesign.routes import direct_routes
from ocs_codesign.schedulers.classic.registry import CLASSIC
from ocs_codesign.simulate import kernels
from ocs_codesign.simulate.making import transfers_of_messages, transfers_of_schedule
from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.book import Plan
    from ocs_codesign.schedule import Schedule
    from ocs_codesign.simulate.transfers import Transfers

_MADE_BY = {
    ("ring", "alltoall"): "shift",
    **{
        (name, whole): "chain"
        for name in ("ring", "direct", "bruck")
        for whole in ("broadcast", "reduce")
    },
}
"""The classic algorithm that does what one of the prices' does for a collective, if not its own."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class GroupPattern:
    """Transfers, a row each, over logical links between the ``num_ranks`` ranks of a group.

    Logical link i leads from ``tail[i]`` to ``head[i]`` (int32). Row r sends ``size[r]`` chunks
    (int64), each ``share`` of M, over ``logical[r]`` (-1: it sends nothing), and ends
    ``compute[r]`` ticks after it has arrived. It begins when ``waits[r]`` (int64) others have: of
    row r, ``follow[follow_start[r] : follow_start[r + 1]]`` wait for its end, ``following[r]`` (-1
    if there is none) for its arrival. ``is_of_network``: logical links are the network's own.
    Else nodes from ``num_ranks`` on are switches, for which ones of the network stand in.
    """

    num_ranks: int
    share: Fraction
    tail: NDArray[np.int32]
    head: NDArray[np.int32]
    logical: NDArray[np.int64]
    size: NDArray[np.int64]
    compute: NDArray[np.int64]
    waits: NDArray[np.int64]
    following: NDArray[np.int64]
    follow_start: NDArray[np.int64]
    follow: NDArray[np.int64]
    is_of_network: bool = False

    def __repr__(self) -> str:
        return f"GroupPattern({self.num_rows} transfers of {self.num_ranks} ranks)"

    @property
    def names_switches(self) -> bool:
        """Whether it says which switches it goes through, those of another network than its own."""
        last = max(int(end.max(initial=0)) for end in (self.tail, self.head))
        return not self.is_of_network and last >= self.num_ranks

    @property
    def num_rows(self) -> int:
        """Number of transfers."""
        return len(self.size)


def algorithm_pattern(algorithm: str, collective: str, num_ranks: int) -> GroupPattern:
    """What an algorithm of ``prices.ALGORITHMS`` sends; broadcasts and reductions are chains.

    They begin and end at rank 0, in as many parts as there are ranks.

    >>> algorithm_pattern("ring", "allgather", 4)
    GroupPattern(12 transfers of 4 ranks)
    """
    maker = _MADE_BY.get((algorithm, collective), algorithm)
    options = {"chunks": num_ranks} if maker == "chain" else {}
    return plan_pattern(CLASSIC[maker].messages(collective, num_ranks, **options))


def plan_pattern(
    plan: Plan, *, is_of_network: bool = False, may_switch: bool = False
) -> GroupPattern:
    """The pattern of messages between ranks, or of a schedule on a topology of its own.

    ``is_of_network``: the links of a schedule are those of the network that it is to run on;
    ``may_switch``: if not, it may still name switches.
    """
    if not isinstance(plan, Messages):
        if plan.topology.num_nodes > plan.num_hosts and not (is_of_network or may_switch):
            raise ValueError("a schedule that names switches runs on its own network alone")
        return _of_schedule(plan, is_of_network=is_of_network)
    pairs = np.unique(plan.source.astype(np.int64) * plan.num_ranks + plan.target)
    topology = Topology(plan.num_ranks, *np.divmod(pairs, plan.num_ranks))
    routes = direct_routes(topology, direct(topology, max(1, topology.num_links)))
    return _of_transfers(transfers_of_messages(plan, routes, 1), topology, plan.num_ranks)


def message_pattern() -> GroupPattern:
    """One message of M from rank 0 to rank 1."""
    one, none = np.ones(1, np.int64), np.zeros(1, np.int64)
    return GroupPattern(
        *(2, Fraction(1), none.astype(np.int32), one.astype(np.int32)),
        *(none, one, none, none, none - 1, np.zeros(2, np.int64), none[:0]),
    )


def collective_of(name: str) -> Collective:
    """A collective of a job; what has a root has rank 0."""
    return Collective(name, 0) if name in ("broadcast", "reduce") else Collective(name)


def _of_schedule(schedule: Schedule, *, is_of_network: bool) -> GroupPattern:
    topology = schedule.topology
    routes = direct_routes(topology, direct(topology, 1))
    made = transfers_of_schedule(schedule, routes, 1)
    return _of_transfers(made, topology, schedule.num_hosts, is_of_network=is_of_network)


def _of_transfers(
    made: Transfers, topology: Topology, num_ranks: int, *, is_of_network: bool = False
) -> GroupPattern:
    num = made.num_transfers
    inverted = for_work(kernels.inverted, 10 * (num + len(made.wait_for)))
    follow_start, follow = inverted(made.wait_start, made.wait_for, num)
    has_previous = made.previous >= 0
    following = np.full(num, -1, dtype=np.int64)
    following[made.previous[has_previous]] = np.flatnonzero(has_previous)
    logical = np.full(num, -1, dtype=np.int64)
    logical[np.diff(made.path_start) > 0] = made.path_link
    return GroupPattern(
        *(num_ranks, made.chunk_bytes, topology.tail, topology.head),
        *(logical, made.size, made.compute),
        (np.diff(made.wait_start) + has_previous).astype(np.int64),
        following,
        follow_start.astype(np.int64),
        follow.astype(np.int64),
        is_of_network,
    )
