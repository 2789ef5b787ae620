"""The plan of a trace as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.circuits.legs.options import fat_tree_time_s
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.quantities import format_bandwidth, format_time
from ocs_codesign.faces.answers.sections import Facts, Recipes, Table, counted
from ocs_codesign.faces.answers.texts import (
    MAX_FRACTION,
    among_sentence,
    cost_json,
    cost_text,
    in_decimals,
)
from ocs_codesign.graphs.handle import handle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from ocs_codesign.circuits.change import OpenRange
    from ocs_codesign.circuits.legs.break_even import BreakEvenPiece
    from ocs_codesign.circuits.legs.options import FabricOption, InsideBound
    from ocs_codesign.circuits.legs.plan import LegPlan
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
    bandwidth, alpha = format_bandwidth(float(model.node_bandwidth_Bps)), time_text(model.alpha_s)
    starts = {
        "cold": "cold: the first design takes its dead time too",
        "warm": "warm: the first design is up already",
    }
    yield Facts(
        ("trace", f"{answer.name}: {counted(plan.trace.num_jobs, 'job')} ({kinds})"),
        ("computation between", time_text(plan.trace.compute_s)),
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
    rows = []
    for at, option in enumerate(plan.options):
        costs = [_cost_text(option.cost(collective)) for collective in collectives]
        rows.append((_mark(at), *costs, handle(option.name), option.label))
    names = (collective.name for collective in collectives)
    return Table(("design", *names, "handle", "label"), rows, texts=1, cut=True)


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
        times = map(time_text, (run.working, run.waiting, run.switching, run.hidden))
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
        parts = (time_text(chosen.total), time_text(chosen.switching), str(chosen.num_switches))
        rows.append((name, *parts, f"{ratio:.4g}", note))
    if answer.serving is not None:
        least = fat_tree_s(answer)
        ratio = float(least / plan.offline.total) if plan.offline.total else 1.0
        note = "a bound: every message is switched"
        rows.append(
            ("fat tree of as many ports", time_text(least), "0 s", "0", f"{ratio:.4g}", note)
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
    extra = f" and {time_text(extra_s)}" if extra_s else ""
    return f"at most {ratio} times the optimum{extra}, whatever comes"


def _pieces(plan: TracePlan) -> Table:
    """One row a plan: what of it gaps hide may change within."""
    rows = []
    for _, group in groupby(plan.break_even.pieces, lambda piece: piece.choice.tobytes()):
        first, *others = group
        end = (others or [first])[-1].end
        total, marks = time_text(first.total(first.begin)), map(_mark, first.topologies)
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
        times = f"{time_text(plan.offline.total)} against {time_text(plan.static.total)}"
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
    if plan.ceasing is not None and plan.ceasing.end is not None:
        still, no_more = delta_text(plan, plan.ceasing.begin), delta_text(plan, plan.ceasing.end)
        yield f"It still pays at {still}, but not at {no_more}."


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
    price = f"{time_text(gain.saved_s)}, and a switch costs {time_text(gain.dead_s)} at least"
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
        return time_text(fixed_s)
    each = f"{time_text(per_circuit_s)} a circuit"
    return f"{time_text(fixed_s)} + {each}" if fixed_s else each


def time_text(seconds: Fraction) -> str:
    """A time in the unit that suits it."""
    return format_time(float(seconds))


def plan_json(answer: PlannedTrace) -> dict[str, Any]:
    """The JSON form of a plan; exact times are fractions of a second, as text."""
    plan, cost = answer.plan, answer.plan.reconfiguration
    static, greedy = plan.static, plan.greedy
    online = None
    if plan.online is not None:
        online = {
            **_runs_json(plan, plan.online),
            "ratio": None if plan.online_ratio is None else float(plan.online_ratio),
            "promised_ratio": None if plan.promise is None else plan.promise[0],
            "promised_extra_s": None if plan.promise is None else str(plan.promise[1]),
        }
    return {
        "trace": answer.name,
        "jobs": plan.trace.num_jobs,
        "compute_s": str(plan.trace.compute_s),
        "nodes": answer.question.num_nodes,
        "degree": answer.question.degree,
        "delta_s": str(cost.fixed_s),
        "delta_per_circuit_s": str(cost.per_circuit_s),
        "start": answer.start,
        "cost_model": {
            "alpha_s": plan.model.alpha_s,
            "node_bandwidth_Bps": plan.model.node_bandwidth_Bps,
        },
        "designs": [_design_json(option) for option in plan.options],
        "designs_compared": len(plan.options)
        if answer.serving is None
        else len(answer.serving.looked_at),
        "left_out": list(answer.left_out),
        "offline": {**_runs_json(plan, plan.offline), "proven_optimal": plan.offline.is_optimal},
        "online": online,
        "fat_tree_s": None if answer.serving is None else str(fat_tree_s(answer)),
        "static": None
        if static is None
        else {"design": plan.options[int(static.choice[0])].name, **_total_json(plan, static)},
        "greedy": None if greedy is None else _total_json(plan, greedy),
        "break_even": {
            "complete": plan.break_even.complete,
            "delta_s": [str(factor * plan.factor_s) for factor in plan.break_even.factors],
            "pieces": [
                {
                    **_range_json(plan, piece),
                    "from_factor": str(piece.begin),
                    "to_factor": None if piece.end is None else str(piece.end),
                    "total_at_begin_s": str(piece.total(piece.begin)),
                    "num_switches": piece.num_switches,
                    "designs": [plan.options[at].name for at in piece.topologies],
                }
                for piece in plan.break_even.pieces
            ],
        },
        "pays": plan.pays,
        "paying": [_range_json(plan, factors) for factors in plan.paying],
        "ceases_to_pay": None if plan.ceasing is None else _range_json(plan, plan.ceasing),
        "inside": [
            {
                "design": gain.option,
                "collective": gain.collective.name,
                "steps": gain.steps,
                "saved_steps_at_most": gain.saved_steps,
                "saved_s_at_most": str(gain.saved_s),
                "can_gain": gain.can_gain,
            }
            for gain in plan.inside
        ],
        "sentences": plan_sentences(plan),
    }


def _range_json(plan: TracePlan, factors: OpenRange | BreakEvenPiece) -> dict[str, Any]:
    return {
        "from_delta_s": str(factors.begin * plan.factor_s),
        "to_delta_s": None if factors.end is None else str(factors.end * plan.factor_s),
    }


def _design_json(option: FabricOption) -> dict[str, Any]:
    def known(cost: Cost | None) -> dict[str, Any] | None:
        return None if cost is None else cost_json(cost)

    bound = option.alltoall_bound
    return {
        "recipe": option.name,
        "label": None if option.recipe is None else option.recipe.label(),
        "allgather": known(option.allgather),
        "reduce_scatter": known(option.reduce_scatter),
        "alltoall": known(option.alltoall),
        "alltoall_proven_bound": None if bound is None else str(bound),
    }


def _total_json(plan: TracePlan, chosen: LegPlan) -> dict[str, Any]:
    return {
        "total_s": str(chosen.total),
        "total_s_float": float(chosen.total),
        "elapsed_s_float": float(chosen.total + plan.trace.compute_s),
        "working_s": str(chosen.working),
        "dark_s": str(chosen.switching),
        "hidden_s": str(chosen.hidden),
        "num_switches": chosen.num_switches,
    }


def _runs_json(plan: TracePlan, chosen: LegPlan) -> dict[str, Any]:
    runs = [
        {
            "first_job": run.first_step,
            "last_job": run.last_step,
            "design": plan.options[run.topology].name,
            "begin_s_float": float(run.begin),
            "dark_s": str(run.switching),
            "hidden_s": str(run.hidden),
            "working_s": str(run.working),
            "compute_s": str(run.waiting),
        }
        for run in chosen.runs()
    ]
    return {**_total_json(plan, chosen), "runs": runs}


# Circuits that change as answers: how many there are, and what comes up when.


_SHOWN_CHANGES = 16


def circuits_json(program: CircuitProgram, verdict: ProgramVerdict) -> dict[str, Any]:
    """The circuits of a program in JSON."""
    from ocs_codesign.schedules.files.designs import change_fields

    return {
        "planes": program.num_planes,
        "circuits": program.topology.num_links,
        "configurations": verdict.num_configurations,
        "pauses": len(program.pauses),
        "changes": [change_fields(change) for change in verdict.changes],
    }


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


def sequence_json(design: ProgramDesign, time: ProgramTime | None, out: str) -> dict[str, Any]:
    """The JSON form of a program that was saved in a directory, with its time if that is known."""
    from ocs_codesign.schedules.files.designs import program_record

    parts = ("total_s", "steps_s", "transmission_s", "dead_s")
    return {
        **program_record(design),
        **circuits_json(design.program, design.verdict),
        "time": None if time is None else {part: float(getattr(time, part)) for part in parts},
        "out": out,
    }


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
        ("time", None if time is None else _time_text(time)),
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


def _time_text(time: ProgramTime) -> str:
    total, *parts = (
        format_time(float(part))
        for part in (time.total_s, time.steps_s, time.transmission_s, time.dead_s)
    )
    names = ("for steps", "for transmission", "waiting for circuits")
    return f"{total}: " + ", ".join(map(" ".join, zip(parts, names, strict=True)))
