"""The picture of planes: bars where and when things happen, and a legend of what is there."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planes_oracle import listed

from ocs_codesign.circuits.change import Change
from ocs_codesign.circuits.planes.plan import plan_of_usage, plan_planes
from ocs_codesign.circuits.planes.problem import PlaneProblem
from ocs_codesign.core.circuits import Activity
from ocs_codesign.faces.pictures.circuits import planes_figure

PLAN = plan_planes(listed((1, 2, 2), (10, 1, 10), "0.2"))


def bars(axes):
    """Begin and width of all bars of every row."""
    found = {}
    for collection in axes.collections:
        for path in collection.get_paths():
            box = path.get_extents()
            if box.width:
                row = round((box.y0 + box.y1) / 2)
                found.setdefault(row, []).append((float(box.x0), float(box.width)))
    return {row: sorted(spans) for row, spans in found.items()}


def test_bars_are_the_timeline():
    (axes,) = planes_figure(PLAN).axes
    expected = {}
    for one in PLAN.timeline:
        span = (float(one.start_s), float(one.end_s - one.start_s))
        expected.setdefault(one.plane, []).append(span)
    drawn = bars(axes)
    assert drawn.keys() == expected.keys()
    for row, spans in expected.items():
        assert sum(drawn[row], ()) == pytest.approx(sum(spans, ()))
    sends = [one for one in PLAN.timeline if one.activity is Activity.SEND]
    texts = sorted(text.get_text() for text in axes.texts)
    assert set(texts) <= {str(one.step) for one in sends}
    assert [label.get_text() for label in axes.get_yticklabels()] == ["plane 0", "plane 1"]
    assert axes.get_xlabel() == "time (µs)"


def test_the_title_and_the_legend():
    figure = planes_figure(PLAN, ["-", "ring", "_$x$"], "steps.csv")
    assert figure.axes[0].get_title("left") == "steps.csv: 610 us, optimal"
    legend = figure.axes[0].get_legend()
    names = [text.get_text() for text in legend.get_texts()]
    assert names[:3] == ["ring", r" _\$x\$", "reconfiguration"]
    figure.canvas.draw()


def test_nothing_overlaps_below_the_axis():
    needed = list(range(20))
    problem = PlaneProblem(needed, [1] * 20, 2, 1, Change(1, barrier=False))
    names = [f"a rather long name of configuration {at}" for at in needed]
    figure = planes_figure(plan_of_usage(problem, [[at % 2] for at in needed]), names)
    figure.canvas.draw()
    (axes,) = figure.axes
    legend = axes.get_legend()
    assert "and 8 more, in turn" in [text.get_text() for text in legend.get_texts()]
    box = legend.get_window_extent()
    assert box.y1 < axes.xaxis.label.get_window_extent().y0
    assert box.x1 < figure.bbox.x1
    assert axes.get_title("left") == "20 s, gap at most 1"


def test_long_timelines_are_cut_and_say_so(monkeypatch):
    monkeypatch.setattr("ocs_codesign.faces.pictures.circuits._MAX_DRAWN", 3)
    figure = planes_figure(PLAN)
    many = len(PLAN.timeline)
    title = figure.axes[0].get_title("left")
    assert title.endswith(f", the first 3 of {many} intervals are drawn")
    assert sum(map(len, bars(figure.axes[0]).values())) == 3


def test_an_unproven_plan_says_its_gap():
    loose = replace(PLAN, lower_bound_s=PLAN.total_s * 3 / 4)
    assert planes_figure(loose).axes[0].get_title("left") == "610 us, gap at most 0.25"
