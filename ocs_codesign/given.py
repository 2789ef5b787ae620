"""What people give where a topology is wanted: a recipe, its text, or a networkx graph will do."""

from __future__ import annotations

from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar, cast

from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.graphs.recipe import Recipe


class NetworkxGraph(Protocol):
    """What graphs of networkx have, which are read without importing it."""

    def adjacency(self) -> Any:
        """Neighbours of every node."""


TopologyLike: TypeAlias = "Topology | Recipe | str | NetworkxGraph"
P = ParamSpec("P")
R = TypeVar("R")

_OF_TEXT = "ocs_codesign.graphs.text", "parse"
_OF_NETWORKX = "ocs_codesign.formats.graphs.networkx_graph", "from_networkx"
"""Readers of rooms above, looked up when something of their kind is given."""


def as_topology(value: TopologyLike) -> Topology:
    """The topology that is meant; ValueError for what is none.

    >>> as_topology("Complete(4)")
    Topology(4 nodes, 12 links, degree 3)
    """
    found: Any = _read(_OF_TEXT, value) if isinstance(value, str) else value
    if not isinstance(found, Topology) and hasattr(found, "adjacency"):
        found = _read(_OF_NETWORKX, found)
    if not isinstance(found, Topology) and callable(getattr(found, "topology", None)):
        found = found.topology()
    if not isinstance(found, Topology):
        raise ValueError(
            f"{_kind(value)} is no topology: it may be a recipe, its text or a networkx graph too"
        )
    return found


def takes_topology(
    function: Callable[Concatenate[Topology, P], R],
) -> Callable[Concatenate[TopologyLike, P], R]:
    """The function of a topology that takes whatever ``as_topology`` does.

    >>> from ocs_codesign.schedulers.bfb.loads import bfb_loads
    >>> len(bfb_loads("UniRing(1, 5)"))
    4
    """

    @wraps(function)
    def flexible(topology: TopologyLike, *args: P.args, **kwargs: P.kwargs) -> R:
        return function(as_topology(topology), *args, **kwargs)

    return cast("Callable[Concatenate[TopologyLike, P], R]", flexible)


def whole(value: Any, name: str) -> int:
    """A whole number that was given as one; ValueError, with its name, for anything else.

    >>> whole(12, "num_nodes")
    12
    """
    try:
        return int(value.__index__())
    except (AttributeError, TypeError):
        raise ValueError(f"{name} is {value!r}: it must be a whole number") from None


def _read(reader: tuple[str, str], value: Any) -> Any:
    module, name = reader
    return getattr(import_module(module), name)(value)


def _kind(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
