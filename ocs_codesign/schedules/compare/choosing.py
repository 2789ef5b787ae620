"""What build makes on a network: the fastest for a message on the clock that compare goes by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.core.progress import counted
from ocs_codesign.schedules.compare.comparison import Comparison
from ocs_codesign.schedules.compare.play import Entrant, check_making, entrants, made, play
from ocs_codesign.schedules.exchange.paths import ENOUGH
from ocs_codesign.schedules.registry import SCHEDULERS, Made, made_by
from ocs_codesign.schedules.simulate.clocked import MAX_CLOCKED_SENDS, clocked_t_b

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ocs_codesign.schedules.compare.contest import Contest
    from ocs_codesign.schedules.registry import Task


def fastest(
    contest: Contest, maker: str | None = None, limits: Mapping[str, Any] | None = None
) -> tuple[Made, Comparison]:
    """The fastest schedule for the contest's largest message, and how all others did.

    The contest is one of designs. ``maker`` is the only scheduler asked if there is one, and
    ``limits`` of it hold in place of what is tried else. Raises ValueError if nobody makes one.
    """
    wanted = {
        Entrant(one.maker, tuple({**dict(one.options), **(limits or {})}.items()), one.is_classic)
        for one in entrants(contest)
        if one.has_plan and maker in (None, one.maker)
    }
    order = sorted(wanted, key=lambda one: one.label)
    order += [one for one in entrants(contest) if one.is_library]
    found = Comparison(
        contest, tuple(play(contest, one) for one in counted(order)), contest.floor_s()
    )
    best = found.best(len(contest.sizes_bytes) - 1)
    if best is None:
        raise RuntimeError("a comparison has somebody with a time")
    return made(contest, best.entrant), found


def of_least_t_b(task: Task) -> Made:
    """The schedule of least t_b, then of fewest steps, that any scheduler makes of a task.

    Of those of one t_b on switches all that the clock finds within ENOUGH of it go before others.
    Raises ValueError with the reasons if there is none.

    >>> from ocs_codesign.core.collective import Collective
    >>> from ocs_codesign.core.networks.builders import star
    >>> from ocs_codesign.schedules.registry import Task
    >>> network = star(5, 100)
    >>> task = Task(network.topology(), Collective.ALLTOALL, network=network)
    >>> of_least_t_b(task).schedule.synchronous_cost()
    Cost(steps=1, t_b=Fraction(4, 5))
    """
    found, network, why = [], task.network, ""
    has_switches = network is not None and network.num_hosts < network.num_nodes
    num_hosts = task.topology.num_nodes if network is None else network.num_hosts
    degree = None if has_switches else task.topology.degree
    for name, scheduler in SCHEDULERS.items():
        fits = scheduler.knows_switches or not (has_switches or scheduler.needs_recipe)
        if fits and scheduler.can_make(task.collective):
            try:
                check_making(name, task.collective, num_hosts, degree)
                one = made_by(name, task)
                if one.schedule is not None:
                    found.append((one.schedule.synchronous_cost(), one))
            except ValueError as error:
                why = f"; by {name}: {error}"
    if not found:
        raise ValueError(f"no scheduler makes {task.collective.text} on this network{why}")
    least = min(cost.t_b for cost, _ in found)
    best = sorted((one for one in found if one[0].t_b == least), key=lambda one: one[0].steps)
    schedules = [one.schedule for _, one in best if one.schedule is not None]
    if network is None or not has_switches or len(best) < 2:
        return best[0][1]
    if max(len(schedule.link) for schedule in schedules) > MAX_CLOCKED_SENDS:
        return best[0][1]
    times = [max(float(least * ENOUGH), clocked_t_b(network, each)) for each in schedules]
    return best[times.index(min(times))][1]
