"""Figures, made without pyplot and so without any window or global figure.

What ``X_figure`` makes, ``draw_X`` draws where it is told: a picture of one panel in ``ax``, which
it returns, one of several in an empty ``figure`` or subfigure or in as many ``axes``, which it
returns as a tuple. Without any it draws in a figure of its own.
"""

from ocs_codesign.faces.pictures.circuits import trace_figure
from ocs_codesign.faces.pictures.files import SUFFIXES, check_suffix, figure_bytes, save_figure
from ocs_codesign.faces.pictures.frontier import draw_frontier, frontier_figure

__all__ = [
    "SUFFIXES",
    "check_suffix",
    "draw_frontier",
    "figure_bytes",
    "frontier_figure",
    "save_figure",
    "trace_figure",
]
