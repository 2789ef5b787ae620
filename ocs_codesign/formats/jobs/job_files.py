"""Job files: a model and how it is trained, its layers, or its nodes one by one, in YAML or JSON.

``job_json_schema`` documents the keys. Times, sizes and bandwidths are text with their unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, final

from pydantic import BaseModel, ConfigDict, Field

from ocs_codesign.files.broken_rules import checked_part, spanning_error
from ocs_codesign.files.limited import check_size, read_limited
from ocs_codesign.files.places import errors_at
from ocs_codesign.files.plain_text import read_plain_text
from ocs_codesign.formats.fabric.scalars import Name
from ocs_codesign.formats.jobs.chakra_traces import load_chakra_job
from ocs_codesign.formats.jobs.model_parts import (
    MODEL_KINDS,
    AcceleratorPart,
    ModelPart,
    ParallelPart,
    RecommenderPart,
    ResidualPart,
    SearchPart,
    TransformerPart,
    graph_of_model,
)
from ocs_codesign.formats.jobs.parts import (
    MAX_LAYERS,
    MAX_NODES_READ,
    MAX_RANKS,
    LayerPart,
    LevelPart,
    MachinePart,
    NodePart,
    gradient_bytes,
    graph_of_nodes,
    layers_of,
)
from ocs_codesign.formats.jobs.profiler import is_profile, job_of_profile
from ocs_codesign.formats.jobs.scalars import JobTime
from ocs_codesign.formats.trace_files import parse_trace
from ocs_codesign.workload.chains import chain_of
from ocs_codesign.workload.prices import Level, Machine, priced
from ocs_codesign.workload.ranks_alone import has_groups_side_by_side, with_ranks_alone

if TYPE_CHECKING:
    from ocs_codesign.aggregation import AggregationProfile
    from ocs_codesign.cost import CostModel
    from ocs_codesign.files.plain_text import Place, PlainText
    from ocs_codesign.reconfigure.hold.trace import Trace
    from ocs_codesign.workload.job_graph import JobGraph

_PARTS = ("parallel", "model", "accelerator", "machine")
MAX_JOB_BYTES = 64 * 2**20


@final
@dataclass(frozen=True, slots=True)
class LoadedJob:
    """A job that was read: its name, its graph with the time of every message, and what it is.

    ``machine`` is what its messages were priced on, None if they have times of their own.
    """

    name: str
    graph: JobGraph
    text: str
    machine: Machine | None = None


@final
@dataclass(frozen=True, slots=True)
class GivenMachine:
    """What messages cost where a file does not say it, and its ranks where it does not say them.

    Switches of the outermost level have the ``aggregation``, of a file's machine as well.
    """

    model: CostModel | None
    algorithm: str = "ring"
    num_ranks: int | None = None
    aggregation: AggregationProfile | None = None

    def machine(self, num_ranks: int) -> Machine:
        """The machine, one level of so many ranks; ValueError without a model."""
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
        return _given_times(path.name, load_chakra_job(path), given, "traces of Chakra")
    data = read_limited(path, MAX_JOB_BYTES)
    is_json = path.suffix.lower() == ".json"
    if path.suffix.lower() in (".csv", ".tsv"):
        return _chain(parse_trace(data, str(path), is_json=False), path, given)
    if is_json:
        value = read_plain_text(data, str(path), is_json=True).value
        if is_profile(value):
            with errors_at(str(path)):
                graph = job_of_profile(value, ranks_alone=ranks_alone)
                if ranks_alone and has_groups_side_by_side(graph):
                    graph = with_ranks_alone(graph)
            return _given_times(path.name, graph, given, "a profile of PyTorch")
        if isinstance(value, list) or (isinstance(value, dict) and "jobs" in value):
            return _chain(parse_trace(data, str(path), is_json=True), path, given)
    return parse_job(data, str(path), is_json=is_json, given=given, ranks_alone=ranks_alone)


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
    check_size(data, name, MAX_JOB_BYTES)
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
    if sum(each is not None for each in (part.layers, part.nodes, part.model)) != 1:
        raise ValueError("it has one of layers, nodes and a model")
    if part.model is not None:
        if machine is None or part.accelerator is None:
            raise ValueError("model: it needs a machine and an accelerator: what its work takes")
        graph, text = graph_of_model(
            part.model, part.parallel, part.accelerator, machine, ranks_alone=ranks_alone
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


def _with_times(given: JobGraph, graph: JobGraph) -> JobGraph:
    """The priced graph, in which what was given a time keeps it."""
    import numpy as np

    timed = given.is_communication & (given.work > 0)
    finer = int(given.tick_s / graph.tick_s)
    return graph.changed(
        work=np.where(timed, given.work * finer, graph.work),
        latency=np.where(timed, 0, graph.latency),
    )
