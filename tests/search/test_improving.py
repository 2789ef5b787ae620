"""Improving a catalogue: the largest gaps first, resumable, and nothing stored is ever lost."""

from __future__ import annotations

import itertools
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from fractions import Fraction
from types import SimpleNamespace

import pytest
from test_sweep import Flaky, run

from ocs_codesign.core.collective import GATHERING
from ocs_codesign.core.cost import no_worse
from ocs_codesign.faces.cli import main, workers
from ocs_codesign.faces.cli.workers import Here
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.design import Question, measure
from ocs_codesign.search import improving
from ocs_codesign.search.bases import Effort
from ocs_codesign.search.catalogue.entry import Provenance, as_entry
from ocs_codesign.search.catalogue.store import Catalogue
from ocs_codesign.search.gaps import GapLine, gap_between, gaps_of
from ocs_codesign.search.improving import improve
from ocs_codesign.search.sweep import Answered

OPEN = [Question(nodes, 3) for nodes in (19, 20, 22, 23)]
BETWEEN = [Question(nodes, 3) for nodes in range(18, 25)]
LITTLE = Effort(work=2**13)
"""A pass of some hundredths of a second at these sizes."""


@pytest.fixture(scope="module")
def poor(tmp_path_factory):
    """A catalogue that has generalized Kautz digraphs at some sizes, and good designs beside."""
    path = tmp_path_factory.mktemp("poor") / "poor.sqlite"
    with Catalogue() as shipped, Catalogue(path, writable=True) as store:
        for question in BETWEEN:
            entries = shipped.entries(question)
            if question in OPEN:
                recipe = f"GeneralizedKautz({question.degree}, {question.num_nodes})"
                entries = (as_entry(measure(recipe, "allreduce")),)
            store.record(question, entries, Provenance("test", "0", 1, 0.5))
    return path


@pytest.fixture
def path(poor, tmp_path):
    return shutil.copy(poor, tmp_path / "c.sqlite")


def content(path):
    with Catalogue(path) as store:
        store.check()
        return {question: store.entries(question) for question in store.questions()}


def passes(path):
    with Catalogue(path) as store:
        return {question: store.provenance(question).improved for question in store.questions()}


def test_what_is_added_is_exact_better_and_beside_what_was_there(path):
    before = content(path)
    done = improve(path, OPEN, Here(), 1, effort=LITTLE)
    after = content(path)
    assert (done.num_searched, done.num_better) == (len(OPEN), len(OPEN))
    assert done.num_added == sum(map(len, after.values())) - sum(map(len, before.values()))
    for question, entries in before.items():
        assert after[question][: len(entries)] == entries
        for number, added in enumerate(after[question][len(entries) :], len(entries)):
            assert added == as_entry(measure(parse(added.recipe), "allreduce"))
            assert question.is_answered_by(parse(added.recipe))
            earlier = after[question][:number]
            assert any(
                not any(no_worse(e.cost(c).point(), added.cost(c).point()) for e in entries)
                for c in GATHERING
            ), (added.recipe, earlier)
    sizes = {gap.question: gap.size for gap in _gaps(path)}
    assert all(sizes[question] < gap_between(question, before[question]).size for question in OPEN)


def _gaps(path):
    with Catalogue(path) as store:
        return gaps_of(store, store.questions())


def test_the_largest_gap_is_first_and_all_have_a_turn_before_the_next_pass(path, monkeypatch):
    asked = []
    submit = Here.submit

    def noting(self, fn, /, question, *rest):
        asked.append(question)
        return submit(self, fn, question, *rest)

    monkeypatch.setattr(Here, "submit", noting)
    sizes = {gap.question: gap.size for gap in _gaps(path)}
    improve(path, OPEN[:2], Here(), 1, effort=LITTLE)
    assert asked == sorted(OPEN[:2], key=lambda one: (-sizes[one], one))
    assert {question for question, work in passes(path).items() if work} == set(OPEN[:2])
    asked.clear()
    improve(path, OPEN, Here(), 1, effort=LITTLE)
    assert set(asked[:2]) == set(OPEN[2:])


@pytest.mark.slow
def test_passes_are_seeded_and_differ(poor, path, tmp_path):
    twin = shutil.copy(path, tmp_path / "twin.sqlite")
    for one in (path, twin):
        improve(one, OPEN, Here(), 1, effort=LITTLE)
        improve(one, OPEN, Here(), 1, effort=LITTLE)
    assert content(path) == content(twin)
    assert {passes(path)[question] for question in OPEN} == {2 * LITTLE.work}
    once = shutil.copy(poor, tmp_path / "once.sqlite")
    improve(once, OPEN, Here(), 1, effort=Effort(seed=5, work=LITTLE.work))
    assert any(content(once)[one] != content(twin)[one][: len(content(once)[one])] for one in OPEN)


def test_work_of_a_search_is_not_claimed(path):
    improve(path, OPEN, Here(), 1, effort=LITTLE)
    with Catalogue(path) as store:
        origin = store.provenance(OPEN[0])
    assert (origin.work, origin.command, origin.seed) == (0, "test", 1)
    assert origin.improved == LITTLE.work
    assert origin.time_spent_s > 0.5
    assert len(origin.day) == len("2026-11-23")


def test_nothing_is_searched_where_the_bound_is_met(path):
    met = [Question(nodes, 4) for nodes in (9, 10, 12)]
    with Catalogue() as shipped, Catalogue(path, writable=True) as store:
        for question in met:
            store.record(question, shipped.entries(question), Provenance("test", "0", 1, 0.5))
            assert set(gap_between(question, store.entries(question)).excess) == {0}
    assert improve(path, met, Here(), 1, effort=LITTLE).num_searched == 0


