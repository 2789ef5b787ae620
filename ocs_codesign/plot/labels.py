"""Labels of points, placed where they cover neither points nor each other."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

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
    room = _Box(frame.x0, frame.y0, frame.x1, frame.y1)
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
    """The label, its end cut off when it is too long for a picture.

    A box, the sign of a product of graphs, would be taken for a glyph that is missing.

    >>> shortened("(UniRing(1,4)□UniRing(1,8))□²")
    '(UniRing(1,4)×UniRing(1,8))²'
    """
    label = re.sub("□(?=[²³⁴-⁹])", "", label).replace("□", "×")
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
