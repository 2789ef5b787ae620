"""Files of programs that mean harm: whatever the bytes, a value or a ValueError, and soon."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from folders import DATA
from plan_samples import plans

from ocs_codesign.core.files.npz import write_npz
from ocs_codesign.interop.chakra import reading, schema
from ocs_codesign.interop.chakra.check import check_graph
from ocs_codesign.interop.chakra.making import graph_of_program
from ocs_codesign.interop.chakra.reading import delimited, write_graph
from ocs_codesign.interop.lowering.lowering import lower
from ocs_codesign.interop.native import (
    parse_json,
    plan_json,
    program_arrays,
    program_json,
    read_native_archive,
)
from ocs_codesign.interop.nccl.graph import graph_text, parse_graph_file
from ocs_codesign.interop.nccl.tuner import parse_tuner
from ocs_codesign.interop.sends_csv import parse_sends

GOLDEN = DATA / "golden"
RULES = b"allgather,0,99,ring,simple,2,1,4,-1,-1\nallreduce,0,5000,tree,ll,8,-1,4\n"
SENDS = (
    b'# {"collective": "allgather", "num_nodes": 3, "num_chunks": 1}\n'
    b"step,source,target,item,lo,hi\n1,0,1,0,0,1\n1,1,2,1,0,1\n1,2,0,2,0,1\n2,0,1,2,0,1\n"
    b"2,1,2,0,0,1\n2,2,0,1,0,1\n"
)
INSERTED = (
    *(b"", b"-1", b"0", b"99999999999999999999", b"\xff\xff\xff\xff\x0f", b"\x00", b"{", b"[["),
    *(b'"', b"\n", b",", b";", b"1e99", b"null", b"\x80" * 12, b"<!--", b"]", b"4294967296"),
    *(b"-9223372036854775808", b"2147483647", b"NaN", b"#", b"\xef\xbb\xbf", b"<gpu/>"),
)
JSON_PLANS = ("all-to-all", "weighted", "custom", "ring allreduce")


def archive_of(path: Path, data: bytes):
    path.write_bytes(data)
    return read_native_archive(path)


def traces(data: bytes):
    others = {name: (GOLDEN / f"ring4.{name}.et").read_bytes() for name in (1, 2, 3)}
    files = {0: ("x.0.et", data)} | {rank: (f"x.{rank}.et", more) for rank, more in others.items()}
    return check_graph(reading.parse_graph(files))


@cache
def packed_program() -> bytes:
    file = io.BytesIO()
    write_npz(file, program_arrays(lower(plans()["ring allgather"])))
    return file.getvalue()


@cache
def originals() -> dict[str, tuple[bytes, ...]]:
    switched = graph_of_program(lower(plans()["allreduce over parallel links"]), 1000)
    return {
        "chakra": ((GOLDEN / "ring4.0.et").read_bytes(), write_graph(switched, "x")["x.0.et"]),
        "json": tuple(
            plan_json(plans()[name])
            for name in ("all-to-all", "weighted", "custom", "ring allreduce")
        ),
        "program": (program_json(lower(plans()["allreduce over parallel links"])),),
        "csv": (SENDS,),
        "graph": (graph_text([[0, 1, 2, 3], [0, 2, 1, 3]]).encode(),),
        "tuner": (RULES,),
        "npz": (packed_program(),),
    }


READERS = {
    "chakra": traces,
    "json": lambda data: parse_json(data, "x"),
    "program": lambda data: parse_json(data, "x"),
    "csv": lambda data: parse_sends(data, "x"),
    "graph": lambda data: parse_graph_file(data, "x"),
    "tuner": lambda data: parse_tuner(data, "x"),
}


def mutated(random: np.random.Generator, data: bytes) -> bytes:
    """Bytes with a few things done to them: bits turned, pieces cut, doubled, moved, put in."""
    for _ in range(int(random.integers(1, 4))):
        at = int(random.integers(0, len(data) + 1))
        end = min(len(data), at + int(random.integers(1, 40)))
        match int(random.integers(0, 7)):
            case 0:
                data = data[:at] + bytes([int(random.integers(0, 256))]) + data[at + 1 :]
            case 1:
                data = data[:at] + data[end:]
            case 2:
                data = data[:end] + data[at:end] * int(random.integers(1, 5)) + data[end:]
            case 3:
                data = data[:at]
            case 4:
                to = int(random.integers(0, len(data) + 1))
                data = data[:to] + data[at:end] + data[to:]
            case 5:
                data = data[:at] + INSERTED[int(random.integers(0, len(INSERTED)))] + data[end:]
            case _:
                digits = str(int(random.integers(0, 2 ** int(random.integers(1, 63)))))
                data = data[:at] + digits.encode() + data[at + 1 :]
    return data


def refusal(read, data: bytes) -> str | None:
    """Why bytes are refused, None if they are read."""
    try:
        read(data)
    except ValueError as error:
        return str(error)
    return None


def torment(kind: str, seed: int, times: int, read) -> int:
    """Read so many mutants; how many were refused. Anything but a ValueError is a failure."""
    random = np.random.default_rng(seed)
    samples, refused = originals()[kind], 0
    for _ in range(times):
        data = mutated(random, samples[int(random.integers(0, len(samples)))])
        told = refusal(read, data)
        assert told is None or 0 < len(told) < 1000
        refused += told is not None
    return refused


@pytest.mark.parametrize("kind", READERS)
def test_mutants_are_read_or_refused(kind):
    assert torment(kind, 1, 50, READERS[kind]) > 5


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.slow
def test_thousands_of_mutants_are_read_or_refused(kind):
    assert torment(kind, 2, 1500, READERS[kind]) > 100


def test_mutants_of_archives_are_read_or_refused(tmp_path):
    assert torment("npz", 3, 50, lambda data: archive_of(tmp_path / "x.npz", data)) > 5


@pytest.mark.slow
def test_thousands_of_mutants_of_archives_are_read_or_refused(tmp_path):
    assert torment("npz", 4, 1500, lambda data: archive_of(tmp_path / "x.npz", data)) > 100


@pytest.mark.parametrize("kind", READERS)
def test_noise_is_refused(kind):
    random = np.random.default_rng(6)
    for length in (0, 1, 2, 7, 100, 5000):
        with pytest.raises(ValueError, match="x"):
            READERS[kind](random.bytes(length))


def node(**values) -> bytes:
    return delimited(schema.schema().node(**values).SerializeToString())


def send(number=1, **values):
    attributes = {"comm_size": 4, "comm_dst": 1, "comm_tag": 0} | values
    one = schema.schema().node(id=number, type=schema.SEND)
    for name, value in attributes.items():
        if value is None:
            continue
        field = {int: "int64_val", float: "double_val", str: "string_val"}[type(value)]
        one.attr.add(name=name, **{field: value})
    return delimited(one.SerializeToString())


HEAD = b"\x07\x0a\x050.0.4"
BAD_TRACES = {
    "nothing": (b"", "the file is empty"),
    "no node": (HEAD, "there is no node: ASTRA-sim aborts"),
    "cut off": (HEAD + b"\x05\x08", "a message of 5 bytes is cut off"),
    "a long length": (HEAD + b"\xff" * 9, "the length of a message is cut off or too long"),
    "a huge length": (HEAD + b"\xff\xff\xff\xff\x0f", "is cut off or longer than"),
    "no schema": (HEAD + b"\x02\xff\xff", "message 1 is none of Chakra's schema"),
    "no text": (HEAD + node(id=1, type=4) + b"\x04\x12\x02\xff\xfe", "is none of Chakra's schema"),
    "an unknown type": (HEAD + node(id=1, type=9), "node 1: type 9"),
    "no type": (HEAD + node(id=1), "node 1: type 0"),
    "two of an id": (HEAD + node(id=1, type=4) * 2, "two nodes have the id 1"),
    "a foreign wait": (HEAD + node(id=1, type=4, data_deps=[7]), "node 1 waits for 7, which"),
    "no root": (HEAD + node(id=1, type=4, ctrl_deps=[1]), "every node waits for another"),
    "a huge id": (HEAD + node(id=2**63, type=4), "ids and times are below 2"),
    "a huge time": (HEAD + node(id=1, type=4, duration_micros=2**64 - 1), "ids and times"),
    "a long name": (HEAD + node(id=1, type=4, name="x" * 9999), "a name of more than 4096"),
    "no size": (HEAD + send(comm_size=None), "node 1: comm_size is missing"),
    "a size 0": (HEAD + send(comm_size=0), "node 1: comm_size is 0"),
    "a negative size": (HEAD + send(comm_size=-4), "node 1: comm_size is -4"),
    "a float": (HEAD + send(comm_size=4.0), "comm_size is double: ASTRA-sim takes integers only"),
    "a text": (HEAD + send(comm_tag="4"), "comm_tag is string: ASTRA-sim takes integers only"),
    "no peer": (HEAD + send(comm_dst=None), "node 1: comm_dst is missing"),
    "a peer too far": (HEAD + send(comm_dst=4), "node 1: comm_dst is 4: it is from 0 to 3"),
    "to itself": (HEAD + send(comm_dst=0), "node 1: comm_dst is 0, its own rank"),
    "of another": (HEAD + send(comm_src=2), "comm_src is 2, but this is the trace of rank 0"),
    "a huge tag": (HEAD + send(comm_tag=2**31), "node 1: comm_tag is 2147483648"),
    "a collective of no type": (HEAD + node(id=1, type=7), "node 1: comm_type is missing"),
}


@pytest.mark.parametrize("case", BAD_TRACES)
def test_traces_on_which_astra_sim_aborts(case):
    data, rule = BAD_TRACES[case]
    with pytest.raises(ValueError, match=rule) as caught:
        traces(data)
    assert str(caught.value).startswith("x.0.et: ")


def test_what_is_given_twice_is_refused():
    one = schema.schema().node(id=1, type=schema.SEND)
    for _ in range(2):
        one.attr.add(name="comm_size", int64_val=4)
    with pytest.raises(ValueError, match="comm_size is given twice"):
        traces(HEAD + delimited(one.SerializeToString()))


def test_traces_of_others_may_leave_out_what_astra_sim_knows():
    sends = [HEAD + send(), HEAD + send(comm_dst=0, comm_tag=1)]
    for rank, data in enumerate(sends):
        one = schema.schema().node(id=9, type=schema.RECV)
        other = {"comm_size": 4, "comm_src": 1 - rank, "comm_tag": 1 - rank}
        for name, value in other.items():
            one.attr.add(name=name, sint32_val=value)
        sends[rank] = data + delimited(one.SerializeToString())
    graph = reading.parse_graph({rank: (str(rank), data) for rank, data in enumerate(sends)})
    assert check_graph(graph).ok


@pytest.mark.parametrize(
    ("names", "rule"),
    [
        ((), "0 sets of traces"),
        (("a.0.et", "b.0.et"), "2 sets of traces: name one of them"),
        (("a.0.et", "a.2.et"), r"2 traces, but no a\.1\.et: ranks count from 0"),
        (("a.1.et",), r"1 traces, but no a\.0\.et"),
    ],
)
def test_sets_of_traces_that_are_none(names, rule, tmp_path):
    for name in names:
        (tmp_path / name).write_bytes((GOLDEN / "ring4.0.et").read_bytes())
    with pytest.raises(ValueError, match=rule):
        reading.read_graph(tmp_path)


def test_names_of_traces(tmp_path):
    with pytest.raises(ValueError, match=r"a trace is called PREFIX\.RANK\.et"):
        reading.read_graph(tmp_path / "trace.et")
    with pytest.raises(FileNotFoundError):
        reading.read_graph(tmp_path / "x.0.et")


def test_limits_of_traces(monkeypatch):
    monkeypatch.setattr(reading, "MAX_NODES", 3)
    with pytest.raises(ValueError, match="more than 3 nodes are not read"):
        traces((GOLDEN / "ring4.0.et").read_bytes())
    monkeypatch.setattr(reading, "MAX_NODES", 99)
    monkeypatch.setattr(reading, "MAX_WAITS", 3)
    with pytest.raises(ValueError, match="more than 3 waits are not read"):
        traces((GOLDEN / "ring4.0.et").read_bytes())
