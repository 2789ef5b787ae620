"""The option --book: schedules that groups of a job's ranks take, from a directory or a recipe."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from os.path import exists
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ocs_codesign.book import Book
    from ocs_codesign.formats.jobs.job_files import LoadedJob
    from ocs_codesign.workload.group_books import GroupBook

book_option = click.option(
    "--book",
    "books",
    metavar="[WHO=]BOOK",
    multiple=True,
    help="A book of schedules that compare made, or a recipe, for groups of as many ranks as it "
    "has; WHO is what messages are called, or level0 for those of the machine's innermost level "
    "(default: all). May be repeated.",
)


def with_books(job: LoadedJob, texts: tuple[str, ...]) -> tuple[LoadedJob, tuple[GroupBook, ...]]:
    """The job whose messages cost what the books' plans do, and the books.

    Raises ValueError for a book that no message takes, and for two for the same messages.
    """
    if not texts:
        return job, ()
    from ocs_codesign.workload.group_books import priced_by_books

    if job.machine is None:
        raise ValueError("--book is for messages with bytes: those of this job have times instead")
    books = tuple(one for text in texts for one in _group_books(job, text))
    return replace(job, graph=priced_by_books(job.graph, books, job.machine)), books


def _group_books(job: LoadedJob, text: str) -> list[GroupBook]:
    """The books that ``text`` asks for: one of a directory, of a recipe one for each collective."""
    from ocs_codesign.workload.group_books import GroupBook

    who, label, level = "", None, None
    place = text
    if not exists(text) and "(" not in text.partition("=")[0] and "=" in text:
        who, _, place = text.partition("=")
    if who:
        numbered = re.fullmatch(r"level\s*(\d{1,3})", who)
        if numbered is None or who in job.graph.labels:
            label = who
        else:
            level = int(numbered[1])
    if exists(place) or not place.rstrip().endswith(")"):
        from ocs_codesign.cli.saved import verified_book

        return [GroupBook(verified_book(place), label, level)]
    return [GroupBook(book, label, level) for book in _of_recipe(job, place, label)]


def _of_recipe(job: LoadedJob, text: str, label: str | None) -> list[Book]:
    """The best schedules of a recipe for those collectives that the job's groups of its size do."""
    import numpy as np

    from ocs_codesign.book import Book, Page
    from ocs_codesign.cli.saved import design_of, own_network
    from ocs_codesign.collective import GATHERING
    from ocs_codesign.graphs.text import parse
    from ocs_codesign.workload.job_graph import FIRST_COLLECTIVE, KINDS

    graph, num_ranks = job.graph, parse(text).num_nodes
    talks = np.flatnonzero((graph.kind >= FIRST_COLLECTIVE) & (graph.size_bytes > 0))
    if label is not None and label in graph.labels:
        talks = talks[graph.label[talks] == graph.labels.index(label)]
    talks = talks[graph.group_size[graph.group[talks]] == num_ranks]
    names = {KINDS[kind] for kind in graph.kind[talks].tolist()}
    chosen = [one for one in GATHERING if one.name in names]
    if not chosen:
        whose = "" if label is None else f" called {label!r}"
        known = ", ".join(one.name for one in GATHERING)
        raise ValueError(
            f"no message{whose} takes schedules of {text}: they are for {known} of groups of "
            f"{num_ranks} ranks"
        )
    made = [design_of(text, one.name) for one in chosen]
    return [
        Book(own_network(one), Fraction(1), one.schedule.collective, (Page(0, text, one.schedule),))
        for one in made
    ]
