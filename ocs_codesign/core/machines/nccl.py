"""NCCL's own model of its collectives: what it expects of every algorithm and protocol, and takes.

Of every algorithm and protocol t = latency * c + M / (rate * f), and the least wins; c and f are
steps in M, so a time may fall where M grows. Tables and formulas are those of NCCL's tuning; its
graphs (channels, rates of a channel inside and between nodes) come with a machine.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PROTOCOLS: Final = ("LL", "LL128", "Simple")
MODELS: Final = ("2.27", "2.30")
MODELLED: Final = ("allreduce", "allgather", "reduce-scatter", "broadcast", "reduce")
"""Collectives that NCCL has algorithms for; an all-to-all is sends and receives to it."""

ARCHITECTURES: Final = ("volta", "ampere", "hopper", "blackwell")
_SIMPLE: Final = 2
_MAX_FACTOR: Final = 23
"""Classes of sizes with a factor; NVLS trees on Blackwell have one more."""


@cache
def tables() -> dict[str, Any]:
    """The tables of ``nccl.toml``."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


@final
@dataclass(frozen=True, slots=True)
class NcclShape:
    """What NCCL knows of where it runs: chips, hosts, and its graphs of channels by algorithm.

    A graph is (channels, GB/s of one inside a node, GB/s of one between nodes). ``nic_us`` is what
    the NIC's driver says of its latency, over the hop of the tables. Raises ValueError for ranks
    that do not fill nodes alike.
    """

    architecture: str
    host_cpu: str
    nodes: int
    ranks: int
    graphs: Mapping[str, tuple[int, float, float]]
    nic_us: float = 0.0
    inside: str = "nvlink"

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= self.ranks or self.ranks % self.nodes:
            raise ValueError(
                f"{self.ranks} ranks on {self.nodes} nodes: every node has as many, at least one"
            )
        if self.architecture not in ARCHITECTURES:
            raise ValueError(
                f"NCCL's model knows {', '.join(ARCHITECTURES)}, not {self.architecture}: fit a "
                "curve to a log of this machine"
            )

    @property
    def per_node(self) -> int:
        """Ranks of a node."""
        return self.ranks // self.nodes

    @property
    def is_recent(self) -> bool:
        """Whether the chips have multicast in their switch: Hopper and later."""
        return ARCHITECTURES.index(self.architecture) >= ARCHITECTURES.index("hopper")


@final
@dataclass(frozen=True, slots=True)
class LibraryTime:
    """What a library takes for M bytes, with which algorithm and protocol ("" if not known)."""

    message_bytes: int
    seconds: float
    algorithm: str = ""
    protocol: str = ""


def terms(
    shape: NcclShape, collective: str, version: str
) -> dict[tuple[str, str], tuple[float, float]]:
    """Latency in us and rate M over t in GB/s of every algorithm and protocol that is offered."""
    if collective not in MODELLED:
        raise ValueError(f"NCCL's model has {', '.join(MODELLED)}, not {collective}")
    if version not in MODELS:
        raise ValueError(f"the models are those of NCCL {' and '.join(MODELS)}, not {version}")
    if shape.ranks < 2:
        raise ValueError("a collective of a library has at least 2 ranks")
    found = {}
    for algorithm, graph in shape.graphs.items():
        for place, protocol in enumerate(PROTOCOLS):
            if not _is_offered(shape, algorithm, protocol, collective):
                continue
            bus = _bus_rate(shape, algorithm, graph, place, collective, version)
            rate = bus * _to_algorithm(shape, algorithm, collective, version)
            found[algorithm, protocol] = (
                _latency(shape, algorithm, place, collective, version),
                rate,
            )
    return found


def _is_offered(shape: NcclShape, algorithm: str, protocol: str, collective: str) -> bool:
    gathers = collective in ("allgather", "reduce-scatter")
    if protocol != "Simple" and algorithm not in ("ring", "tree"):
        return False
    if algorithm == "nvls":
        return (gathers or collective == "allreduce") and shape.nodes == 1 and shape.is_recent
    if algorithm == "nvls_tree":
        return collective == "allreduce" and shape.nodes > 1 and shape.is_recent
    if algorithm in ("tree", "collnet_chain"):
        return collective == "allreduce"
    if algorithm == "pat":
        return gathers and shape.per_node == 1
    return algorithm == "ring" or gathers or collective == "allreduce"


