"""Training steps as published and as predicted: tokens a second of 160 runs, by source.

The runs are those of training_runs.json, on which the constants of the step model were fitted
(experiments/fit_training.py); `ratio` is predicted over published.

    python experiments/published_steps.py [--quick] [--out DIR]

writes figures/published_steps.csv and .png in seconds; --quick takes every tenth run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from reporting import OURS, Report, new_figure, parse_arguments, publish
from training_runs import known, published

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIELDS = (
    *("run", "model", "accelerator", "accelerators", "software"),
    *("published", "predicted", "ratio"),
)


def rows(runs: Sequence[dict[str, Any]]) -> Iterator[dict[str, object]]:
    """A row a run: tokens a second of an accelerator."""
    for run in runs:
        step, room = published(run)
        predicted = step.on(room).tokens_per_second_per_accelerator
        yield {
            "run": run["id"],
            "model": run["model"],
            "accelerator": run["hw"],
            "accelerators": run["N"],
            "software": step.method.software.name,
            "published": f"{run['tps']:.6g}",
            "predicted": f"{predicted:.6g}",
            "ratio": f"{predicted / run['tps']:.4f}",
        }


def picture(table: Sequence[dict[str, object]]) -> Figure:
    """A column a source: its runs as points, predicted over published, with their median."""
    sources: dict[str, list[float]] = {}
    for line in table:
        source = str(line["run"]).partition("/")[0]
        sources.setdefault(source, []).append(float(str(line["ratio"])))
    figure, (axes,) = new_figure(10.0, 4.6, 1, 1)
    axes.axhspan(0.93, 1.07, color="#e8eef4", label="within 7 %")
    axes.axhline(1, color="#222222", linewidth=0.8)
    for place, ratios in enumerate(sources.values()):
        spread = np.linspace(-0.25, 0.25, len(ratios)) if len(ratios) > 1 else np.zeros(1)
        axes.plot(place + spread, sorted(ratios), "o", ms=3.5, color=OURS, alpha=0.7)
        axes.plot([place - 0.35, place + 0.35], [np.median(ratios)] * 2, color="#c8442b")
    axes.plot([], [], color="#c8442b", label="median of a source")
    axes.set_yscale("log")
    ticks = (0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3)
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_ylim(0.7, 1.42)
    names = [f"{name} ({len(ratios)})" for name, ratios in sources.items()]
    axes.set_xticks(range(len(names)), names, rotation=40, ha="right", fontsize=8)
    axes.set_ylabel("predicted over published speed")
    errors = np.abs(np.array([ratio for ratios in sources.values() for ratio in ratios]) - 1)
    axes.set_title(
        f"{len(errors)} published training runs: median error {np.median(errors):.1%}, "
        f"nine of ten within {np.quantile(errors, 0.9):.1%}",
        loc="left",
        fontsize=11,
    )
    axes.legend(frameon=False, fontsize=8, loc="upper right", ncols=2)
    return figure


def main() -> None:
    """Run, print and write."""
    arguments = parse_arguments(__doc__)
    runs = known()["rows"][:: 10 if arguments.quick else 1]
    table = list(rows(runs))
    publish(Report("published_steps", FIELDS, table, picture(table)), arguments)


if __name__ == "__main__":
    main()
