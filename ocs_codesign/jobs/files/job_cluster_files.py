"""Files of clusters that jobs are planned on: servers, accelerators, optical ports and switches.

``job_cluster_json_schema`` documents the keys.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ocs_codesign.core.cost import CostModel
from ocs_codesign.core.files.archives import check_size, read_limited
from ocs_codesign.core.files.plain_text import checked_part, read_plain_text
from ocs_codesign.core.quantities import exact
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.files.schema import Name, ProfileName
from ocs_codesign.fabric.profiles import NICS_USD, TRANSCEIVERS_USD, profile_named
from ocs_codesign.jobs.cluster_design.cluster import JobCluster, PortPrices
from ocs_codesign.jobs.files.job_files import rules_at
from ocs_codesign.jobs.files.scalars import JobBandwidth, JobSize, JobTime
from ocs_codesign.jobs.fused import Accelerator

if TYPE_CHECKING:
    from ocs_codesign.core.files.plain_text import Place


MAX_JOB_CLUSTER_BYTES = 2**20
MAX_SERVERS, MAX_ACCELERATORS, MAX_PORTS = 2**17, 1024, 64
PACKET_PORT_USD_PER_GBPS = Fraction(187, 100)
"""Class value of a port of a packet switch: an estimate, for no list of prices is public."""
OCS_PORT_USD = 520
"""Class value of a port of an optical switch, as its profiles have it."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class JobServersPart(_Part):
    """The servers, all alike, and what joins the accelerators of one."""

    count: int = Field(ge=1, le=MAX_SERVERS, description="How many there are.")
    accelerators: int = Field(1, ge=1, le=MAX_ACCELERATORS, description="Of each server.")
    scale_up: JobBandwidth | None = Field(
        None, description="Of an accelerator to the switch inside its server."
    )
    alpha: JobTime = Field(Fraction(0), description="Time of a step inside a server.")

    @model_validator(mode="after")
    def _joined(self) -> JobServersPart:
        if (self.accelerators > 1) != (self.scale_up is not None):
            need = "is missing: what joins" if self.scale_up is None else "is given: it joins"
            raise ValueError(f"scale_up {need} the {self.accelerators} accelerators of a server")
        if self.scale_up == 0:
            raise ValueError("scale_up is 0: a link has some bandwidth")
        return self


class ProcessorPart(_Part):
    """What an accelerator computes and holds."""

    peak: float = Field(gt=0, le=1e21, allow_inf_nan=False, description="Operations a second.")
    memory: JobSize = Field(description="What it holds.")
    memory_bandwidth: JobBandwidth = Field(description="Of its memory.")


class OpticsPart(_Part):
    """The optical ports, and the switches that they hang on."""

    ports: int | None = Field(None, ge=1, le=MAX_PORTS, description="Of an accelerator.")
    server_ports: int | None = Field(
        None, ge=1, le=MAX_PORTS * MAX_ACCELERATORS, description="Of a server, instead."
    )
    port_bandwidth: JobBandwidth = Field(description="Of a port, each way.")
    alpha: JobTime = Field(description="Time of a step between servers.")
    switch: ProfileName = Field(description="A known profile of optical switches.")
    delta: JobTime | None = Field(
        None, description="Dead time of a change, instead of the profile's."
    )

    @model_validator(mode="after")
    def _one_way(self) -> OpticsPart:
        if (self.ports is None) == (self.server_ports is None):
            raise ValueError("must have either ports or server_ports")
        if self.port_bandwidth == 0:
            raise ValueError("port_bandwidth is 0: a port has some")
        known = profile_named(self.switch)
        if not known.port_model.can_be_used_as(PortModel.SIMPLEX):
            raise ValueError(
                f"switch is {self.switch}, which is {known.port_model.value}: designs here have "
                "one-way circuits between any two ports"
            )
        return self


class JobPricesPart(_Part):
    """US dollars of a port of each kind, instead of list estimates."""

    ocs_port: float | None = Field(None, ge=0, le=1e9, allow_inf_nan=False)
    transceiver: float | None = Field(None, ge=0, le=1e9, allow_inf_nan=False)
    nic: float | None = Field(None, ge=0, le=1e9, allow_inf_nan=False)
    packet_port: float | None = Field(None, gt=0, le=1e9, allow_inf_nan=False)


