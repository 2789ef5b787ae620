"""Fabric files that are wrong: the error names the file, the line, the path in it and the rule."""

from __future__ import annotations

import re

import pytest
from fabric_samples import INLINE, LAB, ROTORS, lab

from ocs_codesign.fabric.files.fabric_files import load_fabric, parse_fabric

DROP = object()
SWITCH, ROTOR = "planes[0].switches[0]", "planes[1].switches[0]"
BAD = [
    ("name", DROP, " is missing"),
    ("name", "", " is empty"),
    ("name", "a\nb", " is 'a\\nb': it must be one line"),
    ("host", 1, " is no known key: did you mean hosts"),
    (f"{SWITCH}.port", 1, " is no known key: did you mean ports"),
    ("losses.zzz", 1, " is no known key: known are connector_db, circulator_db, budget_db"),
    ("version", 3, " is 3: it must be 1"),
    ("hosts", 8, " is 8: it must be a map"),
    ("hosts", {}, " must have either count or names: neither"),
    ("hosts", {"names": ["a"], "first": 3}, " must not have pattern or first"),
    ("hosts.count", True, " is True: it must be a whole"),
    ("hosts.count", 0, " is 0: it must be at least 1"),
    ("hosts.spares", 8, " is 8: it must be from 0"),
    ("hosts.pattern", "{0.__class__}", " is '{0.__class__}': it"),
    ("hosts.pattern", "{:0999999999d}", " is '{:0"),
    ("planes", [], " has 0 entries: it needs at least 1"),
    ("planes", {}, " is {}: it must be a list"),
    (f"{SWITCH}.profile", "polatis", ": no switch profile is named 'polatis': did you mean "),
    (f"{SWITCH}.profile", {k: INLINE[k] for k in INLINE if k != "delta"}, ".delta is missing"),
    (f"{SWITCH}.profile", {**INLINE, "prices_usd": 1}, ".prices_usd is no known key: did you mean"),
    (
        f"{SWITCH}.profile",
        {**INLINE, "insertion_loss_db": -1},
        ".insertion_loss_db is -1: it must be at least 0",
    ),
    (f"{SWITCH}.ports", 385, " is 385: polatis-384 has 384 ports a side"),
    (f"{SWITCH}.spares", 8, " is 8: it must be less"),
    (f"{SWITCH}.port_model", "P5", " is 'P5': it is one of"),
    (f"{SWITCH}.port_model", "matching", " is matching: polatis-384 is simplex and cannot"),
    (f"{SWITCH}.names", ["a"], " cannot be given where the plane's count is over 1"),
    (f"{SWITCH}.states", "rotations", " are given, but a simplex switch has none"),
    (f"{SWITCH}.delta", "10000000s", " is 10000000s: at most"),
    (f"{ROTOR}.names", ["a", "b"], " are 2, but count is 1"),
    (f"{ROTOR}.states", DROP, " are missing: a restricted switch"),
    (f"{ROTOR}.states", "rotation", " is 'rotation': write a table of ports, or rotations"),
    (f"{ROTOR}.states", [[0] * 8, [1]], "[1] has 1 entries, but 8 ports are in service"),
    (f"{ROTOR}.states", [[True] * 8], " must be a table of whole numbers"),
    (f"{ROTOR}.states", [[5, 5, 0, 0, 0, 0, 0, 0]], " join B port 5 twice in state 0"),
    ("alpha", 1e-5, " is 1e-05: write a time as text"),
    ("alpha", "10m", ": unknown unit 'm' in '10m'"),
    ("node_bandwidth", "0Gbps", ": '0Gbps': a bandwidth must be positive"),
    ("losses.budget_db", "LR4", " is 'LR4'"),
]
"""Where in the file a value is put or dropped, the value, and what follows the place."""

