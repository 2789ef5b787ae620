"""What is proven by looking at all topologies of a size: JSON, table, sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.sections import Recipes, Table
from ocs_codesign.answers.texts import cost_json
from ocs_codesign.collective import Collective
from ocs_codesign.graphs.handle import handle
from ocs_codesign.search.exhaustion.stored import exhausted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.cost import Cost
    from ocs_codesign.design import Design
    from ocs_codesign.question import Question
    from ocs_codesign.search.exhaustion.visits import Exhaustion

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
