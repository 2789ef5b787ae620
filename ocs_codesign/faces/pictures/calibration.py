"""What was measured on a machine, and the laws and curves through it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.core.machines.curves import Law
from ocs_codesign.faces.pictures.drawing import legend_below, one_axes
from ocs_codesign.faces.pictures.files import drawing, drawn_alone, pictured

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ocs_codesign.interop.calibrating import Calibration

_WIDTH_IN = 7.2
_COLOURS = ("#2f6db3", "#b94a32", "#3f8f5b", "#8a5ca8", "#c08a2b", "#5b6b73")


@pictured(lambda _: drawing(_WIDTH_IN, 4.6))
def draw_calibration(found: Calibration, *, ax: Axes | None = None) -> Axes:
    """Time by size of every run: points measured, the curve, and the law with its band."""
    axes = one_axes(ax)
    for place, fit in enumerate(found.fits):
        colour = _COLOURS[place % len(_COLOURS)]
        size, time = np.array(fit.run.rows, dtype=float).T
        grid = np.geomspace(size[0], size[-1], 200)
        name = f"{fit.run.collective} of {fit.run.ranks}"
        axes.plot(size, time, "o", color=colour, markersize=4, label=f"{name}, measured")
        axes.plot(grid, fit.curve.us(grid.tolist()), color=colour, linewidth=1, label="curve")
        if fit.intervals:
            ends = [fit.intervals[key] for key in _LAW]
            fast = Law(ends[0][0], ends[1][0], ends[2][1])
            slow = Law(ends[0][1], ends[1][1], ends[2][0])
            axes.fill_between(
                *(grid, fast.us(grid), slow.us(grid)), color=colour, alpha=0.18, label="law, 95 %"
            )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("M, bytes")
    axes.set_ylabel("time, us")
    legend_below(axes, axes.get_legend_handles_labels()[0], 3, _WIDTH_IN)
    return axes


calibration_figure = drawn_alone(draw_calibration)

_LAW = ("latency_us", "sqrt_coefficient", "bandwidth_GBps")
