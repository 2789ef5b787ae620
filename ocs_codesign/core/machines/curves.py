"""Curves through measured times: a law with few constants, a table, intervals, errors left out.

The law is t = L + a sqrt(M) + M / B: a pipeline of a depth, cut in the best pieces, has the middle
term. It is fitted to relative errors by non-negative least squares, with Huber's weights against
outliers. From eight sizes on the measured points themselves are the curve.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

Points: TypeAlias = "Sequence[tuple[int, float]]"
TABLE, LAW, LINE, SCALED = "table", "law", "line", "scaled"
"""How a curve was made, by how many sizes there were."""

_LEAST: Final = {TABLE: 8, LAW: 4, LINE: 2}
_ROUNDS, _HUBER, _SPREAD = 12, 1.345, 1.4826
REACH: Final = 4
"""Times the largest size up to which a curve is taken on in silence."""

BANDS: Final = {"to 1 MiB": (0, 2**20), "2 to 8 MiB": (2**20 + 1, 2**24 - 1)}
BANDS["from 16 MiB"] = (2**24, 2**63)


@final
@dataclass(frozen=True, slots=True)
class Law:
    """t = ``latency_us`` + ``root`` sqrt(M) + M / ``bandwidth_GBps`` of M bytes, in us."""

    latency_us: float
    root: float
    bandwidth_GBps: float  # noqa: N815 - units keep their case

    def us(self, sizes: Any) -> NDArray[np.float64]:
        """Times of sizes."""
        size = np.asarray(sizes, dtype=np.float64)
        return self.latency_us + self.root * np.sqrt(size) + size / (1000 * self.bandwidth_GBps)


def fitted_law(points: Points, *, root: float | None = None) -> Law:
    """The law of points (bytes, us), of whatever noise; with a ``root`` only the other two.

    Raises ValueError for fewer than two sizes.
    """
    size, time = (np.array(column, dtype=np.float64) for column in zip(*points, strict=True))
    if len(np.unique(size)) < _LEAST[LINE]:
        raise ValueError("one size says nothing of a rate: give a machine, which is scaled")
    known = 0.0 if root is None else root
    left = np.maximum(time - known * np.sqrt(size), 0)
    columns = [np.ones_like(size), size] if root is not None else [np.ones_like(size)]
    if root is None:
        columns += [np.sqrt(size), size]
    found = robust(np.stack(columns, axis=1), left, time)
    latency, middle, rate = (found[0], known, found[1]) if root is not None else found
    return Law(float(latency), float(middle), float(1 / (1000 * max(rate, 1e-12))))


def robust(columns: NDArray[Any], wanted: NDArray[Any], time: NDArray[Any]) -> NDArray[Any]:
    """Coefficients of least relative error, none negative."""
    from scipy.optimize import nnls

    relative, target = columns / time[:, None], wanted / time
    scale = relative.max(axis=0)
    weight = np.ones_like(time)
    found = np.zeros(columns.shape[1])
    for _ in range(_ROUNDS):
        root = np.sqrt(weight)
        found = nnls(relative / scale * root[:, None], target * root)[0] / scale
        error = np.abs(relative @ found - target)
        width = max(_HUBER * _SPREAD * float(np.median(error)), 1e-3)
        weight = np.minimum(1, width / np.maximum(error, 1e-300))
    return found


def intervals(
    points: Points, law: Law, *, draws: int = 300, root: float | None = None
) -> dict[str, tuple[float, float]]:
    """Between which values each number of the law lies, with 95 % confidence, by drawing errors.

    Errors are drawn with either sign, wider by how few there are, and what the drawn laws miss of
    the law on one side counts on the other as well. An interval that holds 0 says that the number
    is not identified.
    """
    from scipy.stats import t as students

    size, time = (np.array(column, dtype=np.float64) for column in zip(*points, strict=True))
    expected, num = law.us(size), len(size)
    few = max(num - (2 if root is not None else 3), 1)
    wider = np.sqrt(num / few) * students.ppf(0.975, few) / students.ppf(0.975, np.inf)
    error = (time - expected) / expected * wider
    random = np.random.default_rng(num)
    found = []
    for _ in range(draws):
        drawn = expected * (1 + random.choice(error, num) * random.choice([-1, 1], num))
        pairs = zip(size.tolist(), np.maximum(drawn, expected / 100).tolist(), strict=True)
        again = fitted_law(list(pairs), root=root)
        found.append((again.latency_us, again.root, again.bandwidth_GBps))
    low, high = np.percentile(np.array(found), [2.5, 97.5], axis=0)
    centre = np.array([law.latency_us, law.root, law.bandwidth_GBps])
    low, high = (
        np.maximum(np.minimum(low, 2 * centre - high), 0),
        np.maximum(high, 2 * centre - low),
    )
    names = ("latency_us", "sqrt_coefficient", "bandwidth_GBps")
    return {
        name: (float(one), float(other)) for name, one, other in zip(names, low, high, strict=True)
    }


def table_us(points: Points, sizes: Iterable[float]) -> NDArray[np.float64]:
    """Times of sizes by measured points: a monotone cubic in logarithms.

    A message takes at most what a larger one took, which was measured to predict better than that
    it takes at least what a smaller one did: first sizes are slow before a machine is warm. Below
    the points the curve is constant; above them bytes take what they took between the last two, but
    at least half and at most all of the average.
    """
    from scipy.interpolate import PchipInterpolator

    size, time = (
        np.array(column, dtype=np.float64) for column in zip(*sorted(points), strict=True)
    )
    time = np.minimum.accumulate(time[::-1])[::-1]
    asked = np.asarray(list(sizes), dtype=np.float64)
    inside = np.clip(asked, size[0], size[-1])
    found = np.exp(PchipInterpolator(np.log(size), np.log(time))(np.log(inside)))
    average = time[-1] / size[-1]
    marginal = (time[-1] - time[-2]) / (size[-1] - size[-2])
    beyond = np.clip(marginal, average / 2, average)
    return np.asarray(found + np.maximum(asked - size[-1], 0) * beyond)


def method_of(num_sizes: int) -> str:
    """How a curve of so many sizes is made."""
    return next((way for way, least in _LEAST.items() if num_sizes >= least), SCALED)


def left_out(
    points: Points, curve: Callable[[Points, list[float]], Any] = table_us
) -> list[tuple[int, float]]:
    """Relative errors at inner sizes, each predicted by a curve through all others."""
    ordered = sorted(points)
    found = []
    for place in range(1, len(ordered) - 1):
        size, time = ordered[place]
        rest = ordered[:place] + ordered[place + 1 :]
        found.append((size, float(curve(rest, [size])[0]) / time - 1))
    return found


def by_band(errors: Iterable[tuple[int, float]]) -> dict[str, dict[str, float]]:
    """Median and 90th percentile of absolute errors by band of sizes; bands without any are out."""
    listed = list(errors)
    found = {}
    for band, (low, high) in BANDS.items():
        inside = [abs(error) for size, error in listed if low <= size <= high]
        if inside:
            middle, most = np.percentile(inside, [50, 90])
            found[band] = {"median": float(middle), "p90": float(most)}
    return found
