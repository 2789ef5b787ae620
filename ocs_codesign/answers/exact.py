"""Exact schedules as answers: what is proven of one, and of more and more steps."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.answers.sections import Facts, Table
from ocs_codesign.answers.texts import cost_json, cost_text, model_json, model_text, t_b_text
from ocs_codesign.quantities import format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.answers.cost import Subject
    from ocs_codesign.answers.sections import Section
    from ocs_codesign.cost import Cost, MessageSizes
    from ocs_codesign.schedulers.exact.answers import ExactAnswer


def proof_json(answer: ExactAnswer) -> dict[str, Any]:
    """What is proven of an exact schedule, beside its cost."""
    return {
        "optimal": answer.is_optimal,
        "t_b_bound": None if answer.bound is None else str(answer.bound),
        "t_b_bound_any_chunks": None if answer.limit is None else str(answer.limit),
        "status": answer.status,
        "solvers": list(answer.solvers),
    }


def refusal_json(answer: ExactAnswer) -> dict[str, Any]:
    """That there is no schedule at all."""
    return {"schedule": None, "steps": answer.num_steps, **proof_json(answer)}


def refusal_sections(answer: ExactAnswer) -> Iterator[Section]:
    """Why there is no schedule at all."""
    yield answer.status[0].upper() + answer.status[1:] + "."


@final
@dataclass(frozen=True, slots=True, eq=False)
class Walk:
    """The answers of more and more steps, and what stopped them before ``max_steps`` if anything.

    ``bound`` is that of the topology and the collective, ``bfb`` what BFB costs; times are of the
    messages ``asked`` for.
    """

    collective: str
    num_chunks: int
    max_steps: int
    bound: Cost
    bfb: Cost
    answers: tuple[ExactAnswer, ...]
    asked: MessageSizes | None = None
    stopped: str | None = None

    @property
    def stop_sentence(self) -> str:
        """Where it stopped."""
        return f"stopped at {self.answers[-1].num_steps + 1} steps"


def walk_json(subject: Subject, walk: Walk) -> dict[str, Any]:
    """The JSON form of an exact frontier."""
    return {
        **subject.json(walk.collective),
        "num_chunks": walk.num_chunks,
        "max_steps": walk.max_steps,
        "topology_bound": cost_json(walk.bound),
        "bfb": cost_json(walk.bfb),
        "complete": walk.stopped is None,
        "stopped": walk.stopped,
        **({} if walk.asked is None else {"cost_model": model_json(walk.asked)}),
        "points": _points(walk),
    }


def _points(walk: Walk) -> list[dict[str, Any]]:
    from ocs_codesign.cost import undominated
    from ocs_codesign.schedulers.exact.answers import cost_of

    best = [answer.num_steps for answer in undominated(walk.answers, cost_of)]
    return [
        {
            "steps": answer.num_steps,
            "t_b": str(cost_of(answer).t_b),
            "t_b_float": float(cost_of(answer).t_b),
            "on_frontier": answer.num_steps in best,
            **({} if walk.asked is None else {"time_s": walk.asked.times_s(cost_of(answer))}),
            **proof_json(answer),
        }
        for answer in walk.answers
    ]


def walk_sections(subject: Subject, walk: Walk) -> Iterator[Section]:
    """The exact frontier, and why it ends where it does."""
    yield Facts(
        *subject.facts(walk.collective),
        ("chunks a shard", walk.num_chunks),
        ("bound of this graph", cost_text(walk.bound)),
        ("BFB", cost_text(walk.bfb)),
    )
    yield ""
    times = () if walk.asked is None else walk.asked.columns("time")
    columns = ("steps", "t_b", "decimal", *times, "least", "with any chunks")
    points = _points(walk)
    rows = [_row(point) for point in points]
    yield Table((*columns, "on frontier", "proof"), rows, numbers=len(columns))
    if walk.asked is not None:
        for at, size in enumerate(walk.asked.sizes_bytes):
            time_s, steps = min((point["time_s"][at], point["steps"]) for point in points)
            what = model_text(format_size(size), walk.asked.model)
            yield f"{what}: {steps} steps in {format_time(time_s)}."
    if walk.stopped is not None:
        yield f"Not complete: {walk.stop_sentence}."
    elif points[-1]["t_b"] == str(walk.bound.t_b):
        yield f"No number of steps takes less than t_b {t_b_text(walk.bound.t_b)} here."
    else:
        yield f"More than {walk.max_steps} steps were not tried: see --max-steps."


def _row(point: dict[str, Any]) -> tuple[str, ...]:
    keys = ("steps", "t_b", "t_b_bound", "t_b_bound_any_chunks")
    steps, t_b, bound, limit = (str(point[key]) for key in keys)
    how = point["status"].partition(":")[0]
    gap = float(Fraction(t_b) / Fraction(bound)) - 1
    proof = how if point["optimal"] else f"{how}, gap {gap:.2%}"
    yes = "yes" if point["on_frontier"] else "no"
    times = map(format_time, point.get("time_s", ()))
    return (steps, t_b, f"{point['t_b_float']:.6g}", *times, bound, limit, yes, proof)
