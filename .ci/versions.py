"""Versions of what the tests were passed with, for ``.ci/newest`` and ``.ci/oldest``.

``python .ci/versions.py differences`` prints what of this environment is of another version than
``tests/constraints.txt`` says, ``installed`` that file as this environment would have it, and
``lowest`` a constraint file of the lower bounds of pyproject.toml.
"""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import distributions
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "tests" / "constraints.txt"
HEADING = "# What the tests were passed with; CONTRIBUTING.md says how to make this anew."
NOT_OURS = {"ocs-codesign", "pip", "setuptools", "wheel"}


def installed() -> list[str]:
    """The versions of this environment, without the project itself and what makes environments."""
    found = {re.sub(r"[-_.]+", "-", one.name).lower(): one.version for one in distributions()}
    return [f"{name}=={found[name]}" for name in sorted(found.keys() - NOT_OURS)]


def differences() -> list[str]:
    """What is of another version here, with the line of the file for it."""
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    pinned = {line.partition("==")[0]: line for line in lines}
    return [
        f"{line} here, {pinned.get(name, 'nothing')} in the file"
        for line in installed()
        for name in [line.partition("==")[0]]
        if line != pinned.get(name)
    ] or ["every version is that of the file"]


def lowest() -> list[str]:
    """The lower bound of every requirement, extras included."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = chain(project["dependencies"], *project["optional-dependencies"].values())
    return sorted({requirement.replace(">=", "==") for requirement in required})


ANSWERS = {
    "differences": differences,
    "installed": lambda: [HEADING, *installed()],
    "lowest": lowest,
}
if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in ANSWERS:
        raise SystemExit(__doc__)
    sys.stdout.write("\n".join(ANSWERS[sys.argv[1]]()) + "\n")
