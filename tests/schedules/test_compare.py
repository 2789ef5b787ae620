"""Comparisons: everybody plays on one clock, outcomes are kept, the best make a book that holds."""

import json
import signal
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

from ocs_codesign import parse
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.network import Network
from ocs_codesign.core.networks.builders import direct, mesh, star
from ocs_codesign.core.plans import Book, Page
from ocs_codesign.faces.answers.compare import compare_sections
from ocs_codesign.faces.answers.sections import Table
from ocs_codesign.faces.cli import main
from ocs_codesign.faces.cli.workers import Here
from ocs_codesign.faces.pictures.files import figure_bytes
from ocs_codesign.faces.pictures.simulation import comparison_figure
from ocs_codesign.schedules.classic.registry import CLASSIC
from ocs_codesign.schedules.compare.choosing import of_least_t_b
from ocs_codesign.schedules.compare.comparison import book_of, compare
from ocs_codesign.schedules.compare.contest import COMPARED, Contest, farthest_latency
from ocs_codesign.schedules.compare.play import Entrant, entrants, plan_of, play
from ocs_codesign.schedules.files.books import load_book, save_book
from ocs_codesign.schedules.registry import Task
from ocs_codesign.verification.messages import check_book

SIZES = (2**10, 2**20, 2**30)


class Counting(Here):
    """Counts its work."""

    def __init__(self):
        self.done = 0

    def submit(self, fn, *arguments):
        self.done += 1
        return super().submit(fn, *arguments)


def contest(network, collective="allgather", recipe=None, sizes=SIZES, **options):
    root = 0 if collective in ("broadcast", "reduce") else None
    unit = Fraction(50 * 10**9)
    return Contest("n", network, Collective(collective, root), sizes, unit, recipe, **options)


def on_recipe(text, collective="allgather", **options):
    recipe = parse(text)
    return contest(direct(recipe.topology(), 1, 1000), collective, recipe, **options)


LONG = {"allreduce", "reduce-scatter", "alltoall"}


@pytest.mark.parametrize(
    "collective",
    [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in COMPARED],
)
def test_nobody_beats_the_bound_and_all_that_play_are_right(collective):
    found = compare([on_recipe("Torus((3, 3))", collective)], Here(), 1)[0]
    assert len(found.played) >= 2
    for outcome in found.played:
        for time_s, least_s in zip(outcome.times_s, found.least_s, strict=True):
            assert time_s >= least_s * (1 - 1e-4), outcome.entrant.label
        assert list(outcome.times_s) == sorted(outcome.times_s)
    for outcome in found.outcomes:
        assert (outcome.refusal is None) == bool(outcome.times_s)


def test_times_are_those_of_the_hand():
    """A ring of 3 with one link each: two rounds of 1 us and M/3 at 50 GB/s, by whoever."""
    found = compare([on_recipe("UniRing(1, 3)", sizes=(3 * 10**6,))], Here(), 1)[0]
    times = {each.entrant.label: each.times_s[0] for each in found.played}
    assert times["ring"] == times["bfb"] == pytest.approx(2 * (1e-6 + 20e-6), abs=2e-9)
    assert found.least_s == (pytest.approx(1e-6 + 40e-6),)
    assert found.busbw_Bps(found.best(0), 0) == pytest.approx(2e6 / 42e-6, rel=1e-3)


def test_a_bound_of_latency():
    line = Network(3, 3, [0, 1, 1, 2], [1, 2, 0, 1], [1] * 4, [5, 7, 5, 7])
    assert farthest_latency(line) == 12
    with pytest.raises(ValueError, match="cannot be reached"):
        farthest_latency(Network(2, 2, [0], [1], [1]))


def test_switches_and_damaged_networks_play():
    for network in (star(4, [10, 10, 10, 1]), mesh((3, 3), 1).without(links=[0])):
        found = compare([contest(network)], Here(), 1)[0]
        makers = {each.entrant.maker for each in found.played}
        assert {"forest", "ring"} <= makers
        assert all(best.entrant.maker for _, best in found.ranges())


