"""Job files: a model and how it is trained, its layers, or its nodes one by one, in YAML or JSON.

``job_json_schema`` documents the keys. Times, sizes and bandwidths are text with their unit.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, final

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from ocs_codesign.circuits.step_files import parse_trace
from ocs_codesign.core.files.archives import check_size, read_limited
from ocs_codesign.core.files.atomic import errors_at
from ocs_codesign.core.files.plain_text import (
    checked_part,
    file_error,
    read_plain_text,
    spanning_error,
)
from ocs_codesign.core.quantities import parse_bandwidth
from ocs_codesign.core.registry import provided
from ocs_codesign.core.shown import Brief
from ocs_codesign.fabric.files.schema import Name
from ocs_codesign.jobs.cluster_design.cluster import SearchSpace, TrainedModel
from ocs_codesign.jobs.files.parts import (
    MAX_LAYERS,
    MAX_NODES_READ,
    MAX_RANKS,
    Count,
    FactorsPart,
    LayerPart,
    LevelPart,
    MachinePart,
    NodePart,
    StepPart,
    gradient_bytes,
    graph_of_nodes,
    layers_of,
)
from ocs_codesign.jobs.files.profiler import is_profile, profiled_job
from ocs_codesign.jobs.files.scalars import JobBandwidth, JobTime, one_of
from ocs_codesign.jobs.fused import Accelerator
from ocs_codesign.jobs.issue import Discipline
from ocs_codesign.jobs.layers import chain_of, has_groups_side_by_side, with_ranks_alone
from ocs_codesign.jobs.models.building import SCHEDULES, Parallel, job_of
from ocs_codesign.jobs.models.layer import ROUTINGS, Recommender, ResidualNetwork, Transformer
from ocs_codesign.jobs.prices import Level, Machine, priced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.circuits.legs.trace import Trace
    from ocs_codesign.core.cost import CostModel
    from ocs_codesign.core.files.plain_text import Place, PlainText
    from ocs_codesign.core.machines.machine import RealMachine
    from ocs_codesign.core.networks.aggregation import AggregationProfile
    from ocs_codesign.jobs.files.profile_steps import ProfiledStep
    from ocs_codesign.jobs.job_graph import JobGraph


# Parts of a job file that say what is trained, how ranks divide it, and on what processors.


_STRICT = ConfigDict(extra="forbid", strict=True, frozen=True)
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
    head_dim: Count | None = None
    expert_feed_forward: Count | None = Field(None, description="Of an expert, if not as others.")
    shared_experts: int = Field(0, ge=0, le=1024, description="That every token goes to.")
    dense_layers: int = Field(0, ge=0, le=4096, description="The first ones, without experts.")
    expert_servers: Count | None = Field(None, description="That a token's experts are on at most.")
    latent: Annotated[list[Count], Field(min_length=5, max_length=5)] | None = Field(
        None, description="Latent attention: q rank, kv rank; of a head plain, turned, values."
    )
    window: float = Field(1.0, gt=0, le=1, description="Share of the scores that is computed.")
    routing: Literal[ROUTINGS] = Field(  # type: ignore[valid-type]
        "even", description="How popular experts are."
    )
    spare_experts: int | None = Field(
        None,
        ge=0,
        le=2**20,
        description="Experts are placed by popularity, with copies at so many more places.",
    )


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
    step: StepPart | None = Field(None, description="What a step on a cluster file knows beside.")

    def parallel(self) -> Parallel:
        """The division; ValueError with the rule if it is none."""
        if self.step is not None:
            raise ValueError("step is given: it is for a step on a cluster, whose file is missing")
        return Parallel(**self.model_dump(exclude={"step"}))


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

    def accelerator(self) -> Accelerator:
        """The same as a value."""
        return Accelerator(self.peak, float(self.memory), self.workgroups)


ModelPart = TransformerPart | RecommenderPart | ResidualPart
MODEL_KINDS = ("transformer", "recommender", "residual")


def model_of(part: ModelPart) -> Transformer | ResidualNetwork | Recommender:
    """What is trained; ValueError with the rule if it is no such model."""
    values = part.model_dump(exclude={"kind"})
    if isinstance(part, RecommenderPart):
        return Recommender(**{**values, "bottom": tuple(part.bottom), "top": tuple(part.top)})
    if isinstance(part, TransformerPart):
        return transformer_of(part)
    return ResidualNetwork(**{**values, "blocks": tuple(part.blocks)})


def transformer_of(part: TransformerPart) -> Transformer:
    """The transformer; ValueError with the rule if it is none."""
    latent = None if part.latent is None else tuple(part.latent)
    return Transformer(**{**part.model_dump(exclude={"kind"}), "latent": latent})


def graph_of_model(
    part: ModelPart,
    divided: ParallelPart | None,
    accelerator: Accelerator,
    machine: Machine,
    *,
    ranks_alone: bool = False,
) -> tuple[JobGraph, str]:
    """The job of a model, unpriced, and what it is; ValueError with the rule if it cannot be.

    With ``ranks_alone`` every rank of one that is not a recommender is an owner.
    """
    parallel = Parallel() if divided is None else divided.parallel()
    parallel.check_alike(machine)
    trained = model_of(part)
    if isinstance(trained, Recommender):
        if parallel.num_ranks > parallel.data or parallel.zero:
            raise ValueError("a recommender is divided by data alone, without zero")
        text = f"{trained.num_parameters / 1e9:.4g} billion parameters in tables and dense layers"
        return trained.job(parallel.num_ranks, accelerator, machine), text
    if isinstance(trained, Transformer):
        for name, usual in (("routing", "even"), ("spare_experts", None)):
            if getattr(trained, name) != usual:
                raise ValueError(
                    f"model.{name} is {getattr(trained, name)!r}: it is for a step on a CLUSTER of "
                    "accelerators"
                )
    on_ranks = trained.on_ranks(parallel)
    text = f"{trained.num_parameters / 1e9:.4g} billion parameters, {_degrees(parallel)}"
    return job_of(on_ranks, parallel, accelerator, ranks_alone=ranks_alone), text


def _degrees(parallel: Parallel) -> str:
    names = ("data", "tensor", "pipeline", "expert")
    degrees = [f"{getattr(parallel, name)} {name}" for name in names if getattr(parallel, name) > 1]
    degrees += [f"zero {parallel.zero}"] if parallel.zero else []
    return ", ".join(degrees) or "one rank"


_PARTS = ("parallel", "model", "accelerator", "machine")
MAX_JOB_BYTES = 64 * 2**20
MAX_WINDOW = 2**20
_HEAD_BYTES = 4096


@final
@dataclass(frozen=True, slots=True, repr=False)
class LoadedJob(Brief):
    """A job that was read: its name, its graph with the time of every message, and what it is.

    ``machine`` is what its messages were priced on, None if they have times of their own;
    ``profile`` the step of a profile that it was measured in. ``discipline`` is how its ranks send,
    None for one message at a time.
    """

    name: str
    graph: JobGraph
    text: str
    machine: Machine | None = None
    profile: ProfiledStep | None = None
    discipline: Discipline | None = None


@final
@dataclass(frozen=True, slots=True)
class GivenMachine:
    """What messages cost where a file does not say it, and its ranks where it does not say them.

    Switches of the outermost level have the ``aggregation``, of a file's machine as well. A
    ``real`` machine is taken in place of a file's, and so are ``levels`` with the ``accelerator``.
    Of traces the accelerator does what has no time, and what they say of ``ignore`` is left out.
    """

    model: CostModel | None
    algorithm: str = "ring"
    num_ranks: int | None = None
    aggregation: AggregationProfile | None = None
    real: RealMachine | None = None
    levels: Machine | None = None
    accelerator: Accelerator | None = None
    ignore: tuple[str, ...] = ()

    def machine(self, num_ranks: int) -> Machine:
        """The machine, one level of so many ranks; ValueError without a model."""
        if self.levels is not None and self.levels.num_ranks < num_ranks:
            has = self.levels.num_ranks
            raise ValueError(f"it has {num_ranks} ranks: the room has {has} accelerators")
        library = None if self.real is None else Machine.of_library(self.real, num_ranks)
        found = self.levels or library
        if found is not None:
            return found if self.aggregation is None else found.aggregating(self.aggregation)
        if self.model is None:
            raise ValueError("it does not say what messages take: --alpha and --bandwidth do")
        return Machine(
            (Level(num_ranks, self.model, self.algorithm, aggregation=self.aggregation),)
        )


class JobPart(BaseModel):
    """A job: one of layers, nodes and a model, and the machine that it runs on."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    version: Literal[1] = Field(1, description="The version of this format.")
    name: Name = Field(description="The job's name, in reports.")
    machine: MachinePart | None = Field(None, description="What messages cost.")
    latency: JobTime = Field(Fraction(0), description="What each part of an allreduce takes more.")
    layers: list[LayerPart] | None = Field(None, min_length=1, max_length=MAX_LAYERS)
    ranks: int = Field(1, ge=1, le=MAX_RANKS, description="Ranks that nodes are of.")
    nodes: list[NodePart] | None = Field(None, min_length=1, max_length=MAX_NODES_READ)
    model: Annotated[ModelPart, Field(discriminator="kind")] | None = None
    parallel: ParallelPart | None = Field(None, description="One rank if not given.")
    accelerator: AcceleratorPart | None = None
    search: SearchPart | None = Field(None, description="What codesign tries.")


