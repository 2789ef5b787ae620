"""Pages that are made from the package: a page a command, with its example run, and its names."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import click

import ocs_codesign
from ocs_codesign.faces.answers.declared import records, versioned
from ocs_codesign.faces.cli import SECTIONS, app
from ocs_codesign.faces.cli.help_levels import show_rare

_WIDTH = 88
"""Columns of a help text, as many as the page shows."""

_MOST_LINES = 40
_LONGEST_S = 300
_INSTALL = ("pip install mpi4py", "apt-get install")
"""What commands say where something is missing that not every reader has: MPI, a package."""
_OF_SWITCHES = ("control", "switch-agent")
"""Commands whose examples need switches."""


PACKAGES = sorted(set(dir(ocs_codesign)) - set(ocs_codesign.__all__))


def write_command_pages(directory: Path) -> None:
    """A page for every command with what its help says and what its example prints."""
    directory.mkdir(exist_ok=True)
    index = ["# Commands", "", "Every command takes `--json FILE`, `-v`, `-q` and `--help`.", ""]
    for section, names in SECTIONS.items():
        index += [f"## {section}", ""]
        for name in names:
            command = app.get_command(click.Context(app), name)
            if command is None:
                raise ValueError(f"there is no command {name}")
            _write(directory / f"{name}.md", "\n".join(_command_page(name, command)))
            index.append(f"- [{name}]({name}.md): {command.get_short_help_str(200)}")
        index += ["", "```{toctree}", ":hidden:", "", *names, "```", ""]
    index += ["```{toctree}", ":hidden:", "", "answers", "```", ""]
    _write(directory / "index.md", "\n".join(index))


def _command_page(name: str, command: click.Command) -> list[str]:
    lines = [f"# {name}", "", f"{command.get_short_help_str(200)}", ""]
    if not isinstance(command, click.Group):
        return [*lines, *_help(name, command), *_json_words(name)]
    for inner, each in command.commands.items():
        lines += [f"## {name} {inner}", "", *_help(f"{name} {inner}", each)]
    return [*lines, *_json_words(name)]


def _json_words(command: str) -> list[str]:
    """Tables of the words of a command's answers."""
    lines = ["## JSON", "", "What `--json` writes; {doc}`answers` has the words within these.", ""]
    found = [
        name
        for name, record in sorted(records().items())
        if "." in name and f"`{command}`" in record.meaning.partition(":")[0]
    ]
    for name in found:
        lines += [f"### {versioned(name)}", "", *_words_table(name)]
    return lines if found else []


def _help(name: str, command: click.Command) -> list[str]:
    show_rare(command)
    context = click.Context(command, info_name=f"ocs-codesign {name}", terminal_width=_WIDTH)
    text = command.get_help(context)
    lines = ["```text", text, "```", ""]
    found = re.search(r"\n  Example:\n((?:    .*\n)+)", text + "\n")
    if found is None:
        raise ValueError(f"the help of {name} has no example")
    commands = [line.strip() for line in re.sub(r"\s*\\\n\s*", " ", found[1]).splitlines()]
    if name in _OF_SWITCHES:
        return lines
    return [*lines, "The example prints:", "", "```text", *_ran(commands), "```", ""]


def _ran(commands: list[str]) -> list[str]:
    """What the commands print, one after the other in an empty directory."""
    printed: list[str] = []
    environment = {**os.environ, "NO_COLOR": "1"}
    with tempfile.TemporaryDirectory() as place:
        environment["OCS_CODESIGN_CACHE"] = str(Path(place) / "cache")
        for line in commands:
            words, _, file = line.partition(" > ")
            done = subprocess.run(
                [sys.executable, "-m", "ocs_codesign", *shlex.split(words)[1:]],
                cwd=place,
                env=environment,
                capture_output=True,
                text=True,
                timeout=_LONGEST_S,
                check=False,
            )
            printed.append(f"$ {line}")
            if done.returncode != 0:
                if not any(word in done.stderr for word in _INSTALL):
                    raise RuntimeError(f"{line}: {done.stderr}")
                printed += done.stderr.rstrip().splitlines()
                continue
            if file:
                (Path(place) / file).write_text(done.stdout, encoding="utf-8")
                continue
            shown = done.stdout.rstrip().splitlines()
            left_out = len(shown) - _MOST_LINES
            printed += shown if left_out <= 0 else shown[:_MOST_LINES]
            printed += [f"... {left_out} more lines"] if left_out > 0 else []
    return printed


def write_answer_page(directory: Path) -> None:
    """A page with the words of every JSON answer, from what answers are declared by."""
    directory.mkdir(exist_ok=True)
    _write(directory / "answers.md", "\n".join(answer_page()))


def answer_page() -> list[str]:
    """The lines of that page: a table an answer, then one for what is in answers."""
    lines = ["# Words of JSON answers", "", "Read {doc}`JSON <../formats/json>` first.", ""]
    for is_answer in (True, False):
        lines += ["## " + ("Answers" if is_answer else "Values in answers"), ""]
        for name in sorted(records()):
            if ("." in name) != is_answer:
                continue
            lines += [f"### {name}", "", *_words_table(name)]
    return lines


def _words_table(name: str) -> list[str]:
    record = records()[name]
    lines = [record.meaning, "", "| word | kind | unit | meaning |", "|---|---|---|---|"]
    for owner, field, always in record.flat():
        word, kind = owner.word(field), owner.kind(field).replace("|", " or ")
        often = "" if always else " (if there is one)"
        lines.append(f"| `{field.name}` | {kind}{often} | {word.unit} | {word.meaning} |")
    return [*lines, ""]


def write_reference_pages(directory: Path) -> None:
    """A page a package with everything that it offers, as its own or as ``oc.NAME``."""
    directory.mkdir(exist_ok=True)
    index = ["# Python", "", "Names of `import ocs_codesign as oc`, loaded when first used.", ""]
    index += ["```{toctree}", ":maxdepth: 1", "", *PACKAGES]
    for package in PACKAGES:
        module = import_module(f"ocs_codesign.{package}")
        lines = [f".. automodule:: ocs_codesign.{package}", ""]
        lines = [package, "=" * len(package), "", *lines]
        for name in getattr(module, "__all__", []):
            kind = "class" if isinstance(getattr(module, name), type) else "function"
            home = "ocs_codesign" if name in ocs_codesign.__all__ else module.__name__
            lines += [f".. auto{kind}:: {home}.{name}", *_members(kind), ""]
        _write(directory / f"{package}.rst", "\n".join(lines))
    _write(directory / "index.md", "\n".join([*index, "```", ""]))


def _members(kind: str) -> list[str]:
    return ["   :members:", "   :exclude-members: __init__, __new__"] if kind == "class" else []


def _write(path: Path, text: str) -> None:
    """Write a page if it changed, so that what did not is not built again."""
    text = text.rstrip() + "\n"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
