"""A close-up of the crowded part of a picture, drawn where the picture is empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from ocs_codesign.plot.labels import Label

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
    close.set_ylim(floor - 0.35 * high, floor + 1.2 * high)
    close.grid(color="#e8e8e8", linewidth=0.7)
    axes.indicate_inset_zoom(close, edgecolor="#888888")
    return close


def is_within(axes: Axes, x: float, y: float) -> bool:
    """Whether a point is in the picture."""
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    return left <= x <= right and bottom <= y <= top
