"""A fabric in namespaces of Linux: hosts, switches with agents, and a veth pair a cable."""

from __future__ import annotations

import os
import signal
import socket
import time
import traceback
from functools import partial
from multiprocessing import Pipe
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ocs_codesign.fabric.rehearsal.agent import Agent, serve
from ocs_codesign.fabric.rehearsal.host import enter, serve_host, settle
from ocs_codesign.fabric.rehearsal.kernel import (
    BURST_BYTES,
    DARK,
    KernelLight,
    batch,
    batches,
    redirect,
)
from ocs_codesign.fabric.rehearsal.reach import SwitchFile
from ocs_codesign.fabric.wiring import cable_name, host_strands, port_at, strand_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from multiprocessing.connection import Connection

    from ocs_codesign.fabric.deployments.deploy import Deployment
    from ocs_codesign.fabric.wiring import Configuration


SOCKETS = Path("/run/switches")
_ROUNDS, _PATIENCE = 6, 200
_MAC = "02:0c:50:00:00:01"
"""All data ports have one, so that nothing is asked for on light that leads one way."""


class LinkWay(NamedTuple):
    """A link: hosts, the interfaces it leaves and arrives by, the address there, its light."""

    tail: int
    head: int
    leaves: str
    arrives: str
    address: str
    circuit: int
    name: str


class End(NamedTuple):
    """Where the cable of a strand is plugged in."""

    host: int
    device: str
    side: int
    switch: str
    port: str
    address: str


def ends_of(deployment: Deployment) -> dict[str, End]:
    """Every strand with a cable, by the name of the cable."""
    fabric, numbers = deployment.fabric, strand_numbers(deployment.fabric)
    found = {}
    for plane, host, side, switch, number in host_strands(deployment.cabling).tolist():
        port = port_at(fabric, switch, side, number)
        device = f"p{plane}{fabric.port_model.strands[side][0]}"
        address = f"10.{plane + 1}.{host // 100}.{2 * (host % 100) + side + 1}"
        found[cable_name(numbers[host, plane, side])] = End(
            *(host, device, side, port.switch, port.name, address)
        )
    return found


def ways_of(configuration: Configuration, ends: dict[str, End]) -> list[LinkWay]:
    """The way of every link, in their order."""
    fabric, topology = configuration.cabling.fabric, configuration.topology
    far = 1 if fabric.port_model.has_b_side else 0
    places = {(end.host, int(end.device[1:-1]), end.side): end for end in ends.values()}
    a_port, b_port = configuration.a_port, configuration.b_port
    found: list[LinkWay] = []
    for link in range(topology.num_links):
        circuit, way = np.argwhere(configuration.link == link)[0].tolist()
        hosts = configuration.host[[topology.tail[link], topology.head[link]]].tolist()
        plane = int(configuration.plane[circuit])
        leaves = places[hosts[0], plane, far if way else 0]
        arrives = places[hosts[1], plane, 0 if way else far]
        rows = np.flatnonzero(configuration.circuit == circuit).tolist()
        crossed = " ".join(
            f"{fabric.switches[configuration.switch[row]].name}:"
            f"{fabric.port_model.joined(int(a_port[row]), int(b_port[row]))}"
            for row in rows
        )
        found.append(
            LinkWay(
                *(leaves.host, arrives.host, leaves.device, arrives.device),
                *(arrives.address, circuit, crossed),
            )
        )
    return found


