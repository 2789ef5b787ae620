"""The canonical text of a fabric: what ``save_fabric`` writes and ``load_fabric`` reads back."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ocs_codesign.fabric.profiles import PROFILES
from ocs_codesign.fabric.states import rotations
from ocs_codesign.files.plain_text import NUMBER
from ocs_codesign.formats.fabric.parts import default_name, numbered_names
from ocs_codesign.formats.fabric.scalars import ROTATIONS
from ocs_codesign.networks.cards import SWITCH
from ocs_codesign.quantities import exact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ocs_codesign.fabric.description import Fabric, Switch, SwitchProfile
    from ocs_codesign.fabric.servers import HostServers
    from ocs_codesign.reconfigure.change import ReconfigurationCost

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
        **({} if fabric.servers is None else {"servers": _servers(fabric.servers)}),
        "reconfiguration": dict(zip(_FLAGS, *flags, strict=True)),
    }


def _servers(servers: HostServers) -> Plain:
    inner = servers.inner
    what = inner.text if inner.bandwidth_Bps is None else bandwidth_text(inner.bandwidth_Bps)
    nics: list[Plain] = []
    for nic in servers.nics:
        part: Plain = {"planes": list(nic.planes)} if nic.planes else {}
        part["gpus"] = list(nic.gpus) or SWITCH
        if nic.host_Bps is not None:
            part["host_bandwidth"] = bandwidth_text(nic.host_Bps)
        nics.append(part)
    return {
        "gpus": inner.num_gpus,
        inner.kind: what,
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
        same = grouped and grouped[-1]["switches"] == plane
        if same and not any("names" in switch for switch in plane):
            grouped[-1]["count"] += 1
        else:
            grouped.append({"count": 1, "switches": plane})
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
    part = _profile(switch.profile)
    part["ports"], part["spares"] = int(switch.num_ports), int(switch.num_spares)
    states = switch.states
    if states is not None:
        is_rotor = switch.num_usable > 1 and np.array_equal(
            states, rotations(switch.num_ports, switch.num_spares)
        )
        part["states"] = ROTATIONS if is_rotor else states.tolist()
    return part


def _profile(profile: SwitchProfile) -> Plain:
    """The known profile by its name, with what differs, or all of it."""
    change = profile.change
    known = PROFILES.get(profile.name)
    if known is not None and known.port_model.can_be_used_as(profile.port_model):
        used = known.used_as(profile.port_model)
        if replace(used, change=change) == profile:
            other = {} if used is known else {"port_model": profile.port_model.value}
            return {"profile": profile.name, **other, **_delta(change, known.change)}
    return {"profile": _written_out(profile)}


def _written_out(profile: SwitchProfile) -> Plain:
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


def _delta(change: ReconfigurationCost, usual: ReconfigurationCost | None) -> Plain:
    part = {}
    if usual is None or change.fixed_s != usual.fixed_s:
        part["delta"] = time_text(change.fixed_s)
    if change.per_circuit_s != (0 if usual is None else usual.per_circuit_s):
        part["delta_per_circuit"] = time_text(change.per_circuit_s)
    return part
