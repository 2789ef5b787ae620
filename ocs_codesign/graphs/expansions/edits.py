"""Excise, Insert and Swap: a few links changed, for any size and for what is left after a loss."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.topology import Topology
from ocs_codesign.graphs.recipe import Recipe, Shape, Unary, measured_gather_loads, size, sizes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from ocs_codesign.core.schedule import Schedule

    Links = tuple[NDArray[np.int64], NDArray[np.int64]]


class Edited(Unary):
    """A graph with a few links changed. No schedule is mapped: what is predicted is BFB's cost."""

    __slots__ = ()

    is_operator = False

    @abstractmethod
    def edited(self, tail: NDArray[np.int64], head: NDArray[np.int64]) -> Links:
        """Tails and heads of all links after the change."""

    def build(self) -> Topology:
        base = self.g.topology()
        tail, head = self.edited(base.tail.astype(np.int64), base.head.astype(np.int64))
        return Topology(self.num_nodes, tail, head)

    def loads(self, transposed: bool) -> tuple[Fraction, ...]:
        """Those of BFB on the built graph, exactly: the best schedule is no worse."""
        return measured_gather_loads(self, transposed)

    def schedule(self, transposed: bool) -> Schedule:
        """The BFB allgather on the built graph."""
        return self.bfb_gather_schedule(transposed=transposed)

    @property
    def reverse_symmetric(self) -> bool:
        return self.bidirectional

    @property
    def has_self_loops(self) -> bool:
        return self.topology().has_self_loops()

    @property
    def bidirectional(self) -> bool:
        return self.topology().is_undirected()


@final
@dataclass(frozen=True, slots=True, repr=False)
class Excise(Edited):
    """Nodes taken out: the links into each are joined to those out of it. N - k nodes, d stays.

    Every cut is a node of G and a permutation: the link from the i-th of its in-links, in the order
    of link ids and loops left out, leads to the head of the permutation's i-th out-link. Cuts are
    made one after the other; then the nodes that are left are numbered anew, in their order. Links
    that stay keep their order. 2d ports of each node's neighbours change.
    """

    g: Recipe
    cuts: tuple[tuple[int, tuple[int, ...]], ...]

    samples = (
        "Complete(5), ((4, (1, 2, 3, 0)),)",
        "DirectedCirculant(8, (1, 3)), ((0, (1, 0)), (4, (0, 1)))",
        "DeBruijn(2, 3), ((0, (0,)),)",
        "Line(Complete(4)), ((5, (2, 1, 0)),)",
        "Circulant(9, (1, 2)), ((2, (3, 2, 1, 0)),)",
    )

    @property
    def shape(self) -> Shape:
        base = self.g.shape
        nodes = [_cut_of(cut, base)[0] for cut in _rows(self.cuts, "cuts")]
        if len(set(nodes)) < len(nodes) or len(nodes) > base.num_nodes - 2:
            raise ValueError(
                f"nodes {nodes} of {base.num_nodes} are cut out: they must differ and leave two"
            )
        return Shape(base.num_nodes - len(nodes), base.degree)

    def edited(self, tail: NDArray[np.int64], head: NDArray[np.int64]) -> Links:
        for node, permutation in self.cuts:
            tail, head = excised(tail, head, node, permutation)
        gone = np.sort([node for node, _ in self.cuts])
        return tail - np.searchsorted(gone, tail), head - np.searchsorted(gone, head)

    def label(self) -> str:
        return f"{self.g.bracketed_label()}-{len(self.cuts)}"


@final
@dataclass(frozen=True, slots=True, repr=False)
class Insert(Edited):
    """Nodes put into links: each divides d links in two. N + k nodes, d stays.

    Every row lists the ids of the d links that a new node divides, whose heads become the node;
    links from it to their former heads are added, in the row's order. The next row may name these.
    """

    g: Recipe
    divided: tuple[tuple[int, ...], ...]

    samples = (
        "UniRing(1, 3), ((2,),)",
        "Complete(4), ((0, 3, 6),)",
        "DirectedCirculant(7, (1, 3)), ((0, 5), (14, 3))",
        "GeneralizedKautz(2, 9), ((1, 2),)",
    )

    @property
    def shape(self) -> Shape:
        base = self.g.shape
        links = base.num_nodes * base.degree
        for number, row in enumerate(_rows(self.divided, "divided")):
            sizes(row, "a row of divided links", 0, links + number * base.degree - 1)
            if len(set(row)) < len(row) or len(row) != base.degree:
                raise ValueError(f"links {row} are divided: they must be {base.degree} that differ")
        return Shape(base.num_nodes + len(self.divided), base.degree)

    def edited(self, tail: NDArray[np.int64], head: NDArray[np.int64]) -> Links:
        for number, row in enumerate(self.divided):
            links = np.array(row)
            node, after = self.g.num_nodes + number, head[links]
            head[links] = node
            tail = np.concatenate([tail, np.full(len(row), node)])
            head = np.concatenate([head, after])
        return tail, head

    def label(self) -> str:
        return f"{self.g.bracketed_label()}+{len(self.divided)}"


@final
@dataclass(frozen=True, slots=True, repr=False)
class Swap(Edited):
    """Pairs of links exchange their heads, one pair after the other. N and d stay."""

    g: Recipe
    pairs: tuple[tuple[int, int], ...]

    samples = (
        "UniRing(2, 5), ((0, 2),)",
        "GeneralizedKautz(2, 8), ((0, 5), (5, 9))",
        "Hypercube(3), ((0, 7),)",
    )

    @property
    def shape(self) -> Shape:
        base = self.g.shape
        for pair in _rows(self.pairs, "pairs"):
            sizes(pair, "a pair of links", 0, base.num_nodes * base.degree - 1)
            if len(pair) != 2 or pair[0] == pair[1]:
                raise ValueError(f"links {pair} are swapped: they must be two that differ")
        return base

    def edited(self, tail: NDArray[np.int64], head: NDArray[np.int64]) -> Links:
        for one, other in self.pairs:
            head[one], head[other] = head[other], head[one]
        return tail, head

    def label(self) -> str:
        return f"{self.g.bracketed_label()}~{len(self.pairs)}"


