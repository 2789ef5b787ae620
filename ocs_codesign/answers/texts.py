"""Costs, fractions and loads as answers write them, in JSON and where people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.sections import Table
from ocs_codesign.quantities import format_bandwidth, format_time

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from ocs_codesign.cost import Cost, CostModel

MAX_FRACTION = 24
"""Characters of a fraction that can be read."""

ASK_FOR_A_MODEL = "Give --alpha, --bandwidth and --message to learn which is fastest for them."

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
    left_out = len(loads) - _HEAD_ROWS - _TAIL_ROWS
    shown = [*range(_HEAD_ROWS), *range(len(loads) - _TAIL_ROWS, len(loads))]
    rows = [
        (str(step + 1), str(loads[step]), f"{float(loads[step]):.5g}")
        for step in (shown if left_out > 1 else range(len(loads)))
    ]
    if left_out > 1:
        rows.insert(_HEAD_ROWS, ("...", f"{left_out} more steps", ""))
    return Table(("step", f"largest load ({unit})", "decimal"), rows, numbers=3)


def model_json(model: CostModel, message_bytes: float) -> dict[str, Any]:
    """The JSON form of a cost model and a message size."""
    return {
        "alpha_s": model.alpha_s,
        "node_bandwidth_Bps": model.node_bandwidth_Bps,
        "message_bytes": message_bytes,
    }


def model_text(what: str, model: CostModel) -> str:
    """What something is the best for: ``Best for 1 MiB at alpha 10 us and 100 Gbps a node``."""
    return (
        f"Best for {what} at alpha {format_time(model.alpha_s)} and "
        f"{format_bandwidth(model.node_bandwidth_Bps)} a node"
    )
