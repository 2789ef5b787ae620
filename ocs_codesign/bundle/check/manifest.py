"""The manifest of a bundle: checksums, the fabric, claimed configurations, and files to expect."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.bundle.check.circuits import database_name, has_database, table_name
from ocs_codesign.bundle.check.claims import RANKS
from ocs_codesign.bundle.check.designs import DESIGN_FILES
from ocs_codesign.bundle.check.inventory import INVENTORY
from ocs_codesign.bundle.check.plans import plan_name
from ocs_codesign.bundle.check.state import RUNBOOK, STATE, WORK
from ocs_codesign.bundle.check.wiring import CABLING
from ocs_codesign.collective import WITHOUT_PARAMETERS
from ocs_codesign.cost import Cost
from ocs_codesign.files.naming import shown
from ocs_codesign.files.plain_text import read_plain_text
from ocs_codesign.formats.fabric.fabric_files import MAX_FABRIC_BYTES, parse_fabric

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.bundle.check.files import BundleFiles
    from ocs_codesign.fabric.description import Fabric

FORMAT, VERSION = "ocs-codesign bundle", 2
MANIFEST, FABRIC, REPORT = "manifest.json", "fabric.json", "report.html"
MAX_MANIFEST_BYTES = 64 * 2**20
MAX_NODES = 2**20
MAX_CONFIGURATIONS = 256

_FRACTION = re.compile(r"(0|[1-9][0-9]{0,99})(/[1-9][0-9]{0,99})?")


@final
@dataclass(frozen=True, slots=True)
class ClaimedConfiguration:
    """What the manifest says of a configuration."""

    name: str
    recipe: str | None
    num_nodes: int
    degree: int
    bounds: dict[str, Cost]

    @property
    def collectives(self) -> tuple[str, ...]:
        """The collectives that it has a schedule for."""
        return tuple(self.bounds)


def read_manifest(files: BundleFiles) -> dict[str, Any]:
    """The manifest, or ValueError if there is none of this format."""
    path = files.root / MANIFEST
    if MANIFEST not in files.sizes:
        raise ValueError(f"{files.root}: this is not a bundle, there is no {MANIFEST}")
    data = files.read(MANIFEST, MAX_MANIFEST_BYTES)
    if data is None:
        raise ValueError(f"{path}: the manifest cannot be read or is too large")
    value = read_plain_text(data, str(path), is_json=True).value
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise ValueError(f"{path}: this is not the manifest of a bundle: format must be {FORMAT!r}")
    if value.get("version") != VERSION or isinstance(value.get("version"), bool):
        found = shown(value.get("version"))
        raise ValueError(f"{path}: version is {found}: only version {VERSION} is read")
    return value


def check_checksums(files: BundleFiles, manifest: dict[str, Any]) -> None:
    """Compare sizes and SHA-256 of all files; missing and extra files are findings."""
    listed = manifest.get("files")
    if not isinstance(listed, dict):
        files.findings.add(MANIFEST, "files", "it must be an object, a checksum for every file")
        return
    for path in sorted(set(files.sizes) - set(listed) - {MANIFEST}):
        files.wrong(path, "the file is not in the manifest")
    for path in sorted(listed):
        claim = listed[path]
        if path not in files.sizes:
            files.wrong(path, "the file is missing, but it is in the manifest")
        elif not isinstance(claim, dict) or set(claim) != {"sha256", "bytes"}:
            files.findings.add(MANIFEST, f"files {path}", "it must have sha256 and bytes")
        elif claim["bytes"] != files.sizes[path]:
            rule = f"it has {files.sizes[path]} bytes, in the manifest {shown(claim['bytes'])}"
            files.wrong(path, rule)
        elif claim["sha256"] != files.digest(path):
            files.wrong(path, "its SHA-256 is not the one in the manifest")


def read_claims(files: BundleFiles, manifest: dict[str, Any]) -> list[ClaimedConfiguration]:
    """The configurations in the manifest that can be checked."""
    value = manifest.get("configurations")
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_CONFIGURATIONS:
        rule = f"it must be a list of 1 to {MAX_CONFIGURATIONS} configurations"
        files.findings.add(MANIFEST, "configurations", rule)
        return []
    claims: list[ClaimedConfiguration] = []
    for at, one in enumerate(value):
        place = f"configurations[{at}]"
        try:
            claim = _claim(one)
        except ValueError as error:
            files.findings.add(MANIFEST, place, str(error))
            continue
        if any(claim.name == other.name for other in claims):
            files.findings.add(MANIFEST, place, f"a second one is named {shown(claim.name)}")
        elif claims and claim.num_nodes != claims[0].num_nodes:
            rule = f"nodes is {claim.num_nodes}, of the first one {claims[0].num_nodes}"
            files.findings.add(MANIFEST, place, rule)
        else:
            claims.append(claim)
    return claims


def _claim(value: Any) -> ClaimedConfiguration:
    if not isinstance(value, dict):
        raise ValueError("it must be an object")
    name, recipe, nodes = (value.get(key) for key in ("name", "recipe", "nodes"))
    degree, collectives = value.get("degree"), value.get("collectives")
    if not isinstance(name, str) or not name or {"/", "\\", "\0"} & set(name) or name[0] == ".":
        raise ValueError(f"name is {shown(name)}: it must be that of a file")
    if recipe is not None and not isinstance(recipe, str):
        raise ValueError(f"recipe is {shown(recipe)}: it must be text or null")
    if type(nodes) is not int or not 1 <= nodes <= MAX_NODES:
        raise ValueError(f"nodes is {shown(nodes)}: it must be from 1 to {MAX_NODES}")
    if type(degree) is not int:
        raise ValueError(f"degree is {shown(degree)}: it must be a whole number")
    known = [one.name for one in WITHOUT_PARAMETERS]
    if not isinstance(collectives, list) or any(one not in known for one in collectives):
        raise ValueError(f"collectives must be of {', '.join(known)}")
    if len(set(collectives)) < len(collectives):
        raise ValueError("a collective is given twice")
    bounds = value.get("bounds")
    if not isinstance(bounds, dict) or set(bounds) != set(collectives):
        raise ValueError("bounds must have the steps and t_b of every collective")
    costs = {kind: _bound(bounds[kind]) for kind in collectives}
    return ClaimedConfiguration(name, recipe, nodes, degree, costs)


def _bound(value: Any) -> Cost:
    if not isinstance(value, dict) or set(value) != {"steps", "t_b"}:
        raise ValueError(f"a bound is {shown(value)}: it must have steps and t_b")
    steps, t_b = value["steps"], value["t_b"]
    if type(steps) is not int or not isinstance(t_b, str) or not _FRACTION.fullmatch(t_b):
        raise ValueError(f"a bound is {shown(value)}: steps is a number and t_b a fraction")
    return Cost(steps, Fraction(t_b))


def read_fabric(files: BundleFiles, manifest: dict[str, Any]) -> Fabric | None:
    """The fabric, whose name the manifest must have; None, with a finding, if it is damaged."""
    fabric = files.parsed(
        FABRIC, lambda data: parse_fabric(data, FABRIC, is_json=True), MAX_FABRIC_BYTES
    )
    if fabric is None:
        return None
    for key in ("name", "fabric"):
        if manifest.get(key) != fabric.name:
            rule = f"it is {shown(manifest.get(key))}: in {FABRIC} it is {shown(fabric.name)}"
            files.findings.add(MANIFEST, key, rule)
    return fabric


def check_names(files: BundleFiles, fabric: Fabric, claims: list[ClaimedConfiguration]) -> None:
    """Files that a bundle has not, and those that nothing else looks at."""
    expected = set(_expected(fabric, claims))
    pairs = permutations([claim.name for claim in claims], 2)
    stages = ("work/", *(f"{plan_name(*pair)}/" for pair in pairs))
    others = (path for path in files.sizes if not path.startswith(stages))
    for path in sorted(set(others) - expected):
        files.wrong(path, "a bundle of this manifest has no such file")
    if REPORT not in files.sizes:
        files.wrong(REPORT, "the file is missing")
    for claim in claims:
        if claim.num_nodes > fabric.num_working_hosts:
            rule = f"nodes is {claim.num_nodes}: {fabric.num_working_hosts} hosts are not spare"
            files.findings.add(MANIFEST, f"configuration {claim.name}", rule)
    for host in sorted(set(fabric.hosts) & {switch.name for switch in fabric.switches}):
        files.wrong(FABRIC, f"{shown(host)} is a host and a switch")


def _expected(fabric: Fabric, claims: list[ClaimedConfiguration]) -> Iterator[str]:
    yield from (MANIFEST, FABRIC, REPORT, CABLING, RANKS, STATE, WORK, RUNBOOK, *INVENTORY)
    for claim in claims:
        yield from (f"links/{claim.name}.csv", f"graphs/{claim.name}.json")
        yield f"graphs/{claim.name}.graphml"
        for switch in fabric.switches:
            yield table_name(claim.name, switch.name)
            if has_database(switch):
                yield database_name(claim.name, switch.name)
        for collective in claim.collectives:
            for name in DESIGN_FILES:
                yield f"schedules/{claim.name}/{collective}/{name}"
    for before, after in permutations(claims, 2):
        path = plan_name(before.name, after.name)
        yield from (f"{path}.csv", f"{path}.json", f"{path}.md")
