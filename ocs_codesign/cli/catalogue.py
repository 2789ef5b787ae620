"""``ocs-codesign catalogue``: look designs up, export them, verify them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.answers.catalogue import (
    entry_facts,
    entry_json,
    found_json,
    found_sections,
    provenance_json,
)
from ocs_codesign.cli.catalogue_alltoall import alltoall_command
from ocs_codesign.cli.catalogue_gaps import file_option, gaps_command, improve_command
from ocs_codesign.cli.file_options import OUTPUT
from ocs_codesign.cli.options import (
    ALLTOALL,
    GATHERING,
    collective_choice,
    json_option,
    pick_option,
    solver_options,
)
from ocs_codesign.cli.output import check_outputs, emit, picked
from ocs_codesign.cli.progress import progress

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.cli.options import SolverChoice
    from ocs_codesign.search.catalogue.store import Catalogue


@click.group(short_help="Look designs up in a catalogue.")
def catalogue() -> None:
    """Look designs up in a catalogue filled by ``sweep``, or go on where they are worst.

    \b
    Example:
      ocs-codesign catalogue find --nodes 96 --degree 4
    """


catalogue.add_command(improve_command)
catalogue.add_command(gaps_command)
catalogue.add_command(alltoall_command)


@catalogue.command("find")
@click.option("--nodes", "num_nodes", type=click.IntRange(2), required=True, help="Nodes N.")
@click.option("--degree", type=click.IntRange(1), required=True, help="Ports of a node d.")
@click.option("--bidirectional", is_flag=True, help="Every link in both directions.")
@collective_choice(*GATHERING, ALLTOALL)
@click.option("--max-steps", type=click.IntRange(1), help="At most so many steps.")
@click.option("--max-t-b", metavar="X", help="At most this t_b, as in 1, 1.05 or 261/256.")
@pick_option
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
    pick: int | None,
    path: str | None,
    choice: SolverChoice,
    json_path: str | None,
) -> None:
    """Show the stored frontier of a size; of the nearest larger one if there is none.

    All-to-all is stored where that takes about a second to work out. With --collective alltoall it
    is solved now for the other designs stored for the size, as far as it takes to rank them:
    seconds, up to minutes for 1000 nodes without symmetry. Its steps are the diameter. The other
    collectives are looked up.

    Exit code 1 if no stored design is within the limits.

    \b
    Example:
      ocs-codesign catalogue find --nodes 96 --degree 4 --max-steps 4
    """
    check_outputs(json_path)
    if collective != ALLTOALL:
        choice.check_unused(f"--collective {ALLTOALL}")
    from ocs_codesign.question import Question
    from ocs_codesign.search.catalogue.lookup import find
    from ocs_codesign.search.catalogue.store import Catalogue

    limit = None if max_t_b is None else _fraction(max_t_b)
    asked = Question(num_nodes, degree, bidirectional)
    with Catalogue(path) as store:
        if collective == ALLTOALL:
            from ocs_codesign.cli.joint import StoredLimits, stored_by_alltoall

            limits = StoredLimits(max_steps, limit)
            stored_by_alltoall(store, asked, limits, choice, pick, json_path)
            return
        found = find(store, asked, collective, max_steps=max_steps, max_t_b=limit)
    sections: Iterable[Section] = found_sections(found)
    if pick is not None:
        sections = picked([[entry.recipe] for entry in found.entries], pick)
    emit(found_json(found), json_path, sections)
    if not found.entries:
        raise click.exceptions.Exit(1)


@catalogue.command("show")
@click.argument("recipe")
@file_option
@json_option
def show_command(recipe: str, path: str | None, json_path: str | None) -> None:
    """Show what the catalogue knows of a RECIPE and where it comes from; exit code 1 if nothing.

    \b
    Example:
      ocs-codesign catalogue show 'Named("petersen")'
    """
    check_outputs(json_path)
    from ocs_codesign.cli.handles import recipe_of
    from ocs_codesign.collective import Collective
    from ocs_codesign.search.catalogue.store import Catalogue

    with Catalogue(path) as store:
        found = store.of_recipe(recipe_of(recipe))
        origins = [store.provenance(question) for question, _ in found]
    if not found:
        unknown = {"recipe": recipe, "found": False}
        emit(unknown, json_path, [f"{recipe} is not stored."])
        raise click.exceptions.Exit(1)
    entry, origin = found[0][1], origins[0]
    value = {
        "found": True,
        **entry_json(entry, Collective.ALLGATHER),
        "provenance": provenance_json(origin),
    }
    emit(value, json_path, [entry_facts(entry, origin)])


@catalogue.command("export")
@click.option(
    "--format", "kind", type=click.Choice(["csv", "parquet", "json"]), required=True, help="Format."
)
@click.option("--out", type=OUTPUT, metavar="FILE", required=True, help="Where to write it.")
@file_option
@json_option
def export_command(kind: str, out: str, path: str | None, json_path: str | None) -> None:
    """Write all stored designs as one table.

    \b
    Example:
      ocs-codesign catalogue export --format csv --out designs.csv
    """
    check_outputs(json_path, out)
    from ocs_codesign.formats.catalogue_table import table_bytes, table_rows
    from ocs_codesign.search.catalogue.store import Catalogue

    with progress("Exporting"), Catalogue(path) as store:
        rows = table_rows(store)
        content = table_bytes(rows, kind)
    value = {"format": kind, "out": out, "entries": len(rows)}
    emit(value, json_path, [f"{len(rows)} designs written to {out}."], {out: content})


@catalogue.command("verify")
@click.option("--sample", type=click.IntRange(0), default=20, show_default=True, help="Designs.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the sample.")
@file_option
@json_option
def verify_command(sample: int, seed: int, path: str | None, json_path: str | None) -> None:
    """Check every checksum; rebuild and score a sample of the designs again.

    Exit code 1 if a design does not have its stored cost, of an all-to-all too where it is stored.

    \b
    Example:
      ocs-codesign catalogue verify --sample 5
    """
    check_outputs(json_path)
    from ocs_codesign.search.catalogue.store import Catalogue

    with Catalogue(path) as store, progress("Verifying") as shown:
        store.check()
        number, wrong = _rescored(store, sample, seed, shown)
    value = {"ok": not wrong, "entries": number[0], "sampled": number[1], "wrong": wrong}
    text = f"{number[0]} designs, all checksums right; {number[1]} scored again"
    emit(value, json_path, [text + (f", wrong: {'; '.join(wrong)}" if wrong else ", all right.")])
    if wrong:
        raise click.exceptions.Exit(1)


def _rescored(
    store: Catalogue, sample: int, seed: int, shown: Any
) -> tuple[tuple[int, int], list[str]]:
    """Numbers of designs and of those sampled, and the recipes whose cost is another."""
    import random

    from ocs_codesign.design import measure
    from ocs_codesign.graphs.text import parse
    from ocs_codesign.schedulers.alltoall.throughput import throughput

    entries = [entry for _, entry in store.all_entries()]
    chosen = random.Random(seed).sample(entries, min(sample, len(entries)))
    wrong = []
    for done, entry in enumerate(chosen):
        shown.tell(done, len(chosen))
        candidate = measure(parse(entry.recipe))
        if (candidate.cost_of("allgather"), candidate.cost_of("reduce-scatter")) != (
            entry.allgather,
            entry.reduce_scatter,
        ):
            wrong.append(entry.recipe)
        elif entry.alltoall is not None:
            solved = throughput(parse(entry.recipe).topology())
            if not (solved.is_optimal and solved.time == entry.alltoall):
                wrong.append(f"all-to-all of {entry.recipe}")
    return (len(entries), len(chosen)), wrong


def _fraction(text: str) -> Any:
    from fractions import Fraction

    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise click.BadParameter(f"{text!r} is not a number such as 1.05 or 261/256") from None
