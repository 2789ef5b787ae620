"""Books on disk: a directory with ``book.json``, ``network.json`` and a plan a page in ``plans/``.

``book.json`` is an object: ``format`` (3 with ``advice``, 2 with ``played``, else 1), ``version``,
``collective``,
``root`` where it has one,
``unit_Bps`` (bytes a second of a unit of the network's bandwidth, a fraction as text) and
``pages``, a list of objects with ``from_bytes``, ``maker`` and ``plan``, the name of a file in
``plans/``: an archive of a schedule, or, if it ends in ``.messages.npz``, of messages. ``played``
has ``sizes_bytes``, ``times_s`` (seconds, a row a page) and ``barriers``; ``advice`` what
``core.plans.Advice`` has, of a machine.
"""

from __future__ import annotations

import json
import os
import re
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

import ocs_codesign
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.files.archives import read_limited
from ocs_codesign.core.files.atomic import check_replaceable, whole_directory
from ocs_codesign.core.files.plain_text import Place, checked_part, read_plain_text
from ocs_codesign.core.networks.formats import import_network, write_json
from ocs_codesign.core.plans import Advice, Book, Page, Plan, Played
from ocs_codesign.core.quantities import unit_of_bandwidth
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


_Time = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Page(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    from_bytes: Annotated[int, Field(ge=0, lt=2**63)]
    maker: Annotated[str, Field(max_length=200)]
    plan: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.,-]{1,120}\.npz$")]


class _Played(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    sizes_bytes: Annotated[list[Annotated[int, Field(ge=1, lt=2**63)]], Field(max_length=1000)]
    times_s: list[list[_Time]]
    barriers: bool


_Text = Annotated[str, Field(max_length=200)]


class _Advice(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    machine: _Text
    caveat: _Text
    sizes_bytes: Annotated[list[Annotated[int, Field(ge=1, lt=2**63)]], Field(max_length=1000)]
    protocols: list[_Text]
    plan_s: list[Annotated[list[_Time], Field(min_length=2, max_length=2)]]
    library: list[_Text]
    library_s: list[Annotated[list[_Time], Field(min_length=2, max_length=2)]]
    tuned: list[_Text]
    barriers: bool = False

    def value(self) -> Advice:
        plan_s, library_s = (
            tuple((row[0], row[1]) for row in each) for each in (self.plan_s, self.library_s)
        )
        return Advice(
            *(self.machine, self.caveat, tuple(self.sizes_bytes), tuple(self.protocols), plan_s),
            *(tuple(self.library), library_s, tuple(self.tuned), self.barriers),
        )


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    format: Literal[1, 2, 3]
    version: Annotated[str, Field(max_length=100)]
    collective: Annotated[str, Field(max_length=40)]
    root: Annotated[int, Field(ge=0)] | None = None
    unit_Bps: Annotated[str, Field(pattern=r"^[1-9][0-9]{0,30}(/[1-9][0-9]{0,30})?$")]  # noqa: N815
    pages: Annotated[list[_Page], Field(min_length=1, max_length=1000)]
    played: _Played | None = None
    advice: _Advice | None = None


def is_book(path: str | Path) -> bool:
    """Whether a directory holds a book."""
    return os.path.isfile(Path(path) / BOOK_FILE)  # a recipe may be too long for a path


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
        "format": 3 if book.advice else 1 if book.played is None else 2,
        "version": ocs_codesign.__version__,
        "collective": book.collective.name,
        **({} if book.collective.root is None else {"root": book.collective.root}),
        "unit_Bps": str(book.unit_Bps),
        "pages": [
            {"from_bytes": page.from_bytes, "maker": page.maker, "plan": name}
            for page, name in zip(book.pages, names, strict=True)
        ],
        **({} if book.played is None else {"played": book.played._asdict()}),
        **({} if book.advice is None else {"advice": book.advice._asdict()}),
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
    plain = read_plain_text(read_limited(path, MAX_BOOK_BYTES), str(path), is_json=True)
    keys = "format, version, collective, unit_Bps and pages"
    record = checked_part(plain, str(path), _Record, _keys_at, "book", keys=keys)
    network = import_network(directory / NETWORK_FILE, "json")
    pages = tuple(
        Page(page.from_bytes, page.maker, _plan(directory / PLANS / page.plan))
        for page in record.pages
    )
    try:
        if record.format != (3 if record.advice else 1 if record.played is None else 2):
            raise ValueError(f"format is {record.format}: played is there from 2 on, advice in 3")
        for number, (read, page) in enumerate(zip(record.pages, pages, strict=True), 1):
            if read.plan != _plan_name(number, page):
                raise ValueError(
                    f"{read.plan} is not a plan of {shown(page.maker)} on page {number}"
                )
        if network.unit and unit_of_bandwidth(network.unit) != Fraction(record.unit_Bps):
            raise ValueError(f"unit_Bps is {record.unit_Bps}: links have units of {network.unit}")
        played = record.played
        times = None
        if played is not None:
            rows = tuple(map(tuple, played.times_s))
            times = Played(tuple(played.sizes_bytes), rows, played.barriers)
        collective = Collective(record.collective, record.root)
        advice = None if record.advice is None else record.advice.value()
        return Book(network, Fraction(record.unit_Bps), collective, pages, times, advice)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _keys_at(place: Place) -> list[str]:
    parts: dict[str, type[BaseModel]] = {"pages": _Page, "played": _Played, "advice": _Advice}
    return list(parts.get(str(place[0]) if place else "", _Record).model_fields)


def _plan(path: Path) -> Plan:
    if path.name.endswith(_MESSAGES):
        return read_messages(path)
    return read_archive(path).schedule
