"""Plans of every kind: schedules of all collectives, weighted, over switches, and messages."""

from __future__ import annotations

from functools import cache

import numpy as np
from alltoall_samples import bipartite, two_way_ring

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.demand import COPY, Demand
from ocs_codesign.core.plans import Plan
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.topology import Topology
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.classic.registry import CLASSIC
from ocs_codesign.schedules.design import build


def _weighted() -> Schedule:
    """An allgather of unequal shards on three nodes, links of unequal speed and one unused."""
    topology = Topology(3, [0, 1, 2, 0], [1, 2, 0, 1], [2, 1, 1, 3])
    collective = Collective("allgather", sizes=(2, 1, 3))
    columns = (
        [0, 1, 2, 2, 0, 1],
        [0] * 6,
        [2, 1, 3, 3, 2, 1],
        [0, 1, 2, 0, 1, 2],
        [1, 1, 1, 2, 2, 2],
    )
    return Schedule(topology, collective, 3, *columns)


def _through_a_switch() -> Schedule:
    """A broadcast from host 0 to host 1 over a switch, which is node 2."""
    topology = Topology(3, [0, 2, 1, 2], [2, 1, 2, 0])
    collective = Collective("broadcast", 0)
    columns = [0, 0], [0, 0], [1, 1], [0, 1], [1, 1]
    return Schedule(topology, collective, 1, *columns, num_hosts=2)


def _of_no_name() -> Schedule:
    """One item for two of three hosts."""
    topology = Topology(3, [0, 1, 2], [1, 2, 0])
    demand = Demand(3, [COPY], [0], [0, 1], [1], [0], [0, 2], [1, 2], 1)
    return Schedule(topology, demand, 1, [0, 0], [0, 0], [1, 1], [0, 1], [1, 2])


def _in_groups() -> Schedule:
    """Two allgathers of two ranks each, side by side."""
    topology = Topology(4, [0, 1, 2, 3], [1, 0, 3, 2])
    collective = Collective("allgather", groups=((0, 1), (2, 3)))
    columns = [0, 1, 2, 3], [0] * 4, [1] * 4, [0, 1, 2, 3], [1] * 4
    return Schedule(topology, collective, 1, *columns)


@cache
def plans() -> dict[str, Plan]:
    """Plans by name, all of them right."""
    found: dict[str, Plan] = {
        "weighted": _weighted(),
        "switch": _through_a_switch(),
        "custom": _of_no_name(),
        "groups": _in_groups(),
        "all-to-all": two_way_ring(5),
        "bipartite": bipartite(3),
    }
    for name in ("allgather", "reduce-scatter", "allreduce"):
        found[name] = build(parse("Torus((3,3))"), name).schedule
        found[f"{name} over parallel links"] = build(parse("UniRing(2,5)"), name).schedule
        found[f"ring {name}"] = CLASSIC["ring"].messages(name, 5)
    found["pat"] = CLASSIC["pat"].messages("allgather", 7)
    return found


CARRIED_BY_CSV = tuple(name for name in plans() if name not in ("weighted", "custom", "groups"))


def same(one: Plan, other: Plan) -> bool:
    """Whether two plans are equal, switches and speeds included."""
    if isinstance(one, Schedule) and isinstance(other, Schedule):
        speeds = one.topology.speeds(), other.topology.speeds()
        return one == other and one.num_hosts == other.num_hosts and np.array_equal(*speeds)
    return one == other
