"""Fabric files: a fabric described in YAML or JSON, read with every rule checked, and written.

``schema.json_schema`` documents the keys. Quantities are text with their unit, as in ``10us`` and
``400Gbps``; ``node_bandwidth`` is the egress of a host over all its ports, ``port_bandwidth`` that
of one of them.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from dataclasses import asdict, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import chain, groupby, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, final

import numpy as np

from ocs_codesign.circuits.change import Change
from ocs_codesign.core.cost import CostModel
from ocs_codesign.core.files.archives import check_size, read_limited
from ocs_codesign.core.files.atomic import write_files
from ocs_codesign.core.files.plain_text import NUMBER, checked_part, file_error, read_plain_text
from ocs_codesign.core.networks.servers import SWITCH
from ocs_codesign.core.quantities import exact
from ocs_codesign.core.registry import provided
from ocs_codesign.core.shown import shown
from ocs_codesign.fabric.description import (
    Fabric,
    FieldError,
    PortModel,
    Source,
    Switch,
    SwitchProfile,
    rotations,
)
from ocs_codesign.fabric.files.schema import (
    MAX_PLANES,
    MAX_SWITCHES,
    ROTATIONS,
    ProfilePart,
    pattern_parts,
    places,
)
from ocs_codesign.fabric.profiles import PROFILES, HostNic, HostServers, profile_named

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.core.files.plain_text import Place, PlainText
    from ocs_codesign.fabric.files.schema import (
        FabricPart,
        HostServersPart,
        HostsPart,
        PlanePart,
        ReconfigurationPart,
        SwitchPart,
    )


MAX_FABRIC_BYTES = 4 * 2**20
OF_FABRICS = {"hosts", "planes"}


def load_fabric(path: str | Path) -> Fabric:
    """The fabric in a file, JSON if its suffix says so and YAML otherwise.

    Raises OSError if the file cannot be read, and ValueError with the file, the line (of YAML), the
    path in it, the value and the rule for anything else.
    """
    return fabric_of_plain(*described_plain(path, MAX_FABRIC_BYTES))


def described_plain(path: str | Path, most_bytes: int) -> tuple[PlainText, str]:
    """The plain data in a file, or of a builder of sites such as dgx_h100(64), and its name."""
    name, path = str(path), Path(path)
    if name.rstrip().endswith(")") and not path.exists():
        return read_plain_text(provided("site of a builder")(name), name, is_json=False), name
    data = read_limited(path, most_bytes)
    return read_plain_text(data, name, is_json=path.suffix.lower() == ".json"), name


def parse_fabric(data: bytes, name: str, *, is_json: bool = False) -> Fabric:
    """The fabric in the content of a file called ``name``; ValueError as in ``load_fabric``.

    >>> parse_fabric(b"name: lab\\nhosts: 64", "lab.yaml")
    Traceback (most recent call last):
    ValueError: lab.yaml, line 2: hosts is 64: it must be a map of keys to values \
(and 3 more errors)
    """
    check_size(len(data), name, MAX_FABRIC_BYTES)
    return fabric_of_plain(read_plain_text(data, name, is_json=is_json), name)


def is_site(value: Any) -> bool:
    """Whether plain data describe a site, or servers alone."""
    if not isinstance(value, dict):
        return False
    return value.get("version") == 2 or ("servers" in value and not value.keys() & OF_FABRICS)


def fabric_of_plain(plain: PlainText, name: str) -> Fabric:
    """The fabric that plain data describe, or of the site that they do; ValueError as loaded."""
    if is_site(plain.value):
        found: Fabric = provided("fabric of a site")(plain, name)
        return found
    from ocs_codesign.fabric.files.schema import TAGS, FabricPart, keys_at

    part = checked_part(
        plain, name, FabricPart, keys_at, "fabric", tags=TAGS, keys="name and so on"
    )
    try:
        return fabric_of(part)
    except PartError as error:
        raise file_error(name, plain, error.place, f" {error.rule}", "the fabric") from None


def fabric_text(fabric: Fabric, *, as_json: bool = False) -> str:
    """The canonical text of a fabric, YAML or JSON, which ``parse_fabric`` reads back.

    Raises ValueError for a fabric that a file cannot describe, such as a name of two lines.
    """
    plain = plain_fabric(fabric)
    text = json.dumps(plain, indent=2, ensure_ascii=False) + "\n" if as_json else yaml_text(plain)
    again = parse_fabric(text.encode(), f"fabric {shown(fabric.name)}", is_json=as_json)
    if plain_fabric(again) != plain:
        raise ValueError(f"fabric {shown(fabric.name)} is not the same when it is read back")
    return text


def save_fabric(fabric: Fabric, path: str | Path) -> None:
    """Write a fabric's canonical text: JSON if the suffix says so, YAML otherwise."""
    path = Path(path)
    text = fabric_text(fabric, as_json=path.suffix.lower() == ".json")
    write_files({path: text.encode()})


