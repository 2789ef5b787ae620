"""Files of clusters that jobs are planned on: servers, accelerators, optical ports and switches.

``job_cluster_json_schema`` documents the keys.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ocs_codesign.core.cost import CostModel
from ocs_codesign.core.files.archives import check_size
from ocs_codesign.core.files.plain_text import checked_part, file_error, read_plain_text
from ocs_codesign.core.quantities import exact
from ocs_codesign.core.registry import provided
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.files.fabric_files import described_plain
from ocs_codesign.fabric.files.schema import Name, ProfileName
from ocs_codesign.fabric.profiles import NICS_USD, TRANSCEIVERS_USD, profile_named
from ocs_codesign.jobs.cluster_design.cluster import (
    COPPER_USD,
    JobCluster,
    PortPrices,
    cheapest_fat_tree,
)
from ocs_codesign.jobs.files.job_files import rules_at
from ocs_codesign.jobs.files.scalars import JobBandwidth, JobSize, JobTime
from ocs_codesign.jobs.fused import Accelerator
from ocs_codesign.jobs.training.constants import Chip, chip_named
from ocs_codesign.jobs.training.operation import Interruptions, RunningCosts
from ocs_codesign.jobs.training.room import Room

if TYPE_CHECKING:
    from pathlib import Path

    from ocs_codesign.core.files.plain_text import Place, PlainText


MAX_JOB_CLUSTER_BYTES = 2**20
_OF_SITES = {"hosts", "planes", "nics"}
MAX_SERVERS, MAX_ACCELERATORS, MAX_PORTS = 2**17, 1024, 64
PACKET_PORT_USD_PER_GBPS = Fraction(187, 100)
"""Class value of a port of a packet switch: an estimate, for no list of prices is public."""
ASSUMED_SHARE = 0.66
"""What products are assumed to sustain of the peak of an accelerator without a name."""
ASSUMED_HOST_BPS = 25e9
"""The way to the host's memory of an accelerator without a name: PCIe of the fourth generation."""
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
    """What an accelerator computes and holds: of a known one by its name, or in numbers."""

    name: str | None = Field(None, max_length=80, description="Of a known accelerator.")
    peak: float | None = Field(
        None, gt=0, le=1e21, allow_inf_nan=False, description="Operations a second."
    )
    memory: JobSize | None = Field(None, description="What it holds.")
    memory_bandwidth: JobBandwidth | None = Field(None, description="Of its memory.")

    @model_validator(mode="after")
    def _known(self) -> ProcessorPart:
        numbers = {
            "peak": self.peak,
            "memory": self.memory,
            "memory_bandwidth": self.memory_bandwidth,
        }
        missing = [key for key, value in numbers.items() if value is None]
        if self.name is None and missing:
            raise ValueError(f"{missing[0]} is missing: give it, or the name of a known one")
        if self.name is not None:
            chip_named(self.name)
        return self

    def chip(self) -> Chip:
        """The accelerator with what its products sustain; what is given in numbers stands."""
        if self.name is not None:
            known = chip_named(self.name)
        else:
            known = Chip(
                *("accelerator", 1.0, None, 1.0, 1.0, 108, ASSUMED_HOST_BPS),
                *((ASSUMED_SHARE, None), (False,) * 2, ""),
            )
        return replace(
            known,
            bf16=self.peak or known.bf16,
            memory_Bps=float(self.memory_bandwidth or known.memory_Bps),
            memory_bytes=float(self.memory or known.memory_bytes),
        )


class WiresPart(_Part):
    """A network of packets between servers."""

    bandwidth: JobBandwidth = Field(description="Of an accelerator, each way.")


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
    copper: float | None = Field(None, ge=0, le=1e9, allow_inf_nan=False)
    accelerator_hour: float | None = Field(
        None, gt=0, le=1e6, allow_inf_nan=False, description="Of an accelerator, for an hour."
    )
    years: float = Field(4, gt=0, le=100, description="Over which the fabric is paid.")


class FailuresPart(_Part):
    """How often a job stops, and what it takes to go on."""

    accelerator_hours: float = Field(
        gt=0, le=1e12, allow_inf_nan=False, description="Between two interruptions, over all."
    )
    restart: JobTime = Field(description="From an interruption to the first step after it.")
    storage: JobBandwidth = Field(description="At which all write a checkpoint together.")
    checkpoint_every: JobTime | None = Field(None, description="The best if not given.")
    repair: JobTime = Field(Fraction(0), description="For which an interruption takes a host away.")
    spares: int = Field(0, ge=0, le=MAX_SERVERS, description="Of the servers, those that wait.")

    @model_validator(mode="after")
    def _written(self) -> FailuresPart:
        if self.checkpoint_every == 0:
            raise ValueError("checkpoint_every is 0: checkpoints lie some steps apart")
        return self

    def failures(self) -> Interruptions:
        """The value of the step model."""
        every = self.checkpoint_every
        return Interruptions(
            *(self.accelerator_hours, float(self.restart), float(self.storage)),
            *(float(self.repair), self.spares, None if every is None else float(every)),
        )


