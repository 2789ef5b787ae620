"""How to split bandwidth over the dimensions of a network, for what nine layers of GPT-3 send.

LIBRA's example: a ring of 4, 8 fully connected, a ring of 4, a switch of 32, tensor parallel groups
in the first two, data parallel ones in the last three. For every sum of bandwidths of a rank: the
split that takes least time, the best one in whole units of 25 GB/s, the one whose time times cost
is least, and two without a solver, the same everywhere and in proportion to the bytes sent.

    python experiments/split_budgets.py [--quick] [--out DIR]

writes figures/split_budgets.csv and .png in seconds; --quick runs two sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from reporting import (
    KAUTZ,
    OURS,
    PUBLISHED,
    RING,
    TREE,
    Report,
    new_figure,
    parse_arguments,
    publish,
)

import ocs_codesign
from ocs_codesign.jobs.budgets import BudgetProblem, Objective, allocate
from ocs_codesign.jobs.files.budget_files import Spending, load_budget
from ocs_codesign.jobs.whole_budgets import allocate_units

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BUDGET = Path(ocs_codesign.__file__).parent / "faces" / "examples" / "gpt3_budget.yaml"
GBPS = 10**9
UNIT_GBPS = 25
SUMS_GBPS, QUICK_GBPS = (150, 200, 300, 400, 600, 800, 1000, 1500, 2000), (600, 1000)
COLOURS = {
    "least time": OURS,
    "least time, whole units": KAUTZ,
    "least time x cost": PUBLISHED,
    "as bytes sent": TREE,
    "the same everywhere": RING,
}
FIELDS = ("sum_GBps", "split", "gbps_of_dimensions", "time_ms", "over_least", "cost_millions")


def splits(problem: BudgetProblem) -> dict[str, list[Fraction]]:
    """Bandwidths of the dimensions under every rule, bytes a second a rank."""
    assert problem.total_Bps is not None
    sent = [sum(column, Fraction(0)) for column in zip(*problem.sent, strict=True)]
    whole = allocate_units(problem, UNIT_GBPS * GBPS)
    return {
        "least time": [Fraction(rate) for rate in allocate(problem).bandwidths_Bps],
        "least time, whole units": [Fraction(n * UNIT_GBPS * GBPS) for n in whole.units],
        "least time x cost": [
            Fraction(rate) for rate in allocate(problem, Objective.TIME_COST).bandwidths_Bps
        ],
        "as bytes sent": [problem.total_Bps * share / sum(sent) for share in sent],
        "the same everywhere": [problem.total_Bps / problem.num_dimensions] * len(sent),
    }


def rows(spending: Spending, sums_gbps: Sequence[int]) -> Iterator[dict[str, object]]:
    """A row for every sum and rule."""
    for total in sums_gbps:
        problem = BudgetProblem(
            spending.sent,
            compute_s=spending.compute_s,
            price=spending.price,
            total_Bps=total * GBPS,
        )
        rates_of = splits(problem)
        least = problem.time_s(rates_of["least time"])
        for name, rates in rates_of.items():
            yield {
                "sum_GBps": total,
                "split": name,
                "gbps_of_dimensions": " ".join(f"{float(rate) / GBPS:.2f}" for rate in rates),
                "time_ms": f"{float(problem.time_s(rates)) * 1e3:.3f}",
                "over_least": f"{float(problem.time_s(rates) / least):.4f}",
                "cost_millions": f"{float(problem.cost(rates)) / 1e6:.3f}",
            }


def picture(table: Sequence[dict[str, object]], spending: Spending) -> Figure:
    """Time by the sum of bandwidths, and by what it costs, a line a rule."""
    figure, panels = new_figure(10.0, 4.4, 1, 2, sharex=False)
    compute_ms = float(spending.compute_s) * 1e3
    for name, colour in COLOURS.items():
        mine = [line for line in table if line["split"] == name]
        times = [float(str(line["time_ms"])) for line in mine]
        for axes, column in zip(panels, ("sum_GBps", "cost_millions"), strict=True):
            places = [float(str(line[column])) for line in mine]
            axes.plot(places, times, color=colour, marker="o", ms=3.5, label=name)
    for axes in panels:
        axes.axhline(compute_ms, color="#222222", linestyle=(0, (4, 2)), linewidth=1)
        axes.set_xlim(0)
    panels[0].plot([], [], color="#222222", linestyle=(0, (4, 2)), label="computation alone")
    panels[0].set_ylabel("time of nine layers, ms")
    panels[0].set_xlabel("bandwidths of a rank together, GB/s")
    panels[1].set_xlabel("what they cost for all 4096 ranks, million US$")
    panels[0].legend(frameon=False, fontsize=9)
    figure.suptitle("GPT-3 on four dimensions: where the bandwidth goes", fontsize=11)
    return figure


def main() -> None:
    """Run, print and write."""
    arguments = parse_arguments(__doc__)
    spending = load_budget(BUDGET)
    table = list(rows(spending, QUICK_GBPS if arguments.quick else SUMS_GBPS))
    publish(Report("split_budgets", FIELDS, table, picture(table, spending)), arguments)


if __name__ == "__main__":
    main()