# From the checked parts of a fabric file to the fabric; errors say which part breaks a rule.


MAX_STATE_ENTRIES = 2**24

KEYS: dict[str, Place] = {
    "num_ports": ("ports",),
    "num_spares": ("spares",),
    "num_spare_hosts": ("hosts", "spares"),
    "plane_hosts": ("planes",),
    "switches": ("planes",),
    "loss_budget_db": ("losses", "budget_db"),
    "connector_loss_db": ("losses", "connector_db"),
    "circulator_loss_db": ("losses", "circulator_db"),
}
"""Keys in the file of the fields that have another name."""


@final
class PartError(ValueError):
    """A rule that a part of the file breaks: its place and the value with the rule."""

    def __init__(self, place: Place, rule: str) -> None:
        super().__init__(place, rule)
        self.place, self.rule = place, rule


@contextmanager
def within(*place: str | int) -> Iterator[None]:
    """Errors of what is at a place of the file: fields by their keys, places from further out."""
    try:
        yield
    except FieldError as error:
        keys = KEYS.get(error.field, (error.field,))
        raise PartError((*place, *keys), error.rule) from None
    except PartError as error:
        raise PartError((*place, *error.place), error.rule) from None


def fabric_of(part: FabricPart) -> Fabric:
    """The fabric that a file describes; PartError for what its parts together do not allow."""
    _check_sizes(part)
    switches: list[Switch] = []
    planes = (repeat((at, plane), plane.count) for at, plane in enumerate(part.planes))
    for number, (at, plane) in enumerate(chain.from_iterable(planes)):
        with within("planes", at, "switches"):
            switches += _switches(plane, number, part.reconfiguration, switches)
    circulator_db = part.losses.circulator_db
    model = switches[0].profile.port_model
    if circulator_db is None and model.is_bidirectional:
        raise PartError(
            ("losses", "circulator_db"), "is missing: circuits of a two-way plane have circulators"
        )
    bandwidth = part.node_bandwidth
    if part.port_bandwidth is not None:
        num_ports = (1 + switches[-1].plane) * model.ports_per_host
        bandwidth = float(exact(part.port_bandwidth) * num_ports)
    with within():
        return Fabric(
            part.name,
            tuple(host_names(part.hosts)),
            part.hosts.spares,
            tuple(switches),
            CostModel(part.alpha, bandwidth or 0.0),
            part.losses.budget_db,
            part.losses.connector_db,
            circulator_db or 0.0,
            None if part.servers is None else _servers(part.servers),
            tuple((name, usd) for name, usd in part.prices or () if usd is not None),
            tuple(part.failed_ports),
            _plane_hosts(part),
        )


def _plane_hosts(part: FabricPart) -> tuple[tuple[str, ...] | None, ...]:
    """The hosts of every plane, nothing where all planes are of all."""
    if all(plane.hosts is None for plane in part.planes):
        return ()
    each = (repeat(plane.hosts, plane.count) for plane in part.planes)
    return tuple(None if hosts is None else tuple(hosts) for hosts in chain.from_iterable(each))


def _servers(part: HostServersPart) -> HostServers:
    inner = part.inner()
    try:
        each = places(part.nics, inner)
    except ValueError as error:
        raise PartError(("servers", "nics"), f"do not fit: {error}") from None
    cards = [card for card in part.nics for _ in range(card.count)]
    nics = tuple(
        HostNic(tuple(card.planes), gpus, card.host_Bps)
        for card, gpus in zip(cards, each, strict=True)
    )
    return HostServers(inner, nics, part.hosts, part.wiring, part.relay)


def default_name(plane: int, switch: int) -> str:
    """The name of a switch that is given none."""
    return f"p{plane}-s{switch}"


