"""The recipes of a candidate: what circuits the servers of a rail hang on."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

from ocs_codesign.graphs.expansions.product import Product
from ocs_codesign.graphs.families.rings import BiRing, UniRing
from ocs_codesign.workload.codesign.placements import PIPELINE

if TYPE_CHECKING:
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.reconfigure.hold.options import FabricOption
    from ocs_codesign.workload.codesign.candidates import Candidate
    from ocs_codesign.workload.codesign.placements import RankPlacement, Span


class RailDesign(NamedTuple):
    """What the servers of a rail, or of a block of it, hang on, and the spans that it is for."""

    name: str
    recipe: Recipe
    spans: tuple[Span, ...]


def rail_designs(candidate: Candidate) -> tuple[RailDesign, ...]:
    """The configurations of a candidate: none without light, two where circuits change.

    Circuits of several groups are the product of theirs, whose nodes are the servers in order.
    """
    optical = candidate.placement.optical
    if not optical:
        return ()
    if "" in candidate.designs:
        return (RailDesign("fabric", recipe_of(candidate.designs[""]), optical),)
    if not candidate.ports:
        return ()
    name = "passes" if candidate.late_ports else "fabric"
    found = [_of_spans(name, candidate.placement, candidate.ports, candidate.designs)]
    if candidate.late_ports:
        late = candidate.late_ports, candidate.late_designs
        found.append(_of_spans("gradients", candidate.placement, *late))
    return tuple(found)


def recipe_of(option: FabricOption) -> Recipe:
    """The recipe of an option; ValueError if it has none."""
    if option.recipe is None:
        raise ValueError(f"{option.name} has no recipe")
    return option.recipe


def _of_spans(
    name: str, placement: RankPlacement, ports: dict[str, int], designs: dict[str, FabricOption]
) -> RailDesign:
    spans = tuple(span for span in placement.optical if span.dimension in ports)
    factors = [
        ring_of_stages(span.outside, ports[PIPELINE])
        if span.dimension == PIPELINE
        else recipe_of(designs[span.dimension])
        for span in spans
    ]
    # The last coordinate of a product counts fastest, as the first span does.
    recipe = factors[0] if len(factors) == 1 else Product(*factors[::-1])
    if recipe.num_nodes != prod(span.outside for span in spans):
        raise RuntimeError(f"{recipe!r} is not on the servers of {name}")
    return RailDesign(name, recipe, spans)


def ring_of_stages(num_stages: int, num_ports: int) -> Recipe:
    """What stages of a pipeline hang on: a two-way ring, or links between two.

    >>> ring_of_stages(2, 3), ring_of_stages(4, 2)
    (UniRing(3, 2), BiRing(2, 4))
    """
    if num_stages == 2:
        return UniRing(num_ports, 2)
    return BiRing(num_ports - num_ports % 2, num_stages)
