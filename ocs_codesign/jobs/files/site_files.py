"""Site files: one description of a machine room, from which fabrics, clusters and networks follow.

Servers and what joins their accelerators, NICs, optical switches or a network of packets, prices,
what is damaged and how often a job stops, in YAML or JSON. Files of fabrics, of clusters and of
clusters for jobs are read as sites too. ``site_json_schema`` documents the keys.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.cost import CostModel
from ocs_codesign.core.files.plain_text import PlainText, checked_part, file_error
from ocs_codesign.core.networks.servers import OUTER
from ocs_codesign.core.quantities import exact
from ocs_codesign.core.shown import shown
from ocs_codesign.fabric.clusters import MESH, NETWORK, ONE_SWITCH
from ocs_codesign.fabric.description import PRICED, PortModel
from ocs_codesign.fabric.files.cluster_files import (
    MAX_CLUSTER_BYTES,
    ClusterPart,
    OpticalCardPart,
    ServersPart,
    cluster_of_plain,
)
from ocs_codesign.fabric.files.example import CIRCULATOR_DB, CONNECTOR_DB
from ocs_codesign.fabric.files.fabric_files import (
    OF_FABRICS,
    bandwidth_text,
    described_plain,
    fabric_of_plain,
    host_names,
    is_site,
    yaml_text,
)
from ocs_codesign.fabric.files.schema import (
    BUDGETS_DB,
    TAGS,
    FabricPart,
    HostServersPart,
    SwitchPart,
)
from ocs_codesign.fabric.profiles import ARE_NICS, cluster_of, profile_named
from ocs_codesign.jobs.files.job_cluster_files import (
    JobClusterPart,
    JobPricesPart,
    accelerator_ports,
    checked_job_cluster,
    room_of,
)
from ocs_codesign.jobs.files.site_parts import SitePart, site_keys_at
from ocs_codesign.jobs.fused import Accelerator
from ocs_codesign.jobs.prices import Machine

if TYPE_CHECKING:
    from pathlib import Path

    from ocs_codesign.core.network import Network
    from ocs_codesign.fabric.clusters import Cluster
    from ocs_codesign.fabric.description import Fabric
    from ocs_codesign.jobs.files.site_parts import SiteNicPart, SiteServersPart
    from ocs_codesign.jobs.training.room import Room

VERSION = 2
"""Of files that describe a site; those of one thing alone are of version 1."""

_CARDS = ("count", "gpus", "host_bandwidth")
_INNER = ("gpus", ONE_SWITCH, MESH, NETWORK)
_NAMING = ("count", "pattern", "first", "names")


def site_json_schema() -> dict[str, Any]:
    """The JSON Schema of site files."""
    schema = SitePart.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def load_site(path: str | Path) -> Site:
    """The site in a file of any kind that describes one, or of a builder such as dgx_h100(64).

    Raises OSError if the file cannot be read, and ValueError with the file, the line (of YAML), the
    path in it, the value and the rule for anything else.
    """
    return site_of(*described_plain(path, MAX_CLUSTER_BYTES))


def as_site(path: str | Path) -> Site | None:
    """The site in a file, or None if it describes something else; raises as ``load_site``."""
    plain, name = described_plain(path, MAX_CLUSTER_BYTES)
    value = plain.value
    if not isinstance(value, dict) or not (is_site(value) or value.keys() >= OF_FABRICS):
        return None
    return site_of(plain, name)


def site_of(plain: PlainText, name: str) -> Site:
    """The site that plain data describe; ValueError as in ``load_site``.

    >>> site_of(PlainText({"version": 2, "name": "r", "hosts": {"count": 0}}, {}), "r.yaml")
    Traceback (most recent call last):
    ValueError: r.yaml: hosts.count is 0: it must be at least 1
    """
    if isinstance(plain.value, dict) and plain.value.get("version") != VERSION:
        plain = PlainText(_converted(plain, name), {})
    keys = "version 2, name and hosts"
    part = checked_part(plain, name, SitePart, site_keys_at, "room", tags=TAGS, keys=keys)
    return Site(PlainText(_given(plain.value), plain.lines), name, part)


def _given(value: Any) -> Any:
    """Plain data without keys that have no value."""
    if isinstance(value, dict):
        return {key: _given(each) for key, each in value.items() if each is not None}
    return [_given(each) for each in value] if isinstance(value, list) else value


def fabric_of_site(plain: PlainText, name: str) -> Fabric:
    """The fabric of the site that plain data describe."""
    return site_of(plain, name).fabric()


def cluster_of_site(plain: PlainText, name: str) -> Cluster:
    """The cluster of the site that plain data describe."""
    return site_of(plain, name).cluster()


def job_cluster_of_site(plain: PlainText, name: str) -> tuple[PlainText, JobClusterPart]:
    """The cluster that jobs are planned on, as a file of one says it."""
    made = site_of(plain, name).plain_of("job cluster")
    return made, checked_job_cluster(made, name)


@final
class Site:
    """A machine room: the plain data of its file, the file's name, and its checked parts."""

    def __init__(self, plain: PlainText, name: str, part: SitePart) -> None:
        self.plain, self.name, self.part = plain, name, part

    def text(self) -> str:
        """A site file that says the same, as YAML."""
        return yaml_text(self.plain.value)

    def plain_of(self, kind: str) -> PlainText:
        """What a file of a kind would say: fabric, cluster or job cluster."""
        made = {"fabric": self._fabric, "cluster": self._cluster, "job cluster": self._job_cluster}
        try:
            return PlainText(made[kind](), self.plain.lines)
        except _MissingError as error:
            rule = f" is missing: {error.args[1]}"
            raise file_error(self.name, self.plain, (error.args[0],), rule, "the room") from None
        except ValueError as error:
            if str(error).startswith(self.name):
                raise
            raise file_error(self.name, self.plain, (), f": {error}", "the room") from None

    def fabric(self) -> Fabric:
        """Hosts and planes of optical switches, without servers that are lost."""
        self._check_alike("a fabric")
        return fabric_of_plain(self.plain_of("fabric"), self.name)

    def cluster(self) -> Cluster:
        """Servers of accelerators whose NICs have ports; without servers a host is one of one."""
        if self.part.planes is None and self.part.switches is None:
            return cluster_of_plain(self.plain_of("cluster"), self.name)
        found = self.plain_of("fabric")
        if self.part.servers is None:
            nic = {"planes": list(range(_num_planes(found.value))), "gpus": [0]}
            found.value["servers"] = {"gpus": 1, "nics": [nic]}
        damage = tuple((each.what, exact(each.bandwidth)) for each in self.part.slow)
        gone = {*self._lost_servers}
        lost = tuple(text for text in self.part.lost if text not in gone)
        try:
            whole = cluster_of(fabric_of_plain(found, self.name))
            return replace(whole, names=tuple(self._working()), lost=lost, slow=damage)
        except ValueError as error:
            if str(error).startswith(self.name):
                raise
            raise file_error(self.name, self.plain, ("servers",), f": {error}", "it") from None

    def network(self) -> Network:
        """Accelerators joined by the designs that circuits hold, or by packet switches.

        Without designs no circuits are better than these: switches that pass on whatever the NICs
        send. The first link out of a NIC has the latency of a step.
        """
        cluster, designs = self.cluster(), self.part.designs
        if designs is None and cluster.links_named:
            rule = f": {cluster.links_named[0]} is no server or NIC, and without designs no link"
            raise file_error(self.name, self.plain, (), rule, "the room")
        if designs is None:
            made = cluster.switched()
        else:
            try:
                made = cluster.network(cluster.of_cards(designs))
            except ValueError as error:
                place = ("designs",)
                raise file_error(self.name, self.plain, place, f": {error}", "it") from None
        if cluster.alpha_s is None or made.dimension is None:
            return made
        outside = made.dimension == OUTER
        inner_ends = [made.tail[~outside], made.head[~outside], np.arange(made.num_hosts)]
        first = outside & np.isin(made.tail, np.concatenate(inner_ends))
        ticks = round(cluster.alpha_s / made.tick_s)
        return made.changed(latency=np.where(first, ticks, made.latency))

    def machine(self) -> tuple[Machine, Accelerator]:
        """What messages cost inside servers and between them, and what computes."""
        part, room = self._room()
        chip = part.accelerator.chip()
        alpha = self.part.alpha
        if alpha is None:
            rule = " is missing: what a step between servers takes"
            raise file_error(self.name, self.plain, ("alpha",), rule, "the room")
        inside = CostModel(part.servers.alpha, room.inside_Bps)
        between = CostModel(alpha, room.outside_Bps)
        machine = Machine.of_servers(room.accelerators_a_server, room.num_servers, inside, between)
        return machine, Accelerator(chip.bf16, chip.memory_Bps, chip.processors)

    def dimensions(self) -> list[tuple[str, int, Fraction, Fraction]]:
        """Inside servers and between them: name, ranks, bytes a second of an accelerator, price.

        The price is that of a byte a second of all accelerators; inside, none is known.
        """
        room = self._room()[1]
        each, outside = room.accelerators_a_server, exact(room.outside_Bps)
        fabric_usd = 0 if room.costs is None else exact(room.costs.fabric_usd)
        between = (f"between {room.num_servers} servers", room.num_servers, outside)
        inside = (f"inside servers, {each} accelerators", each, exact(room.inside_Bps), Fraction(0))
        price = fabric_usd * room.num_accelerators / outside
        return [*([inside] if each > 1 else []), (*between, price)]

    def _room(self) -> tuple[JobClusterPart, Room]:
        plain = self.plain_of("job cluster")
        part = checked_job_cluster(plain, self.name)
        return part, room_of(plain, part, self.name)[1]

    # What files of one thing would say.

    @property
    def _a_server(self) -> int:
        """Hosts of a server."""
        servers = self.part.servers
        if servers is None or servers.hosts != ARE_NICS:
            return 1
        return sum(nic.count for nic in servers.nics)

    @cached_property
    def _servers(self) -> dict[str, list[str]]:
        """The hosts of every server by its name, spare ones too."""
        hosts, each = list(host_names(self.part.hosts)), self._a_server
        if each == 1 and (self.part.servers is None or self.part.servers.hosts != ARE_NICS):
            return {host: [host] for host in hosts}
        return {f"server{at // each}": hosts[at : at + each] for at in range(0, len(hosts), each)}

    @cached_property
    def _lost_servers(self) -> list[str]:
        return [text for text in self.part.lost if text in self._servers]

    def _check_alike(self, what: str) -> None:
        """ValueError for damage that leaves servers unlike each other."""
        others = [text for text in self.part.lost if text not in self._servers]
        others += [each.what for each in self.part.slow]
        if others:
            rule = (
                f": {others[0]} is lost or slow: {what} has servers that are alike, so lose the "
                "whole server, or ask cluster, optimum or compare"
            )
            raise file_error(self.name, self.plain, (), rule, "the room")

    def _working(self) -> list[str]:
        """Names of the servers that work."""
        names = list(self._servers)
        names = names[: max(0, len(names) - self.part.hosts.spares // self._a_server)]
        found = [name for name in names if name not in self._lost_servers]
        if not found:
            raise file_error(self.name, self.plain, ("hosts",), ": none works", "the room")
        return found

    def _nics(self, fallback: str) -> list[SiteNicPart]:
        if self.part.servers is None:
            raise _MissingError("servers", fallback)
        return [nic for nic in self.part.servers.nics for _ in range(nic.count)]

    def _fabric(self) -> dict[str, Any]:
        value, part = self.plain.value, self.part
        if part.planes is None and part.switches is None:
            raise _MissingError("switches", "circuits are on optical switches, or planes of them")
        made = {key: value[key] for key in FabricPart.model_fields if key in value}
        made["version"] = 1
        gone = {host for name in self._lost_servers for host in self._servers[name]}
        if gone:
            names = [name for name in host_names(part.hosts) if name not in gone]
            made["hosts"] = {"names": names, "spares": part.hosts.spares}
        if part.switches is not None:
            made["planes"] = self._planes(part.switches)
        if part.servers is not None:
            made["servers"] = self._inside(part.servers, made["planes"])
        if part.losses is None:
            made["losses"] = self._losses()
        if part.node_bandwidth is None and part.port_bandwidth is None:
            made["port_bandwidth"] = self._port_bandwidth()
        made["prices"] = {key: usd for key, usd in value.get("prices", {}).items() if key in PRICED}
        return made

    def _planes(self, given: SwitchPart) -> list[dict[str, Any]]:
        """A plane for every port of a server, or of a NIC, with the switches that it takes."""
        part = self.part
        nics = self._nics("a plane is of one port of its NICs")
        missing = [at for at, nic in enumerate(nics) if nic.ports is None]
        if missing:
            raise ValueError(f"servers.nics[{missing[0]}].ports is missing: there are no planes")
        sent = [nic.ports or 0 for nic in nics]
        if part.servers is not None and part.servers.hosts == ARE_NICS:
            if len(set(sent)) > 1:
                raise ValueError("hosts are NICs, with ports in all planes: they have equally many")
            sent = sent[:1]
        model, known = _known_switch(given)
        uneven = [ports for ports in sent if ports % model.ports_per_host]
        if uneven:
            raise ValueError(f"{uneven[0]} ports of a NIC: a {model.value} plane takes two each")
        hosts = max(1, len(self._servers) - len(self._lost_servers)) * self._a_server
        room = (known if given.ports is None else given.ports) - given.spares
        count = given.count if "count" in given.model_fields_set else -(-hosts // max(room, 1))
        ports = -(-hosts // count) + given.spares if given.ports is None else given.ports
        each = {**self.plain.value["switches"], "count": count, "ports": ports}
        return [{"count": sum(sent) // model.ports_per_host, "switches": [each]}]

    def _inside(self, servers: SiteServersPart, planes: list[dict[str, Any]]) -> dict[str, Any]:
        """The servers, whose NICs have the planes in a row that their ports are in."""
        given = self.plain.value["servers"]
        made = {key: given[key] for key in HostServersPart.model_fields if key in given}
        cards = [nic for nic in given["nics"] for _ in range(nic.get("count", 1))]
        nics, first = [], 0
        for card, nic in zip(cards, self._nics(""), strict=True):
            one = {key: card[key] for key in ("planes", *_CARDS[1:]) if key in card}
            if nic.ports is not None and servers.hosts != ARE_NICS:
                number = nic.ports // _ports_per_host(planes)
                one["planes"] = list(range(first, first + number))
                first += number
            nics.append(one)
        return {**made, "nics": nics}

    def _losses(self) -> dict[str, Any]:
        """Two usual connectors, and the first class of transceivers that a circuit keeps to."""
        found = self.part.switches or (self.part.planes or [])[0].switches[0]
        profile = found.profile
        if isinstance(profile, str):
            db = profile_named(profile).circuit_loss_db(CONNECTOR_DB, CIRCULATOR_DB)
        else:
            db = profile.insertion_loss_db + 2 * (CONNECTOR_DB + CIRCULATOR_DB)
        budget = next((name for name, most in BUDGETS_DB.items() if db <= most), db)
        usual = {"connector_db": CONNECTOR_DB, "circulator_db": CIRCULATOR_DB}
        return {**usual, "budget_db": budget}

    def _port_bandwidth(self) -> str:
        rates = {nic.port_bandwidth for nic in self._nics("or a port_bandwidth of all")}
        if len(rates) > 1 or None in rates:
            raise ValueError("port_bandwidth is missing, or differs: ports on switches are alike")
        text: str = self.plain.value["servers"]["nics"][0]["port_bandwidth"]
        return text

    def _cluster(self) -> dict[str, Any]:
        value, part = self.plain.value, self.part
        self._nics("what the hosts are")
        given = value["servers"]
        rate = value.get("port_bandwidth", value.get("network", {}).get("bandwidth"))
        cards = []
        for at, card in enumerate(given["nics"]):
            one = {key: card[key] for key in _CARDS if key in card}
            one["ports"] = card.get("ports", 1 if part.network is not None else None)
            one["port_bandwidth"] = card.get("port_bandwidth", rate)
            for key in ("ports", "port_bandwidth"):
                if one[key] is None:
                    raise ValueError(f"servers.nics[{at}].{key} is missing: what it sends")
            cards.append(one)
        made = {key: given[key] for key in ("wiring", "relay") if key in given}
        made |= {
            key: value[key] for key in ("name", "alpha", "bidirectional", "slow") if key in value
        }
        gone = set(self._lost_servers)
        made["lost"] = [text for text in part.lost if text not in gone]
        inner = {key: given[key] for key in _INNER if key in given}
        return {**made, "servers": {"names": self._working(), **inner}, "nics": cards}

    def _job_cluster(self) -> dict[str, Any]:
        value, part = self.plain.value, self.part
        if part.network is not None:
            self._check_alike("a cluster for jobs")
        servers = part.servers
        inner = None if servers is None else servers.inner()
        each = 1 if inner is None else inner.num_gpus
        made = {key: value[key] for key in ("name", "accelerator", "failures") if key in value}
        alpha = value.get("servers", {}).get("alpha")
        made["servers"] = {"count": len(self._working()), "accelerators": each}
        made["servers"] |= {} if alpha is None or each == 1 else {"alpha": alpha}
        if inner is not None and each > 1:
            network, unit = inner.network()
            made["servers"]["scale_up"] = bandwidth_text(network.host_bandwidth() * unit)
        if part.slow_hosts is not None:
            made["slow"] = value["slow_hosts"]
        known = JobPricesPart.model_fields
        prices = {key: usd for key, usd in value.get("prices", {}).items() if key in known}
        made["prices"] = prices
        if part.network is not None:
            return {**made, "network": value["network"]}
        return {**made, "optics": self._optics()}

    def _optics(self) -> dict[str, Any]:
        """The ports of a server's accelerators, and the switches of its planes."""
        fabric = self.fabric()
        ports = fabric.num_ports_per_host
        rate = exact(fabric.cost_model.node_bandwidth_Bps) / ports
        names = {switch.profile.name for switch in fabric.switches}
        if len(names) > 1:
            raise ValueError(f"switches are {', '.join(sorted(names))}: jobs are planned on one")
        (name,) = names
        made: dict[str, Any] = {
            "server_ports": ports * self._a_server,
            "port_bandwidth": bandwidth_text(rate),
            "alpha": self.plain.value["alpha"],
            "switch": name,
        }
        given = self.plain.value
        first = given["planes"][0]["switches"][0] if "planes" in given else given["switches"]
        return {**made, **({"delta": first["delta"]} if "delta" in first else {})}


class _MissingError(ValueError):
    """A key that is missing, and what for."""


def _known_switch(part: SwitchPart) -> tuple[PortModel, int]:
    """How ports are used, and how many a switch has."""
    if isinstance(part.profile, str):
        known = profile_named(part.profile)
        return part.port_model or known.port_model, known.num_ports
    return part.port_model or part.profile.port_model, part.profile.ports


def _num_planes(fabric: dict[str, Any]) -> int:
    return sum(plane.get("count", 1) for plane in fabric["planes"])


def _ports_per_host(planes: list[dict[str, Any]]) -> int:
    first = SwitchPart.model_validate(planes[0]["switches"][0])
    return _known_switch(first)[0].ports_per_host


# Older files as sites.


def _converted(plain: PlainText, name: str) -> dict[str, Any]:
    """What a site file would say in place of an older one, which is checked as what it is."""
    value = plain.value
    if "hosts" in value or "planes" in value:
        fabric_of_plain(plain, name)
        return {**value, "version": VERSION}
    if "nics" in value:
        cluster_of_plain(plain, name)
        return _of_cluster(value)
    if "servers" in value:
        return _of_job_cluster(value, checked_job_cluster(plain, name))
    raise ValueError(
        f"{name}: it describes no room: that has version 2, name and hosts, or is an older file of "
        f"a fabric or a cluster; this has {shown(', '.join(value))}"
    )


def _of_cluster(value: dict[str, Any]) -> dict[str, Any]:
    servers = value["servers"]
    naming = {key: servers[key] for key in _NAMING if key in servers}
    if "names" not in naming:
        naming.setdefault("pattern", ServersPart.model_fields["pattern"].default)
    inside = {key: servers[key] for key in _INNER if key in servers}
    cards = [
        {key: nic[key] for key in OpticalCardPart.model_fields if key in nic}
        for nic in value["nics"]
    ]
    inside["nics"] = cards
    inside |= {key: value[key] for key in ("wiring", "relay") if key in value}
    others = [
        key
        for key in ClusterPart.model_fields
        if key not in ("version", "servers", "nics", "wiring", "relay")
    ]
    made = {"version": VERSION, "name": value["name"], "hosts": naming, "servers": inside}
    return made | {key: value[key] for key in others if key in value}


def _of_job_cluster(value: dict[str, Any], part: JobClusterPart) -> dict[str, Any]:
    servers, each = value["servers"], part.servers.accelerators
    digits = max(2, len(str(part.servers.count - 1)))
    inside: dict[str, Any] = {"gpus": each}
    inside |= {"switch": servers["scale_up"]} if each > 1 else {}
    inside |= {"alpha": servers["alpha"]} if "alpha" in servers else {}
    nic: dict[str, Any] = {"count": each}
    made = {
        "version": VERSION,
        "name": value["name"],
        "hosts": {"count": part.servers.count, "pattern": f"server{{:0{digits}d}}"},
        "servers": {**inside, "nics": [nic]},
    }
    made |= {
        key: value[key] for key in ("accelerator", "network", "prices", "failures") if key in value
    }
    made |= {"slow_hosts": value["slow"]} if "slow" in value else {}
    if part.optics is not None:
        optics = value["optics"]
        nic["ports"] = accelerator_ports(part.optics, each)
        switch = {"profile": optics["switch"]}
        made["switches"] = switch | ({"delta": optics["delta"]} if "delta" in optics else {})
        made |= {key: optics[key] for key in ("port_bandwidth", "alpha")}
    return made
