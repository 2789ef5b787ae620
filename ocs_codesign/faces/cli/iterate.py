"""``ocs-codesign iterate``: the iterations of a job on a clock."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from ocs_codesign.core.progress import tell_phase
from ocs_codesign.core.quantities import parse_time
from ocs_codesign.faces.answers.sections import counted
from ocs_codesign.faces.cli import options as opt
from ocs_codesign.faces.cli.commands import OptionGroup, argument, command, group, option
from ocs_codesign.faces.cli.job_options import AskedLinks, book_option, given_machine, with_books
from ocs_codesign.faces.cli.options import INPUT, delta_per_circuit_option, quantity_option
from ocs_codesign.faces.cli.output import Answer, answered
from ocs_codesign.faces.cli.progress import progress

if TYPE_CHECKING:
    from ocs_codesign.faces.answers.iteration import LinkIteration
    from ocs_codesign.faces.answers.reconfiguration import ReconfiguredAnswer
    from ocs_codesign.jobs.files.job_files import GivenMachine, LoadedJob
    from ocs_codesign.jobs.prices import Machine
    from ocs_codesign.jobs.reconfigured.prices import ConfiguredJob


# The options --designs, --delta and --delta-per-circuit: circuits that change in a job.


class AskedCircuits(OptionGroup):
    """Configurations of circuits, and what a change takes, as they were asked for."""

    recipes: tuple[str, ...] = option(
        "--designs",
        metavar="RECIPE",
        multiple=True,
        help="What the circuits can hold between ranks, or blocks of them; given twice or more.",
    )
    delta_s: float | None = quantity_option(
        "--delta", parse_time, "Dead time of a change of configuration, such as 10us."
    )
    delta_per_circuit_s: float | None = delta_per_circuit_option

    def __post_init__(self) -> None:
        if self.recipes and self.delta_s is None:
            raise click.UsageError("--designs needs --delta: how long a change takes")
        if not self.recipes and not (self.delta_s is None and self.delta_per_circuit_s is None):
            raise click.UsageError(
                "--delta and --delta-per-circuit are for --designs: what changes"
            )

    def configured(self, job: LoadedJob) -> ConfiguredJob:
        """The job on these circuits; ValueError as in ``machine_of``."""
        from ocs_codesign.circuits.change import Change
        from ocs_codesign.faces.cli.handles import recipe_of
        from ocs_codesign.jobs.reconfigured.prices import configured

        machine = machine_of(job)
        change = Change(self.delta_s or 0, self.delta_per_circuit_s or 0)
        recipes = [recipe_of(text) for text in self.recipes]
        return configured(job.graph, machine, recipes, change)


def machine_of(job: LoadedJob) -> Machine:
    """The machine of a job; ValueError if its messages have times of their own."""
    if job.machine is None:
        raise ValueError(
            f"{job.name}: its messages have times of their own, which no configuration changes: "
            "give them bytes, and a machine"
        )
    return job.machine


def _in_network(loaded: LoadedJob) -> tuple[int, int] | None:
    """Nodes of allreduces that switches add up, and of all; None if no switch does."""
    from ocs_codesign.jobs.prices import added_up

    machine = loaded.machine
    if machine is None or all(level.aggregation is None for level in machine.levels):
        return None
    return added_up(loaded.graph, machine)


class IterateOptions(OptionGroup):
    """A job, and what its messages and circuits are."""

    job: str = argument("job", type=INPUT, metavar="FILE")
    cluster: str | None = argument("cluster", type=INPUT, metavar="[CLUSTER]", required=False)
    priced: GivenMachine | None = group(given_machine)
    links: AskedLinks = group(AskedLinks)
    books: tuple[str, ...] = book_option
    circuits: AskedCircuits = group(AskedCircuits)
    timeline: str | None = opt.timeline_option


@command(plot="what ranks compute and send when")
def iterate(given: IterateOptions = group(IterateOptions)) -> Answer:
    """Simulate the job in FILE, iteration after iteration, with ASTRA-sim's rule.

    A rank computes one node at a time, and sends one message at a time: of those that are ready,
    the first in the order of priorities. FILE holds, in YAML or JSON, the layers of a job, its
    nodes one by one, or a model with how it is divided among ranks, whose like ranks are simulated
    as classes; or give a trace of collectives, one of PyTorch's profiler, or a directory of
    Chakra's. Messages take alpha-beta costs of the level of the machine that they stay in;
    allreduces those of switches that add up, where it has such ones and that is faster.

    With a CLUSTER of known accelerators it is the step of a transformer as published runs have it:
    kernels by shape, what software hides of messages, pipeline, optimizer and memory, with
    constants fitted on such runs; tokens a second, and the share of the peak. Other jobs take
    its levels, inside servers and between them, in place of the file's machine and accelerator.

    Groups of as many ranks as a --book has hosts take its schedules, its host i being their i-th
    rank; what they cost is their steps and their busiest links, with alpha and bandwidth of the
    level that the group stays in.

    With --fidelity transfers every message becomes the transfers of a schedule: of a --book, of a
    topology of the machine, or of its algorithm, a ring if it has none. They queue at the links of
    the NETWORK in the order in which they ask, whatever group they are of; every rank is simulated
    by itself. Links of a book lead over shortest paths between the hosts; where its schedules name
    switches, switches of the network that join the hosts alike stand in for them. The answer has
    both fidelities, what messages take alone, and at which links those of which groups wait for
    each other. Where links have no unit, --bandwidth, or that of the machine's outermost level, is
    what leaves a host in all.

    With several --designs the circuits between ranks, or between blocks of the machine's last
    level but one, hold one recipe at a time. While they change, for --delta, no message over them
    is in flight; computation goes on. The answer is the sequence of configurations round the
    iteration, beside every one that is held throughout, and the delay up to which changes pay; with
    --fidelity transfers over the links of the configurations, whose latency is that of a step.

    \b
    Example:
      ocs-codesign example .
      ocs-codesign iterate layers.yaml
      ocs-codesign iterate llama3_70b.yaml h100x64.yaml
      ocs-codesign iterate groups.yaml --network 'leaf_spine(2,2,1,1,1)' --cut-through
      ocs-codesign iterate groups.yaml --book 'sum even=UniRing(1,2)'
      ocs-codesign iterate experts.yaml --designs 'Circulant(16,(4,8))' \\
          --designs 'GeneralizedKautz(3,16)' --delta 20us
    """
    given.links.check(of_configurations=bool(given.circuits.recipes))
    if given.timeline is not None and (
        given.cluster or given.circuits.recipes or given.links.are_crossed
    ):
        raise click.UsageError("--timeline is for jobs whose messages take what a formula says")
    if given.cluster is not None:
        if (
            given.priced is not None
            or given.links.are_crossed
            or given.books
            or given.circuits.recipes
        ):
            raise click.UsageError("CLUSTER says what the machine is: give no other options for it")
        from ocs_codesign.faces.cli.steps import step_on
        from ocs_codesign.jobs.files.job_files import GivenMachine
        from ocs_codesign.jobs.files.step_files import is_of_transformer

        if is_of_transformer(given.job):
            return step_on(given.job, given.cluster)
        from ocs_codesign.jobs.files.site_files import load_site

        machine, accelerator = load_site(given.cluster).machine()
        priced = GivenMachine(None, levels=machine, accelerator=accelerator)
        given = replace(given, priced=priced)
    if given.circuits.recipes:
        with progress("Measuring configurations"):
            if given.books:
                raise click.UsageError("give no --book: schedules are those of the configurations")
            changed = _with_changes(given)
        drawn = ("jobs.changes_figure", changed.planned, changed.name)
        told = answered("reconfiguration.reconfigured", changed, figure=drawn)
        return told.by_clock_of(None if given.priced is None else given.priced.real)
    if given.links.are_crossed:
        if given.priced is not None and given.priced.real is not None:
            raise click.UsageError("--machine is for --fidelity formula: transfers have links")
        with progress("Simulating"):
            crossed = _on_links(given)
        title = f"{crossed.name}, {counted(crossed.times, 'iteration')}"
        shown = ("jobs.link_job_figure", crossed.link_run, title)
        return answered("iteration.link_iteration", crossed, figure=shown)
    from ocs_codesign.faces.answers.iteration import JobIteration
    from ocs_codesign.jobs.files.job_files import load_job
    from ocs_codesign.jobs.issue import period_bound_s, steady

    with progress("Simulating"):
        loaded, _ = with_books(load_job(given.job, given.priced), given.books)
        done = steady(loaded.graph, loaded.discipline)
        bound_s = period_bound_s(loaded.graph)
        answer = JobIteration(
            *(loaded.name, loaded.text, loaded.graph, done, bound_s), _in_network(loaded)
        )
    times = done.job_run.graph.num_nodes // loaded.graph.num_nodes
    figure = ("jobs.job_figure", done.job_run, f"{loaded.name}, {counted(times, 'iteration')}")
    measured = {}
    if loaded.profile is not None:
        from ocs_codesign.faces.answers.declared import records

        measured = {"profile": records()["profiled_step"].json(loaded.profile)}
    files = {}
    if given.timeline is not None:
        from ocs_codesign.interop.timeline import timeline_of_job

        files[given.timeline] = timeline_of_job(done.job_run)
    told = answered("iteration.iteration", answer, more=measured, figure=figure, files=files)
    return told.by_clock_of(None if given.priced is None else given.priced.real)


def _on_links(given: IterateOptions) -> LinkIteration:
    from ocs_codesign.faces.answers.iteration import LinkIteration
    from ocs_codesign.jobs.files.job_files import load_job
    from ocs_codesign.jobs.issue import steady
    from ocs_codesign.jobs.on_links import alone_ticks, bound_on_links_s, on_clock, steady_on_links

    loaded = load_job(given.job, given.priced, ranks_alone=True)
    job, group_books = with_books(loaded, given.books)
    model = None if given.priced is None else given.priced.model
    egress = None if model is None else float(model.node_bandwidth_Bps)
    placed = given.links.placed(job, egress, group_books)
    graph = on_clock(job.graph, placed.network.tick_s)
    found, link_run = steady_on_links(graph, placed)
    return LinkIteration(
        *(job.name, job.text, job.graph, steady(job.graph), found, link_run),
        *(alone_ticks(placed), bound_on_links_s(graph, placed)),
    )


def _with_changes(given: IterateOptions) -> ReconfiguredAnswer:
    from ocs_codesign.faces.answers.reconfiguration import ReconfiguredAnswer
    from ocs_codesign.jobs.files.job_files import load_job
    from ocs_codesign.jobs.reconfigured.planning import plan_iteration

    links = given.links
    if links.network is not None:
        raise click.UsageError("give no --network: the links are those of the configurations")
    loaded = load_job(given.job, given.priced, ranks_alone=links.are_crossed)
    job = given.circuits.configured(loaded)
    tell_phase("Simulating")
    if not links.are_crossed:
        return ReconfiguredAnswer(loaded.name, loaded.text, plan_iteration(job))
    from ocs_codesign.jobs.reconfigured.clock import formula_clock
    from ocs_codesign.jobs.reconfigured.on_networks import on_networks

    machine = machine_of(loaded)
    placed = on_networks(job, machine, links.latency_s, cut_through=links.cut_through)
    planned = plan_iteration(placed.job, placed.clock, least=placed.least)
    best = planned.best
    formula = formula_clock(job, best.order, best.choice)
    return ReconfiguredAnswer(loaded.name, loaded.text, planned, formula.period_s)
