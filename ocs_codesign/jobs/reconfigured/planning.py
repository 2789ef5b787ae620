"""Which configuration the circuits hold for which messages of an iteration, on the clock."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

from ocs_codesign.jobs.reconfigured.clock import SwitchedIteration, fastest_held, formula_clock
from ocs_codesign.jobs.reconfigured.search import Search, bound_s

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.jobs.reconfigured.clock import Clock
    from ocs_codesign.jobs.reconfigured.prices import ConfiguredJob


# From which delay of a change on it is as fast to hold one configuration throughout.


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


@final
@dataclass(frozen=True, slots=True, eq=False)
class ReconfiguredIteration:
    """A job on circuits: held configurations beside the best sequence of them that was found.

    ``held`` has the steady state of every configuration, None where some message needs another.
    ``best`` is never slower than any of them. No sequence with the messages in the order of
    ``best`` is below ``bound_s``. ``num_tried`` sequences were put on the clock; ``all_tried``: all
    that there are in that order. ``break_even_s`` is the delay of every change from which on
    holding is as fast; None where no change pays at any delay, or nothing can be held.
    """

    job: ConfiguredJob
    held: tuple[SwitchedIteration | None, ...]
    best: SwitchedIteration
    bound_s: Fraction
    num_tried: int
    all_tried: bool
    break_even_s: Fraction | None

    @property
    def best_held(self) -> int | None:
        """The fastest configuration to hold; None if none serves all messages."""
        return fastest_held(self.held)

    @property
    def is_proven(self) -> bool:
        """Whether no sequence in this order is faster."""
        return self.all_tried or self.best.period_s == self.bound_s


def plan_iteration(
    job: ConfiguredJob, clock: Clock = formula_clock, *, least: ConfiguredJob | None = None
) -> ReconfiguredIteration:
    """The best sequence of configurations of an iteration, what holding one takes, and break-even.

    Messages keep the order of the fastest held configuration, or gradients follow all others. The
    least sum of messages and changes, less what computation between messages hides, is found by a
    dynamic program round the iteration, for the delay as it is and for others, since beside
    computation a change may cost less. These sequences go on the clock, then those that move one
    change of the best, or if there are few all sequences. Where everything follows in a chain the
    plan is optimal, and the bound proves it. The bound is that of the job ``least``, if on another
    ``clock`` messages may take less than their prices. Raises ValueError if no message goes over
    circuits.

    >>> from ocs_codesign.core.cost import CostModel
    >>> from ocs_codesign.graphs.text import parse
    >>> from ocs_codesign.circuits.change import Change
    >>> from ocs_codesign.jobs.job_draft import JobDraft
    >>> from ocs_codesign.jobs.prices import Level, Machine
    >>> from ocs_codesign.jobs.reconfigured.prices import configured
    >>> draft = JobDraft(1, [4])
    >>> whole = draft.collective("allreduce", (0,), 8, {}, num_ranks=4, between=(0, 3))
    >>> pairs = draft.collective("allreduce", (0,), 24, {0: whole}, num_ranks=2, between=(0, 2))
    >>> rings = [parse(f"DirectedCirculant(4, ({step},))") for step in (1, 2)]
    >>> machine, change = Machine((Level(4, CostModel(0, 1)),)), Change(5)
    >>> found = plan_iteration(configured(draft.graph(), machine, rings, change))
    >>> found.best.choice.tolist(), str(found.best.period_s), str(found.break_even_s)
    ([0, 1], '46', '12')
    """
    if not job.over_circuits.any():
        raise ValueError("no message of this job goes over circuits: there is nothing to change")
    search = Search(job, clock)
    best = search.best()
    orders = [one for one in search.orders if one.instances is best.order] or search.orders
    # In a chain every message is alone on its links, and takes just what it is priced at.
    least_s = min(bound_s(job if one.is_chain else least or job, one) for one in orders)
    return ReconfiguredIteration(
        *(job, search.held, best, least_s, search.num_tried, search.all_tried),
        break_even_s(search, best),
    )
