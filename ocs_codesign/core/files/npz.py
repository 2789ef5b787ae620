"""Arrays as npz archives: written byte for byte the same, read without trusting a byte."""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Generic, TypeVar, final

import numpy as np

from ocs_codesign.core.files.archives import (
    BROKEN,
    MAX_INFLATION,
    Guarded,
    broken_reason,
    check_size,
    open_regular,
)
from ocs_codesign.core.files.plain_text import read_plain_text
from ocs_codesign.core.shown import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray


Value = TypeVar("Value")

MAX_CONTENT_BYTES = 16 * 2**30
"""Largest declared size of all arrays together that is read."""

_SMALL_BYTES, _MAX_DENSITY = 2**26, 200
"""More bytes than these are read at so many a packed one: schedules have 15 or fewer."""

_EPOCH = (1980, 1, 1, 0, 0, 0)
_MAX_HEADER_BYTES = 2**12
_MAX_ITEM_BYTES = 256


@final
@dataclass(frozen=True, slots=True)
class Layout:
    """Which arrays an archive of ``what`` may hold, and which of them it must.

    ``columns`` are one-dimensional arrays of integers, ``scalars`` single integers and ``texts``
    single texts. The columns of a group of ``alike`` are as long as its first one.
    """

    what: str
    columns: tuple[str, ...]
    scalars: tuple[str, ...]
    texts: tuple[str, ...]
    required: tuple[str, ...]
    alike: tuple[tuple[str, ...], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """All arrays that an archive may hold."""
        return (*self.columns, *self.scalars, *self.texts)

    def check_array(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """ValueError for an array of another type or shape than its name's."""
        kinds, expected = ("U", "text") if name in self.texts else ("iu", "integers")
        if dtype.hasobject or dtype.kind not in kinds or dtype.itemsize > _MAX_ITEM_BYTES:
            raise ValueError(f"the array {name} holds {_short(str(dtype))}, not {expected}")
        dimensions = 1 if name in self.columns else 0
        if len(shape) != dimensions or any(length < 0 for length in shape):
            expected = "one-dimensional" if dimensions else "a single value"
            raise ValueError(f"the array {name} has shape {shape}, but must be {expected}")

    def check_lengths(self, lengths: Mapping[str, int]) -> None:
        """ValueError for columns that must be as long as others and are not."""
        for first, *others in self.alike:
            for name in others:
                if name in lengths and first not in lengths:
                    raise ValueError(f"the array {first} is missing: {name} needs it")
                if name in lengths and lengths[name] != lengths[first]:
                    raise ValueError(
                        f"the array {name} has {lengths[name]} entries, "
                        f"but {first} has {lengths[first]}"
                    )


def write_npz(file: IO[bytes], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays in this order, for ``numpy.load``; the same bytes for the same arrays."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy", _EPOCH)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = 0o644 << 16
            content = io.BytesIO()
            little = np.asarray(array, dtype=array.dtype.newbyteorder("<"))
            np.lib.format.write_array(content, little, version=(1, 0), allow_pickle=False)
            archive.writestr(member, content.getbuffer(), compresslevel=1)


def read_npz(
    path: Path,
    layout: Layout,
    check: Callable[[Mapping[str, int]], None],
    value: Callable[[dict[str, NDArray[Any]]], Value],
) -> Value:
    """The value of the arrays in an archive, which may come from anyone.

    Sizes are checked against the directory and the array headers before memory is taken, and the
    lengths of all arrays (1 of scalars) by ``check``; nothing is unpickled. Raises OSError if the
    file cannot be read and ValueError, with its path, for what is no such archive or no value.
    """
    with open_regular(path) as file:
        if not file.seekable():
            raise ValueError(f"{path}: this is a pipe: an archive is read from a file")
        try:
            with zipfile.ZipFile(Guarded(file, layout.what)) as archive:
                return value(_arrays(archive, layout, check))
        except BROKEN as error:
            reason = broken_reason(error)
            raise ValueError(f"{path} is not a readable npz archive: {reason}") from None
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None


def npz_names(path: Path, what: str) -> frozenset[str]:
    """Names of the arrays in an archive of ``what``, unread; errors as of ``read_npz``."""
    with open_regular(path) as file:
        try:
            with zipfile.ZipFile(Guarded(file, what)) as archive:
                return frozenset(name.removesuffix(".npy") for name in archive.namelist())
        except (*BROKEN, OSError) as error:
            reason = broken_reason(error)
            raise ValueError(f"{path} is not a readable npz archive: {reason}") from None
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None


def _arrays(
    archive: zipfile.ZipFile, layout: Layout, check: Callable[[Mapping[str, int]], None]
) -> dict[str, NDArray[Any]]:
    """All arrays, after every header has been found consistent."""
    members = _members(archive, layout)
    lengths = {}
    for name, member in members.items():
        with archive.open(member) as content:
            lengths[name] = _checked_length(name, member, content, layout)
    layout.check_lengths(lengths)
    check(lengths)
    arrays = {}
    for name, member in members.items():
        with archive.open(member) as content:  # the last read also compares the checksum
            arrays[name] = np.lib.format.read_array(
                content, allow_pickle=False, max_header_size=_MAX_HEADER_BYTES
            )
    return arrays


def _members(archive: zipfile.ZipFile, layout: Layout) -> dict[str, zipfile.ZipInfo]:
    """The entries of the archive by the name of their array."""
    members: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        name = member.filename.removesuffix(".npy")
        if name not in layout.names or name == member.filename:
            raise ValueError(f"{_short(member.filename)} is not an array of {layout.what}")
        if name in members:
            raise ValueError(f"the array {name} is in the archive twice")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"the array {name} is neither stored nor deflated")
        if member.file_size > MAX_INFLATION * member.compress_size + _MAX_HEADER_BYTES:
            raise ValueError(f"the array {name} declares more bytes than it can hold")
        members[name] = member
    for name in layout.required:
        if name not in members:
            raise ValueError(f"the array {name} is missing: this is not {layout.what}")
    total = sum(member.file_size for member in members.values())
    packed = sum(member.compress_size for member in members.values())
    most = min(MAX_CONTENT_BYTES, max(_SMALL_BYTES, _MAX_DENSITY * packed))
    if total > most:
        raise ValueError(f"{packed:,} bytes declare {total:,} in arrays: at most {most:,} are read")
    return members


def _checked_length(name: str, member: zipfile.ZipInfo, content: IO[bytes], layout: Layout) -> int:
    """The length that an array's header declares, if the entry has as many bytes."""
    start = io.BytesIO(content.read(_MAX_HEADER_BYTES))
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            version = np.lib.format.read_magic(start)
            shape, _, dtype = readers[version](start, max_header_size=_MAX_HEADER_BYTES)
    except Exception:  # numpy's parser of a hostile header may raise anything
        rule = f"the array {name} has no readable header of npy version 1.0 or 2.0"
        raise ValueError(rule) from None
    layout.check_array(name, shape, dtype)
    length = shape[0] if shape else 1
    declared, held = length * dtype.itemsize, member.file_size - start.tell()
    if declared != held:
        raise ValueError(
            f"the array {name} declares {declared:,} bytes of data, "
            f"its entry in the archive {held:,}"
        )
    return int(length)


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


# Arrays as JSON: the twin of an npz archive, with the same names for the same values.
#
# An object with ``format`` and ``version``, then single values, then lists of whole numbers.


MAX_JSON_BYTES = 64 * 2**20
"""Bytes of the largest file that is written or read: what is larger is for npz."""
VERSION = 1


@final
@dataclass(frozen=True, slots=True)
class JsonTwin(Generic[Value]):
    """What a format of JSON holds: the arrays of ``layout``, and what is made of them.

    ``order`` has the keys that come first, of which ``extra`` ones are no arrays of the layout but
    whole numbers, which ``check`` compares with the value.
    """

    layout: Layout
    check_lengths: Callable[[Mapping[str, int]], None]
    value: Callable[[Mapping[str, NDArray[Any]]], Value]
    order: tuple[str, ...]
    extra: tuple[str, ...] = ()
    check: Callable[[Value, Mapping[str, int]], None] | None = None


def write_twin(
    name: str, twin: JsonTwin[Any], arrays: Mapping[str, NDArray[Any]], **extra: int
) -> bytes:
    """The content of a file of the format of that name; ValueError if it is too large."""
    plain = {key: np.asarray(array).tolist() for key, array in arrays.items()}
    values = plain | extra
    first = {key: values[key] for key in twin.order if key in values}
    record = {"format": name, "version": VERSION, **first, **plain}
    content = json.dumps(record).encode()
    if len(content) > MAX_JSON_BYTES:
        raise ValueError(
            f"{len(content) / 2**20:.0f} MiB of JSON, but no more than {MAX_JSON_BYTES // 2**20} "
            "are read: npz has no such limit"
        )
    return content


def read_twin(data: bytes, name: str, twins: Mapping[str, JsonTwin[Any]]) -> Any:
    """The value in a content called ``name``, of one of the formats by name.

    Raises ValueError, with the name and the rule, for anything else, unknown keys included.
    """
    check_size(len(data), name, MAX_JSON_BYTES)
    record = read_plain_text(data, name, is_json=True).value
    try:
        return _value(record, twins)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _value(record: Any, twins: Mapping[str, JsonTwin[Any]]) -> Any:
    form = record.get("format") if isinstance(record, dict) else None
    if not isinstance(form, str) or form not in twins:
        raise ValueError(f"this is no object whose format is {' or '.join(twins)}")
    if record.get("version") != VERSION or isinstance(record["version"], bool):
        raise ValueError(f"version is {shown(record.get('version'))}: this reads {VERSION}")
    twin = twins[form]
    layout = twin.layout
    arrays: dict[str, NDArray[Any]] = {}
    extra: dict[str, int] = {}
    for key, value in record.items():
        if key in layout.names:
            arrays[key] = _array(key, value, layout)
        elif key in twin.extra:
            extra[key] = int(_array(key, value, None))
        elif key not in ("format", "version"):
            known = ", ".join((*twin.extra, *layout.names))
            raise ValueError(f"{shown(key)} is no key of {layout.what}: known are {known}")
    for key in (*layout.required, *twin.extra):
        if key not in record:
            raise ValueError(f"{key} is missing: this is not {layout.what}")
    lengths = {key: array.size for key, array in arrays.items()}
    layout.check_lengths(lengths)
    twin.check_lengths(lengths)
    found = twin.value(arrays)
    if twin.check is not None:
        twin.check(found, extra)
    return found


def _array(key: str, value: Any, layout: Layout | None) -> NDArray[Any]:
    """The array of a key: of a text, of a whole number, or of a list of them."""
    if layout is not None and key in layout.texts:
        if not isinstance(value, str) or len(value) > 60:
            raise ValueError(f"{key} is {shown(value)}: it must be a short text")
        return np.array(value)
    is_list = layout is not None and key in layout.columns
    values = value if isinstance(value, list) else [value]
    if isinstance(value, list) != is_list:
        what = "a list of whole numbers" if is_list else "a whole number"
        raise ValueError(f"{key} is {shown(value)}: it must be {what}")
    if set(map(type, values)) - {int}:
        other = next(each for each in values if type(each) is not int)
        raise ValueError(f"{key} has {shown(other)}: it must be a whole number")
    try:
        return np.array(value, dtype=np.int64)
    except OverflowError:
        raise ValueError(f"{key} has a number beyond 64 bits") from None
