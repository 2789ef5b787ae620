"""LayerTimes: a training step as a chain of layers, whose gradients are summed before use."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING, final

from ocs_codesign.quantities import exact_time
from ocs_codesign.workload.job_draft import JobDraft

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocs_codesign.workload.job_graph import JobGraph

MAX_LAYERS = 10_000


@final
@dataclass(frozen=True, slots=True, init=False)
class LayerTimes:
    """Seconds that the layers, the first one first, compute forward and backward, and are summed.

    The gradient of layer i is ready when backward has passed it; the next forward waits at layer i
    until its allreduce of ``allreduce_s[i]``, and of ``latency_s`` more for each part that it is
    cut into, is over. Numbers are exact. Raises ValueError for columns of different lengths, and
    for negative times.

    >>> layers = LayerTimes([10] * 3, [20] * 3, [40, 20, 30])
    >>> layers.num_layers, layers.bound_s
    (3, Fraction(120, 1))
    """

    forward_s: tuple[Fraction, ...]
    backward_s: tuple[Fraction, ...]
    allreduce_s: tuple[Fraction, ...]
    latency_s: Fraction

    def __init__(
        self,
        forward_s: Sequence[Fraction | float],
        backward_s: Sequence[Fraction | float],
        allreduce_s: Sequence[Fraction | float],
        latency_s: Fraction | float = 0,
    ) -> None:
        given = {
            "forward_s": forward_s,
            "backward_s": backward_s,
            "allreduce_s": allreduce_s,
        }
        if len({len(values) for values in given.values()}) > 1 or not forward_s:
            raise ValueError("layers have a time forward, one backward and one of the allreduce")
        if len(forward_s) > MAX_LAYERS:
            raise ValueError(f"{len(forward_s)} layers: at most {MAX_LAYERS} are read")
        for name, values in given.items():
            object.__setattr__(self, name, tuple(exact_time(value, name) for value in values))
        object.__setattr__(self, "latency_s", exact_time(latency_s, "latency_s"))
        if not sum(self.forward_s + self.backward_s + self.allreduce_s):
            raise ValueError("nothing takes time: all layers take 0 s")

    @property
    def num_layers(self) -> int:
        """Number of layers."""
        return len(self.forward_s)

    @property
    def bound_s(self) -> Fraction:
        """Least period of any policy: the computation, or the channel from the first gradient on.

        Whatever is summed last, its layer and those after it are still to come forward.
        """
        computes = sum(self.forward_s + self.backward_s, Fraction(0))
        channel = self.backward_s[-1] + sum(self.allreduce_s, Fraction(0)) + min(self.forward_s)
        return max(computes, channel)

    def graph(self, num_ranks: int = 1, gradient_bytes: Sequence[int] | None = None) -> JobGraph:
        """The job of so many ranks alike, one class of them: backward, allreduces, next forward.

        ``gradient_bytes`` are M of the layers' allreduces, where they are known.
        """
        times = (*self.forward_s, *self.backward_s, *self.allreduce_s, self.latency_s)
        tick_s = Fraction(1, lcm(*(time.denominator for time in times)))
        forward, backward, allreduce = (
            [int(time / tick_s) for time in times]
            for times in (self.forward_s, self.backward_s, self.allreduce_s)
        )
        sizes = [0] * self.num_layers if gradient_bytes is None else gradient_bytes
        draft = JobDraft(1, [num_ranks], tick_s)
        down = [
            draft.compute(0, backward[layer], label="backward", priority=layer)
            for layer in reversed(range(self.num_layers))
        ]
        up = [
            draft.compute(0, ticks, label="forward", priority=layer)
            for layer, ticks in enumerate(forward)
        ]
        draft.in_turn(down + up)
        draft.carry(up[-1], down[0])
        for layer, ticks in enumerate(allreduce):
            (node,) = draft.collective(
                *("allreduce", (0,), sizes[layer], {0: [down[-1 - layer]]}),
                num_ranks=num_ranks,
                label="allreduce",
                priority=layer,
                is_gradient=True,
                work=ticks,
                latency=int(self.latency_s / tick_s),
            )
            draft.wait(up[layer], node)
        return draft.graph()
