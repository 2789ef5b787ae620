"""Jobs onto the cubes that work: any cubes, as optical switches allow, or boxes of neighbours."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations, product
from math import comb, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ocs_codesign.core.files.archives import read_limited
from ocs_codesign.core.files.records import RecordLayout, count_to, parse_records
from ocs_codesign.core.lp import LinearProgram, Options, Status, solve
from ocs_codesign.core.topology import starts_of
from ocs_codesign.fabric.pods.description import MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ocs_codesign.fabric.pods.description import PodDescription


class PodJob(NamedTuple):
    """Up to ``most`` slices of a job, boxes of a shape in cubes."""

    name: str
    shape: tuple[int, ...]
    most: int

    @property
    def cubes(self) -> int:
        """Cubes of a slice."""
        return prod(self.shape)


class PlacedSlice(NamedTuple):
    """A slice of a job and the numbers of its cubes."""

    job: str
    cubes: tuple[int, ...]


class Packing(NamedTuple):
    """The slices that are placed, on so many cubes that work: the most that can be in use.

    Where any cubes make a slice, one that dies is replaced by one to ``spare``: no other moves.
    """

    placed: tuple[PlacedSlice, ...]
    healthy: int
    proof: str
    spare: tuple[int, ...] = ()

    @property
    def used(self) -> int:
        """Cubes in use."""
        return sum(len(each.cubes) for each in self.placed)


def _shape(value: Any, name: str) -> tuple[int, ...]:
    return tuple(count_to(2**20)(edge, name) for edge in str(value).split("x"))


_LAYOUT: RecordLayout[PodJob] = RecordLayout(
    whole="list of jobs",
    record="job",
    fields={
        "shape": ("shape", _shape),
        "most": ("most", count_to(2**20, least=0)),
        "job": ("name", lambda value, _: str(value)),
    },
    required=("shape", "most"),
    make=lambda shape, most, name="": PodJob(name, shape, most),
    most=2**16,
    other="about",
)


def read_jobs(path: str) -> list[PodJob]:
    """Jobs of a CSV file with the columns shape, such as 1x2x2 cubes, most, and perhaps job."""
    data = read_limited(Path(path), MAX_BYTES)
    found, _ = parse_records(data, path, _LAYOUT, is_json=path.lower().endswith(".json"))
    return [job if job.name else job._replace(name=place) for place, job in found]


def pack_anywhere(jobs: Sequence[PodJob], pod: PodDescription, failed: Collection[int]) -> Packing:
    """The most cubes in use where a slice takes any cubes that work: a bounded knapsack.

    >>> from ocs_codesign.fabric.pods.description import load_pod
    >>> pack_anywhere([PodJob("a", (1, 3, 7), 4)], load_pod("tpu-v4"), [0]).used
    63
    """
    free = working_cubes(pod, failed)
    reached, stages = 1, []  # bit n: n cubes can be in use
    for job in jobs:
        stages.append(reached)
        for _ in range(min(job.most, len(free) // job.cubes)):
            reached |= reached << job.cubes
        reached &= (1 << (len(free) + 1)) - 1
    left = reached.bit_length() - 1
    taken = []
    for job, before in zip(reversed(jobs), reversed(stages), strict=True):
        times = 0
        while not before >> left & 1:
            left, times = left - job.cubes, times + 1
        taken += [job] * times
    placed, first = [], 0
    for job in reversed(taken):
        placed.append(PlacedSlice(job.name, tuple(free[first : first + job.cubes])))
        first += job.cubes
    return Packing(tuple(placed), len(free), "bounded knapsack", tuple(free[first:]))


def pack_boxes(
    jobs: Sequence[PodJob], pod: PodDescription, failed: Collection[int], wrap: bool = False
) -> Packing:
    """The most cubes in use where a slice is a box of neighbours, in any rotation.

    With ``wrap`` a box may run round the end. An integer program: a column a placement, a row a
    cube.
    """
    free = set(working_cubes(pod, failed))
    columns = [
        (number, box)
        for number, job in enumerate(jobs)
        for box in _boxes(job.shape, pod, wrap)
        if free.issuperset(box)
    ]
    if not columns:
        return Packing((), len(free), "no box is free")
    inside = np.zeros((pod.cubes + len(jobs), len(columns)))  # a row a cube, then one a job
    for column, (number, box) in enumerate(columns):
        inside[[*box, pod.cubes + number], column] = 1.0
    row, index = np.nonzero(inside)
    program = LinearProgram(
        -inside[: pod.cubes].sum(axis=0),
        starts_of(np.bincount(row, minlength=len(inside))),
        index,
        np.ones(len(index)),
        np.full(len(inside), -np.inf),
        np.append(np.ones(pod.cubes), [float(job.most) for job in jobs]),
        np.zeros(len(columns)),
        np.ones(len(columns)),
        np.ones(len(columns), dtype=bool),
    )
    solution = solve(program, options=Options(relative_gap=0.0)).taken()
    if solution.status is not Status.OPTIMAL or solution.values is None:
        raise ValueError(f"the packing is not solved: {solution.message}")
    kept = [columns[i] for i in np.flatnonzero(solution.values > 0.5)]
    placed = tuple(PlacedSlice(jobs[job].name, box) for job, box in kept)
    return Packing(placed, len(free), "integer program")


def working_cubes(pod: PodDescription, failed: Collection[int]) -> list[int]:
    """The cubes that have not failed; ValueError for a number that no cube has."""
    wrong = [cube for cube in failed if not 0 <= cube < pod.cubes]
    if wrong:
        raise ValueError(
            f"cube {wrong[0]} has failed: cubes of {pod.name} are 0 to {pod.cubes - 1}"
        )
    return sorted(set(range(pod.cubes)) - set(failed))


def _boxes(shape: tuple[int, ...], pod: PodDescription, wrap: bool) -> list[tuple[int, ...]]:
    """All boxes of a shape in the arrangement, each once, as the numbers of their cubes."""
    sides = pod.arrangement
    if sides is None:
        raise ValueError(f"{pod.name} has no arrangement of cubes, which boxes need")
    if len(shape) != len(sides):
        raise ValueError(f"a box of shape {'x'.join(map(str, shape))}: it has {len(sides)} sides")
    found = set()
    for turned in set(permutations(shape)):
        room = [side - edge for edge, side in zip(turned, sides, strict=True)]
        if min(room) < 0:
            continue
        steps = np.indices(turned).reshape(len(sides), -1)
        for corner in product(*map(range, sides if wrap else [each + 1 for each in room])):
            at = tuple(steps + np.array(corner)[:, None])
            cubes = np.ravel_multi_index(at, sides, mode="wrap", order="F")
            found.add(tuple(sorted(cubes.tolist())))
    return sorted(found)


def goodput(pod: PodDescription, cubes: int, availability: Fraction) -> Fraction:
    """The share of all cubes that work in slices of so many, where hosts work independently.

    Any cubes that work make a slice. Exact: a sum over the numbers of cubes that work.

    >>> from ocs_codesign.fabric.pods.description import load_pod
    >>> round(float(goodput(load_pod("tpu-v4"), 8, Fraction(99, 100))), 9)
    0.795664506
    """
    if not 1 <= cubes <= pod.cubes or not 0 <= availability <= 1:
        raise ValueError(
            f"a slice of {cubes} cubes of {pod.cubes}, available {float(availability):g} of the "
            "time: cubes are 1 to all, the availability is from 0 to 1"
        )
    works, total = availability**pod.hosts_of_a_cube, pod.cubes
    parts = (
        comb(total, up) * works**up * (1 - works) ** (total - up) * (up // cubes * cubes)
        for up in range(total + 1)
    )
    return sum(parts, Fraction(0)) / total
