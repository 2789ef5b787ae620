"""Every picture of the package and what it is drawn of: small samples, each made once."""

from __future__ import annotations

import inspect
from dataclasses import replace
from fractions import Fraction
from functools import cache
from importlib import import_module
from pathlib import Path

from codesign_samples import DENSE, cluster
from planes_oracle import listed
from trace_samples import ALTERNATING, OPTIONS, SECONDS

import ocs_codesign as oc
import ocs_codesign.faces.pictures
from ocs_codesign.circuits.change import Change
from ocs_codesign.circuits.demand.planner import plan_demand
from ocs_codesign.circuits.frontier import reconfigured_frontier
from ocs_codesign.circuits.legs.options import recipe_options
from ocs_codesign.circuits.legs.trace import Job, plan_trace
from ocs_codesign.circuits.planes.plan import plan_planes
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import Cost, CostModel, MessageSizes
from ocs_codesign.core.machines.machine import machine_named
from ocs_codesign.core.networks.builders import direct, star
from ocs_codesign.fabric.files.fabric_files import parse_fabric
from ocs_codesign.fabric.selection.ranking import select
from ocs_codesign.fabric.selection.steps import Workload
from ocs_codesign.faces.answers.codesign import picture_rows
from ocs_codesign.faces.cli.workers import Here
from ocs_codesign.interop.calibrating import calibrated
from ocs_codesign.interop.logs import BenchmarkRun
from ocs_codesign.jobs.cluster_design.cluster import TrainedModel
from ocs_codesign.jobs.cluster_design.outcomes import run_of
from ocs_codesign.jobs.cluster_design.planning import codesign
from ocs_codesign.jobs.issue import steady
from ocs_codesign.jobs.job_draft import JobDraft
from ocs_codesign.jobs.models.layer import Transformer
from ocs_codesign.jobs.on_links import LinkPlans, placed, run_on_links
from ocs_codesign.jobs.policies import PolicyOutcome
from ocs_codesign.jobs.prices import Level, Machine
from ocs_codesign.jobs.training.constants import chip_named, software_named
from ocs_codesign.jobs.training.division import Division
from ocs_codesign.jobs.training.room import Room
from ocs_codesign.jobs.training.step import Method, estimate_step
from ocs_codesign.schedules.compare.comparison import compare
from ocs_codesign.schedules.compare.contest import Contest
from ocs_codesign.schedules.design import Design, Known, Question
from ocs_codesign.schedules.exchange.optimum import exchange_optimum
from ocs_codesign.schedules.forest.building import forests
from ocs_codesign.schedules.simulate.transfers import TimingRules
from ocs_codesign.search.gaps import Gap
from ocs_codesign.search.pareto import Frontier

FABRIC = """\
name: small
hosts: {count: 8}
planes:
- count: 2
  switches: [{profile: polatis-384, ports: 8, delta: 25ms}]
alpha: 1us
node_bandwidth: 100Gbps
losses: {connector_db: 0.25, circulator_db: 0, budget_db: 9}
"""
MODEL = CostModel(1e-6, 12.5e9)
RUN = BenchmarkRun(
    "log", "allreduce", 8, 1, ((1024, 15.0), (2**20, 33.0), (2**24, 120.0), (2**28, 950.0))
)
MACHINE = Machine((Level(4, CostModel(0, 1)),))


@cache
def job():
    return steady(oc.jobs.LayerTimes([10] * 3, [20] * 3, [40, 20, 30]).graph())


@cache
def alltoall():
    recipes = [oc.parse(text) for text in ("Circulant(9, (1, 2))", "Torus((3, 3))")]
    designs = [replace(oc.measure(recipe), others=(oc.measure(recipe),)) for recipe in recipes]
    made = [
        Design(
            Collective.ALLTOALL,
            Cost(one.cost.steps, one.cost.t_b * (at + 2)),
            "lp",
            Known.MEASURED,
            one.recipes,
            others=(one,),
        )
        for at, one in enumerate(designs)
    ]
    criteria = ("allgather steps", "allgather t_b", "steps", "t_b")
    return Frontier(Question(9, 4), Collective.ALLTOALL, tuple(made), (), criteria)


def outcomes():
    return [PolicyOutcome(name, "", job(), job().period_s / 2) for name in ("slow", "also")]


@cache
def changing():
    draft = JobDraft(1, [4])
    last = draft.collective("allreduce", (0,), 8, {}, num_ranks=4, between=(0, 3))
    draft.collective("allreduce", (0,), 24, {0: last}, num_ranks=2, between=(0, 2))
    rings = [oc.parse(f"DirectedCirculant(4, ({step},))") for step in (1, 2)]
    return oc.jobs.plan_iteration(oc.jobs.configured(draft.graph(), MACHINE, rings, oc.Change(5)))


@cache
def on_links():
    draft = JobDraft(4)
    draft.collective("allreduce", range(4), 64, {})
    rules = TimingRules(unit_Bps=Fraction(10**9))
    graph = draft.graph()
    return run_on_links(graph, placed(graph, star(4, 1), rules, LinkPlans(MACHINE)))


