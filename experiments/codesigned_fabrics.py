"""Three training jobs on six clusters: co-designed circuits beside torus, ring, fat tree and DDP.

GPT-3, a mixture of experts of the size of Mixtral 8x7B, and DLRM on 64, 256 and 1024 accelerators
in servers of eight, and on numbers that are not round: 61 servers of one, 125 of two, 125 of
eight. GPT-3's batch grows with them, the others' is always the same. All accelerators have four
optical ports of 50 Gb/s on rails. Divisions, placements and policies are searched for every fabric
alike, so that what differs is the fabric; the fat tree costs as much as the optical ports by list
estimates. DDP is what it does on the circuits that are best for it, were there enough memory.

    python experiments/codesigned_fabrics.py [--quick] [--out DIR]

writes figures/codesigned_fabrics.csv and .png in a quarter of an hour, and says on standard error
what it is at; --quick runs DLRM on the two smallest clusters.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
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
from ocs_codesign.core.quantities import format_time
from ocs_codesign.faces.answers.codesign import circuits_text, division_text
from ocs_codesign.graphs.handle import handle
from ocs_codesign.jobs.cluster_design.cluster import TrainedModel, memory_bytes
from ocs_codesign.jobs.cluster_design.planning import codesign
from ocs_codesign.jobs.files.job_cluster_files import load_job_cluster
from ocs_codesign.jobs.files.job_files import load_training
from ocs_codesign.jobs.models.layer import Transformer

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ocs_codesign.jobs.cluster_design.cluster import JobCluster
    from ocs_codesign.jobs.cluster_design.outcomes import JobOutcome
    from ocs_codesign.jobs.cluster_design.planning import CodesignPlan

EXAMPLES = Path(ocs_codesign.__file__).parent / "faces" / "examples"
JOBS = ("gpt3", "mixtral", "dlrm")
SERVERS = ((61, 1), (8, 8), (125, 2), (32, 8), (125, 8), (128, 8))
"""Servers and accelerators of each, by accelerators."""
SEQUENCES = {61: 96, 64: 96, 250: 384, 256: 384, 1000: 1536, 1024: 1536}
"""The batch of GPT-3 by accelerators: 1,536 on few of them would be a thousand microbatches."""
QUICK_JOBS, QUICK_SERVERS = ("dlrm",), SERVERS[:2]
CODESIGNED = "co-designed"
COLOURS = {CODESIGNED: OURS, "torus": KAUTZ, "ring": RING, "fat tree": TREE, "DDP": PUBLISHED}
FIELDS = (
    *("job", "accelerators", "servers", "fabric", "iteration_ms", "over_codesigned", "bound_ms"),
    *("compute_ms", "exposed_ms", "idle_ms", "dark_ms", "used", "memory_gb", "fits", "policy"),
    *("division", "joined_by", "fat_tree_share", "batch", "divisions"),
    *("need_more_memory", "too_long"),
)
BREAK_AT = 2.5
"""Where bars are cut that are longer, with their length written."""


def cluster_of(num_servers: int, each: int) -> JobCluster:
    """The shipped cluster of 256 accelerators, with so many servers of so many instead."""
    shipped = load_job_cluster(EXAMPLES / "cluster256.yaml")
    inside = shipped.scale_up if each > 1 else None
    return replace(
        shipped,
        name=f"{num_servers} x {each}",
        num_servers=num_servers,
        accelerators_a_server=each,
        scale_up=inside,
    )


def trained_on(job: str, num_accelerators: int) -> TrainedModel:
    """The shipped model without its own division, of GPT-3 with the batch for so many."""
    shipped = load_training(EXAMPLES / f"{job}.yaml")
    model = shipped.model
    if job == "gpt3" and isinstance(model, Transformer):
        model = replace(model, batch=SEQUENCES[num_accelerators])
    return TrainedModel(shipped.name, model)


def rows(job: str, num_servers: int, each: int) -> Iterator[dict[str, object]]:
    """A row for the winner and for every usual choice that there is."""
    cluster = cluster_of(num_servers, each)
    plan = codesign(trained_on(job, cluster.num_accelerators), cluster)
    yield row(plan, CODESIGNED, plan.best)
    for one in plan.baselines:
        if one.outcome is not None:
            yield row(plan, one.name, one.outcome)


def row(plan: CodesignPlan, fabric: str, outcome: JobOutcome) -> dict[str, object]:
    """What an outcome consists of."""
    cluster, parallel = plan.cluster, outcome.candidate.parallel
    needed = memory_bytes(plan.trained.model, parallel)
    parts = " ".join(
        f"{label} {milliseconds(seconds)}" for label, seconds in sorted(outcome.exposed_s.items())
    )
    return {
        "job": plan.trained.name,
        "accelerators": cluster.num_accelerators,
        "servers": cluster.name,
        "fabric": fabric,
        "iteration_ms": milliseconds(outcome.period_s),
        "over_codesigned": f"{float(outcome.period_s / plan.best.period_s):.4f}",
        "bound_ms": milliseconds(outcome.bound_s),
        "compute_ms": milliseconds(outcome.compute_s),
        "exposed_ms": parts,
        "idle_ms": milliseconds(outcome.idle_s),
        "dark_ms": milliseconds(outcome.dark_s),
        "used": parallel.num_ranks,
        "memory_gb": f"{needed / 1e9:.2f}",
        "fits": "yes" if needed <= cluster.memory_bytes else "no",
        "policy": outcome.policy,
        "division": division_text(outcome.candidate),
        "joined_by": circuits_text(outcome.candidate, handle),
        "fat_tree_share": f"{float(cluster.fat_tree_share):.4f}",
        "batch": plan.trained.model.batch,
        "divisions": len(plan.divisions.fitting),
        "need_more_memory": plan.divisions.num_too_large,
        "too_long": plan.divisions.num_too_long,
    }


def milliseconds(seconds: Fraction | float) -> str:
    """Milliseconds to a tenth of a microsecond."""
    return f"{float(seconds) * 1e3:.4f}"


def picture(table: Sequence[dict[str, object]]) -> Figure:
    """A panel a job: bars of every fabric by size, over what the co-designed one takes.

    A line across a bar is the bound of that fabric's division; hatched is what does not fit.
    """
    jobs = list(dict.fromkeys(str(line["job"]) for line in table))
    figure, panels = new_figure(11.6, 0.9 + 2.6 * len(jobs), len(jobs), 1, sharex=False)
    for axes, job in zip(panels, jobs, strict=True):
        draw_job(axes, [line for line in table if line["job"] == job])
        axes.set_title(job, fontsize=10, loc="left")
    for fabric, colour in COLOURS.items():
        panels[0].bar(0, 0, color=colour, label=fabric)
    panels[0].bar(
        0,
        0,
        color="#ffffff",
        edgecolor=PUBLISHED,
        hatch="////",
        label="DDP, does not fit in memory",
    )
    panels[0].plot([], [], color="#222222", linewidth=1.6, label="bound, any policy")
    figure.legend(loc="outside lower center", ncols=7, frameon=False, fontsize=9.5)
    figure.suptitle(
        "Time of an iteration over that on the co-designed fabric, which is written below: "
        "accelerators = servers × accelerators a server",
        fontsize=11.5,
    )
    return figure


def draw_job(axes: Axes, table: Sequence[dict[str, object]]) -> None:
    """The bars of a job, a group for each size."""
    sizes = list(dict.fromkeys(str(line["servers"]) for line in table))
    labels = []
    width = 0.8 / len(COLOURS)
    for group, size in enumerate(sizes):
        mine = {str(line["fabric"]): line for line in table if line["servers"] == size}
        best = float(str(mine[CODESIGNED]["iteration_ms"]))
        told = f"{mine[CODESIGNED]['accelerators']} = {size.replace(' x ', ' × ')}"
        labels.append(f"{told}\n{format_time(best / 1e3).replace('us', 'µs')}")
        for at, (fabric, colour) in enumerate(COLOURS.items()):
            place = group + (at - (len(COLOURS) - 1) / 2) * width
            if fabric in mine:
                draw_bar(axes, mine[fabric], place, width, best, colour)
            else:
                axes.text(place, 0.05, "none", rotation=90, ha="center", va="bottom", fontsize=8)
    axes.set_xticks(range(len(sizes)), labels)
    axes.set_ylim(0, BREAK_AT * 1.08)
    axes.axhline(1, color="#222222", linewidth=0.8, linestyle=(0, (4, 2)), zorder=0.5)
    axes.set_ylabel("over co-designed (×)")


def draw_bar(
    axes: Axes, line: dict[str, object], place: float, width: float, best_ms: float, colour: str
) -> None:
    """A bar, its bound, and its length where that is not near 1."""
    ratio = float(str(line["over_codesigned"]))
    bound = float(str(line["bound_ms"])) / best_ms
    fits = line["fits"] == "yes"
    axes.bar(
        *(place, min(ratio, BREAK_AT), 0.92 * width),
        color=colour if fits else "#ffffff",
        edgecolor=colour,
        hatch=None if fits else "////",
        linewidth=0.8,
    )
    if bound <= BREAK_AT:
        axes.hlines(bound, place - width * 0.46, place + width * 0.46, color="#222222", lw=1.6)
    if line["fabric"] != CODESIGNED:
        top = min(ratio, BREAK_AT)
        if ratio > BREAK_AT:
            ends = [place - 0.46 * width, place + 0.46 * width]
            cut = [0.945 * top, 0.975 * top]
            axes.plot(ends, cut, color="#ffffff", linewidth=3, solid_capstyle="butt")
        clear = 1 if 0.85 < top < 1 else top  # of the line at 1
        axes.text(place, clear + 0.03, f"{ratio:.2f}", ha="center", fontsize=7.5)


def main() -> None:
    """Run, print and write."""
    arguments = parse_arguments(__doc__)
    jobs, servers = (QUICK_JOBS, QUICK_SERVERS) if arguments.quick else (JOBS, SERVERS)
    table: list[dict[str, object]] = []
    for job in jobs:
        for num_servers, each in servers:
            if not arguments.quick:
                sys.stderr.write(f"{job} on {num_servers} x {each}\n")
            table += rows(job, num_servers, each)
    publish(Report("codesigned_fabrics", FIELDS, table, picture(table)), arguments)


if __name__ == "__main__":
    main()
