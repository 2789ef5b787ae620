"""Pages that are made from the package: a page a command, with its example run, and its names."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import click

import ocs_codesign
from ocs_codesign.cli import SECTIONS, app

_WIDTH = 88
"""Columns of a help text, as many as the page shows."""

_MOST_LINES = 40
_LONGEST_S = 300

ROOMS = {
    "Topologies": ("topology", "given", "graphs.", "bounds", "formats.graphs"),
    "Collectives and schedules": ("collective", "demand", "schedule", "messages", "cost"),
    "Designs and search": ("design", "search.", "plot"),
    "Making schedules": ("schedulers.", "factorisation"),
    "Checking": ("verification.",),
    "Networks": ("network", "networks.", "routes", "forest", "formats.cluster"),
    "The clock": ("simulate.", "timed"),
    "Jobs": ("workload.", "formats.jobs."),
    "Circuits that change": ("circuits", "reconfigure."),
    "Fabrics and bundles": (
        "fabric.",
        "bundle.",
        "web.report",
        "formats.fabric",
        "formats.workload",
    ),
    "Files": ("formats.",),
}
"""Sections of the Python reference, and which modules' names they have: the first that fits."""


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
    _write(directory / "index.md", "\n".join(index))


def _command_page(name: str, command: click.Command) -> list[str]:
    lines = [f"# {name}", "", f"{command.get_short_help_str(200)}", ""]
    if not isinstance(command, click.Group):
        return lines + _help(name, command)
    for inner, each in command.commands.items():
        lines += [f"## {name} {inner}", "", *_help(f"{name} {inner}", each)]
    return lines


def _help(name: str, command: click.Command) -> list[str]:
    context = click.Context(command, info_name=f"ocs-codesign {name}", terminal_width=_WIDTH)
    text = command.get_help(context)
    lines = ["```text", text, "```", ""]
    found = re.search(r"\n  Example:\n((?:    .*\n)+)", text + "\n")
    if found is None:
        raise ValueError(f"the help of {name} has no example")
    commands = [line.strip() for line in re.sub(r"\s*\\\n\s*", " ", found[1]).splitlines()]
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
            if done.returncode != 0:
                raise RuntimeError(f"{line}: {done.stderr}")
            printed.append(f"$ {line}")
            if file:
                (Path(place) / file).write_text(done.stdout, encoding="utf-8")
                continue
            shown = done.stdout.rstrip().splitlines()
            left_out = len(shown) - _MOST_LINES
            printed += shown if left_out <= 0 else shown[:_MOST_LINES]
            printed += [f"... {left_out} more lines"] if left_out > 0 else []
    return printed


def write_reference_pages(directory: Path) -> None:
    """A page a room with everything that ``import ocs_codesign as oc`` offers of it."""
    directory.mkdir(exist_ok=True)
    pages: dict[str, list[str]] = {section: [] for section in ROOMS}
    for name in sorted(ocs_codesign.__all__):
        if name.startswith("__"):
            continue
        pages[_section(getattr(ocs_codesign, name).__module__)].append(name)
    index = ["# Python", "", "Names of `import ocs_codesign as oc`, loaded when first used.", ""]
    index += ["```{toctree}", ":maxdepth: 1", ""]
    for section, names in pages.items():
        slug = section.lower().replace(" ", "-")
        index.append(slug)
        lines = [section, "=" * len(section), ""]
        for name in names:
            kind = "class" if isinstance(getattr(ocs_codesign, name), type) else "function"
            lines += [f".. auto{kind}:: ocs_codesign.{name}", *_members(kind), ""]
        _write(directory / f"{slug}.rst", "\n".join(lines))
    _write(directory / "index.md", "\n".join([*index, "```", ""]))


def _members(kind: str) -> list[str]:
    return ["   :members:", "   :exclude-members: __init__, __new__"] if kind == "class" else []


def _section(module: str) -> str:
    inner = module.removeprefix("ocs_codesign.")
    for section, beginnings in ROOMS.items():
        if any(inner.startswith(each) for each in beginnings):
            return section
    raise ValueError(f"{module} is in no section of the reference: list it in docs/pages.py")


def _write(path: Path, text: str) -> None:
    """Write a page if it changed, so that what did not is not built again."""
    text = text.rstrip() + "\n"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