_MODELS: dict[tuple[str, ...], type[BaseModel]] = {
    (): JobPart,
    ("machine",): MachinePart,
    ("machine", "levels"): LevelPart,
    ("layers",): LayerPart,
    ("nodes",): NodePart,
    ("model", "transformer"): TransformerPart,
    ("model", "recommender"): RecommenderPart,
    ("model", "residual"): ResidualPart,
    ("parallel",): ParallelPart,
    ("parallel", "step"): StepPart,
    ("parallel", "step", "factors"): FactorsPart,
    ("accelerator",): AcceleratorPart,
    ("search",): SearchPart,
}


def load_job(
    path: str | Path, given: GivenMachine | None = None, *, ranks_alone: bool = False
) -> LoadedJob:
    """The job in a file, or in the execution traces of Chakra in a directory.

    A file is a job file, YAML or JSON, a trace of collectives (CSV or JSON), or one of PyTorch's
    profiler. Where it has no machine, messages take what ``given`` says. With ``ranks_alone`` every
    rank of a model, and of a profile with groups of some ranks, is an owner, not a class of like
    ones. Raises OSError if the file cannot be
    read, and ValueError with the file, the line (of YAML), the path in it, the value and the rule
    for anything else.
    """
    path = Path(path)
    if path.is_dir() or path.suffix.lower() == ".et":
        beside = (None, ()) if given is None else (given.accelerator, given.ignore)
        return _given_times(
            path.name, provided("job of Chakra traces")(path, *beside), given, "traces of Chakra"
        )
    if is_goal(path):
        graph = provided("job of GOAL")(path)
        # What a rank sends queues for its bytes alone: latencies of its messages overlap.
        return replace(
            _given_times(path.name, graph, given, "GOAL"), discipline=Discipline(window=MAX_WINDOW)
        )
    data = read_limited(path, MAX_JOB_BYTES)
    is_json = path.suffix.lower() == ".json"
    if path.suffix.lower() in (".csv", ".tsv"):
        return _chain(parse_trace(data, str(path), is_json=False), path, given)
    if is_json:
        value = read_plain_text(data, str(path), is_json=True).value
        if is_profile(value):
            with errors_at(str(path)):
                graph, step = profiled_job(value, ranks_alone=ranks_alone)
                if ranks_alone and has_groups_side_by_side(graph):
                    graph = with_ranks_alone(graph)
            found = _given_times(path.name, graph, given, f"a profile of PyTorch, {step.text}")
            return replace(found, profile=step)
        if isinstance(value, list) or (isinstance(value, dict) and "jobs" in value):
            return _chain(parse_trace(data, str(path), is_json=True), path, given)
    return parse_job(data, str(path), is_json=is_json, given=given, ranks_alone=ranks_alone)


