"""Reconfiguration: schedules that change circuits, what the change costs and when it pays."""

from __future__ import annotations

from ocs_codesign.reconfigure.change import ReconfigurationCost
from ocs_codesign.reconfigure.demand.baselines import DemandBaselines, demand_baselines
from ocs_codesign.reconfigure.demand.effort import DemandEffort
from ocs_codesign.reconfigure.demand.matrix import DemandMatrix
from ocs_codesign.reconfigure.demand.plan import DemandPlan, check_demand_plan
from ocs_codesign.reconfigure.demand.planner import plan_demand
from ocs_codesign.reconfigure.frontier.reconfigured import (
    AllreduceGain,
    ReconfiguredFrontier,
    most_steps_saved,
    reconfigured_frontier,
)
from ocs_codesign.reconfigure.frontier.sources import (
    ReconfiguredCandidate,
)
from ocs_codesign.reconfigure.hold.break_even import BreakEven, break_even
from ocs_codesign.reconfigure.hold.check import PlanVerdict, check_plan
from ocs_codesign.reconfigure.hold.circuits import (
    changed_circuits,
    first_costs,
    switching_costs,
)
from ocs_codesign.reconfigure.hold.dynamic_program import switch_plan
from ocs_codesign.reconfigure.hold.inside import InsideBound, inside_bound
from ocs_codesign.reconfigure.hold.lines import BreakEvenPiece, FactorRange
from ocs_codesign.reconfigure.hold.options import FabricOption, recipe_option, recipe_options
from ocs_codesign.reconfigure.hold.paying import paying
from ocs_codesign.reconfigure.hold.plan import Certificate, SwitchPlan, SwitchRun, price_plan
from ocs_codesign.reconfigure.hold.policies import (
    Promise,
    greedy_plan,
    online_plan,
    promise,
    static_plan,
)
from ocs_codesign.reconfigure.hold.problem import SwitchProblem
from ocs_codesign.reconfigure.hold.trace import Job, Trace
from ocs_codesign.reconfigure.hold.trace_plan import TracePlan, plan_trace
from ocs_codesign.reconfigure.phases.alltoall import (
    PhasedAlltoall,
    phased_alltoall,
    sequence_bound,
    tree_bound,
)
from ocs_codesign.reconfigure.phases.message_times import (
    MessageRange,
    SwitchedCost,
    break_even_delta_s,
    paying_messages,
)
from ocs_codesign.reconfigure.planes.plan import (
    PLANE_METHODS,
    plan_of_usage,
    plan_planes,
)
from ocs_codesign.reconfigure.planes.problem import PlanePlan, PlaneProblem
from ocs_codesign.reconfigure.planes.static import static_plan_of_planes
from ocs_codesign.reconfigure.planes.timeline import Activity, Interval, Timeline
from ocs_codesign.reconfigure.planes.timeline_check import TimelineWitness, check_timeline
from ocs_codesign.reconfigure.program.designs import (
    ProgramDesign,
    build_sequence,
    verified_program,
)
from ocs_codesign.reconfigure.program.patterns import build_direct, build_halving_doubling
from ocs_codesign.reconfigure.program.program_times import ProgramTime, program_time
from ocs_codesign.reconfigure.program.wiring import Wired, wire
from ocs_codesign.reconfigure.sequences.generators import direct_sequence, direct_time
from ocs_codesign.reconfigure.sequences.search import (
    FoundSequence,
    SequenceEffort,
    search_sequences,
)
from ocs_codesign.reconfigure.step_matched import (
    MATCHED,
    MatchedCollective,
    MatchedStep,
    ReusePlan,
    reuse_plan,
)

__all__ = [
    "MATCHED",
    "PLANE_METHODS",
    "Activity",
    "AllreduceGain",
    "BreakEven",
    "BreakEvenPiece",
    "Certificate",
    "DemandBaselines",
    "DemandEffort",
    "DemandMatrix",
    "DemandPlan",
    "FabricOption",
    "FactorRange",
    "FoundSequence",
    "InsideBound",
    "Interval",
    "Job",
    "MatchedCollective",
    "MatchedStep",
    "MessageRange",
    "PhasedAlltoall",
    "PlanVerdict",
    "PlanePlan",
    "PlaneProblem",
    "ProgramDesign",
    "ProgramTime",
    "Promise",
    "ReconfigurationCost",
    "ReconfiguredCandidate",
    "ReconfiguredFrontier",
    "ReusePlan",
    "SequenceEffort",
    "SwitchPlan",
    "SwitchProblem",
    "SwitchRun",
    "SwitchedCost",
    "Timeline",
    "TimelineWitness",
    "Trace",
    "TracePlan",
    "Wired",
    "break_even",
    "break_even_delta_s",
    "build_direct",
    "build_halving_doubling",
    "build_sequence",
    "changed_circuits",
    "check_demand_plan",
    "check_plan",
    "check_timeline",
    "demand_baselines",
    "direct_sequence",
    "direct_time",
    "first_costs",
    "greedy_plan",
    "inside_bound",
    "most_steps_saved",
    "online_plan",
    "paying",
    "paying_messages",
    "phased_alltoall",
    "plan_demand",
    "plan_of_usage",
    "plan_planes",
    "plan_trace",
    "price_plan",
    "program_time",
    "promise",
    "recipe_option",
    "recipe_options",
    "reconfigured_frontier",
    "reuse_plan",
    "search_sequences",
    "sequence_bound",
    "static_plan",
    "static_plan_of_planes",
    "switch_plan",
    "switching_costs",
    "tree_bound",
    "verified_program",
    "wire",
]