def test_outcomes_are_kept_and_not_played_again(tmp_path):
    question = on_recipe("BiRing(2, 5)")
    first = Counting()
    before = compare([question], first, 1, tmp_path)[0]
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(files) == first.done == len(entrants(question))
    next(iter(tmp_path.iterdir())).write_text("{broken", encoding="utf-8")
    again = Counting()
    after = compare([question], again, 1, tmp_path)[0]
    assert again.done == 1
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files
    assert [each.times_s for each in after.outcomes] == [each.times_s for each in before.outcomes]
    other = Counting()
    compare([on_recipe("BiRing(2, 5)", sizes=(2**12,))], other, 1, tmp_path)
    assert other.done == first.done, "another question is played anew"


def test_the_book_of_the_best(tmp_path):
    question = on_recipe("Hypercube(3)", "allreduce", sizes=tuple(4**k for k in range(5, 15)))
    found = compare([question], Here(), 1)[0]
    book = book_of(found)
    assert [page.maker for page in book.pages] == [best.entrant.label for _, best in found.ranges()]
    assert book.pages[0].from_bytes == 0
    assert not any(check_book(book))
    save_book(book, tmp_path / "book")
    files = {path: path.read_bytes() for path in (tmp_path / "book").rglob("*") if path.is_file()}
    save_book(load_book(tmp_path / "book"), tmp_path / "book")
    assert {path: path.read_bytes() for path in files} == files
    again = load_book(tmp_path / "book")
    assert again.network == book.network
    assert book.page_of(10**9).maker == again.page_of(10**9).maker == book.pages[-1].maker


def classic_book(name="ring"):
    question = on_recipe("Torus((3, 3))")
    plan = plan_of(question, Entrant(name, is_classic=True))
    return Book(question.network, question.unit_Bps, question.collective, (Page(0, name, plan),))


def test_messages_are_plans_too(tmp_path, capsys):
    save_book(classic_book(), tmp_path / "b")
    loaded = load_book(tmp_path / "b").pages[0].plan
    made = CLASSIC["ring"].messages("allgather", 9)
    for column in ("step", "source", "target", "item", "adds"):
        assert np.array_equal(getattr(loaded, column), getattr(made, column))
    assert main(["verify", str(tmp_path / "b"), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["pages"][0]["sends"] == 72


def test_a_wrong_book_is_found_wrong(tmp_path, capsys):
    save_book(classic_book(), tmp_path / "b")
    path = next((tmp_path / "b" / "plans").iterdir())
    with np.load(path) as archive:
        arrays = dict(archive)
    arrays["item"] = np.roll(arrays["item"], 1)
    np.savez(path.with_suffix(""), **arrays)
    assert main(["verify", str(tmp_path / "b")]) == 1
    assert capsys.readouterr().out.startswith("Not valid: ring, from 0 B: ")


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda record: record.update(format=2), "format is 2"),
        (lambda record: record["pages"][0].update(maker="bruck"), "is not a plan of 'bruck'"),
        (lambda record: record["pages"][0].update(maker="a\nb"), r"plan of 'a\nb' on page 1"),
        (lambda record: record.update(played=None, format=2), "played is there from 2 on"),
        (lambda record: record["pages"][0].update(from_bytes=3), "from 0 on"),
        (lambda record: record["pages"][0].update(plan="../x.npz"), "pages[0].plan"),
        (lambda record: record.update(collective="allreduce"), "not of allreduce"),
        (lambda record: record.update(collective="nonsense"), "nonsense"),
        (lambda record: record.update(extra=1), "extra"),
        (lambda record: record.update(unit_Bps="0"), "unit_Bps"),
        (lambda record: record.pop("pages"), "pages"),
    ],
)
def test_bad_books_are_refused(change, rule, tmp_path, capsys):
    save_book(classic_book(), tmp_path / "b")
    path = tmp_path / "b" / "book.json"
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))
    assert main(["verify", str(tmp_path / "b")]) == 2
    told = capsys.readouterr().err
    assert rule in told
    assert told.count("\n") == 1


def leaves(value, place=()):
    """Where the numbers of plain data are."""
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(part, (*place, key))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield place


