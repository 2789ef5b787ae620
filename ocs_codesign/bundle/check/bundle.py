"""Bundles checked without trust: from cables and cross-connects to everything that is claimed.

Nothing that writes bundles is used. The light is followed from host strands through cross-connects
and trunks; the topology that it makes is compared with every graph and table of links, schedules
are replayed on it, and plans are carried out port by port.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, final

from ocs_codesign.bundle.check.circuits import check_circuits, follow, read_cross_connects
from ocs_codesign.bundle.check.claims import derived_topology, read_links, read_ranks
from ocs_codesign.bundle.check.files import BundleFiles, Finding, Findings
from ocs_codesign.bundle.check.graphs import check_graphs, first_difference
from ocs_codesign.bundle.check.inventory import check_inventory
from ocs_codesign.bundle.check.manifest import (
    MANIFEST,
    ClaimedConfiguration,
    check_checksums,
    check_names,
    read_claims,
    read_fabric,
    read_manifest,
)
from ocs_codesign.bundle.check.observed import (
    Comparison,
    compare_neighbours,
    read_neighbours,
)
from ocs_codesign.bundle.check.plans import check_plan, plan_name
from ocs_codesign.bundle.check.schedules import ReplayedSchedule, check_schedule
from ocs_codesign.bundle.check.wiring import read_plant
from ocs_codesign.files.naming import shown
from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.bundle.check.circuits import Circuit, CrossConnect
    from ocs_codesign.bundle.check.claims import ClaimedLink
    from ocs_codesign.bundle.check.wiring import Plant
    from ocs_codesign.fabric.description import Fabric

LIMIT = 1000


@final
@dataclass(frozen=True, slots=True, eq=False)
class DerivedConfiguration:
    """What the light makes of a configuration, whatever is claimed."""

    name: str
    circuits: tuple[Circuit, ...]
    topology: Topology


@final
@dataclass(frozen=True, slots=True, eq=False)
class BundleVerdict:
    """All that was found; ``findings`` are the first ``num_findings`` up to a limit.

    ``observed`` compares every configuration with the observed neighbours, if there are any.
    """

    name: str
    configurations: tuple[DerivedConfiguration, ...]
    schedules: tuple[ReplayedSchedule, ...]
    observed: tuple[Comparison, ...]
    findings: tuple[Finding, ...]
    num_findings: int

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.num_findings


def check_bundle(
    directory: str | Path,
    observed: str | Path | None = None,
    *,
    limit: int = LIMIT,
    on_phase: Callable[[str], None] | None = None,
) -> BundleVerdict:
    """Check a bundle, and observed neighbours if there are any, from cables and circuits up.

    Observed neighbours have to be those of one of the configurations; else the differences from
    the nearest one are findings. Raises OSError if something cannot be read and ValueError if the
    directory has no manifest of a bundle.
    """
    tell = on_phase or (lambda _: None)
    root = Path(directory)
    if not root.is_dir():
        rule = "is no directory: a bundle is one" if root.exists() else "there is no such directory"
        raise ValueError(f"{root}: {rule}")
    findings = Findings(limit)
    files = BundleFiles(root, findings)
    manifest = read_manifest(files)
    tell("Comparing checksums")
    check_checksums(files, manifest)
    claims = read_claims(files, manifest)
    fabric = read_fabric(files, manifest)
    checker = _Checker(files, fabric, claims, tell)
    if fabric is not None:
        check_names(files, fabric, claims)
        checker.run()
        if observed is not None:
            checker.compare(Path(observed))
    return BundleVerdict(
        manifest["name"] if isinstance(manifest.get("name"), str) else "",
        tuple(checker.derived),
        tuple(checker.schedules),
        tuple(checker.comparisons),
        tuple(findings.listed),
        findings.count,
    )


class _Checker:
    """The fabric and claims of a bundle, and what was derived so far."""

    def __init__(
        self,
        files: BundleFiles,
        fabric: Fabric | None,
        claims: list[ClaimedConfiguration],
        tell: Callable[[str], None],
    ) -> None:
        self.files, self.fabric, self.claims, self.tell = files, fabric, claims, tell
        self.plant: Plant | None = None
        self.rank_of: dict[str, int] = {}
        self.derived: list[DerivedConfiguration] = []
        self.rows: dict[str, dict[str, CrossConnect]] = {}
        self.schedules: list[ReplayedSchedule] = []
        self.comparisons: list[Comparison] = []

    def run(self) -> None:
        if self.fabric is None:
            return
        self.tell("Following cables")
        self.plant = plant = read_plant(self.files, self.fabric)
        num_nodes = self.claims[0].num_nodes if self.claims else 0
        self.rank_of = read_ranks(self.files, plant, num_nodes)
        check_inventory(self.files, plant)
        for claim in self.claims:
            self.tell(f"Following the light of {claim.name}")
            self._configuration(plant, claim)
        for before, after in permutations(self.claims, 2):
            self.tell(f"Carrying out the plan from {before.name} to {after.name}")
            path = plan_name(before.name, after.name)
            old, new = self.rows[before.name], self.rows[after.name]
            check_plan(self.files, plant, path, old, new, self.rank_of)

    def _configuration(self, plant: Plant, claim: ClaimedConfiguration) -> None:
        files = self.files
        rows = read_cross_connects(files, plant, claim.name)
        self.rows[claim.name] = {row.place: row for row in rows}
        circuits = follow(plant, rows, files.findings)
        check_circuits(files.findings, circuits)
        links = read_links(files, plant, claim.name, self.rank_of, circuits)
        made = derived_topology(claim.num_nodes, self.rank_of, circuits, links)
        self.derived.append(DerivedConfiguration(claim.name, circuits, made))
        ordered = _ordered(claim.num_nodes, self.rank_of, links)
        check_graphs(files, claim.name, made, ordered)
        _check_recipe(files, claim, made)
        for collective in claim.collectives:
            self.tell(f"Replaying the {collective} of {claim.name}")
            replayed = check_schedule(files, claim.name, collective, claim.recipe, made)
            if replayed is not None:
                self.schedules.append(replayed)

    def compare(self, path: Path) -> None:
        """Compare all configurations; the differences of the nearest one are findings."""
        if self.plant is None:
            return
        heard = read_neighbours(path, self.plant, self.files.findings)
        self.comparisons = [
            compare_neighbours(self.plant, one.name, one.circuits, heard) for one in self.derived
        ]
        if self.comparisons:
            nearest = min(self.comparisons, key=lambda one: len(one.differences))
            for one in nearest.differences:
                rule = f"{one.sentence} (configuration {nearest.configuration})"
                self.files.findings.add(str(path), one.line, rule)


def _ordered(
    num_nodes: int, rank_of: dict[str, int], links: tuple[ClaimedLink, ...]
) -> Topology | None:
    """The derived links in the order of the table; None if ranks are missing."""
    ends = [(rank_of.get(one.from_host), rank_of.get(one.to_host)) for one in links]
    pairs = [(tail, head) for tail, head in ends if tail is not None and head is not None]
    if len(pairs) < len(ends):
        return None
    return Topology(num_nodes, [tail for tail, _ in pairs], [head for _, head in pairs])


def _check_recipe(files: BundleFiles, claim: ClaimedConfiguration, made: Topology) -> None:
    """The manifest's recipe and degree are those of the derived topology."""
    from ocs_codesign.graphs.text import parse

    place = f"configuration {claim.name}"
    if claim.degree != made.degree:
        rule = f"degree is {claim.degree}: light makes a topology of degree {made.degree}"
        files.findings.add(MANIFEST, place, rule)
    if claim.recipe is None:
        return
    try:
        recipe = parse(claim.recipe)
        if recipe.num_nodes != made.num_nodes or recipe.degree != claim.degree:
            difference: str | None = f"it has {recipe.num_nodes} nodes of degree {recipe.degree}"
        else:
            difference = first_difference(made, recipe.topology())
    except ValueError as error:
        difference = str(error)
    if difference is not None:
        files.findings.add(MANIFEST, place, f"recipe {shown(claim.recipe)}: {difference}")
