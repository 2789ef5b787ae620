"""Timelines: trace events whose slices nest, whose arrows meet, whose times are those simulated."""

from __future__ import annotations

import json
from collections import defaultdict

import pytest

from ocs_codesign.faces.cli import main
from ocs_codesign.interop import timeline


def events_of(path) -> list[dict]:
    return json.loads(path.read_text())["traceEvents"]


def check(events: list[dict]) -> None:
    """Sorted, nothing negative, slices of a thread one after the other, arrows in pairs."""
    timed = [event for event in events if event["ph"] != "M"]
    assert [one["ts"] for one in timed] == sorted(one["ts"] for one in timed)
    until: dict[tuple[int, int], float] = defaultdict(float)
    named = {(one["pid"], one["tid"]) for one in events if one["name"] == "thread_name"}
    for one in timed:
        if one["ph"] != "X":
            continue
        thread = one["pid"], one["tid"]
        assert thread in named
        assert one["dur"] >= 0
        assert one["ts"] >= until[thread] - 1e-6
        until[thread] = one["ts"] + one["dur"]
    starts = {one["id"]: one["ts"] for one in timed if one["ph"] == "s"}
    ends = {one["id"]: one["ts"] for one in timed if one["ph"] == "f"}
    assert starts.keys() == ends.keys()
    assert all(starts[one] <= ends[one] for one in starts)


def test_a_ring_of_four(tmp_path):
    """12 sends with their arrows, and names of 4 processes and 4 threads."""
    path = tmp_path / "t.json"
    asked = ["simulate", "UniRing(1,4)", "--message", "4MiB", "--bandwidth", "50GB/s"]
    assert main([*asked, "--latency", "1us", "--timeline", str(path)]) == 0
    events = events_of(path)
    check(events)
    assert len(events) == 44
    slices = [one for one in events if one["ph"] == "X"]
    assert [one["ts"] for one in slices[::4]] == [0.0, 21.971, 43.942]
    assert {one["dur"] for one in slices} == {20.971}
    assert {one["args"]["bytes"] for one in slices} == {1048576}
    assert max(one["ts"] for one in events if one["ph"] == "f") == 65.913


@pytest.mark.parametrize(
    ("design", "network"),
    [
        ("Torus((3,3))", ()),
        ("Circulant(7, (2, 3))", ("--collective", "allreduce")),
        ("GeneralizedKautz(2, 6)", ("--network", "leaf_spine(3, 2, 2, 4, 3)")),
    ],
)
def test_schedules(design, network, tmp_path):
    path = tmp_path / "t.json"
    asked = ["simulate", design, *network, "--message", "1MiB", "--bandwidth", "50GB/s"]
    assert main([*asked, "--timeline", str(path)]) == 0
    check(events_of(path))


def test_jobs(tmp_path, capsys):
    assert main(["example", str(tmp_path)]) == 0
    path = tmp_path / "t.json"
    for job in ("layers.yaml", "groups.yaml"):
        assert main(["iterate", str(tmp_path / job), "--timeline", str(path)]) == 0
        events = events_of(path)
        check(events)
        assert {one["cat"] for one in events if one["ph"] == "X"} == {"compute", "send"}
    capsys.readouterr()
    asked = ["iterate", str(tmp_path / "groups.yaml"), "--timeline", str(path)]
    assert main([*asked, "--network", "leaf_spine(2,2,1,1,1)"]) == 2
    assert "--timeline is for jobs" in capsys.readouterr().err


def test_more_events_than_a_viewer_shows_are_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(timeline, "MAX_EVENTS", 20)
    asked = ["simulate", "UniRing(1,4)", "--message", "4MiB", "--bandwidth", "50GB/s"]
    assert main([*asked, "--timeline", str(tmp_path / "t.json")]) == 2
    assert "a timeline of 36 events" in capsys.readouterr().err
    assert not (tmp_path / "t.json").exists()


def test_what_overlaps_has_threads_of_its_own():
    talks = [(0, 0, 5, 1), (0, 2, 4, 2), (0, 5, 9, 3), (1, 0, 1, 4)]
    assert [lane for lane, _ in timeline._in_lanes(talks)] == [0, 1, 1, 0]