def test_no_number_of_a_book_can_be_another(tmp_path, capsys):
    question = contest(
        star(3, (10, 10, 10), 300), "allreduce", sizes=tuple(4**k for k in range(6, 13))
    )
    book = tmp_path / "book"
    save_book(book_of(compare([question], Here(), 1)[0]), book)
    assert main(["verify", str(book)]) == 0
    names = ("book.json", "network.json")
    whole = {name: json.loads((book / name).read_text(encoding="utf-8")) for name in names}
    assert len(whole["book.json"]["pages"]) > 1
    told = [(name, place) for name, record in whole.items() for place in leaves(record)]
    told.remove(("network.json", ("num_nodes",)))  # a switch without links changes nothing
    told = [each for each in told if each[1][0] != "links" or each[1][-1] < 4]  # nor do dimensions
    for name, place in [*told, ("book.json", ("unit_Bps",))]:
        changed = json.loads(json.dumps(whole[name]))
        inner = changed
        for key in place[:-1]:
            inner = inner[key]
        old = inner[place[-1]]
        is_bandwidth = name == "network.json" and place[-1] == 2
        inner[place[-1]] = (
            "7" if isinstance(old, str) else old // 2 if is_bandwidth else 2 * old + 1
        )
        (book / name).write_text(json.dumps(changed), encoding="utf-8")
        assert main(["verify", str(book)]) != 0, (name, place, old)
        (book / name).write_text(json.dumps(whole[name]), encoding="utf-8")
    (book / "book.json").write_text('{"format": 2, "format": 2}', encoding="utf-8")
    capsys.readouterr()
    assert main(["verify", str(book)]) == 2
    assert "given twice" in capsys.readouterr().err


