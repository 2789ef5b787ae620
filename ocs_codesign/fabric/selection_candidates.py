"""Candidates of a selection: the designs that a fabric of N hosts with d ports could hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from ocs_codesign.collective import Collective
from ocs_codesign.graphs.text import parse
from ocs_codesign.lp import DEFAULT_OPTIONS
from ocs_codesign.question import Question
from ocs_codesign.reconfigure.hold.options import MAX_COLUMNS
from ocs_codesign.schedulers.alltoall.throughput import columns_to_solve
from ocs_codesign.search.alltoall.search import alltoall_recipes
from ocs_codesign.search.alltoall.solving import Solving
from ocs_codesign.search.effort import Effort
from ocs_codesign.search.literature import literature

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ocs_codesign.fabric.description import Fabric
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.search.catalogue.store import Catalogue


_EFFORT = Effort(work=2**18)
_MAX_SEARCHED = 8
_MAX_SEARCHED_COLUMNS = 4096


@final
@dataclass(frozen=True, slots=True)
class CandidateRecipes:
    """Recipes for a size; ``too_large`` ones have an all-to-all too large to solve in passing."""

    question: Question
    recipes: tuple[Recipe, ...]
    too_large: tuple[Recipe, ...]


def fabric_question(fabric: Fabric) -> Question:
    """The working hosts as nodes, their ports as degree; two-way circuits ask for two-way links."""
    models = {fabric.port_model(plane) for plane in range(fabric.num_planes)}
    both = all(model.is_bidirectional for model in models)
    return Question(fabric.num_working_hosts, fabric.num_ports_per_host, both)


def candidate_recipes(
    fabric: Fabric, collectives: Iterable[Collective], catalogue: Catalogue
) -> CandidateRecipes:
    """Designs of the catalogue and of published families, and of a short search for all-to-all.

    Raises ValueError if there is none for the fabric's size.
    """
    question = fabric_question(fabric)
    wanted = set(collectives)
    known = [parse(entry.recipe) for entry in catalogue.entries(question)]
    if 1 <= question.degree < question.num_nodes:
        known += literature(question.num_nodes, question.degree)
    if Collective.ALLTOALL in wanted:
        known += _searched(question)
    distinct = [one for one in dict.fromkeys(known) if question.is_answered_by(one)]
    if not distinct:
        raise ValueError(
            f"no design is known for the fabric's {question.num_nodes} working hosts with "
            f"{question.degree} ports"
            + " and links in both directions" * question.bidirectional
            + ": name some with --designs"
        )
    large: set[Recipe] = set()
    if Collective.ALLTOALL in wanted:
        large = {one for one in distinct if columns_to_solve(one.topology()) > MAX_COLUMNS}
    return CandidateRecipes(
        question,
        tuple(one for one in distinct if one not in large),
        tuple(one for one in distinct if one in large),
    )


def _searched(question: Question) -> list[Recipe]:
    """What a short search for all-to-all finds: of what is solved at once, the fewest hops."""
    solving = Solving(DEFAULT_OPTIONS)
    found = [
        one
        for one in alltoall_recipes(question, _EFFORT)
        if columns_to_solve(one.topology()) <= _MAX_SEARCHED_COLUMNS
    ]
    return sorted(found, key=solving.hop_bound)[:_MAX_SEARCHED]