def is_goal(path: Path) -> bool:
    """Whether a file is GOAL, by its name or because it begins with num_ranks."""
    if path.suffix.lower() == ".goal" or not path.is_file():
        return path.suffix.lower() == ".goal"
    with path.open("rb") as file:
        return file.read(_HEAD_BYTES).lstrip().startswith(b"num_ranks")


def _chain(trace: Trace, path: Path, given: GivenMachine | None) -> LoadedJob:
    if given is None or given.num_ranks is None:
        raise ValueError(f"{path} does not say how many ranks there are: --ranks does")
    return _given_times(path.name, chain_of(trace, given.num_ranks), given, "a chain")


def _given_times(name: str, graph: JobGraph, given: GivenMachine | None, text: str) -> LoadedJob:
    """The job with what its messages take on the machine that was given."""
    machine = None
    if graph.is_communication.any():
        if given is None:
            raise ValueError(f"{name} does not say what messages take: --alpha and --bandwidth do")
        last = int(max(graph.last_rank.max(), int(graph.ranks.sum()) - 1))
        machine = given.machine(max(last + 1, given.num_ranks or 1))
        graph = priced(graph, machine)
    return LoadedJob(name, graph, f"{text}, {graph.num_nodes} nodes", machine)


def accelerator_of(text: str) -> Accelerator:
    """An accelerator by its name, or as its peak and the bandwidth of its memory.

    >>> accelerator_of("989TFLOPS,3350GB/s") == Accelerator(989e12, 3350e9)
    True
    """
    from ocs_codesign.jobs.training.constants import chip_named

    told = re.fullmatch(r"([0-9.]+) ?([GTP])FLOPS, ?(.+)", text.strip(), re.IGNORECASE)
    if told is None:
        chip = chip_named(text)
        return Accelerator(chip.bf16, chip.memory_Bps, chip.processors)
    scale = {"G": 1e9, "T": 1e12, "P": 1e15}[told[2].upper()]
    return Accelerator(float(told[1]) * scale, parse_bandwidth(told[3]))


