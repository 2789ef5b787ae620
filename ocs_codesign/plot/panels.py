"""Where pictures are drawn: axes, figures and subfigures of a caller, and nothing beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.plot.labels import FONT_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_BELOW_IN = 0.45
"""From axes to their legend: room for the numbers and the name of the x axis."""


@final
@dataclass(frozen=True, slots=True)
class Panels:
    """The axes of one picture, row by row.

    ``figure`` is what they were made in and may have a title and a legend; None where the axes were
    given, so that the figure around them belongs to somebody else.
    """

    axes: tuple[Axes, ...]
    figure: Figure | SubFigure | None

    def lowest(self, num_columns: int = 1) -> tuple[Axes, ...]:
        """Axes that name what is across: the last row, all where each may stand anywhere."""
        return self.axes if self.figure is None else self.axes[-num_columns:]

    def leftmost(self, num_columns: int) -> tuple[Axes, ...]:
        """Axes that name what is up: the first column, all where each may stand anywhere."""
        return self.axes if self.figure is None else self.axes[::num_columns]

    def set_title(self, title: str, **style: Any) -> None:
        """A title of the whole: of the figure, or above that of the first axes."""
        if self.figure is not None:
            self.figure.suptitle(title, **style)
            return
        first = self.axes[0]
        below = first.get_title("left") or first.get_title()
        first.set_title("")
        first.set_title(f"{title}\n{below}" if below else title, loc="left")

    def draw_legend(
        self, handles: Sequence[Artist], loc: str, num_columns: int, width_in: float, **style: Any
    ) -> None:
        """A legend of the whole, at ``loc`` of the figure, or below the last axes.

        ``num_columns`` are what fits a width; there are fewer where it is less. A constrained
        layout makes room for it.
        """
        if self.figure is None:
            legend_below(self.axes[-1], handles, num_columns, width_in, **style)
            return
        if self.figure.get_layout_engine() is not None and not loc.startswith("outside"):
            loc = f"outside {loc}"
        num_columns = _columns(self.figure, self.figure.dpi, num_columns, width_in)
        style = {"loc": loc, "ncols": num_columns, **style}
        self.figure.legend(handles=handles, **{"frameon": False, "fontsize": FONT_SIZE, **style})


def panels_in(
    figure: Figure | SubFigure | None,
    axes: Iterable[Axes] | None,
    num_rows: int,
    num_columns: int,
    **grid: Any,
) -> Panels:
    """Panels made in an empty figure or subfigure with ``grid`` for its ``subplots``, or given.

    Raises ValueError for a figure that has axes, for axes of another number or twice the same, for
    what is none, and for both or neither.

    >>> panels_in(None, ["left"], 1, 1)
    Traceback (most recent call last):
    ValueError: a picture of 1 panel needs as many Axes: 'left' is none
    """
    if (figure is None) == (axes is None):
        raise ValueError("a picture is drawn in a figure or in axes, in one of them")
    if figure is not None:
        if figure.axes or figure.subfigs:
            raise ValueError(
                f"the figure has {len(figure.axes)} axes and {len(figure.subfigs)} subfigures: "
                "a picture of several panels needs an empty one, as add_subfigure makes"
            )
        made = figure.subplots(num_rows, num_columns, squeeze=False, **grid)
        return Panels(tuple(made.ravel().tolist()), figure)
    return Panels(_given(axes, num_rows * num_columns), None)


def one_axes(ax: object) -> Axes:
    """``ax``, if it is one Axes; a ValueError that says so if not.

    >>> one_axes([])
    Traceback (most recent call last):
    ValueError: ax is one Axes, in which the picture is drawn: list of 0 is none
    """
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes):
        kind = type(ax).__name__
        number = f" of {np.size(ax)}" if isinstance(ax, (list, tuple, np.ndarray)) else ""
        raise ValueError(f"ax is one Axes, in which the picture is drawn: {kind}{number} is none")
    return ax


def legend_below(
    axes: Axes, handles: Sequence[Artist], num_columns: int, width_in: float, **style: Any
) -> None:
    """A legend below these axes and the name of their x axis, in fewer columns if they are narrow.

    ``num_columns`` are what fits in ``width_in``.
    """
    from matplotlib.transforms import ScaledTranslation

    figure = figure_of(axes)
    below = ScaledTranslation(0, -_BELOW_IN, figure.dpi_scale_trans)
    num_columns = _columns(axes, figure.dpi, num_columns, width_in)
    legend = axes.legend(
        handles=handles,
        ncols=num_columns,
        loc="upper left",
        bbox_to_anchor=(0, 0),
        bbox_transform=axes.transAxes + below,
        borderaxespad=0.0,
        **{"frameon": False, "fontsize": FONT_SIZE, **style},
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def figure_of(axes: Axes) -> Figure | SubFigure:
    """The figure or subfigure of these axes; ValueError if they were removed from it."""
    figure = axes.get_figure()
    if figure is None:
        raise ValueError("the axes were removed from their figure: nothing can be drawn in them")
    return figure


def _given(axes: Any, count: int) -> tuple[Axes, ...]:
    """Axes in any arrangement, as ``subplots`` and ``subplot_mosaic`` give them."""
    from matplotlib.axes import Axes

    listed = [axes] if isinstance(axes, Axes) else axes
    if isinstance(listed, np.ndarray):
        listed = listed.ravel()
    found = tuple(listed)
    needs = f"a picture of {count} panel{'s' * (count != 1)} needs as many Axes"
    for one in found:
        if not isinstance(one, Axes):
            raise ValueError(f"{needs}: {one!r} is none")
    if len(found) != count:
        raise ValueError(f"{needs}: {len(found)} are given")
    if len(set(map(id, found))) != count:
        raise ValueError(f"{needs}: one is given twice")
    return found


def _columns(
    place: Axes | Figure | SubFigure, dpi: float, num_columns: int, width_in: float
) -> int:
    share = place.bbox.width / dpi / width_in
    return max(1, min(num_columns, int(num_columns * share + 1e-9)))
