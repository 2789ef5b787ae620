"""Workload files: the collectives that a fabric is chosen for, in YAML or JSON.

``workload_json_schema`` documents the keys. Sizes and times are text with their unit, as in
``64MiB`` and ``200us``; a message is M, the buffer of a rank.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from ocs_codesign.circuits.legs.trace import MAX_JOBS, Job
from ocs_codesign.circuits.step_files import LEAST_GAP_S, LEAST_MESSAGE_BYTES, MAX_MESSAGE_BYTES
from ocs_codesign.core.collective import WITHOUT_PARAMETERS, Collective
from ocs_codesign.core.files.archives import check_size, read_limited
from ocs_codesign.core.files.plain_text import checked_part, file_error, read_plain_text
from ocs_codesign.core.quantities import exact, parse_size, parse_time
from ocs_codesign.core.shown import shown
from ocs_codesign.fabric.files.schema import Name
from ocs_codesign.fabric.selection.steps import AllowedChanges, Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ocs_codesign.core.files.plain_text import Place


MAX_WORKLOAD_BYTES = 4 * 2**20
MAX_PARTS = 10_000
MAX_GAP_S = 10**6


def load_workload(path: str | Path) -> Workload:
    """The workload in a file, JSON if its suffix says so and YAML otherwise.

    Raises OSError if the file cannot be read, and ValueError with the file, the line (of YAML), the
    path in it, the value and the rule for anything else.
    """
    path = Path(path)
    data = read_limited(path, MAX_WORKLOAD_BYTES)
    return parse_workload(data, str(path), is_json=path.suffix.lower() == ".json")


def parse_workload(data: bytes, name: str, *, is_json: bool = False) -> Workload:
    """The workload in the content of a file called ``name``; ValueError as in ``load_workload``.

    >>> text = b"name: w\\ncollectives:\\n- {collective: allreduce, message: 64}\\n"
    >>> parse_workload(text, "w.yaml")
    Traceback (most recent call last):
    ValueError: w.yaml, line 3: collectives[0].message is 64: write a size as text with its unit, \
as in 64MiB
    """
    check_size(len(data), name, MAX_WORKLOAD_BYTES)
    plain = read_plain_text(data, name, is_json=is_json)
    part = checked_part(
        plain, name, WorkloadPart, _keys_at, "workload", keys="name and collectives"
    )
    try:
        jobs = tuple(each.named(at) for at, each in enumerate(part.collectives, 1))
        return Workload(part.name, jobs, part.repeat, part.reconfiguration)
    except ValueError as error:
        raise file_error(name, plain, ("collectives",), f": {error}", "the workload") from None


def workload_json_schema() -> dict[str, Any]:
    """The JSON Schema of workload files."""
    schema = WorkloadPart.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _keys_at(place: Place) -> list[str]:
    """The keys that may be in the map at a place."""
    return list((CollectivePart if place else WorkloadPart).model_fields)


def _one_of(names: Sequence[str], read: Callable[[str], Any]) -> BeforeValidator:
    """Text that ``read`` makes a value of; ValueError lists the names that it knows."""

    def value_of(value: Any) -> Any:
        try:
            if isinstance(value, str):
                return read(value)
        except ValueError:
            pass
        raise ValueError(f"is {shown(value)}: it is one of {', '.join(names)}")

    return BeforeValidator(value_of)


def _quantity(
    what: str, example: str, parse: Callable[[str], float], limits: tuple[Fraction, int], rule: str
) -> BeforeValidator:
    """Text with a unit, 0 or within the limits as the rule says."""

    def value_of(value: Any) -> Fraction:
        if not isinstance(value, str):
            raise ValueError(
                f"is {shown(value)}: write a {what} as text with its unit, as in {example}"
            )
        number = exact(parse(value))
        if number and not limits[0] <= number <= limits[1]:
            raise ValueError(f"is {value}: it must be {rule}")
        return number

    return BeforeValidator(value_of)


def _text(example: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "examples": [example]})


_MESSAGE = (
    "M, the buffer of a rank: the result of an allgather, the vector of a reduce-scatter or an "
    "allreduce, all that one host sends in an all-to-all."
)
_KINDS = [kind.name for kind in WITHOUT_PARAMETERS]
_ALLOWED = [allowed.value for allowed in AllowedChanges]
Kind = Annotated[Any, _one_of(_KINDS, Collective.parse), WithJsonSchema({"enum": _KINDS})]
Allowed = Annotated[Any, _one_of(_ALLOWED, AllowedChanges), WithJsonSchema({"enum": _ALLOWED})]
_SIZES = (LEAST_MESSAGE_BYTES, MAX_MESSAGE_BYTES), "0 or from 1 bit to 10^18 bytes"
_TIMES = (LEAST_GAP_S, MAX_GAP_S), f"0s or from 1 ps to {MAX_GAP_S} s"
Message = Annotated[Any, _quantity("size", "64MiB", parse_size, *_SIZES), _text("64MiB")]
Gap = Annotated[Any, _quantity("time", "1.5ms", parse_time, *_TIMES), _text("1.5ms")]


class CollectivePart(BaseModel):
    """A collective, how large its message is, and how often it comes in a row."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    name: Name | None = Field(None, description="Its name; by default collective and position.")
    collective: Kind = Field(description="Which one.")
    message: Message = Field(description=_MESSAGE)
    count: int = Field(1, ge=1, le=MAX_JOBS, description="How often it comes in a row.")
    gap: Gap = Field(Fraction(0), description="Time before each in which no circuit is needed.")
    gap_after: Gap = Field(Fraction(0), description="The same after each.")

    def named(self, position: int) -> Job:
        """The job of a workload, by default named by its position."""
        name = self.name or f"{self.collective.name} {position}"
        gaps = {"gap_before_s": self.gap, "gap_after_s": self.gap_after}
        return Job(self.collective, self.message, **gaps, count=self.count, name=name)


class WorkloadPart(BaseModel):
    """Collectives in order, all of them repeated as a whole."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    version: Literal[1] = Field(1, description="The version of this format.")
    name: Name = Field(description="The workload's name, in reports.")
    reconfiguration: Allowed = Field(
        AllowedChanges.NONE, description="When circuits may change once a design is up."
    )
    repeat: int = Field(1, ge=1, le=MAX_JOBS, description="How often all of it comes.")
    collectives: list[CollectivePart] = Field(min_length=1, max_length=MAX_PARTS)
