"""Slices with the least cost of a collective: all lattices, or lifts that a search finds."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from fractions import Fraction
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.lp import DEFAULT_OPTIONS, Options
from ocs_codesign.core.progress import counted, tell_phase
from ocs_codesign.graphs.families.pods import PodSlice
from ocs_codesign.schedules.paths.certificates import price_bound
from ocs_codesign.schedules.paths.planes import orbit_throughput, soft_routing
from ocs_codesign.search.pods.bound import pod_bound
from ocs_codesign.search.pods.cost import alltoall_cost, pod_cost
from ocs_codesign.search.pods.lattices import lattices
from ocs_codesign.search.pods.lifts import annealed, lift_families
from ocs_codesign.search.pods.orbits import furthest, pod_quotient

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from ocs_codesign.core.compute.symmetry import Quotient
    from ocs_codesign.graphs.families.pods import Pod
    from ocs_codesign.search.pods.cost import PodCost


GAP = 1e-4
DRAWS = 100
_SEARCHED, _SETTLED = 0.6, 0.8
"""Of a time that is limited: draws end, then comparing does; the rest is for solving the best."""
_ROUNDS, _KEPT = 60, 12


class PodDesign(NamedTuple):
    """A slice and what the collective costs on it."""

    slice: Pod
    cost: PodCost


def best_lattices(
    shape: tuple[int, ...],
    cubes: int,
    collective: Collective | str = Collective.ALLTOALL,
    options: Options = DEFAULT_OPTIONS,
) -> list[PodDesign]:
    """The lattices of so many cubes that hops do not rule out, the best first, by t_b and steps.

    All lattices are looked at: none that is left out is better.

    >>> best_lattices((4, 4, 4), 2)[0].slice
    PodLattice((4, 4, 4), ((1, 0, 1), (0, 1, 1), (0, 0, 2)))
    """
    collective = Collective.parse(collective)
    least = pod_bound(shape, cubes).least
    asked: list[tuple[Fraction, int, Pod, Quotient]] = []
    for lattice in counted(lattices(shape, cubes)):
        whole = pod_quotient(shape, lattice.circuits())
        hops, _ = price_bound(whole, np.ones(whole.num_orbits, dtype=np.int64))
        asked.append((hops, len(asked), lattice, whole))
    asked.sort(key=lambda each: each[:2])
    found: list[PodDesign] = []
    for hops, _, slice_, whole in asked:
        if collective == Collective.ALLTOALL:
            if found and hops >= min(design.cost.t_b for design in found):
                break
            cost = alltoall_cost(orbit_throughput(whole, options), least)
        else:
            far = furthest(whole)
            if any(one.cost.is_optimal and one.cost.steps <= far for one in found):
                continue
            cost = pod_cost(shape, slice_.circuits(), collective, options)
        found.append(PodDesign(slice_, cost))
    return _ranked(found)


def _ranked(found: list[PodDesign]) -> list[PodDesign]:
    return sorted(found, key=lambda design: (design.cost.t_b, design.cost.steps))


def known_slices(shape: tuple[int, ...], cubes: int) -> list[PodSlice]:
    """The best lifts that are known of so many cubes, if they are of this shape.

    >>> [len(known_slices((4, 4, 4), cubes)) for cubes in (3, 9)]
    [1, 0]
    """
    return [
        PodSlice(shape, tuple(tuple(map(tuple, face)) for face in design["permutations"]))
        for design in _known()
        if shape == (4, 4, 4) and design["cubes"] == cubes
    ]


def known_costs() -> dict[int, Fraction]:
    """U of the lifts that are known, or what it is at most, by number of cubes.

    >>> known_costs()[3]
    Fraction(1357, 12)
    """
    return {design["cubes"]: Fraction(design["U"]) for design in _known()}


@cache
def _known() -> list[dict[str, Any]]:
    text = files(__package__).joinpath("known.json").read_text(encoding="utf-8")
    found: list[dict[str, Any]] = json.loads(text)["designs"]
    return found


def best_lifts(
    shape: tuple[int, ...],
    cubes: int,
    collective: Collective | str = Collective.ALLTOALL,
    options: Options = DEFAULT_OPTIONS,
    seed: int = 0,
    fresh: bool = False,
    draws: int = DRAWS,
) -> list[PodDesign]:
    """The best lifts of so many cubes among so many draws, the best first.

    Voltages are annealed on hops, and those are routed whose hops do not rule them out. Those that
    are known come first, unless it is ``fresh``. Where the options limit the time it may be over
    before all are drawn, and what is found then depends on the machine.
    """
    collective = Collective.parse(collective)
    rng, families = np.random.default_rng(seed), lift_families(shape, cubes)
    known = [] if fresh else known_slices(shape, cubes)

    def drawn() -> PodSlice:
        family = families[rng.integers(len(families))]
        return family.lift(annealed(family, rng)[1])

    if collective == Collective.ALLTOALL:
        return improved(known, drawn, options, draws=draws)
    return _gathering(known, drawn, collective, options, draws)


def improved(
    known: Sequence[PodSlice],
    drawn: Callable[[], PodSlice],
    options: Options,
    down: Collection[int] = (),
    slack: float = float("inf"),
    draws: int = DRAWS,
) -> list[PodDesign]:
    """The best slices that are known or drawn, then solved.

    With switches ``down`` a slice is the one with all circuits, and the cost is without theirs.
    Those are routed whose hops are at most ``slack`` times the fewest that were drawn.
    """
    began, limit = time.monotonic(), options.time_limit_s or float("inf")
    asked = replace(options, relative_gap=options.relative_gap or GAP)
    found: dict[PodSlice, PodDesign] = {}
    least_time, fewest = float("inf"), float("inf")
    for slice_ in _slices(known, drawn, draws, _SEARCHED * limit):
        whole = _left(slice_, down)
        hops, _ = price_bound(whole, np.ones(whole.num_orbits, dtype=np.int64))
        fewest = min(fewest, float(hops))
        if hops < min(least_time, slack * fewest) and slice_ not in found:
            routed = soft_routing(whole, _ROUNDS, asked)
            least = pod_bound(slice_.cube, slice_.num_cubes, down).least
            found[slice_] = PodDesign(slice_, alltoall_cost(routed, least))
            least_time = min(least_time, float(routed.value))
    settled: list[PodDesign] = []

    def solve(design: PodDesign, gap: float | None, part: float) -> PodDesign:
        """The design, solved in a part of the time that is left."""
        left = asked.after(time.monotonic() - began).time_limit_s
        ends = None if left is None else max(1.0, left * part)
        given = replace(asked, relative_gap=gap, time_limit_s=ends)
        routed = orbit_throughput(_left(design.slice, down), given)
        solved = PodDesign(design.slice, alltoall_cost(routed, design.cost.bound_all))
        return min(solved, design, key=lambda each: (each.cost.value, -each.cost.bound))

    for design in counted(_ranked(list(found.values()))[:_KEPT]):
        is_late = time.monotonic() - began > _SETTLED * limit
        is_worse = any(each.cost.value <= design.cost.bound for each in settled)
        is_left = bool(settled) and (is_late or is_worse)
        settled.append(design if is_left else solve(design, asked.relative_gap, 0.4))
    best, *others = _ranked(settled)
    return _ranked(
        [best if best.cost.is_optimal else solve(best, options.relative_gap, 1), *others]
    )


def _left(slice_: Pod, down: Collection[int]) -> Quotient:
    """A slice without switches, by its symmetries."""
    circuits = slice_.circuits()
    circuits[sorted(down)] = -1
    return pod_quotient(slice_.cube, circuits)


def _slices(
    known: Sequence[PodSlice], drawn: Callable[[], PodSlice], draws: int, limit_s: float
) -> Iterator[PodSlice]:
    """Those that are known, then so many that are drawn, or fewer where the time is over."""
    began = time.monotonic()
    yield from known
    for draw in range(draws):
        if (known or draw) and time.monotonic() - began > limit_s:
            return
        tell_phase(f"Drawing lifts ({draw + 1} of {draws})")
        yield drawn()


def _gathering(
    known: Sequence[PodSlice],
    drawn: Callable[[], PodSlice],
    collective: Collective,
    options: Options,
    draws: int,
) -> list[PodDesign]:
    """The lifts with the least t_b of BFB among those of few hops."""
    found: list[PodDesign] = []
    for slice_ in _slices(known, drawn, draws, options.time_limit_s or float("inf")):
        cost = pod_cost(slice_.cube, slice_.circuits(), collective)
        found = _ranked([*found, PodDesign(slice_, cost)])[:_KEPT]
    return found
