"""The schema of site files: what describes a machine room, as models that check it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, Field, model_validator

from ocs_codesign.fabric.files.cluster_files import SlowPart
from ocs_codesign.fabric.files.schema import (
    FABRIC_PARTS,
    MAX_PLANES,
    Bandwidth,
    CardPart,
    FabricPart,
    HostServersPart,
    LossesPart,
    Name,
    PlanePart,
    SwitchPart,
    Time,
    Usd,
)
from ocs_codesign.jobs.files.job_cluster_files import (
    MAX_PORTS,
    FailuresPart,
    JobPricesPart,
    ProcessorPart,
    SlowHostsPart,
    WiresPart,
)

if TYPE_CHECKING:
    from ocs_codesign.core.files.plain_text import Place


class SiteNicPart(CardPart):
    """A NIC of every server, or several alike."""

    ports: int | None = Field(None, ge=1, le=MAX_PORTS, description="Optical ports of each.")
    port_bandwidth: Bandwidth | None = Field(None, description="Of its ports, if not of all.")
    planes: list[int] = Field([], description="Planes in which it has the port of its server.")

    @model_validator(mode="after")
    def _one_way(self) -> SiteNicPart:
        if self.planes and (self.count > 1 or self.ports is not None):
            raise ValueError("must not have planes with ports or a count over 1: they are its own")
        return self


class SiteServersPart(HostServersPart):
    """What the hosts are inside: servers of accelerators with NICs."""

    alpha: Time | None = Field(None, description="Time of a step inside a server.")
    nics: list[SiteNicPart] = Field(  # type: ignore[assignment]
        min_length=1, description="The NICs of every server."
    )


class SitePricesPart(JobPricesPart):
    """What one's own parts cost, in US dollars each, in place of list estimates."""

    circulator: Usd | None = Field(None, description="Of two-way circuits, one a port of a host.")
    fibre: Usd | None = Field(None, description="A fibre, one a strand of a host.")


class SitePart(FabricPart):
    """A machine room: hosts, servers, NICs, switches, prices and damage."""

    version: Literal[2] = Field(description="The version of this format.")  # type: ignore[assignment]
    planes: list[PlanePart] | None = Field(  # type: ignore[assignment]
        None, min_length=1, max_length=MAX_PLANES, description="Optical switches, plane by plane."
    )
    switches: SwitchPart | None = Field(
        None, description="Instead: those of a plane for every port of a server, all alike."
    )
    network: WiresPart | None = Field(None, description="Or packets between servers.")
    bidirectional: bool = Field(False, description="Without switches: links have one back.")
    designs: list[str] | None = Field(
        None, min_length=1, max_length=64, description="Recipes that the circuits hold."
    )
    alpha: Time | None = Field(  # type: ignore[assignment]
        None, description="Time of a step between servers, without its bytes."
    )
    losses: LossesPart | None = Field(None, description="Of light.")  # type: ignore[assignment]
    servers: SiteServersPart | None = Field(None, description="What the hosts are inside.")
    accelerator: ProcessorPart | None = Field(None, description="What one computes and holds.")
    prices: SitePricesPart | None = Field(  # type: ignore[assignment]
        None, description="One's own, in place of list estimates."
    )
    lost: list[Name] = Field([], description="Servers, NICs and links that have failed.")
    slow: list[SlowPart] = Field([], description="Servers, NICs and links that are slower.")
    slow_hosts: SlowHostsPart | None = Field(None, description="Kernels of the slowest servers.")
    failures: FailuresPart | None = Field(None, description="What a step loses to them.")

    @model_validator(mode="after")
    def _one_bandwidth(self) -> SitePart:
        if self.node_bandwidth is not None and self.port_bandwidth is not None:
            raise ValueError("must have one of node_bandwidth and port_bandwidth: both are given")
        given = [key for key in ("planes", "switches", "network") if getattr(self, key) is not None]
        if len(given) > 1:
            raise ValueError(f"must have one of planes, switches and network: {given} are given")
        return self


SITE_PARTS: dict[str, type[BaseModel]] = {
    **FABRIC_PARTS,
    "servers": SiteServersPart,
    "nics": SiteNicPart,
    "network": WiresPart,
    "accelerator": ProcessorPart,
    "prices": SitePricesPart,
    "slow": SlowPart,
    "slow_hosts": SlowHostsPart,
    "failures": FailuresPart,
}


def site_keys_at(place: Place) -> list[str]:
    """The keys that may be in the map at a place."""
    keys = [key for key in place if isinstance(key, str)]
    if not keys or (keys == ["switches"] and len(place) == 1):
        return list((SwitchPart if keys else SitePart).model_fields)
    return list(SITE_PARTS.get(keys[-1], SitePart).model_fields)
