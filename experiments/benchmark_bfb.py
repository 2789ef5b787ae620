"""Benchmark: BFB costs, schedules and verification against linear programs, as ratios.

Every graph is a random 4-regular digraph (four seeded permutations, no symmetry to exploit). CPU
seconds on one core, after warm-up; the linear programs solve the same graph in the same run.

    python experiments/benchmark_bfb.py [--quick]

writes figures/benchmark_bfb.csv.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

from timing import cpu_s, peak_megabytes, random_digraph, tell

from bfb_by_lp import FORMULATIONS, bfb_lp_loads  # isort: skip

from ocs_codesign import bfb, verify
from ocs_codesign.schedules import bfb_loads

FIELDS = ("what", "nodes", "cpu_s", "ratio_to_cost", "ratio_to_schedule", "peak_MB", "note")
"""peak_MB is the process's peak so far, so it never falls from one row to the next."""


def costs(sizes: list[int]) -> Iterator[dict[str, object]]:
    """Measured cost of ever larger graphs."""
    for nodes in sizes:
        topology = random_digraph(nodes)
        seconds = cpu_s(lambda t=topology: bfb_loads(t), 5 if nodes <= 4096 else 1)  # type: ignore[misc]
        yield {"what": "cost", "nodes": nodes, "cpu_s": seconds, "peak_MB": peak_megabytes()}


def schedules(sizes: list[int]) -> Iterator[dict[str, object]]:
    """The whole integral schedule, its replay, and the memory of its columns."""
    for nodes in sizes:
        topology = random_digraph(nodes)
        schedule = bfb(topology)
        seconds = cpu_s(lambda t=topology: bfb(t), 3 if nodes <= 1024 else 1)  # type: ignore[misc]
        megabytes = sum(column.nbytes for column in schedule.columns()) / 2**20
        yield {
            "what": "integral schedule",
            "nodes": nodes,
            "cpu_s": seconds,
            "peak_MB": peak_megabytes(),
            "note": f"{schedule.num_sends} sends, columns {megabytes:.0f} MB",
        }
        verdict = verify(schedule)
        if not verdict.ok or verdict.max_loads != bfb_loads(topology):
            raise RuntimeError(f"{nodes} nodes: {verdict.witness}")
        seconds = cpu_s(lambda s=schedule: verify(s), 3 if nodes <= 1024 else 1)  # type: ignore[misc]
        yield {"what": "verification", "nodes": nodes, "cpu_s": seconds}


def programs(nodes: int) -> Iterator[dict[str, object]]:
    """Linear programs against cost and schedule on the same graph."""
    topology = random_digraph(nodes)
    exact = bfb_loads(topology)
    cost, schedule = cpu_s(lambda: bfb_loads(topology), 5), cpu_s(lambda: bfb(topology), 3)
    for formulation in FORMULATIONS:
        start = time.process_time()
        if bfb_lp_loads(topology, "highs", formulation) != exact:
            raise RuntimeError(f"{formulation}: LP and closed form differ")
        seconds = time.process_time() - start
        yield {
            "what": f"LP a {formulation}",
            "nodes": nodes,
            "cpu_s": seconds,
            "ratio_to_cost": round(seconds / cost),
            "ratio_to_schedule": round(seconds / schedule),
            "note": "HiGHS, loads only",
        }


def main() -> None:
    """Run, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, nothing written")
    quick = parser.parse_args().quick
    bfb_loads(random_digraph(64))
    verify(bfb(random_digraph(64)))
    work = (
        costs([256, 1024] if quick else [1024, 4096, 16384, 100_000]),
        programs(128 if quick else 1024),
        schedules([256] if quick else [1024, 4096]),
    )
    tell("benchmark_bfb", FIELDS, (row for part in work for row in part), quick=quick)


if __name__ == "__main__":
    main()
