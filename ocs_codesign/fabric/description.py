"""Fabric: hosts and planes of optical circuit switches, as values that were checked once."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.shown import Shown
from ocs_codesign.fabric.infeasible import InfeasibleError, Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.circuits.change import Change
    from ocs_codesign.core.cost import CostModel
    from ocs_codesign.fabric.profiles import HostServers


# States that a restricted switch can be in: tables of ports, and the shifts of rotors.


def rotations(num_ports: int, num_spares: int = 0) -> NDArray[np.int32]:
    """All cyclic shifts but the identity of the usable ports, as ``Switch.states``; spares dark.

    Together they join every two ports, each way once, as rotors and gratings do. Raises ValueError
    for fewer than two usable ports.

    >>> rotations(4, 1).tolist()
    [[2, 3, 1, 0], [3, 1, 2, 0]]
    """
    usable = num_ports - num_spares
    if usable < 2 or num_spares < 0:
        raise ValueError(f"{usable} usable ports have no rotations: at least 2 are needed")
    port = np.arange(usable)
    states = np.zeros((usable - 1, num_ports), dtype=np.int32)
    states[:, :usable] = 1 + (port + np.arange(1, usable)[:, None]) % usable
    return states


def checked_states(states: ArrayLike, num_ports: int) -> NDArray[np.int32]:
    """States (see ``Switch``) as a table that cannot change, or ValueError with the rule broken."""
    listed = np.array(states)
    if listed.ndim != 2 or not len(listed) or not np.issubdtype(listed.dtype, np.integer):
        raise ValueError("must be a table of whole numbers, a row a state")
    if listed.shape[1] != num_ports:
        raise ValueError(
            f"have {listed.shape[1]} ports in a row: the switch has {num_ports}, each with the B "
            "port it is joined with, or 0"
        )
    outside = np.argwhere((listed < 0) | (listed > num_ports))
    if len(outside):
        state, port = outside[0]
        raise ValueError(
            f"join A port {port + 1} with B port {listed[state, port]} in state {state}: "
            f"B ports are 1 to {num_ports}, and 0 is dark"
        )
    ranked = np.sort(listed, axis=1)
    twice = np.argwhere((ranked[:, 1:] == ranked[:, :-1]) & (ranked[:, 1:] > 0))
    if len(twice):
        state, place = twice[0]
        raise ValueError(
            f"join B port {ranked[state, place]} twice in state {state}: a port is in one circuit"
        )
    table = listed.astype(np.int32)
    table.setflags(write=False)
    return table


INLINE = (
    "; no known make joins any two of its ports, so describe one in the fabric file: profile: "
    "{name: mine, technology: robotic, port_model: matching, ports: 64, insertion_loss_db: 1, "
    "delta: 25ms}"
)
"""How to get a switch that no profile is of."""

PRICED = ("nic", "transceiver", "circulator", "fibre")
"""What a fabric may have prices of its own for, in US dollars each."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PORT = re.compile(r"([1-9][0-9]{0,6})([AB]?)")


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

    ``is_bidirectional``: one circuit carries both directions. ``has_b_side``: the ports of a
    switch have two sides. ``strands``: what a host's strands to A and to B ports are called.
    """

    is_bidirectional: bool
    has_b_side: bool
    strands: tuple[str, str]

    SIMPLEX = "simplex"
    TWO_SIDED = "two-sided", True, True, ("a", "b")
    MATCHING = "matching", True, False, ("x", "x")
    RESTRICTED = "restricted"

    def __new__(
        cls,
        name: str,
        is_bidirectional: bool = False,
        has_b_side: bool = True,
        strands: tuple[str, str] = ("tx", "rx"),
    ) -> PortModel:
        """A member whose value is its name."""
        model = object.__new__(cls)
        model._value_ = name
        model.is_bidirectional, model.has_b_side = is_bidirectional, has_b_side
        model.strands = strands
        return model

    @property
    def sides(self) -> tuple[str, ...]:
        """What is behind the number of a port: its side, or nothing."""
        return ("A", "B") if self.has_b_side else ("",)

    def port(self, number: int, side: int) -> str:
        """A port of a switch as in ``1A``; those of a switch without sides are plain numbers.

        >>> PortModel.SIMPLEX.port(3, 1), PortModel.MATCHING.port(3, 1)
        ('3B', '3')
        """
        return f"{number}{'AB'[side]}" if self.has_b_side else str(number)

    def joined(self, a_port: int, b_port: int) -> str:
        """A cross-connect of two ports.

        >>> PortModel.SIMPLEX.joined(1, 2), PortModel.MATCHING.joined(1, 2)
        ('1A-2B', '1-2')
        """
        return f"{self.port(a_port, 0)}-{self.port(b_port, 1)}"

    @property
    def can_turn(self) -> bool:
        """Whether a circuit can be turned, so that its ends change sides."""
        return self.is_bidirectional and self.has_b_side

    @property
    def has_states(self) -> bool:
        """Whether a switch lists the states that it can be in."""
        return self is PortModel.RESTRICTED

    @property
    def ports_per_host(self) -> int:
        """Transceivers of a host in a plane: one that sends and receives, two of TWO_SIDED."""
        return 2 if self.can_turn else 1

    def can_be_used_as(self, other: PortModel) -> bool:
        """Whether a switch made for this port model can serve another one.

        Switches with two free sides are all crossbars: circulators make one-way circuits two-way,
        and software can restrict them to listed states. The others serve only what they are.
        """
        return other is self or (self.has_b_side and not self.has_states and other.has_b_side)


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
    change: Change
    price_usd_per_port: float | None
    power_w: float | None
    sources: tuple[Source, ...]

    def __post_init__(self) -> None:
        _require("name", self.name, "is empty: a profile has a name")
        _check_count("num_ports", self.num_ports, 1)
        _check_number("insertion_loss_db", self.insertion_loss_db)
        for name in ("price_usd_per_port", "power_w"):
            value = getattr(self, name)
            if value is not None:
                _check_number(name, value)

    def circuit_loss_db(
        self, connector_db: float, circulator_db: float, num_stages: int = 1
    ) -> float:
        """The loss of a circuit through so many such switches, from connector to connector."""
        loss_db = 2 * connector_db + num_stages * self.insertion_loss_db
        return loss_db + 2 * circulator_db if self.port_model.is_bidirectional else loss_db

    def used_as(self, port_model: PortModel) -> SwitchProfile:
        """The same switch with its ports used in another way; FieldError if it cannot be."""
        if not self.port_model.can_be_used_as(port_model):
            raise FieldError(
                "port_model",
                f"is {port_model.value}: {self.name} is {self.port_model.value} "
                f"and cannot be used so{INLINE if port_model is PortModel.MATCHING else ''}",
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
        _require("name", self.name, "is empty: a switch has a name")
        _check_count("plane", self.plane, 0)
        _check_count("num_ports", self.num_ports, 1)
        most, model = self.profile.num_ports, self.profile.port_model
        side = " a side" if model.has_b_side else ""
        rule = f"is {self.num_ports}: {self.profile.name} has {most} ports{side}"
        _require("num_ports", self.num_ports <= most, rule)
        _check_count("num_spares", self.num_spares, 0)
        rule = f"is {self.num_spares}: it must be less than the {self.num_ports} ports, "
        rule += "as some port must be usable"
        _require("num_spares", self.num_spares < self.num_ports, rule)
        rule = f"are missing: a {model.value} switch lists the states it can be in"
        _require("states", self.states is not None or not model.has_states, rule)
        rule = f"are given, but a {model.value} switch has none: only a restricted one does"
        _require("states", self.states is None or model.has_states, rule)
        if self.states is not None:
            try:
                object.__setattr__(self, "states", checked_states(self.states, self.num_ports))
            except ValueError as error:
                raise FieldError("states", str(error)) from None

    @property
    def num_usable(self) -> int:
        """Ports of a side that are not spare."""
        return self.num_ports - self.num_spares


@final
@dataclass(frozen=True, slots=True, eq=False)
class Fabric(Shown):
    """Hosts with a port in every plane, the planes' switches, and what time and light cost.

    ``hosts`` are names, working ones first, then ``num_spare_hosts`` spare ones. ``loss_budget_db``
    is what a link may lose; a circuit loses two connectors of ``connector_loss_db``, the insertion
    loss of every switch that it crosses and, when it is bidirectional, two circulators of
    ``circulator_loss_db``. All switches have one port model. ``servers`` says what the hosts are
    inside, if anything is said, ``prices`` what parts of one's own cost (see PRICED).
    ``failed_ports`` are known beforehand, as in ``p0-s0:3A``. ``plane_hosts`` are the hosts that
    have ports in a plane, None for all, and empty if all planes are of all. Raises FieldError for
    names used twice, by a host and a switch too, or of several lines, port models that differ,
    planes without a switch, ports and hosts that there are not and values out of range.
    """

    name: str
    hosts: tuple[str, ...]
    num_spare_hosts: int
    switches: tuple[Switch, ...]
    cost_model: CostModel
    loss_budget_db: float
    connector_loss_db: float
    circulator_loss_db: float
    servers: HostServers | None = None
    prices: tuple[tuple[str, float], ...] = ()
    failed_ports: tuple[str, ...] = ()
    plane_hosts: tuple[tuple[str, ...] | None, ...] = ()

    def __repr__(self) -> str:
        return (
            f"Fabric({self.name}: {len(self.hosts) - self.num_spare_hosts} hosts, "
            f"{self.num_spare_hosts} spare, {len(self.switches)} switches)"
        )

    def __post_init__(self) -> None:
        _require("name", self.name, "is empty: a fabric has a name")
        _require("hosts", self.hosts, "are none: a fabric has at least one")
        rule = "are none: a fabric has at least one plane with a switch"
        _require("switches", self.switches, rule)
        for what, names in (("hosts", self.hosts), ("switches", [s.name for s in self.switches])):
            twice = [name for name, count in Counter(names).items() if count > 1]
            if twice:
                raise FieldError(what, f"has two of the name {twice[0]!r}: names are unique")
            unclear = [name for name in names if _CONTROL.search(name)]
            if unclear:
                raise FieldError(what, f"has the name {unclear[0]!r}: names are one line of text")
        _require("hosts", "" not in self.hosts, "has an empty name")
        both = sorted({switch.name for switch in self.switches}.intersection(self.hosts))
        rule = f"has {'/'.join(both)!r}, which is a switch too: device names are unique"
        _require("hosts", not both, rule)
        _check_count("num_spare_hosts", self.num_spare_hosts, 0)
        rule = f"is {self.num_spare_hosts}: it must be from 0 to {len(self.hosts) - 1}, "
        rule += "as some host must work"
        _require("num_spare_hosts", self.num_spare_hosts < len(self.hosts), rule)
        for name in ("loss_budget_db", "connector_loss_db", "circulator_loss_db"):
            _check_number(name, getattr(self, name))
        self._check_planes()
        for field, given in (
            ("prices", [name for name, _ in self.prices]),
            ("failed_ports", self.failed_ports),
        ):
            twice = [name for name, count in Counter(given).items() if count > 1]
            _require(field, not twice, f"has {twice[:1]} twice")
        for name, price in self.prices:
            _require("prices", name in PRICED, f"has {name!r}: they are of {', '.join(PRICED)}")
            _check_number("prices", price)
        self.failed_places()
        self._check_plane_hosts()
        if self.servers is not None:
            try:
                self.servers.check(self.num_planes, self.num_working_hosts)
            except ValueError as error:
                raise FieldError("servers", f"do not fit: {error}") from None

    def _check_planes(self) -> None:
        for switch in self.switches:
            model = switch.profile.port_model
            rule = f"of planes {self.switches[0].plane} and {switch.plane} mix port models, "
            rule += f"{self.port_model.value} and {model.value}: a fabric has one"
            _require("switches", model is self.port_model, rule)
        planes = {switch.plane for switch in self.switches}
        missing = min(set(range(max(planes) + 2)) - planes)
        rule = f"of plane {missing} are none: planes count from 0 without gaps"
        _require("switches", missing > max(planes), rule)

    def _check_plane_hosts(self) -> None:
        if not self.plane_hosts:
            return
        field, there = "plane_hosts", set(self.hosts)
        _require(field, len(self.plane_hosts) == self.num_planes, "must be given for every plane")
        for plane, names in enumerate(self.plane_hosts):
            unknown = [name for name in names or () if name not in there]
            rule = f"of plane {plane} have {', '.join(unknown[:1])!r}: there is no such host"
            _require(field, not unknown, rule)
            _require(field, names != (), f"of plane {plane} are none: somebody has ports in it")
            rule = f"of plane {plane} are some: the states of restricted switches are of all hosts"
            _require(field, names is None or not self.port_model.has_states, rule)
            rule = f"of plane {plane} are some: where servers are described, planes are of all"
            _require(field, names is None or self.servers is None, rule)

    def members(self, plane: int) -> NDArray[np.bool_]:
        """Which hosts have ports in a plane."""
        names = self.plane_hosts[plane] if self.plane_hosts else None
        if names is None:
            return np.ones(len(self.hosts), dtype=bool)
        mine = set(names)
        return np.array([host in mine for host in self.hosts])

    def planes_of_hosts(self) -> NDArray[np.int64]:
        """How many planes every host has ports in."""
        members = [self.members(plane) for plane in range(self.num_planes)]
        return np.asarray(np.stack(members).sum(axis=0, dtype=np.int64))

    @property
    def num_planes(self) -> int:
        """Planes, each of which every host has a port in (two if it is TWO_SIDED)."""
        return 1 + max(switch.plane for switch in self.switches)

    @property
    def num_ports_per_host(self) -> int:
        """Transceivers of a host, which share its bandwidth: two in a TWO_SIDED plane, else one.

        Where only some hosts have ports in a plane, of the host that has most.
        """
        planes = int(self.planes_of_hosts().max()) if self.plane_hosts else self.num_planes
        return planes * self.port_model.ports_per_host

    @property
    def num_working_hosts(self) -> int:
        """Hosts that are not spare."""
        return len(self.hosts) - self.num_spare_hosts

    def switches_of(self, plane: int) -> tuple[Switch, ...]:
        """The switches of a plane, in order."""
        return tuple(switch for switch in self.switches if switch.plane == plane)

    @property
    def port_model(self) -> PortModel:
        """The port model of all switches."""
        return self.switches[0].profile.port_model

    def failed_places(self) -> dict[str, tuple[int, int, int]]:
        """The switch, side (0 A, 1 B) and number of every port that is known to have failed."""
        sides = self.port_model.sides
        switches = {switch.name: at for at, switch in enumerate(self.switches)}
        places = {}
        for text in self.failed_ports:
            name, _, port = text.rpartition(":")
            match = _PORT.fullmatch(port)
            there = switches.get(name)
            rule = f"has {text!r}: ports are as {self.switches[0].name}:3{sides[0]}"
            if match is None or there is None or match[2] not in sides:
                raise FieldError("failed_ports", rule)
            most = self.switches[there].num_ports
            rule = f"has {text!r}: {name} has ports 1 to {most}"
            _require("failed_ports", int(match[1]) <= most, rule)
            places[text] = there, sides.index(match[2]), int(match[1])
        return places

    def usable_ports(self) -> list[list[list[int]]]:
        """The numbers of the ports of every switch and side that are neither spare nor failed."""
        failed = set(self.failed_places().values())
        return [
            [
                [port for port in range(1, switch.num_usable + 1) if (at, side, port) not in failed]
                for side in range(1 + self.port_model.has_b_side)
            ]
            for at, switch in enumerate(self.switches)
        ]

    @property
    def overlap(self) -> bool:
        """Whether a plane changes while the others send; else the whole fabric stops."""
        return all(switch.profile.change.overlap for switch in self.switches)

    def dead_time_s(self, num_changed: Mapping[int, int]) -> Fraction:
        """How long a change of so many circuits of each plane takes, 0 if there are none.

        Planes change side by side, each as fast as its slowest switch; where the whole fabric stops
        each has all circuits to wait for.
        """
        total = sum(num_changed.values())
        times = (
            switch.profile.change.dead_time_s(count if self.overlap else total)
            for switch in self.switches
            if (count := num_changed.get(switch.plane, 0))
        )
        return max(times, default=Fraction(0))

    def loss_db(self, plane: int, num_stages: int = 1) -> float:
        """The loss of a circuit of a plane through so many of its switches, the worst of them."""
        ends = self.connector_loss_db, self.circulator_loss_db
        profiles = (switch.profile for switch in self.switches_of(plane))
        return round(max(profile.circuit_loss_db(*ends, num_stages) for profile in profiles), 9)


def _require(field: str, holds: object, rule: str) -> None:
    if not holds:
        raise FieldError(field, rule)


def _check_count(field: str, value: int, least: int) -> None:
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    _require(field, is_whole, f"is {value!r}: it must be a whole number")
    _require(field, value >= least, f"is {value}: it must be at least {least}")


def _check_number(field: str, value: float) -> None:
    holds = math.isfinite(value) and value >= 0
    _require(field, holds, f"is {value}: it must be finite and not negative")


# Facts of a fabric: ports, spares, loss and dead time of every plane, and what is amiss.


DIRECT, THREE_STAGES = 1, 3


@final
@dataclass(frozen=True, slots=True)
class PlaneFacts:
    """One plane: its switches and ports a side, and what its circuits lose and wait for.

    ``num_usable`` and ``num_spares`` are ports a side over all switches (of a MATCHING plane, all
    ports). ``three_stage_loss_db`` is what a circuit through three such switches would lose, None
    for port models of which no three stages are made (MATCHING and RESTRICTED).
    ``dead_time_s`` is that of a change of one circuit and of a circuit of every working host.
    """

    plane: int
    port_model: PortModel
    profiles: tuple[str, ...]
    num_switches: int
    num_usable: int
    num_spares: int
    loss_db: float
    three_stage_loss_db: float | None
    dead_time_s: tuple[Fraction, Fraction]


@final
@dataclass(frozen=True, slots=True)
class FabricFacts:
    """All planes, the bandwidth of a host's port, and ``findings``: sentences of what is amiss."""

    planes: tuple[PlaneFacts, ...]
    port_bandwidth_Bps: Fraction  # noqa: N815 - the unit keeps its case
    findings: tuple[str, ...]


