"""Fabric files that mean harm or mislead: tags, bombs, nesting, sizes, keys and numbers."""

from __future__ import annotations

import pytest
import yaml
from fabric_samples import lab
from hypothesis import given
from hypothesis import strategies as st

from ocs_codesign.fabric.files.fabric_files import MAX_FABRIC_BYTES, parse_fabric

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{inner}'] * 9)}]\n"
    for inner, name in zip("abcdefgh", "bcdefghi", strict=True)
)

YAML = {
    "python object": ("name: !!python/object/apply:os.system ['true']", 1, "tags are not read"),
    "python name": ("a: 1\nname: !!python/name:os.system", 2, "tags are not read"),
    "own tag": ("name: !x lab", 1, "tags are not read (!x)"),
    "binary": ("name: !!binary aGk=", 1, "tags are not read"),
    "billion laughs": (LAUGHS, 1, "anchors and aliases are not read (a)"),
    "an alias of itself": ("a: &a [*a]", 1, "anchors and aliases are not read (a)"),
    "an unknown alias": ("name: *b", 1, "anchors and aliases are not read (b)"),
    "merge": ("hosts: {<<: {count: 3}}", 1, "a key must be a plain name"),
    "a list as key": ("? [a, b]\n: 3", 1, "a key must be a plain name"),
    "deep lists": ("a: " + "[" * 5000 + "]" * 5000, 1, "more than 16 levels"),
    "deep maps": ("{a: " * 3000 + "1" + "}" * 3000, 1, "more than 16 levels"),
    "unclosed": ("a: 1\n" + "[" * 100_000, 2, "this is not YAML, at '[[["),
    "unclosed and broken": ("a: 1\n" + "[" * 1010 + "\n'", 2, "this is not YAML, at '[[["),
    "unclosed lists": ("a: 1\nb: " + "[" * 100_000, 2, "more than 16 levels"),
    "unclosed in quotes": ("a: '" + "[" * 5000, 1, "this is not YAML, at"),
    "a tag before lists": ("!x " + "[" * 5000, 1, "tags are not read (!x)"),
    "an anchor among lists": ("[[[&a " + "[" * 5000, 1, "anchors and aliases are not read (a)"),
    "after many lines": ("- 1\n" * 20_000 + "- " + "[" * 3000, 20_001, "more than 16 levels"),
    "a control character": ("name: a\nb: \x01", 2, "this is not YAML: '\\x01' is no printable"),
    "a key twice": ("name: a\nalpha: 1us\nname: b", 3, "the key 'name' is given twice"),
    "an inner key twice": ("hosts:\n  count: 3\n  count: 4", 3, "the key 'count' is given twice"),
    "two documents": ("name: a\n---\nname: b", 2, "a second document begins"),
    "not a number": ("alpha: 1us\nname: .nan", 2, ".nan is not a number"),
    "infinity": ("name: -.inf", 1, "-.inf is not a number"),
    "an overflow": ("name: 1e999", 1, "1e999 is not a number"),
    "a long number": ("name: " + "9" * 5000, 1, "at most 40 digits"),
    "octal": ("hosts: {count: 010}", 1, "'010' is ambiguous"),
    "hexadecimal": ("hosts: {count: 0x10}", 1, "'0x10' is ambiguous"),
    "base 60": ("name: 1:30", 1, "'1:30' is ambiguous"),
    "underscores": ("name: 1_000", 1, "'1_000' is ambiguous"),
    "a tab": ("hosts:\n\tcount: 3", 2, "this is not YAML, at '\\tcount: 3'"),
    "a bad indent": ("name: a\n  alpha: 1us", 2, "this is not YAML, at '  alpha: 1us'"),
    "unclosed quotes": ("name: 'a\nalpha: 1us", 2, "this is not YAML, at 'alpha: 1us'"),
    "an open list": ("[[[\n\n", 1, "this is not YAML, at '[[['"),
}


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("case", YAML)
@pytest.mark.usefixtures("other_words")
def test_hostile_yaml(case, compiled, monkeypatch):
    text, line, rule = YAML[case]
    if not compiled:
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    with pytest.raises(ValueError, match="bad") as caught:
        parse_fabric(text.encode(), "bad.yaml")
    assert str(caught.value).startswith(f"bad.yaml, line {line}: ")
    assert rule in str(caught.value)
    assert len(str(caught.value)) < 300


JSON = {
    "deep lists": (b'{"a": ' + b"[" * 200_000, "more than 16 levels"),
    "closed deep lists": (b"[" * 17 + b"]" * 17, "more than 16 levels"),
    "deep maps": (b'{"a": ' * 400 + b"1" + b"}" * 400, "more than 16 levels"),
    "a key twice": (b'{"name": "a", "name": "b"}', "the key 'name' is given twice"),
    "not a number": (b'{"name": NaN}', "NaN is not a number"),
    "infinity": (b'{"name": -Infinity}', "-Infinity is not a number"),
    "an overflow": (b'{"name": 1e999}', "1e999 is not a number"),
    "a long number": (b'{"name": ' + b"9" * 5000 + b"}", "at most 40 digits"),
    "an open map": (b'{"name": "a",\n', "line 2: this is not JSON"),
    "a comment": (b'{\n"name": "a" # x\n}', "line 2: this is not JSON"),
}


@pytest.mark.parametrize("case", JSON)
@pytest.mark.usefixtures("other_words")
def test_hostile_json(case):
    data, rule = JSON[case]
    with pytest.raises(ValueError, match="bad") as caught:
        parse_fabric(data, "bad.json", is_json=True)
    assert str(caught.value).startswith("bad.json")
    assert rule in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("is_json", [False, True])
def test_other_bytes(is_json):
    for data, rule in (
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"#" * (MAX_FABRIC_BYTES + 1), "more than 4 MiB"),
        (b"\x00", "this is not"),
    ):
        with pytest.raises(ValueError, match=rule):
            parse_fabric(data, "bad", is_json=is_json)


def test_a_byte_order_mark_is_no_harm():
    assert parse_fabric(b"\xef\xbb\xbf" + lab(), "lab").name == "lab"


def test_many_switches_with_large_states_are_refused_before_they_are_made():
    rotor = {"profile": "rotor-128", "states": "rotations", "count": 2000}
    with pytest.raises(ValueError, match=r"switches\[0\].states have 32512000 entries"):
        parse_fabric(lab("planes", 1, "switches", 0, value=rotor), "bad")


def test_words_that_yaml_takes_for_something_else():
    text = lab("hosts", value=0).decode().replace('"hosts": 0', "hosts: {names: [no, a]}")
    with pytest.raises(ValueError, match=r"hosts.names\[0\] is False: it must be text, which in"):
        parse_fabric(text.encode(), "bad")
    text = text.replace("[no, a]", "[2026-01-01, 'no', '010']")
    assert parse_fabric(text.encode(), "lab").hosts == ("2026-01-01", "no", "010")


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode), st.booleans())
def test_any_bytes_end_in_one_sentence(data, is_json):
    with pytest.raises(ValueError, match="bad") as caught:
        parse_fabric(data, "bad", is_json=is_json)
    assert str(caught.value).startswith("bad")


@given(st.data())
def test_any_change_of_one_byte_is_a_fabric_or_one_sentence(data):
    text = bytearray(lab())
    at = data.draw(st.integers(0, len(text) - 1))
    text[at] = data.draw(st.integers(0, 255))
    for is_json in (False, True):
        try:
            parse_fabric(bytes(text), "bad", is_json=is_json)
        except ValueError as error:
            assert str(error).startswith("bad")  # noqa: PT017 - most changes are errors, some not
