"""What a faster fabric is worth, by job: the best division of a step at every bandwidth.

Five models on 1,024 H100 in servers of eight, in bf16 as Megatron-LM computes them, with batches of
1,024 sequences, on networks of 6.25 to 400 GB/s an accelerator. At every bandwidth divisions are
searched anew. Prices are 2.50 US$ of an accelerator's hour and list estimates of a fat tree over
four years; beside the networks, the optical ports of cluster256.yaml and the fat tree that costs as
much as them.

    python experiments/faster_fabrics.py [--quick] [--out DIR]

writes figures/faster_fabrics.csv and .png in three minutes; --quick runs the smallest model on one
network.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
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
from ocs_codesign.faces.answers.step import division_text
from ocs_codesign.jobs.files.job_cluster_files import load_job_cluster, parse_room
from ocs_codesign.jobs.files.step_files import load_step
from ocs_codesign.jobs.training.division import Division
from ocs_codesign.jobs.training.operation import usd_a_million_tokens
from ocs_codesign.jobs.training.search import rank_divisions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ocs_codesign.jobs.training.room import Room
    from ocs_codesign.jobs.training.step import StepEstimate

EXAMPLES = Path(ocs_codesign.__file__).parent / "faces" / "examples"
JOBS = {
    "llama3_8b": ("Llama 3 8B", OURS),
    "llama3_70b": ("Llama 3 70B", KAUTZ),
    "llama3_405b": ("Llama 3 405B", TREE),
    "mixtral_8x22b": ("Mixtral 8x22B", PUBLISHED),
    "deepseek_v3": ("DeepSeek-V3", RING),
}
BANDWIDTHS = (6.25, 12.5, 25, 50, 100, 200, 400)
BATCH, SERVERS, USUAL = 1024, 128, 50
FIELDS = (
    *("job", "fabric", "outside_GBps", "step_s", "speed_over_50", "mfu", "usd_a_million_tokens"),
    *("fabric_usd", "exposed_s", "memory_gb", "division"),
)
CLUSTER = """
name: 1,024 H100
servers: {{count: {servers}, accelerators: 8, scale_up: 450GB/s}}
accelerator: {{name: h100}}
network: {{bandwidth: {bandwidth}GB/s}}
prices: {{accelerator_hour: 2.5}}
"""


def room_of(bandwidth: float) -> Room:
    """The cluster with a network of so many GB/s an accelerator."""
    text = CLUSTER.format(servers=SERVERS, bandwidth=f"{bandwidth:.6g}")
    return parse_room(text.encode(), "cluster.yaml")[1]


def fabrics() -> Iterator[tuple[str, float, float | None]]:
    """Name, bandwidth, and US$ of an accelerator's part where it is not that of a fat tree."""
    for bandwidth in BANDWIDTHS:
        yield "network", bandwidth, None
    cluster = replace(load_job_cluster(EXAMPLES / "cluster256.yaml"), num_servers=SERVERS)
    ports = cluster.num_ports * float(cluster.port_Bps) / 1e9
    price = cluster.num_ports * float(cluster.port_usd)
    yield "optical ports", ports, price
    yield "fat tree of their price", ports * float(cluster.fat_tree_share), price


@cache
def best_of(job: str, bandwidth: float) -> StepEstimate:
    """The fastest step of a shipped job, with our batch and any division, on such a network."""
    step = load_step(EXAMPLES / f"{job}.yaml")
    step = replace(step, model=replace(step.model, batch=BATCH), division=Division())
    return rank_divisions(step, room_of(bandwidth), 1).ranked[0]


def rows(
    jobs: Sequence[str], chosen: Sequence[tuple[str, float, float | None]]
) -> Iterator[dict[str, object]]:
    """A row for every job and fabric, with the best division there."""
    kernels = ("forward", "backward", "recompute", "head", "optimizer", "bubble", "jitter")
    for job in jobs:
        usual_s = best_of(job, USUAL).seconds
        for fabric, bandwidth, price in chosen:
            best, costs = best_of(job, bandwidth), room_of(bandwidth).costs
            assert costs is not None
            costs = costs if price is None else costs._replace(fabric_usd=price)
            yield {
                "job": JOBS[job][0],
                "fabric": fabric,
                "outside_GBps": f"{bandwidth:.6g}",
                "step_s": f"{best.seconds:.6g}",
                "speed_over_50": f"{usual_s / best.seconds:.4f}",
                "mfu": f"{best.utilisation():.4f}",
                "usd_a_million_tokens": f"{sum(usd_a_million_tokens(costs, best, 1.0)):.5g}",
                "fabric_usd": f"{costs.fabric_usd:.0f}",
                "exposed_s": f"{best.seconds - sum(best.parts[part] for part in kernels):.5g}",
                "memory_gb": f"{best.memory_bytes / 1e9:.4g}",
                "division": division_text(best.division),
            }


def picture(table: Sequence[dict[str, object]]) -> Figure:
    """Speed over that at 50 GB/s, and what a million tokens costs over it, by bandwidth."""
    figure, (speed, cost) = new_figure(10.0, 4.4, 1, 2)
    for name, colour in JOBS.values():
        mine = [row for row in table if row["job"] == name]
        networks = [row for row in mine if row["fabric"] == "network"]
        if not networks:
            continue
        usual = next((row for row in networks if row["outside_GBps"] == f"{USUAL:g}"), networks[0])
        for axes, key in ((speed, "speed_over_50"), (cost, "usd_a_million_tokens")):
            base = 1.0 if axes is speed else float(str(usual[key]))
            for marker, kind in (
                ("o-", "network"),
                ("*", "optical ports"),
                ("x", "fat tree of their price"),
            ):
                chosen = [row for row in mine if row["fabric"] == kind]
                axes.plot(
                    [float(str(row["outside_GBps"])) for row in chosen],
                    [float(str(row[key])) / base for row in chosen],
                    marker,
                    color=colour,
                    markersize=4 if marker == "o-" else 9,
                    linewidth=1.4,
                    label=name if kind == "network" else None,
                )
    for axes, text in (
        (speed, "speed over that at 50 GB/s"),
        (cost, "US$ of a million tokens, over that at 50 GB/s"),
    ):
        axes.set_xscale("log", base=2)
        axes.set_xticks(BANDWIDTHS, [f"{bandwidth:g}" for bandwidth in BANDWIDTHS])
        axes.minorticks_off()
        axes.set_xlabel("GB/s of an accelerator out of its server")
        axes.set_title(text, loc="left", fontsize=10)
        axes.axhline(1, color="#222222", linewidth=0.7)
    cost.plot([], [], "*", color="#444444", markersize=9, label="optical ports")
    cost.plot([], [], "x", color="#444444", markersize=7, label="fat tree of their price")
    cost.legend(frameon=False, fontsize=8)
    return figure


def main() -> None:
    """Run, print and write."""
    arguments = parse_arguments(__doc__)
    every = list(fabrics())
    jobs = ("llama3_8b",) if arguments.quick else tuple(JOBS)
    chosen = every[3:4] if arguments.quick else every
    table = list(rows(jobs, chosen))
    publish(Report("faster_fabrics", FIELDS, table, picture(table)), arguments)


if __name__ == "__main__":
    main()