def fabric_facts(fabric: Fabric) -> FabricFacts:
    """What can be said of a fabric before any topology is put on it."""
    planes = tuple(_plane_facts(fabric, plane) for plane in range(fabric.num_planes))
    bandwidth = fabric.cost_model.node_bandwidth_Bps / fabric.num_ports_per_host
    findings = [finding for facts in planes for finding in _findings(fabric, facts)]
    return FabricFacts(planes, bandwidth, tuple(findings))


def check_usable(fabric: Fabric) -> None:
    """InfeasibleError if what is amiss with a plane leaves it dark whatever the topology.

    A design with a link for every port of a host needs all planes.
    """
    facts = fabric_facts(fabric)
    if facts.findings:
        too_few = any(each.num_usable < _num_wanted(fabric, each.plane) for each in facts.planes)
        raise InfeasibleError(Reason.PORTS if too_few else Reason.LOSS, facts.findings[0])


def _plane_facts(fabric: Fabric, plane: int) -> PlaneFacts:
    switches = fabric.switches_of(plane)
    model = switches[0].profile.port_model
    staged = model.has_b_side and model is not PortModel.RESTRICTED
    num_circuits = fabric.num_working_hosts if model.has_b_side else fabric.num_working_hosts // 2
    return PlaneFacts(
        plane,
        model,
        tuple(dict.fromkeys(switch.profile.name for switch in switches)),
        len(switches),
        sum(
            min(map(len, ports))
            for ports, switch in zip(fabric.usable_ports(), fabric.switches, strict=True)
            if switch.plane == plane
        ),
        sum(switch.num_spares for switch in switches),
        fabric.loss_db(plane, DIRECT),
        fabric.loss_db(plane, THREE_STAGES) if staged else None,
        (fabric.dead_time_s({plane: 1}), fabric.dead_time_s({plane: num_circuits})),
    )


def _num_wanted(fabric: Fabric, plane: int) -> int:
    return int(np.count_nonzero(fabric.members(plane)[: fabric.num_working_hosts]))


def _findings(fabric: Fabric, facts: PlaneFacts) -> list[str]:
    findings = []
    if facts.num_usable < _num_wanted(fabric, facts.plane):
        side = " a side" if facts.port_model.has_b_side else ""
        findings.append(
            f"plane {facts.plane} has {facts.num_usable} usable ports{side} for "
            f"{_num_wanted(fabric, facts.plane)} working hosts"
        )
    if facts.loss_db > fabric.loss_budget_db:
        findings.append(
            f"a circuit of plane {facts.plane} loses {facts.loss_db:g} dB, over the budget of "
            f"{fabric.loss_budget_db:g} dB"
        )
    return findings
