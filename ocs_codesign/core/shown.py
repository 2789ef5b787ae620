"""What values offer to people who work with them: a look in a notebook, and a data frame.

How a value looks is for the rooms above to say; they are looked up when somebody looks.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from ocs_codesign.core.registry import provided

if TYPE_CHECKING:
    from pandas import DataFrame


class Shown:
    """A value that a notebook shows as the command line does."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(provided("HTML of a value")(self))


class Tabular(Shown):
    """A value that is a table as well: a row for each of what it is made of."""

    __slots__ = ()

    def to_dataframe(self) -> DataFrame:
        """The rows as a data frame of pandas; times in seconds, exact numbers stay Fractions."""
        frame: DataFrame = provided("data frame of a value")(self)
        return frame


class Brief:
    """A dataclass whose repr is one short line: fields that would make it longer are left out.

    >>> from dataclasses import dataclass
    >>> @dataclass(repr=False)
    ... class Found(Brief):
    ...     steps: int
    ...     sends: list[int]
    >>> Found(2, [1]), Found(2, list(range(99)))
    (Found(steps=2, sends=[1]), Found(steps=2, ...))
    """

    __slots__ = ()

    def __repr__(self) -> str:
        names: Any = [field.name for field in fields(self) if field.repr]  # type: ignore[arg-type]
        told, room = [], 160
        for name in names:
            value = getattr(self, name)
            is_long = isinstance(value, (tuple, list, dict)) and len(value) > 16
            text = f"{name}=..." if is_long else f"{name}={value!r}"
            if not is_long and "\n" not in text and len(text) <= room:
                told.append(text)
                room -= len(text) + 2
        told += ["..."] * (len(told) < len(names))
        return f"{type(self).__name__}({', '.join(told)})"


def shown(value: object) -> str:
    """A value for an error message, cut to a readable length."""
    text = repr(value[:61] if isinstance(value, (str, bytes, list, tuple)) else value)
    return text if len(text) <= 60 else text[:57] + "..."
