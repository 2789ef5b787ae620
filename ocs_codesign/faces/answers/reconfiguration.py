"""The frontier with reconfiguration as an answer: candidates, and whether changing pays."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.circuits.frontier import (
    best_static,
    break_even_of,
    messages_that_pay,
    most_saved_s,
    optimal_static,
    t_b_bound,
    t_b_tree_bound,
)
from ocs_codesign.circuits.legs.options import fewest_steps
from ocs_codesign.circuits.sequences import in_turn
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import CostModel
from ocs_codesign.core.quantities import format_bandwidth, format_size, format_time
from ocs_codesign.faces.answers.declared import made
from ocs_codesign.faces.answers.sections import Facts, Table, counted
from ocs_codesign.faces.answers.texts import MAX_FRACTION, cost_text, fat_tree_sentence, in_decimals
from ocs_codesign.jobs.reconfigured.clock import CircuitChange, changes_of
from ocs_codesign.search.pareto import fat_tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.circuits.change import OpenRange
    from ocs_codesign.core.cost import Cost, MessageSizes
    from ocs_codesign.faces.answers.sections import Section
    from ocs_codesign.jobs.reconfigured.clock import SwitchedIteration
    from ocs_codesign.jobs.reconfigured.planning import ReconfiguredIteration
    from ocs_codesign.schedules.design import Design
    from ocs_codesign.search.pareto import Frontier


_SHOWN_RECIPES = 3


def _time_table(
    design: Design, _: Frontier, deltas: Sequence[float], asked: MessageSizes | None
) -> Any:
    return asked and [
        [float(design.cost.time_s(asked.model, size, delta)) for delta in deltas]
        for size in asked.sizes_bytes
    ]


def _is_gathering(answer: Frontier) -> bool:
    return answer.collective != Collective.ALLTOALL


made(
    "reconfiguration.reconfiguration",
    fat_tree=lambda answer: fat_tree(answer.num_nodes, answer.collective).cost,
    break_even_s=lambda answer, _, asked: (
        asked
        and [
            found and float(found[0])
            for found in (break_even_of(answer, asked.model, size) for size in asked.sizes_bytes)
        ]
    ),
    saved_steps=lambda answer: _saved(answer) if _is_gathering(answer) else None,
    verdicts=lambda answer, deltas, asked: (
        asked
        and [
            _verdict(answer, delta, asked.model, size)
            for size in asked.sizes_bytes
            for delta in deltas
        ]
    ),
)
made(
    "changing_design",
    configurations=lambda design: design.cost.num_configurations,
    steps=lambda design: design.cost.point()[1],
    t_b=lambda design: design.cost.point()[2],
    t_b_float=lambda design: float(design.cost.point()[2]),
    t_b_bound=lambda design, answer: t_b_bound(answer, design.cost.num_configurations),
    gap=lambda design, answer: float(
        design.cost.point()[2] / t_b_bound(answer, design.cost.num_configurations) - 1
    ),
    tree_bound=lambda design, answer: t_b_tree_bound(answer, design.cost.num_configurations),
    times_by_dead_time_s=_time_table,
)


def _saved(answer: Frontier) -> dict[str, Any]:
    known = _saved_steps(answer)
    fewest = fewest_steps(answer.num_nodes, answer.degree)
    return {"fewest_allgather_steps": fewest, "most_steps_saved": known and known[1]}


def _verdict(
    answer: Frontier, delta: float, model: CostModel, message_bytes: float
) -> dict[str, Any]:
    best = answer.best(model, message_bytes, delta)
    static = best_static(answer, model, message_bytes)
    return {
        "message_bytes": message_bytes,
        "reconfiguration_s": delta,
        "best": best.label,
        "configurations": best.cost.num_configurations,
        "time_s": float(best.cost.time_s(model, message_bytes, delta)),
        "static": static.label,
        "static_time_s": float(static.cost.time_s(model, message_bytes)),
        "pays": best.changes,
        "pays_for_bytes": [
            [float(sizes.begin), None if sizes.end is None else float(sizes.end)]
            for sizes in messages_that_pay(answer, model, delta)
        ],
    }


def reconfiguration_sections(
    answer: Frontier, deltas: Sequence[float], asked: MessageSizes | None
) -> Iterator[Section]:
    """The table of candidates, then whether changing circuits pays."""
    yield (
        f"{answer.num_nodes} nodes of degree {answer.degree}, {answer.collective.name}, up to "
        f"{answer.max_configurations} configurations in turn: {len(answer.static)} static and "
        f"{len(answer.switching)} that change circuits on the frontier, "
        f"{len(answer.dominated)} dominated"
    )
    yield _candidates_table(answer, deltas, asked)
    if answer.unsolved:
        yield (
            f"{len(answer.unsolved)} more that change circuits are too large to schedule in "
            "passing: the JSON answer has bounds on them."
        )
    if answer.switching:
        yield (
            "Held is how many configurations are, in turn. --pick ROW prints the recipes of a row, "
            "as `sequence` takes them; the JSON answer (--json) has all."
        )
    if answer.collective == Collective.ALLTOALL:
        yield (
            f"No static topology of this size can beat {cost_text(answer.bound)}. The bounds hold "
            "for all topologies held in turn; the tree's by the hops of a full (C d)-ary tree."
        )
    else:
        yield _gain_sentence(answer, asked)
    yield fat_tree_sentence(fat_tree(answer.num_nodes, answer.collective).cost, asked)
    if asked is None:
        yield (
            f"{_units_sentence(answer)} Give --alpha, --bandwidth and --message to learn whether "
            "it pays for them."
        )
        return
    yield "Times hold C - 1 dead times of C configurations; a cold start adds one to all."
    for size in asked.sizes_bytes:
        yield _break_even_sentence(answer, asked.model, size)
        for delta in deltas:
            yield _delta_sentence(answer, delta, asked.model, size)


def _candidates_table(
    answer: Frontier, deltas: Sequence[float], asked: MessageSizes | None
) -> Table:
    columns = ["held", "steps", "t_b", "decimal", "over bound"]
    has_tree = answer.collective == Collective.ALLTOALL
    columns += ["over tree"] * has_tree
    sizes = () if asked is None else asked.sizes_bytes
    times = [(size, delta) for size in sizes for delta in deltas]
    for size, delta in times:
        of_size = f"{format_size(size)} " if len(sizes) > 1 else ""
        columns.append(f"{of_size}at {format_time(delta)}")
    rows = []
    for design in answer.candidates:
        number, steps, t_b = design.cost.point()
        text = in_decimals(t_b) if len(str(t_b)) > MAX_FRACTION else str(t_b)
        row = [str(number), str(steps), text, f"{float(t_b):.6g}"]
        least = [t_b_bound(answer, number), *[t_b_tree_bound(answer, number)] * has_tree]
        row += [f"{float(t_b / each - 1):.2%}" for each in least]
        if asked is not None:
            row += [format_time(design.cost.time_s(asked.model, *each)) for each in times]
        at_least = "" if design.measured else "at least: "
        rows.append((*row, f"{at_least}{_short_label(design)}"))
    return Table((*columns, "label"), rows, len(columns), texts=1, cut=True)


def _short_label(design: Design) -> str:
    more = len(design.recipes) - _SHOWN_RECIPES
    if more < 1:
        return design.label
    return f"{in_turn(islice(design.recipes, _SHOWN_RECIPES))} → {more} more"


def _saved_steps(answer: Frontier) -> tuple[Cost, int] | None:
    """The best static design that is bandwidth-optimal, and what changes save on it at most."""
    costs = [design.cost for design in answer.static]
    static = optimal_static(answer.num_nodes, answer.degree, costs, answer.collective)
    fewest = len(answer.collective.halves()) * fewest_steps(answer.num_nodes, answer.degree)
    return None if static is None else (static, static.steps - fewest)


def _gain_sentence(answer: Frontier, asked: MessageSizes | None) -> str:
    fewest, known = fewest_steps(answer.num_nodes, answer.degree), _saved_steps(answer)
    halves = len(answer.collective.halves())
    saving, what = ("2 (D - L)", "allgather") if halves > 1 else ("D - L", answer.collective.name)
    both = "reduce-scatter and allgather" if halves > 1 else what
    article = "an" if what.startswith("a") else "a"
    least = f"{article} {what} takes {fewest} steps on any circuits"
    if known is None:
        text = f"No bandwidth-optimal static design of this size is known; {least}."
    else:
        text = (
            f"On the bandwidth-optimal static design (D = {known[0].steps // halves}) changing "
            f"circuits inside saves at most {saving} = {known[1]} steps, since {least} "
            "(L), and pays a dead time for every change."
        )
    if asked is None:
        return text
    for size in asked.sizes_bytes:
        saved = float(most_saved_s(answer, asked.model, size))
        verdict = f"saves at most {format_time(saved)}" if saved > 0 else "saves nothing"
        text += (
            f" Against the fastest static design for {format_size(size)} "
            f"{'an' if both.startswith('a') else 'a'} {both} over any circuits {verdict}, "
            "dead times not counted."
        )
    return text


def _units_sentence(answer: Frontier) -> str:
    """When changes pay where steps cost nothing."""
    even = break_even_of(answer, CostModel(0.0, 1.0), 1)
    if even is None:
        return "Changing circuits does not pay if only t_b counts."
    return (
        f"If only t_b counts, changing circuits pays below a dead time of "
        f"{float(even[0]):.4g} M/B, with {_configurations(even[1])}."
    )


def _break_even_sentence(answer: Frontier, model: CostModel, message_bytes: float) -> str:
    what = (
        f"For {format_size(message_bytes)} at alpha {format_time(model.alpha_s)} and "
        f"{format_bandwidth(model.node_bandwidth_Bps)} a node changing circuits"
    )
    even = break_even_of(answer, model, message_bytes)
    if even is None:
        return f"{what} does not pay, even without dead time."
    limit = format_time(even[0])
    return f"{what} pays below a dead time of {limit}, with {_configurations(even[1])}."


def _delta_sentence(answer: Frontier, delta: float, model: CostModel, message_bytes: float) -> str:
    best = answer.best(model, message_bytes, delta)
    static = best_static(answer, model, message_bytes)
    static_s = format_time(float(static.cost.time_s(model, message_bytes)))
    best_s = format_time(float(best.cost.time_s(model, message_bytes, delta)))
    if best.changes:
        against = f"against {static_s} of the best static design"
        verdict = f"yes: {best_s} with {_configurations(best)} {against}"
    else:
        verdict = f"no: {static.label} stays the fastest in {static_s}"
    sizes = " and ".join(map(_range_text, messages_that_pay(answer, model, delta)))
    return (
        f"At a dead time of {format_time(delta)} {verdict}; "
        f"it pays for messages {sizes or 'of no size'}."
    )


def _range_text(sizes: OpenRange) -> str:
    if sizes.end is None:
        return f"above {_size(sizes.begin)}"
    return f"of {_size(sizes.begin)} to {_size(sizes.end)}"


def _size(num_bytes: Fraction) -> str:
    """A size that need not be round, to four digits."""
    value = float(num_bytes)
    power = max((k for k in range(5) if value >= 1000**k), default=0)
    return f"{value / 1000**power:.4g} {('B', 'kB', 'MB', 'GB', 'TB')[power]}"


def _configurations(design: Design) -> str:
    return f"{design.cost.num_configurations} configurations"


# A job whose circuits change as an answer: when, what it gains, and up to which delay.


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


def _sum_s(answer: ReconfiguredAnswer, name: str) -> Fraction:
    return sum((getattr(change, name) for change in answer.changes), Fraction(0))


made(
    "reconfiguration.reconfigured",
    num_ranks=lambda answer: answer.planned.job.graph.ranks.sum(),
    fidelity=lambda answer: "formula" if answer.formula_s is None else "transfers",
    formula_period_s=lambda answer: (
        answer.planned.best.period_s if answer.formula_s is None else answer.formula_s
    ),
    exposed_s=lambda answer: _exposed_s(answer.planned, answer.planned.best),
    dark_s=lambda answer: _sum_s(answer, "dark_s"),
    exposed_reconfiguration_s=lambda answer: _sum_s(answer, "exposed_s"),
    configurations=lambda answer: [
        {
            "recipe": option.name,
            "is_used": bool((answer.planned.best.choice == at).any()),
            "held_period_s": None if held is None else held.period_s,
            "held_exposed_s": None if held is None else _exposed_s(answer.planned, held),
        }
        for at, (option, held) in enumerate(
            zip(answer.planned.job.options, answer.planned.held, strict=True)
        )
    ],
)


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
