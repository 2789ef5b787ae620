"""What a catalogue knows as answers: entries, look-ups, provenance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.sections import Facts, Recipes, Table
from ocs_codesign.answers.texts import cost_json, cost_text, optimality, t_b_text
from ocs_codesign.collective import Collective
from ocs_codesign.graphs.handle import handle
from ocs_codesign.search.effort import ALLTOALL_SHARE, Effort

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.question import Question
    from ocs_codesign.search.alltoall.passes import AlltoallPass
    from ocs_codesign.search.catalogue.entry import Entry, Provenance
    from ocs_codesign.search.catalogue.lookup import LookedUp

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
        _above_bound(entry) if collective == Collective.ALLGATHER else "-",
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
    return None if least is None else f"t_b {t_b_text(least)}, {_above_bound(entry)} above"


def _above_bound(entry: Entry) -> str:
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
