"""The schema of fabric files: what may be in one, as models that check it and document it."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
    model_validator,
)

from ocs_codesign.core.files.plain_text import Place
from ocs_codesign.core.networks.servers import ACROSS, GPU, NIC, RAILS, SHARED, SWITCH, attached
from ocs_codesign.core.quantities import exact, parse_bandwidth, parse_time
from ocs_codesign.core.shown import shown
from ocs_codesign.fabric.clusters import MESH, NETWORK, ONE_SWITCH, Inner
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.profiles import PROFILES, profile_named

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


# Scalars of fabric files: quantities, names, port models and states, and how each is read.


MAX_TIME_S = 10**6
MAX_BANDWIDTH_BPS = 10**18
MAX_LOSS_DB = 1_000

BUDGETS_DB = {"DR4": 3.0, "FR4": 4.0}
"""What links of these transceiver classes may lose."""

PORT_MODELS = {f"P{number}": model for number, model in enumerate(PortModel, 1)}
"""Short names of the port models."""

ROTATIONS = "rotations"
_PATTERN = re.compile(r"([^{}]*)\{(?::0([1-9])d)?\}([^{}]*)")


def _quantity(
    parse: Callable[[str], float], what: str, example: str, most: float, limit: str
) -> BeforeValidator:
    """A reader of ``what`` as text with its unit, up to ``most``, which ``limit`` says in words."""

    def read(value: Any) -> float:
        if not isinstance(value, str):
            raise ValueError(
                f"is {shown(value)}: write {what} as text with its unit, as in {example}"
            )
        number = parse(value)
        if number > most:
            raise ValueError(f"is {value}: at most {limit} are read")
        return number

    return BeforeValidator(read)


def _budget(value: Any) -> Any:
    if isinstance(value, str):
        if value.upper() not in BUDGETS_DB:
            names = " or ".join(f"{name} ({db:g} dB)" for name, db in BUDGETS_DB.items())
            raise ValueError(f"is {shown(value)}: write a number of dB, or the class {names}")
        return BUDGETS_DB[value.upper()]
    return value


def _port_model(value: Any) -> PortModel:
    known = {**PORT_MODELS, **{model.value: model for model in PortModel}}
    if not isinstance(value, str) or value not in known:
        names = ", ".join(f"{model.value} ({short})" for short, model in PORT_MODELS.items())
        raise ValueError(f"is {shown(value)}: it is one of {names}")
    return known[value]


def pattern_parts(pattern: str) -> tuple[str, int, str]:
    """What is before the number, its width with leading zeros, and what is after it.

    >>> pattern_parts("host{:03d}")
    ('host', 3, '')
    """
    match = _PATTERN.fullmatch(pattern)
    if match is None:
        raise ValueError(
            f"is {shown(pattern)}: it has one {{}} or one such as {{:03d}} for the number"
        )
    return match.group(1), int(match.group(2) or 0), match.group(3)


def _states(value: Any) -> Any:
    if isinstance(value, list):
        for row in value:
            if not isinstance(row, list) or not all(
                type(port) is int and abs(port) < 2**31 for port in row
            ):
                raise ValueError("must be a table of whole numbers, a row a state")
    elif value != ROTATIONS:
        raise ValueError(f"is {shown(value)}: write a table of ports, or {ROTATIONS}")
    return value


def _checked(check: Callable[[str], object]) -> BeforeValidator:
    """Texts that pass a check, which raises ValueError else; what is no text is left as it is."""

    def read(value: Any) -> Any:
        if isinstance(value, str):
            check(value)
        return value

    return BeforeValidator(read)


def _text_schema(example: str, description: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "examples": [example], "description": description})


Time = Annotated[
    float,
    _quantity(parse_time, "a time", "10us", MAX_TIME_S, f"{MAX_TIME_S} s"),
    _text_schema("10us", "A time with its unit."),
]
Bandwidth = Annotated[
    float,
    _quantity(parse_bandwidth, "a bandwidth", "400Gbps", MAX_BANDWIDTH_BPS, "10^18 bytes/s"),
    _text_schema("400Gbps", "A bandwidth with its unit: b or bit are bits, B is bytes."),
]
Loss = Annotated[float, Field(ge=0, le=MAX_LOSS_DB, allow_inf_nan=False)]
Budget = Annotated[
    Loss,
    BeforeValidator(_budget),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, {"enum": sorted(BUDGETS_DB)}]}),
]
Model = Annotated[
    PortModel,
    BeforeValidator(_port_model),
    WithJsonSchema({"enum": [*(model.value for model in PortModel), *PORT_MODELS]}),
]
Pattern = Annotated[str, _checked(pattern_parts), Field(max_length=100)]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
ProfileName = Annotated[str, _checked(profile_named), WithJsonSchema({"enum": sorted(PROFILES)})]
_TABLE = {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}
States = Annotated[
    Any, BeforeValidator(_states), WithJsonSchema({"anyOf": [{"const": ROTATIONS}, _TABLE]})
]


# Parts of files that describe servers: what joins their GPUs, and what NICs hang on.


MAX_GPUS = 1024
MAX_NICS = 1024


def _places(value: Any) -> Any:
    if isinstance(value, list) and value and all(type(gpu) is int and gpu >= 0 for gpu in value):
        return tuple(value)
    if value not in (GPU, SHARED, SWITCH):
        raise ValueError(
            f"is {shown(value)}: write {GPU}, {SHARED}, {SWITCH} or a list of GPUs of the server"
        )
    return value


Places = Annotated[
    Any,
    BeforeValidator(_places),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": [GPU, SHARED, SWITCH]},
                {"type": "array", "items": {"type": "integer"}},
            ]
        }
    ),
]
Wiring = Literal["rails", "across"]
Relay = Literal["gpu", "nic"]
WIRING = f"{RAILS}: NIC r of every server is on rail r; {ACROSS}: all NICs are on one recipe."
RELAY = f"What data pass on the way: a {GPU}, or only a {NIC}, from port to port."


class ServerPart(BaseModel):
    """GPUs of a server and what joins them: one of switch, mesh and network."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    gpus: int | None = Field(None, ge=1, le=MAX_GPUS, description="GPUs of a server.")
    switch: Bandwidth | None = Field(None, description="Of every GPU to the inner switch.")
    mesh: Bandwidth | None = Field(None, description="Of the link between any two GPUs, each way.")
    network: str | None = Field(
        None, max_length=10_000, description="A network with a unit, such as mi250(1)."
    )

    @model_validator(mode="after")
    def _one_inner(self) -> ServerPart:
        self.inner()
        return self

    def inner(self) -> Inner:
        """What joins the GPUs; ValueError unless one is given."""
        ways = {ONE_SWITCH: self.switch, MESH: self.mesh, NETWORK: self.network}
        given = [kind for kind, value in ways.items() if value is not None]
        if self.gpus == 1 and not given:
            return Inner(MESH, 1, Fraction(0))
        if len(given) != 1:
            what = " and ".join(given) + " are given" if given else "none is given"
            raise ValueError(f"must have one of {', '.join(ways)}: {what}")
        if self.network is not None:
            inner = Inner.of_network(self.network)
            if self.gpus not in (None, inner.num_gpus):
                raise ValueError(
                    f"must not have gpus {self.gpus}: the network has {inner.num_gpus}"
                )
            return inner
        if self.gpus is None:
            raise ValueError("must have gpus: how many has a server?")
        return Inner(given[0], self.gpus, exact(self.switch or self.mesh or 0.0))


