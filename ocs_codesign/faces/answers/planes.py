"""Answers about planes that change circuits one by one: plan, comparisons, steps, timeline."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.circuits import Activity
from ocs_codesign.core.quantities import format_bandwidth, format_size, format_time
from ocs_codesign.faces.answers.declared import made, table
from ocs_codesign.faces.answers.sections import Facts, Table, counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.circuits.demand.matrix import DemandMatrix, DemandPlan
    from ocs_codesign.circuits.demand.planner import DemandBaselines
    from ocs_codesign.circuits.demand.split import PortSplit
    from ocs_codesign.circuits.planes.problem import PlanePlan
    from ocs_codesign.circuits.step_files import StepList
    from ocs_codesign.core.circuits import Interval, Timeline
    from ocs_codesign.faces.answers.sections import Section


_LONGEST = 24
_CHANGES = ("the whole fabric stops for a change", "planes change while others send")


@final
@dataclass(frozen=True, slots=True)
class PlanesAnswer:
    """A plan for the steps in a file, and what it is compared with.

    ``other`` is a plan where the whole fabric stops for changes, or, if it does so in ``plan``,
    where planes change while others send; ``static`` one whose planes never change, if there is
    any.
    """

    file: str
    listed: StepList
    plan: PlanePlan
    other: PlanePlan
    static: PlanePlan | None


made(
    "planes.planes",
    held=lambda answer: _named(answer.plan.problem.held, answer.listed.names),
    dead_s=lambda answer: float(answer.plan.timeline.busy_s(Activity.RECONFIGURE)),
    silent_s=lambda answer: float(_silent_s(answer.plan)),
    steps=lambda answer: _steps(answer),
)
made(
    "compared_planes",
    serial=lambda answer: answer.other if answer.plan.problem.cost.overlap else None,
    overlap=lambda answer: None if answer.plan.problem.cost.overlap else answer.other,
)
made("plane_plan", proven_exactly=lambda plan: not plan.gap)
made("held_planes", held=lambda plan, *beside: _named(_static_held(plan), beside[-1].listed.names))
made(
    "interval",
    configuration=lambda row, answer: (
        None if row.configuration is None else answer.listed.names[row.configuration]
    ),
)


def timeline_table(timeline: Timeline, names: Sequence[str]) -> Table:
    """A row an interval.

    >>> from ocs_codesign.core.circuits import Interval, Timeline
    >>> row = Interval(1, Fraction(0), Fraction(1, 5), Activity.SEND, 0, 1, Fraction(10))
    >>> timeline_table(Timeline.of([row]), ["ring"]).rows
    [('1', '0', '200000', 'send', 'ring', '1', '10')]
    """
    return table(
        timeline,
        "plane; start (us):.6g; end (us):.6g | activity=activity.value; configuration; step "
        "|| bytes",
        start__us_=lambda row: row.start_s * 10**6,
        end__us_=lambda row: row.end_s * 10**6,
        configuration=lambda row: "" if row.configuration is None else names[row.configuration],
        step=lambda row: "" if row.step is None else row.step,
        bytes=lambda row: f"{float(row.bytes):.6g}" if row.activity is Activity.SEND else "",
    )


def planes_sections(answer: PlanesAnswer) -> Iterator[Section]:
    """Facts, a table of the steps and the timeline."""
    yield _facts(answer)
    rows = [
        (
            str(step["step"]),
            *(format_time(step["begin_s"]), format_time(step["end_s"]), format_size(step["bytes"])),
            step["configuration"],
            *(", ".join(map(str, step[name])) for name in ("planes", "changed")),
            format_time(step["dead_s"]) if step["changed"] else "",
        )
        for step in _steps(answer)
    ]
    columns = ("step", "begin", "end", "size", "configuration", "planes", "changed", "dead time")
    yield ""
    yield Table(columns, rows, numbers=4, texts=1).shortened("steps")
    yield ""
    yield timeline_table(answer.plan.timeline, answer.listed.names).shortened("intervals")


def _steps(answer: PlanesAnswer) -> list[dict[str, Any]]:
    """An object a step: who sends from when to when, who changed for it, and how long in all."""
    problem = answer.plan.problem
    sends: list[list[Interval]] = [[] for _ in problem.configurations]
    changes: list[dict[int, Fraction]] = [{} for _ in problem.configurations]
    changed: dict[int, Fraction] = {}
    for row in answer.plan.timeline:
        if row.activity is Activity.RECONFIGURE:
            changed[row.plane] = row.end_s - row.start_s
        elif row.step is not None:
            sends[row.step - 1].append(row)
            if row.plane in changed:
                changes[row.step - 1][row.plane] = changed.pop(row.plane)
    return [
        {
            "step": at + 1,
            "configuration": answer.listed.names[problem.configurations[at]],
            "bytes": float(problem.step_bytes[at]),
            "planes": [row.plane for row in sends[at]],
            "changed": list(changes[at]),
            "dead_s": float(sum(changes[at].values())),
            "begin_s": float(min(row.start_s for row in sends[at])),
            "end_s": float(max(row.end_s for row in sends[at])),
        }
        for at in range(problem.num_steps)
    ]


def _facts(answer: PlanesAnswer) -> Facts:
    plan, problem, cost = answer.plan, answer.plan.problem, answer.plan.problem.cost
    latency = f", {format_time(problem.latency_s)} latency a step" if problem.latency_s else ""
    each = f" and {format_time(cost.per_circuit_s)} for every circuit" if cost.per_circuit_s else ""
    proof = f"at most {float(plan.gap):.2%} above the best"
    if plan.is_optimal:
        rounding = f"optimal but for rounding (at most {float(plan.gap):.0e} above the best)"
        proof = rounding if plan.gap else "proven optimal"
    other = answer.other
    gap = "" if other.is_optimal else f", at most {float(other.gap):.2%} above the best"
    dead, silent = plan.timeline.busy_s(Activity.RECONFIGURE), _silent_s(plan)
    return Facts(
        (
            "steps",
            f"{answer.file}: {counted(problem.num_steps, 'step')}, "
            f"{format_size(float(sum(problem.step_bytes)))} a node, "
            f"{counted(len(answer.listed.names), 'configuration')}",
        ),
        (
            "planes",
            f"{problem.num_planes}, {float(problem.plane_bandwidth_Bps * 8) / 1e9:.6g} Gb/s each"
            f"{latency}",
        ),
        ("used by no step", ", ".join(answer.listed.unused) or None),
        ("change", f"{format_time(cost.fixed_s)} dead time{each}"),
        (
            "rules",
            f"{_CHANGES[1] if cost.overlap else 'all stop for a change'}, "
            f"{'barriers between steps' if cost.barrier else 'no barriers'}, "
            f"{'cold' if cost.cold_start else 'warm'} start",
        ),
        ("time", f"{_exactly(plan.total_s)}, {proof}"),
        ("bound", f"{_exactly(plan.lower_bound_s)}, {plan.method}: {plan.status}"),
        (
            "dark",
            f"planes are in changes for {float(dead / (plan.total_s * problem.num_planes)):.1%} "
            f"of their time; no plane sends for {format_time(silent)} "
            f"({float(silent / plan.total_s):.1%})",
        ),
        (
            "all stop" if cost.overlap else "planes change",
            f"{_times(answer.other, plan)} if {_CHANGES[not cost.overlap]}{gap}",
        ),
        ("no changes", _static_text(answer)),
    )


def _static_text(answer: PlanesAnswer) -> str:
    if answer.static is None:
        return "more configurations are needed than the planes can hold"
    held = _named(_static_held(answer.static), answer.listed.names)
    what = ", ".join("nothing" if name is None else name for name in held)
    return f"{_times(answer.static, answer.plan)} if the planes hold {what}"


def _times(other: PlanePlan, plan: PlanePlan) -> str:
    """A time, and how many times the plan's it is."""
    ratio = f"{float(other.total_s / plan.total_s):.4g}"
    return f"{format_time(other.total_s)} ({'as long' if ratio == '1' else f'{ratio} times'})"


