"""The catalogue's store and look-ups: whole answers, exact costs, damage said."""

from __future__ import annotations

import itertools
import shutil
import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from fractions import Fraction

import pytest

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import Cost
from ocs_codesign.faces.cli import main
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.design import Question
from ocs_codesign.search.catalogue.entry import (
    Entry,
    Provenance,
    certified,
    digest,
    find,
    stored_frontier,
)
from ocs_codesign.search.catalogue.store import (
    APPLICATION_ID,
    ENTRY_COLUMNS,
    NOT_KEPT,
    SCHEMA_VERSION,
    SCHEMAS,
    Catalogue,
    row_of,
)

ORIGIN = Provenance("ocs-codesign sweep --nodes 8", "0.1.0", 1, 0.5)
ASKED = Question(12, 3)


def entry(recipe: str, steps: int, t_b: Fraction, *, both: bool = False, scatter_steps=None):
    cost = Cost(steps, t_b)
    scatter = Cost(scatter_steps or steps, t_b)
    return Entry(recipe, "label", 12, 3, both, True, cost, scatter, "bfb", True)


QUICK = entry("GeneralizedKautz(3, 12)", 2, Fraction(1))
CHEAP = entry("DirectedCirculant(12, (1, 2, 5))", 3, Fraction(11, 12))
WORSE = entry("UniRing(3, 12)", 11, Fraction(11, 12), both=True)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "some catalogue.sqlite"
    with Catalogue(path, writable=True) as store:
        assert store.record(ASKED, [QUICK, CHEAP, WORSE], ORIGIN)
    return path


def test_what_is_stored_comes_back(path):
    with Catalogue(path) as store:
        assert store.entries(ASKED) == (QUICK, CHEAP, WORSE)
        assert store.provenance(ASKED) == ORIGIN
        assert store.questions() == [ASKED]
        assert store.has(ASKED)
        assert not store.has(Question(12, 3, True))
        assert store.entries(Question(5, 2)) == ()
        assert store.of_recipe(parse(CHEAP.recipe)) == [(ASKED, CHEAP)]
        assert store.of_recipe(parse("Complete(4)")) == []
        store.check()


def test_one_plain_file_is_left(path):
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_the_first_answer_stays(path):
    with Catalogue(path, writable=True) as store:
        assert not store.record(ASKED, [WORSE], ORIGIN)
        assert len(store.entries(ASKED)) == 3


def test_an_entry_must_have_the_size_of_its_question(path):
    with Catalogue(path, writable=True) as store:
        with pytest.raises(ValueError, match="does not have the size"):
            store.record(Question(13, 3), [QUICK], ORIGIN)
        assert store.questions() == [ASKED]


def test_huge_fractions_are_exact(tmp_path):
    exact = entry("x", 1, Fraction(2**61 + 1, 2**62))
    with Catalogue(tmp_path / "c", writable=True) as store:
        store.record(ASKED, [exact], ORIGIN)
        assert store.entries(ASKED) == (exact,)


def test_find_returns_the_frontier(path):
    with Catalogue(path) as store:
        found = find(store, ASKED)
        assert found.exact
        assert found.entries == (QUICK, CHEAP)
        assert find(store, ASKED, max_steps=2).entries == (QUICK,)
        assert find(store, ASKED, max_t_b=Fraction(11, 12)).entries == (CHEAP,)
        assert find(store, ASKED, max_steps=1).entries == ()


def test_find_by_collective():
    one = entry("a", 2, Fraction(1), scatter_steps=9)
    other = entry("b", 3, Fraction(1))
    assert stored_frontier((one, other), Collective.ALLGATHER) == [one]
    assert stored_frontier((one, other), Collective.REDUCE_SCATTER) == [other]
    assert stored_frontier((one, other), Collective.ALLREDUCE) == [other]
    assert one.cost(Collective.ALLREDUCE) == Cost(11, Fraction(2))