class JobClusterPart(_Part):
    """A cluster: servers, accelerators, optics and, if they are known, prices."""

    version: Literal[1] = Field(1, description="The version of this format.")
    name: Name = Field(description="The cluster's name, in reports.")
    servers: JobServersPart
    accelerator: ProcessorPart
    optics: OpticsPart
    prices: JobPricesPart = JobPricesPart.model_validate({})


_PARTS: dict[str, type[BaseModel]] = {
    "servers": JobServersPart,
    "accelerator": ProcessorPart,
    "optics": OpticsPart,
    "prices": JobPricesPart,
}


def load_job_cluster(path: str | Path) -> JobCluster:
    """The cluster in a file, JSON if its suffix says so and YAML otherwise.

    Raises OSError if the file cannot be read, and ValueError with the file, the line (of YAML), the
    path in it, the value and the rule for anything else.
    """
    path = Path(path)
    data = read_limited(path, MAX_JOB_CLUSTER_BYTES)
    return parse_job_cluster(data, str(path), is_json=path.suffix.lower() == ".json")


def parse_job_cluster(data: bytes, name: str, *, is_json: bool = False) -> JobCluster:
    """The cluster in the content of a file called ``name``; ValueError as in the loader.

    >>> parse_job_cluster(b"name: c\\nservers: {count: 0}\\n", "c.yaml")
    Traceback (most recent call last):
    ValueError: c.yaml, line 2: servers.count is 0: it must be at least 1 (and 2 more errors)
    """
    check_size(data, name, MAX_JOB_CLUSTER_BYTES)
    plain = read_plain_text(data, name, is_json=is_json)
    part = checked_part(
        plain, name, JobClusterPart, _keys_at, "cluster", keys="name, servers, accelerator, optics"
    )
    with rules_at(name, plain, "optics"):
        num_ports = _ports(part)
    with rules_at(name, plain, "accelerator"):
        return _cluster(part, num_ports)


def job_cluster_json_schema() -> dict[str, Any]:
    """The JSON Schema of cluster files."""
    schema = JobClusterPart.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _keys_at(place: Place) -> list[str]:
    key = next((key for key in reversed(place) if isinstance(key, str)), "")
    return list(_PARTS.get(key, JobClusterPart).model_fields)


def _ports(part: JobClusterPart) -> int:
    """Ports of an accelerator; those of a server are divided equally among its accelerators."""
    if part.optics.ports is not None:
        return part.optics.ports
    total, each = part.optics.server_ports or 0, part.servers.accelerators
    if total % each or total // each > MAX_PORTS:
        raise ValueError(
            f"server_ports is {total}: its {each} accelerators have equally many, at most "
            f"{MAX_PORTS} each"
        )
    return total // each


def _cluster(part: JobClusterPart, num_ports: int) -> JobCluster:
    servers, chip, optics = part.servers, part.accelerator, part.optics
    inside = None if servers.scale_up is None else CostModel(servers.alpha, servers.scale_up)
    change = profile_named(optics.switch).change
    return JobCluster(
        part.name,
        servers.count,
        servers.accelerators,
        Accelerator(chip.peak, float(chip.memory_bandwidth)),
        int(chip.memory),
        inside,
        num_ports,
        Fraction(optics.port_bandwidth),
        Fraction(optics.alpha),
        change.fixed_s if optics.delta is None else Fraction(optics.delta),
        optics.switch,
        _prices(part),
    )


def _prices(part: JobClusterPart) -> PortPrices:
    """Those that are given, and list estimates of the slowest parts that are fast enough."""
    gbps = Fraction(part.optics.port_bandwidth) * 8 / 10**9
    fastest = max(TRANSCEIVERS_USD)
    rate = min((one for one in TRANSCEIVERS_USD if one >= gbps), default=fastest)
    several = max(1, -(-gbps // fastest))
    profile = profile_named(part.optics.switch).price_usd_per_port
    usual = {
        "ocs_port": OCS_PORT_USD if profile is None else exact(profile),
        "transceiver": Fraction(TRANSCEIVERS_USD[rate]) * several,
        "nic": Fraction(NICS_USD[rate]) * several,
        "packet_port": PACKET_PORT_USD_PER_GBPS * max(gbps, Fraction(1)),
    }
    given = part.prices.model_dump(exclude_none=True)
    return PortPrices(**{key: Fraction(exact(given.get(key, usual[key]))) for key in usual})