class SlowHostsPart(_Part):
    """Hosts that are slower than the others."""

    speed: float = Field(gt=0, le=1, description="Of their kernels, over that of the others.")


class JobClusterPart(_Part):
    """A cluster: servers, accelerators, optics and, if they are known, prices."""

    version: Literal[1] = Field(1, description="The version of this format.")
    name: Name = Field(description="The cluster's name, in reports.")
    servers: JobServersPart
    accelerator: ProcessorPart
    optics: OpticsPart | None = None
    network: WiresPart | None = Field(None, description="Packets instead of optics.")
    prices: JobPricesPart = JobPricesPart.model_validate({})
    failures: FailuresPart | None = Field(None, description="What a step on it loses to them.")
    slow: SlowHostsPart | None = Field(None, description="Its slowest hosts, if they are known.")


_PARTS: dict[str, type[BaseModel]] = {
    "servers": JobServersPart,
    "accelerator": ProcessorPart,
    "optics": OpticsPart,
    "network": WiresPart,
    "prices": JobPricesPart,
    "failures": FailuresPart,
    "slow": SlowHostsPart,
}


def load_job_cluster(path: str | Path) -> JobCluster:
    """The cluster in a file, JSON if its suffix says so and YAML otherwise.

    Raises OSError if the file cannot be read, and ValueError with the file, the line (of YAML), the
    path in it, the value and the rule for anything else.
    """
    return _described(*_load(path))


def _load(path: str | Path) -> tuple[PlainText, JobClusterPart, str]:
    plain, name = described_plain(path, MAX_JOB_CLUSTER_BYTES)
    return *_part_of(plain, name), name


def parse_job_cluster(data: bytes, name: str, *, is_json: bool = False) -> JobCluster:
    """The cluster in the content of a file called ``name``; ValueError as in the loader.

    >>> parse_job_cluster(b"name: c\\nservers: {count: 0}\\n", "c.yaml")
    Traceback (most recent call last):
    ValueError: c.yaml, line 2: servers.count is 0: it must be at least 1 (and 1 more error)
    """
    return _described(*_cluster_part(data, name, is_json=is_json), name)


def _described(plain: PlainText, part: JobClusterPart, name: str) -> JobCluster:
    if part.optics is None:
        rule = ": optics is missing: circuits are planned on optical ports"
        raise file_error(name, plain, (), rule, "the cluster")
    with rules_at(name, plain, "optics"):
        num_ports = accelerator_ports(part.optics, part.servers.accelerators)
    with rules_at(name, plain, "accelerator"):
        return _cluster(part, part.optics, num_ports)


def load_described(path: str | Path) -> JobCluster | tuple[str, Room]:
    """The cluster in a file: one of optics, or the name and the accelerators of one of packets.

    Raises as ``load_job_cluster``.
    """
    plain, part, name = _load(path)
    return (_described if part.network is None else room_of)(plain, part, name)


def load_room(path: str | Path) -> tuple[str, Room]:
    """The name of the cluster in a file, and its accelerators for the step model.

    What leaves an accelerator are its network's bytes, or those of its optical ports together.
    Raises as ``load_job_cluster``.
    """
    return room_of(*_load(path))


def parse_room(data: bytes, name: str, *, is_json: bool = False) -> tuple[str, Room]:
    """The same of the content of a file called ``name``.

    >>> parse_room(b"name: c\\nservers: {count: 2}\\naccelerator: {name: h100}\\n", "c.yaml")
    Traceback (most recent call last):
    ValueError: c.yaml, line 1: the cluster: it has one of network and optics
    """
    return room_of(*_cluster_part(data, name, is_json=is_json), name)


def room_of(plain: PlainText, part: JobClusterPart, name: str) -> tuple[str, Room]:
    """The name of a cluster and its accelerators; ValueError as in the loader."""
    if (part.network is None) == (part.optics is None):
        raise file_error(name, plain, (), ": it has one of network and optics", "the cluster")
    servers = part.servers
    if part.optics is not None:
        with rules_at(name, plain, "optics"):
            outside = (
                accelerator_ports(part.optics, servers.accelerators) * part.optics.port_bandwidth
            )
    else:
        outside = part.network.bandwidth if part.network is not None else Fraction(0)
    inside = outside if servers.scale_up is None else servers.scale_up
    chip = part.accelerator.chip()
    spares = 0 if part.failures is None else part.failures.spares
    if spares >= servers.count:
        rule = f" is {spares}: there are {servers.count} servers"
        raise file_error(name, plain, ("failures", "spares"), rule, "the cluster")
    room = Room(
        *(chip, servers.count - spares, servers.accelerators, float(inside), float(outside)),
        slow_speed=1.0 if part.slow is None else part.slow.speed,
        failures=None if part.failures is None else part.failures.failures(),
        costs=_costs(part),
    )
    return part.name, room


