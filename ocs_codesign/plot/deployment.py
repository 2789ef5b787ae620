"""Pictures of a deployment: ports in use, the largest load of every step, margins of light."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from ocs_codesign.fabric.light_budget import light_paths
from ocs_codesign.fabric.port_use import port_use
from ocs_codesign.plot.files import drawing
from ocs_codesign.plot.labels import plain
from ocs_codesign.plot.panels import one_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ocs_codesign.fabric.deployments.deployment import Deployment

MAX_BARS = 120

_USED, _SPARE, _FREE, _BUDGET = "#0b5fa5", "#e0a030", "#d5dae0", "#c8442b"
_FAILED = _BUDGET
_COLOURS = ("#0b5fa5", "#c8442b", "#5f7a1f", "#7b4fa3", "#b8860b", "#3a8a8a")
_LINES = ("-", "--", ":", "-.")


def ports_figure(deployment: Deployment) -> Figure:
    """Ports of every plane: with a cable, spare, failed and free, over all switches and sides."""
    figure, axes = _canvas(deployment.fabric.num_planes * 0.28 + 1.5)
    draw_ports(deployment, ax=axes)
    return figure


def draw_ports(deployment: Deployment, *, ax: Axes | None = None) -> Axes:
    """The picture of ``ports_figure`` in these axes, or in those of a new figure; the axes."""
    if ax is None:
        return ports_figure(deployment).axes[0]
    axes = one_axes(ax)
    switches = deployment.fabric.switches
    counts: Counter[tuple[int, str]] = Counter()
    for use in port_use(deployment.cabling, deployment.failed_ports()):
        plane = switches[use.switch].plane
        counts[plane, "used"] += use.num_used
        counts[plane, "spare"] += use.num_spares
        counts[plane, "failed"] += use.num_failed
        counts[plane, "free"] += use.num_free
    planes = range(deployment.fabric.num_planes)
    left = [0] * len(planes)
    kinds = {"used": _USED, "spare": _SPARE, "failed": _FAILED, "free": _FREE}
    for kind, colour in kinds.items():
        widths = [counts[plane, kind] for plane in planes]
        if kind == "failed" and not any(widths):
            continue
        axes.barh(list(planes), widths, left=left, color=colour, label=kind, height=0.65)
        left = [before + width for before, width in zip(left, widths, strict=True)]
    axes.set_yticks(list(planes), [f"plane {plane}" for plane in planes])
    axes.invert_yaxis()
    axes.set_xlabel("ports of all switches, both sides")
    axes.legend(frameon=False, ncols=4, loc="lower left", bbox_to_anchor=(0, 1))
    return ax


def loads_figure(deployment: Deployment) -> Figure:
    """The largest link load of every step of every schedule: bars, or lines if they are many."""
    figure, axes = _canvas(3.0)
    draw_loads(deployment, ax=axes)
    return figure


def draw_loads(deployment: Deployment, *, ax: Axes | None = None) -> Axes:
    """The picture of ``loads_figure`` in these axes, or in those of a new figure; the axes."""
    if ax is None:
        return loads_figure(deployment).axes[0]
    from matplotlib.ticker import MaxNLocator

    axes = one_axes(ax)
    series = [
        (plain(f"{one.name}: {bounded.collective.name}"), list(map(float, bounded.design.loads)))
        for one in deployment.configurations
        for bounded in one.designs
    ]
    if len(series) * max(len(loads) for _, loads in series) <= MAX_BARS:
        _draw_bars(axes, series)
    else:
        _draw_lines(axes, series)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("step")
    axes.set_ylabel("largest load of a link (shards)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="lower left", bbox_to_anchor=(0, 1))
    return ax


def _draw_bars(axes: Axes, series: list[tuple[str, list[float]]]) -> None:
    width = 0.8 / len(series)
    for at, (name, loads) in enumerate(series):
        places = [step + (at - (len(series) - 1) / 2) * width for step in range(1, len(loads) + 1)]
        axes.bar(places, loads, width=width, color=_COLOURS[at % len(_COLOURS)], label=name)


def _draw_lines(axes: Axes, series: list[tuple[str, list[float]]]) -> None:
    for at, (name, loads) in enumerate(series):
        axes.stairs(
            loads,
            [step + 0.5 for step in range(len(loads) + 1)],
            baseline=None,
            color=_COLOURS[at % len(_COLOURS)],
            linestyle=_LINES[at // len(_COLOURS) % len(_LINES)],
            linewidth=1.6,
            label=name,
        )


def margins_figure(deployment: Deployment) -> Figure:
    """How many links of all configurations have which margin to the loss budget."""
    figure, axes = _canvas(2.4)
    draw_margins(deployment, ax=axes)
    return figure


def draw_margins(deployment: Deployment, *, ax: Axes | None = None) -> Axes:
    """The picture of ``margins_figure`` in these axes, or in those of a new figure; the axes."""
    if ax is None:
        return margins_figure(deployment).axes[0]
    axes = one_axes(ax)
    margins: Counter[float] = Counter()
    for one in deployment.configurations:
        configuration = one.configuration
        per_circuit = (configuration.link >= 0).sum(axis=1).tolist()
        for path, links in zip(light_paths(configuration), per_circuit, strict=True):
            margins[float(path.margin_db)] += links
    values = sorted(margins)
    width = min(0.08, 0.8 * min((b - a for a, b in pairwise(values)), default=0.1))
    axes.bar(values, [margins[value] for value in values], width=width, color=_USED)
    axes.axvline(0, color=_BUDGET, linewidth=1.2, label="the budget")
    axes.legend(frameon=False, fontsize=8)
    low, high = min([0.0, *values]), max([0.0, *values])
    axes.set_xlim(low - 0.25, high + 0.25)
    axes.set_xlabel("margin to the loss budget (dB)")
    axes.set_ylabel("links")
    return ax


def _canvas(height: float) -> tuple[Figure, Axes]:
    with drawing(6.2, min(height, 9.0), "constrained") as figure:
        axes = figure.subplots()
        axes.grid(color="#e8e8e8", linewidth=0.7)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, axes
