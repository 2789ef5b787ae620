"""Constants of the step model as data: accelerators and software, each with its source."""

from __future__ import annotations

import tomllib
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from collections.abc import Iterator

PRECISIONS = ("bf16", "fp8")


@final
@dataclass(frozen=True, slots=True)
class Chip:
    """An accelerator: operations and bytes a second, its memory, and what products sustain of it.

    ``sustained`` and ``fitted`` say, for bf16 and fp8, the share of the peak that large products
    keep, None where it has none, and whether that is fitted on published runs.
    """

    name: str
    bf16: float
    fp8: float | None
    memory_Bps: float  # noqa: N815 - units keep their case
    memory_bytes: float
    processors: int
    host_Bps: float  # noqa: N815
    sustained: tuple[float, float | None]
    fitted: tuple[bool, bool]
    source: str

    def rate(self, precision: str) -> tuple[float, float]:
        """Peak and sustained share; ValueError for fp8 on an accelerator without."""
        if precision == "bf16":
            return self.bf16, self.sustained[0]
        if self.fp8 is None or self.sustained[1] is None:
            raise ValueError(f"precision is fp8: {self.name} has no such products")
        return self.fp8, self.sustained[1]

    def is_fitted(self, precision: str) -> bool:
        """Whether the sustained share comes from published training runs."""
        return self.fitted[PRECISIONS.index(precision)]


@final
@dataclass(frozen=True, slots=True)
class Software:
    """What software makes of a machine; shares are of what is sent, of products or of peaks.

    ``products`` and ``attention_factor`` multiply what is sustained, as a calibration finds it.
    """

    name: str
    elementwise: float
    attention: str
    elementwise_fp8: float | None = None
    dropout: bool = False
    sequence: bool = True
    tensor_hidden: float = 0.0
    data_all_exposed: bool = False
    data_hidden: tuple[float, float] = (0.6, 0.3)
    data_exposed: float = 0.1
    pipeline_exposed: float = 0.3
    context_hidden: float = 0.8
    context_exposed: float = 0.061
    expert_exposed: float = 1.0
    fp8_dispatch: bool = False
    logit_bytes: int = 10
    flat_ring_share: float | None = None
    processors_for_wires: int = 0
    products: float = 1.0
    attention_factor: float = 1.0

    @property
    def is_calibrated(self) -> bool:
        """Whether it has factors of measured steps."""
        return self.products != 1 or self.attention_factor != 1

    def times(self, products: float, elementwise: float, attention: float) -> Software:
        """The software with these factors on its products, elementwise kernels and attention."""
        fp8 = self.elementwise_fp8
        return replace(
            self,
            products=self.products * products,
            elementwise=self.elementwise * elementwise,
            elementwise_fp8=None if fp8 is None else fp8 * elementwise,
            attention_factor=self.attention_factor * attention,
        )


@cache
def _read(name: str) -> dict[str, Any]:
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    content = tomllib.loads(text)
    del content["version"]
    return content


_OTHERS: ContextVar[dict[str, float]] = ContextVar("other constants of the step model")


@contextmanager
def with_constants(others: dict[str, float]) -> Iterator[None]:
    """Within it constants of these names have these values, as a fit tries them."""
    token = _OTHERS.set({**constants(), **others})
    try:
        yield
    finally:
        _OTHERS.reset(token)


def constants() -> dict[str, float]:
    """Constants that all software has in common; attention's as ``flash-1.a100``."""
    return _OTHERS.get(None) or _constants()


@cache
def _constants() -> dict[str, float]:
    content = _read("software.toml")
    shares = {
        f"{kind}.{chip}": share
        for kind, values in content["attention"].items()
        for chip, share in values.items()
    }
    return {**content["common"], **shares}


@cache
def chips() -> dict[str, Chip]:
    """All accelerators by name.

    >>> chips()["h100"].rate("bf16")[0], chips()["mi300x"].is_fitted("bf16")
    (989000000000000.0, False)
    """
    content = _read("chips.toml")
    share = content["micro_benchmark_share"]
    return {
        name: _chip(name, values, share)
        for name, values in content.items()
        if isinstance(values, dict)
    }


def _chip(name: str, values: dict[str, Any], share: float) -> Chip:
    bf16, fp8 = values.get("sustained_bf16"), values.get("sustained_fp8")
    # Where no run was published both precisions keep a share of what bf16 reached.
    best = share * values["best_bf16"]["value"] / values["bf16"] if bf16 is None else 0.0
    at_bf16 = best if bf16 is None else bf16["value"]
    at_fp8 = None if "fp8" not in values else best if fp8 is None else fp8["value"]
    return Chip(
        name=name,
        bf16=values["bf16"],
        fp8=values.get("fp8"),
        memory_Bps=values["memory_Bps"],
        memory_bytes=values["memory_bytes"],
        processors=values["processors"],
        host_Bps=values["host_Bps"],
        sustained=(at_bf16, at_fp8),
        fitted=(bf16 is not None, fp8 is not None),
        source=values["source"],
    )


def chip_named(name: str) -> Chip:
    """An accelerator by any of its names; ValueError with those that are meant or all."""
    content = _read("chips.toml")
    for known, chip in chips().items():
        if name.lower() in (known, *(other.lower() for other in content[known]["names"])):
            return chip
    raise _unknown("accelerator", name, tuple(chips()))


@cache
def software() -> dict[str, Software]:
    """All kinds of software by name."""
    content = _read("software.toml")
    tables = {name: values for name, values in content.items() if isinstance(values, dict)}
    del tables["common"], tables["attention"]
    known = tuple(field.name for field in fields(Software) if field.name != "name")
    for name, values in tables.items():
        for key in values:
            if key not in known:
                raise _unknown(f"constant of {name}", key, known)
    return {name: Software(name, **values) for name, values in tables.items()}


def software_named(name: str) -> Software:
    """A kind of software; ValueError with what is meant or all."""
    if name not in software():
        raise _unknown("software", name, tuple(software()))
    return software()[name]


def _unknown(kind: str, name: str, known: tuple[str, ...]) -> ValueError:
    near = get_close_matches(name[:80].lower(), known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known)}"
    return ValueError(f"no {kind} is named {name[:80]!r}: {hint}")


def attention_share(kind: str, chip: Chip) -> float:
    """The share of the bf16 peak that attention in blocks reaches on long sequences."""
    known = f"{kind}.{'a100' if chip.name.startswith('a100') else 'h100'}"
    if known not in constants():
        raise ValueError(f"attention is {kind!r}: one of {', '.join(attention_kinds())}")
    return constants()[known]


def attention_kinds() -> tuple[str, ...]:
    """All kinds of attention by name."""
    return ("unfused", *_read("software.toml")["attention"])
