"""Slices of pods: cubes of chips whose inner links are fixed, joined by one permutation a switch.

A cube has chips at integer points, numbered with the first coordinate fastest, and links between
neighbours. Where a row of chips ends there is an optical port on either side: switch (d, q) joins
the + ports of dimension d at position q of the face, over all cubes, to the - ports there. Position
q numbers the other coordinates, again the first fastest. Chip v of cube c is node
``c * chips + v``; its link out in direction + d has the number 2 d among its own, that in - d the
number 2 d + 1.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from ocs_codesign.core.topology import Symmetry, Topology
from ocs_codesign.graphs.recipe import Shape, Undirected, sizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]


MAX_DIMENSIONS = 4
MAX_CHIPS = 2**12
MAX_CUBES = 2**12


class Cube(NamedTuple):
    """The chips of a cube: ``inner`` (chips x 2 dimensions) is the neighbour, -1 across a face.

    Of every switch, in order of dimension and position: its ``dimension`` and ``position``, and the
    chips with the ``plus`` port and the ``minus`` port that it joins.
    """

    shape: tuple[int, ...]
    inner: Numbers
    dimension: Numbers
    position: Numbers
    plus: Numbers
    minus: Numbers

    @property
    def num_chips(self) -> int:
        """Chips of a cube."""
        return len(self.inner)

    @property
    def num_switches(self) -> int:
        """Switches, one a dimension and position of its face."""
        return len(self.plus)

    def switch(self, number: int) -> str:
        """The name of a switch: its dimension and position."""
        return f"{self.dimension[number]}:{self.position[number]}"

    def coordinates(self) -> Numbers:
        """Of all chips, shape (dimensions, chips)."""
        return np.stack(np.unravel_index(np.arange(self.num_chips), self.shape, order="F"))

    def nested(self, values: Sequence[Any]) -> tuple[tuple[Any, ...], ...]:
        """What every switch has, by dimension and position."""
        ends = np.cumsum(np.bincount(self.dimension)).tolist()
        return tuple(tuple(values[i:j]) for i, j in zip([0, *ends], ends, strict=False))


@lru_cache
def cube_of(shape: tuple[int, ...]) -> Cube:
    """The cube of so many chips along every edge, two at least.

    >>> cube = cube_of((4, 4, 4))
    >>> cube.num_chips, cube.num_switches, cube.switch(37), cube.plus[37], cube.minus[37]
    (64, 48, '2:5', np.int64(53), np.int64(5))
    """
    edges = sizes(shape, "the shape of a cube", 2)
    if len(edges) > MAX_DIMENSIONS or prod(edges) > MAX_CHIPS:
        raise ValueError(
            f"a cube of shape {shape}: at most {MAX_DIMENSIONS} dimensions and {MAX_CHIPS} chips"
        )
    chips = np.arange(prod(edges))
    inner = np.full((len(chips), 2 * len(edges)), -1)
    faces = []
    for d, (at, edge) in enumerate(
        zip(np.unravel_index(chips, edges, order="F"), edges, strict=True)
    ):
        step = prod(edges[:d])
        inner[at < edge - 1, 2 * d] = chips[at < edge - 1] + step
        inner[at > 0, 2 * d + 1] = chips[at > 0] - step
        minus = np.flatnonzero(at == 0)
        plus = np.flatnonzero(at == edge - 1)
        faces.append((np.full(len(minus), d), np.arange(len(minus)), plus, minus))
    return Cube(edges, inner, *(np.concatenate(column) for column in zip(*faces, strict=True)))


def neighbours(cube: Cube, circuits: Numbers) -> Numbers:
    """The neighbour of every chip in every direction, -1 where its port has no circuit.

    ``circuits[s, c]`` is the cube to whose - port switch s joins the + port of cube c, or -1.
    """
    cubes, chips = circuits.shape[1], cube.num_chips
    first = np.arange(cubes)[:, None, None] * chips
    heads = np.where(cube.inner >= 0, first + cube.inner, -1).reshape(cubes * chips, -1)
    switch, source = np.nonzero(circuits >= 0)
    up = source * chips + cube.plus[switch]
    down = circuits[switch, source] * chips + cube.minus[switch]
    heads[up, 2 * cube.dimension[switch]] = down
    heads[down, 2 * cube.dimension[switch] + 1] = up
    return heads


def graph_of(heads: Numbers, symmetry: Symmetry | None = None) -> Topology:
    """The topology of such neighbours, links in the order of chips and directions."""
    tail, direction = np.nonzero(heads >= 0)
    return Topology(len(heads), tail, heads[tail, direction], symmetry=symmetry)


def joined_cubes(circuits: Numbers) -> list[list[int]]:
    """The cubes that circuits lead between, a list for every part that is by itself.

    >>> joined_cubes(np.array([[1, 0, 2]]))
    [[0, 1], [2]]
    """
    from ocs_codesign.core.compute.components import connected

    switch, source = np.nonzero(circuits >= 0)
    part = connected(source, circuits[switch, source], circuits.shape[1])
    return [np.flatnonzero(part == each).tolist() for each in np.unique(part)]


def check_circuits(cube: Cube, circuits: Numbers) -> None:
    """ValueError unless no port is used twice, by switch and port, and all cubes are joined."""
    cubes = circuits.shape[1]
    for switch in range(cube.num_switches):
        used = circuits[switch][circuits[switch] >= 0]
        count = np.bincount(used, minlength=cubes)
        if len(used) and not (0 <= used.min() <= used.max() < cubes):
            raise ValueError(
                f"switch {cube.switch(switch)} joins to cube {used.max()}: cubes are 0 to "
                f"{cubes - 1}"
            )
        if (count > 1).any():
            twice, never = np.flatnonzero(count > 1)[0], np.flatnonzero(count == 0)
            raise ValueError(
                f"switch {cube.switch(switch)}, dimension {cube.dimension[switch]}, position "
                f"{cube.position[switch]}: the - port of cube {twice} twice, of cube "
                f"{', '.join(map(str, never))} never"
            )
    parts = joined_cubes(circuits)
    if len(parts) > 1:
        names = [f"{{{', '.join(map(str, part))}}}" for part in parts]
        raise ValueError(f"not connected: cubes {', '.join(names[:-1])} and {names[-1]}")


class Pod(Undirected):
    """A slice of a pod; ``cube`` is the shape of its cubes."""

    __slots__ = ()

    cube: tuple[int, ...]

    @abstractmethod
    def circuits(self) -> Numbers:
        """The cube that the + port of every cube (column) is joined to by every switch (row)."""

    @property
    @abstractmethod
    def num_cubes(self) -> int:
        """Cubes of the slice."""

    @property
    def shape(self) -> Shape:
        """Chips of all cubes, with two ports a dimension."""
        if self.num_cubes > MAX_CUBES:
            raise ValueError(f"a slice of {self.num_cubes} cubes: at most {MAX_CUBES}")
        return Shape(self.num_cubes * cube_of(self.cube).num_chips, 2 * len(self.cube))

    def build(self) -> Topology:
        return graph_of(neighbours(cube_of(self.cube), self.circuits()), self.symmetry())

    def marks(self) -> dict[str, list[Any]]:
        """The cube of every chip, and the switch that every link is led by, "" for a fixed one.

        >>> row = PodLattice((2, 2), ((2, 0), (0, 1))).marks()
        >>> row["cubes"], row["switches"][:6]
        ([0, 0, 0, 0, 1, 1, 1, 1], ['', '0:0', '', '1:0', '0:0', ''])
        """
        cube = cube_of(self.cube)
        led_by = np.full(cube.inner.shape, "", dtype=object)
        names = [cube.switch(number) for number in range(cube.num_switches)]
        led_by[cube.plus, 2 * cube.dimension] = names
        led_by[cube.minus, 2 * cube.dimension + 1] = names
        return {
            "cubes": np.repeat(np.arange(self.num_cubes), cube.num_chips).tolist(),
            "switches": np.tile(led_by.ravel(), self.num_cubes).tolist(),
        }

    def symmetry(self) -> Symmetry | None:
        """The moves of cubes onto cubes that keep all circuits, None if there are none."""
        return cube_symmetry(cube_of(self.cube), self.circuits())

    def label(self) -> str:
        digits = blake2b(repr(self).encode(), digest_size=2).hexdigest()
        return f"Pod({self.num_cubes}×{'×'.join(map(str, self.cube))},{digits})"


def moves(circuits: Numbers, images: Numbers | None = None) -> Numbers:
    """All relabellings of joined cubes under which switch s becomes ``images[s]``, a row each.

    A number n of ``images`` stands for the circuits of switch n, ~n for them reversed; by default
    all switches stay. A relabelling is known by where cube 0 goes, since circuits lead to all.
    """
    switches, cubes = circuits.shape
    images = np.arange(switches) if images is None else images
    both = np.concatenate([circuits, inverted(circuits)[::-1]])  # both[~s] is s reversed
    found = np.full((cubes, cubes + 1), -1)  # a last column for what -1, no circuit, becomes
    found[:, 0] = np.arange(cubes)
    seen, order = {0}, [0]
    for cube in order:
        for way in (*range(switches), *(~s for s in range(switches))):
            there = int(both[way, cube])
            if there >= 0 and there not in seen:
                seen.add(there)
                order.append(there)
                image = images[way] if way >= 0 else ~images[~way]
                found[:, there] = np.append(both[image], -1)[found[:, cube]]
    kept = (np.sort(found[:, :-1], axis=1) == np.arange(cubes)).all(axis=1)
    for switch in range(switches):
        image = np.append(both[images[switch]], -1)
        kept &= (found[:, circuits[switch]] == image[found[:, :-1]]).all(axis=1)
    return found[kept, :-1]


def inverted(circuits: Numbers) -> Numbers:
    """The cube whose + port every - port is joined to, -1 where there is none."""
    back = np.full_like(circuits, -1)
    switch, source = np.nonzero(circuits >= 0)
    back[switch, circuits[switch, source]] = source
    return back


def cube_symmetry(cube: Cube, circuits: Numbers) -> Symmetry | None:
    """The moves of cubes onto cubes that keep all circuits, as orbits; None if there are none.

    All directions of a chip need a link.
    """
    orbit = moves(circuits).min(axis=0)  # the least cube that a cube is moved to
    if len(orbit) == len(np.unique(orbit)) or circuits.min() < 0:
        return None
    ports = cube.inner.shape[1]
    node = (orbit[:, None] * cube.num_chips + np.arange(cube.num_chips)).ravel()
    node = np.unique(node, return_inverse=True)[1].astype(np.int32)
    link = (node[:, None] * ports + np.arange(ports)).ravel()
    return Symmetry(node, link.astype(np.int32))


@final
@dataclass(frozen=True, slots=True, repr=False)
class PodSlice(Pod):
    """A slice by its permutations: the + port of cube c goes to cube ``permutations[d][q][c]``.

    >>> ring = (tuple([(1, 0)] * 2), tuple([(0, 1)] * 2))
    >>> PodSlice((2, 2), ring).topology().diameter()
    3
    """

    cube: tuple[int, ...]
    permutations: tuple[tuple[tuple[int, ...], ...], ...]

    samples = (
        "(2, 2), (((1, 0), (1, 0)), ((0, 1), (1, 0)))",
        "(2, 3), (((1, 2, 0), (0, 1, 2), (1, 0, 2)), ((0, 1, 2), (2, 0, 1)))",
    )

    def __post_init__(self) -> None:
        cube = cube_of(self.cube)
        given = self.permutations
        faces = np.bincount(cube.dimension).tolist()
        rows = [row for each in given for row in each] if _is_nested(given) else []
        if not rows or [len(each) for each in given] != faces or not _are_cubes(rows):
            raise ValueError(
                f"permutations of cubes {self.cube} are {len(faces)} lists, of {faces} lists of "
                "cubes that are all as long"
            )
        _ = self.shape
        check_circuits(cube, self.circuits())

    @property
    def num_cubes(self) -> int:
        return len(self.permutations[0][0])

    def circuits(self) -> Numbers:
        return np.array([row for each in self.permutations for row in each], dtype=np.int64)


def _is_nested(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(each, tuple) for each in value)


def _are_cubes(rows: list[Any]) -> bool:
    """Whether the rows are tuples of natural numbers, all of one length."""
    return (
        _is_nested(tuple(rows))
        and len({len(row) for row in rows}) == 1
        and 0 < len(rows[0]) <= MAX_CUBES
        and all(type(cube) is int and 0 <= cube < 2**31 for row in rows for cube in row)
    )


@final
@dataclass(frozen=True, slots=True, repr=False)
class PodLattice(Pod):
    """Cubes at the points of a lattice that repeats by ``rows``, kept in Hermite form.

    All positions of a face have the same permutation, and + d leads to the next point along d, so
    that all chips are alike. Diagonal rows are a torus. Twisted tori are lattices: in chips,
    k x k x 2k repeats by (k, 0, k), (0, k, k), (0, 0, 2k), face-centred cubic, and k x 2k x 2k by
    (k, k, k), (0, 2k, 0), (0, 0, 2k), body-centred cubic. Source: Camarero et al., arXiv:1311.2019.

    >>> PodLattice((4, 4, 4), ((1, 0, 1), (0, 1, 1), (0, 0, 2))).topology().diameter()
    6
    """

    cube: tuple[int, ...]
    rows: tuple[tuple[int, ...], ...]

    samples = (
        "(2, 2), ((1, 1), (0, 3))",
        "(2, 2, 2), ((1, 0, 1), (0, 1, 1), (0, 0, 2))",
        "(3, 2), ((2, 0), (0, 1))",
    )

    def __post_init__(self) -> None:
        edges = cube_of(self.cube).shape
        object.__setattr__(self, "rows", hermite(self.rows, len(edges)))
        _ = self.shape

    @property
    def num_cubes(self) -> int:
        return prod(row[i] for i, row in enumerate(self.rows))

    def circuits(self) -> Numbers:
        counts = [row[i] for i, row in enumerate(self.rows)]
        at = np.stack(np.unravel_index(np.arange(self.num_cubes), counts))
        cube, found = cube_of(self.cube), []
        for d in range(len(counts)):
            ahead = at.copy()
            ahead[d] += 1
            for i, row in enumerate(self.rows):
                ahead -= np.outer(row, ahead[i] // row[i])
            found.append(np.ravel_multi_index(tuple(ahead), counts))
        return np.stack(found)[cube.dimension]

    def symmetry(self) -> Symmetry:
        nodes, ports = self.shape.num_nodes, 2 * len(self.cube)
        link = np.tile(np.arange(ports, dtype=np.int32), nodes)
        return Symmetry(np.zeros(nodes, dtype=np.int32), link)

    def label(self) -> str:
        text = "/".join(",".join(map(str, row)) for row in self.rows)
        return f"Pod({'×'.join(map(str, self.cube))};{text})"


def hermite(rows: Any, size: int) -> tuple[tuple[int, ...], ...]:
    """The Hermite form of a basis: upper triangular, above a pivot less than it and none negative.

    >>> hermite(((2, 0, 0), (1, 1, 0), (1, 0, 1)), 3)
    ((1, 0, 1), (0, 1, 1), (0, 0, 2))
    """
    is_square = _is_nested(rows) and [len(row) for row in rows] == [size] * size
    if not is_square or not all(type(x) is int and abs(x) < 2**20 for row in rows for x in row):
        rule = f"they must be {size} of {size} integers each, of less than {2**20}"
        raise ValueError(f"rows are {rows!r}: {rule}")
    basis = [list(row) for row in rows]
    for column in range(size):
        below = [i for i in range(column, size) if basis[i][column]]
        while len(below) > 1:
            least = min(below, key=lambda i: abs(basis[i][column]))
            for i in below:
                if i != least:
                    _subtract(basis, i, least, basis[i][column] // basis[least][column])
            below = [i for i in below if basis[i][column]]
        if not below:
            raise ValueError(f"rows {rows!r} do not repeat in {size} dimensions")
        basis[column], basis[below[0]] = basis[below[0]], basis[column]
        if basis[column][column] < 0:
            basis[column] = [-x for x in basis[column]]
        for i in range(column):
            _subtract(basis, i, column, basis[i][column] // basis[column][column])
    return tuple(map(tuple, basis))


def _subtract(basis: list[list[int]], row: int, other: int, times: int) -> None:
    basis[row] = [x - times * y for x, y in zip(basis[row], basis[other], strict=True)]
