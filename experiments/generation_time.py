"""Benchmark: CPU time to generate a schedule against N, linear programs against ours.

On random 4-regular digraphs (no symmetry to exploit): three linear-programming formulations of the
BFB loads (HiGHS, model building included), the exact loads by closed form, and the whole integral
schedule. The linear programs give loads alone; the first formulation is the published one, Zhao et
al. (arXiv 2202.03356), whose generation takes about a minute for the 1024-node hypercube and the
50 x 50 torus: those two graphs are timed as well. Loads of both kinds must be equal.

    python experiments/generation_time.py [--quick] [--out DIR]

writes figures/generation_time.csv and .png. Timings differ from run to run, so this file is not
among those that are the same bytes every time. --quick runs N = 64 and 128.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from bfb_by_lp import FORMULATIONS, bfb_lp_loads
from reporting import OURS, PUBLISHED, Report, new_figure, parse_arguments, plain_log_axis, publish
from timing import cpu_s, random_digraph

from ocs_codesign import Topology, bfb
from ocs_codesign.graphs import Hypercube, Torus
from ocs_codesign.schedules import bfb_loads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LP_SIZES = (64, 128, 256, 512, 1024)
OUR_SIZES = (*LP_SIZES, 2048, 4096)
QUICK = (64, 128)
REPEATED_BELOW_S = 0.5
FIELDS = ("graph", "nodes", "degree", "method", "cpu_s")
LOADS, SCHEDULE = "ours, exact loads", "ours, integral schedule"
PROGRAMS = tuple(f"LP a {formulation}" for formulation in FORMULATIONS)
STYLES: dict[str, dict[str, Any]] = {
    PROGRAMS[0]: {"color": PUBLISHED, "marker": "s"},
    PROGRAMS[1]: {"color": "#d98a3d", "marker": "^"},
    PROGRAMS[2]: {"color": "#7a5230", "marker": "v"},
    SCHEDULE: {"color": OURS, "marker": "o"},
    LOADS: {"color": OURS, "marker": "o", "fillstyle": "none", "linestyle": (0, (4, 2))},
}


def ours(topology: Topology) -> Iterator[tuple[str, float]]:
    """CPU seconds of the exact loads and of the schedule, the least of a few short runs."""
    for method, work in ((LOADS, bfb_loads), (SCHEDULE, bfb)):
        seconds = cpu_s(lambda make=work: make(topology))  # type: ignore[misc]
        if seconds < REPEATED_BELOW_S:
            seconds = min(seconds, cpu_s(lambda make=work: make(topology), 4))  # type: ignore[misc]
        yield method, seconds


def programs(topology: Topology) -> Iterator[tuple[str, float]]:
    """CPU seconds of every formulation; RuntimeError if its loads are not ours."""
    exact = bfb_loads(topology)
    for method, formulation in zip(PROGRAMS, FORMULATIONS, strict=True):
        start = time.process_time()
        loads = bfb_lp_loads(topology, "highs", formulation)
        seconds = time.process_time() - start
        if loads != exact:
            raise RuntimeError(f"{topology.num_nodes} nodes, {method}: the loads differ from ours")
        yield method, seconds


def rows(lp_sizes: Sequence[int], our_sizes: Sequence[int]) -> Iterator[dict[str, object]]:
    """Random digraphs of all sizes."""
    warm = random_digraph(64)
    list(ours(warm))
    list(programs(warm))
    for nodes in our_sizes:
        topology = random_digraph(nodes)
        for method, seconds in (
            *ours(topology),
            *(programs(topology) if nodes in lp_sizes else ()),
        ):
            yield row("random 4-regular digraph", topology, method, seconds)


def published_graphs() -> Iterator[dict[str, object]]:
    """The two graphs whose generation time the source gives."""
    for recipe in (Hypercube(10), Torus((50, 50))):
        for method, seconds in ours(recipe.topology()):
            yield row(repr(recipe), recipe.topology(), method, seconds)


def row(graph: str, topology: Topology, method: str, seconds: float) -> dict[str, object]:
    """One timing."""
    size = {"nodes": topology.num_nodes, "degree": topology.num_links // topology.num_nodes}
    return {"graph": graph, **size, "method": method, "cpu_s": f"{seconds:.3g}"}


def picture(table: Sequence[dict[str, object]]) -> Figure:
    """CPU time against N, both logarithmic."""
    figure, (axes,) = new_figure(7.6, 5, 1, 1)
    random = [row for row in table if str(row["graph"]).startswith("random")]
    for method, style in STYLES.items():
        here = [row for row in random if row["method"] == method]
        seconds = [float(str(row["cpu_s"])) for row in here]
        axes.plot(
            [int(str(row["nodes"])) for row in here], seconds, label=method, markersize=5, **style
        )
    plain_log_axis(axes, "x", sorted({int(str(row["nodes"])) for row in random}))
    axes.set_yscale("log")
    axes.set_xlabel("nodes N")
    axes.set_ylabel("CPU time, one core (s)")
    axes.set_title("Random 4-regular digraphs: time to generate", fontsize=11.5)
    axes.legend(frameon=False, fontsize=8.5)
    return figure


def main() -> None:
    """Run, print and write."""
    arguments = parse_arguments(__doc__)
    if arguments.quick:
        table = list(rows(QUICK, QUICK))
    else:
        table = [*rows(LP_SIZES, OUR_SIZES), *published_graphs()]
    machine = f"{platform.processor() or platform.machine()}, Python {platform.python_version()}"
    note = f"a benchmark: timings differ from run to run; {machine}"
    publish(Report("generation_time", FIELDS, table, picture(table), note), arguments)


if __name__ == "__main__":
    main()
