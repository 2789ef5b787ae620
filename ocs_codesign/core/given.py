"""What people give where a topology is wanted.

A recipe, its text, a networkx graph, or an array of links will do.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar, cast

import numpy as np

from ocs_codesign.core.registry import provided
from ocs_codesign.core.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.core.network import Network
    from ocs_codesign.graphs.recipe import Recipe


class NetworkxGraph(Protocol):
    """What graphs of networkx have, which are read without importing it."""

    def adjacency(self) -> Any:
        """Neighbours of every node."""


TopologyLike: TypeAlias = (
    "Topology | Recipe | str | NetworkxGraph | NDArray[np.integer[Any]] | Sequence[Sequence[int]]"
)
NetworkLike: TypeAlias = "Network | TopologyLike"
P = ParamSpec("P")
R = TypeVar("R")


def as_topology(value: TopologyLike) -> Topology:
    """The topology that is meant; ValueError for what is none.

    Links as an array are integers of shape (links, 2), a row (tail, head) each, in the order of
    their ids; the nodes are 0 to the largest that is named.

    >>> as_topology("Complete(4)")
    Topology(4 nodes, 12 links, degree 3)
    >>> as_topology([(0, 1), (1, 2), (2, 0)])
    Topology(3 nodes, 3 links, degree 1)
    """
    if not may_be_topology(value):
        raise ValueError(
            f"{kind_of(value)} is no topology: it may be a recipe, its text or a networkx graph "
            "too, or an array of links; import_graph reads files"
        )
    if isinstance(value, (np.ndarray, list, tuple)):
        return _of_links(value)
    found: Any = provided("recipe of a text")(value) if isinstance(value, str) else value
    if isinstance(found, Topology):
        return found
    if is_networkx(found):
        return cast("Topology", provided("topology of a networkx graph")(found))
    if getattr(found, "num_hosts", None) not in (None, found.num_nodes):
        raise ValueError(
            f"{found!r} is no topology: switches are no nodes of a collective; its topology() has "
            "them as nodes"
        )
    return cast("Topology", found.topology())


def may_be_topology(value: object) -> bool:
    """Whether it is of a kind that ``as_topology`` takes.

    >>> may_be_topology([(0, 1), (1, 0)]), may_be_topology(7)
    (True, False)
    """
    if isinstance(value, Topology | str | np.ndarray | list | tuple):
        return True
    return is_networkx(value) or _makes(value, "topology")


def is_networkx(value: object) -> bool:
    """Whether it is a graph of networkx, which is not imported to tell."""
    return _makes(value, "adjacency")


def takes_topology(
    function: Callable[Concatenate[Topology, P], R],
) -> Callable[Concatenate[TopologyLike, P], R]:
    """The function of a topology that takes whatever ``as_topology`` does.

    >>> from ocs_codesign.schedules.breadth_first.loads import bfb_loads
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
            f"{kind_of(value)} of shape {links.shape} and {links.dtype} is no array of links: it "
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


def _makes(value: object, method: str) -> bool:
    """Whether values of its kind have this method: their class itself, or a module, has not."""
    return callable(getattr(type(value), method, None))


def kind_of(value: object) -> str:
    """What something is, for an error message.

    >>> kind_of(7), kind_of(None), kind_of(int)
    ('an int', 'None', 'the class int')
    """
    if value is None or isinstance(value, type):
        return "None" if value is None else f"the class {value.__name__}"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
