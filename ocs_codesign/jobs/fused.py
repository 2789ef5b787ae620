"""Operators fused with their collective: results leave while other workgroups still compute."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

from ocs_codesign.core.quantities import exact, exact_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ocs_codesign.core.cost import CostModel
    from ocs_codesign.jobs.job_draft import JobDraft


MAX_WORKGROUPS = 2**24
_EXACT_FLOATS = 2.0**50


@final
@dataclass(frozen=True, slots=True, init=False)
class FusedOperator:
    """A kernel of W workgroups, R of them at a time, whose results are sent to others.

    A workgroup takes ``workgroup_s``, 1 + ``slowdown`` times as long in the fused kernel; of all
    ``num_remote`` make a slice for others, which takes the channel, first in, first out,
    ``slice_s``. A message is ``alpha_s`` on its way. Times are exact. Raises ValueError for
    negative times, no workgroup, and more remote ones than there are.

    >>> operator = FusedOperator(64, 16, 10, Fraction(1, 2))
    >>> operator.unfused_s, operator.fused_s(), operator.num_waves
    (Fraction(72, 1), Fraction(48, 1), 4)
    """

    num_workgroups: int
    num_at_a_time: int
    workgroup_s: Fraction
    slice_s: Fraction
    alpha_s: Fraction
    slowdown: Fraction
    num_remote: int

    def __init__(
        self,
        num_workgroups: int,
        num_at_a_time: int,
        workgroup_s: Fraction | float,
        slice_s: Fraction | float,
        alpha_s: Fraction | float = 0,
        slowdown: Fraction | float = 0,
        num_remote: int | None = None,
    ) -> None:
        remote = num_workgroups if num_remote is None else num_remote
        for name, value in (("num_workgroups", num_workgroups), ("num_at_a_time", num_at_a_time)):
            if not 1 <= value <= MAX_WORKGROUPS:
                raise ValueError(f"{name} is {value}: it is from 1 to {MAX_WORKGROUPS}")
        if not 0 <= remote <= num_workgroups:
            raise ValueError(f"num_remote is {remote}: it is from 0 to {num_workgroups}")
        object.__setattr__(self, "num_workgroups", num_workgroups)
        object.__setattr__(self, "num_at_a_time", num_at_a_time)
        object.__setattr__(self, "workgroup_s", exact_time(workgroup_s, "workgroup_s"))
        object.__setattr__(self, "slice_s", exact_time(slice_s, "slice_s"))
        object.__setattr__(self, "alpha_s", exact_time(alpha_s, "alpha_s"))
        if exact(slowdown, "slowdown") < 0:
            raise ValueError(f"slowdown is {slowdown}: it cannot be negative")
        object.__setattr__(self, "slowdown", exact(slowdown, "slowdown"))
        object.__setattr__(self, "num_remote", remote)

    @property
    def num_waves(self) -> int:
        """How often all places for workgroups are filled."""
        return -(-self.num_workgroups // self.num_at_a_time)

    @property
    def compute_s(self) -> Fraction:
        """Seconds of the kernel that is not fused, without what is sent."""
        return self.num_waves * self.workgroup_s

    @property
    def unfused_s(self) -> Fraction:
        """Seconds of the kernel, and of the collective after it."""
        sends = self.num_remote > 0
        return self.compute_s + self.num_remote * self.slice_s + sends * self.alpha_s

    def fused_s(self, is_remote: Sequence[bool] | None = None) -> Fraction:
        """Seconds of the fused kernel if workgroups run in this order, remote ones first if None.

        Raises ValueError unless there is an entry a workgroup, and so many are remote.

        >>> operator = FusedOperator(64, 16, 10, 1, num_remote=48)
        >>> operator.fused_s(), operator.fused_s([False] * 16 + [True] * 48)
        (Fraction(58, 1), Fraction(68, 1))
        """
        wave_s = self.workgroup_s * (1 + self.slowdown)
        end = self.num_waves * wave_s
        sent = Fraction(0)
        for wave, remote in enumerate(self.remote_of_waves(is_remote), 1):
            if remote:
                sent = max(sent, wave * wave_s) + remote * self.slice_s
        return max(end, sent + self.alpha_s) if self.num_remote else end

    @property
    def bound_s(self) -> Fraction:
        """Seconds that no order of the fused kernel is below: what each resource needs alone."""
        wave_s = self.workgroup_s * (1 + self.slowdown)
        sends = wave_s + self.num_remote * self.slice_s + self.alpha_s
        return max(self.num_waves * wave_s, sends if self.num_remote else Fraction(0))

    @property
    def saved(self) -> Fraction:
        """The share of the time that fusing saves; negative where it does not pay."""
        return 1 - self.fused_s() / self.unfused_s if self.unfused_s else Fraction(0)

    def remote_of_waves(self, is_remote: Sequence[bool] | None = None) -> Iterator[int]:
        """How many remote workgroups every wave has; ValueError as in ``fused_s``."""
        size = self.num_at_a_time
        if is_remote is None:
            for wave in range(self.num_waves):
                yield max(0, min(size, self.num_remote - wave * size))
            return
        if len(is_remote) != self.num_workgroups or sum(map(bool, is_remote)) != self.num_remote:
            raise ValueError(
                f"the order has {len(is_remote)} workgroups, {sum(map(bool, is_remote))} of them "
                f"remote: there are {self.num_workgroups}, {self.num_remote} remote"
            )
        for first in range(0, self.num_workgroups, size):
            yield sum(map(bool, is_remote[first : first + size]))


@final
@dataclass(frozen=True, slots=True)
class Accelerator:
    """What a processor can: operations and bytes a second, and workgroups at a time.

    >>> Accelerator(100.0, 10.0, 4).seconds(1000, 10)
    Fraction(10, 1)
    """

    peak_flops: float
    memory_Bps: float  # noqa: N815 - the unit keeps its case
    num_at_a_time: int = 108

    def __post_init__(self) -> None:
        if self.peak_flops <= 0 or self.memory_Bps <= 0 or self.num_at_a_time < 1:
            raise ValueError("an accelerator has a peak, a memory and a place for a workgroup")

    def seconds(self, num_operations: float, num_bytes: float) -> Fraction:
        """Roofline: the longer of what the operations and what the bytes of memory take."""
        operations = exact(num_operations) / exact(self.peak_flops)
        return max(operations, exact(num_bytes) / exact(self.memory_Bps))

    def nanoseconds(self, num_operations: float, num_bytes: float) -> int:
        """The same to the nearest nanosecond, exact only where a float does not decide it.

        >>> Accelerator(3e9, 1e9).nanoseconds(1000, 10), Accelerator(2e9, 1e9).nanoseconds(3, 0)
        (333, 2)
        """
        near = 1e9 * max(num_operations / self.peak_flops, num_bytes / self.memory_Bps)
        whole = round(near)
        if 0.5 - abs(near - whole) > 1e-15 * near + 1e-9 and near < _EXACT_FLOATS:
            return whole
        return round(self.seconds(num_operations, num_bytes) * 10**9)


def _embedding(size: int, num_ranks: int) -> tuple[int, int, int, int, int]:
    """Pooling 64 rows of 128 numbers of each of ``size`` samples; the result goes to all ranks."""
    del num_ranks
    rows, width, element = 64, 128, 4
    return size, size * rows * width, size * rows * width * element, size * width * element, 16


def _gemv(size: int, num_ranks: int) -> tuple[int, int, int, int, int]:
    """A vector times a square matrix whose columns are divided among ranks; the sum goes to all."""
    columns, element = max(1, size // num_ranks), 2
    return size, 2 * size * columns, size * columns * element, 2 * size * element, 16


def _gemm(size: int, num_ranks: int) -> tuple[int, int, int, int, int]:
    """1024 tokens of experts times a square matrix; the results go back to all ranks."""
    del num_ranks
    tokens, element = 1024, 2
    moved = (2 * tokens * size + size * size) * element
    tiles = max(1, tokens // 128) * max(1, size // 128)
    return tiles, 2 * tokens * size * size, moved, tokens * size * element, 1


OPERATORS = {
    "embedding": (_embedding, "embedding pooling + all-to-all, by samples"),
    "gemv": (_gemv, "GEMV + allreduce, by rows"),
    "gemm": (_gemm, "GEMM + all-to-all, by width"),
}
"""Fused operators: pieces of work, operations, bytes of memory, bytes sent, pieces a workgroup."""


def operator_of(
    name: str,
    size: int,
    num_ranks: int,
    accelerator: Accelerator,
    model: CostModel,
    slowdown: Fraction | float = 0,
    slice_overhead_s: Fraction | float = 0,
) -> FusedOperator:
    """A fused operator of that size over so many ranks, whose kernel is on the roofline.

    Of p ranks' results (p - 1)/p are remote. Raises ValueError for an unknown one, and for fewer
    than 2 ranks.
    """
    if name not in OPERATORS:
        raise ValueError(f"{name!r} is no fused operator: they are {', '.join(OPERATORS)}")
    if num_ranks < 2 or size < 1:
        raise ValueError(f"{num_ranks} ranks and a size of {size}: at least 2 and 1")
    pieces, operations, memory, sent, each = OPERATORS[name][0](size, num_ranks)
    groups = -(-pieces // each)
    at_a_time = min(accelerator.num_at_a_time, groups)
    waves = -(-groups // at_a_time)
    remote = -(-groups * (num_ranks - 1) // num_ranks)
    share = Fraction(sent) / groups / model.node_bandwidth_Bps
    return FusedOperator(
        groups,
        at_a_time,
        accelerator.seconds(operations, memory) / waves,
        share + exact_time(slice_overhead_s, "slice_overhead_s"),
        model.alpha_s,
        slowdown,
        remote,
    )


def fused_nodes(
    draft: JobDraft, owner: int, operator: FusedOperator, num_ranks: int, after: Iterable[int] = ()
) -> list[int]:
    """The operator as nodes of a job: its waves one after the other, and what each one sends.

    Remote workgroups go first. What comes next waits for all of the nodes returned. Times are
    rounded to ticks.

    >>> from ocs_codesign.jobs.job_draft import JobDraft
    >>> from ocs_codesign.jobs.issue import run
    >>> draft = JobDraft(1, [4], Fraction(1))
    >>> nodes = fused_nodes(draft, 0, FusedOperator(64, 16, 10, 1), 4)
    >>> run(draft.graph()).total_ticks
    74
    """
    wave_s = operator.workgroup_s * (1 + operator.slowdown)
    remote = list(operator.remote_of_waves())
    last = max((wave for wave, number in enumerate(remote) if number), default=-1)
    before = list(after)
    sent: list[int] = []
    for wave, number in enumerate(remote):
        before = [draft.compute(owner, round(wave_s / draft.tick_s), before, label="fused")]
        if number:
            alpha_s = operator.alpha_s if wave == last else Fraction(0)  # the others overlap
            sent += draft.collective(
                *("alltoall", (owner,), 0, {owner: before}),
                num_ranks=num_ranks,
                label="fused",
                work=round(number * operator.slice_s / draft.tick_s),
                latency=round(alpha_s / draft.tick_s),
            )
    return [*before, *sent]
