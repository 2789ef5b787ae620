"""Fabrics as their tools list them: ibnetdiscover, tables of cables, topologies of simulators."""

from __future__ import annotations

import csv
import io
import re
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import TYPE_CHECKING

from ocs_codesign.core.files.atomic import decoded
from ocs_codesign.core.files.records import delimiter_of, is_comment
from ocs_codesign.core.quantities import NUMBER, exact, parse_bandwidth, parse_number, parse_time
from ocs_codesign.core.shown import shown
from ocs_codesign.interop.wiring.wires import MAX_NODES, Wires

if TYPE_CHECKING:
    from collections.abc import Iterator

_GBPS = Fraction(10**9, 8)

# ibnetdiscover.

_LANE = {
    **{"SDR": "2", "DDR": "4", "QDR": "8", "FDR10": "10", "FDR": "13.64", "EDR": "25"},
    **{"HDR": "50", "NDR": "100", "XDR": "200"},
}
"""Gb/s of data a lane."""
_DEVICE = re.compile(r'(Switch|Ca|Rt)\s+\d+\s+"([^"]+)"\s*#\s*"([^"]*)"')
_PORT = re.compile(r'\[(\d+)\](?:\([0-9a-fA-F]+\))?\s+"([^"]+)"\[(\d+)\]')
_SPEED = re.compile(r"(\d+)x(SDR|DDR|QDR|FDR10|FDR|EDR|HDR|NDR|XDR)\b")
_CARD = re.compile(r"\s+(?:mlx\d|HCA-).*")


def read_ibnetdiscover(data: bytes, name: str) -> Wires:
    """The fabric that ``ibnetdiscover`` prints: channel adapters are hosts, several of one joined.

    Raises ValueError with the line for ports without a device or a speed, and for a cable whose
    ends do not agree.
    """
    found, names = Wires("ibnetdiscover"), dict[str, str]()
    cables: dict[frozenset[tuple[str, str]], tuple[str, int]] = {}
    device = ""
    lines = decoded(data, name).splitlines()
    for line in lines:
        told = _DEVICE.match(line)
        if told is not None:
            names[told[2]] = _device_name(told[1], told[2], told[3], names)
            found.node(names[told[2]], is_host=told[1] == "Ca")
    for number, line in enumerate(lines, 1):
        place = f"{name}, line {number}"
        told = _DEVICE.match(line)
        device = told[2] if told is not None else device
        port = _PORT.match(line)
        if port is None:
            if line.startswith("["):
                raise ValueError(f'{place}: a port is [1] "GUID"[1] and what is behind it')
            continue
        speed = list(_SPEED.finditer(line))
        if not device or port[2] not in names:
            raise ValueError(
                f"{place}: {shown(port[2] if device else 'a port')} has no device line"
            )
        if not speed:
            raise ValueError(f"{place}: there is no speed such as 4xHDR at its end")
        key, rate = frozenset([(device, port[1]), (port[2], port[3])]), speed[-1][0]
        if key in cables and cables[key][0] != rate:
            other = f"line {cables[key][1]}"
            raise ValueError(f"{place}: a cable is {rate} here and {cables[key][0]} in {other}")
        if key not in cables:
            cables[key] = rate, number
            width = int(speed[-1][1]) * Fraction(_LANE[speed[-1][2]]) * _GBPS
            found.cable(names[device], names[port[2]], rate, width)
    if not cables:
        raise ValueError(f"{name}: there are no cables")
    return found


def _device_name(kind: str, guid: str, text: str, names: dict[str, str]) -> str:
    """The name of a device, with its GUID where another one has the name: hosts have many cards."""
    if kind == "Ca":
        host = _CARD.sub("", text) or guid
        is_card = host != text
        return host if is_card or host not in names.values() else f"{host} {guid}"
    return text if text and text not in names.values() else f"{text} {guid}".strip()


# Tables of cables.

_ENDS = {
    "device": ("a_device", "b_device", "side_a_device", "side_b_device"),
    "port": ("a_port", "b_port", "side_a_name", "side_b_name"),
    "role": ("a_role", "b_role", "side_a_role", "side_b_role"),
}
_SPEEDS = {
    **{"speed_mbps": Fraction(10**6, 8), "speed_gbps": _GBPS, "speed_kbps": Fraction(1000, 8)},
    "speed": None,
}
_HOST_ROLES = re.compile(r"(?i).*(host|server|gpu|compute|accelerator|node|worker).*")
_HOST_NAMES = ("gpu*", "host*", "h[0-9]*", "node*", "server*", "compute*", "worker*", "dgx*")


def is_cable_table(head: str) -> bool:
    """Whether a text begins with the heading of a table of cables."""
    line = next((one for one in head.splitlines() if not is_comment(one)), "").lower()
    columns = {cell.strip() for cell in line.split(delimiter_of(line))}
    return {"a_device", "b_device"} <= columns or {"side_a_device", "side_b_device"} <= columns


