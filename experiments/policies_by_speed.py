"""Which gradient to send first, by the speed of the network: the period of policies over its bound.

Two models trained by data parallelism on 64 ranks, a residual network of many small gradients and a
transformer of fewer large ones. Gradients are allreduced over a ring, and over the best design of
64 nodes with four ports, both at 5 us a step. Every policy chooses its own settings (slices,
windows, buckets); the bound is one that holds for all of them. On a ring each tensor pays 126
latencies: policies that merge, or keep several in flight, win by far. On the design of 8 steps the
order of tensors is what is left to gain.

    python experiments/policies_by_speed.py [--quick] [--out DIR]

writes figures/policies_by_speed.csv and .png in minutes; --quick runs the residual network at two
speeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from reporting import Report, new_figure, parse_arguments, publish

from ocs_codesign import Cost, CostModel, measure
from ocs_codesign.jobs.fused import Accelerator
from ocs_codesign.jobs.models.building import Parallel, job_of
from ocs_codesign.jobs.models.layer import ResidualNetwork, Transformer
from ocs_codesign.jobs.policies import POLICIES, compare_policies
from ocs_codesign.jobs.prices import Level, Machine, priced

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RANKS = 64
ALPHA_S, GBPS = Fraction(5, 10**6), 125_000_000
SPEEDS_GBPS = (1, 3, 10, 25, 100, 400)
QUICK_GBPS = (10, 100)
ACCELERATOR = Accelerator(312e12, 2e12)
MODELS: dict[str, ResidualNetwork | Transformer] = {
    "ResNet-50, 64 images a rank": ResidualNetwork((3, 4, 6, 3), 224, 1000, 64 * RANKS),
    "1.5-billion transformer, 8 sequences a rank": Transformer(
        layers=48,
        hidden=1600,
        heads=25,
        feed_forward=6400,
        vocabulary=50257,
        sequence=1024,
        batch=8 * RANKS,
    ),
}
RING, DESIGN = "ring", "four ports, 4 + 4 steps"
RECIPE = "Cayley(Semidirect(8, 8, 3), ((0, 2), (1, 2), (1, 5), (3, 4)))"
"""A bandwidth-optimal design of 64 nodes; no design of four ports is so in fewer steps."""
FIELDS = (
    "model",
    "fabric",
    "speed_gbps",
    "policy",
    "period_ms",
    "over_bound",
    "exposed_ms",
    "setting",
)


def fabrics() -> dict[str, dict[tuple[str, int], Cost]]:
    """What collectives of all ranks cost on each, where it is not what a ring costs."""
    half = measure(RECIPE).cost
    names = {"allgather": half, "reduce-scatter": half, "allreduce": half + half}
    return {RING: {}, DESIGN: {(name, RANKS): cost for name, cost in names.items()}}


def rows(model: str, speeds_gbps: Sequence[int]) -> Iterator[dict[str, object]]:
    """A row for every fabric, speed and policy."""
    parallel = Parallel(data=RANKS)
    graph = job_of(MODELS[model].on_ranks(parallel), parallel, ACCELERATOR)
    for fabric, costs in fabrics().items():
        for speed in speeds_gbps:
            machine = Machine((Level(RANKS, CostModel(ALPHA_S, speed * GBPS), costs=costs),))
            job = priced(graph, machine)
            outcomes = compare_policies(job)
            bound_s = min(outcome.bound_s for outcome in outcomes)
            for outcome in outcomes:
                period_s = outcome.steady.period_s
                yield {
                    "model": model,
                    "fabric": fabric,
                    "speed_gbps": speed,
                    "policy": outcome.name,
                    "period_ms": f"{float(period_s) * 1e3:.4f}",
                    "over_bound": f"{float(period_s / bound_s):.4f}",
                    "exposed_ms": f"{float(outcome.steady.exposed_s) * 1e3:.4f}",
                    "setting": outcome.setting,
                }


def picture(table: Sequence[dict[str, object]]) -> Figure:
    """A panel a model and fabric: policies against speeds, period over bound as colour and number.

    What a bound counts is work alone, latencies left out, so far above it is not badly ordered.
    """
    panels_of = list(dict.fromkeys((str(line["model"]), str(line["fabric"])) for line in table))
    speeds = list(dict.fromkeys(line["speed_gbps"] for line in table))
    num_rows = len(panels_of) // 2
    height = 0.7 + num_rows * (0.6 + 0.24 * len(POLICIES))
    figure, panels = new_figure(10.0, height, num_rows, 2)
    for axes, (model, fabric) in zip(panels, panels_of, strict=True):
        ratios = {
            (str(line["policy"]), line["speed_gbps"]): float(str(line["over_bound"]))
            for line in table
            if (line["model"], line["fabric"]) == (model, fabric)
        }
        draw_ratios(axes, [[ratios[policy, speed] for speed in speeds] for policy in POLICIES])
        axes.set_xticks(range(len(speeds)), [str(speed) for speed in speeds])
        axes.set_yticks(range(len(POLICIES)), list(POLICIES))
        axes.set_title(f"{model}: {fabric}", fontsize=9)
    for axes in panels[-2:]:
        axes.set_xlabel("network, Gb/s a rank")
    figure.suptitle("Period over its bound (×); the least at each speed in bold", fontsize=11)
    return figure


def draw_ratios(axes: Axes, grid: Sequence[Sequence[float]]) -> None:
    """A cell a ratio, its colour and its number."""
    axes.imshow(grid, cmap="YlOrBr", vmin=1, vmax=2.5, aspect="auto")
    axes.grid(visible=False)
    least = [min(column) for column in zip(*grid, strict=True)]
    for at, line in enumerate(grid):
        for column, ratio in enumerate(line):
            axes.text(
                *(column, at, f"{ratio:.2f}"),
                ha="center",
                va="center",
                fontsize=8,
                weight="bold" if ratio == least[column] else "normal",
                color="white" if ratio > 2 else "#222222",
            )


def main() -> None:
    """Run, print and write."""
    arguments = parse_arguments(__doc__)
    models, speeds = (
        (list(MODELS)[:1], QUICK_GBPS) if arguments.quick else (list(MODELS), SPEEDS_GBPS)
    )
    table = [line for model in models for line in rows(model, speeds)]
    publish(Report("policies_by_speed", FIELDS, table, picture(table)), arguments)


if __name__ == "__main__":
    main()
