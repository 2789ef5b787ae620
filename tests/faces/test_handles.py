"""Handles of recipes: what prints them, what takes them, the file that remembers them; --pick."""

from __future__ import annotations

import json
import os
import re
import stat
from hashlib import sha256
from itertools import takewhile
from pathlib import Path

import pytest

from ocs_codesign.core.files.kept import CACHE, kept_path
from ocs_codesign.faces.cli import main
from ocs_codesign.faces.cli.handles import KEPT, MAX_BYTES, MAX_KEPT, keep, kept_recipes
from ocs_codesign.graphs.handle import handle, recipes_of
from ocs_codesign.graphs.text import parse

RECIPE = "Line(DirectedCirculant(8, (1, 2, 5)))"
UNPRINTED = "DirectedCirculant(31, (2, 5, 11))"
"""In no catalogue: a handle of it works only after it was printed."""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE, str(tmp_path / "cache"))
    return tmp_path / "cache" / "recipes.txt"


def out_of(capsys, *words, code=0):
    assert main([*words]) == code
    out, err = capsys.readouterr()
    assert err == ""
    return out


def refusal(capsys, *words):
    assert main([*words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


def of_digits(digits: str) -> str:
    """A DirectedCirculant whose handle begins so."""
    for number in range(10**6):
        text = f"DirectedCirculant({number + 5}, (1, 2))"
        if sha256(text.encode()).hexdigest().startswith(digits):
            return text
    raise AssertionError(digits)


def test_a_handle_is_the_beginning_of_a_digest():
    assert handle(RECIPE) == f"#{sha256(RECIPE.encode()).hexdigest()[:6]}"
    assert handle(RECIPE, 64)[1:] == sha256(RECIPE.encode()).hexdigest()
    assert recipes_of(handle(RECIPE)[1:], [UNPRINTED, RECIPE, RECIPE]) == [RECIPE]


def test_what_was_printed_stands_for_its_recipe(capsys, cache):
    found = out_of(capsys, "frontier", "--nodes", "24", "--degree", "3")
    printed = dict(re.findall(r"^(#[0-9a-f]{6})  (\S.*)$", found, re.MULTILINE))
    assert printed
    assert all(handle(text) == name and repr(parse(text)) == text for name, text in printed.items())
    table = found.split("\n\n")[0]
    assert re.findall("#[0-9a-f]{6}", table)[0] in printed
    assert kept_recipes() == list(printed.values())
    assert cache.is_file()
    name, text = next(iter(printed.items()))
    for spelled in (name, name[1:], name.upper(), name[:5], handle(text, 20)):
        assert out_of(capsys, "cost", spelled) == out_of(capsys, "cost", text)


def test_handles_stand_wherever_a_recipe_does(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keep(["DirectedCirculant(8, (1, 3))", "GeneralizedKautz(2, 8)"])
    ring, kautz = map(handle, kept_recipes())
    fabric = Path("fabric.yaml")
    fabric.write_text(out_of(capsys, "fabric", "example", "--nodes", "8", "--planes", "2"))
    rates = ["--alpha", "1us", "--bandwidth", "1GB/s", "--delta", "1ms"]
    Path("trace.csv").write_text("collective,message\nallreduce,1MiB\n", encoding="utf-8")
    size = ["--nodes", "8", "--degree", "2"]
    lines = [
        ["build", ring, "--out", "d"],
        ["topology", ring],
        ["paths", ring],
        ["optimum", ring],
        ["rewire", ring, kautz, "--what-if"],
        ["sequence", ring, kautz, "--out", "s"],
        ["deploy", f"one={ring}", kautz, "--fabric", "fabric.yaml", "--out", "b"],
        ["survive", ring, "--fabric", "fabric.yaml", "--lost", "plane", "--what-if"],
        ["plan", "trace.csv", *size, *rates, "--designs", ring, "--start", kautz],
        ["select", "--fabric", "fabric.yaml", "--message", "1MiB", "--designs", ring],
        ["catalogue", "show", ring],
    ]
    for words in lines:
        assert main([*words]) in (0, 1), words  # 1: a loss disconnects, or it is not stored
        out, err = capsys.readouterr()
        assert (bool(out), err) == (True, ""), words
    assert json.loads(Path("d/design.json").read_text())["recipe"] == "DirectedCirculant(8, (1, 3))"


def test_a_handle_of_the_catalogue(capsys):
    stored = "Line(DirectedCirculant(24, (1, 3, 6, 10)))"
    assert stored in out_of(capsys, "cost", handle(stored), "--json", "-")
    assert kept_recipes() == []


def test_unknown_handles(capsys):
    unknown = handle(UNPRINTED)
    assert "is the handle of no design that was printed" in refusal(capsys, "cost", unknown)
    keep([UNPRINTED])
    assert UNPRINTED in out_of(capsys, "cost", unknown)
    assert "a handle is # and 4 hexadecimal digits" in refusal(capsys, "cost", "#12")


def test_ambiguous_handles(capsys):
    one = of_digits("3f2a")
    number = int(re.findall("[0-9]+", one)[0])
    other = next(
        text
        for text in (f"DirectedCirculant({n}, (1, 3))" for n in range(number, 10**6))
        if sha256(text.encode()).hexdigest().startswith("3f2a")
    )
    keep([one, other])
    said = refusal(capsys, "cost", "#3f2a")
    assert "#3f2a is the handle of 2 designs, " in said
    assert said.endswith(": give more digits\n")
    longer = re.findall("(#[0-9a-f]{12}) D", said)
    assert [recipes_of(name[1:], [one, other]) for name in longer] == [[one], [other]]


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00\xff\xfe\n", b"x" * (MAX_BYTES + 1), b"import os\nComplete(\n", b"\x1b[31mred\n"],
)
def test_a_file_that_is_odd_does_no_harm(capsys, cache, content):
    cache.parent.mkdir()
    cache.write_bytes(content)
    assert "is the handle of no design" in refusal(capsys, "cost", handle(UNPRINTED))
    keep([UNPRINTED])
    assert UNPRINTED in out_of(capsys, "cost", handle(UNPRINTED))


def test_what_the_file_claims_is_not_believed(capsys, cache):
    cache.parent.mkdir()
    cache.write_text(f"{handle(UNPRINTED)}  Complete(4)\nexit()\n", encoding="utf-8")
    assert "is the handle of no design" in refusal(capsys, "cost", handle(UNPRINTED))
    assert "unknown name 'exit'" in refusal(capsys, "cost", handle("exit()"))


def test_the_file_stays_small():
    keep([f"Complete({number})" for number in range(2, MAX_KEPT + 50)])
    kept = kept_recipes()
    assert len(kept) == MAX_KEPT
    assert kept[-1] == f"Complete({MAX_KEPT + 49})"
    keep([kept[0]])
    assert kept_recipes() == [*kept[1:], kept[0]]
    keep([f"Complete({'1' * 9000 + str(number)})" for number in range(200)])
    assert kept_path(KEPT).stat().st_size <= MAX_BYTES
    assert kept_recipes()


def test_without_a_place_to_keep_them(capsys, tmp_path, monkeypatch):
    words = ["catalogue", "find", "--nodes", "96", "--degree", "4"]
    expected = out_of(capsys, *words)
    (tmp_path / "file").write_text("", encoding="utf-8")
    for place in ("", str(tmp_path / "file"), "/proc/no/such"):
        monkeypatch.setenv(CACHE, place)
        assert out_of(capsys, *words) == expected
    monkeypatch.delenv(CACHE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert out_of(capsys, *words) == expected
    assert [path.name for path in (tmp_path / "xdg" / "ocs-codesign").iterdir()] == ["recipes.txt"]


def test_a_link_or_a_pipe_is_not_followed(cache, tmp_path):
    cache.parent.mkdir()
    secret = tmp_path / "secret"
    secret.write_text(f"{UNPRINTED}\n", encoding="utf-8")
    cache.symlink_to(secret)
    assert kept_recipes() == []
    cache.unlink()
    os.mkfifo(cache)
    assert kept_recipes() == []
    assert stat.S_ISFIFO(cache.stat().st_mode)


def test_pick(capsys):
    words = ["catalogue", "find", "--nodes", "38", "--degree", "3", "--bidirectional"]
    answer = json.loads(out_of(capsys, *words, "--json", "-"))
    recipes = [each["recipe"] for each in answer["candidates"]]
    for row, recipe in enumerate(recipes, 1):
        assert out_of(capsys, *words, "--pick", str(row)) == f"{recipe}\n"
    said = refusal(capsys, *words, "--pick", str(len(recipes) + 1))
    assert f"--pick is {len(recipes) + 1}: the answer has {len(recipes)} row" in said
    words = ["frontier", "--nodes", "8", "--degree", "2"]
    first = json.loads(out_of(capsys, *words, "--json", "-"))["candidates"][0]["recipe"]
    assert out_of(capsys, *words, "--pick", "1") == f"{first}\n"


@pytest.mark.parametrize(
    "words",
    [
        ["frontier", "--nodes", "24", "--degree", "3", "--all"],
        ["catalogue", "find", "--nodes", "1000", "--degree", "4"],
    ],
)
def test_tables_fit_a_page(capsys, words):
    lines = out_of(capsys, *words).splitlines()
    heads = [at for at, line in enumerate(lines) if re.match(" *steps ", line)]
    assert heads
    for head in heads:
        table = [lines[head], *takewhile(lambda line: line[:1] == " ", lines[head + 1 :])]
        assert len(table) > 1
        assert max(map(len, table)) <= 100
        assert all("#" in line or "fat tree" in line or " - " in line for line in table[1:])


def test_long_recipes_are_cut_but_remembered(capsys):
    words = ["catalogue", "find", "--nodes", "38", "--degree", "3", "--bidirectional"]
    out = out_of(capsys, *words)
    recipes = [
        each["recipe"] for each in json.loads(out_of(capsys, *words, "--json", "-"))["candidates"]
    ]
    (long,) = [text for text in recipes if len(text) > 400]
    (line,) = [line for line in out.splitlines() if line.startswith(f"{handle(long)}  ")]
    assert line.endswith(f"… of {len(long)} characters; the handle stands for all of them")
    assert json.loads(out_of(capsys, "cost", handle(long), "--json", "-"))["recipe"] == long
