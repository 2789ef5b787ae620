"""Shelf: verified plans of several collectives for one number of ranks, chosen by size."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ocs_codesign.core.plans import Book
from ocs_codesign.core.quantities import format_size
from ocs_codesign.core.schedule import Messages, Schedule
from ocs_codesign.interop.runtimes.traffic import RankMessages, traffic_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ocs_codesign.core.plans import Plan


class RunPage(NamedTuple):
    """The messages for collectives of ``from_bytes`` bytes of M and more."""

    from_bytes: int
    traffic: RankMessages

    @property
    def text(self) -> str:
        """The page in words, as in ``allreduce (page 64 KiB)``."""
        return f"{self.traffic.collective.text} (page {format_size(self.from_bytes)})"


class Shelf(NamedTuple):
    """Pages by collective and root, each from the largest size down, all of ``num_ranks`` ranks."""

    num_ranks: int
    pages: dict[tuple[str, int | None], tuple[RunPage, ...]]

    def page(self, collective: str, message_bytes: int, root: int | None = None) -> RunPage | None:
        """The page for so many bytes of M, the buffer of a rank; None if there is none."""
        pages = self.pages.get((collective, root), ())
        return next((page for page in pages if page.from_bytes <= message_bytes), None)

    def digest(self) -> str:
        """16 hex digits that differ where any page does."""
        told = sha256()
        for key, pages in sorted(self.pages.items(), key=repr):
            for page in pages:
                told.update(f"{key} {page.from_bytes} {page.traffic.digest()}".encode())
        return told.hexdigest()[:16]


def shelves_of(sources: Iterable[Any]) -> dict[int, Shelf]:
    """Shelves by number of ranks of books, designs and plans, or the paths of saved ones.

    A later plan of a collective takes the place of an earlier one. Raises OSError for what cannot
    be read and ValueError for what does not verify, what needs circuits that change or
    switches, and for groups of ranks.

    >>> from ocs_codesign.graphs.text import parse
    >>> from ocs_codesign.schedules.design import build
    >>> shelf = shelves_of([build(parse("Complete(4)"), "allgather")])[4]
    >>> shelf.page("allgather", 1000).text, shelf.page("allreduce", 1000)
    ('allgather (page 0 B)', None)
    """
    found: dict[int, dict[tuple[str, int | None], tuple[RunPage, ...]]] = {}
    for source in sources:
        pages = tuple(RunPage(first, _runnable(plan)) for first, plan in _plans(source))
        traffic = pages[0].traffic
        key = (traffic.collective.name, traffic.collective.root)
        found.setdefault(traffic.num_ranks, {})[key] = pages[::-1]
    return {ranks: Shelf(ranks, pages) for ranks, pages in found.items()}


def _plans(source: Any) -> Iterator[tuple[int, Plan]]:
    """The plans of a source, verified, each with the size from which on it is for."""
    from ocs_codesign.schedules.files.books import is_book, load_book
    from ocs_codesign.schedules.files.designs import load_design, verify_design
    from ocs_codesign.verification.messages import check_book

    if isinstance(source, str | Path):
        name = str(source)
        source = load_book(name) if is_book(name) else load_design(name)
        if not isinstance(source, Book):
            witness = verify_design(source).witness
            if witness is not None:
                raise ValueError(f"{name} is no valid design: {witness}: build it anew")
    if isinstance(source, Book):
        for page, witness in zip(source.pages, check_book(source), strict=True):
            if witness is not None:
                raise ValueError(f"this is no valid book: {page.maker}: {witness}: make it anew")
            yield page.from_bytes, page.plan
        return
    if getattr(source, "circuits", None) is not None:
        raise ValueError(
            "the circuits of this design change while it runs, and nobody here turns them: take a "
            "design of a topology that stays"
        )
    yield 0, _verified(getattr(source, "schedule", source))


def _verified(plan: Any) -> Plan:
    from ocs_codesign.verification.messages import check_messages
    from ocs_codesign.verification.schedules import verify

    if not isinstance(plan, Schedule | Messages):
        raise ValueError(f"{plan!r:.80} is no book, design or plan, nor the path of one")
    witness = check_messages(plan) if isinstance(plan, Messages) else verify(plan).witness
    if witness is not None:
        raise ValueError(f"only verified plans are run: {witness}")
    return plan


def refusal_of(plan: Plan) -> str | None:
    """Why ranks that call collectives cannot run a plan, None if they can."""
    if plan.collective.groups is not None or plan.collective.sizes is not None:
        return (
            f"{plan.collective.text} has groups or sizes of its own: give the plan of one group of "
            "equal parts, which every group of as many ranks runs"
        )
    if isinstance(plan, Schedule) and plan.topology.num_nodes > plan.num_hosts:
        return (
            "this schedule leads over switches that ranks do not see: give messages between ranks "
            "(a classic scheduler of build or compare)"
        )
    return None


def _runnable(plan: Plan) -> RankMessages:
    """What goes between ranks; ValueError for what ranks alone cannot do."""
    refusal = refusal_of(plan)
    if refusal is not None:
        raise ValueError(refusal)
    return traffic_of(plan)
