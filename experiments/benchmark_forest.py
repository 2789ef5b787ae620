"""Benchmark: optimum, whole forest and independent check of networks with and without switches.

CPU seconds on one core, after warm-up. In the same run the rate is found as published: bisection,
a maximum flow a rank and step (scipy), as long as that takes a minute. ``published_s`` is what the
public tool was reported to take for optimum, splitting and packing; it was not run here.

    python experiments/benchmark_forest.py [--quick]

writes figures/benchmark_forest.csv.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from timing import cpu_s, peak_megabytes, random_digraph, tell

import numpy as np  # isort: skip

from ocs_codesign import parse
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.networks.builders import direct
from ocs_codesign.core.networks.products import a100, mi250
from ocs_codesign.schedules.forest.building import forests
from ocs_codesign.schedules.forest.optimum import optimum
from ocs_codesign.verification.forests import check_forest

if TYPE_CHECKING:
    from ocs_codesign.core.network import Network

FIELDS = (
    *("network", "hosts", "links", "optimum_s", "bisection_s", "ratio", "forest_s", "check_s"),
    *("trees", "height", "peak_MB", "published_s"),
)
PUBLISHED_S = {"A100 x 4": 33.3, "MI250 x 2": 27.4, "MI250 x 4": 251.4}
"""Reported CPU seconds, optimum, splitting and packing together."""

MAX_FLOWS = 4000
"""Flows of the bisection up to which it is run."""

BISECTION_STEPS = 35
"""Halvings until the rate is known to about 1e-10."""

TOLERANCE = 1e-4
"""What scipy's capacities of 32 bits leave of that."""


def networks(sizes: tuple[int, ...]) -> Iterator[tuple[str, Network]]:
    """Names and networks of about these many hosts."""
    if 64 in sizes:
        yield "A100 x 4", a100(4)
        yield "MI250 x 2", mi250(2)
    for hosts in sizes:
        side = {64: (8, 8), 256: (16, 16), 1024: (32, 32)}[hosts]
        yield f"A100 x {hosts // 8}", a100(hosts // 8)
        yield f"MI250 x {hosts // 16}", mi250(hosts // 16)
        yield f"torus {side[0]}x{side[1]}", direct(parse(f"Torus({side})").build(), 1)
        cube = hosts.bit_length() - 1
        yield f"hypercube {cube}", direct(parse(f"Hypercube({cube})").build(), 1)
        yield f"random 4-regular digraph {hosts}", direct(random_digraph(hosts), 1)


def bisection(network: Network) -> Fraction:
    """The rate by bisection, a flow from a source over all ranks to every rank at each step."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import maximum_flow

    hosts, nodes = network.num_hosts, network.num_nodes
    ranks = np.arange(hosts)
    tail = np.concatenate([network.tail, np.full(hosts, nodes)])
    head = np.concatenate([network.head, ranks])
    enters = np.bincount(network.head, network.bandwidth)[:hosts].max()
    scale = 2**30 // int(enters)
    widths = np.minimum(network.bandwidth * scale, 2**30)
    low, high = 0.0, float(enters) / (hosts - 1)
    for _ in range(BISECTION_STEPS):
        rate = (low + high) / 2
        own = round(rate * scale)
        capacity = np.concatenate([widths, np.full(hosts, own)])
        shape = (nodes + 1, nodes + 1)
        graph = coo_array((capacity.astype(np.int32), (tail, head)), shape=shape).tocsr()
        short = any(maximum_flow(graph, nodes, rank).flow_value < own * hosts for rank in ranks)
        low, high = (low, rate) if short else (rate, high)
    return Fraction(low)


def rows(sizes: tuple[int, ...]) -> Iterator[dict[str, object]]:
    """A row a network."""
    for name, network in networks(sizes):
        found = optimum(network, Collective.ALLGATHER)
        row: dict[str, object] = {
            "network": name,
            "hosts": network.num_hosts,
            "links": network.num_links,
            "optimum_s": cpu_s(lambda n=network: optimum(n, Collective.ALLGATHER), 5),  # type: ignore[misc]
            "published_s": PUBLISHED_S.get(name, ""),
        }
        if network.num_hosts * BISECTION_STEPS <= MAX_FLOWS:
            if abs(bisection(network) / found.rate - 1) > TOLERANCE:
                raise RuntimeError(f"{name}: bisection finds another rate")
            row["bisection_s"] = cpu_s(lambda n=network: bisection(n))  # type: ignore[misc]
            row["ratio"] = round(row["bisection_s"] / row["optimum_s"])  # type: ignore[operator]
        forest = forests(network, Collective.ALLGATHER)[0]
        row["forest_s"] = cpu_s(lambda n=network: forests(n, Collective.ALLGATHER))  # type: ignore[misc]
        if forest.inv_rate != found.inv_rate:
            raise RuntimeError(f"{name}: the forest is slower than the optimum")
        row["check_s"] = cpu_s(lambda f=forest: check_forest(f))  # type: ignore[misc]
        if check_forest(forest) is not None:
            raise RuntimeError(f"{name}: {check_forest(forest)}")
        yield row | {
            "trees": len(forest.root),
            "height": forest.height,
            "peak_MB": round(peak_megabytes()),
        }


def main() -> None:
    """Run, print and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, nothing written")
    quick = parser.parse_args().quick
    for network in (a100(32), mi250(16), mi250(2), direct(random_digraph(256), 1)):
        for _ in range(2):
            check_forest(forests(network, Collective.ALLGATHER)[0])
    tell("benchmark_forest", FIELDS, rows((64,) if quick else (64, 256, 1024)), quick=quick)


if __name__ == "__main__":
    main()
