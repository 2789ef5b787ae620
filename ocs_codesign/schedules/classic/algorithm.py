"""Algorithm: what a classic algorithm makes, of how many ranks, from which options."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, final

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.registry import later

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ocs_codesign.core.schedule import Messages
    from ocs_codesign.schedules.classic.steps import Pattern


MAX_RANKS = 4096
EVEN, POWER_OF_TWO = "an even number", "a power of two"
_FITS = {EVEN: lambda n: n % 2 == 0, POWER_OF_TWO: lambda n: n & (n - 1) == 0}


@final
@dataclass(frozen=True, slots=True)
class Algorithm:
    """A classic algorithm: ``makers`` by collective, as ``module.function`` of this room.

    A maker is imported when it is called, with N and the ``options``, names in ``OPTIONS``. It
    returns a Pattern and raises ValueError for options that do not fit N; ``takes`` says which N
    there may be at all, by collective, where not any will do. A reduce-scatter without a maker is
    the allgather turned round and a reduce the broadcast, unless not ``reversible``; an allreduce
    is then both of them, one after the other.

    >>> from ocs_codesign.schedules.classic.registry import CLASSIC
    >>> made = CLASSIC["bruck"].messages("allgather", 5)
    >>> made, [str(load) for load in made.one_port_loads()]
    (Messages(allgather of 5 ranks, 20 sends in 3 steps, 5 items), ['1', '2', '1'])
    """

    description: str
    makers: Mapping[str, str]
    options: tuple[str, ...] = ()
    takes: Mapping[str, str] = field(default_factory=dict)
    reversible: bool = True

    @property
    def collectives(self) -> tuple[str, ...]:
        """Names of all that it makes."""
        derived = [
            (turned, own)
            for turned, own in (("reduce-scatter", "allgather"), ("reduce", "broadcast"))
            if self.reversible and own in self.makers
        ]
        both = ["allreduce"] if derived else []
        return tuple(dict.fromkeys([*self.makers, *(turned for turned, _ in derived), *both]))

    def messages(self, collective: str, num_ranks: int, **options: Any) -> Messages:
        """The collective as Messages; the root of one that has a root is the option ``root``.

        Raises ValueError for what the algorithm does not make, N that it does not take, and options
        that it does not have or that do not fit N.
        """
        pattern = self.pattern(collective, num_ranks, **options)
        is_rooted = collective in ("broadcast", "reduce")
        made = Collective(collective, root=options.get("root", 0) if is_rooted else None)
        return pattern.messages(num_ranks, made)

    def pattern(self, collective: str, num_ranks: int, **options: Any) -> Pattern:
        """The same step by step."""
        if collective not in self.collectives:
            makes = ", ".join(self.collectives)
            raise ValueError(f"{self.description} makes {makes}, not {collective}")
        unknown = [name for name in options if name not in self.options]
        if unknown:
            has = f"its options are {', '.join(self.options)}" if self.options else "it has none"
            raise ValueError(f"{self.description} has no option {unknown[0]}: {has}")
        if not 1 <= num_ranks <= MAX_RANKS:
            raise ValueError(f"{num_ranks} ranks: classic algorithms are made for 1 to {MAX_RANKS}")
        return self._pattern(collective, num_ranks, options).without_idle_steps()

    def _pattern(self, collective: str, num_ranks: int, options: Mapping[str, Any]) -> Pattern:
        if collective in self.makers:
            takes = self.takes.get(collective)
            if takes is not None and not _FITS[takes](num_ranks):
                raise ValueError(f"{num_ranks} ranks: {self.description} takes {takes}")
            made: Pattern = later(f"{__package__}.{self.makers[collective]}")(num_ranks, **options)
            return made
        turned = {"reduce-scatter": "allgather", "reduce": "broadcast"}
        if collective in turned:
            return self._pattern(turned[collective], num_ranks, options).reversed()
        first = "reduce-scatter" if "allgather" in self.makers else "reduce"
        summed = self._pattern(first, num_ranks, options)
        spread = self._pattern(turned[first], num_ranks, options)
        return summed.then(spread)


# Options of classic algorithms as text: what there are, and how their values are read.


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
