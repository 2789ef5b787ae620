"""From the checked parts of a fabric file to the fabric; errors say which part breaks a rule."""

from __future__ import annotations

from dataclasses import replace
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
from ocs_codesign.fabric.states import rotations
from ocs_codesign.formats.fabric.scalars import ROTATIONS, pattern_parts
from ocs_codesign.formats.fabric.schema import (
    MAX_PLANES,
    MAX_SWITCHES,
    FabricPart,
    HostsPart,
    PlanePart,
    ProfilePart,
    ReconfigurationPart,
    SwitchPart,
)
from ocs_codesign.quantities import exact
from ocs_codesign.reconfigure.change import ReconfigurationCost

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ocs_codesign.files.plain_text import Place

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

    @classmethod
    def of_field(cls, place: Place, error: FieldError) -> PartError:
        """The same error by the keys of the file."""
        return cls((*place, *KEYS.get(error.field, (error.field,))), error.rule)


def fabric_of(part: FabricPart) -> Fabric:
    """The fabric that a file describes; PartError for what its parts together do not allow."""
    _check_sizes(part)
    switches: list[Switch] = []
    plane = 0
    for at, one in enumerate(part.planes):
        for _ in range(one.count):
            switches += _switches(one, plane, ("planes", at, "switches"), part.reconfiguration)
            plane += 1
    circulator_db = part.losses.circulator_db
    if circulator_db is None and any(s.profile.port_model.is_bidirectional for s in switches):
        raise PartError(
            ("losses", "circulator_db"), "is missing: circuits of a two-way plane have circulators"
        )
    ports = {switch.plane: switch.profile.port_model.ports_per_host for switch in switches}
    bandwidth = part.node_bandwidth
    if part.port_bandwidth is not None:
        bandwidth = float(exact(part.port_bandwidth) * sum(ports.values()))
    try:
        return Fabric(
            part.name,
            tuple(_host_names(part.hosts)),
            part.hosts.spares,
            tuple(switches),
            CostModel(part.alpha, bandwidth or 0.0),
            part.losses.budget_db,
            part.losses.connector_db,
            circulator_db or 0.0,
        )
    except FieldError as error:
        raise PartError.of_field((), error) from None


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


def _host_names(part: HostsPart) -> list[str]:
    if part.names is not None:
        return list(part.names)
    return list(numbered_names(part.pattern, part.first, part.count or 0))


def _check_sizes(part: FabricPart) -> None:
    planes = sum(one.count for one in part.planes)
    if planes > MAX_PLANES:
        raise PartError(("planes",), f"are {planes} with their counts: at most {MAX_PLANES}")
    switches = sum(one.count * sum(two.count for two in one.switches) for one in part.planes)
    if switches > MAX_SWITCHES:
        raise PartError(
            ("planes",), f"have {switches} switches with their counts: at most {MAX_SWITCHES}"
        )


def _switches(
    plane_part: PlanePart, plane: int, place: Place, flags: ReconfigurationPart
) -> list[Switch]:
    """The switches of one plane."""
    made: list[Switch] = []
    for at, part in enumerate(plane_part.switches):
        here = (*place, at)
        names = _names(part, plane_part, plane, len(made), here)
        try:
            made += _equal_switches(part, names, plane, here, plane_part.count, flags)
        except FieldError as error:
            raise PartError.of_field(here, error) from None
        model = made[-1].profile.port_model
        if model is not made[0].profile.port_model:
            raise PartError(
                (*here, "port_model"),
                f"is {model.value}, but the plane's first switch is "
                f"{made[0].profile.port_model.value}: a plane has one",
            )
    return made


def _names(
    part: SwitchPart, plane_part: PlanePart, plane: int, first: int, here: Place
) -> list[str]:
    if part.names is None:
        return [default_name(plane, first + number) for number in range(part.count)]
    if plane_part.count > 1:
        raise PartError((*here, "names"), "cannot be given where the plane's count is over 1")
    if len(part.names) != part.count:
        raise PartError((*here, "names"), f"are {len(part.names)}, but count is {part.count}")
    return list(part.names)


def _equal_switches(
    part: SwitchPart,
    names: list[str],
    plane: int,
    here: Place,
    num_planes: int,
    flags: ReconfigurationPart,
) -> list[Switch]:
    profile = _profile(part, here, flags)
    ports = profile.num_ports if part.ports is None else part.ports
    if part.states is None:
        return [Switch(name, plane, profile, ports, part.spares) for name in names]
    # The numbers are checked first, as those of a switch without states.
    Switch(names[0], plane, replace(profile, port_model=PortModel.SIMPLEX), ports, part.spares)
    states = _states(part.states, part, ports, (*here, "states"), num_planes)
    return [Switch(name, plane, profile, ports, part.spares, states) for name in names]


def _states(
    given: Any, part: SwitchPart, ports: int, place: Place, num_planes: int
) -> NDArray[np.int32]:
    rows = max(ports - part.spares - 1, 0) if given == ROTATIONS else len(given)
    entries = rows * ports * part.count * num_planes
    if entries > MAX_STATE_ENTRIES:
        raise PartError(
            place, f"have {entries} entries over all switches: at most {MAX_STATE_ENTRIES}"
        )
    if given == ROTATIONS:
        try:
            return rotations(ports, part.spares)
        except ValueError as error:
            raise PartError(place, f"are {ROTATIONS}: {error}") from None
    for state, row in enumerate(given):
        if len(row) != ports:
            raise PartError(
                (*place, state), f"has {len(row)} entries, but {ports} ports are in service"
            )
    return np.array(given, dtype=np.int32).reshape(rows, ports)


def _profile(part: SwitchPart, here: Place, flags: ReconfigurationPart) -> SwitchProfile:
    """The profile as it is used: with another port model and dead time if the part says so."""
    if isinstance(part.profile, ProfilePart):
        try:
            profile = _written_out(part.profile)
        except FieldError as error:
            raise PartError.of_field((*here, "profile"), error) from None
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
            cold_start=flags.cold_start,
            overlap=flags.overlap,
            barrier=flags.barrier,
        ),
    )


def _written_out(part: ProfilePart) -> SwitchProfile:
    return SwitchProfile(
        part.name,
        part.technology,
        part.port_model,
        part.ports,
        part.insertion_loss_db,
        ReconfigurationCost(part.delta, part.delta_per_circuit),
        part.price_usd_per_port,
        part.power_w,
        tuple(Source(source.field, source.text) for source in part.sources),
    )