def numbered_names(pattern: str, first: int, count: int) -> Iterator[str]:
    """Names by a pattern.

    >>> list(numbered_names("host{:03d}", 9, 2))
    ['host009', 'host010']
    """
    before, width, after = pattern_parts(pattern)
    return (f"{before}{number:0{width}d}{after}" for number in range(first, first + count))


def host_names(part: HostsPart) -> list[str] | Iterator[str]:
    """The names of all hosts, spare ones too."""
    if part.names is not None:
        return part.names
    return numbered_names(part.pattern, part.first, part.count or 0)


def _check_sizes(part: FabricPart) -> None:
    planes = sum(plane.count for plane in part.planes)
    if planes > MAX_PLANES:
        raise PartError(("planes",), f"are {planes} with their counts: at most {MAX_PLANES}")
    switches = sum(plane.count * switch.count for plane in part.planes for switch in plane.switches)
    if switches > MAX_SWITCHES:
        raise PartError(
            ("planes",), f"have {switches} switches with their counts: at most {MAX_SWITCHES}"
        )


def _switches(
    plane: PlanePart, number: int, flags: ReconfigurationPart, others: Sequence[Switch]
) -> list[Switch]:
    made: list[Switch] = []
    for at, part in enumerate(plane.switches):
        with within(at):
            names = part.names
            if names is None:
                names = [default_name(number, len(made) + place) for place in range(part.count)]
            elif plane.count > 1:
                raise PartError(("names",), "cannot be given where the plane's count is over 1")
            elif len(names) != part.count:
                raise PartError(("names",), f"are {len(names)}, but count is {part.count}")
            made += _equal_switches(part, names, number, plane.count, flags)
            first = (*others, *made)[0].profile.port_model
            model = made[-1].profile.port_model
            if model is not first:
                raise PartError(
                    ("port_model",),
                    f"is {model.value}, but the fabric's first switch is {first.value}: all its "
                    "switches are used alike",
                )
    return made


def _equal_switches(
    part: SwitchPart, names: list[str], plane: int, num_planes: int, flags: ReconfigurationPart
) -> list[Switch]:
    profile = _profile(part, flags)
    ports = profile.num_ports if part.ports is None else part.ports
    states = None
    if part.states is not None:
        # The numbers are checked first, as those of a switch without states.
        Switch(names[0], plane, replace(profile, port_model=PortModel.SIMPLEX), ports, part.spares)
        with within("states"):
            states = _states(part.states, part, ports, num_planes)
    return [Switch(name, plane, profile, ports, part.spares, states) for name in names]


def _states(given: Any, part: SwitchPart, ports: int, num_planes: int) -> NDArray[np.int32]:
    rows = max(ports - part.spares - 1, 0) if given == ROTATIONS else len(given)
    entries = rows * ports * part.count * num_planes
    if entries > MAX_STATE_ENTRIES:
        raise PartError(
            (), f"have {entries} entries over all switches: at most {MAX_STATE_ENTRIES}"
        )
    if given == ROTATIONS:
        try:
            return rotations(ports, part.spares)
        except ValueError as error:
            raise PartError((), f"are {ROTATIONS}: {error}") from None
    for state, row in enumerate(given):
        if len(row) != ports:
            raise PartError((state,), f"has {len(row)} entries, but {ports} ports are in service")
    return np.array(given, dtype=np.int32).reshape(rows, ports)


def _profile(part: SwitchPart, flags: ReconfigurationPart) -> SwitchProfile:
    """The profile as it is used: with another port model and dead time if the part says so."""
    if isinstance(part.profile, ProfilePart):
        with within("profile"):
            profile = _written_out(part.profile)
    else:
        profile = profile_named(part.profile)
    if part.port_model is not None:
        profile = profile.used_as(part.port_model)
    change = profile.change
    return replace(
        profile,
        change=Change(
            change.fixed_s if part.delta is None else part.delta,
            change.per_circuit_s if part.delta_per_circuit is None else part.delta_per_circuit,
            **dict(flags),
        ),
    )


def _written_out(part: ProfilePart) -> SwitchProfile:
    given = dict(part)
    change = Change(given.pop("delta"), given.pop("delta_per_circuit"))
    sources = tuple(Source(source.field, source.text) for source in given.pop("sources"))
    return SwitchProfile(num_ports=given.pop("ports"), change=change, sources=sources, **given)


