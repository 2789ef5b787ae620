"""A rehearsal: a bundle's fabric comes up, its schedules run, components fail and are repaired."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.demand import COPY, SUM
from ocs_codesign.fabric.bundle.read import read_bundle
from ocs_codesign.fabric.deployments.day_two import repaired
from ocs_codesign.fabric.deployments.deploy import Failures
from ocs_codesign.fabric.rehearsal.controller import Controller, Refused
from ocs_codesign.fabric.rehearsal.host import HostJob
from ocs_codesign.fabric.rehearsal.network import EmulatedFabric, LinkWay, ends_of, ways_of
from ocs_codesign.fabric.rehearsal.targets import chains_to, ports_of_cables, work_chain
from ocs_codesign.fabric.wiring import Port

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocs_codesign.core.schedule import Schedule
    from ocs_codesign.fabric.deployments.deploy import Deployment
    from ocs_codesign.fabric.rehearsal.controller import State


_BEFORE_BYTES, _OF_A_STREAM = 66, 8
"""Headers of a packet (Ethernet, IP, TCP with a time stamp), and what a SYN has more."""


def jobs_of(
    schedule: Schedule, ways: Sequence[LinkWay], message_bytes: int, alpha_s: float
) -> tuple[list[HostJob], int]:
    """What every rank does, and the bytes of a chunk: words of 8 bytes, exact sums modulo 2^64."""
    units = max(demand.message_units for demand in schedule.demands) * schedule.chunks_per_unit
    words = max(1, message_bytes // units // 8)
    columns = (schedule.step, schedule.link, schedule.item, schedule.lo, schedule.hi)
    phase = np.zeros(schedule.num_sends, int) if schedule.phase is None else schedule.phase
    tail, head = schedule.topology.tail, schedule.topology.head
    held = [_first_and_last(schedule, rank) for rank in range(schedule.num_hosts)]
    rows = [{*first, *last} for first, last in held]
    table = list(zip(*(c.tolist() for c in (*columns, phase)), strict=True))
    for _, link, item, lo, hi, _ in table:
        span = range(item * schedule.num_chunks + lo, item * schedule.num_chunks + hi)
        rows[tail[link]].update(span)
        rows[head[link]].update(span)
    place = [np.array(sorted(each), dtype=np.int64) for each in rows]
    jobs = []
    for rank, (first, last) in enumerate(held):
        start = np.zeros((len(place[rank]), words), dtype=np.uint64)
        for row in first:
            start[np.searchsorted(place[rank], row)] = _data(row, rank, words)
        wanted = sorted(last)
        total = [
            sum((_data(row, each, words) for each in last[row]), np.uint64(0)) for row in wanted
        ]
        here = np.searchsorted(place[rank], np.array(wanted, dtype=np.int64))
        want = np.array(total, dtype=np.uint64).reshape(len(wanted), words)
        to = {link: way.address for link, way in enumerate(ways) if tail[link] == rank}
        by = {link: way.address for link, way in enumerate(ways) if head[link] == rank}
        steps: list[tuple[dict[int, Any], dict[int, Any]]] = [
            ({}, {}) for _ in range(schedule.num_steps)
        ]
        for step, link, item, lo, hi, half in table:
            for side, end in enumerate((tail, head)):
                if end[link] == rank:
                    at = int(np.searchsorted(place[rank], item * schedule.num_chunks + lo))
                    is_sum = schedule.demands[half].kind[item] == SUM
                    steps[step - 1][side].setdefault(link, []).append((at, hi - lo, is_sum))
        sends, gets = [one for one, _ in steps], [two for _, two in steps]
        jobs.append(HostJob(to, by, start, (here, want), sends, gets, alpha_s))
    return jobs, 8 * words


def _data(row: int, rank: int, words: int) -> Any:
    """What a rank contributes to a chunk: no two chunks or ranks alike."""
    seed = np.uint64((row * 1_000_003 + rank * 7_919 + 1) * 0x9E3779B97F4A7C15 % 2**64)
    return np.arange(words, dtype=np.uint64) * np.uint64(2_862_933_555_777_941_757) + seed


def _first_and_last(schedule: Schedule, rank: int) -> tuple[set[int], dict[int, list[int]]]:
    """The chunks that a rank has first, and whose sum it must have of each in the end."""
    first: set[int] = set()
    last: dict[int, list[int]] = {}
    sums: dict[int, list[int]] = {}
    for number, demand in enumerate(schedule.demands):
        offsets = demand.first_units() * schedule.chunks_per_unit
        for piece, item in enumerate(demand.item_of_piece().tolist()):
            begin = item * schedule.num_chunks - offsets[demand.piece_start[item]]
            members, root = demand.hosts_of(piece).tolist(), int(demand.root[item])
            is_sum = demand.kind[item] == SUM
            for row in range(int(begin + offsets[piece]), int(begin + offsets[piece + 1])):
                if is_sum:
                    sums[row] = members
                givers, takers = (members, [root]) if is_sum else ([root], members)
                if demand.kind[item] == COPY:
                    takers = [*members, root]
                if not number and rank in givers:
                    first.add(row)
                if rank in takers:
                    last[row] = sums.get(row, [root])
    return first, last


@final
@dataclass(slots=True)
class Rehearsal:
    """What runs on an emulated fabric, ``slower`` times slower than the real one."""

    deployment: Deployment
    fabric: EmulatedFabric
    slower: int
    ways: list[LinkWay]

    @classmethod
    def of(cls, deployment: Deployment, slower: int) -> Rehearsal:
        """The fabric of a deployment, dark."""
        fabric = EmulatedFabric(deployment, _port_Bps(deployment) / slower)
        return cls(deployment, fabric, slower, [])

    def controller(self, deployment: Deployment) -> Controller:
        """What reaches the agents of the switches that have not failed."""
        ports = ports_of_cables(deployment)
        return Controller({name: self.fabric.asks[name] for name in ports}, ports)

    def bring_up(self, to: str) -> None:
        """Tune the circuits of a configuration and lead data by them."""
        self.controller(self.deployment).control(chains_to(self.deployment, to))
        self._routed()

    def _routed(self) -> None:
        up = self.deployment.configuration(self.deployment.up).configuration
        self.ways = ways_of(up, self.fabric.ends)
        self.fabric.route(self.ways)

    def unheard(self) -> list[int]:
        """Links on which the head does not hear the tail; a stranger is heard nowhere."""
        heard = self.fabric.heard()
        return [
            number
            for number, way in enumerate(self.ways)
            if (way.head, way.arrives, way.tail, way.leaves) not in heard
        ]

    def run(
        self, schedule: Schedule, message: int, faults: Sequence[tuple[str, float]] = ()
    ) -> dict[str, Any]:
        """Run a schedule; what came of it, and bytes by link as loaded and as counted."""
        alpha_s = float(self.deployment.fabric.cost_model.alpha_s) * self.slower
        jobs, chunk = jobs_of(schedule, self.ways, message, alpha_s)
        up = self.deployment.configuration(self.deployment.up).configuration
        pipes = [self.fabric.pipes[host] for host in up.host.tolist()]
        before = self.fabric.counters()
        for pipe, job in zip(pipes, jobs, strict=True):
            pipe.send(("run", job))
        for pipe in pipes:
            pipe.recv()
        for pipe in pipes:
            pipe.send("connect")
        closed = sorted({link for pipe in pipes for link in pipe.recv()})
        for pipe in pipes:
            pipe.send("stop" if closed else "go")
        begun, waiting = time.monotonic(), list(pipes)
        answers: dict[int, tuple[list[int], int, float]] = {}
        todo, limit = sorted(faults, key=lambda fault: fault[1]), self._limit_s(schedule, message)
        while waiting and not closed:
            now = time.monotonic() - begun
            while todo and now >= todo[0][1]:
                kind, _, name = todo.pop(0)[0].partition(":")
                self.fabric.break_down(kind, name)
                if kind == "host":
                    gone = pipes[up.host.tolist().index(self.deployment.fabric.hosts.index(name))]
                    waiting.remove(gone)
            for pipe in [pipe for pipe in waiting if pipe.poll(0.02 / len(pipes))]:
                answers[pipes.index(pipe)] = pipe.recv()
                waiting.remove(pipe)
            if now > limit:
                for pipe in waiting:
                    pipe.send("stop")
                limit = float("inf")
        for pipe in pipes if closed else ():
            pipe.recv()
        time.sleep(0.05)
        after = self.fabric.counters()
        loads = np.zeros(len(self.ways), dtype=np.int64)
        np.add.at(loads, schedule.link, (schedule.hi.astype(np.int64) - schedule.lo) * chunk)
        done = len(answers) == len(pipes) and not closed
        return {
            "exact": done and all(wrong == 0 for _, wrong, _ in answers.values()),
            "seconds": max((end for *_, end in answers.values()), default=begun) - begun,
            "waiting": sorted({link for late, *_ in answers.values() for link in late} | {*closed}),
            "loads": loads.tolist(),
            "counted": [_counted(way, before, after) for way in self.ways],
        }

    def simulated_s(self, schedule: Schedule, message: int) -> float:
        """The time of the schedule, step by step, on the dilated clock."""
        units = max(demand.message_units for demand in schedule.demands)
        rate = _port_Bps(self.deployment) / self.slower
        alpha_s = float(self.deployment.fabric.cost_model.alpha_s) * self.slower
        busy = sum(schedule.max_loads())
        return float(busy) * message / units / rate + alpha_s * schedule.num_steps

    def _limit_s(self, schedule: Schedule, message: int) -> float:
        return 3.0 + 2.0 * self.simulated_s(schedule, message)

    # What failed: the smallest components that all dark links pass, and no other.

    def explained(self, dark: Sequence[int]) -> list[str]:
        """The components of the least kind whose circuits are those of the dark links."""
        wanted = {self.ways[link].circuit for link in dark}
        passed: dict[str, set[int]] = {}
        plugged = {(end.host, end.device): cable for cable, end in self.fabric.ends.items()}
        for way in self.ways:
            names = [f"host:{self.deployment.fabric.hosts[host]}" for host in (way.tail, way.head)]
            for crossed in way.name.split():
                switch, _, name = crossed.partition(":")
                names += [
                    f"switch:{switch}",
                    *(f"port:{switch}:{port}" for port in name.split("-")),
                ]
            ends = (way.tail, way.leaves), (way.head, way.arrives)
            names += [f"cable:{plugged[end]}" for end in ends]
            for name in names:
                passed.setdefault(name, set()).add(way.circuit)
        fitting = sorted(name for name, circuits in passed.items() if circuits == wanted)
        for kinds in (("cable", "port"), ("host",), ("switch",)):
            least = [name for name in fitting if name.partition(":")[0] in kinds]
            if least:
                return least
        return []

    def repair(self, component: str) -> None:
        """Do live what ``survive --repair`` answers; Refused or ValueError with what is missing."""
        after = repaired(self.deployment, _lost(component))[0]
        chain, hands = work_chain(after) if after.work and after.work.steps else ([], {})
        controller = self.controller(after)

        def by_hand(number: int, _: State) -> None:
            for step in hands.pop(number, ()):
                self.fabric.by_hand(step.action.value, step.switch, step.id, step.cable)

        controller.drain = by_hand
        if chain:
            controller.control([chain])
        for number in sorted(hands):  # what no circuit waits for
            by_hand(number, {})
        self.deployment = after.reported() if after.standing == "planned" else after
        self.fabric.deployment, self.fabric.ends = self.deployment, ends_of(self.deployment)
        self._routed()


def _lost(component: str) -> Failures:
    kind, _, name = component.partition(":")
    if kind == "port":
        switch, _, port = name.partition(":")
        side = port.lstrip("0123456789")
        return Failures(ports=(Port(switch, side, int(port.rstrip("AB"))),))
    names = {kind: (name,)}
    return Failures(
        names.get("host", ()), (), names.get("switch", ()), cables=names.get("cable", ())
    )


def _port_Bps(deployment: Deployment) -> float:  # noqa: N802
    fabric = deployment.fabric
    return float(fabric.cost_model.node_bandwidth_Bps / fabric.num_ports_per_host)


def _counted(way: LinkWay, before: dict[int, Any], after: dict[int, Any]) -> int:
    """Bytes of data on a link by the counters of both its ends, -1 if they differ or are gone."""
    sides = ((way.tail, way.leaves, slice(2, 4)), (way.head, way.arrives, slice(0, 2)))
    found = set()
    for host, device, columns in sides:
        if host not in after or device not in after[host]:
            return -1
        pairs = zip(after[host][device][columns], before[host][device][columns], strict=True)
        size, packets = (new - old for new, old in pairs)
        found.add(size - _BEFORE_BYTES * packets - _OF_A_STREAM)
    return found.pop() if len(found) == 1 else -1


def rehearsed(
    bundle: str,
    kinds: Sequence[str],
    message: int,
    slower: int,
    faults: Sequence[str],
    repair: bool,
) -> dict[str, Any]:
    """All of a rehearsal: the answer of the command, in words."""
    deployment = read_bundle(bundle)
    rehearsal = Rehearsal.of(deployment, slower)
    rehearsal.bring_up(deployment.up)
    answer: dict[str, Any] = {"up": True, "collectives": [], "circuits": [], "faults": []}
    dark = rehearsal.unheard()
    answer["neighbours"] = ", ".join(rehearsal.ways[link].name for link in dark) or "valid"

    def measured() -> dict[str, Any]:
        made = {}
        for design in rehearsal.deployment.configuration(rehearsal.deployment.up).designs:
            name = design.collective.name
            if not kinds or name in kinds:
                schedule = design.design.schedule
                made[name] = rehearsal.run(schedule, message)
                made[name]["simulated"] = rehearsal.simulated_s(schedule, message)
        return made

    runs = measured()
    for fault in faults:
        component, _, after_s = fault.partition("@")
        first = rehearsal.deployment.configuration(rehearsal.deployment.up).designs[0]
        rehearsal.run(first.design.schedule, message, [(component, float(after_s or 0))])
        named = rehearsal.explained(rehearsal.unheard())
        row: dict[str, Any] = {
            "component": component,
            "named": named,
            "repaired": None,
            "sentence": None,
        }
        if repair:
            try:
                ports = [name for name in named if name.startswith("port:")]
                is_silent = component.startswith("silent:")
                rehearsal.repair(ports[0] if is_silent and ports else component)
                runs = measured()
                row["repaired"] = not rehearsal.unheard() and all(r["exact"] for r in runs.values())
            except (Refused, ValueError) as error:
                row["repaired"], row["sentence"] = False, str(error)
        answer["faults"].append(row)
    for name, made in runs.items():
        times = {
            "seconds": round(made["seconds"], 3),
            "simulated_seconds": round(made["simulated"], 3),
        }
        answer["collectives"].append({"name": name, "results_exact": made["exact"], **times})
    loads = np.array([made["loads"] for made in runs.values()]).reshape(-1, len(rehearsal.ways))
    counted = np.array([made["counted"] for made in runs.values()]).reshape(loads.shape)
    answer["circuits"] = [
        {
            "id": way.name,
            "loaded_bytes": int(loads[:, link].sum()),
            "counted_bytes": int(counted[:, link].sum()),
        }
        for link, way in enumerate(rehearsal.ways)
    ]
    return answer


def main() -> None:
    """Rehearse what standard input asks for, and say on standard output what came of it."""
    asked = json.loads(sys.stdin.readline())
    try:
        answer = rehearsed(**asked)
    except (ValueError, Refused, RuntimeError, OSError) as error:
        answer = {"error": str(error)}
    print(json.dumps(answer), flush=True)  # noqa: T201
    os._exit(0)


if __name__ == "__main__":
    main()
