"""From which delay of a change on it is as fast to hold one configuration throughout."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from ocs_codesign.workload.reconfigured.clock import SwitchedIteration, fastest_held
from ocs_codesign.workload.reconfigured.search import Search

if TYPE_CHECKING:
    from collections.abc import Callable

_ROUNDS = 6
_MOST_CLOCKED, _NODES_CLOCKED = 40, 4_000_000
_CLOSE = Fraction(1, 1_000_000)


def break_even_s(search: Search, best: SwitchedIteration) -> Fraction | None:
    """Seconds of every change from which on holding is as fast as any sequence that was found.

    Of one sequence that is where its period, which grows with the delay, meets the held one. There
    a new plan is made, whose changes may be fewer, until none is faster. None if changes do not pay
    even if they take no time, or if no configuration serves all messages.
    """
    held = fastest_held(search.held)
    lead = None if held is None else search.held[held]
    if lead is None:
        return None
    delay = Fraction(0)
    found: SwitchedIteration | None = best
    if best.period_s == lead.period_s:
        found = _at(search, delay).best()
    reached = None
    for _ in range(_ROUNDS):
        if found is None or found.period_s >= lead.period_s:
            break
        reached = _meets(search, found, lead.period_s, delay)
        if reached <= delay and delay:
            break
        delay = reached
        found = _at(search, delay).planned()
    return reached


def _at(search: Search, delay_s: Fraction) -> Search:
    return Search(search.job.with_delay(delay_s), search.clock, given=search)


def _meets(
    search: Search, found: SwitchedIteration, held_s: Fraction, delay_s: Fraction
) -> Fraction:
    """The delay at which a sequence takes as long as what is held, to a tick or a millionth."""
    number = next(at for at, one in enumerate(search.orders) if one.instances is found.order)

    def excess(delay: Fraction) -> Fraction:
        clocked = _at(search, delay).clocked(number, found.choice)
        return held_s if clocked is None else clocked.period_s - held_s

    tick_s = search.job.graph.tick_s
    most = max(8, min(_MOST_CLOCKED, _NODES_CLOCKED // search.job.graph.num_nodes))
    return _root(excess, delay_s, held_s / found.num_changes, tick_s, most)


def _root(
    excess: Callable[[Fraction], Fraction], low: Fraction, high: Fraction, tick: Fraction, most: int
) -> Fraction:
    """Where a piecewise linear, growing function that is below 0 at ``low`` comes to 0.

    Secants, which end on the line that crosses 0, and halves where they come on slowly.
    """
    below, above = excess(low), excess(high)
    for turn in range(most):
        if above == 0 or high - low <= max(tick, _CLOSE * high):
            break
        middle = low - below * (high - low) / (above - below) if turn % 3 < 2 else (low + high) / 2
        middle = min(max(round(middle / tick) * tick, low + tick), high)
        value = excess(middle)
        if value < 0:
            low, below = middle, value
        else:
            high, above = middle, value
    return high
