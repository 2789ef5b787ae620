"""What a slice costs when a switch, a port or a cube is down: circuits kept, or chosen anew."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ocs_codesign.core.lp import DEFAULT_OPTIONS
from ocs_codesign.fabric.pods.description import PodDescription
from ocs_codesign.fabric.pods.placing import circuits_configuration, pod_cabling, pod_fabric
from ocs_codesign.fabric.rewiring.configurations import configuration_change
from ocs_codesign.graphs.families.pods import cube_of, cube_symmetry, graph_of, moves, neighbours
from ocs_codesign.schedules.paths.channels import with_channels
from ocs_codesign.schedules.paths.ordered import dimension_ordered
from ocs_codesign.schedules.paths.tables import path_table
from ocs_codesign.search.pods.cost import pod_cost
from ocs_codesign.search.pods.design import improved
from ocs_codesign.search.pods.lifts import annealed, lift_family

if TYPE_CHECKING:
    from ocs_codesign.core.lp import Options
    from ocs_codesign.graphs.families.pods import Numbers, Pod, PodSlice
    from ocs_codesign.search.pods.cost import PodCost
    from ocs_codesign.search.pods.lifts import LiftFamily


_HOT, _MOVES, _SLACK, _DRAWS = 12.0, 15_000, 1.0005, 300
_LOST = re.compile(r"(switch|port|cube):([0-9]{1,6})(?::([0-9]{1,6})(?::([+-])([0-9]{1,6}))?)?")


class ChangedCircuit(NamedTuple):
    """A + port of a switch that is joined to the - port of another cube than before; -1: none."""

    switch: str
    plus: int
    before: int
    after: int


class PodStage(NamedTuple):
    """Switches that change together, how many circuits go and come, and whether all stay joined."""

    switches: tuple[str, ...]
    deleted: int
    created: int
    stays_joined: bool


class PodPaths(NamedTuple):
    """Paths of an all-to-all that are free of deadlock, on so many virtual channels.

    ``t_b`` is what they take, ``over`` the part by which that is more than any routing's.
    """

    t_b: Fraction
    over: float
    channels: int
    least_channels: int


class PodSurvival(NamedTuple):
    """The cost of an all-to-all before a loss, with the circuits that are left, and chosen anew."""

    before: PodCost
    kept: PodCost
    anew: PodCost | None
    slice: Pod
    changed: tuple[ChangedCircuit, ...]
    replaced: int
    """Circuits that move to another cube in place of one that is lost."""
    stages: tuple[PodStage, ...] = ()
    """How the circuits change one after the other, while the others stay."""
    paths: tuple[PodPaths, ...] = ()
    """Before, and after with the circuits that are left or chosen anew, if they were asked for."""


def survived(
    slice_: Pod,
    lost: str,
    anew: bool = False,
    options: Options = DEFAULT_OPTIONS,
    seed: int = 0,
    draws: int = _DRAWS,
) -> PodSurvival:
    """What a loss costs: ``switch:d:q``, ``port:d:q:+c`` (or -c), or ``cube:c``.

    Any working cube takes the place of one that is lost. Circuits are chosen anew only for a
    switch, and of slices whose cubes are all alike: the best of so many draws near the circuits
    that are given.
    """
    circuits = slice_.circuits()
    left, replaced = without(slice_, lost)
    before = pod_cost(slice_.cube, circuits, options=options)
    if replaced:
        return PodSurvival(before, before, None, slice_, (), replaced)
    kept = pod_cost(slice_.cube, left, options=options)
    if not anew:
        return PodSurvival(before, kept, None, slice_, (), 0)
    down = np.flatnonzero((left < 0).all(axis=1)).tolist()
    if not down:
        raise ValueError(f"{lost}: circuits are chosen anew where a switch is lost")
    family, given = family_of(slice_, down)
    rng = np.random.default_rng(seed)

    def drawn() -> PodSlice:
        return family.lift(annealed(family, rng, given, _HOT, _MOVES, down)[1])

    best = improved([], drawn, options, down, _SLACK, draws)[0]
    if best.cost.value >= kept.value:
        return PodSurvival(before, kept, kept, slice_, (), 0)
    after = best.slice.circuits()
    after[down] = -1
    cube = cube_of(slice_.cube)
    changed = tuple(
        ChangedCircuit(cube.switch(switch), plus, int(left[switch, plus]), int(after[switch, plus]))
        for switch, plus in np.argwhere(left != after).tolist()
    )
    stages = stages_of_change(slice_.cube, left, after)
    return PodSurvival(before, kept, best.cost, best.slice, changed, 0, stages)


def stages_of_change(
    shape: tuple[int, ...], before: Numbers, after: Numbers
) -> tuple[PodStage, ...]:
    """The order in which switches change such that the others join all cubes, where there is one.

    >>> ring = np.array([[1, 2, 0], [1, 2, 0], [0, 1, 2], [0, 1, 2]])
    >>> for stage in stages_of_change((2, 2), ring, ring[[2, 3, 0, 1]]):
    ...     print(stage.switches, stage.deleted, stage.created, stage.stays_joined)
    ('0:0',) 3 3 True
    ('1:0',) 3 3 True
    ('0:1',) 3 3 True
    ('1:1',) 3 3 True
    """
    cubes, cube = before.shape[1], cube_of(shape)
    cabling = pod_cabling(pod_fabric(PodDescription(shape, cubes, 1, name="slice")))
    old, new = (
        circuits_configuration(cabling, range(cubes), circuits, name)
        for circuits, name in ((before, "before"), (after, "after"))
    )
    return tuple(
        PodStage(
            tuple(map(cube.switch, stage.planes)),
            len(stage.delete),
            len(stage.create),
            stage.connectivity is not None,
        )
        for stage in configuration_change(old, new).stages
    )


def channelled_paths(
    shape: tuple[int, ...], circuits: Numbers, cost: PodCost, options: Options = DEFAULT_OPTIONS
) -> PodPaths:
    """Paths of the all-to-all that ``cost`` is of, with a virtual channel for every hop."""
    cube = cube_of(shape)
    topology = graph_of(neighbours(cube, circuits), cube_symmetry(cube, circuits))
    best = cost.bound * Fraction(cost.num_ports, cost.num_nodes)
    table = dimension_ordered(topology, best)
    if table is None or table.time > best:
        table = path_table(topology, options=options)
    found = with_channels(table, options)
    over = float(found.table.time / best) - 1
    return PodPaths(found.table.time, max(0.0, over), found.num_channels, found.least)


def with_paths(
    slice_: Pod, lost: str, found: PodSurvival, options: Options = DEFAULT_OPTIONS
) -> PodSurvival:
    """The same with paths before and after."""
    left, after = without(slice_, lost)[0], found.slice.circuits()
    after[np.flatnonzero((left < 0).all(axis=1))] = -1
    after = after if found.changed else left
    costs = ((slice_.circuits(), found.before), (after, found.anew or found.kept))
    paths = tuple(channelled_paths(slice_.cube, *each, options) for each in costs)
    return found._replace(paths=paths)


def without(slice_: Pod, lost: str) -> tuple[Numbers, int]:
    """The circuits that are left, and how many move with a lost cube; ValueError for no such."""
    found, cube, circuits = _LOST.fullmatch(lost), cube_of(slice_.cube), slice_.circuits()
    if (
        found is None
        or (found[1] == "cube") != (found[3] is None)
        or (found[1] == "port") != bool(found[4])
    ):
        raise ValueError(f"{lost!r} is no loss: switch:d:q, port:d:q:+c, port:d:q:-c or cube:c")
    at = int(found[5] or found[2] if found[1] != "switch" else 0)
    if found[1] != "switch" and at >= slice_.num_cubes:
        raise ValueError(f"{lost}: cubes of the slice are 0 to {slice_.num_cubes - 1}")
    if found[1] == "cube":
        own = np.arange(slice_.num_cubes)[None, :] == at
        return circuits, int((own | (circuits == at)).sum())
    names = [cube.switch(number) for number in range(cube.num_switches)]
    name = f"{int(found[2])}:{int(found[3])}"
    if name not in names:
        raise ValueError(
            f"{lost}: switches are {names[0]} to {names[-1]}, a dimension and position"
        )
    switch = names.index(name)
    if found[1] == "switch":
        circuits[switch] = -1
    elif found[4] == "+":
        circuits[switch, at] = -1
    else:
        circuits[switch][circuits[switch] == at] = -1
    return circuits, 0


def family_of(slice_: Pod, down: list[int]) -> tuple[LiftFamily, Numbers]:
    """All lifts over what moves the cubes of a slice, but for switches down, and its voltages.

    Raises ValueError if the cubes are not all alike.
    """
    circuits = slice_.circuits()
    table = moves(circuits)
    if len(table) < slice_.num_cubes:
        raise ValueError("circuits are chosen anew for slices whose cubes are all alike")
    table = table[np.argsort(table[:, 0])]
    return lift_family(slice_.cube, table, [], down), circuits[:, 0]