class EmulatedFabric:
    """The cables of a deployment between namespaces; agents and hosts answer until ``down``."""

    def __init__(self, deployment: Deployment, rate_Bps: float) -> None:  # noqa: N803
        self.deployment, self.ends = deployment, ends_of(deployment)
        fabric = deployment.fabric
        self.hosts = sorted({end.host for end in self.ends.values()})
        self.switches = [each.name for each in fabric.switches]
        self.pause_s = max(0.05, 4 * 1514 / rate_Bps)
        self.pids: dict[str, int] = {}
        self.pipes: dict[int, Connection] = {}
        spaces = [*(self.space(h) for h in self.hosts), *(f"s-{name}" for name in self.switches)]
        batch(["ip"], (f"netns add {name}" for name in spaces))
        home = os.open("/proc/self/ns/net", os.O_RDONLY)
        for name in spaces:
            enter(name)
            settle()
        enter(f"/proc/self/fd/{home}")
        self._lay(rate_Bps)
        SOCKETS.mkdir(parents=True, exist_ok=True)
        self.start_agents(self.switches)
        for host in self.hosts:
            self.pipes[host], theirs = Pipe()
            self._forked(self.space(host), partial(serve_host, self.space(host), theirs))
            theirs.close()
        self.asks = SwitchFile(("socket", f"{SOCKETS}/{{switch}}.sock"), timeout_s=_PATIENCE).asks(
            self.switches
        )

    def space(self, host: int) -> str:
        """The name of the namespace of a host."""
        return f"h-{self.deployment.fabric.hosts[host]}"

    def _lay(self, rate_Bps: float) -> None:  # noqa: N803
        """Every cable and the management network; then addresses, rates, and dark ports."""
        rate = f"{max(8, int(rate_Bps * 8 * 1514 / 1448))}bit"
        lines = ["link add mgmt type bridge", "link set mgmt up"]
        mine: dict[str, list[str]] = {f"s-{name}": [] for name in self.switches}
        shaped: dict[str, list[str]] = {name: [] for name in mine}
        for host in self.hosts:
            name = self.space(host)
            lines.append(
                f"link add m{host} type veth peer name m0 address {_mac(host)} netns {name}"
            )
            lines.append(f"link set m{host} master mgmt up")
            mine[name] = [
                "link set lo up",
                f"address add {address_of(host)}/16 dev m0",
                "link set m0 up",
            ]
            shaped[name] = []
        for end in self.ends.values():
            name, there = self.space(end.host), f"s-{end.switch}"
            lines.append(
                f"link add {end.device} mtu 1500 address {_MAC} netns {name} type veth "
                f"peer name {end.port} mtu 1500 netns {there}"
            )
            mine[name].append(f"link set {end.device} arp off gso_max_size 16000 up")
            mine[name].append(f"address add {end.address}/32 dev {end.device}")
            shaped[name].append(
                f"qdisc add dev {end.device} root tbf rate {rate} burst {BURST_BYTES} limit 4194304"
            )
            self._port(end.port, mine[there], shaped[there])
        for b, b_port, a, a_port in self.deployment.cabling.trunks.tolist():
            ports = [
                (f"s-{self.switches[b]}", f"{b_port}B"),
                (f"s-{self.switches[a]}", f"{a_port}A"),
            ]
            lines.append(
                "link add {1} netns {0} type veth peer name {3} netns {2}".format(
                    *ports[0], *ports[1]
                )
            )
            for there, port in ports:
                self._port(port, mine[there], shaped[there])
        batch(["ip"], lines)
        for name, rows in mine.items():
            if name.startswith("s-"):
                rows[:0] = [
                    f"link add {DARK} type veth peer name dark0",
                    f"link set {DARK} up",
                    "link set dark0 up",
                ]
        batches((["ip", "-n", name], rows) for name, rows in mine.items())
        batches((["tc", "-n", name], rows) for name, rows in shaped.items())

    @staticmethod
    def _port(port: str, mine: list[str], shaped: list[str]) -> None:
        mine.append(f"link set {port} up")
        shaped.append(f"qdisc add dev {port} clsact")

    def _forked(self, name: str, work: Callable[[], None]) -> None:
        pid = os.fork()
        if not pid:
            try:
                work()
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        self.pids[name] = pid

    def start_agents(self, switches: Sequence[str]) -> None:
        """Start the agents of switches, which go on with what they were told."""

        def work(switch: str) -> None:
            enter(f"s-{switch}")
            serve(Agent(KernelLight(), SOCKETS / f"{switch}.json"), SOCKETS / f"{switch}.sock")

        for switch in switches:
            (SOCKETS / f"{switch}.sock").unlink(missing_ok=True)
            self._forked(f"s-{switch}", partial(work, switch))
        for switch in switches:
            self._answers(switch)

    def _answers(self, switch: str) -> None:
        """Wait until an agent can be asked."""
        path = SOCKETS / f"{switch}.sock"
        while True:
            try:
                with socket.socket(socket.AF_UNIX) as client:
                    client.connect(str(path))
                return
            except OSError:
                if os.waitpid(self.pids[f"s-{switch}"], os.WNOHANG)[0]:
                    raise RuntimeError(f"the agent of switch {switch} ended") from None
                time.sleep(0.01)

    def end(self, name: str) -> None:
        """End the process of a host or agent, as a power cut would."""
        if name in self.pids:
            os.kill(self.pids[name], signal.SIGKILL)
            os.waitpid(self.pids.pop(name), 0)

    def route(self, ways: list[LinkWay]) -> None:
        """Let data go by the links of a configuration, and what is acknowledged by management."""
        rows: dict[int, list[str]] = {}
        for way in ways:
            rows.setdefault(way.tail, []).append(
                f"route replace {way.address}/32 dev {way.leaves} src {address_of(way.tail)} "
                "rto_min 1000ms"
            )
            rows.setdefault(way.head, []).append(
                f"neigh replace {address_of(way.tail)} lladdr {_mac(way.tail)} dev m0 nud permanent"
            )
        batches((["ip", "-n", self.space(host)], lines) for host, lines in rows.items())

    def living(self, hosts: Iterable[int]) -> dict[int, Connection]:
        """The pipes of those hosts whose process has not ended."""
        return {host: self.pipes[host] for host in hosts if self.space(host) in self.pids}

    def asked(self, what: str, rest: Callable[[int], tuple[Any, ...]]) -> dict[int, Any]:
        """What every living host answers."""
        living = self.living(self.hosts)
        for host, pipe in living.items():
            pipe.send((what, *rest(host)))
        return {host: pipe.recv() for host, pipe in living.items()}

    def heard(self, wanted: set[tuple[int, str, int, str]]) -> set[tuple[int, str, int, str]]:
        """What hosts hear on their ports: host, interface, and those that it comes from.

        All say it again, a few times, until everything that is wanted is heard.
        """
        devices = {
            host: [e.device for e in self.ends.values() if e.host == host] for host in self.hosts
        }
        found: set[tuple[int, str, int, str]] = set()
        self.asked("listen", lambda host: (devices[host],))
        for _ in range(_ROUNDS):
            self.asked("say", lambda host: ({name: f"{host} {name}" for name in devices[host]},))
            time.sleep(self.pause_s)
            for host, rows in self.asked("hear", lambda _: ()).items():
                for device, text in rows:
                    other, _, port = text.partition(" ")
                    found.add((host, device, int(other), port))
            if wanted <= found:
                break
        self.asked("listen", lambda _: ([],))
        return found

    def counters(self) -> dict[int, dict[str, tuple[int, int, int, int]]]:
        """Bytes and packets in and out of every interface of every host, once all are still."""
        now = self.asked("count", lambda _: ())
        for _ in range(_PATIENCE):
            time.sleep(self.pause_s)
            last, now = now, self.asked("count", lambda _: ())
            if now == last:
                break
        return now

    # What breaks, and what hands mend.

    def break_down(self, kind: str, name: str) -> None:
        """Let a component fail, as in ``survive``, or in silence."""
        switch, _, port = name.partition(":")
        if kind == "host":
            number = self.deployment.fabric.hosts.index(name)
            devices = [end.device for end in self.ends.values() if end.host == number]
            batch(["ip", "-n", f"h-{name}"], (f"link set {each} down" for each in (*devices, "m0")))
            self.end(f"h-{name}")
        elif kind == "switch":
            self.end(f"s-{name}")
            ports = [end.port for end in self.ends.values() if end.switch == name]
            batch(["ip", "-n", f"s-{name}"], (f"link set {each} down" for each in ports))
        elif kind == "port":
            batch(["ip", "-n", f"s-{switch}"], [f"link set {port} down"])
        elif kind == "silent":
            batch(["tc", "-n", f"s-{switch}"], [redirect(port.split("-")[0], DARK, 2)])
        elif kind == "stale":
            a_side, b_side = port.split("-")
            batch(["tc", "-n", f"s-{switch}"], KernelLight.lines(f"{a_side}-{b_side}"))
        elif kind == "agent":
            self.end(f"s-{name}")
        else:
            end = self.ends[name]
            side = ("ingress", 1), ("egress", 1)
            dark = [redirect(end.port, DARK, number, way) for way, number in side]
            batch(["tc", "-n", f"s-{end.switch}"], dark)

    def by_hand(self, action: str, switch: str, port: str, cable: str) -> None:
        """What a technician does to a cable's end; it takes what is wrong with the cable along."""
        space, spare = f"s-{switch}", f"c{cable}"
        if action == "replace":
            lines = [f"filter del dev {port} {way} pref 1" for way in ("ingress", "egress")]
            batch(["tc", "-n", space], lines, go_on=True)
        elif action == "unplug":
            batch(["tc", "-n", space], [f"filter del dev {port} ingress pref 2"], go_on=True)
            batch(["ip", "-n", space], [f"link set {port} down", f"link set {port} name {spare}"])
        else:
            batch(["ip", "-n", space], [f"link set {spare} name {port}", f"link set {port} up"])


def _mac(host: int) -> str:
    return f"02:01:00:00:{host >> 8:02x}:{host & 255:02x}"


def address_of(host: int) -> str:
    """The address of a host on the management network."""
    return f"10.255.{host // 250}.{host % 250 + 1}"
