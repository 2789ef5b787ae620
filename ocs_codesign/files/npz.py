"""Schedules as npz archives: written byte for byte the same, read without trusting a byte.

An archive holds one-dimensional integer arrays ``tail`` and ``head`` (and ``link_speed`` if link
speeds differ), the columns ``root``, ``lo``, ``hi``, ``link`` and ``step`` (and ``phase`` for an
allreduce), and two scalars: the integer ``num_chunks`` (chunks of a shard; in an ``alltoall`` a
multiple of the number of nodes) and the text ``collective``. The number of nodes is the largest
endpoint plus one. Where circuits change, ``plane`` says in which plane each link's is, and row i of
``up_link``, ``up_first``, ``up_last`` that it is up from one step to another; before the steps
``pauses`` everything stops. ``numpy.load`` reads it.
"""

from __future__ import annotations

import io
import struct
import warnings
import zipfile
import zlib
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.circuits import CircuitProgram
from ocs_codesign.collective import Collective
from ocs_codesign.schedule import Schedule
from ocs_codesign.topology import MAX_LINKS, Topology

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

MAX_CONTENT_BYTES = 16 * 2**30
"""Largest declared size of all arrays together that is read."""

_ENDS = ("tail", "head")
_SENDS = ("root", "lo", "hi", "link", "step")
_ROWS = (*_SENDS, "phase")
_LINKS = (*_ENDS, "link_speed")
_SCALARS = ("num_chunks", "collective")
_INTERVALS = ("up_link", "up_first", "up_last")
_CIRCUITS = ("plane", *_INTERVALS, "pauses")
_REQUIRED = (*_ENDS, *_SENDS, *_SCALARS)
_NAMES = (*_LINKS, *_ROWS, *_SCALARS, *_CIRCUITS)

_EPOCH = (1980, 1, 1, 0, 0, 0)
_MAX_HEADER_BYTES = 2**12
_READ_BYTES = 2**20
_MAX_INFLATION = 1040  # deflate cannot pack more than 1032 bytes into one

_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    OverflowError,
    IndexError,
)
"""What the zip reader raises for archives that are damaged, encrypted or exotic."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Archive:
    """What an archive holds: a schedule, and its circuits if they change."""

    schedule: Schedule
    circuits: CircuitProgram | None


def write_schedule(
    file: IO[bytes], schedule: Schedule, circuits: CircuitProgram | None = None
) -> None:
    """Write a schedule with its topology, and its circuits if they change.

    The same values always give the same bytes. Raises ValueError if the circuits are not those of
    the schedule's links.
    """
    if circuits is not None and circuits.topology != schedule.topology:
        raise ValueError("the links of the schedule are not those of the program's circuits")
    topology = schedule.topology
    arrays: dict[str, NDArray[Any]] = {"tail": topology.tail, "head": topology.head}
    if topology.link_speed is not None:
        arrays["link_speed"] = topology.link_speed
    arrays.update(zip(_ROWS, schedule.columns(), strict=False))
    arrays["num_chunks"] = np.array(schedule.num_chunks, dtype=np.int64)
    arrays["collective"] = np.array(schedule.collective.name)
    if circuits is not None:
        arrays.update(zip(_CIRCUITS, circuits.columns(), strict=True))
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy", _EPOCH)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = 0o644 << 16
            content = io.BytesIO()
            little = np.asarray(array, dtype=array.dtype.newbyteorder("<"))
            np.lib.format.write_array(content, little, version=(1, 0), allow_pickle=False)
            archive.writestr(member, content.getbuffer(), compresslevel=1)


def read_schedule(path: Path) -> Schedule:
    """The schedule of an archive whose circuits do not change; see ``read_archive``.

    Raises ValueError for one whose circuits do, since without them it means nothing.
    """
    archive = read_archive(path)
    if archive.circuits is not None:
        raise ValueError(f"{path} holds a schedule that changes circuits, which would be lost")
    return archive.schedule


def read_archive(path: Path) -> Archive:
    """The schedule of an archive, which may come from anyone, and its circuits if they change.

    Sizes are checked against the directory and the array headers before memory is taken; nothing is
    unpickled. Raises OSError if the file cannot be read and ValueError for anything that is not a
    schedule; whether it is a correct one is for ``verification`` to say.
    """
    with path.open("rb") as file:
        if not file.seekable():
            raise ValueError(f"{path} is not a regular file")
        try:
            arrays = _arrays(_Guarded(file))
            schedule = _schedule(arrays)
            return Archive(schedule, _circuits(arrays, schedule.topology))
        except _BROKEN as error:
            reason = str(error).strip(" .") or type(error).__name__
            raise ValueError(f"{path} is not a readable npz archive: {reason}") from None
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Guarded:
    """A file of which no single read takes more than a block, so no directory can be larger."""

    file: IO[bytes]

    def read(self, size: int = -1) -> bytes:
        if size > _READ_BYTES:
            raise ValueError("the archive's directory is too large for a schedule")
        return self.file.read(size if size >= 0 else _READ_BYTES)

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence == 0 and offset < 0:
            raise ValueError("the archive's directory points outside the archive")
        return self.file.seek(offset, whence)

    def tell(self) -> int:
        return self.file.tell()

    def seekable(self) -> bool:
        return True


@final
@dataclass(frozen=True, slots=True)
class _Header:
    """What an array says of itself, and how many bytes of it follow."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    num_bytes: int