def read_cable_table(data: bytes, name: str) -> Wires:
    """The cables of a CSV table: a device, its port and perhaps its role at both ends, and a speed.

    Hosts are told by their roles, or else by names such as gpu0 or host3. Raises ValueError with
    the line for a port in two rows, speeds that are none, and where nothing is a host.
    """
    found, text = Wires("cable table"), decoded(data, name)
    heading = next((line for line in text.splitlines() if not is_comment(line)), "")
    lines = ("\n" if row.lstrip()[:1] == "#" else row for row in io.StringIO(text, newline=""))
    rows = csv.reader(lines, delimiter=delimiter_of(heading), skipinitialspace=True)
    columns: list[str] = []
    roles: dict[str, str] = {}
    cables: list[tuple[str, str, str, Fraction | None]] = []
    ports: dict[tuple[str, str], int] = {}
    for row in rows:
        if not any(cell.strip() for cell in row):
            continue
        place = f"{name}, line {rows.line_num}"
        if not columns:
            columns = [cell.strip().lower() for cell in row]
            continue
        if len(row) != len(columns):
            raise ValueError(f"{place}: {len(row)} cells, but the heading has {len(columns)}")
        values = {column: cell.strip() for column, cell in zip(columns, row, strict=True)}
        ends = []
        for side in (0, 1):
            device, port, role = (_of(values, part, side) for part in ("device", "port", "role"))
            if not device:
                raise ValueError(f"{place}: a cable has a device at both ends")
            if port and ports.setdefault((device, port), rows.line_num) != rows.line_num:
                raise ValueError(
                    f"{place}: port {port} of {device} is in line {ports[device, port]} as well"
                )
            roles[device] = role or roles.get(device, "")
            ends.append(device)
        link = values.get("link") or values.get("type") or "cable"
        cables.append((ends[0], ends[1], link, _speed(values, place)))
        if len(roles) > MAX_NODES:
            raise ValueError(f"{name}: more than {MAX_NODES:,} devices")
    _tell_hosts(found, roles, name)
    for one, other, link, width in cables:
        found.cable(one, other, link, width)
    return found


def _of(values: dict[str, str], part: str, side: int) -> str:
    return next((values[name] for name in _ENDS[part][side::2] if values.get(name)), "")


def _speed(values: dict[str, str], place: str) -> Fraction | None:
    """Bytes a second of a row, None where it does not say."""
    for column, unit in _SPEEDS.items():
        cell = values.get(column, "")
        if not cell:
            continue
        if unit is None and not NUMBER.fullmatch(cell):
            try:
                return exact(parse_bandwidth(cell))
            except ValueError as error:
                raise ValueError(f"{place}: {error}") from None
        if not NUMBER.fullmatch(cell) or parse_number(cell) <= 0:
            raise ValueError(f"{place}: {column} is {shown(cell)}: a number above 0")
        if unit is None:
            raise ValueError(f"{place}: speed is {shown(cell)}: with its unit, such as 100Gbps")
        return parse_number(cell) * unit
    return None


def _tell_hosts(found: Wires, roles: dict[str, str], name: str) -> None:
    has_roles = any(roles.values())
    for device, role in roles.items():
        is_host = bool(_HOST_ROLES.fullmatch(role))
        if not has_roles:
            is_host = any(fnmatchcase(device.lower(), pattern) for pattern in _HOST_NAMES)
        found.node(device, is_host=is_host)
    if not found.hosts:
        columns = "a_role and b_role with host or switch"
        raise ValueError(f"{name}: no device is a host by role or name: give columns {columns}")
    if not has_roles:
        found.guess(f"no roles are said: {len(found.hosts)} devices are hosts by their names")


# Topologies of SimAI and of ns-3 for HPCC.

_SIMAI, _HPCC, _LINK = 6, 3, 5


def is_simulator_topology(head: str) -> bool:
    """Whether a text begins as these files do: five whole numbers and a name, or three numbers.

    An edge list may have three numbers as well, but no links of five words and a rate with a unit.
    """
    first, *rest = [line.split() for line in head.splitlines()] or [[]]
    numbers = [word.isdecimal() for word in first]
    has_links = any(len(words) == _LINK and words[2][-1].isalpha() for words in rest)
    return numbers == [True] * 5 + [False] or (numbers == [True] * _HPCC and has_links)


def read_simulator_topology(data: bytes, name: str) -> Wires:
    """The topology of a file of SimAI, with NVSwitches, or of ns-3 for HPCC, without.

    Raises ValueError with the link for numbers that do not agree.
    """
    text = decoded(data, name)
    words = text.split()
    is_simai = len(next(iter(text.splitlines()), "").split()) == _SIMAI
    try:
        return _simulated(iter(words), is_simai=is_simai, num_words=len(words))
    except StopIteration:
        raise ValueError(f"{name}: the file ends before its last link") from None
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _simulated(words: Iterator[str], *, is_simai: bool, num_words: int) -> Wires:
    found = Wires("topology of SimAI" if is_simai else "topology of ns-3 for HPCC")
    head = [next(words) for _ in range(_SIMAI if is_simai else _HPCC)]
    nodes, *rest = (_whole(word) for word in (head[:5] if is_simai else head))
    switches, links = (rest[1] + rest[2], rest[3]) if is_simai else rest
    if nodes > MAX_NODES or switches > nodes or num_words != len(head) + switches + 5 * links:
        raise ValueError(
            f"{nodes} nodes, {switches} switches and {links} links: the file has {num_words} words "
            f"where {len(head) + switches + 5 * links} belong"
        )
    ids = [_whole(next(words)) for _ in range(switches)]
    if len(set(ids)) < len(ids) or max(ids, default=0) >= nodes:
        raise ValueError(f"switches are different numbers below {nodes}")
    forwards = set(ids)
    for node in range(nodes):
        found.node(_named(node, forwards), is_host=node not in forwards)
    for at in range(links):
        tail, head_, rate, delay, error = (next(words) for _ in range(5))
        ends = [_whole(tail), _whole(head_)]
        if max(ends) >= nodes or not NUMBER.fullmatch(error):
            raise ValueError(f"link {at} is between {tail} and {head_}: nodes are below {nodes}")
        width, latency = exact(parse_bandwidth(rate)), exact(parse_time(delay))
        one, other = (_named(end, forwards) for end in ends)
        found.cable(one, other, rate, width, latency)
    return found


def _named(node: int, forwards: set[int]) -> str:
    return f"switch{node}" if node in forwards else f"host{node}"


def _whole(word: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", word):
        raise ValueError(f"{shown(word)} is no whole number")
    return int(word)
