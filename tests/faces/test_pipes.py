"""Output that nobody reads: commands end in silence, as other tools do before ``| head``."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ocs_codesign.faces.cli import COMMANDS, main
from ocs_codesign.faces.cli.interruption import CLOSED, is_closed

if not hasattr(os, "fork"):
    pytest.skip("pipes that are closed are a thing of Unix", allow_module_level=True)

COMMAND = [sys.executable, "-m", "ocs_codesign"]
FRONTIER = ["frontier", "--nodes", "12", "--degree", "4"]


def closed_end():
    """The end of a pipe into which nothing can be written, as nobody has its other end."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["frontier", "--help"],
        FRONTIER,
        [*FRONTIER, "--json", "-"],
        ["-v", *FRONTIER],
        ["topology", "Complete(4)", "--out", "-"],
    ],
    ids=" ".join,
)
def test_nobody_reads_standard_output(arguments, tmp_path):
    writing = closed_end()
    done = subprocess.run(
        [*COMMAND, *arguments], stdout=writing, stderr=subprocess.PIPE, cwd=tmp_path, check=False
    )
    os.close(writing)
    said = done.stderr.decode()
    assert done.returncode == CLOSED, said
    assert "-v" in arguments or said == ""
    assert "Error" not in said
    assert "Traceback" not in said


@pytest.mark.parametrize("arguments", [["frontier"], ["no-command"], ["-v", *FRONTIER]])
def test_nobody_reads_anything(arguments, tmp_path):
    """Neither what went wrong; what ends first, the output or the message, does not matter."""
    writing = closed_end()
    ends = {"stdout": writing, "stderr": writing}
    done = subprocess.run([*COMMAND, *arguments], **ends, cwd=tmp_path, check=False)
    os.close(writing)
    assert done.returncode == CLOSED


def test_head_gets_its_lines_and_nothing_is_said(tmp_path):
    """More than a pipe holds is written, so that the reader is gone before the end."""
    shell = f'"{sys.executable}" -m ocs_codesign topology "Complete(300)" --out - | head -n 2; '
    done = subprocess.run(
        ["bash", "-c", f"{shell} echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        cwd=tmp_path,
        check=True,
    )
    *lines, code = done.stdout.decode().splitlines()
    assert len(lines) == 2
    assert int(code) == CLOSED
    assert done.stderr == b""


def test_files_are_written_all_the_same(tmp_path):
    writing = closed_end()
    done = subprocess.run(
        [*COMMAND, *FRONTIER, "--json", "answer.json"], stdout=writing, cwd=tmp_path, check=False
    )
    os.close(writing)
    assert done.returncode == CLOSED
    assert (tmp_path / "answer.json").read_bytes().startswith(b"{")


def test_another_pipe_that_breaks_is_an_error(monkeypatch, capsys):
    def broken(*_, **__):
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("ocs_codesign.graphs.text.parse", broken)
    monkeypatch.setattr("ocs_codesign.faces.cli.handles.recipe_of", broken)
    assert not is_closed()
    assert main(["cost", "Complete(4)"]) == 2
    assert capsys.readouterr().err.strip() == "Error: a pipe to another process broke"


def test_output_that_is_read_ends_as_ever(tmp_path):
    done = subprocess.run([*COMMAND, *FRONTIER], capture_output=True, cwd=tmp_path, check=False)
    assert done.returncode == 0
    assert done.stdout


@pytest.mark.parametrize("closed", [("stdout",), ("stderr",), ("stdout", "stderr")], ids="-".join)
@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_streams_that_were_closed_from_the_start_change_no_exit_code(monkeypatch, command, closed):
    for name in closed:
        monkeypatch.setattr(sys, name, None)
    assert main([command, "--help"]) == 0
    assert main([command, "--no-such-option"]) == 2
    for name in closed:
        getattr(sys, name).close()


@pytest.mark.parametrize("ends", [">&-", "2>&-", ">&- 2>&-", "2>/dev/full"])
def test_a_verdict_is_the_exit_code_whatever_reads_it(tmp_path, ends):
    assert main(["build", "Complete(4)", "--out", str(tmp_path / "b")]) == 0
    for place, code in (("b", 0), ("nothing", 2)):
        line = f'"$@" verify {place} {ends}'
        done = subprocess.run(["sh", "-c", line, "sh", *COMMAND], cwd=tmp_path, check=False)
        assert done.returncode == code


def test_a_full_disk_is_an_error_and_said():
    with open("/dev/full", "w", encoding="ascii") as full:
        for arguments in (["--version"], ["topology", "Complete(4)", "--out", "-"]):
            ends = {"stdout": full, "stderr": subprocess.PIPE}
            done = subprocess.run([*COMMAND, *arguments], **ends, check=False)
            assert (done.returncode, done.stderr.decode().count("no space left")) == (2, 1)
