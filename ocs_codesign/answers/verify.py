"""A verified design as an answer: its cost, what is claimed, and the first thing that is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.circuits import changes_sections, circuits_facts, circuits_json
from ocs_codesign.answers.sections import Facts
from ocs_codesign.answers.texts import cost_json, cost_text, loads_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.formats.designs.claims import DesignVerdict
    from ocs_codesign.formats.designs.design_files import LoadedDesign
    from ocs_codesign.verification.witness import Witness

_PLACES = ("row", "step", "link", "root", "chunk", "node", "plane")


def verify_json(loaded: LoadedDesign, found: DesignVerdict) -> dict[str, Any]:
    """What a replay found of a loaded design."""
    schedule, cost = loaded.schedule, found.verdict.cost
    return {
        "ok": found.witness is None,
        "recipe": loaded.recipe,
        "nodes": schedule.topology.num_nodes,
        "degree": _degree(loaded),
        "collective": schedule.collective.name,
        **cost_json(cost),
        "t_b_float": float(cost.t_b),
        "max_load_per_step": [str(load) for load in found.verdict.max_loads],
        "num_chunks": schedule.num_chunks,
        "num_sends": schedule.num_sends,
        **{name: switches for name, switches in _able(loaded) if switches},
        "claimed": None if loaded.claimed is None else cost_json(loaded.claimed),
        **_program_json(loaded, found),
        "witness": None if found.witness is None else _witness_json(loaded, found.witness),
    }


def verify_sections(loaded: LoadedDesign, found: DesignVerdict) -> Iterator[Section]:
    """The same where people read it: the witness, or all that was replayed."""
    schedule, changing, circuits = loaded.schedule, found.changing, loaded.circuits
    if found.witness is not None:
        yield f"Not valid: {_witness_text(_witness_json(loaded, found.witness))}."
        return
    changes: list[tuple[str, object]] = []
    if changing is None or circuits is None:
        yield "Valid: every send was replayed."
    else:
        yield "Valid: every send was replayed over circuits that are up."
        changes = circuits_facts(circuits, changing)
    recipes = () if loaded.program is None else loaded.program.recipes
    ports = "degree" if circuits is None else "planes"
    yield Facts(
        ("recipe", loaded.recipe),
        ("recipes", ", ".join(recipes) or None),
        (f"nodes, {ports}", f"{schedule.topology.num_nodes}, {_degree(loaded)}"),
        ("collective", schedule.collective.text),
        ("cost", cost_text(found.verdict.cost)),
        ("claimed", None if loaded.claimed is None else "the same"),
        *changes,
        *((f"{name} in switches", len(each) or None) for name, each in _able(loaded)),
        ("sends", f"{schedule.num_sends:,}"),
        ("chunks a shard", schedule.num_chunks),
    )
    yield ""
    unit = "pieces" if schedule.collective.name == "alltoall" else "shards"
    yield loads_table(found.verdict.max_loads, unit)
    if changing is not None:
        yield from changes_sections(changing.changes)


def _able(loaded: LoadedDesign) -> list[tuple[str, list[int]]]:
    """The switches that must be able to copy what they get, and those that must add it up."""
    able = loaded.abilities
    return [("multicast", sorted(able.multicast)), ("aggregate", sorted(able.aggregate))]


def _degree(loaded: LoadedDesign) -> int:
    circuits = loaded.circuits
    return loaded.schedule.topology.degree if circuits is None else circuits.num_planes


def _program_json(loaded: LoadedDesign, found: DesignVerdict) -> dict[str, Any]:
    """Fields about circuits, none if they do not change."""
    if loaded.circuits is None or found.changing is None:
        return {}
    claims = loaded.program
    return {
        "recipes": [] if claims is None else list(claims.recipes),
        "recipe_of_step": [] if claims is None else list(claims.recipe_of_step),
        **circuits_json(loaded.circuits, found.changing),
    }


def _witness_json(loaded: LoadedDesign, witness: Witness) -> dict[str, Any]:
    topology, link = loaded.schedule.topology, witness.link
    plane = {} if loaded.circuits is None else {"plane": witness.plane}
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


def _witness_text(witness: dict[str, Any]) -> str:
    """The witness in words: ``row 3, step 2, link 5 (0 -> 1), root 0, chunk 2: the rule``."""
    places = []
    for key in _PLACES:
        if witness.get(key) is not None:
            ends = f" ({witness['tail']} -> {witness['head']})" if key == "link" else ""
            places.append(f"{key} {witness[key]}{ends}")
    return f"{', '.join(places)}{': ' if places else ''}{witness['rule']}"