def _arrays(file: _Guarded) -> dict[str, NDArray[Any]]:
    """All arrays, after every header has been found consistent."""
    with zipfile.ZipFile(file) as archive:
        members = _members(archive)
        headers = []
        for name, member in members.items():
            with archive.open(member) as content:
                headers.append(_header(name, member, content))
        _check_lengths({header.name: header for header in headers})
        arrays = {}
        for header in headers:
            with archive.open(members[header.name]) as content:
                content.read(members[header.name].file_size - header.num_bytes)
                arrays[header.name] = _array(header, content)
    return arrays


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    members: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        name = member.filename.removesuffix(".npy")
        if name not in _NAMES or name == member.filename:
            raise ValueError(f"{_shown(member.filename)} is not an array of a schedule")
        if name in members:
            raise ValueError(f"the array {name} is in the archive twice")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"the array {name} is neither stored nor deflated")
        if member.file_size > _MAX_INFLATION * member.compress_size + _MAX_HEADER_BYTES:
            raise ValueError(f"the array {name} declares more bytes than it can hold")
        members[name] = member
    missing = [name for name in _REQUIRED if name not in members]
    if missing:
        raise ValueError(f"the array {missing[0]} is missing: this is not a schedule")
    given = [name for name in _CIRCUITS if name in members]
    if given and len(given) < len(_CIRCUITS):
        lacking = next(name for name in _CIRCUITS if name not in members)
        raise ValueError(f"the array {lacking} is missing: circuits that change need it")
    total = sum(member.file_size for member in members.values())
    if total > MAX_CONTENT_BYTES:
        raise ValueError(
            f"the arrays declare {total:,} bytes: at most {MAX_CONTENT_BYTES:,} are read"
        )
    return members


def _header(name: str, member: zipfile.ZipInfo, content: IO[bytes]) -> _Header:
    start = io.BytesIO(content.read(_MAX_HEADER_BYTES))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            version = np.lib.format.read_magic(start)
            if version not in ((1, 0), (2, 0)):
                raise ValueError("its npy version is not 1.0 or 2.0")
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, _, dtype = read(start, max_header_size=_MAX_HEADER_BYTES)
    except Exception as error:  # numpy's parser of a hostile header may raise anything
        reason = " ".join(str(error).split())[:100] or type(error).__name__
        raise ValueError(f"the array {name} has no readable header ({reason})") from None
    _check_type(name, shape, dtype)
    num_bytes = (shape[0] if shape else 1) * dtype.itemsize
    if start.tell() + num_bytes != member.file_size:
        raise ValueError(
            f"the array {name} declares {num_bytes:,} bytes of data, "
            f"its entry in the archive {member.file_size - start.tell():,}"
        )
    return _Header(name, shape, dtype, num_bytes)


def _check_type(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    kind = "U" if name == "collective" else "iu"
    if dtype.hasobject or dtype.kind not in kind or dtype.itemsize > 256:
        expected = "text" if name == "collective" else "integers"
        raise ValueError(f"the array {name} holds {_shown(str(dtype))}, not {expected}")
    dimensions = 0 if name in _SCALARS else 1
    if len(shape) != dimensions or any(length < 0 for length in shape):
        expected = "a single value" if name in _SCALARS else "one-dimensional"
        raise ValueError(f"the array {name} has shape {shape}, but must be {expected}")


def _check_lengths(headers: Mapping[str, _Header]) -> None:
    for group in (_LINKS, _ROWS, ("tail", "plane"), _INTERVALS):
        for name in group[1:]:
            if name in headers and headers[name].shape != headers[group[0]].shape:
                raise ValueError(
                    f"the array {name} has {headers[name].shape[0]} entries, "
                    f"but {group[0]} has {headers[group[0]].shape[0]}"
                )
    links = headers["tail"].shape[0]
    if not 1 <= links <= MAX_LINKS:
        raise ValueError(f"{links} links: a topology has from 1 to {MAX_LINKS}")


def _array(header: _Header, content: IO[bytes]) -> NDArray[Any]:
    """The data after the header, read in blocks; the last read also checks the checksum."""
    array = np.empty(header.shape, dtype=header.dtype)
    view = memoryview(array.reshape(-1).view(np.uint8).data)
    done = 0
    while block := content.read(_READ_BYTES):
        view[done : done + len(block)] = block
        done += len(block)
    if done != header.num_bytes:
        raise ValueError(f"the array {header.name} ends after {done:,} bytes")
    return array


def _schedule(arrays: dict[str, NDArray[Any]]) -> Schedule:
    ends = [arrays[name] for name in _ENDS]
    # With as many links as nodes or fewer, every node that a schedule can serve has a link.
    num_nodes = max(int(end.max()) for end in ends) + 1
    if num_nodes > len(ends[0]):
        raise ValueError(
            f"{num_nodes} nodes but only {len(ends[0])} links: some node has no in-link"
        )
    topology = Topology(num_nodes, ends[0], ends[1], arrays.get("link_speed"))
    sends = len(arrays["step"])
    last = int(arrays["step"].max(initial=0))
    if last > sends:
        raise ValueError(f"the last step is {last}, but there are only {sends} sends")
    columns = [arrays[name] for name in _ROWS if name in arrays]
    collective = Collective.parse(str(arrays["collective"]))
    return Schedule(topology, collective, int(arrays["num_chunks"]), *columns)


def _circuits(arrays: dict[str, NDArray[Any]], topology: Topology) -> CircuitProgram | None:
    if "plane" not in arrays:
        return None
    return CircuitProgram(topology, *(arrays[name] for name in _CIRCUITS))


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")
