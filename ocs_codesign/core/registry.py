"""Functions by name, imported when they are called: entries of registries, and what is asked above.

Imports go down the list of packages only. Where a package asks something of one above it (a text is
given where a network is wanted, a notebook shows a value), it asks for the function by what it
does; ``ocs_codesign`` itself, which stands over all packages, says whose it is.
"""

from __future__ import annotations

import sys
from functools import wraps
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_PROVIDERS: dict[str, str] = {}
_TELLS = "tells_kinds"


def later(place: str) -> Callable[..., Any]:
    """A function by its full name, imported when it is called: what is listed costs no import.

    >>> later("math.comb")(4, 2)
    6
    """
    module, _, function = place.rpartition(".")

    def call(*arguments: Any, **named: Any) -> Any:
        return getattr(import_module(module), function)(*arguments, **named)

    return call


def provide(places: Mapping[str, str]) -> None:
    """Say which functions of packages above answer, by what they are asked for below."""
    _PROVIDERS.update(places)


def provided(name: str) -> Callable[..., Any]:
    """The function that answers to this name; KeyError if nobody above provides it.

    >>> provided("recipe of a text")("Complete(4)")
    Complete(4)
    """
    return later(_PROVIDERS[name])


def offer(
    package: str, names_by_module: Mapping[str, str], packages: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package: its names, loaded when first used.

    The names of every module, or package inside, are separated by blanks. ``packages`` are those
    inside that are loaded as well when they are first named; what only they have is said where it
    is. ``__init__.pyi`` beside it, made from the same table, tells the types.
    """
    home = {name: module for module, names in names_by_module.items() for name in names.split()}
    inside = packages.split()

    def find(name: str) -> Any:
        if name in inside:
            return import_module(f"{package}.{name}")
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}{elsewhere(name)}")
        value = getattr(import_module(f"{package}.{home[name]}"), name)
        if isinstance(value, FunctionType) and _TELLS not in value.__dict__:
            # In its module too: one function whichever way it is reached, also when it is pickled.
            value = _telling_kinds(value)
            setattr(import_module(value.__module__), name, value)
        setattr(sys.modules[package], name, value)
        return value

    def elsewhere(name: str) -> str:
        if name.startswith("_"):
            return ""
        having = [each for each in inside if name in import_module(f"{package}.{each}").__dir__()]
        return f": it is {package}.{having[0]}.{name}" if having else ""

    names = sorted([*home, *inside])
    return find, lambda: names, sorted(home)


def _telling_kinds(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, whose AttributeError is a TypeError where an argument is of a wrong kind."""

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except (AttributeError, TypeError) as error:
            rule = _wrong_kind(function, arguments, named)
            if rule is None:
                raise
            raise TypeError(rule) from error

    call.__dict__[_TELLS] = True
    return call


def _wrong_kind(
    function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]
) -> str | None:
    """The first argument, or part of one, of a class that its annotation does not name."""
    from inspect import signature
    from re import findall

    try:
        given = signature(function).bind(*arguments, **named).arguments
    except TypeError:  # which says what is missing or too many
        return None
    for name, value in given.items():
        kind = str(function.__annotations__.get(name, "Any"))
        words = set(findall(r"\w+", kind))
        several = isinstance(value, list | tuple) and words & {"Sequence", "Iterable", "tuple"}
        for part in value if several else [value]:
            classes = {each.__name__ for each in type(part).__mro__[:-1]}
            classes |= {"float", "Fraction"} if isinstance(part, int) else set()
            classes |= {"None"} if part is None else set()
            if "Any" not in words and not classes & words:
                return f"{function.__name__} takes {name}: {kind}; {part!r:.60} is none"
    return None
