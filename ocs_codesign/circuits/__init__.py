"""When circuits change: what a change costs, when it pays, and plans that change.

change says what a reconfiguration takes and what overlaps with it; legs/ decides when to hold and
when to change over legs of work (one dynamic programme, with break-even points), planes/ shares
changing planes among parts of a collective, demand/ covers a matrix of demand, programs/ are
schedules whose circuits change, sequences the best cycles of matchings.

Read change, then legs.plan and legs.options; each folder after it is one question.

>>> import ocs_codesign as oc
>>> float(oc.Change(1e-5).fixed_s)
1e-05
"""

from __future__ import annotations

from ocs_codesign.core.registry import offer

__getattr__, __dir__, __all__ = offer(
    __name__,
    {
        "change": "Change",
        "demand.matrix": "DemandMatrix",
        "demand.planner": "plan_demand",
        "demand.split": "changing_circuits port_splits",
        "frontier": "reconfigured_frontier",
        "legs.plan": "plan_legs",
        "legs.trace": "plan_trace",
        "phases": "phased_alltoall",
        "planes.plan": "plan_planes",
        "planes.problem": "PlaneProblem",
        "programs.designs": "build_sequence program_time",
        "sequences": "search_sequences",
    },
)