class CardPart(BaseModel):
    """What a NIC, or several alike, hang on."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    count: int = Field(1, ge=1, le=MAX_NICS, description="How many such NICs a server has.")
    gpus: Places = Field(
        GPU,
        description=f"{GPU}: NIC r of R hangs on GPU r * G / R; {SHARED}: R NICs divide the GPUs; "
        f"{SWITCH}: on the inner switch; or a list of GPUs.",
    )
    host_bandwidth: Bandwidth | None = Field(
        None, description="Of the link to each of them; by default it is never the narrowest."
    )

    @property
    def host_Bps(self) -> Fraction | None:  # noqa: N802 - the unit keeps its case
        """The bandwidth of a link to a GPU, exactly."""
        return None if self.host_bandwidth is None else exact(self.host_bandwidth)


def places(cards: Sequence[CardPart], inner: Inner) -> list[tuple[int, ...]]:
    """The GPUs of every NIC in a row, none for the switch; ValueError for what does not fit."""
    wanted = [card.gpus for card in cards for _ in range(card.count)]
    network = inner.network()[0]
    by_word = {
        word: attached(word, network, len(wanted))
        for word in (GPU, SHARED, SWITCH)
        if word in wanted
    }
    each = [by_word[one][at] if isinstance(one, str) else one for at, one in enumerate(wanted)]
    return attached(each, network, len(wanted))


MAX_HOSTS = 100_000
MAX_PLANES = 1_024
MAX_SWITCHES = 20_000
MAX_PORTS = 16_384

NAME_TAG, INLINE_TAG = "<name>", "<inline>"
TAGS = (NAME_TAG, INLINE_TAG)
"""Marks of the two ways to give a profile, which are no part of a path in the file."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _check_one_given(part: _Part, one: str, other: str) -> None:
    is_none = [getattr(part, key) is None for key in (one, other)]
    if is_none[0] == is_none[1]:
        given = "neither is given" if is_none[0] else "both are given"
        raise ValueError(f"must have either {one} or {other}: {given}")


