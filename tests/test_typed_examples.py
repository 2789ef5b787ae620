"""Examples are typed: what the documentation shows and experiments pass mypy, as users' code."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


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


def complaints(paths: list[Path]) -> str:
    """What mypy says of these modules with the project's settings; empty where all is well."""
    mypy = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
    done = subprocess.run(
        [*mypy, "--no-pretty", *map(str, paths)],
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
def test_a_wrong_example_is_found(tmp_path):
    wrong = {"page_wrong": "import ocs_codesign as oc\n\noc.frontier(12, 4).candidate\n"}
    assert 'has no attribute "candidate"' in complaints(modules(tmp_path, wrong))


@pytest.mark.slow
def test_experiments_are_typed():
    assert complaints(sorted((ROOT / "experiments").glob("*.py"))) == ""
