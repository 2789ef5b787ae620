"""Pages that are made from the package: a page a command, with its example run, and its names."""

from __future__ import annotations

import re
import tempfile
import tomllib
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import click
from runs import Ran, ended, environment, run_all, shown

import ocs_codesign
from ocs_codesign.faces.answers.declared import records, versioned
from ocs_codesign.faces.cli import SECTIONS, app

_WIDTH = 88
"""Columns of a help text, as many as the page shows."""

_MOST_LINES = 40
_INSTALL = ("pip install mpi4py", "apt-get install")
"""What commands say where something is missing that not every reader has: MPI, a package."""
_SAID = ("help_all", "verbose", "quiet")
"""Options that every command has: the index says so."""
_OF_SWITCHES = ("control", "rehearse", "switch-agent")
"""Commands whose examples need switches, or may make namespaces."""

_PAPERS = Path(__file__).resolve().parent / "papers.toml"
_VERDICTS = ("better", "equal", "worse", "differs", "not compared")


PACKAGES = sorted(set(dir(ocs_codesign)) - set(ocs_codesign.__all__))


def write_command_pages(directory: Path) -> None:
    """A page for every command with what its help says and what its example prints."""
    directory.mkdir(exist_ok=True)
    commands = {
        name: app.get_command(click.Context(app), name) for name in chain(*SECTIONS.values())
    }
    helps: dict[str, _Help] = {}
    for name, command in commands.items():
        if command is None:
            raise ValueError(f"there is no command {name}")
        helps.update(_helps(name, command))
    asked = {
        f"commands/{name}": [("example", line) for line in _example(name, told.text)]
        for name, told in helps.items()
        if name.partition(" ")[0] not in _OF_SWITCHES
    }
    printed = run_all(asked, lambda blocks, _: [Ran("\n".join(_ran([line for _, line in blocks])))])
    index = ["# Commands", "", "Every command takes `--json FILE`, `-v`, `-q` and `--help`.", ""]
    for section, names in SECTIONS.items():
        index += [f"## {section}", ""]
        for name in names:
            summary = commands[name].get_short_help_str(200)
            lines = [f"# {name}", "", summary, ""]
            for inner, told in helps.items():
                if inner.partition(" ")[0] == name:
                    lines += [f"## {inner}", ""] if inner != name else []
                    lines += ["```text", told.text, "```", ""]
                    for ran in printed.get(f"commands/{inner}", ()):
                        lines += ["The example prints:", "", "```text", ran.printed, "```", ""]
                    lines += _options(inner, told)
            _write(directory / f"{name}.md", "\n".join([*lines, *_json_words(name)]))
            index.append(f"- [{name}]({name}.md): {summary}")
        index += ["", "```{toctree}", ":hidden:", "", *names, "```", ""]
    index += ["```{toctree}", ":hidden:", "", "answers", "```", ""]
    _write(directory / "index.md", "\n".join(index))


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


class _Help(NamedTuple):
    """What the help of a command says: before its options, and of every one, rare ones last.

    Of an option there are its names with what it takes, and its text.
    """

    text: str
    common: list[tuple[str, str]]
    rare: list[tuple[str, str]]


def _helps(name: str, command: click.Command) -> dict[str, _Help]:
    """The help of a command, or of each in a group."""
    if isinstance(command, click.Group):
        inner = {f"{name} {each}": value for each, value in command.commands.items()}
        return {each: text for full in inner for each, text in _helps(full, inner[full]).items()}
    context = click.Context(command, info_name=f"ocs-codesign {name}", terminal_width=_WIDTH)
    text = command.get_help(context).partition("\nOptions:\n")[0].rstrip()
    options = [each for each in command.params if isinstance(each, click.Option)]
    told: tuple[list[tuple[str, str]], list[tuple[str, str]]] = ([], [])
    for each in options:
        is_rare, each.hidden = each.hidden, False
        record, each.hidden = each.get_help_record(context), is_rare
        if record is not None and each.name not in _SAID:
            told[is_rare].append(record)
    return {name: _Help(text, *told)}


def _options(name: str, told: _Help) -> list[str]:
    """Every option with an anchor, those that are rarely used last."""
    lines = [f"```{{program}} ocs-codesign {name}", "```", ""]
    for title, options in (("Options", told.common), ("Rarely used", told.rare)):
        lines += [f"**{title}**", ""] if options else []
        for names, text in options:
            escaped = re.sub(r"([\\`*_<\[\]])", r"\\\1", text)
            marked = re.sub(r"(?<![\w-])(--?[a-z][\w-]*)", r"`\1`", escaped)
            lines += [f"```{{option}} {names}", marked, "```", ""]
    return lines


def _example(name: str, text: str) -> list[str]:
    """The commands of the example that a help ends with."""
    found = re.search(r"\n  Example:\n((?:    .*\n)+)", text + "\n")
    if found is None:
        raise ValueError(f"the help of {name} has no example")
    return [line.strip() for line in re.sub(r"\s*\\\n\s*", " ", found[1]).splitlines()]


def _ran(commands: list[str]) -> list[str]:
    """What the commands print, one after the other in an empty directory."""
    printed: list[str] = []
    with tempfile.TemporaryDirectory() as room:
        around, work = environment(Path(room)), Path(room) / "work"
        work.mkdir()
        for line in commands:
            done = ended("bash", line, work, around)
            printed.append(f"$ {line}")
            if done.returncode == 0:
                printed += shown(done.stdout, _MOST_LINES).splitlines()
            elif any(word in done.stderr for word in _INSTALL):
                printed += done.stderr.rstrip().splitlines()
            else:
                raise RuntimeError(f"{line}: {done.stderr}")
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


def write_papers_page(directory: Path) -> None:
    """What papers claim beside what our commands print, from ``papers.toml``."""
    lines = [
        "# Against the papers",
        "",
        "What papers claim, with its place in them, and what a command here prints.",
    ]
    lines += [
        "Only what is asked in the same way is compared; the rest says why not. A test runs the",
        "commands.",
        "",
    ]
    lines += ["| paper | claim | ours | verdict |", "|---|---|---|---|"]
    for case in paper_cases():
        claim = case["claim"] + (f" ({case['place']})" if "place" in case else "")
        ours = case.get("ours", "") + (f"<br>`{case['command']}`" if "command" in case else "")
        verdict = f"**{case['verdict']}**" + (f": {case['why']}" if "why" in case else "")
        lines.append("| " + " | ".join([case["paper"], claim, ours, verdict]) + " |")
    _write(directory / "papers.md", "\n".join(lines))


def paper_cases() -> list[dict[str, str]]:
    """The cases of ``papers.toml``; ValueError for one that says too little."""
    cases: list[dict[str, str]] = tomllib.loads(_PAPERS.read_text(encoding="utf-8"))["case"]
    for case in cases:
        missing = {"paper", "claim", "verdict"} - case.keys()
        if case["verdict"] not in _VERDICTS or missing:
            raise ValueError(f"{case}: a verdict is one of {', '.join(_VERDICTS)}")
        if case["verdict"] in ("differs", "not compared") and "why" not in case:
            raise ValueError(f"{case}: why not?")
    return cases


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
