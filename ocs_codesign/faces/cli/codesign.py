"""``ocs-codesign codesign``: the fastest way to run a job on a cluster."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.core.collective import WITHOUT_PARAMETERS
from ocs_codesign.core.quantities import exact, parse_bandwidth, parse_time
from ocs_codesign.faces.cli import options as opt
from ocs_codesign.faces.cli.commands import OptionGroup, argument, command, group, option, together
from ocs_codesign.faces.cli.deployed import check_directory
from ocs_codesign.faces.cli.job_options import given_machine
from ocs_codesign.faces.cli.machine_options import machine_of, machine_option_of
from ocs_codesign.faces.cli.message_options import message_option, unit_Bps
from ocs_codesign.faces.cli.output import Answer, answered, asked_output
from ocs_codesign.faces.cli.progress import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ocs_codesign.faces.answers.codesign import BudgetAnswer
    from ocs_codesign.faces.answers.iteration import PolicyComparison
    from ocs_codesign.jobs.budgets import BudgetProblem
    from ocs_codesign.jobs.files.budget_files import Handover, Spending
    from ocs_codesign.jobs.files.job_files import GivenMachine
    from ocs_codesign.jobs.job_graph import JobGraph
    from ocs_codesign.jobs.prices import Machine


# ``ocs-codesign compare-policies``: one job under every policy of communication.


# Spelled out, since importing the policies for a help text would take too long.
NAMES = (
    *("serial", "fifo", "lifo", "priority", "p3", "tictac", "bytescheduler", "pace", "lina"),
    *("centauri", "dear", "ddp", "ooo", "decompose"),
)


@command("compare-policies", plot="the periods as bars")
def compare_policies(
    job: str = argument("job", type=opt.INPUT, metavar="FILE"),
    cluster: str | None = argument("cluster", type=opt.INPUT, metavar="[CLUSTER]", required=False),
    policies: tuple[str, ...] = option(
        "--policy",
        type=click.Choice(NAMES),
        multiple=True,
        help="Only this one; may be repeated (default: all).",
    ),
    slice_s: float | None = opt.quantity_option(
        "--slice", parse_time, "Time of a slice, for policies that cut (default: they choose)."
    ),
    given: GivenMachine | None = group(given_machine),
) -> Answer:
    """Compare policies of communication for the job in FILE, iteration after iteration.

    A rank computes one node at a time and sends one message at a time. Policies say which gradient
    is sent first, whether they are cut, merged, summed in two halves or level by level, and which
    computation goes first or is cut for them. The period is that of the steady state, exact; what
    is sent while nothing is computed is exposed. The bound is what none of them is below, whatever
    the order. FILE holds layers, nodes or a model, as iterate takes it.

    With a CLUSTER of known accelerators the layers are those of the step that iterate has with it,
    of the pipeline stage whose gradients take longest, beside what the software hides of them.

    \b
    Example:
      ocs-codesign example .
      ocs-codesign compare-policies layers.yaml
      ocs-codesign compare-policies llama3_70b.yaml h100x64.yaml --policy ddp --policy dear
    """
    with progress("Comparing policies"):
        if cluster is None:
            answer = _comparison(job, policies, slice_s, given)
        elif given is not None:
            raise click.UsageError("CLUSTER says what messages cost: give no other options for it")
        else:
            answer = _comparison_on(job, cluster, policies, slice_s)
    figure = ("jobs.policies_figure", answer.outcomes, answer.bound_s, answer.name)
    told = answered("iteration.policies", answer, figure=figure)
    return told.by_clock_of(None if given is None else given.real)


def _comparison_on(
    path: str, cluster: str, policies: tuple[str, ...], slice_s: float | None
) -> PolicyComparison:
    from ocs_codesign.core.quantities import format_time
    from ocs_codesign.jobs.files.job_cluster_files import load_room
    from ocs_codesign.jobs.files.step_files import load_step
    from ocs_codesign.jobs.training.step_layers import step_layers

    trained, (name, room) = load_step(path), load_room(cluster)
    found = step_layers(trained, room)
    step = found.estimate
    text = (
        f"{found.layers.num_layers} layers of stage {found.stage} on {name}; "
        f"{trained.method.software.name} as published runs have it takes "
        f"{format_time(step.seconds)}, {format_time(step.parts['data'])} of it exposed"
    )
    graph = found.layers.graph(trained.division.num_ranks)
    return _under_policies(trained.name, text, graph, policies, slice_s, None)


def _comparison(
    path: str, policies: tuple[str, ...], slice_s: float | None, given: GivenMachine | None
) -> PolicyComparison:
    from ocs_codesign.jobs.files.job_files import load_job

    job = load_job(path, given)
    return _under_policies(job.name, job.text, job.graph, policies, slice_s, job.machine)


def _under_policies(
    name: str,
    text: str,
    graph: JobGraph,
    policies: tuple[str, ...],
    slice_s: float | None,
    machine: Machine | None,
) -> PolicyComparison:
    from ocs_codesign.faces.answers.iteration import PolicyComparison
    from ocs_codesign.jobs.policies import compare_policies as compared

    outcomes = compared(graph, policies or None, slice_s, machine)
    bound_s = min(outcome.bound_s for outcome in outcomes)
    asked = tuple(name for name in NAMES if not policies or name in policies)
    return PolicyComparison(name, text, graph, bound_s, tuple(outcomes), asked)


USUAL_DIRECTORY = "codesigned"


class CodesignOptions(OptionGroup):
    """A job and a cluster, what is tried, and what is written."""

    job: str = argument("job", type=opt.INPUT, metavar="JOB")
    cluster: str = argument("cluster", type=opt.INPUT, metavar="CLUSTER")
    policies: tuple[str, ...] = option(
        "--policy",
        type=click.Choice([*NAMES, "preemptive"]),
        multiple=True,
        help="Simulate under this policy only; may be repeated (default: fifo, priority and "
        "preemptive, which is priority that interrupts; the best under all).",
    )
    simulations: int = option(
        "--simulations",
        type=click.IntRange(1, 10_000),
        default=200,
        help="Candidates to simulate at most, of a million nodes together.",
    )
    top: int = option("--top", type=click.IntRange(1), default=5, help="Rows to show.")
    machine: str | None = machine_option_of(
        "Steps and rates, in servers and over their ports, are those of a machine's protocols: a "
        "name such as dgx-h100, or a file that calibrate has written (default: what CLUSTER says)."
    )
    directory: str | None = option(
        "--out",
        type=opt.DIRECTORY,
        metavar="DIR",
        help="Where to write the fabric's file that 'deploy' reads.",
    )
    bundle: str | None = option(
        "--bundle", type=opt.DIRECTORY, metavar="DIR", help="Write the winner's bundle there."
    )


@command(plot="where the time goes, and the winner on the clock")
def codesign(given: CodesignOptions = group(CodesignOptions)) -> Answer:
    """Choose how the model in JOB is divided and run on the cluster in CLUSTER.

    JOB is a job file with a model; its machine and accelerator are not used, and its own division
    is a baseline. CLUSTER describes servers of accelerators, their optical ports and switches.
    'ocs-codesign example' writes both for well-known models and machines.

    All divisions (data, tensor, pipeline, expert, microbatches, ZeRO, and the chunks of interleaved
    pipelines that 'search' in JOB has) that the model allows and memory holds are searched, with
    every order of them on ranks, every way to divide ports among their groups, one topology for all
    groups, and circuits that change before and after gradients. Topologies and their times are
    those of 'select'. Candidates go by ascending lower bound, and those whose bound is not below
    the best are skipped. The best are tried under every policy of communication; where circuits
    change, gradients are sent "after passes" under any. Torus, ring, a fat tree of equal cost, and
    pure data parallelism as DDP does it stand beside the ranking. The answer depends on no seed.

    On a CLUSTER with a network of packets instead of optics, divisions of a transformer are ranked
    by the step of published runs, as 'iterate JOB CLUSTER' has it, with context parallelism and
    recomputation; what is not estimated is proven to be slower by the same model.

    \b
    Example:
      ocs-codesign example .
      ocs-codesign codesign resnet50.yaml cluster256.yaml --policy ddp
    """
    directory, bundle = given.directory, given.bundle
    if bundle is not None:
        check_directory(bundle)
    if directory is not None and Path(directory).exists() and not Path(directory).is_dir():
        raise ValueError(f"{directory} is a file: --out is a directory")
    from ocs_codesign.faces.answers.codesign import CodesignAnswer, picture_rows
    from ocs_codesign.jobs.cluster_design.outcomes import run_of
    from ocs_codesign.jobs.cluster_design.planning import codesign as planned
    from ocs_codesign.jobs.files.budget_files import handovers
    from ocs_codesign.jobs.files.job_cluster_files import load_described
    from ocs_codesign.jobs.files.job_files import load_training

    described = load_described(given.cluster)
    if isinstance(described, tuple):
        if given.policies or not directory is bundle is given.machine is None:
            raise click.UsageError(
                "--policy, --machine, --out and --bundle are for optics: CLUSTER has a network"
            )
        from ocs_codesign.faces.cli.steps import divisions_on

        return divisions_on(given.job, *described, given.top)
    trained, real = load_training(given.job), machine_of(given.machine)
    if real is not None:
        described = described.by_clock_of(real)
    with progress("Bounding divisions"):
        plan = planned(trained, described, given.policies or None, max_simulated=given.simulations)
        handed = handovers(plan.best.candidate, plan.best_traffic, plan.cluster)
        files: dict[str, bytes] = {}
        for each in handed if directory is not None else ():
            files |= each.files(directory or "")
        if bundle is not None:
            _deploy(handed, bundle)
    if directory is not None:
        Path(directory).mkdir(parents=True, exist_ok=True)
    answer = CodesignAnswer(plan, handed, directory or USUAL_DIRECTORY, directory is not None)
    figure: tuple[Any, ...] = ()
    if asked_output("plot") is not None:
        title = f"{plan.trained.name} on {plan.cluster.name}"
        figure = ("jobs.codesign_figure", picture_rows(plan, given.top), run_of(plan), title)
    told = answered("codesign.codesign", answer, given.top, files=files, figure=figure)
    return told.by_clock_of(real)


def _deploy(handed: Sequence[Handover], directory: str) -> None:
    """Write the bundle, or one in a directory of its own for each of several configurations."""
    from ocs_codesign.fabric.bundle.write.bundle import BundlePlace
    from ocs_codesign.fabric.deployments.deploy import NamedRecipe, deploy
    from ocs_codesign.faces.cli.deployed import write

    if not handed:
        raise ValueError("the winner needs no light, so there is nothing to deploy")
    for one in handed:
        place = BundlePlace(directory if len(handed) == 1 else f"{directory}/{one.name}")
        deployment = deploy(
            one.fabric,
            [NamedRecipe(one.name, one.recipe)],
            one.collectives,
            message_bytes=one.message_bytes,
        )
        write(deployment, place)


# ``ocs-codesign fuse``: when an operator fused with its collective pays.


FUSED_NAMES = ("embedding", "gemv", "gemm")
DEFAULT_SIZES = (1024, 2048, 4096, 8192, 16384)


def _between(least: float, most: float, kind: type = float) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        value = kind(text)
        if not least <= value <= most:
            raise ValueError(f"{text} is not from {least} to {most:g}")
        return value

    return read


PROCESSOR: dict[str, Callable[[str], Any] | None] = {
    "peak": _between(1, 1e30),
    "memory": parse_bandwidth,
    "at-a-time": _between(1, 2**20, int),
    "slowdown": _between(0, 10),
    "overhead": parse_time,
}


@command()
def fuse(
    operator: str = argument("operator", type=click.Choice(FUSED_NAMES)),
    ranks: int = option(
        "--ranks", type=click.IntRange(2, 2**20), required=True, help="Ranks of the group."
    ),
    sizes: tuple[int, ...] = option(
        "--size",
        type=click.IntRange(1, 2**20),
        multiple=True,
        help="Samples (embedding), rows (gemv) or width (gemm); may be repeated (default: 1024 to "
        "16384).",
    ),
    alpha: float = opt.alpha_option_of("Latency of a message, such as 2us.", required=True),
    bandwidth: float = opt.bandwidth_option_of("Egress of a rank, such as 400Gbps.", required=True),
    rules: dict[str, Any] = opt.settings_option(
        "--rules",
        PROCESSOR,
        "Of the processor: peak=312e12 operations a second; memory=2TB/s, its bandwidth; "
        "at-a-time=108 workgroups; slowdown=0.05, how much longer a workgroup takes in the fused "
        "kernel (default: 0); overhead=TIME, what every slice takes on the channel more.",
    ),
) -> Answer:
    """Compare an operator and its collective after it with one kernel that does both.

    embedding is pooling and an all-to-all, gemv a matrix times a vector and an allreduce, gemm a
    matrix product and an all-to-all. In the fused kernel a workgroup sends its result as soon as
    it has it, those for other ranks first. Kernels take the longer of what their operations and
    their bytes of memory take.

    \b
    Example:
      ocs-codesign fuse gemm --ranks 8 --alpha 2us --bandwidth 400Gbps
    """
    from ocs_codesign.core.cost import CostModel
    from ocs_codesign.faces.answers.iteration import FusingAnswer
    from ocs_codesign.jobs.fused import OPERATORS, Accelerator, operator_of

    model = CostModel(alpha, bandwidth)
    processor = Accelerator(
        rules["peak"] or 312e12, rules["memory"] or 2e12, rules["at-a-time"] or 108
    )
    found = [
        (
            size,
            operator_of(
                *(operator, size, ranks, processor, model),
                rules["slowdown"] or 0.0,
                rules["overhead"] or 0,
            ),
        )
        for size in sorted(set(sizes)) or DEFAULT_SIZES
    ]
    return answered("iteration.fusing", FusingAnswer(OPERATORS[operator][1], ranks, tuple(found)))


# ``ocs-codesign allocate``: how much bandwidth every dimension of a network gets.


OBJECTIVES = ("time", "time-cost")


@command()
def allocate(
    budget: str = argument("budget", type=opt.FILE, metavar="FILE|NETWORK|ROOM"),
    total: float | None = opt.quantity_option(
        "--total", parse_bandwidth, "What a rank sends in all dimensions together."
    ),
    money: float | None = option(
        "--money", type=click.FloatRange(min=0, min_open=True), help="The most it costs."
    ),
    unit: float | None = opt.quantity_option(
        "--unit", parse_bandwidth, "Of a port or a wavelength, for whole numbers of it."
    ),
    objective: str = option(
        "--objective",
        type=click.Choice(OBJECTIVES),
        default=OBJECTIVES[0],
        help="What is least: the time, or the time multiplied with the cost.",
    ),
    options: dict[str, Any] = together(
        collective=opt.collective_choice(
            *(kind.name for kind in WITHOUT_PARAMETERS),
            default=None,
            help="What a NETWORK is for (default: allgather).",
        ),
        message=message_option,
        bandwidth=opt.bandwidth_option_of("Total egress of a host, where the network has no unit."),
    ),
) -> Answer:
    """Divide the bandwidth of a rank among dimensions, for what is sent in them.

    FILE holds dimensions, their prices, and collectives; or give a NETWORK whose links have
    dimensions, such as torus((4, 8), 1), or a room, whose dimensions are inside servers and between
    them, and a --collective of --message over all of them. Every
    collective takes as long as its busiest dimension. The best real numbers are an optimum of a
    convex program; with --unit the best whole numbers as well, of all ways to share them where
    those are few. Without --total or --money a NETWORK or a room keeps what it has.

    \b
    Example:
      ocs-codesign example .
      ocs-codesign allocate gpt3_budget.yaml --total 600GB/s --unit 20GB/s
    """
    with progress("Dividing bandwidth"):
        answer = _allocation_answer(budget, (total, money, unit), objective, options)
    return answered("codesign.allocation", answer)


def _allocation_answer(
    text: str,
    given: tuple[float | None, float | None, float | None],
    objective: str,
    options: dict[str, Any],
) -> BudgetAnswer:
    from ocs_codesign.faces.answers.codesign import BudgetAnswer
    from ocs_codesign.jobs.budgets import BudgetProblem, Objective
    from ocs_codesign.jobs.budgets import allocate as allocated
    from ocs_codesign.jobs.whole_budgets import allocate_units

    total, money, unit = (None if value is None else exact(value) for value in given)
    spending, present = _spending(text, options)
    if total is None and money is None:
        if present is None:
            raise click.UsageError("give --total or --money: what there is to be divided")
        total = sum(present, Fraction(0))
    problem = BudgetProblem(
        spending.sent,
        compute_s=spending.compute_s,
        price=spending.price,
        total_Bps=total,
        money=money,
        fixed=dict(spending.fixed),
        limits=spending.limits,
    )
    aim = Objective(objective)
    return BudgetAnswer(
        spending.name,
        spending.dimensions,
        problem,
        aim,
        allocated(problem, aim),
        unit,
        None if unit is None else allocate_units(problem, unit, aim),
        *_compared(problem, total, present),
    )


def _compared(
    problem: BudgetProblem, total: Fraction | None, present: tuple[Fraction, ...] | None
) -> tuple[str, tuple[Fraction, ...] | None]:
    """What the best is compared with: what the network has, or an even split of the total."""
    if present is not None:
        return "today", present
    if total is None or problem.fixed or problem.limits:
        return "", None
    num = problem.num_dimensions
    return "even", (total / num,) * num


def _spending(text: str, options: dict[str, Any]) -> tuple[Spending, tuple[Fraction, ...] | None]:
    """What is sent, and the bandwidths of the network where one is given."""
    from ocs_codesign.faces.sites import is_builder
    from ocs_codesign.jobs.budgets import sent_bytes
    from ocs_codesign.jobs.files.budget_files import Spending, load_budget
    from ocs_codesign.jobs.files.site_files import as_site

    is_network = text.rstrip().endswith(")") and not is_builder(text)
    site = None if is_network else as_site(text)
    if site is None and not is_network:
        if any(value is not None for value in options.values()):
            raise click.UsageError(
                "--collective, --message and --bandwidth are for a NETWORK or a room: the file has "
                "its own"
            )
        return load_budget(Path(text)), None
    if options["message"] is None:
        raise click.UsageError("give --message: what is sent on the network")
    if site is None:
        found = _of_network(text, options["bandwidth"])
    elif options["bandwidth"] is not None:
        raise click.UsageError("--bandwidth is for a NETWORK without a unit: a room has bandwidths")
    else:
        found = site.dimensions()
    collective = options["collective"] or WITHOUT_PARAMETERS[0].name
    names, sizes, present, price = zip(*found, strict=True)
    sent = (sent_bytes(collective, options["message"], sizes),)
    spending = Spending(f"{collective} on {text}", names, sent, Fraction(0), price, {}, ())
    return spending, present


def _of_network(text: str, bandwidth: float | None) -> list[tuple[str, int, Fraction, Fraction]]:
    """The dimensions of a network: names, ranks, bandwidths of a host, and no prices."""
    from ocs_codesign.jobs.whole_budgets import dimensions_of

    network = opt.network_of(text)
    unit = unit_Bps(network, bandwidth)
    return [
        (f"{one.number}, {one.num_ranks} hosts", one.num_ranks, one.bandwidth * unit, Fraction(0))
        for one in dimensions_of(network)
    ]
