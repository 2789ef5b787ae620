"""The report of a bundle: what is deployed, what it costs and loses, and which file says what."""

from __future__ import annotations

from collections import Counter
from functools import partial
from html import escape
from importlib.resources import files
from itertools import islice
from typing import TYPE_CHECKING, Any

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.quantities import format_bandwidth, format_size, format_time
from ocs_codesign.fabric.bundle.write.bundle import state_of, write_with_report
from ocs_codesign.fabric.bundle.write.tables import price_rows
from ocs_codesign.fabric.bundle.write.text import BETWEEN, decimal_text
from ocs_codesign.fabric.light import LossFlag, light_paths
from ocs_codesign.fabric.wiring import port_use
from ocs_codesign.faces.notebook import FileLink, cell_html, facts_html, table_html
from ocs_codesign.faces.web.report.charts import (
    hosts_figure,
    load_figures,
    margins_figure,
    port_keys,
    ports_figure,
    switch_figures,
)
from ocs_codesign.faces.web.report.rehearsals import rehearsal_section
from ocs_codesign.faces.web.report.topologies import MAX_PLANES, is_on_circle, topology_figures

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from fractions import Fraction
    from pathlib import Path

    from ocs_codesign.fabric.deployments.deploy import DeployedConfiguration, Deployment
    from ocs_codesign.fabric.rewiring.configurations import ConfigurationChange


# The page of a report: sections under headings, with the style of the explorer inside.


