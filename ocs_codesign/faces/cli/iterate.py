"""``ocs-codesign iterate``: the iterations of a job on a clock."""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import click

from ocs_codesign.core.progress import tell_phase
from ocs_codesign.core.quantities import parse_time
from ocs_codesign.faces.cli.job_options import (
    book_option,
    link_options,
    machine_options,
    with_books,
)
from ocs_codesign.faces.cli.options import (
    INPUT,
    delta_per_circuit_option,
    json_option,
    plot_option,
    quantity_option,
)
from ocs_codesign.faces.cli.output import check_outputs, emit
from ocs_codesign.faces.cli.progress import progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.faces.answers.iteration import LinkIteration
    from ocs_codesign.faces.answers.reconfiguration import ReconfiguredAnswer
    from ocs_codesign.faces.cli.job_options import AskedLinks
    from ocs_codesign.jobs.files.job_files import GivenMachine, LoadedJob
    from ocs_codesign.jobs.prices import Machine
    from ocs_codesign.jobs.reconfigured.prices import ConfiguredJob


# The options --designs, --delta and --delta-per-circuit: circuits that change in a job.


_OPTIONS = (
    click.option(
        "--designs",
        "configurations",
        metavar="RECIPE",
        multiple=True,
        help="What the circuits can hold between ranks, or blocks of them; given twice or more.",
    ),
    quantity_option("--delta", parse_time, "Dead time of a change of configuration, such as 10us."),
    delta_per_circuit_option,
)


@final
@dataclass(frozen=True, slots=True)
class AskedCircuits:
    """Configurations of circuits, and what a change takes, as they were asked for."""

    recipes: tuple[str, ...]
    delta_s: float
    per_circuit_s: float

    def configured(self, job: LoadedJob) -> ConfiguredJob:
        """The job on these circuits; ValueError as in ``machine_of``."""
        from ocs_codesign.circuits.change import Change
        from ocs_codesign.faces.cli.handles import recipe_of
        from ocs_codesign.jobs.reconfigured.prices import configured

        machine = machine_of(job)
        change = Change(self.delta_s, self.per_circuit_s)
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


def configuration_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """These options, as the argument ``circuits``: None without configurations."""

    @wraps(command)
    def chosen(
        *arguments: Any,
        configurations: tuple[str, ...],
        delta: float | None,
        delta_per_circuit: float | None,
        **others: Any,
    ) -> Any:
        circuits = None
        if configurations:
            if delta is None:
                raise click.UsageError("--designs needs --delta: how long a change takes")
            circuits = AskedCircuits(configurations, delta, delta_per_circuit or 0)
        elif delta is not None or delta_per_circuit is not None:
            raise click.UsageError(
                "--delta and --delta-per-circuit are for --designs: what changes"
            )
        return command(*arguments, circuits=circuits, **others)

    decorated: Callable[..., Any] = chosen
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def _in_network(loaded: LoadedJob) -> tuple[int, int] | None:
    """Nodes of allreduces that switches add up, and of all; None if no switch does."""
    from ocs_codesign.jobs.prices import added_up

    machine = loaded.machine
    if machine is None or all(level.aggregation is None for level in machine.levels):
        return None
    return added_up(loaded.graph, machine)


