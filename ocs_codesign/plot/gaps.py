"""A map of a catalogue: nodes by ports, and how far what is stored is above the bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.plot.files import drawing
from ocs_codesign.plot.labels import FONT_SIZE

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from ocs_codesign.search.gaps import Gap

_EDGES = (-1.0, 0.01, 0.04, 0.08, 0.12, 0.18, 0.30, 10.0)
_NAMES = ("<= 1 %", "4 %", "8 %", "12 %", "18 %", "30 %", "more")
_COLOURS = ("#eaf3e2", "#c8ddb1", "#e6d98a", "#e8b25c", "#d9803f", "#b94a32", "#7a1f2b")
_NONE = "#8c8c8c"


def gaps_figure(gaps: list[Gap]) -> Figure:
    """One strip a number of steps above the fewest: every size a column, every degree a row.

    Grey are sizes without a design of so few steps; what was not asked for is left white.
    """
    from matplotlib.colors import BoundaryNorm, ListedColormap
    from matplotlib.patches import Patch

    rows = sorted({(gap.question.bidirectional, gap.question.degree) for gap in gaps})
    nodes = [gap.question.num_nodes for gap in gaps]
    first, last = min(nodes), max(nodes)
    num_strips = len(gaps[0].excess)
    colours = ListedColormap((*_COLOURS, _NONE))
    norm = BoundaryNorm((*_EDGES, 4 * _EDGES[-1]), len(_COLOURS) + 1)
    with drawing(9.6, 0.9 + num_strips * (0.55 + 0.19 * len(rows)), "constrained") as figure:
        strips = figure.subplots(num_strips, 1, sharex=True, squeeze=False)[:, 0]
        for offset, axes in enumerate(strips):
            values = _values(gaps, rows, (first, last), offset)
            extent = (first - 0.5, last + 0.5, len(rows) - 0.5, -0.5)
            axes.imshow(
                values, cmap=colours, norm=norm, aspect="auto", interpolation="none", extent=extent
            )
            axes.set_yticks(range(len(rows)), [f"{d}{', both' * both}" for both, d in rows])
            axes.set_ylabel("ports")
            more = f"{offset} more" if offset else "fewest there can be"
            axes.set_title(f"steps: {more}", fontsize=10, loc="left")
        strips[-1].set_xlabel("nodes")
        handles = [Patch(facecolor=colour, edgecolor="#bbbbbb") for colour in (*_COLOURS, _NONE)]
        figure.legend(
            handles,
            [*_NAMES, "no design"],
            loc="outside lower center",
            ncols=len(handles),
            frameon=False,
            fontsize=FONT_SIZE,
            title="least stored t_b of an allgather above the bound, at most",
            title_fontsize=FONT_SIZE,
        )
    return figure


def _values(
    gaps: list[Gap], rows: list[tuple[bool, int]], ends: tuple[int, int], offset: int
) -> NDArray[np.float64]:
    """Excess by row and size; above the scale where there is no design, nan where no question."""
    first, last = ends
    values = np.full((len(rows), last - first + 1), np.nan)
    place_of = {row: place for place, row in enumerate(rows)}
    for gap in gaps:
        over, question = gap.excess[offset], gap.question
        place = (place_of[question.bidirectional, question.degree], question.num_nodes - first)
        values[place] = 2 * _EDGES[-1] if over is None else float(over)
    return values
