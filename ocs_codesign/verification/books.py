"""Independent check of books: every plan does what is demanded, over links that the network has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.messages import Messages
from ocs_codesign.routes import direct_routes
from ocs_codesign.verification.messages import check_messages
from ocs_codesign.verification.networks import verify_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.book import Book
    from ocs_codesign.verification.witness import Witness


def check_book(
    book: Book, on_progress: Callable[[int, int], None] | None = None
) -> list[Witness | None]:
    """Of every page the first thing that is wrong with its plan, None if nothing is."""
    found: list[Witness | None] = []
    for page in book.pages:
        plan = page.plan
        if isinstance(plan, Messages):
            found.append(check_messages(plan))
        else:
            found.append(verify_on(direct_routes(plan.topology, book.network), plan).witness)
        if on_progress is not None:
            on_progress(len(found), len(book.pages))
    return found
