"""Arrays as JSON: the twin of an npz archive, with the same names for the same values.

An object with ``format`` and ``version``, then single values, then lists of whole numbers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

import numpy as np

from ocs_codesign.files.limited import check_size
from ocs_codesign.files.naming import shown
from ocs_codesign.files.plain_text import read_plain_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from ocs_codesign.files.npz import Layout

Value = TypeVar("Value")

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
    check_size(data, name, MAX_JSON_BYTES)
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
