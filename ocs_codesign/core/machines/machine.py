"""Machines: what real hosts, links and libraries take, every number with where it is from.

A machine is a table of a TOML or JSON file. Texts say what it is, ``numbers`` are {value, source,
kind}, ``graphs`` are NCCL's channels by how many nodes and ranks there are, and ``curves`` are
times of collectives that a log has. Every link of a network is in the class ``inside`` (of a node)
or ``net`` (between nodes, or all there are).
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from ocs_codesign.core.cost import CostModel
from ocs_codesign.core.files.archives import read_limited
from ocs_codesign.core.files.atomic import decoded, errors_at
from ocs_codesign.core.files.plain_text import read_plain_text
from ocs_codesign.core.machines.nccl import MODELS, LibraryTime, NcclShape, library_times
from ocs_codesign.core.quantities import exact
from ocs_codesign.core.shown import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from fractions import Fraction

KINDS: Final = ("measured", "published", "fitted", "assumed")
CLASSES: Final = ("inside", "net")
ONE_NODE, WHOLE_NODES, PARTS = "one_node", "whole_nodes", "parts"
NONE: Final = "none"
MAX_MACHINE_BYTES: Final = 2**22
_MAX_VALUE: Final = 1e12
_TEXTS: Final = ("title", "architecture", "host_cpu", "library", "log_date", "based_on")
_LISTS: Final = ("aliases", "builders", "accelerators", "protocols", "not_identified")
_NEEDED: Final = ("launch_us", "overhead_us", "net_latency_us", "net_share", "net_peak_GBps")


@final
@dataclass(frozen=True, slots=True)
class Number:
    """A value, or one a protocol, with its source and what kind of knowledge it is.

    Raises ValueError for another kind, no source, or values that are no finite amounts.
    """

    value: float | tuple[float, ...]
    source: str
    kind: str
    interval: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind is {shown(self.kind)}: it is {', '.join(KINDS)}")
        if not self.source:
            raise ValueError("a number has a source")
        for value in (*self.each, *(self.interval or ())):
            if not 0 <= value <= _MAX_VALUE:
                raise ValueError(f"a value is {shown(value)}: it is from 0 to {_MAX_VALUE:g}")
        if self.interval is not None and self.interval[0] > self.interval[1]:
            raise ValueError("an interval is two numbers, from and to")

    @property
    def each(self) -> tuple[float, ...]:
        """The values, one if there is one."""
        return self.value if isinstance(self.value, tuple) else (self.value,)

    def record(self) -> dict[str, Any]:
        """As files have it."""
        value = list(self.value) if isinstance(self.value, tuple) else self.value
        found: dict[str, Any] = {"value": value, "source": self.source, "kind": self.kind}
        return found if self.interval is None else {**found, "interval": list(self.interval)}


@final
@dataclass(frozen=True, slots=True)
class LogCurve:
    """What a collective of ``ranks`` on ``nodes`` took: points (bytes, us), ``method`` of the rest.

    ``law`` is (latency in us, coefficient of the root, GB/s).
    """

    collective: str
    ranks: int
    nodes: int
    points: tuple[tuple[int, float], ...]
    method: str
    law: tuple[float, float, float]
    source: str

    def us(self, sizes: Sequence[int]) -> list[float]:
        """Times of sizes in us."""
        from ocs_codesign.core.machines.curves import TABLE, Law, table_us

        found = table_us(self.points, sizes) if self.method == TABLE else Law(*self.law).us(sizes)
        return [float(each) for each in found]

    def record(self) -> dict[str, Any]:
        """As files have it."""
        return {
            **{name: getattr(self, name) for name in self.__slots__ if name not in ("law",)},
            "points": [list(point) for point in self.points],
            "law": list(self.law),
        }


@final
@dataclass(frozen=True, slots=True)
class RealMachine:
    """A machine by its name, with texts, numbers, graphs and curves.

    Raises ValueError for one that lacks what a clock needs.

    >>> machine_named("h100").number("net_peak_GBps")
    50.0
    """

    name: str
    texts: Mapping[str, Any]
    numbers: Mapping[str, Number]
    graphs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    curves: tuple[LogCurve, ...] = ()

    def __post_init__(self) -> None:
        for name in _NEEDED:
            if name not in self.numbers:
                raise ValueError(f"{self.name} has no {name}: a clock needs it")
        for name in (*_NEEDED[:-1], "inside_latency_us", "inside_share"):
            found = self.numbers.get(name)
            if found is not None and len(found.each) != len(self.protocols):
                raise ValueError(
                    f"{name} has {len(found.each)} values: there are {len(self.protocols)} "
                    "protocols"
                )
        if min(self.numbers["net_share"].each) <= 0 or self.number("net_peak_GBps") <= 0:
            raise ValueError("a rate and a share of it are more than 0")

    @property
    def protocols(self) -> tuple[str, ...]:
        """Protocols in which messages may go."""
        return tuple(self.texts.get("protocols", ()))

    @property
    def title(self) -> str:
        """What it is, in words."""
        return str(self.texts.get("title", self.name))

    @property
    def classes(self) -> tuple[str, ...]:
        """Classes of links."""
        return CLASSES if "inside_share" in self.numbers else CLASSES[1:]

    @property
    def least_of_rates(self) -> Fraction:
        """The slowest protocol's rate over the fastest one's, on the class where it is least."""
        shares = [[*map(exact, self.numbers[f"{name}_share"].each)] for name in self.classes]
        return min(min(each) / max(each) for each in shares)

    @property
    def is_calibrated(self) -> bool:
        """Whether it was placed by a log of its own, and not by what is said of its kind."""
        return bool(self.curves) or "log_date" in self.texts

    @property
    def caveat(self) -> str:
        """What to say besides its times: "uncalibrated" where the fabric's latency is assumed."""
        nic = self.numbers.get("nic_us")
        if nic is None or nic.kind != "assumed":
            return ""
        return f"uncalibrated: the latency of the NICs, {nic.each[0]:g} us, is assumed"

    def number(self, name: str, place: int = 0) -> float:
        """A value, of a protocol by its place; 0 for what is not there."""
        found = self.numbers.get(name)
        return 0.0 if found is None else float(found.each[place])

    @property
    def ranks_a_node(self) -> int:
        """Ranks of a whole node, one where nothing is said."""
        return int(self.texts.get("ranks_a_node", 1))

    def nodes_of(self, ranks: int) -> int:
        """The fewest nodes that so many ranks fill."""
        return -(-ranks // self.ranks_a_node)

    def shape(self, ranks: int, nodes: int, *, with_nic: bool) -> NcclShape:
        """What NCCL would know of so many ranks; ValueError where it is not known."""
        architecture = self.texts.get("architecture")
        if architecture is None or not self.graphs:
            raise ValueError(
                f"NCCL's model does not know {self.title}: calibrate a log of it, which is a curve"
            )
        most = int(self.texts.get("ranks_a_node", 8))
        # Of several numbers of ranks hops are those of schedules: NCCL's tables have their own.
        own = "library_nic_us" if "library_nic_us" in self.numbers else "nic_us"
        nic_us = self.number(own) if with_nic else 0.0
        known = str(architecture), str(self.texts.get("host_cpu", "intel")), nodes, ranks
        bare = NcclShape(*known, {}, nic_us)
        if bare.per_node > most:
            raise ValueError(f"{bare.per_node} ranks a node: {self.title} has at most {most}")
        kind = ONE_NODE if nodes == 1 else WHOLE_NODES if bare.per_node == most else PARTS
        each = bare.per_node if kind == PARTS else 1
        graphs = {
            name: (graph[0] * each, graph[1], graph[2])
            for name, graph in self.graphs.get(kind, {}).items()
            if isinstance(graph, (list, tuple)) and (name != "nvls_tree" or bare.per_node >= 4)
        }
        return NcclShape(*known, graphs, nic_us)

    def curve(self, collective: str, ranks: int, nodes: int) -> LogCurve | None:
        """The curve of a collective of so many ranks on so many nodes, None without a log of it."""
        asked = collective, ranks, nodes
        alike = (each for each in self.curves if (each.collective, each.ranks, each.nodes) == asked)
        return next(alike, None)

    def library(
        self, collective: str, ranks: int, nodes: int, sizes: Sequence[int], version: str | None
    ) -> list[LibraryTime]:
        """What the library takes: by the curve of a log unless a ``version`` of NCCL is named.

        NCCL's own model is as it prints it, with what the NICs take only if a log placed them.
        """
        curve = self.curve(collective, ranks, nodes)
        if curve is not None and version is None:
            times = zip(sizes, curve.us(sizes), strict=True)
            return [LibraryTime(size, time / 1e6) for size, time in times]
        shape = self.shape(ranks, nodes, with_nic=self.is_calibrated)
        return library_times(shape, collective, sizes, version or MODELS[-1])

    def clocked_library(
        self, collective: str, ranks: int, nodes: int, sizes: Sequence[int], version: str
    ) -> list[LibraryTime]:
        """What the library is to take beside schedules: a curve, or its model with its NICs."""
        if self.curve(collective, ranks, nodes) is not None:
            return self.library(collective, ranks, nodes, sizes, None)
        return library_times(self.shape(ranks, nodes, with_nic=True), collective, sizes, version)

    def ends_of_nic(self) -> tuple[RealMachine, ...]:
        """The machine with the least and the most that NICs may take; none where that is known."""
        nic = self.numbers.get("nic_us")
        if nic is None or nic.interval is None:
            return ()
        ends = [replace(nic, value=end, interval=None) for end in nic.interval]
        return tuple(replace(self, numbers={**self.numbers, "nic_us": end}) for end in ends)

    def cost_model(
        self,
        node_bandwidth_Bps: Fraction,  # noqa: N803 - the unit keeps its case
        num_ports: int = 1,
        link_class: str = "net",
    ) -> CostModel:
        """The cost model of hosts with so much egress at peak over so many ports, by protocol.

        In a step a host sends a message over each port, one after the other, and takes what comes
        from as many: alpha is (ports + 1) overheads and the latency of the class.

        >>> from fractions import Fraction
        >>> model = machine_named("h100").cost_model(Fraction(50 * 10**9))
        >>> [float(each.alpha_s * 10**6) for each in model.protocols]
        [29.0, 12.5, 16.0]
        """
        if link_class not in self.classes:
            link_class = self.classes[-1]
        models = []
        for place, protocol in enumerate(self.protocols):
            us = (num_ports + 1) * self.number("overhead_us", place)
            us += self.number(f"{link_class}_latency_us", place)
            if link_class == "net":
                us += self.number("nic_us") * (2 if protocol == "Simple" else 1)
            share = exact(self.number(f"{link_class}_share", place))
            launch = exact(self.number("launch_us", place)) / 10**6
            models.append(CostModel(exact(us) / 10**6, node_bandwidth_Bps, launch, share))
        *others, last = models
        known = last.alpha_s, node_bandwidth_Bps, last.launch_s, last.share
        return CostModel(*known, tuple(others))

    def library_interval(
        self, collective: str, ranks: int, nodes: int, time: LibraryTime, version: str
    ) -> tuple[float, float]:
        """Seconds from and to of what ``clocked_library`` tells, as errors of its kind are."""
        from ocs_codesign.core.machines import intervals

        band = intervals.band_of(time.message_bytes)
        curve = self.curve(collective, ranks, nodes)
        if curve is not None:
            error = intervals.curve_errors(curve)[band]
            return intervals.widened(time.seconds, time.seconds, error)
        asked = collective, ranks, nodes, [time.message_bytes], version
        ends = [each.clocked_library(*asked)[0].seconds for each in self.ends_of_nic()]
        times = [time.seconds, *ends]
        return intervals.widened(min(times), max(times), intervals.model_errors(self)[band])

    def record(self) -> dict[str, Any]:
        """As files have it."""
        return {
            "machine": self.name,
            **self.texts,
            "numbers": {name: number.record() for name, number in self.numbers.items()},
            "graphs": {name: dict(graph) for name, graph in self.graphs.items()},
            "curves": [curve.record() for curve in self.curves],
        }


@cache
def machines() -> dict[str, RealMachine]:
    """All machines that come along, by name."""
    text = Path(__file__).with_name("machines.toml").read_text(encoding="utf-8")
    return {name: machine_of(name, record) for name, record in tomllib.loads(text).items()}


@cache
def _names() -> dict[str, str]:
    """Names by all their spellings, in plain letters."""
    found = {}
    for name, machine in machines().items():
        for text in (name, *machine.texts.get("aliases", ())):
            found[_plain(text)] = name
    return found


def _plain(text: str) -> str:
    return text.strip().lower().replace("_", "-").replace(" ", "-")


def machine_named(text: str) -> RealMachine:
    """The machine of a name or of a file; ValueError with the nearest names if there is none.

    >>> machine_named("DGX_H100").name
    'dgx-h100'
    """
    plain = _plain(text)
    if plain in _names():
        return machines()[_names()[plain]]
    path = Path(text)
    if path.is_file():
        return read_machine(path)
    near = get_close_matches(plain[:80], _names(), n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(machines())}"
    raise ValueError(f"{shown(text)} is no machine and no file: {hint}")


def machine_of_accelerator(text: str) -> RealMachine | None:
    """The machine whose accelerator a log names, None if it names none that is known.

    >>> machine_of_accelerator("NVIDIA H100 80GB HBM3").name
    'dgx-h100'
    """
    known = [
        (len(word), machine)
        for machine in machines().values()
        for word in machine.texts.get("accelerators", ())
        if word.lower() in text.lower()
    ]
    return max(known, key=lambda found: found[0])[1] if known else None


def read_machine(path: Path) -> RealMachine:
    """The machine of a TOML or JSON file; OSError or ValueError with the file and the rule."""
    data, name = read_limited(path, MAX_MACHINE_BYTES), str(path)
    if path.suffix.lower() == ".toml":
        try:
            record: Any = tomllib.loads(decoded(data, name))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise ValueError(f"{name}: this is no TOML: {error}") from None
    else:
        record = read_plain_text(data, name, is_json=True).value
    with errors_at(name):
        if not isinstance(record, dict) or not isinstance(record.get("numbers"), dict):
            raise ValueError(
                "a machine is an object with texts and numbers, as calibrate writes it"
            )
        title = record.pop("machine", path.stem)
        return machine_of(str(title), record)


def machine_text(machine: RealMachine) -> str:
    """The machine as JSON."""
    return json.dumps(machine.record(), indent=1, ensure_ascii=False) + "\n"


def machine_of(name: str, record: Mapping[str, Any]) -> RealMachine:
    """The machine of a record; ValueError with the place and the rule."""
    known = {*_TEXTS, *_LISTS, "ranks_a_node", "numbers", "graphs", "curves", "machine"}
    for key, value in record.items():
        if key not in known:
            raise ValueError(f"{shown(key)} is nothing that a machine has")
        is_list = isinstance(value, list) and all(isinstance(each, str) for each in value)
        if (key in _TEXTS and not isinstance(value, str)) or (key in _LISTS and not is_list):
            raise ValueError(f"{key} is {shown(value)}: it is text")
    most = record.get("ranks_a_node", 8)
    if not isinstance(most, int) or not 1 <= most <= 2**16:
        raise ValueError(f"ranks_a_node is {shown(most)}: it is a whole number")
    texts = {key: value for key, value in record.items() if key in (known - {*_PARTS, "machine"})}
    for key, kind in _PARTS.items():
        if not isinstance(record.get(key, kind()), kind):
            raise ValueError(f"{key} is {shown(record[key])}: it is {_KINDS[kind]}")
    numbers = {key: _number(key, value) for key, value in record.get("numbers", {}).items()}
    graphs = {key: _graphs(key, value) for key, value in record.get("graphs", {}).items()}
    curves = tuple(_curve(value) for value in record.get("curves", []))
    return RealMachine(name, texts, numbers, graphs, curves)


_PARTS: Final[dict[str, type]] = {"numbers": dict, "graphs": dict, "curves": list}
_KINDS: Final[dict[type, str]] = {dict: "a map", list: "a list"}


def _number(name: str, value: Any) -> Number:
    with errors_at(name):
        if not isinstance(value, dict) or not {"value", "source", "kind"} <= value.keys():
            raise ValueError("a number is {value, source, kind}")
        amount = value["value"]
        listed = amount if isinstance(amount, list) else [amount]
        values = tuple(_float(each) for each in listed)
        if not values:
            raise ValueError("a number has a value")
        pair = value.get("interval")
        if pair is not None and not (isinstance(pair, list) and len(pair) == 2):
            raise ValueError("an interval is two numbers, from and to")
        limits = None if pair is None else (_float(pair[0]), _float(pair[1]))
        is_list = isinstance(amount, list)
        source, kind = str(value["source"]), str(value["kind"])
        return Number(values if is_list else values[0], source, kind, limits)


def _float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{shown(value)} is no number")
    return float(value)


def _graphs(name: str, value: Any) -> dict[str, Any]:
    with errors_at(name):
        if not isinstance(value, dict):
            raise ValueError("graphs are lists of channels and two rates by algorithm")
        for algorithm, graph in value.items():
            if algorithm in ("source", "kind"):
                continue
            if not isinstance(graph, list) or len(graph) != 3 or min(map(_float, graph)) <= 0:
                raise ValueError(f"{algorithm} has not channels and two rates, all more than 0")
        return dict(value)


def _curve(value: Any) -> LogCurve:
    with errors_at("curves"):
        try:
            points = tuple((int(size), float(time)) for size, time in value["points"])
            first, middle, last = map(float, value["law"])
            texts = (str(value[key]) for key in ("method", "source"))
            method, source = texts
            ranks, nodes = int(value["ranks"]), int(value["nodes"])
            curve = LogCurve(
                str(value["collective"]),
                ranks,
                nodes,
                points,
                method,
                (first, middle, last),
                source,
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            raise ValueError(
                "a curve has a collective, ranks, nodes, points, a method, a law and a source"
            ) from None
        sizes = [size for size, _ in points]
        if len(points) < 1 or sizes != sorted(set(sizes)) or sizes[0] < 1 or last <= 0:
            raise ValueError("points of a curve rise in bytes, and its rate is more than 0")
        if not all(0 < time < _MAX_VALUE for _, time in points) or min(first, middle) < 0:
            raise ValueError("times of a curve are more than 0")
        return curve
