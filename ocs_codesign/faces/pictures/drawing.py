"""Where pictures are drawn: axes, figures and subfigures of a caller, and nothing beside them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from fractions import Fraction

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from numpy.typing import NDArray


# Labels of points, placed where they cover neither points nor each other.


FONT_SIZE = 8.5
_MAX_LABEL = 40
_GAP = 7.0
_LINE = 14.0
_LEVELS = 24
_SHIFTS = (0.0, 50.0, 100.0, 150.0)
_CLEAR = 2.0
_FOOT = 0.3
"""Where on a side of a label its line begins, as a part of its height."""


@final
@dataclass(frozen=True, slots=True)
class Label:
    """A text that belongs to a point of the data; ``strong`` ones are placed first."""

    text: str
    x: float
    y: float
    strong: bool


@final
@dataclass(frozen=True, slots=True)
class _Box:
    """A rectangle of the picture, in pixels."""

    left: float
    bottom: float
    right: float
    top: float

    def overlaps(self, other: _Box) -> bool:
        """Whether the two share an area."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.bottom < other.top
            and other.bottom < self.top
        )

    def within(self, room: _Box) -> bool:
        """Whether the other contains this one."""
        return (
            room.left <= self.left
            and self.right <= room.right
            and room.bottom <= self.bottom
            and self.top <= room.top
        )


@final
@dataclass(frozen=True, slots=True)
class _Leader:
    """The line from a point, in pixels, to its label."""

    x: float
    y: float
    label: _Box

    def foot(self) -> tuple[float, float]:
        """Where on the label it begins, as parts of its width and height: the nearest side."""
        label = self.label
        if label.left <= self.x <= label.right:
            return (self.x - label.left) / (label.right - label.left), float(label.top < self.y)
        return float(label.right < self.x), _FOOT

    def crosses(self, box: _Box) -> bool:
        """Whether the line runs through a rectangle, by clipping it to each of its sides."""
        along, up = self.foot()
        end_x = self.label.left + along * (self.label.right - self.label.left)
        end_y = self.label.bottom + up * (self.label.top - self.label.bottom)
        begin, end = 0.0, 1.0
        for start, length, low, high in (
            (self.x, end_x - self.x, box.left - _CLEAR, box.right + _CLEAR),
            (self.y, end_y - self.y, box.bottom - _CLEAR, box.top + _CLEAR),
        ):
            if length == 0:
                if not low < start < high:
                    return False
                continue
            sides = sorted(((low - start) / length, (high - start) / length))
            begin, end = max(begin, sides[0]), min(end, sides[1])
        return begin < end


