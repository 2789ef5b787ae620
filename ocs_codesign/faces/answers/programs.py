"""Programs and plans of others as answers: what they do, what it costs, or what is wrong."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ocs_codesign.core.quantities import format_size
from ocs_codesign.core.schedule import Messages
from ocs_codesign.faces.answers.sections import Facts, Table, counted
from ocs_codesign.faces.answers.texts import cost_json, cost_text, loads_table
from ocs_codesign.interop.run.engine import piece_of_chunk
from ocs_codesign.interop.run.performance import DTYPES, PROVES, PROVES_NOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ocs_codesign.core.plans import Book, Page
    from ocs_codesign.core.topology import Topology
    from ocs_codesign.faces.answers.sections import Section
    from ocs_codesign.graphs.formats.facts import GraphFacts
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.interop.exports import Imported
    from ocs_codesign.interop.registry import CheckedFile, Export, ProgramFormat
    from ocs_codesign.interop.run.astra_sim import SecondOpinion
    from ocs_codesign.interop.run.performance import RankResult, RunOutcome
    from ocs_codesign.verification.sends import Witness


def imported_json(found: Imported) -> dict[str, Any]:
    """What a file of others holds, and what was found of it."""
    schedule, verdict = found.schedule, found.verdict
    known = found.witness is None and schedule is not None and verdict is not None
    return {
        "ok": found.witness is None,
        "format": found.format_name,
        "collective": found.collective.name,
        "ranks": found.num_ranks,
        "operations": found.num_operations or None,
        "nodes": schedule.topology.num_nodes if known and schedule else None,
        **(cost_json(verdict.cost) if known and verdict else {}),
        "max_load_per_step": [str(load) for load in verdict.max_loads] if known and verdict else [],
        "witness": found.witness,
    }


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


def checked_json(found: CheckedFile, format_name: str) -> dict[str, Any]:
    """What files without data hold, and what was found of them."""
    return {
        "ok": found.witness is None,
        "format": format_name,
        **{name.replace(" ", "_"): value for name, value in found.facts},
        "limit": found.limit,
        "witness": found.witness,
    }


def checked_sections(found: CheckedFile, format_name: str) -> Iterator[Section]:
    """The same where people read it."""
    if found.witness is not None:
        yield f"Not valid: {found.witness}."
        return
    yield f"Valid as far as it goes: {found.limit}."
    yield Facts(("format", format_name), *found.facts)


# Exports as answers: which files were written, of which plan, and who reads them.


def export_json(
    format_name: str, exports: Sequence[Export], contents: Mapping[str, bytes], directory: str
) -> dict[str, Any]:
    """What was exported to where; ``of`` is also in the directory, as ``export.json``."""
    return {
        "of": {
            "to": format_name,
            "plans": [
                {
                    "name": one.name,
                    "collective": one.program.collective.name,
                    "ranks": one.program.num_ranks,
                    "operations": one.program.num_operations,
                    "in_place": one.program.in_place,
                    "message_bytes": one.message_bytes,
                }
                for one in exports
            ],
        },
        "files": {name: len(content) for name, content in sorted(contents.items())},
        "out": directory,
    }


def export_sections(answer: Mapping[str, Any], form: ProgramFormat) -> Iterator[Section]:
    """The same where people read it."""
    plans, files = answer["of"]["plans"], answer["files"]
    size = format_size(sum(files.values()))
    yield f"Exported to {answer['out']}: {counted(len(files), 'file')} of {form.description}."
    first = plans[0] if plans else None
    yield Facts(
        ("for", form.made_for),
        ("plans", len(plans) if len(plans) > 1 else None),
        ("collective", first and first["collective"]),
        ("ranks", first and first["ranks"]),
        ("operations", f"{sum(plan['operations'] for plan in plans):,}" if plans else None),
        ("size", size),
    )
    yield ""
    rows = [(format_size(num_bytes), name) for name, num_bytes in files.items()]
    yield Table(("size", "file"), rows, numbers=1, texts=1).shortened("files")


# Graphs as answers: what a topology that was written or read is.


_MAX_SPEEDS = 8


def topology_json(
    recipe: Recipe | None, graph: str | None, topology: Topology, format_name: str
) -> dict[str, Any]:
    """A topology, of a recipe or of a graph file of that name, as it is written."""
    return {
        "recipe": None if recipe is None else repr(recipe),
        "label": None if recipe is None else recipe.label(),
        "graph": graph,
        "nodes": topology.num_nodes,
        "degree": topology.degree,
        "links": topology.num_links,
        "format": format_name,
    }


def topology_sections(answer: dict[str, Any], out: str) -> Iterator[Section]:
    """The same where people read it."""
    yield Facts(*((key, answer[key]) for key in answer if key != "out"), ("written to", out))


def import_json(name: str, format_name: str, facts: GraphFacts, out: str | None) -> dict[str, Any]:
    """What is known of the graph in a file of that name, written again to ``out``."""
    value = asdict(facts)
    nodes, links = value.pop("num_nodes"), value.pop("num_links")
    speeds = {"link_speeds": list(facts.link_speeds)}
    file = {"file": name, "format": format_name}
    return {**file, "nodes": nodes, "links": links, **value, **speeds, "out": out}


def import_sections(
    name: str, read_as: str, facts: GraphFacts, out: str | None, *, hint: bool
) -> Iterator[Section]:
    """The same where people read it; with a ``hint`` if links back may have been meant."""
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


def book_json(book: Book, witnesses: Sequence[Witness | None]) -> dict[str, Any]:
    """What a replay found of every page; ``witness`` is the first thing wrong with it."""
    return {
        "ok": not any(witnesses),
        "collective": book.collective.name,
        "hosts": book.network.num_hosts,
        "unit_Bps": str(book.unit_Bps),
        "pages": [
            {
                "from_bytes": page.from_bytes,
                "maker": page.maker,
                "steps": page.plan.num_steps,
                "sends": _sends(page),
                "witness": None if witness is None else str(witness),
            }
            for page, witness in zip(book.pages, witnesses, strict=True)
        ],
    }


def book_sections(book: Book, witnesses: Sequence[Witness | None]) -> Iterator[Section]:
    """The same where people read it."""
    wrong = next((at for at, witness in enumerate(witnesses) if witness is not None), None)
    if wrong is not None:
        page = book.pages[wrong]
        yield f"Not valid: {page.maker}, from {format_size(page.from_bytes)}: {witnesses[wrong]}."
        return
    yield "Valid: every send of every schedule was replayed."
    yield Facts(
        ("collective", f"{book.collective.name} of {counted(book.network.num_hosts, 'host')}"),
        ("schedules", len(book.pages)),
    )
    yield ""
    rows = [
        (format_size(page.from_bytes), str(page.plan.num_steps), f"{_sends(page):,}", page.maker)
        for page in book.pages
    ]
    yield Table(("from", "steps", "sends", "made by"), rows, numbers=3, texts=1)


def _sends(page: Page) -> int:
    return len(page.plan.step) if isinstance(page.plan, Messages) else page.plan.num_sends


# A second opinion as an answer: what ASTRA-sim says of a design, beside our clock.


def opinion_json(opinion: SecondOpinion) -> dict[str, Any]:
    """What was simulated, what both say in nanoseconds, and why there is nothing to compare."""
    export, run = opinion.export, opinion.run
    return {
        "design": export.name,
        "collective": export.program.collective.name,
        "ranks": export.program.num_ranks,
        "message_bytes": export.message_bytes,
        "messages": opinion.num_messages,
        "link_bandwidth_GiBps": opinion.links.bandwidth,
        "latency_ns": opinion.links.latency_ns,
        "own_ns": opinion.own_ticks,
        "status": run.status,
        "reason": run.reason,
        "astra_sim_ns": run.total,
        "difference_ns": opinion.difference,
        "finished_ns_per_rank": list(run.cycles),
    }


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


# Runs on real processes as answers: whether every rank has what MPI has, and what that proves.


ITEM_BYTES = 8


def run_json(outcome: RunOutcome) -> dict[str, Any]:
    """What a run has shown, rank by rank."""
    job = outcome.job
    return {
        "ok": outcome.ok,
        "of": job.name,
        "collective": job.program.collective.name,
        "ranks": job.program.num_ranks,
        "operations": job.program.num_operations,
        "in_place": job.program.in_place,
        "elements": job.elements,
        "chunks": outcome.num_chunks,
        "empty_chunks": outcome.num_empty,
        "barriers": len(job.barriers),
        "seed": job.seed,
        "data": list(DTYPES),
        "compared_with": outcome.call,
        "library": outcome.library,
        "proves": PROVES,
        "proves_not": PROVES_NOT,
        "wall_s_not_network_time": outcome.wall_s,
        "fault": outcome.fault,
        "results": [_rank_json(outcome, result) for result in outcome.ranks],
    }


def _rank_json(outcome: RunOutcome, result: RankResult) -> dict[str, Any]:
    difference = result.difference
    told = None
    if difference is not None:
        told = {
            "data": difference.dtype,
            "place": _place(outcome, difference.chunk),
            "element": difference.element,
            "got": difference.got,
            "mpi": difference.wanted,
            "holds": _held(outcome, difference.holds),
            "num_different": difference.num_different,
        }
    return {
        "rank": result.rank,
        "equal": result.is_equal,
        "operations": result.num_operations,
        "messages_sent": result.num_messages,
        "elements_sent": result.num_elements,
        "difference": told,
        "fault": result.fault,
        "wall_s_not_network_time": list(result.wall_s),
    }


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
    yield PROVES
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
        f"rank {result.rank} has {difference.got} where MPI has {difference.wanted} "
        f"({difference.dtype}), in element {difference.element} of "
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
