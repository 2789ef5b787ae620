"""What benchmarks share: CPU seconds on one core, memory, random graphs, and their table."""

from __future__ import annotations

import csv
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from reporting import FIGURES

from ocs_codesign import Topology, __version__

SEED = 7


def random_digraph(nodes: int, degree: int = 4) -> Topology:
    """Union of ``degree`` random permutations; strongly connected for the sizes used here."""
    rng = np.random.default_rng((SEED, nodes))
    heads = np.stack([rng.permutation(nodes) for _ in range(degree)], axis=1)
    return Topology(nodes, np.repeat(np.arange(nodes), degree), heads.ravel())


def cpu_s(work: Callable[[], object], repeat: int = 1) -> float:
    """Least CPU time of some runs."""
    best = float("inf")
    for _ in range(repeat):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def peak_megabytes() -> float:
    """Largest memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def tell(
    name: str, fields: Sequence[str], rows: Iterable[Mapping[str, object]], *, quick: bool
) -> None:
    """Print rows as they come; then write figures/``name``.csv whole, unless ``quick``."""
    told = []
    for row in rows:
        told.append(row)
        cells = (
            f"{row[field]:.4g}" if isinstance(row.get(field), float) else str(row.get(field, ""))
            for field in fields
        )
        sys.stdout.write("  ".join(cells) + "\n")
        sys.stdout.flush()
    if quick:
        return
    temporary = FIGURES / f"{name}.tmp"
    with temporary.open("w", newline="") as file:
        machine = platform.processor() or platform.machine()
        file.write(f"# python experiments/{name}.py, ocs_codesign {__version__}, seed {SEED}, ")
        file.write(f"{machine}, Python {platform.python_version()}\n")
        writer = csv.DictWriter(file, fields)
        writer.writeheader()
        for row in told:
            writer.writerow(
                {
                    key: f"{value:.4g}" if isinstance(value, float) else value
                    for key, value in row.items()
                }
            )
    temporary.replace(FIGURES / f"{name}.csv")
