"""When circuits change: what a change costs, when it pays, and plans that change.

change says what a reconfiguration takes and what overlaps with it; hold/ decides when to hold and
when to change along a trace (a dynamic programme with break-even points), planes/ shares changing
planes among parts of a collective, demand/ covers a matrix of demand, programs/ are schedules whose
circuits change, sequences the best cycles of matchings.

Read change, then hold.plan and hold.options; each folder after it is one question.

>>> import ocs_codesign as oc
>>> float(oc.ReconfigurationCost(1e-5).fixed_s)
1e-05
"""

from __future__ import annotations

from ocs_codesign.core.registry import offer

__getattr__, __dir__, __all__ = offer(
    __name__,
    {
        "change": "ReconfigurationCost",
        "demand.matrix": "DemandMatrix",
        "demand.planner": "plan_demand",
        "frontier": "reconfigured_frontier",
        "hold.plan": "switch_plan",
        "hold.trace": "plan_trace",
        "phases": "phased_alltoall",
        "planes.plan": "plan_planes",
        "planes.problem": "PlaneProblem",
        "programs.designs": "build_direct build_halving_doubling build_sequence program_time",
        "sequences": "search_sequences",
    },
)
