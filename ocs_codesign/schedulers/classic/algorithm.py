"""Algorithm: what a classic algorithm makes, of how many ranks, from which options."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from ocs_codesign.collective import Collective
from ocs_codesign.messages import Messages

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


class Step(NamedTuple):
    """What is sent at the same time: rank ``source`` sends ``item`` to rank ``target``.

    The arrays are broadcast against each other, an entry a send. Receivers add up what comes in if
    ``adds``, else they keep it as it is.
    """

    source: Ints
    target: Ints
    item: Ints
    adds: NDArray[np.bool_] | bool = False

    @property
    def num_sends(self) -> int:
        """Number of items sent."""
        return int(np.prod(np.broadcast_shapes(*(np.shape(column) for column in self[:3]))))


class Pattern(NamedTuple):
    """The steps of a collective whose data is ``num_items`` equal items."""

    num_items: int
    steps: list[Step]

    def reversed(self) -> Pattern:
        """Time and direction turned round, copies to additions and additions to copies."""
        turned = [
            Step(s.target, s.source, s.item, np.logical_not(s.adds)) for s in self.steps[::-1]
        ]
        return Pattern(self.num_items, turned)


MAX_RANKS = 4096
EVEN, POWER_OF_TWO = "an even number", "a power of two"
_FITS = {EVEN: lambda n: n % 2 == 0, POWER_OF_TWO: lambda n: n & (n - 1) == 0}


@final
@dataclass(frozen=True, slots=True)
class Algorithm:
    """A classic algorithm: ``makers`` by collective, functions of N and of the ``options``.

    A maker returns a Pattern and raises ValueError for options that do not fit N; ``takes`` says
    which N there may be at all, by collective, where not any will do. A reduce-scatter without a
    maker is the allgather turned round and a reduce the broadcast, unless not ``reversible``; an
    allreduce is then both of them, one after the other. ``options`` are names in ``OPTIONS``.

    >>> from ocs_codesign.schedulers.classic.registry import CLASSIC
    >>> made = CLASSIC["bruck"].messages("allgather", 5)
    >>> made, [str(load) for load in made.one_port_loads()]
    (Messages(allgather of 5 ranks, 20 sends in 3 steps, 5 items), ['1', '2', '1'])
    """

    description: str
    makers: Mapping[str, Callable[..., Pattern]]
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
        columns = np.empty((5, sum(step.num_sends for step in pattern.steps)), dtype=np.int32)
        first = 0
        for number, step in enumerate(pattern.steps, 1):
            here = slice(first, first + step.num_sends)
            columns[0, here] = number
            for column, values in zip(columns[1:], np.broadcast_arrays(*step), strict=True):
                column[here] = values.ravel()
            first = here.stop
        at, source, target, item, adds = columns
        ends = source, target, item, adds.astype(bool)
        return Messages(num_ranks, made, pattern.num_items, at, *ends)

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
        made = self._pattern(collective, num_ranks, options)
        return Pattern(made.num_items, [step for step in made.steps if step.num_sends])

    def _pattern(self, collective: str, num_ranks: int, options: Mapping[str, Any]) -> Pattern:
        if collective in self.makers:
            takes = self.takes.get(collective)
            if takes is not None and not _FITS[takes](num_ranks):
                raise ValueError(f"{num_ranks} ranks: {self.description} takes {takes}")
            return self.makers[collective](num_ranks, **options)
        turned = {"reduce-scatter": "allgather", "reduce": "broadcast"}
        if collective in turned:
            return self._pattern(turned[collective], num_ranks, options).reversed()
        first = "reduce-scatter" if "allgather" in self.makers else "reduce"
        summed = self._pattern(first, num_ranks, options)
        spread = self._pattern(turned[first], num_ranks, options)
        return Pattern(summed.num_items, [*summed.steps, *spread.steps])


def ranks(num_ranks: int) -> Ints:
    """All ranks as a column, for rows of items."""
    return np.arange(num_ranks)[:, None]