# The canonical text of a fabric: what ``save_fabric`` writes and ``load_fabric`` reads back.


Plain: TypeAlias = dict[str, Any]

_DIGITS = re.compile(r"([^{}]*?)([0-9]{1,9})([^0-9{}]*)")
_FLAGS = ("cold_start", "overlap", "barrier")
_TIMES = {unit: Fraction(1, 1000**at) for at, unit in enumerate(("s", "ms", "us", "ns", "ps"))}
_BANDWIDTHS = {"Tbps": 10**12, "Gbps": 10**9, "Mbps": 10**6, "kbps": 10**3, "bps": 1}


def plain_fabric(fabric: Fabric) -> Plain:
    """A fabric as maps, lists and scalars; ValueError for what a file cannot say.

    That are times and bandwidths without a finite decimal, and switches of which some overlap
    their changes and others do not.
    """
    flags = {tuple(getattr(s.profile.change, flag) for flag in _FLAGS) for s in fabric.switches}
    if len(flags) > 1:
        raise ValueError(f"switches differ in {', '.join(_FLAGS)}: in a file they have them alike")
    return {
        "version": 1,
        "name": fabric.name,
        "hosts": _hosts(fabric),
        "planes": _planes(fabric),
        "alpha": time_text(exact(fabric.cost_model.alpha_s)),
        "node_bandwidth": bandwidth_text(exact(fabric.cost_model.node_bandwidth_Bps)),
        "losses": {
            "connector_db": float(fabric.connector_loss_db),
            "circulator_db": float(fabric.circulator_loss_db),
            "budget_db": float(fabric.loss_budget_db),
        },
        **({} if fabric.servers is None else {"servers": _plain_servers(fabric.servers)}),
        **({"prices": dict(fabric.prices)} if fabric.prices else {}),
        **({"failed_ports": list(fabric.failed_ports)} if fabric.failed_ports else {}),
        "reconfiguration": dict(zip(_FLAGS, *flags, strict=True)),
    }


def _plain_servers(servers: HostServers) -> Plain:
    inner = servers.inner
    joined = {inner.kind: inner.text}
    if inner.bandwidth_Bps is not None:  # and none where there is nothing to join
        rate = inner.bandwidth_Bps
        joined = {inner.kind: bandwidth_text(rate)} if rate else {}
    nics: list[Plain] = []
    for nic in servers.nics:
        part: Plain = {"planes": list(nic.planes)} if nic.planes else {}
        part["gpus"] = list(nic.gpus) or SWITCH
        if nic.host_Bps is not None:
            part["host_bandwidth"] = bandwidth_text(nic.host_Bps)
        nics.append(part)
    return {
        "gpus": inner.num_gpus,
        **joined,
        "hosts": servers.hosts_are,
        "nics": nics,
        "wiring": servers.wiring,
        "relay": servers.relay,
    }


def yaml_text(plain: Plain) -> str:
    """Plain data as YAML, the same text for the same data."""
    import yaml

    dumper_type: Any = type("Dumper", (yaml.SafeDumper,), {"ignore_aliases": lambda *_: True})

    def text(dumper: Any, value: str) -> Any:
        style = "'" if NUMBER.fullmatch(value) else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    def sequence(dumper: Any, value: list[Any]) -> Any:
        flow = not any(isinstance(entry, (dict, list)) for entry in value)
        return dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=flow)

    dumper_type.add_representer(str, text)
    dumper_type.add_representer(list, sequence)
    dumped: str = yaml.dump(
        plain, Dumper=dumper_type, sort_keys=False, allow_unicode=True, width=100
    )
    return dumped


def time_text(seconds: Fraction) -> str:
    """A time in the unit that suits it, exactly.

    >>> time_text(Fraction(1, 40)), time_text(Fraction(0)), time_text(Fraction(384, 10**11))
    ('25ms', '0s', '3.84ns')
    """
    return _in_units(seconds, _TIMES) if seconds else "0s"


def bandwidth_text(bytes_per_s: Fraction) -> str:
    """A bandwidth in bits per second, exactly.

    >>> bandwidth_text(Fraction(50 * 10**9))
    '400Gbps'
    """
    return _in_units(bytes_per_s * 8, _BANDWIDTHS)


