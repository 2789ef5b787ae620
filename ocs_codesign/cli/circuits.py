"""What commands say of circuits that change, and whether a record's claims of them are true."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.circuits import changes_sections
from ocs_codesign.cli.output import show_sections

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from rich.console import Console

    from ocs_codesign.circuits import Change, CircuitProgram
    from ocs_codesign.formats.designs.design_files import LoadedProgram
    from ocs_codesign.topology import Topology
    from ocs_codesign.verification.programs import ProgramVerdict
    from ocs_codesign.verification.witness import Witness


def show_changes(console: Console, changes: Sequence[Change]) -> None:
    """What comes up when, after the first configuration."""
    show_sections(console, changes_sections(changes))


def false_circuit_claim(loaded: LoadedProgram, verdict: ProgramVerdict) -> Witness | None:
    """The first claim of a record, about circuits, that the program does not bear out."""
    from ocs_codesign.verification.witness import Witness

    claims = loaded.claims
    if claims is None:
        return None
    if claims.changes != verdict.changes:
        return Witness("the claimed changes are not those of the circuits")
    if claims.num_configurations != verdict.num_configurations:
        return Witness(
            f"{claims.num_configurations} configurations are claimed, "
            f"but {verdict.num_configurations} follow each other"
        )
    if claims.bound is not None and claims.bound > verdict.cost.t_b:
        return Witness(f"t_b is claimed to be at least {claims.bound}, but is {verdict.cost.t_b}")
    if claims.recipes:
        steps = verdict.cost.steps
        if len(claims.recipe_of_step) != steps:
            return Witness(f"{len(claims.recipe_of_step)} of {steps} steps have a claimed recipe")
        return _foreign_step(loaded.circuits, claims.recipes, claims.recipe_of_step)
    return None


def _foreign_step(
    program: CircuitProgram, recipes: Sequence[str], recipe_of_step: Sequence[int]
) -> Witness | None:
    """The first step in which other links are up than those of the recipe claimed for it."""
    import numpy as np

    from ocs_codesign.graphs.text import parse
    from ocs_codesign.verification.witness import Witness

    wanted: dict[int, NDArray[np.int64]] = {}
    starts, ends = set(program.first_step.tolist()), set((program.last_step + 1).tolist())
    before = None
    for step, number in enumerate(recipe_of_step, 1):
        if number == before and step not in starts and step not in ends:
            continue
        before = number
        if number not in wanted:
            recipe = parse(recipes[number])
            small = recipe.num_nodes == program.topology.num_nodes
            if not small or recipe.degree > program.num_planes:
                return Witness(f"the nodes or ports are not those of {recipe!r}", step=step)
            wanted[number] = _ends(recipe.topology())
        if not np.array_equal(wanted[number], _ends(program.topology, program.links_up(step))):
            return Witness(f"the links up are not those of {recipes[number]}", step=step)
    return None


def _ends(topology: Topology, links: NDArray[Any] | None = None) -> NDArray[Any]:
    """Pairs of ends as sorted numbers, of these links or of all."""
    import numpy as np

    tail, head = topology.tail, topology.head
    if links is not None:
        tail, head = tail[links], head[links]
    return np.sort(tail.astype(np.int64) * topology.num_nodes + head)
