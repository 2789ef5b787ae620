"""Figures as files: the same figure gives the same bytes, for no date is written."""

from __future__ import annotations

import io
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from ocs_codesign.core.files.atomic import write_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

P = ParamSpec("P")
Draw = TypeVar("Draw", bound="Callable[..., Axes | tuple[Axes, ...]]")
_PLACES = ("ax", "figure", "axes")

SUFFIXES = (".png", ".svg", ".pdf")
STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.edgecolor": "#888888",
    "figure.constrained_layout.h_pad": 0.09,
    "figure.constrained_layout.w_pad": 0.09,
    "hatch.linewidth": 0.7,
    "svg.hashsalt": "ocs_codesign",
    "pdf.fonttype": 42,
}
_METADATA: dict[str, dict[str, str | None]] = {
    ".png": {"Software": "ocs_codesign"},
    ".svg": {"Creator": "ocs_codesign", "Date": None},
    ".pdf": {"Creator": "ocs_codesign", "Producer": "ocs_codesign", "CreationDate": None},
}


@contextmanager
def drawing(width_in: float, height_in: float, layout: Any = "constrained") -> Iterator[Figure]:
    """An empty figure of that size in inches, made without pyplot, while the house style holds."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width_in, height_in), dpi=100, layout=layout)
        FigureCanvasAgg(figure)
        yield figure


def pictured(empty: Callable[..., AbstractContextManager[Figure]]) -> Callable[[Draw], Draw]:
    """A ``draw_X`` that is told no place draws in the figure that ``empty`` makes for its picture.

    ``empty`` has the arguments of ``draw_X`` but those that name a place.
    """

    def decorate(draw: Draw) -> Draw:
        @wraps(draw)
        def drawn(*arguments: Any, **named: Any) -> Any:
            own = {name: value for name, value in named.items() if name not in _PLACES}
            if any(named[name] is not None for name in named.keys() - own.keys()):
                return draw(*arguments, **named)
            with empty(*arguments, **own) as figure:
                if "ax" in signature(draw).parameters:
                    return draw(*arguments, **own, ax=figure.add_subplot())
                return draw(*arguments, **own, figure=figure)

        return drawn  # type: ignore[return-value]

    return decorate


def drawn_alone(draw: Callable[P, Axes | tuple[Axes, ...]]) -> Callable[P, Figure]:
    """The ``X_figure`` of a ``draw_X``: the figure of its own in which it draws."""

    @wraps(draw)
    def figure(*arguments: P.args, **named: P.kwargs) -> Figure:
        made = draw(*arguments, **named)
        return (made[0] if isinstance(made, tuple) else made).figure  # type: ignore[return-value]

    taken = signature(draw)
    own = [one for name, one in taken.parameters.items() if name not in _PLACES]
    vars(figure)["__signature__"] = taken.replace(parameters=own, return_annotation="Figure")
    figure.__name__ = figure.__qualname__ = f"{draw.__name__.removeprefix('draw_')}_figure"
    return figure


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure in the format that the suffix names, png, svg or pdf; ValueError if none.

    The same figure gives the same bytes: no date is written.
    """
    path = Path(path)
    write_files({path: figure_bytes(figure, path.suffix)})


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
