"""``ocs-codesign plan``: which design a fabric holds for which jobs of a trace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ocs_codesign.core.progress import tell_phase
from ocs_codesign.core.quantities import parse_bandwidth, parse_time
from ocs_codesign.faces.cli import options as opt
from ocs_codesign.faces.cli.commands import OUTPUT, OptionGroup, argument, command, group, option
from ocs_codesign.faces.cli.output import Answer, answered
from ocs_codesign.faces.cli.progress import progress

if TYPE_CHECKING:
    from ocs_codesign.circuits.demand.matrix import DemandMatrix
    from ocs_codesign.circuits.demand.planner import DemandEffort
    from ocs_codesign.circuits.legs.options import FabricOption
    from ocs_codesign.circuits.legs.trace import Trace
    from ocs_codesign.circuits.planes.problem import PlanePlan, PlaneProblem
    from ocs_codesign.circuits.step_files import StepList
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.schedules.design import Question
    from ocs_codesign.search.pareto import Frontier

_NODES, _PORTS = click.IntRange(2, 2**20), click.IntRange(1, 2**20)


class PlanOptions(OptionGroup):
    """Which trace is planned on which fabric, among which designs."""

    trace: str = argument("trace", type=opt.INPUT, metavar="TRACE")
    num_nodes: int = option("--nodes", type=_NODES, required=True, help="Nodes N.")
    degree: int = option("--degree", type=_PORTS, required=True, help="Ports of a node d.")
    designs: tuple[str, ...] = option(
        "--designs", multiple=True, metavar="RECIPE", help="A design; may be given often."
    )
    catalogue_path: str | None = option(
        "--catalogue",
        type=opt.FILE,
        metavar="FILE",
        help="Known designs from this catalogue, not the one shipped; beside --designs if both.",
    )
    bidirectional: bool = option(
        "--bidirectional", is_flag=True, help="Designs with every link in both directions."
    )
    delta: float = opt.delta_option(required=True)
    delta_per_circuit: float | None = opt.delta_per_circuit_option
    alpha: float = opt.alpha_option_of(opt.ALPHA, required=True)
    bandwidth: float = opt.bandwidth_option_of(opt.EGRESS, required=True)
    start: str = option(
        "--start",
        metavar="RECIPE",
        default=opt.COLD,
        help="The design held before the trace; cold: none, and the first one takes its dead time "
        "too; warm: the first one is up already.",
    )


@command(plot="the timeline")
def plan(given: PlanOptions = group(PlanOptions)) -> Answer:
    """Plan which design a fabric of N nodes with d ports holds for which jobs of a TRACE.

    TRACE is a CSV file with the columns collective, message, and if wanted gap, gap_after and
    count, or JSON with jobs of the same keys. The fabric stops for a change of circuits, but for
    what a gap (computation that needs no circuits) hides. Designs that are not named are those
    known for the size that no other beats at the trace's collectives. The plan is optimal in
    hindsight among these, with proof; next to it are an online policy that sees no future, the best
    single design, and the break-even dead times.

    \b
    Example:
      ocs-codesign example .
      ocs-codesign plan trace.csv --nodes 16 --degree 4 --delta 100us --alpha 10us \\
          --bandwidth 400Gbps
    """
    from ocs_codesign.circuits.change import Change
    from ocs_codesign.circuits.legs.trace import plan_trace
    from ocs_codesign.circuits.step_files import read_trace
    from ocs_codesign.core.cost import CostModel
    from ocs_codesign.faces.answers.plan import PlannedTrace
    from ocs_codesign.faces.cli.handles import recipe_of
    from ocs_codesign.schedules.design import Question

    question = Question(given.num_nodes, given.degree, given.bidirectional)
    model = CostModel(given.alpha, given.bandwidth)
    cost = Change(given.delta, given.delta_per_circuit or 0, cold_start=given.start != opt.WARM)
    held = None if given.start in {opt.COLD, opt.WARM} else recipe_of(given.start)
    with progress("Reading the trace"):
        jobs = read_trace(given.trace)
        tell_phase("Measuring designs")
        chosen = [*map(recipe_of, given.designs), *([] if held is None else [held])]
        named = list(dict.fromkeys(chosen))
        options, serving = _options(given, question, named, jobs)
        tell_phase("Planning")
        first = None if held is None else named.index(held)
        planned = plan_trace(jobs, options, model, cost, start=first)
        answer = PlannedTrace(planned, opt.printable(Path(given.trace).name), question, serving)
    title = f"{question.num_nodes} nodes of degree {question.degree}"
    return answered("plan.plan", answer, figure=("circuits.trace_figure", planned, title))


def _options(
    given: PlanOptions, question: Question, named: list[Recipe], trace: Trace
) -> tuple[list[FabricOption], Frontier | None]:
    """Designs to choose from, those that are named first, and all that the rest was chosen from."""
    from ocs_codesign.circuits.legs.options import recipe_options, serving_options
    from ocs_codesign.search.frontiers import designs_serving

    for recipe in named:
        _check_size(recipe, question)
    options = [*recipe_options(named, trace.collectives)]
    if given.designs and given.catalogue_path is None:
        return options, None
    serving = designs_serving(question, trace.collectives, catalogue=given.catalogue_path)
    known = serving_options(serving, trace.collectives)
    options += [option for option in known if option.recipe not in named]
    if not options:
        raise ValueError(
            f"no design for {question.num_nodes} nodes of degree {question.degree}"
            + " with links in both directions" * question.bidirectional
            + " is known that could be solved in passing: name some with --designs"
        )
    return options, serving


def _check_size(recipe: Recipe, question: Question) -> None:
    if not question.is_answered_by(recipe):
        if (recipe.num_nodes, recipe.degree) == (question.num_nodes, question.degree):
            raise ValueError(f"{recipe!r} does not have every link in both directions")
        raise ValueError(
            f"{recipe!r} has {recipe.num_nodes} nodes of degree {recipe.degree}: the fabric has "
            f"{question.num_nodes} of degree {question.degree}"
        )


# ``ocs-codesign planes``: which planes serve which steps, and when they change their circuits.


# Spelled out, since importing ocs_codesign.reconfigure for a help text would take too long.
AUTO, MILP, FAST = "auto", "milp", "fast"
METHODS = (AUTO, "labels", MILP, FAST)


class PlanesOptions(OptionGroup):
    """Steps, the planes that serve them, and what a change of circuits takes."""

    steps: str = argument("steps", type=opt.INPUT, metavar="STEPS")
    method: str = option(
        "--method",
        type=click.Choice(METHODS, case_sensitive=False),
        default=AUTO,
        help="How to plan; labels and milp prove the optimum, fast is for long lists.",
    )
    choice: opt.SolverChoice = opt.solving_options
    num_planes: int = option(
        "--planes",
        type=click.IntRange(1, 1024),
        required=True,
        help="Planes; a node has a port in each.",
    )
    bandwidth: float = opt.bandwidth_option_of(
        "Bandwidth of a port in one plane, as 400Gb/s.", required=True
    )
    delta: float = opt.delta_option(required=True)
    delta_per_circuit: float | None = opt.delta_per_circuit_option
    alpha: float | None = opt.alpha_option_of(
        "Time that a step takes on a plane besides its bytes."
    )
    start: str = option(
        "--start",
        metavar="NAMES",
        default=opt.COLD,
        help="What the planes hold, as in ring,star,cold; cold: nothing, and the first "
        "configuration takes its dead time too; warm: the first one is up already.",
    )
    overlap: bool | None = opt.overlap_option
    barrier: bool = option(
        "--barrier/--no-barrier",
        default=True,
        show_default=False,
        help="A step begins when the one before has arrived everywhere (default), or plane by "
        "plane.",
    )


@command(plot="the planes over time")
def planes(given: PlanesOptions = group(PlanesOptions)) -> Answer:
    """Plan which planes serve the steps in STEPS, and when each changes its circuits.

    STEPS is CSV with the columns configuration and size, and count if a step comes several times,
    or JSON, which may also list the circuits of configurations. A plane keeps what it holds until
    it changes. The answer is proven optimal or says how far it may be from that, its timeline has
    been checked, and it is compared with a fabric that stops for every change, and with planes that
    never change.

    \b
    Example:
      ocs-codesign example .
      ocs-codesign planes steps.csv --planes 2 --bandwidth 400Gb/s --delta 200us
    """
    if given.method not in (AUTO, MILP):
        given.choice.check_unused(f"--method {AUTO} or {MILP}")
    from ocs_codesign.circuits.step_files import read_steps
    from ocs_codesign.faces.answers.planes import PlanesAnswer

    holds, cold_start = _held(given.start, given.num_planes)
    listed = read_steps(given.steps).with_held(name for name in holds if name is not None)
    problem = _problem(given, listed, holds, cold_start=cold_start)
    plans = _plans(problem, given.method, given.choice)
    answer = PlanesAnswer(opt.printable(Path(given.steps).name), listed, *plans)
    figure = ("circuits.planes_figure", answer.plan, listed.names, answer.file)
    return answered("planes.planes", answer, figure=figure)


def _held(text: str, num_planes: int) -> tuple[list[str | None], bool]:
    """The name of what every plane holds, None for nothing, and whether that costs a change."""
    names = [opt.COLD if name.strip() == "-" else name.strip() for name in text.split(",")]
    if names in ([opt.COLD], [opt.WARM]):
        names *= num_planes
    if len(names) != num_planes:
        raise click.UsageError(
            f"--start names {len(names)} configurations for {num_planes} planes: "
            f"give one for each, {opt.COLD} or {opt.WARM} for a plane that holds nothing"
        )
    if opt.COLD in names and opt.WARM in names:
        raise click.UsageError("planes that hold nothing are cold or warm, all alike")
    return [None if name in (opt.COLD, opt.WARM) else name for name in names], opt.WARM not in names


def _problem(
    given: PlanesOptions, listed: StepList, holds: list[str | None], *, cold_start: bool
) -> PlaneProblem:
    """These steps on these planes; ValueError for what is no problem."""
    from ocs_codesign.circuits.change import Change
    from ocs_codesign.circuits.planes.problem import PlaneProblem

    if given.delta_per_circuit and listed.changed_circuits is None:
        raise click.UsageError(
            "--delta-per-circuit needs to know the circuits: give STEPS as JSON with the "
            "circuits of its configurations"
        )
    cost = Change(
        given.delta,
        given.delta_per_circuit or 0.0,
        cold_start=cold_start,
        overlap=given.overlap is not False,
        barrier=given.barrier,
    )
    try:
        held = [None if name is None else listed.index(name) for name in holds]
    except ValueError as error:
        raise click.UsageError(f"--start: {error}") from None
    return PlaneProblem(
        *(listed.configurations, listed.step_bytes, given.num_planes, given.bandwidth, cost),
        latency_s=given.alpha or 0.0,
        held=held,
        changed_circuits=1 if listed.changed_circuits is None else listed.changed_circuits,
    )


def _plans(
    problem: PlaneProblem, method: str, choice: opt.SolverChoice
) -> tuple[PlanePlan, PlanePlan, PlanePlan | None]:
    """The plan, and what it is compared with: the other rule of changes, and no changes."""
    from ocs_codesign.circuits.planes.plan import plan_planes, static_plan_of_planes

    other = problem.with_cost(replace(problem.cost, overlap=not problem.cost.overlap))
    with progress("Planning"), choice.solving(default_limit_s=60.0) as options:
        plan = plan_planes(problem, method, options)
        tell_phase("Comparing", 0, 0)
        compared = plan_planes(other, FAST if method == FAST else AUTO, options)
        return plan, compared, static_plan_of_planes(problem)


# ``ocs-codesign demand``: configurations of circuit switches for a demand matrix.


_EXACT_NODES, _EXACT_TIME_S = 10**12, 60.0


class DemandOptions(OptionGroup):
    """What a demand matrix is served by, and how long a plan is looked for."""

    matrix: str = argument("matrix", type=opt.INPUT, metavar="FILE")
    delta: float | None = opt.delta_option()
    bandwidth: float = opt.bandwidth_option_of(
        "Bandwidth of one circuit, such as 100Gbps.", required=True
    )
    ports: int | None = option(
        "--ports",
        type=click.IntRange(1, 64),
        help="Divide so many ports of a server between circuits that stay and a packet network.",
    )
    packet_bandwidth: float | None = opt.quantity_option(
        "--packet-bandwidth",
        parse_bandwidth,
        "With --ports: of a port into the packet network  [default: that of a circuit].",
    )
    switches: int = option(
        "--switches",
        type=click.IntRange(min=1),
        default=1,
        help="Circuit switches side by side; every node has a circuit on each.",
    )
    unit: str | None = option(
        "--unit", metavar="UNIT", help="What entries without a unit count, as MiB, or 8KiB a token."
    )
    exact: bool = option("--exact", is_flag=True, help="Search all plans: for up to 8 nodes.")
    time_limit: float | None = opt.quantity_option(
        "--time-limit", parse_time, "Time for planning, used up unless a plan is proven optimal."
    )
    seed: int = option(
        "--seed", type=click.IntRange(0, 2**31 - 1), default=0, help="Of the local search."
    )
    plan_path: str | None = option(
        "--out", type=OUTPUT, metavar="FILE", help="Write the configurations as CSV."
    )


@command(plot="demand and switches")
def demand(given: DemandOptions = group(DemandOptions)) -> Answer:
    """Plan configurations of circuit switches that serve the demand matrix in FILE.

    FILE is CSV, JSON or npy: entry i, j is what node i has for node j, in bytes, in --unit, or with
    a unit of its own as in 4MiB. Every configuration, a permutation of the nodes, costs its switch
    --delta and is then held as long as planned. The answer says how far it may be from the best
    plan, and what a round robin and circuits that stay would take.

    \b
    Example:
      ocs-codesign example .
      ocs-codesign demand demand.csv --delta 20us --bandwidth 400Gbps
    """
    from ocs_codesign.circuits.demand.planner import demand_baselines, plan_demand
    from ocs_codesign.circuits.matrix_files import plan_csv, read_demand

    demand_matrix = read_demand(given.matrix, given.unit)
    if given.ports is not None:
        changing = given.exact or given.plan_path is not None or given.switches > 1
        if given.delta is not None or changing:
            text = (
                "--delta, --exact, --switches and --out are for circuits that change: not --ports"
            )
            raise click.UsageError(text)
        return _divided(given, demand_matrix, given.ports)
    if given.delta is None or given.packet_bandwidth is not None:
        raise click.UsageError("give --delta, or --ports for circuits that stay")
    effort = _effort(given, demand_matrix)
    with progress("Planning"):
        plan = plan_demand(demand_matrix, given.delta, given.switches, given.bandwidth, effort)
        baselines = demand_baselines(plan)
    files: dict[str, bytes] = {}
    if given.plan_path is not None:
        files[given.plan_path] = plan_csv(plan, demand_matrix.names).encode()
    answer = (opt.printable(Path(given.matrix).name), demand_matrix.names, plan, baselines)
    figure = ("circuits.demand_figure", plan)
    return answered("planes.demand", *answer, files=files, figure=figure)


def _divided(given: DemandOptions, demand: DemandMatrix, ports: int) -> Answer:
    """Ports divided between circuits that stay and packets."""
    from ocs_codesign.circuits.demand.split import port_splits
    from ocs_codesign.core.quantities import exact as exactly

    packets = given.bandwidth if given.packet_bandwidth is None else given.packet_bandwidth
    with progress("Dividing ports"):
        splits = port_splits(demand, ports, exactly(given.bandwidth), exactly(packets))
    name = opt.printable(Path(given.matrix).name)
    return answered("planes.split", name, demand, splits, given.bandwidth, packets)


def _effort(given: DemandOptions, demand: DemandMatrix) -> DemandEffort:
    from ocs_codesign.circuits.demand.planner import DemandEffort
    from ocs_codesign.circuits.demand.search import MAX_LINES

    if not given.exact:
        return DemandEffort(seed=given.seed, time_limit_s=given.time_limit)
    some = demand.units > 0
    busy = int(max(some.any(0).sum(), some.any(1).sum()))
    if busy > MAX_LINES:
        raise click.UsageError(
            f"--exact is for up to {MAX_LINES} senders and receivers, and here are {busy}"
        )
    limit_s = given.time_limit or _EXACT_TIME_S
    return DemandEffort(seed=given.seed, search_nodes=_EXACT_NODES, time_limit_s=limit_s)
