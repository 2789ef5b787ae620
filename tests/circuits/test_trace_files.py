"""Trace files: CSV and JSON say the same; every error names the file, the place and the rule."""

from __future__ import annotations

import json
from contextlib import suppress
from fractions import Fraction
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocs_codesign.circuits.legs.trace import MAX_JOBS, Job, Trace
from ocs_codesign.circuits.step_files import parse_trace, read_trace
from ocs_codesign.core.collective import WITHOUT_PARAMETERS

read_csv_trace, read_json_trace = (partial(parse_trace, is_json=kind) for kind in (False, True))

CSV = """\
# a step of training
collective, message, gap, gap_after, count
allreduce, 64MiB, 1.5ms, , 2

"all-to-all", 1 GB, , 20us,
"""
JOBS = [
    {"collective": "allreduce", "message": "64MiB", "gap": "1.5ms", "count": 2},
    {"collective": "all-to-all", "message": "1 GB", "gap_after": "20us"},
]
TRACE = Trace(
    [
        Job("allreduce", 2**26, gap_before_s=Fraction(3, 2000), count=2),
        Job("alltoall", 10**9, gap_after_s=Fraction(1, 50_000)),
    ]
)


def written(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", CSV),
        ("t.csv", "\ufeff" + CSV.replace("\n", "\r\n")),
        ("t.txt", CSV),
        ("t.tsv", CSV.replace(", ", "\t").replace(",", "\t")),
        ("t.json", json.dumps(JOBS)),
        ("trace", "\n " + json.dumps({"jobs": JOBS}, indent=1)),
        ("t.json", b"\xef\xbb\xbf" + json.dumps(JOBS).encode()),
    ],
)
def test_every_form_is_the_same_trace(tmp_path, name, content):
    assert read_trace(written(tmp_path, name, content)) == TRACE


def test_plain_numbers_and_repetitions():
    text = b"Collective,Message-bytes,gap s,gap_after_s\nallgather,0.5,1e-3,2\n"
    job = Job("allgather", 0.5, gap_before_s=1e-3, gap_after_s=2)
    assert read_csv_trace(text, "t") == Trace([job])
    jobs = {"collective": "allgather", "message_bytes": 0.5, "gap_s": 1e-3, "gap_after_s": 2}
    found = read_json_trace(json.dumps({"jobs": [jobs], "repeat": 7}).encode(), "t")
    assert found == Trace([job], 7)
    assert found.jobs[0].gap_before_s == Fraction(1, 1000)


def refused(read, text, begin, error):
    with pytest.raises(ValueError, match=rf"^{begin}") as caught:
        read(text.encode(), begin.split(",")[0])
    assert error in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


HEAD = "collective,message,gap,count\n"


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ("allsum,1MiB,,\n", "line 2: collective 'allsum' is not known: it is one of allgather, "),
        ("allreduce,1MiB,,\n\n# no\nallsum,1B,,\n", "line 5: collective 'allsum' is not known"),
        ("allreduce,1MiB,-5ms,\n", "line 2: gap: '-5ms' is not a time: it must be finite and not"),
        ("allreduce,64KB,,\n", "line 2: message: '64KB' is ambiguous: write 64kB"),
        ("allreduce,1e30B,,\n", "line 2: message is 1e+30: it must be 0 or from 1 bit to 10^18"),
        ("allreduce,1B,1e-20s,\n", "line 2: gap is 1e-20: it must be 0 or from 1 ps to 10^9"),
        ("allreduce,,,\n", "line 2: message is empty: every job has one"),
        (",1MiB,,\n", "line 2: collective is empty: every job has one"),
        ("allreduce,1MiB,,0\n", f"line 2: count is 0: it must be from 1 to {MAX_JOBS}"),
        ("allreduce,1MiB,,1.5\n", "line 2: count is '1.5': it must be a whole number"),
        ("allreduce,1MiB\n", "line 2: 2 cells, but the heading has 4 columns"),
        ('allreduce,"1MiB,,\n', "line 2: this is not CSV"),
        ("", ": the trace is empty: it needs at least one job"),
        (f"allreduce,1B,,{MAX_JOBS}\n" * 2, "at most 1048576 are planned"),
    ],
)
def test_errors_of_rows(rows, error):
    refused(read_csv_trace, HEAD + rows, "t.csv", error)


