"""What ``frontier --reconfiguration`` says: a table, and sentences on whether changes pay."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from ocs_codesign.answers.texts import cost_text, in_decimals
from ocs_codesign.cli.output import show_table
from ocs_codesign.quantities import format_bandwidth, format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from rich.console import Console

    from ocs_codesign.cost import CostModel
    from ocs_codesign.reconfigure.frontier.gain import AllreduceGain
    from ocs_codesign.reconfigure.frontier.reconfigured import ReconfiguredFrontier
    from ocs_codesign.reconfigure.frontier.sources import ReconfiguredCandidate
    from ocs_codesign.reconfigure.phases.message_times import MessageRange

    Workload = tuple[CostModel, float]

ALLTOALL = "alltoall"
_SHOWN_RECIPES = 3
_LONG = 24


def show_reconfigured(
    console: Console,
    answer: ReconfiguredFrontier,
    deltas: Sequence[float],
    workload: Workload | None,
) -> None:
    """The table of candidates, then whether changing circuits pays."""
    console.print(
        f"{answer.num_nodes} nodes of degree {answer.degree}, {answer.collective.name}, up to "
        f"{answer.max_configurations} configurations in turn: {len(answer.static)} static and "
        f"{len(answer.switching)} that change circuits on the frontier, "
        f"{len(answer.dominated)} dominated"
    )
    _show_candidates(console, answer, deltas, workload)
    if answer.switching:
        console.print("The JSON answer (--json) has all recipes, as `sequence` takes them.")
    gain = gain_of(answer)
    if gain is None:
        console.print(
            f"No static topology of this size can beat {cost_text(answer.bound)}. The bounds hold "
            "for all topologies held in turn; the tree's by the hops of a full (C d)-ary tree."
        )
    else:
        console.print(_gain_sentence(answer, gain, workload))
    if workload is None:
        console.print(
            f"{_units_sentence(answer)} Give --alpha, --bandwidth and --message to learn whether "
            "it pays for them."
        )
        return
    console.print("Times hold C - 1 dead times of C configurations; a cold start adds one to all.")
    console.print(_break_even_sentence(answer, *workload))
    for delta in deltas:
        console.print(_delta_sentence(answer, delta, *workload))


def _show_candidates(
    console: Console,
    answer: ReconfiguredFrontier,
    deltas: Sequence[float],
    workload: Workload | None,
) -> None:
    columns = ["configurations", "steps", "t_b", "decimal", "bound", "over bound"]
    has_tree = answer.collective.name == ALLTOALL
    columns += ["tree", "over tree"] * has_tree
    if workload is not None:
        columns += [f"at {format_time(delta)}" for delta in deltas]
    rows = []
    for one in answer.candidates:
        cost, number = one.switched.cost, one.switched.num_configurations
        t_b = in_decimals(cost.t_b) if len(str(cost.t_b)) > _LONG else str(cost.t_b)
        row = [str(number), str(cost.steps), t_b, f"{float(cost.t_b):.6g}"]
        bounds = [answer.t_b_bound(number), *[answer.t_b_tree_bound(number)] * has_tree]
        for least in bounds:
            row += [f"{float(least):.6g}", f"{float(cost.t_b / least - 1):.2%}"]
        if workload is not None:
            times = (one.switched.time_s(*workload, delta) for delta in deltas)
            row += [format_time(float(time)) for time in times]
        rows.append([*row, one.maker, _short_label(one)])
    show_table(console, [*columns, "design", "label"], rows, len(columns), texts=1)


def _short_label(one: ReconfiguredCandidate) -> str:
    more = len(one.recipes) - _SHOWN_RECIPES
    if more < 1:
        return one.label
    shown = " → ".join(recipe.label() for recipe in islice(one.recipes, _SHOWN_RECIPES))
    return f"{shown} → {more} more"


def _gain_sentence(
    answer: ReconfiguredFrontier, gain: AllreduceGain, workload: Workload | None
) -> str:
    least = f"an allgather takes {gain.fewest_steps} steps on any circuits"
    if gain.static is None or gain.steps_saved is None:
        text = f"No bandwidth-optimal static design of this size is known; {least}."
    else:
        text = (
            f"On the bandwidth-optimal static design (D = {gain.static.steps // 2}) changing "
            f"circuits inside saves at most 2 (D - L) = {gain.steps_saved} steps, since {least} "
            "(L), and pays a dead time for every change."
        )
    if workload is None:
        return text
    costs = [one.switched.cost for one in answer.static]
    saved = float(gain.most_saved_s(costs, *workload))
    verdict = f"saves at most {format_time(saved)}" if saved > 0 else "saves nothing"
    return (
        f"{text} Against the fastest static design for {format_size(workload[1])} a reduce-scatter "
        f"and allgather over any circuits {verdict}, dead times not counted."
    )


def _units_sentence(answer: ReconfiguredFrontier) -> str:
    """When changes pay where steps cost nothing."""
    from ocs_codesign.cost import CostModel

    found = answer.break_even(CostModel(0.0, 1.0), 1)
    if found is None or not found.pays:
        return "Changing circuits does not pay if only t_b counts."
    return (
        f"If only t_b counts, changing circuits pays below a dead time of "
        f"{float(found.delta_s):.4g} M/B, with {_count(found.candidate)}."
    )


def _break_even_sentence(
    answer: ReconfiguredFrontier, model: CostModel, message_bytes: float
) -> str:
    what = (
        f"For {format_size(message_bytes)} at alpha {format_time(model.alpha_s)} and "
        f"{format_bandwidth(model.node_bandwidth_Bps)} a node changing circuits"
    )
    found = answer.break_even(model, message_bytes)
    if found is None or not found.pays:
        return f"{what} does not pay, even without dead time."
    return (
        f"{what} pays below a dead time of {format_time(float(found.delta_s))}, "
        f"with {_count(found.candidate)}."
    )


def _delta_sentence(
    answer: ReconfiguredFrontier, delta: float, model: CostModel, message_bytes: float
) -> str:
    best = answer.best(model, message_bytes, delta)
    static = answer.best_static(model, message_bytes)
    static_s = format_time(float(static.switched.time_s(model, message_bytes, 0)))
    best_s = format_time(float(best.switched.time_s(model, message_bytes, delta)))
    verdict = (
        f"no: {static.label} stays the fastest in {static_s}"
        if best.switched.num_configurations == 1
        else f"yes: {best_s} with {_count(best)} against {static_s} of the best static design"
    )
    return (
        f"At a dead time of {format_time(delta)} {verdict}; it pays for messages "
        f"{_ranges_text(answer.paying_messages(model, delta))}."
    )


def _ranges_text(ranges: Sequence[MessageRange]) -> str:
    texts = [
        f"above {_size(one.begin_bytes)}"
        if one.end_bytes is None
        else f"of {_size(one.begin_bytes)} to {_size(one.end_bytes)}"
        for one in ranges
    ]
    return " and ".join(texts) if texts else "of no size"


def _size(num_bytes: Fraction) -> str:
    """A size that need not be round, to four digits."""
    value = float(num_bytes)
    power = max((k for k in range(5) if value >= 1000**k), default=0)
    return f"{value / 1000**power:.4g} {('B', 'kB', 'MB', 'GB', 'TB')[power]}"


def _count(one: ReconfiguredCandidate) -> str:
    return f"{one.switched.num_configurations} configurations"


def gain_of(answer: ReconfiguredFrontier) -> AllreduceGain | None:
    """What an allreduce can save, None for an all-to-all."""
    from ocs_codesign.reconfigure.frontier.gain import allreduce_gain

    if answer.collective.name == ALLTOALL:
        return None
    costs = [one.switched.cost for one in answer.static]
    return allreduce_gain(answer.num_nodes, answer.degree, costs)
