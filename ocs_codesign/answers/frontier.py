"""The frontier of a size as an answer: JSON, tables, the best for a message, published designs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.catalogue import origin_sentence, provenance_json
from ocs_codesign.answers.exhaustion import proof_json, proof_sections
from ocs_codesign.answers.sections import Recipes, Table, counted
from ocs_codesign.answers.texts import (
    ASK_FOR_A_MODEL,
    cost_json,
    cost_text,
    model_json,
    model_text,
    optimality,
    t_b_text,
)
from ocs_codesign.bounds import least_t_b
from ocs_codesign.collective import Collective
from ocs_codesign.graphs.handle import handle
from ocs_codesign.quantities import format_size, format_time
from ocs_codesign.search.baselines import closed_baselines
from ocs_codesign.search.pareto import FOREST_T_B

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.cost import CostModel, MessageSizes
    from ocs_codesign.design import Design
    from ocs_codesign.search.pareto import Frontier

MAX_DOMINATED_ROWS = 40
_HALVES = Collective.ALLREDUCE.halves()


def frontier_json(answer: Frontier, asked: MessageSizes | None = None) -> dict[str, Any]:
    """The JSON form of a frontier, with times if they are asked for."""
    dominated = []
    for candidate in answer.dominated:
        entry = _candidate_json(candidate, asked)
        dominator = answer.dominator(candidate)
        entry["dominated_by"] = None if dominator is None else repr(dominator.recipe)
        dominated.append(entry)
    value: dict[str, Any] = {
        "nodes": answer.num_nodes,
        "degree": answer.degree,
        "collective": answer.collective.name,
        "candidates": [
            _candidate_json(candidate, asked) | {"above_bound": _text(answer, candidate)}
            for candidate in answer.candidates
        ],
        "bound": cost_json(answer.bound),
        "exhaustion": proof_json(answer.question, answer.collective, answer.candidates),
        "published": [repr(candidate.recipe) for candidate in answer.published],
        "baselines": [
            baseline_json(design, asked)
            for design in (
                *answer.baselines,
                *closed_baselines(answer.question, answer.collective, asked),
            )
        ],
        "dominated": dominated,
        "catalogue": provenance_json(answer.origin),
    }
    if asked is not None:
        best = (answer.best(asked.model, size) for size in asked.sizes_bytes)
        value["best"] = [repr(design.recipe) for design in best]
        value["cost_model"] = model_json(asked)
    return value


def _candidate_json(candidate: Design, asked: MessageSizes | None) -> dict[str, Any]:
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
    if candidate.forest_t_b is not None:
        value["forest_t_b"] = str(candidate.forest_t_b)
    if asked is not None:
        value["time_s"] = list(asked.times_s(candidate.cost))
    return value


def frontier_sections(
    answer: Frontier, asked: MessageSizes | None, *, show_all: bool
) -> Iterator[Section]:
    """The frontier, its bound, the best for every message size, and what it is compared with."""
    yield (
        f"{answer.num_nodes} nodes of degree {answer.degree}, {answer.collective.name}: "
        f"{counted(len(answer.candidates), 'candidate')} on the frontier, "
        f"{len(answer.dominated)} dominated"
    )
    yield _candidates(answer.candidates, asked)
    yield from _above_bound(answer)
    yield from proof_sections(answer.question, answer.collective, answer.candidates)
    yield (
        f"These are the best of {len(answer.looked_at)} designs known or found; no topology of "
        f"this size can beat {cost_text(answer.bound)}."
    )
    if answer.origin is not None:
        yield origin_sentence(answer.origin)
    if FOREST_T_B in answer.criteria:
        yield "forests: the t_b that spanning trees in many pieces come near to; no other beats it."
    if asked is None:
        yield ASK_FOR_A_MODEL
    else:
        for size in asked.sizes_bytes:
            yield _best_sentence(answer, asked.model, size)
    yield "\nBaselines:"
    yield _baselines(answer, asked)
    if answer.published:
        yield "\nPublished designs of this size:"
        better = [answer.dominator(candidate) for candidate in answer.published]
        names = [
            "on the frontier" if other is None or other == candidate else other.recipe.label()
            for other, candidate in zip(better, answer.published, strict=True)
        ]
        yield _candidates(answer.published, asked, ("met or dominated by", names))
    dominated = _shown_dominated(answer, asked) if show_all else []
    if dominated:
        yield from _dominated(answer, dominated, asked)
    shown = (*answer.candidates, *answer.published, *dominated, *answer.baselines)
    yield Recipes.of(candidate.recipe for candidate in shown if candidate.recipes)


def _above_bound(answer: Frontier) -> Iterator[Section]:
    """How far the candidates are above what counting leaves room for in as many steps."""
    above = [above_least_t_b(answer, design) for design in answer.candidates]
    if any(above):
        parts = [f"{100 * float(over or 0):.3g} %" for over in above]
        listed = ", ".join(parts[:-1]) + (" and " if len(parts) > 1 else "") + parts[-1]
        yield f"t_b above the least that counting allows in as many steps: {listed}."


def _text(answer: Frontier, design: Design) -> str | None:
    above = above_least_t_b(answer, design)
    return None if above is None else str(above)


def above_least_t_b(answer: Frontier, design: Design) -> Fraction | None:
    """Share by which a design's t_b exceeds the least in as many steps, None if none is proven."""
    question, steps = answer.question, design.cost.steps
    least = least_t_b(
        question.num_nodes,
        question.degree,
        steps,
        answer.collective,
        bidirectional=question.bidirectional,
    )
    return None if least is None else design.cost.t_b / least - 1


