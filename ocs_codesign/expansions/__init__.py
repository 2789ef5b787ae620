"""Expansions: from small graphs, their loads and their schedules to those of larger graphs.

Each works on allgathers; a reduce-scatter is the reversed allgather of the transpose, so every
expansion is told about its parts in both directions: ``forward`` of the parts themselves and
``backward`` of their transposes. To add one, write its four functions in a module here, list them
in EXPANSIONS and give it a recipe class of that name in ``ocs_codesign.recipe.expanded``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from ocs_codesign.expansions import degree, line, product, reverse

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from ocs_codesign.families.shape import Shape
    from ocs_codesign.schedule import Schedule
    from ocs_codesign.topology import Topology


@final
@dataclass(frozen=True, slots=True)
class Expansion:
    """An expansion of one or more parts.

    ``shape(part_shapes, *sizes)`` validates; ``build(part_topologies, *sizes)`` makes the graph;
    ``loads(forward, backward, *sizes)`` predicts the largest link load of every allgather step from
    the parts' profiles; ``schedule(forward, backward, *sizes)`` maps the parts' allgathers to one
    on the built graph that has these loads. ``shortest_paths`` says that the parts' profiles and
    schedules must be those of BFB, in which every shard arrives at a node in a single step.
    ``backward`` is empty unless ``reads_backward``.
    """

    shape: Callable[..., Shape]
    build: Callable[..., Topology]
    loads: Callable[..., tuple[Fraction, ...]]
    schedule: Callable[..., Schedule]
    shortest_paths: bool = False
    reads_backward: bool = False


EXPANSIONS: dict[str, Expansion] = {
    "Line": Expansion(line.line_shape, line.line, line.line_loads, line.line_schedule),
    "Degree": Expansion(
        degree.degree_shape, degree.degree, degree.degree_loads, degree.degree_schedule
    ),
    "Power": Expansion(
        product.power_shape, product.power, product.power_loads, product.power_schedule
    ),
    "Product": Expansion(
        product.product_shape,
        product.product,
        product.product_loads,
        product.product_schedule,
        shortest_paths=True,
    ),
    "Transpose": Expansion(
        reverse.transpose_shape,
        reverse.transpose,
        reverse.transpose_loads,
        reverse.transpose_schedule,
        reads_backward=True,
    ),
    "Bidirected": Expansion(
        reverse.bidirected_shape,
        reverse.bidirected,
        reverse.bidirected_loads,
        reverse.bidirected_schedule,
        reads_backward=True,
    ),
}
