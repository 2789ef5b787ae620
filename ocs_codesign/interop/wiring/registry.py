"""READERS: networks in other people's files by name, told by what is in them and not by a suffix.

To add one, write a function from a content and a name to Wires and list it here with what tells it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ocs_codesign.core.files.archives import read_limited
from ocs_codesign.core.networks.formats import import_network
from ocs_codesign.core.registry import later

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.core.network import Network
    from ocs_codesign.interop.wiring.wires import Reading, ReadOptions, Wires

MAX_BYTES = 2**28
_HEAD = 2**14
_DESCRIBES_A_ROOM = re.compile(
    rb'^\{?\s{0,2}"?(?:version"?\s*:\s*2\b|(?:planes|nics|optics|accelerator)"?\s*:)', re.MULTILINE
)
"""A key that files of rooms have and those of networks have not."""


class ForeignNetwork(NamedTuple):
    """A format: what it is, what the start of a content or all of it tells it by, how it is read.

    ``loses`` is what a network does not keep of it.
    """

    description: str
    tells: Callable[[bytes], bool]
    read: Callable[[bytes, str], Wires]
    loses: str


def _matches(*patterns: bytes) -> Callable[[bytes], bool]:
    """Whether a content has all of some patterns."""
    compiled = [re.compile(each, re.MULTILINE) for each in patterns]
    return lambda data: all(each.search(data) for each in compiled)


def _begins(pattern: bytes) -> Callable[[bytes], bool]:
    """Whether a content has a pattern near its start."""
    compiled = re.compile(pattern, re.MULTILINE)
    return lambda data: compiled.search(data[:_HEAD]) is not None


def _by_text(name: str) -> Callable[[bytes], bool]:
    """What a function of the first lines says."""
    tells = later(f"{__package__}.{name}")
    return lambda data: bool(tells(data[:_HEAD].decode("utf-8", "replace").removeprefix("\ufeff")))


def _reader(name: str) -> Callable[[bytes, str], Wires]:
    return later(f"{__package__}.{name}")


READERS: dict[str, ForeignNetwork] = {
    "infragraph": ForeignNetwork(
        "InfraGraph (YAML or JSON)",
        _matches(rb'^\s*"?devices"?\s*:', rb'^\s*"?instances"?\s*:'),
        _reader("infragraph.read_infragraph"),
        "which ports and cards are on the way, annotations",
    ),
    "nccl-topology": ForeignNetwork(
        "NCCL topology XML",
        _begins(rb"<system\s[^>]*version="),
        _reader("servers.read_nccl_topology"),
        "affinities, GPUDirect, port names",
    ),
    "lstopo": ForeignNetwork(
        "lstopo XML (hwloc 2)",
        _begins(rb"<topology\b"),
        _reader("servers.read_lstopo"),
        "caches, cores, memory; trunks between NVSwitches are not in the file",
    ),
    "nvidia-smi": ForeignNetwork(
        "nvidia-smi topo -m",
        _begins(rb"^(\x1b\[[0-9;]*m)?\s+(\x1b\[[0-9;]*m)?GPU0\b"),
        _reader("servers.read_topo_matrix"),
        "PCIe, NICs and affinities, which have no bandwidth there",
    ),
    "ibnetdiscover": ForeignNetwork(
        "ibnetdiscover",
        _begins(rb'^(Switch|Ca)\s+\d+\s+"'),
        _reader("fabrics.read_ibnetdiscover"),
        "LIDs, GUIDs of ports",
    ),
    "cables": ForeignNetwork(
        "cable table (CSV)",
        _by_text("fabrics.is_cable_table"),
        _reader("fabrics.read_cable_table"),
        "names of ports",
    ),
    "simulator-topology": ForeignNetwork(
        "topology of SimAI or ns-3 for HPCC",
        _by_text("fabrics.is_simulator_topology"),
        _reader("fabrics.read_simulator_topology"),
        "error rates, the name of the accelerator",
    ),
}
"""Every format by name, the first that a content tells."""


def told(data: bytes) -> str | None:
    """The name of the format that a content tells, None for none of these."""
    start = data.removeprefix(b"\xef\xbb\xbf")
    return next((name for name, one in READERS.items() if one.tells(start)), None)


def read_network(path: str | Path, asked: ReadOptions) -> tuple[Network, Reading | None]:
    """The network in a file, and what was read of it where the file is somebody else's.

    Raises OSError if the file cannot be read, ValueError with the file and the place for anything
    else: for links without a bandwidth, hosts that are not joined, and for what is ``asked`` of a
    file that says all of it.
    """
    path = Path(path)
    data = read_limited(path, MAX_BYTES)
    name = told(data)
    if name is None and _DESCRIBES_A_ROOM.search(data) is not None:
        if any(asked):
            raise ValueError(f"{path}: --speed, --speed-attribute and --without are not for rooms")
        network: Network = later("ocs_codesign.jobs.files.site_files.load_site")(path).network()
        return network, None
    if name is None:
        if asked.speeds or asked.without:
            listed = ", ".join(one.description for one in READERS.values())
            raise ValueError(f"{path}: --speed and --without are for {listed}")
        return import_network(path, speed_attribute=asked.speed_attribute), None
    if asked.speed_attribute is not None:
        raise ValueError(
            f"{path}: --speed-attribute is for graphs, not {READERS[name].description}"
        )
    wires = READERS[name].read(data, str(path))
    try:
        return wires.network(asked), wires.reading
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
