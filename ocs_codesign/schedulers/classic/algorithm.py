"""Algorithm: what a classic algorithm makes, of how many ranks, from which options."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.collective import Collective

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ocs_codesign.messages import Messages
    from ocs_codesign.schedulers.classic.steps import Pattern

_ROOM = "ocs_codesign.schedulers.classic"
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

    >>> from ocs_codesign.schedulers.classic.registry import CLASSIC
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
            module, maker = self.makers[collective].split(".")
            made: Pattern = getattr(import_module(f"{_ROOM}.{module}"), maker)(num_ranks, **options)
            return made
        turned = {"reduce-scatter": "allgather", "reduce": "broadcast"}
        if collective in turned:
            return self._pattern(turned[collective], num_ranks, options).reversed()
        first = "reduce-scatter" if "allgather" in self.makers else "reduce"
        summed = self._pattern(first, num_ranks, options)
        spread = self._pattern(turned[first], num_ranks, options)
        return summed.then(spread)
