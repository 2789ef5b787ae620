"""Pictures of a deployment: ports in use, the largest load of every step, margins of light."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ocs_codesign.core.quantities import format_time
from ocs_codesign.fabric.light import light_paths
from ocs_codesign.fabric.selection.ranking import fat_tree_time_s
from ocs_codesign.fabric.wiring import port_use
from ocs_codesign.faces.pictures.drawing import FONT_SIZE, legend_below, one_axes, plain, shortened
from ocs_codesign.faces.pictures.files import drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    from ocs_codesign.fabric.deployments.deploy import Deployment
    from ocs_codesign.fabric.selection.ranking import RankedPlan, Selection


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


# A selection as a figure: a stacked bar a plan, and what its time goes to.


_PART_COLOURS = ("#d08a2e", "#0b5fa5", "#7fb77e", "#8e6bbf", "#5b9bd5", "#c77ba0", "#8a8f3c")
_REST, _ALPHA, _DARK = "#b8bec7", "#4a4f57", "#b3231a"
_HEIGHT = 0.62
_WIDTH_IN, _LEGEND_ROW_IN = 10.0, 0.22
_LEGEND_STYLE: dict[str, Any] = {
    "frameon": False,
    "fontsize": FONT_SIZE,
    "columnspacing": 1.4,
    "handlelength": 1.2,
}
_CHARACTERS, _BESIDES = 160, 7
"""Of a legend's font, so many fit side by side, and an entry takes so many beside its label."""


def selection_figure(selection: Selection, top: int = 10) -> Figure:
    """Horizontal bars of the first plans and of the baselines: bytes, steps, wait for circuits.

    Parts beyond the largest seven are drawn as one. Raises ValueError if nothing is ranked.
    """
    if not selection.ranked:
        raise ValueError("no design fits the fabric: there is nothing to draw")
    entries = _legend_entries(selection)
    columns = _legend_columns([text for _, text in entries])
    below = 0.14 + _LEGEND_ROW_IN * -(-len(entries) // columns)
    height = 1.14 + below + 0.42 * len(_plans(selection, top))
    with drawing(_WIDTH_IN, height) as figure:
        _draw(figure.subplots(), selection, top)
        legend = figure.legend(
            handles=_handles(entries), loc="lower left", ncols=columns, **_LEGEND_STYLE
        )
        for text in legend.get_texts():
            text.set_parse_math(False)
        figure.suptitle(_title(selection), fontsize=11.5, x=0.01, ha="left", parse_math=False)
        figure.tight_layout(rect=(0, below / height, 1, 1))
    return figure


def draw_selection(selection: Selection, top: int = 10, *, ax: Axes | None = None) -> Axes:
    """The picture of ``selection_figure`` in these axes, or in those of a new figure; the axes.

    Its legend is below the axes. Raises ValueError as ``selection_figure`` does.
    """
    if ax is None:
        return selection_figure(selection, top).axes[0]
    if not selection.ranked:
        raise ValueError("no design fits the fabric: there is nothing to draw")
    ax = one_axes(ax)
    _draw(ax, selection, top)
    entries = _legend_entries(selection)
    columns = _legend_columns([text for _, text in entries])
    legend_below(ax, _handles(entries), columns, _WIDTH_IN, **_LEGEND_STYLE)
    ax.set_title(_title(selection), loc="left", fontsize=11, parse_math=False)
    return ax


def _draw(axes: Axes, selection: Selection, top: int) -> None:
    plans = _plans(selection, top)
    for lane, plan in enumerate(plans.values()):
        _draw_bar(axes, lane, _bar(selection, plan))
        text = f" {format_time(float(plan.total_s))}"
        axes.text(float(plan.total_s), lane, text, va="center", fontsize=FONT_SIZE)
    if selection.serving is not None:
        bound = float(fat_tree_time_s(selection.fabric, selection.workload))
        text = f"fat tree of as many ports: at least {format_time(bound)}"
        axes.axvline(bound, color=_ALPHA, linestyle=(0, (4, 3)), linewidth=1, zorder=3)
        axes.text(bound, -0.45, f" {text}", va="bottom", fontsize=FONT_SIZE, color=_ALPHA)
    _set_axes(axes, plans, max(float(plan.total_s) for plan in plans.values()))


def _plans(selection: Selection, top: int) -> dict[int, RankedPlan]:
    """What is drawn, by rank."""
    return dict([*enumerate(selection.ranked[:top], 1), *selection.baselines])


def _title(selection: Selection) -> str:
    return f"{selection.workload.name} on {selection.fabric.name}: where the time goes"


def _drawn_parts(selection: Selection) -> list[int]:
    """Parts with a colour of their own: those that take the winner most, in their order."""
    spent = [Fraction(0)] * len(selection.workload.jobs)
    for time in selection.ranked[0].times:
        spent[time.part] += time.bandwidth_s
    largest = sorted(range(len(spent)), key=lambda part: -spent[part])
    return sorted(largest[: len(_PART_COLOURS)])


def _bar(selection: Selection, plan: RankedPlan) -> list[tuple[str, float]]:
    drawn = _drawn_parts(selection)
    lengths = [Fraction(0)] * (len(drawn) + 1)
    for time in plan.times:
        lengths[drawn.index(time.part) if time.part in drawn else -1] += time.bandwidth_s
    bytes_s = zip([*_PART_COLOURS[: len(drawn)], _REST], lengths, strict=True)
    ends = ((_ALPHA, plan.alpha_s), (_DARK, plan.reconfiguration_s))
    return [(colour, float(length)) for colour, length in (*bytes_s, *ends)]


def _draw_bar(axes: Axes, lane: int, pieces: list[tuple[str, float]]) -> None:
    begin = 0.0
    for colour, length in pieces:
        if length:
            axes.barh(lane, length, _HEIGHT, begin, color=colour, zorder=2)
            begin += length


def _set_axes(axes: Axes, plans: dict[int, RankedPlan], end: float) -> None:
    from matplotlib.ticker import FuncFormatter

    labels = [f"{rank}. {_label(plan)}" for rank, plan in plans.items()]
    axes.set_yticks(range(len(plans)), labels, fontsize=FONT_SIZE)
    for label in axes.get_yticklabels():
        label.set_parse_math(False)
    axes.set_ylim(len(plans) - 0.5, -0.8)
    axes.set_xlim(0, end * 1.12 or 1)
    units = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))
    unit, scale = next((one for one in units if end >= one[1]), units[-1])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / scale:.6g}"))
    axes.set_xlabel(f"time of all collectives ({unit})")
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#e8e8e8", linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _label(plan: RankedPlan) -> str:
    return shortened(plan.named(lambda one: one.name if one.recipe is None else one.recipe.label()))


def _legend_entries(selection: Selection) -> list[tuple[str, str]]:
    drawn = _drawn_parts(selection)
    parts = selection.workload.jobs
    entries = [
        (colour, f"{shortened(parts[part].name)} (bytes)")
        for colour, part in zip(_PART_COLOURS, drawn, strict=False)
    ]
    if len(drawn) < len(parts):
        entries.append((_REST, "other parts (bytes)"))
    return [*entries, (_ALPHA, "steps"), (_DARK, "wait for circuits")]


def _legend_columns(labels: list[str]) -> int:
    """As many columns as fit side by side, 5 at most."""
    most = max(len(label) for label in labels) + _BESIDES
    return max(1, min(len(labels), 5, _CHARACTERS // most))


def _handles(entries: list[tuple[str, str]]) -> list[Patch]:
    from matplotlib.patches import Patch

    return [Patch(color=colour, label=text) for colour, text in entries]
