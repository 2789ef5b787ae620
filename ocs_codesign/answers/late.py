"""Late schedules of more and more steps as an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.answers.sections import Facts, Table
from ocs_codesign.answers.texts import cost_json, cost_text, model_json, t_b_text
from ocs_codesign.quantities import format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.answers.cost import Subject
    from ocs_codesign.answers.sections import Section
    from ocs_codesign.cost import Cost, MessageSizes
    from ocs_codesign.schedulers.late.answers import LateAnswer


@final
@dataclass(frozen=True, slots=True, eq=False)
class LateWalk:
    """The late schedules of more and more steps, up to ``max_steps`` or one that none can beat.

    ``bound`` is that of the topology and the collective, ``bfb`` what BFB costs; times are of the
    messages ``asked`` for.
    """

    collective: str
    max_steps: int
    bound: Cost
    bfb: Cost
    answers: tuple[LateAnswer, ...]
    asked: MessageSizes | None = None


def late_walk_json(subject: Subject, walk: LateWalk) -> dict[str, Any]:
    """The JSON form of late schedules of more and more steps."""
    return {
        **subject.json(walk.collective),
        "max_steps": walk.max_steps,
        "topology_bound": cost_json(walk.bound),
        "bfb": cost_json(walk.bfb),
        **({} if walk.asked is None else {"cost_model": model_json(walk.asked)}),
        "points": [_point(walk, answer) for answer in walk.answers],
    }


def _point(walk: LateWalk, answer: LateAnswer) -> dict[str, Any]:
    return {
        **cost_json(answer.cost),
        "steps_allowed": answer.num_steps,
        "num_chunks": answer.schedule.num_chunks,
        **({} if walk.asked is None else {"time_s": walk.asked.times_s(answer.cost)}),
        "optimal": answer.is_optimal,
        "t_b_bound": str(answer.bound),
        "status": answer.status,
    }


def late_walk_sections(subject: Subject, walk: LateWalk) -> Iterator[Section]:
    """What late schedules of more and more steps cost, and how good they are."""
    yield Facts(
        *subject.facts(walk.collective),
        ("bound of this graph", cost_text(walk.bound)),
        ("BFB", cost_text(walk.bfb)),
    )
    yield ""
    times = () if walk.asked is None else walk.asked.columns("time")
    columns = ("steps", "t_b", "decimal", *times, "chunks", "least")
    rows = [_row(walk, answer) for answer in walk.answers]
    yield Table((*columns, "proof"), rows, numbers=len(columns))
    if walk.answers[-1].cost.t_b == walk.bound.t_b:
        yield f"No number of steps takes less than t_b {t_b_text(walk.bound.t_b)} here."
    else:
        yield f"More than {walk.max_steps} steps were not tried: see --max-steps."


def _row(walk: LateWalk, answer: LateAnswer) -> tuple[str, ...]:
    cost, bound = answer.cost, answer.bound
    times = () if walk.asked is None else map(format_time, walk.asked.times_s(cost))
    gap = float(cost.t_b / bound) - 1
    proof = "optimal" if answer.is_optimal else f"gap {gap:.2%}"
    chunks = str(answer.schedule.num_chunks)
    return (
        str(cost.steps),
        str(cost.t_b),
        f"{float(cost.t_b):.6g}",
        *times,
        chunks,
        str(bound),
        proof,
    )
