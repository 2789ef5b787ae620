"""``ocs-codesign verify``: is this schedule right, and what does it really cost?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import click

from ocs_codesign.answers.texts import cost_json, cost_text, loads_table
from ocs_codesign.cli.circuits import (
    circuits_facts,
    circuits_json,
    false_circuit_claim,
    show_changes,
)
from ocs_codesign.cli.options import json_option
from ocs_codesign.cli.output import check_outputs, emit, show_facts, show_sections
from ocs_codesign.cli.progress import progress

if TYPE_CHECKING:
    from rich.console import Console

    from ocs_codesign.formats.designs.design_files import LoadedDesign
    from ocs_codesign.verification.programs import ProgramVerdict
    from ocs_codesign.verification.schedules import Verdict
    from ocs_codesign.verification.witness import Witness

NEGATIVE = 1


@click.command(short_help="Check a saved design, trusting nothing in it.")
@click.argument("path", metavar="DIR|FILE.npz")
@json_option
def verify(path: str, json_path: str | None) -> int:
    """Replay a schedule send by send and recompute its cost.

    Where circuits change, every send must cross one that is up in its step, and every port needs a
    dark step or a pause to change. Of a design's directory, the claims of design.json are checked
    too. Exit code 1 if anything is wrong, with the first thing found wrong.
    """
    check_outputs(json_path)
    from ocs_codesign.formats.designs.design_files import load_design

    with progress("Verifying"):
        report = _Report.of(load_design(path))
    answer = _answer(report)
    emit(answer, json_path, lambda console: _show(console, answer, report))
    return 0 if report.witness is None else NEGATIVE


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Report:
    """What a replay found of a design; ``changing`` is the verdict where circuits change."""

    loaded: LoadedDesign
    verdict: Verdict | ProgramVerdict
    changing: ProgramVerdict | None
    witness: Witness | None

    @classmethod
    def of(cls, loaded: LoadedDesign) -> _Report:
        from ocs_codesign.verification.programs import verify_program
        from ocs_codesign.verification.schedules import verify as replay

        if loaded.program is None:
            verdict = replay(loaded.schedule, loaded.claimed)
            return cls(loaded, verdict, None, verdict.witness or _false_claim(loaded, verdict))
        changing = verify_program(loaded.program.circuits, loaded.schedule, loaded.claimed)
        witness = (
            changing.witness
            or _false_loads(loaded, changing)
            or false_circuit_claim(loaded.program, changing)
        )
        return cls(loaded, changing, changing, witness)

    def circuits(self) -> dict[str, Any]:
        """Fields of the answer about circuits, none if they do not change."""
        program = self.loaded.program
        if program is None or self.changing is None:
            return {}
        claims = program.claims
        return {
            "recipes": [] if claims is None else list(claims.recipes),
            "recipe_of_step": [] if claims is None else list(claims.recipe_of_step),
            **circuits_json(program.circuits, self.changing),
        }


def _false_claim(loaded: LoadedDesign, verdict: Verdict) -> Witness | None:
    """The first claim of the record, beside its cost, that the schedule does not bear out."""
    from ocs_codesign.verification.witness import Witness

    loads = _false_loads(loaded, verdict)
    if loads is None and loaded.recipe is not None and not _is_of_recipe(loaded):
        return Witness(f"the links are not those of the claimed recipe {loaded.recipe}")
    return loads


def _false_loads(loaded: LoadedDesign, verdict: Verdict | ProgramVerdict) -> Witness | None:
    from ocs_codesign.verification.witness import Witness

    if loaded.loads is not None and loaded.loads != verdict.max_loads:
        return Witness("the claimed largest loads are not those of the sends")
    return None


def _is_of_recipe(loaded: LoadedDesign) -> bool:
    from ocs_codesign.recipe import parse

    recipe, topology = parse(loaded.recipe or ""), loaded.schedule.topology
    if recipe.num_nodes != topology.num_nodes or recipe.degree != topology.degree:
        return False
    return bool(recipe.topology() == topology)


def _answer(report: _Report) -> dict[str, Any]:
    loaded, verdict, witness = report.loaded, report.verdict, report.witness
    schedule, program = loaded.schedule, loaded.program
    return {
        "ok": witness is None,
        "recipe": loaded.recipe,
        "nodes": schedule.topology.num_nodes,
        "degree": schedule.topology.degree if program is None else program.circuits.num_planes,
        "collective": schedule.collective.name,
        **cost_json(verdict.cost),
        "t_b_float": float(verdict.cost.t_b),
        "max_load_per_step": [str(load) for load in verdict.max_loads],
        "num_chunks": schedule.num_chunks,
        "num_sends": schedule.num_sends,
        "claimed": None if loaded.claimed is None else cost_json(loaded.claimed),
        **report.circuits(),
        "witness": None if witness is None else _witness_json(loaded, witness),
    }


def _witness_json(loaded: LoadedDesign, witness: Witness) -> dict[str, Any]:
    topology, link = loaded.schedule.topology, witness.link
    plane = {} if loaded.program is None else {"plane": witness.plane}
    return {
        "rule": witness.rule,
        "row": witness.row,
        "step": witness.step,
        "link": link,
        "tail": None if link is None else int(topology.tail[link]),
        "head": None if link is None else int(topology.head[link]),
        "root": witness.root,
        "chunk": witness.chunk,
        "node": witness.node,
        **plane,
    }


def _show(console: Console, answer: dict[str, Any], report: _Report) -> None:
    witness, program = answer["witness"], report.loaded.program
    if witness is not None:
        console.print(f"Not valid: {_witness_text(witness)}.", soft_wrap=True)
        return
    facts: list[tuple[str, object]] = []
    if program is not None and report.changing is not None:
        console.print("Valid: every send was replayed over circuits that are up.")
        facts = circuits_facts(program.circuits, report.changing)
    else:
        console.print("Valid: every send was replayed.")
    degree = "degree" if program is None else "planes"
    show_facts(
        console,
        [
            ("recipe", answer["recipe"]),
            ("recipes", ", ".join(answer.get("recipes", [])) or None),
            (f"nodes, {degree}", f"{answer['nodes']}, {answer['degree']}"),
            ("collective", answer["collective"]),
            ("cost", cost_text(report.verdict.cost)),
            ("claimed", None if answer["claimed"] is None else "the same"),
            *facts,
            ("sends", f"{answer['num_sends']:,}"),
            ("chunks a shard", answer["num_chunks"]),
        ],
    )
    unit = "pieces" if answer["collective"] == "alltoall" else "shards"
    show_sections(console, ["", loads_table(report.verdict.max_loads, unit)])
    if report.changing is not None:
        show_changes(console, report.changing.changes)


def _witness_text(witness: dict[str, Any]) -> str:
    """The witness in words: ``row 3, step 2, link 5 (0 -> 1), root 0, chunk 2: the rule``."""
    places = []
    for key in ("row", "step", "link", "root", "chunk", "node", "plane"):
        if witness.get(key) is not None:
            ends = f" ({witness['tail']} -> {witness['head']})" if key == "link" else ""
            places.append(f"{key} {witness[key]}{ends}")
    return f"{', '.join(places)}{': ' if places else ''}{witness['rule']}"
