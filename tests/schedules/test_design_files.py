"""Designs on disk: what is saved is what is loaded, and no file is trusted or half written."""

from __future__ import annotations

import io
import json
import os

import numpy as np
import pytest
from delivery import directly
from folders import DATA
from hypothesis import given
from small_design import SMALL, arrays_of
from strategies import multigraphs

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.demand import COPY, SUM, Demand
from ocs_codesign.core.files.atomic import write_files
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.topology import Topology
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.design import build, build_topology, verified
from ocs_codesign.schedules.files.archive import LAYOUT, check_lengths, write_schedule
from ocs_codesign.schedules.files.designs import load_design, save_design, verify_design
from ocs_codesign.verification.schedules import verify

FAST = Topology(3, [0, 1, 2, 0, 1, 2], [1, 2, 0, 2, 0, 1], [1, 1, 1, 3, 3, 3])
COLLECTIVES = ("allgather", "reduce-scatter", "allreduce")


@pytest.fixture
def archive(tmp_path):
    """Write an npz with numpy from a valid schedule's arrays after changes; None removes one."""

    def write(schedule=SMALL.schedule, **changes):
        arrays = {**arrays_of(schedule), **changes}
        path = tmp_path / "s.npz"
        kept = {name: array for name, array in arrays.items() if array is not None}
        np.savez(path, **kept)
        return path

    return write


@pytest.mark.parametrize("collective", COLLECTIVES)
@given(topology=multigraphs(max_nodes=5, max_extra=6))
def test_schedules_come_back(tmp_path_factory, collective, topology):
    design = build_topology(topology, collective)
    directory = tmp_path_factory.mktemp("designs") / "d"
    save_design(design, directory, "some.graph")
    loaded = load_design(directory)
    assert loaded.schedule == design.schedule
    assert (loaded.claimed, loaded.loads, loaded.recipe) == (design.cost, design.loads, None)
    assert verify(loaded.schedule, loaded.claimed).ok
    bare = load_design(directory / "schedule.npz")
    assert bare.schedule == design.schedule
    assert (bare.claimed, bare.recipe, bare.loads) == (None, None, None)


def test_arrays_are_the_documented_ones():
    arrays = arrays_of(build_topology(FAST, "allreduce").schedule)
    assert {name: (str(array.dtype), array.ndim) for name, array in arrays.items()} == {
        "tail": ("int32", 1),
        "head": ("int32", 1),
        "link_speed": ("int64", 1),
        **dict.fromkeys(("root", "lo", "hi", "link", "step", "phase"), ("int32", 1)),
        "num_chunks": ("int64", 0),
        "collective": ("<U9", 0),
    }
    assert arrays["collective"][()] == "allreduce"
    equal = arrays_of(build(parse("Complete(3)"), "reduce-scatter").schedule)
    assert "link_speed" not in equal
    assert "phase" not in equal
    assert equal["collective"][()] == "reduce-scatter"


def test_record_is_the_documented_one(tmp_path):
    save_design(build(parse("Line(CompleteBipartite(2))")), tmp_path / "d")
    assert json.loads((tmp_path / "d" / "design.json").read_text(encoding="utf-8")) == {
        "format": 1,
        "version": "0.1.0",
        "recipe": "Line(CompleteBipartite(2))",
        "graph": None,
        "collective": "allgather",
        "nodes": 8,
        "degree": 2,
        "cost": {"steps": 3, "t_b": "1", "t_b_float": 1.0},
        "max_load_per_step": ["1", "2", "1"],
        "num_chunks": 1,
        "num_sends": 56,
        "schedule": "bfb",
    }


