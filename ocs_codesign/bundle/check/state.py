"""The state of a bundle: is what it says to be up, failed and spare so, and what was done last?"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.bundle.check.circuits import circuit_rule, ends_of
from ocs_codesign.bundle.check.plans import CREATE, DELETE
from ocs_codesign.bundle.check.sonic import check_stages
from ocs_codesign.bundle.check.wiring import STRANDS, Failed, Port, ports_of
from ocs_codesign.files.naming import shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from ocs_codesign.bundle.check.circuits import CrossConnect
    from ocs_codesign.bundle.check.files import BundleFiles, Row
    from ocs_codesign.bundle.check.wiring import Plant
    from ocs_codesign.fabric.description import Fabric, Switch

STATE, WORK, RUNBOOK = "state.json", "work.csv", "work.md"
WORK_COLUMNS = ("stage", "action", "switch", "id", "plane", "cable")
UNPLUG, PLUG = "unplug", "plug"
ACTIONS = (DELETE, UNPLUG, PLUG, CREATE)
_KEYS = {"up", "failed", "spares_in_use", "unplugged", "last_work"}


@final
@dataclass(frozen=True, slots=True)
class State:
    """What a bundle says of itself: names as they are written, checked to be lists of texts."""

    up: str
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
        if set(value["last_work"]) != set(work):
            raise ValueError(f"last_work has {', '.join(sorted(work))}")
        work = value["last_work"]
    for name in (value["up"], work["title"] or ""):
        if not isinstance(name, str):
            raise ValueError(f"{shown(name)} is no text")
    counts = {action: work[action] for action in ACTIONS}
    hosts, ports, unplugged = texts[3:]
    failed = Failed(*texts[:3])
    return State(value["up"], failed, hosts, ports, unplugged, work["title"], counts)


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
        for strand in STRANDS[plant.models[plane].value]:
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
            if row["action"] in (PLUG, UNPLUG)
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
    if row["action"] == PLUG:
        if in_port.get(port) != name:
            return f"{shown(name)} is plugged in there, but it is not there afterwards"
        del in_port[port]
    elif port in in_port:
        return f"{shown(name)} is unplugged there, but {in_port[port]} is there all the time"
    else:
        in_port[port] = name
    return None
