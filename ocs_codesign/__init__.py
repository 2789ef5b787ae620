"""Co-design of topology and collective schedule for optically switched direct-connect clusters.

>>> import ocs_codesign as oc
>>> recipe = oc.parse("Line(CompleteBipartite(4))")
>>> oc.measure(recipe).cost
Cost(steps=3, t_b=Fraction(1, 1))
>>> oc.verify(oc.bfb(recipe.topology(), "allreduce")).cost
Cost(steps=6, t_b=Fraction(2, 1))

Names are loaded when they are first used, so importing the package is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ocs_codesign.offered import NAMES_BY_MODULE

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ocs_codesign.bounds import bound as bound
    from ocs_codesign.bounds import hop_sum as hop_sum
    from ocs_codesign.bounds import moore_steps as moore_steps
    from ocs_codesign.bounds import topology_bound as topology_bound
    from ocs_codesign.bundle.read import read_bundle as read_bundle
    from ocs_codesign.bundle.verify import check_bundle as check_bundle
    from ocs_codesign.circuits import CircuitProgram as CircuitProgram
    from ocs_codesign.collective import Collective as Collective
    from ocs_codesign.cost import Cost as Cost
    from ocs_codesign.cost import CostModel as CostModel
    from ocs_codesign.demand import Demand as Demand
    from ocs_codesign.demand import demand_of as demand_of
    from ocs_codesign.design import Design as Design
    from ocs_codesign.design import Known as Known
    from ocs_codesign.design import build as build
    from ocs_codesign.design import build_topology as build_topology
    from ocs_codesign.design import measure as measure
    from ocs_codesign.design import measure_topology as measure_topology
    from ocs_codesign.design import predict as predict
    from ocs_codesign.fabric.deployments.day_two import extended as extended
    from ocs_codesign.fabric.deployments.day_two import repaired as repaired
    from ocs_codesign.fabric.deployments.day_two import restored as restored
    from ocs_codesign.fabric.deployments.day_two import rewired as rewired
    from ocs_codesign.fabric.deployments.day_two import torn_down as torn_down
    from ocs_codesign.fabric.deployments.deploy import deploy as deploy
    from ocs_codesign.fabric.deployments.deployment import Deployment as Deployment
    from ocs_codesign.fabric.deployments.deployment import Failures as Failures
    from ocs_codesign.fabric.deployments.deployment import NamedRecipe as NamedRecipe
    from ocs_codesign.fabric.description import Fabric as Fabric
    from ocs_codesign.fabric.embed.embedding import embed as embed
    from ocs_codesign.fabric.facts import fabric_facts as fabric_facts
    from ocs_codesign.fabric.infeasible import InfeasibleError as InfeasibleError
    from ocs_codesign.fabric.light import topology_of as topology_of
    from ocs_codesign.fabric.repairs.repair import repair as repair
    from ocs_codesign.fabric.rewiring.hosts import free_rewiring as free_rewiring
    from ocs_codesign.fabric.rewiring.minimum import minimum_rewiring as minimum_rewiring
    from ocs_codesign.fabric.selection.ranking import select as select
    from ocs_codesign.fabric.selection.workload import Workload as Workload
    from ocs_codesign.fabric.survival.losses import survivability as survivability
    from ocs_codesign.factorisation import factorise as factorise
    from ocs_codesign.forest import Forest as Forest
    from ocs_codesign.formats.cluster_files import load_cluster as load_cluster
    from ocs_codesign.formats.designs.design_files import load_design as load_design
    from ocs_codesign.formats.designs.design_files import save_design as save_design
    from ocs_codesign.formats.designs.design_files import save_program as save_program
    from ocs_codesign.formats.fabric.fabric_files import load_fabric as load_fabric
    from ocs_codesign.formats.fabric.fabric_files import save_fabric as save_fabric
    from ocs_codesign.formats.graphs.graph_files import import_graph as import_graph
    from ocs_codesign.formats.jobs.job_cluster_files import load_job_cluster as load_job_cluster
    from ocs_codesign.formats.jobs.job_files import load_job as load_job
    from ocs_codesign.formats.jobs.training_files import load_training as load_training
    from ocs_codesign.formats.workload import load_workload as load_workload
    from ocs_codesign.given import as_topology as as_topology
    from ocs_codesign.graphs.expansions.degree import Degree as Degree
    from ocs_codesign.graphs.expansions.line import Line as Line
    from ocs_codesign.graphs.expansions.product import Power as Power
    from ocs_codesign.graphs.expansions.product import Product as Product
    from ocs_codesign.graphs.expansions.reverse import Bidirected as Bidirected
    from ocs_codesign.graphs.expansions.reverse import Transpose as Transpose
    from ocs_codesign.graphs.families.cayley import Cayley as Cayley
    from ocs_codesign.graphs.families.dense import Complete as Complete
    from ocs_codesign.graphs.families.dense import CompleteBipartite as CompleteBipartite
    from ocs_codesign.graphs.families.dense import Hamming as Hamming
    from ocs_codesign.graphs.families.lift import Lift as Lift
    from ocs_codesign.graphs.families.named import Named as Named
    from ocs_codesign.graphs.families.rings import BiRing as BiRing
    from ocs_codesign.graphs.families.rings import Circulant as Circulant
    from ocs_codesign.graphs.families.rings import DirectedCirculant as DirectedCirculant
    from ocs_codesign.graphs.families.rings import Hypercube as Hypercube
    from ocs_codesign.graphs.families.rings import Torus as Torus
    from ocs_codesign.graphs.families.rings import UniRing as UniRing
    from ocs_codesign.graphs.families.shifts import DeBruijn as DeBruijn
    from ocs_codesign.graphs.families.shifts import GeneralizedKautz as GeneralizedKautz
    from ocs_codesign.graphs.families.shifts import Kautz as Kautz
    from ocs_codesign.graphs.families.shifts import ModifiedDeBruijn as ModifiedDeBruijn
    from ocs_codesign.graphs.groups.affine import Affine as Affine
    from ocs_codesign.graphs.groups.cyclic import Cyclic as Cyclic
    from ocs_codesign.graphs.groups.cyclic import DirectProduct as DirectProduct
    from ocs_codesign.graphs.groups.permutations import Permutations as Permutations
    from ocs_codesign.graphs.groups.semidirect import Dicyclic as Dicyclic
    from ocs_codesign.graphs.groups.semidirect import Dihedral as Dihedral
    from ocs_codesign.graphs.groups.semidirect import Semidirect as Semidirect
    from ocs_codesign.graphs.recipe import Recipe as Recipe
    from ocs_codesign.graphs.text import parse as parse
    from ocs_codesign.graphs.text import parse_network as parse_network
    from ocs_codesign.messages import Messages as Messages
    from ocs_codesign.network import Network as Network
    from ocs_codesign.networks.boxes import boxes as boxes
    from ocs_codesign.networks.damaged import damaged as damaged
    from ocs_codesign.networks.direct import direct as direct
    from ocs_codesign.networks.direct import mesh as mesh
    from ocs_codesign.networks.direct import torus as torus
    from ocs_codesign.networks.servers import servers as servers
    from ocs_codesign.networks.switched import fat_tree as fat_tree
    from ocs_codesign.networks.switched import star as star
    from ocs_codesign.plot import draw_frontier as draw_frontier
    from ocs_codesign.plot import frontier_figure as frontier_figure
    from ocs_codesign.plot.jobs import draw_job as draw_job
    from ocs_codesign.plot.network import draw_network as draw_network
    from ocs_codesign.plot.reconfigured_job import draw_changes as draw_changes
    from ocs_codesign.plot.simulation import draw_transfers as draw_transfers
    from ocs_codesign.reconfigure.change import ReconfigurationCost as ReconfigurationCost
    from ocs_codesign.reconfigure.demand.matrix import DemandMatrix as DemandMatrix
    from ocs_codesign.reconfigure.demand.planner import plan_demand as plan_demand
    from ocs_codesign.reconfigure.frontier.reconfigured import (
        reconfigured_frontier as reconfigured_frontier,
    )
    from ocs_codesign.reconfigure.hold.dynamic_program import switch_plan as switch_plan
    from ocs_codesign.reconfigure.hold.trace_plan import plan_trace as plan_trace
    from ocs_codesign.reconfigure.phases.alltoall import phased_alltoall as phased_alltoall
    from ocs_codesign.reconfigure.planes.plan import plan_planes as plan_planes
    from ocs_codesign.reconfigure.planes.problem import PlaneProblem as PlaneProblem
    from ocs_codesign.reconfigure.program.designs import build_sequence as build_sequence
    from ocs_codesign.reconfigure.program.patterns import build_direct as build_direct
    from ocs_codesign.reconfigure.program.patterns import (
        build_halving_doubling as build_halving_doubling,
    )
    from ocs_codesign.reconfigure.program.program_times import program_time as program_time
    from ocs_codesign.reconfigure.sequences.search import search_sequences as search_sequences
    from ocs_codesign.routes import Routes as Routes
    from ocs_codesign.routes import direct_routes as direct_routes
    from ocs_codesign.routes import shortest_routes as shortest_routes
    from ocs_codesign.schedule import Schedule as Schedule
    from ocs_codesign.schedulers.alltoall.deadlock import dependency_cycle as dependency_cycle
    from ocs_codesign.schedulers.alltoall.paths import disjoint_path_table as disjoint_path_table
    from ocs_codesign.schedulers.alltoall.paths import path_table as path_table
    from ocs_codesign.schedulers.alltoall.result import PathTable as PathTable
    from ocs_codesign.schedulers.alltoall.result import Throughput as Throughput
    from ocs_codesign.schedulers.alltoall.stepped import SteppedPlan as SteppedPlan
    from ocs_codesign.schedulers.alltoall.stepped import alltoall_frontier as alltoall_frontier
    from ocs_codesign.schedulers.alltoall.stepped import alltoall_schedule as alltoall_schedule
    from ocs_codesign.schedulers.alltoall.stepped import stepped_plan as stepped_plan
    from ocs_codesign.schedulers.alltoall.throughput import throughput as throughput
    from ocs_codesign.schedulers.alltoall.up_down import up_down_table as up_down_table
    from ocs_codesign.schedulers.bfb.assembly import bfb as bfb
    from ocs_codesign.schedulers.bfb.loads import bfb_loads as bfb_loads
    from ocs_codesign.schedulers.classic.placement import place as place
    from ocs_codesign.schedulers.classic.rank_maps import messages_on as messages_on
    from ocs_codesign.schedulers.exact.answers import ExactAnswer as ExactAnswer
    from ocs_codesign.schedulers.exact.answers import exact_answers as exact_answers
    from ocs_codesign.schedulers.exact.answers import exact_frontier as exact_frontier
    from ocs_codesign.schedulers.exact.answers import exact_schedule as exact_schedule
    from ocs_codesign.schedulers.exact.answers import fractional_bound as fractional_bound
    from ocs_codesign.schedulers.forest.allreduce import allreduce_optimum as allreduce_optimum
    from ocs_codesign.schedulers.forest.allreduce import allreduce_pipelines as allreduce_pipelines
    from ocs_codesign.schedulers.forest.building import forests as forests
    from ocs_codesign.schedulers.forest.choice import contenders as contenders
    from ocs_codesign.schedulers.forest.optimum import optimum as optimum
    from ocs_codesign.schedulers.forest.pipeline import Pipeline as Pipeline
    from ocs_codesign.schedulers.greedy.synthesis import Synthesis as Synthesis
    from ocs_codesign.schedulers.greedy.synthesis import synthesis as synthesis
    from ocs_codesign.search.clusters.description import Cluster as Cluster
    from ocs_codesign.search.clusters.scoring import score_cluster as score_cluster
    from ocs_codesign.search.frontier import frontier as frontier
    from ocs_codesign.search.frontier import joint_frontier as joint_frontier
    from ocs_codesign.search.pareto import Frontier as Frontier
    from ocs_codesign.simulate.engine import simulate_transfers as simulate_transfers
    from ocs_codesign.simulate.making import transfers_of_messages as transfers_of_messages
    from ocs_codesign.simulate.making import transfers_of_schedule as transfers_of_schedule
    from ocs_codesign.simulate.programs import transfers_of_program as transfers_of_program
    from ocs_codesign.simulate.reasons import critical_path as critical_path
    from ocs_codesign.simulate.reasons import idle_ticks as idle_ticks
    from ocs_codesign.simulate.rules import TimingRules as TimingRules
    from ocs_codesign.simulate.simulated import Simulated as Simulated
    from ocs_codesign.simulate.transfers import Transfers as Transfers
    from ocs_codesign.timed import Timed as Timed
    from ocs_codesign.topology import Topology as Topology
    from ocs_codesign.verification.forests import check_forest as check_forest
    from ocs_codesign.verification.messages import check_messages as check_messages
    from ocs_codesign.verification.networks import verify_on as verify_on
    from ocs_codesign.verification.programs import ProgramVerdict as ProgramVerdict
    from ocs_codesign.verification.programs import verify_program as verify_program
    from ocs_codesign.verification.schedules import Verdict as Verdict
    from ocs_codesign.verification.schedules import verify as verify
    from ocs_codesign.verification.simulated import check_simulated as check_simulated
    from ocs_codesign.verification.timed import check_timed as check_timed
    from ocs_codesign.verification.timelines import check_timeline as check_timeline
    from ocs_codesign.verification.witness import Witness as Witness
    from ocs_codesign.web.report.writing import write_bundle as write_bundle
    from ocs_codesign.workload.budgets import BudgetProblem as BudgetProblem
    from ocs_codesign.workload.budgets import allocate as allocate
    from ocs_codesign.workload.codesign.candidates import Candidate as Candidate
    from ocs_codesign.workload.codesign.candidates import Joining as Joining
    from ocs_codesign.workload.codesign.cluster import JobCluster as JobCluster
    from ocs_codesign.workload.codesign.cluster import PortPrices as PortPrices
    from ocs_codesign.workload.codesign.divisions import SearchSpace as SearchSpace
    from ocs_codesign.workload.codesign.divisions import TrainedModel as TrainedModel
    from ocs_codesign.workload.codesign.divisions import divisions as divisions
    from ocs_codesign.workload.codesign.memory import memory_bytes as memory_bytes
    from ocs_codesign.workload.codesign.outcomes import JobOutcome as JobOutcome
    from ocs_codesign.workload.codesign.placements import RankPlacement as RankPlacement
    from ocs_codesign.workload.codesign.placements import placements as placements
    from ocs_codesign.workload.codesign.planning import CodesignPlan as CodesignPlan
    from ocs_codesign.workload.codesign.planning import codesign as codesign
    from ocs_codesign.workload.fused import Accelerator as Accelerator
    from ocs_codesign.workload.fused import FusedOperator as FusedOperator
    from ocs_codesign.workload.job_draft import JobDraft as JobDraft
    from ocs_codesign.workload.job_graph import JobGraph as JobGraph
    from ocs_codesign.workload.layer_times import LayerTimes as LayerTimes
    from ocs_codesign.workload.models.convnet import ResidualNetwork as ResidualNetwork
    from ocs_codesign.workload.models.parallel import Parallel as Parallel
    from ocs_codesign.workload.models.recommender import Recommender as Recommender
    from ocs_codesign.workload.models.transformer import Transformer as Transformer
    from ocs_codesign.workload.policies import compare_policies as compare_policies
    from ocs_codesign.workload.reconfigured.planning import plan_iteration as plan_iteration
    from ocs_codesign.workload.reconfigured.prices import configured as configured

_HOME = {name: module for module, names in NAMES_BY_MODULE.items() for name in names.split()}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
