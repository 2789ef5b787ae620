"""Questions of a catalogue with all that a page shows beside their designs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.answers.explorer import BASELINE, PUBLISHED, ShownQuestion
from ocs_codesign.design import predict
from ocs_codesign.graphs.families.shifts import GeneralizedKautz
from ocs_codesign.search.baselines import baseline_recipes
from ocs_codesign.search.literature import literature

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.design import Design
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.question import Question
    from ocs_codesign.search.catalogue.store import Catalogue

KAUTZ_NODES, KAUTZ_MULTIPLE = 512, 64
"""A generalized Kautz graph has no formula, and BFB on thousands of them takes an hour: its cost is
worked out up to so many nodes, and above for multiples of 64."""


def answered(catalogue: Catalogue, question: Question) -> ShownQuestion:
    """What is stored for a question, the published designs of its size, and its baselines."""
    entries = catalogue.entries(question)
    stored = {entry.recipe: entry for entry in entries}
    compared: list[tuple[str, Design]] = []
    uncosted: list[str] = []
    for kind, recipe in _recipes(question):
        if repr(recipe) in stored:
            compared.append((kind, stored[repr(recipe)].design()))
        elif _takes_long(recipe):
            uncosted.append(recipe.label())
        else:
            compared.append((kind, predict(recipe)))
    return ShownQuestion(question, entries, tuple(compared), tuple(uncosted))


def _recipes(question: Question) -> Iterator[tuple[str, Recipe]]:
    """Published designs, then baselines that are none of them."""
    published = [
        recipe
        for recipe in literature(question.num_nodes, question.degree)
        if question.is_answered_by(recipe)
    ]
    yield from ((PUBLISHED, recipe) for recipe in published)
    for recipe in baseline_recipes(question):
        if recipe not in published:
            yield BASELINE, recipe


def _takes_long(recipe: Recipe) -> bool:
    return (
        isinstance(recipe, GeneralizedKautz)
        and recipe.num_nodes > KAUTZ_NODES
        and recipe.num_nodes % KAUTZ_MULTIPLE != 0
    )
