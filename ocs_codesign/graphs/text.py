"""Reading recipes: a whitelisting walk over the syntax tree of one call expression, no eval."""

from __future__ import annotations

import ast
from collections import ChainMap
from dataclasses import dataclass
from inspect import signature
from math import prod
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.core.given import as_topology, kind_of
from ocs_codesign.graphs.recipe import Recipe
from ocs_codesign.graphs.registry import EXPANSIONS, FAMILIES, GROUPS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ocs_codesign.core.given import TopologyLike
    from ocs_codesign.core.network import Network
    from ocs_codesign.core.topology import Topology


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
    if "(" not in text and not set("./\\").isdisjoint(text):
        more = f"is it a file? Give --graph {text.strip()}; in Python import_graph reads it"
        raise ValueError(f"{_short(text)} is no recipe: {more}")
    value = _parsed(text, "recipe", _CLASSES)
    if not isinstance(value, Recipe):
        raise ValueError(f"{_short(text)} is not a recipe")
    return value


def parse_network(text: str) -> Network:
    """The network that a text names: a call of a builder, or a recipe whose links are of width 1.

    Arguments may have names, and recipes stand for their topologies. Raises ValueError with the
    offending part and the rule.

    >>> parse_network("boxes(3, 2, 100, 25, outer=Complete(3))")
    Network(6 hosts, 3 switches, 18 links)
    >>> parse_network("Torus((3, 3))")
    Network(9 hosts, 0 switches, 36 links)
    """
    from ocs_codesign.core.network import Network
    from ocs_codesign.core.networks.builders import direct
    from ocs_codesign.core.networks.registry import NETWORKS

    value = _parsed(text, "network", _CLASSES, NETWORKS)
    if isinstance(value, Recipe):
        return direct(value.topology(), 1)
    if not isinstance(value, Network):
        raise ValueError(f"{_short(text)} is not a network")
    return value


def _parsed(
    text: str, what: str, classes: ChainMap[str, Any], builders: Mapping[str, Any] | None = None
) -> Any:
    """What the only call in a text makes."""
    if len(text) > MAX_TEXT:
        raise ValueError(f"a {what} of {len(text)} characters: at most {MAX_TEXT} are read")
    text = text.strip()
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"cannot read {_short(text)} as a {what}: {_unreadable(text)}") from None
    try:
        return _Reader(what, classes, builders or {}).value(tree.body, 0)
    except _NotAllowedError as error:
        part = ast.get_source_segment(text, error.node) or text
        raise ValueError(f"{_short(part)} is not allowed in a {what}") from None


def _unreadable(text: str) -> str:
    """Why a text is no call, for people who wrote it."""
    if text.startswith("#"):
        return "a handle is # and 4 hexadecimal digits or more"
    if text.count("(") != text.count(")"):
        return "its parentheses do not match"
    return "it is no call such as Complete(4)"


def as_recipe(value: Recipe | str, instead: str = "") -> Recipe:
    """The recipe that is meant, given itself or as text; ValueError for anything else.

    ``instead`` says what graphs that no recipe describes are for.

    >>> as_recipe("Complete(4)")
    Complete(4)
    """
    if isinstance(value, Recipe):
        return value
    if not isinstance(value, str):
        raise ValueError(
            f"{kind_of(value)} is no recipe, which is a call such as Complete(4) or its text"
            + (f"; {instead}" if instead else "")
        )
    return parse(value)


def as_recipe_or_topology(value: TopologyLike) -> Recipe | Topology:
    """The recipe that is meant, given itself or as text, else the graph; ValueError for neither.

    >>> as_recipe_or_topology("Complete(4)"), as_recipe_or_topology([(0, 1), (1, 0)])
    (Complete(4), Topology(2 nodes, 2 links, degree 1))
    """
    return as_recipe(value) if isinstance(value, Recipe | str) else as_topology(value)


class _NotAllowedError(Exception):
    """A part of the syntax tree that recipes do not have."""

    def __init__(self, node: ast.expr) -> None:
        self.node = node


