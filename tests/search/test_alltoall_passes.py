"""All-to-all times of a catalogue: exact, kept, resumed; answers that come from them at once."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from test_sweep import Flaky, run

from ocs_codesign.core.lp import DEFAULT_OPTIONS
from ocs_codesign.faces.cli import main
from ocs_codesign.faces.cli.workers import Here
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.design import Question, measure
from ocs_codesign.schedules.paths.throughput import throughput
from ocs_codesign.search import pool as pooled
from ocs_codesign.search.alltoall.solving import Solving
from ocs_codesign.search.bases import Effort
from ocs_codesign.search.catalogue.entry import Provenance, as_entry
from ocs_codesign.search.catalogue.store import Catalogue
from ocs_codesign.search.frontiers import joint_frontier
from ocs_codesign.search.improving import ALLTOALL_PASS_WORK as PASS_WORK
from ocs_codesign.search.improving import time_alltoall
from ocs_codesign.search.pool import pool

STORED = {
    Question(7, 2): ["GeneralizedKautz(2, 7)", "Transpose(GeneralizedKautz(2, 7))"],
    Question(9, 2): ["GeneralizedKautz(2, 9)"],
    Question(9, 2, True): ["BiRing(2, 9)"],
    Question(173, 2): ["DirectedCirculant(173, (1, 13))", "GeneralizedKautz(2, 173)"],
}
TIMED = Effort(work=0)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "c.sqlite"
    with Catalogue(path, writable=True) as store:
        for question, recipes in STORED.items():
            entries = [as_entry(measure(recipe, "allreduce")) for recipe in recipes]
            store.record(question, entries, Provenance("test", "0", 1, 0.5))
    return path


def times(path):
    with Catalogue(path) as store:
        store.check()
        return {entry.recipe: entry.alltoall for _, entry in store.all_entries()}


def test_times_are_exact_where_the_program_is_small(path):
    found = time_alltoall(path, STORED, Here(), 1, effort=TIMED)
    assert (found.num_questions, found.num_timed, found.num_untimed) == (4, 5, 1)
    known = times(path)
    with Catalogue(path) as store:
        assert {store.provenance(question).day for question in STORED} == {""}  # none was searched
    assert known.pop("GeneralizedKautz(2, 173)") is None
    for recipe, value in known.items():
        assert value == throughput(parse(recipe).topology()).time
    # Nine nodes in a ring: 2 (1 + 2 + 3 + 4) hops on two links of half the bandwidth.
    assert known["BiRing(2, 9)"] == Fraction(2 * (1 + 2 + 3 + 4), 9)
    assert known["GeneralizedKautz(2, 7)"] == known["Transpose(GeneralizedKautz(2, 7))"]


def test_a_pass_does_nothing_twice(path, monkeypatch):
    time_alltoall(path, STORED, Here(), 1, effort=TIMED)
    again = time_alltoall(path, STORED, Here(), 1, effort=TIMED)
    assert again.num_questions == 0
    with Catalogue(path, writable=True) as store:
        new = as_entry(measure("DirectedCirculant(9, (1, 4))", "allreduce"))
        store.add(Question(9, 2), [new], work=1, time_spent_s=0.0, day="")
    solved = []

    def note(topology, *_):
        solved.append(topology.num_nodes)
        return throughput(topology)

    monkeypatch.setattr("ocs_codesign.search.alltoall.solving.throughput", note)
    assert time_alltoall(path, STORED, Here(), 1, effort=TIMED).num_questions == 1
    assert solved == [9]


def test_a_search_adds_what_nothing_stored_beats(path):
    """Seven nodes of two ports: 11/7 exists."""
    before = times(path)
    found = time_alltoall(path, [Question(7, 2)], Here(), 1, effort=Effort(work=2**17))
    assert found.num_added
    known = times(path)
    assert known.keys() > before.keys()
    assert min(value for one, value in known.items() if parse(one).num_nodes == 7) <= Fraction(
        11, 7
    )
    for recipe in known.keys() - before.keys():
        assert known[recipe] == throughput(parse(recipe).topology()).time
    with Catalogue(path) as store:
        origin = store.provenance(Question(7, 2))
    assert (origin.work, origin.improved, origin.exchanged) == (0, 0, 2**17)


def test_a_sweep_of_as_much_work_has_searched(path):
    with Catalogue(path, writable=True) as store:
        store.record(Question(7, 2), [], Provenance("test", "0", 1, 0.5, Effort().work))
    effort = Effort(work=PASS_WORK)
    assert time_alltoall(path, [Question(7, 2)], Here(), 1, effort=effort).num_added == 0
    with Catalogue(path) as store:
        assert store.provenance(Question(7, 2)).exchanged == 0


def test_interrupted_or_dying_work_is_kept(path):
    class Interrupted(Here):
        def submit(self, function, question, *rest):
            if question.num_nodes > 9:
                raise KeyboardInterrupt
            return super().submit(function, question, *rest)

    with pytest.raises(KeyboardInterrupt):
        time_alltoall(path, STORED, Interrupted(), 1, effort=TIMED)
    assert sum(value is not None for value in times(path).values()) == 4
    assert time_alltoall(path, STORED, Flaky(2), 1, effort=TIMED).num_timed == 1
    with Catalogue(path, writable=True) as store:
        store.record(Question(7, 2), [], Provenance("test", "0", 1, 0.5, 1))
    with pytest.raises(RuntimeError, match="cannot be timed: the worker died"):
        time_alltoall(path, STORED, Flaky(100), 1, effort=TIMED)
    assert time_alltoall(path, STORED, Here(), 1, effort=TIMED, seconds=1e-9).num_questions == 0


def test_known_times_are_not_solved(monkeypatch):
    def refuse(*_):
        raise AssertionError("this was solved")

    recipe = parse("GeneralizedKautz(2, 9)")
    monkeypatch.setattr("ocs_codesign.search.alltoall.solving.throughput", refuse)
    monkeypatch.setattr("ocs_codesign.search.alltoall.solving.soft_throughput", refuse)
    solving = Solving(DEFAULT_OPTIONS, {parse("Transpose(GeneralizedKautz(2, 9))"): Fraction(9, 4)})
    assert solving.exact_time(recipe) == Fraction(9, 4)
    assert solving.sketch(recipe) == solving.settle(recipe)
    with pytest.raises(AssertionError, match="solved"):
        solving.exact_time(parse("GeneralizedKautz(2, 8)"))


@pytest.fixture
def shipped(path, monkeypatch):
    """The store as the one that is shipped, with a search at nine nodes of two ports."""
    time_alltoall(path, STORED, Here(), 1, effort=TIMED)
    with Catalogue(path, writable=True) as store:
        store.add(Question(9, 2), [], exchanged=PASS_WORK, time_spent_s=0.0, day="2026-11-23")
    monkeypatch.setattr("ocs_codesign.search.catalogue.store.shipped_path", lambda: path)
    return path


@pytest.mark.usefixtures("shipped")
def test_known_sizes_are_answered_at_once(monkeypatch, capsys):
    def refuse(*_):
        raise AssertionError("this was searched for")

    ask = ["frontier", "--nodes", "9", "--degree", "2", "--collective", "alltoall"]
    answer = joint_frontier(9, 2, with_allgather=False)
    assert answer.origin.exchanged == PASS_WORK
    kautz = parse("GeneralizedKautz(2, 9)")
    assert answer.alltoall == {kautz: throughput(kautz.topology()).time}
    monkeypatch.setattr(pooled, "alltoall_recipes", refuse)
    monkeypatch.setattr(pooled, "searched", refuse)
    assert main([*ask, "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["catalogue"]["exchanged"] == PASS_WORK
    assert main(ask) == 0
    said = capsys.readouterr().out
    assert "1 exact time from the catalogue, not solved again." in said
    assert "From the catalogue: searched for " in said
    assert "alltoall_t_b" in answer.to_dataframe().columns
    with pytest.raises(AssertionError, match="searched"):
        main([*ask, "--fresh"])
    with pytest.raises(AssertionError, match="searched"):
        pool(Question(7, 2), exchanges=True)


def test_verify_scores_times_again(shipped, capsys):
    ask = ("catalogue", "verify", "--sample", "9", "--catalogue", shipped)
    code, value = run(capsys, *ask)
    assert (code, value["wrong"]) == (0, [])
    with Catalogue(shipped, writable=True) as store:
        wrong = {"GeneralizedKautz(2, 9)": Fraction(9, 4)}
        store.add(Question(9, 2), [], times=wrong, time_spent_s=0.0, day="")
    code, value = run(capsys, *ask)
    assert (code, value["wrong"]) == (1, ["all-to-all of GeneralizedKautz(2, 9)"])


@pytest.mark.usefixtures("shipped")
def test_shown_and_exported(capsys, tmp_path):
    code, value = run(capsys, "catalogue", "show", "BiRing(2, 9)")
    assert (code, value["alltoall_t_b"]) == (0, "20/9")
    code, value = run(
        capsys, *("catalogue", "find", "--nodes", 7, "--degree", 2, "--collective", "alltoall")
    )
    assert code == 0
    assert len(value["candidates"]) == 1
    assert (
        main(["catalogue", "find", "--nodes", "7", "--degree", "2", "--collective", "alltoall"])
        == 0
    )
    assert "known designs are stored" in capsys.readouterr().out
    out = tmp_path / "t.json"
    assert main(["catalogue", "export", "--format", "json", "--out", str(out)]) == 0
    rows = {row["recipe"]: row for row in json.loads(out.read_text(encoding="utf-8"))}
    assert rows["BiRing(2, 9)"]["alltoall_t_b"] == "20/9"
    assert rows["GeneralizedKautz(2, 173)"]["alltoall_t_b"] == ""


@pytest.mark.slow
def test_command(path, capsys):
    ask = ("catalogue", "alltoall", "--catalogue", path, "--nodes", "2-9", "--degree", "2")
    code, value = run(capsys, *ask, "--workers", 1)
    assert (code, value["questions"], value["untimed"]) == (0, 2, 0)
    code, value = run(capsys, *ask, "--workers", 1)
    assert (code, value["questions"]) == (0, 0)


@pytest.mark.parametrize(
    "more",
    [
        ["--catalogue", "nowhere.sqlite"],
        [],
        ["--catalogue", "x", "--nodes", "9-3"],
        ["--catalogue", "x", "--time-limit", "0s"],
        ["--catalogue", "x", "--effort", "-1"],
        ["--catalogue", "/etc/hosts"],
    ],
)
def test_bad_usage(more, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["catalogue", "alltoall", *more]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("Error: ")
    assert captured.err.count("\n") == 1
    assert not list(tmp_path.iterdir())
