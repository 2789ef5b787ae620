"""Pictures in axes and figures that are given: the same as in one of their own, and nothing beside.

Every ``X_figure`` of the room has a ``draw_X``, and both draw the sample of ``plot_samples``.
"""

from __future__ import annotations

import inspect
import re
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from plot_samples import ONE_PANEL, PANELS, functions

import ocs_codesign as oc
from ocs_codesign.faces.pictures.drawing import bar_colour, panels_in, plain_log
from ocs_codesign.jobs.issue import steady

FUNCTIONS = functions()
ARGUMENTS = {**ONE_PANEL, **{name: arguments for name, (_, arguments) in PANELS.items()}}
EVERY, SEVERAL = list(ARGUMENTS), list(PANELS)
UNIT = re.compile(r"\((?:.*units? of .*|s|ms|µs|us|ns|dB|GB/s|shards|×)\)")
COUNTS = {
    *("configurations held in turn", "from node", "links", "links, busiest first", "nodes"),
    *("ports", "step", "switch", "to node"),
}
"""Axes of numbers without a unit."""


def words(axes):
    legend = axes.get_legend()
    return (
        axes.get_title(),
        axes.get_title(loc="left"),
        axes.get_xlabel(),
        [text.get_text() for text in axes.texts],
        [] if legend is None else [text.get_text() for text in legend.get_texts()],
        (len(axes.lines), len(axes.patches), len(axes.collections), len(axes.images)),
    )


def legend_texts(figure):
    """Of the figure and of its axes."""
    legends = [*figure.legends, *(each.get_legend() for each in figure.axes)]
    return [text.get_text() for one in legends if one is not None for text in one.get_texts()]


def drawn_into(name, panels):
    """Keywords that make a picture appear in these axes."""
    return {"ax": panels[0]} if name in ONE_PANEL else {"axes": panels}


def num_panels(name):
    return 1 if name in ONE_PANEL else PANELS[name][0]


def test_every_picture_is_here():
    figures = {name.removesuffix("_figure") for name in FUNCTIONS if name.endswith("_figure")}
    assert figures - {"save"} == set(ARGUMENTS)
    for name in ARGUMENTS:
        draw = inspect.signature(FUNCTIONS[f"draw_{name}"]).parameters
        asked = {"ax"} if name in ONE_PANEL else {"figure", "axes"}
        own = inspect.signature(FUNCTIONS[f"{name}_figure"]).parameters
        assert set(draw) - set(own) == asked
        assert all(draw[keyword].default is None for keyword in asked)
        assert all(draw[keyword].kind is inspect.Parameter.KEYWORD_ONLY for keyword in asked)


@pytest.mark.parametrize(
    ("name", "has_canvas"),
    [*((name, False) for name in EVERY), ("frontier", True), ("joint", True)],
)
def test_a_picture_is_drawn_in_the_axes_that_are_given(name, has_canvas):
    arguments, count = ARGUMENTS[name](), num_panels(name)
    draw = FUNCTIONS[f"draw_{name}"]
    figure = Figure(figsize=(14, 5 * count), layout="constrained")
    if has_canvas:
        FigureCanvasAgg(figure)
    grid = figure.subplots(count, 2)
    mine, others = grid.reshape(-1, 2)[:, 1], grid.reshape(-1, 2)[:, 0]
    before = [words(each) for each in others]
    made = draw(*arguments, **drawn_into(name, mine))
    assert (made is mine[0]) if name in ONE_PANEL else (made == tuple(mine))
    figure.draw_without_rendering()
    assert [words(each) for each in others] == before
    assert not any(each.has_data() for each in others)
    assert all(each.has_data() for each in mine)
    assert figure.get_suptitle() == ""
    assert figure.legends == []
    extra = set(figure.axes) - set(grid.ravel())
    assert {each.get_label() for each in extra} <= {"<colorbar>"}


