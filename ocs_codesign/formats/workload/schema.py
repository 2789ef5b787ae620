"""The schema of workload files: what may be in one, as models that check it and document it."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from ocs_codesign.collective import WITHOUT_PARAMETERS, Collective
from ocs_codesign.fabric.workload import AllowedChanges
from ocs_codesign.files.naming import shown
from ocs_codesign.formats.fabric.scalars import Name
from ocs_codesign.formats.trace_files import LEAST_MESSAGE_BYTES, MAX_MESSAGE_BYTES
from ocs_codesign.quantities import exact, parse_size, parse_time
from ocs_codesign.reconfigure.hold.trace import MAX_JOBS

if TYPE_CHECKING:
    from ocs_codesign.files.plain_text import Place

MAX_PARTS = 10_000
MAX_GAP_S = 10**6


def _collective(value: Any) -> Any:
    names = ", ".join(member.name for member in WITHOUT_PARAMETERS)
    if not isinstance(value, str):
        raise ValueError(f"is {shown(value)}: it is one of {names}")
    try:
        return Collective.parse(value)
    except ValueError:
        raise ValueError(f"is {shown(value)}: it is one of {names}") from None


def _message(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError(f"is {shown(value)}: write a size as text with its unit, as in 64MiB")
    size = exact(parse_size(value))
    if size and not LEAST_MESSAGE_BYTES <= size <= MAX_MESSAGE_BYTES:
        raise ValueError(f"is {value}: it must be 0 or from 1 bit to 10^18 bytes")
    return size


def _gap(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError(f"is {shown(value)}: write a time as text with its unit, as in 1.5ms")
    seconds = exact(parse_time(value))
    if seconds > MAX_GAP_S or 0 < seconds < Fraction(1, 10**12):
        raise ValueError(f"is {value}: it must be 0s or from 1 ps to {MAX_GAP_S} s")
    return seconds


def _allowed(value: Any) -> Any:
    names = [member.value for member in AllowedChanges]
    if value not in names:
        raise ValueError(f"is {shown(value)}: it is one of {', '.join(names)}")
    return AllowedChanges(value)


def _text(example: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "examples": [example]})


Kind = Annotated[
    Any,
    BeforeValidator(_collective),
    WithJsonSchema({"enum": [member.name for member in WITHOUT_PARAMETERS]}),
]
Allowed = Annotated[
    Any,
    BeforeValidator(_allowed),
    WithJsonSchema({"enum": [member.value for member in AllowedChanges]}),
]
Message = Annotated[Any, BeforeValidator(_message), _text("64MiB")]
Gap = Annotated[Any, BeforeValidator(_gap), _text("1.5ms")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class CollectivePart(_Part):
    """A collective, how large its message is, and how often it comes in a row."""

    name: Name | None = Field(None, description="Its name; by default collective and position.")
    collective: Kind = Field(description="Which one.")
    message: Message = Field(description="M, the size of the whole data of all hosts together.")
    count: int = Field(1, ge=1, le=MAX_JOBS, description="How often it comes in a row.")
    gap: Gap = Field(Fraction(0), description="Time before each in which no circuit is needed.")
    gap_after: Gap = Field(Fraction(0), description="The same after each.")


class WorkloadPart(_Part):
    """Collectives in order, all of them repeated as a whole."""

    version: Literal[1] = Field(1, description="The version of this format.")
    name: Name = Field(description="The workload's name, in reports.")
    reconfiguration: Allowed = Field(
        AllowedChanges.NONE, description="When circuits may change once a design is up."
    )
    repeat: int = Field(1, ge=1, le=MAX_JOBS, description="How often all of it comes.")
    collectives: list[CollectivePart] = Field(min_length=1, max_length=MAX_PARTS)


def keys_at(place: Place) -> list[str]:
    """The keys that may be in the map at a place."""
    part = CollectivePart if place else WorkloadPart
    return list(part.model_fields)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of workload files."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **WorkloadPart.model_json_schema(),
    }
