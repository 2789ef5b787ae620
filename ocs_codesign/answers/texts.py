"""Costs, fractions and loads as answers write them, in JSON and where people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.sections import Table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from ocs_codesign.cost import Cost

MAX_FRACTION = 24
"""Characters of a fraction that can be read."""

_HEAD_ROWS, _TAIL_ROWS = 24, 8


def cost_json(cost: Cost) -> dict[str, Any]:
    """The JSON form of a cost."""
    return {"steps": cost.steps, "t_b": str(cost.t_b)}


def cost_text(cost: Cost) -> str:
    """A cost in words: ``5 steps, t_b 341/256 (1.33203)``."""
    return f"{cost.steps} step{'s' * (cost.steps != 1)}, t_b {t_b_text(cost.t_b)}"


def t_b_text(t_b: Fraction) -> str:
    """A fraction with its decimal value, ``341/256 (1.33203)``; whole numbers stand alone."""
    return str(t_b) if t_b.denominator == 1 else f"{t_b} ({float(t_b):.6g})"


def in_decimals(value: Fraction) -> str:
    """A fraction that is too long to read."""
    return f"{float(value):.9g}"


def optimality(bw_optimal: bool, moore_optimal: bool) -> str:
    """Which bounds are met, in a few letters."""
    return (
        " ".join(mark for mark, met in (("BW", bw_optimal), ("Moore", moore_optimal)) if met) or "-"
    )


def loads_table(loads: Sequence[Fraction], unit: str = "shards") -> Table:
    """The largest link load of every step; the middle of a long list is left out."""
    rows = [(str(step), str(load), f"{float(load):.5g}") for step, load in enumerate(loads, 1)]
    if len(rows) > _HEAD_ROWS + _TAIL_ROWS + 1:
        left_out = len(rows) - _HEAD_ROWS - _TAIL_ROWS
        rows[_HEAD_ROWS:-_TAIL_ROWS] = [("...", f"{left_out} more steps", "")]
    return Table(("step", f"largest load ({unit})", "decimal"), rows, numbers=3)
