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
class TrainedModel:
    """What is trained, and how its file divides it, if it says so.

    Raises ValueError for a recommender with fused kernels, whose work depends on the fabric.
    """

    name: str
    model: Transformer | ResidualNetwork | Recommender
    given: Parallel | None = None

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
    """Every division by the model's rules with 1F1B pipelines, by ZeRO 1 or 3 where copies are.

    Tensor ranks divide the sequence too. A division may leave accelerators idle.
    """
    fitting, too_large, too_long = [], 0, 0
    for parallel in _all(trained, cluster.num_accelerators):
        if memory_bytes(trained.model, parallel) > cluster.memory_bytes:
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
    model = trained.model
    if isinstance(model, Recommender):
        yield from (Parallel(data=data) for data in _divisors(model.batch, most))
    elif isinstance(model, ResidualNetwork):
        for data in _divisors(model.batch, most):
            yield from _with_zero(Parallel(data=data))
    else:
        yield from _of_transformer(model, most)


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
                        yield from _with_zero(
                            Parallel(
                                *(data, tensor, pipeline, expert),
                                sequence=tensor > 1,
                                microbatches=microbatches,
                            )
                        )


def _with_zero(parallel: Parallel) -> Iterator[Parallel]:
    for zero in (1, 3) if parallel.data > 1 else (0,):
        yield replace(parallel, zero=zero)


def _divisors(number: int, most: int) -> list[int]:
    """Divisors of a number up to a limit, ascending.

    >>> _divisors(12, 5)
    [1, 2, 3, 4]
    """
    return [one for one in range(1, min(number, most) + 1) if number % one == 0]
