"""A machine from logs: laws and curves of what was measured, and where the fabric stands.

One floor places a fabric: of the latency of a small allreduce NCCL's launch and hops inside nodes
are known, and what is left is hops between nodes. What one number of ranks cannot tell apart is
taken from the machine's kind, and said.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any, Final, final

from ocs_codesign.core.machines.curves import (
    BANDS,
    LAW,
    LINE,
    SCALED,
    TABLE,
    Law,
    by_band,
    fitted_law,
    intervals,
    left_out,
    method_of,
    table_us,
)
from ocs_codesign.core.machines.machine import (
    LogCurve,
    Number,
    RealMachine,
    machine_named,
    machine_of_accelerator,
)
from ocs_codesign.core.machines.nccl import MODELLED, MODELS
from ocs_codesign.interop.hops import NAMES, SMALL_BYTES, LatencyTerms, hops_of
from ocs_codesign.interop.logs import BANDWIDTH, LATENCY, BenchmarkRun, factor

if TYPE_CHECKING:
    from collections.abc import Sequence

UNKNOWN: Final = "dgx-h100"
"""The kind of which numbers are assumed where neither a log nor anybody says a machine."""

LARGE_BYTES: Final = 2**24
_GRID: Final = tuple(2**power for power in range(10, 33))
_NET_HOP_US: Final = 5.0
"""NCCL's hop between nodes in protocol LL, over which a NIC has its latency."""


@final
@dataclass(frozen=True, slots=True)
class Fit:
    """What a run says: its ``law`` with intervals, errors of sizes left out, hops of the fabric.

    ``model`` has errors of NCCL's own model to 64 KiB with the NICs' latency of this run, and
    ``others`` with that of the other logs alone; None where either cannot be had.
    """

    run: BenchmarkRun
    method: str
    law: Law
    intervals: dict[str, tuple[float, float]]
    left_out: dict[str, dict[str, float]]
    floor_us: float
    busbw_GBps: float  # noqa: N815 - units keep their case
    net_hop_us: float | None = None
    model: dict[str, float] | None = None
    others: dict[str, float] | None = None

    @property
    def curve(self) -> LogCurve:
        """The curve for a machine."""
        law = self.law.latency_us, self.law.root, self.law.bandwidth_GBps
        run = self.run
        return LogCurve(
            run.collective, run.ranks, run.nodes, run.rows, self.method, law, run.source
        )


@final
@dataclass(frozen=True, slots=True)
class Calibration:
    """A machine from logs, the fits that made it, and what the logs do not identify.

    ``hops`` are what logs of several numbers of ranks tell together.
    """

    machine: RealMachine
    fits: tuple[Fit, ...]
    launch_us: float
    not_identified: tuple[str, ...]
    hops: LatencyTerms | None = None


def calibrated(
    runs: Sequence[BenchmarkRun], prior: RealMachine | None = None, nodes: int | None = None
) -> Calibration:
    """The machine of logs. ``prior`` is its kind, else told from the accelerator's name.

    ``nodes`` is of runs that do not name their hosts. Raises ValueError for what says too little.
    """
    kind = prior or next(
        (found for run in runs if (found := machine_of_accelerator(run.accelerator))), None
    )
    base = kind or _assumed(machine_named(UNKNOWN))
    missing = [] if kind else ["the kind of machine: all that logs do not say is assumed"]
    merged = [replace(run, nodes=run.nodes or nodes or _nodes(base, run)) for run in _merged(runs)]
    ends = [run for run in merged if run.collective in (BANDWIDTH, LATENCY)]
    kept = [run for run in merged if run.collective not in (BANDWIDTH, LATENCY)]
    fits = tuple(_fit(run, kind) for run in kept)
    fits = _with_models(base, fits)
    numbers = {**base.numbers, **_of_ends(ends)}
    numbers, said = _placed(base, numbers, fits)
    hops = hops_of(kept, base.number("launch_us"))
    if hops is None and fits:
        why = "one number of ranks" if len({run.ranks for run in kept}) < 2 else "hops grow alike"
        missing.append(f"launch and hops inside: {why}; those of {base.name} hold")
    if hops is not None:
        numbers, more = _with_hops(base, numbers, hops, kept)
        missing += more
    missing += said
    for fit in fits:
        name = f"{fit.run.collective} of {fit.run.ranks}"
        missing += [
            f"{what} of {name}: its interval holds 0"
            for what, (low, _) in fit.intervals.items()
            if low <= 0
        ]
    texts = {**base.texts, "based_on": base.name, "not_identified": missing}
    for name in ("aliases", "builders"):
        texts.pop(name, None)
    first = runs[0]
    texts["log_date"] = first.date or "unknown"
    if first.library:
        texts["library"] = first.library
    curves = tuple(fit.curve for fit in fits)
    machine = RealMachine(f"{base.name} by logs", texts, numbers, base.graphs, curves)
    launch = machine.number("launch_us")
    return Calibration(machine, fits, launch, tuple(missing), hops)


