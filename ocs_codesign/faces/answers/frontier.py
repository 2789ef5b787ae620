"""The frontier of a size as an answer: JSON, tables, the best for a message, published designs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from ocs_codesign.core.bounds import least_t_b
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.quantities import format_size, format_time
from ocs_codesign.faces.answers.declared import made, table
from ocs_codesign.faces.answers.sections import Facts, Recipes, Table, counted
from ocs_codesign.faces.answers.texts import (
    ASK_FOR_A_MODEL,
    cost_text,
    model_text,
    optimality,
    t_b_text,
    told_late,
)
from ocs_codesign.graphs.expansions.edits import Excise, Insert, Swap
from ocs_codesign.graphs.expansions.reverse import Transpose
from ocs_codesign.graphs.families.affine import AffineSpliced
from ocs_codesign.graphs.handle import handle
from ocs_codesign.search.bases import Effort
from ocs_codesign.search.edited import open_steps
from ocs_codesign.search.exhaustion.visits import exhausted
from ocs_codesign.search.pareto import FOREST_T_B, closed_baselines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from fractions import Fraction

    from ocs_codesign.core.cost import Cost, CostModel, MessageSizes
    from ocs_codesign.faces.answers.sections import Section
    from ocs_codesign.graphs.recipe import Recipe
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


def _asked(beside: tuple[Any, ...]) -> Collective:
    """For which collective a stored design is looked at."""
    return getattr(beside[-1], "collective", Collective.ALLGATHER)


made(
    "entry",
    cost=lambda entry, *beside: entry.cost(_asked(beside)),
    t_b_float=lambda entry, *beside: float(entry.cost(_asked(beside)).t_b),
    bw_optimal=lambda entry, *beside: entry.is_bw_optimal(_asked(beside)),
    moore_optimal=lambda entry, *beside: entry.is_moore_optimal(_asked(beside)),
)


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
        told_late("measured" if entry.measured else "predicted", entry),
        handle(entry.recipe),
        entry.label,
    )


def _certificate(entry: Entry) -> str | None:
    """The least t_b that was proven of any allgather in as many steps."""
    least = entry.certificate
    return None if least is None else f"t_b {t_b_text(least)}, {_entry_above_bound(entry)} above"


def _entry_above_bound(entry: Entry) -> str:
    """How far the t_b of the allgather is above what is proven of any in as many steps."""
    if entry.certificate is None:
        return "-"
    return f"{100 * float(entry.allgather.t_b / entry.certificate - 1):.3g} %"


def search_sentences(answer: Frontier) -> Iterator[str]:
    """How much a size was searched for, and when; beyond the catalogue, how little."""
    designs, origin, here = answer.looked_at, answer.origin, answer.here
    if origin is not None:
        is_open = bool(open_steps(list(designs), answer.question))
        yield origin_sentence(origin, is_open and (here is None or not here.work))
    if here is not None:
        what = "" if here.work else " for all-to-all"
        yield f"Searched{what} on this machine with the default effort; --fresh searches on."
    if here is not None and origin is None:
        counts = Counter(map(_way_of, designs))
        listed = ", ".join(f"{number} by {way}" for way, number in counts.items())
        yield (
            f"The catalogue does not reach this size, so little was looked at ({listed}): better "
            "designs are likely."
        )


def _way_of(design: Design) -> str:
    recipe = design.recipe.g if isinstance(design.recipe, Transpose) else design.recipe
    if isinstance(recipe, AffineSpliced):
        return "affine digraphs"
    is_edit = isinstance(recipe, Excise | Insert | Swap)
    return "neighbouring sizes" if is_edit else "families and expansions"


def origin_sentence(origin: Provenance, is_open: bool) -> str:
    """How much a size that is answered from the catalogue was searched for, and when.

    ``is_open`` says that searches may find more.

    >>> from ocs_codesign.search.catalogue.entry import Provenance
    >>> origin_sentence(Provenance("sweep", "0.1.0", 1, 2.5, 2**24), True)
    'From the catalogue: searched for 2.5 s of one core; --fresh searches on.'
    """
    spent = origin.time_spent_s
    time = f"{spent:.2g} s" if spent < 100 else f"{spent / 60:.2g} minutes"
    when = f", last on {origin.day}" if origin.day else ""
    said = f"From the catalogue: searched for {time} of one core{when}; "
    if not is_open:
        return said + "nothing is left for local searches; --fresh searches all the same."
    if max(origin.work, origin.improved) >= Effort().work:
        return said + "--fresh searches on."
    return said + "--fresh searches on, up to some minutes, and may find better."


made("frontier.known", found=True)


def known_sections(entry: Entry, origin: Provenance | None) -> Iterator[Section]:
    """A stored design and where it comes from."""
    yield Facts(
        ("recipe", entry.recipe),
        ("label", entry.label),
        ("nodes, degree", f"{entry.num_nodes}, {entry.degree}"),
        ("bidirectional", "yes" if entry.bidirectional else "no"),
        ("allgather", cost_text(entry.allgather)),
        ("bound at its steps", _certificate(entry)),
        ("reduce-scatter", cost_text(entry.reduce_scatter)),
        ("all-to-all", None if entry.alltoall is None else f"t_b {t_b_text(entry.alltoall)}"),
        ("optimal", optimality(entry.is_bw_optimal(), entry.is_moore_optimal())),
        ("schedule", told_late(entry.schedule, entry)),
        ("found by", "-" if origin is None else origin.command),
        ("version", "-" if origin is None else origin.version),
        ("time spent", "-" if origin is None else f"{origin.time_spent_s} s"),
        ("last searched", None if origin is None else origin.day or None),
    )


def timed_sections(answer: AlltoallPass, path: str) -> Iterator[Section]:
    """What working out all-to-all times has added to a catalogue."""
    yield Facts(
        ("catalogue", path),
        ("questions come to", answer.num_questions),
        ("designs with a time", answer.num_timed),
        ("left, since they take longer", answer.num_untimed),
        ("designs added", answer.num_added),
    )


# What is proven by looking at all topologies of a size: JSON, table, sentence.


_KINDS = (Collective.ALLGATHER, Collective.ALLREDUCE, Collective.ALLTOALL)


made(
    "frontier.exhaustion",
    allgather=lambda found: found.points(Collective.ALLGATHER),
    allreduce=lambda found: found.points(Collective.ALLREDUCE),
    alltoall=lambda found: found.points(Collective.ALLTOALL),
)


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


made("counted", loops_and_parallel_links=lambda found: not found.simple)
made(
    "proof",
    points=lambda found, answer: found.points(answer.collective),
    proven=lambda found, answer: [
        design.recipe
        for design in answer.candidates
        if found.proves(design.cost, answer.collective)
    ],
)


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


def _left_out(found: Exhaustion) -> str:
    return " without loops and parallel links" if found.simple else ""


MAX_DOMINATED_ROWS = 40
_HALVES = Collective.ALLREDUCE.halves()


class OwnGraph(NamedTuple):
    """A graph of one's own beside a frontier: the name of its file, and what it costs."""

    name: str
    cost: Cost


