"""Books on disk: a directory with ``book.json``, ``network.json`` and a plan a page in ``plans/``.

``book.json`` is an object: ``format`` (1), ``version``, ``collective``, ``root`` where it has one,
``unit_Bps`` (bytes a second of a unit of the network's bandwidth, a fraction as text) and
``pages``, a list of objects with ``from_bytes``, ``maker`` and ``plan``, the name of a file in
``plans/``: an archive of a schedule, or, if it ends in ``.messages.npz``, of messages.
"""

from __future__ import annotations

import json
import os
import re
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

import ocs_codesign
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.files.archives import read_limited
from ocs_codesign.core.files.atomic import check_replaceable, whole_directory
from ocs_codesign.core.networks.formats import import_network, write_json
from ocs_codesign.core.plans import Book, Page, Plan
from ocs_codesign.core.schedule import Messages
from ocs_codesign.core.shown import shown
from ocs_codesign.schedules.files.archive import (
    read_archive,
    read_messages,
    write_messages,
    write_schedule,
)

BOOK_FILE, NETWORK_FILE, PLANS = "book.json", "network.json", "plans"
MAX_BOOK_BYTES = 2**20
_MESSAGES = ".messages.npz"


class _Page(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    from_bytes: Annotated[int, Field(ge=0, lt=2**63)]
    maker: Annotated[str, Field(max_length=200)]
    plan: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.,-]{1,120}\.npz$")]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    format: Literal[1]
    version: Annotated[str, Field(max_length=100)]
    collective: Annotated[str, Field(max_length=40)]
    root: Annotated[int, Field(ge=0)] | None = None
    unit_Bps: Annotated[str, Field(pattern=r"^[1-9][0-9]{0,30}(/[1-9][0-9]{0,30})?$")]  # noqa: N815
    pages: Annotated[list[_Page], Field(min_length=1, max_length=1000)]


def is_book(path: str | Path) -> bool:
    """Whether a directory holds a book."""
    return (Path(path) / BOOK_FILE).is_file()


def check_book_directory(directory: str | Path) -> None:
    """ValueError or OSError if a book must not be saved there: only books are replaced."""
    check_replaceable(
        Path(directory).resolve(),
        lambda target: set(os.listdir(target)) - {BOOK_FILE, NETWORK_FILE, PLANS},
        "a book is only saved in a new or empty directory or over an earlier book",
    )


def save_book(book: Book, directory: str | Path) -> None:
    """Write a book, whole or not at all, the same bytes each time; an earlier one is replaced.

    Raises ValueError if the directory holds anything else, OSError if it cannot be written.
    """
    check_book_directory(directory)
    names = [_plan_name(number, page) for number, page in enumerate(book.pages, 1)]
    record: dict[str, object] = {
        "format": 1,
        "version": ocs_codesign.__version__,
        "collective": book.collective.name,
        **({} if book.collective.root is None else {"root": book.collective.root}),
        "unit_Bps": str(book.unit_Bps),
        "pages": [
            {"from_bytes": page.from_bytes, "maker": page.maker, "plan": name}
            for page, name in zip(book.pages, names, strict=True)
        ],
    }
    with whole_directory(Path(directory), swapped=True) as part:
        (part / PLANS).mkdir()
        for page, name in zip(book.pages, names, strict=True):
            with (part / PLANS / name).open("xb") as file:
                if isinstance(page.plan, Messages):
                    write_messages(file, page.plan)
                else:
                    write_schedule(file, page.plan)
        network = write_json(book.network, "network of the book")
        (part / NETWORK_FILE).write_text(network, encoding="utf-8")
        (part / BOOK_FILE).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _plan_name(number: int, page: Page) -> str:
    maker = re.sub(r"[^A-Za-z0-9_,-]+", "-", page.maker)[:80]
    return f"{number}-{maker}{_MESSAGES if isinstance(page.plan, Messages) else '.npz'}"


def load_book(directory: str | Path) -> Book:
    """The book in a directory; its plans are not verified yet.

    Raises OSError if a file cannot be read and ValueError, with the file and the rule, if it is not
    what ``save_book`` writes.
    """
    directory = Path(directory)
    path = directory / BOOK_FILE
    try:
        record = _Record.model_validate_json(read_limited(path, MAX_BOOK_BYTES))
    except (ValidationError, RecursionError) as error:
        raise ValueError(f"{path}: {_first(error)}") from None
    network = import_network(directory / NETWORK_FILE, "json")
    pages = tuple(
        Page(page.from_bytes, page.maker, _plan(directory / PLANS / page.plan))
        for page in record.pages
    )
    try:
        collective = Collective(record.collective, record.root)
        return Book(network, Fraction(record.unit_Bps), collective, pages)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _first(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return "it is nested too deeply"
    first = error.errors(include_url=False)[0]
    where = ".".join(map(str, first["loc"])) or "the book"
    return f"{where} is {shown(first['input'])}: {first['msg'].lower()}"


def _plan(path: Path) -> Plan:
    if path.name.endswith(_MESSAGES):
        return read_messages(path)
    return read_archive(path).schedule
