"""``ocs-codesign allocate``: how much bandwidth every dimension of a network gets."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.cli.file_options import FILE
from ocs_codesign.cli.message_options import message_option
from ocs_codesign.cli.options import (
    bandwidth_option_of,
    json_option,
    network_of,
    quantity_option,
)
from ocs_codesign.cli.output import check_outputs, emit
from ocs_codesign.cli.progress import progress
from ocs_codesign.cli.units import unit_Bps
from ocs_codesign.collective import WITHOUT_PARAMETERS
from ocs_codesign.quantities import exact, parse_bandwidth

if TYPE_CHECKING:
    from ocs_codesign.answers.allocation import BudgetAnswer
    from ocs_codesign.formats.jobs.budget_files import Spending
    from ocs_codesign.workload.budgets import BudgetProblem

OBJECTIVES = ("time", "time-cost")


@click.command(short_help="Divide bandwidth among the dimensions of a network.")
@click.argument("budget", type=FILE, metavar="FILE|NETWORK")
@quantity_option("--total", parse_bandwidth, "What a rank sends in all dimensions together.")
@click.option("--money", type=click.FloatRange(min=0, min_open=True), help="The most it costs.")
@quantity_option("--unit", parse_bandwidth, "Of a port or a wavelength, for whole numbers of it.")
@click.option(
    "--objective",
    type=click.Choice(OBJECTIVES),
    default=OBJECTIVES[0],
    show_default=True,
    help="What is least: the time, or the time multiplied with the cost.",
)
@click.option(
    "--collective",
    type=click.Choice([kind.name for kind in WITHOUT_PARAMETERS]),
    help="What a NETWORK is for (default: allgather).",
)
@message_option
@bandwidth_option_of("Total egress of a host, where the network has no unit.")
@json_option
def allocate(
    budget: str,
    total: float | None,
    money: float | None,
    unit: float | None,
    objective: str,
    json_path: str | None,
    **options: Any,
) -> int:
    """Divide the bandwidth of a rank among dimensions, for what is sent in them.

    FILE holds dimensions, their prices, and collectives; or give a NETWORK whose links have
    dimensions, such as torus((4, 8), 1), and a --collective of --message over all of them. Every
    collective takes as long as its busiest dimension. The best real numbers are an optimum of a
    convex program; with --unit the best whole numbers as well, of all ways to share them where
    those are few. Without --total or --money a NETWORK keeps what it has.

    \b
    Example:
      ocs-codesign example .
      ocs-codesign allocate gpt3_budget.yaml --total 600GB/s --unit 20GB/s
    """
    check_outputs(json_path)
    from ocs_codesign.answers.allocation import allocation_json, allocation_sections

    with progress("Dividing bandwidth"):
        answer = _answer(budget, (total, money, unit), objective, options)
    emit(allocation_json(answer), json_path, allocation_sections(answer))
    return 0


def _answer(
    text: str,
    given: tuple[float | None, float | None, float | None],
    objective: str,
    options: dict[str, Any],
) -> BudgetAnswer:
    from ocs_codesign.answers.allocation import BudgetAnswer
    from ocs_codesign.workload.budgets import BudgetProblem, Objective
    from ocs_codesign.workload.budgets import allocate as allocated
    from ocs_codesign.workload.whole_budgets import allocate_units

    total, money, unit = (None if value is None else exact(value) for value in given)
    spending, present = _spending(text, options)
    if total is None and money is None:
        if present is None:
            raise click.UsageError("give --total or --money: what there is to be divided")
        total = sum(present, Fraction(0))
    problem = BudgetProblem(
        spending.sent,
        compute_s=spending.compute_s,
        price=spending.price,
        total_Bps=total,
        money=money,
        fixed=dict(spending.fixed),
        limits=spending.limits,
    )
    aim = Objective(objective)
    return BudgetAnswer(
        spending.name,
        spending.dimensions,
        problem,
        aim,
        allocated(problem, aim),
        unit,
        None if unit is None else allocate_units(problem, unit, aim),
        *_compared(problem, total, present),
    )


def _compared(
    problem: BudgetProblem, total: Fraction | None, present: tuple[Fraction, ...] | None
) -> tuple[str, tuple[Fraction, ...] | None]:
    """What the best is compared with: what the network has, or an even split of the total."""
    if present is not None:
        return "today", present
    if total is None or problem.fixed or problem.limits:
        return "", None
    num = problem.num_dimensions
    return "even", (total / num,) * num


def _spending(text: str, options: dict[str, Any]) -> tuple[Spending, tuple[Fraction, ...] | None]:
    """What is sent, and the bandwidths of the network where one is given."""
    from ocs_codesign.formats.jobs.budget_files import Spending, load_budget
    from ocs_codesign.workload.budgets import sent_bytes
    from ocs_codesign.workload.whole_budgets import dimensions_of

    if not text.rstrip().endswith(")"):
        if any(value is not None for value in options.values()):
            raise click.UsageError(
                "--collective, --message and --bandwidth are for a NETWORK: the file has its own"
            )
        return load_budget(Path(text)), None
    if options["message"] is None:
        raise click.UsageError("give --message: what is sent on the network")
    network = network_of(text)
    unit = unit_Bps(network, options["bandwidth"])
    found = dimensions_of(network)
    collective = options["collective"] or WITHOUT_PARAMETERS[0].name
    sizes = [each.num_ranks for each in found]
    names = tuple(f"{each.number}, {each.num_ranks} hosts" for each in found)
    sent = (sent_bytes(collective, options["message"], sizes),)
    none = tuple(Fraction(0) for _ in found)
    spending = Spending(f"{collective} on {text}", names, sent, Fraction(0), none, {}, ())
    return spending, tuple(each.bandwidth * unit for each in found)
