"""Plans and programs in our own formats: both ways, the golden file, and what is refused."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from folders import DATA, ROOT
from plan_samples import plans, same
from program_by_hand import ring_schedule

from ocs_codesign.core.files import npz as array_json
from ocs_codesign.core.network import Network
from ocs_codesign.interop.lowering.lowering import lower
from ocs_codesign.interop.native import (
    TWINS,
    parse_json,
    plan_json,
    program_json,
    read_json,
    read_native_archive,
    write_archive,
    write_json,
    write_program_archive,
    write_program_json,
)
from ocs_codesign.interop.registry import Export
from ocs_codesign.verification.schedules import verify

GOLDEN = DATA / "golden" / "ring4.json"
every_plan = pytest.mark.parametrize("name", plans())
every_direct = pytest.mark.parametrize("name", [name for name in plans() if name != "switch"])


def export(name: str) -> Export:
    plan = plans()[name]
    program = lower(plans()["allgather"] if name == "switch" else plan)
    return Export("it", plan, program, Network(1, 1, [], [], []))


def test_the_golden_ring():
    plan = read_json(GOLDEN)
    assert plan == ring_schedule(4)
    assert plan_json(plan) == GOLDEN.read_bytes()
    assert verify(plan).ok


def written(tmp_path, contents):
    ((name, content),) = contents.items()
    (tmp_path / name).write_bytes(content)
    return tmp_path / name


@every_plan
def test_plans_both_ways(name, tmp_path):
    plan = plans()[name]
    assert same(read_json(written(tmp_path, write_json(export(name)))), plan)
    assert same(read_native_archive(written(tmp_path, write_archive(export(name)))), plan)


@every_direct
def test_programs_both_ways(name, tmp_path):
    one = export(name)
    assert read_json(written(tmp_path, write_program_json(one))) == one.program
    assert read_native_archive(written(tmp_path, write_program_archive(one))) == one.program


@every_plan
def test_the_twins_have_the_same_names_for_the_same_values(name):
    ((_, archive),) = write_archive(export(name)).items()
    record = json.loads(plan_json(plans()[name]))
    with np.load(io.BytesIO(archive), allow_pickle=False) as arrays:
        assert {key: arrays[key].tolist() for key in arrays} == {
            key: value
            for key, value in record.items()
            if key not in ("format", "version", "num_nodes")
        }


def ring(**changes):
    record = json.loads(GOLDEN.read_bytes()) | changes
    return json.dumps({key: value for key, value in record.items() if value is not None}).encode()


BAD = {
    "no object": (b"[]", "this is no object whose format is ocs-schedule or"),
    "no JSON": (b"{", "this is not JSON"),
    "a format of others": (ring(format="x"), "this is no object whose format is"),
    "a list as format": (ring(format=["ocs-schedule"]), "this is no object whose format is"),
    "a new version": (ring(version=2), "version is 2: this reads 1"),
    "a true version": (ring(version=True), "version is True"),
    "no version": (ring(version=None), "version is None"),
    "an unknown key": (ring(steps=3), "'steps' is no key of a schedule: known are num_nodes"),
    "no links": (ring(tail=None), "tail is missing"),
    "no number of nodes": (ring(num_nodes=None), "num_nodes is missing"),
    "too many nodes": (ring(num_nodes=5), "num_nodes is 5, but links name nodes to 3"),
    "a text as a column": (ring(step="1"), "step is '1': it must be a list of whole numbers"),
    "fractions": (ring(step=[0.5] * 12), "step has 0.5: it must be a whole number"),
    "truths": (ring(step=[True] * 12), "step has True: it must be a whole number"),
    "a list in a list": (ring(step=[[1]] * 12), r"step has \[1\]: it must be a whole number"),
    "a list as number": (ring(num_chunks=[1]), r"num_chunks is \[1\]: it must be a whole number"),
    "null": (ring(collective=0), "collective is 0: it must be a short text"),
    "a long collective": (ring(collective="x" * 99), "it must be a short text"),
    "an unknown collective": (ring(collective="gossip"), "unknown collective 'gossip'"),
    "a beyond number": (ring(num_chunks=2**63), "num_chunks has a number beyond 64 bits"),
    "a huge number": (b'{"version": ' + b"9" * 50 + b"}", "at most 40 digits"),
    "columns of two lengths": (ring(step=[1]), "the array step has 1 entries, but root has 12"),
    "a step too late": (ring(step=[1] * 11 + [99]), "the last step is 99"),
    "a link that is not": (ring(link=[7] * 12), "send 0: link is 7, but links are 0 to 3"),
    "chunks too many": (ring(hi=[2] * 12), "hi is 2, but item 0 has 1 chunks"),
    "half a circuit": (ring(plane=[0] * 4), "the array up_link is missing"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files(case):
    data, rule = BAD[case]
    with pytest.raises(ValueError, match=rule) as caught:
        parse_json(data, "bad.json")
    assert str(caught.value).startswith("bad.json")
    assert len(str(caught.value)) < 500


def swap(**changes):
    record = json.loads(program_json(lower(ring_schedule(3)))) | changes
    return json.dumps({key: value for key, value in record.items() if value is not None}).encode()


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (swap(in_place=2), "in_place is 2: it is 0 or 1"),
        (swap(scratch=[0] * 4000), "4000 ranks, but"),
        (swap(scratch=[]), "0 ranks, but"),
        (swap(kind=None), "kind is missing: this is not a program of ranks"),
        (swap(need=[5]), "it needs earlier operations|need_start says where"),
        (swap(collective="custom"), "demand_kind is missing: a custom collective needs it"),
        (swap(chunks_per_unit=0), "chunks_per_unit is 0"),
    ],
)
def test_bad_programs(data, rule):
    with pytest.raises(ValueError, match=rule):
        parse_json(data, "bad.json")


def test_an_all_to_all_of_too_many_hosts_takes_no_memory():
    hosts = 20_000
    record = {
        "format": "ocs-schedule",
        "version": 1,
        "collective": "alltoall",
        "num_nodes": hosts,
        "num_chunks": hosts,
        "tail": list(range(hosts)),
        "head": [*range(1, hosts), 0],
        **{key: [1] for key in ("root", "hi", "link", "step")},
        "lo": [0],
    }
    with pytest.raises(ValueError, match="20000 hosts: an all-to-all has at most"):
        parse_json(json.dumps(record).encode(), "big.json")


def test_what_is_too_large_for_json_says_so(monkeypatch):
    monkeypatch.setattr(array_json, "MAX_JSON_BYTES", 200)
    with pytest.raises(ValueError, match="npz has no such limit"):
        plan_json(ring_schedule(4))
    with pytest.raises(ValueError, match="0 MiB are not read"):
        parse_json(GOLDEN.read_bytes(), "ring")


def test_archives_that_are_none(tmp_path):
    path = tmp_path / "x.npz"
    path.write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(ValueError, match="is not a readable npz archive"):
        read_native_archive(path)
    with pytest.raises(OSError, match="No such file"):
        read_native_archive(tmp_path / "missing.npz")


@pytest.mark.parametrize("form", TWINS)
def test_the_published_schemas_name_all_keys(form):
    file = form.removeprefix("ocs-")
    schema = json.loads((ROOT / f"docs/formats/{file}.schema.json").read_text())
    twin = TWINS[form]
    known = {"format", "version", *twin.extra, *twin.layout.names}
    assert set(schema["properties"]) == known
    assert schema["properties"]["format"]["const"] == form
    assert set(schema["required"]) == {"format", "version", *twin.extra, *twin.layout.required}
    assert schema["additionalProperties"] is False
    for key, value in schema["properties"].items():
        if key in twin.layout.columns:
            assert (value["type"], value["items"]["type"]) == ("array", "integer"), key