@click.command(short_help="Simulate the iterations of a training job.")
@click.argument("job", type=INPUT, metavar="FILE")
@machine_options
@link_options
@book_option
@configuration_options
@plot_option("what ranks compute and send when")
@json_option
def iterate(
    job: str,
    given: GivenMachine | None,
    links: AskedLinks | None,
    books: tuple[str, ...],
    circuits: AskedCircuits | None,
    plot: str | None,
    json_path: str | None,
) -> int:
    """Simulate the job in FILE, iteration after iteration, with ASTRA-sim's rule.

    A rank computes one node at a time, and sends one message at a time: of those that are ready,
    the first in the order of priorities. FILE holds, in YAML or JSON, the layers of a job, its
    nodes one by one, or a model with how it is divided among ranks, whose like ranks are simulated
    as classes; or give a trace of collectives, one of PyTorch's profiler, or a directory of
    Chakra's. Messages take alpha-beta costs of the level of the machine that they stay in;
    allreduces those of switches that add up, where it has such ones and that is faster.

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
      ocs-codesign iterate groups.yaml --network 'leaf_spine(2,2,1,1,1)' --cut-through
      ocs-codesign iterate groups.yaml --book 'sum even=UniRing(1,2)'
      ocs-codesign iterate experts.yaml --designs 'Circulant(16,(4,8))' \\
          --designs 'GeneralizedKautz(3,16)' --delta 20us
    """
    check_outputs(json_path, plot)
    if circuits is not None:
        with progress("Measuring configurations"):
            if books:
                raise click.UsageError("give no --book: schedules are those of the configurations")
            changed = _with_changes(job, given, links, circuits)
            files = _picture_of_changes(changed, plot)
        from ocs_codesign.faces.answers.reconfiguration import (
            reconfigured_json,
            reconfigured_sections,
        )

        emit(reconfigured_json(changed), json_path, reconfigured_sections(changed), files)
        return 0
    if links is not None:
        with progress("Simulating"):
            on_links = _on_links(job, given, links, books)
            files = _picture(on_links, plot)
        from ocs_codesign.faces.answers.iteration import (
            link_iteration_json,
            link_iteration_sections,
        )

        sections = link_iteration_sections(on_links)
        emit(link_iteration_json(on_links), json_path, sections, files)
        return 0
    from ocs_codesign.faces.answers.iteration import (
        JobIteration,
        iteration_json,
        iteration_sections,
    )
    from ocs_codesign.jobs.files.job_files import load_job
    from ocs_codesign.jobs.issue import period_bound_s, steady

    with progress("Simulating"):
        loaded, _ = with_books(load_job(job, given), books)
        done = steady(loaded.graph)
        bound_s = period_bound_s(loaded.graph)
        answer = JobIteration(
            *(loaded.name, loaded.text, loaded.graph, done, bound_s), _in_network(loaded)
        )
        files = {}
        if plot is not None:
            from ocs_codesign.faces.pictures.files import figure_bytes
            from ocs_codesign.faces.pictures.jobs import job_figure

            times = done.job_run.graph.num_nodes // loaded.graph.num_nodes
            figure = job_figure(done.job_run, f"{loaded.name}, {times} iterations")
            files[plot] = figure_bytes(figure, Path(plot).suffix)
    emit(iteration_json(answer), json_path, iteration_sections(answer), files)
    return 0


def _on_links(
    path: str, given: GivenMachine | None, links: AskedLinks, books: tuple[str, ...]
) -> LinkIteration:
    from ocs_codesign.faces.answers.iteration import LinkIteration
    from ocs_codesign.jobs.files.job_files import load_job
    from ocs_codesign.jobs.issue import steady
    from ocs_codesign.jobs.on_links import alone_ticks, bound_on_links_s, on_clock, steady_on_links

    job, group_books = with_books(load_job(path, given, ranks_alone=True), books)
    model = None if given is None else given.model
    egress = None if model is None else float(model.node_bandwidth_Bps)
    placed = links.placed(job, egress, group_books)
    graph = on_clock(job.graph, placed.network.tick_s)
    found, link_run = steady_on_links(graph, placed)
    return LinkIteration(
        *(job.name, job.text, job.graph, steady(job.graph), found, link_run),
        *(alone_ticks(placed), bound_on_links_s(graph, placed)),
    )


def _with_changes(
    path: str, given: GivenMachine | None, links: AskedLinks | None, circuits: AskedCircuits
) -> ReconfiguredAnswer:
    from ocs_codesign.faces.answers.reconfiguration import ReconfiguredAnswer
    from ocs_codesign.jobs.files.job_files import load_job
    from ocs_codesign.jobs.reconfigured.planning import plan_iteration

    if links is not None and links.network is not None:
        raise click.UsageError("give no --network: the links are those of the configurations")
    loaded = load_job(path, given, ranks_alone=links is not None)
    job = circuits.configured(loaded)
    tell_phase("Simulating")
    if links is None:
        return ReconfiguredAnswer(loaded.name, loaded.text, plan_iteration(job))
    from ocs_codesign.jobs.reconfigured.clock import formula_clock
    from ocs_codesign.jobs.reconfigured.on_networks import on_networks

    machine = machine_of(loaded)
    placed = on_networks(job, machine, links.latency_s, cut_through=links.cut_through)
    planned = plan_iteration(placed.job, placed.clock, least=placed.least)
    best = planned.best
    formula = formula_clock(job, best.order, best.choice)
    return ReconfiguredAnswer(loaded.name, loaded.text, planned, formula.period_s)


def _picture_of_changes(answer: ReconfiguredAnswer, plot: str | None) -> dict[str, bytes]:
    if plot is None:
        return {}
    from ocs_codesign.faces.pictures.files import figure_bytes
    from ocs_codesign.faces.pictures.jobs import changes_figure

    return {plot: figure_bytes(changes_figure(answer.planned, answer.name), Path(plot).suffix)}


def _picture(answer: LinkIteration, plot: str | None) -> dict[str, bytes]:
    if plot is None:
        return {}
    from ocs_codesign.faces.pictures.files import figure_bytes
    from ocs_codesign.faces.pictures.jobs import link_job_figure

    figure = link_job_figure(answer.link_run, f"{answer.name}, {answer.times} iterations")
    return {plot: figure_bytes(figure, Path(plot).suffix)}
