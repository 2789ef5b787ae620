"""Plans of a bundle, carried out batch by batch on the ports: do they lead where they claim to?"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ocs_codesign.bundle.check.circuits import circuit_rule, ends_of, follow
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.files.naming import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ocs_codesign.bundle.check.circuits import Circuit, CrossConnect
    from ocs_codesign.bundle.check.files import BundleFiles, Row
    from ocs_codesign.bundle.check.wiring import Plant

COLUMNS = ("stage", "action", "switch", "id", "plane")
DELETE, CREATE = "delete", "create"


def plan_name(before: str, after: str) -> str:
    """The path of a plan, without its suffix."""
    return f"plans/{before}-to-{after}"


def check_plan(
    files: BundleFiles,
    plant: Plant,
    path: str,
    before: Mapping[str, CrossConnect],
    after: Mapping[str, CrossConnect],
    rank_of: Mapping[str, int],
) -> None:
    """Carry out ``path.csv`` on one configuration's cross-connects, and check ``path.json``.

    The configurations are given by place, as in ``switch:1A-2B``.
    """
    rows = files.table(f"{path}.csv", COLUMNS)
    stages = _stages(files, f"{path}.csv", rows)
    run = _Run(files, plant, f"{path}.csv", before)
    kept: list[set[str]] = []
    for batch in stages:
        held = set(run.held)
        for row in batch:
            run.carry_out(row)
        kept.append(held & run.held - {f"{row['switch']}:{row['id']}" for row in batch})
    for place in sorted(run.held - set(after)):
        files.findings.add(f"{path}.csv", None, f"{place} is left over: it is not in the target")
    for place in sorted(set(after) - run.held):
        files.findings.add(f"{path}.csv", None, f"{place} of the target is never created")
    summary = files.json(f"{path}.json")
    if summary is None:
        return
    checked = _Summary(files, plant, f"{path}.json", rank_of)
    try:
        checked.check(summary, before, after, stages, kept)
    except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
        rule = f"a value is missing or of another kind ({type(error).__name__}: {error})"
        files.findings.add(f"{path}.json", None, rule)


def _stages(files: BundleFiles, path: str, rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of every stage, in order; stages count from 1."""
    stages: list[list[Row]] = []
    for row in rows:
        number = files.whole(path, row, "stage")
        if number == len(stages) + 1:
            stages.append([])
        elif number != len(stages) or not stages:
            rule = f"stage is {shown(row['stage'])}: stages come in order, from 1"
            files.findings.add(path, row.line, rule)
            continue
        if row["action"] == DELETE and stages[-1] and stages[-1][-1]["action"] == CREATE:
            files.findings.add(path, row.line, "a deletion comes after a creation of its stage")
        stages[-1].append(row)
    return stages


class _Run:
    """The ports while a plan is carried out."""

    def __init__(
        self, files: BundleFiles, plant: Plant, path: str, before: Mapping[str, CrossConnect]
    ) -> None:
        self.files, self.plant, self.path = files, plant, path
        self.held = set(before)
        self.taken = {
            (row.switch, port): place
            for place, row in before.items()
            for port in (row.a_side, row.b_side)
        }

    def carry_out(self, row: Row) -> None:
        rule = self._rule(row)
        if rule is not None:
            self.files.findings.add(self.path, row.line, rule)

    def _rule(self, row: Row) -> str | None:
        switch, ends = self.plant.switches.get(row["switch"]), ends_of(row["id"])
        if switch is None:
            return f"there is no switch {shown(row['switch'])}"
        if ends is None:
            return f"id is {shown(row['id'])}: it must be as 1A-2B"
        place = f"{switch.name}:{row['id']}"
        if row["plane"] != str(switch.plane):
            return f"plane is {shown(row['plane'])}: {switch.name} is in plane {switch.plane}"
        ports = [(switch.name, end) for end in ends]
        if row["action"] == DELETE:
            if place not in self.held:
                return f"{place} is deleted, but it does not exist then"
            self.held.remove(place)
            for port in ports:
                del self.taken[port]
            return None
        if row["action"] != CREATE:
            return f"action is {shown(row['action'])}: it must be {DELETE} or {CREATE}"
        holder = next((self.taken[port] for port in ports if port in self.taken), None)
        if holder is not None:
            return f"{place} is created, but {holder} still has a port of it"
        rule = circuit_rule(switch, *ends)
        if rule is None:
            self.held.add(place)
            self.taken.update(dict.fromkeys(ports, place))
        return rule