def draw_labels(
    axes: Axes,
    labels: Sequence[Label],
    floor: float,
    inner: Axes | None = None,
    drops: Sequence[tuple[float, float, float]] = (),
) -> None:
    """Write every label near its point, clear of the other labels and of all labelled points.

    Labels also keep off the horizontal line at ``floor``, off ``inner`` axes with their ticks, and
    off ``drops``: vertical lines at an x from one height to another.

    Tries places above and below, right and left, further and further from the point; a thin line
    leads to a label that is not next to its point.
    """
    point = 72 / axes.figure.dpi  # points a pixel: files are saved at other resolutions
    frame = axes.get_window_extent()
    room = _Box(frame.x0 + 2, frame.y0 + 6, frame.x1 - 2, frame.y1 - 2)
    taken = [_around(axes, label.x, label.y) for label in labels]
    for x, low, high in drops:
        foot, head = _around(axes, x, low), _around(axes, x, high)
        taken.append(_Box(foot.left, foot.bottom, head.right, head.top))
    if inner is not None:
        ends: Any = inner.get_tightbbox()
        taken.append(_Box(ends.x0 - 5, ends.y0 - 5, ends.x1 + 5, ends.y1 + 5))
    height = float(axes.transData.transform((labels[0].x, floor))[1])
    taken.append(_Box(frame.x0, height - 3, frame.x1, height + 3))
    drawn: list[_Leader] = []
    for label in sorted(labels, key=lambda one: (not one.strong, one.x, one.y)):
        text = shortened(label.text)
        width, height = _extent(axes, text)
        px, py = axes.transData.transform((label.x, label.y))
        box = _place(px, py, width, height, room, taken, drawn)
        taken.append(box)
        leader = _Leader(px, py, box)
        drawn.append(leader)
        axes.annotate(
            text,
            (label.x, label.y),
            xytext=((box.left - px) * point, (box.bottom - py) * point),
            textcoords="offset points",
            fontsize=FONT_SIZE,
            color="#222222" if label.strong else "#6b7280",
            parse_math=False,
            zorder=4,
            bbox={"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.8},
            arrowprops={"arrowstyle": "-", "color": "#aaaaaa", "lw": 0.7, "relpos": leader.foot()},
        )


def shortened(label: str) -> str:
    """The label, its sets left out and then its end when it is too long for a picture.

    A box, the sign of a product of graphs, would be taken for a glyph that is missing.

    >>> shortened("(UniRing(1,4)□UniRing(1,8))□²")
    '(UniRing(1,4)×UniRing(1,8))²'
    >>> shortened("L(Cay(Z32⋊Z8,{(0,1),(12,7),(15,3),(17,6)}))")
    'L(Cay(Z32⋊Z8,{…}))'
    """
    label = re.sub("□(?=[²³⁴-⁹])", "", label).replace("□", "×")
    if len(label) > _MAX_LABEL:
        label = re.sub(r"\{[^{}]{4,}\}", "{…}", label)
    return label if len(label) <= _MAX_LABEL else label[: _MAX_LABEL - 1] + "…"


def plain(name: str) -> str:
    """A name that matplotlib neither typesets nor hides."""
    text = name.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def _place(
    x: float,
    y: float,
    width: float,
    height: float,
    room: _Box,
    taken: Sequence[_Box],
    drawn: Sequence[_Leader],
) -> _Box:
    """The first free place inside the room; if there is none, the first inside.

    First among those whose line runs through no label and that no line of another runs through.
    """
    right, left = x + _GAP, x - _GAP - width
    columns = [place for shift in _SHIFTS for place in (right + shift, left - shift)]
    places = (
        _Box(column, bottom, column + width, bottom + height)
        for level in range(_LEVELS)
        for bottom in (y + _GAP + level * _LINE, y - _GAP - height - level * _LINE)
        for column in columns
    )
    inside = [box for box in places if box.within(room)]
    free = [box for box in inside if not any(box.overlaps(other) for other in taken)]
    clear = (
        box
        for box in free
        if not any(other.crosses(box) or _Leader(x, y, box).crosses(other.label) for other in drawn)
    )
    usual = next(iter(free or inside), _Box(right, y, right + width, y + height))
    return next(clear, usual)


def _around(axes: Axes, x: float, y: float) -> _Box:
    px, py = axes.transData.transform((x, y))
    return _Box(px - 4, py - 4, px + 4, py + 4)


def _extent(axes: Axes, label: str) -> tuple[float, float]:
    """Width and height of a label in pixels."""
    text = axes.text(0, 0, label, fontsize=FONT_SIZE, parse_math=False)
    box = text.get_window_extent()
    text.remove()
    return box.width + 4, box.height + 1


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


_PALETTE = (
    *("#5b9bd5", "#7fb77e", "#d08a2e", "#b07cc6", "#d9747a", "#4fb3ab"),
    *("#c2a83e", "#2f6f8f", "#e39ac0", "#6f86d6", "#a3b864", "#b98b6a"),
)


def bar_colour(number: int | None) -> str:
    """The colour of a configuration, a step or a message; darker ones when all were taken."""
    turn, place = divmod(number or 0, len(_PALETTE))
    shade = (0.72 ** (turn % 4) * int(_PALETTE[place][at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(part):02x}" for part in shade)


def set_time_axis(axes: Axes, end_s: float, what: str = "time") -> None:
    """Label the x axis, in seconds until ``end_s``, in the unit that suits it; no frame but it."""
    from matplotlib.ticker import FuncFormatter

    unit, scale = unit_of_time(end_s)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / scale:.6g}"))
    axes.set_xlabel(f"{what} ({unit})", loc="right", labelpad=1)
    axes.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def plain_log(axes: Axes, which: str, digits: Sequence[float], base: int = 10) -> None:
    """A logarithmic axis, x or y, with plain numbers at these multiples of powers of the base.

    At the powers alone where two of them would be less than a twentieth of the axis apart.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    getattr(axes, f"set_{which}scale")("log")
    axis = getattr(axes, f"{which}axis")
    low, high = getattr(axes, f"get_{which}lim")()
    nearest = min(above / below for below, above in pairwise([*digits, base]))
    is_long = high > low * nearest**20
    axis.set_major_locator(LogLocator(base, subs=digits[:1] if is_long else digits))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def unit_of_time(longest_s: float | Fraction) -> tuple[str, float]:
    """The unit that suits a time, and its seconds."""
    units = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))
    return next((one for one in units if longest_s >= one[1]), units[-1])


def on_grid(
    ax: object, along: Literal["both", "x", "y"] = "both", *, is_open: bool = False
) -> Axes:
    """One Axes with a pale grid behind what is drawn, without the sides that have no numbers.

    ``is_open``: not even a side on the left.
    """
    axes = one_axes(ax)
    axes.grid(axis=along, color="#e8e8e8", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", *["left"] * is_open]].set_visible(False)
    return axes


_MOST_TICKS = 12


def heat_map(
    axes: Axes, values: NDArray[np.float64], text: str, marked: NDArray[np.bool_] | None = None
) -> None:
    """What nodes (rows) have for each other, in blue, with a bar; in red where it is ``marked``."""
    from matplotlib.ticker import MaxNLocator, MultipleLocator

    most = float(values.max()) or 1.0
    image = axes.imshow(values, cmap="Blues", vmin=0.0, vmax=most)
    if marked is not None:
        axes.imshow(np.ma.array(values, mask=~marked), cmap="Reds", vmin=0.0, vmax=most)
    figure_of(axes).colorbar(image, ax=axes, shrink=0.8).set_label(text)
    axes.set_xlabel("to node")
    axes.set_ylabel("from node")
    few = len(values) <= _MOST_TICKS
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MultipleLocator(1) if few else MaxNLocator("auto", integer=True))


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


# A close-up of the crowded part of a picture, drawn where the picture is empty.


_PLACE = (0.3, 0.36, 0.69, 0.6)
"""Left, bottom, width and height in the axes."""

_CROWD, _FLAT = 5, 0.08
"""So many labelled points are a crowd, in so much of the height above the bound."""


def close_up(
    axes: Axes, labels: Sequence[Label], points: Sequence[tuple[float, float]], floor: float
) -> Axes | None:
    """Empty axes in the upper right corner that magnify the lowest part, from ``floor`` on.

    None unless that part is crowded with labels and the corner is free of ``points``.
    """
    limit = floor + _FLAT * (axes.get_ylim()[1] - floor)
    crowd = [label for label in labels if label.y <= limit]
    left, bottom, width, _ = _PLACE
    to_axes = axes.transData + axes.transAxes.inverted()
    places = [to_axes.transform(point) for point in points]
    if len(crowd) < _CROWD or any(left <= x <= left + width and bottom <= y for x, y in places):
        return None
    close = axes.inset_axes(_PLACE)
    close.set_xscale(axes.get_xscale())
    close.set_xticks(axes.get_xticks(), [f"{tick:.0f}" for tick in axes.get_xticks()])
    close.set_xticks([], minor=True)
    close.set_xlim(min(label.x for label in crowd) / 1.1, 1.1 * max(label.x for label in crowd))
    high = max(label.y for label in crowd) - floor
    close.set_ylim(floor - 0.5 * high, floor + 1.2 * high)
    close.grid(color="#e8e8e8", linewidth=0.7)
    axes.indicate_inset_zoom(close, edgecolor="#888888")
    return close


def is_within(axes: Axes, x: float, y: float) -> bool:
    """Whether a point is in the picture."""
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    return left <= x <= right and bottom <= y <= top