def _in_units(value: Fraction, units: Mapping[str, Fraction] | Mapping[str, int]) -> str:
    """The value in the first, largest unit of which it is at least one, else in the last."""
    unit = next((unit for unit, size in units.items() if value >= size), [*units][-1])
    scaled = value / units[unit]
    with localcontext() as context:
        context.prec = 60
        decimal = Decimal(scaled.numerator) / Decimal(scaled.denominator)
    if Fraction(decimal) != scaled:
        raise ValueError(f"{scaled} has no finite decimal: a file cannot say it")
    return f"{decimal.normalize():f}{unit}"


def _hosts(fabric: Fabric) -> Plain:
    """A pattern, with leading zeros only where they are needed, or all names."""
    names, spares = fabric.hosts, fabric.num_spare_hosts
    match = _DIGITS.fullmatch(names[0])
    if match is not None and len(names) > 1:
        before, digits, after = match.groups()
        for number in ("{}", f"{{:0{len(digits)}d}}"):
            pattern, first = f"{before}{number}{after}", int(digits)
            if tuple(numbered_names(pattern, first, len(names))) == names:
                return {"count": len(names), "pattern": pattern, "first": first, "spares": spares}
    return {"names": list(names), "spares": spares}


def _planes(fabric: Fabric) -> list[Plain]:
    """Planes in order, those that are alike in one entry with their count."""
    grouped: list[Plain] = []
    for number in range(fabric.num_planes):
        plane = _plane(fabric.switches_of(number))
        hosts = fabric.plane_hosts[number] if fabric.plane_hosts else None
        named = {} if hosts is None else {"hosts": list(hosts)}
        last = grouped[-1] if grouped else {}
        same = last.get("switches") == plane and last.get("hosts") == named.get("hosts")
        if same and not any("names" in switch for switch in plane):
            grouped[-1]["count"] += 1
        else:
            grouped.append({"count": 1, "switches": plane, **named})
    return grouped


def _plane(switches: tuple[Switch, ...]) -> list[Plain]:
    made: list[Plain] = []
    at = 0
    for part, run in groupby(map(_switch, switches)):
        count = len(list(run))
        names = [switch.name for switch in switches[at : at + count]]
        defaults = [default_name(switches[0].plane, at + number) for number in range(count)]
        named = {} if names == defaults else {"names": names}
        made.append({"profile": part["profile"], "count": count, **named, **part})
        at += count
    return made


def _switch(switch: Switch) -> Plain:
    part = _plain_profile(switch.profile)
    part["ports"], part["spares"] = int(switch.num_ports), int(switch.num_spares)
    states = switch.states
    if states is not None:
        is_rotor = switch.num_usable > 1 and np.array_equal(
            states, rotations(switch.num_ports, switch.num_spares)
        )
        part["states"] = ROTATIONS if is_rotor else states.tolist()
    return part


def _plain_profile(profile: SwitchProfile) -> Plain:
    """The known profile by its name, with what differs, or all of it."""
    change = profile.change
    known = PROFILES.get(profile.name)
    if known is not None and known.port_model.can_be_used_as(profile.port_model):
        used = known.used_as(profile.port_model)
        if replace(used, change=change) == profile:
            other = {} if used is known else {"port_model": profile.port_model.value}
            return {"profile": profile.name, **other, **_delta(change, known.change)}
    return {"profile": _plain_written_out(profile)}


def _plain_written_out(profile: SwitchProfile) -> Plain:
    part: Plain = {
        "name": profile.name,
        "technology": profile.technology,
        "port_model": profile.port_model.value,
        "ports": int(profile.num_ports),
        "insertion_loss_db": float(profile.insertion_loss_db),
        **_delta(profile.change, None),
    }
    for key in ("price_usd_per_port", "power_w"):
        if getattr(profile, key) is not None:
            part[key] = float(getattr(profile, key))
    if profile.sources:
        part["sources"] = [asdict(source) for source in profile.sources]
    return part


def _delta(change: Change, usual: Change | None) -> Plain:
    part = {}
    if usual is None or change.fixed_s != usual.fixed_s:
        part["delta"] = time_text(change.fixed_s)
    if change.per_circuit_s != (0 if usual is None else usual.per_circuit_s):
        part["delta_per_circuit"] = time_text(change.per_circuit_s)
    return part
