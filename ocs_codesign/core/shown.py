"""What values offer to people who work with them: a look in a notebook, and a data frame.

How a value looks is for the rooms above to say; they are looked up when somebody looks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def shown(value: object) -> str:
    """A value for an error message, cut to a readable length."""
    text = repr(value[:61] if isinstance(value, (str, bytes, list, tuple)) else value)
    return text if len(text) <= 60 else text[:57] + "..."
