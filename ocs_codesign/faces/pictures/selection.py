"""The picture of a selection: what the time of the ranked plans goes to."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ocs_codesign.core.quantities import format_time
from ocs_codesign.fabric.selection.ranking import fat_tree_time_s
from ocs_codesign.faces.pictures.drawing import (
    FONT_SIZE,
    legend_below,
    on_grid,
    one_axes,
    set_time_axis,
    shortened,
)
from ocs_codesign.faces.pictures.files import drawing, drawn_alone, pictured

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

    from ocs_codesign.fabric.selection.ranking import RankedPlan, Selection


_PART_COLOURS = ("#d08a2e", "#0b5fa5", "#7fb77e", "#8e6bbf", "#5b9bd5", "#c77ba0", "#8a8f3c")
_REST, _ALPHA, _DARK = "#b8bec7", "#4a4f57", "#b3231a"
_HEIGHT = 0.62
_MOST_WAIT = 1.6
"""Of the longest time without waits: longer bars are cut."""

_WIDTH_IN, _LEGEND_ROW_IN = 10.0, 0.22
_LEGEND_STYLE: dict[str, Any] = {"columnspacing": 1.4, "handlelength": 1.2}
_CHARACTERS, _BESIDES = 160, 7
"""Of a legend's font, so many fit side by side, and an entry takes so many beside its label."""


def _height_in(selection: Selection, top: int = 10) -> float:
    rows = -(-len(_legend_entries(selection)) // _legend_columns(selection))
    return 1.28 + _LEGEND_ROW_IN * rows + 0.42 * len(_plans(selection, top))


@pictured(lambda *arguments: drawing(_WIDTH_IN, _height_in(*arguments)))
def draw_selection(selection: Selection, top: int = 10, *, ax: Axes | None = None) -> Axes:
    """Horizontal bars of the first plans and of the baselines: bytes, steps, wait for circuits.

    Parts beyond the largest seven are drawn as one, and waits that would leave no room for what
    they are waits of are cut. Raises ValueError if nothing is ranked.
    """
    ax = one_axes(ax)
    if not selection.ranked:
        raise ValueError("no design fits the fabric: there is nothing to draw")
    _draw(ax, selection, top)
    handles = _handles(_legend_entries(selection))
    legend_below(ax, handles, _legend_columns(selection), _WIDTH_IN, **_LEGEND_STYLE)
    ax.set_title(_title(selection), loc="left", fontsize=11, parse_math=False)
    return ax


selection_figure = drawn_alone(draw_selection)


def _draw(axes: Axes, selection: Selection, top: int) -> None:
    plans = _plans(selection, top)
    working = max(float(plan.total_s - plan.reconfiguration_s) for plan in plans.values())
    end = min(max(float(plan.total_s) for plan in plans.values()), _MOST_WAIT * working or 1.0)
    for lane, plan in enumerate(plans.values()):
        _draw_bar(axes, lane, _bar(selection, plan), end)
        total_s, text = float(plan.total_s), f" {format_time(float(plan.total_s))}"
        if total_s > end:
            across, up = (0.983 * end, 0.991 * end), (lane + _HEIGHT / 2, lane - _HEIGHT / 2)
            axes.plot(across, up, color="white", linewidth=3, zorder=4)
            text += f", of it {format_time(float(plan.reconfiguration_s))} wait"
        axes.text(min(total_s, end), lane, text, va="center", fontsize=FONT_SIZE)
    if selection.serving is not None:
        bound = float(fat_tree_time_s(selection.fabric, selection.workload))
        text = f"fat tree of as many ports: at least {format_time(bound)}"
        axes.axvline(bound, color=_ALPHA, linestyle=(0, (4, 3)), linewidth=1, zorder=3)
        axes.text(bound, -0.45, f" {text}", va="bottom", fontsize=FONT_SIZE, color=_ALPHA)
    _set_axes(axes, plans, end)


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


def _draw_bar(axes: Axes, lane: int, pieces: list[tuple[str, float]], end: float) -> None:
    begin = 0.0
    for colour, whole in pieces:
        length = min(whole, end - begin)
        if length > 0:
            axes.barh(lane, length, _HEIGHT, begin, color=colour, zorder=2)
            begin += length


def _set_axes(axes: Axes, plans: dict[int, RankedPlan], end: float) -> None:
    labels = [f"{rank}. {_label(plan)}" for rank, plan in plans.items()]
    axes.set_yticks(range(len(plans)), labels, fontsize=FONT_SIZE)
    for label in axes.get_yticklabels():
        label.set_parse_math(False)
    axes.set_ylim(len(plans) - 0.5, -0.8)
    axes.set_xlim(0, end * (1.12 if all(plan.total_s <= end for plan in plans.values()) else 1.35))
    set_time_axis(axes, end, "time of all collectives")
    on_grid(axes, "x", is_open=True)


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


def _legend_columns(selection: Selection) -> int:
    """As many columns as fit side by side, 5 at most."""
    labels = [text for _, text in _legend_entries(selection)]
    most = max(len(label) for label in labels) + _BESIDES
    return max(1, min(len(labels), 5, _CHARACTERS // most))


def _handles(entries: list[tuple[str, str]]) -> list[Patch]:
    from matplotlib.patches import Patch

    return [Patch(color=colour, label=text) for colour, text in entries]
