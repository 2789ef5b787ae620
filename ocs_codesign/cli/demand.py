"""``ocs-codesign demand``: configurations of circuit switches for a demand matrix."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ocs_codesign.cli.file_options import INPUT, OUTPUT, plot_option
from ocs_codesign.cli.options import (
    bandwidth_option_of,
    delta_option,
    json_option,
    printable,
    quantity_option,
)
from ocs_codesign.cli.output import check_outputs, emit
from ocs_codesign.cli.progress import progress
from ocs_codesign.quantities import parse_time

if TYPE_CHECKING:
    from ocs_codesign.formats.matrix_files import DemandFile
    from ocs_codesign.reconfigure.demand.effort import DemandEffort

_EXACT_NODES, _EXACT_TIME_S = 10**12, 60.0


@click.command(short_help="Configurations of circuit switches for a demand matrix.")
@click.argument("matrix", type=INPUT, metavar="FILE")
@delta_option(required=True)
@bandwidth_option_of("Bandwidth of one circuit, such as 100Gbps.", required=True)
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
@quantity_option(
    "--time-limit", parse_time, "Time for planning, used up unless a plan is proven optimal."
)
@click.option(
    "--seed", type=click.IntRange(0, 2**31 - 1), default=0, help="Of the local search (default 0)."
)
@click.option(
    *("--out", "plan_path"), type=OUTPUT, metavar="FILE", help="Write the configurations as CSV."
)
@plot_option("demand and switches")
@json_option
def demand(
    matrix: str,
    delta: float,
    bandwidth: float,
    switches: int,
    unit: str | None,
    exact: bool,
    time_limit: float | None,
    seed: int,
    plan_path: str | None,
    plot: str | None,
    json_path: str | None,
) -> None:
    """Plan configurations of circuit switches that serve the demand matrix in FILE.

    FILE is CSV, JSON or npy: entry i, j is what node i has for node j, in bytes, in --unit, or with
    a unit of its own as in 4MiB. Every configuration, a permutation of the nodes, costs its switch
    --delta and is then held as long as planned. The answer says how far it may be from the best
    plan, and what a round robin and circuits that stay would take.

    \b
    Example:
      ocs-codesign example .
      ocs-codesign demand demand.csv --delta 20us --bandwidth 400Gbps
    """
    check_outputs(plan_path, plot, json_path)
    from ocs_codesign.answers.demand import demand_json, demand_sections
    from ocs_codesign.formats.matrix_files import plan_csv, read_demand
    from ocs_codesign.reconfigure.demand.baselines import demand_baselines
    from ocs_codesign.reconfigure.demand.planner import plan_demand

    file = read_demand(matrix, unit)
    effort = _effort(file, exact, time_limit, seed)
    with progress("Planning") as shown:
        plan = plan_demand(file.demand, delta, switches, bandwidth, effort, shown.tell_phase)
        baselines = demand_baselines(plan)
    files: dict[str, bytes] = {}
    if plan_path is not None:
        files[plan_path] = plan_csv(plan, file.names).encode()
    if plot is not None:
        from ocs_codesign.plot import figure_bytes
        from ocs_codesign.plot.demand import demand_figure

        files[plot] = figure_bytes(demand_figure(plan), Path(plot).suffix)
    answer = (printable(Path(matrix).name), file.names, plan, baselines)
    emit(demand_json(*answer), json_path, demand_sections(*answer), files)


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
