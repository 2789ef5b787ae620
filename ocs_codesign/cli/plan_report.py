"""What ``plan`` prints of the plan of a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.texts import cost_text, in_decimals
from ocs_codesign.cli.output import show_facts, show_table
from ocs_codesign.cli.plan_sentences import delta_at, delta_text, sentences, time_text
from ocs_codesign.quantities import exact, format_bandwidth, format_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from ocs_codesign.cost import Cost, CostModel
    from ocs_codesign.question import Question
    from ocs_codesign.reconfigure import BreakEvenPiece, HeldRun, TracePlan

MAX_ROWS = 40
MAX_FRACTION = 24


def show_plan(
    console: Console,
    plan: TracePlan,
    name: str,
    question: Question,
    left_out: Sequence[str],
) -> None:
    """Print the runs, the totals, the break-even dead times and what they mean."""
    kinds = ", ".join(one.name for one in plan.trace.collectives)
    show_facts(
        console,
        [
            ("trace", f"{name}: {_count(plan.trace.num_jobs, 'job')} ({kinds})"),
            ("computation between", format_time(float(plan.trace.compute_s))),
            ("fabric", f"{question.num_nodes} nodes of degree {question.degree}"),
            ("bandwidth, alpha", _model_text(plan.model)),
            ("delta", delta_text(plan)),
            ("start", _start_text(plan)),
        ],
    )
    console.print()
    _show_designs(console, plan)
    if left_out:
        console.print(
            f"Left out, for their all-to-all is too large to solve in passing: "
            f"{', '.join(left_out)}."
        )
    console.print("\nThe optimum in hindsight:")
    _show_runs(console, plan)
    console.print()
    _show_totals(console, plan)
    searched = "every delta" if plan.break_even.complete else "delta near this one"
    console.print(f"\nThe optimum for {searched}:")
    _show_pieces(console, plan)
    console.print()
    for sentence in sentences(plan):
        console.print(sentence)


def _show_designs(console: Console, plan: TracePlan) -> None:
    collectives = plan.trace.collectives
    rows = []
    for at, option in enumerate(plan.options):
        costs = [option.cost(collective) for collective in collectives]
        rows.append(
            [
                _mark(at),
                *("-" if cost is None else _cost_text(cost) for cost in costs),
                option.name if option.recipe is None else option.recipe.label(),
                option.name,
            ]
        )
    columns = ("design", *(one.name for one in collectives), "label", "recipe")
    show_table(console, columns, rows, texts=2)


def _cost_text(cost: Cost) -> str:
    """A cost in words, long fractions as decimals."""
    if len(str(cost.t_b)) <= MAX_FRACTION:
        return cost_text(cost)
    return f"{cost.steps} steps, t_b {in_decimals(cost.t_b)}"


def _mark(at: int) -> str:
    """A letter for every design: A to Z, then AA, AB and so on."""
    before, letter = divmod(at, 26)
    return (_mark(before - 1) if before else "") + chr(ord("A") + letter)


def _show_runs(console: Console, plan: TracePlan) -> None:
    runs = plan.runs(plan.offline)
    rows = [_run_row(run) for run in _trimmed(runs)]
    _insert_dots(rows, len(runs))
    columns = ("jobs", "collectives", "computation", "dark", "hidden", "design")
    show_table(console, columns, rows, 5, texts=1)


def _run_row(run: HeldRun) -> list[str]:
    single = run.first_job == run.last_job
    return [
        str(run.first_job) if single else f"{run.first_job}-{run.last_job}",
        *(time_text(part) for part in (run.working_s, run.compute_s, run.dark_s, run.hidden_s)),
        _mark(run.option),
    ]


def _show_totals(console: Console, plan: TracePlan) -> None:
    proof = "proven" if plan.offline.is_optimal else f"gap {float(plan.offline.gap or 0):.1g}"
    best = "" if plan.static is None else _mark(int(plan.static.choice[0]))
    rows = []
    for name, chosen, note in (
        ("optimum in hindsight", plan.offline, proof),
        ("online policy", plan.online, _promise_text(plan)),
        ("best single design", plan.static, best),
        ("best design for every job", plan.greedy, ""),
    ):
        if chosen is None:
            rows.append([name, "-", "-", "-", "-", "impossible"])
            continue
        ratio = float(chosen.total / plan.offline.total) if plan.offline.total else 1.0
        parts = (time_text(chosen.total), time_text(chosen.switching), str(chosen.num_switches))
        rows.append([name, *parts, f"{ratio:.4g}", note])
    columns = ("plan", "time", "dark", "switches", "over optimum", "note")
    show_table(console, columns, rows, texts=1)


def _promise_text(plan: TracePlan) -> str:
    """What is proven of the online policy beforehand."""
    if plan.promise is None:
        if len({demand.gap_s for demand in plan.steps.demands}) > 1:
            return "no policy can promise a ratio where gaps differ"
        return "nothing is promised: the dead times are no metric"
    extra = f" and {time_text(plan.promise.extra)}" if plan.promise.extra else ""
    return f"at most {plan.promise.ratio} times the optimum{extra}, whatever comes"


def _show_pieces(console: Console, plan: TracePlan) -> None:
    """One row a plan: what of it gaps hide may change within."""
    import numpy as np

    spans: list[list[BreakEvenPiece]] = []
    for piece in plan.break_even.pieces:
        if spans and np.array_equal(spans[-1][-1].choice, piece.choice):
            spans[-1].append(piece)
        else:
            spans.append([piece])
    rows = []
    for span in _trimmed(spans):
        first, end = span[0], span[-1].end
        rows.append(
            [
                delta_at(plan, first.begin),
                "any" if end is None else delta_at(plan, end),
                time_text(first.total(first.begin)),
                str(first.num_switches),
                " ".join(_mark(at) for at in first.topologies),
            ]
        )
    _insert_dots(rows, len(spans))
    columns = ("delta from", "to", "time at from", "switches", "designs")
    show_table(console, columns, rows, 4, texts=1)


def _start_text(plan: TracePlan) -> str:
    if plan.problem.start is not None:
        return plan.options[plan.problem.start].name
    if plan.reconfiguration.cold_start:
        return "cold: the first design takes its dead time too"
    return "warm: the first design is up already"


def _model_text(model: CostModel) -> str:
    return f"{format_bandwidth(model.node_bandwidth_Bps)} a node, {time_text(exact(model.alpha_s))}"


def _trimmed(rows: Sequence[Any]) -> list[Any]:
    """The rows, without the middle of a long table."""
    return [*rows] if len(rows) <= MAX_ROWS else [*rows[: MAX_ROWS // 2], *rows[-MAX_ROWS // 2 :]]


def _insert_dots(rows: list[list[str]], number: int) -> None:
    if number > MAX_ROWS:
        rows.insert(MAX_ROWS // 2, ["...", *[""] * (len(rows[0]) - 2), f"{number - MAX_ROWS} more"])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
