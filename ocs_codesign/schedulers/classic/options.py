"""Options of classic algorithms as text: what there are, and how their values are read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

RANK_MAP = "rank_to_node"
IDENTITY, SNAKE, GRAY, SEARCH = "identity", "snake", "gray", "search"
MAX_VALUES = 4096


class Option(NamedTuple):
    """What an option is: its help; one whole number, ``several``, one of ``words``, or any text."""

    help: str
    several: bool = False
    words: tuple[str, ...] = ()
    is_text: bool = False

    def read(self, name: str, text: str) -> Any:
        """The value in a text such as ``4``, ``4,4``, ``[4, 4]`` or ``far``."""
        if self.is_text:
            return text
        inside = text.strip().removeprefix("[").removesuffix("]")
        inside = inside.removeprefix("(").removesuffix(")")
        numbers = [part.strip() for part in re.split(r"[,x]", inside.rstrip(", "))]
        if text.strip() in self.words:
            return text.strip()
        is_whole = all(re.fullmatch(r"-?[0-9]{1,9}", part) for part in numbers)
        if is_whole and self.several and len(numbers) <= MAX_VALUES:
            return tuple(map(int, numbers))
        if is_whole and len(numbers) == 1 and not self.words:
            return int(numbers[0])
        kinds = [*self.words, *["whole numbers such as 4,4"] * self.several]
        raise ValueError(f"{name} is {text!r}: it must be {' or '.join(kinds) or 'a whole number'}")


OPTIONS: dict[str, Option] = {
    "first": Option("which swap comes first", words=("near", "far")),
    "radix": Option("base of the digits of distances, at least 2"),
    "aggregation": Option("trees side by side, a power of two"),
    "dims": Option("sides of the grid of ranks, the last one fastest", several=True),
    "order": Option("order of the dimensions", several=True),
    "inner": Option(
        "what gathers along a dimension", words=("ring", "direct", "shift", "bruck", "pat")
    ),
    "parts": Option("parts of a shard that go different ways"),
    "root": Option("the rank that broadcasts"),
    "server": Option("the rank that sums"),
    "chunks": Option("parts of the data that follow each other"),
    "chunks_per_tree": Option("parts of half of the data that follow each other"),
    "groups": Option("number of groups"),
    "group_size": Option("ranks of a group"),
    "bandwidths": Option("relative bandwidth of every dimension", several=True),
    RANK_MAP: Option("node of every rank", several=True, words=(IDENTITY, SNAKE, GRAY, SEARCH)),
    "seed": Option("seed of the searched rank map"),
    "note": Option("a remark that the answer repeats", is_text=True),
}
"""Every option by name; the last three go with any algorithm."""

OF_PLACEMENT = (RANK_MAP, "seed", "note")


def read_options(texts: Iterable[str]) -> dict[str, Any]:
    """Options from texts such as ``radix=3``; ValueError for what is none.

    >>> read_options(["dims=4,4", "inner=direct", "rank_to_node=[0, 2, 1, 3]"])
    {'dims': (4, 4), 'inner': 'direct', 'rank_to_node': (0, 2, 1, 3)}
    """
    read: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or name not in OPTIONS:
            raise ValueError(
                f"option {text!r} must be NAME=VALUE with one of the names {', '.join(OPTIONS)}"
            )
        if name in read:
            raise ValueError(f"option {name} is there twice")
        read[name] = OPTIONS[name].read(name, value)
    return read


def split_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Those of the algorithm and those of the placement."""
    ours = {name: value for name, value in options.items() if name not in OF_PLACEMENT}
    return ours, {name: options[name] for name in OF_PLACEMENT if name in options}
