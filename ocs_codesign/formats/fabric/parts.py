"""From the checked parts of a fabric file to the fabric; errors say which part breaks a rule."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.cost import CostModel
from ocs_codesign.fabric.description import (
    Fabric,
    FieldError,
    PortModel,
    Source,
    Switch,
    SwitchProfile,
)
from ocs_codesign.fabric.profiles import profile_named
from ocs_codesign.fabric.servers import HostNic, HostServers
from ocs_codesign.fabric.states import rotations
from ocs_codesign.formats.fabric.scalars import ROTATIONS, pattern_parts
from ocs_codesign.formats.fabric.schema import MAX_PLANES, MAX_SWITCHES, ProfilePart
from ocs_codesign.formats.server_parts import places
from ocs_codesign.quantities import exact
from ocs_codesign.reconfigure.change import ReconfigurationCost

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ocs_codesign.files.plain_text import Place
    from ocs_codesign.formats.fabric.schema import (
        FabricPart,
        HostServersPart,
        HostsPart,
        PlanePart,
        ReconfigurationPart,
        SwitchPart,
    )

MAX_STATE_ENTRIES = 2**24

KEYS: dict[str, Place] = {
    "num_ports": ("ports",),
    "num_spares": ("spares",),
    "num_spare_hosts": ("hosts", "spares"),
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
            switches += _switches(plane, number, part.reconfiguration)
    circulator_db = part.losses.circulator_db
    models = {switch.plane: switch.profile.port_model for switch in switches}
    if circulator_db is None and any(model.is_bidirectional for model in models.values()):
        raise PartError(
            ("losses", "circulator_db"), "is missing: circuits of a two-way plane have circulators"
        )
    bandwidth = part.node_bandwidth
    if part.port_bandwidth is not None:
        num_ports = sum(model.ports_per_host for model in models.values())
        bandwidth = float(exact(part.port_bandwidth) * num_ports)
    with within():
        return Fabric(
            part.name,
            tuple(_host_names(part.hosts)),
            part.hosts.spares,
            tuple(switches),
            CostModel(part.alpha, bandwidth or 0.0),
            part.losses.budget_db,
            part.losses.connector_db,
            circulator_db or 0.0,
            None if part.servers is None else _servers(part.servers),
        )


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


def _host_names(part: HostsPart) -> list[str] | Iterator[str]:
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


def _switches(plane: PlanePart, number: int, flags: ReconfigurationPart) -> list[Switch]:
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
            first, model = made[0].profile.port_model, made[-1].profile.port_model
            if model is not first:
                raise PartError(
                    ("port_model",),
                    f"is {model.value}, but the plane's first switch is {first.value}: a plane has "
                    "one",
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
        change=ReconfigurationCost(
            change.fixed_s if part.delta is None else part.delta,
            change.per_circuit_s if part.delta_per_circuit is None else part.delta_per_circuit,
            **dict(flags),
        ),
    )


def _written_out(part: ProfilePart) -> SwitchProfile:
    given = dict(part)
    change = ReconfigurationCost(given.pop("delta"), given.pop("delta_per_circuit"))
    sources = tuple(Source(source.field, source.text) for source in given.pop("sources"))
    return SwitchProfile(num_ports=given.pop("ports"), change=change, sources=sources, **given)
