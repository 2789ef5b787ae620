"""Recipes by their handles: those that were printed are kept in a file for later commands.

The file is a convenience: without it, or where it cannot be written, handles of the shipped
catalogue still work. What it holds proves itself, for a handle is a digest of its recipe.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ocs_codesign.core.files.kept import kept_path
from ocs_codesign.graphs.handle import asked_digits, handle, recipes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ocs_codesign.graphs.recipe import Recipe


KEPT = "recipes.txt"
MAX_KEPT, MAX_BYTES, MAX_RECIPE = 2000, 2**20, 10_000


def kept_recipes() -> list[str]:
    """The recipes that were printed, the latest last; none if they cannot be read."""
    from ocs_codesign.core.files.archives import open_plain

    path = kept_path(KEPT)
    try:
        with open_plain(path) as file:  # type: ignore[arg-type]
            data = file.read(MAX_BYTES + 1)
    except (OSError, TypeError, ValueError):
        return []
    if len(data) > MAX_BYTES:
        return []
    lines = data.decode("utf-8", "replace").splitlines()
    return [line for line in lines if line.isprintable() and 0 < len(line) <= MAX_RECIPE]


def keep(recipes: Iterable[str]) -> None:
    """Remember recipes for later commands, the latest ones if there are too many."""
    from ocs_codesign.core.files.atomic import write_files

    path = kept_path(KEPT)
    new = [text for text in dict.fromkeys(recipes) if len(text) <= MAX_RECIPE]
    if path is None or not new:
        return
    before = kept_recipes()
    kept = [*(text for text in before if text not in new), *new][-MAX_KEPT:]
    while sum(len(text.encode()) + 1 for text in kept) > MAX_BYTES:
        kept = kept[len(kept) // 2 :]
    if kept != before:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_files({path: "".join(f"{text}\n" for text in kept).encode()})


def recipe_of(text: str) -> Recipe:
    """The recipe that a text is, or whose handle it is.

    A handle is looked up among the recipes that were printed here, then in the shipped catalogue.
    ValueError if it is of none or of several, or for a text that is no recipe.
    """
    from ocs_codesign.graphs.text import parse

    digits = asked_digits(text)
    if digits is None:
        return parse(text)
    found = recipes_of(digits, kept_recipes()) or recipes_of(digits, _stored_recipes())
    if not found:
        raise ValueError(
            f"#{digits} is the handle of no design that was printed here or is in the catalogue: "
            "give its recipe"
        )
    if len(found) > 1:
        raise ValueError(
            f"#{digits} is the handle of {len(found)} designs, {_listed(found)}: give more digits"
        )
    return parse(found[0])


def _listed(recipes: Sequence[str]) -> str:
    names = [f"{handle(text, 12)} {text}" for text in recipes[:3]]
    return ", ".join(names) + " and more" * (len(recipes) > len(names))


def _stored_recipes() -> list[str]:
    from ocs_codesign.search.catalogue.store import Catalogue

    with Catalogue() as store:
        return store.recipes()
