"""Designs and books as arguments: what was saved, verified, or the best schedule of a recipe."""

from __future__ import annotations

from os.path import exists
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ocs_codesign.core.network import Network
    from ocs_codesign.core.plans import Book
    from ocs_codesign.schedules.files.designs import LoadedDesign


def design_of(text: str, collective: str) -> LoadedDesign:
    """The design that was saved, verified, or the best schedule of a recipe.

    Raises ValueError for a design that does not verify.
    """
    from ocs_codesign.graphs.handle import asked_digits
    from ocs_codesign.schedules.files.designs import LoadedDesign, load_design, verify_design

    is_recipe = text.rstrip().endswith(")") or asked_digits(text) is not None
    if exists(text) or not is_recipe:
        loaded = load_design(text)
        witness = verify_design(loaded).witness
        if witness is not None:
            raise ValueError(f"{text} is no valid design: {witness}")
        return loaded
    from ocs_codesign.faces.cli.handles import recipe_of
    from ocs_codesign.schedules.design import build

    built = build(recipe_of(text), collective)
    return LoadedDesign(built.schedule, built.cost, text, None, None, None, built.maker)


def verified_book(path: str) -> Book:
    """The book that was saved; ValueError if one of its plans does not verify."""
    from ocs_codesign.schedules.files.books import load_book
    from ocs_codesign.verification.messages import check_book

    book = load_book(path)
    for page, witness in zip(book.pages, check_book(book), strict=True):
        if witness is not None:
            raise ValueError(f"{path} is no valid book: {page.maker}: {witness}")
    return book


def own_network(loaded: LoadedDesign) -> Network:
    """The links of the design, a unit of speed each a unit of bandwidth."""
    from ocs_codesign.core.network import Network

    topology = loaded.schedule.topology
    ends = topology.tail, topology.head
    return Network(loaded.schedule.num_hosts, topology.num_nodes, *ends, topology.speeds())
