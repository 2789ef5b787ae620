"""What is known of a size: the shipped catalogue, and beside it what was searched for here before.

Searches of the default effort are kept in a catalogue in the user's cache, one for every version of
the package. It is a convenience: where it is missing, damaged or cannot be written, it is as if
nothing had been kept.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ocs_codesign import __version__
from ocs_codesign.core.files.kept import kept_path
from ocs_codesign.search.catalogue.store import Catalogue

if TYPE_CHECKING:
    from fractions import Fraction
    from pathlib import Path

    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.schedules.design import Design, Question
    from ocs_codesign.search.catalogue.entry import Entry, Provenance

MAX_BYTES = 2**26
"""When it has grown to this size it is begun anew."""
_FAILURES = (OSError, ValueError, sqlite3.Error)


class Stored(NamedTuple):
    """The entries of a question, first those of a catalogue; how it and ``here`` came to them."""

    entries: tuple[Entry, ...]
    origin: Provenance | None
    here: Provenance | None

    @property
    def designs(self) -> list[Design]:
        """The designs, in order."""
        return [entry.design() for entry in self.entries]

    @property
    def times(self) -> dict[Recipe, Fraction]:
        """The exact all-to-all times, in M/B, that are stored of some."""
        pairs = zip(self.designs, self.entries, strict=True)
        return {one.recipe: each.alltoall for one, each in pairs if each.alltoall is not None}

    @property
    def work(self) -> int:
        """That of the searches for allgathers, 0 where there were none."""
        return max((origin.work for origin in (self.origin, self.here) if origin), default=0)


def own_path() -> Path | None:
    """The catalogue of searches that were made here, None if none is kept."""
    return kept_path(f"designs-{__version__}.sqlite")


def stored_for(question: Question, catalogue: str | Path | None = None) -> Stored:
    """What is stored for a question; beside a catalogue that is named nothing counts."""
    with Catalogue(catalogue) as store:
        entries, origin = store.entries(question), store.provenance(question)
    here, path = None, own_path() if catalogue is None else None
    if path is not None:
        with suppress(*_FAILURES), Catalogue(path) as store:
            known = {entry.recipe for entry in entries}
            more = [entry for entry in store.entries(question) if entry.recipe not in known]
            for entry in more:
                entry.design()  # ValueError for a recipe that is none
            here = store.provenance(question)
            entries = (*entries, *more)
    return Stored(entries, origin, here)


def keep(question: Question, entries: tuple[Entry, ...], here: Provenance) -> None:
    """Keep what a search has found, beside what those before it did."""
    path = own_path()
    if path is None:
        return
    with suppress(OSError, sqlite3.Error):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > MAX_BYTES:
            path.unlink()
        try:
            _add(path, question, entries, here)
        except ValueError:  # it is damaged: begun anew
            path.unlink()
            _add(path, question, entries, here)


def _add(path: Path, question: Question, entries: tuple[Entry, ...], here: Provenance) -> None:
    with Catalogue(path, writable=True) as store:
        if not store.record(question, entries, here):
            store.add(question, entries, time_spent_s=0.0, exchanged=here.exchanged)