def _candidates(
    candidates: Sequence[Design],
    asked: MessageSizes | None,
    last: tuple[str, Sequence[str]] | None = None,
) -> Table:
    """A table of candidates with their halves, perhaps with one more column of texts at its end."""
    columns = ["steps", "t_b", "decimal", *(asked.columns("time") if asked else ())]
    halves = [half for half in _HALVES if any(one.collective != half for one in candidates)]
    columns += [half.name for half in halves]
    with_forests = any(one.forest_t_b is not None for one in candidates)
    columns += ["forests"] * with_forests
    numbers = len(columns)
    columns += ["optimal", "cost", "handle", "label"]
    rows = []
    for candidate in candidates:
        t_b = candidate.cost.t_b
        row = [str(candidate.cost.steps), str(t_b), f"{float(t_b):.6g}"]
        if asked is not None:
            row += map(format_time, asked.times_s(candidate.cost))
        costs = (candidate.cost_of(half) for half in halves)
        row += [f"{cost.steps}, {cost.t_b}" for cost in costs]
        if with_forests:
            row.append("-" if candidate.forest_t_b is None else str(candidate.forest_t_b))
        row += [
            optimality(candidate.bw_optimal, candidate.moore_optimal),
            "measured" if candidate.measured else "predicted",
            handle(repr(candidate.recipe)),
            candidate.recipe.label(),
        ]
        rows.append(tuple(row))
    if last is not None:
        columns.append(last[0])
        rows = [(*row, text) for row, text in zip(rows, last[1], strict=True)]
    return Table(tuple(columns), rows, numbers, texts=1 if last is None else 2, cut=True)


def baseline_json(design: Design, asked: MessageSizes | None) -> dict[str, Any]:
    """The JSON form of a baseline; without a recipe it is a closed form, or a bound."""
    value = {
        "label": design.label,
        "recipe": repr(design.recipe) if design.recipes else None,
        "known": design.known.value,
        **cost_json(design.cost),
    }
    if asked is not None:
        value["time_s"] = list(asked.times_s(design.cost))
    return value


def _baselines(answer: Frontier, asked: MessageSizes | None) -> Table:
    """What a cluster would be without a search, and how much longer it takes than the best."""
    columns = ["steps", "t_b", "decimal", *(asked.columns("time") if asked else ())]
    designs = [*answer.baselines, *closed_baselines(answer.question, answer.collective, asked)]
    rows = []
    for design in designs:
        row = [str(design.cost.steps), str(design.cost.t_b), f"{float(design.cost.t_b):.6g}"]
        if asked is not None:
            times = asked.times_s(design.cost)
            row += map(format_time, times)
            if len(times) == 1:
                best = answer.best(asked.model, *asked.sizes_bytes).cost
                row.append(f"{float(times[0] / asked.times_s(best)[0]):.3f}")
        rows.append((*row, handle(repr(design.recipe)) if design.recipes else "-", design.label))
    columns += ["over best"] * (asked is not None and len(asked.sizes_bytes) == 1)
    return Table((*columns, "handle", "label"), rows, len(columns), texts=1, cut=True)


def _shown_dominated(answer: Frontier, asked: MessageSizes | None) -> list[Design]:
    """Those that are listed, the fastest first if times are asked for."""
    ranked = list(answer.dominated)
    if asked is not None:
        ranked.sort(key=lambda candidate: asked.times_s(candidate.cost))
    return ranked[:MAX_DOMINATED_ROWS]


def _dominated(
    answer: Frontier, ranked: Sequence[Design], asked: MessageSizes | None
) -> Iterator[Section]:
    dominators = [answer.dominator(candidate) for candidate in ranked]
    names = ["-" if other is None else other.recipe.label() for other in dominators]
    yield "\nDominated:"
    yield _candidates(ranked, asked, ("dominated by", names))
    yield from more_dominated(len(answer.dominated) - len(ranked))


def more_dominated(number: int) -> Iterator[Section]:
    """Where the dominated candidates are that a table leaves out, if there are any."""
    if number > 0:
        yield f"{counted(number, 'more dominated candidate')} in the JSON answer (--json)."


def _best_sentence(answer: Frontier, model: CostModel, message_bytes: float) -> str:
    best = answer.best(model, message_bytes)
    return (
        f"{model_text(format_size(message_bytes), model)}: {best.recipe!r} in "
        f"{format_time(best.cost.time_s(model, message_bytes))} "
        f"({best.cost.steps} steps, t_b {t_b_text(best.cost.t_b)})."
    )