TWO_MODELS = [{"profile": "polatis-384"}, {"profile": "palomar-136"}]
ELSEWHERE = [
    ("planes[0].count", 1024, "planes are 1025 with their counts"),
    (f"{SWITCH}.count", 20_000, "planes have 40001 switches"),
    (
        "planes[0].switches",
        TWO_MODELS,
        "planes[0].switches[1].port_model is two-sided, but the fabric's first switch is simplex",
    ),
    (
        "planes[1].switches",
        TWO_MODELS[1:],
        "planes[1].switches[0].port_model is two-sided, but the fabric's first switch is simplex",
    ),
    (f"{ROTOR}.names", ["p0-s0"], "planes has two of the name 'p0-s0'"),
    (f"{ROTOR}.spares", 7, "states are rotations: 1 usable ports have no rotations"),
    ("node_bandwidth", DROP, "the fabric must have either node_bandwidth or port_bandwidth: neith"),
    (
        "planes",
        [{"switches": TWO_MODELS[1:]}],
        "losses.circulator_db is missing: circuits of a two-way",
    ),
]
"""The same where the rule that is broken is told of another place."""


def bad_text(path, data):
    path.write_bytes(data)
    with pytest.raises(ValueError, match="bad") as caught:
        load_fabric(path)
    text = str(caught.value)
    assert text.startswith(str(path))
    assert text.count("\n") == 0
    assert len(text) < 600 + len(str(path))
    return text


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [*((at, value, at + rule) for at, value, rule in BAD), *ELSEWHERE],
)
@pytest.mark.parametrize("suffix", ["json", "yaml"])
@pytest.mark.usefixtures("other_words")
def test_bad_files(place, value, sentence, suffix, tmp_path):
    path = [int(key) if key.isdigit() else key for key in re.findall(r"[^.\[\]]+", place)]
    base = ROTORS if place.startswith(ROTOR) else LAB
    data = lab(*path, drop=True, base=base) if value is DROP else lab(*path, value=value, base=base)
    assert sentence in bad_text(tmp_path / f"bad.{suffix}", data)


@pytest.mark.parametrize("data", [b"[1, 2]", b"null"])
@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_no_map(data, suffix, tmp_path):
    assert "a fabric file holds a map of keys" in bad_text(tmp_path / f"bad.{suffix}", data)


LINES = """\
name: lab
hosts:
  names:
  - a
  - b

  - 3
planes:
- switches:
  - profile: polatis-384
    ports: 8
    # a comment
    delta: 3
  - {profile: polatis-384,
     spares: -1}
alpha: 1us
node_bandwidth: 1Gbps
losses: {connector_db: 0.25, budget_db: 3}
"""


@pytest.mark.parametrize(
    ("wrong", "right", "line", "path"),
    [
        ("- 3", "- c", 7, "hosts.names[2]"),
        ("delta: 3\n", "delta: 3us\n", 13, "planes[0].switches[0].delta"),
        ("spares: -1", "spares: 0", 15, "planes[0].switches[1].spares"),
    ],
)
def test_errors_name_the_line_of_yaml(wrong, right, line, path):
    text = LINES
    for one, other in (("- 3", "- c"), ("delta: 3\n", "delta: 3us\n"), ("-1", "0")):
        text = text if wrong.startswith(one) or wrong.endswith(one) else text.replace(one, other)
    assert wrong in text
    with pytest.raises(ValueError, match="bad") as caught:
        parse_fabric(text.encode(), "bad.yaml")
    assert str(caught.value).startswith(f"bad.yaml, line {line}: {path} is ")
    assert parse_fabric(text.replace(wrong, right).encode(), "good.yaml").hosts == ("a", "b", "c")


def test_errors_say_how_many_more_there_are():
    text = "name: lab\nhosts:\n  count: 8\n  spare: 1\nalpha: 3us\n"
    with pytest.raises(ValueError, match="bad") as caught:
        parse_fabric(text.encode(), "bad.yaml")
    assert str(caught.value) == (
        "bad.yaml, line 4: hosts.spare is no known key: did you mean spares? (and 2 more errors)"
    )
