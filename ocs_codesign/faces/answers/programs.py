"""Programs and plans of others as answers: what they do, what it costs, or what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.core.machines.intervals import FASTER
from ocs_codesign.core.quantities import format_size
from ocs_codesign.core.schedule import Messages
from ocs_codesign.faces.answers.declared import made, records, table
from ocs_codesign.faces.answers.sections import Facts, Table, counted
from ocs_codesign.faces.answers.texts import cost_text, loads_table
from ocs_codesign.interop.registry import FORMATS
from ocs_codesign.interop.run.engine import piece_of_chunk
from ocs_codesign.interop.run.performance import DTYPES, PROVES, PROVES_NOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ocs_codesign.core.machines.machine import RealMachine
    from ocs_codesign.core.plans import Advice, Book, Page
    from ocs_codesign.core.topology import Topology
    from ocs_codesign.faces.answers.sections import Section
    from ocs_codesign.graphs.formats.facts import GraphFacts
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.interop.exports import Imported
    from ocs_codesign.interop.registry import CheckedFile, ProgramFormat
    from ocs_codesign.interop.run.astra_sim import SecondOpinion
    from ocs_codesign.interop.run.performance import RankResult, RunOutcome
    from ocs_codesign.interop.schedulers import ServerTree
    from ocs_codesign.verification.sends import Witness


made(
    "programs.imported",
    ok=lambda found: found.witness is None,
    operations=lambda found: found.num_operations or None,
    nodes=lambda found: found.schedule.topology.num_nodes if _is_right(found) else None,
    cost=lambda found: found.verdict.cost if _is_right(found) else None,
    max_load_per_step=lambda found: found.verdict.max_loads if _is_right(found) else (),
)
made(
    "programs.checked",
    ok=lambda found: found.witness is None,
    facts=lambda found: {name.replace(" ", "_"): value for name, value in found.facts},
)


def _is_right(found: Imported) -> bool:
    return found.witness is None and found.schedule is not None and found.verdict is not None


def imported_sections(found: Imported) -> Iterator[Section]:
    """The same where people read it."""
    if found.witness is not None or found.schedule is None or found.verdict is None:
        yield f"Not valid: {found.witness}."
        return
    if found.num_operations:
        yield "Valid: every operation was interpreted, and what they send was replayed."
    else:
        yield "Valid: every send was replayed."
    yield Facts(
        ("format", found.format_name),
        ("ranks", found.num_ranks),
        ("collective", found.collective.text),
        ("cost", cost_text(found.verdict.cost)),
        ("operations", f"{found.num_operations:,}" if found.num_operations else None),
        ("sends", f"{found.schedule.num_sends:,}"),
    )
    yield ""
    unit = "pieces" if found.collective.name == "alltoall" else "shards"
    yield loads_table(found.verdict.max_loads, unit)


def checked_sections(found: CheckedFile, format_name: str) -> Iterator[Section]:
    """The same where people read it."""
    if found.witness is not None:
        yield f"Not valid: {found.witness}."
        return
    yield f"Valid as far as it goes: {found.limit}."
    yield Facts(("format", format_name), *found.facts)


# Exports as answers: which files were written, of which plan, and who reads them.


made(
    "programs.export",
    files=lambda _, __, contents: {
        name: len(content) for name, content in sorted(contents.items())
    },
)
made("exported", plans=lambda _, __, exports: exports)
made(
    "exported_plan",
    operations=lambda export, name: (
        export.program.num_operations if FORMATS[name].keeps_operations else None
    ),
)


def export_sections(answer: Mapping[str, Any], form: ProgramFormat) -> Iterator[Section]:
    """The same where people read it."""
    plans, files = answer["of"]["plans"], answer["files"]
    size = format_size(sum(files.values()))
    yield f"Exported to {answer['out']}: {counted(len(files), 'file')} of {form.description}."
    first = plans[0] if plans else None
    counts = [plan["operations"] for plan in plans if plan["operations"] is not None]
    yield Facts(
        ("for", form.made_for),
        ("plans", len(plans) if len(plans) > 1 else None),
        ("collective", first and first["collective"]),
        ("ranks", first and first["ranks"]),
        ("operations", f"{sum(counts):,}" if counts else None),
        ("size", size),
    )
    yield ""
    rows = [(format_size(num_bytes), name) for name, num_bytes in files.items()]
    yield Table(("size", "file"), rows, numbers=1, texts=1).shortened("files")


# Graphs as answers: what a topology that was written or read is.


_MAX_SPEEDS = 8


made(
    "programs.topology",
    label=lambda recipe: recipe and recipe.label(),
    out=lambda *values: None if values[-1] == "-" else values[-1],
)


def topology_sections(
    recipe: Recipe | None, graph: str | None, topology: Topology, format_name: str, out: str
) -> Iterator[Section]:
    """The same where people read it."""
    answer = records()["programs.topology"].json(recipe, graph, topology, format_name, out)
    yield Facts(*((key, answer[key]) for key in answer if key != "out"), ("written to", out))


made("programs.tree", switches=lambda _, tree: [len(level) for level in tree.levels])


def tree_sections(network: str, tree: ServerTree, format_name: str, out: str) -> Iterator[Section]:
    """The same where people read it."""
    levels = ", ".join(str(len(level)) for level in tree.levels)
    yield Facts(
        ("network", network),
        ("format", format_name),
        ("servers", len(tree.servers)),
        ("switches", f"{levels}, from servers up; those side by side are one"),
        ("written to", out),
    )


def import_sections(
    name: str, format_name: str, facts: GraphFacts, out: str | None, *, read_as: str, hint: bool
) -> Iterator[Section]:
    """The same where people read it; with a ``hint`` if links back may have been meant."""
    del format_name
    diameter = "not computed" if facts.strongly_connected else "none"
    speeds = ", ".join(map(str, facts.link_speeds[:_MAX_SPEEDS]))
    more = ", ..." * (len(facts.link_speeds) > _MAX_SPEEDS)
    yield Facts(
        ("file", name),
        ("read as", read_as),
        ("nodes", facts.num_nodes),
        ("directed links", facts.num_links),
        ("degree", facts.degree),
        ("regular", _yes(facts.regular)),
        ("undirected", _yes(facts.undirected)),
        ("self-loops", facts.self_loops),
        ("parallel links", facts.parallel_links),
        ("strongly connected", _yes(facts.strongly_connected)),
        ("diameter", diameter if facts.diameter is None else facts.diameter),
        ("link speeds", "all equal" if len(facts.link_speeds) <= 1 else speeds + more),
        ("written to", out),
    )
    if hint and facts.one_way_links:
        yield (
            f"{counted(facts.one_way_links, 'link')} of {facts.num_links} have no link back; "
            "if every line was meant to be an edge, read it with --bidirectional."
        )


def _yes(fact: bool) -> str:
    return "yes" if fact else "no"


# Books as answers: which schedule is for messages of which size, and whether it is right.


made(
    "programs.book",
    ok=lambda _, witnesses: not any(witnesses),
    sizes_bytes=lambda book, _, machine: _sizes_bytes(book, machine),
    pages=lambda book, witnesses: zip(book.pages, witnesses, strict=True),
)
made("book_page", page=lambda pair: pair[0], witness=lambda pair: pair[1])
made("page", sends=lambda page: _sends(page), runs_on=lambda page: _runs_on(page))


def _sizes_bytes(book: Book, machine: RealMachine | None) -> tuple[int, ...]:
    """Sizes for which pages were played again, on plain links or by the clock of a machine."""
    told = book.played or (None if machine is None else book.advice)
    return () if told is None else told.sizes_bytes


def _stays(advice: Advice) -> str | None:
    """The sizes at which no page is faster than the library beyond doubt."""
    known = zip(advice.sizes_bytes, advice.verdicts(), strict=False)
    stay = [format_size(size) for size, verdict in known if verdict != FASTER]
    return ", ".join(stay) or None


def book_sections(
    book: Book, witnesses: Sequence[Witness | None], machine: RealMachine | None
) -> Iterator[Section]:
    """The same where people read it."""
    wrong = next((at for at, witness in enumerate(witnesses) if witness is not None), None)
    if wrong is not None:
        page = book.pages[wrong]
        yield f"Not valid: {page.maker}, from {format_size(page.from_bytes)}: {witnesses[wrong]}."
        return
    told = "; it has no times to play again"
    sizes = _sizes_bytes(book, machine)
    if sizes:
        told = f", and all were played again for {counted(len(sizes), 'size')}"
    yield f"Valid: every send of every schedule was replayed{told}."
    yield Facts(
        ("collective", f"{book.collective.name} of {counted(book.network.num_hosts, 'host')}"),
        ("schedules", len(book.pages)),
        *(
            ()
            if book.advice is None
            else (
                ("clock of", book.advice.machine),
                ("but", book.advice.caveat or None),
                ("the library stays at", _stays(book.advice)),
            )
        ),
    )
    yield ""
    yield table(
        book.pages,
        "from=from_bytes:size; steps=plan.num_steps; sends:count | runs on:list || made by=maker",
        sends=_sends,
        runs_on=_runs_on,
    )


def _sends(page: Page) -> int:
    return len(page.plan.step) if isinstance(page.plan, Messages) else page.plan.num_sends


def _runs_on(page: Page) -> tuple[str, ...]:
    """Which runtimes take a page: MPI to run any, the others where they train."""
    from ocs_codesign.interop.nccl.tuner import is_in_nccl
    from ocs_codesign.interop.runtimes.shelf import refusal_of

    calls = refusal_of(page.plan) is None
    own = is_in_nccl(page.plan.collective, page)
    return ("mpi", *("torch", "jax") * calls, *("nccl",) * own)


# A second opinion as an answer: what ASTRA-sim says of a design, beside our clock.


def opinion_sections(opinion: SecondOpinion) -> Iterator[Section]:
    """The same where people read it."""
    export, run = opinion.export, opinion.run
    if run.reason is not None:
        yield f"ASTRA-sim {'was skipped' if run.status == 'skipped' else 'failed'}: {run.reason}."
    elif opinion.difference == 0:
        yield "ASTRA-sim and our clock agree to the nanosecond."
    else:
        yield "ASTRA-sim and our clock differ."
    difference = opinion.difference
    yield Facts(
        ("design", export.name),
        ("collective", export.program.collective.text),
        ("ranks", export.program.num_ranks),
        ("messages", f"{opinion.num_messages:,}"),
        ("our clock", f"{opinion.own_ticks:,} ns, by ASTRA-sim's rules"),
        ("ASTRA-sim", None if run.total is None else f"{run.total:,} ns"),
        ("difference", None if difference is None else f"{difference:+,} ns"),
    )


# Runs on real processes as answers: whether every rank has what is right, and what that proves.


ITEM_BYTES = 8


made(
    "programs.run",
    data=DTYPES,
    proves=lambda outcome: PROVES[outcome.runtime],
    proves_not=PROVES_NOT,
)
made(
    "rank_difference",
    place=lambda difference, _, outcome: _place(outcome, difference.chunk),
    holds=lambda difference, _, outcome: _held(outcome, difference.holds),
)


def run_sections(outcome: RunOutcome) -> Iterator[Section]:
    """The same where people read it."""
    job, library = outcome.job, outcome.library
    program = job.program
    if outcome.fault is not None:
        yield f"Not run to its end: {outcome.fault}."
        return
    different = [result for result in outcome.ranks if not result.is_equal]
    every = counted(len(outcome.ranks), "rank")
    if different:
        yield (
            f"Different: {len(different)} of {every} do not have what {outcome.call} has. First: "
            f"{_first_difference(outcome, different[0])}."
        )
    else:
        yield f"Equal: every rank has what {outcome.call} has, bit by bit."
    messages = sum(result.num_messages for result in outcome.ranks)
    in_all = sum(result.num_elements for result in outcome.ranks) * ITEM_BYTES
    yield Facts(
        ("collective", f"{program.collective.text} of {every}"),
        ("operations", f"{program.num_operations:,}, of which {messages:,} send"),
        ("barriers", len(job.barriers) or None),
        ("data", f"{job.elements:,} elements of {' and of '.join(DTYPES)}, seed {job.seed}"),
        ("chunks", f"{outcome.num_chunks:,}, {outcome.num_empty:,} of them empty"),
        ("sent in all", f"{format_size(in_all)} of {DTYPES[0]}"),
        ("run by", library),
        ("wall time here", f"{outcome.wall_s:.3g} s, which is no network time"),
    )
    yield PROVES[outcome.runtime]
    yield PROVES_NOT
    if different:
        yield ""
        rows = [
            (str(result.rank), f"{result.difference.num_different:,}", text)
            for result in different
            if result.difference is not None
            for text in [_first_difference(outcome, result)]
        ]
        table = Table(("rank", "elements that differ", "the first of them"), rows, 2, 1)
        yield table.shortened("ranks")


def _first_difference(outcome: RunOutcome, result: RankResult) -> str:
    difference = result.difference
    if difference is None:
        return f"rank {result.rank}"
    text = (
        f"rank {result.rank} has {difference.got} where {outcome.call} has "
        f"{difference.wanted} ({difference.dtype}), in element {difference.element} of "
        f"{_place(outcome, difference.chunk)}"
    )
    if difference.holds == difference.chunk:
        return text
    return f"{text}, where {_held(outcome, difference.holds)} has come"


def _place(outcome: RunOutcome, chunk: int) -> str:
    """A chunk of the output in words."""
    program = outcome.job.program
    item, piece, part = piece_of_chunk(program.demands[-1], program.chunks_per_unit, chunk)
    return f"chunk {part} of item {item}" + (f", piece {piece}" if piece != item else "")


def _held(outcome: RunOutcome, chunk: int) -> str:
    """What has come to a slot, in words."""
    if chunk < 0:
        return "nothing" if chunk == -1 else "a sum of different chunks"
    return _place(outcome, chunk)
