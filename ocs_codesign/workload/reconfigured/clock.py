"""Sequences of configurations on the clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, final

from ocs_codesign.workload.period import Steady, steady
from ocs_codesign.workload.reconfigured.inserting import cuts_of, with_changes

if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction

    import numpy as np
    from numpy.typing import NDArray

    from ocs_codesign.workload.reconfigured.prices import ConfiguredJob


class Clock(Protocol):
    """Whatever finds the steady state of a job where ``order[i]`` finds ``choice[i]``."""

    def __call__(
        self, job: ConfiguredJob, order: NDArray[np.int64], choice: NDArray[np.int64]
    ) -> Steady:
        """The steady state."""
        ...


def formula_clock(
    job: ConfiguredJob, order: NDArray[np.int64], choice: NDArray[np.int64]
) -> Steady:
    """The steady state where messages take what their configurations cost."""
    return steady(with_changes(job, order, choice))


@final
@dataclass(frozen=True, slots=True, eq=False)
class SwitchedIteration:
    """Configurations of messages, in order (both int64), and the steady state that they lead to."""

    order: NDArray[np.int64]
    choice: NDArray[np.int64]
    steady: Steady

    @property
    def num_changes(self) -> int:
        """Changes of circuits in an iteration."""
        return len(cuts_of(self.choice))

    @property
    def period_s(self) -> Fraction:
        """Seconds from one iteration to the next."""
        return self.steady.period_s


def fastest_held(held: Iterable[SwitchedIteration | None]) -> int | None:
    """The position of the fastest, the first one of equals; None if there is none."""
    known = [(one.period_s, at) for at, one in enumerate(held) if one is not None]
    return min(known)[1] if known else None
