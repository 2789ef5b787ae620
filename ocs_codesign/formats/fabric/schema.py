"""The schema of fabric files: what may be in one, as models that check it and document it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from ocs_codesign.files.plain_text import Place
from ocs_codesign.formats.fabric.scalars import (
    Bandwidth,
    Budget,
    Loss,
    Model,
    Name,
    Pattern,
    ProfileName,
    States,
    Time,
)
from ocs_codesign.formats.server_parts import RELAY, WIRING, CardPart, Relay, ServerPart, Wiring

MAX_HOSTS = 100_000
MAX_PLANES = 1_024
MAX_SWITCHES = 20_000
MAX_PORTS = 16_384

NAME_TAG, INLINE_TAG = "<name>", "<inline>"
TAGS = (NAME_TAG, INLINE_TAG)
"""Marks of the two ways to give a profile, which are no part of a path in the file."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _check_one_given(part: _Part, one: str, other: str) -> None:
    is_none = [getattr(part, key) is None for key in (one, other)]
    if is_none[0] == is_none[1]:
        given = "neither is given" if is_none[0] else "both are given"
        raise ValueError(f"must have either {one} or {other}: {given}")


class SourcePart(_Part):
    """Where a number of a profile comes from."""

    field: Name = Field(description="The number's key, such as insertion_loss_db.")
    text: Name = Field(description="The publication, data sheet or measurement.")


class ProfilePart(_Part):
    """A make of switch that is not among the known profiles."""

    name: Name = Field(description="Its name, in reports.")
    technology: Name = Field(description="In words, such as piezo beam steering.")
    port_model: Model = Field(description="Which circuits it can hold.")
    ports: int = Field(
        ge=1, le=MAX_PORTS, description="A ports, and as many B ports; all ports of a matching one."
    )
    insertion_loss_db: Loss = Field(description="Loss of a circuit through it, in dB.")
    delta: Time = Field(description="Dead time of a change of circuits.")
    delta_per_circuit: Time = Field(0.0, description="Dead time more for every circuit changed.")
    price_usd_per_port: float | None = Field(
        None, ge=0, allow_inf_nan=False, description="Of an A port with its B port, in US dollars."
    )
    power_w: float | None = Field(None, ge=0, allow_inf_nan=False, description="Power, in watts.")
    sources: list[SourcePart] = Field([], description="Where the numbers come from.")


def _tag(value: Any) -> str:
    return NAME_TAG if isinstance(value, str) else INLINE_TAG


class SwitchPart(_Part):
    """One or several equal switches of a plane."""

    profile: Annotated[
        Annotated[ProfileName, Tag(NAME_TAG)] | Annotated[ProfilePart, Tag(INLINE_TAG)],
        Discriminator(_tag),
    ] = Field(description="A known profile's name, or a profile written out.")
    count: int = Field(1, ge=1, le=MAX_SWITCHES, description="How many such switches.")
    names: list[Name] | None = Field(
        None, description="Their names; by default p0-s0 for the first switch of plane 0, etc."
    )
    ports: int | None = Field(
        None, ge=1, le=MAX_PORTS, description="Ports a side in service; by default the profile's."
    )
    spares: int = Field(0, ge=0, description="The last ports a side that are kept free.")
    port_model: Model | None = Field(
        None, description="How its ports are used, if not as the profile says."
    )
    delta: Time | None = Field(None, description="Dead time of a change, instead of the profile's.")
    delta_per_circuit: Time | None = Field(
        None, description="Dead time more for every circuit changed, instead of the profile's."
    )
    states: States | None = Field(
        None,
        description="What a restricted switch can be in: rows of the B port (from 1, 0 for dark) "
        "that every A port is joined with, or rotations for all cyclic shifts of its usable ports.",
    )


class PlanePart(_Part):
    """One or several equal planes, in each of which every host has a port."""

    count: int = Field(1, ge=1, le=MAX_PLANES, description="How many such planes.")
    switches: list[SwitchPart] = Field(min_length=1, description="The switches of each.")


