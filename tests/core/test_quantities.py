"""Quantities with units: what is read, exactly, and what is refused with a helpful sentence."""

from __future__ import annotations

import ast
import json

import pytest
from folders import nodes
from hypothesis import given
from hypothesis import strategies as st

from ocs_codesign.core.networks.formats import FORMATS
from ocs_codesign.core.quantities import (
    format_bandwidth,
    format_size,
    format_time,
    parse_bandwidth,
    parse_number,
    parse_size,
    parse_time,
)
from ocs_codesign.faces.cli import main

ENDLESS = ("1e999999999", "1e-999999999", "9" * 5000, "1/0", "0/0", "1/" + "9" * 5000, "nan", "inf")
"""What has no end as a fraction, or is none."""

PARSERS = (parse_time, parse_bandwidth, parse_size)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10us", 10e-6),
        ("10µs", 10e-6),
        ("10μs", 10e-6),
        (" 1.5 ms ", 1.5e-3),
        ("0s", 0.0),
        (".5s", 0.5),
        ("1.e3ns", 1e-6),
        ("1e-5s", 1e-5),
        ("+3 ps", 3e-12),
        ("0.1us", 1e-7),
    ],
)
def test_times(text, seconds):
    assert parse_time(text) == seconds


@pytest.mark.parametrize(
    ("text", "bytes_per_second"),
    [
        ("100Gbps", 12.5e9),
        ("100 Gb/s", 12.5e9),
        ("100Gbit/s", 12.5e9),
        ("12.5GB/s", 12.5e9),
        ("12.5GBps", 12.5e9),
        ("8Mibit/s", 2**20),
        ("1GiB/s", 2**30),
        ("8bps", 1.0),
        ("1.6Tbps", 2e11),
        ("1kB/s", 1000.0),
    ],
)
def test_bandwidths(text, bytes_per_second):
    assert parse_bandwidth(text) == bytes_per_second


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1MiB", 2**20),
        ("1MB", 1e6),
        ("64 kB", 64e3),
        ("64KiB", 65536),
        ("8Mbit", 1e6),
        ("8b", 1.0),
        ("0B", 0.0),
        ("1.5GiB", 1.5 * 2**30),
        ("2TB", 2e12),
    ],
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("parse", "text", "reason"),
    [
        (parse_time, "10", "has no unit"),
        (parse_time, "", "write a number and a unit"),
        (parse_time, "us", "write a number and a unit"),
        (parse_time, "10 parsec", "unknown unit 'parsec'"),
        (parse_time, "10MS", "did you mean ms?"),
        (parse_time, "-1us", "not negative"),
        (parse_time, "1e999s", "finite"),
        (parse_time, "1e9999999999s", "unknown unit"),
        (parse_time, "nan s", "write a number and a unit"),
        (parse_time, "١٠us", "write a number and a unit"),
        (parse_time, "1_000us", "unknown unit"),
        (parse_time, "9" * 1000 + "us", "write a number and a unit"),
        (parse_bandwidth, "100", "has no unit"),
        (parse_bandwidth, "0GB/s", "a bandwidth must be positive"),
        (parse_bandwidth, "100G", "unknown unit 'G'"),
        (parse_bandwidth, "100Gb", "unknown unit 'Gb'"),
        (parse_bandwidth, "100gbps", "did you mean GBps or Gbps"),
        (parse_bandwidth, "10Kbps", "ambiguous"),
        (parse_size, "64KB", "write 64kB (1000 bytes each) or 64KiB"),
        (parse_size, "1mb", "did you mean MB or Mb"),
        (parse_size, "1MiB/s", "unknown unit"),
        (parse_size, "1048576", "has no unit"),
    ],
)
def test_refused(parse, text, reason):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is compared below
        parse(text)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text):
    for parse in PARSERS:
        try:
            value = parse(text)
        except ValueError:
            continue
        assert 0 <= value < float("inf")


@given(st.integers(1, 10**6))
def test_units_agree(number):
    assert parse_size(f"{number}kB") == parse_size(f"{number}000 B") == number * 1000
    assert parse_bandwidth(f"{number}Gbps") == parse_bandwidth(f"{number}Gbit/s")
    assert parse_time(f"{number}us") == parse_time(f"{number}000ns")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (format_time(0.00001), "10 us"),
        (format_time(0.9999999), "1 s"),
        (format_time(1e-12), "0.001 ns"),
        (format_size(3 * 2**30), "3 GiB"),
        (format_size(1023), "1.023 kB"),
        (format_size(0), "0 B"),
        (format_bandwidth(5e10), "400 Gbps"),
    ],
)
def test_formatted(text, expected):
    assert text == expected


@pytest.mark.parametrize("text", [*ENDLESS, "", "1_000", "0x10", "1/2/3", "1 2", "1e", "٣"])
def test_what_is_no_number_is_refused_before_it_is_converted(text):
    with pytest.raises(ValueError, match="a number such as") as refusal:
        parse_number(text)
    assert len(str(refusal.value)) < 120


def test_no_reader_makes_a_fraction_of_text_by_itself():
    """Texts of strangers become fractions in one place; what else is a literal or a number."""
    made = [
        f"{module}: {ast.unparse(node)}"
        for module, node in nodes()
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Fraction", "Decimal")
        if any(f"{word}(" in ast.unparse(node) for word in ("str", "strip", "group"))
    ]
    assert made == []


@pytest.mark.parametrize("text", [*ENDLESS[:6], "0", "-1"])
def test_numbers_without_end_in_files_and_options_end_in_a_sentence(tmp_path, capsys, text):
    record = {"num_hosts": 2, "num_nodes": 2, "links": [[0, 1, 1], [1, 0, 1]], "tick_s": text}
    graph = {"tick_s": text}, [{"id": 0}, {"id": 1}]
    linked = [{"source": a, "target": 1 - a, "bandwidth": 1, "latency": "1us"} for a in (0, 1)]
    attributed = dict(zip(("graph", "nodes", "edges"), (*graph, linked), strict=True))
    for name, value in (("json", record), ("node-link", attributed)):
        with pytest.raises(ValueError, match="above 0"):
            FORMATS[name].read(json.dumps(value).encode(), "file")
    if text == "0":
        return
    (tmp_path / "m.csv").write_text(f"0,{text}\n1,0\n", encoding="utf-8")
    for command in (
        ["pod", "goodput", "--cubes", "8", "--availability", text],
        ["optimum", "star(4,10)", "--aggregation", f"switchml(latency_s={text})"],
        ["demand", str(tmp_path / "m.csv"), "--delta", "1us", "--bandwidth", "1Gbps"],
    ):
        assert main(command) == 2
        assert len(capsys.readouterr().err) < 700
