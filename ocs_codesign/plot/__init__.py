"""Figures, made without pyplot and so without any window or global figure.

What ``X_figure`` makes in one picture, ``draw_X(..., ax=None)`` draws in the axes that it is given.
"""

from ocs_codesign.plot.files import SUFFIXES, check_suffix, figure_bytes, save_figure
from ocs_codesign.plot.pareto import draw_frontier, frontier_figure
from ocs_codesign.plot.trace import trace_figure

__all__ = [
    "SUFFIXES",
    "check_suffix",
    "draw_frontier",
    "figure_bytes",
    "frontier_figure",
    "save_figure",
    "trace_figure",
]
