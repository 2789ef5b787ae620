"""What fusing an operator with its collective saves, by size, speed of the network and ranks.

Embedding pooling and an all-to-all, a matrix times a vector and an allreduce, a matrix product and
an all-to-all: as two kernels one after the other, and as one whose workgroups send what they have,
remote results first; a workgroup of the fused kernel takes 5 % longer. Punniyamurthy et al. (SC
2024) report 12 to 31 % less time on their machines; the model says where to expect it: where to
send takes about as long as to compute. No fused kernel saves more than half.

    python experiments/fused_operators.py [--quick] [--out DIR]

writes figures/fused_operators.csv and .png in seconds; --quick runs one speed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from reporting import KAUTZ, OURS, PUBLISHED, RING, Report, new_figure, parse_arguments, publish

from ocs_codesign import CostModel
from ocs_codesign.jobs.fused import OPERATORS, Accelerator, operator_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ACCELERATOR = Accelerator(312e12, 2e12)
ALPHA_S, SLOWDOWN = Fraction(2, 10**6), Fraction(5, 100)
SIZES = tuple(2**exponent for exponent in range(9, 16))
SPEEDS_GBPS, QUICK_GBPS = (100, 400, 1600, 4800), (400,)
RANKS = (4, 128)
COLOURS = dict(zip(SPEEDS_GBPS, (RING, PUBLISHED, KAUTZ, OURS), strict=True))
FIELDS = (
    *("operator", "ranks", "speed_gbps", "size", "unfused_us", "fused_us", "bound_us"),
    "saved_percent",
)


def rows(speeds_gbps: Sequence[int]) -> Iterator[dict[str, object]]:
    """A row for every operator, number of ranks, speed and size."""
    for name in OPERATORS:
        for ranks in RANKS:
            for speed in speeds_gbps:
                model = CostModel(ALPHA_S, speed * 125_000_000)
                for size in SIZES:
                    operator = operator_of(name, size, ranks, ACCELERATOR, model, SLOWDOWN)
                    yield {
                        "operator": name,
                        "ranks": ranks,
                        "speed_gbps": speed,
                        "size": size,
                        "unfused_us": f"{float(operator.unfused_s) * 1e6:.3f}",
                        "fused_us": f"{float(operator.fused_s()) * 1e6:.3f}",
                        "bound_us": f"{float(operator.bound_s) * 1e6:.3f}",
                        "saved_percent": f"{float(operator.saved) * 100:.2f}",
                    }


def picture(table: Sequence[dict[str, object]]) -> Figure:
    """A panel an operator: the share saved by size, a line a speed and number of ranks."""
    figure, panels = new_figure(11.0, 4.2, 1, len(OPERATORS))
    for axes, (name, (_, text)) in zip(panels, OPERATORS.items(), strict=True):
        for speed in dict.fromkeys(int(str(line["speed_gbps"])) for line in table):
            for ranks, style in zip(RANKS, ("-", (0, (4, 2))), strict=True):
                saved = [
                    float(str(line["saved_percent"]))
                    for line in table
                    if (line["operator"], line["ranks"], line["speed_gbps"]) == (name, ranks, speed)
                ]
                axes.plot(SIZES, saved, linestyle=style, marker="o", ms=3, color=COLOURS[speed])
        axes.axhline(0, color="#222222", linewidth=0.8)
        axes.set_xscale("log", base=2)
        axes.set_xticks(SIZES[::2], [f"{size:,}" for size in SIZES[::2]])
        axes.set_title(text.partition(",")[0], fontsize=10)
        axes.set_xlabel(text.partition(", by ")[2])
    panels[0].set_ylabel("time that fusing saves, %")
    for speed in dict.fromkeys(int(str(line["speed_gbps"])) for line in table):
        panels[0].plot([], [], color=COLOURS[speed], label=f"{speed} Gb/s a rank")
    for ranks, style in zip(RANKS, ("-", (0, (4, 2))), strict=True):
        panels[0].plot([], [], color="#222222", linestyle=style, label=f"{ranks} ranks")
    figure.legend(loc="outside lower center", ncols=6, frameon=False, fontsize=9)
    figure.suptitle(
        "one kernel that computes and sends, against two, one after the other", fontsize=11
    )
    return figure


def main() -> None:
    """Run, print and write."""
    arguments = parse_arguments(__doc__)
    table = list(rows(QUICK_GBPS if arguments.quick else SPEEDS_GBPS))
    publish(Report("fused_operators", FIELDS, table, picture(table)), arguments)


if __name__ == "__main__":
    main()
