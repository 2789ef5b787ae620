"""Books as answers: which schedule is for messages of which size, and whether it is right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.sections import Facts, Table, counted
from ocs_codesign.messages import Messages
from ocs_codesign.quantities import format_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.book import Book, Page
    from ocs_codesign.verification.witness import Witness


def book_json(book: Book, witnesses: Sequence[Witness | None]) -> dict[str, Any]:
    """What a replay found of every page; ``witness`` is the first thing wrong with it."""
    return {
        "ok": not any(witnesses),
        "collective": book.collective.name,
        "hosts": book.network.num_hosts,
        "unit_Bps": str(book.unit_Bps),
        "pages": [
            {
                "from_bytes": page.from_bytes,
                "maker": page.maker,
                "steps": page.plan.num_steps,
                "sends": _sends(page),
                "witness": None if witness is None else str(witness),
            }
            for page, witness in zip(book.pages, witnesses, strict=True)
        ],
    }


def book_sections(book: Book, witnesses: Sequence[Witness | None]) -> Iterator[Section]:
    """The same where people read it."""
    wrong = next((at for at, witness in enumerate(witnesses) if witness is not None), None)
    if wrong is not None:
        page = book.pages[wrong]
        yield f"Not valid: {page.maker}, from {format_size(page.from_bytes)}: {witnesses[wrong]}."
        return
    yield "Valid: every send of every schedule was replayed."
    yield Facts(
        ("collective", f"{book.collective.name} of {counted(book.network.num_hosts, 'host')}"),
        ("schedules", len(book.pages)),
    )
    yield ""
    rows = [
        (format_size(page.from_bytes), str(page.plan.num_steps), f"{_sends(page):,}", page.maker)
        for page in book.pages
    ]
    yield Table(("from", "steps", "sends", "made by"), rows, numbers=3, texts=1)


def _sends(page: Page) -> int:
    return len(page.plan.step) if isinstance(page.plan, Messages) else page.plan.num_sends
