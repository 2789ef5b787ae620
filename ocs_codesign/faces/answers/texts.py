"""Costs, fractions and loads as answers write them, in JSON and where people read them."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.quantities import format_bandwidth, format_size, format_time
from ocs_codesign.faces.answers.declared import made
from ocs_codesign.faces.answers.sections import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.core.cost import CostModel, MessageSizes
    from ocs_codesign.faces.answers.sections import Section
    from ocs_codesign.schedules.design import Design
    from ocs_codesign.search.catalogue.entry import Entry
    from ocs_codesign.search.pareto import Frontier


MAX_FRACTION = 24
"""Characters of a fraction that can be read."""

ASK_FOR_A_MODEL = "Give --alpha, --bandwidth and --message to learn which is fastest for them."

WORTH_TREES_PERCENT = 10
"""How far above the bound of its graph a cost is where trees are tried, to say what they take."""

_HEAD_ROWS, _TAIL_ROWS = 24, 8


made("times", times_s=lambda cost, asked: asked.times_s(cost))


def cost_text(cost: Cost) -> str:
    """A cost in words: ``5 steps, t_b 341/256 (1.33203)``."""
    return f"{cost.steps} step{'s' * (cost.steps != 1)}, t_b {t_b_text(cost.t_b)}"


def fat_tree_sentence(least: Cost, asked: MessageSizes | None, what: str = "") -> str:
    """What a fat tree of as many ports could do at best, which switches every message."""
    text = f"A fat tree of as many ports takes at least {cost_text(least)}{what}"
    times = "" if asked is None else f": {', '.join(map(format_time, asked.times_s(least)))}"
    return f"{text}{times}."


def t_b_text(t_b: Fraction) -> str:
    """A fraction with its decimal value, ``341/256 (1.33203)``; whole numbers stand alone."""
    return str(t_b) if t_b.denominator == 1 else f"{t_b} ({float(t_b):.6g})"


def in_decimals(value: Fraction) -> str:
    """A fraction that is too long to read."""
    return f"{float(value):.9g}"


def told_late(text: str, design: Design | Entry) -> str:
    """A text about a design that also says whether its schedule is late."""
    return f"{text}, late" if design.late and "late" not in text else text


def optimality(bw_optimal: bool, moore_optimal: bool) -> str:
    """Which bounds are met, in a few letters."""
    return (
        " ".join(mark for mark, met in (("BW", bw_optimal), ("Moore", moore_optimal)) if met) or "-"
    )


def graph_bound_text(cost: Cost, least: Cost, collective: Collective) -> str:
    """What no schedule on the same graph can beat, and how far above it a cost is.

    >>> from ocs_codesign.core.cost import Cost
    >>> graph_bound_text(Cost(2, Fraction(9, 8)), Cost(1, Fraction(3, 4)), Collective.ALLGATHER)
    '1 step, t_b 3/4 (0.75) (no schedule on it can beat it), t_b is 50 % above it'
    """
    halves = " and then ".join(half.name for half in collective.halves())
    what = "schedule" if len(collective.halves()) == 1 else halves
    over = cost.t_b / least.t_b - 1
    above = f", t_b is {100 * float(over):.3g} % above it" if over else ""
    return f"{cost_text(least)} (no {what} on it can beat it){above}"


def is_far_above(cost: Cost, least: Cost, percent: int = 3) -> bool:
    """Whether a t_b is so much above the least that who takes it should know."""
    return cost.t_b * 100 > least.t_b * (100 + percent)


def far_above_text(cost: Cost, least: Cost, reached: Cost | None) -> str:
    """What to tell who takes a schedule of ``cost`` where one near ``least`` exists.

    ``least`` is the bound of the same graph for an allgather, a reduce-scatter or one after the
    other, which forests attain but for the filling of their trees; ``reached`` is what one costs,
    where it is known.
    """
    told = "spanning trees in many pieces come as near to it as steps allow"
    if reached is not None:
        told = f"its trees take {cost_text(reached)}, with more --parts less t_b and more steps"
    return (
        f"Large messages can be {float(cost.t_b / least.t_b):.3g} times as fast on this graph: "
        f"build --scheduler forest reaches t_b {t_b_text(least.t_b)}, "
        f"which BFB and mapped schedules do not; {told}."
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


def among_sentence(num_options: int, serving: Frontier | None) -> str:
    """Among how many designs something is the best: nothing is said of others."""
    if serving is None:
        return f"What is proven is proven among these {num_options} designs."
    num, size = len(serving.looked_at), f"{serving.num_nodes} nodes of degree {serving.degree}"
    return (
        f"These are the best of {num} designs known or found for {size}, ring and torus beside "
        "them; what is proven is proven among these."
    )


def times_sections(asked: MessageSizes | None, cost: Cost) -> Iterator[Section]:
    """A table of the times that a cost takes, of its steps and its bytes, a column a size."""
    if asked is None:
        return
    yield ""
    parts = (("steps", Cost(cost.steps, Fraction(0))), ("bytes", Cost(0, cost.t_b)), ("time", cost))
    rows = [(name, *map(format_time, asked.times_s(part))) for name, part in parts]
    yield Table(("message", *map(format_size, asked.sizes_bytes)), rows)


def model_text(what: str, model: CostModel) -> str:
    """What something is the best for: ``Best for 1 MiB at alpha 10 us and 100 Gbps a node``."""
    return (
        f"Best for {what} at alpha {format_time(model.alpha_s)} and "
        f"{format_bandwidth(model.node_bandwidth_Bps)} a node"
    )