def _assumed(machine: RealMachine) -> RealMachine:
    """The machine with nothing said of it but by analogy."""
    numbers = {name: replace(one, kind="assumed") for name, one in machine.numbers.items()}
    return replace(machine, numbers=numbers)


def _nodes(machine: RealMachine, run: BenchmarkRun) -> int:
    most = int(machine.texts.get("ranks_a_node", 1))
    return max(1, -(-run.ranks // most)) if run.ranks % most == 0 or run.ranks < most else 1


def _merged(runs: Sequence[BenchmarkRun]) -> list[BenchmarkRun]:
    """Runs of the same collective, ranks and nodes as one: of every size the middle time."""
    together: dict[tuple[str, int, int], list[BenchmarkRun]] = defaultdict(list)
    for run in runs:
        together[run.collective, run.ranks, run.nodes].append(run)
    found = []
    for alike in together.values():
        times: dict[int, list[float]] = defaultdict(list)
        for run in alike:
            for size, time in run.rows:
                times[size].append(time)
        rows = tuple((size, median(listed)) for size, listed in sorted(times.items()))
        source = ", ".join(dict.fromkeys(run.source for run in alike))
        found.append(replace(alike[0], rows=rows, source=source))
    return found


def _prior_us(kind: RealMachine | None, run: BenchmarkRun, sizes: Sequence[int]) -> list[float]:
    """What the library takes on the kind of machine; empty where that is not known."""
    if kind is None or not kind.graphs or run.collective not in MODELLED:
        return []
    try:
        times = kind.library(run.collective, run.ranks, run.nodes, sizes, MODELS[-1])
    except ValueError:
        return []
    return [time.seconds * 1e6 for time in times]


def _fit(run: BenchmarkRun, kind: RealMachine | None) -> Fit:
    points, method = run.rows, method_of(len(run.rows))
    limits: dict[str, tuple[float, float]] = {}
    if method == SCALED:
        ((size, time),) = points
        expected = _prior_us(kind, run, [size, *_GRID])
        if not expected:
            raise ValueError(f"{run.source}: one size only, without a machine whose model to scale")
        scale = time / expected[0]
        points = tuple(
            (at, us * scale) for at, us in zip(_GRID, expected[1:], strict=True) if at != size
        )
        points = tuple(sorted([*points, (size, time)]))
        run, law = replace(run, rows=points), fitted_law(points)
    elif method == LINE:
        expected = _prior_us(kind, run, _GRID)
        pairs = list(zip(_GRID, expected, strict=True)) if expected else []
        law = fitted_law(points, root=fitted_law(pairs).root if pairs else 0.0)
    else:
        law = fitted_law(points)
        limits = intervals(points, law)
    out: dict[str, Any] = {}
    if method == TABLE:
        out = by_band(left_out(points, table_us))
    elif method == LAW:
        out = by_band(left_out(points, lambda rest, sizes: fitted_law(rest).us(sizes)))
    small = [time for size, time in points if size <= SMALL_BYTES]
    floor = min(small) if small else float(law.us([1024])[0])
    largest = max(points)
    busbw = factor(run.collective, run.ranks) * largest[0] / largest[1] / 1000
    return Fit(run, method, law, limits, out, floor, busbw, _net_hop(run, kind, floor))


def _net_hop(run: BenchmarkRun, kind: RealMachine | None, floor: float) -> float | None:
    """us of a hop between nodes: what a floor leaves besides the launch and hops inside."""
    if run.nodes < 2 or run.ranks % run.nodes or not run.rows or run.rows[0][0] > SMALL_BYTES:
        return None
    machine = kind or machine_named(UNKNOWN)
    launch = machine.number("launch_us")
    inner = 2 * machine.number("overhead_us") + machine.number("inside_latency_us")
    inside, levels = run.ranks // run.nodes - 1, run.nodes.bit_length() - 1
    if run.collective == "allreduce":
        return max(0.0, (floor - launch - 2 * inside * inner) / (2 * levels))
    if run.collective in ("allgather", "reduce-scatter"):
        hops = run.ranks - run.nodes
        return max(0.0, (floor - launch - hops * max(inner, 1.0)) / (run.nodes - 1))
    return None


def nic_us_of(fits: Sequence[Fit]) -> float | None:
    """What NICs take over NCCL's hop: of allreduces if there are any, else of what there is."""
    hops = [(fit.run.collective != "allreduce", fit.net_hop_us) for fit in fits]
    known = [(is_other, hop) for is_other, hop in hops if hop is not None]
    if not known:
        return None
    first = min(is_other for is_other, _ in known)
    return max(0.0, median(hop for is_other, hop in known if is_other == first) - _NET_HOP_US)


def _with_models(base: RealMachine, fits: tuple[Fit, ...]) -> tuple[Fit, ...]:
    """The fits with errors of NCCL's model, by their own floor and by the other logs'."""
    found = []
    for place, fit in enumerate(fits):
        rest = fits[:place] + fits[place + 1 :]
        own, other = (_model_errors(base, fit, nic_us_of(known)) for known in ((fit,), rest))
        found.append(replace(fit, model=own, others=other))
    return tuple(found)


def _model_errors(base: RealMachine, fit: Fit, nic_us: float | None) -> dict[str, float] | None:
    rows = [(size, time) for size, time in fit.run.rows if size <= SMALL_BYTES]
    if nic_us is None or not rows or fit.run.nodes < 2:
        return None
    number = Number(nic_us, "a floor", "fitted")
    placed = replace(
        base, numbers={**base.numbers, "nic_us": number}, texts={**base.texts, "log_date": "now"}
    )
    expected = _prior_us(placed, fit.run, [size for size, _ in rows])
    if not expected:
        return None
    errors = [(size, us / time - 1) for us, (size, time) in zip(expected, rows, strict=True)]
    return by_band(errors)[next(iter(BANDS))]


def _of_ends(ends: Sequence[BenchmarkRun]) -> dict[str, Number]:
    """Numbers of what was measured between two ends."""
    found = {}
    for run in ends:
        if run.collective == LATENCY:
            least = min(time for _, time in run.rows)
            found["nic_write_us"] = Number(least, run.source, "measured")
        else:
            rate = max(size / time / 1000 for size, time in run.rows)
            found["nic_achieved_GBps"] = Number(rate, run.source, "measured")
    return found


def _placed(
    base: RealMachine, numbers: dict[str, Number], fits: Sequence[Fit]
) -> tuple[dict[str, Number], list[str]]:
    """The numbers with the fabric's latency and rate from logs, and what these do not say."""
    said = []
    found = dict(numbers)
    nic_us = nic_us_of(fits)
    sources = ", ".join(dict.fromkeys(fit.run.source for fit in fits)) or "logs"
    if nic_us is None:
        said.append("the latency of NICs: no small sizes over several nodes")
    else:
        limits = _limits(fits, nic_us)
        found["nic_us"] = Number(nic_us, f"floor of {sources}", "fitted", limits)
    peak = base.number("net_peak_GBps")
    share: float | None
    if "nic_achieved_GBps" in found and found["nic_achieved_GBps"].kind == "measured":
        share = min(1.0, found["nic_achieved_GBps"].each[0] / peak)
    else:
        share = _share(base, fits)
    last = len(base.protocols) - 1
    if share is None:
        said.append("the rate between nodes: no large sizes that are slower than NCCL's model")
    else:
        each = base.numbers["net_share"].each
        values = (*each[:last], min(1.0, share))
        found["net_share"] = Number(values, f"rate of {sources}; others {base.name}", "fitted")
    return found, said


def _with_hops(
    base: RealMachine, numbers: dict[str, Number], hops: LatencyTerms, runs: Sequence[BenchmarkRun]
) -> tuple[dict[str, Number], list[str]]:
    """The numbers with the launch and hops of LL that several numbers of ranks tell, and the rest.

    NCCL's own model keeps the latency of NICs that its tables leave of a floor.
    """
    sources = ", ".join(dict.fromkeys(run.source for run in runs))
    ends, found, said = 2 * base.number("overhead_us"), dict(numbers), list[str]()
    names = ("launch_us", "inside_latency_us", "nic_us")
    less = (0.0, ends, ends + base.number("net_latency_us"))
    for name, least, key, value in zip(names, less, NAMES, hops[:3], strict=True):
        if value is None or name not in numbers:
            if name in numbers and not (name == "launch_us" and hops.is_launch_given):
                said.append(f"{key}: the ranks of these logs do not tell it")
            continue
        limits = tuple(max(0.0, each - least) for each in hops.intervals[key])
        amount = max(0.0, value - least)
        source = f"small sizes of {sources}, in {base.protocols[0]}; others {base.name}"
        if name == "nic_us":
            found["library_nic_us"] = found["nic_us"]
            found["nic_us"] = Number(amount, source, "fitted", (limits[0], limits[1]))
            continue
        each = base.numbers[name].each
        found[name] = Number((amount, *each[1:]), source, "fitted", (limits[0], limits[1]))
    if hops.is_launch_given:
        said.append(f"launch: hops grow alike in these logs; that of {base.name} holds")
    return found, said


def _limits(fits: Sequence[Fit], nic_us: float) -> tuple[float, float] | None:
    """Between which values the NICs' latency lies, as far as floors scatter."""
    spread = [
        (high - low) / 4
        for fit in fits
        if fit.net_hop_us is not None and "latency_us" in fit.intervals
        for low, high in [fit.intervals["latency_us"]]
    ]
    return (max(0.0, nic_us - max(spread)), nic_us + max(spread)) if spread else None


def _share(base: RealMachine, fits: Sequence[Fit]) -> float | None:
    """Share of the NICs' peak: as of the kind, less what large messages fall short of its model."""
    found = []
    for fit in fits:
        size, time = max(fit.run.rows)
        expected = _prior_us(base, fit.run, [size])
        if fit.run.nodes > 1 and size >= LARGE_BYTES and expected:
            found.append(expected[0] / time)
    if not found or min(found) >= 1:
        return None
    return float(base.numbers["net_share"].each[-1] * median(found))
