"""GroupPattern: the transfers of a collective between the ranks of a group, wherever they are."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.compute.kernels import for_work
from ocs_codesign.core.network import direct_routes
from ocs_codesign.core.networks.builders import direct
from ocs_codesign.core.schedule import Messages
from ocs_codesign.core.topology import Topology
from ocs_codesign.schedules.classic.registry import CLASSIC
from ocs_codesign.schedules.simulate import kernels
from ocs_codesign.schedules.simulate.making import transfers_of_messages, transfers_of_schedule

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from ocs_codesign.core.network import Network
    from ocs_codesign.core.plans import Plan
    from ocs_codesign.core.schedule import Schedule
    from ocs_codesign.schedules.simulate.transfers import Transfers


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
    made = transfers_of_schedule(schedule, routes, 1, hop_by_hop=True)
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


# Switches and links of a network that stand in for those that a group's pattern names.


MAX_SWITCHES, MAX_TRIES = 256, 100_000


def links_under(
    pattern: GroupPattern, ranks: tuple[int, ...], network: Network
) -> NDArray[np.int64]:
    """The network's link for every logical link of a pattern that names switches (int64).

    Rank i of the pattern is host ``ranks[i]``; a switch of the network stands in for every switch,
    another one for each, such that links join them as the pattern has them, as many in parallel.
    Raises ValueError where there are no such switches,
    and for more than MAX_SWITCHES of them. Links that nothing is sent over have no counterpart.
    """
    used = np.unique(pattern.logical[pattern.logical >= 0])
    wanted = _by_ends(used.tolist(), pattern.tail[used].tolist(), pattern.head[used].tolist())
    ends = network.tail.tolist(), network.head.tolist()
    there = _by_ends(range(network.num_links), *ends)
    image = dict(enumerate(ranks))
    switches = _in_reach(wanted, pattern.num_ranks)
    if len(switches) > MAX_SWITCHES:
        raise ValueError(f"a plan of a book names {len(switches)} switches: at most {MAX_SWITCHES}")
    if not _found(switches, image, wanted, there, network, [MAX_TRIES]):
        shown = ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
        raise ValueError(
            f"a plan of a book names {len(switches)} switches: no switches of the network join "
            f"the hosts {shown} with links as in the book's"
        )
    found = np.zeros(len(pattern.tail), dtype=np.int64)
    for (tail, head), links in wanted.items():
        found[links] = there[image[tail], image[head]][: len(links)]
    return found


def _by_ends(
    link: Iterable[int], tail: Iterable[int], head: Iterable[int]
) -> dict[tuple[int, int], list[int]]:
    """The links from every node to every other, in order."""
    found: dict[tuple[int, int], list[int]] = {}
    for one, *ends in zip(link, tail, head, strict=True):
        found.setdefault((ends[0], ends[1]), []).append(one)
    return found


def _in_reach(wanted: dict[tuple[int, int], list[int]], num_ranks: int) -> list[int]:
    """The switches, those first that links join to hosts or to switches before them."""
    beside: dict[int, set[int]] = {}
    for tail, head in wanted:
        beside.setdefault(tail, set()).add(head)
        beside.setdefault(head, set()).add(tail)
    order = sorted(node for node in beside if node < num_ranks)
    seen = set(order)
    for node in order:
        near = sorted(beside[node] - seen)
        order += near
        seen.update(near)
    order += sorted(set(beside) - seen)
    return [node for node in order if node >= num_ranks]


def _found(
    switches: list[int],
    image: dict[int, int],
    wanted: dict[tuple[int, int], list[int]],
    there: dict[tuple[int, int], list[int]],
    network: Network,
    tries: list[int],
) -> bool:
    """Whether the rest of the switches have stand-ins, which ``image`` then has; in order."""
    rest = [switch for switch in switches if switch not in image]
    if not rest:
        return all(
            len(links) <= len(there.get((image[tail], image[head]), ()))
            for (tail, head), links in wanted.items()
        )
    switch, taken = rest[0], set(image.values())
    mine = [ends for ends in wanted if switch in ends]
    for node in range(network.num_hosts, network.num_nodes):
        tries[0] -= 1
        if node in taken or tries[0] < 0:
            continue
        image[switch] = node
        fits = all(
            len(wanted[ends]) <= len(there.get((image[ends[0]], image[ends[1]]), ()))
            for ends in mine
            if ends[0] in image and ends[1] in image
        )
        if fits and _found(switches, image, wanted, there, network, tries):
            return True
        del image[switch]
    return False
