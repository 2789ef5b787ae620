"""``ocs-codesign catalogue``: look designs up, export them, verify them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.cli.alltoall import COLLECTIVE
from ocs_codesign.cli.options import GATHERING, collective_choice, json_option, solver_options
from ocs_codesign.cli.output import (
    check_outputs,
    cost_json,
    cost_text,
    emit,
    optimality,
    show_facts,
    show_table,
)
from ocs_codesign.cli.progress import progress

if TYPE_CHECKING:
    from rich.console import Console

    from ocs_codesign.cli.options import SolverChoice
    from ocs_codesign.collective import Collective
    from ocs_codesign.search.catalogue.entry import Entry
    from ocs_codesign.search.catalogue.lookup import Found
    from ocs_codesign.search.catalogue.store import Catalogue

file_option = click.option(
    "--catalogue", "path", metavar="FILE", help="A catalogue; by default the one shipped."
)


@click.group(short_help="Look designs up in a catalogue.")
def catalogue() -> None:
    """Look designs up in a catalogue filled by ``sweep``; nothing is searched."""


@catalogue.command("find")
@click.option("--nodes", "num_nodes", type=click.IntRange(2), required=True, help="Nodes N.")
@click.option("--degree", type=click.IntRange(1), required=True, help="Ports of a node d.")
@click.option("--bidirectional", is_flag=True, help="Every link in both directions.")
@collective_choice(*GATHERING, COLLECTIVE)
@click.option("--max-steps", type=click.IntRange(1), help="At most so many steps.")
@click.option("--max-t-b", metavar="X", help="At most this t_b, as in 1, 1.05 or 261/256.")
@file_option
@solver_options
@json_option
def find_command(
    num_nodes: int,
    degree: int,
    bidirectional: bool,
    collective: str,
    max_steps: int | None,
    max_t_b: str | None,
    path: str | None,
    choice: SolverChoice,
    json_path: str | None,
) -> None:
    """Show the stored frontier of a size; of the nearest larger one if there is none.

    All-to-all is not stored. With --collective alltoall it is solved now for the designs stored for
    the size, as far as it takes to rank them: seconds, up to minutes for 1000 nodes without
    symmetry. Its steps are the diameter. The other collectives are looked up.

    Exit code 1 if no stored design is within the limits.
    """
    check_outputs(json_path)
    if collective != COLLECTIVE:
        choice.check_unused(f"--collective {COLLECTIVE}")
    from ocs_codesign.question import Question
    from ocs_codesign.search.catalogue.lookup import find
    from ocs_codesign.search.catalogue.store import Catalogue

    limit = None if max_t_b is None else _fraction(max_t_b)
    asked = Question(num_nodes, degree, bidirectional)
    with Catalogue(path) as store:
        if collective == COLLECTIVE:
            from ocs_codesign.cli.joint import StoredLimits, stored_by_alltoall

            stored_by_alltoall(store, asked, StoredLimits(max_steps, limit), choice, json_path)
            return
        found = find(store, asked, collective, max_steps=max_steps, max_t_b=limit)
    value = {
        "nodes": num_nodes,
        "degree": degree,
        "bidirectional": bidirectional,
        "collective": found.collective.name,
        "exact": found.exact,
        "found_nodes": found.question.num_nodes,
        "candidates": [_entry_json(entry, found.collective) for entry in found.entries],
    }
    emit(value, json_path, lambda console: _show_found(console, found))
    if not found.entries:
        raise click.exceptions.Exit(1)


@catalogue.command("show")
@click.argument("recipe")
@file_option
@json_option
def show_command(recipe: str, path: str | None, json_path: str | None) -> None:
    """Show what the catalogue knows of a RECIPE and where it comes from; exit code 1 if nothing."""
    check_outputs(json_path)
    from ocs_codesign.collective import Collective
    from ocs_codesign.recipe import parse
    from ocs_codesign.search.catalogue.store import Catalogue

    with Catalogue(path) as store:
        found = store.of_recipe(parse(recipe))
        origins = [store.provenance(question) for question, _ in found]
    if not found:
        emit({"recipe": recipe, "found": False}, json_path, _say(f"{recipe} is not stored."))
        raise click.exceptions.Exit(1)
    entry, origin = found[0][1], origins[0]
    value = {
        "found": True,
        **_entry_json(entry, Collective.ALLGATHER),
        "provenance": None
        if origin is None
        else {
            "command": origin.command,
            "version": origin.version,
            "seed": origin.seed,
            "time_spent_s": origin.time_spent_s,
        },
    }
    facts = [
        ("recipe", entry.recipe),
        ("label", entry.label),
        ("nodes, degree", f"{entry.num_nodes}, {entry.degree}"),
        ("bidirectional", "yes" if entry.bidirectional else "no"),
        ("allgather", cost_text(entry.allgather)),
        ("reduce-scatter", cost_text(entry.reduce_scatter)),
        ("optimal", optimality(entry.is_bw_optimal(), entry.is_moore_optimal())),
        ("schedule", entry.schedule),
        ("found by", "-" if origin is None else origin.command),
        ("version", "-" if origin is None else origin.version),
        ("time spent", "-" if origin is None else f"{origin.time_spent_s} s"),
    ]
    emit(value, json_path, lambda console: show_facts(console, facts))


@catalogue.command("export")
@click.option(
    "--format", "kind", type=click.Choice(["csv", "parquet", "json"]), required=True, help="Format."
)
@click.option("--out", metavar="FILE", required=True, help="Where to write it.")
@file_option
@json_option
def export_command(kind: str, out: str, path: str | None, json_path: str | None) -> None:
    """Write all stored designs as one table."""
    check_outputs(json_path, out)
    from ocs_codesign.formats.catalogue_table import write_table
    from ocs_codesign.search.catalogue.store import Catalogue

    with progress("Exporting"), Catalogue(path) as store:
        number = write_table(store, kind, Path(out))
    value = {"format": kind, "out": out, "entries": number}
    emit(value, json_path, _say(f"{number} designs written to {out}."))


@catalogue.command("verify")
@click.option("--sample", type=click.IntRange(0), default=20, show_default=True, help="Designs.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the sample.")
@file_option
@json_option
def verify_command(sample: int, seed: int, path: str | None, json_path: str | None) -> None:
    """Check every checksum; rebuild and score a sample of the designs again.

    Exit code 1 if a design does not have its stored cost.
    """
    check_outputs(json_path)
    from ocs_codesign.search.catalogue.store import Catalogue

    with Catalogue(path) as store, progress("Verifying") as shown:
        store.check()
        number, wrong = _rescored(store, sample, seed, shown)
    value = {"ok": not wrong, "entries": number[0], "sampled": number[1], "wrong": wrong}
    text = f"{number[0]} designs, all checksums right; {number[1]} scored again"
    emit(
        value, json_path, _say(text + (f", wrong: {'; '.join(wrong)}" if wrong else ", all right."))
    )
    if wrong:
        raise click.exceptions.Exit(1)


def _rescored(
    store: Catalogue, sample: int, seed: int, shown: Any
) -> tuple[tuple[int, int], list[str]]:
    """Numbers of designs and of those sampled, and the recipes whose cost is another."""
    import random

    from ocs_codesign.design import measure
    from ocs_codesign.recipe import parse

    entries = [entry for _, entry in store.all_entries()]
    chosen = random.Random(seed).sample(entries, min(sample, len(entries)))
    wrong = []
    for done, entry in enumerate(chosen):
        shown.tell(done, len(chosen))
        candidate = measure(parse(entry.recipe))
        if (candidate.allgather, candidate.reduce_scatter) != (
            entry.allgather,
            entry.reduce_scatter,
        ):
            wrong.append(entry.recipe)
    return (len(entries), len(chosen)), wrong


def _show_found(console: Console, found: Found) -> None:
    asked, question = found.asked, found.question
    kind = ", links in both directions" if asked.bidirectional else ""
    console.print(
        f"{asked.num_nodes} nodes of degree {asked.degree}{kind}, {found.collective.name}"
    )
    if not found.exact:
        console.print(
            f"No design of exactly {asked.num_nodes} nodes is stored; "
            f"the nearest larger size is {question.num_nodes}."
        )
    if not found.entries:
        console.print("No stored design is within the limits.")
        return
    rows = [
        [
            str(entry.cost(found.collective).steps),
            str(entry.cost(found.collective).t_b),
            f"{float(entry.cost(found.collective).t_b):.6g}",
            optimality(
                entry.is_bw_optimal(found.collective), entry.is_moore_optimal(found.collective)
            ),
            "measured" if entry.measured else "predicted",
            entry.label,
            entry.recipe,
        ]
        for entry in found.entries
    ]
    columns = ["steps", "t_b", "decimal", "optimal", "cost", "label", "recipe"]
    show_table(console, columns, rows, 3, texts=2)


def _entry_json(entry: Entry, collective: Collective) -> dict[str, Any]:
    cost = entry.cost(collective)
    return {
        "recipe": entry.recipe,
        "label": entry.label,
        "nodes": entry.num_nodes,
        "degree": entry.degree,
        **cost_json(cost),
        "t_b_float": float(cost.t_b),
        "measured": entry.measured,
        "bw_optimal": entry.is_bw_optimal(collective),
        "moore_optimal": entry.is_moore_optimal(collective),
        "bidirectional": entry.bidirectional,
        "schedule": entry.schedule,
        "reverse_symmetric": entry.reverse_symmetric,
        "allgather": cost_json(entry.allgather),
        "reduce_scatter": cost_json(entry.reduce_scatter),
    }


def _fraction(text: str) -> Any:
    from fractions import Fraction

    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise click.BadParameter(f"{text!r} is not a number such as 1.05 or 261/256") from None


def _say(text: str) -> Any:
    return lambda console: console.print(text)
