"""Bundles to be damaged: their files in memory, edited and sealed again."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import tempfile
from functools import cache
from pathlib import Path

from bundle_samples import files_of, named, rotor_fabric, small_fabric, stages_fabric, written

from ocs_codesign.fabric.bundle.verify import check_bundle
from ocs_codesign.fabric.deployments.day_two import repaired
from ocs_codesign.fabric.deployments.deploy import Failures, deploy
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.wiring import Port

Files = dict[str, bytes]
Table = list[dict[str, str]]

MANIFEST = "manifest.json"
TWO_WAY = (("ring", "BiRing(2, 8)"), ("cube", "Circulant(8, (1, 3))"))
ONE_WAY = (("one", "DirectedCirculant(8, (1, 3))"), ("two", "DirectedCirculant(8, (1, 2))"))
KINDS = ("simplex", "two-sided", "matching", "restricted", "stages", "repaired")


@cache
def sample(kind):
    """The files of a small bundle with two configurations; do not change them in place."""
    if kind == "stages":
        deployment = deploy(stages_fabric(), named(*ONE_WAY), ("allreduce",))
    elif kind == "repaired":
        lost = Failures(("h3",), (Port("p0s0", "A", 1), Port("p1s0", "B", 5)))
        deployment = repaired(deploy(small_fabric(), named(*TWO_WAY)), lost)[0]
    elif kind == "restricted":
        deployment = deploy(rotor_fabric(), named(*ONE_WAY), ("allreduce",))
    else:
        fabric = small_fabric(PortModel(kind))
        deployment = deploy(fabric, named(*TWO_WAY), ("allreduce", "alltoall"))
    with tempfile.TemporaryDirectory() as parent:
        return files_of(written(deployment, Path(parent) / "bundle"))


def table_of(data):
    return list(csv.DictReader(io.StringIO(data.decode(), newline="")))


def table_bytes(rows, like):
    """Rows under the header of another table."""
    header = like.decode().splitlines()[0].split(",")
    text = io.StringIO()
    writer = csv.DictWriter(text, header, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def json_bytes(value):
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()


def sealed(files):
    """The files with a manifest whose sizes and checksums are right again."""
    manifest = json.loads(files[MANIFEST])
    manifest["files"] = {
        path: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
        for path, data in files.items()
        if path != MANIFEST
    }
    return {**files, MANIFEST: json_bytes(manifest)}


def edited(kind, path, edit, *, seal=True):
    """A bundle one of whose tables or JSON files was edited in place."""
    files = dict(sample(kind))
    if path.endswith(".csv"):
        rows = table_of(files[path])
        edit(rows)
        files[path] = table_bytes(rows, files[path])
    else:
        value = json.loads(files[path])
        edit(value)
        files[path] = json_bytes(value)
    return sealed(files) if seal else files


def put(files, directory):
    for path, data in files.items():
        place = directory / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    return directory


def checked(files):
    with tempfile.TemporaryDirectory() as parent:
        return check_bundle(put(files, Path(parent)))
