"""What curves and NCCL's model say of public logs, over what these measured.

Of every log with enough sizes each inner size is left out and told from the others by the curve of
calibrate. Of logs of 16 ranks on two nodes NCCL's model of 2.30 is asked as well, with the latency
of the NICs that follows from the log's floor alone. public_logs.json has the rows with sources.

    python experiments/public_logs.py [--quick] [--out DIR]

writes figures/public_logs.csv and .png; --quick takes two logs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from reporting import EXPERIMENTS, OURS, PUBLISHED, Report, new_figure, parse_arguments, publish

from ocs_codesign.core.machines.curves import left_out
from ocs_codesign.core.machines.machine import machine_named
from ocs_codesign.interop.calibrating import calibrated
from ocs_codesign.interop.logs import BenchmarkRun

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIELDS = ("log", "collective", "ranks", "by", "message_bytes", "measured_us", "told_us", "ratio")
CURVE, MODEL = "curve without the size", "NCCL 2.30 by the floor"
KINDS = ("h100", "b200", "a100")
LEAST_ROWS = 8


def rows_of(log: dict[str, Any]) -> Iterator[dict[str, object]]:
    """Rows of a log: what is told of each size, and how."""
    points = tuple((int(size), float(time)) for size, time in log["rows"])
    measured = dict(points)
    run = BenchmarkRun(log["source"], log["collective"], log["ranks"], log["nodes"], points)
    told = []
    if len(points) >= LEAST_ROWS:
        told += [(CURVE, size, measured[size] * (1 + error)) for size, error in left_out(points)]
    kind = next((kind for kind in KINDS if log["id"].startswith(kind)), None)
    if kind is not None and log["nodes"] == 2 and log["ranks"] == 16:
        found = calibrated([run], machine_named(kind))
        if found.fits[0].net_hop_us is not None and run.collective != "alltoall":
            times = found.machine.library(run.collective, 16, 2, list(measured), "2.30")
            told += [(MODEL, time.message_bytes, 1e6 * time.seconds) for time in times]
    for by, size, time_us in told:
        yield {
            "log": log["id"],
            "collective": log["collective"],
            "ranks": log["ranks"],
            "by": by,
            "message_bytes": size,
            "measured_us": f"{measured[size]:.6g}",
            "told_us": f"{time_us:.5g}",
            "ratio": f"{time_us / measured[size]:.4f}",
        }


def picture(rows: Sequence[dict[str, Any]]) -> Figure:
    """Told over measured by size, a point a row."""
    figure, (axes,) = new_figure(7.2, 4.2, 1, 1)
    for by, colour in ((MODEL, PUBLISHED), (CURVE, OURS)):
        chosen = [row for row in rows if row["by"] == by]
        sizes = [int(row["message_bytes"]) for row in chosen]
        ratios = [float(row["ratio"]) for row in chosen]
        axes.plot(sizes, ratios, "o", color=colour, markersize=3.5, alpha=0.6, label=by)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.axhline(1, color="#444444", linewidth=0.8)
    axes.set_xlabel("message M, bytes")
    axes.set_ylabel("time told over time measured")
    axes.legend(frameon=False)
    return figure


def main() -> None:
    """Write the table and its picture."""
    arguments = parse_arguments(__doc__)
    logs = json.loads((EXPERIMENTS / "public_logs.json").read_text(encoding="utf-8"))
    chosen = logs[:2] if arguments.quick else logs
    rows = [row for log in chosen for row in rows_of(log)]
    publish(Report("public_logs", FIELDS, rows, picture(rows)), arguments)


if __name__ == "__main__":
    main()
