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


MODULES = [str(path.relative_to(PACKAGE)) for path in sorted(PACKAGE.rglob("*.py"))]
"""Every module of the package by its path in it."""


@cache
def sources() -> dict[str, ast.Module]:
    """The modules, parsed once a process and not while tests are collected."""
    return {module: ast.parse((PACKAGE / module).read_text(encoding="utf-8")) for module in MODULES}


@cache
def nodes() -> list[tuple[str, ast.AST]]:
    """The nodes of these kinds and their modules, found in one walk."""
    return [
        (module, node)
        for module, tree in sources().items()
        for node in ast.walk(tree)
        if isinstance(node, KINDS)
    ]