class _Summary:
    """The claims of a plan's summary."""

    def __init__(
        self, files: BundleFiles, plant: Plant, path: str, rank_of: Mapping[str, int]
    ) -> None:
        self.files, self.plant, self.path, self.rank_of = files, plant, path, rank_of

    def check(
        self,
        summary: dict[str, Any],
        before: Mapping[str, CrossConnect],
        after: Mapping[str, CrossConnect],
        stages: list[list[Row]],
        kept: list[set[str]],
    ) -> None:
        names = self.path.removeprefix("plans/").removesuffix(".json")
        self._same("from and to", f"{summary['from']}-to-{summary['to']}", names)
        deleted, created = (
            sum(row["action"] == action for batch in stages for row in batch)
            for action in (DELETE, CREATE)
        )
        counts = {"kept": len(before) - deleted, "deleted": deleted, "created": created}
        self._same("cross_connects", summary["cross_connects"], counts)
        claims = summary["stages"]
        self._same("number of stages", len(claims), len(stages))
        dead = sum((Fraction(one["dead_time_s"]) for one in claims), Fraction(0))
        self._same("dead_time_s", Fraction(summary["dead_time_s"]), dead)
        joined = all(one["stays_connected"] for one in claims)
        if summary["stays_connected"] and not joined:
            self._add("stays_connected", "it is claimed, but a stage does not stay connected")
        for number, (claim, batch, places) in enumerate(zip(claims, stages, kept, strict=False), 1):
            self._stage(f"stage {number}", claim, batch, before, after)
            self._proof(f"stage {number}", claim, batch, places, before, after)

    def _stage(
        self,
        where: str,
        claim: dict[str, Any],
        batch: list[Row],
        before: Mapping[str, CrossConnect],
        after: Mapping[str, CrossConnect],
    ) -> None:
        self._same(f"{where}: stage", f"stage {claim['stage']}", where)
        self._same(f"{where}: planes", claim["planes"], sorted({int(r["plane"]) for r in batch}))
        for key, action in (("deleted", DELETE), ("created", CREATE)):
            count = sum(row["action"] == action for row in batch)
            self._same(f"{where}: {key}", claim[key], count)
        made = [after.get(f"{r['switch']}:{r['id']}") for r in batch if r["action"] == CREATE]
        circuits = len({row.circuit for row in made if row is not None})
        most = max(len({row.circuit for row in before.values()}), 1)
        changes = [one.profile.change for one in self.plant.fabric.switches]
        slowest = max(changes, key=lambda change: change.dead_time_s(most))
        dead = slowest.dead_time_s(circuits)
        self._same(f"{where}: dead_time_s", Fraction(claim["dead_time_s"]), dead)

    def _proof(
        self,
        where: str,
        claim: dict[str, Any],
        batch: list[Row],
        places: set[str],
        before: Mapping[str, CrossConnect],
        after: Mapping[str, CrossConnect],
    ) -> None:
        """The trees of a certificate are of links that no row of the stage touches."""
        proof = claim["certificate"]
        if claim["stays_connected"] is not (proof is not None):
            self._add(where, "a stage has a certificate if, and only if, it stays connected")
        if proof is None:
            return
        rows = [
            before.get(place) or after[place]
            for place in places
            if place in before or place in after
        ]
        circuits = follow(self.plant, rows, None)
        links = self._links(circuits, {int(row["plane"]) for row in batch})
        nodes, root = len(self.rank_of), proof["root"]
        for key in ("before", "after"):
            tree = [int(text) for text in proof[key].split()]
            if not _spans(tree, root, nodes):
                self._add(f"{where}: certificate", f"{key} is no tree of {nodes} ranks at {root}")
                continue
            for rank, parent in enumerate(tree):
                link = (parent, rank) if key == "before" else (rank, parent)
                if rank != root and link not in links:
                    rule = f"no link {link[0]} -> {link[1]} is up all the time"
                    self._add(f"{where}: certificate", rule)
                    break

    def _links(self, circuits: Iterable[Circuit], changing: set[int]) -> set[tuple[int, int]]:
        """Links by rank; a plane of restricted switches is dark while it changes."""
        links = set()
        for one in circuits:
            ends = (self.rank_of.get(one.from_host), self.rank_of.get(one.to_host))
            model = self.plant.fabric.port_model(one.plane)
            if None in ends or (model is PortModel.RESTRICTED and one.plane in changing):
                continue
            links.add(ends)
            if one.is_two_way:
                links.add(ends[::-1])
        return links  # type: ignore[return-value]

    def _same(self, where: str, found: object, wanted: object) -> None:
        if found != wanted:
            self._add(where, f"it is {shown(found)}: by the batches it is {shown(wanted)}")

    def _add(self, where: str, rule: str) -> None:
        self.files.findings.add(self.path, where, rule)


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
