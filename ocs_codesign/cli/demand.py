"""``ocs-codesign demand``: configurations of circuit switches for a demand matrix."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.cli.options import json_option, printable, quantity_option
from ocs_codesign.cli.output import STDOUT, check_outputs, emit, show_facts, show_table
from ocs_codesign.cli.progress import progress
from ocs_codesign.quantities import format_size, format_time, parse_bandwidth, parse_time

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from rich.console import Console

    from ocs_codesign.formats.matrix_files import DemandFile
    from ocs_codesign.reconfigure.demand.baselines import DemandBaselines
    from ocs_codesign.reconfigure.demand.effort import DemandEffort
    from ocs_codesign.reconfigure.demand.plan import DemandPlan

_EXACT_NODES, _EXACT_TIME_S = 10**12, 60.0
_SHOWN_CONFIGURATIONS, _SHOWN_CIRCUITS = 32, 16
_LONGEST = 22


@click.command(short_help="Configurations of circuit switches for a demand matrix.")
@click.argument("matrix", metavar="FILE")
@quantity_option("--delta", parse_time, "Time that a configuration takes to make, such as 10us.")
@quantity_option("--bandwidth", parse_bandwidth, "Bandwidth of one circuit, such as 100Gbps.")
@click.option(
    "--switches",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Circuit switches side by side; every node has a circuit on each.",
)
@click.option(
    "--unit", metavar="UNIT", help="What entries without a unit count, as MiB, or 8KiB a token."
)
@click.option("--exact", is_flag=True, help="Search all plans: for up to 8 nodes.")
@quantity_option("--time-limit", parse_time, "Time for planning, such as 60s.")
@click.option(
    "--seed", type=click.IntRange(0, 2**31 - 1), default=0, help="Of the local search (default 0)."
)
@click.option("--out", "plan_path", metavar="FILE", help="Write the configurations as CSV.")
@click.option(
    "--plot", "plot_path", metavar="FILE", help="Draw demand and switches (png, svg, pdf)."
)
@json_option
def demand(
    matrix: str,
    delta: float | None,
    bandwidth: float | None,
    switches: int,
    unit: str | None,
    exact: bool,
    time_limit: float | None,
    seed: int,
    plan_path: str | None,
    plot_path: str | None,
    json_path: str | None,
) -> None:
    """Plan configurations of circuit switches that serve the demand matrix in FILE.

    FILE is CSV, JSON or npy: entry i, j is what node i has for node j, in bytes, in --unit, or with
    a unit of its own as in 4MiB. Every configuration, a permutation of the nodes, costs its switch
    --delta and is then held as long as planned. The answer says how far it may be from the best
    plan, and what a round robin and circuits that stay would take.
    """
    if delta is None or bandwidth is None:
        raise click.UsageError("a plan needs --delta and --bandwidth")
    if plot_path is not None:
        from ocs_codesign.plot import check_suffix

        if plot_path == STDOUT:
            raise click.UsageError("a picture is a file: it cannot go to standard output")
        check_suffix(Path(plot_path).suffix)
    check_outputs(plan_path, plot_path, json_path)
    from ocs_codesign.formats.matrix_files import plan_csv, read_demand
    from ocs_codesign.reconfigure.demand.baselines import demand_baselines
    from ocs_codesign.reconfigure.demand.planner import plan_demand

    file = read_demand(matrix, unit)
    effort = _effort(file, exact, time_limit, seed)
    with progress("Planning") as shown:
        plan = plan_demand(file.demand, delta, switches, bandwidth, effort, shown.tell_phase)
        baselines = demand_baselines(plan)
    answer = _answer(matrix, file, plan, baselines)
    files: dict[str, bytes] = {}
    if plan_path is not None:
        files[plan_path] = plan_csv(plan, file.names).encode()
    if plot_path is not None:
        from ocs_codesign.plot import figure_bytes
        from ocs_codesign.plot.demand import demand_figure

        files[plot_path] = figure_bytes(demand_figure(plan), Path(plot_path).suffix)
    emit(answer, json_path, lambda console: _show(console, answer, file, plan, baselines), files)


def _effort(file: DemandFile, exact: bool, time_limit: float | None, seed: int) -> DemandEffort:
    from ocs_codesign.reconfigure.demand.effort import DemandEffort
    from ocs_codesign.reconfigure.demand.search import MAX_LINES

    if not exact:
        return DemandEffort(seed=seed, time_limit_s=time_limit)
    some = file.demand.units > 0
    busy = int(max(some.any(0).sum(), some.any(1).sum()))
    if busy > MAX_LINES:
        raise click.UsageError(
            f"--exact is for up to {MAX_LINES} senders and receivers, and here are {busy}"
        )
    return DemandEffort(
        seed=seed, search_nodes=_EXACT_NODES, time_limit_s=time_limit or _EXACT_TIME_S
    )


def _answer(
    path: str, file: DemandFile, plan: DemandPlan, baselines: DemandBaselines
) -> dict[str, Any]:
    """The JSON form of the answer; exact times are texts of fractions, in seconds."""
    static_s = baselines.static_s
    return {
        "file": printable(Path(path).name),
        "nodes": plan.demand.num_nodes,
        "names": None if file.names is None else list(file.names),
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


def _show(
    console: Console,
    answer: dict[str, Any],
    file: DemandFile,
    plan: DemandPlan,
    baselines: DemandBaselines,
) -> None:
    demand, many = plan.demand, plan.num_configurations
    proof = "proven optimal" if plan.is_optimal else f"at most {float(plan.gap):.2%} over the best"
    switches = f"{plan.num_switches} switch{'es' * (plan.num_switches != 1)}"
    show_facts(
        console,
        [
            (
                "demand",
                f"{answer['file']}: {_size(demand.total_bytes)} among {answer['nodes']} nodes",
            ),
            (
                "busiest node",
                f"{_size(demand.max_line_bytes)} one way, at most {demand.max_peers} peers",
            ),
            ("diagonal", _diagonal(plan)),
            ("time", f"{_time(plan.total_s)}, {proof}"),
            ("bound", f"{_time(plan.bound_s)}, by {plan.proof}"),
            (
                "configurations",
                f"{many} on {switches}, {format_time(float(plan.delta_s))} each: "
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
        ],
    )
    _show_configurations(console, plan, file.names)


def _diagonal(plan: DemandPlan) -> str | None:
    """What nodes have for themselves, since that is often a mistake."""
    own = int(plan.demand.units.trace()) * plan.demand.unit_bytes
    return f"{_size(own)} from nodes to themselves, served over circuits" if own else None


def _static(plan: DemandPlan, baselines: DemandBaselines) -> str | None:
    """What circuits that stay take, and whether it is proven that they take longer."""
    if baselines.static_s is None or not plan.total_s:
        return None
    shifts = ", ".join(f"+{shift}" for shift in baselines.static_shifts)
    own = ", their own not counted" if plan.demand.units.trace() else ""
    text = f"{_compared(baselines.static_s, plan)} on the shifts {shifts}, nodes forward{own}; "
    if baselines.static_s < plan.total_s:
        return text + "changing circuits does not pay"
    if baselines.static_bound_s > plan.total_s:
        return (
            text
            + f"no circuits that stay take less than {_compared(baselines.static_bound_s, plan)}"
        )
    return text + f"the best that stay take at least {_compared(baselines.static_bound_s, plan)}"


def _show_configurations(console: Console, plan: DemandPlan, names: Sequence[str] | None) -> None:
    if not plan.num_configurations:
        return
    free_s = [0 * plan.total_s] * plan.num_switches
    rows = []
    for at, (switch, duration_s) in enumerate(
        zip(plan.switch.tolist(), plan.durations_s, strict=True)
    ):
        up_s = free_s[switch] + plan.delta_s
        free_s[switch] = up_s + duration_s
        if at < _SHOWN_CONFIGURATIONS:
            times = [format_time(float(time)) for time in (up_s, duration_s)]
            rows.append([str(switch), *times, _circuits(plan, at, names)])
    if plan.num_configurations > _SHOWN_CONFIGURATIONS:
        left_out = plan.num_configurations - _SHOWN_CONFIGURATIONS
        rows.append(["...", "", "", f"{left_out} more configurations: --out FILE has them all"])
    console.print()
    show_table(console, ("switch", "up from", "for", "circuits"), rows, numbers=3, texts=1)


def _circuits(plan: DemandPlan, at: int, names: Sequence[str] | None) -> str:
    """The circuits of a configuration that serve demand: a shift, or pairs."""
    nodes, circuits = plan.demand.num_nodes, plan.permutations[at].tolist()
    used = [
        (source, target)
        for source, target in enumerate(circuits)
        if plan.demand.units[source, target]
    ]
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
