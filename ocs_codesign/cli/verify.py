"""``ocs-codesign verify``: is this schedule right, and what does it really cost?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.cli.options import json_option
from ocs_codesign.cli.output import (
    check_outputs,
    cost_json,
    cost_text,
    emit,
    show_facts,
    show_loads,
)
from ocs_codesign.cli.progress import progress

if TYPE_CHECKING:
    from rich.console import Console

    from ocs_codesign.export import LoadedDesign
    from ocs_codesign.verification import Verdict, Witness

NEGATIVE = 1


@click.command(short_help="Check a saved design, trusting nothing in it.")
@click.argument("path", metavar="DIR|FILE.npz")
@json_option
def verify(path: str, json_path: str | None) -> int:
    """Replay a schedule send by send and recompute its cost.

    Of a design's directory, the claims of design.json are checked too. Exit code 1 if anything is
    wrong, with the first thing found wrong.
    """
    check_outputs(json_path)
    from ocs_codesign.export import load_design
    from ocs_codesign.verification import verify as replay

    with progress("Verifying"):
        loaded = load_design(path)
        verdict = replay(loaded.schedule, loaded.claimed)
        witness = verdict.witness or _false_claim(loaded, verdict)
    answer = _answer(loaded, verdict, witness)
    emit(answer, json_path, lambda console: _show(console, answer, verdict))
    return 0 if witness is None else NEGATIVE


def _false_claim(loaded: LoadedDesign, verdict: Verdict) -> Witness | None:
    """The first claim of the record, beside its cost, that the schedule does not bear out."""
    from ocs_codesign.verification import Witness

    if loaded.loads is not None and loaded.loads != verdict.max_loads:
        return Witness("the claimed largest loads are not those of the sends")
    if loaded.recipe is not None and not _is_of_recipe(loaded):
        return Witness(f"the links are not those of the claimed recipe {loaded.recipe}")
    return None


def _is_of_recipe(loaded: LoadedDesign) -> bool:
    from ocs_codesign.recipe import parse

    recipe, topology = parse(loaded.recipe or ""), loaded.schedule.topology
    if recipe.num_nodes != topology.num_nodes or recipe.degree != topology.degree:
        return False
    return bool(recipe.topology() == topology)


def _answer(loaded: LoadedDesign, verdict: Verdict, witness: Witness | None) -> dict[str, Any]:
    schedule = loaded.schedule
    return {
        "ok": witness is None,
        "recipe": loaded.recipe,
        "nodes": schedule.topology.num_nodes,
        "degree": schedule.topology.degree,
        "collective": schedule.collective.value,
        **cost_json(verdict.cost),
        "t_b_float": float(verdict.cost.t_b),
        "max_load_per_step": [str(load) for load in verdict.max_loads],
        "num_chunks": schedule.num_chunks,
        "num_sends": schedule.num_sends,
        "claimed": None if loaded.claimed is None else cost_json(loaded.claimed),
        "witness": None if witness is None else _witness_json(loaded, witness),
    }


def _witness_json(loaded: LoadedDesign, witness: Witness) -> dict[str, Any]:
    topology, link = loaded.schedule.topology, witness.link
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
    }


def _show(console: Console, answer: dict[str, Any], verdict: Verdict) -> None:
    witness = answer["witness"]
    if witness is not None:
        console.print(f"Not valid: {_witness_text(witness)}.", soft_wrap=True)
        return
    console.print("Valid: every send was replayed.")
    show_facts(
        console,
        [
            ("recipe", answer["recipe"]),
            ("nodes, degree", f"{answer['nodes']}, {answer['degree']}"),
            ("collective", answer["collective"]),
            ("cost", cost_text(verdict.cost)),
            ("claimed", None if answer["claimed"] is None else "the same"),
            ("sends", f"{answer['num_sends']:,}"),
            ("chunks a shard", answer["num_chunks"]),
        ],
    )
    unit = "pieces" if answer["collective"] == "alltoall" else "shards"
    show_loads(console, verdict.max_loads, unit)


def _witness_text(witness: dict[str, Any]) -> str:
    """The witness in words: ``row 3, step 2, link 5 (0 -> 1), root 0, chunk 2: the rule``."""
    places = []
    for key in ("row", "step", "link", "root", "chunk", "node"):
        if witness[key] is not None:
            ends = f" ({witness['tail']} -> {witness['head']})" if key == "link" else ""
            places.append(f"{key} {witness[key]}{ends}")
    return f"{', '.join(places)}{': ' if places else ''}{witness['rule']}"
