"""Fabric: hosts and planes of optical circuit switches, as values that were checked once."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.cost import CostModel
    from ocs_codesign.reconfigure.change import ReconfigurationCost

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@final
class FieldError(ValueError):
    """A value of a description that breaks a rule: which field, and the value with the rule."""

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(field, rule)
        self.field, self.rule = field, rule

    def __str__(self) -> str:
        return f"{self.field} {self.rule}"


@final
class PortModel(Enum):
    """Which circuits a switch can hold, and so what a plane can carry.

    SIMPLEX: one-way circuits from A ports (hosts send) to B ports (hosts receive); a plane is a
    partial permutation. TWO_SIDED: a circuit joins an A port with a B port and carries both
    directions; every host has one of each in a plane. MATCHING: a circuit joins any two ports and
    carries both directions; every host has one port in a plane. RESTRICTED: one-way as SIMPLEX,
    but the switch can only be in one of its listed states.
    """

    SIMPLEX = "simplex"
    TWO_SIDED = "two-sided"
    MATCHING = "matching"
    RESTRICTED = "restricted"

    @property
    def is_bidirectional(self) -> bool:
        """Whether one circuit carries both directions."""
        return self in (PortModel.TWO_SIDED, PortModel.MATCHING)

    @property
    def has_b_side(self) -> bool:
        """Whether the ports of a switch have two sides."""
        return self is not PortModel.MATCHING

    @property
    def ports_per_host(self) -> int:
        """Transceivers of a host in a plane: one that sends and receives, two of TWO_SIDED."""
        return 2 if self is PortModel.TWO_SIDED else 1

    def can_be_used_as(self, other: PortModel) -> bool:
        """Whether a switch made for this port model can serve another one.

        Switches with two free sides are all crossbars: circulators make one-way circuits two-way,
        and software can restrict them to listed states. The others serve only what they are.
        """
        free = (PortModel.SIMPLEX, PortModel.TWO_SIDED)
        return other is self or (self in free and other is not PortModel.MATCHING)


@final
@dataclass(frozen=True, slots=True)
class Source:
    """Where one number of a profile comes from: the name of its field and the publication."""

    field: str
    text: str


@final
@dataclass(frozen=True, slots=True)
class SwitchProfile:
    """What a make of switch can do; every number has a source.

    ``num_ports`` are A ports, and as many B ports; of a MATCHING switch all ports. ``change`` is
    the dead time of changing circuits, ``insertion_loss_db`` the loss of a circuit,
    ``price_usd_per_port`` that of an A port with its B port (of a MATCHING switch, of a port) or
    None where no price is public. Raises FieldError for an empty name and numbers out of range.
    """

    name: str
    technology: str
    port_model: PortModel
    num_ports: int
    insertion_loss_db: float
    change: ReconfigurationCost
    price_usd_per_port: float | None
    power_w: float | None
    sources: tuple[Source, ...]

    def __post_init__(self) -> None:
        if not self.name:
            raise FieldError("name", "is empty: a profile has a name")
        _check_count("num_ports", self.num_ports, 1)
        _check_number("insertion_loss_db", self.insertion_loss_db)
        for name in ("price_usd_per_port", "power_w"):
            value = getattr(self, name)
            if value is not None:
                _check_number(name, value)

    def used_as(self, port_model: PortModel) -> SwitchProfile:
        """The same switch with its ports used in another way; FieldError if it cannot be."""
        if not self.port_model.can_be_used_as(port_model):
            raise FieldError(
                "port_model",
                f"is {port_model.value}: {self.name} is {self.port_model.value} "
                "and cannot be used so",
            )
        return self if port_model is self.port_model else replace(self, port_model=port_model)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Switch:
    """One switch of a plane: ``num_ports`` a side, the last ``num_spares`` of them kept free.

    ``states`` (int32, states x num_ports) lists what a RESTRICTED switch can be in: state s joins
    A port i + 1 with B port states[s, i] (from 1; 0 for dark). None for the other port models.
    Raises FieldError for more ports than the profile has, spares that leave no port, and states
    that are missing, of another size or join a B port twice.
    """

    name: str
    plane: int
    profile: SwitchProfile
    num_ports: int
    num_spares: int = 0
    states: NDArray[np.int32] | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise FieldError("name", "is empty: a switch has a name")
        _check_count("plane", self.plane, 0)
        _check_count("num_ports", self.num_ports, 1)
        most = self.profile.num_ports
        if self.num_ports > most:
            side = " a side" if self.profile.port_model.has_b_side else ""
            raise FieldError(
                "num_ports", f"is {self.num_ports}: {self.profile.name} has {most} ports{side}"
            )
        _check_count("num_spares", self.num_spares, 0)
        if self.num_spares >= self.num_ports:
            raise FieldError(
                "num_spares",
                f"is {self.num_spares}: it must be less than the {self.num_ports} ports, "
                "as some port must be usable",
            )
        restricted = self.profile.port_model is PortModel.RESTRICTED
        if restricted != (self.states is not None):
            rule = (
                "are missing: a restricted switch lists the states it can be in"
                if restricted
                else f"are given, but a {self.profile.port_model.value} switch has none: "
                "only a restricted one does"
            )
            raise FieldError("states", rule)
        if self.states is not None:
            object.__setattr__(self, "states", _checked_states(self.states, self.num_ports))

    @property
    def num_usable(self) -> int:
        """Ports of a side that are not spare."""
        return self.num_ports - self.num_spares


@final
@dataclass(frozen=True, slots=True, eq=False)
class Fabric:
    """Hosts with a port in every plane, the planes' switches, and what time and light cost.

    ``hosts`` are names, working ones first, then ``num_spare_hosts`` spare ones. ``loss_budget_db``
    is what a link may lose; a circuit loses two connectors of ``connector_loss_db``, the insertion
    loss of every switch that it crosses and, when it is bidirectional, two circulators of
    ``circulator_loss_db``. All switches of a plane have one port model. Raises FieldError for
    names used twice or of several lines, planes without a switch and values out of range.
    """

    name: str
    hosts: tuple[str, ...]
    num_spare_hosts: int
    switches: tuple[Switch, ...]
    cost_model: CostModel
    loss_budget_db: float
    connector_loss_db: float
    circulator_loss_db: float

    def __post_init__(self) -> None:
        if not self.name:
            raise FieldError("name", "is empty: a fabric has a name")
        if not self.hosts:
            raise FieldError("hosts", "are none: a fabric has at least one")
        if not self.switches:
            raise FieldError("switches", "are none: a fabric has at least one plane with a switch")
        for what, names in (("hosts", self.hosts), ("switches", [s.name for s in self.switches])):
            twice = [name for name, count in Counter(names).items() if count > 1]
            if twice:
                raise FieldError(what, f"has two of the name {twice[0]!r}: names are unique")
            unclear = [name for name in names if _CONTROL.search(name)]
            if unclear:
                raise FieldError(what, f"has the name {unclear[0]!r}: names are one line of text")
        if "" in self.hosts:
            raise FieldError("hosts", "has an empty name")
        _check_count("num_spare_hosts", self.num_spare_hosts, 0)
        if self.num_spare_hosts >= len(self.hosts):
            raise FieldError(
                "num_spare_hosts",
                f"is {self.num_spare_hosts}: it must be from 0 to {len(self.hosts) - 1}, "
                "as some host must work",
            )
        for name in ("loss_budget_db", "connector_loss_db", "circulator_loss_db"):
            _check_number(name, getattr(self, name))
        self._check_planes()

    def _check_planes(self) -> None:
        models: dict[int, PortModel] = {}
        for switch in self.switches:
            model = switch.profile.port_model
            if models.setdefault(switch.plane, model) is not model:
                raise FieldError(
                    "switches",
                    f"of plane {switch.plane} mix port models, {models[switch.plane].value} and "
                    f"{model.value}: a plane has one",
                )
        missing = set(range(max(models) + 1)) - set(models)
        if missing:
            raise FieldError(
                "switches",
                f"of plane {min(missing)} are none: planes count from 0 without gaps",
            )

    @property
    def num_planes(self) -> int:
        """Planes, each of which every host has a port in (two if it is TWO_SIDED)."""
        return 1 + max(switch.plane for switch in self.switches)

    @property
    def num_ports_per_host(self) -> int:
        """Transceivers of a host, which share its bandwidth: two in a TWO_SIDED plane, else one."""
        models = {switch.plane: switch.profile.port_model for switch in self.switches}
        return sum(model.ports_per_host for model in models.values())

    @property
    def num_working_hosts(self) -> int:
        """Hosts that are not spare."""
        return len(self.hosts) - self.num_spare_hosts

    def switches_of(self, plane: int) -> tuple[Switch, ...]:
        """The switches of a plane, in order."""
        return tuple(switch for switch in self.switches if switch.plane == plane)

    def port_model(self, plane: int) -> PortModel:
        """The port model of a plane's switches."""
        return self.switches_of(plane)[0].profile.port_model

    def loss_db(self, plane: int, num_stages: int = 1) -> float:
        """The loss of a circuit of a plane through so many of its switches."""
        switches = self.switches_of(plane)
        loss = 2 * self.connector_loss_db
        loss += num_stages * max(switch.profile.insertion_loss_db for switch in switches)
        if self.port_model(plane).is_bidirectional:
            loss += 2 * self.circulator_loss_db
        return loss


