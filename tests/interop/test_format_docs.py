"""The pages of formats: every one is there, says what it must, and its examples run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from folders import ROOT

from ocs_codesign.faces.cli import main
from ocs_codesign.interop.registry import FORMATS

PAGES = sorted((ROOT / "docs" / "formats").glob("*.md"))
OURS = {"native", "csv", "chakra", "astra-sim", "nccl", "msccl", "mscclpp"}
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


def commands(page: Path) -> list[list[str]]:
    """The examples of a page that need nothing which is not there."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = re.findall(r"^    (ocs-codesign .*)$", text, re.MULTILINE)
    words = [shlex.split(line, comments=True)[1:] for line in lines if "..." not in line]
    return [each for each in words if "--astra-sim" not in each]


def test_every_page_is_there():
    assert {page.stem for page in PAGES} >= OURS


@every_page
def test_a_page_says_what_a_format_is(page):
    text = page.read_text(encoding="utf-8")
    if page.stem in OURS:
        for what in ("| status |", "| carries |", "| who reads it |", "| checked by |"):
            assert what in text
        assert max(map(len, text.splitlines())) <= 125


def test_every_format_is_on_a_page():
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for name in FORMATS:
        assert name in FORMATS
        assert re.search(rf"--format {name}\b|`{name}`", text), name


@pytest.mark.parametrize("stem", sorted(OURS))
def test_examples_run(stem, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (page,) = (page for page in PAGES if page.stem == stem)
    done = 0
    for words in commands(page):
        needs = [word for word in words[1:2] if "/" in word and not word.endswith(")")]
        if needs and not Path(needs[0]).exists():
            continue  # what an example with dots would have made
        assert main(words) == 0, words
        out, err = capsys.readouterr()
        assert (bool(out), err) == (True, "")
        done += 1
    assert done >= 1
