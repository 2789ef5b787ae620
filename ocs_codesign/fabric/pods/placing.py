"""Slices on the cubes of a pod: its fabric, whose hosts are cubes, and the circuits of slices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ocs_codesign.core.cost import CostModel
from ocs_codesign.core.topology import Topology
from ocs_codesign.fabric.description import Fabric, Switch
from ocs_codesign.fabric.pods.packing import working_cubes
from ocs_codesign.fabric.profiles import profile_named
from ocs_codesign.fabric.wiring import Cabling, Configuration
from ocs_codesign.graphs.families.pods import cube_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ocs_codesign.fabric.pods.description import PodDescription
    from ocs_codesign.graphs.families.pods import Numbers, Pod


_LINK_BPS, _BUDGET_DB, _CONNECTOR_DB, _CIRCULATOR_DB = 50 * 10**9, 6.0, 0.25, 0.6
"""Assumed of all pods, since a fabric says them: nothing of a slice depends on them."""
_MAKE = "palomar-136"


class PlacedPod(NamedTuple):
    """A slice by its name, on the cubes of a pod that are its cubes 0, 1 and so on."""

    name: str
    slice: Pod
    cubes: tuple[int, ...]


def place_slices(
    pod: PodDescription,
    wanted: Sequence[tuple[str, Pod, Sequence[int] | None]],
    failed: Collection[int] = (),
) -> tuple[PlacedPod, ...]:
    """Slices by name on the cubes that are given, or on the first that work and are free.

    Raises ValueError for cubes that are of two slices, have failed, are too few or are not there.

    >>> from ocs_codesign.fabric.pods.description import load_pod, slice_of
    >>> pod = load_pod("tpu-v4")
    >>> small = slice_of("4x4x8", pod)
    >>> [one.cubes for one in place_slices(pod, [("a", small, None), ("b", small, [9, 0])], [1])]
    [(2, 3), (9, 0)]
    """
    owner = dict.fromkeys(set(range(pod.cubes)) - set(working_cubes(pod, failed)), "no slice")
    for name, slice_, cubes in wanted:
        if cubes is None:
            continue
        if len(cubes) != slice_.num_cubes:
            raise ValueError(f"{name} is put on {len(cubes)} cubes: it has {slice_.num_cubes}")
        working_cubes(pod, cubes)
        for cube in cubes:
            if cube in owner:
                why = "has failed" if owner[cube] == "no slice" else f"is one of {owner[cube]}"
                raise ValueError(f"cube {cube} of {name} {why}")
            owner[cube] = name
    free = [cube for cube in range(pod.cubes) if cube not in owner]
    placed = []
    for name, slice_, cubes in wanted:
        if cubes is None:
            cubes, free = free[: slice_.num_cubes], free[slice_.num_cubes :]
        if len(cubes) < slice_.num_cubes:
            raise ValueError(f"{name} has {slice_.num_cubes} cubes: {len(cubes)} are free")
        placed.append(PlacedPod(name, pod.checked(slice_), tuple(cubes)))
    return tuple(placed)


def pod_fabric(pod: PodDescription) -> Fabric:
    """The pod as a fabric: hosts are cubes, and every switch is a plane of its own, two-sided.

    Port n + 1 of side A has the + port of cube n, that of side B its - port.
    """
    cube = cube_of(pod.cube)
    ports = max(pod.cubes, (pod.switch_ports or 0) // 2)
    make = replace(
        profile_named(_MAKE),
        name=f"switch of {Path(pod.name).stem}",
        num_ports=ports,
        price_usd_per_port=None,
        power_w=None,
        sources=(),
    )
    width = len(str(pod.cubes - 1))
    return Fabric(
        Path(pod.name).stem,
        tuple(f"cube{number:0{width}d}" for number in range(pod.cubes)),
        0,
        tuple(
            Switch(f"d{d}q{q}", plane, make, ports)
            for plane, (d, q) in enumerate(
                zip(cube.dimension.tolist(), cube.position.tolist(), strict=True)
            )
        ),
        CostModel(0, 2 * cube.num_switches * _LINK_BPS),
        *(_BUDGET_DB, _CONNECTOR_DB, _CIRCULATOR_DB),
    )


def pod_cabling(fabric: Fabric) -> Cabling:
    """The + port of every cube on side A of every switch, and its - port on side B."""
    hosts, planes = len(fabric.hosts), fabric.num_planes
    switch = np.tile(np.arange(planes, dtype=np.int32), (hosts, 1))
    port = np.repeat(np.arange(1, hosts + 1, dtype=np.int32)[:, None], planes, axis=1)
    no_trunks = np.empty((0, 4), dtype=np.int32), np.empty(0, dtype=np.int32)
    return Cabling(fabric, switch, port, switch, port, *no_trunks)


def pod_configuration(cabling: Cabling, placed: Sequence[PlacedPod], name: str) -> Configuration:
    """The circuits of slices; nodes are their cubes, one after the other."""
    host = [cube for each in placed for cube in each.cubes]
    first = np.cumsum([0, *(len(each.cubes) for each in placed)]).tolist()
    every = [start + each.slice.circuits() for each, start in zip(placed, first, strict=False)]
    return circuits_configuration(cabling, host, np.concatenate(every, axis=1), name)


def circuits_configuration(
    cabling: Cabling, cubes: Sequence[int], circuits: Numbers, name: str
) -> Configuration:
    """Circuits between the + port of a node (column) and a - port, by switch; -1 for none."""
    host = np.array(cubes, dtype=np.int32)
    plane, source = (each.astype(np.int32) for each in np.nonzero(circuits >= 0))
    there = circuits[plane, source].astype(np.int32)
    number = np.arange(len(plane), dtype=np.int32)
    topology = Topology(len(host), np.append(source, there), np.append(there, source))
    link = np.stack([number, number + np.int32(len(plane))], axis=1)
    ends = (number, plane, 1 + host[source], 1 + host[there])
    return Configuration(name, cabling, topology, host, plane, link, *ends)