def _check_count(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise FieldError(name, f"is {value!r}: it must be a whole number")
    if value < least:
        raise FieldError(name, f"is {value}: it must be at least {least}")


def _check_number(name: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise FieldError(name, f"is {value}: it must be finite and not negative")


def _checked_states(states: NDArray[np.int32], num_ports: int) -> NDArray[np.int32]:
    """States as a table that cannot change, or FieldError with the first wrong one."""
    listed = np.array(states)
    if listed.ndim != 2 or not len(listed) or not np.issubdtype(listed.dtype, np.integer):
        raise FieldError("states", "must be a table of whole numbers, a row a state")
    if listed.shape[1] != num_ports:
        raise FieldError(
            "states",
            f"have {listed.shape[1]} ports in a row: the switch has {num_ports}, each with the B "
            "port it is joined with, or 0",
        )
    outside = np.argwhere((listed < 0) | (listed > num_ports))
    if len(outside):
        state, port = outside[0]
        raise FieldError(
            "states",
            f"join A port {port + 1} with B port {listed[state, port]} in state {state}: "
            f"B ports are 1 to {num_ports}, and 0 is dark",
        )
    ranked = np.sort(listed, axis=1)
    twice = np.argwhere((ranked[:, 1:] == ranked[:, :-1]) & (ranked[:, 1:] > 0))
    if len(twice):
        state, place = twice[0]
        raise FieldError(
            "states",
            f"join B port {ranked[state, place]} twice in state {state}: a port is in one circuit",
        )
    table = listed.astype(np.int32)
    table.setflags(write=False)
    return table
