"""A design that was built and saved, as an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.choice import choice_json
from ocs_codesign.answers.exact import proof_json
from ocs_codesign.answers.sections import Facts, counted
from ocs_codesign.answers.texts import (
    cost_json,
    cost_text,
    far_above_text,
    graph_bound_text,
    is_far_above,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.cost import Cost
    from ocs_codesign.design import Design
    from ocs_codesign.schedulers.task import Made


def built_json(
    record: dict[str, Any], made: Made | None, least: Cost | None, directory: str
) -> dict[str, Any]:
    """The record of the design, what is proven of it and of its graph, and where it is."""
    proof: dict[str, Any] = {} if least is None else {"topology_bound": cost_json(least)}
    if made is not None and made.exact is not None:
        proof |= proof_json(made.exact)
    elif made is not None and made.bound is not None:
        proof["t_b_bound"] = str(made.bound)
    if made is not None and made.choices:
        proof["choices"] = [choice_json(choice) for choice in made.choices]
    if made is not None and made.height is not None:
        proof["forest"] = {"height": made.height, "loss": str(made.loss)}
    return {**record, **proof, "out": directory}


def built_sections(
    answer: dict[str, Any],
    design: Design,
    made: Made,
    least: Cost | None,
    forest: Cost | None,
) -> Iterator[Section]:
    """What was built.

    ``made`` says of its t_b what no schedule under the same limits can beat, ``least`` is what none
    on the same graph can, ``forest`` what one costs there, None where it is not known.
    """
    bound = made.bound
    maker, _, proof = answer["schedule"].partition(", ")
    yield Facts(
        ("recipe", answer["recipe"]),
        ("graph", answer["graph"]),
        ("nodes, degree", f"{answer['nodes']}, {answer['degree']}"),
        ("collective", answer["collective"]),
        ("cost", f"{cost_text(design.cost)}, verified"),
        ("bound", None if proof or bound is None else _bound_text(design.cost.t_b, bound)),
        ("bound of this graph", least and graph_bound_text(design.cost, least, design.collective)),
        ("proof", proof or None),
        ("trees", None if made.height is None else _trees_text(made.height, made.loss)),
        ("schedule", f"{maker}, {answer['num_sends']:,} sends"),
        ("chunks a shard", answer["num_chunks"]),
        ("saved in", answer["out"]),
    )
    compared = proof or maker.startswith("forest") or "choices" in answer
    if least is not None and not compared and is_far_above(design.cost, least):
        yield ""
        yield far_above_text(design.cost, least, forest)


def _trees_text(height: int, loss: Fraction | None) -> str:
    """How tall the trees of a forest are, and what that costs."""
    rate = f"{float(100 * loss):.3g} % above the bound ({loss})" if loss else "the optimum"
    return f"at most {counted(height, 'hop')} high, in very many parts {rate}"


def _bound_text(t_b: Fraction, least: Fraction) -> str:
    """How far a schedule may be above the best of as many steps."""
    if t_b == least:
        return "no schedule of as many steps is better"
    return f"{float(least):.6g}, at most {float(t_b / least - 1):.1g} below"
