"""Steps of a classic algorithm, as broadcast arrays of who sends what to whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.schedule import Messages

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.core.collective import Collective

    Ints = NDArray[np.int64]


MAX_SENDS = 2**25
"""Most sends of an algorithm that are made: some gigabytes."""


def check_sends(num_sends: int) -> None:
    """ValueError for more sends than are made."""
    if num_sends > MAX_SENDS:
        raise ValueError(f"{num_sends:,} sends: at most {MAX_SENDS:,} are made")


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

    def then(self, other: Pattern) -> Pattern:
        """These steps and then others of the same items."""
        return Pattern(self.num_items, [*self.steps, *other.steps])

    def without_idle_steps(self) -> Pattern:
        """The steps in which something is sent."""
        return Pattern(self.num_items, [step for step in self.steps if step.num_sends])

    def messages(self, num_ranks: int, collective: Collective) -> Messages:
        """The rows of all sends."""
        num_sends = sum(step.num_sends for step in self.steps)
        check_sends(num_sends)
        columns = np.empty((5, num_sends), dtype=np.int32)
        first = 0
        for number, step in enumerate(self.steps, 1):
            here = slice(first, first + step.num_sends)
            columns[0, here] = number
            for column, values in zip(columns[1:], np.broadcast_arrays(*step), strict=True):
                column[here] = values.ravel()
            first = here.stop
        at, source, target, item, adds = columns
        ends = source, target, item, adds.astype(bool)
        return Messages(num_ranks, collective, self.num_items, at, *ends)


def ranks(num_ranks: int) -> Ints:
    """All ranks as a column, for rows of items."""
    return np.arange(num_ranks)[:, None]
