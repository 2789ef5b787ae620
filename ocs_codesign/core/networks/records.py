"""Networks as plain records, which JSON and YAML hold as they are and other formats are made of."""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.core.files.naming import MAX_NAME
from ocs_codesign.core.network import MAX_BANDWIDTH, NANOSECOND, Network
from ocs_codesign.core.quantities import parse_number
from ocs_codesign.core.shown import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


_KEYS = (
    *("num_hosts", "num_nodes", "links", "multicast", "aggregate"),
    *("unit", "tick_s", "names"),
)
_LINK = "[tail, head, bandwidth], perhaps with a latency and a dimension"
TICKS = "ticks"
"""The unit of a network whose links have, for a bandwidth, the ticks that a chunk occupies them."""


def network_record(network: Network) -> dict[str, Any]:
    """The plain form of a network; what has its usual value is left out.

    >>> from ocs_codesign.core.networks.builders import star
    >>> record = network_record(star(2, 10, unit="Gbps"))
    >>> record["links"], record["unit"]
    ([[0, 2, 10, 0, 0], [1, 2, 10, 0, 0], [2, 0, 10, 0, 0], [2, 1, 10, 0, 0]], 'Gbps')
    """
    width = network.bandwidth if network.chunk_ticks is None else network.chunk_ticks
    columns: list[NDArray[Any]] = [network.tail, network.head, width]
    if network.latency.any() or network.dimension is not None:
        columns.append(network.latency)
    if network.dimension is not None:
        columns.append(network.dimension)
    record: dict[str, Any] = {
        "num_hosts": network.num_hosts,
        "num_nodes": network.num_nodes,
        "unit": network.unit if network.chunk_ticks is None else TICKS,
        "links": np.stack(columns, axis=1).tolist(),
    }
    for name in ("multicast", "aggregate"):
        able = np.flatnonzero(getattr(network, name)).tolist()
        if able:
            record[name] = able
    if network.tick_s != NANOSECOND:
        record["tick_s"] = str(network.tick_s)
    if network.names is not None:
        record["names"] = list(network.names)
    return record


_ALWAYS_READ = 2**16
"""Nodes that are read even if links lead to few of them: more would take memory for nothing."""


def network_of(record: Any) -> Network:
    """The network of a plain record; ValueError with the place and the rule if it is none."""
    if not isinstance(record, dict):
        raise ValueError("a network is a map with num_hosts, num_nodes and links")
    if {"hosts", "nodes"} <= record.keys() and not record.keys() & {"num_hosts", "num_nodes"}:
        # Tables of known answers have networks so, among what else they have of a case.
        record = {"links": record.get("links"), "unit": record.get("unit", "")} | {
            f"num_{key}": record[key] for key in ("hosts", "nodes")
        }
    for key in record:
        if key not in _KEYS:
            is_room = bool(record.keys() & {"version", "planes", "servers", "accelerator"})
            hint = "; a file of a room or fabric is given as a network: --network FILE" * is_room
            raise ValueError(f"{shown(key)} is not known: a network has {', '.join(_KEYS)}{hint}")
    hosts, nodes = (_whole(record, key) for key in ("num_hosts", "num_nodes"))
    columns, unit = _columns(_list(record, "links")), _text(record, "unit")
    if nodes > max(_ALWAYS_READ, 2 * len(columns[0])):
        raise ValueError(f"{nodes} nodes but only {len(columns[0])} links: some node has no link")
    chunk_ticks = columns[2] if unit == TICKS else None
    if chunk_ticks is not None:
        columns[2], unit = _bandwidths(chunk_ticks), ""
    return Network(
        hosts,
        nodes,
        *columns,
        multicast=_list(record, "multicast", ()),
        aggregate=_list(record, "aggregate", ()),
        unit=unit,
        tick_s=read_tick(record.get("tick_s")),
        names=_names(record),
        chunk_ticks=chunk_ticks,
    )


def _columns(links: Sequence[Any]) -> list[Any]:
    """Tail, head, bandwidth, and latency and dimension if any link has them."""
    for at, link in enumerate(links):
        is_link = isinstance(link, (list, tuple)) and 3 <= len(link) <= 5
        if not is_link or not all(type(value) is int and abs(value) < 2**62 for value in link):
            raise ValueError(f"links[{at}] is {shown(link)}: a link is {_LINK}, in whole numbers")
    longest = max((len(link) for link in links), default=3)
    rows = [[*link, *[0] * (longest - len(link))] for link in links]
    table = np.array(rows, dtype=np.int64).reshape(-1, longest)
    return list(table.T)


def _bandwidths(chunk_ticks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Relative bandwidths of links that a chunk occupies for so many ticks."""
    if chunk_ticks.min(initial=1) < 1:
        at = int(chunk_ticks.argmin())
        raise ValueError(f"links[{at}] is occupied for {chunk_ticks[at]} ticks: at least 1")
    whole = lcm(*np.unique(chunk_ticks).tolist())
    if whole > MAX_BANDWIDTH:
        raise ValueError(
            f"the ticks of the links have no common multiple of at most {MAX_BANDWIDTH}"
        )
    return whole // chunk_ticks


def _whole(record: dict[str, Any], key: str) -> int:
    value = record.get(key)
    if type(value) is not int:
        raise ValueError(f"{key} is {shown(value)}: it must be a whole number")
    return value


def _list(record: dict[str, Any], key: str, default: Any = None) -> Any:
    value = record.get(key, default)
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{key} is {shown(value)}: it must be a list")
    if key != "links" and not all(type(one) is int for one in value):
        raise ValueError(f"{key} must be numbers of switches")
    return value


def _text(record: dict[str, Any], key: str) -> str:
    value = record.get(key, "")
    if not isinstance(value, str) or len(value) > 40 or not value.isprintable():
        raise ValueError(f"{key} is {shown(value)}: it must be a short text such as Gbps")
    return value


def read_tick(value: Any) -> Fraction:
    """Seconds of a tick as files write them; ValueError unless they are more than none."""
    if value is None:
        return NANOSECOND
    rule = "a tick must be seconds above 0, such as 1/1000"
    tick_s = parse_number(str(value), rule)
    if tick_s <= 0:
        raise ValueError(f"{shown(value)}: {rule}")
    return tick_s


def _names(record: dict[str, Any]) -> list[str] | None:
    names = record.get("names")
    if names is None:
        return None
    if not isinstance(names, list) or not all(
        isinstance(name, str) and 0 < len(name) <= MAX_NAME and name.isprintable() for name in names
    ):
        raise ValueError(f"names are printable texts of at most {MAX_NAME} letters, one a node")
    return names
