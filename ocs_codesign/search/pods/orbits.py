"""Symmetries of slices of pods, and those that fix chips: what an all-to-all needs to know.

A symmetry turns or mirrors all cubes in the same way and moves them onto each other such that
circuits become circuits. Averaging a routing over all of them, and with its reverse, makes loads
alike on links that are alike; so one source of every kind of chips counts, as often as there are
chips of its kind.
"""

from __future__ import annotations

from itertools import permutations, product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ocs_codesign.core.compute.components import connected
from ocs_codesign.core.compute.symmetry import Quotient
from ocs_codesign.core.topology import in_neighbours
from ocs_codesign.graphs.families.pods import cube_of, graph_of, moves, neighbours

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.graphs.families.pods import Cube, Numbers


class Turn(NamedTuple):
    """What turning or mirroring a cube does to its chips, directions and switches.

    ``switches[s]`` is the switch that s becomes, ~that where its + and - ports change places.
    """

    chips: Numbers
    directions: Numbers
    switches: Numbers


def turns(shape: tuple[int, ...]) -> Iterator[Turn]:
    """All turns of a cube onto itself, the first of which does nothing.

    >>> len(list(turns((4, 4, 4)))), len(list(turns((2, 4))))
    (48, 4)
    """
    for axes in permutations(range(len(shape))):
        if all(shape[axis] == edge for axis, edge in zip(axes, shape, strict=True)):
            for mirrored in product((False, True), repeat=len(shape)):
                yield turn(cube_of(shape), axes, mirrored)


def turn(cube: Cube, axes: Sequence[int], mirrored: Sequence[bool]) -> Turn:
    """The turn whose new axis i is the old one ``axes[i]``, in the other direction if mirrored."""
    old = cube.coordinates()
    new = [
        cube.shape[i] - 1 - old[axis] if is_mirrored else old[axis]
        for i, (axis, is_mirrored) in enumerate(zip(axes, mirrored, strict=True))
    ]
    chips = np.ravel_multi_index(tuple(new), cube.shape, order="F")
    directions = np.empty(2 * len(axes), dtype=np.int64)
    for i, axis in enumerate(axes):
        directions[2 * axis], directions[2 * axis + 1] = (
            2 * i + mirrored[i],
            2 * i + 1 - mirrored[i],
        )
    switch = np.full((cube.num_chips, len(directions)), -1)
    numbers = np.arange(cube.num_switches)
    switch[cube.plus, 2 * cube.dimension] = numbers
    switch[cube.minus, 2 * cube.dimension + 1] = numbers
    becomes = directions[2 * cube.dimension]
    image = switch[chips[cube.plus], becomes]
    return Turn(chips, directions, np.where(becomes % 2, ~image, image))


def generators(
    shape: tuple[int, ...], circuits: Numbers, among: Sequence[Turn] | None = None
) -> list[tuple[Turn, Numbers]]:
    """Symmetries that generate all that keep circuits: a turn, and where cubes go."""
    found = []
    for number, each in enumerate(turns(shape) if among is None else among):
        places = moves(circuits, each.switches)
        found += [(each, cubes) for cubes in (places if number == 0 else places[:1])]
    return found


def pod_quotient(shape: tuple[int, ...], circuits: Numbers) -> Quotient:
    """The graph of circuits, with a source of every kind of chips and kinds of links.

    >>> from ocs_codesign.graphs.families.pods import PodLattice
    >>> twisted = PodLattice((4, 4, 4), ((1, 0, 1), (0, 1, 1), (0, 0, 2)))
    >>> pod_quotient(twisted.cube, twisted.circuits()).speed.tolist()
    [256, 256, 256]
    """
    heads = neighbours(cube_of(shape), circuits)
    nodes, ports = heads.shape
    if is_lattice(shape, circuits):
        kind = np.tile(np.arange(ports) // 2, (nodes, 1))
        return _quotient(heads, kind, np.zeros(nodes, dtype=np.int64))
    return _quotient_under(heads, generators(shape, circuits))


def _quotient_under(heads: Numbers, symmetries: Sequence[tuple[Turn, Numbers]]) -> Quotient:
    """The quotient of neighbours by what symmetries generate."""
    nodes, ports = heads.shape
    every, links = np.arange(nodes), np.arange(nodes * ports).reshape(nodes, ports)
    tail, direction = np.nonzero(heads >= 0)
    pairs = [(links[tail, direction], links[heads[tail, direction], direction ^ 1])]
    moved = []
    for each, cubes in symmetries:
        chips = len(each.chips)
        image = cubes[every // chips] * chips + each.chips[every % chips]
        moved.append((every, image))
        pairs.append((links.ravel(), links[image][:, each.directions].ravel()))
    node = _joined(moved, nodes) if moved else every
    return _quotient(heads, _joined(pairs, links.size).reshape(nodes, ports), node)


def _joined(pairs: Sequence[tuple[Numbers, Numbers]], size: int) -> Numbers:
    one, other = (np.concatenate(each) for each in zip(*pairs, strict=True))
    return connected(one, other, size).astype(np.int64)


def _quotient(heads: Numbers, kind: Numbers, node: Numbers) -> Quotient:
    topology = graph_of(heads)
    orbit = np.unique(kind[heads >= 0], return_inverse=True)[1].astype(np.int64)
    count = np.bincount(orbit).astype(np.int64)
    _, sources, weight = np.unique(node, return_index=True, return_counts=True)
    return Quotient(topology, sources, orbit, count, np.ones(len(count), dtype=bool), weight)


def furthest(whole: Quotient) -> int:
    """The most hops from a source, of any two nodes thus; all can be reached."""
    near, hops = in_neighbours(whole.topology).node, 0
    reached = np.zeros((whole.topology.num_nodes, whole.num_sources), dtype=bool)
    reached[whole.sources, np.arange(whole.num_sources)] = True
    while not reached.all():
        reached, hops = reached | reached[near].any(axis=1), hops + 1
    return hops


def is_lattice(shape: tuple[int, ...], circuits: Numbers) -> bool:
    """Whether all circuits are there, alike at all positions, and lead around alike: commute."""
    dimension = cube_of(shape).dimension
    first = [int(np.flatnonzero(dimension == d)[0]) for d in range(len(shape))]
    steps = circuits[first]
    return bool(
        circuits.min() >= 0
        and (circuits == steps[dimension]).all()
        and all((one[other] == other[one]).all() for one in steps for other in steps)
    )
