"""Plans of traces: which design a fabric holds for which jobs, and from when on switching pays."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.reconfigure.change import ReconfigurationCost
from ocs_codesign.reconfigure.hold.break_even import MAX_SOLVES, BreakEven, break_even
from ocs_codesign.reconfigure.hold.circuits import changed_circuits, dead_times
from ocs_codesign.reconfigure.hold.dynamic_program import switch_plan
from ocs_codesign.reconfigure.hold.inside import InsideBound, inside_bounds
from ocs_codesign.reconfigure.hold.paying import ceases_to_pay, paying
from ocs_codesign.reconfigure.hold.policies import (
    Promise,
    greedy_plan,
    online_plan,
    promise,
    static_plan,
)
from ocs_codesign.reconfigure.hold.problem import SwitchProblem
from ocs_codesign.reconfigure.hold.ticks import is_finite
from ocs_codesign.verification.plans import check_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.cost import CostModel
    from ocs_codesign.reconfigure.hold.options import FabricOption
    from ocs_codesign.reconfigure.hold.plan import SwitchPlan
    from ocs_codesign.reconfigure.hold.trace import Trace, TraceSteps
    from ocs_codesign.reconfigure.ranges import OpenRange

_WORK = 10**8
"""States that the search for break-even factors may look at: some seconds of it."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class TracePlan:
    """A trace on a fabric that can hold several designs, planned in hindsight and without.

    ``problem`` has a topology for every option and a step for every collective, in seconds.
    ``offline`` is the optimum with its certificate; ``online`` the work-function policy, of which
    ``promise`` says what is proven; ``static`` the best option to hold throughout; ``greedy`` takes
    the best one for every job. The last three are None where there is no such plan.

    ``break_even`` scales all dead times by a factor: a ``fixed_s`` of ``factor_s`` times the
    factor, and what a circuit adds in proportion. ``paying`` are the factors at which the optimum
    beats every option that is held throughout; where the search was stopped, ``ceasing`` says
    between which two that ends. ``inside`` says, for every collective made of
    allgathers, what switching inside it could gain on the quickest option that is
    bandwidth-optimal.
    """

    trace: Trace
    steps: TraceSteps
    options: tuple[FabricOption, ...]
    model: CostModel
    reconfiguration: ReconfigurationCost
    problem: SwitchProblem
    offline: SwitchPlan
    online: SwitchPlan | None
    promise: Promise | None
    static: SwitchPlan | None
    greedy: SwitchPlan | None
    break_even: BreakEven
    factor_s: Fraction
    paying: tuple[OpenRange, ...]
    ceasing: OpenRange | None
    inside: tuple[InsideBound, ...]

    @property
    def pays(self) -> bool:
        """Whether switching beats every option that is held throughout."""
        return self.static is None or self.offline.total < self.static.total

    @property
    def online_ratio(self) -> Fraction | None:
        """Time of collectives and switches of the online policy, relative to the optimum."""
        if self.online is None or not self.offline.total:
            return None
        return self.online.total / self.offline.total


