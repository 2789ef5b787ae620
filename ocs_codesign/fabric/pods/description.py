"""Pods as they are built, and slices of them by the names that people use."""

from __future__ import annotations

import re
import tomllib
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ocs_codesign.core.files.archives import read_limited
from ocs_codesign.core.files.plain_text import read_plain_text
from ocs_codesign.graphs.families.pods import Pod, PodLattice, PodSlice, cube_of
from ocs_codesign.graphs.text import parse

if TYPE_CHECKING:
    from collections.abc import Mapping


MAX_BYTES = 2**22
TPU_V4 = "tpu-v4"
_KEYS = {
    "cube": "the chips along every edge of a cube",
    "cubes": "a number of cubes",
    "hosts_of_a_cube": "a number of hosts",
    "largest_slice": "a number of cubes",
    "switch_ports": "a number of ports",
    "arrangement": "the cubes along every edge of their arrangement",
}
_NEEDED = ("cube", "cubes", "hosts_of_a_cube")


class PodDescription(NamedTuple):
    """A pod: the shape of its cubes and how many there are.

    ``largest_slice`` is in cubes, ``arrangement`` how cubes stand to each other where a slice must
    be a box of them, ``sources`` where numbers are from, by their key.
    """

    name: str
    cube: tuple[int, ...]
    cubes: int
    hosts_of_a_cube: int
    largest_slice: int
    switch_ports: int | None
    arrangement: tuple[int, ...] | None
    sources: Mapping[str, str]

    @property
    def num_switches(self) -> int:
        """Switches: one a dimension and position of its face."""
        return cube_of(self.cube).num_switches

    def checked(self, pod: Pod) -> Pod:
        """A slice of this pod; ValueError if it is of other cubes or of too many."""
        if pod.cube != self.cube:
            raise ValueError(f"a slice of cubes {pod.cube}: those of {self.name} are {self.cube}")
        if pod.num_cubes > self.largest_slice:
            raise ValueError(
                f"a slice of {pod.num_cubes} cubes: the largest of {self.name} has "
                f"{self.largest_slice}"
            )
        return pod


