"""What an accelerator must hold to train: parameters, gradients, optimizer, activations.

States are those of mixed precision with Adam (Rajbhandari et al., ZeRO, SC 2020): of every
parameter itself, its gradient, and 12 bytes of the optimizer, each divided among copies from ZeRO
3, 2 or 1 on; with ZeRO 2 the gradients of several microbatches are still summed whole. Activations
are those of Korthikanti et al. (MLSys 2023) with selective recomputation, so without the scores of
attention: 11 hidden numbers a token for attention, 4 for two norms, and 3 beside two feed-forward
numbers a matrix for the rest; 2 bytes each as there, or in proportion.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from ocs_codesign.workload.models.convnet import ResidualNetwork
from ocs_codesign.workload.models.layer import like_parts
from ocs_codesign.workload.models.passes import most_held
from ocs_codesign.workload.models.recommender import Recommender

if TYPE_CHECKING:
    from ocs_codesign.workload.models.layer import Block, ModelOnRanks
    from ocs_codesign.workload.models.parallel import Parallel
    from ocs_codesign.workload.models.transformer import Transformer

SOURCE = "ZeRO (SC 2020) for states, Korthikanti et al. (MLSys 2023) for activations"
_FULL_PRECISION = 4


def memory_bytes(model: Transformer | ResidualNetwork | Recommender, parallel: Parallel) -> int:
    """Bytes of the accelerator that holds the most.

    A recommender's tables are divided evenly and updated in place; its dense layers have a gradient
    beside them.

    >>> from ocs_codesign.workload.models.parallel import Parallel
    >>> from ocs_codesign.workload.models.transformer import Transformer
    >>> gpt3 = Transformer(96, 12288, 96, 49152, 50257, 2048, 1536)
    >>> memory_bytes(gpt3, Parallel(data=1536)) > 2_700 * 10**9
    True
    """
    if isinstance(model, Recommender):
        return _of_recommender(model, parallel.num_ranks)
    if parallel.zero == 2 and parallel.microbatches > 1:
        parallel = replace(parallel, zero=1)  # gradients stay whole until the last microbatch
    if isinstance(model, ResidualNetwork):
        return _of_residual(model, parallel)
    if model.batch % (parallel.data * parallel.microbatches):
        model.on_ranks(parallel)  # says why it cannot be divided so
    tokens = model.batch * model.sequence // (parallel.data * parallel.microbatches)
    layers = model.layers // (parallel.pipeline * parallel.chunks)
    activations = layers * _activations(model, parallel, tokens)
    logits = _FULL_PRECISION * tokens * model.vocabulary // parallel.tensor
    order = parallel.pipeline, parallel.microbatches, parallel.chunks
    return max(
        states
        + most_held(parallel.schedule, stage, *order) * activations
        + logits * (stage == parallel.pipeline - 1)
        for stage, states in _states_of_stages(model, _without_passes(parallel))
    )


def _without_passes(parallel: Parallel) -> Parallel:
    """The same with so few microbatches that it can be, whose states are the same."""
    least = parallel.pipeline if parallel.schedule == "interleaved" else 1
    return replace(parallel, microbatches=least)


@lru_cache(maxsize=2**12)
def _states_of_stages(model: Transformer, parallel: Parallel) -> tuple[tuple[int, int], ...]:
    """The first of all stages that are alike, which has the most passes before it, and its states.

    The last stage of all is there in any case.
    """
    num_stages = parallel.pipeline
    on_ranks = model.on_ranks(replace(parallel, microbatches=1, chunks=1, schedule="1f1b"))
    parts, which = like_parts(on_ranks.layers, num_stages * parallel.chunks)
    stages = [which[stage::num_stages] for stage in range(num_stages)]
    states = {
        chunks: _states(
            tuple(block for part in chunks for block in parts[part]), parallel, on_ranks
        )
        for chunks in set(stages)
    }
    firsts = [(stages.index(chunks), held) for chunks, held in states.items()]
    return *firsts, (num_stages - 1, states[stages[-1]])


def _of_residual(model: ResidualNetwork, parallel: Parallel) -> int:
    on_ranks = model.on_ranks(parallel)
    blocks = tuple(block for layer in on_ranks.layers for block in layer)
    moved = sum(block.moved_bytes for block in blocks)
    parameters = sum(block.num_parameters for block in blocks) * on_ranks.element_bytes
    return _states(blocks, parallel, on_ranks) + int(moved - parameters)


def _states(blocks: tuple[Block, ...], parallel: Parallel, model: ModelOnRanks) -> int:
    """Bytes of the states of all parameters of some blocks."""
    element_bytes = model.element_bytes
    optimizer = 12 if element_bytes < _FULL_PRECISION else 8
    parts = ((3, element_bytes), (2, element_bytes), (1, optimizer))
    total = 0
    for (parameters, copies), count in Counter(
        (block.num_parameters, parallel.size(block.copies)) for block in blocks
    ).items():
        shares = [(copies if parallel.zero >= least else 1, each) for least, each in parts]
        total += count * sum(-(-parameters * each // share) for share, each in shares)
    if parallel.zero == 3:  # a block and the next one are whole while they are used
        total += 2 * max(block.num_parameters for block in blocks) * element_bytes
    return total


def _activations(model: Transformer, parallel: Parallel, tokens: int) -> int:
    """Bytes of a layer of one microbatch, of which tensor ranks hold a part each."""
    matrices = 3 if model.gated else 2
    forward = 3 * model.hidden + 2 * matrices * model.feed_forward
    whole = tokens * (15 * model.hidden + model.top_k * forward) * model.element_bytes // 2
    if parallel.sequence or parallel.tensor == 1:
        return whole // parallel.tensor
    alone = tokens * 10 * model.hidden * model.element_bytes // 2
    return alone + (whole - alone) // parallel.tensor


def _of_recommender(model: Recommender, num_ranks: int) -> int:
    samples = model.batch // num_ranks
    tables = -(-model.rows * model.dimension * model.element_bytes // num_ranks)
    numbers = 2 * model.tables * model.dimension + sum(model.bottom) + sum(model.top)
    return tables + (2 * model.dense_parameters + samples * numbers) * model.element_bytes
