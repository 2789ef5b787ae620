"""Where tests find things: the checkout, its data, the packaged examples and the sources."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "ocs_codesign"
DATA = ROOT / "tests" / "data"
EXAMPLES = PACKAGE / "faces" / "examples"


KINDS = (
    *(ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef),
    *(ast.Call, ast.Assert, ast.Try, ast.Subscript),
)


@cache
def sources() -> dict[str, ast.Module]:
    """Every module of the package by its path in it, parsed once a process."""
    return {
        str(path.relative_to(PACKAGE)): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


@cache
def nodes() -> list[tuple[str, ast.AST]]:
    """The nodes of these kinds and their modules, found in one walk."""
    return [
        (module, node)
        for module, tree in sources().items()
        for node in ast.walk(tree)
        if isinstance(node, KINDS)
    ]
