"""Constants of the step model fitted to measured steps: a machine's own, from a few of them.

Three numbers are fitted, times what the published constants say: what products sustain, what
elementwise kernels move, and the share that attention reaches. A weak pull to 1 keeps apart what a
few measurements cannot tell apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.jobs.training.constants import Software
    from ocs_codesign.jobs.training.room import Room
    from ocs_codesign.jobs.training.step import StepEstimate, TrainedStep

PULL = 0.15
"""Weight of a factor's logarithm against that of a relative error."""
MOST_LOG = 3.0
"""Logarithm of the largest factor: a machine twenty times slower than said is another one."""
SOFT_ERROR = 0.1
"""Relative error from which on a measurement pulls less."""


class MeasuredStep(NamedTuple):
    """A step, the accelerators that it ran on, and the seconds that it took."""

    step: TrainedStep
    room: Room
    seconds: float


class CalibratedStep(NamedTuple):
    """A measured step, and what is predicted for it with the factors and before them."""

    step: TrainedStep
    seconds: float
    estimate: StepEstimate
    before_s: float


@final
@dataclass(frozen=True, slots=True)
class StepCalibration:
    """Factors on published constants, and median errors of the measured steps before and after.

    ``apart`` is how well the measurements tell the factors apart: the least singular value of their
    effects over the largest; near 0 some product of factors is all that is known.
    """

    products: float
    elementwise: float
    attention: float
    error_before: float
    error_after: float
    apart: float
    steps: tuple[CalibratedStep, ...]

    @property
    def factors(self) -> dict[str, float]:
        """The factors by what they are of."""
        return {name: getattr(self, name) for name in ("products", "elementwise", "attention")}

    def software(self, known: Software) -> Software:
        """The software with these factors."""
        return known.times(**self.factors)


def calibrate_steps(measured: Sequence[MeasuredStep]) -> StepCalibration:
    """Factors that agree best with measured steps, three or more; ValueError for fewer.

    >>> calibrate_steps([])
    Traceback (most recent call last):
    ValueError: 0 measured steps: three or more tell something of a machine
    """
    from scipy.optimize import least_squares

    if len(measured) < 3:
        raise ValueError(
            f"{len(measured)} measured steps: three or more tell something of a machine"
        )
    wrong = [each.seconds for each in measured if not 0 < each.seconds < float("inf")]
    if wrong:
        raise ValueError(f"a step took {wrong[0]} s: it takes some time")

    def errors(logs: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.log([_predicted(each, logs).seconds / each.seconds for each in measured])

    def residuals(logs: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.concatenate([errors(logs), PULL * logs])

    start = np.zeros(3)
    found = least_squares(
        *(residuals, start),
        bounds=(-MOST_LOG, MOST_LOG),
        loss="soft_l1",
        f_scale=SOFT_ERROR,
        diff_step=0.01,
    )
    effects = np.linalg.svd(found.jac[: len(measured)], compute_uv=False)
    before, after = (float(np.median(np.abs(np.expm1(errors(logs))))) for logs in (start, found.x))
    products, elementwise, attention = (float(each) for each in np.exp(found.x))
    return StepCalibration(
        products=products,
        elementwise=elementwise,
        attention=attention,
        error_before=before,
        error_after=after,
        apart=float(effects[-1] / effects[0]) if effects[0] else 0.0,
        steps=tuple(
            CalibratedStep(
                each.step, each.seconds, _predicted(each, found.x), _predicted(each, start).seconds
            )
            for each in measured
        ),
    )


def _predicted(measured: MeasuredStep, logs: NDArray[np.float64]) -> StepEstimate:
    step = measured.step
    software = step.method.software.times(*(float(each) for each in np.exp(logs)))
    method = step.method._replace(software=software)
    return replace(step, method=method).on(measured.room)
