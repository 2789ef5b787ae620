"""Figures as files: the same figure gives the same bytes, for no date is written."""

from __future__ import annotations

import io
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.figure import Figure


SUFFIXES = (".png", ".svg", ".pdf")
STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.edgecolor": "#888888",
    "svg.hashsalt": "ocs_codesign",
    "pdf.fonttype": 42,
}
_METADATA: dict[str, dict[str, str | None]] = {
    ".png": {"Software": "ocs_codesign"},
    ".svg": {"Creator": "ocs_codesign", "Date": None},
    ".pdf": {"Creator": "ocs_codesign", "Producer": "ocs_codesign", "CreationDate": None},
}


@contextmanager
def drawing(width_in: float, height_in: float, layout: Any = None) -> Iterator[Figure]:
    """An empty figure of that size in inches, made without pyplot, while the house style holds."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width_in, height_in), dpi=100, layout=layout)
        FigureCanvasAgg(figure)
        yield figure


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure in the format that the suffix names, png, svg or pdf; ValueError if none.

    The same figure gives the same bytes: no date is written.
    """
    path = Path(path)
    path.write_bytes(figure_bytes(figure, path.suffix))


def figure_bytes(figure: Figure, suffix: str) -> bytes:
    """What ``save_figure`` writes for a suffix.

    >>> figure_bytes(None, ".gif")
    Traceback (most recent call last):
    ValueError: a figure is saved as .png, .svg or .pdf: '.gif' is none of them
    """
    check_suffix(suffix)
    import matplotlib as mpl

    content = io.BytesIO()
    kind = suffix.lower()
    with mpl.rc_context(STYLE):
        figure.savefig(content, format=kind[1:], dpi=150, metadata=_METADATA[kind])
    return content.getvalue()


def check_suffix(suffix: str) -> None:
    """ValueError if figures are not saved with this suffix."""
    if suffix.lower() not in SUFFIXES:
        raise ValueError(f"a figure is saved as .png, .svg or .pdf: {suffix!r} is none of them")
