"""What every experiment shares: its arguments, its files with their provenance, its figure style.

A report is a table and, when there is one, a picture. Its CSV begins with a comment that names the
command and the version that made it, and holds nothing else that could differ from run to run.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ocs_codesign import CostModel, __version__
from ocs_codesign.core.files.atomic import write_files
from ocs_codesign.faces.pictures import figure_bytes
from ocs_codesign.faces.pictures.files import drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EXPERIMENTS = Path(__file__).resolve().parent
FIGURES = EXPERIMENTS.parent / "figures"

TESTBED = CostModel(alpha_s=10e-6, node_bandwidth_Bps=12.5e9)
"""The published evaluation's parameters: alpha = 10 us a step, 100 Gb/s a node."""

OURS, PUBLISHED, KAUTZ, RING, TREE = "#0b5fa5", "#c8442b", "#5f7a1f", "#6b7280", "#8d5a9e"
"""Colours, the same for the same thing in every picture."""

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Arguments:
    """How a script was called; ``out`` is None where nothing is to be written."""

    quick: bool
    out: Path | None


@dataclass(frozen=True, slots=True)
class Report:
    """The result of an experiment; ``note`` is a sentence for the first line of its CSV."""

    name: str
    fields: Sequence[str]
    rows: Sequence[Row]
    figure: Figure
    note: str = ""


def parse_arguments(doc: str | None) -> Arguments:
    """The command line of an experiment whose module has this docstring."""
    parser = argparse.ArgumentParser(description=(doc or "").strip().splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, writes no files")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="write the CSV and the picture there (default: figures/, nowhere with --quick)",
    )
    given = parser.parse_args()
    if given.out is not None:
        given.out.mkdir(parents=True, exist_ok=True)
    return Arguments(given.quick, given.out or (None if given.quick else FIGURES))


def publish(report: Report, arguments: Arguments) -> None:
    """Print the table; write it and its picture, whole or not at all, where that was asked for."""
    text = csv_text(report, quick=arguments.quick)
    sys.stdout.write(text)
    if arguments.out is not None:
        path = arguments.out / report.name
        picture = figure_bytes(report.figure, ".png")
        write_files({path.with_suffix(".csv"): text.encode(), path.with_suffix(".png"): picture})


def csv_text(report: Report, *, quick: bool) -> str:
    """The CSV file of a report, its provenance in the first line."""
    command = f"python experiments/{report.name}.py{' --quick' if quick else ''}"
    note = f"; {report.note}" if report.note else ""
    text = io.StringIO()
    text.write(f"# {command}, ocs_codesign {__version__}{note}\n")
    writer = csv.DictWriter(text, report.fields, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(report.rows)
    return text.getvalue()


def new_figure(
    width: float,
    height: float,
    rows: int,
    columns: int,
    heights: Sequence[float] | None = None,
    *,
    sharex: bool = True,
) -> tuple[Figure, list[Axes]]:
    """An empty figure in the house style and its axes, row by row; made without pyplot.

    All panels share the x axis unless ``sharex`` is False, those of a row the y axis; ``heights``
    are the rows' relative ones.
    """
    with drawing(width, height, "constrained") as figure:
        grid = figure.subplots(
            rows, columns, sharex=sharex, sharey="row", squeeze=False, height_ratios=heights
        )
        panels: list[Axes] = list(grid.flat)
        for axes in panels:
            axes.grid(color="#e8e8e8", linewidth=0.7)
            axes.set_axisbelow(True)
            axes.spines[["top", "right"]].set_visible(False)
    return figure, panels


def size_axis(axes: Axes, exponents: Sequence[int]) -> None:
    """A logarithmic axis of message sizes with IEC units at these powers of two."""
    from matplotlib.ticker import NullLocator

    from ocs_codesign.core.quantities import format_size

    axes.set_xscale("log", base=2)
    axes.set_xticks([2**exponent for exponent in exponents])
    axes.set_xticklabels([format_size(2**exponent) for exponent in exponents])
    axes.xaxis.set_minor_locator(NullLocator())


def time_log_axis(axes: Axes, which: str, ticks: Sequence[float]) -> None:
    """A logarithmic axis, ``x`` or ``y``, of seconds, with their units at these ticks."""
    from ocs_codesign.core.quantities import format_time

    labels = [format_time(tick).replace("us", "µs") for tick in ticks]
    getattr(axes, f"set_{which}scale")("log")
    getattr(axes, f"set_{which}ticks")(ticks)
    getattr(axes, f"set_{which}ticklabels")(labels)


def plain_log_axis(axes: Axes, which: str, ticks: Sequence[float]) -> None:
    """A logarithmic axis, ``x`` or ``y``, with plain numbers at these ticks."""
    from matplotlib.ticker import NullLocator

    getattr(axes, f"set_{which}scale")("log")
    getattr(axes, f"set_{which}ticks")(ticks)
    getattr(axes, f"set_{which}ticklabels")([f"{tick:g}" for tick in ticks])
    getattr(axes, f"{which}axis").set_minor_locator(NullLocator())