def _bus_rate(
    shape: NcclShape,
    algorithm: str,
    graph: tuple[int, float, float],
    place: int,
    collective: str,
    version: str,
) -> float:
    """GB/s of all channels, as NCCL limits them by algorithm and protocol."""
    channels, inside, between = graph
    column = min(shape.nodes, 3) - 1
    if algorithm in ("nvls", "nvls_tree"):
        return channels * _nvls_channel(shape, algorithm, graph, collective, version)
    if algorithm.startswith("collnet"):
        return _collnet_rate(shape, algorithm, graph, collective)
    known = tables()
    bus = channels * (inside if shape.nodes <= len(PROTOCOLS) - 1 else between)
    row = shape.architecture
    if shape.nodes > 1:
        row = "ampere" if shape.host_cpu == "amd" else "volta"
    most_ll = known["ll_max"][row][column]
    limit = {
        kind: channels * known[f"{kind}_a_channel"][shape.architecture][column]
        for kind in ("ring_ll128", "tree_ll128", "tree")
    }
    if algorithm == "ring":
        return (min(most_ll, bus / 2), min(0.92 * bus, limit["ring_ll128"]), bus)[place]
    if algorithm == "pat":
        return 0.75 * bus
    if shape.architecture == "blackwell" and version == MODELS[0]:
        limit["tree"] = channels * known["before_2_28"]["blackwell_tree_a_channel"][column]
    bus = min(0.92 * bus, limit["tree"])
    share = 7 / 9 if shape.nodes == 1 else 120 / 128
    bus = (min(bus / 3.8, most_ll), min(bus * share, limit["tree_ll128"]), bus)[place]
    is_plain = shape.nodes > 1 and (shape.is_recent or shape.per_node == 1)
    return float(0.85 * bus if is_plain else bus)


def _nvls_channel(
    shape: NcclShape, algorithm: str, graph: tuple[int, float, float], collective: str, version: str
) -> float:
    """GB/s of a channel of sums in NVSwitch."""
    channels, inside, between = graph
    column, others = min(shape.nodes, 3) - 1, (shape.per_node - 1) / shape.per_node
    if version == MODELS[0]:
        if algorithm == "nvls_tree":
            return min(inside, between if shape.nodes == 2 else between / 2)
        if collective == "allreduce":
            return min(inside, between)
        return min(inside * others, 0.9 * between)
    known = tables()
    rate: float = inside * known["nvls_efficiency"][shape.architecture] * (channels - 1) / channels
    rate *= 2 if collective == "allreduce" else others
    if algorithm == "nvls_tree":
        most = known["nvls_tree_a_channel"][shape.architecture][column]
        return float(min(rate, 2 * between if shape.nodes == 2 else between, most))
    return rate


def _collnet_rate(
    shape: NcclShape, algorithm: str, graph: tuple[int, float, float], collective: str
) -> float:
    """GB/s of sums in the switches between nodes, where NCCL is told that there are some."""
    channels, inside, between = graph
    if algorithm == "collnet_direct" and collective != "allreduce":
        return shape.per_node * min(inside, 0.9 * between)
    bus = channels * inside
    if algorithm == "collnet_direct":
        share = shape.per_node / channels
        bus /= share - (share - 1) / 2
        bus *= 0.85 if shape.is_recent else 1
    return bus


def _to_algorithm(shape: NcclShape, algorithm: str, collective: str, version: str) -> float:
    """M over t in rates of the bus."""
    if algorithm == "ring":
        return _round_ratio(shape, collective)
    if collective != "allreduce":
        return 1.0
    if algorithm in ("nvls", "nvls_tree"):
        return 5 / 6 if version == MODELS[0] else _round_ratio(shape, collective)
    return 0.5