def plan_trace(
    trace: Trace,
    options: Sequence[FabricOption],
    model: CostModel,
    reconfiguration: ReconfigurationCost,
    *,
    start: int | None = None,
    max_solves: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> TracePlan:
    """Which option to hold for every job of a trace, exactly.

    The whole fabric stops for a switch, except for what a gap hides. ``start`` is the option that
    is held before the trace; None if none is: then the first one pays too with
    ``reconfiguration.cold_start``, and is up already without. ``max_solves`` limits the search for
    break-even factors, of which ``on_progress`` is told. Raises ValueError for no options, a job
    that none of them can serve, and options of several sizes or without a topology where what a
    circuit adds has to be counted.

    >>> from ocs_codesign.cost import Cost, CostModel
    >>> from ocs_codesign.reconfigure.hold.trace import Job, Trace
    >>> from ocs_codesign.reconfigure.hold.options import FabricOption
    >>> gather, exchange = (Cost(0, Fraction(time)) for time in (100, 180))
    >>> options = [FabricOption("one", gather, gather), FabricOption("other", alltoall=exchange)]
    >>> trace = Trace([Job("allgather", 1, gap_after_s=4), Job("alltoall", 1)], repeat=2)
    >>> plan = plan_trace(trace, options, CostModel(0, 1), ReconfigurationCost(10), start=0)
    >>> plan.offline.choice.tolist(), str(plan.offline.switching), str(plan.offline.hidden)
    ([0, 1, 0, 1], '22', '8')
    """
    steps = trace.steps()
    costs = _seconds(steps, options, model)

    def problem_with(cost: ReconfigurationCost) -> SwitchProblem:
        delta, first = _dead_times(options, cost)
        gaps = [demand.gap_s for demand in steps.demands]
        entry = None if start is not None else first
        return SwitchProblem(costs, delta, start=start, first=entry, gaps=gaps, rows=steps.rows)

    problem = problem_with(reconfiguration)
    scaled, factor_s, here = problem, reconfiguration.fixed_s, Fraction(1)
    if not reconfiguration.per_circuit_s:  # then a factor can be the dead time itself
        unit = ReconfigurationCost(1, cold_start=reconfiguration.cold_start)
        scaled, factor_s, here = problem_with(unit), Fraction(1), reconfiguration.fixed_s
    offline = switch_plan(problem)
    witness = check_plan(offline)
    if witness is not None:
        raise RuntimeError(f"the plan of the trace fails: {witness}")
    limit = _max_solves(problem) if max_solves is None else max_solves
    found = break_even(scaled, around=here, max_solves=limit, on_progress=on_progress)
    end = found.pieces[-1].end
    return TracePlan(
        trace,
        steps,
        tuple(options),
        model,
        reconfiguration,
        problem,
        offline,
        online_plan(problem),
        promise(problem),
        static_plan(problem),
        greedy_plan(problem),
        found,
        factor_s,
        paying(found),
        None if end is None else ceases_to_pay(scaled, end),
        inside_bounds(options, trace.collectives, model, reconfiguration),
    )


def _seconds(steps: TraceSteps, options: Sequence[FabricOption], model: CostModel) -> NDArray[Any]:
    """Seconds of every demand on every option, infinity where it is not served."""
    if not options:
        raise ValueError("there is no design to choose from: at least one is needed")
    times = np.full((len(steps.demands), len(options)), np.inf, dtype=object)
    for row, demand in enumerate(steps.demands):
        for at, option in enumerate(options):
            cost = option.cost(demand.collective)
            if cost is not None:
                times[row, at] = cost.time_s(model, demand.message_bytes)
    served = is_finite(times).any(axis=1)
    if not served.all():
        row = int(np.argmin(served))
        job = int(np.argmax(steps.rows == row)) + 1
        raise ValueError(
            f"job {job} is {steps.demands[row].collective.name}, which none of the "
            f"{len(options)} designs can serve"
        )
    return times


def _dead_times(
    options: Sequence[FabricOption], cost: ReconfigurationCost
) -> tuple[Fraction | NDArray[Any], NDArray[Any]]:
    """What switches between options cost, and the first configuration; one number if they agree."""
    topologies = [option.topology for option in options if option.topology is not None]
    if len(topologies) < len(options):
        if cost.per_circuit_s:
            bare = next(option.name for option in options if option.topology is None)
            raise ValueError(f"{bare} has no topology: its circuits cannot be counted")
        return cost.fixed_s, dead_times(np.full(len(options), int(cost.cold_start)), cost)
    made = np.array([topology.num_links for topology in topologies]) * cost.cold_start
    delta, first = dead_times(changed_circuits(topologies), cost), dead_times(made, cost)
    others = set(delta[~np.eye(len(options), dtype=bool)].tolist())
    return (others.pop() if len(others) == 1 else delta), first


def _max_solves(problem: SwitchProblem) -> int:
    """Plans that are made for break-even factors within some seconds."""
    many = problem.num_topologies
    states = problem.num_steps * many
    each = states if problem.is_uniform else states * (1 + many // 32)
    return min(MAX_SOLVES, max(_WORK // each, 16))
