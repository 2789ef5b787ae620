"""Pods as they are built, and slices of them by the names that people use."""

from __future__ import annotations

import json
import re
import tomllib
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ocs_codesign.core.files.archives import read_limited
from ocs_codesign.core.files.atomic import decoded, errors_at
from ocs_codesign.core.files.plain_text import read_plain_text
from ocs_codesign.core.files.records import RecordLayout, count_to
from ocs_codesign.core.shown import shown
from ocs_codesign.graphs.families.pods import Pod, PodLattice, PodSlice, cube_of
from ocs_codesign.graphs.text import parse

if TYPE_CHECKING:
    from collections.abc import Mapping


MAX_BYTES = 2**22


class PodDescription(NamedTuple):
    """A pod: the shape of its cubes and how many there are.

    ``largest_slice`` is in cubes, ``arrangement`` how cubes stand to each other where a slice must
    be a box of them, ``sources`` where numbers are from, by their key.
    """

    cube: tuple[int, ...]
    cubes: int
    hosts_of_a_cube: int
    largest_slice: int = 0
    switch_ports: int | None = None
    arrangement: tuple[int, ...] | None = None
    name: str = ""
    sources: Mapping[str, str] = MappingProxyType({})

    def check_cubes(self, cubes: int) -> None:
        """ValueError for a slice of so many cubes if it is too large."""
        if cubes > self.largest_slice:
            most = f"the largest of {self.name} has {self.largest_slice}"
            raise ValueError(f"a slice of {cubes} cubes: {most}")

    def checked(self, pod: Pod) -> Pod:
        """A slice of this pod; ValueError if it is of other cubes or of too many."""
        if pod.cube != self.cube:
            raise ValueError(f"a slice of cubes {pod.cube}: those of {self.name} are {self.cube}")
        self.check_cubes(pod.num_cubes)
        return pod


def _sides(value: Any, name: str) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise ValueError(f"{name} is {shown(value)}: it must be a list of whole numbers")
    return tuple(_WHOLE(each, name) for each in value)


_WHOLE = count_to(2**20)
_LAYOUT: RecordLayout[PodDescription] = RecordLayout(
    whole="pod",
    record="pod",
    fields={key: (key, _sides) for key in ("cube", "arrangement")}
    | {key: (key, _WHOLE) for key in ("cubes", "hosts_of_a_cube", "largest_slice", "switch_ports")},
    required=("cube", "cubes", "hosts_of_a_cube"),
    make=PodDescription,
    most=1,
    other="",
)


def load_pod(name: str) -> PodDescription:
    """The pod of a name, or that a TOML file describes.

    >>> pod = load_pod("tpu-v4")
    >>> pod.cubes, pod.hosts_of_a_cube, pod.arrangement
    (64, 16, (4, 4, 4))
    """
    known = tomllib.loads(Path(__file__).with_name("profiles.toml").read_text(encoding="utf-8"))
    if name in known:
        return _described(name, known[name])
    if not Path(name).is_file():
        raise ValueError(f"no pod is named {name!r}: known are {', '.join(known)}, or give a file")
    try:
        given = tomllib.loads(decoded(read_limited(Path(name), MAX_BYTES), name))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{name}: this is no TOML: {error}") from None
    return _described(name, given)


def _described(name: str, given: dict[str, Any]) -> PodDescription:
    """The pod of a table; a value alone or beside its source."""
    sourced = {
        key: told
        for key, told in given.items()
        if isinstance(told, list) and len(told) == 2 and isinstance(told[1], str)
    }
    values = given | {key: value for key, (value, _) in sourced.items()}
    with errors_at(name):
        _LAYOUT.check_names(list(values), "the pod")
        pod = _LAYOUT.record_of(values)
        cube_of(pod.cube)
        box, ports = pod.arrangement, pod.switch_ports
        if ports is not None and ports < 2 * pod.cubes:
            raise ValueError(
                f"switch 0:0 has {ports} ports: {pod.cubes} cubes have a + and a - port on each"
            )
        if box is not None and (len(box) != 3 or prod(box) != pod.cubes):
            raise ValueError(f"an arrangement of {box} is not of {pod.cubes} cubes in 3 dimensions")
    return pod._replace(
        name=name,
        largest_slice=min(pod.largest_slice or pod.cubes, pod.cubes),
        sources={key: source for key, (_, source) in sourced.items()},
    )


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
    return sides[1:] in {(sides[0], 2 * sides[0]), (2 * sides[0], 2 * sides[0])}


def _of_shape(sides: tuple[int, ...], twisted: bool, pod: PodDescription) -> PodLattice:
    named, rows = "x".join(map(str, sides)), np.diag(sides)
    if len(sides) != len(pod.cube):
        raise ValueError(f"{named}: slices of {pod.name} have {len(pod.cube)} sides")
    if twisted:
        if not is_twistable(sides):
            raise ValueError(f"{named} has no twist: k x k x 2k and k x 2k x 2k have")
        rows[0, 2] = rows[(1, 2) if sides[0] == sides[1] else (0, 1)] = sides[0]
    if 0 in sides or (rows % pod.cube).any():
        raise ValueError(f"{named}: sides are multiples of the cube's, {pod.cube}")
    return PodLattice(pod.cube, tuple(map(tuple, (rows // pod.cube).tolist())))


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


def slice_json(slice_: Pod) -> bytes:
    """A slice as the JSON that is read as one."""
    nested = cube_of(slice_.cube).nested(slice_.circuits().tolist())
    return f"{json.dumps({'cubes': slice_.num_cubes, 'permutations': nested})}\n".encode()


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