def test_find_says_the_nearest_larger(path):
    with Catalogue(path) as store:
        found = find(store, Question(10, 3))
        assert not found.exact
        assert found.question == ASKED
        with pytest.raises(ValueError, match="no design for 13 nodes of degree 3"):
            find(store, Question(13, 3))
        with pytest.raises(ValueError, match="links in both directions"):
            find(store, Question(12, 3, True))


def test_optimality_of_entries():
    assert CHEAP.is_bw_optimal()
    assert not CHEAP.is_moore_optimal()
    assert QUICK.is_moore_optimal(Collective.ALLREDUCE)


def test_a_killed_writer_loses_only_its_question(path):
    """A transaction that never commits leaves what was there, and the file readable."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "INSERT INTO question VALUES (99, 4, 0, 'c', 'v', 1, 0.0, 'digest', 0, 0, '', 0, 0)"
        )
        copy = path.parent / "copy"
        for one in path.parent.glob(f"{path.name}*"):
            shutil.copy(one, copy.with_name(one.name.replace(path.name, "copy")))
    with Catalogue(copy, writable=True) as store:
        assert store.questions() == [ASKED]
        store.check()


def test_two_writers_at_once(path):
    with Catalogue(path, writable=True) as one, Catalogue(path, writable=True) as other:
        for nodes in range(20, 40):
            here = replace(QUICK, num_nodes=nodes)
            one.record(Question(nodes, 3), [here], ORIGIN)
            other.record(Question(nodes, 3, True), [here], ORIGIN)
            assert not other.record(Question(nodes, 3), [], ORIGIN)
        assert one.questions() == other.questions()
        assert len(one.questions()) == 41
    with Catalogue(path) as store:
        store.check()


def test_missing_foreign_and_other_versions(tmp_path, path):
    with pytest.raises(FileNotFoundError, match="there is no catalogue at"):
        Catalogue(tmp_path / "none")
    foreign = tmp_path / "text"
    foreign.write_text("hello, this is not a database " * 100)
    with pytest.raises(ValueError, match="not a catalogue"):
        Catalogue(foreign)
    empty = tmp_path / "empty"
    sqlite3.connect(empty).execute("CREATE TABLE x (y)").connection.close()
    with pytest.raises(ValueError, match="is not a catalogue of topologies"):
        Catalogue(empty)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 7")
    with pytest.raises(ValueError, match="version 7"):
        Catalogue(path)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE entry SET gather_steps = 1 WHERE rank = 0",
        "UPDATE entry SET recipe = 'Complete(4)' WHERE rank = 1",
        "DELETE FROM entry WHERE rank = 2",
        "UPDATE entry SET gather_t_b_den = 0 WHERE rank = 0",
        "UPDATE entry SET alltoall_num = 3, alltoall_den = 2 WHERE rank = 1",
        "UPDATE entry SET alltoall_num = 3, alltoall_den = 0 WHERE rank = 1",
        "UPDATE question SET digest = 'x'",
        "DELETE FROM question",
    ],
)
def test_changed_entries_are_noticed(path, change):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(change)
        connection.commit()
    with Catalogue(path) as store:
        with pytest.raises(ValueError, match="damaged"):
            store.check()
        with pytest.raises(ValueError, match="damaged"):
            store.entries(ASKED)


def test_damaged_bytes_are_noticed_or_harmless(path):
    """Whatever byte is turned, a reader says so or gives the right answer, never a wrong one.

    What it says is one line that names the file, also where text is no text any more.
    """
    data, told = path.read_bytes(), []
    broken = path.with_name("broken")
    for position, turned in itertools.product(range(0, len(data), 97), (0x55, 0xE1)):
        broken.write_bytes(
            data[:position] + bytes([data[position] ^ turned]) + data[position + 1 :]
        )
        try:
            with Catalogue(broken) as store:
                entries = store.entries(ASKED)
                store.check()
        except (ValueError, OSError) as error:
            told.append(str(error))
        else:
            assert entries == (QUICK, CHEAP, WORSE)
    assert all(str(broken) in one and "\n" not in one for one in told)


def test_truncated_file_is_refused(path):
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match="damaged"), Catalogue(path) as store:
        store.check()


def test_certificates_are_proven_bounds_and_kept(tmp_path):
    one = certified(QUICK)
    assert one.certificate == Fraction(11, 12)
    assert certified(replace(QUICK, allgather=Cost(1, Fraction(1)))).certificate is None
    with Catalogue(tmp_path / "c", writable=True) as store:
        store.record(ASKED, [one, CHEAP], ORIGIN)
        assert store.entries(ASKED) == (one, CHEAP)
    with closing(sqlite3.connect(tmp_path / "c")) as connection:
        connection.execute("UPDATE entry SET certificate_num = 1 WHERE rank = 0")
        connection.commit()
    with Catalogue(tmp_path / "c") as store, pytest.raises(ValueError, match="were changed"):
        store.entries(ASKED)


@pytest.fixture(params=[2, 3])
def older(tmp_path, request):
    """A store as a version before wrote it, version 3 with certificates."""
    path, version = tmp_path / "older.sqlite", request.param
    entries = (QUICK, CHEAP, WORSE)
    if version == 3:
        entries = tuple(map(certified, entries))
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMAS[version])
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {version}")
        origin = (ORIGIN.command, ORIGIN.version, ORIGIN.seed, ORIGIN.time_spent_s)
        checksum = digest(entries, without=NOT_KEPT[version])
        more = (5, 7, "2026-11-22") if version == 3 else (5,)
        question = (12, 3, 0, *origin, checksum, *more)
        connection.execute(
            f"INSERT INTO question VALUES ({', '.join('?' * len(question))})", question
        )
        for rank, one in enumerate(entries):
            row = (12, 3, 0, rank, *row_of(one)[: -2 if version == 3 else -4])
            connection.execute(f"INSERT INTO entry VALUES ({', '.join('?' * len(row))})", row)
        connection.commit()
    return path


def test_a_store_of_a_version_before_is_read_as_it_is(older):
    before = older.read_bytes()
    with Catalogue(older) as store:
        store.check()
        assert store.entries(ASKED) == tuple(map(certified, (QUICK, CHEAP, WORSE)))
        origin = store.provenance(ASKED)
        assert origin in (
            replace(ORIGIN, work=5),
            replace(ORIGIN, work=5, improved=7, day="2026-11-22"),
        )
    assert older.read_bytes() == before
    with closing(sqlite3.connect(older)) as connection:
        connection.execute("UPDATE entry SET gather_steps = 1 WHERE rank = 0")
        connection.commit()
    with Catalogue(older) as store, pytest.raises(ValueError, match="were changed"):
        store.entries(ASKED)
    with pytest.raises(ValueError, match="were changed"):
        Catalogue(older, writable=True)
    with Catalogue(older) as store:
        assert store.questions() == [ASKED]  # a migration that fails leaves all as it was


def test_a_store_of_a_version_before_is_brought_up_when_it_is_written_to(older):
    with Catalogue(older) as store:
        entries, origin = store.entries(ASKED), store.provenance(ASKED)
    with Catalogue(older, writable=True) as one, Catalogue(older, writable=True) as other:
        other.record(Question(12, 2), [], ORIGIN)
        assert one.entries(ASKED) == entries
        assert one.provenance(ASKED) == origin
        one.add(ASKED, [], times={QUICK.recipe: Fraction(7, 4)}, time_spent_s=0.0, day="")
    with closing(sqlite3.connect(older)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
        connection.execute(f"SELECT {ENTRY_COLUMNS[SCHEMA_VERSION]} FROM entry")
    with Catalogue(older) as store:
        store.check()
        assert store.questions() == [Question(12, 2), ASKED]
        assert [one.alltoall for one in store.entries(ASKED)] == [Fraction(7, 4), None, None]


def test_alltoall_times_stay_with_their_designs(path):
    spent = {"time_spent_s": 0.5, "day": "2026-11-23"}
    huge = Fraction(2**64 + 1, 2**64)
    times = {QUICK.recipe: Fraction(7, 4), CHEAP.recipe: None, WORSE.recipe: huge}
    new = entry("GeneralizedDeBruijn(3, 12)", 2, Fraction(35, 36))
    with Catalogue(path, writable=True) as store:
        store.add(ASKED, [], times={QUICK.recipe: Fraction(7, 4)}, **spent)
        assert store.provenance(ASKED).num_timed == 1
        store.add(ASKED, [new], times=times | {new.recipe: Fraction(2)}, exchanged=9, **spent)
        timed = replace(QUICK, alltoall=Fraction(7, 4))
        expected = (timed, CHEAP, WORSE, replace(new, alltoall=Fraction(2)))
        assert store.entries(ASKED) == expected
        origin = store.provenance(ASKED)
        assert (origin.num_timed, origin.exchanged, origin.improved) == (4, 9, 0)
        assert origin.num_timed == store.num_entries(ASKED)
        store.add(ASKED, [replace(new, recipe="Complete(4)")], work=1, **spent)
        assert store.provenance(ASKED).num_timed == 4
        assert store.record(ASKED, [CHEAP, QUICK], replace(ORIGIN, work=2))
        assert store.entries(ASKED)[:2] == (CHEAP, timed)
        assert store.provenance(ASKED).num_timed == 0
        assert store.provenance(ASKED).exchanged == 9
        assert store.num_entries(Question(13, 3)) == 0
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE entry SET alltoall_num = 6 WHERE rank = 1")
        connection.commit()
    with Catalogue(path) as store, pytest.raises(ValueError, match="were changed"):
        store.entries(ASKED)


def test_what_is_found_later_is_added(path):
    new = entry("GeneralizedDeBruijn(3, 12)", 2, Fraction(35, 36))
    with Catalogue(path, writable=True) as store:
        spent = {"time_spent_s": 1.25, "day": "2026-11-23"}
        assert store.add(ASKED, [CHEAP, new, new], work=7, **spent) == 1
        assert store.add(ASKED, [new], work=8, **spent) == 0
        assert store.entries(ASKED) == (QUICK, CHEAP, WORSE, new)
        changed = replace(ORIGIN, time_spent_s=3.0, improved=15, day="2026-11-23")
        assert store.provenance(ASKED) == changed
        with pytest.raises(ValueError, match="nothing to improve"):
            store.add(Question(13, 3), [], work=1, **spent)
        with pytest.raises(ValueError, match="does not have the size"):
            store.add(ASKED, [replace(new, num_nodes=13)], work=1, **spent)
        assert store.record(ASKED, [new], replace(ORIGIN, work=2))
        assert store.entries(ASKED) == (new, QUICK, CHEAP, WORSE)
        assert store.provenance(ASKED).improved == 15
        store.check()


def test_a_catalogue_that_may_not_be_written_is_said(path):
    path.chmod(0o444)
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)):
        pass
    with Catalogue(path) as store, pytest.raises(OSError, match="cannot write to"):
        store.record(Question(13, 3), [], ORIGIN)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is of Linux")
@pytest.mark.parametrize("place", ["/proc/self/mem", "/proc/self/maps", "/dev/full", "/etc/passwd"])
def test_what_is_no_catalogue_is_refused_in_a_sentence(capsys, tmp_path, place):
    out = str(tmp_path / "table.csv")
    for ask in (
        ["export", "--format", "csv", "--out", out],
        ["find", *["--nodes", "9", "--degree", "4"]],
    ):
        assert main(["catalogue", *ask, "--catalogue", place]) == 2
        assert capsys.readouterr().err.startswith("Error: ")
    assert not list(tmp_path.iterdir())
