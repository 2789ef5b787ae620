"""Bundles checked without trust: from cables and cross-connects to everything that is claimed.

Nothing that writes bundles is used. The light is followed from host strands through cross-connects
and trunks; the topology that it makes is compared with every graph and table of links, schedules
are replayed on it, and plans are carried out port by port. What a recipe means is not for this room
to say: whoever asks for the check brings a parser of recipes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, final

from ocs_codesign.bundle.check.circuits import check_circuits, follow, read_cross_connects
from ocs_codesign.bundle.check.claims import derived_topology, read_links, read_ranks
from ocs_codesign.bundle.check.designs import (
    ReplayedSchedule,
    check_graphs,
    check_schedule,
    first_difference,
)
from ocs_codesign.bundle.check.files import BundleFiles, Finding, Findings
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
from ocs_codesign.bundle.check.plans import Plan, plan_name
from ocs_codesign.bundle.check.state import (
    check_failed_rows,
    check_state,
    check_work,
    read_state,
)
from ocs_codesign.bundle.check.wiring import Failed, read_plant
from ocs_codesign.files.naming import shown
from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.bundle.check.circuits import Circuit, CrossConnect
    from ocs_codesign.bundle.check.claims import ClaimedLink
    from ocs_codesign.bundle.check.files import Row
    from ocs_codesign.bundle.check.state import State
    from ocs_codesign.bundle.check.wiring import Plant
    from ocs_codesign.graphs.recipe import Recipe


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
@dataclass(frozen=True, slots=True, eq=False)
class BundleVerdict:
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
    directory: Path,
    observed: Path | None,
    parse_recipe: Callable[[str], Recipe],
    limit: int,
    tell: Callable[[str], object],
) -> BundleVerdict:
    """Check the bundle in a directory; see ``bundle.verify.check_bundle``."""
    if not directory.is_dir():
        exists = directory.exists()
        rule = "is no directory: a bundle is one" if exists else "there is no such directory"
        raise ValueError(f"{directory}: {rule}")
    findings = Findings(limit)
    files = BundleFiles(directory, findings)
    manifest = read_manifest(files)
    tell("Comparing checksums")
    check_checksums(files, manifest)
    claims = read_claims(files, manifest)
    fabric = read_fabric(files, manifest)
    checker = _Checker(files, parse_recipe, tell)
    plant = state = None
    if fabric is not None:
        check_names(files, fabric, claims)
        state = read_state(files, fabric, [claim.name for claim in claims])
        tell("Following cables")
        plant = read_plant(files, fabric, Failed() if state is None else state.failed)
        checker.check(plant, claims, state)
        if observed is not None:
            checker.compare(plant, observed)
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
    def __init__(
        self,
        files: BundleFiles,
        parse_recipe: Callable[[str], Recipe],
        tell: Callable[[str], object],
    ) -> None:
        self.files, self.parse_recipe, self.tell = files, parse_recipe, tell
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
            self.tell(f"Following the light of {claim.name}")
            self._configuration(plant, claim)
        for before, after in permutations((claim.name for claim in claims), 2):
            self.tell(f"Carrying out the plan from {before} to {after}")
            rows = (self.rows[before], self.rows[after])
            Plan(plant, plan_name(before, after), *rows, self.rank_of).check(self.files)
        if state is not None and state.up in self.rows:
            self.work = check_work(self.files, plant, state, self.rows[state.up])

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
            self.tell(f"Replaying the {collective} of {claim.name}")
            replayed = check_schedule(files, claim.name, collective, claim.recipe, made)
            if replayed is not None:
                self.schedules.append(replayed)
                least = claim.bounds[collective]
                if least.steps > replayed.cost.steps or least.t_b > replayed.cost.t_b:
                    rule = f"the bound of {collective} is above what its schedule takes"
                    files.findings.add(MANIFEST, f"configuration {claim.name}", rule)

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

    def compare(self, plant: Plant, path: Path) -> None:
        """Compare all configurations; the differences of the nearest one are findings."""
        findings = self.files.findings
        heard = read_neighbours(path, plant, findings)
        self.comparisons = [
            compare_neighbours(plant, one.name, one.circuits, heard) for one in self.derived
        ]
        if self.comparisons:
            nearest = min(self.comparisons, key=lambda one: len(one.differences))
            for one in nearest.differences:
                rule = f"{one.sentence} (configuration {nearest.configuration})"
                findings.add(str(path), one.line, rule)
