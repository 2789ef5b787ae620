"""BFB loads by linear programming: the published formulation, a twin of the closed form.

For receiver u and step t: minimise U subject to every source's fractions over its admissible
in-links adding up to 1 and every in-link carrying at most its speed times U. Sources with the same
admissible in-links may be merged, and the receivers of a step may share one U in one program; the
optimum stays. It exists to check the closed form and to be measured against it. Source: Zhao et al.
(arXiv 2202.03356).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.lp import LinearProgram, Options, Status, solve
from ocs_codesign.schedules.breadth_first.loads import distances_to

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ocs_codesign.core.topology import Topology

FORMULATIONS = ("node and step", "node and step, merged sources", "step, merged sources")


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Demand:
    """Sources of one receiver and step: how many of each kind, and which in-links each may use."""

    count: NDArray[np.int64]
    allowed: NDArray[np.bool_]
    speed: NDArray[np.int64]


def bfb_lp_loads(
    topology: Topology,
    solver: str = "highs",
    formulation: str = FORMULATIONS[0],
    time_limit_s: float | None = None,
) -> tuple[Fraction, ...]:
    """Largest link load of every BFB allgather step by LP, as the nearest possible fraction.

    Raises ValueError for an unknown solver or formulation or a topology without a collective,
    RuntimeError with the solver's sentence if a program is not solved.

    >>> from ocs_codesign.graphs.families.dense import CompleteBipartite
    >>> bfb_lp_loads(CompleteBipartite(2).topology())
    (Fraction(1, 1), Fraction(1, 2))
    """
    if formulation not in FORMULATIONS:
        raise ValueError(f"unknown formulation {formulation!r}: one of {', '.join(FORMULATIONS)}")
    merged = formulation != FORMULATIONS[0]
    speed_of_node = np.zeros(topology.num_nodes, dtype=np.int64)
    np.add.at(speed_of_node, topology.head, topology.speeds())
    largest = int(speed_of_node.max())
    loads = []
    for demands in _demands_by_step(topology, merged=merged):
        groups = [demands] if formulation == FORMULATIONS[2] else [[one] for one in demands]
        optima = []
        for group in groups:
            solution = solve(_program(group), solver, Options(time_limit_s=time_limit_s))
            if solution.status is not Status.OPTIMAL or solution.objective is None:
                raise RuntimeError(solution.message)
            optima.append(solution.objective)
        loads.append(as_fractions(np.array([max(optima)]), largest)[0])
    return tuple(loads)


def _demands_by_step(topology: Topology, *, merged: bool) -> Iterator[list[_Demand]]:
    distance_to = distances_to(topology)
    index = topology.links_by_head()
    in_links = [
        links[topology.tail[links] != topology.head[links]]
        for links in np.split(index.order, index.start[1:-1])
    ]
    for step in range(1, int(distance_to.max()) + 1):
        demands = []
        for receiver, links in enumerate(in_links):
            sources = np.flatnonzero(distance_to[receiver] == step)
            if len(sources):
                allowed = (distance_to[topology.tail[links]][:, sources] == step - 1).T
                count = np.ones(len(sources), dtype=np.int64)
                if merged:
                    allowed, count = np.unique(allowed, axis=0, return_counts=True)
                demands.append(_Demand(count, allowed, topology.speeds()[links]))
        yield demands


def _program(demands: list[_Demand]) -> LinearProgram:
    """Minimise the common U of some receivers: a row a kind of source, then a row a link."""
    kinds = np.cumsum([0] + [len(demand.count) for demand in demands])
    links = np.cumsum([0] + [len(demand.speed) for demand in demands])
    pairs = [np.argwhere(demand.allowed) for demand in demands]
    kind = np.concatenate([pair[:, 0] + first for pair, first in zip(pairs, kinds, strict=False)])
    link = np.concatenate([pair[:, 1] + first for pair, first in zip(pairs, links, strict=False)])
    num_pairs, num_kinds, num_links = len(kind), int(kinds[-1]), int(links[-1])
    rows = np.concatenate([kind, num_kinds + link, num_kinds + np.arange(num_links)])
    columns = np.concatenate(
        [np.arange(num_pairs), np.arange(num_pairs), np.full(num_links, num_pairs)]
    )
    speed = np.concatenate([demand.speed for demand in demands])
    values = np.concatenate([np.ones(2 * num_pairs), -speed.astype(float)])
    order = np.lexsort((columns, rows))
    start = np.searchsorted(rows[order], np.arange(num_kinds + num_links + 1))
    count = np.concatenate([demand.count for demand in demands]).astype(float)
    cost = np.zeros(num_pairs + 1)
    cost[-1] = 1.0
    return LinearProgram(
        cost,
        start,
        columns[order],
        values[order],
        np.concatenate([count, np.full(num_links, -np.inf)]),
        np.concatenate([count, np.zeros(num_links)]),
        np.zeros(num_pairs + 1),
        np.full(num_pairs + 1, np.inf),
    )


def as_fractions(
    values: NDArray[np.float64], max_denominator: int, tolerance: float = 1e-6
) -> list[Fraction]:
    """The nearest fractions of bounded denominator; ValueError if one is not within tolerance.

    >>> as_fractions(np.array([0.33333333, 1.0]), 4)
    [Fraction(1, 3), Fraction(1, 1)]
    """
    fractions = [Fraction(float(v)).limit_denominator(max_denominator) for v in values]
    for value, fraction in zip(values.tolist(), fractions, strict=True):
        if abs(value - fraction) > tolerance:
            raise ValueError(
                f"{value} is not within {tolerance} of a fraction of denominator "
                f"at most {max_denominator}"
            )
    return fractions
