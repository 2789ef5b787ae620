"""Examples are typed: what documentation and docstrings show passes mypy, as users' code does."""

from __future__ import annotations

import ast
import doctest
import json
import re
import subprocess
import sys
from pathlib import Path
from textwrap import indent

import pytest
from folders import ROOT

DOCS = ROOT / "docs"
OF_DOCSTRINGS = (
    *("--no-strict-optional", "--allow-untyped-calls"),
    *("--cache-dir", str(ROOT / ".mypy_cache" / "docstrings")),
)
"""Docstrings show what was found without asking whether, and call kernels, which have no types;
what mypy knows of the package under other settings is not thrown away for that."""


def examples() -> dict[str, str]:
    """The Python of README, of every written page and of every notebook, a module each."""
    pages = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    written = [path for path in pages if path.parent.name not in {"commands", "reference"}]
    found = {
        f"page_{path.stem}": re.findall(
            r"^```python\n(.*?)^```", path.read_text("utf-8"), re.M | re.S
        )
        for path in written
    }
    for path in sorted(DOCS.rglob("*.ipynb")):
        cells = json.loads(path.read_text("utf-8"))["cells"]
        found[f"notebook_{path.stem}"] = [
            "".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"
        ]
    return {name: "\n".join(blocks) for name, blocks in found.items() if blocks}


def docstring_examples() -> dict[str, str]:
    """The examples of the docstrings of every module, a function each, a module a module."""
    found = {}
    for path in sorted((ROOT / "ocs_codesign").rglob("*.py")):
        source = path.read_text("utf-8")
        if ">>>" in source:
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            text = typed_text(module.removesuffix(".__init__"), ast.parse(source))
            if text:
                found["doctest_" + module.replace(".", "__")] = text
    return found


def typed_text(module: str, tree: ast.Module) -> str:
    """The examples of a module as functions, without those that show an error."""
    functions, used = [], set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            continue
        shown = doctest.DocTestParser().get_examples(ast.get_docstring(node) or "")
        body = "".join(one.source for one in shown if one.exc_msg is None)
        if body:
            used |= {one.id for one in ast.walk(ast.parse(body)) if isinstance(one, ast.Name)}
            name = f"example_{node.lineno if not isinstance(node, ast.Module) else 0}"
            functions.append(f"def {name}() -> None:\n{indent(body, '    ')}")
    if not functions:
        return ""
    imports = [line for node in tree.body for line in imported(module, node, used)]
    return "\n".join([*imports, *functions])


def imported(module: str, node: ast.stmt, used: set[str]) -> list[str]:
    """What a statement of a module defines of these names, for its examples have them."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        names = {(name.asname or name.name).split(".")[0] for name in node.names}
        is_future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        return [ast.unparse(node)] if names & used and not is_future else []
    defined = [getattr(node, "name", "")]
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        defined = [
            one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)
        ]
    return [f"from {module} import {name}" for name in defined if name in used]


def complaints(paths: list[Path], *settings: str) -> str:
    """What mypy says of these modules with the project's settings, and others; empty if nothing."""
    mypy = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
    done = subprocess.run(
        [*mypy, *settings, "--no-pretty", *map(str, paths)],
        cwd=ROOT,
        env={"MYPYPATH": str(ROOT / "experiments"), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    return "" if done.returncode == 0 else done.stdout


def modules(place: Path, texts: dict[str, str]) -> list[Path]:
    for name, text in texts.items():
        (place / f"{name}.py").write_text(text, encoding="utf-8")
    return [place / f"{name}.py" for name in texts]


@pytest.mark.slow
def test_examples_are_typed(tmp_path):
    texts = examples()
    assert {"page_README", "page_python", "notebook_frontier_of_your_size"} <= set(texts)
    assert complaints(modules(tmp_path, texts)) == ""


@pytest.mark.slow
def test_examples_of_docstrings_are_typed(tmp_path):
    texts = docstring_examples()
    assert {
        "doctest_ocs_codesign__schedules__design",
        "doctest_ocs_codesign__core__topology",
    } <= set(texts)
    assert complaints(modules(tmp_path, texts), *OF_DOCSTRINGS) == ""


@pytest.mark.slow
def test_a_wrong_example_of_a_docstring_is_found(tmp_path):
    source = '''
import math

from ocs_codesign.graphs.text import parse

def half(number: int) -> float:
    """Its half.

    >>> math.floor(half(parse("BiRing(2, 4)").num_nodes))
    2
    >>> half("four")
    2.0
    >>> half("4" + None)
    Traceback (most recent call last):
    TypeError: can only concatenate str (not "NoneType") to str
    """
    return number / 2
'''
    wrong = {"source": source, "doctest_wrong": typed_text("source", ast.parse(source))}
    (complaint,) = complaints(modules(tmp_path, wrong), *OF_DOCSTRINGS).splitlines()[:-1]
    assert 'Argument 1 to "half" has incompatible type "str"' in complaint


@pytest.mark.slow
def test_a_wrong_example_is_found(tmp_path):
    wrong = {"page_wrong": "import ocs_codesign as oc\n\noc.frontier(12, 4).candidate\n"}
    assert 'has no attribute "candidate"' in complaints(modules(tmp_path, wrong))


@pytest.mark.slow
def test_experiments_are_typed():
    assert complaints(sorted((ROOT / "experiments").glob("*.py"))) == ""
