"""LinkPlans: which transfers a message of a job becomes, by its collective, ranks and bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, final

from ocs_codesign.workload.group_books import book_for, check_books
from ocs_codesign.workload.job_graph import COLLECTIVES, FIRST_COLLECTIVE, SEND
from ocs_codesign.workload.patterns import (
    GroupPattern,
    algorithm_pattern,
    message_pattern,
    plan_pattern,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocs_codesign.network import Network
    from ocs_codesign.workload.group_books import GroupBook
    from ocs_codesign.workload.prices import Machine

RING = "ring"


class MessagePlans(Protocol):
    """Whatever says which transfers a message becomes, as LinkPlans do."""

    def name(
        self, kind: int, ranks: tuple[int, ...], size_bytes: int, label: str = ""
    ) -> tuple[str, ...]:
        """What the transfers of a message are of, in words: its collective and its maker."""
        ...

    def pattern(
        self, name: tuple[str, ...], num_ranks: int, network: Network | None = None
    ) -> GroupPattern:
        """The transfers of that name, for so many ranks; links may be those of the ``network``."""
        ...


@final
@dataclass(frozen=True, slots=True)
class LinkPlans:
    """What sends: plans of ``books``, schedules of the machine's topologies, its algorithms.

    A group takes a book of as many ranks, if there is one for its messages. Another one takes, at
    the level of the ``machine`` that it stays in, the best schedule of the topology of its size, or
    else the algorithm of the level; without a machine a ring. Raises ValueError for two books for
    the same messages.
    """

    machine: Machine | None = None
    books: Sequence[GroupBook] = ()

    def __post_init__(self) -> None:
        check_books(self.books)

    def name(
        self, kind: int, ranks: tuple[int, ...], size_bytes: int, label: str = ""
    ) -> tuple[str, ...]:
        """What the transfers of a message are of, in words: its collective and its maker."""
        if kind == SEND:
            return ("send",)
        collective = COLLECTIVES[kind - FIRST_COLLECTIVE]
        at = None if self.machine is None else self.machine.level_of(min(ranks), max(ranks))
        taken = book_for(self.books, collective, len(ranks), label, at)
        if taken is not None:
            page = taken.book.page_of(size_bytes)
            return collective, taken.told, f"from {page.from_bytes} bytes"
        if self.machine is None or at is None:
            return collective, RING
        level = self.machine.levels[at]
        if (collective, len(ranks)) in level.costs and len(ranks) in level.topologies:
            return collective, level.topologies[len(ranks)], "topology"
        return collective, level.algorithm

    def pattern(
        self, name: tuple[str, ...], num_ranks: int, network: Network | None = None
    ) -> GroupPattern:
        """The transfers of that name, for so many ranks; links may be those of the ``network``."""
        if name[0] == "send":
            return message_pattern()
        collective, maker = name[:2]
        for one in self.books:
            if (one.book.collective.name, one.told) == (collective, maker):
                pages = one.book.pages
                page = next(page for page in pages if name[2] == f"from {page.from_bytes} bytes")
                own = one.book.network
                is_own = network is not None and _same_links(network, own)
                return plan_pattern(page.plan, is_of_network=is_own, may_switch=True)
        if len(name) > 2:
            from ocs_codesign.design import build

            return plan_pattern(build(maker, collective).schedule)
        return algorithm_pattern(maker, collective, num_ranks)


def _same_links(network: Network, other: Network) -> bool:
    """Whether links of the same number join the same nodes in both."""
    mine, its = (
        (one.num_hosts, one.num_nodes, one.tail.tolist(), one.head.tolist())
        for one in (network, other)
    )
    return mine == its
