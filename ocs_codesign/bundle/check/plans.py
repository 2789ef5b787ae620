"""Plans of a bundle, carried out batch by batch on the ports: do they lead where they claim to?"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.bundle.check.circuits import circuit_rule, ends_of, follow
from ocs_codesign.bundle.check.sonic import check_stages
from ocs_codesign.files.naming import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ocs_codesign.bundle.check.circuits import Circuit, CrossConnect
    from ocs_codesign.bundle.check.files import BundleFiles, Row
    from ocs_codesign.bundle.check.wiring import Plant
    from ocs_codesign.reconfigure.change import ReconfigurationCost

COLUMNS = ("stage", "action", "switch", "id", "plane")
DELETE, CREATE = "delete", "create"


def plan_name(before: str, after: str) -> str:
    """The path of a plan, without its suffix."""
    return f"plans/{before}-to-{after}"


@final
@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A plan between two configurations, given by place, as in ``switch:1A-2B``."""

    plant: Plant
    path: str
    before: Mapping[str, CrossConnect]
    after: Mapping[str, CrossConnect]
    rank_of: Mapping[str, int]

    def check(self, files: BundleFiles) -> None:
        """Carry out ``path.csv``, and compare with it ``path.json`` and what SONiC is told."""
        rows = files.table(f"{self.path}.csv", COLUMNS)
        check_stages(files, self.plant, self.path, rows, self.before)
        if f"{self.path}.md" not in files.sizes:
            files.wrong(f"{self.path}.md", "the file is missing")
        stages = _stages(rows)
        held = self._carried_out(stages)
        for place in sorted(held - set(self.after)):
            files.wrong(f"{self.path}.csv", f"{place} is left over: it is not in the target")
        for place in sorted(set(self.after) - held):
            files.wrong(f"{self.path}.csv", f"{place} of the target is never created")
        path = f"{self.path}.json"
        summary = files.json(path)
        if summary is None:
            return
        try:
            for where, rule in self._summary_rules(stages, summary):
                files.findings.add(path, where, rule)
        except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
            rule = f"a value is missing or of another kind ({type(error).__name__}: {error})"
            files.wrong(path, rule)

    def _carried_out(self, stages: list[Stage]) -> set[str]:
        """The places that are held in the end; what cannot be done is a finding."""
        held = set(self.before)
        taken = {
            (row.switch, port): place
            for place, row in self.before.items()
            for port in (row.a_side, row.b_side)
        }
        for stage in stages:
            first = set(held)
            for row in stage.rows:
                rule = _row_rule(self.plant, row, held, taken)
                if rule is not None:
                    row.wrong(rule)
            stage.kept = first & held - {_place(row) for row in stage.rows}
        return held

    def _summary_rules(
        self, stages: list[Stage], summary: dict[str, Any]
    ) -> Iterator[tuple[str, str]]:
        """Place and rule of every claim of the summary that is not so by the batches."""
        names = self.path.removeprefix("plans/")
        yield from _same("from and to", f"{summary['from']}-to-{summary['to']}", names)
        deleted, created = (
            sum(len(stage.acting(action)) for stage in stages) for action in (DELETE, CREATE)
        )
        counts = {"kept": len(self.before) - deleted, "deleted": deleted, "created": created}
        yield from _same("cross_connects", summary["cross_connects"], counts)
        claims = summary["stages"]
        yield from _same("number of stages", len(claims), len(stages))
        dead = sum((Fraction(claim["dead_time_s"]) for claim in claims), Fraction(0))
        yield from _same("dead_time_s", Fraction(summary["dead_time_s"]), dead)
        joined = all(claim["stays_connected"] for claim in claims)
        if summary["stays_connected"] and not joined:
            yield "stays_connected", "it is claimed, but a stage does not stay connected"
        for number, (claim, stage) in enumerate(zip(claims, stages, strict=False), 1):
            yield from self._stage_rules(f"stage {number}", stage, claim)
            for rule in self._proof_rules(stage, claim["certificate"]):
                yield f"stage {number}: certificate", rule

    def _stage_rules(
        self, where: str, stage: Stage, claim: dict[str, Any]
    ) -> Iterator[tuple[str, str]]:
        yield from _same(f"{where}: stage", f"stage {claim['stage']}", where)
        yield from _same(f"{where}: planes", claim["planes"], sorted(stage.planes()))
        for key, action in (("deleted", DELETE), ("created", CREATE)):
            yield from _same(f"{where}: {key}", claim[key], len(stage.acting(action)))
        up = self._circuits_up(stage)
        yield from _same(f"{where}: circuits_up", claim["circuits_up"], len(up))
        key = "least_circuits_of_node"
        yield from _same(f"{where}: {key}", claim[key], self._least(up))
        made = [self.after.get(_place(row)) for row in stage.acting(CREATE)]
        circuits = len({row.circuit for row in made if row is not None})
        dead = self._slowest().dead_time_s(circuits)
        yield from _same(f"{where}: dead_time_s", Fraction(claim["dead_time_s"]), dead)
        if claim["stays_connected"] is not (claim["certificate"] is not None):
            yield where, "a stage has a certificate if, and only if, it stays connected"

    def _proof_rules(self, stage: Stage, proof: dict[str, Any] | None) -> Iterator[str]:
        """A certificate is two trees, out of its root and into it, of links that stay up."""
        if proof is None:
            return
        links = self._links_up(stage)
        nodes, root = len(self.rank_of), proof["root"]
        for key in ("before", "after"):
            tree = [int(text) for text in proof[key].split()]
            if not _spans(tree, root, nodes):
                yield f"{key} is no tree of {nodes} ranks at {root}"
                continue
            for rank, parent in enumerate(tree):
                link = (parent, rank) if key == "before" else (rank, parent)
                if rank != root and link not in links:
                    yield f"no link {link[0]} -> {link[1]} is up all the time"
                    break

    def _slowest(self) -> ReconfigurationCost:
        """The change of the switches that take longest if all circuits change."""
        most = max(len({row.circuit for row in self.before.values()}), 1)
        changes = [switch.profile.change for switch in self.plant.fabric.switches]
        return max(changes, key=lambda change: change.dead_time_s(most))

    def _circuits_up(self, stage: Stage) -> list[Circuit]:
        """Circuits between ranks that no row touches; a restricted plane is dark meanwhile.

        None if everything stops for a change.
        """
        if not self._slowest().overlap:
            return []
        listed = {**self.after, **self.before}
        rows = [listed[place] for place in stage.kept if place in listed]
        changing = stage.planes()
        dark = {p for p in changing if self.plant.models[p].value == "restricted"}
        return [
            circuit
            for circuit in follow(self.plant, rows, tell=False)
            if circuit.plane not in dark
            and all(end in self.rank_of for end in (circuit.from_host, circuit.to_host))
        ]

    def _links_up(self, stage: Stage) -> set[tuple[int, int]]:
        """Links by rank of the circuits that are up."""
        links = set()
        for circuit in self._circuits_up(stage):
            tail, head = self.rank_of[circuit.from_host], self.rank_of[circuit.to_host]
            links |= {(tail, head), (head, tail)} if circuit.is_two_way else {(tail, head)}
        return links

    def _least(self, circuits: list[Circuit]) -> int:
        """Circuits of the rank that has fewest: one-way ones leave it, two-way ones end at it."""
        counts = dict.fromkeys(self.rank_of, 0)
        for circuit in circuits:
            for host in (circuit.from_host, circuit.to_host)[: 1 + circuit.is_two_way]:
                counts[host] += 1
        return min(counts.values(), default=0)


