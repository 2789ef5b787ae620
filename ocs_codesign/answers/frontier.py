"""The frontier of a size as an answer: JSON, tables, the best for a message, published designs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.sections import Table, counted
from ocs_codesign.answers.texts import (
    ASK_FOR_A_MODEL,
    cost_json,
    cost_text,
    model_json,
    model_text,
    optimality,
    t_b_text,
)
from ocs_codesign.collective import Collective
from ocs_codesign.quantities import format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.cost import CostModel
    from ocs_codesign.design import Design
    from ocs_codesign.search.pareto import Frontier

    Workload = tuple[CostModel, float]
    """A cost model and a message size in bytes."""

MAX_DOMINATED_ROWS = 40


def frontier_json(answer: Frontier, workload: Workload | None = None) -> dict[str, Any]:
    """The JSON form of a frontier, with times if there is a workload."""
    dominated = []
    for candidate in answer.dominated:
        entry = _candidate_json(candidate, workload)
        dominator = answer.dominator(candidate)
        entry["dominated_by"] = None if dominator is None else repr(dominator.recipe)
        dominated.append(entry)
    value: dict[str, Any] = {
        "nodes": answer.num_nodes,
        "degree": answer.degree,
        "collective": answer.collective.name,
        "candidates": [_candidate_json(candidate, workload) for candidate in answer.candidates],
        "bound": cost_json(answer.bound),
        "published": [repr(candidate.recipe) for candidate in answer.published],
        "dominated": dominated,
    }
    if workload is not None:
        value["best"] = repr(answer.best(*workload).recipe)
        value["cost_model"] = model_json(*workload)
    return value


def _candidate_json(candidate: Design, workload: Workload | None) -> dict[str, Any]:
    value = {
        "recipe": repr(candidate.recipe),
        "label": candidate.recipe.label(),
        **cost_json(candidate.cost),
        "t_b_float": float(candidate.cost.t_b),
        "measured": candidate.measured,
        "bw_optimal": candidate.bw_optimal,
        "moore_optimal": candidate.moore_optimal,
        "schedule": candidate.maker,
        "reverse_symmetric": candidate.recipe.reverse_symmetric,
        "allgather": cost_json(candidate.cost_of(Collective.ALLGATHER)),
        "reduce_scatter": cost_json(candidate.cost_of(Collective.REDUCE_SCATTER)),
    }
    if workload is not None:
        value["time_s"] = candidate.cost.time_s(*workload)
    return value


def frontier_sections(
    answer: Frontier, workload: Workload | None, *, show_all: bool
) -> Iterator[Section]:
    """The frontier, its bound, the best for a workload, and what it is compared with."""
    yield (
        f"{answer.num_nodes} nodes of degree {answer.degree}, {answer.collective.name}: "
        f"{counted(len(answer.candidates), 'candidate')} on the frontier, "
        f"{len(answer.dominated)} dominated"
    )
    yield _candidates(answer.candidates, workload)
    yield f"No topology of this size can beat {cost_text(answer.bound)}."
    yield ASK_FOR_A_MODEL if workload is None else _best_sentence(answer, *workload)
    if answer.published:
        yield "\nPublished designs of this size:"
        better = [answer.dominator(candidate) for candidate in answer.published]
        names = [
            "on the frontier" if other is None or other == candidate else other.recipe.label()
            for other, candidate in zip(better, answer.published, strict=True)
        ]
        yield _candidates(answer.published, workload, ("met or dominated by", names))
    if show_all and answer.dominated:
        yield from _dominated(answer, workload)


def _candidates(
    candidates: Sequence[Design],
    workload: Workload | None,
    last: tuple[str, Sequence[str]] | None = None,
) -> Table:
    """A table of candidates, perhaps with one more column of texts at its end."""
    columns = ["steps", "t_b", "decimal"] + ["time"] * (workload is not None)
    numbers = len(columns)
    columns += ["optimal", "cost", "label", "recipe"]
    rows = []
    for candidate in candidates:
        t_b = candidate.cost.t_b
        row = [str(candidate.cost.steps), str(t_b), f"{float(t_b):.6g}"]
        if workload is not None:
            row.append(format_time(candidate.cost.time_s(*workload)))
        row += [
            optimality(candidate.bw_optimal, candidate.moore_optimal),
            "measured" if candidate.measured else "predicted",
            candidate.recipe.label(),
            repr(candidate.recipe),
        ]
        rows.append(tuple(row))
    if last is not None:
        columns.append(last[0])
        rows = [(*row, text) for row, text in zip(rows, last[1], strict=True)]
    return Table(tuple(columns), rows, numbers, texts=2 if last is None else 3)


def _dominated(answer: Frontier, workload: Workload | None) -> Iterator[Section]:
    ranked = list(answer.dominated)
    if workload is not None:
        ranked.sort(key=lambda candidate: candidate.cost.time_s(*workload))
    ranked = ranked[:MAX_DOMINATED_ROWS]
    dominators = [answer.dominator(candidate) for candidate in ranked]
    names = ["-" if other is None else other.recipe.label() for other in dominators]
    yield "\nDominated:"
    yield _candidates(ranked, workload, ("dominated by", names))
    yield from more_dominated(len(answer.dominated) - len(ranked))


def more_dominated(number: int) -> Iterator[Section]:
    """Where the dominated candidates are that a table leaves out, if there are any."""
    if number:
        yield f"{counted(number, 'more dominated candidate')} in the JSON answer (--json)."


def _best_sentence(answer: Frontier, model: CostModel, message_bytes: float) -> str:
    best = answer.best(model, message_bytes)
    return (
        f"{model_text(format_size(message_bytes), model)}: {best.recipe!r} in "
        f"{format_time(best.cost.time_s(model, message_bytes))} "
        f"({best.cost.steps} steps, t_b {t_b_text(best.cost.t_b)})."
    )
