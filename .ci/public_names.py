"""Writes ``__init__.pyi`` of the package and of its parts: the names they offer, for type checkers.

``--check`` writes nothing and exits with 1 if one of the files is not what would be written.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "ocs_codesign"


def stub(package: str) -> str:
    """The text of the stub of a package whose names are loaded when they are first used."""
    module = import_module(package)
    lines = {f"from {module.__name__} import {name} as {name}" for name in parts(package)}
    for name in module.__all__:
        lines.add(f"from {getattr(module, name).__module__} import {name} as {name}")
    head = '"""Made by .ci/public_names.py: names and where they are defined."""\n\n'
    version = "\n__version__: str\n" if package == PACKAGE else ""
    return head + "\n".join(sorted(lines)) + "\n" + version


def parts(package: str) -> list[str]:
    """The packages inside that are names of it as well."""
    module = import_module(package)
    return sorted(set(dir(module)) - set(module.__all__)) if package == PACKAGE else []


def stubs() -> dict[Path, str]:
    """Every stub by its path."""
    packages = [PACKAGE, *(f"{PACKAGE}.{part}" for part in parts(PACKAGE))]
    return {
        ROOT / package.replace(".", "/") / "__init__.pyi": stub(package)
        for package in packages
        if hasattr(import_module(package), "__all__")
    }


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    old = [path for path, text in stubs().items() if not path.exists() or path.read_text() != text]
    if "--check" not in sys.argv:
        for path in old:
            path.write_text(stubs()[path], encoding="utf-8")
    elif old:
        sys.exit(f"{old[0]} is old: run python .ci/public_names.py")
