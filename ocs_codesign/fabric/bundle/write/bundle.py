"""Bundles: everything that an engineer needs to put a deployment on a real fabric, as a directory.

Format 2. All text is UTF-8 with LF, CSV has a header, JSON sorted keys; there are no dates and no
absolute paths, so that the same deployment gives the same bytes. Ports of switches, steps and
stages count from 1; planes, links, circuits and ranks from 0.

- ``manifest.json``: format, version, the configurations with the bounds of their collectives, and
  the size and SHA-256 of every other file.
- ``state.json``: the configuration that is ``up``, or ``planned`` until its work was reported done,
  what has ``failed``, the spare hosts and ports in use, strands without a cable of hosts that have
  another in the plane, and the last work, planned or done.
  ``work.csv`` has the steps of that, if it had any: cross-connects and cable ends in their order;
  ``work.md`` says them in sentences, ``work/`` as ``plans/FROM-to-TO/`` does.
- ``fabric.json``: the fabric file (see ``fabric_files``).
- ``cabling.csv``: every cable from A, the host (of a trunk the upstream switch), to B, the switch.
  Hosts' strands are ``tx`` and ``rx``; ``a`` and ``b`` on two-sided switches, ``x`` on those
  without sides. A strand's cable keeps its number whatever else is plugged. ``ranks.csv`` is the
  same by host, without trunks; hosts without a rank are spare or have failed.
- ``cross_connects/CONFIGURATION/SWITCH.csv`` in the form ``1A-2B``, and ``SWITCH.config_db.json``
  for SONiC; on switches without sides ``1-7``, for which SONiC has no form.
- ``links/CONFIGURATION.csv``: every link, the cross-connects of its circuit in order from the
  circuit's A end to its B end, and the loss: ``over`` the budget, too much for ``fr4`` (4 dB) or
  ``dr4`` (3 dB) transceivers, or ``ok``.
- ``ports.csv``, ``prices.csv``, ``netbox/dcim.*.csv`` (``README.md`` there says in which order),
  ``graphs/CONFIGURATION.graphml|json``.
- ``schedules/CONFIGURATION/COLLECTIVE/``: the verified design, as ``build`` saves it.
- ``plans/FROM-to-TO.csv|json``: batches, deletions first, with one stage a plane; the summary says
  whether the nodes stay strongly connected in every stage. ``FROM-to-TO.md`` is the runbook,
  ``FROM-to-TO/stage-1.SWITCH.patch.json``, ``.sh`` and ``.rollback.sh`` tell SONiC (see ``sonic``).
- ``rehearsal.json``: what came of a rehearsal of the bundle, if there was one; what changes the
  deployment leaves it out.
- ``report.html``: one page to read, with its pictures and without anything from the network. What
  makes it is handed in (``web.report``).
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, final

import numpy as np

import ocs_codesign
from ocs_codesign.core.files.archives import read_limited
from ocs_codesign.core.files.atomic import check_replaceable, whole_directory, write_files
from ocs_codesign.fabric.bundle.write.netbox import netbox_files
from ocs_codesign.fabric.bundle.write.runbook import stage_files, work_runbook
from ocs_codesign.fabric.bundle.write.tables import (
    PRICE_COLUMNS,
    cables,
    cabling_table,
    cross_connects,
    links_table,
    plan_files,
    ports_table,
    price_rows,
    ranks_table,
    switch_databases,
    switch_tables,
)
from ocs_codesign.fabric.bundle.write.text import check_names, csv_bytes, json_bytes
from ocs_codesign.fabric.deployments.work import Action, joined_names
from ocs_codesign.fabric.files.fabric_files import fabric_text
from ocs_codesign.fabric.wiring import NOT_CABLED, port_at, used_ports
from ocs_codesign.graphs.formats.graphml import write_graphml
from ocs_codesign.graphs.formats.node_link import write_node_link
from ocs_codesign.schedules.files.designs import save_design

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ocs_codesign.fabric.deployments.deploy import Deployment
    from ocs_codesign.fabric.deployments.work import Work, WorkStep
    from ocs_codesign.fabric.wiring import Cabling


# The state of a deployment: what is up, what has failed, which spares serve, and the last work.


STATE, WORK_FILE = "state.json", "work.csv"
STANDINGS = ("up", "planned")


def state_files(deployment: Deployment) -> dict[str, bytes]:
    """``state.json``, and ``work.csv`` if anything was done by steps."""
    files = {STATE: json_bytes(state_of(deployment))}
    work = deployment.work
    if work is not None and work.steps:
        rows = [
            (step.stage, step.action.value, step.switch, step.id, step.plane, step.cable)
            for step in work.steps
        ]
        columns = ("stage", "action", "switch", "id", "plane", "cable")
        files[WORK_FILE] = csv_bytes(columns, rows)
        files["work.md"] = work_runbook(deployment, work.steps, work.title)
        held = _before(deployment, work.steps)
        patches = stage_files(deployment.fabric, work.steps, held)
        files |= {f"work/{name}": content for name, content in patches.items()}
    return files


def _before(deployment: Deployment, steps: Sequence[WorkStep]) -> set[tuple[str, str]]:
    """The cross-connects that were up before the work."""
    held = set(joined_names(deployment.configuration(deployment.up).configuration))
    for step in reversed(steps):
        if step.action is Action.CREATE:
            held.discard((step.switch, step.id))
        elif step.action is Action.DELETE:
            held.add((step.switch, step.id))
    return held


def state_of(deployment: Deployment) -> dict[str, Any]:
    """The content of ``state.json``."""
    fabric, failures = deployment.fabric, deployment.failures
    spare = range(fabric.num_working_hosts, len(fabric.hosts))
    return {
        **standing_json(deployment),
        "failed": {
            "hosts": list(failures.hosts),
            "ports": [str(port) for port in failures.ports],
            "switches": list(failures.switches),
        },
        "spares_in_use": {
            "hosts": [fabric.hosts[host] for host in spare if host in deployment.host],
            "ports": list(_spare_ports(deployment.cabling)),
        },
        "unplugged": list(_unplugged(deployment.cabling)),
        "last_work": None if deployment.work is None else _summary(deployment.work),
    }


def standing_json(deployment: Deployment) -> dict[str, str | None]:
    """The configuration that is up, or that the planned work leads to; the other is null."""
    return {what: deployment.up if deployment.standing == what else None for what in STANDINGS}


def _summary(work: Work) -> dict[str, Any]:
    """What was done last, and how many steps of each kind that took."""
    counts = {action.value: 0 for action in Action}
    for step in work.steps:
        counts[step.action.value] += 1
    if not counts[Action.REPLACE.value]:
        del counts[Action.REPLACE.value]
    return {"title": work.title, **counts}


def _spare_ports(cabling: Cabling) -> Iterator[str]:
    """Spare ports with a cable, in order of switch, side and number."""
    for number, side, port in sorted(used_ports(cabling)):
        if port > cabling.fabric.switches[number].num_usable:
            yield str(port_at(cabling.fabric, number, side, port))


def _unplugged(cabling: Cabling) -> Iterator[str]:
    """Strands without a cable of hosts with another one in the plane, as in ``h3 p0 tx``."""
    fabric = cabling.fabric
    plugged = np.stack([cabling.a_switch, cabling.b_switch], axis=2) != NOT_CABLED
    for host, plane in np.argwhere(plugged.any(axis=2)).tolist():
        for side, strand in enumerate(dict.fromkeys(fabric.port_model.strands)):
            if not plugged[host, plane, side]:
                yield f"{fabric.hosts[host]} p{plane} {strand}"


FORMAT, VERSION = "ocs-codesign bundle", 2
POD_FORMAT = "ocs-codesign pod"
"""That of slices of a pod (see ``write.pods``)."""
MANIFEST, REPORT, REHEARSAL = "manifest.json", "report.html", "rehearsal.json"
MAX_MANIFEST_BYTES = 64 * 2**20


def check_bundle_directory(directory: str | Path) -> None:
    """ValueError or OSError if a bundle must not be written there: only bundles are replaced.

    The directory must be new, empty, or hold a bundle and nothing else.
    """
    check_replaceable(
        Path(directory).resolve(),
        lambda earlier: _files_in(earlier) - _listed_files(earlier),
        "a bundle is only written to a new or empty directory or over an earlier bundle",
        swapped=True,
    )


def write_with_report(
    deployment: Deployment,
    directory: str | Path,
    report: Callable[[Deployment, dict[str, Any]], str],
    rehearsal: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Write the bundle of a deployment, whole or not at all; the manifest that was written.

    The directory appears complete, in one move, or takes the place of an earlier bundle.
    ``report`` makes its page from the deployment and from all other files but the manifest, as that
    lists them. Raises ValueError for names that cannot be those of files and a directory that holds
    anything else, OSError if it cannot be written.
    """
    check_names(deployment.fabric, [one.name for one in deployment.configurations])
    check_bundle_directory(directory)
    contents = _contents(deployment)
    if rehearsal is not None:
        contents[REHEARSAL] = json_bytes(rehearsal)
    with whole_directory(Path(directory), swapped=True) as part:
        for path, content in contents.items():
            write_file(part / path, content)
        _save_designs(deployment, part)
        page = report(deployment, files_described(part))
        write_file(part / REPORT, page.encode())
        manifest = _manifest(deployment, files_described(part))
        write_file(part / MANIFEST, json_bytes(manifest))
    return manifest


