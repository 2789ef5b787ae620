"""What a job that runs for months loses to interruptions, and what its tokens cost.

Interruptions of the whole job come at a constant rate; each loses what is after the last checkpoint
and a restart, in which it may be interrupted again (Daly, 2006). Hosts in repair are Poisson: the
job waits where there are more of them than spares.
"""

from __future__ import annotations

from math import ceil, exp, expm1, floor
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ocs_codesign.jobs.training.step import StepEstimate

STATE_BYTES = 14
"""Of a parameter in a checkpoint: its weight and the optimizer's states."""
HOUR_S = 3600
YEAR_HOURS = 8766


class Interruptions(NamedTuple):
    """How often a job stops, and what it takes to go on.

    ``accelerator_hours`` lie between two interruptions, over all accelerators; a checkpoint is
    written at ``storage_Bps`` every ``every_s``, which is chosen if None. Every interruption takes
    a host away for ``repair_s``; ``spares`` are hosts that wait for that.
    """

    accelerator_hours: float
    restart_s: float
    storage_Bps: float  # noqa: N815 - units keep their case
    repair_s: float = 0.0
    spares: int = 0
    every_s: float | None = None


class RunningCosts(NamedTuple):
    """US dollars: of an hour of an accelerator, and of its part of the fabric, over some years."""

    accelerator_hour_usd: float | None
    fabric_usd: float
    years: float


class Goodput(NamedTuple):
    """The share of time that ends in steps which stay, and what it follows from.

    ``available`` is the share of time in which enough hosts are whole.
    """

    share: float
    available: float
    interruptions_a_day: float
    checkpoint_s: float
    checkpoint_every_s: float


def goodput(failures: Interruptions, step: StepEstimate) -> Goodput:
    """The goodput of a step's job; checkpoints come after whole steps.

    Llama 3 405B (2024) stopped 419 times in 54 days on 16,384 accelerators without being told to:
    once in 50,677 accelerator-hours.
    """
    ranks = step.division.num_ranks
    rate = ranks / (failures.accelerator_hours * HOUR_S)
    checkpoint_s = STATE_BYTES * step.model.num_parameters / failures.storage_Bps

    def share(steps: int) -> float:
        useful = steps * step.seconds
        lost = min(700.0, rate * (useful + checkpoint_s))
        return rate * useful * exp(-min(700.0, rate * failures.restart_s)) / expm1(lost)

    if failures.every_s is not None:
        steps = max(1, round(failures.every_s / step.seconds))
    else:
        best = _best_interval_s(rate, checkpoint_s) / step.seconds
        steps = max((max(1, floor(best)), max(1, ceil(best))), key=share)
    in_repair = rate * failures.repair_s
    available = _poisson_at_most(failures.spares, in_repair)
    return Goodput(
        share(steps) * available, available, rate * 24 * HOUR_S, checkpoint_s, steps * step.seconds
    )


def _best_interval_s(rate: float, checkpoint_s: float) -> float:
    """Useful seconds between checkpoints with which the least is lost.

    It is where (1 - x) exp(x + c) = 1, for x and c the interval and the checkpoint times the rate.

    >>> round(_best_interval_s(1e-4, 3.0))
    243
    """
    low, high = 0.0, 1.0
    for _ in range(80):
        middle = (low + high) / 2
        if (1 - middle) * exp(middle + min(700.0, rate * checkpoint_s)) > 1:
            low = middle
        else:
            high = middle
    return high / rate


def _poisson_at_most(most: int, mean: float) -> float:
    """The probability that no more than so many of a Poisson number are there.

    >>> round(_poisson_at_most(1, 1.0), 4), _poisson_at_most(0, 0.0)
    (0.7358, 1.0)
    """
    term, total = exp(-min(700.0, mean)), 0.0
    for number in range(most + 1):
        total += term
        term *= mean / (number + 1)
    return min(1.0, total)


def usd_a_million_tokens(
    costs: RunningCosts, step: StepEstimate, share: float
) -> tuple[float, ...]:
    """US dollars of accelerators and of their fabric for a million tokens that stay trained.

    Idle accelerators and spare hosts are paid as well.
    """
    room = step.room
    spares = 0 if room.failures is None else room.failures.spares * room.accelerators_a_server
    paid = (room.num_accelerators + spares) / step.division.num_ranks
    hours = paid * 1e6 / (step.tokens_per_second_per_accelerator * share * HOUR_S)
    fabric = costs.fabric_usd / (costs.years * YEAR_HOURS)
    return hours * (costs.accelerator_hour_usd or 0.0), hours * fabric
