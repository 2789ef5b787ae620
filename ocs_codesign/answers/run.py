"""Runs on real processes as answers: whether every rank has what MPI has, and what that proves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.sections import Facts, Table, counted
from ocs_codesign.execute.layout import piece_of_chunk
from ocs_codesign.execute.outcome import DTYPES, PROVES, PROVES_NOT
from ocs_codesign.quantities import format_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.execute.outcome import RankResult, RunOutcome

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
