"""A rehearsal: a bundle's fabric comes up, its schedules run, components fail and are repaired."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

import numpy as np

from ocs_codesign.core.demand import COPY, SUM
from ocs_codesign.core.network import Network, direct_routes
from ocs_codesign.fabric.bundle.read import read_bundle
from ocs_codesign.fabric.deployments.day_two import repaired
from ocs_codesign.fabric.deployments.deploy import Failures
from ocs_codesign.fabric.rehearsal.agent import in_order
from ocs_codesign.fabric.rehearsal.controller import Controller, Refused
from ocs_codesign.fabric.rehearsal.host import HostJob
from ocs_codesign.fabric.rehearsal.network import EmulatedFabric, LinkWay, ends_of, ways_of
from ocs_codesign.fabric.rehearsal.streams import LinkStreams
from ocs_codesign.fabric.rehearsal.targets import chains_to, ports_of_cables, work_chain
from ocs_codesign.fabric.wiring import Port
from ocs_codesign.schedules.simulate.engine import simulate_transfers
from ocs_codesign.schedules.simulate.making import transfers_of_schedule
from ocs_codesign.schedules.simulate.transfers import TimingRules

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from multiprocessing.connection import Connection

    from ocs_codesign.core.schedule import Schedule
    from ocs_codesign.fabric.deployments.deploy import DeployedConfiguration, Deployment
    from ocs_codesign.fabric.rehearsal.controller import State


_BUSY = 0.05
"""The part of its time that a host may wait for a core, if its seconds are to be told."""
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
        apart = [(link, way) for link, way in enumerate(ways) if way.tail != way.head]
        to = {link: way.address for link, way in apart if tail[link] == rank}
        by = {link: way.address for link, way in apart if head[link] == rank}
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


Fault: TypeAlias = "tuple[str, float]"
"""What fails, and after how many seconds."""


class Ran(NamedTuple):
    """What came of a schedule; ``seconds`` is None if the machine was too busy to tell them.

    ``waiting`` are the links of the earliest steps that waited when it was stopped; ``loads`` and
    ``counted`` are bytes by link.
    """

    is_exact: bool
    seconds: float | None
    simulated_s: float
    waiting: list[int]
    loads: list[int]
    counted: list[int]


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
        self.deployment = replace(self.deployment, up=to)
        self._routed()

    def made_up(self) -> DeployedConfiguration:
        """The configuration that is up, with its designs."""
        return self.deployment.configuration(self.deployment.up)

    def _routed(self) -> None:
        self.ways = ways_of(self.made_up().configuration, self.fabric.ends)
        self.fabric.route(self.ways)

    def unheard(self) -> list[int]:
        """Links on which the head does not hear the tail; a stranger is heard nowhere."""
        wanted = [(way.head, way.arrives, way.tail, way.leaves) for way in self.ways]
        heard = self.fabric.heard(set(wanted))
        return [link for link, each in enumerate(wanted) if each not in heard]

    def run(self, schedule: Schedule, message: int, faults: Sequence[Fault] = ()) -> Ran:
        """Run a schedule while components fail; what came of it."""
        alpha_s = float(self.deployment.fabric.cost_model.alpha_s) * self.slower
        jobs, chunk = jobs_of(schedule, self.ways, message, alpha_s)
        hosts = self.made_up().configuration.host.tolist()
        pipes = self.fabric.living(hosts)
        before = self.fabric.counters()
        for host, pipe in pipes.items():
            pipe.send(("run", jobs[hosts.index(host)]))
        for _ in ("listening", "connecting"):
            for pipe in pipes.values():
                pipe.recv()
            for pipe in pipes.values():
                pipe.send("go on")
        closed = sorted({link for pipe in pipes.values() for link in pipe.recv()})
        for pipe in pipes.values():
            pipe.send("stop" if closed else "go")
        begun = time.monotonic()
        ended = self._ended(pipes, faults, max(1.0, 2 * alpha_s))
        is_exact = len(ended) == len(hosts) and all(each[1] == 0 for each in ended.values())
        living = self.fabric.living(ended)
        for pipe in living.values():
            pipe.send("close" if is_exact else "abort")
        for pipe in living.values():
            pipe.recv()
        after = self.fabric.counters()
        loads = np.zeros(len(self.ways), dtype=np.int64)
        np.add.at(loads, schedule.link, (schedule.hi.astype(np.int64) - schedule.lo) * chunk)
        seconds = max((each[2] for each in ended.values()), default=begun) - begun
        delay_s = max((each[3] for each in ended.values()), default=0.0)
        return Ran(
            is_exact=is_exact,
            seconds=seconds if is_exact and delay_s <= _BUSY * seconds else None,
            simulated_s=self._simulated_s(schedule, message, alpha_s),
            waiting=sorted({*closed, *(link for each in ended.values() for link in each[0])}),
            loads=loads.tolist(),
            counted=[_counted(way, before, after) for way in self.ways],
        )

    def _ended(
        self, pipes: dict[int, Connection], faults: Sequence[Fault], pace_s: float
    ) -> dict[int, tuple[list[int], int, float, float]]:
        """What the hosts say at their ends, stopped once all have answered twice the same.

        Those that wait for a core do not answer, so that a busy machine is not taken for a fault.
        """
        begun = asked = time.monotonic()
        waiting, todo = dict(pipes), sorted(faults, key=lambda fault: fault[1])
        ended: dict[int, Any] = {}
        moved, last = dict.fromkeys(pipes, -1), dict[int, int]()
        while waiting:
            for pipe in wait([*waiting.values()], 0.02):
                host = next(host for host, each in waiting.items() if each is pipe)
                try:
                    kind, said = waiting[host].recv()
                except (EOFError, OSError):  # the host is gone
                    del waiting[host]
                    continue
                if kind == "ended":
                    ended[host] = said
                    del waiting[host]
                else:
                    moved[host] = said
            while todo and time.monotonic() >= begun + todo[0][1]:
                self.fabric.break_down(*todo.pop(0)[0].split(":", 1))
            if time.monotonic() < asked + pace_s or not waiting.keys() <= moved.keys():
                continue
            now = {host: moved[host] for host in waiting}
            word = "stop" if now == last and not todo else "moved?"
            asked, last, moved = time.monotonic(), now, {}
            for pipe in waiting.values():
                with suppress(OSError):
                    pipe.send(word)
        for component, _ in todo:
            self.fabric.break_down(*component.split(":", 1))
        return ended

    def _simulated_s(self, schedule: Schedule, message: int, alpha_s: float) -> float:
        """What ``simulate`` says on the slower clock."""
        topology = schedule.topology
        tick_s = Fraction(1, 10**6)
        network = Network(
            *(schedule.num_hosts, topology.num_nodes, topology.tail, topology.head),
            np.ones(topology.num_links, dtype=np.int64),
            np.full(topology.num_links, round(alpha_s / tick_s), dtype=np.int64),
            tick_s=tick_s,
        )
        transfers = transfers_of_schedule(schedule, direct_routes(topology, network), message)
        rate = Fraction(_port_Bps(self.deployment)) / self.slower
        return float(simulate_transfers(transfers, TimingRules(unit_Bps=rate)).total_s)

    def change(self, to: str) -> dict[str, Any]:
        """Lead the switches to another configuration, stage by stage, while all links have streams.

        Streams end before their circuits go dark, and begin once those of theirs are tuned.
        """
        chains = chains_to(self.deployment, to)
        after = ways_of(self.deployment.configuration(to).configuration, self.fabric.ends)
        here = {way._replace(circuit=0) for way in self.ways}
        later = {way._replace(circuit=0) for way in after}
        lit = {name for way in here for name in way.name.split()}
        kept = here & later
        traffic, controller = LinkStreams(self.fabric), self.controller(self.deployment)
        drained: list[int] = []

        def drain(_: int, gone: State) -> None:
            dark = {f"{switch}:{name}" for switch, ids in gone.items() for name in ids}
            drained.append(traffic.drain(dark) if dark else 0)
            lit.difference_update(dark)

        def resume(_: int, new: State) -> None:
            lit.update(f"{switch}:{name}" for switch, ids in new.items() for name in ids)
            running = {way._replace(circuit=0) for way in traffic.running.values()}
            traffic.open(way for way in sorted(later - running) if {*way.name.split()} <= lit)

        controller.drain, controller.resume = drain, resume
        traffic.open(sorted(here))
        controller.control(chains)
        told = traffic.close()
        named = {
            f"{switch}:{name}"
            for switch, line in controller.commands
            for name in line.split()[4].split(",")
        }
        again = self.controller(self.deployment)
        again.control(chains)
        self.deployment = replace(self.deployment, up=to)
        self._routed()
        return {
            **{"to": to, "drained_by_stage": drained, "kept": len(kept)},
            "kept_named": len(named & {name for way in kept for name in way.name.split()}),
            **{"commands": len(controller.commands), "commands_again": len(again.commands)},
            **told._asdict(),
        }

    def killed_on_its_way(self, to: str, after_s: float) -> dict[str, Any]:
        """Kill a controller on its way to a configuration; another goes on, and all the way back.

        A third has nothing left to do.
        """
        chains, up = chains_to(self.deployment, to), self.deployment.up
        pid = os.fork()
        if not pid:
            try:
                self.controller(self.deployment).control(chains)
            finally:
                os._exit(0)
        time.sleep(after_s)
        os.kill(pid, signal.SIGKILL)
        is_killed = os.WIFSIGNALED(os.waitpid(pid, 0)[1])
        self.bring_up(to)
        third = self.controller(self.deployment)
        third.control(chains)
        self.bring_up(up)
        named = ["controller"] if is_killed else []
        row = {"component": "controller", "named": named, "repaired": not third.commands}
        return {**row, "sentence": None}

    # What failed: the smallest components that all dark links pass, and no other.

    def named(
        self, dark: Sequence[int], known: Collection[int], told: Collection[str]
    ) -> list[str]:
        """What explains the links that went dark since; else what switches say of themselves."""
        new = sorted(set(dark) - set(known))
        if new:
            return self._explained(new, known)
        found = []
        controller = self.controller(self.deployment)
        for switch in controller.switches:
            try:
                stale = in_order(controller.held(switch).stale())
            except Refused:
                found.append(f"agent:{switch}")
            else:
                found += [f"stale:{switch}:{name}" for name in stale]
        return [name for name in found if name not in told]

    def _explained(self, dark: Sequence[int], known: Collection[int]) -> list[str]:
        """The components of the least kind whose circuits are those of the dark links."""
        wanted = {self.ways[link].circuit for link in dark}
        silent = {self.ways[link].circuit for link in known}
        passed: dict[str, set[int]] = {}
        plugged = {(end.host, end.device): cable for cable, end in self.fabric.ends.items()}
        for way in (each for each in self.ways if each.circuit not in silent):
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
        """Do live what ``survive --repair`` answers; Refused or ValueError with what is missing.

        An agent is started again; what is lit and not intended, the controller takes down.
        """
        kind, _, name = component.partition(":")
        if kind in ("agent", "stale"):
            if kind == "agent":
                self.fabric.start_agents([name])
            self.controller(self.deployment).control(chains_to(self.deployment, self.deployment.up))
            return
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
        found.add(size - _BEFORE_BYTES * packets - _OF_A_STREAM * (way.tail != way.head))
    return found.pop() if len(found) == 1 else -1


@final
@dataclass(slots=True)
class _Asked:
    """A rehearsal with what it is asked for."""

    rehearsal: Rehearsal
    kinds: Sequence[str]
    message: int
    repair: bool
    known: set[int] = field(default_factory=set)
    told: set[str] = field(default_factory=set)

    def ran(self) -> dict[str, Ran]:
        """Every collective that is asked for, run; ValueError if what is up has none of them."""
        designs = self.rehearsal.made_up().designs
        chosen = [each for each in designs if not self.kinds or each.collective.name in self.kinds]
        if not chosen:
            raise ValueError(f"what is up has no schedule of {' or '.join(self.kinds)}")
        return {
            each.collective.name: self.rehearsal.run(each.design.schedule, self.message)
            for each in chosen
        }

    def fault(self, fault: str) -> tuple[dict[str, Any], dict[str, Ran]]:
        """What comes of a component that fails in mid-collective, and of runs after its repair."""
        rehearsal = self.rehearsal
        component, _, after_s = fault.partition("@")
        first = rehearsal.made_up().designs[0].design.schedule
        ran = rehearsal.run(first, self.message, [(component, float(after_s or 0))])
        dark = rehearsal.unheard()
        named = rehearsal.named(dark, self.known, self.told)
        row: dict[str, Any] = {
            **{"component": component, "named": named, "repaired": None, "sentence": None},
            "waiting": [rehearsal.ways[link].name for link in ran.waiting],
        }
        runs: dict[str, Ran] = {}
        if self.repair:
            try:
                ports = [name for name in named if name.startswith("port:")]
                is_silent = component.startswith("silent:")
                rehearsal.repair(ports[0] if is_silent and ports else component)
                dark = rehearsal.unheard()
                runs = self.ran()
                row["repaired"] = not dark and all(each.is_exact for each in runs.values())
            except (Refused, ValueError) as error:
                row["repaired"], row["sentence"] = False, str(error)
        self.known, self.told = set(dark), self.told | set(named)
        return row, runs


def rehearsed(
    bundle: str,
    kinds: Sequence[str],
    message: int,
    slower: int,
    faults: Sequence[str],
    repair: bool,
    to: str | None = None,
) -> dict[str, Any]:
    """All of a rehearsal: the answer of the command, in words."""
    begun = time.monotonic()
    rehearsal = Rehearsal.of(read_bundle(bundle), slower)
    rehearsal.bring_up(rehearsal.deployment.up)
    answer: dict[str, Any] = {"up": True, "up_s": round(time.monotonic() - begun, 3)}
    heard, answer["change"], answer["faults"] = rehearsal.unheard(), None, []
    for fault in faults:
        if to is not None and fault.startswith("controller"):
            after_s = float(fault.partition("@")[2] or 0)
            answer["faults"].append(rehearsal.killed_on_its_way(to, after_s))
    if to is not None and rehearsal.deployment.up != to and not heard:
        answer["change"] = rehearsal.change(to)
    heard = heard or rehearsal.unheard()
    answer["neighbours"] = ", ".join(rehearsal.ways[link].name for link in heard) or "valid"
    asked = _Asked(rehearsal, kinds, message, repair, set(heard))
    runs = asked.ran()
    for fault in faults:
        if not fault.startswith("controller"):
            row, again = asked.fault(fault)
            runs = again or runs
            answer["faults"].append(row)
    return answer | _measured(runs, rehearsal.ways)


def _measured(runs: dict[str, Ran], ways: Sequence[LinkWay]) -> dict[str, Any]:
    """What ran, and bytes of every link."""
    answer: dict[str, Any] = {}
    answer["collectives"] = [
        {
            **{"name": name, "results_exact": ran.is_exact},
            "seconds": None if ran.seconds is None else round(ran.seconds, 3),
            "simulated_seconds": round(ran.simulated_s, 3),
        }
        for name, ran in runs.items()
    ]
    loads = np.array([ran.loads for ran in runs.values()]).reshape(-1, len(ways)).sum(axis=0)
    counted = np.array([ran.counted for ran in runs.values()]).reshape(-1, len(ways)).sum(axis=0)
    answer["circuits"] = [
        {"id": way.name, "loaded_bytes": int(load), "counted_bytes": int(count)}
        for way, load, count in zip(ways, loads, counted, strict=True)
    ]
    return answer


def main() -> None:
    """Rehearse what standard input asks for, and say on standard output what came of it."""
    asked = json.loads(sys.stdin.readline())
    is_kept = asked.pop("keep")
    try:
        answer = rehearsed(**asked)
    except (ValueError, Refused, RuntimeError, OSError) as error:
        answer = {"error": str(error)}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    while is_kept and "error" not in answer:
        signal.pause()
    os._exit(0)


if __name__ == "__main__":
    main()
