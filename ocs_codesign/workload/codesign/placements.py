"""Placements: in which order dimensions of parallelism lie on ranks, and what stays in servers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING, final

from ocs_codesign.workload.models.layer import DATA, EXPERT, EXPERT_DATA, TENSOR

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.workload.models.parallel import Parallel

REPLICA, PIPELINE = "replica", "pipeline"
DIMENSIONS = (TENSOR, EXPERT, REPLICA, PIPELINE)
"""Dimensions of parallelism: copies that share experts, and those that do not, are two."""

DIMENSIONS_OF = {
    TENSOR: (TENSOR,),
    EXPERT: (EXPERT,),
    DATA: (EXPERT, REPLICA),
    EXPERT_DATA: (REPLICA,),
}
"""The dimensions that a group of ranks spans."""


def sizes_of(parallel: Parallel) -> dict[str, int]:
    """Ranks of every dimension.

    >>> from ocs_codesign.workload.models.parallel import Parallel
    >>> sizes_of(Parallel(data=8, expert=4, pipeline=2))
    {'tensor': 1, 'expert': 4, 'replica': 2, 'pipeline': 2}
    """
    replicas = parallel.data // parallel.expert
    return dict(
        zip(
            DIMENSIONS,
            (parallel.tensor, parallel.expert, replicas, parallel.pipeline),
            strict=True,
        )
    )


def group_of(parallel: Parallel, num_ranks: int, stride: int) -> str:
    """The name of the groups of so many ranks so far apart; ValueError if there are none.

    >>> from ocs_codesign.workload.models.parallel import Parallel
    >>> group_of(Parallel(data=8, expert=4, tensor=2), 4, 2)
    'expert'
    """
    for name in (TENSOR, EXPERT, DATA, EXPERT_DATA):
        if parallel.size(name) == num_ranks and parallel.stride(name) == stride:
            return name
    raise ValueError(f"no group has {num_ranks} ranks that are {stride} apart in {parallel}")


@final
@dataclass(frozen=True, slots=True)
class Span:
    """How a dimension lies: ``inside`` a server so many, and over ``outside`` servers.

    ``stride`` is how many servers are between neighbours.
    """

    dimension: str
    inside: int
    outside: int
    stride: int


@final
@dataclass(frozen=True, slots=True)
class RankPlacement:
    """The spans of all dimensions of more than one rank, the innermost first."""

    spans: tuple[Span, ...]

    def span(self, dimension: str) -> Span:
        """That of a dimension, of one rank if it is not there."""
        found = [span for span in self.spans if span.dimension == dimension]
        return found[0] if found else Span(dimension, 1, 1, 1)

    @property
    def optical(self) -> tuple[Span, ...]:
        """The spans that need light, the innermost first."""
        return tuple(span for span in self.spans if span.outside > 1)

    @property
    def num_servers(self) -> int:
        """Servers that are in use."""
        product = 1
        for span in self.spans:
            product *= span.outside
        return product

    def text(self) -> str:
        """In words, the innermost first."""
        parts = []
        for span in self.spans:
            places = [f"{span.inside} in a server"] * (span.inside > 1)
            places += [f"{span.outside} over servers"] * (span.outside > 1)
            parts.append(f"{span.dimension} {' x '.join(places)}")
        return ", ".join(parts) or "one rank"


def placements(parallel: Parallel, accelerators_a_server: int) -> Iterator[RankPlacement]:
    """Every order of the dimensions that does not cut a server unevenly, each placement once.

    In which order dimensions lie that stay in a server makes no difference.

    >>> from ocs_codesign.workload.models.parallel import Parallel
    >>> [placed.text() for placed in placements(Parallel(data=4, tensor=2), 2)]
    ['tensor 2 in a server, replica 4 over servers', 'replica 2 in a server x 2 over servers, \
tensor 2 over servers']
    """
    sizes = {name: size for name, size in sizes_of(parallel).items() if size > 1}
    seen = set()
    for order in permutations(sizes):
        spans = _spans([(name, sizes[name]) for name in order], accelerators_a_server)
        if spans is None:
            continue
        inside = frozenset(span for span in spans if span.outside == 1)
        key = inside, tuple(span for span in spans if span.outside > 1)
        if key not in seen:
            seen.add(key)
            yield RankPlacement(spans)


def _spans(order: list[tuple[str, int]], block: int) -> tuple[Span, ...] | None:
    """The spans of dimensions in an order, None if a server would be cut unevenly."""
    spans, ranks, servers = [], 1, 1
    for name, size in order:
        inside = min(size, max(1, block // ranks))
        if ranks < block and (block % (ranks * inside) or size % inside):
            return None
        outside = size // inside
        spans.append(Span(name, inside, outside, servers if outside > 1 else 1))
        servers *= outside
        ranks *= size
    return tuple(spans)