class SourcePart(_Part):
    """Where a number of a profile comes from."""

    field: Name = Field(description="The number's key, such as insertion_loss_db.")
    text: Name = Field(description="The publication, data sheet or measurement.")


class ProfilePart(_Part):
    """A make of switch that is not among the known profiles."""

    name: Name = Field(description="Its name, in reports.")
    technology: Name = Field(description="In words, such as piezo beam steering.")
    port_model: Model = Field(description="Which circuits it can hold.")
    ports: int = Field(
        ge=1, le=MAX_PORTS, description="A ports, and as many B ports; all ports of a matching one."
    )
    insertion_loss_db: Loss = Field(description="Loss of a circuit through it, in dB.")
    delta: Time = Field(description="Dead time of a change of circuits.")
    delta_per_circuit: Time = Field(0.0, description="Dead time more for every circuit changed.")
    price_usd_per_port: float | None = Field(
        None, ge=0, allow_inf_nan=False, description="Of an A port with its B port, in US dollars."
    )
    power_w: float | None = Field(None, ge=0, allow_inf_nan=False, description="Power, in watts.")
    sources: list[SourcePart] = Field([], description="Where the numbers come from.")


def _tag(value: Any) -> str:
    return NAME_TAG if isinstance(value, str) else INLINE_TAG


class SwitchPart(_Part):
    """One or several equal switches of a plane."""

    profile: Annotated[
        Annotated[ProfileName, Tag(NAME_TAG)] | Annotated[ProfilePart, Tag(INLINE_TAG)],
        Discriminator(_tag),
    ] = Field(description="A known profile's name, or a profile written out.")
    count: int = Field(1, ge=1, le=MAX_SWITCHES, description="How many such switches.")
    names: list[Name] | None = Field(
        None, description="Their names; by default p0-s0 for the first switch of plane 0, etc."
    )
    ports: int | None = Field(
        None, ge=1, le=MAX_PORTS, description="Ports a side in service; by default the profile's."
    )
    spares: int = Field(0, ge=0, description="The last ports a side that are kept free.")
    port_model: Model | None = Field(
        None, description="How its ports are used, if not as the profile says."
    )
    delta: Time | None = Field(None, description="Dead time of a change, instead of the profile's.")
    delta_per_circuit: Time | None = Field(
        None, description="Dead time more for every circuit changed, instead of the profile's."
    )
    states: States | None = Field(
        None,
        description="What a restricted switch can be in: rows of the B port (from 1, 0 for dark) "
        "that every A port is joined with, or rotations for all cyclic shifts of its usable ports.",
    )


class PlanePart(_Part):
    """One or several equal planes, in each of which every host has a port, or those listed."""

    count: int = Field(1, ge=1, le=MAX_PLANES, description="How many such planes.")
    switches: list[SwitchPart] = Field(min_length=1, description="The switches of each.")
    hosts: list[Name] | None = Field(
        None, min_length=1, max_length=MAX_HOSTS, description="Those with a port in it, if not all."
    )


class HostsPart(_Part):
    """The hosts, either by count and pattern or by name; the last ones are spare."""

    count: int | None = Field(
        None, ge=1, le=MAX_HOSTS, description="How many, spare ones included."
    )
    pattern: Pattern = Field("host{:03d}", description="A name with one {} or {:03d} in it.")
    first: int = Field(0, ge=0, le=10**9, description="The number of the first host.")
    names: list[Name] | None = Field(
        None, min_length=1, max_length=MAX_HOSTS, description="All names, instead of a count."
    )
    spares: int = Field(0, ge=0, description="How many of them, the last ones, are spare.")

    @model_validator(mode="after")
    def _one_way(self) -> HostsPart:
        _check_one_given(self, "count", "names")
        if self.names is not None and self.model_fields_set & {"pattern", "first"}:
            raise ValueError("must not have pattern or first with names: they number a count")
        return self


