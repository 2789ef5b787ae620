"""Bundles: everything that an engineer needs to put a deployment on a real fabric, as a directory.

Format 2. All text is UTF-8 with LF, CSV has a header, JSON sorted keys; there are no dates and no
absolute paths, so that the same deployment gives the same bytes. Ports of switches, steps and
stages count from 1; planes, links, circuits and ranks from 0.

- ``manifest.json``: format, version, the configurations with the bounds of their collectives, and
  the size and SHA-256 of every other file.
- ``state.json``: the configuration that is ``up``, what has ``failed``, the spare hosts and ports
  in use, strands without a cable of hosts that have another in the plane, and what was done last.
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
- ``report.html``: one page to read, with its pictures and without anything from the network. What
  makes it is handed in (``web.report``).
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ocs_codesign
from ocs_codesign.bundle.write.circuits import cross_connects, links_table, switch_tables
from ocs_codesign.bundle.write.names import check_names
from ocs_codesign.bundle.write.netbox import netbox_files
from ocs_codesign.bundle.write.plans import plan_files
from ocs_codesign.bundle.write.state import state_files
from ocs_codesign.bundle.write.tables import (
    PRICE_COLUMNS,
    cables,
    cabling_table,
    ports_table,
    price_rows,
    ranks_table,
)
from ocs_codesign.bundle.write.text import csv_bytes, json_bytes
from ocs_codesign.files.atomic import check_replaceable, whole_directory
from ocs_codesign.files.limited import read_limited
from ocs_codesign.formats.designs.design_files import save_design
from ocs_codesign.formats.fabric.fabric_files import fabric_text
from ocs_codesign.formats.graphs.graphml import write_graphml
from ocs_codesign.formats.graphs.node_link import write_node_link

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.fabric.deployments.deployment import Deployment

FORMAT, VERSION = "ocs-codesign bundle", 2
MANIFEST, REPORT = "manifest.json", "report.html"
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
    with whole_directory(Path(directory), swapped=True) as part:
        for path, content in contents.items():
            _write(part / path, content)
        _save_designs(deployment, part)
        page = report(deployment, _described(part))
        _write(part / REPORT, page.encode())
        manifest = _manifest(deployment, _described(part))
        _write(part / MANIFEST, json_bytes(manifest))
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
    inventory = netbox_files(fabric, listed, broken)
    files |= {f"netbox/{name}": table for name, table in inventory.items()} | state_files(
        deployment
    )
    for one in deployment.configurations:
        configuration, title = one.configuration, repr(one.recipe)
        rows = cross_connects(configuration)
        for name, content in switch_tables(configuration, rows, listed, failed).items():
            files[f"cross_connects/{one.name}/{name}"] = content
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


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _described(directory: Path) -> dict[str, Any]:
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
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        return set()
    files = manifest.get("files")
    return {MANIFEST, *files} if isinstance(files, dict) else set()
