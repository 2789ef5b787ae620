"""What all commands share: examples, groups, names of options, files, -v and -q, completion."""

from __future__ import annotations

import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from contextlib import closing
from inspect import signature
from pathlib import Path

import click
import pytest

from ocs_codesign.faces.cli import COMMANDS, SECTIONS, app, main

STEPS = "configuration,size\nring,1MiB\nstar,1MiB\nring,1MiB\n"
MODEL = ["--planes", "2", "--bandwidth", "400Gb/s", "--delta", "1us"]


def all_commands() -> dict[str, click.Command]:
    """Every command by its full name, groups included."""
    found: dict[str, click.Command] = {}
    for name in COMMANDS:
        command = app.get_command(None, name)
        found[name] = command
        if isinstance(command, click.Group):
            found |= {f"{name} {inner}": one for inner, one in command.commands.items()}
    return found


EVERY = all_commands()


def example_lines(name: str) -> list[str]:
    """The commands in a help text, one a line."""
    text = click.Context(EVERY[name]).get_help() if name else click.Context(app).get_help()
    found = re.search(r"\n  Example:\n((?:    .*\n)+)", text)
    assert found is not None, f"{name}: no example"
    return [line.strip() for line in found[1].replace("\\\n", " ").splitlines()]


LONG = {
    *("catalogue export", "catalogue verify", "codesign", "demand", "measure", "paths", "run"),
    *("control", "rehearse", "select", "switch-agent"),
}
"""Examples that take seconds, MPI or switches: other tests run their like."""


@pytest.mark.parametrize("name", ["", *EVERY])
def test_the_example_of_every_help_is_right(name):
    lines = example_lines(name)
    assert any(f"{line} ".startswith(f"ocs-codesign {name}".strip() + " ") for line in lines)
    for line in lines:
        words = shlex.split(line.partition(" > ")[0])[1:]
        while isinstance(command := EVERY[words[0]], click.Group):
            words = [f"{words[0]} {words[1]}", *words[2:]]
        command.make_context(words[0], words[1:])


ONCE = {"catalogue alltoall", "place"}
"""Examples that take too long to be played twice."""
BY_CLOCK = ("time_spent_s", "day")
"""Columns of a catalogue that say how long a search took, and when."""


def played(name: str, folder: Path, capsys, monkeypatch) -> dict[str, object]:
    """What the lines of an example print, and the files that they write, one of JSON as well."""
    folder.mkdir()
    monkeypatch.chdir(folder)
    found = {}
    for line in example_lines(name):
        command, _, file = line.partition(" > ")
        words = shlex.split(command)[1:]
        has_json = name and any("--json" in each.opts for each in EVERY[name].params)
        if has_json and " ".join(words).startswith(name) and not {"-j", "--json"} & set(words):
            words += ["--json", "answer.json"]
        assert main(words) == 0, line
        out, err = capsys.readouterr()
        assert (err, bool(out)) == ("", True)
        found[line] = out
        if file:
            Path(file).write_text(out, encoding="utf-8")
    files = (path for path in folder.rglob("*") if path.is_file())
    return found | {str(path.relative_to(folder)): content(path) for path in files}


def content(path: Path) -> object:
    """Bytes of a file; of a catalogue the rows, without what tells when it was made."""
    if path.suffix != ".sqlite":
        return path.read_bytes()
    with closing(sqlite3.connect(path)) as store:
        store.row_factory = sqlite3.Row
        tables = [row[0] for row in store.execute("SELECT name FROM sqlite_master ORDER BY 1")]
        rows = [dict(row) for name in tables for row in store.execute(f"SELECT * FROM '{name}'")]
    return [{key: each for key, each in row.items() if key not in BY_CLOCK} for row in rows]


