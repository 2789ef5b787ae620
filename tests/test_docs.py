"""What README and documentation show is what happens: commands run, outputs are as shown."""

from __future__ import annotations

import re
import subprocess
import tomllib
from contextlib import chdir, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path

import pages
import pytest
import runs
from folders import ROOT

from ocs_codesign.faces.cli.help_levels import RARE
from ocs_codesign.graphs.registry import EXPANSIONS, FAMILIES, GROUPS

DOCS = ROOT / "docs"
WRITTEN = [
    path for path in sorted(DOCS.rglob("*.md")) if path.parent.name not in {"commands", "reference"}
]
PAGES = [ROOT / "README.md", *WRITTEN]
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
COMMANDS = "ocs-codesign "
INSTALLS = "-m venv"


def blocks(page: Path, *languages: str) -> list[tuple[str, str]]:
    """The code blocks of a page in these languages, with their language."""
    found = re.findall(r"^```(\w+)\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    return [(language, text) for language, text in found if language in languages]


def script(page: Path) -> str:
    """All commands of a page, without the installation; blocks that take hours are ``sh``."""
    texts = []
    for _, text in blocks(page, "bash"):
        last = text.rpartition("&&")[2].strip().removeprefix(".venv/bin/")
        if INSTALLS not in text:
            texts.append(text)
        elif last.startswith(COMMANDS):
            texts.append(last)
    return "\n".join(texts)


@pytest.mark.slow
@every_page
def test_commands_work_and_print_what_is_shown(page, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script(page)],
        cwd=work,
        env=runs.environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stderr
    printed = {line.rstrip() for line in done.stdout.splitlines()}
    python = python_output(page)
    for _, text in blocks(page, "text"):
        shown = [line.rstrip() for line in text.splitlines() if line.strip()]
        assert text in python or [line for line in shown if line not in printed] == []


@cache
def python_output(page: Path) -> list[str]:
    """What the Python blocks of a page print, each in what the ones before left."""
    code = [text for _, text in blocks(page, "python")]
    if not code:
        return []
    printed = []
    names: dict[str, object] = {"__name__": "__main__"}
    for text in code:
        with chdir(ROOT), redirect_stdout(StringIO()) as out:
            exec(compile(text, str(page), "exec"), names)
        printed.append(out.getvalue())
    return printed


@every_page
def test_python_prints_what_is_shown(page):
    shown = [text for _, text in blocks(page, "text")]
    assert [text for text in python_output(page) if text not in shown] == []


@every_page
def test_links_and_pictures_exist(page):
    text = page.read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#]+)\)", text) + re.findall(r"<([^>`\s]+)>`", text)
    targets += re.findall(r'\bsrc(?:set)?="([^"]+)"', text)
    for target in targets:
        is_generated = target.removeprefix("../").startswith("commands/")
        if "://" not in target and target != "URL" and not is_generated:
            assert (page.parent / target).exists(), target


@every_page
def test_no_block_runs_into_a_sentence(page):
    """Indented lines below a sentence are its end; a formula of two lines would be one."""
    text = re.sub(r"^(```|:::).*?^\1$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    assert re.findall(r"^(?![-*#:|\d]|\s).+\n {4,}\S.*", text, re.M) == []


def test_documentation_is_built_with_its_extra_alone(monkeypatch):
    """What an example needs is in the extra, or the page says what is missing; else it fails."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = extras["optional-dependencies"]
    assert set(extras["chakra"]) <= set(extras["docs"])
    monkeypatch.setenv("PATH", "/nowhere")
    asked, told = pages._ran(["ocs-codesign run 'Complete(3)'"])
    assert asked == "$ ocs-codesign run 'Complete(3)'"
    assert "is missing: " in told
    with pytest.raises(RuntimeError, match="Nonsense"):
        pages._ran(["ocs-codesign cost 'Nonsense(3)'"])


@pytest.mark.slow
def test_what_is_said_of_papers_is_what_commands_print(tmp_path):
    cases = [case for case in pages.paper_cases() if "shows" in case]
    assert len({case["paper"] for case in cases}) > 10
    shell = runs.environment(tmp_path)
    printed = {
        command: subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=tmp_path,
            env=shell,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for command in {case["command"] for case in cases}
    }
    for case in cases:
        assert case["shows"] in printed[case["command"]], case["claim"]


def test_blocks_of_a_page_run_once_in_one_directory_and_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(runs, "package_digest", lambda: "a package")
    page = tmp_path / "page.md"
    page.write_text(
        "```{run} bash\n:lines: 2\n\nprintf 'a\\nb\\nc\\n' | tee letters\n```\n"
        "```{run} python\nprint(open('letters').read().split())\n```\n```bash\nexit 1\n```\n"
    )
    blocks = runs.blocks_of(page)
    first, second = runs.kept("page.md", blocks, runs.run_blocks)
    assert (first.printed, second.printed) == ("a\nb\nc\n", "['a', 'b', 'c']\n")
    assert runs.shown(first.printed, 1) == "a\n... 2 more lines"
    assert runs.shown("in 3 s", varies=r"\d+ s") == "in ..."
    assert runs.run_all({"page.md": blocks}, None)["page.md"] == [first, second]
    with pytest.raises(RuntimeError, match="no such thing"):
        runs.run_blocks([("bash", "echo no such thing >&2; false")], tmp_path)
    monkeypatch.setattr(runs, "package_digest", lambda: "another package")
    with pytest.raises(ZeroDivisionError):
        runs.kept("page.md", blocks, lambda *_: 1 // 0)


@pytest.mark.slow
def test_every_option_has_an_anchor_the_common_ones_first(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "run_all", lambda *_: {})
    pages.write_command_pages(tmp_path)
    frontier = (tmp_path / "frontier.md").read_text(encoding="utf-8")
    common, rare = frontier.split("**Rarely used**")
    assert "{option} -n, --nodes RANGE" in common
    assert "{option} --solver [highs|gurobi]" in rare
    told = "".join(path.read_text(encoding="utf-8") for path in tmp_path.glob("*.md"))
    anchored = re.findall(r"^```\{option\} (?:-\w, )?(--[\w-]+)", told, re.M)
    assert {*RARE, "--nodes", "--json"} <= set(anchored)
    assert len(anchored) > 600


def test_pictures_of_a_block_come_in_both_looks(tmp_path):
    draw = "from matplotlib.figure import Figure\nFigure((2, 1)).savefig('line.png')\n"
    (ran,) = runs.run_blocks([("python", draw)], tmp_path)
    assert [ran.printed, *ran.pictures] == ["", "0_line.png"]
    assert {path.name for path in tmp_path.iterdir()} == {"0_line.png", "0_line.dark.png"}


@pytest.mark.parametrize("registry", [FAMILIES, EXPANSIONS, GROUPS])
def test_the_tables_name_every_recipe(registry):
    tables = (DOCS / "concepts" / "recipes.md").read_text(encoding="utf-8")
    assert [name for name in registry if f"`{name}(" not in tables] == []


def test_the_main_command_is_short():
    (command,) = re.findall(r"<!-- main command -->\n```bash\n(.*?)\n```", PAGES[0].read_text())
    assert command.count("&&") == 2
    assert COMMANDS in command


def test_what_contributing_names_is_there():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w./]+(?:/|\.py|\.toml|\.html))`", text))
    assert len(named) > 30
    missing = [
        path
        for path in named
        if not any((base / path).exists() for base in (ROOT, ROOT / "ocs_codesign"))
    ]
    assert set(missing) <= {
        "make_base_topologies.py",
        "make_base_schedules.py",
        "run.py",
        "index.html",
        "main.js",
    }
    assert text.count("\n") < 130, "one page"
