"""Budget files: the dimensions of a network, and what a job sends in them, in YAML or JSON."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, final

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from ocs_codesign.circuits.change import Change
from ocs_codesign.core.collective import GATHERING, Collective
from ocs_codesign.core.files.archives import check_size, read_limited
from ocs_codesign.core.files.plain_text import checked_part, file_error, read_plain_text
from ocs_codesign.fabric.description import Fabric, PortModel, Switch
from ocs_codesign.fabric.files.example import CIRCULATOR_DB, CONNECTOR_DB
from ocs_codesign.fabric.files.fabric_files import fabric_text
from ocs_codesign.fabric.files.schema import BUDGETS_DB, Name
from ocs_codesign.fabric.profiles import profile_named
from ocs_codesign.jobs.budgets import COLLECTIVES_OF_BUDGETS, MAX_DIMENSIONS, sent_bytes
from ocs_codesign.jobs.cluster_design.candidates import Joining, messages_of_span
from ocs_codesign.jobs.cluster_design.cluster import rail_designs
from ocs_codesign.jobs.files.scalars import JobBandwidth, JobSize, JobTime, one_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ocs_codesign.core.files.plain_text import Place
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.jobs.cluster_design.candidates import Candidate
    from ocs_codesign.jobs.cluster_design.cluster import JobCluster, RailDesign
    from ocs_codesign.jobs.cluster_design.outcomes import Traffic


MAX_BUDGET_BYTES = 2**20
_STRICT = ConfigDict(extra="forbid", strict=True, frozen=True)
_NAMES = list(COLLECTIVES_OF_BUDGETS)
_GIGA = 10**9


@final
@dataclass(frozen=True, slots=True)
class Spending:
    """What is sent in named dimensions, and what is fixed: the parts of a BudgetProblem.

    ``sent`` has a row a collective; ``price`` is of a byte a second.
    """

    name: str
    dimensions: tuple[str, ...]
    sent: tuple[tuple[Fraction, ...], ...]
    compute_s: Fraction
    price: tuple[Fraction, ...]
    fixed: dict[int, Fraction]
    limits: tuple[tuple[tuple[int, ...], Fraction], ...]


class DimensionPart(BaseModel):
    """A dimension: its ranks, and what a GB/s of every rank in it costs in all."""

    model_config = _STRICT

    name: Name
    ranks: int = Field(ge=1, le=2**20)
    price: float = Field(0.0, ge=0, le=1e15, allow_inf_nan=False, description="Of 1 GB/s a rank.")
    bandwidth: JobBandwidth | None = Field(None, description="Fixed at this, if given.")


class OverPart(BaseModel):
    """The ranks of a group in a dimension."""

    model_config = _STRICT

    dimension: Name
    ranks: int = Field(ge=1, le=2**20)


class SentPart(BaseModel):
    """A collective over dimensions, in the order in which it uses them."""

    model_config = _STRICT

    collective: Annotated[Any, one_of(_NAMES), WithJsonSchema({"enum": _NAMES})]
    message: JobSize
    count: int = Field(1, ge=1, le=2**30)
    over: list[OverPart] | None = Field(
        None, min_length=1, max_length=MAX_DIMENSIONS, description="All dimensions if none."
    )


class LimitPart(BaseModel):
    """The most that several dimensions have together."""

    model_config = _STRICT

    dimensions: list[Name] = Field(min_length=1, max_length=MAX_DIMENSIONS)
    bandwidth: JobBandwidth


class BudgetPart(BaseModel):
    """Dimensions, what is sent in them, and the computation that nothing overlaps."""

    model_config = _STRICT

    version: Literal[1] = 1
    name: Name
    dimensions: list[DimensionPart] = Field(min_length=1, max_length=MAX_DIMENSIONS)
    compute: JobTime = Fraction(0)
    collectives: list[SentPart] = Field(min_length=1, max_length=1000)
    limits: list[LimitPart] = Field([], max_length=100)


_MODELS: dict[tuple[str, ...], type[BaseModel]] = {
    (): BudgetPart,
    ("dimensions",): DimensionPart,
    ("collectives",): SentPart,
    ("collectives", "over"): OverPart,
    ("limits",): LimitPart,
}


def load_budget(path: str | Path) -> Spending:
    """What is sent in a file, JSON if its suffix says so and YAML otherwise.

    Raises OSError if the file cannot be read, and ValueError with the file, the line (of YAML), the
    path in it, the value and the rule for anything else.
    """
    path = Path(path)
    data = read_limited(path, MAX_BUDGET_BYTES)
    return parse_budget(data, str(path), is_json=path.suffix.lower() == ".json")


def parse_budget(data: bytes, name: str, *, is_json: bool = False) -> Spending:
    """What is sent in the content of a file called ``name``; ValueError as in ``load_budget``.

    >>> text = b"name: b\\ndimensions: [{name: x, ranks: 4}]\\ncollectives: []\\n"
    >>> parse_budget(text, "b.yaml")
    Traceback (most recent call last):
    ValueError: b.yaml, line 3: collectives has 0 entries: it needs at least 1
    """
    check_size(len(data), name, MAX_BUDGET_BYTES)
    plain = read_plain_text(data, name, is_json=is_json)
    part = checked_part(
        plain, name, BudgetPart, _keys_at, "budget", keys="name, dimensions and collectives"
    )
    try:
        return _spending(part)
    except ValueError as error:
        raise file_error(name, plain, (), f": {error}", "the budget") from None


def _keys_at(place: Place) -> list[str]:
    names = tuple(key for key in place if isinstance(key, str))
    return list(_MODELS.get(names, BudgetPart).model_fields)


def _spending(part: BudgetPart) -> Spending:
    names = tuple(each.name for each in part.dimensions)
    if len(set(names)) < len(names):
        raise ValueError("two dimensions have the same name")
    sizes = [each.ranks for each in part.dimensions]
    sent = []
    for at, each in enumerate(part.collectives):
        over = list(range(len(names))), sizes
        if each.over is not None:
            where = f"collectives[{at}].over"
            over = (
                [_number(names, one.dimension, where) for one in each.over],
                [one.ranks for one in each.over],
            )
            for place, ranks in zip(*over, strict=True):
                if sizes[place] % ranks:
                    raise ValueError(
                        f"{where} has {ranks} ranks in {names[place]}: they divide its "
                        f"{sizes[place]}"
                    )
            if len(set(over[0])) < len(over[0]):
                raise ValueError(f"{where} names a dimension twice")
        row = [Fraction(0)] * len(names)
        for place, share in zip(
            over[0], sent_bytes(each.collective, each.message, over[1]), strict=True
        ):
            row[place] = share * each.count
        sent.append(tuple(row))
    held = {at: each.bandwidth for at, each in enumerate(part.dimensions) if each.bandwidth}
    limits = tuple(
        (tuple(_number(names, name, f"limits[{at}]") for name in each.dimensions), each.bandwidth)
        for at, each in enumerate(part.limits)
    )
    price = tuple(Fraction(repr(each.price)) / _GIGA for each in part.dimensions)
    return Spending(part.name, names, tuple(sent), part.compute, price, held, limits)


def _number(names: tuple[str, ...], name: str, where: str) -> int:
    if name not in names:
        raise ValueError(f"{where} names {name!r}: the dimensions are {', '.join(names)}")
    return names.index(name)


# What a co-design hands to deploy: the fabric that its recipes go on, and the command.


MAX_STEPPED = 16
"""Largest group whose all-to-all is scheduled in whole chunks in passing."""


@final
@dataclass(frozen=True, slots=True)
class Handover:
    """A recipe with its fabric, and what deploy schedules on it.

    ``message_bytes`` is that of the largest message of ``collectives`` that gathers or reduces,
    None if messages of several groups share the circuits.
    """

    name: str
    recipe: Recipe
    fabric: Fabric
    collectives: tuple[str, ...]
    message_bytes: int | None

    def command(self, directory: str) -> str:
        """The command that writes the bundle, where the fabric's file is in a directory."""
        words = ["ocs-codesign", "deploy", f"{self.name}={self.recipe!r}"]
        words += ["--fabric", f"{directory}/{self.name}.yaml"]
        for collective in self.collectives:
            words += ["--collective", collective]
        if self.message_bytes is not None:
            words += ["--message", f"{self.message_bytes}B"]
        return shlex.join([*words, "--out", f"{directory}/{self.name}"])

    def files(self, directory: str) -> Mapping[str, bytes]:
        """The fabric's file."""
        return {f"{directory}/{self.name}.yaml": fabric_text(self.fabric).encode()}