def _costs(part: JobClusterPart) -> RunningCosts:
    """What accelerators and their fabric cost: a fat tree of packets, or ports of optics."""
    servers, prices = part.servers, part.prices
    if part.optics is not None:
        cluster = _cluster(part, part.optics, accelerator_ports(part.optics, servers.accelerators))
        fabric = cluster.num_ports * cluster.port_usd
    else:
        bandwidth = part.network.bandwidth if part.network is not None else Fraction(0)
        ends = servers.count * servers.accelerators
        fabric, _ = cheapest_fat_tree(_prices(prices, bandwidth, None), ends)
    return RunningCosts(prices.accelerator_hour, float(fabric), prices.years)


def _cluster_part(data: bytes, name: str, *, is_json: bool) -> tuple[PlainText, JobClusterPart]:
    check_size(len(data), name, MAX_JOB_CLUSTER_BYTES)
    return _part_of(read_plain_text(data, name, is_json=is_json), name)


def _part_of(plain: PlainText, name: str) -> tuple[PlainText, JobClusterPart]:
    """The cluster, or that of a site or of what else describes one."""
    value = plain.value
    if isinstance(value, dict) and (value.get("version") == 2 or value.keys() & _OF_SITES):
        found: tuple[PlainText, JobClusterPart] = provided("job cluster of a site")(plain, name)
        return found
    return plain, checked_job_cluster(plain, name)


def checked_job_cluster(plain: PlainText, name: str) -> JobClusterPart:
    """What plain data say of a cluster for jobs; ValueError as in the loader."""
    keys = "name, servers, accelerator, and optics or a network"
    return checked_part(plain, name, JobClusterPart, _keys_at, "cluster", keys=keys)


def job_cluster_json_schema() -> dict[str, Any]:
    """The JSON Schema of cluster files."""
    schema = JobClusterPart.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _keys_at(place: Place) -> list[str]:
    key = next((key for key in reversed(place) if isinstance(key, str)), "")
    return list(_PARTS.get(key, JobClusterPart).model_fields)


def accelerator_ports(optics: OpticsPart, each: int) -> int:
    """Ports of an accelerator; those of a server are divided equally among its accelerators."""
    if optics.ports is not None:
        return optics.ports
    total = optics.server_ports or 0
    if total % each or total // each > MAX_PORTS:
        raise ValueError(
            f"server_ports is {total}: its {each} accelerators have equally many, at most "
            f"{MAX_PORTS} each"
        )
    return total // each


def _cluster(part: JobClusterPart, optics: OpticsPart, num_ports: int) -> JobCluster:
    servers, chip = part.servers, part.accelerator.chip()
    inside = None if servers.scale_up is None else CostModel(servers.alpha, servers.scale_up)
    change = profile_named(optics.switch).change
    return JobCluster(
        part.name,
        servers.count,
        servers.accelerators,
        Accelerator(chip.bf16, chip.memory_Bps),
        int(chip.memory_bytes),
        inside,
        num_ports,
        Fraction(optics.port_bandwidth),
        Fraction(optics.alpha),
        change.fixed_s if optics.delta is None else Fraction(optics.delta),
        optics.switch,
        _prices(part.prices, optics.port_bandwidth, optics.switch),
    )


def _prices(prices: JobPricesPart, bandwidth: Any, switch: str | None) -> PortPrices:
    """Those that are given, and list estimates of the slowest parts that are fast enough."""
    gbps = Fraction(bandwidth) * 8 / 10**9
    fastest = max(TRANSCEIVERS_USD)
    rate = min((one for one in TRANSCEIVERS_USD if one >= gbps), default=fastest)
    several = max(1, -(-gbps // fastest))
    profile = None if switch is None else profile_named(switch).price_usd_per_port
    usual = {
        "ocs_port": OCS_PORT_USD if profile is None else exact(profile),
        "transceiver": Fraction(TRANSCEIVERS_USD[rate]) * several,
        "nic": Fraction(NICS_USD[rate]) * several,
        "packet_port": PACKET_PORT_USD_PER_GBPS * max(gbps, Fraction(1)),
        "copper": COPPER_USD * several,
    }
    given = prices.model_dump(exclude_none=True, exclude={"accelerator_hour", "years"})
    return PortPrices(**{key: Fraction(exact(given.get(key, usual[key]))) for key in usual})
