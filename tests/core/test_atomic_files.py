"""Files and directories that are replaced: killed anywhere, and by two at once."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import kills
import pytest

from ocs_codesign.core.files import atomic
from ocs_codesign.core.files.atomic import held_alone, recovered, whole_directory, write_files


def put(directory, text, names=("a", "b")):
    with whole_directory(directory, swapped=True) as part:
        for name in names:
            (part / name).write_text(text, encoding="utf-8")


def texts(directory):
    return {path.name: path.read_text(encoding="utf-8") for path in directory.iterdir()}


def test_a_directory_that_was_taken_away_comes_back_and_is_told(tmp_path):
    put(tmp_path / ".out.01234567.ocs-old", "old")
    assert recovered(tmp_path / "other") is False
    assert texts(tmp_path / "out") == {"a": "old", "b": "old"}
    (tmp_path / "out").rename(tmp_path / ".out.01234567.ocs-old")
    assert recovered(tmp_path / "out") is True
    put(tmp_path / ".out.01234567.ocs-old", "older")
    assert recovered(tmp_path / "out") is False
    assert texts(tmp_path / "out") == {"a": "old", "b": "old"}
    assert os.listdir(tmp_path) == ["out"]


def test_what_is_left_behind_is_removed_by_the_next_and_what_is_in_use_is_not(tmp_path):
    strangers = [".f.0123456z.ocs-tmp", ".f.01234567.tmp", "f.01234567.ocs-tmp"]
    for name in (*strangers, ".f.01234567.ocs-tmp", ".g.01234567.ocs-tmp"):
        (tmp_path / name).write_bytes(b"half")
    used = tmp_path / ".f.89abcdef.ocs-tmp"
    used.write_bytes(b"in use")
    place = os.open(used, os.O_RDONLY)
    fcntl.flock(place, fcntl.LOCK_EX)
    write_files({tmp_path / "f": b"2"})
    assert set(os.listdir(tmp_path)) == {*strangers, used.name, "f"}
    os.close(place)
    write_files({tmp_path / "h": b"3"})
    assert set(os.listdir(tmp_path)) == {*strangers, "f", "h"}


def test_without_locks_only_what_has_the_same_name_is_removed(tmp_path, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", flock)
    for name in ("f", "g"):
        (tmp_path / f".{name}.01234567.ocs-tmp").write_bytes(b"half")
    write_files({tmp_path / "f": b"1"})
    assert set(os.listdir(tmp_path)) == {".g.01234567.ocs-tmp", "f"}


def test_whoever_writes_next_clears_what_a_kill_left_and_spares_who_still_writes(tmp_path):
    """Every store, stopped before each of its changes; see the program that stops it."""
    done = subprocess.run(
        [sys.executable, kills.__file__], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_directory_that_another_holds_is_not_replaced(exchanges, tmp_path, monkeypatch):
    out = tmp_path / "out"
    put(out, "old")
    if not exchanges:
        monkeypatch.setattr(atomic, "_exchanged", lambda *_: False)
    place = os.open(out, os.O_RDONLY)
    fcntl.flock(place, fcntl.LOCK_EX)
    with pytest.raises(ValueError, match="another command is changing it"):
        put(out, "new")
    assert texts(out) == {"a": "old", "b": "old"}
    os.close(place)
    with held_alone(out), held_alone(Path(f"{out}/")):
        put(out, "new", ["c"])
    assert texts(out) == {"c": "new"}
    assert os.listdir(tmp_path) == ["out"]
