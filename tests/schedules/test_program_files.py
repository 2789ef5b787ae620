"""Programs on disk: the same value comes back, and nothing that is read is believed."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from program_samples import designs, halving_doubling
from small_design import SMALL, packed

from ocs_codesign.circuits.programs.designs import build_sequence
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.files.archive import read_archive, write_schedule
from ocs_codesign.schedules.files.designs import load_design, save_design, save_program
from ocs_codesign.verification.circuits import verify_program

RINGS = [parse("DirectedCirculant(6, (1,))"), parse("DirectedCirculant(6, (2,))")]
DESIGN = build_sequence(RINGS, steps_each=3)


def archived(design) -> bytes:
    content = io.BytesIO()
    write_schedule(content, design.schedule, design.program)
    return content.getvalue()


def test_programs_come_back(tmp_path):
    for number, design in enumerate(designs()):
        path = tmp_path / str(number)
        save_program(design, path)
        loaded = load_design(path)
        assert loaded.schedule == design.schedule
        assert loaded.circuits == design.program
        assert (loaded.claimed, loaded.recipe) == (design.cost, None)
        assert loaded.loads == design.verdict.max_loads
        claims = loaded.program
        assert claims.recipes == tuple(map(repr, design.recipes))
        assert claims.recipe_of_step == design.recipe_of_step
        assert claims.changes == design.verdict.changes
        assert claims.num_configurations == design.verdict.num_configurations
        assert claims.bound == design.bound
        bare = load_design(path / "schedule.npz")
        assert (bare.circuits, bare.program) == (design.program, None)


def test_the_same_design_gives_the_same_bytes(tmp_path):
    for name in ("one", "other"):
        save_program(halving_doubling(8, 2, overlap=True), tmp_path / name)
    one, other = (
        [path.read_bytes() for path in sorted((tmp_path / name).iterdir())]
        for name in ("one", "other")
    )
    assert one == other


def test_a_program_and_a_design_replace_each_other(tmp_path):
    save_design(SMALL, tmp_path / "d")
    save_program(DESIGN, tmp_path / "d")
    assert load_design(tmp_path / "d").program is not None
    save_design(SMALL, tmp_path / "d")
    assert load_design(tmp_path / "d").program is None


def test_schedules_that_stay_are_written_as_ever():
    """An archive without circuits has no arrays for them: what read it before reads it still."""
    with np.load(io.BytesIO(packed(SMALL.schedule))) as archive:
        assert not {"plane", "up_link", "up_first", "up_last", "pauses"} & set(archive.files)


def test_circuits_of_other_links_are_refused():
    with pytest.raises(ValueError, match="not those of the program's circuits"):
        write_schedule(io.BytesIO(), SMALL.schedule, DESIGN.program)


@pytest.fixture
def archive(tmp_path):
    def write(**changes):
        with np.load(io.BytesIO(archived(DESIGN))) as file:
            arrays = {**dict(file), **changes}
        path = tmp_path / "s.npz"
        np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
        return path

    return write


INT = np.int32
LINKS, ROWS = DESIGN.program.topology.num_links, len(DESIGN.program.link)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"plane": None}, "the array plane is missing: circuits that change need it"),
        ({"plane": np.zeros(3, dtype=INT)}, "plane has 3 entries, but tail has 12"),
        ({"plane": np.zeros(LINKS)}, "plane holds 'float64', not integers"),
        ({"plane": np.arange(LINKS) - 1}, "plane is -1 at position 0"),
        ({"plane": np.arange(LINKS) * 2**40}, "plane is 1099511627776 at position 1"),
        ({"plane": np.arange(LINKS) // 6 * 2}, "no circuit is of plane 1"),
        ({"up_link": np.zeros(3, dtype=INT)}, "up_first has 12 entries, but up_link has 3"),
        ({"up_link": np.full(ROWS, LINKS)}, "link is 12 at position 0: it is from 0 to 11"),
        ({"up_last": np.full(ROWS, 2**64 - 1, dtype=np.uint64)}, "last_step is 18446744073709551"),
        ({"pauses": np.array([], dtype=object)}, "pauses"),
        ({"pauses": np.array(4)}, "pauses has shape"),
    ],
)
def test_archives_that_are_no_programs(archive, changes, reason):
    path = archive(**changes)
    with pytest.raises(ValueError, match=rf"s\.npz.*{reason}"):
        load_design(path)


def record_with(tmp_path, **changes):
    save_program(DESIGN, tmp_path / "d")
    path = tmp_path / "d" / "design.json"
    record = {**json.loads(path.read_text(encoding="utf-8")), **changes}
    kept = {key: value for key, value in record.items() if value != "absent"}
    path.write_text(json.dumps(kept), encoding="utf-8")
    return tmp_path / "d"


CHANGE = {"step": 1, "plane": 0, "circuits": 6, "dark_steps": 0}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"format": 3}, "format is 3: this version reads 1 and 2"),
        ({"format": 1}, "'recipes' is no known key"),
        ({"bound": "1/2"}, "'bound' is no known key"),
        ({"changes": [{**CHANGE, "pause": 1}]}, "'pause' is no known key"),
        ({"recipes": "absent"}, "recipes is missing"),
        ({"recipes": [1, 2]}, "recipes must be a list of texts"),
        ({"recipes": []}, "recipe_of_step names a recipe that is none of the 0"),
        ({"recipe_of_step": [0, 2]}, "none of the 2"),
        ({"recipe_of_step": [True]}, "recipe_of_step must be a list of integers"),
        ({"configurations": -1}, "configurations is out of range"),
        ({"changes": [1]}, "changes must be a list of objects"),
        ({"changes": [{**CHANGE, "step": "1"}]}, "step must be an integer"),
        ({"changes": [{"step": 1}]}, "plane is missing"),
        ({"t_b_bound": "1/0"}, "t_b_bound must be a fraction"),
        ({"degree": 2}, "degree is 2 there, 1"),
    ],
)
def test_bad_records(tmp_path, changes, reason):
    with pytest.raises(ValueError, match=rf"design\.json.*{reason}"):
        load_design(record_with(tmp_path, **changes))


def test_a_record_of_circuits_beside_a_schedule_without(tmp_path):
    path = record_with(tmp_path)
    with (path / "schedule.npz").open("wb") as file:
        write_schedule(file, DESIGN.schedule)
    record = json.loads((path / "design.json").read_text(encoding="utf-8"))
    record["degree"] = DESIGN.program.topology.degree
    (path / "design.json").write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(ValueError, match="of format 2, but there are no circuits in schedule"):
        load_design(path)


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4))
def test_mutated_archives_are_read_or_refused(tmp_path_factory, changes):
    data = bytearray(archived(DESIGN))
    for at, value in changes:
        data[at % len(data)] = value
    path = tmp_path_factory.getbasetemp() / "mutated_program.npz"
    path.write_bytes(bytes(data))
    try:
        archive = read_archive(path)
    except (ValueError, MemoryError) as error:
        assert str(error)  # noqa: PT017 - both outcomes are right
    else:
        if archive.circuits is not None:
            verify_program(archive.circuits, archive.schedule)
