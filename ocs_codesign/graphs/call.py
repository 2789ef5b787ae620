"""Call: a frozen value that prints as the call which makes it; ``parse`` reads that text back."""

from __future__ import annotations

import json
from abc import ABC
from dataclasses import fields
from typing import Any, ClassVar

_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


class Call(ABC):
    """A frozen dataclass that is written as a call of its class."""

    __slots__ = ()

    samples: ClassVar[tuple[str, ...]]
    """Texts of arguments: the contract suite runs on the calls with these."""

    notation: ClassVar[str]
    """The field's notation, its blanks for the arguments."""

    def arguments(self) -> tuple[Any, ...]:
        """What the class is called with to make this value."""
        return tuple(getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]

    def label(self) -> str:
        """The field's notation, for pictures and tables; not parsed."""
        return self.notation.format(*self.arguments())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(_text, self.arguments()))})"


def superscript(number: int) -> str:
    """The digits of an exponent.

    >>> superscript(12)
    '¹²'
    """
    return str(number).translate(_SUPERSCRIPTS)


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)
