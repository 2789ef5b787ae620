"""All-to-all frontiers as answers: JSON, tables, sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.quantities import format_size, format_time
from ocs_codesign.faces.answers.declared import excluded, made, records
from ocs_codesign.faces.answers.frontier import (
    MAX_DOMINATED_ROWS,
    NONE_WITHIN,
    dominator_of,
    more_dominated,
    nearest_sentence,
    proof_sections,
    search_sentences,
)
from ocs_codesign.faces.answers.sections import Facts, Recipes, Table, counted
from ocs_codesign.faces.answers.texts import (
    ASK_FOR_A_MODEL,
    MAX_FRACTION,
    fat_tree_sentence,
    in_decimals,
    model_text,
)
from ocs_codesign.graphs.handle import handle
from ocs_codesign.search.exhaustion.visits import exhausted
from ocs_codesign.search.frontiers import best_jointly, counts_allgather, hop_bound, joint_times
from ocs_codesign.search.gaps import NUM_OFFSETS, THRESHOLDS, is_above, largest_first, shares_of
from ocs_codesign.search.pareto import fat_tree, proven_t_b

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from fractions import Fraction

    from ocs_codesign.core.cost import CostModel, MessageSizes
    from ocs_codesign.faces.answers.sections import Section
    from ocs_codesign.schedules.design import Design, Question
    from ocs_codesign.search.gaps import Gap, GapLine
    from ocs_codesign.search.improving import Improved
    from ocs_codesign.search.pareto import Frontier


_UNSOLVED_ROWS = 3


def _measured(value: Callable[[Design, Frontier], Any]) -> Callable[..., Any]:
    """A word that only those have whose all-to-all was solved."""
    return lambda design, answer: value(design, answer) if design.measured else None


made(
    "exchange",
    allgather=lambda design: design.cost_of(Collective.ALLGATHER),
    hop_bound=lambda design: hop_bound(design),
    alltoall_t_b=_measured(lambda design, _: design.cost.t_b),
    alltoall_t_b_float=_measured(lambda design, _: float(design.cost.t_b)),
    proven_bound=_measured(lambda design, _: proven_t_b(design)),
    gap=_measured(lambda design, _: float(design.cost.t_b / proven_t_b(design) - 1)),
    optimal=_measured(lambda design, _: design.cost.t_b == proven_t_b(design)),
    over_bound=_measured(lambda design, answer: float(design.cost.t_b / answer.bound.t_b)),
    allgather_s=lambda design, _, asked: (
        asked.times_s(design.cost_of(Collective.ALLGATHER)) if asked and design.measured else None
    ),
    alltoall_s=lambda design, _, asked: (
        asked.times_s(design.cost) if asked and design.measured else None
    ),
)


def _untimed(designs: Sequence[Design], answer: Frontier) -> list[dict[str, Any]]:
    return [records()["exchange"].json(design, answer, None) for design in designs]


made("dominated_exchange", dominated_by=dominator_of)
made(
    "joint.joint",
    collective="alltoall",
    with_allgather=lambda answer: counts_allgather(answer),
    exhaustion=lambda answer: exhausted(answer.question, answer.collective),
    fat_tree=lambda answer: fat_tree(answer.num_nodes, answer.collective).cost,
    unsolved=lambda answer: _untimed(answer.unsolved, answer),
    excluded=lambda answer: [
        excluded(repr(design.recipe), "unsolved", "too large to solve in a search or in time")
        for design in answer.unsolved
    ],
    best=lambda answer, asked: (
        asked
        and [
            best_jointly(answer, asked.model, size).recipe
            for size in (asked.sizes_bytes if answer.candidates else ())
        ]
    ),
)
made(
    "joint.stored",
    collective="alltoall",
    exact=lambda answer, asked: answer.question == asked,
    candidates=lambda answer: _untimed(answer.candidates, answer),
    unsolved=lambda answer: _untimed(answer.unsolved, answer),
)


def joint_sections(
    answer: Frontier, asked: MessageSizes | None, *, show_all: bool
) -> Iterator[Section]:
    """The frontier as a table, its bound, the best for every message size, what is unsolved."""
    question = answer.question
    what = "allgather and all-to-all" if counts_allgather(answer) else "all-to-all"
    unsolved = f", {len(answer.unsolved)} unsolved" if answer.unsolved else ""
    yield (
        f"{question.num_nodes} nodes of degree {question.degree}, {what}: "
        f"{counted(len(answer.candidates), 'candidate')} on the frontier, "
        f"{len(answer.dominated)} dominated{unsolved}"
    )
    if answer.candidates:
        yield from _candidates(answer, answer.candidates, asked)
    yield (
        f"These are the best of {len(answer.looked_at)} designs known or found; all-to-all t_b of "
        f"no topology of this size can be below {answer.bound.t_b} "
        f"({float(answer.bound.t_b):.6g}); messages may split over paths."
    )
    yield from proof_sections(answer.question, answer.collective, answer.candidates)
    yield from _from_catalogue(answer)
    if asked is None:
        yield ASK_FOR_A_MODEL
    elif answer.candidates:
        for size in asked.sizes_bytes:
            yield _best_sentence(answer, asked.model, size)
    if answer.unsolved:
        yield _unsolved_sentence(answer)
    if answer.baselines:
        either = " for either" if counts_allgather(answer) else ""
        yield "\nBaselines:"
        yield from _candidates(answer, answer.baselines, asked)
        yield fat_tree_sentence(fat_tree(answer.num_nodes, answer.collective).cost, asked, either)
    dominated = _shown_dominated(answer, asked) if show_all else []
    if dominated:
        yield from _dominated(answer, dominated, asked)
    shown = (*answer.candidates, *answer.baselines, *dominated)
    yield Recipes.of(design.recipe for design in shown if design.recipes)


def _from_catalogue(answer: Frontier) -> Iterator[Section]:
    """Whether the size, or only times of some of its designs, are from the catalogue."""
    if answer.alltoall:
        yield f"{counted(len(answer.alltoall), 'exact time')} from the catalogue, not solved again."
    yield from search_sentences(answer)


def stored_sections(
    answer: Frontier, asked: Question, stored: int, timed: int
) -> Iterator[Section]:
    """What the designs that a catalogue stores for a size, so many, can do; so many have a time."""
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
    least = answer.bound.t_b
    yield (
        f"{_stored_sentence(stored, timed)} "
        f"No topology of this size can be below {least} ({float(least):.6g}); "
        f"frontier --collective alltoall searches for better ones."
    )
    yield Recipes.of(design.recipe for design in answer.candidates)


def _stored_sentence(stored: int, timed: int) -> str:
    """How many of a size's known designs have a stored all-to-all time.

    >>> _stored_sentence(5, 2)
    'The all-to-all times of 2 of 5 known designs are stored, the others were bounded or solved.'
    """
    if not timed:
        return f"All-to-all is not stored: that of {stored} known designs was bounded or solved."
    of_all = f"The all-to-all times of {timed} of {stored} known designs are stored"
    return of_all + (", the others were bounded or solved." if timed < stored else ".")


def _candidates(
    answer: Frontier,
    candidates: Sequence[Design],
    asked: MessageSizes | None,
    dominators: Sequence[str] | None = None,
) -> Iterator[Section]:
    """A table of candidates, of the dominated ones with what beats them in a last column."""
    columns = ["steps", "allgather t_b", "all-to-all t_b"]
    columns += [] if asked else ["decimal", "over bound"]
    if asked is not None:
        columns += asked.columns("both" if counts_allgather(answer) else "time")
    numbers = len(columns)
    columns += ["proof", "handle", "label"]
    rows = [_row(answer, one, asked) for one in candidates]
    if dominators is not None:
        columns.append("dominated by")
        rows = [(*row, name) for row, name in zip(rows, dominators, strict=True)]
    yield Table(tuple(columns), rows, numbers, texts=1 if dominators is None else 2, cut=True)


def _row(answer: Frontier, one: Design, asked: MessageSizes | None) -> tuple[str, ...]:
    gather, t_b = one.cost_of(Collective.ALLGATHER), one.cost.t_b
    steps = gather.steps if counts_allgather(answer) else one.cost.steps
    row = [str(steps), str(gather.t_b), _exact_text(one) if one.measured else "-"]
    if asked is None:
        row += [f"{float(t_b):.6g}", f"{float(t_b / answer.bound.t_b):.4f}"]
    else:
        row += map(format_time, _times_s(answer, one, asked))
    gap = t_b / proven_t_b(one) - 1
    proof = f"gap {float(gap):.1g}" if gap else "exact"
    if not one.measured:
        proof = "hops only"
    return (*row, proof, handle(repr(one.recipe)), one.label)


def _times_s(answer: Frontier, one: Design, asked: MessageSizes) -> Iterator[Fraction]:
    """The time of every size: of allgather and all-to-all, or of the all-to-all alone."""
    for size in asked.sizes_bytes:
        times = joint_times(one, asked.model, size)
        yield times.total_s if counts_allgather(answer) else times.alltoall_s


def _exact_text(design: Design) -> str:
    """The fraction where it is the least time and can be read."""
    text = str(design.cost.t_b)
    is_fraction = design.cost.t_b == design.least_t_b and len(text) <= MAX_FRACTION
    return text if is_fraction else in_decimals(design.cost.t_b)


def _best_sentence(answer: Frontier, model: CostModel, message_bytes: float) -> str:
    best = best_jointly(answer, model, message_bytes)
    times = joint_times(best, model, message_bytes)
    size, alltoall = format_size(message_bytes), format_time(times.alltoall_s)
    cost = f"{best.cost.steps} steps, t_b {float(best.cost.t_b):.6g}"
    what, time = size, f"{alltoall} ({cost})"
    if counts_allgather(answer):
        what = f"an allgather and an all-to-all of {size} each"
        parts = f"{format_time(times.allgather_s)} and {alltoall}"
        time = f"{format_time(times.total_s)} ({parts})"
    return f"{model_text(what, model)}: {best.label} in {time}."


def _unsolved_sentence(answer: Frontier) -> str:
    """Which designs may belong to the frontier, and what their hops prove."""
    names = ", ".join(
        f"{one.label} at least {float(hop_bound(one) / answer.bound.t_b):.4f} of it"
        for one in answer.unsolved[:_UNSOLVED_ROWS]
    )
    more = len(answer.unsolved) - _UNSOLVED_ROWS
    return f"Too large to solve in a search or in time ({len(answer.unsolved)}): {names}" + (
        f" and {more} more." if more > 0 else "."
    )


def _shown_dominated(answer: Frontier, asked: MessageSizes | None) -> list[Design]:
    """The dominated ones that are listed, the fastest first."""

    def time(one: Design) -> Fraction:
        if asked is None:
            return one.cost.t_b
        return next(_times_s(answer, one, asked))

    return sorted(answer.dominated, key=time)[:MAX_DOMINATED_ROWS]


def _dominated(
    answer: Frontier, ranked: Sequence[Design], asked: MessageSizes | None
) -> Iterator[Section]:
    """A table of them; ``hops only`` marks times that hops are a bound of."""
    better = [answer.dominator(one) for one in ranked]
    names = ["-" if one is None else one.label for one in better]
    yield "\nDominated; where hops were enough to know, at least so much:"
    yield from _candidates(answer, ranked, asked, names)
    yield from more_dominated(len(answer.dominated) - len(ranked))


# Gaps of a catalogue as answers: shares of sizes near the bound, and those furthest from it.


_OFFSETS = ("fewest", *(f"+{offset}" for offset in range(1, NUM_OFFSETS)))


made(
    "joint.gaps",
    thresholds=THRESHOLDS,
    shares=shares_of,
    sizes=lambda gaps, above=(): [
        gap for gap in largest_first(gaps) if not above or is_above(gap, above)
    ],
)


def gaps_sections(
    gaps: list[Gap], above: Sequence[GapLine] = (), *, num_worst: int
) -> Iterator[Section]:
    """The shares of sizes near the bound, and the sizes that are furthest from it."""
    yield (
        f"How far the least stored t_b of an allgather is above what counting allows, for "
        f"{counted(len(gaps), 'size')} with designs: mean and largest excess, and the share of "
        f"sizes with some design of so few steps, and within 1 to 30 % of the bound. All in %."
    )
    limits = [f"<={100 * most}" for most in THRESHOLDS]
    columns = ("d", "links", "sizes", "steps", "mean", "largest", "some", *limits)
    rows: list[tuple[str, ...]] = [
        (
            str(shares.degree),
            _links(shares.bidirectional),
            str(shares.num_sizes),
            _OFFSETS[shares.offset],
            _percent(shares.mean),
            _percent(shares.largest),
            _percent(shares.with_design),
            *map(_percent, shares.within),
        )
        for shares in shares_of(gaps)
    ]
    yield Table(columns, rows, len(columns))
    wanted = [gap for gap in largest_first(gaps) if gap.size]
    if above:
        wanted = [gap for gap in largest_first(gaps) if is_above(gap, above)]
        most = " or ".join(
            f"{100 * float(line.most):g} % at {_OFFSETS[line.offset]}" for line in above
        )
        yield f"\n{counted(len(wanted), 'size')} further above the bound than {most}."
    worst = wanted[:num_worst]
    if not worst:
        return
    yield "\nLargest gaps, by the mean excess of all but the fewest steps, in %:"
    largest: list[tuple[str, ...]] = [
        (
            str(gap.question.num_nodes),
            str(gap.question.degree),
            _links(gap.question.bidirectional),
            str(gap.fewest),
            *map(_percent, gap.excess),
            _percent(gap.size),
        )
        for gap in worst
    ]
    columns = ("N", "d", "links", "fewest", "there", *_OFFSETS[1:], "mean")
    yield Table(columns, largest, len(columns))


def _links(bidirectional: bool) -> str:
    return "both" if bidirectional else "any"


def _percent(share: Fraction | None) -> str:
    return "-" if share is None else f"{100 * float(share):.1f}"


def improved_sections(answer: Improved, path: str) -> Iterator[Section]:
    """What searching on has added to a catalogue."""
    yield Facts(
        ("catalogue", path),
        ("questions searched", answer.num_searched),
        ("with better answers", answer.num_better),
        ("designs added", answer.num_added),
    )
