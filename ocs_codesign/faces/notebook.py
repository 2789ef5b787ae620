"""Values as notebooks show them: the sections of the command line as escaped HTML."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, final
from urllib.parse import quote

from ocs_codesign.core.quantities import format_time
from ocs_codesign.faces.answers.sections import Facts, Recipes, Table
from ocs_codesign.faces.answers.texts import ASK_FOR_A_MODEL, cost_text, loads_table, told_late

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ocs_codesign.core.circuits import Timed
    from ocs_codesign.core.network import Network
    from ocs_codesign.core.schedule import Schedule
    from ocs_codesign.core.topology import Topology
    from ocs_codesign.fabric.deployments.deploy import Deployment
    from ocs_codesign.fabric.description import Fabric
    from ocs_codesign.fabric.selection.ranking import Selection
    from ocs_codesign.faces.answers.sections import Section
    from ocs_codesign.jobs.issue import JobRun
    from ocs_codesign.schedules.compare.comparison import Comparison
    from ocs_codesign.schedules.design import Design
    from ocs_codesign.schedules.simulate.engine import Simulated
    from ocs_codesign.search.pareto import Frontier


# Tables and facts as HTML: every text in them is escaped, numbers are flush right.
#
# Reports bring a style of their own; in notebooks tables have one that takes the colours of what
# shows them. Greys are half transparent and texts inherit, so that light and dark are alike.


_STYLE = """\
.ocs-shown{--ocs-accent:var(--jp-brand-color1,var(--vscode-textLink-foreground,\
var(--color-brand-primary,#1769aa)));\
color:var(--jp-content-font-color1,var(--vscode-editor-foreground,inherit))}
@media (prefers-color-scheme:dark){.ocs-shown{--ocs-accent:var(--jp-brand-color1,\
var(--vscode-textLink-foreground,var(--color-brand-primary,#64a8e0)))}}
.ocs-shown .scrolled{overflow-x:auto}
.ocs-shown.ocs-shown table{width:auto;margin:.4em 0;border:0;border-collapse:collapse;\
table-layout:auto;color:inherit}
.ocs-shown.ocs-shown tr,.ocs-shown.ocs-shown thead{border:0;background:none}
.ocs-shown.ocs-shown th,.ocs-shown.ocs-shown td{padding:.25em .7em;border:0;text-align:left;\
vertical-align:top;color:inherit;background:none;overflow-wrap:anywhere}
.ocs-shown.ocs-shown thead th{border-bottom:2px solid var(--ocs-accent);white-space:nowrap}
.ocs-shown.ocs-shown tbody td,.ocs-shown.ocs-shown tbody th\
{border-bottom:1px solid rgba(127,127,127,.3)}
.ocs-shown.ocs-shown tbody tr:nth-child(even){background:rgba(127,127,127,.1)}
.ocs-shown.ocs-shown tbody tr:hover{background:rgba(127,127,127,.22)}
.ocs-shown.ocs-shown .number{text-align:right;white-space:nowrap;\
font-variant-numeric:tabular-nums}
.ocs-shown.ocs-shown code{color:inherit;background:rgba(127,127,127,.15);overflow-wrap:anywhere}
.ocs-shown summary{cursor:pointer;color:inherit}
.ocs-shown summary::marker{color:var(--ocs-accent)}
"""
"""For notebooks: the variables are those of JupyterLab, VS Code and the documentation's theme."""


@final
@dataclass(frozen=True, slots=True)
class FileLink:
    """A file of a bundle, to open from the report beside it."""

    path: str

    def __str__(self) -> str:
        return self.path


def table_html(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    numbers: Sequence[str] = (),
    code: Sequence[str] = (),
    note: str = "",
    label: str = "",
) -> str:
    """A table of plain text; columns named in ``numbers`` are flush right, in ``code`` monospaced.

    A ``note`` is a paragraph below it. With a ``label`` it is a region of the page that keys reach,
    so that they can scroll it.

    >>> "&lt;b&gt;" in table_html(("name",), [("<b>",)])
    True
    """
    kinds = [
        ' class="number"' if name in numbers else ' class="code"' if name in code else ""
        for name in columns
    ]
    head = "".join(
        f'<th scope="col"{kind if "number" in kind else ""}>{escape(name)}</th>'
        for name, kind in zip(columns, kinds, strict=True)
    )
    lines = [
        "<tr>"
        + "".join(
            f"<td{kind}>{cell_html(cell)}</td>" for cell, kind in zip(row, kinds, strict=True)
        )
        + "</tr>"
        for row in rows
    ]
    region = f' tabindex="0" role="region" aria-label="{escape(label)}"' if label else ""
    return (
        f'<div class="scrolled"{region}><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n'
        + "\n".join(lines)
        + "\n</tbody>\n</table></div>"
        + (f'<p class="note">{escape(note)}</p>' if note else "")
    )


def notebook_html(parts: Iterable[str]) -> str:
    """Parts of HTML with the style of notebooks, which reaches nothing else.

    >>> notebook_html(["<p>one</p>"]).splitlines()[-1]
    '<p>one</p></div>'
    """
    return f'<div class="ocs-shown"><style>\n{_STYLE}</style>\n' + "\n".join(parts) + "</div>"


def facts_html(rows: Iterable[tuple[str, object]]) -> str:
    """Names with what they are, as a list.

    >>> facts_html([("hosts", 8)])
    '<dl><dt>hosts</dt><dd>8</dd></dl>'
    """
    lines = (f"<dt>{escape(name)}</dt><dd>{cell_html(value)}</dd>" for name, value in rows)
    return f"<dl>{''.join(lines)}</dl>"


def cell_html(cell: object) -> str:
    """A text, or a link to a file."""
    text = escape(str(cell))
    return f'<a href="{quote(cell.path)}">{text}</a>' if isinstance(cell, FileLink) else text


_TOP, _MAX_MEASURED = 10, 2048


def html_of(value: object) -> str:
    """The HTML of a value; TypeError for one of which nothing is known.

    >>> from ocs_codesign.core.topology import Topology
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
    from ocs_codesign.faces.answers.frontier import frontier_sections

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
        ("schedule", told_late(design.maker, design)),
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
    from ocs_codesign.faces.answers.compare import compare_sections

    return compare_sections([comparison])


def _selection(selection: Selection) -> Iterator[Section]:
    from ocs_codesign.faces.answers.select import selection_sections

    return selection_sections(selection, _TOP)


def _fabric(fabric: Fabric) -> Iterator[Section]:
    from ocs_codesign.fabric.description import fabric_facts
    from ocs_codesign.fabric.profiles import fabric_price
    from ocs_codesign.faces.answers.select import check_sections

    return check_sections(fabric, fabric_facts(fabric), fabric_price(fabric))


def _deployment(deployment: Deployment) -> Iterator[Section]:
    yield Facts(("fabric", deployment.fabric.name), (f"is {deployment.standing}", deployment.up))
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