def parse_job(
    data: bytes,
    name: str,
    *,
    is_json: bool = False,
    given: GivenMachine | None = None,
    ranks_alone: bool = False,
) -> LoadedJob:
    """The job in the content of a job file called ``name``; ValueError as in ``load_job``.

    >>> text = b"name: j\\nlayers:\\n- {forward: 1ms, backward: 2ms, allreduce: 3}\\n"
    >>> parse_job(text, "j.yaml")
    Traceback (most recent call last):
    ValueError: j.yaml, line 3: layers[0].allreduce is 3: write a time as text with its unit, \
as in 1.5ms
    """
    plain, part = job_part(data, name, is_json=is_json)
    try:
        return _loaded(part, given, ranks_alone=ranks_alone)
    except ValueError as error:
        raise spanning_error(name, plain, error, "the job", _PARTS) from None


def job_part(data: bytes, name: str, *, is_json: bool = False) -> tuple[PlainText, JobPart]:
    """The content of a job file and its checked parts; ValueError as in ``load_job``."""
    check_size(len(data), name, MAX_JOB_BYTES)
    plain = read_plain_text(data, name, is_json=is_json)
    keys = "name, and layers, nodes or a model"
    kind = _kind_of(plain.value)
    part = checked_part(
        plain, name, JobPart, partial(_keys_at, kind), "job", tags=MODEL_KINDS, keys=keys
    )
    return plain, part


def job_json_schema() -> dict[str, Any]:
    """The JSON Schema of job files."""
    schema = JobPart.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _kind_of(value: Any) -> str:
    """The kind of the model in a file, for the keys that it may have."""
    model = value.get("model") if isinstance(value, dict) else None
    kind = model.get("kind") if isinstance(model, dict) else None
    return kind if kind in MODEL_KINDS else MODEL_KINDS[0]


def _keys_at(kind: str, place: Place) -> list[str]:
    names = tuple(key for key in place if isinstance(key, str))
    names = ("model", kind) if names == ("model",) else names
    return list(_MODELS.get(names, JobPart).model_fields)