def _contents(deployment: Deployment) -> dict[str, bytes]:
    """All files but designs, report and manifest, by path."""
    fabric, cabling = deployment.fabric, deployment.cabling
    listed, failed = cables(cabling), deployment.failed_ports()
    broken = (*deployment.failures.hosts, *deployment.failures.switches)
    files = {
        "fabric.json": json_bytes(json.loads(fabric_text(fabric, as_json=True))),
        "cabling.csv": cabling_table(listed),
        "ranks.csv": ranks_table(fabric, listed, deployment.host),
        "ports.csv": ports_table(cabling, failed),
        "prices.csv": csv_bytes(PRICE_COLUMNS, price_rows(fabric)),
    }
    joined = sorted(joined_names(deployment.configuration(deployment.up).configuration))
    inventory = netbox_files(fabric, listed, broken, joined)
    files |= {f"netbox/{name}": table for name, table in inventory.items()} | state_files(
        deployment
    )
    for one in deployment.configurations:
        configuration, title = one.configuration, repr(one.recipe)
        rows = cross_connects(configuration)
        tables = switch_tables(configuration, rows)
        tables |= switch_databases(fabric, rows, listed, failed)
        files |= {f"cross_connects/{one.name}/{name}": table for name, table in tables.items()}
        files[f"links/{one.name}.csv"] = links_table(configuration, rows)
        files[f"graphs/{one.name}.graphml"] = write_graphml(one.topology, title).encode()
        files[f"graphs/{one.name}.json"] = write_node_link(one.topology, title).encode()
    for change in deployment.changes:
        files |= {f"plans/{name}": content for name, content in plan_files(change).items()}
    return files


