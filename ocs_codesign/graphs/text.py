"""Reading recipes: a whitelisting walk over the syntax tree of one call expression, no eval."""

from __future__ import annotations

import ast
from collections import ChainMap
from typing import Any

from ocs_codesign.graphs.recipe import Recipe
from ocs_codesign.graphs.registry import EXPANSIONS, FAMILIES, GROUPS

MAX_TEXT = 100_000
MAX_DEPTH = 64

_CLASSES: ChainMap[str, Any] = ChainMap(GROUPS, EXPANSIONS, FAMILIES)  # listed from the last on


def parse(text: str) -> Recipe:
    """The recipe that a text names: the inverse of ``repr``.

    Only calls of recipe and group names with integers, strings, tuples and further calls are read.
    Raises ValueError with the offending part and the rule.

    >>> parse("Line(Line(CompleteBipartite(4)))").num_nodes
    128
    >>> parse("exit()")
    Traceback (most recent call last):
    ValueError: unknown name 'exit' in a recipe
    """
    if not isinstance(text, str) or not text.strip():
        raise ValueError("a recipe is a text such as 'Line(CompleteBipartite(4))': it is empty")
    if len(text) > MAX_TEXT:
        raise ValueError(f"a recipe of {len(text)} characters: at most {MAX_TEXT} are read")
    text = text.strip()
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"cannot read {_short(text)} as a recipe: not a call expression") from None
    try:
        value = _value(tree.body, 0)
    except _NotAllowedError as error:
        part = ast.get_source_segment(text, error.node) or text
        raise ValueError(f"{_short(part)} is not allowed in a recipe") from None
    if not isinstance(value, Recipe):
        raise ValueError(f"{_short(text)} is not a recipe")
    return value


def as_recipe(value: Recipe | str) -> Recipe:
    """The recipe that is meant, given itself or as text; ValueError for anything else.

    >>> as_recipe("Complete(4)")
    Complete(4)
    """
    if isinstance(value, str):
        return parse(value)
    if not isinstance(value, Recipe):
        raise ValueError(
            f"a {type(value).__name__} is no recipe; graphs are for measure_topology and "
            "build_topology"
        )
    return value


class _NotAllowedError(Exception):
    """A part of the syntax tree that recipes do not have."""

    def __init__(self, node: ast.expr) -> None:
        self.node = node


def _value(node: ast.expr, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ValueError(f"a recipe nested more than {MAX_DEPTH} deep is not read")
    match node:
        case ast.Constant(value=bool() | None):
            pass
        case ast.Constant(value=int() | str() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value)) if (
            type(value) is int
        ):
            return -value
        case ast.Tuple(elts=entries) | ast.List(elts=entries):
            return tuple(_value(entry, depth + 1) for entry in entries)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            return _call(name, [_value(argument, depth + 1) for argument in arguments])
        case ast.Name(id=name):
            raise ValueError(f"{name!r} in a recipe: names must be called, as in Complete(4)")
    raise _NotAllowedError(node)


def _call(name: str, arguments: list[Any]) -> Any:
    if name not in _CLASSES:
        from difflib import get_close_matches

        near = get_close_matches(name, _CLASSES, n=1)
        raise ValueError(
            f"unknown name {name!r} in a recipe" + (f": did you mean {near[0]}?" if near else "")
        )
    kind = _CLASSES[name]
    try:
        return kind(*arguments)
    except TypeError:
        raise ValueError(
            f"{name} does not take {len(arguments)} argument{'s' * (len(arguments) != 1)}"
        ) from None


def _short(text: str) -> str:
    text = " ".join(text.split())
    return repr(text if len(text) <= 60 else text[:57] + "...")