@pytest.mark.parametrize(
    ("heading", "error"),
    [
        ("collective,size", "the heading names 'size': known are collective, message, "),
        ("collective", "there is no message: every job has one"),
        ("collective,message,message_bytes", "both message and message_bytes are given"),
    ],
)
def test_errors_of_headings(heading, error):
    refused(read_csv_trace, f"{heading}\nallreduce,1,,,\n", "t.csv, line 1: ", error)


GOOD = '{"collective": "allreduce", "message": "1MiB"'


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('[{"collective": "allsum", "message": "1B"}]', ": [0].collective 'allsum' is not known"),
        (f'{{"jobs": [{GOOD}}}, {GOOD}, "gap": "-1s"}}]}}', ": jobs[1].gap: '-1s' is not a time"),
        (f'[{GOOD}, "gap_s": -2}}]', ": [0].gap_s is -2: it cannot be negative"),
        (f'[{GOOD}, "gap_s": "2s"}}]', ": [0].gap_s is '2s': it must be a number without a unit"),
        (f'[{GOOD}, "gap": 5}}]', ": [0].gap is 5: write it as a text with a unit, as in 1.5ms"),
        (f'[{GOOD}, "count": 2.0}}]', "[0].count is 2.0: it must be a whole number"),
        (f'[{GOOD}, "colour": 1}}]', ": [0] names 'colour': known are collective, message"),
        ('[{"collective": "allreduce"}]', ": [0]: there is no message: every job has one"),
        ('[{"collective": 3, "message": "1B"}]', ": [0].collective is 3: it must be a text"),
        ("[7]", ": [0] is 7: a job is an object"),
        ("[]", ": the trace is empty"),
        ('{"jobs": []}', ": the trace is empty"),
        ('{"jobs": 3}', ": a trace is a list of jobs, or an object with such a list as jobs"),
        (f'{{"jobs": [{GOOD}}}], "times": 3}}', ": the trace names 'times': known are jobs, "),
        (f'{{"jobs": [{GOOD}}}], "repeat": 0}}', ": repeat is 0: it must be from 1 to"),
    ],
)
def test_errors_of_json(text, error):
    refused(read_json_trace, text, "t.json", error)


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("t.csv", b"", "t.csv: the trace is empty"),
        ("t.csv", b"#" * (2**20 + 1), "more than 1 MiB are not read"),
    ],
)
def test_errors_of_files(tmp_path, monkeypatch, name, content, error):
    monkeypatch.setattr("ocs_codesign.circuits.step_files.MAX_TRACE_BYTES", 2**20)
    with pytest.raises(ValueError, match=error):
        read_trace(written(tmp_path, name, content))
    with pytest.raises(FileNotFoundError):
        read_trace(tmp_path / "none.csv")


def test_many_lines_are_read_fast():
    text = HEAD + "allreduce,1MiB,2ms,\nalltoall,3MiB,,\n" * 100_000
    assert read_csv_trace(text.encode(), "t").num_jobs == 200_000


@pytest.mark.parametrize("read", [read_csv_trace, read_json_trace])
@given(data=st.binary(max_size=200))
def test_any_bytes_are_a_trace_or_a_sentence(read, data):
    with suppress(ValueError):  # and no other error
        assert read(data, "t").num_jobs > 0


@given(
    st.lists(
        st.tuples(
            st.sampled_from(WITHOUT_PARAMETERS),
            st.integers(0, 10**15),
            st.decimals(0, 1000, places=6),
            st.integers(1, 9),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_numbers_survive(jobs):
    lines = [f"{c.name},{size},{gap},{count}" for c, size, gap, count in jobs]
    text = "collective,message_bytes,gap_s,count\n" + "\n".join(lines)
    expected = Trace(
        [Job(c, size, gap_before_s=Fraction(gap), count=count) for c, size, gap, count in jobs]
    )
    assert read_csv_trace(text.encode(), "t") == expected
