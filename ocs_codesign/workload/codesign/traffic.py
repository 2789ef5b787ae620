"""What stages compute and send in an iteration, and what no order of it is below.

The bound of an iteration is the larger of two. A chain: the first microbatch comes down the
pipeline, a stage passes all of them with the exchanges that their computation waits for, and the
last one goes back up. And what the channel of a stage carries, without latencies, for gradients may
be merged.

Bounds are floats: sums of at most millions of terms that are not negative, each within a few units
of the last place, so that together they are wrong by less than 1e-9 of themselves. The millionth
that every bound is lowered by leaves room for that, and for ticks that messages are rounded to.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, final

import numpy as np

from ocs_codesign.workload.job_graph import COLLECTIVES, COMPUTE, FIRST_COLLECTIVE
from ocs_codesign.workload.models.layer import DATA, like_parts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ocs_codesign.workload.fused import Accelerator
    from ocs_codesign.workload.job_graph import JobGraph
    from ocs_codesign.workload.models.layer import Block, Exchange, ModelOnRanks
    from ocs_codesign.workload.models.parallel import Parallel

Asked = tuple[str, str, int]
"""A collective, its group and its M in bytes."""
_ROUNDING = 1 - 1e-6
_NANOSECONDS = 10**9


class BoundPrices(Protocol):
    """What messages take, latency and transfer apart, in floats."""

    def asked_s(self, collective: str, group: str, size_bytes: int) -> tuple[float, float]:
        """Seconds of a collective of a group."""
        ...

    def handed_s(self, stage: int, other: int, size_bytes: int) -> tuple[float, float]:
        """Seconds of a message from a stage to another one, next to it in the ring of them."""
        ...


@final
@dataclass(frozen=True, slots=True)
class StageTraffic:
    """What a rank computes in seconds and sends for a stage, or a chunk of one, and a microbatch.

    ``waited``: exchanges that computation waits for; ``leading``: those of them before the first
    block of a pass, which need not wait for what comes in; ``trailing``: those after the last block
    of a pass, each way. ``gathered``: what only takes the channel, such as parameters with ZeRO 3.
    ``gradients`` are those of an iteration, ``carried`` all that the channel carries in one.
    """

    compute_s: float
    waited: Mapping[Asked, int]
    leading: Mapping[Asked, int]
    trailing: tuple[Mapping[Asked, int], Mapping[Asked, int]]
    gathered: Mapping[Asked, int]
    gradients: Mapping[Asked, int]
    carried: Mapping[Asked, int]


@final
@dataclass(frozen=True, slots=True)
class Traffic:
    """That of all parts of a model, in order; parts that are alike are one object.

    There is one a stage, or several chunks: of p stages the first has the parts 0, p, 2p and so on.
    """

    parallel: Parallel
    parts: tuple[StageTraffic, ...]
    handed_bytes: int

    def asked(self) -> Counter[Asked]:
        """Every collective of an iteration with how often a rank of some stage takes part in it."""
        most: Counter[Asked] = Counter()
        for chunks in self._stages():
            whole: Counter[Asked] = Counter()
            for part in chunks:
                whole.update(part.carried)
            most |= whole
        return most

    def compute_bound_s(self) -> float:
        """Seconds of an iteration if no message took any time."""
        before, longest = 0.0, 0.0
        for chunks in self._stages():
            compute_s = sum(part.compute_s for part in chunks)
            longest = max(longest, before + self.parallel.microbatches * compute_s)
            before += chunks[0].compute_s
        return longest

    def bound_s(self, prices: BoundPrices) -> float:
        """Seconds that an iteration takes at least at these prices, under every policy."""
        known = {asked: prices.asked_s(*asked) for asked in self._kinds()}
        sends = self._sends_s(prices)
        whole = {asked: sum(parts) for asked, parts in known.items()}
        chain = self._chain_s(whole, [sum(send) for send in sends])
        work = {asked: parts[1] for asked, parts in known.items()}
        return max(chain, self._busiest_s(work, [send[1] for send in sends])) * _ROUNDING

    def communication_bound_s(self, prices: BoundPrices) -> float:
        """Seconds that the busiest channel of an iteration carries, latencies aside."""
        work = {asked: prices.asked_s(*asked)[1] for asked in self._kinds()}
        return self._busiest_s(work, [send[1] for send in self._sends_s(prices)]) * _ROUNDING

    def passes_bound_s(self, prices: BoundPrices) -> float:
        """The same of one iteration whose gradients are sent later: its chain alone."""
        waits: set[Asked] = set()
        for part in self._different():
            waits.update(part.waited, part.leading, *part.trailing)
        known = {asked: sum(prices.asked_s(*asked)) for asked in waits}
        return self._chain_s(known, [sum(send) for send in self._sends_s(prices)]) * _ROUNDING

    def late_bound_s(self, prices: BoundPrices) -> float:
        """Seconds of the gradients of the stage that has the most, one after the other."""
        kinds = {asked for part in self._different() for asked in part.gradients}
        known = {asked: sum(prices.asked_s(*asked)) for asked in kinds}
        return _ROUNDING * max(
            sum(_sum(part.gradients, known) for part in chunks) for chunks in self._stages()
        )

    def _stages(self) -> list[tuple[StageTraffic, ...]]:
        """The parts of every stage."""
        num_stages = self.parallel.pipeline
        return [self.parts[stage::num_stages] for stage in range(num_stages)]

    def _different(self) -> list[StageTraffic]:
        return list({id(part): part for part in self.parts}.values())

    def _kinds(self) -> set[Asked]:
        return {asked for part in self._different() for asked in part.carried}

    def _sends_s(self, prices: BoundPrices) -> list[tuple[float, float]]:
        """From every part to the next one; nothing is sent where one stage has all parts."""
        num_stages, size = self.parallel.pipeline, self.handed_bytes
        if num_stages == 1:
            return [(0.0, 0.0)] * (len(self.parts) - 1)
        return [
            prices.handed_s(at % num_stages, (at + 1) % num_stages, size)
            for at in range(len(self.parts) - 1)
        ]

    def _chain_s(self, seconds: Mapping[Asked, float], sends: list[float]) -> float:
        """The longest chain: down to a stage, all of its passes, and up again.

        Down and up are through the first chunks of the stages before it, in every order of passes.
        """
        microbatches = self.parallel.microbatches
        sums = {
            id(part): (
                part.compute_s + _sum(part.waited, seconds),
                _sum(part.leading, seconds),
                *(_sum(ends, seconds) for ends in part.trailing),
            )
            for part in self._different()
        }
        before, longest = 0.0, 0.0
        for at, (chunks, send) in enumerate(zip(self._stages(), [*sends, 0.0], strict=False)):
            passed, leading, forward, backward = sums[id(chunks[0])]
            # Forward a pass hands on what comes out of it, backward so does the next stage.
            before += backward if at else 0.0
            whole = microbatches * sum(sums[id(part)][0] for part in chunks)
            longest = max(longest, before + whole - leading)
            before += passed - leading + forward + 2 * send
        return longest

    def _busiest_s(self, work_s: Mapping[Asked, float], sends: list[float]) -> float:
        sums = {id(part): _sum(part.carried, work_s) for part in self._different()}
        both = zip([0.0, *sends], [*sends, 0.0], strict=True)
        carried = [
            sums[id(part)] + self.parallel.microbatches * (backward + forward)
            for part, (backward, forward) in zip(self.parts, both, strict=True)
        ]
        num_stages = self.parallel.pipeline
        return max(sum(carried[stage::num_stages]) for stage in range(num_stages))


def _sum(counted: Mapping[Asked, int], seconds: Mapping[Asked, float]) -> float:
    return sum(count * seconds[asked] for asked, count in counted.items())


def traffic_of(model: ModelOnRanks, parallel: Parallel, accelerator: Accelerator) -> Traffic:
    """What the stages of a model on ranks compute and send."""
    parts, which = like_parts(model.layers, parallel.pipeline * parallel.chunks)
    different = [_stage(blocks, accelerator, model, parallel) for blocks in parts]
    return Traffic(parallel, tuple(different[part] for part in which), model.handed_bytes)


def traffic_of_graph(graph: JobGraph, parallel: Parallel) -> Traffic:
    """That of a graph of one class in which all collectives are of the copies of data."""
    computes = graph.kind == COMPUTE
    compute_s = float(int(graph.work[computes].sum()) * graph.tick_s)
    gathered: Counter[Asked] = Counter()
    gradients: Counter[Asked] = Counter()
    for node in np.flatnonzero(graph.kind >= FIRST_COLLECTIVE).tolist():
        name = COLLECTIVES[graph.kind[node] - FIRST_COLLECTIVE]
        part = gradients if graph.is_gradient[node] else gathered
        part[name, DATA, int(graph.size_bytes[node])] += 1
    carried = gathered + gradients
    stage = StageTraffic(compute_s, {}, {}, ({}, {}), gathered, gradients, carried)
    return Traffic(parallel, (stage,), 0)


def _stage(
    blocks: tuple[Block, ...], accelerator: Accelerator, model: ModelOnRanks, parallel: Parallel
) -> StageTraffic:
    different = {id(block): block for block in blocks}
    counts = Counter(map(id, blocks))
    first, last = blocks[0], blocks[-1]
    waited: Counter[Asked] = Counter()
    gathered: Counter[Asked] = Counter()
    gradients: Counter[Asked] = Counter()
    nanoseconds = 0
    for key, count in counts.items():
        block = different[key]
        for times in (1, 2):  # forward and backward, rounded as in the graph
            work = times * block.operations, times * block.moved_bytes
            nanoseconds += count * accelerator.nanoseconds(*work)
        for part in (block.before, block.after, block.backward_before, block.backward_after):
            _add(waited, part, count)
        _add_parameters(block, count, model.element_bytes, parallel, gathered, gradients)
    carried = Counter(gradients)
    for each in (waited, gathered):
        for asked, count in each.items():
            carried[asked] += parallel.microbatches * count
    trailing = _add(Counter(), last.after, 1), _add(Counter(), first.backward_after, 1)
    for one in trailing:
        waited.subtract(one)
    leading = _add(_add(Counter(), first.before, 1), last.backward_before, 1)
    rest = +waited, leading, trailing, gathered, gradients, carried
    return StageTraffic(nanoseconds / _NANOSECONDS, *rest)


def _add(counted: Counter[Asked], exchanges: tuple[Exchange, ...], count: int) -> Counter[Asked]:
    for one in exchanges:
        counted[one.collective, one.group, one.size_bytes] += count
    return counted


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
