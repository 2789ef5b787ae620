"""What stages compute and send in an iteration, and what no order of it is below.

The bound of an iteration is the larger of two. A chain: the first microbatch comes down the
pipeline, a stage passes all of them with the exchanges that their computation waits for, and the
last one goes back up. And what the channel of a stage carries, without latencies, for gradients may
be merged.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.workload.job_graph import (
    COLLECTIVES,
    COMPUTE,
    FIRST_COLLECTIVE,
    NANOSECOND,
    SEND,
)
from ocs_codesign.workload.models.layer import DATA

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.workload.fused import Accelerator
    from ocs_codesign.workload.job_graph import JobGraph
    from ocs_codesign.workload.models.layer import Block, Exchange, ModelOnRanks
    from ocs_codesign.workload.models.parallel import Parallel
    from ocs_codesign.workload.prices import MessagePrices

Asked = tuple[str, str, int]
"""A collective, its group and its M in bytes."""
_ROUNDING = 1 - 1e-6
"""Nodes of a graph are rounded to ticks, which a bound leaves room for."""


@final
@dataclass(frozen=True, slots=True)
class StageTraffic:
    """What a rank of a stage computes in seconds and sends, for one microbatch and at the end.

    ``waited``: exchanges that computation waits for; ``leading``: those of them before the first
    block of a pass, which need not wait for what comes in; ``trailing``: those after the last block
    of a pass, each way. ``gathered``: what only takes the channel, such as parameters with ZeRO 3.
    ``gradients`` are those of an iteration.
    """

    compute_s: tuple[Fraction, Fraction]
    waited: Counter[Asked]
    leading: Counter[Asked]
    trailing: tuple[Counter[Asked], Counter[Asked]]
    gathered: Counter[Asked]
    gradients: Counter[Asked]


@final
@dataclass(frozen=True, slots=True)
class Traffic:
    """That of all stages, whose ranks divide a model so."""

    parallel: Parallel
    stages: tuple[StageTraffic, ...]
    handed_bytes: int

    def asked(self) -> Counter[Asked]:
        """Every collective of an iteration with how often a rank of some stage takes part in it."""
        most: Counter[Asked] = Counter()
        for stage in self.stages:
            most |= self._of_stage(stage)
        return most

    def _of_stage(self, stage: StageTraffic) -> Counter[Asked]:
        total: Counter[Asked] = Counter()
        for part in (stage.waited, *stage.trailing, stage.gathered):
            for asked, count in part.items():
                total[asked] += self.parallel.microbatches * count
        total.update(stage.gradients)
        return total

    def compute_bound_s(self) -> float:
        """Seconds of an iteration if no message took any time."""
        return self._chain_s(lambda _: 0.0, lambda _: 0.0)

    def bound_s(self, prices: MessagePrices) -> float:
        """Seconds that an iteration takes at least at these prices, under every policy."""
        known: dict[Asked, tuple[float, float]] = {}

        def parts(asked: Asked) -> tuple[float, float]:
            if asked not in known:
                known[asked] = self._parts_s(asked, prices)
            return known[asked]

        sends = [self._send_s(stage, prices) for stage in range(len(self.stages) - 1)]
        chain = self._chain_s(lambda asked: sum(parts(asked)), lambda at: sum(sends[at]))
        channel = self._busiest_s(lambda asked: parts(asked)[1], [send[1] for send in sends])
        return max(chain, channel) * _ROUNDING

    def communication_bound_s(self, prices: MessagePrices) -> float:
        """Seconds that the busiest channel of an iteration carries, latencies aside."""
        sends = [self._send_s(stage, prices)[1] for stage in range(len(self.stages) - 1)]
        return self._busiest_s(lambda asked: self._parts_s(asked, prices)[1], sends) * _ROUNDING

    def _busiest_s(self, work_s: Callable[[Asked], float], sends: list[float]) -> float:
        return max(self._channel_s(at, work_s, sends) for at in range(len(self.stages)))

    def passes_bound_s(self, prices: MessagePrices) -> float:
        """The same of one iteration whose gradients are sent later: its chain alone."""
        sends = [sum(self._send_s(at, prices)) for at in range(len(self.stages) - 1)]
        chain = self._chain_s(lambda asked: sum(self._parts_s(asked, prices)), lambda at: sends[at])
        return chain * _ROUNDING

    def late_bound_s(self, prices: MessagePrices) -> float:
        """Seconds of the gradients of the stage that has the most, one after the other."""
        return _ROUNDING * max(
            _sum(stage.gradients, lambda asked: sum(self._parts_s(asked, prices)))
            for stage in self.stages
        )

    def _parts_s(self, asked: Asked, prices: MessagePrices) -> tuple[float, float]:
        name, group, size_bytes = asked
        ranks, stride = self.parallel.size(group), self.parallel.stride(group)
        kind = FIRST_COLLECTIVE + COLLECTIVES.index(name)
        latency, work = prices.parts_s(kind, ranks, size_bytes, 0, (ranks - 1) * stride)
        return float(latency), float(work)

    def _send_s(self, stage: int, prices: MessagePrices) -> tuple[float, float]:
        width = self.parallel.ranks_of_stage
        ends = stage * width, (stage + 1) * width
        latency, work = prices.parts_s(SEND, 2, self.handed_bytes, *ends)
        return float(latency), float(work)

    def _chain_s(self, seconds: Callable[[Asked], float], send_s: Callable[[int], float]) -> float:
        """The longest chain: down to a stage, all of its passes, and up again."""
        before, longest = 0.0, 0.0
        microbatches = self.parallel.microbatches
        for at, stage in enumerate(self.stages):
            compute = float(sum(stage.compute_s))
            waited = _sum(stage.waited, seconds)
            leading = _sum(stage.leading, seconds)
            once = microbatches * (compute + waited) - leading
            longest = max(longest, before + once)
            if at < len(self.stages) - 1:
                before += compute + waited - leading
                # Forward a pass hands on what comes out of it, backward so does the next stage.
                before += _sum(stage.trailing[0], seconds) + send_s(at)
                before += _sum(self.stages[at + 1].trailing[1], seconds) + send_s(at)
        return longest

    def _channel_s(self, at: int, work_s: Callable[[Asked], float], sends: list[float]) -> float:
        stage = self.stages[at]
        total = _sum(self._of_stage(stage), work_s)
        forward = sends[at] if at < len(self.stages) - 1 else 0.0
        backward = sends[at - 1] if at else 0.0
        return total + self.parallel.microbatches * (forward + backward)


def _sum(counted: Counter[Asked], seconds: Callable[[Asked], float]) -> float:
    return sum(count * seconds(asked) for asked, count in counted.items())


def traffic_of(model: ModelOnRanks, parallel: Parallel, accelerator: Accelerator) -> Traffic:
    """What the stages of a model on ranks compute and send; pipelines have one chunk a stage."""
    each = len(model.layers) // parallel.pipeline
    known: dict[Block, tuple[Fraction, Fraction]] = {}
    stages = []
    for stage in range(parallel.pipeline):
        layers = model.layers[stage * each : (stage + 1) * each]
        blocks = [block for layer in layers for block in layer]
        for block in blocks:
            if block not in known:
                known[block] = _compute_s(block, accelerator)
        stages.append(_stage(blocks, known, model, parallel))
    return Traffic(parallel, tuple(stages), model.handed_bytes)


def traffic_of_graph(graph: JobGraph, parallel: Parallel) -> Traffic:
    """That of a graph of one class in which all collectives are of the copies of data."""
    computes = graph.kind == COMPUTE
    compute_s = int(graph.work[computes].sum()) * graph.tick_s
    gathered: Counter[Asked] = Counter()
    gradients: Counter[Asked] = Counter()
    for node in np.flatnonzero(graph.kind >= FIRST_COLLECTIVE).tolist():
        name = COLLECTIVES[graph.kind[node] - FIRST_COLLECTIVE]
        part = gradients if graph.is_gradient[node] else gathered
        part[name, DATA, int(graph.size_bytes[node])] += 1
    none: Counter[Asked] = Counter()
    stage = StageTraffic((compute_s, Fraction(0)), none, none, (none, none), gathered, gradients)
    return Traffic(parallel, (stage,), 0)


def _compute_s(block: Block, accelerator: Accelerator) -> tuple[Fraction, Fraction]:
    """Forward and backward, rounded as in the graph."""
    forward, backward = (
        round(accelerator.seconds(times * block.operations, times * block.moved_bytes) / NANOSECOND)
        for times in (1, 2)
    )
    return forward * NANOSECOND, backward * NANOSECOND


def _stage(
    blocks: list[Block],
    known: dict[Block, tuple[Fraction, Fraction]],
    model: ModelOnRanks,
    parallel: Parallel,
) -> StageTraffic:
    counts = Counter(blocks)
    compute = [
        sum((count * known[block][way] for block, count in counts.items()), Fraction(0))
        for way in (0, 1)
    ]
    first, last = blocks[0], blocks[-1]
    waited: Counter[Asked] = Counter()
    gathered: Counter[Asked] = Counter()
    gradients: Counter[Asked] = Counter()
    for block, count in counts.items():
        exchanges = (
            *(block.before + block.after),
            *(block.backward_before + block.backward_after),
        )
        for asked, times in _asked(exchanges).items():
            waited[asked] += count * times
        _add_parameters(block, count, model.element_bytes, parallel, gathered, gradients)
    trailing = _asked(last.after), _asked(first.backward_after)
    waited.subtract(trailing[0] + trailing[1])
    leading = _asked(first.before) + _asked(last.backward_before)
    return StageTraffic((compute[0], compute[1]), +waited, leading, trailing, gathered, gradients)


def _add_parameters(
    block: Block,
    count: int,
    element_bytes: int,
    parallel: Parallel,
    gathered: Counter[Asked],
    gradients: Counter[Asked],
) -> None:
    """What synchronising the block's parameters asks for, in a microbatch and at the end."""
    size_bytes = block.num_parameters * element_bytes
    if not size_bytes or parallel.size(block.copies) == 1:
        return
    if parallel.zero == 3:
        gathered["allgather", block.copies, size_bytes] += 2 * count
        gathered["reduce-scatter", block.copies, size_bytes] += count
    elif parallel.zero:
        gradients["reduce-scatter", block.copies, size_bytes] += count
        gradients["allgather", block.copies, size_bytes] += count
    else:
        gradients["allreduce", block.copies, size_bytes] += count


def _asked(exchanges: tuple[Exchange, ...]) -> Counter[Asked]:
    return Counter((one.collective, one.group, one.size_bytes) for one in exchanges)