@final
@dataclass(slots=True, eq=False)
class Stage:
    """The rows of a stage, and the places that are held before, after and all through it."""

    rows: list[Row]
    kept: set[str] = field(default_factory=set)

    def acting(self, action: str) -> list[Row]:
        """The rows of an action."""
        return [row for row in self.rows if row["action"] == action]

    def planes(self) -> set[int]:
        """The planes in which something changes."""
        return {int(row["plane"]) for row in self.rows}


def _stages(rows: list[Row]) -> list[Stage]:
    stages: list[Stage] = []
    for row in rows:
        number = row.whole("stage")
        if number == len(stages) + 1:
            stages.append(Stage([]))
        elif number != len(stages) or not stages:
            row.wrong(f"stage is {shown(row['stage'])}: stages come in order, from 1")
            continue
        batch = stages[-1].rows
        if row["action"] == DELETE and batch and batch[-1]["action"] == CREATE:
            row.wrong("a deletion comes after a creation of its stage")
        batch.append(row)
    return stages


def _row_rule(
    plant: Plant, row: Row, held: set[str], taken: dict[tuple[str, str], str]
) -> str | None:
    """Carry out a row on what is held and taken; the rule it breaks if it cannot be."""
    switch, ends = plant.switches.get(row["switch"]), ends_of(row["id"])
    if switch is None:
        return f"there is no switch {shown(row['switch'])}"
    if ends is None:
        return f"id is {shown(row['id'])}: it must be as 1A-2B"
    place, ports = _place(row), [(switch.name, end) for end in ends]
    if row["plane"] != str(switch.plane):
        return f"plane is {shown(row['plane'])}: {switch.name} is in plane {switch.plane}"
    if row["action"] == DELETE:
        if place not in held:
            return f"{place} is deleted, but it does not exist then"
        held.remove(place)
        for port in ports:
            del taken[port]
        return None
    if row["action"] != CREATE:
        return f"action is {shown(row['action'])}: it must be {DELETE} or {CREATE}"
    holder = next((taken[port] for port in ports if port in taken), None)
    if holder is not None:
        return f"{place} is created, but {holder} still has a port of it"
    rule = circuit_rule(switch, *ends)
    if rule is None:
        held.add(place)
        taken.update(dict.fromkeys(ports, place))
    return rule


def _place(row: Row) -> str:
    return f"{row['switch']}:{row['id']}"


def _same(where: str, claimed: object, real: object) -> Iterator[tuple[str, str]]:
    if claimed != real:
        yield where, f"it is {shown(claimed)}: by the batches it is {shown(real)}"


def _spans(parent: list[int], root: object, nodes: int) -> bool:
    """Whether every chain of parents ends at the root, which alone has none."""
    if type(root) is not int or not 0 <= root < nodes or len(parent) != nodes:
        return False
    if parent[root] != -1 or any(not 0 <= p < nodes for v, p in enumerate(parent) if v != root):
        return False
    reached = list(parent)
    reached[root] = root
    for _ in range(nodes.bit_length()):
        reached = [reached[one] for one in reached]
    return all(one == root for one in reached)