def _round_ratio(shape: NcclShape, collective: str) -> float:
    if collective in ("broadcast", "reduce"):
        return 1.0
    return shape.ranks / ((2 if collective == "allreduce" else 1) * (shape.ranks - 1))


def _latency(shape: NcclShape, algorithm: str, place: int, collective: str, version: str) -> float:
    """us before the first byte counts."""
    hops = tables()["hop_us"]
    base: float = tables()["base_us"][algorithm][place]
    inside: float = hops[shape.inside][algorithm][place]
    between: float = hops["net"][algorithm][place]
    if algorithm == "nvls_tree" and version == MODELS[0]:
        between = tables()["before_2_28"]["nvls_tree_net_hop_us"]
    if algorithm == "ring" and collective in ("broadcast", "reduce"):
        return base + (inside if shape.nodes == 1 else between)
    if shape.per_node == 1:
        between = hops["net"]["tree"][place]
    between += shape.nic_us * (2 if place == _SIMPLE else 1)
    others, levels = shape.per_node - 1, shape.nodes.bit_length() - 1
    if algorithm == "ring":
        times = 2 if collective == "allreduce" else 1
        crossed = times * (shape.nodes - 1)
        least = 0.0
        if shape.nodes > 1:
            least = (2 if shape.host_cpu == "amd" else 1) * (3 if place == _SIMPLE else 1)
        return base + (times * (shape.ranks - 1) - crossed) * max(inside, least) + crossed * between
    if algorithm == "tree":
        return base + 2 * (others * inside + levels * between)
    if algorithm == "nvls":
        return base + inside + (between if shape.nodes > 1 else 0)
    if algorithm == "nvls_tree":
        return base + inside + 2 * levels * between
    if algorithm == "pat":
        return base + levels * between / 3.5 + 2.8 * shape.ranks
    if algorithm == "collnet_direct":
        return base + 2 * (min(1, others) * inside + 0.4 * others) + between
    return base + 2 * others * inside + between


def library_times(
    shape: NcclShape, collective: str, sizes: Sequence[int], version: str = MODELS[1]
) -> list[LibraryTime]:
    """What NCCL expects to take for every size, with what it chooses; the first of equals.

    >>> node = NcclShape("hopper", "intel", 1, 8, {"ring": (24, 15, 15)})
    >>> [(one.algorithm, one.protocol) for one in library_times(node, "allreduce", [1024, 2**30])]
    [('ring', 'LL'), ('ring', 'Simple')]
    """
    offered = terms(shape, collective, version)
    found = []
    for size in sizes:
        if size < 1:
            raise ValueError(f"a message has {size} bytes: it has at least one")
        times = {
            way: time_us(shape, collective, size, way, term, version)
            for way, term in offered.items()
        }
        (algorithm, protocol), least = min(times.items(), key=lambda item: item[1])
        found.append(LibraryTime(size, least / 1e6, algorithm, protocol))
    return found


def time_us(
    shape: NcclShape,
    collective: str,
    size: int,
    way: tuple[str, str],
    term: tuple[float, float],
    version: str,
) -> float:
    """What a message takes by a latency and a rate, with the factors of its size."""
    (algorithm, protocol), (latency, rate) = way, term
    step = (size >> 6).bit_length() - 1
    is_blackwell_tree = (
        algorithm == "nvls_tree" and shape.architecture == "blackwell" and version != MODELS[0]
    )
    last = _MAX_FACTOR + 1 if is_blackwell_tree else _MAX_FACTOR
    is_tree = collective == "allreduce" and (algorithm == "tree" or is_blackwell_tree)
    if is_tree and 0 <= step < last:
        rate *= tables()["tree_factor"][protocol][step]
    is_long = (algorithm, protocol, collective) == ("ring", "Simple", "allreduce")
    channels = shape.graphs[algorithm][0]
    if is_long and shape.nodes > 1 and size / (channels * shape.ranks) >= 64:
        latency *= 1.9 if shape.architecture == "volta" else 1.4
    return latency + size / (1000 * rate)
