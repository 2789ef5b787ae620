"""How far off a machine's times may be, and when one is less than another beyond doubt.

An error e is of what is told over what is measured less 1: of a time t that is told, what would be
measured lies from t / (1 + e) to t / (1 - e).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias

from ocs_codesign.core.machines.curves import BANDS, TABLE, by_band, left_out
from ocs_codesign.core.machines.nccl import MODELLED, MODELS, library_times, terms, time_us

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocs_codesign.core.machines.machine import LogCurve, RealMachine

Interval: TypeAlias = tuple[float, float]
"""Seconds from and to."""

MODEL_ERRORS: Final = dict(zip(BANDS, (0.53, 0.54, 0.56), strict=True))
"""90th percentiles of NCCL's model over 12 public logs of 171 rows, each with the latency of NICs
from its own floor (tests have the logs)."""

CURVE_ERRORS: Final = dict(zip(BANDS, (0.16, 0.27, 0.12), strict=True))
"""90th percentiles of sizes left out of 20 public logs, told by a curve through the others."""

SCHEDULE_ERROR: Final = 0.30
"""Least error of a schedule on the clock: by so much rings over nodes differ from NCCL's own."""

RESOLUTION: Final = 0.1
"""What schedules on one clock must differ by (assumed): a public log has its own sizes no closer,
of which one in ten is 12 to 27 % off the curve through the others."""

_MOST_ERROR: Final = 0.9

FASTER, TIE, SLOWER = "faster", "tie", "slower"


def band_of(message_bytes: int) -> str:
    """The band of sizes that a message is in.

    >>> band_of(2**20), band_of(2**21), band_of(2**30)
    ('to 1 MiB', '2 to 8 MiB', 'from 16 MiB')
    """
    return next(name for name, (_, most) in BANDS.items() if message_bytes <= most)


def widened(low_s: float, high_s: float, error: float) -> Interval:
    """What would be measured where times from one to another are told."""
    return low_s / (1 + error), high_s / (1 - min(error, _MOST_ERROR))


def verdict(rival: Interval, incumbent: Interval) -> str:
    """What a rival is: faster or slower only where the intervals have nothing in common.

    >>> verdict((1, 2), (3, 4)), verdict((1, 3), (3, 4)), verdict((5, 6), (3, 4))
    ('faster', 'tie', 'slower')
    """
    if rival[1] < incumbent[0]:
        return FASTER
    return SLOWER if rival[0] > incumbent[1] else TIE


@cache
def curve_errors(curve: LogCurve) -> dict[str, float]:
    """Errors of a log's curve by band: of its own sizes left out, or else of public logs."""
    own = by_band(left_out(curve.points)) if curve.method == TABLE else {}
    return {**CURVE_ERRORS, **{band: error["p90"] for band, error in own.items()}}


def model_errors(machine: RealMachine) -> dict[str, float]:
    """Errors of NCCL's model by band: against the machine's own logs, or else public ones."""
    found: list[tuple[int, float]] = []
    for curve in machine.curves:
        if curve.collective in MODELLED and curve.method == TABLE:
            sizes = [size for size, _ in curve.points]
            try:
                shape = machine.shape(curve.ranks, curve.nodes, with_nic=True)
                told = library_times(shape, curve.collective, sizes, MODELS[-1])
            except ValueError:
                continue
            times = zip(told, curve.points, strict=True)
            found += [(size, 1e6 * model.seconds / us - 1) for model, (size, us) in times]
    own = {band: error["p90"] for band, error in by_band(found).items()}
    return {**MODEL_ERRORS, **own}


def schedule_errors(machine: RealMachine) -> dict[str, float]:
    """Errors of schedules on the clock by band: as of NCCL's model, whose constants it has."""
    return {band: max(error, SCHEDULE_ERROR) for band, error in model_errors(machine).items()}


def tuned(
    machine: RealMachine, collective: str, ranks: int, nodes: int, sizes: Sequence[int]
) -> tuple[str, ...]:
    """By size the algorithm and protocol that is faster than NCCL's own choice beyond doubt.

    NCCL chooses by its tables, which do not know what the machine's NICs take; "" where its choice
    stands, or where its model does not know the machine.
    """
    try:
        own_shape, shape = (machine.shape(ranks, nodes, with_nic=nic) for nic in (False, True))
        own = library_times(own_shape, collective, sizes, MODELS[-1])
        best = library_times(shape, collective, sizes, MODELS[-1])
    except ValueError:
        return ("",) * len(sizes)
    offered, errors, found = terms(shape, collective, MODELS[-1]), model_errors(machine), []
    for chosen, least in zip(own, best, strict=True):
        way, size = (chosen.algorithm, chosen.protocol), chosen.message_bytes
        own_s = time_us(shape, collective, size, way, offered[way], MODELS[-1]) / 1e6
        error = errors[band_of(size)]
        limits = [widened(each, each, error) for each in (least.seconds, own_s)]
        is_faster = verdict(*limits) == FASTER
        found.append(f"{least.algorithm} {least.protocol}" if is_faster else "")
    return tuple(found)
