"""What people give where a topology is wanted.

A recipe, its text, a networkx graph, or an array of links will do.
"""

from __future__ import annotations

from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar, cast

import numpy as np

from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.graphs.recipe import Recipe


class NetworkxGraph(Protocol):
    """What graphs of networkx have, which are read without importing it."""

    def adjacency(self) -> Any:
        """Neighbours of every node."""


TopologyLike: TypeAlias = (
    "Topology | Recipe | str | NetworkxGraph | NDArray[np.integer[Any]] | Sequence[Sequence[int]]"
)
P = ParamSpec("P")
R = TypeVar("R")

_OF_TEXT = "ocs_codesign.graphs.text", "parse"
_OF_NETWORKX = "ocs_codesign.formats.graphs.networkx_graph", "from_networkx"
"""Readers of rooms above, looked up when something of their kind is given."""


def as_topology(value: TopologyLike) -> Topology:
    """The topology that is meant; ValueError for what is none.

    Links as an array are integers of shape (links, 2), a row (tail, head) each, in the order of
    their ids; the nodes are 0 to the largest that is named.

    >>> as_topology("Complete(4)")
    Topology(4 nodes, 12 links, degree 3)
    >>> as_topology([(0, 1), (1, 2), (2, 0)])
    Topology(3 nodes, 3 links, degree 1)
    """
    if isinstance(value, (np.ndarray, list, tuple)):
        return _of_links(value)
    found: Any = _read(_OF_TEXT, value) if isinstance(value, str) else value
    if not isinstance(found, Topology) and hasattr(found, "adjacency"):
        found = _read(_OF_NETWORKX, found)
    if not isinstance(found, Topology) and callable(getattr(found, "topology", None)):
        found = found.topology()
    if not isinstance(found, Topology):
        raise ValueError(
            f"{_kind(value)} is no topology: it may be a recipe, its text or a networkx graph "
            "too, or an array of links"
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


def _of_links(value: Any) -> Topology:
    try:
        links = np.asarray(value)
    except ValueError:  # rows of unequal length
        links = np.empty(0)
    if links.ndim != 2 or links.shape[1] != 2 or not len(links) or links.dtype.kind not in "iu":
        raise ValueError(
            f"{_kind(value)} of shape {links.shape} and {links.dtype} is no array of links: it "
            "must be integers of shape (links, 2), a row (tail, head) each"
        )
    if links.min() < 0:
        raise ValueError(f"a link names node {links.min()}: nodes count from 0")
    largest = int(links.max())
    if largest >= 2 * len(links):
        raise ValueError(
            f"{len(links)} links name node {largest}: so few leave a node without any link"
        )
    return Topology(largest + 1, links[:, 0], links[:, 1])


def _read(reader: tuple[str, str], value: Any) -> Any:
    module, name = reader
    return getattr(import_module(module), name)(value)


def _kind(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