@pytest.mark.parametrize("name", sorted({"", *EVERY} - LONG))
def test_the_example_of_every_help_runs_and_gives_the_same_again(
    name, capsys, tmp_path, monkeypatch
):
    """Text, JSON and files are the same bytes in a second run, in another folder."""
    runs = "a" if name in ONCE else "ab"
    first, *others = (played(name, tmp_path / run, capsys, monkeypatch) for run in runs)
    for again in others:
        assert again.keys() == first.keys()
        assert [place for place in first if first[place] != again[place]] == []


@pytest.mark.parametrize("name", ["", *(one for one in EVERY if one.count(" ") == 0)])
def test_no_list_of_commands_is_cut(name):
    """What a command does is told whole in the list that it is in."""
    group = EVERY[name] if name else app
    if isinstance(group, click.Group):
        listed = group.get_help(click.Context(group, info_name=name, terminal_width=80))
        assert "..." not in listed.partition("[ARGS]...")[2]


def test_help_groups_every_command_once(capsys):
    assert main(["--help"]) == 0
    help_text = capsys.readouterr().out
    for section, names in SECTIONS.items():
        (part,) = re.findall(rf"\n{section}:\n((?:  .*\n)+)", help_text)
        assert re.findall(r"^  (\S+)", part, re.MULTILINE) == list(names)
    assert "\nCommands:" not in help_text


def declared(make):
    """Names of the options of a function or class, those of its groups included."""
    for parameter in signature(make).parameters.values():
        inner = getattr(parameter.default, "make", None)
        yield from [parameter.name] if inner is None else declared(inner)


def test_every_declared_attribute_is_a_parameter_of_its_command():
    for name, command in EVERY.items():
        if not isinstance(command, click.Group):
            names = list(declared(command.callback.__wrapped__))
            assert len(set(names)) == len(names), name
            assert [each.name for each in command.params[: len(names)]] == names, name


SHARED = ("alpha", "bandwidth", "delta", "delta_per_circuit", "fabric_path", "overlap", "start")


def test_one_thing_has_one_name():
    names = {key: {} for key in SHARED}
    for command_name, command in EVERY.items():
        for param in command.params:
            key = param.name.removesuffix("_s")
            if isinstance(param, click.Option) and key in names:
                names[key][command_name] = param.opts[0]
    for key, spelled in names.items():
        assert set(spelled.values()) == {f"--{key.removesuffix('_path').replace('_', '-')}"}, key
    assert set(names["fabric_path"]) == {"deploy", "select", "survive"}
    assert set(names["delta"]) == {
        *("demand", "iterate", "plan", "planes", "rewire", "sequence", "simulate")
    }


def test_what_is_needed_is_marked():
    for name, options in {
        "plan": ("--delta", "--bandwidth"),
        "planes": ("--delta", "--bandwidth"),
        "demand": ("--bandwidth",),
    }.items():
        needed = {spelled for each in EVERY[name].params if each.required for spelled in each.opts}
        assert needed >= set(options), name


def test_files_complete():
    seen = 0
    for name, command in EVERY.items():
        for param in command.params:
            metavar = param.metavar or ""
            if metavar.strip("[]") in ("FILE", "DIR", "TRACE", "NEIGHBOURS.csv"):
                seen += 1
                assert isinstance(param.type, click.Path), (name, param.name)
    assert seen > 40


def test_shell_completion():
    environment = {**os.environ, "COMP_WORDS": "ocs-codesign planes --de", "COMP_CWORD": "2"}
    command = [sys.executable, "-m", "ocs_codesign"]
    for shell, expected in (("bash", "plain,--delta\nplain,--delta-per-circuit\n"), ("zsh", None)):
        environment["_OCS_CODESIGN_COMPLETE"] = f"{shell}_complete"
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=600
        )
        assert done.returncode == 0, done.stderr
        assert "--delta-per-circuit" in done.stdout
        assert expected in (None, done.stdout)


def test_help_has_two_levels(capsys):
    assert main(["build", "--help"]) == 0
    short = capsys.readouterr().out
    assert main(["build", "--help-all"]) == 0
    long = capsys.readouterr().out
    assert "--trees" in long
    assert "--trees" not in short
    assert "--help-all" in short
    assert "-c, --collective" in short