def handovers(candidate: Candidate, traffic: Traffic, cluster: JobCluster) -> tuple[Handover, ...]:
    """What is deployed for a candidate: of one rail, whose servers are the hosts.

    Across rails, of all of them: a server has the ports of all its accelerators then.
    Where circuits change, the groups of passes and those of gradients hold different servers, so
    each has a fabric of as many hosts as a block of servers that hangs together.
    """
    return tuple(_handed(design, candidate, traffic, cluster) for design in rail_designs(candidate))


def _handed(
    design: RailDesign, candidate: Candidate, traffic: Traffic, cluster: JobCluster
) -> Handover:
    num_hosts = prod(span.outside for span in design.spans)
    fabric = rail_fabric(cluster, num_hosts, design.recipe.degree)
    messages: dict[tuple[str, Fraction], int] = {}
    if len(design.spans) == 1:
        (span,) = design.spans
        messages = messages_of_span(traffic.asked(), span.dimension, candidate.placement)
    if not messages:
        return Handover(design.name, design.recipe, fabric, ("allreduce",), None)
    gathers = {Collective.parse(kind): size for kind, size in messages}
    kinds = [kind.name for kind in GATHERING if kind in gathers]
    if Collective.ALLTOALL in gathers and num_hosts <= MAX_STEPPED:
        kinds.append(Collective.ALLTOALL.name)
    sizes = [size for kind, size in messages if Collective.parse(kind) in GATHERING]
    largest = round(servers_alike(candidate, cluster) * max(sizes)) if sizes else None
    return Handover(design.name, design.recipe, fabric, tuple(kinds) or ("allreduce",), largest)


