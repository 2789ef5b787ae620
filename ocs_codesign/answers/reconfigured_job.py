"""A job whose circuits change as an answer: when, what it gains, and up to which delay."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.answers.sections import Facts, Table, counted
from ocs_codesign.quantities import format_time
from ocs_codesign.workload.reconfigured.dark import CircuitChange, changes_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.workload.reconfigured.clock import SwitchedIteration
    from ocs_codesign.workload.reconfigured.planning import ReconfiguredIteration


@final
@dataclass(frozen=True, slots=True)
class ReconfiguredAnswer:
    """A planned job with its name and what it is.

    ``formula_s`` is the period of the same sequence by the formula, where the plan is on links.
    """

    name: str
    text: str
    planned: ReconfiguredIteration
    formula_s: Fraction | None = None

    @property
    def changes(self) -> tuple[CircuitChange, ...]:
        """The changes of an iteration, in their order."""
        return changes_of(self.planned.job, self.planned.best)

    @property
    def gain(self) -> Fraction | None:
        """By which part of it the best held iteration becomes shorter; None if nothing is held."""
        held = self.planned.best_held
        lead = None if held is None else self.planned.held[held]
        if lead is None or not lead.period_s:
            return None
        return 1 - self.planned.best.period_s / lead.period_s


def reconfigured_json(answer: ReconfiguredAnswer) -> dict[str, Any]:
    """The JSON form: the plan, its changes, every configuration that is held instead."""
    planned, changes = answer.planned, answer.changes
    job, best = planned.job, planned.best
    return {
        "job": answer.name,
        "num_nodes": job.graph.num_nodes,
        "num_ranks": int(job.graph.ranks.sum()),
        "fidelity": "formula" if answer.formula_s is None else "transfers",
        "formula_period_s": best.period_s if answer.formula_s is None else answer.formula_s,
        "num_messages": len(best.order),
        "period_s": best.period_s,
        "period_exact_s": str(best.period_s),
        "is_steady": best.steady.is_steady,
        "bound_s": planned.bound_s,
        "is_proven": planned.is_proven,
        "num_tried": planned.num_tried,
        "exposed_s": _exposed_s(planned, best),
        "best_held": planned.best_held,
        "gain": answer.gain,
        "dark_s": sum((one.dark_s for one in changes), Fraction(0)),
        "exposed_reconfiguration_s": sum((one.exposed_s for one in changes), Fraction(0)),
        "break_even_s": planned.break_even_s,
        "choice": best.choice.tolist(),
        "changes": [
            {
                "position": one.position,
                "label": one.label,
                "from": one.before,
                "to": one.after,
                "dark_s": one.dark_s,
                "exposed_s": one.exposed_s,
            }
            for one in changes
        ],
        "configurations": [
            {
                "recipe": option.name,
                "is_used": bool((best.choice == at).any()),
                "held_period_s": None if held is None else held.period_s,
                "held_exposed_s": None if held is None else _exposed_s(planned, held),
            }
            for at, (option, held) in enumerate(zip(job.options, planned.held, strict=True))
        ],
    }


def _exposed_s(planned: ReconfiguredIteration, one: SwitchedIteration) -> Fraction:
    """Seconds an iteration that a rank waits for messages; the circuits are no rank."""
    ranks = int(planned.job.graph.ranks.sum())
    return one.steady.exposed_s * (ranks + 1) / ranks


def reconfigured_sections(answer: ReconfiguredAnswer) -> Iterator[Section]:
    """The same to read; of many changes the middle is left out."""
    planned, changes = answer.planned, answer.changes
    job, best = planned.job, planned.best
    about = "" if best.steady.is_steady else "about "
    dark_s = sum((one.dark_s for one in changes), Fraction(0))
    waits_s = sum((one.exposed_s for one in changes), Fraction(0))
    yield Facts(
        ("job", f"{answer.name}, {answer.text}"),
        ("ranks", int(job.graph.ranks.sum())),
        ("iteration", f"{about}{format_time(best.period_s)}{_gain_text(answer)}"),
        ("formula", _formula_text(answer)),
        ("bound", f"{format_time(planned.bound_s)}: {_proof(planned)}"),
        ("exposed", f"{format_time(_exposed_s(planned, best))}: it waits for messages"),
        (
            "changes",
            f"{counted(len(changes), 'change')} an iteration, dark for {format_time(dark_s)}, of "
            f"which ranks wait {format_time(waits_s)}"
            if changes
            else "none: one configuration is held",
        ),
        ("break-even", _break_even_text(answer)),
    )
    yield ""
    rows = [(format_time(best.period_s), format_time(_exposed_s(planned, best)), "in turn", "best")]
    for at, (option, held) in enumerate(zip(job.options, planned.held, strict=True)):
        name = f"{_letter(at)} {option.name}"
        if held is None:
            rows.append(("-", "-", name, "cannot be held: it does not lead to all ranks"))
            continue
        note = "best to hold" if at == planned.best_held else ""
        times = format_time(held.period_s), format_time(_exposed_s(planned, held))
        rows.append((*times, name, note))
    if not changes:
        rows = rows[1:]
    yield Table(("iteration", "exposed", "configuration", ""), rows, numbers=2, texts=2)
    if not changes:
        return
    yield ""
    yield Table(
        ("message", "dark", "ranks wait", "from", "to", "before"),
        [
            (
                f"{one.position + 1} of {len(best.order)}",
                *(format_time(one.dark_s), format_time(one.exposed_s)),
                *(_letter(one.before), _letter(one.after), one.label or "-"),
            )
            for one in changes
        ],
        numbers=3,
        texts=3,
    ).shortened("changes")


def _formula_text(answer: ReconfiguredAnswer) -> str | None:
    """What the formula says of the same changes, where the answer is over links."""
    formula_s = answer.formula_s
    if formula_s is None:
        return None
    ratio = float(answer.planned.best.period_s / formula_s - 1) * 100 if formula_s else 0.0
    return f"{format_time(formula_s)}: over the links {ratio:+.2f} %"


def _letter(at: int) -> str:
    return "ABCDEFGHIJKLMNOP"[at]


def _gain_text(answer: ReconfiguredAnswer) -> str:
    planned, gain = answer.planned, answer.gain
    if planned.best_held is None or gain is None:
        return ": no configuration serves all messages"
    if not gain:
        return f": no change beats {_letter(planned.best_held)} held throughout"
    return f": {float(100 * gain):.2f} % less than {_letter(planned.best_held)} held throughout"


def _proof(planned: ReconfiguredIteration) -> str:
    if planned.best.period_s == planned.bound_s:
        return "no sequence of configurations is below"
    if planned.all_tried:
        return f"the best of all {planned.num_tried} sequences, which were all put on the clock"
    return "no sequence of configurations with the messages in this order is below"


def _break_even_text(answer: ReconfiguredAnswer) -> str | None:
    planned = answer.planned
    if planned.best_held is None:
        return None
    if planned.break_even_s is None:
        return "no change would pay even if it took no time"
    return f"changes of less than {format_time(planned.break_even_s)} pay"
