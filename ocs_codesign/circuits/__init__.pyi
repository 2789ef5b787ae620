"""Made by .ci/public_names.py: names and where they are defined."""

from ocs_codesign.circuits.change import Change as Change
from ocs_codesign.circuits.demand.matrix import DemandMatrix as DemandMatrix
from ocs_codesign.circuits.demand.planner import plan_demand as plan_demand
from ocs_codesign.circuits.demand.split import changing_circuits as changing_circuits
from ocs_codesign.circuits.demand.split import port_splits as port_splits
from ocs_codesign.circuits.frontier import reconfigured_frontier as reconfigured_frontier
from ocs_codesign.circuits.legs.plan import plan_legs as plan_legs
from ocs_codesign.circuits.legs.trace import plan_trace as plan_trace
from ocs_codesign.circuits.phases import phased_alltoall as phased_alltoall
from ocs_codesign.circuits.planes.plan import plan_planes as plan_planes
from ocs_codesign.circuits.planes.problem import PlaneProblem as PlaneProblem
from ocs_codesign.circuits.programs.designs import build_sequence as build_sequence
from ocs_codesign.circuits.programs.designs import program_time as program_time
from ocs_codesign.circuits.sequences import search_sequences as search_sequences