def _save_designs(deployment: Deployment, directory: Path) -> None:
    for one in deployment.configurations:
        for bounded in one.designs:
            place = directory / "schedules" / one.name / bounded.collective.name
            save_design(bounded.design, place)


def _manifest(deployment: Deployment, files: dict[str, Any]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": deployment.fabric.name,
        "product_version": ocs_codesign.__version__,
        "fabric": deployment.fabric.name,
        "configurations": [
            {
                "name": one.name,
                "recipe": repr(one.recipe),
                "nodes": one.topology.num_nodes,
                "degree": one.topology.degree,
                "collectives": [bounded.collective.name for bounded in one.designs],
                "bounds": {
                    bounded.collective.name: {
                        "steps": bounded.bound.steps,
                        "t_b": str(bounded.bound.t_b),
                    }
                    for bounded in one.designs
                },
            }
            for one in deployment.configurations
        ],
        "files": files,
    }


def write_file(path: Path, content: bytes) -> None:
    """Write a file of a bundle, in a directory that is made for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def files_described(directory: Path) -> dict[str, Any]:
    """Size and SHA-256 of every file in a directory, as a manifest lists them."""
    described = {}
    for path in sorted(_files_in(directory)):
        with (directory / path).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        described[path] = {"sha256": digest, "bytes": (directory / path).stat().st_size}
    return described


def _files_in(directory: Path) -> set[str]:
    """Paths, with slashes, of everything in a directory that is not a directory itself."""
    return {
        path.relative_to(directory).as_posix()
        for path in directory.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }


def _listed_files(directory: Path) -> set[str]:
    """The files of the bundle that is in a directory; none if there is no bundle."""
    try:
        manifest = json.loads(read_limited(directory / MANIFEST, MAX_MANIFEST_BYTES))
    except (OSError, ValueError, RecursionError):
        return set()
    if not isinstance(manifest, dict) or manifest.get("format") not in (FORMAT, POD_FORMAT):
        return set()
    files = manifest.get("files")
    return {MANIFEST, *files} if isinstance(files, dict) else set()


# A bundle as one file: what can be sent, and opened where no directory can be chosen.


_EPOCH = (1980, 1, 1, 0, 0, 0)
_STORED = (".npz",)


def write_archive(directory: str | Path, files: Iterable[str], path: str | Path) -> int:
    """Write the ``files`` of a bundle's directory and its manifest as a zip; its size in bytes.

    In it they are in a folder of the directory's name, in order, without dates: the same bundle
    gives the same bytes. The zip appears whole or not at all. Raises OSError if a file cannot be
    read, or the zip not be written.
    """
    source, content = Path(directory), io.BytesIO()
    folder = source.resolve().name
    with zipfile.ZipFile(content, "w") as archive:
        for name in sorted({MANIFEST, *files}):
            member = zipfile.ZipInfo(f"{folder}/{name}", _EPOCH)
            member.compress_type = zipfile.ZIP_DEFLATED
            if name.endswith(_STORED):
                member.compress_type = zipfile.ZIP_STORED
            member.external_attr = 0o644 << 16
            archive.writestr(member, (source / name).read_bytes())
    write_files({Path(path): content.getvalue()})
    return content.tell()


# Where a bundle is put: in a directory, in a zip, or both.


@final
@dataclass(frozen=True, slots=True)
class BundlePlace:
    """A directory, a zip, or both; without a directory ``folder`` is that in the zip.

    ``earlier`` is the directory or zip that was read and is replaced: it must still be the same.

    >>> BundlePlace(None, "lab.zip").folder, str(BundlePlace("bundle", "lab.zip"))
    ('lab', 'bundle')
    """

    directory: str | None
    archive: str | None = None
    folder: str = ""
    earlier: str | None = None
    digest: str = field(init=False, default="")

    def __post_init__(self) -> None:
        if self.directory is None and self.archive is None:
            raise ValueError("a bundle is put in a directory or in a zip: neither is given")
        if not self.folder:
            object.__setattr__(self, "folder", Path(self.archive or "").stem)
        object.__setattr__(self, "digest", self._digest())

    def __str__(self) -> str:
        return self.directory or self.archive or ""

    def write(self, write_bundle: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
        """What ``write_bundle`` says of the directory that it writes: the bundle's manifest.

        Raises ValueError and OSError as it does and ``write_archive`` does, and ValueError if the
        bundle that was read has been changed meanwhile.
        """
        if self._digest() != self.digest:
            raise ValueError(
                f"{self.earlier} is no longer the bundle that was read: nothing was written; give "
                "the command again to begin with what is there now"
            )
        if self.directory is not None:
            return self._archived(self.directory, write_bundle)
        with TemporaryDirectory(prefix="ocs-codesign-") as room:
            return self._archived(str(Path(room) / self.folder), write_bundle)

    def _digest(self) -> str:
        """The SHA-256 of the earlier one, of a directory that of its manifest."""
        if self.earlier is None:
            return ""
        place = Path(self.earlier)
        try:
            with (place / MANIFEST if place.is_dir() else place).open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            return ""

    def _archived(
        self, directory: str, write_bundle: Callable[[str], dict[str, Any]]
    ) -> dict[str, Any]:
        manifest = write_bundle(directory)
        if self.archive is not None:
            write_archive(directory, manifest["files"], self.archive)
        return manifest
