"""Bundles of pods checked without trust: the chips of a slice, joined as the light goes.

Switch ``d2q5`` has the + ports of dimension 2 at position 5 of the face on side A, and the - ports
on side B. Chips are numbered with the first coordinate fastest, chip v of the i-th cube of a slice
is node ``i * chips + v``; positions of a face count the other coordinates in the same way.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from ocs_codesign.core.shown import shown
from ocs_codesign.core.topology import Topology
from ocs_codesign.fabric.bundle.check.circuits import (
    CIRCUIT_COLUMNS,
    check_circuits,
    check_database,
    follow,
    rows_of_switch,
    table_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.fabric.bundle.check.circuits import Circuit, CrossConnect, Plant
    from ocs_codesign.fabric.bundle.check.files import BundleFiles
    from ocs_codesign.fabric.description import Fabric


MAX_CHIPS, MAX_SLICES, MAX_NODES = 2**12, 2**12, 2**20
_KEYS = {"name", "recipe", "cubes"}


class ClaimedSlice(NamedTuple):
    """What the manifest says of a slice; cubes are hosts of the fabric by their number."""

    name: str
    recipe: str
    cubes: tuple[int, ...]


def read_cube(manifest: dict[str, Any], fabric: Fabric) -> tuple[int, ...]:
    """The shape of a cube; ValueError unless the switches are those of its faces."""
    shape = manifest.get("cube")
    if not isinstance(shape, list) or not 1 <= len(shape) <= len(fabric.switches):
        raise ValueError(f"cube is {shown(shape)}: it must be a list of edges")
    if not all(type(edge) is int and 2 <= edge <= MAX_CHIPS for edge in shape):
        raise ValueError(f"cube is {shown(shape)}: edges are whole numbers of at least 2")
    if prod(shape) > min(MAX_CHIPS, MAX_NODES // len(fabric.hosts)):
        raise ValueError(f"cube is {shown(shape)}: at most {MAX_CHIPS} chips, {MAX_NODES} in all")
    names = [f"d{d}q{q}" for d, edge in enumerate(shape) for q in range(prod(shape) // edge)]
    if [switch.name for switch in fabric.switches] != names:
        raise ValueError(f"cube is {shown(shape)}: its switches are {names[0]} to {names[-1]}")
    if fabric.port_model.value != "two-sided":
        raise ValueError(f"switches are {fabric.port_model.value}: + and - ports are two sides")
    return tuple(shape)


def read_slices(files: BundleFiles, path: str, listed: Any, num_cubes: int) -> list[ClaimedSlice]:
    """The slices in a manifest that can be checked; no cube is of two."""
    if not isinstance(listed, list) or not 1 <= len(listed) <= MAX_SLICES:
        files.findings.add(path, "slices", f"it must be a list of 1 to {MAX_SLICES} slices")
        return []
    found: list[ClaimedSlice] = []
    owner: dict[int, str] = {}
    for at, value in enumerate(listed):
        rule = _slice_rule(value, num_cubes, owner, [each.name for each in found])
        if rule is not None:
            files.findings.add(path, f"slices[{at}]", rule)
            continue
        found.append(ClaimedSlice(value["name"], value["recipe"], tuple(value["cubes"])))
        owner |= dict.fromkeys(value["cubes"], value["name"])
    return found


def _slice_rule(value: Any, num_cubes: int, owner: dict[int, str], names: list[str]) -> str | None:
    """The rule that a slice of the manifest breaks."""
    if not isinstance(value, dict) or set(value) != _KEYS:
        return "it must have name, recipe and cubes"
    name, cubes = value["name"], value["cubes"]
    if not isinstance(name, str) or not name or {"/", "\\", "\0"} & set(name) or name[0] == ".":
        return f"name is {shown(name)}: it must be that of a file"
    if name in names:
        return f"a second one is named {shown(name)}"
    if not isinstance(value["recipe"], str):
        return f"recipe is {shown(value['recipe'])}: it must be text"
    if not isinstance(cubes, list) or not cubes or len(cubes) > num_cubes:
        return f"cubes are 1 to {num_cubes} numbers"
    for cube in cubes:
        if type(cube) is not int or not 0 <= cube < num_cubes or cubes.count(cube) > 1:
            return f"cubes has {shown(cube)}: they are different numbers from 0 to {num_cubes - 1}"
        if cube in owner:
            return f"cube {cube} is one of {shown(owner[cube])}"
    return None


def slice_circuits(
    files: BundleFiles, plant: Plant, claim: ClaimedSlice
) -> tuple[list[CrossConnect], tuple[Circuit, ...]]:
    """The cross-connects of a slice and where light goes through them: between its cubes only."""
    rows = [
        row
        for switch in plant.fabric.switches
        for row in rows_of_switch(
            files.table(table_name(claim.name, switch.name), CIRCUIT_COLUMNS), switch
        )
    ]
    circuits = follow(plant, rows, tell=True)
    check_circuits(circuits)
    mine = {plant.fabric.hosts[cube] for cube in claim.cubes}
    for circuit in circuits:
        for host in {circuit.from_host, circuit.to_host} - mine:
            circuit.rows[0].row.wrong(f"light comes to {host}, which is none of its cubes")
    return rows, circuits


def check_switches(files: BundleFiles, plant: Plant, rows: list[CrossConnect]) -> None:
    """The CONFIG_DB of every switch has the cross-connects of all slices."""
    for switch in plant.fabric.switches:
        mine = [row for row in rows if row.switch == switch.name]
        check_database(files, plant, switch, mine, database_of(switch.name))


def database_of(switch: str) -> str:
    """The path of the CONFIG_DB of a switch."""
    return f"switches/{switch}.config_db.json"


def permutations_of(
    plant: Plant, claim: ClaimedSlice, circuits: tuple[Circuit, ...]
) -> list[list[int]]:
    """By switch and cube of a slice, the cube that its + port is joined to; -1 for none."""
    number = {plant.fabric.hosts[cube]: at for at, cube in enumerate(claim.cubes)}
    found = [[-1] * len(claim.cubes) for _ in plant.fabric.switches]
    for circuit in circuits:
        if circuit.from_host in number and circuit.to_host in number:
            found[circuit.plane][number[circuit.from_host]] = number[circuit.to_host]
    return found


def chips_of(shape: tuple[int, ...], permutations: list[list[int]]) -> Topology:
    """The chips of a slice with their links, both ways, inside cubes and between them."""
    chips, pairs = prod(shape), [*_inner(shape)]
    cubes = len(permutations[0])
    ends = [(i * chips + v, i * chips + w) for i in range(cubes) for v, w in pairs]
    faces = ((d, q) for d, edge in enumerate(shape) for q in range(chips // edge))
    for (dimension, position), row in zip(faces, permutations, strict=True):
        plus = _chip(shape, dimension, position, shape[dimension] - 1)
        minus = _chip(shape, dimension, position, 0)
        ends += [(i * chips + plus, j * chips + minus) for i, j in enumerate(row) if j >= 0]
    tail, head = [v for v, _ in ends], [w for _, w in ends]
    return Topology(cubes * chips, tail + head, head + tail)


def _chip(shape: tuple[int, ...], dimension: int, position: int, at: int) -> int:
    """The chip at a coordinate of a dimension whose others are a position of the face."""
    chip, size = 0, 1
    for axis, edge in enumerate(shape):
        place = at
        if axis != dimension:
            position, place = divmod(position, edge)
        chip, size = chip + size * place, size * edge
    return chip


def _inner(shape: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Neighbours inside a cube."""
    for axis, edge in enumerate(shape):
        for position, at in product(range(prod(shape) // edge), range(edge - 1)):
            yield _chip(shape, axis, position, at), _chip(shape, axis, position, at + 1)


def check_permutations(
    files: BundleFiles, claim: ClaimedSlice, shape: tuple[int, ...], found: list[list[int]]
) -> None:
    """The file of a slice has the permutations that the light makes."""
    path, sides = f"slices/{claim.name}.json", [prod(shape) // edge for edge in shape]
    nested = [found[sum(sides[:d]) : sum(sides[: d + 1])] for d in range(len(shape))]
    given = files.json(path)
    if given is not None and given != {"cubes": len(claim.cubes), "permutations": nested}:
        files.wrong(path, "the permutations are not those that light makes")