@pytest.mark.parametrize("name", EVERY)
def test_it_is_the_picture_of_a_figure_of_its_own(name):
    arguments, count = ARGUMENTS[name](), num_panels(name)
    whole = FUNCTIONS[f"{name}_figure"](*arguments)
    draw = FUNCTIONS[f"draw_{name}"]
    made = draw(*arguments)
    made = (made,) if isinstance(made, Axes) else made
    assert len(made) == count
    assert [words(each) for each in made] == [words(each) for each in whole.axes[:count]]
    figure = Figure(figsize=(10, 5 * count), layout="constrained")
    panels = figure.subplots(count, 1, squeeze=False)[:, 0]
    draw(*arguments, **drawn_into(name, panels))
    assert sorted(legend_texts(figure)) == sorted(legend_texts(whole))
    for mine, own in zip(panels, whole.axes, strict=False):
        assert words(mine)[5] == words(own)[5]
        assert words(own)[0] in words(mine)[0] + words(mine)[1]
        assert words(own)[1] in words(mine)[1]
        assert words(own)[2] in {"", words(mine)[2]}
    told = "".join(text for each in panels for text in words(each)[:2])
    assert whole.get_suptitle() in told


@pytest.mark.parametrize("name", EVERY)
def test_nothing_is_cut_and_no_two_things_look_alike(name):
    figure = FUNCTIONS[f"{name}_figure"](*ARGUMENTS[name]())
    figure.draw_without_rendering()
    whole = figure.bbox.padded(1)
    for axes in figure.axes:
        box = axes.get_tightbbox()
        assert whole.x0 <= box.x0 <= box.x1 <= whole.x1
        assert whole.y0 <= box.y0 <= box.y1 <= whole.y1
    for legend in (*figure.legends, *(each.get_legend() for each in figure.axes)):
        if legend is not None:
            looks = [look(handle) for handle in legend.legend_handles]
            assert len(set(looks)) == len(looks), name
            assert figure.bbox.padded(1).extents[2] >= legend.get_window_extent().x1


def test_bars_as_narrow_as_the_seams_between_them_have_none():
    """Else a row of many that is full looks empty."""
    times = [1] * 200
    figure = FUNCTIONS["job_figure"](
        steady(oc.jobs.LayerTimes(times, times, times).graph()).job_run
    )
    seams = [np.ravel(each.get_linewidths()) for each in figure.axes[0].collections]
    assert sum(int((each > 0).sum()) for each in seams) == 0


def look(handle):
    """What tells an entry of a legend from another."""
    if hasattr(handle, "get_marker"):
        colours = handle.get_color(), handle.get_markerfacecolor()
        return *colours, handle.get_marker(), str(handle._unscaled_dash_pattern)
    return tuple(np.ravel(handle.get_facecolor())), handle.get_hatch()


@pytest.mark.parametrize(
    ("high", "digits"), [(3e4, (1, 1.5, 2, 3, 5)), (1e12, (1, 2, 5)), (9, (1,))]
)
def test_numbers_of_a_long_axis_are_apart(high, digits):
    figure = Figure(figsize=(8, 4))
    axes = figure.subplots()
    axes.plot([1, 2], [1, high])
    plain_log(axes, "y", digits)
    figure.draw_without_rendering()
    boxes = [each.get_window_extent() for each in axes.get_yticklabels() if each.get_text()]
    assert all(below.y1 < above.y0 for below, above in pairwise(boxes))


def test_colours_are_not_taken_twice():
    """Of as many configurations, steps or kinds of messages as a legend can name."""
    fixed = {"#8c9bab", "#3b4048", "#e3e7ec", "#eef0f2"}  # computes, dark, waits, idle
    assert len({bar_colour(number) for number in range(48)} | fixed) == 52


