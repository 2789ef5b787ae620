"""InfraGraph files: devices of components, instances of devices, edges between slices of both."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple, final

from ocs_codesign.core.files.plain_text import read_plain_text
from ocs_codesign.core.quantities import exact
from ocs_codesign.core.shown import shown
from ocs_codesign.interop.wiring.wires import MAX_NODES, Wires

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PART = re.compile(r"([^\s.\[\]]+)(?:\[(-?\d*)(:(-?\d*)(?::(-?\d*))?)?\])?")
_BANDWIDTHS = {"gigabits_per_second": Fraction(10**9, 8), "gigabytes_per_second": Fraction(10**9)}
_LATENCIES = {"ms": Fraction(1, 1000), "us": Fraction(1, 10**6), "ns": Fraction(1, 10**9)}
_HOST, _NESTED, _CUSTOM = "xpu", "device", "custom"
_CHOICES = ("cpu", _HOST, "nic", "memory", "switch", "port", _NESTED, _CUSTOM)
_SCHEMES = ("one2one", "many2many")
MAX_DEPTH = 8


def read_infragraph(data: bytes, name: str) -> Wires:
    """The wires of an infrastructure in YAML or JSON.

    Raises ValueError with the device and the edge for what names no component, for choices that
    are none, and for more than MAX_NODES nodes, which are counted before any is made.
    """
    is_json = data.lstrip()[:1] == b"{"
    record = read_plain_text(data, name, is_json=is_json).value
    try:
        return _Reader(record).wires()
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


class _Link(NamedTuple):
    width_Bps: Fraction | None  # noqa: N815 - units keep their case
    latency_s: Fraction | None


@final
class _Reader:
    """The devices of an infrastructure by name, and what is made of them."""

    def __init__(self, record: Any) -> None:
        self.record = _map(record, "an infrastructure")
        self.devices = {_text(one, "name"): one for one in _maps(self.record, "devices")}
        self.counts = {
            device: {_text(one, "name"): one for one in _maps(parts, "components")}
            for device, parts in self.devices.items()
        }
        self.instances = {_text(one, "name"): one for one in _maps(self.record, "instances")}
        self.edges: dict[tuple[str, str], tuple[str, _Link]] = {}
        self.found = Wires("InfraGraph")

    def wires(self) -> Wires:
        """All nodes, and a cable for every pair that edges join: the last edge of a pair counts."""
        total = 0
        for name, instance in self.instances.items():
            device = _text(instance, "device")
            if device not in self.devices:
                raise ValueError(f"instance {name!r} is of device {device!r}, which is none")
            total += _count(instance) * self._size(device, 0)
            if total > MAX_NODES:
                raise ValueError(f"more than {MAX_NODES:,} nodes are not read")
        for name, instance in self.instances.items():
            for at in range(_count(instance)):
                self._place(f"{name}.{at}", _text(instance, "device"))
        links = _links(self.record, "the infrastructure")
        for at, edge in enumerate(_maps(self.record, "edges")):
            place = f"edge {at} between instances"
            ends = [self._between(edge, end, place) for end in ("ep1", "ep2")]
            self._join(ends, edge, links, place)
        for (one, other), (link, physical) in self.edges.items():
            self.found.cable(one, other, link, *physical)
        return self.found

    def _size(self, device: str, depth: int) -> int:
        """Nodes of a device, nested ones included."""
        if depth > MAX_DEPTH:
            raise ValueError(
                f"device {device!r} is nested more than {MAX_DEPTH} deep, or in itself"
            )
        total = 0
        for name, component in self.counts[device].items():
            choice, count = self._choice(device, name, component), _count(component)
            total += count * (self._size(name, depth + 1) if choice == _NESTED else 1)
        return total

    def _choice(self, device: str, name: str, component: Mapping[str, Any]) -> str:
        choice = component.get("choice")
        kinds = component.get("custom") if choice == _CUSTOM else None
        if choice not in _CHOICES or (choice == _CUSTOM and not _map(kinds or {}, "custom")):
            raise ValueError(
                f"component {name!r} of device {device!r} is a {shown(choice)}: "
                f"it is one of {', '.join(_CHOICES)}, a custom one with its type"
            )
        if choice == _NESTED and name not in self.devices:
            raise ValueError(f"component {name!r} of device {device!r} is no device that is there")
        return str(choice)

    def _place(self, prefix: str, device: str) -> None:
        for name, component in self.counts[device].items():
            choice = self._choice(device, name, component)
            for at in range(_count(component)):
                if choice == _NESTED:
                    self._place(f"{prefix}.{name}.{at}", name)
                else:
                    self.found.node(f"{prefix}.{name}.{at}", is_host=choice == _HOST)
        links = _links(self.devices[device], f"device {device!r}")
        for at, edge in enumerate(_maps(self.devices[device], "edges")):
            place = f"edge {at} of device {device!r}"
            ends = [self._inside(prefix, device, edge, end, place) for end in ("ep1", "ep2")]
            self._join(ends, edge, links, place)

    def _inside(
        self, prefix: str, device: str, edge: Mapping[str, Any], end: str, place: str
    ) -> list[str]:
        part = _map(edge.get(end), f"{end} of {place}")
        texts = [_text(part, key) for key in ("device", "component") if part.get(key) is not None]
        return [f"{prefix}.{path}" for path in self._paths(device, ".".join(texts), place)]

    def _between(self, edge: Mapping[str, Any], end: str, place: str) -> list[str]:
        part = _map(edge.get(end), f"{end} of {place}")
        whole = _PART.fullmatch(_text(part, "instance"))
        instance = None if whole is None else self.instances.get(whole[1])
        if whole is None or instance is None:
            raise ValueError(f"{place} names instance {part.get('instance')!r}, which is none")
        paths = list(self._paths(_text(instance, "device"), _text(part, "component"), place))
        chosen = _chosen(whole, _count(instance))
        return [f"{whole[1]}.{at}.{path}" for at in chosen for path in paths]

    def _paths(self, device: str, text: str, place: str) -> Iterator[str]:
        """Every component that a text such as card[0:2].port[0] stands for, the first slowest."""
        chosen: list[list[str]] = []
        for piece in text.split("."):
            part = _PART.fullmatch(piece)
            component = None if part is None else self.counts.get(device, {}).get(part[1])
            if part is None or component is None:
                raise ValueError(f"{place} names {text!r}: device {device!r} has no such component")
            chosen.append([f"{part[1]}.{at}" for at in _chosen(part, _count(component))])
            device = part[1] if component.get("choice") == _NESTED else ""
        if device:
            raise ValueError(f"{place} names {text!r}, which is a device: name a part of it")
        return map(".".join, product(*chosen))

    def _join(
        self, ends: list[list[str]], edge: Mapping[str, Any], links: Mapping[str, _Link], place: str
    ) -> None:
        scheme, link = edge.get("scheme", "many2many"), _text(edge, "link")
        if scheme not in _SCHEMES:
            raise ValueError(f"{place} has scheme {shown(scheme)}: {' or '.join(_SCHEMES)}")
        if link not in links:
            raise ValueError(f"{place} is of link {link!r}: there are {', '.join(links) or 'none'}")
        pairs = zip(*ends, strict=False) if scheme == "one2one" else product(*ends)
        if scheme == "many2many" and len(ends[0]) * len(ends[1]) > MAX_NODES:
            raise ValueError(f"{place} joins more than {MAX_NODES:,} pairs")
        if scheme == "one2one" and len(ends[0]) != len(ends[1]):
            self.found.guess(
                f"{place} joins {len(ends[0])} with {len(ends[1])} one to one: the rest are not"
            )
        for one, other in pairs:
            if one != other:
                key = (other, one) if (other, one) in self.edges else (one, other)
                self.edges[key] = link, links[link]


def _chosen(part: re.Match[str], count: int) -> range:
    """The numbers that an index or a slice of Python stands for, all without one."""
    every = range(count)
    if "[" not in part[0]:
        return every
    if part[3] is None:
        at = int(part[2]) if part[2] else count
        if not -count <= at < count:
            raise ValueError(f"{part[0]!r}: there are {count} of these")
        return range(at % count, at % count + 1)
    step = int(part[5]) if part[5] else 1
    if step == 0:
        raise ValueError(f"{part[0]!r} has a step of 0")
    start, stop = (int(one) if one else None for one in (part[2], part[4]))
    return every[start:stop:step]


def _links(record: Mapping[str, Any], whole: str) -> dict[str, _Link]:
    found = {}
    for link in _maps(record, "links"):
        physical = _map(link.get("physical") or {}, f"physical of a link of {whole}")
        width = _quantity(physical.get("bandwidth"), _BANDWIDTHS, whole)
        found[_text(link, "name")] = _Link(
            width or None, _quantity(physical.get("latency"), _LATENCIES, whole)
        )
    return found


def _quantity(value: Any, units: Mapping[str, Fraction], whole: str) -> Fraction | None:
    """What a map of a unit and a number says; None where it does not, or in transfers a second."""
    if value is None:
        return None
    for unit, size in units.items():
        number = _map(value, f"a bandwidth or latency of {whole}").get(unit)
        if number is not None:
            if isinstance(number, bool) or not isinstance(number, int | float) or number < 0:
                raise ValueError(
                    f"{unit} of a link of {whole} is {shown(number)}: a number above 0"
                )
            return exact(number) * size
    return None


def _map(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is {shown(value)}: it is a map of keys to values")
    return value


def _maps(record: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    value = record.get(key) or []
    if not isinstance(value, list):
        raise ValueError(f"{key} is {shown(value)}: it is a list")
    return [_map(one, f"{key}[{at}]") for at, one in enumerate(value)]


def _text(record: Mapping[str, Any], key: str) -> str:
    value = record.get(key)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{key} is {shown(value)}: it is a text")
    return value


def _count(record: Mapping[str, Any]) -> int:
    value = record.get("count", 1)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_NODES:
        raise ValueError(f"count is {shown(value)}: a whole number up to {MAX_NODES:,}")
    return value
