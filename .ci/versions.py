"""Versions of what the tests were passed with: ``lowest`` prints the least that pyproject.toml allows.

``python .ci/versions.py lowest`` prints a constraint file of lower bounds, ``python .ci/versions.py
differences`` what of this environment is of another version than ``tests/constraints.txt`` says, and
``python .ci/versions.py installed`` that file as this environment would have it.
"""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "tests" / "constraints.txt"
HEADING = "# What the tests were passed with; `bash .ci/newest` says what is newer. CONTRIBUTING.md: Versions.\n"


def lowest() -> dict[str, str]:
    """The lower bound of every requirement, extras included."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    bounds: dict[str, str] = {}
    for requirements in (project["dependencies"], *project["optional-dependencies"].values()):
        for requirement in requirements:
            name, version = re.fullmatch(r"([\w-]+)>=([\d.]+)", requirement).groups()
            if bounds.setdefault(name, version) != version:
                raise SystemExit(f"pyproject.toml has two lower bounds for {name}: {requirement}")
    return bounds


def pinned() -> dict[str, str]:
    """The versions of the constraint file."""
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def installed() -> dict[str, str]:
    """The versions of this environment, without the project itself and what makes environments."""
    found = {re.sub(r"[-_.]+", "-", one.name).lower(): one.version for one in distributions()}
    return {name: found[name] for name in sorted(found) if name not in ("ocs-codesign", "pip", "setuptools")}


def differences() -> list[str]:
    """A line for every package that is of another version here, or that is not in the file."""
    known = pinned()
    return [
        f"{name}: {version} here, {known.get(name, 'nothing')} in {CONSTRAINTS.relative_to(ROOT)}"
        for name, version in installed().items()
        if known.get(name) != version
    ]


if __name__ == "__main__":
    asked = sys.argv[1] if len(sys.argv) == 2 else ""
    if asked == "lowest":
        print(*(f"{name}=={version}" for name, version in lowest().items()), sep="\n")
    elif asked == "installed":
        print(HEADING, *(f"{name}=={version}\n" for name, version in installed().items()), sep="", end="")
    elif asked == "differences":
        print(*(differences() or ["every version is that of the constraint file"]), sep="\n")
    else:
        raise SystemExit(__doc__)
