"""Demand matrix files: every way to write one, and what is refused, with the place and the rule."""

from __future__ import annotations

import io
import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocs_codesign.circuits.demand.matrix import DemandMatrix
from ocs_codesign.circuits.demand.planner import plan_demand
from ocs_codesign.circuits.matrix_files import parse_demand, plan_csv, read_demand

MIB = 2**20


def entries(demand):
    nodes = range(demand.num_nodes)
    return [[demand.entry_bytes(i, j) for j in nodes] for i in nodes]


@pytest.mark.parametrize(
    "text",
    [
        "0,3\n5,0\n",
        "0;3\n5;0",
        "0\t3\r\n5\t0\r\n",
        "  0 3\n5   0 \n\n",
        "# demand\n0, 3\n\n# half\n5, 0\n",
        "0, 3e0\n5.0, 0.\n",
        "0B,3B\n0.005kB,0\n",
        "\ufeff0,3\n5,0\n",
    ],
)
def test_ways_to_write_csv(text):
    assert entries(parse_demand(text.encode(), "d", "csv")) == [[0, 3], [5, 0]]


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n0,3\n5,0\n",
        ",a,b\na,0,3\nb,5,0\n",
        "node a b\na 0 3\nb 5 0\n",
        '{"names": ["a", "b"], "matrix": [[0, 3], [5, 0]]}',
    ],
)
def test_names(text):
    found = parse_demand(text.encode(), "d", "json" if text[0] == "{" else "csv")
    assert found.names == ("a", "b")
    assert entries(found) == [[0, 3], [5, 0]]


def test_numbered_names_are_no_entries():
    """As pandas writes a table: an empty cell over the index."""
    found = parse_demand(b",0,1\n0,7,3\n1,5,9\n", "d", "csv")
    assert found.names == ("0", "1")
    assert entries(found) == [[7, 3], [5, 9]]


@pytest.mark.parametrize(
    ("text", "kind", "unit"),
    [
        ("# unit: MiB\n0,3\n5,0\n", "csv", None),
        ("0,3\n5,0\n", "csv", "MiB"),
        ("# unit: MiB\n0,3\n5,0\n", "csv", "MiB"),
        ("# unit: 256KiB\n0,12\n20,0\n", "csv", None),
        ("0,6\n10,0\n", "csv", ".5MiB"),
        ("0,3MiB\n5120KiB,0\n", "csv", None),
        ('{"unit": "MiB", "matrix": [[0, 3], [5.0, 0]]}', "json", None),
        ('[[0, "3MiB"], ["5MiB", 0]]', "json", None),
        ("[[0, 3], [5, 0]]", "json", "MiB"),
    ],
)
def test_units(text, kind, unit):
    found = parse_demand(text.encode(), "d", kind, unit)
    assert entries(found) == [[0, 3 * MIB], [5 * MIB, 0]]


def npy(array):
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


@pytest.mark.parametrize("dtype", ["int64", "uint8", ">i4", "float32", "float64"])
def test_npy(tmp_path, dtype):
    path = tmp_path / "d.npy"
    path.write_bytes(npy(np.array([[0, 3], [5, 0]], dtype=dtype)))
    assert entries(read_demand(path)) == [[0, 3], [5, 0]]
    assert entries(read_demand(path, "kB"))[1][0] == 5000


