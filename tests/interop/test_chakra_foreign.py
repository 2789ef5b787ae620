"""Chakra traces as strangers have them: rooflines, processors, groups, metadata, missing nodes."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction
from pathlib import Path

import pytest
from folders import DATA

from ocs_codesign.core.cost import CostModel
from ocs_codesign.faces.cli import main
from ocs_codesign.interop.chakra import schema
from ocs_codesign.interop.chakra.jobs import PROCESSOR, load_chakra_job
from ocs_codesign.interop.chakra.reading import MISSING, delimited
from ocs_codesign.jobs.files.job_files import GivenMachine, accelerator_of, load_job
from ocs_codesign.jobs.issue import steady

FILES = DATA / "foreign" / "et"
CHIP = accelerator_of("989TFLOPS,3350GB/s")
KNOWN = {
    # Nanoseconds of an iteration by alpha-beta at 2 us and 50 GB/s, and of every rank's computing.
    "rooftwo": (1505490, [159312] * 2),
    "rooftwo_small": (168555, [159312] * 2),
    "overlap": (2158410, [222256] * 4),
    "p2p_chain": (717658, [100000, 110000, 120000, 130000]),
    "p2p_chain6": (1179430, [100000, 110000, 120000, 130000, 140000, 150000]),
    "mixed_zero": (12374, [12374] * 2),
    "groups": (90943, [15000, 25000, 35000, 45000]),
    "cpu_side": (110000, [50000] * 2),
}
ASTRA_SIM = {
    **{"rooftwo": 1535539, "overlap": 2203494, "groups": 91921, "rooftwo_small": 168674},
    **{"p2p_chain": 717658, "p2p_chain6": 1179430, "cpu_side": 110000},
}
"""What it says itself: it adds what sums in memory take, 1 to 3 % where there are any."""


def done(path, *, ignore=(), chip=CHIP):
    given = GivenMachine(CostModel(2e-6, 50e9), accelerator=chip, ignore=ignore)
    return steady(load_job(path, given).graph)


@pytest.mark.parametrize("name", KNOWN)
def test_known_traces(name):
    found = done(FILES / name)
    iteration, computing = KNOWN[name]
    assert round(found.period_s * 10**9) == pytest.approx(iteration, abs=1)
    ranks = len(computing)
    nanoseconds = found.job_run.compute_ticks() * found.job_run.graph.tick_s * 10**9
    assert nanoseconds.tolist()[:ranks] == computing
    if name in ASTRA_SIM:
        assert float(found.period_s * 10**9) == pytest.approx(ASTRA_SIM[name], rel=0.03)


def test_processors_run_beside_accelerators():
    """In turn on one resource it would be 140 us; without them it is 50."""
    assert done(FILES / "cpu_side").period_s == Fraction(110, 10**6)
    job = load_chakra_job(FILES / "cpu_side")
    assert job.ranks.tolist() == [1, 1, 0, 0]
    assert done(FILES / "cpu_side", ignore=(PROCESSOR,)).period_s == Fraction(50, 10**6)


def test_work_without_an_accelerator_is_refused(capsys):
    asked = ["iterate", str(FILES / "rooftwo"), "--alpha", "2us", "--bandwidth", "50GB/s"]
    assert main(asked) == 2
    assert "--accelerator says what takes it" in capsys.readouterr().err
    assert main([*asked, "--accelerator", "h100"]) == 0
    capsys.readouterr()
    assert main([*asked, "--accelerator", "abacus"]) == 2
    assert "abacus" in capsys.readouterr().err


def test_groups_are_those_of_the_file_beside(tmp_path):
    shutil.copytree(FILES / "groups", tmp_path / "t")
    path = tmp_path / "t"
    same = load_chakra_job(path)
    (path / "t.json").write_text(json.dumps({"5": [0, 1], "6": [2, 3]}))
    with pytest.raises(ValueError, match="names group '6', which it is not in"):
        load_chakra_job(path)
    (path / "t.json").write_text(json.dumps({"5": "0,2"}))
    with pytest.raises(ValueError, match="group '5' is '0,2': a list of ranks"):
        load_chakra_job(path)
    (path / "t.json").unlink()
    assert load_chakra_job(path).group_size.tolist() == same.group_size.tolist()


def trace(*nodes: dict) -> bytes:
    classes = schema.schema()
    content = [classes.metadata(version="0.0.4")]
    for node in nodes:
        attributes = [
            classes.attribute(name=name, **{kind: value})
            for name, (kind, value) in node.pop("attr", {}).items()
        ]
        content.append(classes.node(attr=attributes, **node))
    return b"".join(delimited(each.SerializeToString()) for each in content)


def written(folder: Path, *nodes: dict) -> Path:
    (folder / "t.0.et").write_bytes(trace(*nodes))
    return folder / "t.0.et"


def test_metadata_passes_on_who_waits(tmp_path):
    """Also records of calls on the processor, which say no kind of collective."""
    on_cpu = {"attr": {"is_cpu_op": ("bool_val", True)}}
    path = written(
        tmp_path,
        {"id": 1, "name": "n" * 567, "type": schema.COMP, "duration_micros": 5},
        {"id": 2, "name": "what", "type": schema.METADATA, "data_deps": [1]},
        {"id": 3, "name": "c10d", "type": schema.COLL, "ctrl_deps": [2], **on_cpu},
        {"id": 4, "name": "b", "type": schema.COMP, "duration_micros": 7, "data_deps": [3]},
        {"id": 5, "name": "c", "type": schema.COMP, "duration_micros": 1},
    )
    job = load_chakra_job(path)
    assert job.num_nodes == 3
    assert [part.tolist() for part in job.edges()] == [[0], [1]]


def test_circles_of_metadata_are_refused(tmp_path):
    path = written(
        tmp_path,
        {"id": 1, "name": "a", "type": schema.METADATA, "data_deps": [2]},
        {"id": 2, "name": "b", "type": schema.METADATA, "data_deps": [1]},
        {"id": 3, "name": "c", "type": schema.COMP, "data_deps": [2]},
    )
    with pytest.raises(ValueError, match="waits for itself"):
        load_chakra_job(path)


def test_missing_dependencies_are_counted_and_may_be_ignored(tmp_path, capsys):
    path = written(
        tmp_path,
        {"id": 1, "name": "a", "type": schema.COMP, "duration_micros": 5, "data_deps": [77, 78]},
        {"id": 2, "name": "b", "type": schema.COMP, "duration_micros": 5, "ctrl_deps": [1, 79]},
    )
    assert main(["iterate", str(path)]) == 2
    assert "(3 such waits: --ignore missing-dependencies" in capsys.readouterr().err
    assert main(["iterate", str(path), "--ignore", "missing-dependencies"]) == 0
    assert "10 us" in capsys.readouterr().out
    assert load_chakra_job(path, ignore=(MISSING,)).num_nodes == 2


def test_collectives_of_one_rank_take_no_time(tmp_path):
    path = written(
        tmp_path,
        {"id": 1, "name": "a", "type": schema.COMP, "duration_micros": 5},
        {
            **{"id": 2, "name": "sum", "type": schema.COLL, "data_deps": [1]},
            "attr": {"comm_type": ("int64_val", 0), "comm_size": ("int64_val", 2**20)},
        },
        {"id": 3, "name": "b", "type": schema.COMP, "duration_micros": 5, "data_deps": [2]},
    )
    job = load_chakra_job(path)
    assert [part.tolist() for part in job.edges()] == [[0], [1]]


@pytest.mark.parametrize(("parts", "is_even"), [("[4, 4]", True), ("[]", True), ("[8, 0]", False)])
def test_unequal_parts_are_not_read_as_equal_ones(tmp_path, parts, is_even):
    attributes = {
        "comm_type": ("int64_val", schema.COMM_TYPES.index("alltoall")),
        "comm_size": ("int64_val", 8),
        "in_split_size": ("string_val", parts),
    }
    path = written(
        tmp_path,
        {"id": 1, "name": "a", "type": schema.COMP, "duration_micros": 5},
        {"id": 2, "name": "x", "type": schema.COLL, "attr": attributes, "data_deps": [1]},
    )
    if is_even:
        assert load_chakra_job(path).num_nodes == 1
        return
    with pytest.raises(ValueError, match=r"node 2: in_split_size is .* unequal parts"):
        load_chakra_job(path)
