"""A map of a catalogue: nodes by ports, and how far what is stored is above the bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.faces.pictures.drawing import FONT_SIZE, panels_in
from ocs_codesign.faces.pictures.files import drawing, drawn_alone, pictured

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from numpy.typing import NDArray

    from ocs_codesign.search.gaps import Gap


_EDGES = (-1.0, 0.01, 0.04, 0.08, 0.12, 0.18, 0.30, 10.0)
_NAMES = ("<= 1 %", "4 %", "8 %", "12 %", "18 %", "30 %", "more")
_COLOURS = ("#eaf3e2", "#c8ddb1", "#e6d98a", "#e8b25c", "#d9803f", "#b94a32", "#7a1f2b")
_NONE = "#8c8c8c"
_WIDTH_IN = 9.6


@pictured(
    lambda gaps: drawing(_WIDTH_IN, 0.9 + len(gaps[0].excess) * (0.55 + 0.19 * len(_rows(gaps))))
)
def draw_gaps(
    gaps: list[Gap], *, figure: Figure | SubFigure | None = None, axes: Iterable[Axes] | None = None
) -> tuple[Axes, ...]:
    """One strip a number of steps above the fewest: every size a column, every degree a row.

    Grey are sizes without a design of so few steps; what was not asked for is left white.
    ``axes`` are as many as a gap has numbers of steps.
    """
    from matplotlib.colors import BoundaryNorm, ListedColormap
    from matplotlib.patches import Patch

    rows = _rows(gaps)
    nodes = [gap.question.num_nodes for gap in gaps]
    first, last = min(nodes), max(nodes)
    panels = panels_in(figure, axes, len(gaps[0].excess), 1, sharex=True)
    colours = ListedColormap((*_COLOURS, _NONE))
    norm = BoundaryNorm((*_EDGES, 4 * _EDGES[-1]), len(_COLOURS) + 1)
    extent = (first - 0.5, last + 0.5, len(rows) - 0.5, -0.5)
    for offset, strip in enumerate(panels.axes):
        values = _values(gaps, rows, (first, last), offset)
        strip.imshow(
            values, cmap=colours, norm=norm, aspect="auto", interpolation="none", extent=extent
        )
        strip.set_yticks(range(len(rows)), [f"{d}{', both' * both}" for both, d in rows])
        strip.set_ylabel("ports")
        more = f"{offset} more" if offset else "fewest there can be"
        strip.set_title(f"steps: {more}", fontsize=10, loc="left")
    for strip in panels.lowest():
        strip.set_xlabel("nodes")
    names = (*_NAMES, "no design")
    handles = [
        Patch(facecolor=colour, edgecolor="#bbbbbb", label=name)
        for colour, name in zip((*_COLOURS, _NONE), names, strict=True)
    ]
    panels.draw_legend(
        handles,
        "outside lower center",
        len(handles),
        _WIDTH_IN,
        title="least stored t_b of an allgather above the bound, at most",
        title_fontsize=FONT_SIZE,
    )
    return panels.axes


gaps_figure = drawn_alone(draw_gaps)


def _rows(gaps: list[Gap]) -> list[tuple[bool, int]]:
    return sorted({(gap.question.bidirectional, gap.question.degree) for gap in gaps})


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
