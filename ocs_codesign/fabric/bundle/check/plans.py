"""Plans of a bundle, carried out batch by batch on the ports: do they lead where they claim to?"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.core.quantities import parse_number
from ocs_codesign.core.shown import shown
from ocs_codesign.fabric.bundle.check.circuits import (
    STRANDS,
    Failed,
    Port,
    circuit_rule,
    ends_of,
    follow,
    has_database,
    ports_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from ocs_codesign.fabric.bundle.check.circuits import Circuit, CrossConnect, Plant
    from ocs_codesign.fabric.bundle.check.files import BundleFiles, Row
    from ocs_codesign.fabric.description import Fabric, Switch


# What SONiC is told in a bundle: patches and commands do what the batches say, nothing else.


TABLE = "/OCS_CROSS_CONNECT"
DELETE_SONIC, CREATE_SONIC = "delete", "create"


def check_stages(
    files: BundleFiles, plant: Plant, folder: str, rows: Sequence[Row], held: Iterable[str]
) -> None:
    """Every file of a folder is that of a stage and switch of the rows, and none is missing.

    ``held`` are the cross-connects before the first row, as in ``switch:1A-2B``.
    """
    expected = dict(_expected(plant, rows, set(held)))
    there = {path for path in files.sizes if path.startswith(f"{folder}/")}
    for path in sorted(there - {f"{folder}/{name}" for name in expected}):
        files.wrong(path, "no stage changes this switch so")
    for name, content in expected.items():
        path = f"{folder}/{name}"
        if isinstance(content, str):
            found = files.read(path)
            if found is not None and found != content.encode():
                files.wrong(path, f"the commands must be {shown(content)}")
            continue
        value = files.json(path)
        if value is not None and value != content:
            files.wrong(path, f"by the batches the patch is {shown(json.dumps(content))}")


def _expected(
    plant: Plant, rows: Sequence[Row], held: set[str]
) -> Iterator[tuple[str, str | list[dict[str, Any]]]]:
    """The name and content of every file: of patches their value, of commands their text."""
    batches: dict[tuple[str, str], dict[str, list[str]]] = {}
    for row in rows:
        switch = plant.switches.get(row["switch"])
        if (
            switch is not None
            and has_database(switch)
            and row["action"] in (DELETE_SONIC, CREATE_SONIC)
        ):
            batch = batches.setdefault(
                (row["stage"], switch.name), {DELETE_SONIC: [], CREATE_SONIC: []}
            )
            batch[row["action"]].append(row["id"])
    up: dict[str, set[str]] = {}
    for one in held:
        up.setdefault(one.rpartition(":")[0], set()).add(one.rpartition(":")[2])
    for (stage, name), batch in batches.items():
        place, mine = f"stage-{stage}.{name}", up.get(name, set())
        left = up[name] = (mine - set(batch[DELETE_SONIC])) | set(batch[CREATE_SONIC])
        made = {one: _sides(one) for one in batch[CREATE_SONIC]}
        if not left:
            patch: list[dict[str, Any]] = [{"op": "remove", "path": TABLE}]
        elif not mine:
            patch = [{"op": "add", "path": TABLE, "value": made}]
        else:
            patch = [{"op": "remove", "path": f"{TABLE}/{one}"} for one in batch[DELETE_SONIC]]
            patch += [{"op": "add", "path": f"{TABLE}/{k}", "value": v} for k, v in made.items()]
        yield f"{place}.patch.json", patch
        yield f"{place}.sh", _lines(batch[DELETE_SONIC], batch[CREATE_SONIC])
        yield f"{place}.rollback.sh", _lines(batch[CREATE_SONIC], batch[DELETE_SONIC])


def _sides(name: str) -> dict[str, str]:
    a_side, _, b_side = name.partition("-")
    return {"a_side": a_side, "b_side": b_side}


def _lines(gone: Sequence[str], come: Sequence[str]) -> str:
    delete = f"config ocs cross-connect delete {','.join(gone)}\n" if gone else ""
    return delete + (f"config ocs cross-connect add {','.join(come)} safe\n" if come else "")


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
        dead = sum((parse_number(claim["dead_time_s"]) for claim in claims), Fraction(0))
        yield from _same("dead_time_s", parse_number(summary["dead_time_s"]), dead)
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
        dead = self._dead_time_s(stage)
        yield from _same(f"{where}: dead_time_s", parse_number(claim["dead_time_s"]), dead)
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

    def _stops(self) -> bool:
        """Whether the whole fabric stops for a change of any switch."""
        return not all(switch.profile.change.overlap for switch in self.plant.fabric.switches)

    def _dead_time_s(self, stage: Stage) -> Fraction:
        """Every plane that gets circuits waits for its slowest switch, the slowest plane last."""
        rows = [self.after.get(_place(row)) for row in stage.acting(CREATE)]
        made: dict[int, set[int | None]] = {}
        for row in rows:
            if row is not None:
                made.setdefault(self.plant.switches[row.switch].plane, set()).add(row.circuit)
        total, longest = sum(map(len, made.values())), Fraction(0)
        for switch in self.plant.fabric.switches:
            if switch.plane in made:
                number = total if self._stops() else len(made[switch.plane])
                longest = max(longest, switch.profile.change.dead_time_s(number))
        return longest

    def _circuits_up(self, stage: Stage) -> list[Circuit]:
        """Circuits between ranks that no row touches; a restricted plane is dark meanwhile.

        None if everything stops for a change.
        """
        if self._stops():
            return []
        listed = {**self.after, **self.before}
        rows = [listed[place] for place in stage.kept if place in listed]
        dark = stage.planes() if self.plant.model == "restricted" else set()
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


# The state of a bundle: is what it says to be up, failed and spare so, and what was done last?


STATE, WORK, RUNBOOK = "state.json", "work.csv", "work.md"
WORK_COLUMNS = ("stage", "action", "switch", "id", "plane", "cable")
REPLACE, UNPLUG, PLUG = "replace", "unplug", "plug"
ACTIONS = (DELETE, REPLACE, UNPLUG, PLUG, CREATE)
_KEYS = {"up", "planned", "failed", "spares_in_use", "unplugged", "last_work"}


@final
@dataclass(frozen=True, slots=True)
class State:
    """What a bundle says of itself: names as they are written, checked to be lists of texts.

    ``up`` is the configuration that is, or with ``is_planned`` will be up after the last work.
    """

    up: str
    is_planned: bool
    failed: Failed
    spare_hosts: tuple[str, ...]
    spare_ports: tuple[str, ...]
    unplugged: tuple[str, ...]
    title: str | None
    num_steps: dict[str, int]


def read_state(files: BundleFiles, fabric: Fabric, names: Sequence[str]) -> State | None:
    """The state, whose names must exist; None, with a finding, if it cannot be read."""
    value = files.json(STATE)
    if value is None:
        return None
    try:
        state = _state(value)
    except (KeyError, TypeError, ValueError) as error:
        files.wrong(STATE, f"a value is missing or of another kind ({error})")
        return None
    if state.up not in names:
        files.findings.add(STATE, "up", f"there is no configuration {shown(state.up)}")
    switches = {switch.name: switch for switch in fabric.switches}
    ports = {
        f"{port.device}:{port.name}" for each in switches.values() for _, port in ports_of(each)
    }
    for key, listed, there in (
        ("failed hosts", state.failed.hosts, set(fabric.hosts)),
        ("failed switches", state.failed.switches, set(switches)),
        ("failed ports", state.failed.ports, ports),
    ):
        for name in sorted(set(listed) - there):
            files.findings.add(STATE, key, f"{shown(name)} is not in the fabric")
        if len(set(listed)) < len(listed):
            files.findings.add(STATE, key, "a name is given twice")
    return state


def _state(value: Any) -> State:
    if set(value) != _KEYS:
        raise ValueError(f"the keys must be {', '.join(sorted(_KEYS))}")
    lost, spares = value["failed"], value["spares_in_use"]
    if set(lost) != {"hosts", "ports", "switches"} or set(spares) != {"hosts", "ports"}:
        raise ValueError("failed has hosts, ports and switches, spares_in_use hosts and ports")
    lists = (lost["hosts"], lost["ports"], lost["switches"], spares["hosts"], spares["ports"])
    texts = [_texts(one) for one in (*lists, value["unplugged"])]
    work: dict[str, Any] = {"title": None, **dict.fromkeys(ACTIONS, 0)}
    if value["last_work"] is not None:
        if set(value["last_work"]) | {REPLACE} != set(work):
            raise ValueError(f"last_work has {', '.join(sorted(work))}")
        work |= value["last_work"]
    up, planned = value["up"], value["planned"]
    if (up is None) == (planned is None):
        raise ValueError("either up or planned is the name of a configuration, and the other null")
    for name in (planned if up is None else up, work["title"] or ""):
        if not isinstance(name, str):
            raise ValueError(f"{shown(name)} is no text")
    counts = {action: work[action] for action in ACTIONS}
    hosts, ports, unplugged = texts[3:]
    failed = Failed(*texts[:3])
    names = (planned if up is None else up, up is None)
    return State(*names, failed, hosts, ports, unplugged, work["title"], counts)


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"{shown(value)} is no list of names")
    return tuple(value)


def check_state(files: BundleFiles, plant: Plant, state: State, rank_of: dict[str, int]) -> None:
    """Nothing that has failed is used, and the spares in use are those that the state names."""
    fabric = plant.fabric
    for host in sorted(set(state.failed.hosts) & set(rank_of)):
        files.wrong(STATE, f"{host} has failed, but it has rank {rank_of[host]}")
    for cable in plant.cables:
        for port in (cable.near, cable.far):
            lost = plant.has_failed(port)
            if lost and not (cable.near.device in state.failed.hosts and not cable.is_trunk):
                files.wrong(STATE, f"{lost} has failed, but cable {cable.name} is in it")
    spare_hosts = fabric.hosts[fabric.num_working_hosts :]
    used = [host for host in spare_hosts if host in rank_of]
    _compare(files, "spares_in_use hosts", state.spare_hosts, used)
    spare = {
        f"{port.device}:{port.name}"
        for switch in fabric.switches
        for number, port in ports_of(switch)
        if number > switch.num_usable and plant.cable_at(port) is not None
    }
    _compare(files, "spares_in_use ports", state.spare_ports, spare)
    _compare(files, "unplugged", state.unplugged, _unplugged(plant))


def _unplugged(plant: Plant) -> Iterator[str]:
    """Strands without a cable of hosts with another one in the plane."""
    plugged = {(one.near.device, one.plane, one.strand) for one in plant.host_at.values()}
    for host, plane in {(host, plane) for host, plane, _ in plugged}:
        for strand in STRANDS[plant.model]:
            if (host, plane, strand.name) not in plugged:
                yield f"{host} p{plane} {strand.name}"


def _compare(files: BundleFiles, key: str, listed: Sequence[str], real: Iterable[str]) -> None:
    wanted = set(real)
    for name in sorted(wanted - set(listed)):
        files.findings.add(STATE, key, f"{name} is missing: by cables and ranks it is so")
    for name in sorted(set(listed) - wanted):
        files.findings.add(STATE, key, f"{shown(name)} is named, but it is not so")
    if len(set(listed)) < len(listed):
        files.findings.add(STATE, key, "a name is given twice")


def check_failed_rows(plant: Plant, rows: Iterable[CrossConnect]) -> None:
    """No cross-connect of any configuration is at something that has failed."""
    for row in rows:
        lost = [plant.has_failed(Port(row.switch, port)) for port in (row.a_side, row.b_side)]
        for name in dict.fromkeys(one for one in lost if one is not None):
            row.row.wrong(f"{row.place} is at {name}, which has failed")


def check_work(files: BundleFiles, plant: Plant, state: State, up: Collection[str]) -> list[Row]:
    """Undo the last work step by step, from what is up: every step must have been possible."""
    there = WORK in files.sizes
    rows = files.table(WORK, WORK_COLUMNS) if there else []
    counts = Counter(row["action"] for row in rows)
    if there and RUNBOOK not in files.sizes:
        files.wrong(RUNBOOK, "the file is missing")
    if any(counts[action] != state.num_steps[action] for action in ACTIONS):
        listed = ", ".join(f"{counts[action]} {action}" for action in ACTIONS)
        files.findings.add(STATE, "last_work", f"{WORK} has other steps: {listed}")
    if there and not rows:
        files.wrong(WORK, "there are no steps")
    if state.is_planned and not rows:
        files.findings.add(STATE, "planned", "there is no work that leads to it")
    held, ends = set(up), {cable.name: cable.far for cable in plant.cables}
    trunks = {cable.name: cable.near for cable in plant.cables if cable.is_trunk}
    joined = {(place.rpartition(":")[0], end): place for place in up for end in _ends(place)}
    in_port = {port: name for name, port in (*ends.items(), *trunks.items())}
    for row in reversed(rows):
        switch = plant.switches.get(row["switch"])
        if switch is None or row["plane"] != str(switch.plane):
            row.wrong(f"there is no switch {shown(row['switch'])} in plane {shown(row['plane'])}")
            continue
        rule = (
            _undone_hands(row, plant, in_port)
            if row["action"] in (PLUG, UNPLUG, REPLACE)
            else _undone_circuit(row, switch, held, joined)
        )
        if rule is not None:
            row.wrong(rule)
    check_stages(files, plant, "work", rows, held)
    numbers = [row.whole("stage") or 0 for row in rows]
    steps = [after - before for before, after in zip([0, *numbers], numbers, strict=False)]
    if rows and (steps[0] != 1 or any(step not in (0, 1) for step in steps)):
        files.wrong(WORK, "stages must come in order, from 1")
    return rows


def _ends(place: str) -> tuple[str, str]:
    return ends_of(place.rpartition(":")[2]) or ("", "")


def _undone_circuit(
    row: Row, switch: Switch, held: set[str], joined: dict[tuple[str, str], str]
) -> str | None:
    place, ends = f"{row['switch']}:{row['id']}", ends_of(row["id"])
    if ends is None or row["cable"]:
        return f"id is {shown(row['id'])}: it must be as 1A-2B, without a cable"
    rule = circuit_rule(switch, *ends)
    if rule is not None:
        return rule
    keys = [(row["switch"], end) for end in ends]
    if row["action"] == CREATE:
        if place not in held:
            return f"{place} is created, but it is not up afterwards"
        held.remove(place)
        for key in keys:
            joined.pop(key, None)
        return None
    if row["action"] != DELETE:
        return f"action is {shown(row['action'])}: there is no such one"
    taken = next((joined[key] for key in keys if key in joined), None)
    if taken is not None:
        return f"{place} is deleted, but {taken} has a port of it all the time"
    held.add(place)
    joined.update(dict.fromkeys(keys, place))
    return None


def _undone_hands(row: Row, plant: Plant, in_port: dict[Port, str]) -> str | None:
    port, name = Port(row["switch"], row["id"]), row["cable"]
    if port not in {port for _, port in ports_of(plant.switches[port.device])}:
        return f"{shown(row['id'])} is no port of {port.device}"
    if row["action"] in (PLUG, REPLACE):
        if in_port.get(port) != name:
            return f"{shown(name)} is plugged in there, but it is not there afterwards"
        if row["action"] == PLUG:
            del in_port[port]
    elif port in in_port:
        return f"{shown(name)} is unplugged there, but {in_port[port]} is there all the time"
    else:
        in_port[port] = name
    return None
