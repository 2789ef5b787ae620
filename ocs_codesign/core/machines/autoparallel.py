"""AutoParallel's cost model of June 2026, rewritten from its tables and its rules in words.

It was fitted there to one cluster of H100; what it says of A100 and GB200 is scaled from that. It
tests arithmetic: of real machines it is wrong by up to a factor of two. Beyond one NVSwitch its
ring has a rate that a ramp lowers, by the size of a shard, and an allreduce of nodes waits for all.
"""

from __future__ import annotations

import tomllib
from functools import cache
from itertools import pairwise
from math import floor, log2
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ocs_codesign.core.machines.nccl import MODELS, NcclShape, tables, terms, time_us

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COLLECTIVES: Final = ("allreduce", "allgather", "reduce-scatter", "alltoall")
_SIMPLE_RING: Final = (8.4, 3.4, 14.0)
"""us of a ring of sends: to begin, a hop inside, a hop between nodes."""

_ON_TABLES: Final = ((2, 4, 8, 16, 32), (1, 2, 4, 8))
"""Numbers of nodes, and of ranks on each, with graphs of their own."""


@cache
def model() -> dict[str, Any]:
    """The tables of ``autoparallel.toml``."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def autoparallel_us(machine: str, collective: str, ranks: int, nodes: int, size: int) -> float:
    """What the model says of M bytes on h100, a100 or gb200, in us.

    >>> round(autoparallel_us("h100", "allreduce", 2, 1, 1024), 4)
    10.0032
    """
    known = model()
    if machine not in known["machines"]:
        raise ValueError(f"the model has {', '.join(known['machines'])}, not {machine}")
    if collective not in COLLECTIVES:
        raise ValueError(f"the model has {', '.join(COLLECTIVES)}, not {collective}")
    if ranks % nodes:
        raise ValueError(f"{ranks} ranks on {nodes} nodes: every node has as many")
    here = known["machines"][machine]
    if collective == "alltoall":
        return _exchange_us(machine, here, ranks, nodes, size)
    if nodes == 1 and here["nvswitch"]:
        points = known["one_nvswitch_node"]["allreduce" if collective == "allreduce" else GATHER]
        latency, rate = (_between([(at[0], at[way]) for at in points], ranks) for way in (1, 2))
        return latency + size / 1000 / (rate * _faster(machine))
    return min(_across(machine, here, collective, ranks, nodes, size))


GATHER: Final = "allgather"


def _faster(machine: str) -> float:
    rate: float = model()["gb200_rate"] if machine == "gb200" else 1
    return rate


def _between(points: Sequence[tuple[float, float]], at: float) -> float:
    """The value at a place between points; beyond them that of the last."""
    at = min(max(at, points[0][0]), points[-1][0])
    for (low, first), (high, last) in pairwise(points):
        if at <= high:
            return first + (at - low) / (high - low) * (last - first)
    return points[-1][1]


def _step(size: int, ranks: int) -> float:
    """Place in a ramp: log2 of a shard in 64 bytes, of which a part counts nothing."""
    return log2(max(1, size // ranks // 64))


def _ramp(values: Sequence[float], place: float, beyond: float | None = None) -> float:
    if beyond is not None and place > len(values) - 1:
        return beyond
    return _between(list(enumerate(values)), place)


def _across(
    machine: str, here: Mapping[str, Any], collective: str, ranks: int, nodes: int, size: int
) -> list[float]:
    """us of every algorithm that is tried."""
    known, step = model(), _step(size, ranks)
    shape, offered = _by_formula(here, collective, ranks, nodes)
    per_node = ranks // nodes
    is_on_tables = here["nvswitch"] and nodes in _ON_TABLES[0] and per_node in _ON_TABLES[1]
    found = []
    for way, (latency, rate) in offered.items():
        is_ring = way[0] == "ring" and nodes > 1
        if is_on_tables and (collective != "allreduce" or not is_ring):
            continue
        if is_ring:
            more = (nodes / 4) ** 0.65 if nodes > 4 else 1
            latency += known["sync_us_a_node"] * nodes * more
            rate *= _ramp(_steeper(known["ring_ramp"], nodes), step)
        found.append(time_us(shape, collective, size, way, (latency, rate), MODELS[1]))
    if not is_on_tables:
        return found
    shape = NcclShape("hopper", "intel", nodes, ranks, _graphs(per_node))
    for way, (latency, rate) in terms(shape, collective, MODELS[0]).items():
        latency, rate = round(latency, 1), round(rate, 1) * _faster(machine)
        if way[0] == "tree":
            found.append(time_us(shape, collective, size, way, (latency, rate), MODELS[0]))
        elif way[0] == "nvls_tree" and per_node >= 4:
            found.append(latency + size / 1000 / rate / _ramp(known["nvls_tree_ramp"], step))
        elif way[0] == "ring" and collective != "allreduce":
            whole = known["whole_node_ring_ramp"] if per_node == max(_ON_TABLES[1]) else [1.0]
            found.append(latency + size / 1000 / rate / _ramp(whole, step, 1.0))
    return found


def _graphs(per_node: int) -> dict[str, tuple[int, float, float]]:
    if per_node == max(_ON_TABLES[1]):
        return {"ring": (8, 48, 48), "tree": (8, 48, 48), "nvls_tree": (16, 20, 24)}
    few = 2 * per_node
    return {"ring": (few, 24, 24), "tree": (few, 48, 24), "nvls_tree": (few, 24, 24)}


def _by_formula(
    here: Mapping[str, Any], collective: str, ranks: int, nodes: int
) -> tuple[NcclShape, dict[tuple[str, str], tuple[float, float]]]:
    """NCCL's formula with the model's own channels, without what NCCL takes off plain trees."""
    known, channels = model(), here["channels"]
    inside, nic = here["inside_GBps"] / channels, here["nic_GBps"] / channels
    between = min(nic * (ranks // nodes), inside) if here["nvswitch"] else nic
    names = ("ring", "tree", "nvls_tree") if nodes > 1 else ("ring", "tree", "nvls")
    graphs = dict.fromkeys(names, (channels, inside, between))
    shape = NcclShape(here["architecture"], "intel", nodes, ranks, graphs)
    found = terms(shape, collective, MODELS[1])
    column, ratio = min(nodes, 3) - 1, ranks / (2 * (ranks - 1))
    for way, (latency, rate) in list(found.items()):
        if way[0] == "tree" and nodes > 1 and (shape.is_recent or shape.per_node == 1):
            found[way] = latency, rate / 0.85
        elif way[0] == "nvls_tree":
            most = known["nvls_tree_a_channel"][here["architecture"]][column]
            efficiency = tables()["nvls_efficiency"][here["architecture"]]
            sums = inside * efficiency * (channels - 1) / channels * 2
            tree = min(sums, 2 * between if nodes == 2 else between, most)
            found[way] = latency, channels * tree * ratio
            # Its plain NVLS leads between nodes over one NIC.
            hops = tables()["hop_us"]
            flat = hops["nvlink"]["nvls"][2] + hops["net"]["nvls"][2]
            found["nvls", "Simple"] = flat, channels * nic * ratio
    shape = NcclShape(
        here["architecture"], "intel", nodes, ranks, {**graphs, "nvls": graphs["ring"]}
    )
    return shape, found


def _steeper(values: Sequence[float], nodes: int) -> list[float]:
    """The ramp of more than four nodes, no entry more than twice the one before."""
    if nodes <= 4:
        return list(values)
    power, found = 1 + 0.2 * (floor(log2(nodes)) - 2), list[float]()
    for value in values:
        found.append(min(value**power, 2 * found[-1]) if found else value**power)
    return found


def _exchange_us(machine: str, here: Mapping[str, Any], ranks: int, nodes: int, size: int) -> float:
    known = model()
    if not here["nvswitch"]:
        launch, inner, outer = _SIMPLE_RING
        rate: float = 0.7 * here["inside_GBps" if nodes <= 2 else "nic_GBps"]
        hops = (ranks - nodes + 1) * inner + (nodes - 1) * outer
        return launch + hops + size / 1000 / rate
    if nodes == 1:
        return 50 + size / 1000 / (675 if machine == "gb200" else 380)
    ramp = known["alltoall_ramp"]
    share: float = ramp[min(floor(_step(size, ranks)), len(ramp) - 1)]
    if nodes >= 4:
        share = 1 - (1 - share) / floor(log2(nodes))
    latency = _between(known["alltoall_us_by_nodes"], nodes)
    nic: float = here["nic_GBps"]
    far = size * (ranks - ranks // nodes) / ranks
    return latency + far / 1000 / (nic * (1 - 0.44 / nodes) * share)
