"""Which configuration the circuits hold for which messages of an iteration, on the clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from ocs_codesign.workload.reconfigured.break_even import break_even_s
from ocs_codesign.workload.reconfigured.clock import SwitchedIteration, fastest_held, formula_clock
from ocs_codesign.workload.reconfigured.search import Search, bound_s

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from ocs_codesign.workload.reconfigured.clock import Clock
    from ocs_codesign.workload.reconfigured.prices import ConfiguredJob


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
    job: ConfiguredJob,
    clock: Clock = formula_clock,
    on_progress: Callable[[int, int], None] | None = None,
    *,
    least: ConfiguredJob | None = None,
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

    >>> from ocs_codesign.cost import CostModel
    >>> from ocs_codesign.graphs.text import parse
    >>> from ocs_codesign.reconfigure.change import ReconfigurationCost
    >>> from ocs_codesign.workload.job_draft import JobDraft
    >>> from ocs_codesign.workload.prices import Level, Machine
    >>> from ocs_codesign.workload.reconfigured.prices import configured
    >>> draft = JobDraft(1, [4])
    >>> whole = draft.collective("allreduce", (0,), 8, {}, num_ranks=4, between=(0, 3))
    >>> pairs = draft.collective("allreduce", (0,), 24, {0: whole}, num_ranks=2, between=(0, 2))
    >>> rings = [parse(f"DirectedCirculant(4, ({step},))") for step in (1, 2)]
    >>> machine, change = Machine((Level(4, CostModel(0, 1)),)), ReconfigurationCost(5)
    >>> found = plan_iteration(configured(draft.graph(), machine, rings, change))
    >>> found.best.choice.tolist(), str(found.best.period_s), str(found.break_even_s)
    ([0, 1], '46', '12')
    """
    if not job.over_circuits.any():
        raise ValueError("no message of this job goes over circuits: there is nothing to change")
    search = Search(job, clock, on_progress)
    best = search.best()
    orders = [one for one in search.orders if one.instances is best.order] or search.orders
    # In a chain every message is alone on its links, and takes just what it is priced at.
    least_s = min(bound_s(job if one.is_chain else least or job, one) for one in orders)
    return ReconfiguredIteration(
        *(job, search.held, best, least_s, search.num_tried, search.all_tried),
        break_even_s(search, best),
    )
