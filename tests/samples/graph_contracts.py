"""What every family, expansion and group must do: contracts that run on the registry's samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from replay_oracle import is_valid, runs_correctly
from slow_bfb import slow_bfb_loads
from strategies import built

from ocs_codesign.core.collective import GATHERING
from ocs_codesign.graphs.recipe import Base, Expanded, Recipe, Shape
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.breadth_first.loads import bfb_loads
from ocs_codesign.verification.schedules import verify

if TYPE_CHECKING:
    from ocs_codesign.core.topology import Topology
    from ocs_codesign.graphs.families.cayley import Cayley
    from ocs_codesign.graphs.groups.group import Group

UPPER_BOUNDS = {"Line"}
"""Expansions whose mapped schedule may be better than predicted."""


def prints_and_parses_back(recipe: Recipe) -> None:
    again = parse(repr(recipe))
    assert again == recipe
    assert hash(again) == hash(recipe)
    assert repr(again) == str(again) == repr(recipe)
    assert again.label() == recipe.label() != ""


def declares_what_is_built(recipe: Recipe) -> None:
    topology = built(recipe)
    assert recipe.shape == Shape(topology.num_nodes, topology.degree)
    assert (recipe.num_nodes, recipe.degree) == (topology.num_nodes, topology.degree)
    assert topology.is_regular
    assert topology.link_speed is None
    assert topology.diameter() >= 1
    assert recipe.has_self_loops == topology.has_self_loops()
    assert recipe.bidirectional == topology.is_undirected()
    assert recipe.topology() == topology
    if recipe.reverse_symmetric:
        assert bfb_loads(topology) == bfb_loads(topology.transpose())
        assert recipe.predict() == recipe.predict("reduce-scatter")


def symmetry_is_honest(recipe: Recipe) -> None:
    """Orbits have what orbits of automorphisms that act freely must have."""
    topology = built(recipe)
    if topology.symmetry is None:
        return
    nodes, links = topology.symmetry.node_orbit, topology.symmetry.link_orbit
    assert nodes.shape == (topology.num_nodes,)
    assert links.shape == (topology.num_links,)
    for orbits in (nodes, links):
        assert (np.unique(orbits) == np.arange(orbits.max() + 1)).all()
    sizes = np.concatenate([np.bincount(nodes), np.bincount(links)])
    assert (sizes == sizes[0]).all()
    first_nodes = topology.symmetry.representatives()
    for distances in (topology.distances(), topology.distances().T):
        spheres = np.sort(distances, axis=1)
        assert (spheres == spheres[first_nodes][nodes]).all()
    # A link orbit leads from one node orbit to one other, once out of and into every node.
    for ends in (topology.tail, topology.head):
        pairs = links.astype(np.int64) * topology.num_nodes + ends
        assert len(np.unique(pairs)) == topology.num_links
        orbit_pairs = np.unique(np.stack([links, nodes[ends]]), axis=1)
        assert orbit_pairs.shape[1] == links.max() + 1
    for first in first_nodes.tolist():
        others = np.flatnonzero(nodes == nodes[first])
        for other in (others[len(others) // 2], others[-1]):
            # The image permutes the nodes within their orbits, and fixes none unless it fixes all.
            image = _automorphism(topology, first, int(other))
            assert sorted(image) == list(range(topology.num_nodes))
            assert (nodes[image] == nodes).all()
            assert sum(node == to for node, to in enumerate(image)) in (0, topology.num_nodes)


def _automorphism(topology: Topology, first: int, other: int) -> list[int]:
    """Where every node goes when ``first`` goes to ``other`` and links stay in their orbits."""
    follow: list[dict[int, int]] = [{} for _ in range(topology.num_nodes)]
    rows = zip(topology.tail.tolist(), topology.head.tolist(), strict=True)
    for (tail, head), orbit in zip(rows, topology.symmetry.link_orbit.tolist(), strict=True):
        follow[tail][orbit] = head
    image, queue = {first: other}, [first]
    for node in queue:
        assert follow[node].keys() == follow[image[node]].keys()
        for orbit, head in follow[node].items():
            expected = follow[image[node]][orbit]
            if head not in image:
                image[head] = expected
                queue.append(head)
            assert image[head] == expected
    return [image[node] for node in range(topology.num_nodes)]


def loads_are_those_of_bfb_by_definition(recipe: Recipe) -> None:
    """A closed form both ways, and what is measured on graphs that are small enough."""
    if not isinstance(recipe, Base):
        return
    topology, closed = built(recipe), recipe.loads()
    if closed is not None:
        assert closed == bfb_loads(topology) == bfb_loads(topology.transpose())
    if recipe.degree <= 8 and recipe.num_nodes <= 60:
        assert bfb_loads(topology) == slow_bfb_loads(topology)


def mapped_schedule_does_what_was_predicted(recipe: Recipe) -> None:
    for collective in GATHERING:
        schedule = recipe.expansion_schedule(collective)
        verdict = verify(schedule)
        assert verdict.ok
        assert schedule.topology == built(recipe)
        assert schedule.collective == collective
        predicted = recipe.predicted_loads(collective)
        if uses(recipe, UPPER_BOUNDS):
            assert verdict.cost.steps <= len(predicted)
            assert verdict.cost.t_b <= recipe.predict(collective).t_b
        else:
            assert verdict.max_loads == predicted
            assert verdict.cost == recipe.predict(collective)


def mapped_schedule_moves_the_right_numbers(recipe: Recipe) -> None:
    if isinstance(recipe, Expanded) and recipe.num_nodes <= 30:
        schedule = recipe.expansion_schedule("allreduce")
        if schedule.num_chunks * schedule.num_sends < 200_000:
            assert is_valid(schedule)
        assert runs_correctly(schedule)


def uses(recipe: Recipe, names: set[str]) -> bool:
    parts = getattr(recipe, "parts", ())
    return type(recipe).__name__ in names or any(uses(part, names) for part in parts)


RECIPE_CONTRACTS = (
    prints_and_parses_back,
    declares_what_is_built,
    symmetry_is_honest,
    loads_are_those_of_bfb_by_definition,
    mapped_schedule_does_what_was_predicted,
    mapped_schedule_moves_the_right_numbers,
)


def table(group: Group) -> np.ndarray:
    """The multiplication table by numbers: row g, column s."""
    left = np.arange(group.order, dtype=np.int64)
    return np.stack([group.right_multiply(left, s) for s in range(group.order)], axis=1)


def is_a_group(sample: Cayley) -> None:
    times, numbers = table(sample.group), np.arange(sample.group.order)
    assert times.shape == (len(numbers), len(numbers))
    assert (times[0] == numbers).all()
    assert (times[:, 0] == numbers).all()
    assert (np.sort(times, axis=0) == numbers[:, None]).all()
    assert (np.sort(times, axis=1) == numbers).all()
    assert (times[times] == times[numbers[:, None, None], times]).all()
    assert sample.group.is_abelian == np.array_equal(times, times.T)


def multiplies_arrays_that_broadcast(sample: Cayley) -> None:
    group = sample.group
    times, numbers = table(group), np.arange(group.order)
    assert np.array_equal(group.right_multiply(numbers[:, None], numbers[None]), times)
    assert np.array_equal(group.right_multiply(numbers[:, None], numbers), times)
    assert np.array_equal(group.right_multiply(numbers, numbers[:, None]), times.T)
    assert np.array_equal(group.right_multiply(numbers, numbers[::-1]), times[:, ::-1].diagonal())
    assert group.right_multiply(numbers[:0, None], numbers).shape == (0, group.order)


def elements_are_numbered(sample: Cayley) -> None:
    group = sample.group
    elements = [group.element(number) for number in range(group.order)]
    assert [group.index(element) for element in elements] == list(range(group.order))
    assert len(set(elements)) == group.order
    assert all(group.element(group.index(s)) in elements for s in sample.generators)


def sample_generates_its_group(sample: Cayley) -> None:
    assert (built(sample).distances() >= 0).all()


def group_prints_and_parses_back(sample: Cayley) -> None:
    group = sample.group
    again = parse(f"Cayley({group!r}, ({group.element(0)!r},))").group
    assert again == group
    assert hash(again) == hash(group)
    assert str(group) == group.label() != ""


GROUP_CONTRACTS = (
    is_a_group,
    multiplies_arrays_that_broadcast,
    elements_are_numbered,
    sample_generates_its_group,
    group_prints_and_parses_back,
)
