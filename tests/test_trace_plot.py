"""The timeline of a trace: everything is drawn where and when it happens, and nothing twice."""

from __future__ import annotations

from fractions import Fraction

import pytest
from matplotlib.colors import to_hex
from trace_samples import ALTERNATING, OPTIONS, SECONDS, option

from ocs_codesign.plot import trace_figure
from ocs_codesign.plot.trace import _COLOURS, _DARK, _GAP, _HIDDEN, _MIXED
from ocs_codesign.reconfigure import Job, ReconfigurationCost, Trace, plan_trace

GAPS = Trace(
    [Job("allreduce", 1, gap_after_s=4), Job("alltoall", 1, gap_before_s=6, gap_after_s=90)], 2
)


def planned(trace=GAPS, delta=25, options=OPTIONS, start=0):
    return plan_trace(trace, options, SECONDS, ReconfigurationCost(delta), start=start)


def spans(axes):
    """Length of what is drawn in each lane, by colour."""
    found = {}
    for bars in axes.collections:
        colour = to_hex(bars.get_facecolor()[0])
        for path in bars.get_paths():
            box = path.get_extents()
            lane = round((box.y0 + box.y1) / 2)
            found[lane, colour] = found.get((lane, colour), 0) + box.width
    return found


def begins(axes):
    """Where the bars of each colour begin, over all lanes."""
    found = {}
    for bars in axes.collections:
        edges = [path.get_extents().x0 for path in bars.get_paths()]
        colour = to_hex(bars.get_facecolor()[0])
        found[colour] = sorted(found.get(colour, []) + edges)
    return found


def test_lengths_are_the_plans():
    plan = planned()
    axes, online = trace_figure(plan, "a title").axes
    reduce, exchange = (_COLOURS[one] for one in plan.trace.collectives)
    assert spans(axes) == pytest.approx(
        {
            (0, reduce): 200,
            (1, exchange): 360,
            (1, _HIDDEN): 20,
            (0, _HIDDEN): 25,
            (0, _GAP): 65,
            (1, _DARK): 30,
        }
    )
    assert begins(axes)[_DARK] == pytest.approx([110, 505])
    assert begins(axes)[_HIDDEN] == pytest.approx([100, 305, 495])
    assert "optimum in hindsight: 790 s, 3 switches, dark for 30 s" in axes.get_title("left")
    assert "online policy" in online.get_title("left")
    assert axes.get_xlim()[1] == pytest.approx(1.005 * float(plan.runs(plan.offline)[-1].end_s))


def test_the_legend_names_what_is_drawn():
    figure = trace_figure(planned(ALTERNATING, 1000))
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["allreduce", "alltoall"]
    names = {text.get_text() for text in trace_figure(planned()).legends[0].get_texts()}
    assert names == {
        "allreduce",
        "alltoall",
        "computation",
        "switch hidden in computation",
        "dark: all wait for a switch",
    }


def test_lanes_are_of_designs_that_are_held():
    designs = [*OPTIONS, option("never", 1000, 1000)]
    axes = trace_figure(planned(options=designs)).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["T0", "T1"]
    single = trace_figure(planned(delta=10**6)).axes[0]
    assert [label.get_text() for label in single.get_yticklabels()] == ["T0"]


def test_long_traces_are_drawn_run_by_run():
    trace = Trace([Job("allreduce", 1, count=1500), Job("alltoall", 1, count=1500)])
    axes = trace_figure(planned(trace)).axes[0]
    assert sum(len(bars.get_paths()) for bars in axes.collections) == 3
    mixed = Trace([Job("allreduce", 1), Job("alltoall", 1)], 1500)
    held = trace_figure(planned(mixed, delta=10**9)).axes[0]
    assert spans(held) == {(0, _MIXED): 1500 * 400}


def test_very_long_traces_are_cut_and_say_so(monkeypatch):
    monkeypatch.setattr("ocs_codesign.plot.trace._MAX_RUNS_DRAWN", 4)
    axes = trace_figure(planned(ALTERNATING, 0)).axes[0]
    assert [text.get_text() for text in axes.texts] == ["the first 4 of 6 runs are drawn"]
    assert sum(spans(axes).values()) == 2 * 280


def test_a_trace_that_takes_no_time():
    free = [option("T0", 0, 0)]
    figure = trace_figure(planned(Trace([Job("allreduce", 1)]), 0, free))
    figure.canvas.draw()
    assert figure.axes[0].get_xlim() == (0, 1)


def test_time_is_in_a_unit_that_suits():
    jobs = Trace([Job("allreduce", Fraction(1, 10**6))])
    axes = trace_figure(planned(jobs, 0)).axes[-1]
    assert axes.get_xlabel() == "time (µs)"
    assert trace_figure(planned()).axes[-1].get_xlabel() == "time (s)"