def test_the_same_design_gives_the_same_bytes(tmp_path):
    for name in "ab":
        save_design(build(parse("GeneralizedKautz(2, 9)"), "allreduce"), tmp_path / name)
    for file in ("schedule.npz", "design.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


OLD = DATA / "designs"
"""Designs as version 0.1.0 first saved them: of format 1, and of format 2 with circuits."""


@pytest.mark.parametrize("name", ["allreduce", "alltoall", "switched"])
def test_old_designs_are_read_for_ever(name):
    loaded = load_design(OLD / name)
    assert verify_design(loaded).witness is None
    record = json.loads((OLD / name / "design.json").read_text(encoding="utf-8"))
    assert (loaded.program is not None) == (record["format"] == 2) == (name == "switched")
    assert loaded.schedule.collective.name == record["collective"]
    assert str(loaded.claimed.t_b) == record["cost"]["t_b"]
    again = io.BytesIO()
    write_schedule(again, loaded.schedule, loaded.circuits)
    assert again.getvalue() == (OLD / name / "schedule.npz").read_bytes()


WITH_PARAMETERS = [
    Collective("broadcast", root=2),
    Collective("reduce", root=1, groups=[(4, 0), (2, 1, 3)]),
    Collective("gather", root=0, sizes=[3, 0, 1, 2, 5]),
    Collective("allgather", sizes=[1, 2, 3, 0, 1]),
    Collective("allreduce", sizes=[2, 1], groups=[(0, 1), (3, 2)]),
    Collective("alltoall", sizes=[[0, 1, 2], [3, 0, 1], [2, 2, 0]], groups=[(0, 2, 4)]),
]


@pytest.mark.parametrize("collective", WITH_PARAMETERS, ids=repr)
def test_roots_sizes_and_groups_come_back(tmp_path, collective):
    design = verified(None, directly(collective, 5), "by hand")
    save_design(design, tmp_path / "d")
    loaded = load_design(tmp_path / "d")
    assert (loaded.schedule, loaded.schedule.collective) == (design.schedule, collective)
    assert verify_design(loaded).witness is None


def test_demands_without_a_name_and_switches_come_back(tmp_path):
    demand = Demand(2, [SUM, COPY], [1, 0], [0, 1, 2], [1, 2], [0, 0], [0, 2], [0, 1], 3)
    pair = Topology(2, [0, 1], [1, 0])
    custom = Schedule(pair, demand, 2, [0, 1], [0, 0], [1, 2], [0, 0], [1, 1])
    star = Topology(3, [0, 2, 1, 2], [2, 1, 2, 0])
    columns = [0, 0, 1, 1], [0] * 4, [1] * 4, [0, 1, 2, 3], [1] * 4
    switched = Schedule(star, Collective.ALLGATHER, 1, *columns, num_hosts=2)
    for schedule in (custom, switched):
        save_design(verified(None, schedule, "by hand"), tmp_path / "d")
        loaded = load_design(tmp_path / "d")
        assert loaded.schedule == schedule
        assert loaded.schedule.collective == schedule.collective
        assert verify_design(loaded).witness is None


def changed(schedule, **arrays):
    """The arrays of a schedule with others in their place, None to leave one out."""
    values = {**arrays_of(schedule), **arrays}
    return {name: np.array(value) for name, value in values.items() if value is not None}


@pytest.mark.parametrize(
    ("arrays", "rule"),
    [
        ({"collective_root": 7}, "root is 7: the ranks are 0 to 1"),
        ({"collective_group_start": None}, "belong together"),
        ({"collective_group_start": [0, 5]}, "collective_group_start does not cut up"),
        ({"collective_group_start": [0, 2, 2, 4]}, "collective_group_start does not cut up"),
        ({"collective_group": [0, 1, 1, 2]}, "host 1 is in groups twice"),
        ({"size": [1, 2]}, "broadcast has no sizes"),
        ({"num_hosts": 9}, "9 hosts of 4 nodes"),
        ({"collective": "custom"}, "demand_kind is missing"),
    ],
)
def test_parameters_that_are_none(tmp_path, arrays, rule):
    collective = Collective("broadcast", root=1, groups=[(0, 1), (2, 3)])
    np.savez(tmp_path / "bad.npz", **changed(directly(collective, 4), **arrays))
    with pytest.raises(ValueError, match=rule):
        load_design(tmp_path / "bad.npz")


def test_saving_makes_parents_and_replaces_a_design(tmp_path):
    target = tmp_path / "new" / "parent" / "d"
    save_design(SMALL, target)
    save_design(build_topology(FAST), target, "fast.txt")
    assert load_design(target).schedule.topology == FAST
    assert sorted(os.listdir(target)) == ["design.json", "schedule.npz"]
    assert os.listdir(target.parent) == ["d"]
    assert target.stat().st_mode & 0o777 == 0o777 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_saving_into_an_empty_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d").mkdir()
    monkeypatch.chdir(tmp_path / "d")
    save_design(SMALL, ".")
    assert load_design(".").recipe == "Line(Complete(3))"


def test_foreign_files_are_never_touched(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(ValueError, match=r"other files \('notes.txt'\)"):
        save_design(SMALL, tmp_path / "d")
    assert os.listdir(tmp_path / "d") == ["notes.txt"]
    with pytest.raises(NotADirectoryError):
        save_design(SMALL, tmp_path / "d" / "notes.txt")


@pytest.mark.parametrize("fails", ["write_schedule", "json.dumps", "os.replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_an_earlier_design_survives_a_failing_save(tmp_path, monkeypatch, fails, error):
    save_design(SMALL, tmp_path / "d")
    before = {path.name: path.read_bytes() for path in (tmp_path / "d").iterdir()}

    def fail(*_args, **_kwargs):
        raise error

    room = "core.files.atomic" if fails == "os.replace" else "schedules.files.designs"
    monkeypatch.setattr(f"ocs_codesign.{room}.{fails}", fail)
    with pytest.raises(type(error)):
        save_design(build_topology(FAST), tmp_path / "d")
    monkeypatch.undo()
    assert {path.name: path.read_bytes() for path in (tmp_path / "d").iterdir()} == before
    assert os.listdir(tmp_path) == ["d"]


def test_files_are_written_all_or_none(tmp_path):
    one, other = tmp_path / "one", tmp_path / "none" / "other"
    one.write_bytes(b"old")
    with pytest.raises(FileNotFoundError) as caught:
        write_files({one: b"new", other: b"new"})
    assert caught.value.filename == str(other)
    assert one.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["one"]
    link = tmp_path / "link"
    link.symlink_to(one)
    write_files({link: b"new"})
    assert link.is_symlink()
    assert one.read_bytes() == b"new"


# Archives that numpy could write, but that are not schedules.

INT = np.int32
SENDS = ("root", "lo", "hi", "link", "step")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tail": None}, "tail is missing"),
        ({"num_chunks": None}, "num_chunks is missing"),
        ({"extra": np.zeros(1)}, "'extra.npy' is not an array of a schedule"),
        ({"root": np.array([{}, 1], dtype=object)}, "root"),
        ({"collective": np.array("allgather", dtype=object)}, "collective"),
        ({"root": np.zeros(3, dtype=INT)}, "lo has .* entries, but root has 3"),
        ({"lo": np.zeros((3, 3), dtype=INT)}, "lo has shape .* one-dimensional"),
        ({"lo": np.zeros((), dtype=INT)}, "lo has shape"),
        ({"num_chunks": np.ones(1, dtype=INT)}, "num_chunks has shape"),
        ({"step": np.ones(3)}, "step holds 'float64', not integers"),
        ({"step": np.ones(3, dtype=bool)}, "step holds 'bool'"),
        ({"step": np.ones(3, dtype="m8[s]")}, "step holds"),
        ({"step": np.ones(3, dtype=[("a", "i4")])}, "step"),
        ({"collective": np.array(1)}, "collective holds 'int64', not text"),
        ({"collective": np.array("broadcast")}, "unknown collective"),
        ({"collective": np.array("alltoall")}, "must be a multiple of the 6 units"),
        ({"collective": np.array("alltoall"), "num_chunks": np.array(9)}, "must be a multiple"),
        ({"collective": np.array("x" * 5000)}, "collective holds"),
        ({"collective": np.array("reduce-scatter"), "phase": np.zeros(24, dtype=INT)}, "phase"),
        ({"collective": np.array("allreduce")}, "phase"),
        ({"num_chunks": np.array(0)}, "num_chunks is 0"),
        ({"num_chunks": np.array(2**40)}, "num_chunks is"),
        ({"link_speed": np.zeros(12, dtype=np.int64)}, "link_speed must be positive"),
        ({"link_speed": np.ones(5, dtype=np.int64)}, "link_speed has 5 entries"),
        ({"tail": np.array([], dtype=INT), "head": np.array([], dtype=INT)}, "0 links"),
        ({"tail": np.array([0, 1], dtype=INT), "head": np.array([1, 2], dtype=INT)}, "3 nodes but"),
        ({"tail": np.array([0], dtype=INT), "head": np.array([2**31 - 1])}, "nodes but only 1"),
        ({"tail": np.full(12, -1), "head": np.full(12, -1)}, "num_nodes is 0"),
        ({"head": np.full(12, 2**63 - 1, dtype=np.uint64)}, "nodes but only"),
    ],
)
def test_archives_that_are_no_schedules(archive, changes, reason):
    path = archive(**changes)
    with pytest.raises(ValueError, match=f"s.npz.*{reason}"):
        load_design(path)


def test_last_step_is_bounded_by_the_sends(archive):
    step = SMALL.schedule.step.copy()
    step[-1] = 2**31 - 1
    with pytest.raises(ValueError, match="the last step is 2147483647, but there are only"):
        load_design(archive(step=step))


@pytest.mark.parametrize("dtype", ["int64", "uint16", ">i4", "u8", "i1"])
def test_other_integers_are_read(archive, dtype):
    columns = {name: getattr(SMALL.schedule, name).astype(dtype) for name in SENDS}
    assert load_design(archive(**columns)).schedule == SMALL.schedule


# Records.


def record_with(tmp_path, **changes):
    save_design(SMALL, tmp_path / "d")
    path = tmp_path / "d" / "design.json"
    record = {**json.loads(path.read_text(encoding="utf-8")), **changes}
    kept = {key: value for key, value in record.items() if value != "absent"}
    path.write_text(json.dumps(kept), encoding="utf-8")
    return tmp_path / "d"


COST = {"steps": 2, "t_b": "1", "t_b_float": 1.0}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"format": 3}, "format is 3: this version reads 1 and 2"),
        ({"format": 2}, "recipes is missing"),
        ({"format": "absent"}, "format is missing"),
        ({"recipe": 3}, "recipe must be a text or null"),
        ({"recipe": "absent"}, "recipe is missing"),
        ({"cost": "absent"}, "cost is missing"),
        ({"cost": 3}, "cost must be an object"),
        ({"cost": {**COST, "steps": True}}, "steps must be an integer"),
        ({"cost": {**COST, "steps": -1}}, "steps is out of range"),
        ({"cost": {**COST, "steps": 10**40}}, "steps is out of range"),
        ({"cost": {**COST, "t_b": 1}}, "t_b must be a text"),
        ({"cost": {**COST, "t_b": "1/0"}}, "t_b must be a fraction"),
        ({"cost": {**COST, "t_b": "1" * 5000}}, "t_b must be a fraction"),
        ({"cost": {**COST, "t_b": "1e9"}}, "t_b must be a fraction"),
        ({"cost": {**COST, "t_b_float": 0.5}}, "t_b_float is 0.5, but t_b is 1"),
        ({"max_load_per_step": "1"}, "must be a list of fractions"),
        ({"max_load_per_step": [1]}, "an entry of max_load_per_step must be a fraction"),
        ({"nodes": 7}, "not of this schedule: nodes is 7 there, 6"),
        ({"degree": 3}, "degree is 3 there, 2"),
        ({"num_sends": 0}, "num_sends is 0 there"),
        ({"num_chunks": 1.0}, "num_chunks must be an integer"),
        ({"collective": "allreduce"}, "collective is 'allreduce' there, 'allgather'"),
        ({"schedule": None}, "schedule must be a text"),
        ({"time_s": 1}, "'time_s' is no known key"),
        ({"cost": {**COST, "t_1": "1"}}, "'t_1' is no known key"),
    ],
)
def test_bad_records(tmp_path, changes, reason):
    with pytest.raises(ValueError, match=f"design.json.*{reason}"):
        load_design(record_with(tmp_path, **changes))


