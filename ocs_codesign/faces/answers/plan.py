"""The plan of a trace as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, final

from ocs_codesign.circuits.legs.options import fat_tree_time_s
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.quantities import format_bandwidth, format_time
from ocs_codesign.faces.answers.declared import made, table
from ocs_codesign.faces.answers.sections import Facts, Recipes, Table, counted
from ocs_codesign.faces.answers.texts import MAX_FRACTION, among_sentence, cost_text, in_decimals
from ocs_codesign.graphs.handle import handle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from ocs_codesign.circuits.change import OpenRange
    from ocs_codesign.circuits.legs.options import InsideBound
    from ocs_codesign.circuits.legs.trace import TracePlan
    from ocs_codesign.circuits.programs.designs import ProgramDesign, ProgramTime
    from ocs_codesign.core.circuits import CircuitProgram, PlaneChange
    from ocs_codesign.core.cost import Cost
    from ocs_codesign.faces.answers.sections import Section
    from ocs_codesign.schedules.design import Question
    from ocs_codesign.search.pareto import Frontier
    from ocs_codesign.verification.circuits import ProgramVerdict


# The plan of a trace for people: the runs, how policies compare, and from which delta it pays.


MAX_ROWS = 40


@final
@dataclass(frozen=True, slots=True, eq=False)
class PlannedTrace:
    """A plan with the name of its trace and the fabric.

    Unless all designs were named, ``serving`` is what the others were chosen from.
    """

    plan: TracePlan
    name: str
    question: Question
    serving: Frontier | None = None

    @property
    def left_out(self) -> tuple[str, ...]:
        """Designs whose all-to-all was too large to solve."""
        unsolved = () if self.serving is None else self.serving.unsolved
        return tuple(repr(design.recipe) for design in unsolved)

    @property
    def start(self) -> str:
        """The design held before the trace; cold or warm if there is none."""
        held = self.plan.problem.start
        if held is not None:
            return self.plan.options[held].name
        return "cold" if self.plan.reconfiguration.cold_start else "warm"


def plan_sections(answer: PlannedTrace) -> Iterator[Section]:
    """The runs, the totals, the break-even dead times and what they mean."""
    plan, model = answer.plan, answer.plan.model
    kinds = ", ".join(collective.name for collective in plan.trace.collectives)
    bandwidth, alpha = format_bandwidth(float(model.node_bandwidth_Bps)), format_time(model.alpha_s)
    starts = {
        "cold": "cold: the first design takes its dead time too",
        "warm": "warm: the first design is up already",
    }
    yield Facts(
        ("trace", f"{answer.name}: {counted(plan.trace.num_jobs, 'job')} ({kinds})"),
        ("computation between", format_time(plan.trace.compute_s)),
        ("fabric", f"{answer.question.num_nodes} nodes of degree {answer.question.degree}"),
        ("bandwidth, alpha", f"{bandwidth} a node, {alpha}"),
        ("delta", delta_text(plan)),
        ("start", starts.get(answer.start, answer.start)),
    )
    yield ""
    yield _designs(plan)
    yield among_sentence(len(plan.options), answer.serving)
    if answer.left_out:
        names = ", ".join(answer.left_out)
        yield f"Left out, for their all-to-all is too large to solve in passing: {names}."
    yield "\nThe optimum in hindsight:"
    yield _runs(plan)
    yield ""
    yield _totals(answer)
    searched = "every delta" if plan.break_even.complete else "delta near this one"
    yield f"\nThe optimum for {searched}:"
    yield _pieces(plan)
    yield ""
    yield from plan_sentences(plan)
    yield Recipes.of(option.recipe for option in plan.options)


def _designs(plan: TracePlan) -> Table:
    collectives = plan.trace.collectives
    return table(
        enumerate(plan.options),
        "| design; *cost; handle || label",
        spread={"cost": tuple(collective.name for collective in collectives)},
        cut=True,
        design=lambda each: _mark(each[0]),
        cost=lambda each: [_cost_text(each[1].cost(collective)) for collective in collectives],
        handle=lambda each: handle(each[1].name),
        label=lambda each: each[1].label,
    )


def _cost_text(cost: Cost | None) -> str:
    """A cost in words, long fractions as decimals."""
    if cost is None:
        return "-"
    if len(str(cost.t_b)) <= MAX_FRACTION:
        return cost_text(cost)
    return f"{cost.steps} steps, t_b {in_decimals(cost.t_b)}"


def _mark(at: int) -> str:
    """A letter for every design: A to Z, then AA, AB and so on."""
    before, letter = divmod(at, 26)
    return (_mark(before - 1) if before else "") + chr(ord("A") + letter)


def _runs(plan: TracePlan) -> Table:
    rows = []
    for run in plan.offline.runs():
        single = run.first_step == run.last_step
        jobs = str(run.first_step) if single else f"{run.first_step}-{run.last_step}"
        times = map(format_time, (run.working, run.waiting, run.switching, run.hidden))
        rows.append((jobs, *times, _mark(run.topology)))
    columns = ("jobs", "collectives", "computation", "dark", "hidden", "design")
    return Table(columns, _trimmed(rows), numbers=5, texts=1)


def fat_tree_s(answer: PlannedTrace) -> Fraction:
    """What the collectives of the trace take at least on a fat tree of as many ports."""
    return fat_tree_time_s(answer.question.num_nodes, answer.plan.trace, answer.plan.model)


def _totals(answer: PlannedTrace) -> Table:
    plan = answer.plan
    proof = "proven, among these designs" if plan.offline.is_optimal else ""
    best = "" if plan.static is None else _mark(int(plan.static.choice[0]))
    rows = []
    for name, chosen, note in (
        ("optimum in hindsight", plan.offline, proof),
        ("online policy", plan.online, _promise_text(plan)),
        ("best single design", plan.static, best),
        ("best design for every job", plan.greedy, ""),
    ):
        if chosen is None:
            rows.append((name, "-", "-", "-", "-", "impossible"))
            continue
        ratio = float(chosen.total / plan.offline.total) if plan.offline.total else 1.0
        parts = (format_time(chosen.total), format_time(chosen.switching), str(chosen.num_switches))
        rows.append((name, *parts, f"{ratio:.4g}", note))
    if answer.serving is not None:
        least = fat_tree_s(answer)
        ratio = float(least / plan.offline.total) if plan.offline.total else 1.0
        note = "a bound: every message is switched"
        rows.append(
            ("fat tree of as many ports", format_time(least), "0 s", "0", f"{ratio:.4g}", note)
        )
    columns = ("plan", "without computation", "dark", "switches", "over optimum", "note")
    return Table(columns, rows, texts=1)


def _promise_text(plan: TracePlan) -> str:
    """What is proven of the online policy beforehand."""
    if plan.promise is None:
        if len({leg.gap_s for leg in plan.legs.legs}) > 1:
            return "no policy can promise a ratio where gaps differ"
        return "nothing is promised: the dead times are no metric"
    ratio, extra_s = plan.promise
    extra = f" and {format_time(extra_s)}" if extra_s else ""
    return f"at most {ratio} times the optimum{extra}, whatever comes"


def _pieces(plan: TracePlan) -> Table:
    """One row a plan: what of it gaps hide may change within."""
    rows = []
    for _, group in groupby(plan.break_even.pieces, lambda piece: piece.choice.tobytes()):
        first, *others = group
        end = (others or [first])[-1].end
        total, marks = format_time(first.total(first.begin)), map(_mark, first.topologies)
        span = (delta_text(plan, first.begin), "any" if end is None else delta_text(plan, end))
        rows.append((*span, total, str(first.num_switches), " ".join(marks)))
    columns = ("delta from", "to", "time at from", "switches", "designs")
    return Table(columns, _trimmed(rows), numbers=4, texts=1)


def _trimmed(rows: Sequence[tuple[str, ...]]) -> Sequence[tuple[str, ...]]:
    """The rows, without the middle of a long table."""
    if len(rows) <= MAX_ROWS:
        return rows
    dots = ("...", *[""] * (len(rows[0]) - 2), f"{len(rows) - MAX_ROWS} more")
    return [*rows[: MAX_ROWS // 2], dots, *rows[-MAX_ROWS // 2 :]]


def plan_sentences(plan: TracePlan) -> list[str]:
    """Whether switching pays and from which delta; what it could gain inside a collective."""
    inside = [_inside_sentence(gain) for gain in plan.inside]
    if plan.static is None:
        needed = "No single design can serve all jobs: switching is needed, whatever it costs."
        return [needed, *inside]
    delta, design = delta_text(plan), plan.options[int(plan.static.choice[0])].name
    if not plan.pays:
        first = f"Switching between jobs does not pay at delta {delta}: hold {design}."
    else:
        times = f"{format_time(plan.offline.total)} against {format_time(plan.static.total)}"
        best = f"{times} on {design}, the best single design"
        first = f"Switching between jobs pays at delta {delta}: {best}."
    return [" ".join([first, *_ranges(plan)]), *inside]


def _ranges(plan: TracePlan) -> Iterator[str]:
    """For which dead times it pays, as far as they were searched."""
    pieces = plan.break_even.pieces
    searched = ""
    if not plan.break_even.complete:
        end = pieces[-1].end
        until = "on" if end is None else f"to {delta_text(plan, end)}"
        searched = f", as far as it was searched (from {delta_text(plan, pieces[0].begin)} {until})"
    if plan.paying:
        spans = " and ".join(_range_text(plan, factors) for factors in plan.paying)
        yield f"It pays for delta {spans}{searched}."
    else:
        yield f"It does not at any other delta either{searched}."


def _range_text(plan: TracePlan, factors: OpenRange) -> str:
    begin, end = factors.begin, factors.end
    if end is None:
        return f"above {delta_text(plan, begin)}" if begin else "of any length"
    until = delta_text(plan, end)
    return f"between {delta_text(plan, begin)} and {until}" if begin else f"below {until}"


def _inside_sentence(gain: InsideBound) -> str:
    halves = " (reduce-scatter, then allgather)" * (gain.collective == Collective.ALLREDUCE)
    where = f"{gain.collective.name}{halves} on {gain.option}, bandwidth-optimal in {gain.steps}"
    if not gain.saved_steps:
        return f"Inside one {where} steps, switching cannot gain: no circuits save a step."
    verdict = "which could pay" if gain.can_gain else "so it cannot gain"
    price = f"{format_time(gain.saved_s)}, and a switch costs {format_time(gain.dead_s)} at least"
    most = f"switching can save {counted(gain.saved_steps, 'step')} at most"
    return f"Inside one {where} steps, {most} ({price}), {verdict}."


def delta_text(plan: TracePlan, factor: Fraction | None = None) -> str:
    """The dead time that was planned with, or that a break-even factor makes."""
    cost = plan.reconfiguration
    if factor is None:
        fixed_s, per_circuit_s = cost.fixed_s, cost.per_circuit_s
    else:
        fixed_s, per_circuit_s = factor * plan.factor_s, factor * cost.per_circuit_s
    if not per_circuit_s:
        return format_time(fixed_s)
    each = f"{format_time(per_circuit_s)} a circuit"
    return f"{format_time(fixed_s)} + {each}" if fixed_s else each


def _name(at: Any, answer: PlannedTrace) -> str:
    return answer.plan.options[int(at)].name


made(
    "plan.plan",
    designs_compared=lambda answer: len(
        answer.plan.options if answer.serving is None else answer.serving.looked_at
    ),
    fat_tree_s=lambda answer: answer.serving and fat_tree_s(answer),
    sentences=lambda answer: plan_sentences(answer.plan),
)
made(
    "plan_total",
    elapsed_s_float=lambda chosen, answer: float(chosen.total + answer.plan.trace.compute_s),
)
made("plan_run", design=lambda run, _, answer: _name(run.topology, answer))
made("static_plan", design=lambda chosen, answer: _name(chosen.choice[0], answer))
made(
    "online_plan",
    ratio=lambda _, answer: answer.plan.online_ratio and float(answer.plan.online_ratio),
    promised_ratio=lambda _, answer: answer.plan.promise and answer.plan.promise[0],
    promised_extra_s=lambda _, answer: answer.plan.promise and answer.plan.promise[1],
)
made(
    "break_even",
    deltas_exact_s=lambda found, answer: [each * answer.plan.factor_s for each in found.factors],
)
made(
    "plan_piece",
    total_at_begin_s=lambda piece: piece.total(piece.begin),
    designs=lambda piece, _, answer: [_name(at, answer) for at in piece.topologies],
)
made(
    "delta_range",
    from_delta_s=lambda factors, *beside: factors.begin * beside[-1].plan.factor_s,
    to_delta_s=lambda factors, *beside: factors.end and factors.end * beside[-1].plan.factor_s,
)


# Circuits that change as answers: how many there are, and what comes up when.


_SHOWN_CHANGES = 16


class Changing(NamedTuple):
    """Circuits that change, and what was verified of them."""

    program: CircuitProgram
    verdict: ProgramVerdict


def circuits_facts(program: CircuitProgram, verdict: ProgramVerdict) -> list[tuple[str, object]]:
    """Rows of a table of facts."""
    changed = sum(change.num_circuits for change in verdict.changes if change.step > 1)
    stays = verdict.num_configurations == 1
    return [
        ("configurations", verdict.num_configurations),
        ("circuits changed", "none" if stays else f"{changed:,} in all"),
        ("the fabric stops", None if stays else counted(len(program.pauses), "time")),
    ]


def changes_sections(changes: Sequence[PlaneChange]) -> Iterator[Section]:
    """What comes up when, after the first configuration; the rest of a long list is left out."""
    later = [change for change in changes if change.step > 1]
    if not later:
        return
    rows = [
        (str(change.step), str(change.plane), str(change.num_circuits), _prepared(change))
        for change in later[:_SHOWN_CHANGES]
    ]
    if len(later) > _SHOWN_CHANGES:
        rows.append(("...", "", "", f"{len(later) - _SHOWN_CHANGES} more changes"))
    yield ""
    yield Table(("step", "plane", "circuits up", "prepared"), rows, numbers=3)


def _prepared(change: PlaneChange) -> str:
    if not change.dark_steps:
        return "while the fabric stops"
    return f"while others send, in {counted(change.dark_steps, 'dark step')}"


# A schedule whose circuits change as an answer: its record, its circuits and how long it takes.


def _record(design: ProgramDesign) -> dict[str, Any]:
    from ocs_codesign.schedules.files.designs import program_record

    return program_record(design)


made(
    "plan.sequence",
    program_record=_record,
    circuits=lambda design: Changing(design.program, design.verdict),
)


def sequence_sections(
    design: ProgramDesign, time: ProgramTime | None, out: str
) -> Iterator[Section]:
    """What a program is and costs, and what comes up when."""
    schedule = design.schedule
    yield Facts(
        ("recipes", ", ".join(map(repr, design.recipes)) or None),
        ("nodes, planes", f"{schedule.topology.num_nodes}, {design.program.num_planes}"),
        ("collective", schedule.collective.name),
        ("cost", f"{cost_text(design.cost)}, verified"),
        ("bound", _bound_text(design)),
        *circuits_facts(design.program, design.verdict),
        ("schedule", f"{design.maker}, {schedule.num_sends:,} sends"),
        ("chunks a shard", schedule.num_chunks),
        ("time", None if time is None else _format_time(time)),
        ("saved in", out),
    )
    yield from changes_sections(design.verdict.changes)


def _bound_text(design: ProgramDesign) -> str | None:
    """How far an all-to-all may be above the best over the same steps."""
    if design.bound is None:
        return None
    if design.cost.t_b == design.bound:
        return "no schedule over the same steps is better"
    gap = float(design.cost.t_b / design.bound - 1)
    return f"{float(design.bound):.6g}, at most {gap:.1g} below"


def _format_time(time: ProgramTime) -> str:
    total, *parts = (
        format_time(part) for part in (time.total_s, time.steps_s, time.transmission_s, time.dead_s)
    )
    names = ("for steps", "for transmission", "waiting for circuits")
    return f"{total}: " + ", ".join(map(" ".join, zip(parts, names, strict=True)))
