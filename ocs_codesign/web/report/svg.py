"""Pictures as inline SVG: texts, figures with captions, figures with captions, grids of cells."""

from __future__ import annotations

from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike, NDArray

WIDTH = 340
"""Units of a picture's width: pixels, nearly, on a phone, so that its texts can be read there."""

GRID_CELLS = 48
_SHADES = 4
_STATES = ("used", "spare", "failed", "free")


def short(value: float) -> str:
    """A coordinate with a decimal place at most.

    >>> short(2.0), short(2.26), short(-0.01)
    ('2', '2.3', '0')
    """
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def picture(height: float, label: str, parts: Iterable[str]) -> str:
    """A picture, ``WIDTH`` wide, and what those hear of it who do not see it."""
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {short(height)}" role="img" '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def figure_html(svg: str, caption: str, keys: Iterable[tuple[str, str]] = ()) -> str:
    """A picture with its caption and the keys of its colours: classes and texts."""
    shown = "".join(f'<span class="key {kind}">{escape(text)}</span>' for kind, text in keys)
    return f"<figure>{svg}<figcaption><span>{escape(caption)}</span>{shown}</figcaption></figure>"


def state_keys(present: Iterable[str]) -> list[tuple[str, str]]:
    """The keys of the states of ports or hosts that are there, always in one order."""
    there = set(present)
    return [(state, state) for state in _STATES if state in there]


def words(x: float, y: float, text: str, kind: str = "name", anchor: str = "") -> str:
    """A text at a place; ``anchor`` is the part of it that is there, if not its start."""
    at = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text class="{kind}" x="{short(x)}" y="{short(y)}"{at}>{escape(text)}</text>'


def path(kind: str, line: str, more: str = "") -> str:
    """A path of a class, nothing if it is empty."""
    return f'<path class="{kind}" d="{line}"{more}/>' if line else ""


def box(x: float, y: float, width: float, height: float) -> str:
    """A rectangle as part of a path.

    >>> box(1, 2, 3, 4)
    'M1 2h3v4h-3z'
    """
    across = short(width)
    return f"M{short(x)} {short(y)}h{across}v{short(height)}h-{across}z"


def matrix(
    row: ArrayLike,
    column: ArrayLike,
    shape: tuple[int, int],
    ends: tuple[str, str],
    first: int = 0,
) -> tuple[float, list[str]]:
    """The height and parts of a picture of which row meets which column; darker where more do.

    Rows and columns (from 0) of a large ``shape`` are put together, at most GRID_CELLS of either.
    ``ends`` say what they are, and ``first`` is the number of the first.
    """
    counts = binned(row, column, shape)
    cells, left, top = max(counts.shape), 24.0, 24.0
    side = (WIDTH - left - 4) / cells
    size = side * counts.shape[1], side * counts.shape[0]
    level = -(-counts * _SHADES // max(1, int(counts.max(initial=0))))
    parts = [path("frame", box(left, top, *size))]
    place = f' transform="translate({short(left)} {short(top)}) scale({side:.4f})"'
    for shade in range(1, _SHADES + 1):
        more = f'{place} fill-opacity="{0.25 + 0.75 * shade / _SHADES:.2g}"'
        parts.append(path("cells", "".join(_runs(level, shade)), more))
    last = [str(length - 1 + first) for length in shape]
    parts += [
        words(left, top - 8, ends[1]),
        words(left + size[0], top - 8, last[1], anchor="end"),
        words(left - 6, top + 10, str(first), anchor="end"),
        f'<text class="name" transform="translate({short(left - 8)} {short(top + size[1] / 2)}) '
        f'rotate(-90)" text-anchor="middle">{escape(ends[0])}</text>',
    ]
    return top + size[1] + 4, parts


def binned(row: ArrayLike, column: ArrayLike, shape: tuple[int, int]) -> NDArray[np.int64]:
    """How many pairs are in every cell, those of a large shape put together.

    >>> binned([0, 1, 1], [0, 2, 2], (2, 3)).tolist()
    [[1, 0, 0], [0, 0, 2]]
    """
    cells = tuple(min(length, GRID_CELLS) for length in shape)
    places = [
        np.asarray(ends, dtype=np.int64) * number // length
        for ends, number, length in zip((row, column), cells, shape, strict=True)
    ]
    flat = np.bincount(places[0] * cells[1] + places[1], minlength=cells[0] * cells[1])
    return flat.reshape(cells).astype(np.int64)


def _runs(level: NDArray[np.int64], shade: int) -> Iterable[str]:
    """Cells of a shade as boxes, those side by side as one."""
    for row, line in enumerate((level == shade).tolist()):
        at = 0
        for is_shade, group in groupby(line):
            number = len(list(group))
            if is_shade:
                yield box(at, row, number, 1)
            at += number
