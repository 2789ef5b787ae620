"""What the hosts of a fabric are inside: servers of GPUs, whose NICs have the ports of planes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from ocs_codesign.networks.cards import ACROSS, GPU, RAILS
from ocs_codesign.quantities import exact
from ocs_codesign.search.clusters.description import Card, Cluster

if TYPE_CHECKING:
    from fractions import Fraction

    from ocs_codesign.fabric.description import Fabric
    from ocs_codesign.search.clusters.description import Inner

ARE_SERVERS, ARE_NICS = "servers", "nics"


@final
@dataclass(frozen=True, slots=True)
class HostNic:
    """A NIC on these GPUs of its server, or on its switch if there are none.

    Where hosts are servers it has their ports in these ``planes``; where hosts are NICs, in all,
    and none are listed. ``host_Bps`` is the bandwidth of the link to each GPU, None if it is never
    the narrowest.
    """

    planes: tuple[int, ...]
    gpus: tuple[int, ...]
    host_Bps: Fraction | None = None  # noqa: N815 - the unit keeps its case


@final
@dataclass(frozen=True, slots=True)
class HostServers:
    """Servers of a fabric: its hosts, or each as many hosts in a row as it has ``nics``.

    ``wiring`` and ``relay`` are those of ``networks.servers``.
    """

    inner: Inner
    nics: tuple[HostNic, ...]
    hosts_are: str = ARE_SERVERS
    wiring: str = RAILS
    relay: str = GPU

    def check(self, num_planes: int, num_hosts: int) -> None:
        """ValueError unless the NICs have every port of so many working hosts once."""
        if self.hosts_are == ARE_NICS:
            if num_hosts % len(self.nics):
                raise ValueError(
                    f"hosts are NICs, {len(self.nics)} a server, but {num_hosts} hosts work: they "
                    "make no whole number of servers"
                )
            if any(nic.planes for nic in self.nics):
                raise ValueError("hosts are NICs, which have ports in all planes: list no planes")
            return
        if self.wiring == ACROSS:
            raise ValueError(
                "hosts are servers, so that a plane is of one NIC of each: no recipe "
                "goes across rails"
            )
        listed = sorted(plane for nic in self.nics for plane in nic.planes)
        if listed != list(range(num_planes)):
            raise ValueError(
                f"NICs have ports in planes {', '.join(map(str, listed)) or 'none'}: planes 0 to "
                f"{num_planes - 1} are each of one NIC"
            )


def cluster_of(fabric: Fabric) -> Cluster:
    """The servers of a fabric's working hosts; ValueError if it says nothing of servers."""
    inside = fabric.servers
    if inside is None:
        raise ValueError("nothing is said of servers: describe what the hosts are inside")
    models = [fabric.port_model(plane) for plane in range(fabric.num_planes)]
    port_Bps = exact(fabric.cost_model.node_bandwidth_Bps) / fabric.num_ports_per_host  # noqa: N806
    cards = [
        Card(
            sum(models[plane].ports_per_host for plane in nic.planes or range(len(models))),
            *(port_Bps, nic.gpus, nic.host_Bps),
        )
        for nic in inside.nics
    ]
    hosts = fabric.hosts[: fabric.num_working_hosts]
    if inside.hosts_are == ARE_NICS:
        hosts = tuple(f"server{at}" for at in range(len(hosts) // len(cards)))
    return Cluster(
        fabric.name,
        hosts,
        inside.inner,
        tuple(cards),
        inside.wiring,
        inside.relay,
        any(model.is_bidirectional for model in models),
        alpha_s=exact(fabric.cost_model.alpha_s),
    )