def test_a_key_given_twice_is_refused(tmp_path):
    path = record_with(tmp_path) / "design.json"
    text = path.read_text(encoding="utf-8").replace('"nodes"', '"degree": 2, "nodes"', 1)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"design\.json.*'degree' is given twice"):
        load_design(path.parent)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "line 1 is not JSON"),
        (b"{\n\n", "line 3 is not JSON"),
        (b"[]", "must be a JSON object"),
        (b"\xff\xfe\x00", "not UTF-8|not JSON"),
        (b'{"format": NaN}', "NaN is not a number"),
        (b"[" * 200_000, ""),
        (b'{"format": ' + b"9" * 5000 + b"}", ""),
    ],
)
def test_records_that_are_not_json(tmp_path, text, reason):
    save_design(SMALL, tmp_path / "d")
    (tmp_path / "d" / "design.json").write_bytes(text)
    with pytest.raises(ValueError, match=f"design.json.*{reason}"):
        load_design(tmp_path / "d")


@pytest.mark.parametrize("name", ["design.json", "schedule.npz"])
def test_missing_files(tmp_path, name):
    save_design(SMALL, tmp_path / "d")
    (tmp_path / "d" / name).unlink()
    with pytest.raises(FileNotFoundError) as caught:
        load_design(tmp_path / "d")
    assert f"no {name}" in str(caught.value.strerror)