def _silent_s(plan: PlanePlan) -> Fraction:
    """How long no plane sends."""
    silent, now = Fraction(0), Fraction(0)
    sends = [row for row in plan.timeline if row.activity is Activity.SEND]
    for row in sorted(sends, key=lambda send: send.start_s):
        silent += max(Fraction(0), row.start_s - now)
        now = max(now, row.end_s)
    return silent


def _static_held(plan: PlanePlan) -> list[int | None]:
    """What every plane holds all the time."""
    held = list(plan.problem.held)
    for needed, planes in zip(plan.problem.configurations, plan.usage, strict=True):
        for plane in planes:
            held[plane] = needed
    return held


def _named(held: Sequence[int | None], names: Sequence[str]) -> list[str | None]:
    return [None if configuration is None else names[configuration] for configuration in held]


def _exactly(seconds: Fraction) -> str:
    """A time, and the fraction while it is short."""
    text, exactly = format_time(seconds), f"{seconds} s"
    return text if exactly == text or len(exactly) > _LONGEST else f"{text} ({exactly})"


# The answer of ``demand``: a plan for a demand matrix, its bound and what it is compared with.


_SHOWN_CONFIGURATIONS, _SHOWN_CIRCUITS = 32, 16


made(
    "planes.demand",
    configurations=lambda *values: [
        {
            "switch": switch,
            "duration_s": float(duration_s),
            "duration_exact_s": str(duration_s),
            "circuits": circuits,
        }
        for plan in values[2:3]
        for switch, duration_s, circuits in zip(
            plan.switch.tolist(), plan.durations_s, plan.permutations.tolist(), strict=True
        )
    ],
)


