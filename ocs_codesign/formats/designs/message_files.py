"""Messages as npz archives: integer columns ``step``, ``source``, ``target``, ``item``, ``adds``.

Scalars beside them are ``num_ranks``, ``num_items`` and, where there is one, ``collective_root``;
the text ``collective`` names the collective. ``numpy.load`` reads it.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.collective import Collective
from ocs_codesign.files.npz import Layout, read_npz, write_npz
from ocs_codesign.messages import Messages

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

MAX_SENDS = 2**28
COLUMNS = ("step", "source", "target", "item", "adds")
LAYOUT = Layout(
    what="messages",
    columns=COLUMNS,
    scalars=("num_ranks", "num_items", "collective_root"),
    texts=("collective",),
    required=(*COLUMNS, "num_ranks", "num_items", "collective"),
    alike=(COLUMNS,),
)


def write_messages(file: IO[bytes], messages: Messages) -> None:
    """Write messages; the same values always give the same bytes."""
    write_npz(file, message_arrays(messages))


def message_arrays(messages: Messages) -> dict[str, NDArray[Any]]:
    """The arrays of an archive, by name and in their order."""
    arrays: dict[str, NDArray[Any]] = {name: getattr(messages, name) for name in COLUMNS}
    arrays["adds"] = messages.adds.astype(np.int8)
    arrays["num_ranks"] = np.array(messages.num_ranks, dtype=np.int64)
    arrays["num_items"] = np.array(messages.num_items, dtype=np.int64)
    arrays["collective"] = np.array(messages.collective.name)
    if messages.collective.root is not None:
        arrays["collective_root"] = np.array(messages.collective.root, dtype=np.int64)
    return arrays


def read_messages(path: Path) -> Messages:
    """The messages of an archive, which may come from anyone.

    Raises OSError if the file cannot be read and ValueError for anything that is no messages;
    whether they do what is demanded is for ``verification.messages`` to say.
    """
    return read_npz(path, LAYOUT, check_lengths, messages_of)


def check_lengths(lengths: Mapping[str, int]) -> None:
    """ValueError for arrays of lengths that no archive has."""
    if lengths["step"] > MAX_SENDS:
        raise ValueError(f"{lengths['step']} sends: at most {MAX_SENDS} are read")


def messages_of(arrays: Mapping[str, NDArray[Any]]) -> Messages:
    """What arrays by name hold; ValueError for what is no messages."""
    root = int(arrays["collective_root"]) if "collective_root" in arrays else None
    name, adds = str(arrays["collective"]), arrays["adds"]
    if adds.size and not (adds.min() >= 0 and adds.max() <= 1):
        raise ValueError("adds is 1 where a receiver adds, else 0")
    step, source, target, item = (arrays[name] for name in COLUMNS[:-1])
    collective = Collective.parse(name) if root is None else Collective(name, root)
    ranks, items = int(arrays["num_ranks"]), int(arrays["num_items"])
    return Messages(ranks, collective, items, step, source, target, item, adds.astype(bool))