def test_what_was_meant_is_said(capsys):
    assert main(["fronteir", "-n", "12", "-d", "4"]) == 2
    err = capsys.readouterr().err
    assert err == (
        "Error: No such command 'fronteir': did you mean frontier? (try 'ocs-codesign --help')\n"
    )
    assert main(["cost", "Complete(4)", "--mesage", "1MiB"]) == 2
    err = capsys.readouterr().err
    assert "--message" in err
    assert err.endswith(" (try 'ocs-codesign cost --help')\n")


@pytest.mark.parametrize("command", [["cost", "--graph"], ["import"]])
def test_a_room_where_a_graph_is_wanted_is_told_from_one(command, capsys, tmp_path):
    assert main(["fabric", "example", "--nodes", "8"]) == 0
    (tmp_path / "room.yaml").write_text(capsys.readouterr().out, encoding="utf-8")
    assert main([*command, str(tmp_path / "room.yaml")]) == 2
    assert capsys.readouterr().err.endswith("is given as a network: --network FILE\n")


def test_an_option_of_one_value_is_given_once(capsys, tmp_path):
    steps = tmp_path / "steps.csv"
    steps.write_text(STEPS, encoding="utf-8")
    assert main(["planes", str(steps), "--start", "warm", "--start", "cold", *MODEL]) == 2
    assert "--start is given 2 times" in capsys.readouterr().err


def run(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ocs_codesign", *arguments],
        capture_output=True, text=True, check=False, timeout=600, **options,
    )  # fmt: skip


def test_standard_input_and_output():
    done = run("planes", "-", *MODEL, "--json", "-", input=STEPS)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["file"] == "stdin"
    graph = run("topology", "Complete(3)", "--out", "-").stdout
    done = run("cost", "--graph", "-", input=graph)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Complete" not in done.stdout
    done = run("cost", "--graph", "-", input="")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: /dev/stdin: ")


def test_verbose_and_quiet(capsys, tmp_path):
    words = ["build", "Complete(3)", "--out", str(tmp_path / "design")]
    assert main([*words, "-q"]) == 0
    assert capsys.readouterr() == ("", "")
    assert main(["--verbose", *words]) == 0
    out, err = capsys.readouterr()
    assert "Complete(3)" in out
    assert [line.split(" s  ")[1] for line in err.splitlines()] == [
        "Building the schedule",
        "Writing the design",
    ]
    assert main(words) == 0
    assert capsys.readouterr() == (out, "")
    assert main(["-q", "cost", "Complet(3)"]) == 2
    assert capsys.readouterr().err.startswith("Error: ")
    assert main(["-q", "cost", "Complete(3)", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["recipe"] == "Complete(3)"


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no terminals here")
@pytest.mark.parametrize(("value", "coloured"), [("1", False), ("", True)])
def test_no_color(value, coloured):
    ours, theirs = os.openpty()
    environment = {**os.environ, "NO_COLOR": value, "TERM": "xterm-256color"}
    command = [sys.executable, "-m", "ocs_codesign", "cost", "Complete(3)"]
    with subprocess.Popen(command, stdout=theirs, env=environment) as child:
        os.close(theirs)
        shown = b""
        while True:
            try:
                block = os.read(ours, 4096)
            except OSError:  # the other side is closed
                break
            if not block:
                break
            shown += block
    os.close(ours)
    assert child.returncode == 0
    assert (b"\x1b[" in shown) is coloured


def test_every_command_takes_a_collective_in_any_spelling():
    options = [
        option
        for command in EVERY.values()
        for option in command.params
        if "--collective" in option.opts
    ]
    assert len(options) > 15
    for option in options:
        for name in option.type.choices:
            for spelled in (name, name.replace("-", "_"), name.replace("-", "").title()):
                assert option.type.convert(spelled, option, None) == name
            mixed = name.replace("all", "All-").replace("--", "-").rstrip("-")
            assert option.type.convert(mixed, option, None) == name
