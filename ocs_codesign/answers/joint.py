"""All-to-all frontiers as answers: JSON, tables, sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.catalogue import NONE_WITHIN, nearest_sentence
from ocs_codesign.answers.frontier import MAX_DOMINATED_ROWS, more_dominated
from ocs_codesign.answers.sections import Table, counted
from ocs_codesign.answers.texts import (
    ASK_FOR_A_MODEL,
    MAX_FRACTION,
    in_decimals,
    model_json,
    model_text,
)
from ocs_codesign.quantities import format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.cost import CostModel
    from ocs_codesign.question import Question
    from ocs_codesign.schedulers.alltoall.result import Throughput
    from ocs_codesign.search.joint import JointCandidate, JointFrontier

    Workload = tuple[CostModel, float]

_UNSOLVED_ROWS = 3
_MAX_RECIPE = 160


def joint_json(answer: JointFrontier, workload: Workload | None = None) -> dict[str, Any]:
    """The JSON form of a joint frontier, with times if there is a workload."""
    dominated = []
    for one in answer.dominated:
        better = answer.dominator(one)
        name = None if better is None else repr(better.recipe)
        dominated.append({**entry_json(answer, one, workload), "dominated_by": name})
    value: dict[str, Any] = {
        "nodes": answer.question.num_nodes,
        "degree": answer.question.degree,
        "collective": "alltoall",
        "with_allgather": answer.with_allgather,
        "candidates": [entry_json(answer, one, workload) for one in answer.candidates],
        "bound": str(answer.bound),
        "dominated": dominated,
        "unsolved": [entry_json(answer, one, None) for one in answer.unsolved],
        "stopped": answer.stopped,
    }
    if workload is not None:
        best = answer.best(*workload) if answer.candidates else None
        value["best"] = None if best is None else repr(best.recipe)
        value["cost_model"] = model_json(*workload)
    return value


def entry_json(
    answer: JointFrontier, one: JointCandidate, workload: Workload | None
) -> dict[str, Any]:
    """The JSON form of one candidate."""
    found = one.alltoall
    value: dict[str, Any] = {
        "recipe": repr(one.recipe),
        "label": one.recipe.label(),
        "diameter": one.diameter,
        "allgather": {"steps": one.candidate.cost.steps, "t_b": str(one.candidate.cost.t_b)},
        "hop_bound": str(one.hop_bound),
        "alltoall_t_b": None,
    }
    if found is not None:
        value |= {
            "alltoall_t_b": str(found.time),
            "alltoall_t_b_float": float(found.time),
            "proven_bound": str(found.bound),
            "gap": float(found.gap),
            "optimal": found.is_optimal,
            "over_bound": float(found.time / answer.bound),
        }
    if workload is not None and found is not None:
        times = one.times(*workload)
        value |= {"allgather_s": times.allgather_s, "alltoall_s": times.alltoall_s}
    return value


def stored_json(answer: JointFrontier, asked: Question) -> dict[str, Any]:
    """The JSON form of what a catalogue's designs of a size can do."""
    return {
        "nodes": asked.num_nodes,
        "degree": asked.degree,
        "bidirectional": asked.bidirectional,
        "collective": "alltoall",
        "exact": answer.question == asked,
        "found_nodes": answer.question.num_nodes,
        "candidates": [entry_json(answer, one, None) for one in answer.candidates],
        "bound": str(answer.bound),
        "unsolved": [entry_json(answer, one, None) for one in answer.unsolved],
        "stopped": answer.stopped,
    }


def joint_sections(
    answer: JointFrontier, workload: Workload | None, *, show_all: bool
) -> Iterator[Section]:
    """The frontier as a table, its bound, the best for a workload, what is unsolved."""
    question = answer.question
    what = "allgather and all-to-all" if answer.with_allgather else "all-to-all"
    unsolved = f", {len(answer.unsolved)} unsolved" if answer.unsolved else ""
    yield (
        f"{question.num_nodes} nodes of degree {question.degree}, {what}: "
        f"{counted(len(answer.candidates), 'candidate')} on the frontier, "
        f"{len(answer.dominated)} dominated{unsolved}"
    )
    if answer.candidates:
        yield from _candidates(answer, answer.candidates, workload)
    yield (
        f"All-to-all t_b of no topology of this size can be below {answer.bound} "
        f"({float(answer.bound):.6g}); messages may split over paths."
    )
    if workload is None:
        yield ASK_FOR_A_MODEL
    elif answer.candidates:
        yield _best_sentence(answer, *workload)
    if answer.unsolved:
        yield _unsolved_sentence(answer)
    if show_all and answer.dominated:
        yield from _dominated(answer, workload)