@cache
def winner():
    plan = codesign(TrainedModel("sample", DENSE), cluster(), ("fifo",))
    return picture_rows(plan, 3), run_of(plan), "a model on a cluster"


@cache
def compared():
    """Two networks."""
    recipes = [oc.parse(text) for text in ("Complete(3)", "UniRing(1, 3)")]
    contests = [
        Contest(
            *(recipe.label(), direct(recipe.topology(), 1, 1000), Collective.ALLGATHER),
            *((2**10, 2**20), Fraction(10**9), recipe),
        )
        for recipe in recipes
    ]
    return compare(contests, Here(), 1)


@cache
def demanded():
    entries = [[0, 5, 1, 2], [3, 0, 4, 1], [2, 2, 0, 6], [5, 1, 1, 0]]
    return plan_demand(
        oc.circuits.DemandMatrix([[10**6 * one for one in row] for row in entries]), 1e-5, 2, 10**10
    )


def gaps():
    excesses = (None, Fraction(1, 5)), (Fraction(1, 25), Fraction(0)), (Fraction(1, 9), None)
    return [
        Gap(Question(nodes, degree), 4, excess)
        for degree in (2, 3)
        for nodes, excess in enumerate(excesses, 20)
    ]


@cache
def reconfigured():
    sizes = MessageSizes(MODEL, (2**20, 2**26))
    return reconfigured_frontier(8, 2, "allreduce"), (1e-5, 1e-4), sizes


@cache
def selected():
    jobs = Job("alltoall", 2**26, name="exchange"), Job("allreduce", 2**24, name="gradients")
    workload = Workload("mix", jobs)
    rings = [oc.parse(f"DirectedCirculant(8, (1, {step}))") for step in (2, 3)]
    options = recipe_options(rings, workload.trace.collectives)
    return select(parse_fabric(FABRIC.encode(), "fabric"), workload, options)


@cache
def simulated():
    topology = oc.parse("Torus((2, 4))").topology()
    routes = oc.core.direct_routes(topology, direct(topology, 1, 1000))
    transfers = oc.schedules.transfers_of_schedule(oc.bfb(topology), routes, 2**20)
    return oc.simulate_transfers(transfers, oc.schedules.TimingRules(unit_Bps=10**9))


@cache
def stepped():
    room = Room(chip_named("h100"), 1, 8, 450e9, 50e9)
    method = Method(software_named("nemo"))
    return estimate_step(Transformer(2, 1024, 8, 4096, 1000, 128, 8), Division(8), room, method)


@cache
def trees():
    return forests(star(4, [10, 10, 10, 1]), Collective.ALLGATHER)


@cache
def traced():
    return plan_trace(ALTERNATING, OPTIONS, SECONDS, Change(25), start=0)


ONE_PANEL = {
    "changes": lambda: (changing(), "two rings"),
    "frontier": lambda: (oc.frontier(12, 4), CostModel(1e-5, 1e10), 1e6),
    "frontier_beside": lambda: (("mine.txt", oc.Cost(11, Fraction(11, 3))), oc.frontier(12, 4)),
    "graph": lambda: (oc.parse("Line(Complete(3))").topology(), "a line digraph"),
    "job": lambda: (job().job_run,),
    "joint": lambda: (alltoall(),),
    "link_job": lambda: (on_links(), "a star"),
    "calibration": lambda: (calibrated([RUN], machine_named("h100")),),
    "network": lambda: (oc.optimum(oc.mesh((2, 3), 1), Collective("allgather")), "mesh"),
    "planes": lambda: (plan_planes(listed((1, 2, 2), (10, 1, 10), "0.2")), None, "steps.csv"),
    "policies": lambda: (outcomes(), job().period_s / 2),
    "selection": lambda: (selected(),),
    "steps": lambda: ([(name, stepped()) for name in ("one", "other")], "a model"),
    "tallest_tree": lambda: (trees(),),
    "tree": lambda: (trees()[0], 1),
}
"""Pictures that take ``ax``, with their arguments."""

PANELS = {
    "codesign": (2, winner),
    "comparison": (6, lambda: (compared(),)),
    "demand": (2, lambda: (demanded(),)),
    "exchange": (2, lambda: (exchange_optimum(star(4, [4, 2, 2, 1])), "a star")),
    "gaps": (2, lambda: (gaps(),)),
    "reconfigured": (3, reconfigured),
    "spread": (2, lambda: (oc.bfb(oc.parse("BiRing(2, 5)").topology()), 0)),
    "simulation": (2, lambda: (simulated(), "a torus")),
    "trace": (2, lambda: (traced(), "a trace")),
}
"""Pictures that take ``figure`` or ``axes``: how many panels the sample has, and its arguments."""


def functions():
    """All functions of the room, by name."""
    room = Path(ocs_codesign.faces.pictures.__file__).parent
    modules = [
        import_module(f"ocs_codesign.faces.pictures.{path.stem}") for path in room.glob("[a-z]*.py")
    ]
    return {
        name: function
        for module in modules
        for name, function in inspect.getmembers(module, inspect.isfunction)
    }
