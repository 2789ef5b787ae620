"""What the explorer's pages are told of a catalogue: its questions, their designs and graphs.

Columns, not rows: a page has thousands of designs, and what repeats in a column is compressed.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.bounds import fewest_steps, least_t_b
from ocs_codesign.collective import GATHERING
from ocs_codesign.graphs.handle import handle
from ocs_codesign.search.baselines import closed_baselines
from ocs_codesign.search.catalogue.lookup import stored_frontier

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from ocs_codesign.collective import Collective
    from ocs_codesign.cost import Cost
    from ocs_codesign.design import Design
    from ocs_codesign.question import Question
    from ocs_codesign.search.catalogue.entry import Entry
    from ocs_codesign.topology import Topology

PUBLISHED, BASELINE = "published", "baseline"
_STEPS_BEYOND = 3
"""Steps more than the fewest for which a bound is told even where no design takes so many."""


@final
@dataclass(frozen=True, slots=True)
class ShownQuestion:
    """A question of a catalogue: its entries, and the designs that they are compared with.

    ``compared`` has the published designs and the baselines that have a recipe, each with what it
    is; ``uncosted`` are labels of published designs whose cost takes too long to work out here.
    """

    question: Question
    entries: tuple[Entry, ...]
    compared: tuple[tuple[str, Design], ...]
    uncosted: tuple[str, ...]


def answered_json(answered: ShownQuestion) -> dict[str, Any]:
    """A question with its bounds, its designs as columns, and what they are compared with."""
    question, entries = answered.question, answered.entries
    compared = [
        _compared_json(kind, design, {half.name: design.cost_of(half) for half in GATHERING})
        for kind, design in answered.compared
    ]
    for collective in GATHERING:
        compared += [
            _compared_json(BASELINE, design, {collective.name: design.cost})
            for design in closed_baselines(question, collective)
        ]
    return {
        "nodes": question.num_nodes,
        "bounds": {one.name: _bounds(answered, one) for one in GATHERING},
        "frontier": {one.name: _frontier(entries, one) for one in GATHERING},
        "designs": {
            "recipe": [entry.recipe for entry in entries],
            "handle": [handle(entry.recipe) for entry in entries],
            "label": [entry.label for entry in entries],
            "schedule": [entry.schedule for entry in entries],
            "measured": [entry.measured for entry in entries],
            "bidirectional": [entry.bidirectional for entry in entries],
            "reverse_symmetric": [entry.reverse_symmetric for entry in entries],
            "alltoall": [entry.alltoall and str(entry.alltoall) for entry in entries],
            **{one.name: [_pair(entry.cost(one)) for entry in entries] for one in GATHERING},
        },
        "compared": compared,
        "uncosted": list(answered.uncosted),
    }


def _pair(cost: Cost) -> list[Any]:
    """Steps, and t_b as text, exactly."""
    return [cost.steps, str(cost.t_b)]


def _frontier(entries: tuple[Entry, ...], collective: Collective) -> list[int]:
    """Which entries no other one dominates, in the order of their steps."""
    at = {id(entry): index for index, entry in enumerate(entries)}
    return [at[id(entry)] for entry in stored_frontier(entries, collective)]


def _bounds(answered: ShownQuestion, collective: Collective) -> list[list[Any]]:
    """Steps from which on another t_b is the least that counting allows, each with that t_b."""
    question = answered.question
    size = (question.num_nodes, question.degree)
    fewest = len(collective.halves()) * fewest_steps(*size, bidirectional=question.bidirectional)
    steps = {fewest + more for more in range(-1, _STEPS_BEYOND + 1)}
    steps |= {entry.cost(collective).steps for entry in answered.entries}
    found: list[list[Any]] = []
    for number in sorted(steps):
        least = least_t_b(*size, number, collective, bidirectional=question.bidirectional)
        if least is not None and (not found or found[-1][1] != str(least)):
            found.append([number, str(least)])
    return found


def _compared_json(kind: str, design: Design, costs: dict[str, Cost]) -> dict[str, Any]:
    recipe = repr(design.recipe) if design.recipes else None
    return {
        "kind": kind,
        "label": design.label,
        "recipe": recipe,
        "handle": None if recipe is None else handle(recipe),
        "known": design.known.value,
        "costs": {name: _pair(cost) for name, cost in costs.items()},
    }


def graphs_json(topologies: Iterable[Topology]) -> list[dict[str, Any] | None]:
    """Graphs whose nodes all have as many links out, as what their links lead to.

    ``heads`` are those of the links out of node 0, then of node 1 and so on, in base64: a byte each
    up to 256 nodes, else two bytes, the lower one first. ``orbits`` number the orbits of the nodes
    under the declared symmetry; null if none is declared. A graph that is not regular is null.

    >>> from ocs_codesign.topology import Topology
    >>> graphs_json([Topology(2, [1, 0], [0, 1])])
    [{'nodes': 2, 'degree': 1, 'heads': 'AQA=', 'orbits': None}]
    """
    return list(_graphs(topologies))


def _graphs(topologies: Iterable[Topology]) -> Iterator[dict[str, Any] | None]:
    for topology in topologies:
        degrees = topology.out_degrees()
        if degrees.min() != degrees.max():
            yield None
            continue
        order = np.lexsort((topology.head, topology.tail))
        symmetry = topology.symmetry
        yield {
            "nodes": topology.num_nodes,
            "degree": int(degrees[0]),
            "heads": _packed(topology.head[order], topology.num_nodes),
            "orbits": None
            if symmetry is None
            else _packed(symmetry.node_orbit, topology.num_nodes),
        }


def _packed(numbers: NDArray[Any], num_nodes: int) -> str:
    return b64encode(numbers.astype("u1" if num_nodes <= 2**8 else "<u2").tobytes()).decode()
