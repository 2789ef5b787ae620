"""The answer of ``demand``: a plan for a demand matrix, its bound and what it is compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.sections import Facts, Table
from ocs_codesign.quantities import format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.reconfigure.demand.baselines import DemandBaselines
    from ocs_codesign.reconfigure.demand.plan import DemandPlan

_SHOWN_CONFIGURATIONS, _SHOWN_CIRCUITS = 32, 16
_LONGEST = 22


def demand_json(
    file: str, names: Sequence[str] | None, plan: DemandPlan, baselines: DemandBaselines
) -> dict[str, Any]:
    """The JSON form of a plan for the demand in a file; exact times are texts of fractions."""
    static_s = baselines.static_s
    return {
        "file": file,
        "nodes": plan.demand.num_nodes,
        "names": None if names is None else list(names),
        "total_bytes": float(plan.demand.total_bytes),
        "busiest_node_bytes": float(plan.demand.max_line_bytes),
        "delta_s": float(plan.delta_s),
        "circuit_bandwidth_Bps": float(plan.bandwidth_Bps),
        "switches": plan.num_switches,
        "time_s": float(plan.total_s),
        "time_exact_s": str(plan.total_s),
        "bound_s": float(plan.bound_s),
        "bound_exact_s": str(plan.bound_s),
        "gap": float(plan.gap),
        "optimal": plan.is_optimal,
        "proof": plan.proof,
        "method": plan.method,
        "shares": {
            "dark": float(plan.dark_share),
            "served": float(plan.served_share),
            "overserved": float(plan.overserved_share),
            "idle": float(plan.idle_share),
        },
        "round_robin_s": float(baselines.round_robin_s),
        "fitted_round_robin_s": float(baselines.fitted_round_robin_s),
        "static_bound_s": float(baselines.static_bound_s),
        "static_s": None if static_s is None else float(static_s),
        "static_shifts": list(baselines.static_shifts),
        "configurations": [
            {
                "switch": switch,
                "duration_s": float(duration_s),
                "duration_exact_s": str(duration_s),
                "circuits": circuits,
            }
            for switch, duration_s, circuits in zip(
                plan.switch.tolist(), plan.durations_s, plan.permutations.tolist(), strict=True
            )
        ],
    }


def demand_sections(
    file: str, names: Sequence[str] | None, plan: DemandPlan, baselines: DemandBaselines
) -> Iterator[Section]:
    """The plan as people read it: facts, and then its first configurations."""
    demand = plan.demand
    proof = "proven optimal" if plan.is_optimal else f"at most {float(plan.gap):.2%} over the best"
    switches = f"{plan.num_switches} switch{'es' * (plan.num_switches != 1)}"
    own = int(demand.units.trace()) * demand.unit_bytes
    yield Facts(
        ("demand", f"{file}: {_size(demand.total_bytes)} among {demand.num_nodes} nodes"),
        (
            "busiest node",
            f"{_size(demand.max_line_bytes)} one way, at most {demand.max_peers} peers",
        ),
        # What nodes have for themselves, since that is often a mistake.
        (
            "diagonal",
            f"{_size(own)} from nodes to themselves, served over circuits" if own else None,
        ),
        ("time", f"{_time(plan.total_s)}, {proof}"),
        ("bound", f"{_time(plan.bound_s)}, by {plan.proof}"),
        (
            "configurations",
            f"{plan.num_configurations} on {switches}, {format_time(float(plan.delta_s))} each: "
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
        up_from, held = (format_time(float(time)) for time in times_s)
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


def _time(seconds: Fraction) -> str:
    """A time, and the fraction while it is short."""
    text, exactly = format_time(float(seconds)), f"{seconds} s"
    return text if exactly == text or len(exactly) > _LONGEST else f"{text} ({exactly})"


def _compared(seconds: Fraction, plan: DemandPlan) -> str:
    """A time, and how many times the plan's it is."""
    times = f" ({float(seconds / plan.total_s):.3g} times)" if plan.total_s else ""
    return format_time(float(seconds)) + times


def _size(num_bytes: Fraction) -> str:
    return format_size(float(num_bytes))