@final
@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads calls of ``classes``, and of ``builders``: they take topologies and named values."""

    what: str
    classes: ChainMap[str, Any]
    builders: Mapping[str, Any]

    def value(self, node: ast.expr, depth: int) -> Any:
        """What a part of the syntax tree stands for."""
        if depth > MAX_DEPTH:
            raise ValueError(f"a {self.what} nested more than {MAX_DEPTH} deep is not read")
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
                return tuple(self.value(entry, depth + 1) for entry in entries)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=named) if (
                not named or name in self.builders
            ):
                values = [self.value(argument, depth + 1) for argument in arguments]
                options = {str(one.arg): self.value(one.value, depth + 1) for one in named}
                return self.call(name, values, options)
            case ast.Name(id=name):
                others = "; --graph takes files, verify and simulate take designs"
                rule = f"{name!r} in a {self.what}: names must be called, as in Complete(4)"
                raise ValueError(rule + others * (depth == 0 and self.what == "recipe"))
        raise _NotAllowedError(node)

    def call(self, name: str, arguments: list[Any], options: dict[str, Any]) -> Any:
        """What a maker makes of its arguments."""
        makers = ChainMap(dict(self.builders), self.classes)  # loads none of the classes
        if name not in makers:
            from difflib import get_close_matches

            from ocs_codesign.core.networks.registry import NETWORKS

            near = get_close_matches(name, makers, n=1)
            more = ": it makes a network, for optimum, compare, cost --network and build --network"
            more = f": did you mean {near[0]}?" if near else more * (name in NETWORKS)
            raise ValueError(f"unknown name {name!r} in a {self.what}{more}")
        kind = makers[name]
        if name in self.builders:
            arguments = [_graph(value) for value in arguments]
            options = {key: _graph(value) for key, value in options.items()}
        try:
            if name in self.builders:
                _check_counts(name, signature(kind).bind(*arguments, **options).arguments)
            return kind(*arguments, **options)
        except TypeError:
            count = len(arguments) + len(options)
            given = f"{'these ' * bool(options)}{count} argument{'s' * (count != 1)}"
            right = f": it takes {', '.join(signature(kind).parameters)}"
            if hasattr(kind, "samples"):
                right = f": write it as {name}({_grouped(kind, arguments) or kind.samples[-1]})"
            raise ValueError(f"{name} does not take {given}{right}") from None


def _grouped(kind: Any, arguments: list[Any]) -> str:
    """Arguments as they were meant where the last is a tuple whose parentheses are missing."""
    given = ast.parse(f"f({kind.samples[-1]})", mode="eval").body.args  # type: ignore[attr-defined]
    before = arguments[: len(given) - 1]
    last = arguments[len(before) :]
    if not isinstance(given[-1], ast.Tuple) or not all(type(one) is int for one in arguments):
        return ""
    return ", ".join(map(repr, (*before, tuple(last)))) if last else ""


MAX_COUNTED = 2**18
"""What numbers of hosts, boxes and switches may multiply to."""


def _check_counts(name: str, given: Mapping[str, Any]) -> None:
    """ValueError for a network that is too large to build, told by its numbers of things."""
    total = 1
    for key, value in given.items():
        if key.startswith(("num_", "hosts_per_")) or key in {"sizes", "children"}:
            values = value if isinstance(value, tuple) else (value,)
            total *= prod(each for each in values if type(each) is int and each > 0)
        elif key == "parents" and isinstance(value, tuple):
            total *= max((each for each in value if type(each) is int), default=1)
    if total > MAX_COUNTED:
        raise ValueError(
            f"{name} of so many: its numbers multiply to {total}, at most {MAX_COUNTED} are built"
        )


def _graph(value: Any) -> Any:
    return value.topology() if isinstance(value, Recipe) else value


def _short(text: str) -> str:
    text = " ".join(text.split())
    return repr(text if len(text) <= 60 else text[:57] + "...")
