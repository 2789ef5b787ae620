"""Files and directories that are replaced: killed anywhere, and by two at once."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ocs_codesign.core.files import atomic
from ocs_codesign.core.files.atomic import held_alone, recovered, whole_directory, write_files

_KILLED = """
import os, sys
from pathlib import Path
from ocs_codesign.core.files import atomic

exchanges, call = sys.argv[1] == "True", int(sys.argv[2])
exchanged, count = atomic._exchanged, 0

def counted(do):
    def done(*arguments, **options):
        global count
        for _ in range(2):  # killed before it, or after it
            if count == call:
                os._exit(9)
            if _ == 0:
                answer = do(*arguments, **options)
            count += 1
        return answer
    return done

for name in ("rename", "replace"):
    setattr(atomic.os, name, counted(getattr(os, name)))
atomic.shutil.rmtree = counted(atomic.shutil.rmtree)
atomic._exchanged = counted(exchanged if exchanges else lambda *_: False)
with atomic.whole_directory(Path("out"), swapped=True) as part:
    (part / "a").write_text("new")
    (part / "b").write_text("new")
"""


def put(directory, text, names=("a", "b")):
    with whole_directory(directory, swapped=True) as part:
        for name in names:
            (part / name).write_text(text, encoding="utf-8")


def texts(directory):
    return {path.name: path.read_text(encoding="utf-8") for path in directory.iterdir()}


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_directory_survives_a_kill_at_any_step_and_nothing_is_left(exchanges, tmp_path):
    seen = set()
    for call in range(20):
        out = tmp_path / str(call) / "out"
        put(out, "old")
        words = [sys.executable, "-c", _KILLED, str(exchanges), str(call)]
        ended = subprocess.run(words, cwd=out.parent, check=False)
        is_back = recovered(out)
        assert os.listdir(out.parent) == ["out"]
        (text,) = set(texts(out).values())
        assert set(texts(out)) == {"a", "b"}
        seen.add((text, is_back))
        if ended.returncode == 0:
            break
    assert ended.returncode == 0
    assert seen >= {("old", False), ("new", False)}
    assert (("old", True) in seen) != exchanges


def test_what_is_left_behind_is_removed_by_the_next_and_what_is_in_use_is_not(tmp_path):
    write_files({tmp_path / "f": b"1"})
    (tmp_path / ".f.01234567.tmp").write_bytes(b"half")
    (tmp_path / ".f.0123456z.tmp").write_bytes(b"mine")
    used = tmp_path / ".f.89abcdef.tmp"
    used.write_bytes(b"in use")
    place = os.open(used, os.O_RDONLY)
    fcntl.flock(place, fcntl.LOCK_EX)
    write_files({tmp_path / "f": b"2"})
    assert sorted(os.listdir(tmp_path)) == [".f.0123456z.tmp", ".f.89abcdef.tmp", "f"]
    os.close(place)
    write_files({tmp_path / "f": b"3"})
    assert sorted(os.listdir(tmp_path)) == [".f.0123456z.tmp", "f"]


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