def _loaded(part: JobPart, given: GivenMachine | None, *, ranks_alone: bool) -> LoadedJob:
    if part.machine is not None and given is not None and given.model is not None:
        raise ValueError("machine: it has a machine: another one is not taken")
    machine = None if part.machine is None else part.machine.machine()
    if machine is not None and given is not None and given.aggregation is not None:
        machine = machine.aggregating(given.aggregation)
    if given is not None and (given.real is not None or given.levels is not None):
        machine = given.machine(_num_ranks(part, machine, given))
    if sum(each is not None for each in (part.layers, part.nodes, part.model)) != 1:
        raise ValueError("it has one of layers, nodes and a model")
    if part.model is not None:
        processor = None if part.accelerator is None else part.accelerator.accelerator()
        if given is not None and given.levels is not None:
            processor = given.accelerator
        if machine is None or processor is None:
            raise ValueError("model: it needs a machine and an accelerator: what its work takes")
        graph, text = graph_of_model(
            part.model, part.parallel, processor, machine, ranks_alone=ranks_alone
        )
        return LoadedJob(part.name, _with_times(graph, priced(graph, machine)), text, machine)
    if part.layers is not None:
        layers, ranks = layers_of(part.layers, part.latency, machine)
        graph = layers.graph(ranks, gradient_bytes(part.layers))
        return LoadedJob(part.name, graph, f"{layers.num_layers} layers", machine)
    graph = graph_of_nodes(part.nodes or [], part.ranks)
    sized = graph.is_communication & (graph.size_bytes > 0)
    if machine is None and given is not None:
        machine = given.machine(part.ranks)
    if machine is not None:
        graph = _with_times(graph, priced(graph, machine))
    elif sized.any():
        at = next(at for at, node in enumerate(part.nodes or []) if node.size)
        raise ValueError(f"nodes[{at}].size is given: the file needs a machine for it")
    text = f"{graph.num_nodes} nodes of {graph.num_owners} ranks"
    return LoadedJob(part.name, graph, text, machine)


def _num_ranks(part: JobPart, machine: Machine | None, given: GivenMachine) -> int:
    """Ranks of a job: of its machine, as they were given, of its division or of its nodes."""
    if machine is not None or given.num_ranks is not None:
        return given.num_ranks or 1 if machine is None else machine.num_ranks
    if part.layers is not None and given.levels is not None:
        return given.levels.num_ranks
    if part.layers is not None:
        raise ValueError("layers: they do not say how many ranks there are: --ranks does")
    return part.ranks if part.parallel is None else part.parallel.parallel().num_ranks


def _with_times(given: JobGraph, graph: JobGraph) -> JobGraph:
    """The priced graph, in which what was given a time keeps it."""
    import numpy as np

    timed = given.is_communication & (given.work > 0)
    finer = int(given.tick_s / graph.tick_s)
    return graph.changed(
        work=np.where(timed, given.work * finer, graph.work),
        latency=np.where(timed, 0, graph.latency),
    )


# The model of a job file, whatever the file says of machine and processor.


def load_training(path: str | Path) -> TrainedModel:
    """The model in a job file, and how the file divides it, if it does.

    Raises OSError if the file cannot be read, and ValueError with the file, the line (of YAML), the
    path in it, the value and the rule for anything else, such as a file without a model.
    """
    path = Path(path)
    data = read_limited(path, MAX_JOB_BYTES)
    return parse_training(data, str(path), is_json=path.suffix.lower() == ".json")


def parse_training(data: bytes, name: str, *, is_json: bool = False) -> TrainedModel:
    """The model in the content of a job file called ``name``; ValueError as in ``load_training``.

    >>> parse_training(b"name: j\\nranks: 4\\n", "j.yaml")
    Traceback (most recent call last):
    ValueError: j.yaml, line 1: the job has no model: only models can be divided in other ways
    """
    plain, part = job_part(data, name, is_json=is_json)
    if part.model is None:
        rule = " has no model: only models can be divided in other ways"
        raise file_error(name, plain, (), rule, "the job")
    with rules_at(name, plain, "model"):
        trained = TrainedModel(part.name, model_of(part.model))
    if part.search is not None:
        space = SearchSpace(tuple(part.search.zero), tuple(part.search.chunks))
        trained = replace(trained, search=space)
    divided = part.parallel
    if divided is None or (divided.step is not None and divided.step.microbatch is not None):
        return trained  # what only the step model knows is no baseline
    with rules_at(name, plain, "parallel"):
        given = divided.model_copy(update={"step": None}).parallel()
        trained.check(given)
    return replace(trained, given=given)


@contextmanager
def rules_at(name: str, plain: PlainText, key: str) -> Iterator[None]:
    """ValueError inside becomes one of the file, with the line of a key."""
    try:
        yield
    except ValueError as error:
        raise file_error(name, plain, (key,), f": {error}", "the file") from None