FALSE = [
    ({"cost": {**COST, "steps": 1}}, "the claimed cost is 1 steps"),
    ({"cost": {**COST, "t_b": "1/2", "t_b_float": 0.5}}, "t_b 1/2, the sends take 2"),
    ({"max_load_per_step": ["2", "1"]}, "the claimed largest loads"),
    ({"max_load_per_step": []}, "the claimed largest loads"),
    ({"recipe": "Complete(3)"}, "not those of the claimed recipe Complete(3)"),
    ({"recipe": "DirectedCirculant(6, (1, 2))"}, "not those of the claimed recipe"),
    ({"recipe": "GeneralizedKautz(50, 2000000)"}, "not those of the claimed recipe"),
]


@pytest.mark.parametrize(("changes", "rule"), FALSE)
def test_claims_are_loaded_not_believed(tmp_path, changes, rule):
    witness = verify_design(load_design(record_with(tmp_path, **changes))).witness
    assert rule in str(witness)


CIRCUITS = ("plane", "up_link", "up_first", "up_last", "pauses")


@pytest.mark.parametrize("number", range(1, 2 ** len(CIRCUITS) - 1))
def test_columns_of_circuits_belong_together(number):
    """Whichever of them are missing, it is said in a sentence."""
    lengths = dict.fromkeys(("tail", "head", *SENDS), 3)
    lengths |= {name: 3 for place, name in enumerate(CIRCUITS) if number >> place & 1}
    with pytest.raises(ValueError, match=r"is missing: .* need"):
        _check(lengths)


def _check(lengths):
    LAYOUT.check_lengths(lengths)
    check_lengths(lengths)
