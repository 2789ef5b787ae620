"""Bundles checked without trust: from cables and cross-connects to everything that is claimed.

Nothing that writes bundles is used. The light is followed from host strands through cross-connects
and trunks; the topology that it makes is compared with every graph and table of links, schedules
are replayed on it, and plans are carried out port by port. What a recipe means is not for this room
to say: whoever asks for the check brings a parser of recipes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.core.collective import WITHOUT_PARAMETERS
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.files.plain_text import read_plain_text
from ocs_codesign.core.progress import tell_phase
from ocs_codesign.core.shown import Brief, shown
from ocs_codesign.core.topology import Topology
from ocs_codesign.fabric.bundle.check.circuits import (
    CABLING,
    Failed,
    check_circuits,
    database_name,
    follow,
    has_database,
    read_cross_connects,
    read_plant,
    table_name,
)
from ocs_codesign.fabric.bundle.check.claims import (
    DESIGN_FILES,
    INVENTORY,
    RANKS,
    ReplayedSchedule,
    check_graphs,
    check_inventory,
    check_joined,
    check_schedule,
    derived_topology,
    first_difference,
    read_links,
    read_ranks,
)
from ocs_codesign.fabric.bundle.check.files import (
    BundleFiles,
    Comparison,
    Finding,
    Findings,
    compare_neighbours,
    read_neighbours,
)
from ocs_codesign.fabric.bundle.check.plans import (
    RUNBOOK,
    STATE,
    WORK,
    Plan,
    check_failed_rows,
    check_state,
    check_work,
    plan_name,
    read_state,
)
from ocs_codesign.fabric.bundle.check.pods import (
    check_permutations,
    check_switches,
    chips_of,
    database_of,
    permutations_of,
    read_cube,
    read_slices,
    slice_circuits,
)
from ocs_codesign.fabric.bundle.check.rehearsals import REHEARSAL, check_rehearsal
from ocs_codesign.fabric.files.fabric_files import MAX_FABRIC_BYTES, parse_fabric

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ocs_codesign.fabric.bundle.check.circuits import Circuit, CrossConnect, Plant
    from ocs_codesign.fabric.bundle.check.claims import ClaimedLink
    from ocs_codesign.fabric.bundle.check.files import Row
    from ocs_codesign.fabric.bundle.check.plans import State
    from ocs_codesign.fabric.description import Fabric
    from ocs_codesign.graphs.recipe import Recipe


# The manifest of a bundle: checksums, the fabric, claimed configurations, and files to expect.


VERSIONS = {"ocs-codesign bundle": 2, "ocs-codesign pod": 1}
POD = "ocs-codesign pod"
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
    plain = read_plain_text(data, str(path), is_json=True).value
    value: dict[str, Any] = plain if isinstance(plain, dict) else {}
    given = value.get("format")
    version = VERSIONS.get(given) if isinstance(given, str) else None
    if version is None:
        formats = " or ".join(map(repr, VERSIONS))
        raise ValueError(f"{path}: this is not the manifest of a bundle: format must be {formats}")
    if value.get("version") != version or isinstance(value.get("version"), bool):
        found = shown(value.get("version"))
        raise ValueError(f"{path}: version is {found}: only version {version} is read")
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


def _expected(fabric: Fabric, claims: list[ClaimedConfiguration]) -> Iterator[str]:
    yield from (MANIFEST, FABRIC, REPORT, CABLING, RANKS, STATE, WORK, RUNBOOK, *INVENTORY)
    yield REHEARSAL
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


@final
@dataclass(frozen=True, slots=True, eq=False)
class DerivedConfiguration:
    """What the light makes of a configuration, whatever is claimed.

    ``links`` are those of the table of links that a circuit carries, in its order.
    """

    claim: ClaimedConfiguration
    circuits: tuple[Circuit, ...]
    links: tuple[ClaimedLink, ...]
    topology: Topology

    @property
    def name(self) -> str:
        """Its name."""
        return self.claim.name


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BundleVerdict(Brief):
    """All that was found; ``findings`` are the first ``num_findings`` up to a limit.

    ``observed`` compares every configuration with the observed neighbours, if there are any.
    ``plant`` and ``state`` are None if they could not be read, ``work`` are the steps of the last
    work.
    """

    name: str
    plant: Plant | None
    state: State | None
    work: tuple[Row, ...]
    rank_of: dict[str, int]
    configurations: tuple[DerivedConfiguration, ...]
    schedules: tuple[ReplayedSchedule, ...]
    observed: tuple[Comparison, ...]
    findings: tuple[Finding, ...]
    num_findings: int

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.num_findings

    def __bool__(self) -> bool:
        """The same: a verdict is true if nothing is wrong."""
        return self.ok


def check_directory(
    directory: Path, observed: Path | None, parse_recipe: Callable[[str], Recipe], limit: int
) -> BundleVerdict:
    """Check the bundle in a directory; see ``bundle.verify.check_bundle``."""
    if not directory.is_dir():
        exists = directory.exists()
        rule = "is no directory: a bundle is one" if exists else "there is no such directory"
        raise ValueError(f"{directory}: {rule}")
    findings = Findings(limit)
    files = BundleFiles(directory, findings)
    manifest = read_manifest(files)
    tell_phase("Comparing checksums")
    check_checksums(files, manifest)
    fabric = read_fabric(files, manifest)
    checker = _Checker(files, parse_recipe)
    plant = state = None
    if fabric is not None and manifest["format"] == POD:
        tell_phase("Following cables")
        plant = read_plant(files, fabric, Failed())
        checker.check_pod(plant, manifest)
    elif fabric is not None:
        claims = read_claims(files, manifest)
        check_names(files, fabric, claims)
        state = read_state(files, fabric, [claim.name for claim in claims])
        tell_phase("Following cables")
        plant = read_plant(files, fabric, Failed() if state is None else state.failed)
        checker.check(plant, claims, state)
    else:
        read_claims(files, manifest)
    if observed is not None and plant is not None:
        checker.compare(plant, observed, together=manifest["format"] == POD)
    return BundleVerdict(
        manifest["name"] if isinstance(manifest.get("name"), str) else "",
        *(plant, state, tuple(checker.work), checker.rank_of),
        tuple(checker.derived),
        tuple(checker.schedules),
        tuple(checker.comparisons),
        tuple(findings.listed),
        findings.count,
    )


class _Checker:
    def __init__(self, files: BundleFiles, parse_recipe: Callable[[str], Recipe]) -> None:
        self.files, self.parse_recipe = files, parse_recipe
        self.rank_of: dict[str, int] = {}
        self.derived: list[DerivedConfiguration] = []
        self.rows: dict[str, dict[str, CrossConnect]] = {}
        self.schedules: list[ReplayedSchedule] = []
        self.comparisons: list[Comparison] = []
        self.work: list[Row] = []

    def check(self, plant: Plant, claims: list[ClaimedConfiguration], state: State | None) -> None:
        self.rank_of = read_ranks(self.files, plant, claims[0].num_nodes if claims else 0)
        if state is not None:
            check_state(self.files, plant, state, self.rank_of)
        check_inventory(self.files, plant)
        for claim in claims:
            tell_phase(f"Following the light of {claim.name}")
            self._configuration(plant, claim)
        for before, after in permutations((claim.name for claim in claims), 2):
            tell_phase(f"Carrying out the plan from {before} to {after}")
            rows = (self.rows[before], self.rows[after])
            Plan(plant, plan_name(before, after), *rows, self.rank_of).check(self.files)
        if state is not None and state.up in self.rows:
            check_joined(self.files, self.rows[state.up].values())
            self.work = check_work(self.files, plant, state, self.rows[state.up])
        if REHEARSAL in self.files.sizes:
            ways = {one.name: [link.circuit.way for link in one.links] for one in self.derived}
            check_rehearsal(self.files, ways)

    def _configuration(self, plant: Plant, claim: ClaimedConfiguration) -> None:
        files = self.files
        rows = read_cross_connects(files, plant, claim.name)
        self.rows[claim.name] = {row.place: row for row in rows}
        check_failed_rows(plant, rows)
        circuits = follow(plant, rows, tell=True)
        check_circuits(circuits)
        links = read_links(files, plant, claim.name, self.rank_of, circuits)
        made = derived_topology(claim.num_nodes, self.rank_of, circuits, links)
        self.derived.append(DerivedConfiguration(claim, circuits, links, made))
        check_graphs(files, claim.name, made, self._ordered(claim.num_nodes, links))
        for rule in self._recipe_rules(claim, made):
            files.findings.add(MANIFEST, f"configuration {claim.name}", rule)
        for collective in claim.collectives:
            tell_phase(f"Replaying the {collective} of {claim.name}")
            replayed = check_schedule(files, claim.name, collective, claim.recipe, made)
            if replayed is not None:
                self.schedules.append(replayed)
                least = claim.bounds[collective]
                if least.steps > replayed.cost.steps or least.t_b > replayed.cost.t_b:
                    rule = f"the bound of {collective} is above what its schedule takes"
                    files.findings.add(MANIFEST, f"configuration {claim.name}", rule)

    def check_pod(self, plant: Plant, manifest: dict[str, Any]) -> None:
        """Follow the light of all slices of a pod, each on cubes of its own."""
        files, num_cubes = self.files, len(plant.fabric.hosts)
        try:
            shape = read_cube(manifest, plant.fabric)
        except ValueError as error:
            files.findings.add(MANIFEST, "cube", str(error))
            return
        slices = read_slices(files, MANIFEST, manifest.get("slices"), num_cubes)
        switches = [switch.name for switch in plant.fabric.switches]
        expected = {MANIFEST, FABRIC, CABLING, *map(database_of, switches)}
        every: list[CrossConnect] = []
        for claim in slices:
            tell_phase(f"Following the light of {claim.name}")
            expected |= {table_name(claim.name, switch) for switch in switches}
            expected.add(f"slices/{claim.name}.json")
            rows, circuits = slice_circuits(files, plant, claim)
            every += rows
            joined = permutations_of(plant, claim, circuits)
            check_permutations(files, claim, shape, joined)
            made = chips_of(shape, joined)
            claimed = ClaimedConfiguration(
                claim.name, claim.recipe, made.num_nodes, 2 * len(shape), {}
            )
            self.derived.append(DerivedConfiguration(claimed, circuits, (), made))
            for rule in self._recipe_rules(claimed, made):
                files.findings.add(MANIFEST, f"slice {claim.name}", rule)
        check_switches(files, plant, every)
        for path in sorted(set(files.sizes) - expected):
            files.wrong(path, "a bundle of this manifest has no such file")

    def _ordered(self, num_nodes: int, links: tuple[ClaimedLink, ...]) -> Topology | None:
        """The derived links in the order of the table; None if ranks are missing."""
        hosts = [host for link in links for host in link.hosts]
        if any(host not in self.rank_of for host in hosts):
            return None
        ranks = [self.rank_of[host] for host in hosts]
        return Topology(num_nodes, ranks[::2], ranks[1::2])

    def _recipe_rules(self, claim: ClaimedConfiguration, made: Topology) -> list[str]:
        """The manifest's recipe and degree are those of the derived topology."""
        rules = []
        if claim.degree != made.degree:
            light = f"light makes a topology of degree {made.degree}"
            rules.append(f"degree is {claim.degree}: {light}")
        if claim.recipe is None:
            return rules
        try:
            recipe = self.parse_recipe(claim.recipe)
            if recipe.num_nodes != made.num_nodes or recipe.degree != claim.degree:
                size = f"it has {recipe.num_nodes} nodes of degree {recipe.degree}"
                difference: str | None = size
            else:
                difference = first_difference(made, recipe.topology())
        except ValueError as error:
            difference = str(error)
        if difference is not None:
            rules.append(f"recipe {shown(claim.recipe)}: {difference}")
        return rules

    def compare(self, plant: Plant, path: Path, *, together: bool) -> None:
        """Compare all configurations; the differences of the nearest one are findings.

        Slices of a pod are up ``together``.
        """
        findings = self.files.findings
        heard = read_neighbours(path, plant, findings)
        made = [(one.name, one.circuits) for one in self.derived]
        if together:
            made = [("all slices", sum((circuits for _, circuits in made), ()))]
        self.comparisons = [compare_neighbours(plant, *one, heard) for one in made]
        if self.comparisons:
            nearest = min(self.comparisons, key=lambda one: len(one.differences))
            for one in nearest.differences:
                rule = f"{one.sentence} (configuration {nearest.configuration})"
                findings.add(str(path), one.line, rule)