class LossesPart(_Part):
    """What light loses on its way, apart from the switches, and what it may lose."""

    connector_db: Loss = Field(description="Loss of a connector; a circuit has two.")
    circulator_db: Loss | None = Field(
        None, description="Loss of a circulator; a two-way circuit has two. Needed by those only."
    )
    budget_db: Budget = Field(
        description="What a link may lose: dB, or the class DR4 (3 dB) or FR4 (4 dB)."
    )


class ReconfigurationPart(_Part):
    """What has to wait when circuits change."""

    cold_start: bool = Field(True, description="The first configuration has to be made and pays.")
    overlap: bool = Field(True, description="A plane changes while the others send.")
    barrier: bool = Field(True, description="A step begins when all of the one before arrived.")


class HostNicPart(CardPart):
    """A NIC that has ports of hosts, or several alike."""

    planes: list[int] = Field(
        [], description="Planes in which it has the port of its server; none where hosts are NICs."
    )

    @model_validator(mode="after")
    def _one_of_planes(self) -> HostNicPart:
        if self.planes and self.count > 1:
            raise ValueError("must not have planes with a count over 1: a plane is of one NIC")
        return self


class HostServersPart(ServerPart):
    """What the hosts are inside: servers of GPUs with NICs."""

    hosts: Literal["servers", "nics"] = Field(
        "servers", description="What a host is: a server, or a NIC, those of a server in a row."
    )
    nics: list[HostNicPart] = Field(min_length=1, description="The NICs of every server.")
    wiring: Wiring = Field("rails", description=WIRING)
    relay: Relay = Field("gpu", description=RELAY)


Usd = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class PricesPart(_Part):
    """What one's own parts cost, in US dollars each, in place of list estimates."""

    nic: Usd | None = Field(None, description="A network card, one a port of a host.")
    transceiver: Usd | None = Field(None, description="A transceiver, one a port of a host.")
    circulator: Usd | None = Field(None, description="Of two-way circuits, one a port of a host.")
    fibre: Usd | None = Field(None, description="A fibre, one a strand of a host.")


class FabricPart(_Part):
    """Hosts, planes of optical circuit switches, and what time and light cost on them."""

    version: Literal[1] = Field(1, description="The version of this format.")
    name: Name = Field(description="The fabric's name, in reports.")
    hosts: HostsPart
    planes: list[PlanePart] = Field(min_length=1, max_length=MAX_PLANES)
    alpha: Time = Field(description="Time of a communication step, without its bytes.")
    node_bandwidth: Bandwidth | None = Field(
        None, description="Egress of a host over all its ports together."
    )
    port_bandwidth: Bandwidth | None = Field(
        None,
        description="Egress of one port of a host, instead of node_bandwidth. A host has one port "
        "in a plane, and two in a two-sided one.",
    )
    losses: LossesPart
    servers: HostServersPart | None = Field(
        None, description="What the hosts are inside, for 'ocs-codesign cluster'."
    )
    prices: PricesPart | None = Field(None, description="One's own, in place of list estimates.")
    failed_ports: list[Name] = Field(
        [], description="Ports known to have failed, which get no cable, as in p0-s0:3A."
    )
    reconfiguration: ReconfigurationPart = ReconfigurationPart.model_validate({})

    @model_validator(mode="after")
    def _one_bandwidth(self) -> FabricPart:
        _check_one_given(self, "node_bandwidth", "port_bandwidth")
        return self


FABRIC_PARTS: dict[str, type[BaseModel]] = {
    "hosts": HostsPart,
    "planes": PlanePart,
    "switches": SwitchPart,
    "profile": ProfilePart,
    "sources": SourcePart,
    "losses": LossesPart,
    "servers": HostServersPart,
    "nics": HostNicPart,
    "reconfiguration": ReconfigurationPart,
    "prices": PricesPart,
}


def keys_at(place: Place) -> list[str]:
    """The keys that may be in the map at a place."""
    key = next((key for key in reversed(place) if isinstance(key, str)), "")
    return list(FABRIC_PARTS.get(key, FabricPart).model_fields)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of fabric files."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **FabricPart.model_json_schema(),
    }
