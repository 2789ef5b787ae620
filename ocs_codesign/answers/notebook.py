"""Values as notebooks show them: the sections of the command line as escaped HTML."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.html import notebook_html, table_html
from ocs_codesign.answers.sections import Facts, Recipes, Table
from ocs_codesign.answers.texts import ASK_FOR_A_MODEL, cost_text, loads_table
from ocs_codesign.quantities import format_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.comparison.comparison import Comparison
    from ocs_codesign.design import Design
    from ocs_codesign.fabric.deployments.deployment import Deployment
    from ocs_codesign.fabric.description import Fabric
    from ocs_codesign.fabric.selection.ranking import Selection
    from ocs_codesign.network import Network
    from ocs_codesign.schedule import Schedule
    from ocs_codesign.search.pareto import Frontier
    from ocs_codesign.simulate.simulated import Simulated
    from ocs_codesign.timed import Timed
    from ocs_codesign.topology import Topology
    from ocs_codesign.workload.issue import JobRun

_TOP, _MAX_MEASURED = 10, 2048


def html_of(value: object) -> str:
    """The HTML of a value; TypeError for one of which nothing is known.

    >>> from ocs_codesign.topology import Topology
    >>> '<th scope="row">nodes</th><td>2</td>' in html_of(Topology(2, [0, 1], [1, 0]))
    True
    """
    sections = SECTIONS.get(type(value).__name__)
    if sections is None:
        raise TypeError(f"nothing is known of {type(value).__name__} that could be shown")
    return notebook_html(html for html in map(_html, sections(value)) if html)


def _html(section: Section) -> str:
    if isinstance(section, Facts):
        lines = [
            f'<tr><th scope="row">{escape(name)}</th><td>{escape(str(value))}</td></tr>'
            for name, value in section.rows
            if value is not None
        ]
        return "<table><tbody>\n" + "\n".join(lines) + "\n</tbody></table>"
    if isinstance(section, Table):
        numbers = section.columns[: section.numbers]
        return table_html(section.columns, section.rows, numbers=numbers, note=section.note)
    if isinstance(section, Recipes):
        lines = [f"<li><code>{escape(text)}</code></li>" for text in section.texts]
        return "<details><summary>Recipes</summary><ul>" + "".join(lines) + "</ul></details>"
    return f"<p>{escape(section.strip())}</p>" if section.strip() else ""


def _frontier(frontier: Frontier) -> Iterator[Section]:
    """What the command line says, but for its options, which have other names in Python."""
    from ocs_codesign.answers.frontier import frontier_sections

    for section in frontier_sections(frontier, None, show_all=False):
        if isinstance(section, str):
            section = section.replace("--fresh", "fresh=True")
        if section != ASK_FOR_A_MODEL:
            yield section


def _design(design: Design) -> Iterator[Section]:
    yield Facts(
        ("recipe", repr(design.recipe) if design.recipes else None),
        ("label", design.label or None),
        ("collective", design.collective.name),
        ("cost", f"{cost_text(design.cost)}, {design.known.value}"),
        ("schedule", design.maker),
    )
    if design.loads:
        yield loads_table(design.loads)


def _schedule(schedule: Schedule) -> Iterator[Section]:
    yield Facts(
        ("collective", schedule.collective.name),
        ("nodes, links", f"{schedule.topology.num_nodes}, {schedule.topology.num_links}"),
        ("cost", cost_text(schedule.synchronous_cost())),
        ("sends", f"{schedule.num_sends:,}"),
        ("chunks a shard", schedule.num_chunks),
    )


def _topology(topology: Topology) -> Iterator[Section]:
    yield Facts(
        ("nodes", topology.num_nodes),
        ("links", topology.num_links),
        ("degree", topology.degree),
        ("diameter", _diameter_text(topology) if topology.num_nodes <= _MAX_MEASURED else None),
        ("speeds", None if topology.link_speed is None else "of links differ"),
    )


def _diameter_text(topology: Topology) -> str:
    distances = topology.distances()
    return str(distances.max(initial=0)) if distances.min() >= 0 else "not strongly connected"


def _network(network: Network) -> Iterator[Section]:
    rates = f"{network.bandwidth.min(initial=0)} to {network.bandwidth.max(initial=0)}"
    yield Facts(
        ("hosts", network.num_hosts),
        ("switches", network.num_nodes - network.num_hosts),
        ("links", network.num_links),
        ("bandwidths", f"{rates} {network.unit}".strip()),
    )


def _timed(timed: Timed) -> Iterator[Section]:
    yield Facts(("takes", format_time(timed.total_s)), ("tick", format_time(timed.tick_s)))
    yield from _schedule(timed.schedule)


def _simulated(simulated: Simulated) -> Iterator[Section]:
    transfers = simulated.transfers
    yield Facts(
        ("takes", format_time(simulated.total_s)),
        ("transfers", f"{transfers.num_transfers:,} of {transfers.num_steps} steps"),
    )
    yield from _network(transfers.network)


def _job_run(job_run: JobRun) -> Iterator[Section]:
    graph, tick_s = job_run.graph, job_run.graph.tick_s
    yield Facts(
        ("takes", format_time(job_run.total_s)),
        ("nodes", graph.num_nodes),
        ("ranks", int(graph.ranks.sum())),
    )
    ticks = (job_run.compute_ticks(), job_run.channel_ticks(), job_run.exposed_ticks())
    rows = [
        (str(owner), *(format_time(int(column[owner]) * tick_s) for column in ticks))
        for owner in range(graph.num_owners)
    ]
    columns = ("class", "computes", "communicates", "of it exposed")
    yield Table(columns, rows, numbers=4).shortened("classes")


def _comparison(comparison: Comparison) -> Iterator[Section]:
    from ocs_codesign.answers.compare import compare_sections

    return compare_sections([comparison])


def _selection(selection: Selection) -> Iterator[Section]:
    from ocs_codesign.answers.select import selection_sections

    return selection_sections(selection, _TOP)


def _fabric(fabric: Fabric) -> Iterator[Section]:
    from ocs_codesign.answers.fabric import check_sections
    from ocs_codesign.fabric.facts import fabric_facts
    from ocs_codesign.fabric.prices import fabric_price

    return check_sections(fabric, fabric_facts(fabric), fabric_price(fabric))


def _deployment(deployment: Deployment) -> Iterator[Section]:
    yield Facts(("fabric", deployment.fabric.name), ("is up", deployment.up))
    rows = [
        (
            made.name,
            str(made.topology.num_nodes),
            str(made.configuration.num_circuits),
            ", ".join(
                f"{bounded.collective.name} {cost_text(bounded.design.cost)}"
                for bounded in made.designs
            ),
            repr(made.recipe),
        )
        for made in deployment.configurations
    ]
    yield Table(("configuration", "nodes", "circuits", "schedules", "recipe"), rows, texts=2)


SECTIONS: dict[str, Callable[[Any], Iterable[Section]]] = {
    "Comparison": _comparison,
    "Deployment": _deployment,
    "Design": _design,
    "Fabric": _fabric,
    "Frontier": _frontier,
    "JobRun": _job_run,
    "Network": _network,
    "Schedule": _schedule,
    "Selection": _selection,
    "Simulated": _simulated,
    "Timed": _timed,
    "Topology": _topology,
}
"""What is shown of every value that can be, by its type."""
