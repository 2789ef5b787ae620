"""A second opinion as an answer: what ASTRA-sim says of a design, beside our clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.sections import Facts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.execute.astra_sim import SecondOpinion


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
