"""What the README shows is what happens."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from ocs_codesign.cli import main
from ocs_codesign.graphs.registry import EXPANSIONS, FAMILIES, GROUPS

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_python_examples_print_what_they_say():
    examples, names = blocks("python"), {}
    assert len(examples) == 3
    for code in examples:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "README.md", "exec"), names)
        assert printed.getvalue() in blocks("text")


@pytest.mark.slow
def test_the_main_command_prints_what_it_says(capsys):
    (command,) = re.findall(r"<!-- main command -->\n```bash\n(.*?)\n```", README)
    arguments = command.split("ocs-codesign ")[1].split()
    assert main(arguments) == 0
    shown = blocks("text")[0]
    assert capsys.readouterr().out.startswith(shown)


def printed_by(line: str) -> str:
    """What a command in a command prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(shlex.split(line)[1:]) == 0
    return printed.getvalue().strip()


@pytest.mark.slow
def test_the_other_commands_work(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = "\n".join(blocks("bash")).replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.startswith("ocs-codesign ")]
    assert len(lines) >= 10
    for line in lines:
        if "--nodes 1024" in line or " sweep " in line:
            continue
        line = re.sub(r'"\$\((.*?)\)"', lambda inner: shlex.quote(printed_by(inner[1])), line)
        command, _, file = line.partition(" > ")
        assert main(shlex.split(command)[1:]) == 0, line
        printed = capsys.readouterr()
        assert printed.err == ""
        if file:
            Path(file).write_text(printed.out, encoding="utf-8")


@pytest.mark.parametrize("registry", [FAMILIES, EXPANSIONS, GROUPS])
def test_the_tables_name_every_recipe(registry):
    assert [name for name in registry if f"`{name}(" not in README] == []


def test_links_and_pictures_exist():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if not target.startswith("http"):
            assert (ROOT / target).exists(), target
