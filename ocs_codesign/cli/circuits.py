"""What commands say of circuits that change, and whether a record's claims of them are true."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.cli.output import show_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from rich.console import Console

    from ocs_codesign.circuits import Change, CircuitProgram
    from ocs_codesign.formats.designs.design_files import LoadedProgram
    from ocs_codesign.topology import Topology
    from ocs_codesign.verification.programs import ProgramVerdict
    from ocs_codesign.verification.witness import Witness

_SHOWN_CHANGES = 16


def circuits_json(program: CircuitProgram, verdict: ProgramVerdict) -> dict[str, Any]:
    """The circuits of a program in JSON."""
    from ocs_codesign.formats.designs.record import change_fields

    return {
        "planes": program.num_planes,
        "circuits": program.topology.num_links,
        "configurations": verdict.num_configurations,
        "pauses": len(program.pauses),
        "changes": [change_fields(change) for change in verdict.changes],
    }


def circuits_facts(program: CircuitProgram, verdict: ProgramVerdict) -> list[tuple[str, object]]:
    """Rows of a table of facts."""
    changed = sum(change.num_circuits for change in verdict.changes if change.step > 1)
    one = verdict.num_configurations == 1
    stops = len(program.pauses)
    return [
        ("configurations", verdict.num_configurations),
        ("circuits changed", "none" if one else f"{changed:,} in all"),
        ("the fabric stops", None if one else f"{stops} time{'s' * (stops != 1)}"),
    ]


def show_changes(console: Console, changes: Sequence[Change]) -> None:
    """What comes up when, after the first configuration; the rest of a long list is left out."""
    later = [change for change in changes if change.step > 1]
    if not later:
        return
    rows = [
        (str(change.step), str(change.plane), str(change.num_circuits), _prepared(change))
        for change in later[:_SHOWN_CHANGES]
    ]
    if len(later) > _SHOWN_CHANGES:
        rows.append(("...", "", "", f"{len(later) - _SHOWN_CHANGES} more changes"))
    console.print()
    show_table(console, ("step", "plane", "circuits up", "prepared"), rows, numbers=3)


def _prepared(change: Change) -> str:
    if not change.dark_steps:
        return "while the fabric stops"
    return f"while others send, in {change.dark_steps} dark step{'s' * (change.dark_steps != 1)}"


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

    from ocs_codesign.recipe import parse
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