@pytest.mark.parametrize(
    ("name", "content"),
    [("d", b"0 3\n5 0"), ("d", b" [[0, 3], [5, 0]]"), ("d.x", npy(np.array([[0, 3], [5, 0]])))],
)
def test_other_suffixes_are_told_by_content(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    assert entries(read_demand(path)) == [[0, 3], [5, 0]]


amounts = st.fractions(min_value=0, max_value=10**9, max_denominator=1).map(int)
square = st.integers(1, 6).flatmap(
    lambda n: st.lists(st.lists(amounts, min_size=n, max_size=n), min_size=n, max_size=n)
)


@settings(max_examples=30)
@given(square)
def test_round_trips(rows):
    wanted = [[Fraction(entry) for entry in row] for row in rows]
    text = "\n".join(",".join(map(str, row)) for row in rows)
    assert entries(parse_demand(text.encode(), "d", "csv")) == wanted
    assert entries(parse_demand(json.dumps(rows).encode(), "d", "json")) == wanted
    assert entries(parse_demand(npy(np.array(rows)), "d", "npy")) == wanted


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("0,3\n5\n", "d, line 2: 1 entries, but there are 2 rows"),
        ("0,3,1\n5,0,1\n", "d, line 1: 3 entries, but there are 2 rows"),
        ("0,3\n5,-1\n", "d, line 2, column 2: -1 is negative"),
        ("0,3\n5,x\n", "d, line 2, column 2: 'x' is no amount"),
        ("0,3\n5,\n", "d, line 2, column 2: '' is no amount"),
        ("0,nan\n5,0\n", "d, line 1, column 2: 'nan' is not a size"),
        ("0,3KB\n5,0\n", "d, line 1, column 2: '3KB' is ambiguous"),
        ("0,1e99\n5,0\n", "d, line 1, column 2: '1e99' is out of all proportion"),
        ("0,1e999999999\n5,0\n", "d, line 1, column 2: unknown unit|not a size"),
        ("# unit: lightyear\n0,3\n5,0\n", "d, line 1: unknown unit 'lightyear'"),
        ("# unit: 0KiB\n0,3\n5,0\n", "d, line 1: the unit is '0KiB': it must be positive"),
        ("a,b,c\n0,3\n5,0\n", "d, line 1: 3 names for 2 rows"),
        ("a,a\n0,3\n5,0\n", "d, line 1: two nodes are named 'a'"),
        (",a,b\na,0,3\nc,5,0\n", "d, line 3: the row of 'b' is named 'c'"),
        ("a,b\n", "d: there are no rows of amounts"),
        ("x,y\nz,w\n", "d, line 2: the row of .y. is named .z."),
    ],
)
def test_bad_csv(text, rule):
    with pytest.raises(ValueError, match=rule):
        parse_demand(text.encode(), "d", "csv")


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("[[0, 3], [5]]", "d, row 2: 1 entries, but there are 2 rows"),
        ("[[0, 3], [5, true]]", "d, row 2, column 2: True is no amount"),
        ("[[0, 3], [5, NaN]]", "d: NaN is not a number: numbers are finite"),
        ("[[0, 3], [5, -2]]", "d, row 2, column 2: -2 is negative"),
        ("[[0, 1e500], [5, 2]]", "d: 1e500 is not a number: numbers are finite"),
        ("[1, 2]", "d: a demand matrix is a list of rows"),
        ('{"rows": [[1]]}', "d: 'rows' is not known"),
        ('{"matrix": [[1]], "unit": 3}', "d: unit is"),
        ('{"matrix": [[1]], "names": "a"}', "d: names is 'a'"),
        ('{"matrix": [[1]], "names": ["a b"]}', "d: 'a b' is no name"),
        ('{"matrix": [[1]], "names": ["a", "b"]}', "d: 2 names for 1 rows"),
        ("[]", "d: a demand matrix has at least one node"),
        (f"[[{'1' * 100}]]", "numbers of at most 40 digits are read"),
    ],
)
def test_bad_json(text, rule):
    with pytest.raises(ValueError, match=rule):
        parse_demand(text.encode(), "d", "json")


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (npy(np.zeros((2, 3))), r"shape \(2, 3\) is no square matrix"),
        (npy(np.zeros(4)), "is no square matrix"),
        (npy(np.zeros((513, 513), dtype=np.int8)), "is no square matrix of up to 512"),
        (npy(np.array([[True]])), "not integers or floats"),
        (npy(np.array([[object()]], dtype=object)), "not integers or floats"),
        (npy(np.zeros((2, 2)))[:-1], "does not have as many bytes"),
        (npy(np.array([[-1]])), "row 1, column 1: -1 is negative"),
        (npy(np.array([[np.nan]])), "row 1, column 1: it is nan: it must be finite"),
        (b"\x93NUMPY\x01\x00\xff\xff", "this is not an npy file"),
    ],
)
def test_bad_npy(content, rule):
    with pytest.raises(ValueError, match=rule):
        parse_demand(content, "d", "npy")


def test_bad_files(tmp_path, monkeypatch):
    path = tmp_path / "d.csv"
    path.write_bytes(b" \n")
    with pytest.raises(ValueError, match=r"d\.csv: the file is empty"):
        read_demand(path)
    path.write_bytes(b"# unit: MiB\n1\n")
    with pytest.raises(ValueError, match="its unit is MiB, not kB"):
        read_demand(path, "kB")
    path.write_text("\n".join(["0"] * 600), encoding="utf-8")
    with pytest.raises(ValueError, match="line 513: a demand matrix has at most 512 rows"):
        read_demand(path)
    monkeypatch.setattr("ocs_codesign.circuits.matrix_files.MAX_MATRIX_BYTES", 4)
    with pytest.raises(ValueError, match="MiB are not read"):
        read_demand(path)
    with pytest.raises(FileNotFoundError):
        read_demand(tmp_path / "none.csv")


def test_plans_as_csv():
    plan = plan_demand(DemandMatrix([[0, 4], [2, 0]]), 0.5, bandwidth_Bps=2)
    assert plan_csv(plan, ("a", "b")) == (
        "switch,made_from_s,up_from_s,duration_s,circuits\n0,0,0.5,2,a>b b>a\n"
    )
    assert plan_csv(plan).endswith("0>1 1>0\n")
