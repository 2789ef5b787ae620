"""Cluster files: servers of GPUs and their NICs in YAML or JSON, or a fabric file that has servers.

``cluster_json_schema`` documents the keys. Bandwidths are text with their unit, as in ``400Gbps``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ocs_codesign.core.files.archives import check_size
from ocs_codesign.core.files.plain_text import PlainText, checked_part, file_error, read_plain_text
from ocs_codesign.core.quantities import exact
from ocs_codesign.core.registry import provided
from ocs_codesign.fabric.clusters import Card, Cluster
from ocs_codesign.fabric.files.fabric_files import (
    described_plain,
    fabric_of_plain,
    is_site,
    numbered_names,
)
from ocs_codesign.fabric.files.schema import (
    RELAY,
    WIRING,
    Bandwidth,
    CardPart,
    Name,
    Pattern,
    Relay,
    ServerPart,
    Time,
    Wiring,
    places,
)
from ocs_codesign.fabric.profiles import cluster_of

if TYPE_CHECKING:
    from pathlib import Path

    from ocs_codesign.core.files.plain_text import Place


MAX_CLUSTER_BYTES = 4 * 2**20
_OF_SITES = {"hosts", "accelerator", "optics", "network"}
MAX_SERVERS = 20_000
MAX_PORTS = 1024


def load_cluster(path: str | Path) -> Cluster:
    """The cluster in a file, JSON if its suffix says so and YAML otherwise.

    Raises OSError if the file cannot be read, and ValueError with the file, the line (of YAML), the
    path in it, the value and the rule for anything else.
    """
    return _cluster_of(*described_plain(path, MAX_CLUSTER_BYTES))


def parse_cluster(data: bytes, name: str, *, is_json: bool = False) -> Cluster:
    """The cluster in the content of a file called ``name``; ValueError as in ``load_cluster``.

    >>> parse_cluster(b"name: pod\\nservers: {count: 4, gpus: 8}\\nnics: []", "pod.yaml")
    Traceback (most recent call last):
    ValueError: pod.yaml, line 2: servers must have one of switch, mesh, network: none is given \
(and 1 more error)
    """
    check_size(len(data), name, MAX_CLUSTER_BYTES)
    return _cluster_of(read_plain_text(data, name, is_json=is_json), name)


def _cluster_of(plain: PlainText, name: str) -> Cluster:
    """The cluster, or that of a fabric or of a site."""
    if is_site(plain.value) and "nics" not in plain.value and plain.value.keys() & _OF_SITES:
        found: Cluster = provided("cluster of a site")(plain, name)
        return found
    if isinstance(plain.value, dict) and "planes" in plain.value:
        fabric = fabric_of_plain(plain, name)
        try:
            return cluster_of(fabric)
        except ValueError as error:
            raise file_error(name, plain, ("servers",), f": {error}", "the fabric") from None
    return cluster_of_plain(plain, name)


def cluster_of_plain(plain: PlainText, name: str) -> Cluster:
    """The cluster that plain data describe; ValueError as in ``load_cluster``."""
    part = checked_part(plain, name, ClusterPart, _keys_at, "cluster", keys="name, servers, nics")
    try:
        return part.cluster()
    except ValueError as error:
        raise file_error(name, plain, (), f": {error}", "the cluster") from None


def cluster_json_schema() -> dict[str, Any]:
    """The JSON Schema of cluster files."""
    schema = ClusterPart.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _keys_at(place: Place) -> list[str]:
    """The keys that may be in the map at a place."""
    key = next((key for key in reversed(place) if isinstance(key, str)), "")
    parts: dict[str, type[BaseModel]] = {
        "servers": ServersPart,
        "nics": OpticalCardPart,
        "slow": SlowPart,
    }
    return list(parts.get(key, ClusterPart).model_fields)


class ServersPart(ServerPart):
    """The servers, by count and pattern or by name, and what each of them is."""

    count: int | None = Field(None, ge=1, le=MAX_SERVERS, description="How many there are.")
    pattern: Pattern = Field("server{}", description="A name with one {} or {:03d} in it.")
    first: int = Field(0, ge=0, le=10**9, description="The number of the first one.")
    names: list[Name] | None = Field(
        None, min_length=1, max_length=MAX_SERVERS, description="All names, instead of a count."
    )

    @model_validator(mode="after")
    def _one_way(self) -> ServersPart:
        if (self.count is None) == (self.names is None):
            raise ValueError("must have either count or names")
        return self

    def all_names(self) -> tuple[str, ...]:
        """The name of every server."""
        if self.names is not None:
            return tuple(self.names)
        return tuple(numbered_names(self.pattern, self.first, self.count or 0))


class OpticalCardPart(CardPart):
    """A NIC with optical ports, or several alike."""

    ports: int = Field(ge=1, le=MAX_PORTS, description="Optical ports of a NIC.")
    port_bandwidth: Bandwidth = Field(description="Of each port, each way.")


class SlowPart(BaseModel):
    """What is slower than it should be."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    what: Name = Field(description="A server, a NIC such as server3.nic1, or a link between NICs.")
    bandwidth: Bandwidth = Field(description="What its ports have left.")


class ClusterPart(BaseModel):
    """Servers of GPUs with NICs that have optical ports."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    version: Literal[1] = Field(1, description="The version of this format.")
    name: Name = Field(description="The cluster's name, in reports.")
    servers: ServersPart
    nics: list[OpticalCardPart] = Field(min_length=1, description="The NICs of every server.")
    wiring: Wiring = Field("rails", description=WIRING)
    relay: Relay = Field("gpu", description=RELAY)
    bidirectional: bool = Field(False, description="Whether every optical link has one back.")
    alpha: Time | None = Field(None, description="Time of a communication step.")
    lost: list[Name] = Field([], description="Servers, NICs and links that have failed.")
    slow: list[SlowPart] = Field([], description="Servers, NICs and links that are slower.")

    def cluster(self) -> Cluster:
        """The cluster; ValueError for what its parts together do not allow."""
        inner = self.servers.inner()
        each = [card for card in self.nics for _ in range(card.count)]
        cards = tuple(
            Card(card.ports, exact(card.port_bandwidth), gpus, card.host_Bps)
            for card, gpus in zip(each, places(self.nics, inner), strict=True)
        )
        return Cluster(
            self.name,
            self.servers.all_names(),
            inner,
            cards,
            self.wiring,
            self.relay,
            self.bidirectional,
            tuple(self.lost),
            tuple((slow.what, exact(slow.bandwidth)) for slow in self.slow),
            None if self.alpha is None else exact(self.alpha),
        )