def _times_s(design: Design, _: Frontier, asked: MessageSizes | None) -> Any:
    return asked and asked.times_s(design.cost)


def dominator_of(design: Design | Cost, answer: Frontier) -> Recipe | None:
    """What dominates a design."""
    better = answer.dominator(design)
    return better and better.recipe


made(
    "candidate",
    allgather=lambda design: design.cost_of(Collective.ALLGATHER),
    reduce_scatter=lambda design: design.cost_of(Collective.REDUCE_SCATTER),
    times_s=_times_s,
)
made("ranked_candidate", above_bound=lambda design, answer: above_least_t_b(answer, design))
made("dominated_candidate", dominated_by=dominator_of)
made("baseline", recipe=lambda design: design.recipe if design.recipes else None, times_s=_times_s)
made("own_graph", dominated_by=lambda own, answer: dominator_of(own.cost, answer))
made(
    "frontier.frontier",
    exhaustion=lambda answer: exhausted(answer.question, answer.collective),
    published=lambda answer: [design.recipe for design in answer.published],
    baselines=lambda answer, asked: [
        *answer.baselines,
        *closed_baselines(answer.question, answer.collective, asked),
    ],
    best=lambda answer, asked: (
        asked and [answer.best(asked.model, size).recipe for size in asked.sizes_bytes]
    ),
)