def test_where_only_the_fewest_steps_are_open_is_searched_last(path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "ocs_codesign.search.improving.go_on",
        lambda question, *_: asked.append(question) or Answered(question, (), 0.1),
    )
    large = [Question(nodes, 3) for nodes in range(66, 81)]
    with Catalogue() as shipped, Catalogue(path, writable=True) as store:
        for question in large:
            store.record(question, shipped.entries(question), Provenance("test", "0", 1, 0.5))
    improve(path, [*BETWEEN, *large], Here(), 1, effort=LITTLE)
    with Catalogue(path) as store:
        sizes = [gap_between(one, store.entries(one)).size for one in asked]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 0


def test_for_so_many_seconds_passes_follow_each_other(path, monkeypatch):
    """By a clock that moves a second whenever it is asked."""
    clock = SimpleNamespace(**{**vars(time), "monotonic": itertools.count().__next__})
    monkeypatch.setattr(improving, "time", clock)
    improve(path, OPEN[:1], Here(), 1, effort=LITTLE, seconds=9)
    assert passes(path)[OPEN[0]] % LITTLE.work == 0
    assert LITTLE.work < passes(path)[OPEN[0]] < 9 * LITTLE.work
    assert improve(path, OPEN, Here(), 1, seconds=1).num_searched == 0


def test_lost_workers_and_threads(path, tmp_path):
    twin = shutil.copy(path, tmp_path / "twin.sqlite")
    assert improve(path, OPEN, Flaky(2), 1, effort=LITTLE).num_searched == len(OPEN)
    with ThreadPoolExecutor(2) as executor:
        assert improve(twin, OPEN, executor, 2, effort=LITTLE).num_searched == len(OPEN)
    assert passes(path) == passes(twin)
    with pytest.raises(RuntimeError, match="cannot be improved: the worker died"):
        improve(path, OPEN, Flaky(100), 1, effort=LITTLE)
    content(path)


def test_only_sizes_above_a_line(path):
    def worst(question):
        with Catalogue(path) as store:
            return gap_between(question, store.entries(question)).excess[2]

    assert {worst(question) for question in OPEN} == {Fraction(8, 19), Fraction(1, 2)}
    half = [GapLine(2, Fraction(1, 2))]
    assert improve(path, OPEN, Here(), 1, effort=LITTLE, above=half).num_searched == 0
    improve(path, OPEN[:2], Here(), 1, effort=LITTLE)
    below = GapLine(2, max(worst(question) for question in OPEN[:2]))
    assert below.most < Fraction(1, 2)
    assert improve(path, OPEN, Here(), 1, effort=LITTLE, above=[below]).num_searched == 2
    assert {passes(path)[question] for question in OPEN} == {LITTLE.work}


def test_two_way_questions_too(path):
    question = Question(22, 3, True)
    with Catalogue(path, writable=True) as store:
        entry = as_entry(measure("Circulant(22, (1, 11))", "allreduce"))
        store.record(question, [entry], Provenance("test", "0", 1, 0.5))
    improve(path, [question], Here(), 1, effort=LITTLE)
    added = content(path)[question][1:]
    assert added
    assert all(one.bidirectional for one in added)


@pytest.mark.slow
def test_command(path, capsys):
    ask = ("catalogue", "improve", "--catalogue", path, "--nodes", "19-20", "--degree", "3")
    code, value = run(capsys, *ask, "--workers", 1)
    assert code == 0
    assert value["searched"] >= 1
    assert value["added"] >= value["better"] >= 1
    code, verdict = run(capsys, "catalogue", "verify", "--sample", 1000, "--catalogue", path)
    assert (code, verdict["wrong"]) == (0, [])


@pytest.mark.parametrize(
    "more",
    [
        ["--catalogue", "nowhere.sqlite"],
        [],
        ["--catalogue", "x", "--nodes", "9-3"],
        ["--catalogue", "x", "--time-limit", "0s"],
        ["--catalogue", "x", "--time-limit", "nans"],
        ["--catalogue", "x", "--effort", "0"],
        ["--catalogue", "x", "--above", "2"],
        ["--catalogue", "/etc/hosts"],
    ],
)
def test_bad_usage(more, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["catalogue", "improve", *more]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("Error: ")
    assert captured.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_interrupted_it_goes_on(path, monkeypatch, capsys):
    def add(store, *given, **options):
        number = kept(store, *given, **options)
        if sum(work > 0 for work in passes(path).values()) == 2:
            raise KeyboardInterrupt
        return number

    kept, before = Catalogue.add, content(path)
    monkeypatch.setattr(Catalogue, "add", add)
    monkeypatch.setattr(workers, "executor_of", lambda *_: nullcontext((Here(), 1)))
    monkeypatch.setattr(improving, "PASS_WORK", LITTLE.work)
    ask = ["catalogue", "improve", "--catalogue", str(path), "--nodes", "18-24", "--degree", "3"]
    assert main(ask) == 130
    assert "the designs so far are kept" in capsys.readouterr().err
    after = content(path)
    for question, entries in before.items():
        assert after[question][: len(entries)] == entries


def test_work_done_here_fails_as_elsewhere_and_is_interrupted_at_once():
    def task(error):
        raise error

    assert isinstance(Here().submit(task, OSError()).exception(), OSError)
    for error in (KeyboardInterrupt(), SystemError()):
        if isinstance(error, SystemError):
            error.__cause__ = KeyboardInterrupt()  # as a compiled kernel says it
        with pytest.raises(KeyboardInterrupt):
            Here().submit(task, error)