def load_pod(name: str) -> PodDescription:
    """The pod of a name, or that a TOML file describes.

    >>> pod = load_pod("tpu-v4")
    >>> pod.cubes, pod.num_switches, pod.arrangement
    (64, 48, (4, 4, 4))
    """
    known = tomllib.loads(Path(__file__).with_name("profiles.toml").read_text(encoding="utf-8"))
    if name in known:
        return _described(name, known[name])
    if not Path(name).is_file():
        raise ValueError(f"no pod is named {name!r}: known are {', '.join(known)}, or give a file")
    try:
        given = tomllib.loads(read_limited(Path(name), MAX_BYTES).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{name} is not TOML ({error})") from None
    return _described(name, given)


def _described(name: str, given: dict[str, Any]) -> PodDescription:
    """The pod of a table; a value alone or beside its source."""
    unknown, missing = sorted(given.keys() - _KEYS), [key for key in _NEEDED if key not in given]
    if unknown or missing:
        text = f"has {unknown[0]!r}, which" if unknown else f"has no {missing[0]!r}, which"
        rule = f"is none of {', '.join(_KEYS)}" if unknown else "every pod has"
        raise ValueError(f"{name}: a pod that {text} {rule}")
    values: dict[str, Any] = {}
    sources = {}
    for key, told in given.items():
        has_source = isinstance(told, list) and len(told) == 2 and isinstance(told[1], str)
        values[key] = told[0] if has_source else told
        if has_source:
            sources[key] = told[1]
        many = key in ("cube", "arrangement")
        numbers = values[key] if many else [values[key]]
        if not isinstance(numbers, list) or not all(
            type(each) is int and 0 < each <= 2**20 for each in numbers
        ):
            raise ValueError(f"{name}: {key} is {values[key]!r}: it must be {_KEYS[key]}")
    cube, cubes = tuple(values["cube"]), values["cubes"]
    cube_of(cube)
    ports, box = values.get("switch_ports"), values.get("arrangement")
    if ports is not None and ports < 2 * cubes:
        raise ValueError(
            f"{name}: switch 0:0 has {ports} ports: {cubes} cubes have a + and a - port on each"
        )
    if box is not None and (len(box) != 3 or prod(box) != cubes):
        raise ValueError(f"{name}: an arrangement of {box} is not of {cubes} cubes in 3 dimensions")
    largest = min(values.get("largest_slice", cubes), cubes)
    hosts = values["hosts_of_a_cube"]
    return PodDescription(name, cube, cubes, hosts, largest, ports, box and tuple(box), sources)


_SHAPE = re.compile(r"([0-9]{1,6}(?:x[0-9]{1,6})*)(_twisted|_untwisted)?")


def slice_of(text: str, pod: PodDescription) -> Pod:
    """The slice that a text names: a shape in chips, ``rows:`` of a lattice, a recipe or a file.

    A file is JSON of {"cubes": k, "permutations": [...]}: ``permutations[d][q][c]`` is the cube
    whose - port of switch d:q the + port of cube c is joined to.

    >>> pod = load_pod("tpu-v4")
    >>> slice_of("8x8x16_twisted", pod)
    PodLattice((4, 4, 4), ((2, 0, 2), (0, 2, 2), (0, 0, 4)))
    >>> slice_of("rows:1,0,0/0,1,0/0,0,3", pod).num_cubes
    3
    """
    shaped = _SHAPE.fullmatch(text)
    if shaped:
        sides = tuple(map(int, shaped[1].split("x")))
        return pod.checked(_of_shape(sides, shaped[2] == "_twisted", pod))
    if text.startswith("rows:"):
        try:
            rows = [[int(x) for x in row.split(",")] for row in text[5:].split("/")]
        except ValueError:
            raise ValueError(f"{text!r}: rows are integers, as in rows:2,0,2/0,2,2/0,0,4") from None
        return pod.checked(PodLattice(pod.cube, tuple(map(tuple, rows))))
    if "(" in text:
        recipe = parse(text)
        if not isinstance(recipe, Pod):
            raise ValueError(f"{recipe!r} is no slice of a pod")
        return pod.checked(recipe)
    if not Path(text).is_file():
        raise ValueError(
            f"{text!r} is no slice: it is a shape such as 8x8x16 or 8x8x16_twisted, rows: of a "
            "lattice, a recipe, or a JSON file"
        )
    return pod.checked(_read(text, pod))


def is_twistable(sides: tuple[int, ...]) -> bool:
    """Whether a shape has a twist: k x k x 2k or k x 2k x 2k.

    >>> is_twistable((4, 4, 8)), is_twistable((8, 16, 16)), is_twistable((4, 4, 16))
    (True, True, False)
    """
    return len(sides) == 3 and sides in {
        (sides[0], sides[0], 2 * sides[0]),
        (sides[0], 2 * sides[0], 2 * sides[0]),
    }


def _of_shape(sides: tuple[int, ...], twisted: bool, pod: PodDescription) -> PodLattice:
    named = "x".join(map(str, sides))
    if len(sides) != len(pod.cube):
        raise ValueError(f"{named}: slices of {pod.name} have {len(pod.cube)} sides")
    rows = [[side if i == j else 0 for j in range(len(sides))] for i, side in enumerate(sides)]
    if twisted:
        if not is_twistable(sides):
            raise ValueError(f"{named} has no twist: k x k x 2k and k x 2k x 2k have")
        k = sides[0]
        two = sides[1] == 2 * k
        rows = [[k, k if two else 0, k], [0, sides[1], 0 if two else k], [0, 0, 2 * k]]
    if 0 in sides or any(x % edge for row in rows for x, edge in zip(row, pod.cube, strict=True)):
        raise ValueError(f"{named}: sides are multiples of the cube's, {pod.cube}")
    in_cubes = tuple(
        tuple(x // edge for x, edge in zip(row, pod.cube, strict=True)) for row in rows
    )
    return PodLattice(pod.cube, in_cubes)


def _read(path: str, pod: PodDescription) -> PodSlice:
    """The slice of a JSON file."""
    given = read_plain_text(read_limited(Path(path), MAX_BYTES), path, is_json=True).value
    if not isinstance(given, dict) or {"cubes", "permutations"} - given.keys():
        raise ValueError(f'{path}: a slice is {{"cubes": k, "permutations": [...]}}')
    try:
        made = PodSlice(pod.cube, _tuples(given["permutations"]))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if made.num_cubes != given["cubes"]:
        raise ValueError(
            f"{path}: permutations of {made.num_cubes} cubes, but cubes is {given['cubes']!r}"
        )
    return made


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
