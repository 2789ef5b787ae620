"""Which of the library and our best schedule is faster on 16 H100, before and after a log.

All that makes an allreduce plays on two nodes on rails, by the clock of a machine that is assumed,
and by that of a machine from a log of nccl-tests (that of ``ocs-codesign example``). A choice is
sure where the intervals of both have nothing in common.

    python experiments/log_to_choice.py [--quick] [--out DIR]

writes figures/log_to_choice.csv and .png; --quick takes two sizes of the assumed one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from reporting import EXPERIMENTS, OURS, PUBLISHED, Report, new_figure, parse_arguments, publish

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.machines.machine import machine_named
from ocs_codesign.core.networks.products import h100_rail
from ocs_codesign.interop.calibrating import calibrated
from ocs_codesign.interop.logs import read_log
from ocs_codesign.schedules.compare.comparison import Comparison
from ocs_codesign.schedules.compare.contest import Contest
from ocs_codesign.schedules.compare.play import entrants, play

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ocs_codesign.core.machines.machine import RealMachine

FIELDS = ("machine", "message_bytes", "who", "label", "us", "from_us", "to_us", "schedule_is")
LOG = EXPERIMENTS.parent / "ocs_codesign" / "faces" / "examples" / "nccl.log"
SIZES = tuple(4**power for power in range(5, 16))
ASSUMED, BY_LOG = "assumed", "from one log"
LIBRARY, BEST = "library", "best schedule"


def rows_of(name: str, machine: RealMachine, sizes: Sequence[int]) -> Iterator[dict[str, object]]:
    """Times of the library and of the best schedule, with from and to."""
    contest = Contest(
        *("", h100_rail(2), Collective.ALLREDUCE, tuple(sizes), Fraction(10**9)), machine=machine
    )
    outcomes = tuple(play(contest, one) for one in entrants(contest))
    found = Comparison(contest, outcomes, contest.floor_s())
    for at, size in enumerate(sizes):
        for who, each in ((LIBRARY, found.library), (BEST, found.best(at))):
            if each is None:
                continue
            low, high = each.intervals_s[at]
            times = (each.times_s[at], low, high)
            yield {
                "machine": name,
                "message_bytes": size,
                "who": who,
                "label": each.entrant.label,
                **{key: f"{1e6 * time:.4g}" for key, time in zip(FIELDS[4:7], times, strict=True)},
                "schedule_is": found.verdict(at),
            }


def picture(table: Sequence[dict[str, Any]]) -> Figure:
    """Bands of both by size, a panel a machine, with what is to be taken."""
    figure, panels = new_figure(9.2, 4.0, 1, 2)
    for axes, machine in zip(panels, (ASSUMED, BY_LOG), strict=True):
        for who, colour in ((LIBRARY, PUBLISHED), (BEST, OURS)):
            own = [row for row in table if (row["machine"], row["who"]) == (machine, who)]
            sizes = [int(row["message_bytes"]) for row in own]
            time, low, high = ([float(row[key]) for row in own] for key in FIELDS[4:7])
            axes.fill_between(sizes, low, high, color=colour, alpha=0.2, linewidth=0)
            axes.plot(sizes, time, color=colour, linewidth=1.4, label=who)
        sure = [
            int(row["message_bytes"])
            for row in table
            if (row["machine"], row["who"], row["schedule_is"]) == (machine, BEST, "faster")
        ]
        axes.plot(sure, [8] * len(sure), "s", color=OURS, markersize=5, label="take the schedule")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_title(f"latency of the fabric: {machine}")
        axes.set_xlabel("message M, bytes")
        axes.set_ylim(6, 3e4)
    panels[0].set_ylabel("allreduce of 16 H100, us")
    panels[1].legend(frameon=False, loc="upper left")
    return figure


def main() -> None:
    """Write the table and its picture."""
    arguments = parse_arguments(__doc__)
    kind = machine_named("h100")
    sizes, machines = SIZES[:2], {ASSUMED: kind}
    if not arguments.quick:
        sizes, machines[BY_LOG] = SIZES, calibrated(read_log(LOG), kind).machine
    rows = [row for name, machine in machines.items() for row in rows_of(name, machine, sizes)]
    publish(Report("log_to_choice", FIELDS, rows, picture(rows)), arguments)


if __name__ == "__main__":
    main()