def stored_sections(answer: JointFrontier, asked: Question, stored: int) -> Iterator[Section]:
    """What the designs that a catalogue stores for a size, so many, can do."""
    kind = ", links in both directions" if asked.bidirectional else ""
    yield f"{asked.num_nodes} nodes of degree {asked.degree}{kind}, alltoall"
    if answer.question != asked:
        yield nearest_sentence(asked, answer.question)
    if answer.candidates:
        yield from _candidates(answer, answer.candidates, None)
    else:
        yield NONE_WITHIN
    if answer.unsolved:
        yield _unsolved_sentence(answer)
    yield (
        f"All-to-all is not stored: that of {stored} stored designs was bounded or solved now. "
        f"No topology of this size can be below {answer.bound} ({float(answer.bound):.6g}); "
        f"frontier --collective alltoall searches for better ones."
    )


def _candidates(
    answer: JointFrontier,
    candidates: Sequence[JointCandidate],
    workload: Workload | None,
    dominators: Sequence[str] | None = None,
) -> Iterator[Section]:
    """A table of candidates, of the dominated ones with what beats them in a last column."""
    columns = ["steps", "allgather t_b", "all-to-all t_b", "decimal", "over bound"]
    if workload is not None:
        columns += ["allgather", "all-to-all", "both"] if answer.with_allgather else ["time"]
    numbers = len(columns)
    columns += ["proof", "label", "recipe"]
    rows = [_row(answer, one, workload) for one in candidates]
    if dominators is not None:
        columns.append("dominated by")
        rows = [(*row, name) for row, name in zip(rows, dominators, strict=True)]
    yield Table(tuple(columns), rows, numbers, texts=2 if dominators is None else 3)
    if any(len(repr(one.recipe)) > _MAX_RECIPE for one in candidates):
        yield "The JSON answer (--json) has the recipes that are cut off here."


def _row(answer: JointFrontier, one: JointCandidate, workload: Workload | None) -> tuple[str, ...]:
    cost = one.candidate.cost
    steps = cost.steps if answer.with_allgather else one.diameter
    row = [str(steps), str(cost.t_b)]
    found = one.alltoall
    row += ["-", *_numbers(one.hop_bound, answer)] if found is None else []
    row += [] if found is None else [_exact_text(found), *_numbers(found.time, answer)]
    if workload is not None:
        times = one.times(*workload)
        seconds = [times.allgather_s, times.alltoall_s, times.total_s]
        row += [format_time(s) for s in (seconds if answer.with_allgather else seconds[1:2])]
    if found is None:
        proof = "hops only"
    else:
        proof = "exact" if found.is_optimal else f"gap {float(found.gap):.1g}"
    recipe = repr(one.recipe)
    if len(recipe) > _MAX_RECIPE:
        recipe = recipe[: _MAX_RECIPE - 1] + "…"
    return (*row, proof, one.recipe.label(), recipe)


def _numbers(time: Fraction, answer: JointFrontier) -> list[str]:
    return [f"{float(time):.6g}", f"{float(time / answer.bound):.4f}"]


def _exact_text(found: Throughput) -> str:
    """The fraction where it is the least time and can be read."""
    text = str(found.time)
    is_fraction = found.is_optimal and len(text) <= MAX_FRACTION
    return text if is_fraction else in_decimals(found.time)


def _best_sentence(answer: JointFrontier, model: CostModel, message_bytes: float) -> str:
    best = answer.best(model, message_bytes)
    times = best.times(model, message_bytes)
    size, alltoall = format_size(message_bytes), format_time(times.alltoall_s)
    cost = f"{best.diameter} steps, t_b {float(best.alltoall_cost.t_b):.6g}"
    what, time = size, f"{alltoall} ({cost})"
    if answer.with_allgather:
        what = f"an allgather and an all-to-all of {size} each"
        parts = f"{format_time(times.allgather_s)} and {alltoall}"
        time = f"{format_time(times.total_s)} ({parts})"
    return f"{model_text(what, model)}: {best.recipe.label()} in {time}."


def _unsolved_sentence(answer: JointFrontier) -> str:
    """Which designs may belong to the frontier, and what their hops prove."""
    names = ", ".join(
        f"{one.recipe.label()} at least {float(one.hop_bound / answer.bound):.4f} of it"
        for one in answer.unsolved[:_UNSOLVED_ROWS]
    )
    more = len(answer.unsolved) - _UNSOLVED_ROWS
    return f"Too large to solve in a search or in time ({len(answer.unsolved)}): {names}" + (
        f" and {more} more." if more > 0 else "."
    )


def _dominated(answer: JointFrontier, workload: Workload | None) -> Iterator[Section]:
    """The dominated ones, the fastest first; ``hops only`` marks times that hops are a bound of."""

    def time(one: JointCandidate) -> Fraction:
        if workload is None:
            return one.alltoall_cost.t_b
        times = one.times(*workload)
        return times.total_s if answer.with_allgather else times.alltoall_s

    ranked = sorted(answer.dominated, key=time)[:MAX_DOMINATED_ROWS]
    better = [answer.dominator(one) for one in ranked]
    names = ["-" if one is None else one.recipe.label() for one in better]
    yield "\nDominated; where hops were enough to know, at least so much:"
    yield from _candidates(answer, ranked, workload, names)
    yield from more_dominated(len(answer.dominated) - len(ranked))