def servers_alike(candidate: Candidate, cluster: JobCluster) -> int:
    """Accelerators of a server that are one host of what is deployed: all of them across rails."""
    return cluster.accelerators_a_server if candidate.joining is Joining.ACROSS else 1


def rail_fabric(cluster: JobCluster, num_hosts: int, num_ports: int) -> Fabric:
    """The fabric of rails: so many servers as hosts, and a plane of switches a port."""
    profile = profile_named(cluster.switch).used_as(PortModel.SIMPLEX)
    profile = replace(profile, change=Change(cluster.delta_s))
    count = -(-num_hosts // profile.num_ports)
    each = -(-num_hosts // count)
    switches = tuple(
        Switch(f"p{plane}-s{number}", plane, profile, each)
        for plane in range(num_ports)
        for number in range(count)
    )
    loss_db = profile.circuit_loss_db(CONNECTOR_DB, CIRCULATOR_DB)
    budget_db = next((db for db in BUDGETS_DB.values() if loss_db <= db), loss_db)
    digits = max(2, len(str(num_hosts - 1)))
    return Fabric(
        cluster.name,
        tuple(f"server{number:0{digits}d}" for number in range(num_hosts)),
        0,
        switches,
        cluster.ports_model(num_ports),
        budget_db,
        CONNECTOR_DB,
        CIRCULATOR_DB,
    )