def demand_sections(
    file: str, names: Sequence[str] | None, plan: DemandPlan, baselines: DemandBaselines
) -> Iterator[Section]:
    """The plan as people read it: facts, and then its first configurations."""
    demand = plan.demand
    proof = "proven optimal" if plan.is_optimal else f"at most {float(plan.gap):.2%} over the best"
    switches = f"{plan.num_switches} switch{'es' * (plan.num_switches != 1)}"
    own = int(demand.units.trace()) * demand.unit_bytes
    yield Facts(
        ("demand", f"{file}: {format_size(demand.total_bytes)} among {demand.num_nodes} nodes"),
        (
            "busiest node",
            f"{format_size(demand.max_line_bytes)} one way, at most {demand.max_peers} peers",
        ),
        # What nodes have for themselves, since that is often a mistake.
        (
            "diagonal",
            f"{format_size(own)} from nodes to themselves, served over circuits" if own else None,
        ),
        ("time", f"{_exactly(plan.total_s)}, {proof}"),
        ("bound", f"{_exactly(plan.bound_s)}, by {plan.proof}"),
        (
            "configurations",
            f"{plan.num_configurations} on {switches}, {format_time(plan.delta_s)} each: "
            f"{float(plan.dark_share):.1%} of the time is dark",
        ),
        (
            "circuits' time",
            f"{float(plan.served_share):.1%} demanded, {float(plan.overserved_share):.1%} "
            f"after it, {float(plan.idle_share):.1%} where nothing is",
        ),
        ("found by", plan.method),
        (
            "round robin",
            f"{_compared(baselines.round_robin_s, plan)} with equal times, "
            f"{_compared(baselines.fitted_round_robin_s, plan)} with fitted ones",
        ),
        ("no reconfiguration", _static(plan, baselines)),
    )
    if plan.num_configurations:
        yield ""
        yield _configurations(plan, names)


def _static(plan: DemandPlan, baselines: DemandBaselines) -> str | None:
    """What circuits that stay take, and whether it is proven that they take longer."""
    if baselines.static_s is None or not plan.total_s:
        return None
    shifts = ", ".join(f"+{shift}" for shift in baselines.static_shifts)
    own = ", their own not counted" if plan.demand.units.trace() else ""
    text = f"{_compared(baselines.static_s, plan)} on the shifts {shifts}, nodes forward{own}; "
    least = _compared(baselines.static_bound_s, plan)
    if baselines.static_s < plan.total_s:
        return text + "changing circuits does not pay"
    if baselines.static_bound_s > plan.total_s:
        return text + f"no circuits that stay take less than {least}"
    return text + f"the best that stay take at least {least}"


