"""Candidates of a selection: the designs that a fabric of N hosts with d ports could hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def candidate_recipes(
    fabric: Fabric, collectives: Iterable[Collective], catalogue: Catalogue
) -> tuple[tuple[Recipe, ...], tuple[Recipe, ...]]:
    """Designs of the catalogue and of published families, and of a short search for all-to-all.

    The working hosts are nodes and their ports the degree; two-way circuits ask for two-way links.
    Beside them are those left out, whose all-to-all is too large to solve in passing. Raises
    ValueError if there is none for the fabric's size.
    """
    models = {fabric.port_model(plane) for plane in range(fabric.num_planes)}
    both = all(model.is_bidirectional for model in models)
    question = Question(fabric.num_working_hosts, fabric.num_ports_per_host, both)
    wanted = set(collectives)
    known = [parse(entry.recipe) for entry in catalogue.entries(question)]
    if 1 <= question.degree < question.num_nodes:
        known += literature(question.num_nodes, question.degree)
    if Collective.ALLTOALL in wanted:
        known += _searched(question)
    distinct = [recipe for recipe in dict.fromkeys(known) if question.is_answered_by(recipe)]
    if not distinct:
        raise ValueError(
            f"no design is known for the fabric's {question.num_nodes} working hosts with "
            f"{question.degree} ports"
            + " and links in both directions" * question.bidirectional
            + ": name some with --designs"
        )
    large: set[Recipe] = set()
    if Collective.ALLTOALL in wanted:
        large = {each for each in distinct if columns_to_solve(each.topology()) > MAX_COLUMNS}
    return (
        tuple(recipe for recipe in distinct if recipe not in large),
        tuple(recipe for recipe in distinct if recipe in large),
    )


def _searched(question: Question) -> list[Recipe]:
    """What a short search for all-to-all finds: of what is solved at once, the fewest hops."""
    solving = Solving(DEFAULT_OPTIONS)
    quick = [
        recipe
        for recipe in alltoall_recipes(question, _EFFORT)
        if columns_to_solve(recipe.topology()) <= _MAX_SEARCHED_COLUMNS
    ]
    return sorted(quick, key=solving.hop_bound)[:_MAX_SEARCHED]
