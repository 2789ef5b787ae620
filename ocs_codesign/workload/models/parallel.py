"""How ranks divide a model: data, tensor, pipeline and expert parallelism, and ZeRO."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from ocs_codesign.workload.models.layer import DATA, EXPERT, EXPERT_DATA, TENSOR
from ocs_codesign.workload.models.passes import SCHEDULES

if TYPE_CHECKING:
    from ocs_codesign.workload.prices import Machine

MAX_DEGREE = 2**20


@final
@dataclass(frozen=True, slots=True)
class Parallel:
    """Degrees of parallelism. Rank = (stage * data + copy) * tensor + part: tensors are innermost.

    ``expert`` consecutive copies share the experts. ``zero``: 1 and 2 reduce-scatter gradients and
    gather parameters, 3 (FSDP) gathers them for every microbatch, forward and backward.
    ``sequence`` divides activations among tensor ranks. ``schedule`` is one of SCHEDULES; a stage
    holds ``chunks`` parts of the model. Raises ValueError for what does not go together.

    >>> Parallel(data=4, tensor=2, pipeline=3).num_ranks
    24
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    expert: int = 1
    zero: int = 0
    sequence: bool = False
    schedule: str = "1f1b"
    microbatches: int = 1
    chunks: int = 1

    def __post_init__(self) -> None:
        degrees = ("data", "tensor", "pipeline", "expert", "microbatches", "chunks")
        for name in degrees:
            if not 1 <= getattr(self, name) <= MAX_DEGREE:
                raise ValueError(f"{name} is {getattr(self, name)}: it is from 1 to {MAX_DEGREE}")
        if not 0 <= self.zero <= 3:
            raise ValueError(f"zero is {self.zero}: it is from 0 to 3")
        if self.data % self.expert:
            raise ValueError(f"expert is {self.expert}: it divides data, which is {self.data}")
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule is {self.schedule!r}: one of {', '.join(SCHEDULES)}")
        if self.chunks > 1 and self.schedule not in ("interleaved", "breadth-first"):
            raise ValueError(f"{self.schedule} has one chunk a stage, not {self.chunks}")
        if self.schedule == "interleaved" and self.microbatches % self.pipeline:
            raise ValueError(
                f"interleaved needs a multiple of {self.pipeline} microbatches, one for every "
                f"stage: not {self.microbatches}"
            )

    @property
    def num_ranks(self) -> int:
        """All ranks."""
        return self.data * self.tensor * self.pipeline

    @property
    def ranks_of_stage(self) -> int:
        """Ranks of a pipeline stage."""
        return self.data * self.tensor

    def size(self, group: str) -> int:
        """Ranks of a group of that name."""
        return {
            TENSOR: self.tensor,
            EXPERT: self.expert,
            DATA: self.data,
            EXPERT_DATA: self.data // self.expert,
        }[group]

    def stride(self, group: str) -> int:
        """How far consecutive ranks of a group of that name are apart."""
        outer = self.tensor * self.expert
        return {TENSOR: 1, EXPERT: self.tensor, DATA: self.tensor, EXPERT_DATA: outer}[group]

    def check_alike(self, machine: Machine) -> None:
        """ValueError unless the groups of a kind all lie alike on the levels of a machine."""
        if self.num_ranks > machine.num_ranks:
            raise ValueError(
                f"{self.num_ranks} ranks are asked for: the machine has {machine.num_ranks}"
            )
        spans = {name: self.size(name) * self.stride(name) for name in (TENSOR, EXPERT, DATA)}
        for level in machine.levels[:-1]:
            for name, span in spans.items():
                if level.num_ranks % span and span % level.num_ranks:
                    raise ValueError(
                        f"blocks of {level.num_ranks} ranks cut groups of {name} ranks unevenly: "
                        f"{span} consecutive ranks hold one"
                    )