@pytest.mark.parametrize("name", SEVERAL)
def test_pictures_stand_side_by_side_in_subfigures(name):
    arguments, count = PANELS[name][1](), num_panels(name)
    whole = FUNCTIONS[f"{name}_figure"](*arguments)
    draw = FUNCTIONS[f"draw_{name}"]
    figure = Figure(figsize=(20, 8), layout="constrained")
    left, right = figure.subfigures(1, 2)
    beside = right.subplots()
    beside.plot([1, 2], label="mine")
    before, edges = words(beside), vars(figure.subplotpars).copy()
    made = draw(*arguments, figure=left)
    assert all(each.get_figure() is left for each in made)
    figure.draw_without_rendering()
    assert words(beside) == before
    assert vars(figure.subplotpars) == edges
    assert right.axes == [beside]
    assert figure.legends == right.legends == []
    assert [words(each) for each in left.axes[:count]] == [
        words(each) for each in whole.axes[:count]
    ]
    assert legend_texts(left) == legend_texts(whole)
    assert left.get_suptitle() == whole.get_suptitle()
    box = left.bbox.padded(2)
    for each in left.axes:
        tight = each.get_tightbbox()
        assert box.x0 <= tight.x0
        assert tight.x1 <= box.x1
        assert box.y0 <= tight.y0
        assert tight.y1 <= box.y1
    for legend in left.legends:
        extent = legend.get_window_extent()
        assert not any(extent.overlaps(each.get_tightbbox()) for each in left.axes)


@pytest.mark.parametrize("name", EVERY)
def test_axes_name_what_they_show_and_its_unit(name):
    """In any arrangement: axes that are given stand for themselves."""
    count = num_panels(name)
    figure = Figure(figsize=(8, 5 * count), layout="constrained")
    panels = figure.subplots(count, 1, squeeze=False)[:, 0]
    FUNCTIONS[f"draw_{name}"](*ARGUMENTS[name](), **drawn_into(name, panels))
    for axes in figure.axes:
        if not axes.axison:
            continue
        for axis in (axes.xaxis, axes.yaxis):
            label = axis.get_label_text()
            ticks = [tick.get_text() for tick in axis.get_ticklabels() if tick.get_text()]
            are_names = not any(re.fullmatch(r"[−\-]?[\d.]+", tick) for tick in ticks)
            assert ticks == [] or are_names or label in COUNTS or UNIT.search(label), (name, label)


@pytest.mark.parametrize("name", EVERY)
def test_a_wrong_number_of_axes_is_refused(name):
    arguments, count = ARGUMENTS[name](), num_panels(name)
    draw = FUNCTIONS[f"draw_{name}"]
    figure = Figure()
    panels = figure.subplots(1, count + 1)
    if name in ONE_PANEL:
        with pytest.raises(ValueError, match=r"ax is one Axes.*ndarray of 2 is none"):
            draw(*arguments, ax=panels)
        assert not any(each.has_data() for each in panels)
        return
    with pytest.raises(ValueError, match=f"of {count} panels needs .*: {count + 1} are given"):
        draw(*arguments, axes=panels)
    with pytest.raises(ValueError, match=f"{count - 1} are given"):
        draw(*arguments, axes=panels[: count - 1])
    with pytest.raises(ValueError, match="one is given twice"):
        draw(*arguments, axes=[panels[0], *panels[: count - 1]])
    with pytest.raises(ValueError, match="needs as many Axes: None is none"):
        draw(*arguments, axes=[None, *panels[: count - 1]])
    with pytest.raises(ValueError, match=f"the figure has {count + 1} axes"):
        draw(*arguments, figure=figure)
    with pytest.raises(ValueError, match="in one of them"):
        draw(*arguments, figure=Figure(), axes=panels[:count])
    assert not any(each.has_data() for each in panels)


def test_axes_in_any_arrangement():
    figure = Figure()
    grid = figure.subplots(2, 2)
    assert panels_in(None, grid, 2, 2).axes == tuple(grid.ravel())
    mosaic = Figure().subplot_mosaic("AB")
    assert panels_in(None, mosaic.values(), 1, 2).axes == tuple(mosaic.values())
    assert panels_in(None, grid[0, 0], 1, 1).axes == (grid[0, 0],)
    divided = Figure()
    divided.subfigures(1, 2)
    with pytest.raises(ValueError, match="0 axes and 2 subfigures"):
        panels_in(divided, None, 1, 2)


def test_the_style_of_the_caller_holds():
    """Settings of a caller are neither changed nor overridden."""
    before = dict(mpl.rcParams)
    with mpl.rc_context({"axes.edgecolor": "#123456"}):
        (made, *_) = FUNCTIONS["draw_gaps"](*ARGUMENTS["gaps"](), figure=Figure())
    assert mpl.colors.to_hex(made.spines["left"].get_edgecolor()) == "#123456"
    assert dict(mpl.rcParams) == before
