"""The frontier of a size as an answer: JSON, tables, the best for a message, published designs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.core.bounds import least_t_b
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.quantities import format_size, format_time
from ocs_codesign.faces.answers.sections import Facts, Recipes, Table, counted
from ocs_codesign.faces.answers.texts import (
    ASK_FOR_A_MODEL,
    cost_json,
    cost_text,
    model_json,
    model_text,
    optimality,
    t_b_text,
)
from ocs_codesign.graphs.handle import handle
from ocs_codesign.search.bases import ALLTOALL_SHARE, Effort
from ocs_codesign.search.exhaustion.visits import exhausted
from ocs_codesign.search.pareto import FOREST_T_B, closed_baselines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from fractions import Fraction

    from ocs_codesign.core.cost import Cost, CostModel, MessageSizes
    from ocs_codesign.faces.answers.sections import Section
    from ocs_codesign.schedules.design import Design, Question
    from ocs_codesign.search.catalogue.entry import Entry, LookedUp, Provenance
    from ocs_codesign.search.exhaustion.visits import Exhaustion
    from ocs_codesign.search.improving import AlltoallPass
    from ocs_codesign.search.pareto import Frontier


# What a catalogue knows as answers: entries, look-ups, provenance.


NONE_WITHIN = "No stored design is within the limits."


def nearest_sentence(asked: Question, found: Question) -> str:
    """That the answer is about another size than was asked for."""
    return (
        f"No design of exactly {asked.num_nodes} nodes is stored; "
        f"the nearest larger size is {found.num_nodes}."
    )


def found_json(found: LookedUp) -> dict[str, Any]:
    """The JSON form of a look-up."""
    return {
        "nodes": found.asked.num_nodes,
        "degree": found.asked.degree,
        "bidirectional": found.asked.bidirectional,
        "collective": found.collective.name,
        "exact": found.exact,
        "found_nodes": found.question.num_nodes,
        "candidates": [entry_json(entry, found.collective) for entry in found.entries],
    }


def found_sections(found: LookedUp) -> Iterator[Section]:
    """The stored frontier of a size, or of the nearest larger one."""
    asked = found.asked
    kind = ", links in both directions" if asked.bidirectional else ""
    yield f"{asked.num_nodes} nodes of degree {asked.degree}{kind}, {found.collective.name}"
    if not found.exact:
        yield nearest_sentence(asked, found.question)
    if not found.entries:
        yield NONE_WITHIN
        return
    rows = [_row(entry, found.collective) for entry in found.entries]
    columns = ("steps", "t_b", "decimal", "above bound", "optimal", "cost", "handle", "label")
    yield Table(columns, rows, 4, texts=1, cut=True)
    yield Recipes(tuple(entry.recipe for entry in found.entries))


def _row(entry: Entry, collective: Collective) -> tuple[str, ...]:
    cost = entry.cost(collective)
    return (
        str(cost.steps),
        str(cost.t_b),
        f"{float(cost.t_b):.6g}",
        _entry_above_bound(entry) if collective == Collective.ALLGATHER else "-",
        optimality(entry.is_bw_optimal(collective), entry.is_moore_optimal(collective)),
        "measured" if entry.measured else "predicted",
        handle(entry.recipe),
        entry.label,
    )


def entry_json(entry: Entry, collective: Collective) -> dict[str, Any]:
    """The JSON form of a stored design, with its cost for a collective."""
    cost = entry.cost(collective)
    return {
        "recipe": entry.recipe,
        "label": entry.label,
        "nodes": entry.num_nodes,
        "degree": entry.degree,
        **cost_json(cost),
        "t_b_float": float(cost.t_b),
        "measured": entry.measured,
        "bw_optimal": entry.is_bw_optimal(collective),
        "moore_optimal": entry.is_moore_optimal(collective),
        "bidirectional": entry.bidirectional,
        "schedule": entry.schedule,
        "reverse_symmetric": entry.reverse_symmetric,
        "certificate": None if entry.certificate is None else str(entry.certificate),
        "alltoall_t_b": None if entry.alltoall is None else str(entry.alltoall),
        "allgather": cost_json(entry.allgather),
        "reduce_scatter": cost_json(entry.reduce_scatter),
    }


def _certificate(entry: Entry) -> str | None:
    """The least t_b that was proven of any allgather in as many steps."""
    least = entry.certificate
    return None if least is None else f"t_b {t_b_text(least)}, {_entry_above_bound(entry)} above"


def _entry_above_bound(entry: Entry) -> str:
    """How far the t_b of the allgather is above what is proven of any in as many steps."""
    if entry.certificate is None:
        return "-"
    return f"{100 * float(entry.allgather.t_b / entry.certificate - 1):.3g} %"


def provenance_json(origin: Provenance | None) -> dict[str, Any] | None:
    """Where an entry comes from, None if that is not known."""
    names = ("command", "version", "seed", "time_spent_s", "work", "improved", "day", "exchanged")
    return None if origin is None else {name: getattr(origin, name) for name in names}


def origin_sentence(origin: Provenance) -> str:
    """How much a size that is answered from the catalogue was searched for, and when.

    >>> from ocs_codesign.search.catalogue.entry import Provenance
    >>> origin_sentence(Provenance("sweep", "0.1.0", 1, 2.5, 2**24))
    'From the catalogue: searched with 1 times the default effort; --fresh searches now.'
    """
    default = Effort().work
    searches = []
    if origin.work:
        searches.append(f"searched with {origin.work / default:.3g} times the default effort")
    if origin.improved:
        share = f"{origin.improved / default:.2g} times the default effort"
        searches.append(f"improved by local searches of {share}")
    if origin.exchanged:
        share = f"{origin.exchanged * ALLTOALL_SHARE / default:.2g} times the default effort"
        searches.append(f"searched for all-to-all with {share} for that")
    if not searches:
        searches.append("local searches have nothing left to find")
    when = f", last on {origin.day}" if origin.day else ""
    searches_of_allgather = [work for work in (origin.work, origin.improved) if work]
    is_whole = not searches_of_allgather or max(searches_of_allgather) >= default
    fresh = "searches now" if is_whole else "searches with all of it, longer, and may find better"
    return f"From the catalogue: {' and '.join(searches)}{when}; --fresh {fresh}."


def entry_facts(entry: Entry, origin: Provenance | None) -> Facts:
    """A stored design and where it comes from."""
    return Facts(
        ("recipe", entry.recipe),
        ("label", entry.label),
        ("nodes, degree", f"{entry.num_nodes}, {entry.degree}"),
        ("bidirectional", "yes" if entry.bidirectional else "no"),
        ("allgather", cost_text(entry.allgather)),
        ("bound at its steps", _certificate(entry)),
        ("reduce-scatter", cost_text(entry.reduce_scatter)),
        ("all-to-all", None if entry.alltoall is None else f"t_b {t_b_text(entry.alltoall)}"),
        ("optimal", optimality(entry.is_bw_optimal(), entry.is_moore_optimal())),
        ("schedule", entry.schedule),
        ("found by", "-" if origin is None else origin.command),
        ("version", "-" if origin is None else origin.version),
        ("time spent", "-" if origin is None else f"{origin.time_spent_s} s"),
        ("last searched", None if origin is None else origin.day or None),
    )


def timed_json(answer: AlltoallPass, path: str) -> dict[str, Any]:
    """The JSON form of what working out all-to-all times has added to a catalogue."""
    return {
        "catalogue": path,
        "questions": answer.num_questions,
        "timed": answer.num_timed,
        "untimed": answer.num_untimed,
        "added": answer.num_added,
    }


def timed_facts(answer: AlltoallPass, path: str) -> Facts:
    """What working out all-to-all times has added to a catalogue."""
    return Facts(
        ("catalogue", path),
        ("questions come to", answer.num_questions),
        ("designs with a time", answer.num_timed),
        ("left, since they take longer", answer.num_untimed),
        ("designs added", answer.num_added),
    )


# What is proven by looking at all topologies of a size: JSON, table, sentence.


_KINDS = (Collective.ALLGATHER, Collective.ALLREDUCE, Collective.ALLTOALL)


def exhaustion_json(found: Exhaustion) -> dict[str, Any]:
    """The JSON form of an exhaustion."""
    question = found.question
    return {
        "nodes": question.num_nodes,
        "degree": question.degree,
        "bidirectional": question.bidirectional,
        **_counts(found),
        **{kind.name: _points_json(found, kind) for kind in _KINDS},
    }


def exhaustion_sections(found: Exhaustion) -> Iterator[Section]:
    """How many topologies there are, and what is the best of them for every collective."""
    question = found.question
    links = ", every link in both directions" if question.bidirectional else ""
    yield (
        f"{question.num_nodes} nodes of degree {question.degree}{links}: "
        f"{found.num_classes:,} topologies{_left_out(found)}, {found.num_labelled:,} with numbered "
        "nodes, as many as counting says there are"
    )
    rows = [
        (kind.name, *_cost_texts(point.cost), handle(repr(point.recipe)), point.recipe.label())
        for kind in _KINDS
        for point in found.points(kind) or ()
    ]
    columns = ("collective", "steps", "t_b", "decimal", "handle", "label")
    yield Table(columns, rows, texts=1)
    yield "No topology of this size has a BFB schedule beyond these" + (
        "; no routing of an all-to-all on any takes less." if found.alltoall is not None else "."
    )
    recipes = (point.recipe for kind in _KINDS for point in found.points(kind) or ())
    yield Recipes.of(dict.fromkeys(recipes))


def proof_json(
    question: Question, collective: Collective, designs: Iterable[Design]
) -> dict[str, Any] | None:
    """What is proven of a size by exhaustion, and of which designs; None if nothing is."""
    found = exhausted(question, collective)
    if found is None:
        return None
    proven = [repr(one.recipe) for one in designs if found.proves(one.cost, collective)]
    return {**_counts(found), "points": _points_json(found, collective), "proven": proven}


def proof_sections(
    question: Question, collective: Collective, designs: Iterable[Design]
) -> Iterator[Section]:
    """A sentence on what is proven of a frontier by exhaustion, none where nothing is."""
    found = exhausted(question, collective)
    if found is None:
        return
    shown = list(designs)
    proven = [one for one in shown if found.proves(one.cost, collective)]
    if not proven:
        return
    listed = " and ".join(f"{one.cost.steps} steps, t_b {one.cost.t_b}" for one in proven)
    by = "on any routing" if collective == Collective.ALLTOALL else "by BFB"
    yield (
        f"Proven optimal by exhaustion, {by}: {listed}. All {found.num_classes:,} topologies of "
        f"this size{_left_out(found)} were looked at."
    )


def _cost_texts(cost: Cost) -> tuple[str, ...]:
    return str(cost.steps), str(cost.t_b), f"{float(cost.t_b):.6g}"


def _counts(found: Exhaustion) -> dict[str, Any]:
    return {
        "loops_and_parallel_links": not found.simple,
        "classes": found.num_classes,
        "labelled": found.num_labelled,
    }


def _left_out(found: Exhaustion) -> str:
    return " without loops and parallel links" if found.simple else ""


def _points_json(found: Exhaustion, collective: Collective) -> list[dict[str, Any]] | None:
    points = found.points(collective)
    if points is None:
        return None
    return [{**cost_json(point.cost), "recipe": repr(point.recipe)} for point in points]


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
