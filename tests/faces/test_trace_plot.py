"""The timeline of a trace: everything is drawn where and when it happens, and nothing twice."""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction

import pytest
from matplotlib.colors import to_hex
from trace_samples import ALTERNATING, OPTIONS, SECONDS, option

from ocs_codesign.circuits.change import Change
from ocs_codesign.circuits.legs.trace import Job, Trace, plan_trace
from ocs_codesign.faces.pictures.circuits import _COLOURS, _GAP, _HIDDEN, _MIXED, trace_figure
from ocs_codesign.faces.pictures.circuits import _TRACE_DARK as _DARK

GAPS = Trace(
    [Job("allreduce", 1, gap_after_s=4), Job("alltoall", 1, gap_before_s=6, gap_after_s=90)], 2
)


def planned(trace=GAPS, delta=25, options=OPTIONS, start=0):
    return plan_trace(trace, options, SECONDS, Change(delta), start=start)


def drawn(axes):
    """Length of what is drawn in each lane, and where it begins, by colour."""
    lengths, begins = Counter(), defaultdict(list)
    for bars in axes.collections:
        colour = to_hex(bars.get_facecolor()[0])
        for box in (path.get_extents() for path in bars.get_paths()):
            lengths[round((box.y0 + box.y1) / 2), colour] += box.width
            begins[colour].append(box.x0)
    return lengths, {colour: sorted(edges) for colour, edges in begins.items()}


def test_lengths_are_the_plans():
    plan = planned()
    axes, online = trace_figure(plan, "a title").axes
    reduce, exchange = (_COLOURS[one] for one in plan.trace.collectives)
    lengths, begins = drawn(axes)
    assert lengths == pytest.approx(
        {
            (0, reduce): 200,
            (1, exchange): 360,
            (1, _HIDDEN): 20,
            (0, _HIDDEN): 25,
            (0, _GAP): 65,
            (1, _DARK): 30,
        }
    )
    assert begins[_DARK] == pytest.approx([110, 505])
    assert begins[_HIDDEN] == pytest.approx([100, 305, 495])
    assert (
        "optimum in hindsight: 590 s without computation (790 s with it), 3 switches, dark for 30 s"
        in axes.get_title("left")
    )
    assert "online policy" in online.get_title("left")
    assert axes.get_xlim()[1] == pytest.approx(1.005 * float(plan.offline.runs()[-1].end))


def test_the_legend_names_what_is_drawn():
    common = {"allreduce", "alltoall"}
    rest = {"computation", "switch hidden in computation", "dark: all wait for a switch"}
    for plan, names in ((planned(ALTERNATING, 1000), common), (planned(), common | rest)):
        (legend,) = trace_figure(plan).legends
        assert {text.get_text() for text in legend.get_texts()} == names


def test_lanes_are_of_designs_that_are_held():
    designs = [*OPTIONS, option("never", 1000, 1000)]
    for plan, names in ((planned(options=designs), ["T0", "T1"]), (planned(delta=10**6), ["T0"])):
        axes = trace_figure(plan).axes[0]
        assert [label.get_text() for label in axes.get_yticklabels()] == names


def test_long_traces_are_drawn_run_by_run(monkeypatch):
    trace = Trace([Job("allreduce", 1, count=1500), Job("alltoall", 1, count=1500)])
    axes = trace_figure(planned(trace)).axes[0]
    assert sum(len(bars.get_paths()) for bars in axes.collections) == 3
    mixed = Trace([Job("allreduce", 1), Job("alltoall", 1)], 1500)
    held = trace_figure(planned(mixed, delta=10**9)).axes[0]
    assert drawn(held)[0] == {(0, _MIXED): 1500 * 400}
    monkeypatch.setattr("ocs_codesign.faces.pictures.circuits._MAX_RUNS_DRAWN", 4)
    axes = trace_figure(planned(ALTERNATING, 0)).axes[0]
    assert [text.get_text() for text in axes.texts] == ["the first 4 of 6 runs are drawn"]
    assert drawn(axes)[0].total() == 2 * 280


def test_time_is_in_a_unit_that_suits():
    free = trace_figure(planned(Trace([Job("allreduce", 1)]), 0, [option("T0", 0, 0)]))
    free.canvas.draw()
    assert free.axes[0].get_xlim() == (0, 1)
    jobs = Trace([Job("allreduce", Fraction(1, 10**6))])
    assert trace_figure(planned(jobs, 0)).axes[-1].get_xlabel() == "time (µs)"
    assert trace_figure(planned()).axes[-1].get_xlabel() == "time (s)"
