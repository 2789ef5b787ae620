"""What an accelerator must hold to train: parameters, gradients, optimizer, activations.

States are those of mixed precision with Adam (Rajbhandari et al., ZeRO, SC 2020): of every
parameter itself, its gradient, and 12 bytes of the optimizer, each divided among copies from ZeRO
1, 2 or 3 on. Activations are those of Korthikanti et al. (MLSys 2023) with selective recomputation,
so without the scores of attention: 11 hidden numbers a token for attention, 4 for two norms, and
3 beside two feed-forward numbers a matrix for the rest; 2 bytes each as there, or in proportion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.workload.models.convnet import ResidualNetwork
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
    on_ranks = model.on_ranks(parallel)
    each = len(on_ranks.layers) // parallel.pipeline
    return max(
        _of_stage(model, on_ranks, parallel, stage, each) for stage in range(parallel.pipeline)
    )


def _of_stage(
    model: Transformer | ResidualNetwork,
    on_ranks: ModelOnRanks,
    parallel: Parallel,
    stage: int,
    each: int,
) -> int:
    layers = on_ranks.layers[stage * each : (stage + 1) * each]
    blocks = [block for layer in layers for block in layer]
    states = sum(_states(block, parallel, on_ranks.element_bytes) for block in blocks)
    if parallel.zero == 3:  # a block and the next one are whole while they are used
        states += 2 * max(block.num_parameters for block in blocks) * on_ranks.element_bytes
    held = min(parallel.microbatches, parallel.pipeline - stage)
    if isinstance(model, ResidualNetwork):
        moved = sum(block.moved_bytes for block in blocks)
        parameters = sum(block.num_parameters for block in blocks) * on_ranks.element_bytes
        return states + int(moved - parameters)
    tokens = model.batch * model.sequence // (parallel.data * parallel.microbatches)
    logits = 0
    if stage == parallel.pipeline - 1:
        logits = _FULL_PRECISION * tokens * model.vocabulary // parallel.tensor
    return states + held * len(layers) * _activations(model, parallel, tokens) + logits


def _states(block: Block, parallel: Parallel, element_bytes: int) -> int:
    copies = parallel.size(block.copies)
    optimizer = 12 if element_bytes < _FULL_PRECISION else 8
    parts = (element_bytes, element_bytes, optimizer)
    shares = [copies if parallel.zero >= least else 1 for least in (3, 2, 1)]
    return sum(
        -(-block.num_parameters * each // share) for each, share in zip(parts, shares, strict=True)
    )


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
