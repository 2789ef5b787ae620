"""Bundles of pods: what every switch joins for every slice, as a directory. Format 1.

- ``manifest.json``: format, version, the shape of a cube, the slices with their recipe and their
  cubes in order, and the size and SHA-256 of every other file.
- ``fabric.json``: the pod as a fabric whose hosts are cubes; ``cabling.csv``: its cables, side A
  of switch ``d2q5`` to the + port of dimension 2 at position 5 of every cube, side B to the - port.
- ``cross_connects/SLICE/SWITCH.csv``: those of a slice, in the form ``1A-2B``.
- ``switches/SWITCH.config_db.json``: those of all slices together, for SONiC.
- ``slices/SLICE.json``: its permutations, which ``pod cost`` reads.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ocs_codesign
from ocs_codesign.core.files.atomic import whole_directory
from ocs_codesign.fabric.bundle.write.bundle import (
    MANIFEST,
    POD_FORMAT,
    check_bundle_directory,
    files_described,
    write_file,
)
from ocs_codesign.fabric.bundle.write.tables import (
    cables,
    cabling_table,
    cross_connects,
    switch_databases,
    switch_tables,
)
from ocs_codesign.fabric.bundle.write.text import check_names, json_bytes
from ocs_codesign.fabric.files.fabric_files import fabric_text
from ocs_codesign.fabric.pods.description import slice_json
from ocs_codesign.fabric.pods.placing import pod_cabling, pod_configuration, pod_fabric

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.fabric.pods.description import PodDescription
    from ocs_codesign.fabric.pods.placing import PlacedPod


VERSION = 1


def write_pod(
    pod: PodDescription, placed: Sequence[PlacedPod], directory: str | Path
) -> dict[str, Any]:
    """Write the bundle of slices on a pod, whole or not at all; the manifest that was written.

    Raises ValueError for names that cannot be those of files and a directory that holds anything
    but a bundle, OSError if it cannot be written.
    """
    check_names(pod_fabric(pod), [each.name for each in placed])
    check_bundle_directory(directory)
    with whole_directory(Path(directory), swapped=True) as part:
        for path, content in _contents(pod, placed):
            write_file(part / path, content)
        manifest = {
            "format": POD_FORMAT,
            "version": VERSION,
            "name": Path(pod.name).stem,
            "product_version": ocs_codesign.__version__,
            "fabric": Path(pod.name).stem,
            "cube": list(pod.cube),
            "slices": [
                {"name": each.name, "recipe": repr(each.slice), "cubes": list(each.cubes)}
                for each in placed
            ],
            "files": files_described(part),
        }
        write_file(part / MANIFEST, json_bytes(manifest))
    return manifest


def _contents(pod: PodDescription, placed: Sequence[PlacedPod]) -> Iterator[tuple[str, bytes]]:
    """All files but the manifest, by path."""
    cabling = pod_cabling(pod_fabric(pod))
    listed = cables(cabling)
    yield "fabric.json", json_bytes(json.loads(fabric_text(cabling.fabric, as_json=True)))
    yield "cabling.csv", cabling_table(listed)
    for each in placed:
        configuration = pod_configuration(cabling, [each], each.name)
        tables = switch_tables(configuration, cross_connects(configuration))
        for name, content in tables.items():
            yield f"cross_connects/{each.name}/{name}", content
        yield f"slices/{each.name}.json", slice_json(each.slice)
    rows = cross_connects(pod_configuration(cabling, placed, "all"))
    for name, content in switch_databases(cabling.fabric, rows, listed, ()).items():
        yield f"switches/{name}", content
