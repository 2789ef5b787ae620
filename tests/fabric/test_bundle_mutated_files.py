"""Files of a bundle, changed at random: commands that read it have an answer or one sentence."""

from __future__ import annotations

import json
import random
import re

import pytest
from bundle_check_samples import KINDS, MANIFEST, put, sample, sealed

from ocs_codesign.faces.cli import main

NUM_MUTATIONS = 24
ODD = (
    "-1",
    "0",
    "1e999",
    "NaN",
    "99999999999999999999",
    "",
    "null",
    "[]",
    "{}",
    "\0",
    "ü",
    "1B-1A",
)
COMMANDS = (
    ("verify-bundle", "{}"),
    ("survive", "--bundle", "{}"),
    ("rewire", "--bundle", "{}", "cube", "--what-if"),
    ("control", "{}", "--switches", "switches.yaml", "--what-if"),
)


def mutated(data: bytes, draw: random.Random) -> bytes:
    """A file with some bytes, words, lines or keys gone, doubled or changed."""
    kind = draw.randrange(6)
    if kind == 0:
        return data[: draw.randrange(len(data) + 1)]
    if kind == 1:
        at = draw.randrange(len(data))
        return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]
    if kind == 2:
        words = [each.span() for each in re.finditer(rb"[A-Za-z0-9_.-]+", data)]
        begin, end = draw.choice(words)
        return data[:begin] + draw.choice(ODD).encode() + data[end:]
    lines = data.splitlines(keepends=True)
    at = draw.randrange(len(lines))
    if kind == 3:
        return b"".join(lines[:at] + lines[at + 1 :])
    if kind == 4:
        return b"".join(lines[:at] + lines[at : at + 1] * 2 + lines[at + 1 :])
    other = draw.randrange(len(lines))
    lines[at], lines[other] = lines[other], lines[at]
    return b"".join(lines)


@pytest.mark.parametrize("number", range(NUM_MUTATIONS))
def test_a_changed_file_is_an_answer_or_one_sentence(number, tmp_path, monkeypatch, capsys):
    """Whether or not the manifest was made to fit; nothing of the bundle is changed by asking."""
    monkeypatch.chdir(tmp_path)
    draw = random.Random(number)
    files = dict(sample(KINDS[number % len(KINDS)]))
    path = draw.choice(sorted(name for name, data in files.items() if data))
    files[path] = mutated(files[path], draw)
    if path != MANIFEST and draw.random() < 0.6:
        files = sealed(files)
    bundle = put(files, tmp_path / "bundle")
    (tmp_path / "switches.yaml").write_text("socket: /nowhere/{switch}.sock\n", encoding="utf-8")
    for command in COMMANDS:
        code = main([word.format(bundle) for word in command])
        read = capsys.readouterr()
        assert code in (0, 1, 2), (path, command)
        if code == 2:
            sentence = read.err.splitlines()[-1]
            assert sentence.startswith("Error: "), (path, command)
            assert len(sentence) < 1000
    assert {file: (bundle / file).read_bytes() for file in files} == files


def test_what_is_changed_is_changed():
    """Of this many files most are no longer what they were."""
    data = sample("simplex")[MANIFEST]
    changed = [mutated(data, random.Random(seed)) != data for seed in range(60)]
    assert sum(changed) > 50
    assert json.loads(data)
