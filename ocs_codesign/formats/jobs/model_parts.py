"""Parts of a job file that say what is trained, how ranks divide it, and on what processors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from ocs_codesign.formats.jobs.scalars import JobBandwidth, one_of
from ocs_codesign.workload.fused import Accelerator
from ocs_codesign.workload.models.building import job_of
from ocs_codesign.workload.models.convnet import ResidualNetwork
from ocs_codesign.workload.models.parallel import Parallel
from ocs_codesign.workload.models.passes import SCHEDULES
from ocs_codesign.workload.models.recommender import Recommender
from ocs_codesign.workload.models.transformer import Transformer

if TYPE_CHECKING:
    from ocs_codesign.workload.job_graph import JobGraph
    from ocs_codesign.workload.prices import Machine

_STRICT = ConfigDict(extra="forbid", strict=True, frozen=True)
_MANY = 2**40
Count = Annotated[int, Field(ge=1, le=_MANY)]
Schedule = Annotated[Any, one_of(SCHEDULES), WithJsonSchema({"enum": list(SCHEDULES)})]


class TransformerPart(BaseModel):
    """A decoder of layers alike."""

    model_config = _STRICT

    kind: Literal["transformer"]
    layers: Annotated[int, Field(ge=1, le=4096)]
    hidden: Count
    heads: Count
    feed_forward: Count
    vocabulary: Count
    sequence: Count
    batch: Count = Field(description="Sequences an iteration of all ranks together.")
    kv_heads: Count | None = None
    gated: bool = False
    experts: Count = 1
    top_k: Count = 1
    tied: bool = True
    element_bytes: int = Field(2, ge=1, le=8)


class RecommenderPart(BaseModel):
    """Embedding tables and dense layers."""

    model_config = _STRICT

    kind: Literal["recommender"]
    tables: Count
    rows: Count = Field(description="Of all tables together.")
    dimension: Count
    pooling: Count = 1
    bottom: list[Count] = Field(min_length=2, max_length=100)
    top: list[Count] = Field(min_length=2, max_length=100)
    batch: Count
    element_bytes: int = Field(4, ge=1, le=8)
    fused: bool = Field(False, description="Pooling and its all-to-all are one kernel.")


class ResidualPart(BaseModel):
    """A residual network of bottleneck blocks."""

    model_config = _STRICT

    kind: Literal["residual"]
    blocks: list[Count] = Field(min_length=1, max_length=8)
    image: Count
    classes: Count
    batch: Count
    element_bytes: int = Field(2, ge=1, le=8)


class ParallelPart(BaseModel):
    """How ranks divide the model."""

    model_config = _STRICT

    data: int = Field(1, ge=1)
    tensor: int = Field(1, ge=1)
    pipeline: int = Field(1, ge=1)
    expert: int = Field(1, ge=1)
    zero: int = Field(0, ge=0, le=3)
    sequence: bool = False
    schedule: Schedule = "1f1b"
    microbatches: int = Field(1, ge=1)
    chunks: int = Field(1, ge=1)


class SearchPart(BaseModel):
    """Which divisions ``codesign`` tries, beside all degrees of parallelism."""

    model_config = _STRICT

    zero: list[Annotated[int, Field(ge=0, le=3)]] = Field(
        [1, 2, 3], min_length=1, max_length=4, description="Stages of ZeRO where there are copies."
    )
    chunks: list[Annotated[int, Field(ge=1, le=4096)]] = Field(
        [1],
        min_length=1,
        max_length=16,
        description="Chunks of a pipeline's stage: interleaved if more than one.",
    )


class AcceleratorPart(BaseModel):
    """What a processor can."""

    model_config = _STRICT

    peak: float = Field(gt=0, le=1e21, allow_inf_nan=False, description="Operations a second.")
    memory: JobBandwidth = Field(description="Bandwidth of its memory.")
    workgroups: int = Field(108, ge=1, le=2**20, description="That run at a time.")


ModelPart = TransformerPart | RecommenderPart | ResidualPart
MODEL_KINDS = ("transformer", "recommender", "residual")


def model_of(part: ModelPart) -> Transformer | ResidualNetwork | Recommender:
    """What is trained; ValueError with the rule if it is no such model."""
    values = part.model_dump(exclude={"kind"})
    if isinstance(part, RecommenderPart):
        return Recommender(**{**values, "bottom": tuple(part.bottom), "top": tuple(part.top)})
    if isinstance(part, TransformerPart):
        return Transformer(**values)
    return ResidualNetwork(**{**values, "blocks": tuple(part.blocks)})


def graph_of_model(
    part: ModelPart,
    divided: ParallelPart | None,
    processor: AcceleratorPart,
    machine: Machine,
    *,
    ranks_alone: bool = False,
) -> tuple[JobGraph, str]:
    """The job of a model, unpriced, and what it is; ValueError with the rule if it cannot be.

    With ``ranks_alone`` every rank of one that is not a recommender is an owner.
    """
    parallel = Parallel() if divided is None else Parallel(**divided.model_dump())
    parallel.check_alike(machine)
    accelerator = Accelerator(processor.peak, float(processor.memory), processor.workgroups)
    trained = model_of(part)
    if isinstance(trained, Recommender):
        if parallel.num_ranks > parallel.data or parallel.zero:
            raise ValueError("a recommender is divided by data alone, without zero")
        text = f"{trained.num_parameters / 1e9:.4g} billion parameters in tables and dense layers"
        return trained.job(parallel.num_ranks, accelerator, machine), text
    on_ranks = trained.on_ranks(parallel)
    text = f"{trained.num_parameters / 1e9:.4g} billion parameters, {_degrees(parallel)}"
    return job_of(on_ranks, parallel, accelerator, ranks_alone=ranks_alone), text


def _degrees(parallel: Parallel) -> str:
    names = ("data", "tensor", "pipeline", "expert")
    degrees = [f"{getattr(parallel, name)} {name}" for name in names if getattr(parallel, name) > 1]
    degrees += [f"zero {parallel.zero}"] if parallel.zero else []
    return ", ".join(degrees) or "one rank"
