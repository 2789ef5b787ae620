"""What an answer is made of where people read it: sentences, facts and tables, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ocs_codesign.fabric.infeasible import InfeasibleError
    from ocs_codesign.graphs.recipe import Recipe


_HEAD_ROWS, _TAIL_ROWS = 24, 8


@final
@dataclass(frozen=True, slots=True)
class Facts:
    """Names and values, a line each; what is None is left out when shown."""

    rows: tuple[tuple[str, object], ...]

    def __init__(self, *rows: tuple[str, object]) -> None:
        object.__setattr__(self, "rows", rows)


@final
@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under ``columns``.

    The first ``numbers`` columns are flush right, the last ``texts`` ones may fold to fit the page,
    or are ``cut`` where they stand elsewhere in full. ``shortened`` leaves out the middle of a long
    table, and a ``note`` under it says so; ``whole`` are then all rows.

    >>> rows = [(str(step), "1") for step in range(100)]
    >>> short = Table(("step", "load"), rows).shortened("steps")
    >>> short.rows[24], short.note
    (('...', ''), '... 68 more steps: --json FILE has them all.')
    """

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    numbers: int = 0
    texts: int = 0
    cut: bool = False
    note: str = ""
    whole: Sequence[tuple[str, ...]] = ()

    def shortened(self, what: str) -> Table:
        """The same table without the middle of a long list of ``what``."""
        left_out = len(self.rows) - _HEAD_ROWS - _TAIL_ROWS
        if left_out <= 1:
            return self
        more = ("...", *[""] * (len(self.columns) - 1))
        rows = [*self.rows[:_HEAD_ROWS], more, *self.rows[-_TAIL_ROWS:]]
        note = f"... {left_out} more {what}: --json FILE has them all."
        return replace(self, rows=rows, note=note, whole=self.rows)

    def csv(self) -> bytes:
        """All rows under the names of their columns, as CSV.

        >>> Table(("steps", "cost"), [("1", "1,5")]).csv()
        b'steps,cost\\n1,"1,5"\\n'
        """
        from csv import writer
        from io import StringIO

        text = StringIO()
        writer(text, lineterminator="\n").writerows([self.columns, *(self.whole or self.rows)])
        return text.getvalue().encode()

    def narrowed(self, kept: Sequence[int]) -> Table:
        """The same with some of its columns, and a note of those that are left out."""
        numbers = sum(at < self.numbers for at in kept)
        texts = sum(at >= len(self.columns) - self.texts for at in kept)
        left_out = ", ".join(name for at, name in enumerate(self.columns) if at not in kept)
        note = f"Too narrow for {left_out}: --wide shows all."
        return Table(
            tuple(self.columns[at] for at in kept),
            [tuple(row[at] for at in kept) for row in self.rows],
            *(numbers, texts, self.cut),
            f"{self.note}\n{note}".strip(),
        )


@final
@dataclass(frozen=True, slots=True)
class Recipes:
    """The recipes of a table whose rows have their handles, a line each that can be copied."""

    texts: tuple[str, ...]

    @classmethod
    def of(cls, recipes: Iterable[Recipe | None]) -> Recipes:
        """Those of designs, each once."""
        return cls(tuple(dict.fromkeys(repr(each) for each in recipes if each is not None)))


Section: TypeAlias = str | Facts | Table | Recipes
"""A line of text ("" is an empty one), facts, a table, or the recipes of one."""


def counted(number: int, what: str) -> str:
    """A number of things: ``1 step``, ``2 steps``.

    >>> counted(1, "step"), counted(0, "plane")
    ('1 step', '0 planes')
    """
    return f"{number} {what}{'s' * (number != 1)}"


# What cannot be done on a fabric, as an answer: which bound fails, and a sentence.


_VERDICTS = {"fits": "It does not fit", "repaired": "It cannot be repaired"}


def refusal_text(error: InfeasibleError, verdict: str = "fits") -> str:
    """That it cannot be, and why, in a line."""
    return f"{_VERDICTS[verdict]}: {error}."
