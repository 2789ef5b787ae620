"""What runs on an emulated fabric: schedules while components fail, and changes under traffic."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

import numpy as np

from ocs_codesign.core.network import Network, direct_routes
from ocs_codesign.fabric.rehearsal.controller import Controller
from ocs_codesign.fabric.rehearsal.jobs import jobs_of
from ocs_codesign.fabric.rehearsal.network import EmulatedFabric, LinkWay, ways_of
from ocs_codesign.fabric.rehearsal.streams import LinkStreams
from ocs_codesign.fabric.rehearsal.targets import chains_to, ports_of_cables
from ocs_codesign.schedules.simulate.engine import simulate_transfers
from ocs_codesign.schedules.simulate.making import transfers_of_schedule
from ocs_codesign.schedules.simulate.transfers import TimingRules

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.connection import Connection

    from ocs_codesign.core.schedule import Schedule
    from ocs_codesign.fabric.deployments.deploy import DeployedConfiguration, Deployment
    from ocs_codesign.fabric.rehearsal.controller import State


_BUSY = 0.05
"""The part of its time that a host may wait for a core, if its seconds are to be told."""
_BEFORE_BYTES, _OF_A_STREAM = 66, 8
"""Headers of a packet (Ethernet, IP, TCP with a time stamp), and what a SYN has more."""


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
        self.routed()

    def made_up(self) -> DeployedConfiguration:
        """The configuration that is up, with its designs."""
        return self.deployment.configuration(self.deployment.up)

    def routed(self) -> None:
        """Lead data by the circuits of the configuration that is up."""
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
        jobs, chunk = jobs_of(schedule, self.ways, message, alpha_s, float(self._rate_Bps()))
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
        is_whole = is_exact and not faults  # else ends of streams would be waited for in the dark
        for pipe in living.values():
            pipe.send("close" if is_whole else "abort")
        for pipe in living.values():
            pipe.recv()
        after = self.fabric.counters()
        seconds = max((each[2] for each in ended.values()), default=begun) - begun
        delay_s = max((each[3] for each in ended.values()), default=0.0)
        return Ran(
            is_exact=is_exact,
            seconds=seconds if is_exact and delay_s <= _BUSY * seconds else None,
            simulated_s=self._simulated_s(schedule, message, alpha_s),
            waiting=sorted({*closed, *(link for each in ended.values() for link in each[0])}),
            loads=loaded_bytes(schedule, chunk),
            counted=[counted_bytes(way, before, after) for way in self.ways],
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
        rules = TimingRules(unit_Bps=self._rate_Bps())
        return float(simulate_transfers(transfers, rules).total_s)

    def _rate_Bps(self) -> Fraction:  # noqa: N802
        return Fraction(_port_Bps(self.deployment)) / self.slower

    def change(self, to: str, is_drained: bool) -> dict[str, Any]:
        """Lead the switches to another configuration, stage by stage, while all links have streams.

        Drained streams end before their circuits go dark, others are given up after; new ones begin
        once their circuits are tuned.
        """
        chains = chains_to(self.deployment, to)
        after = ways_of(self.deployment.configuration(to).configuration, self.fabric.ends)
        here = {way._replace(circuit=0) for way in self.ways}
        later = {way._replace(circuit=0) for way in after}
        lit = {name for way in here for name in way.name.split()}
        kept = here & later
        traffic, controller = LinkStreams(self.fabric), self.controller(self.deployment)
        ended: list[int] = []
        dark: set[str] = set()

        def drain(_: int, gone: State) -> None:
            dark.clear()
            dark.update(f"{switch}:{name}" for switch, ids in gone.items() for name in ids)
            if is_drained:
                ended.append(traffic.drain(dark) if dark else 0)
            lit.difference_update(dark)

        def resume(_: int, new: State) -> None:
            if not is_drained:
                ended.append(traffic.cut(dark))
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
        self.routed()
        return {
            **{"to": to, "is_drained": is_drained, "ended_by_stage": ended, "kept": len(kept)},
            "kept_named": len(named & {name for way in kept for name in way.name.split()}),
            **{"commands": len(controller.commands), "commands_again": len(again.commands)},
            **told._asdict(),
        }


def _port_Bps(deployment: Deployment) -> float:  # noqa: N802
    fabric = deployment.fabric
    return float(fabric.cost_model.node_bandwidth_Bps / fabric.num_ports_per_host)


def loaded_bytes(schedule: Schedule, chunk_bytes: int) -> list[int]:
    """The bytes that a schedule sends by every link."""
    loads = np.zeros(schedule.topology.num_links, dtype=np.int64)
    np.add.at(loads, schedule.link, (schedule.hi.astype(np.int64) - schedule.lo) * chunk_bytes)
    return [int(load) for load in loads]


def counted_bytes(way: LinkWay, before: dict[int, Any], after: dict[int, Any]) -> int:
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
