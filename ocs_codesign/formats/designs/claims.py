"""Designs that were loaded, verified: the sends are replayed, and every claim must be true."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.verification.witness import Witness

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.circuits import CircuitProgram
    from ocs_codesign.formats.designs.design_files import LoadedDesign
    from ocs_codesign.formats.designs.record import ProgramClaims
    from ocs_codesign.topology import Topology
    from ocs_codesign.verification.programs import ProgramVerdict
    from ocs_codesign.verification.schedules import Verdict


@final
@dataclass(frozen=True, slots=True, eq=False)
class DesignVerdict:
    """What a replay found of a design; ``changing`` is the verdict where circuits change."""

    verdict: Verdict | ProgramVerdict
    changing: ProgramVerdict | None
    witness: Witness | None

    def __bool__(self) -> bool:
        """Whether nothing is wrong."""
        return self.witness is None


def verify_design(loaded: LoadedDesign) -> DesignVerdict:
    """Replay a design and compare it with its record; the witness is the first thing wrong."""
    from ocs_codesign.verification.programs import verify_program
    from ocs_codesign.verification.schedules import verify

    if loaded.circuits is None:
        verdict = verify(loaded.schedule, loaded.claimed, abilities=loaded.abilities)
        wrong = verdict.witness or _false_loads(loaded, verdict) or _false_recipe(loaded)
        return DesignVerdict(verdict, None, wrong)
    changing = verify_program(loaded.circuits, loaded.schedule, loaded.claimed)
    wrong = changing.witness or _false_loads(loaded, changing)
    if wrong is None and loaded.program is not None:
        wrong = _false_program(loaded.circuits, loaded.program, changing)
    return DesignVerdict(changing, changing, wrong)


def _false_loads(loaded: LoadedDesign, verdict: Verdict | ProgramVerdict) -> Witness | None:
    if loaded.loads is not None and loaded.loads != verdict.max_loads:
        return Witness("the claimed largest loads are not those of the sends")
    return None


def _false_recipe(loaded: LoadedDesign) -> Witness | None:
    from ocs_codesign.graphs.text import parse

    if loaded.recipe is None:
        return None
    recipe, topology = parse(loaded.recipe), loaded.schedule.topology
    small = (recipe.num_nodes, recipe.degree) == (topology.num_nodes, topology.degree)
    if small and recipe.topology() == topology:
        return None
    return Witness(f"the links are not those of the claimed recipe {loaded.recipe}")


def _false_program(
    circuits: CircuitProgram, claims: ProgramClaims, verdict: ProgramVerdict
) -> Witness | None:
    """The first claim about circuits that they do not bear out."""
    steps, t_b = verdict.cost.steps, verdict.cost.t_b
    if claims.changes != verdict.changes:
        return Witness("the claimed changes are not those of the circuits")
    if claims.num_configurations != verdict.num_configurations:
        return Witness(
            f"{claims.num_configurations} configurations are claimed, "
            f"but {verdict.num_configurations} follow each other"
        )
    if claims.bound is not None and claims.bound > t_b:
        return Witness(f"t_b is claimed to be at least {claims.bound}, but is {t_b}")
    if not claims.recipes:
        return None
    if len(claims.recipe_of_step) != steps:
        return Witness(f"{len(claims.recipe_of_step)} of {steps} steps have a claimed recipe")
    return _foreign_step(circuits, claims)


def _foreign_step(circuits: CircuitProgram, claims: ProgramClaims) -> Witness | None:
    """The first step in which other links are up than those of the recipe claimed for it."""
    from ocs_codesign.graphs.text import parse

    wanted: dict[int, NDArray[np.int64]] = {}
    edges = {*circuits.first_step.tolist(), *(circuits.last_step + 1).tolist()}
    before = None
    for step, number in enumerate(claims.recipe_of_step, 1):
        if number == before and step not in edges:
            continue
        before = number
        if number not in wanted:
            recipe = parse(claims.recipes[number])
            same = recipe.num_nodes == circuits.topology.num_nodes
            if not same or recipe.degree > circuits.num_planes:
                return Witness(f"the nodes or ports are not those of {recipe!r}", step=step)
            wanted[number] = _ends(recipe.topology())
        if not np.array_equal(wanted[number], _ends(circuits.topology, circuits.links_up(step))):
            rule = f"the links up are not those of {claims.recipes[number]}"
            return Witness(rule, step=step)
    return None


def _ends(topology: Topology, links: NDArray[Any] | None = None) -> NDArray[Any]:
    """Pairs of ends as sorted numbers, of these links or of all."""
    tail, head = topology.tail, topology.head
    if links is not None:
        tail, head = tail[links], head[links]
    return np.sort(tail.astype(np.int64) * topology.num_nodes + head)
