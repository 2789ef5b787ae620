"""Files of strangers: spoiled programs are caught, and nonsense is one sentence, never a crash."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from folders import DATA
from msccl_samples import plans, spoiled_plan, spoiled_xml
from rank_program_oracle import StuckError, UncleanError, run

from ocs_codesign.interop.lowering.lowering import lower
from ocs_codesign.interop.msccl.programs import parse_msccl
from ocs_codesign.interop.msccl.write import write_msccl
from ocs_codesign.interop.mscclpp.programs import parse_mscclpp
from ocs_codesign.interop.mscclpp.write import write_mscclpp
from ocs_codesign.verification.rank_programs import check_program

GOLDEN = DATA / "golden"
DEPTH = 2
FORMATS = {
    "msccl": (write_msccl, parse_msccl, spoiled_xml, "ring4.msccl.xml"),
    "mscclpp": (write_mscclpp, parse_mscclpp, spoiled_plan, "ring4.mscclpp.json"),
}


def verdict_of(text, parse) -> str:
    """What becomes of a file; an error unless what is accepted is right whenever it runs."""
    try:
        program = parse(text.encode(), "spoiled")
    except ValueError as error:
        told = str(error)
    else:
        told = ""
    if told:
        assert told.startswith("spoiled")
        assert "\n" not in told
        return "refused"
    if not check_program(program, fifo_depth=DEPTH).ok:
        return "caught"
    for seed in range(3):
        try:
            assert run(program, seed, DEPTH), text
        except (StuckError, UncleanError) as error:
            pytest.fail(f"{error}: {text}")
    return "harmless"


def spoiled(name, samples, each, seed):
    write, parse, spoil, _ = FORMATS[name]
    random = np.random.default_rng(seed)
    found: Counter[str] = Counter()
    for _, make in samples:
        program = lower(make())
        try:
            text = write(program, "sample")
        except ValueError:
            continue
        for _ in range(each):
            other = spoil(text, random)
            if other != text:
                found[verdict_of(other, parse)] += 1
    return found


@pytest.mark.parametrize("name", FORMATS)
def test_what_changes_the_result_is_caught(name):
    small = [(label, make) for label, make in plans() if "(1, 4)" in label or "(2, 3)" in label]
    found = spoiled(name, small, 15, 1)
    assert found["caught"] + found["refused"] > 40


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_hundreds_that_change_the_result_are_caught(name):
    found = spoiled(name, list(plans()), 20, 10)
    assert found["caught"] + found["refused"] > found["harmless"]
    assert found.total() > 600


def fuzzed(data: bytes, random) -> bytes:
    """A content with some bytes changed, lost or doubled, or pieces of the format put in."""
    content = bytearray(data)
    for _ in range(int(random.integers(1, 5))):
        at = int(random.integers(len(content)))
        way = int(random.integers(6))
        end = min(len(content), at + int(random.integers(1, 40)))
        if way == 0:
            content[at] = int(random.integers(256))
        elif way == 1:
            del content[at:end]
        elif way == 2:
            content[at:at] = content[at:end]
        elif way == 3:
            digits = str(int(random.choice([-1, 0, 3, 71, 999, 2**31, 2**63, 10**25])))
            content[at : at + 1] = digits.encode()
        elif way == 4:
            words = [b"null", b"true", b"[[", b"{}", b"<tb>", b'"', b"&amp;", b"\xff", b"1e9", b"s"]
            content[at:at] = words[int(random.integers(len(words)))]
        else:
            content[at:at] = bytes(content[: int(random.integers(200))])
    return bytes(content)


def fuzz(name, times, seed):
    _, parse, _, golden = FORMATS[name]
    data = (GOLDEN / golden).read_bytes()
    random = np.random.default_rng(seed)
    read = 0
    for _ in range(times):
        try:
            told = f"fuzzed {parse(fuzzed(data, random), 'fuzzed')}"
            read += 1
        except ValueError as error:
            told = str(error)
        assert told.startswith("fuzzed")
    return read


@pytest.mark.parametrize("name", FORMATS)
def test_nonsense_is_refused(name):
    assert fuzz(name, 300, 2) < 300


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_thousands_of_nonsense_are_refused(name):
    assert fuzz(name, 5000, 3) < 5000


HOSTILE = [
    b'<!DOCTYPE a [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]><algo name="&b;"/>',
    b'<?xml version="1.0" encoding="utf-7"?><algo/>',
    b"<algo>" * 10_000,
    b'<algo name="x" proto="Simple" nchannels="1" nchunksperloop="1" ngpus="2147483647" '
    b'coll="allgather"/>',
    b'<algo name="x" proto="Simple" nchannels="1" nchunksperloop="1" ngpus="0" coll="x"/>',
    b"",
    b"\x00" * 100,
]


@pytest.mark.parametrize("data", HOSTILE)
def test_hostile_xml_is_refused(data):
    with pytest.raises(ValueError, match=r"^x"):
        parse_msccl(data, "x")


@pytest.mark.parametrize(
    "data", [b"[" * 100_000, b'{"gpus": ' * 1000, b"{}", b"[]", b'{"a": 1, "a": 2}', b"", b"\xff"]
)
def test_hostile_json_is_refused(data):
    with pytest.raises(ValueError, match=r"^x"):
        parse_mscclpp(data, "x")
