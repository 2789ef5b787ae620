"""LinkPlans: which transfers a message of a job becomes, by its collective, ranks and bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

from ocs_codesign.workload.job_graph import COLLECTIVES, FIRST_COLLECTIVE, SEND
from ocs_codesign.workload.patterns import (
    GroupPattern,
    algorithm_pattern,
    collective_of,
    message_pattern,
    plan_pattern,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ocs_codesign.book import Book
    from ocs_codesign.workload.prices import Machine

RING = "ring"


@final
@dataclass(frozen=True, slots=True)
class LinkPlans:
    """What sends: plans of ``books``, schedules of the machine's topologies, its algorithms.

    A book, by the name of its collective, is for groups of all ranks. Another group takes, at the
    level of the ``machine`` that it stays in, the best schedule of the topology of its size, or
    else the algorithm of the level; without a machine a ring.
    """

    machine: Machine | None = None
    books: Mapping[str, Book] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, book in self.books.items():
            if book.collective != collective_of(name):
                raise ValueError(f"a book of {book.collective.text} is given for {name}")

    def name(self, kind: int, ranks: tuple[int, ...], size_bytes: int) -> tuple[str, ...]:
        """What the transfers of a message are of, in words: its collective and its maker."""
        if kind == SEND:
            return ("send",)
        collective = COLLECTIVES[kind - FIRST_COLLECTIVE]
        book = self.books.get(collective)
        if book is not None and ranks == tuple(range(book.network.num_hosts)):
            page = book.page_of(size_bytes)
            return collective, f"book, from {page.from_bytes} bytes"
        if self.machine is None:
            return collective, RING
        level = self.machine.levels[self.machine.level_of(min(ranks), max(ranks))]
        if (collective, len(ranks)) in level.costs and len(ranks) in level.topologies:
            return collective, level.topologies[len(ranks)], "topology"
        return collective, level.algorithm

    def pattern(self, name: tuple[str, ...], num_ranks: int) -> GroupPattern:
        """The transfers of that name, for so many ranks."""
        if name[0] == "send":
            return message_pattern()
        collective, maker = name[:2]
        if maker.startswith("book"):
            book = self.books[collective]
            page = next(p for p in book.pages if maker == f"book, from {p.from_bytes} bytes")
            return plan_pattern(page.plan, is_of_network=True)
        if len(name) > 2:
            from ocs_codesign.design import build

            return plan_pattern(build(maker, collective).schedule)
        return algorithm_pattern(maker, collective, num_ranks)
