"""Jobs onto the cubes that work: any cubes, as optical switches allow, or boxes of neighbours."""

from __future__ import annotations

import csv
from fractions import Fraction
from itertools import permutations, product
from math import comb, prod
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ocs_codesign.core.files.archives import read_limited
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
    """The slices that are placed, on so many cubes that work: the most that can be in use."""

    placed: tuple[PlacedSlice, ...]
    healthy: int
    proof: str

    @property
    def used(self) -> int:
        """Cubes in use."""
        return sum(len(each.cubes) for each in self.placed)


def read_jobs(path: str) -> list[PodJob]:
    """Jobs of a CSV file with the columns shape, such as 1x2x2 cubes, most, and perhaps job."""
    text = read_limited(Path(path), MAX_BYTES).decode("utf-8", "replace")
    rows = list(csv.reader(text.splitlines()))
    names = [name.strip().lower() for name in rows[0]] if rows else []
    if not {"shape", "most"} <= set(names) <= {"shape", "most", "job"}:
        raise ValueError(f"{path}: the first line names the columns shape, most and perhaps job")
    found = []
    for number, row in enumerate(rows[1:], 2):
        if not row:
            continue
        told = dict(zip(names, map(str.strip, row), strict=False))
        sides = told.get("shape", "").split("x")
        most = told.get("most", "")
        numbers = [*sides, most]
        if len(row) != len(names) or not all(
            each.isascii() and each.isdigit() and len(each) < 7 for each in numbers
        ):
            raise ValueError(f"{path}, line {number}: a row is a shape such as 1x2x2 and a number")
        shape = tuple(map(int, sides))
        if 0 in shape:
            raise ValueError(f"{path}, line {number}: a shape has no cubes")
        found.append(PodJob(told.get("job") or f"line {number}", shape, int(most)))
    return found


def pack_anywhere(jobs: Sequence[PodJob], pod: PodDescription, failed: Collection[int]) -> Packing:
    """The most cubes in use where a slice takes any cubes that work: a bounded knapsack.

    >>> from ocs_codesign.fabric.pods.description import load_pod
    >>> pack_anywhere([PodJob("a", (1, 3, 7), 4)], load_pod("tpu-v4"), [0]).used
    63
    """
    free = _working(pod, failed)
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
    return Packing(tuple(placed), len(free), "bounded knapsack")


def pack_boxes(
    jobs: Sequence[PodJob], pod: PodDescription, failed: Collection[int], wrap: bool = False
) -> Packing:
    """The most cubes in use where a slice is a box of neighbours, in any rotation.

    With ``wrap`` a box may run round the end. An integer program: a column a placement, a row a
    cube.
    """
    free = set(_working(pod, failed))
    columns = [
        (number, box)
        for number, job in enumerate(jobs)
        for box in _boxes(job.shape, _arrangement(pod), wrap)
        if free.issuperset(box)
    ]
    if not columns:
        return Packing((), len(free), "no box is free")
    cubes = sorted(free)
    rows = [[i for i, (_, box) in enumerate(columns) if cube in box] for cube in cubes]
    rows += [
        [i for i, (job, _) in enumerate(columns) if job == number] for number in range(len(jobs))
    ]
    ends = [1.0] * len(cubes) + [float(job.most) for job in jobs]
    program = LinearProgram(
        np.array([-float(len(box)) for _, box in columns]),
        starts_of(np.array([len(row) for row in rows])),
        np.array([i for row in rows for i in row], dtype=np.int64),
        np.ones(sum(map(len, rows))),
        np.full(len(rows), -np.inf),
        np.array(ends),
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


def _working(pod: PodDescription, failed: Collection[int]) -> list[int]:
    """The cubes that have not failed; ValueError for a number that no cube has."""
    wrong = [cube for cube in failed if not 0 <= cube < pod.cubes]
    if wrong:
        raise ValueError(
            f"cube {wrong[0]} has failed: cubes of {pod.name} are 0 to {pod.cubes - 1}"
        )
    return sorted(set(range(pod.cubes)) - set(failed))


def _arrangement(pod: PodDescription) -> tuple[int, ...]:
    if pod.arrangement is None:
        raise ValueError(f"{pod.name} has no arrangement of cubes, which boxes need")
    return pod.arrangement


def _boxes(shape: tuple[int, ...], sides: tuple[int, ...], wrap: bool) -> list[tuple[int, ...]]:
    """All boxes of a shape in an arrangement, each once, as the numbers of their cubes."""
    if len(shape) != len(sides):
        raise ValueError(f"a box of shape {'x'.join(map(str, shape))}: it has {len(sides)} sides")
    found = set()
    for turned in set(permutations(shape)):
        if any(edge > side for edge, side in zip(turned, sides, strict=True)):
            continue
        for corner in product(*map(range, sides)):
            if not wrap and any(
                at + edge > side for at, edge, side in zip(corner, turned, sides, strict=True)
            ):
                continue
            inside = product(*map(range, turned))
            cubes = [
                sum(
                    (at + step) % side * prod(sides[:i])
                    for i, (at, step, side) in enumerate(zip(corner, steps, sides, strict=True))
                )
                for steps in inside
            ]
            found.add(tuple(sorted(cubes)))
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
    return (
        sum(
            (
                comb(total, up) * works**up * (1 - works) ** (total - up) * (up // cubes * cubes)
                for up in range(total + 1)
            ),
            Fraction(0),
        )
        / total
    )