def frontier_sections(
    answer: Frontier, asked: MessageSizes | None, own: OwnGraph | None = None, *, show_all: bool
) -> Iterator[Section]:
    """The frontier, its bound, the best for every message size, and what it is compared with."""
    yield (
        f"{answer.num_nodes} nodes of degree {answer.degree}, {answer.collective.name}: "
        f"{counted(len(answer.candidates), 'candidate')} on the frontier, "
        f"{len(answer.dominated)} dominated"
    )
    yield _candidates(answer.candidates, asked)
    if own is not None:
        by = answer.dominator(own.cost)
        met = (
            "no candidate is as good in both" if by is None else f"{by.recipe.label()} is no worse"
        )
        yield f"{own.name}: {cost_text(own.cost)}, measured; {met}."
    yield from _above_bound(answer)
    yield from proof_sections(answer.question, answer.collective, answer.candidates)
    ways = " with links both ways" if answer.question.bidirectional else ""
    yield (
        f"These are the best of {len(answer.looked_at)} designs known or found; no topology of "
        f"this size{ways} can beat {cost_text(answer.bound)}."
    )
    yield from search_sentences(answer)
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
    halves = [half for half in _HALVES if any(one.collective != half for one in candidates)]
    names = (
        {}
        if last is None
        else {id(each): name for each, name in zip(candidates, last[1], strict=True)}
    )
    with_forests = any(one.forest_t_b is not None for one in candidates)
    return table(
        candidates,
        "steps=cost.steps; t_b=cost.t_b; decimal=cost.t_b:.6g; *time:time; *halves; "
        + "forests=forest_t_b " * with_forests
        + "| optimal; cost=measured; handle || label=recipe.label"
        + ("" if last is None else f"; {last[0]}"),
        spread={
            "time": asked.columns("time") if asked else (),
            "halves": tuple(half.name for half in halves),
        },
        cut=True,
        time=lambda design: () if asked is None else asked.times_s(design.cost),
        halves=lambda design: [f"{cost.steps}, {cost.t_b}" for cost in map(design.cost_of, halves)],
        optimal=lambda design: optimality(design.bw_optimal, design.moore_optimal),
        cost=lambda design: told_late("measured" if design.measured else "predicted", design),
        handle=lambda design: handle(repr(design.recipe)),
        **({} if last is None else {last[0].replace(" ", "_"): lambda each: names[id(each)]}),
    )


def _baselines(answer: Frontier, asked: MessageSizes | None) -> Table:
    """What a cluster would be without a search, and how much longer it takes than the best."""
    is_one = asked is not None and len(asked.sizes_bytes) == 1

    def over_best(design: Design) -> Fraction | None:
        if asked is None:
            return None
        best = answer.best(asked.model, *asked.sizes_bytes).cost
        return asked.times_s(design.cost)[0] / asked.times_s(best)[0]

    return table(
        [*answer.baselines, *closed_baselines(answer.question, answer.collective, asked)],
        "steps=cost.steps; t_b=cost.t_b; decimal=cost.t_b:.6g; *time:time; "
        + "over best:.3f" * is_one
        + "| handle || label",
        spread={"time": asked.columns("time") if asked else ()},
        cut=True,
        time=lambda design: () if asked is None else asked.times_s(design.cost),
        over_best=over_best,
        handle=lambda design: handle(repr(design.recipe)) if design.recipes else None,
    )


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