class HostsPart(_Part):
    """The hosts, either by count and pattern or by name; the last ones are spare."""

    count: int | None = Field(
        None, ge=1, le=MAX_HOSTS, description="How many, spare ones included."
    )
    pattern: Pattern = Field("host{:03d}", description="A name with one {} or {:03d} in it.")
    first: int = Field(0, ge=0, le=10**9, description="The number of the first host.")
    names: list[Name] | None = Field(
        None, min_length=1, max_length=MAX_HOSTS, description="All names, instead of a count."
    )
    spares: int = Field(0, ge=0, description="How many of them, the last ones, are spare.")

    @model_validator(mode="after")
    def _one_way(self) -> HostsPart:
        _check_one_given(self, "count", "names")
        if self.names is not None and self.model_fields_set & {"pattern", "first"}:
            raise ValueError("must not have pattern or first with names: they number a count")
        return self


class LossesPart(_Part):
    """What light loses on its way, apart from the switches, and what it may lose."""

    connector_db: Loss = Field(description="Loss of a connector; a circuit has two.")
    circulator_db: Loss | None = Field(
        None, description="Loss of a circulator; a two-way circuit has two. Needed by those only."
    )
    budget_db: Budget = Field(
        description="What a link may lose: dB, or the class DR4 (3 dB) or FR4 (4 dB)."
    )


class ReconfigurationPart(_Part):
    """What has to wait when circuits change."""

    cold_start: bool = Field(True, description="The first configuration has to be made and pays.")
    overlap: bool = Field(True, description="A plane changes while the others send.")
    barrier: bool = Field(True, description="A step begins when all of the one before arrived.")


class HostNicPart(CardPart):
    """A NIC that has ports of hosts, or several alike."""

    planes: list[int] = Field(
        [], description="Planes in which it has the port of its server; none where hosts are NICs."
    )

    @model_validator(mode="after")
    def _one_of_planes(self) -> HostNicPart:
        if self.planes and self.count > 1:
            raise ValueError("must not have planes with a count over 1: a plane is of one NIC")
        return self


class HostServersPart(ServerPart):
    """What the hosts are inside: servers of GPUs with NICs."""

    hosts: Literal["servers", "nics"] = Field(
        "servers", description="What a host is: a server, or a NIC, those of a server in a row."
    )
    nics: list[HostNicPart] = Field(min_length=1, description="The NICs of every server.")
    wiring: Wiring = Field("rails", description=WIRING)
    relay: Relay = Field("gpu", description=RELAY)


class FabricPart(_Part):
    """Hosts, planes of optical circuit switches, and what time and light cost on them."""

    version: Literal[1] = Field(1, description="The version of this format.")
    name: Name = Field(description="The fabric's name, in reports.")
    hosts: HostsPart
    planes: list[PlanePart] = Field(min_length=1, max_length=MAX_PLANES)
    alpha: Time = Field(description="Time of a communication step, without its bytes.")
    node_bandwidth: Bandwidth | None = Field(
        None, description="Egress of a host over all its ports together."
    )
    port_bandwidth: Bandwidth | None = Field(
        None,
        description="Egress of one port of a host, instead of node_bandwidth. A host has one port "
        "in a plane, and two in a two-sided one.",
    )
    losses: LossesPart
    servers: HostServersPart | None = Field(
        None, description="What the hosts are inside, for 'ocs-codesign cluster'."
    )
    reconfiguration: ReconfigurationPart = ReconfigurationPart.model_validate({})

    @model_validator(mode="after")
    def _one_bandwidth(self) -> FabricPart:
        _check_one_given(self, "node_bandwidth", "port_bandwidth")
        return self


_PARTS: dict[str, type[BaseModel]] = {
    "hosts": HostsPart,
    "planes": PlanePart,
    "switches": SwitchPart,
    "profile": ProfilePart,
    "sources": SourcePart,
    "losses": LossesPart,
    "servers": HostServersPart,
    "nics": HostNicPart,
    "reconfiguration": ReconfigurationPart,
}


def keys_at(place: Place) -> list[str]:
    """The keys that may be in the map at a place."""
    key = next((key for key in reversed(place) if isinstance(key, str)), "")
    return list(_PARTS.get(key, FabricPart).model_fields)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of fabric files."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **FabricPart.model_json_schema(),
    }
