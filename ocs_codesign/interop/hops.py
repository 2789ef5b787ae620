"""Launch and hops from logs of several numbers of ranks, which one number cannot tell apart.

A small message takes a launch, hops inside nodes and between, and its bytes: of an allreduce on one
node 2(n - 1) hops, over k nodes of p ranks 2(p - 1) inside and 2 floor(log2 k) between; of an
allgather or a reduce-scatter n - k inside and k - 1 between. Latencies are of all collectives,
rates are of each, on one node and over several.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ocs_codesign.core.machines.curves import robust
from ocs_codesign.interop.logs import BenchmarkRun, factor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

SMALL_BYTES: Final = 2**16
NAMES: Final = ("launch_us", "inside_hop_us", "net_hop_us")
_DRAWS: Final = 200


class LatencyTerms(NamedTuple):
    """us of a launch and of hops, None where logs do not tell it; intervals of 95 %.

    With ``is_launch_given`` the launch is that of the machine's kind.
    """

    launch_us: float | None
    inside_hop_us: float | None
    net_hop_us: float | None
    intervals: dict[str, tuple[float, float]]
    is_launch_given: bool


def hops_of_run(run: BenchmarkRun) -> tuple[int, int] | None:
    """Hops of a run inside nodes and between; None where they are not known."""
    nodes, ranks = run.nodes, run.ranks
    if nodes < 1 or ranks % nodes or ranks < 2:
        return None
    if run.collective == "allreduce":
        return 2 * (ranks // nodes - 1), 2 * (nodes.bit_length() - 1)
    if run.collective in ("allgather", "reduce-scatter"):
        return ranks - nodes, nodes - 1
    return None


def hops_of(runs: Sequence[BenchmarkRun], launch_us: float) -> LatencyTerms | None:
    """What runs of several numbers of ranks tell of a launch and of hops; None if nothing.

    Where they do not tell all three, the launch is ``launch_us``.
    """
    counted = [(hops_of_run(run), run) for run in runs]
    rows = [
        ((1, *hops), run, size, time)
        for hops, run in counted
        if hops is not None
        for size, time in run.rows
        if size <= SMALL_BYTES
    ]
    if len({run.ranks for _, run, _, _ in rows}) < 2:
        return None
    hops = np.array([each for each, *_ in rows], dtype=float)
    time = np.array([each[-1] for each in rows])
    kinds = sorted({(run.collective, run.nodes > 1) for _, run, _, _ in rows})
    rates = np.zeros((len(rows), len(kinds)))
    for at, (_, run, size, _) in enumerate(rows):
        kind = kinds.index((run.collective, run.nodes > 1))
        rates[at, kind] = factor(run.collective, run.ranks) * size / 1000
    told = _told(hops)
    is_given = not told[0]
    if is_given:
        told = [False, *_told(hops[:, 1:])]
    if not any(told):
        return None
    left = np.maximum(time - (launch_us if is_given else 0), 0)
    used = np.logical_and(hops.any(axis=0), [not is_given, True, True])
    columns = np.concatenate([hops[:, used], rates], axis=1)
    names = [name if is_told else "" for name, is_told in zip(NAMES, told, strict=True)]
    known = [name for name, is_used in zip(names, used, strict=True) if is_used]
    return _fitted(columns, left, time, known, is_given=is_given)


def _told(columns: NDArray[np.float64]) -> list[bool]:
    """Whether each column has a coefficient of its own: without it the rank is less."""
    rank = np.linalg.matrix_rank(columns)
    rest = (np.delete(columns, at, axis=1) for at in range(columns.shape[1]))
    return [bool(np.linalg.matrix_rank(each) < rank) for each in rest]


def _fitted(
    columns: NDArray[Any],
    left: NDArray[Any],
    time: NDArray[Any],
    names: list[str],
    *,
    is_given: bool,
) -> LatencyTerms:
    """Coefficients of the first columns by ``names``, "" of those that are not told apart."""
    found = robust(columns, left, time)
    expected, random = columns @ found, np.random.default_rng(len(time))
    error, drawn = (left - expected) / time, []
    for _ in range(_DRAWS):
        signs = random.choice([-1, 1], len(time))
        again = expected + random.choice(error, len(time)) * signs * time
        drawn.append(robust(columns, np.maximum(again, 0), time))
    low, high = np.percentile(np.array(drawn), [2.5, 97.5], axis=0)
    places = {name: at for at, name in enumerate(names) if name}
    limits = {
        name: (float(min(low[at], found[at])), float(max(high[at], found[at])))
        for name, at in places.items()
    }
    values = {name: float(found[at]) for name, at in places.items()}
    launch, inside, between = (values.get(name) for name in NAMES)
    return LatencyTerms(launch, inside, between, limits, is_given)