def test_books_replace_only_books(tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(ValueError, match="only saved in a new or empty directory"):
        save_book(classic_book(), tmp_path)
    with pytest.raises(ValueError, match="other links"):
        Book(
            direct(parse("BiRing(4, 9)").topology(), 1),
            Fraction(1),
            Collective.ALLGATHER,
            (Page(0, "bfb", plan_of(on_recipe("Torus((3, 3))"), Entrant("bfb"))),),
        )


def test_who_cannot_play_says_why():
    outcome = play(on_recipe("Torus((3, 3))"), Entrant("swing", is_classic=True))
    assert "a power of two" in outcome.refusal
    assert outcome.times_s == ()


@pytest.mark.parametrize("recipe", ["Torus((3, 3))", "BiRing(2, 4)"])
def test_slow_entrants_play_last_and_all_are_told_in_their_order(recipe):
    class Noting(Here):
        def submit(self, fn, contest, entrant):
            order.append(entrant)
            return super().submit(fn, contest, entrant)

    order = []
    (found,) = compare([on_recipe(recipe)], Noting(), 1)
    kinds = [each.is_classic for each in order]
    assert kinds == sorted(kinds, reverse=True)
    assert order[-1].maker in ("greedy", "late", "exact", "stepped")
    parts = [dict(each.options)["parts"] for each in order if each.maker == "forest"]
    assert parts == sorted(parts)
    assert [each.entrant for each in found.outcomes] == entrants(on_recipe(recipe))


def test_the_picture_names_the_best():
    questions = [on_recipe("Torus((3, 3))"), on_recipe("BiRing(4, 9)")]
    found = compare(questions, Here(), 1)
    figure = comparison_figure(found)
    legends = [axes.get_legend() for axes in figure.axes if axes.get_legend()]
    labels = [text.get_text() for text in legends[0].get_texts()]
    assert labels[0].split(", ")[0] == found[0].best(0).entrant.label
    assert {"others", "nothing is faster"} <= set(labels)
    assert any(label.startswith("ring") for label in labels)
    assert figure_bytes(figure, ".svg") == figure_bytes(comparison_figure(found), ".svg")


def test_the_command(tmp_path, capsys):
    given = ["compare", "UniRing(1, 3)", "--latency", "1us", "--bandwidth", "400Gbps"]
    given += ["--message", "1KiB-64KiB", "--workers", "1", "--out", str(tmp_path / "c")]
    assert main([*given, "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["sizes_bytes"] == [2**10, 2**12, 2**14, 2**16]
    assert found["networks"][0]["best"][0]["from_bytes"] == 0
    assert main([*given, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == found
    assert main(["verify", str(tmp_path / "c" / "book")]) == 0


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (["Torus((3, 3))"], "give --bandwidth"),
        (["a100(1)", "--bandwidth", "1GB/s"], "these have GB/s"),
        (["Torus((3, 3))", "Torus((4, 4))", "--bandwidth", "1GB/s"], "as many hosts"),
        (["Torus((3, 3))", "--bandwidth", "1GB/s", "--message", "1MiB-1KiB,2"], "1MiB-1KiB"),
        (["Torus((3, 3))", "--bandwidth", "1GB/s", "--message", "4B,2B"], "rising"),
        (["Torus((3, 3))", "--bandwidth", "1GB/s", "--message", "0B"], "at least a byte"),
    ],
)
def test_bad_questions(arguments, rule, capsys):
    assert main(["compare", *arguments]) == 2
    assert rule in capsys.readouterr().err


def test_who_would_take_long_to_make_is_not_tried():
    """On a star of thousands nothing that moves pieces one by one begins; the direct one does."""
    asked = contest(star(3000, 1), "alltoall", sizes=(2**20,))
    for maker in ("greedy", "forest", "ring-relay"):
        assert "left out" in play(asked, Entrant(maker)).refusal
    made = of_least_t_b(Task(asked.topology(), asked.collective, network=star(500, 1)))
    assert made.schedule.synchronous_cost() == Cost(1, Fraction(499, 500))


def test_who_would_take_long_is_a_row_with_its_reason(monkeypatch):
    """The limit is a number of hops: whoever plays, and whenever, the rows are the same."""
    monkeypatch.setattr("ocs_codesign.schedules.compare.play.MAX_TURN", 4000)
    (found,) = compare([contest(star(5, 1))], Here(), 1)
    everybody = entrants(found.contest)
    assert [each.entrant for each in found.outcomes] == everybody
    refused = {each.entrant.label: each.refusal for each in found.outcomes if each.refusal}
    assert refused["forest parts=16"].startswith("left out: ")
    assert refused["recursive-doubling"] == "5 ranks: halving-doubling takes a power of two"
    assert len(found.played) == len(everybody) - len(refused)
    tables = [each for each in compare_sections([found]) if isinstance(each, Table)]
    assert dict(tables[-1].rows) == refused


KILLED = """
import os, signal, sys
from ocs_codesign.faces.cli import main
from ocs_codesign.schedules.compare import comparison

def replaced(*paths):
    turns.pop()
    if not turns:
        os.kill(os.getpid(), int(sys.argv[1]))
    replace(*paths)

turns, replace, os.replace = [0] * 3, os.replace, replaced
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.slow
def test_killed_twice_a_comparison_goes_on_where_it_was(tmp_path):
    """By SIGKILL and by SIGINT; the book is that of a run that nobody disturbed."""
    asked = ["compare", "Torus((4, 4))", "--bandwidth", "400Gbps", "--message", "1KiB,1GiB"]
    asked += ["--workers", "1", "--collective", "allreduce", "--out"]
    for end, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)):
        words = [sys.executable, "-c", KILLED, str(int(end)), *asked, str(tmp_path / "a")]
        assert subprocess.run(words, capture_output=True, check=False).returncode == code
    kept = {path.name: path.read_bytes() for path in (tmp_path / "a" / "outcomes").iterdir()}
    assert len(kept) == 5 - 1  # none of what the one was writing, and the other then wrote
    assert not (tmp_path / "a" / "book").exists()
    for name in ("a", "b"):
        assert main([*asked, str(tmp_path / name)]) == 0
    books = [
        {path.relative_to(tmp_path / name): path.read_bytes() for path in found}
        for name in ("a", "b")
        for found in [[p for p in (tmp_path / name).rglob("*") if p.is_file()]]
    ]
    assert books[0] == books[1]
    assert main(["verify", str(tmp_path / "a" / "book")]) == 0


def test_forests_of_very_many_sends_are_left_out():
    contest = on_recipe("Circulant(1024, (22, 23))")
    told = play(contest, Entrant("forest", (("trees", 1), ("parts", 64)))).refusal
    assert told == "left out: its 67,043,328 sends and more would take too long to make"