_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page_html(title: str, lead: str, sections: Mapping[str, str]) -> str:
    """The whole page; title and lead are plain text, ``sections`` HTML by heading, if any.

    It has no scripts, and its policy lets it load nothing.
    """
    parts = {heading: html for heading, html in sections.items() if html}
    contents = "".join(f'<a href="#{anchor(heading)}">{escape(heading)}</a>' for heading in parts)
    body = "\n".join(
        f'<section id="{anchor(heading)}">\n<h2>{escape(heading)}</h2>\n{html}\n</section>'
        for heading, html in parts.items()
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="data:,">\n'
        f"<style>\n{style()}</style>\n</head>\n<body>\n"
        f'<header>\n<h1>{escape(title)}</h1>\n<p class="lead">{escape(lead)}</p>\n'
        f'<nav aria-label="Sections">{contents}</nav>\n</header>\n'
        f"<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def style() -> str:
    """The explorer's theme, then what only reports need."""
    web = files("ocs_codesign.faces.web")
    sheets = (web.joinpath("static", "theme.css"), web.joinpath("report", "report.css"))
    return "".join(sheet.read_text(encoding="utf-8") for sheet in sheets)


def anchor(heading: str) -> str:
    """The place of a section in the page.

    >>> anchor("Step loads")
    'step-loads'
    """
    return heading.lower().replace(" ", "-")


SIZES_BYTES = (2**20, 2**26, 2**30)
MAX_LISTED_FILES = 200
MAX_DRAWN = 4
"""Configurations with pictures."""

_LOADS = "The largest load of a link in every step, in shards: M/N of a message of M."
_PORTS = ("ports", "used", "spare", "failed", "free")

_PURPOSES = (
    ("manifest.json", "size and SHA-256 of every other file"),
    ("fabric.json", "the fabric"),
    ("state.json", "what is up, what has failed, spares in use, and the last work"),
    ("work.csv", "the steps of the last work, in order"),
    ("work.md", "the same in sentences"),
    ("rehearsal.json", "what came of it on an emulated fabric"),
    ("work/", "the same for SONiC, by stage and switch"),
    ("netbox/README.md", "the order of the imports"),
    ("cabling.csv", "every cable"),
    ("ranks.csv", "where the strands of every rank are plugged"),
    ("ports.csv", "ports in use, spare and free of every switch"),
    ("prices.csv", "list estimates"),
    ("cross_connects/", "cross-connects of a switch, as a table and for SONiC"),
    ("links/", "every link, its way through the switches, and its loss"),
    ("netbox/", "bulk import into NetBox"),
    ("graphs/", "the topology, for other tools"),
    ("schedules/", "a verified schedule"),
    ("plans/", "the way from one configuration to another"),
)


def report_page(
    deployment: Deployment, files: dict[str, Any], rehearsal: dict[str, Any] | None = None
) -> str:
    """The page, complete in itself; ``files`` (as the manifest has them) are all but these two."""
    fabric = deployment.fabric
    names = ", ".join(repr(one.recipe) for one in deployment.configurations)
    lead = f"{names} on {deployment.num_nodes} of {len(fabric.hosts)} hosts"
    sections = {
        "Summary": _summary(deployment),
        "State": _state(deployment),
        "Configurations": _configurations(deployment),
        "Topologies": _drawn(deployment, _topology),
        "Switches": _drawn(deployment, _switches),
        "Costs": _costs(deployment),
        "Loads": _pictures(load_figures(deployment), _LOADS),
        "Ports": _ports(deployment),
        "Losses": _losses(deployment),
        "Changes": _changes(deployment.changes) if deployment.changes else "",
        "Rehearsal": "" if rehearsal is None else rehearsal_section(rehearsal),
        "Prices": _prices(deployment),
        "Files": _files(files),
    }
    return page_html(f"Deployment on {fabric.name}", lead, sections)


def _pictures(figures: Sequence[str], note: str = "") -> str:
    after = f'<p class="note">{escape(note)}</p>' if note else ""
    return f'<div class="pictures">{"".join(figures)}</div>{after}' if any(figures) else ""


def _drawn(
    deployment: Deployment, pictures: Callable[[Deployment, DeployedConfiguration], str]
) -> str:
    """The pictures of every configuration under its name, as many as are drawn."""
    shown = deployment.configurations[:MAX_DRAWN]
    parts = []
    for one in shown:
        up = f", {deployment.standing} now" if one.name == deployment.up else ""
        parts.append(f"<h3>{escape(one.name)}{up}</h3>\n{pictures(deployment, one)}")
    left_out = len(deployment.configurations) - len(shown)
    if left_out:
        parts.append(f'<p class="note">{left_out} more are not drawn: links/ has them.</p>')
    return "\n".join(parts)


def _topology(deployment: Deployment, one: DeployedConfiguration) -> str:
    del deployment
    num_planes = len(set(one.configuration.plane.tolist()))
    note = "A line without arrows is a link in both directions, or one of very many."
    if not is_on_circle(one):
        note = "Cells are darker where more links lead from ranks of a row to those of a column."
    if num_planes > MAX_PLANES:
        note += f" Of {num_planes} planes the first {MAX_PLANES} are drawn."
    table = FileLink(f"links/{one.name}.csv")
    recipe = f'<p class="sub">{escape(repr(one.recipe))}; every link: {cell_html(table)}</p>'
    return recipe + _pictures(topology_figures(one), note)


def _switches(deployment: Deployment, one: DeployedConfiguration) -> str:
    keys = "".join(
        f'<span class="key {kind}">{escape(text)}</span> ' for kind, text in port_keys(deployment)
    )
    where = f"cross_connects/{escape(one.name)}/ lists all cross-connects."
    return f'<p class="sub">{where} Ports: {keys}</p>' + _pictures(switch_figures(deployment, one))


def _summary(deployment: Deployment) -> str:
    fabric = deployment.fabric
    model = fabric.cost_model
    profiles = Counter(switch.profile.name for switch in fabric.switches)
    models = [switch.profile.port_model.value for switch in fabric.switches]
    cabling = deployment.cabling
    num_cables = int((cabling.a_switch >= 0).sum() + (cabling.b_switch >= 0).sum())
    rows = [
        ("fabric", fabric.name),
        ("hosts", f"{len(fabric.hosts)}, of which {fabric.num_spare_hosts} spare"),
        ("ranks", f"{deployment.num_nodes}; ranks.csv has the host of each"),
        ("planes", fabric.num_planes),
        ("port model", ", ".join(dict.fromkeys(models))),
        ("switches", ", ".join(f"{count} x {name}" for name, count in sorted(profiles.items()))),
        ("cables", f"{num_cables} to hosts, {len(cabling.trunks)} between switches"),
        ("bandwidth of a host", format_bandwidth(model.node_bandwidth_Bps)),
        ("time of a step (alpha)", format_time(model.alpha_s)),
    ]
    return facts_html(rows)


def _state(deployment: Deployment) -> str:
    state = state_of(deployment)
    spares = state["spares_in_use"]
    rows: list[tuple[str, object]] = [
        ("up", state["up"]),
        ("failed", ", ".join(deployment.failures.components()) or "nothing"),
        ("spare hosts in use", ", ".join(spares["hosts"]) or "none"),
        ("spare ports in use", ", ".join(spares["ports"]) or "none"),
        ("last work", "cables laid" if deployment.work is None else deployment.work.title),
    ]
    if deployment.work is not None and deployment.work.steps:
        rows.append(("its runbook", FileLink("work.md")))
    return facts_html(rows) + _pictures([hosts_figure(deployment), ports_figure(deployment)])


def _configurations(deployment: Deployment) -> str:
    columns = ("name", "recipe", "nodes", "degree", "circuits", "planes", "switches on the way")
    rows = [
        (
            *(one.name, repr(one.recipe), one.topology.num_nodes, one.topology.degree),
            one.configuration.num_circuits,
            len(set(one.configuration.plane.tolist())),
            ", ".join(map(str, one.num_stages())),
            _plane_loss(one),
        )
        for one in deployment.configurations
    ]
    numbers = ("nodes", "degree", "circuits", "planes")
    return table_html(
        (*columns, "when a plane is lost"),
        rows,
        numbers=numbers,
        code=("recipe",),
        label="Configurations",
    )


def _plane_loss(one: DeployedConfiguration) -> str:
    loss = one.plane_loss()
    if loss.stays_connected:
        return "all nodes stay connected"
    return f"up to {max(loss.num_components)} parts are left"


def _costs(deployment: Deployment) -> str:
    model = deployment.fabric.cost_model
    columns = ["configuration", "collective", "steps", "least steps", "t_b", "least t_b"]
    sizes = [format_size(size) for size in SIZES_BYTES]
    rows = [
        (
            *(one.name, bounded.collective.name),
            *(bounded.design.cost.steps, bounded.bound.steps),
            *(_decimal(bounded.design.cost.t_b), _decimal(bounded.bound.t_b)),
            *(format_time(bounded.design.cost.time_s(model, size)) for size in SIZES_BYTES),
            f"{bounded.design.maker}, {bounded.design.schedule.num_sends} sends",
        )
        for one in deployment.configurations
        for bounded in one.designs
    ]
    kinds = {d.collective for made in deployment.configurations for d in made.designs}
    exchanged = "; that of an all-to-all is for schedules of as many steps."
    if Collective.ALLTOALL not in kinds:
        exchanged = "."
    note = (
        "t_b is in units of the data's time on the bandwidth of a host. Least values are bounds "
        f"for this topology{exchanged} Every schedule has been verified send by send."
    )
    names, numbers = (*columns, *sizes, "schedule"), (*columns[2:], *sizes)
    return table_html(names, rows, numbers=numbers, note=note, label="Costs")


def _decimal(t_b: Fraction) -> str:
    return str(t_b) if t_b.denominator == 1 else f"{t_b} = {decimal_text(t_b)}"


def _ports(deployment: Deployment) -> str:
    fabric = deployment.fabric
    totals: dict[tuple[int, str], Counter[str]] = {}
    for use in port_use(deployment.cabling, deployment.failed_ports()):
        counts = (use.num_ports, use.num_used, use.num_spares, use.num_failed, use.num_free)
        place = (fabric.switches[use.switch].plane, use.side)
        totals.setdefault(place, Counter()).update(dict(zip(_PORTS, counts, strict=True)))
    rows = [
        (plane, side, len(fabric.switches_of(plane)), *(total[kind] for kind in _PORTS))
        for (plane, side), total in sorted(totals.items())
    ]
    columns, numbers = ("plane", "side", "switches", *_PORTS), ("switches", *_PORTS)
    return table_html(
        columns, rows, numbers=numbers, note="ports.csv has every switch.", label="Ports of planes"
    )


def _losses(deployment: Deployment) -> str:
    counts: Counter[tuple[str, int, int, Fraction, Fraction, LossFlag]] = Counter()
    for one in deployment.configurations:
        links = (one.configuration.link >= 0).sum(axis=1).tolist()
        for path, number in zip(light_paths(one.configuration), links, strict=True):
            stages = len(path.switches)
            key = (one.name, path.plane, stages, path.loss_db, path.margin_db, path.flag)
            counts[key] += number
    columns = ("configuration", "plane", "switches on the way", "links", "loss dB", "margin dB")
    rows = [
        (name, plane, stages, count, decimal_text(loss), decimal_text(margin), flag.sentence)
        for (name, plane, stages, loss, margin, flag), count in sorted(
            counts.items(), key=lambda item: item[0][:4]
        )
    ]
    budget = deployment.fabric.loss_budget_db
    note = (
        f"The budget is {budget:g} dB. A link loses two connectors, the switches on its way and, "
        "where circuits carry both directions, two circulators."
    )
    table = table_html(
        (*columns, "what to think of it"),
        rows,
        numbers=columns[2:],
        note=note,
        label="Losses of links",
    )
    return table + _pictures([margins_figure(deployment)])


def _changes(changes: Sequence[ConfigurationChange]) -> str:
    columns = ("from", "to", "stages", "kept", "deleted", "created", "dead time", "service")
    names = (f"{change.before.name}{BETWEEN}{change.after.name}" for change in changes)
    rows = [
        (
            *(change.before.name, change.after.name, len(change.stages)),
            *(change.num_kept, change.num_deleted, change.num_created),
            *(format_time(float(change.dead_time_s)), change.service.value),
            FileLink(f"plans/{name}.md"),
        )
        for change, name in zip(changes, names, strict=True)
    ]
    note = (
        "Counts are cross-connects. In every stage the listed ones are deleted before others are "
        "created; the plans hold the certificate of each stage."
    )
    return table_html(
        (*columns, "runbook"),
        rows,
        numbers=columns[2:6],
        note=note,
        label="Changes of configuration",
    )


def _prices(deployment: Deployment) -> str:
    columns = ("item", "count", "USD each", "USD", "source")
    rows = [
        (item, count, unit or "-", total or "-", source)
        for item, count, unit, total, source in price_rows(deployment.fabric)
    ]
    note = "Estimates to compare fabrics with; they are no quotes."
    return table_html(columns, rows, numbers=columns[1:4], note=note, label="Prices")


def _files(files: dict[str, Any]) -> str:
    rows = [
        (FileLink(path), f"{file['bytes']:,}", _purpose(path), file["sha256"][:12])
        for path, file in islice(files.items(), MAX_LISTED_FILES)
    ]
    left_out = len(files) - len(rows)
    more = f"{left_out} more files are not shown. " if left_out else ""
    return table_html(
        ("file", "bytes", "what it is", "SHA-256"),
        rows,
        numbers=("bytes",),
        code=("file", "SHA-256"),
        note=f"{more}manifest.json has all files and whole digests.",
        label="Files",
    )


def _purpose(path: str) -> str:
    return next((purpose for start, purpose in _PURPOSES if path.startswith(start)), "")


# Bundles with their report: what ``deploy`` and all that changes a deployment writes.


def write_bundle(
    deployment: Deployment, directory: str | Path, rehearsal: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Write the bundle of a deployment, whole or not at all; the manifest that was written.

    The directory appears complete, in one move, or takes the place of an earlier bundle. What came
    of a ``rehearsal`` is a file of it and a section of its report. Raises ValueError for names that
    cannot be those of files and a directory that holds anything else, OSError if it cannot be
    written.
    """
    page = partial(report_page, rehearsal=rehearsal)
    return write_with_report(deployment, directory, page, rehearsal)