def _configurations(plan: DemandPlan, names: Sequence[str] | None) -> Table:
    rows = []
    timeline = zip(plan.switch.tolist(), plan.up_from_s(), plan.durations_s, strict=True)
    for at, (switch, *times_s) in enumerate(timeline):
        if at == _SHOWN_CONFIGURATIONS:
            left_out = plan.num_configurations - at
            rows.append(("...", "", "", f"{left_out} more configurations: --out FILE has them all"))
            break
        up_from, held = (format_time(time) for time in times_s)
        rows.append((str(switch), up_from, held, _circuits(plan, at, names)))
    return Table(("switch", "up from", "for", "circuits"), rows, numbers=3, texts=1)


def _circuits(plan: DemandPlan, at: int, names: Sequence[str] | None) -> str:
    """The circuits of a configuration that serve demand: a shift, or pairs."""
    nodes, used = plan.demand.num_nodes, plan.used_circuits(at)
    shifts = {(target - source) % nodes for source, target in used}
    if len(shifts) == 1 and len(used) == nodes:
        return f"all nodes i > i + {shifts.pop()}"
    said = [str(node) for node in range(nodes)] if names is None else names
    pairs = " ".join(f"{said[source]}>{said[target]}" for source, target in used[:_SHOWN_CIRCUITS])
    more = len(used) - _SHOWN_CIRCUITS
    return pairs + (f" and {more} more" if more > 0 else "")


def _compared(seconds: Fraction, plan: DemandPlan) -> str:
    """A time, and how many times the plan's it is."""
    times = f" ({float(seconds / plan.total_s):.3g} times)" if plan.total_s else ""
    return format_time(seconds) + times


# The answer of ``demand --ports``: ports divided between circuits that stay and packets.


def _best_split(splits: Sequence[PortSplit]) -> PortSplit | None:
    """The fastest, of equals that of fewest circuits, None if none serves all pairs."""
    served = [(one.value, one.circuit_ports, one) for one in splits if one.value is not None]
    return min(served, key=lambda one: one[:2])[2] if served else None


def _joined(split: PortSplit) -> list[list[int]]:
    """Circuits as [server, server, how many]."""
    circuits = split.circuits
    return [
        [one, other, int(circuits[one, other])]
        for one, other in np.argwhere(np.triu(circuits) > 0).tolist()
    ]


def _packet_ports_of_best(_file: str, _demand: DemandMatrix, splits: list[PortSplit]) -> int | None:
    best = _best_split(splits)
    return None if best is None else best.packet_ports


made("planes.split", best=_packet_ports_of_best)
made("port_split", circuits=lambda split: _joined(split))


def split_sections(
    file: str,
    demand: DemandMatrix,
    splits: list[PortSplit],
    circuit_Bps: float,  # noqa: N803 - units keep their case
    packet_Bps: float,  # noqa: N803 - units keep their case
) -> Iterator[Section]:
    """The times of all divisions, and the circuits of the best."""
    best = _best_split(splits)
    widths = f"{format_bandwidth(circuit_Bps)} a circuit, {format_bandwidth(packet_Bps)} a port"
    circuits = [] if best is None else _joined(best)
    names = demand.names or [str(node) for node in range(demand.num_nodes)]
    listed = [
        f"{names[one]}-{names[other]}{f' x{count}' if count > 1 else ''}"
        for one, other, count in circuits[:_SHOWN_CIRCUITS]
    ]
    more = f" and {len(circuits) - _SHOWN_CIRCUITS} more" * (len(circuits) > _SHOWN_CIRCUITS)
    none = "no division serves all pairs" if best is None else "none"
    yield Facts(
        ("demand", f"{file}: {format_size(demand.total_bytes)} among {demand.num_nodes} servers"),
        ("bandwidth", f"{widths} into the packet network"),
        ("best circuits", ", ".join(listed) + more or none),
    )
    yield ""
    rows = []
    for split in splits:
        bound = "proven" if split.is_optimal else format_time(split.bound)
        rows.append(
            (
                *(str(split.circuit_ports), str(split.packet_ports)),
                "no way" if split.value is None else format_time(split.value),
                bound,
                "no way" if split.greedy_s is None else format_time(split.greedy_s),
                ", ".join(["best"] * (split is best) + ["today"] * (not split.circuit_ports)),
            )
        )
    yield Table(
        ("circuits", "packet ports", "takes", "at least", "one by one", ""), rows, numbers=5
    )