def excised(
    tail: NDArray[np.int64], head: NDArray[np.int64], node: int, permutation: tuple[int, ...]
) -> Links:
    """The links after a node's in-links are joined to its out-links; nodes keep their numbers."""
    loop = (tail == node) & (head == node)
    into, out = (np.flatnonzero((ends == node) & ~loop) for ends in (head, tail))
    if len(permutation) != len(into):
        raise ValueError(
            f"permutation {permutation} at node {node}: it has {len(into)} in-links to join"
        )
    head = head.copy()
    head[into] = head[out[list(permutation)]]
    stays = ~loop
    stays[out] = False
    return tail[stays], head[stays]


def _cut_of(cut: Any, base: Shape) -> tuple[int, tuple[int, ...]]:
    if not isinstance(cut, tuple) or len(cut) != 2:
        raise ValueError(f"a cut is {cut!r}: it must be a node and a permutation")
    node = size(cut[0], "a node that is cut out", 0, base.num_nodes - 1)
    permutation = cut[1]
    if (
        not isinstance(permutation, tuple)
        or len(permutation) > base.degree
        or sorted(map(_number, permutation)) != list(range(len(permutation)))
    ):
        raise ValueError(f"{permutation!r} is no permutation of a node's links")
    return node, permutation


def _number(value: Any) -> int:
    return value if type(value) is int else -1


def _rows(rows: Any, name: str) -> tuple[Any, ...]:
    if not isinstance(rows, tuple) or not rows:
        raise ValueError(f"{name} are {rows!r}: they must be a non-empty tuple of tuples")
    return rows


# Splice: nodes taken out at once, and what led to any of them joined to what led from any.


@final
@dataclass(frozen=True, slots=True, repr=False)
class Splice(Edited):
    """Nodes taken out together, and their loose links joined. N - k nodes, d stays.

    The i-th link that leads from a node that stays into one that is ``gone``, in the order of link
    ids, leads to the head of the ``joined[i]``-th link from one that is gone to one that stays.
    Links among those that are gone go with them. The nodes that are left are numbered anew, in
    their order, and links that stay keep theirs. Joining the ends of several nodes freely reaches
    what cutting out one after the other (Excise) does, and more, for as many ports.
    """

    g: Recipe
    gone: tuple[int, ...]
    joined: tuple[int, ...]

    samples = (
        "UniRing(1, 5), (1, 2), (0,)",
        "DirectedCirculant(8, (1, 3)), (0, 4), (3, 0, 1, 2)",
        "DeBruijn(2, 3), (0,), (0,)",
        "Circulant(9, (1, 2)), (2, 3), (5, 4, 3, 2, 1, 0)",
        "Line(Complete(4)), (5,), (2, 1, 0)",
    )

    @property
    def shape(self) -> Shape:
        base = self.g.shape
        gone = sizes(self.gone, "gone", 0, base.num_nodes - 1)
        if len(set(gone)) < len(gone) or len(gone) > base.num_nodes - 2:
            raise ValueError(
                f"nodes {list(gone)} of {base.num_nodes} are gone: they must differ and leave two"
            )
        joined = sizes(self.joined, "joined", 0, len(gone) * base.degree - 1)
        if sorted(joined) != list(range(len(joined))):
            raise ValueError(f"joined is {joined}: it must be a permutation of the loose links")
        return Shape(base.num_nodes - len(gone), base.degree)

    def edited(self, tail: NDArray[np.int64], head: NDArray[np.int64]) -> Links:
        return _joined(tail, head, self.gone, self.joined)

    def label(self) -> str:
        return f"{self.g.bracketed_label()}-{len(self.gone)}"


def loose_links(
    tail: NDArray[np.integer], head: NDArray[np.integer], gone: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Links from nodes that stay into nodes that are gone, and those back out, by their ids.

    >>> into, out = loose_links(np.array([0, 1, 2]), np.array([1, 2, 0]), [1, 2])
    >>> into.tolist(), out.tolist()
    ([0], [2])
    """
    from_gone, to_gone = np.isin(tail, gone), np.isin(head, gone)
    return np.flatnonzero(~from_gone & to_gone), np.flatnonzero(from_gone & ~to_gone)


def spliced_topology(topology: Topology, gone: Sequence[int], joined: Sequence[int]) -> Topology:
    """Any topology of equal link speeds without nodes, their loose links joined as in Splice."""
    ends = topology.tail.astype(np.int64), topology.head.astype(np.int64)
    return Topology(topology.num_nodes - len(gone), *_joined(*ends, gone, joined))


def _joined(
    tail: NDArray[np.int64], head: NDArray[np.int64], gone: Sequence[int], joined: Sequence[int]
) -> Links:
    into, out = loose_links(tail, head, gone)
    if len(joined) != len(into):
        raise ValueError(
            f"joined has {len(joined)} entries: {len(into)} links lead to the nodes that are gone"
        )
    stays = np.isin(tail, gone, invert=True)
    head = head.copy()
    head[into] = head[out[list(joined)]]
    lost = np.sort(gone)
    tail, head = tail[stays], head[stays]
    return tail - np.searchsorted(lost, tail), head - np.searchsorted(lost, head)
