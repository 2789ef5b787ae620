"""Divisions: all ways to divide a model among accelerators that fit their memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

from ocs_codesign.workload.codesign.memory import memory_bytes
from ocs_codesign.workload.models.building import MAX_COMPUTATIONS, job_of
from ocs_codesign.workload.models.convnet import ResidualNetwork
from ocs_codesign.workload.models.parallel import Parallel
from ocs_codesign.workload.models.recommender import Recommender
from ocs_codesign.workload.models.transformer import Transformer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.workload.codesign.cluster import JobCluster
    from ocs_codesign.workload.fused import Accelerator
    from ocs_codesign.workload.job_graph import JobGraph

MAX_GRAPH = 80_000
"""Computations of an iteration, of all stages, that are simulated in passing."""


@final
@dataclass(frozen=True, slots=True)
class SearchSpace:
    """Which stages of ZeRO are tried where there are copies, and how many chunks a pipeline stage.

    More than one chunk is an interleaved pipeline. ZeRO 2 is for divisions of one microbatch that
    do not fit with ZeRO 1: it sends the same. Raises ValueError for none of either or unknown ones.

    >>> SearchSpace(chunks=(1, 2)).zero
    (1, 2, 3)
    """

    zero: tuple[int, ...] = (1, 2, 3)
    chunks: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        if not self.zero or not set(self.zero) <= {0, 1, 2, 3}:
            raise ValueError(f"zero is {list(self.zero)}: it has stages from 0 to 3")
        if not self.chunks or min(self.chunks) < 1:
            raise ValueError(f"chunks is {list(self.chunks)}: it has numbers from 1 on")


@final
@dataclass(frozen=True, slots=True)
class TrainedModel:
    """What is trained, and how its file divides it, if it says so.

    Raises ValueError for a recommender with fused kernels, whose work depends on the fabric.
    """

    name: str
    model: Transformer | ResidualNetwork | Recommender
    given: Parallel | None = None
    search: SearchSpace = SearchSpace()

    def __post_init__(self) -> None:
        if isinstance(self.model, Recommender) and self.model.fused:
            raise ValueError("fused kernels depend on the fabric: leave them out to choose one")

    def graph(
        self, parallel: Parallel, accelerator: Accelerator, *, ranks_alone: bool = False
    ) -> JobGraph:
        """The iteration under a division, unpriced, a class a stage or every rank alone."""
        if isinstance(self.model, Recommender):
            return self.model.job(parallel.num_ranks, accelerator, None)
        on_ranks = self.model.on_ranks(parallel)
        return job_of(on_ranks, parallel, accelerator, ranks_alone=ranks_alone)

    def num_computations(self, parallel: Parallel) -> int:
        """Computations of an iteration's graph, about."""
        if isinstance(self.model, Transformer):
            return 2 * parallel.microbatches * (2 * self.model.layers + 2)
        return 2 * parallel.microbatches * 64

    def check(self, parallel: Parallel) -> None:
        """ValueError if the model cannot be divided so."""
        if isinstance(self.model, Recommender):
            if parallel.num_ranks > parallel.data or parallel.zero:
                raise ValueError("a recommender is divided by data alone, without zero")
            if self.model.batch % parallel.num_ranks:
                raise ValueError(
                    f"batch is {self.model.batch}: {parallel.num_ranks} ranks do not divide it"
                )
        else:
            self.model.on_ranks(parallel)


@final
@dataclass(frozen=True, slots=True)
class Divisions:
    """Divisions that fit, and how many there are that need too much memory or are too long."""

    fitting: tuple[Parallel, ...]
    num_too_large: int
    num_too_long: int


def divisions(trained: TrainedModel, cluster: JobCluster) -> Divisions:
    """Every division by the model's rules in the model's search space.

    Pipelines are 1F1B, or interleaved with several chunks. Tensor ranks divide the sequence too. A
    division may leave accelerators idle.
    """
    fitting, too_large, too_long = [], 0, 0
    fits_with_less = False
    for parallel in _all(trained, cluster.num_accelerators):
        if parallel.zero == 2 and (fits_with_less or parallel.microbatches > 1):
            continue
        fits = memory_bytes(trained.model, parallel) <= cluster.memory_bytes
        fits_with_less = fits and parallel.zero == 1
        if not fits:
            too_large += 1
        elif trained.num_computations(parallel) > min(MAX_GRAPH, MAX_COMPUTATIONS):
            too_long += 1
        else:
            fitting.append(parallel)
    return Divisions(tuple(fitting), too_large, too_long)


def pure_data(trained: TrainedModel, cluster: JobCluster) -> Parallel:
    """Data parallelism alone without ZeRO on as many ranks as divide the batch.

    With as few microbatches as fit the memory, or one if none do.
    """
    batch = trained.model.batch
    data = max(_divisors(batch, cluster.num_accelerators))
    whole = Parallel(data=data)
    if isinstance(trained.model, Recommender):
        return whole
    for microbatches in _divisors(batch // data, batch):
        parallel = replace(whole, microbatches=microbatches)
        if memory_bytes(trained.model, parallel) <= cluster.memory_bytes:
            return parallel
    return whole


def _all(trained: TrainedModel, most: int) -> Iterator[Parallel]:
    model, search = trained.model, trained.search
    if isinstance(model, Recommender):
        yield from (Parallel(data=data) for data in _divisors(model.batch, most))
    elif isinstance(model, ResidualNetwork):
        for data in _divisors(model.batch, most):
            yield from _with_zero(Parallel(data=data), search)
    else:
        for parallel in _of_transformer(model, most):
            for pipelined in _with_chunks(parallel, model.layers, search):
                yield from _with_zero(pipelined, search)


def _of_transformer(model: Transformer, most: int) -> Iterator[Parallel]:
    for tensor in _divisors(model.heads, most):
        if model.feed_forward % tensor:
            continue
        for pipeline in _divisors(model.layers, most // tensor):
            for data in _divisors(model.batch, most // (tensor * pipeline)):
                for expert in _divisors(model.experts, data):
                    if data % expert:
                        continue
                    for microbatches in _divisors(model.batch // data, model.batch):
                        yield Parallel(
                            *(data, tensor, pipeline, expert),
                            sequence=tensor > 1,
                            microbatches=microbatches,
                        )


def _with_chunks(parallel: Parallel, layers: int, search: SearchSpace) -> Iterator[Parallel]:
    """One chunk a stage, or several where layers and microbatches allow it."""
    stages = parallel.pipeline
    for chunks in sorted(set(search.chunks)):
        if chunks == 1:
            yield parallel
        elif stages > 1 and not layers % (stages * chunks) and not parallel.microbatches % stages:
            yield replace(parallel, schedule="interleaved", chunks=chunks)


def _with_zero(parallel: Parallel, search: SearchSpace) -> Iterator[Parallel]:
    for zero in sorted(set(search.zero)) if parallel.data > 1 else (0,):
        yield replace(parallel, zero=zero)


def _divisors(number: int, most: int) -> list[int]:
    """Divisors of a number up to a limit, ascending.

    >>> _divisors(12, 5)
    [1, 2, 3, 4]
    """
    return [one for one in range(1, min(number, most) + 1) if number % one == 0]
