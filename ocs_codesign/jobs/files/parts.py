"""Parts of a job file: the machine, layers, nodes one by one, and a step on a cluster."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from ocs_codesign.core.collective import GATHERING
from ocs_codesign.core.cost import Cost, CostModel
from ocs_codesign.core.files.atomic import errors_at
from ocs_codesign.core.networks.aggregation import aggregation_named
from ocs_codesign.fabric.files.schema import Name
from ocs_codesign.graphs.text import parse
from ocs_codesign.jobs.files.scalars import Algorithm, JobBandwidth, JobSize, JobTime, one_of
from ocs_codesign.jobs.job_draft import JobDraft
from ocs_codesign.jobs.job_graph import COLLECTIVES, NANOSECOND
from ocs_codesign.jobs.layers import LayerTimes
from ocs_codesign.jobs.prices import Level, Machine
from ocs_codesign.jobs.rewriting import ALLREDUCE
from ocs_codesign.schedules.design import measure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ocs_codesign.jobs.job_graph import JobGraph


MAX_RANKS, MAX_LAYERS, MAX_NODES_READ = 2**20, 10_000, 1_000_000
_KINDS = ("compute", "send", *COLLECTIVES)
_NODE = re.compile(r"node \d+ \((.*)\), [a-z-]+ of rank ")
_PICO = NANOSECOND / 1000
_STRICT = ConfigDict(extra="forbid", strict=True, frozen=True)
Count = Annotated[int, Field(ge=1, le=2**40)]


class LevelPart(BaseModel):
    """Blocks of consecutive ranks, and what messages between ranks of a block cost."""

    model_config = _STRICT

    ranks: int = Field(ge=1, le=MAX_RANKS, description="Ranks of a block.")
    alpha: JobTime = Field(description="Time of a step.")
    bandwidth: JobBandwidth = Field(description="Total egress of a rank at this level.")
    algorithm: Algorithm = Field("ring", description="How collectives run.")
    topologies: list[Name] = Field(
        [], max_length=64, description="Recipes whose schedules groups of as many ranks take."
    )

    aggregation: str | None = Field(
        None, max_length=500, description="What switches add up allreduces as, such as switchml."
    )

    def level(self) -> Level:
        """The level of a machine."""
        model = CostModel(self.alpha, self.bandwidth)
        costs = _schedule_costs(self.topologies)
        recipes = {parse(text).num_nodes: text for text in self.topologies}
        by = None if self.aggregation is None else aggregation_named(self.aggregation)
        return Level(self.ranks, model, self.algorithm, costs, recipes, by)


def _schedule_costs(recipes: list[str]) -> dict[tuple[str, int], Cost]:
    """What the best schedules of these topologies cost, by collective and ranks."""
    costs: dict[tuple[str, int], Cost] = {}
    for text in recipes:
        recipe = parse(text)
        if any(num_ranks == recipe.num_nodes for _, num_ranks in costs):
            raise ValueError(f"topologies has two of {recipe.num_nodes} nodes: one is enough")
        for collective in GATHERING:
            design = measure(recipe, collective, confirm=False)
            costs[collective.name, recipe.num_nodes] = design.cost
    return costs


class MachinePart(BaseModel):
    """The levels of a machine, the innermost first."""

    model_config = _STRICT

    levels: list[LevelPart] = Field(min_length=1, max_length=8)

    def machine(self) -> Machine:
        """The machine; ValueError if a level is not made of whole blocks."""
        levels = []
        for at, part in enumerate(self.levels):
            with errors_at(f"machine.levels[{at}]"):
                levels.append(part.level())
        with errors_at("machine.levels"):
            return Machine(tuple(levels))


class LayerPart(BaseModel):
    """A layer, or several alike: its computation, and the allreduce of its gradient."""

    model_config = _STRICT

    forward: JobTime
    backward: JobTime
    allreduce: JobTime | None = Field(None, description="How long the allreduce takes.")
    gradient: JobSize | None = Field(None, description="Its bytes instead, for the machine.")
    count: int = Field(1, ge=1, le=MAX_LAYERS)


def layers_of(
    parts: list[LayerPart], latency_s: Fraction, machine: Machine | None
) -> tuple[LayerTimes, int]:
    """The layers, the first one first, and how many ranks sum their gradients."""
    total = sum(part.count for part in parts)
    if total > MAX_LAYERS:
        raise ValueError(f"{total} layers: at most {MAX_LAYERS} are read")
    forward: list[Fraction] = []
    backward: list[Fraction] = []
    allreduce: list[Fraction] = []
    ranks = 1 if machine is None else machine.num_ranks
    priced = {
        part.gradient: machine.parts_s(ALLREDUCE, ranks, int(part.gradient), 0, ranks - 1)
        for part in parts
        if part.gradient is not None and machine is not None
    }
    # What the protocol of a message takes more than the quickest is of this message alone.
    latency_s = min((least_s for least_s, _ in priced.values()), default=latency_s)
    for at, part in enumerate(parts):
        if (part.allreduce is None) == (part.gradient is None):
            raise ValueError(f"layers[{at}] has either allreduce, a time, or gradient, a size")
        time_s: Fraction = part.allreduce or Fraction(0)
        if part.gradient is not None:
            if machine is None:
                raise ValueError(f"layers[{at}] has a gradient: the file needs a machine for it")
            time_s = sum(priced[part.gradient]) - latency_s
        forward += [part.forward] * part.count
        backward += [part.backward] * part.count
        allreduce += [time_s] * part.count
    return LayerTimes(forward, backward, allreduce, latency_s), ranks


def gradient_bytes(parts: list[LayerPart]) -> list[int]:
    """Bytes of the gradient of every layer, 0 where its allreduce has a time."""
    return [int(part.gradient or 0) for part in parts for _ in range(part.count)]


class NodePart(BaseModel):
    """A node, or with a collective one of every rank in its group."""

    model_config = _STRICT

    name: Name
    kind: Annotated[Any, one_of(_KINDS), WithJsonSchema({"enum": list(_KINDS)})]
    rank: int = Field(0, ge=0, lt=MAX_RANKS, description="Who computes or sends.")
    to: int | None = Field(None, ge=0, lt=MAX_RANKS, description="Who receives.")
    group: list[int] | None = Field(None, max_length=MAX_RANKS, description="Ranks; all if none.")
    time: JobTime = Field(Fraction(0), description="How long it computes, or is sent.")
    size: JobSize = Field(Fraction(0), description="M instead, for the machine.")
    after: list[Name] = Field([], max_length=MAX_NODES_READ, description="Nodes it waits for.")
    after_last: list[Name] = Field(
        [], max_length=MAX_NODES_READ, description="Nodes of the iteration before."
    )
    priority: int | None = Field(None, ge=-(2**40), le=2**40, description="The lowest goes first.")
    gradient: bool = Field(False, description="Whether it may be cut, merged and delayed.")


def graph_of_nodes(parts: list[NodePart], num_ranks: int) -> JobGraph:
    """The job of these nodes; ValueError with the place and the rule if they are none."""
    draft = JobDraft(num_ranks, tick_s=_PICO)
    made: dict[str, dict[int, int]] = {}
    for at, part in enumerate(parts):
        if part.name in made:
            raise ValueError(f"nodes[{at}].name is {part.name!r}: another node has this name")
        ranks = _ranks_of(part, num_ranks, at)
        made[part.name] = _added(draft, part, ranks, made, at)
    for at, part in enumerate(parts):
        for name in part.after_last:
            for rank, node in made[part.name].items():
                before = _named(made, name, at, "after_last").get(rank)
                if before is not None:
                    draft.carry(before, node)
    try:
        return draft.graph()
    except ValueError as error:
        told = _NODE.match(str(error))
        where = "" if told is None else f"nodes[{list(made).index(told[1])}]: "
        raise ValueError(f"{where}{error}") from None


def _ranks_of(part: NodePart, num_ranks: int, at: int) -> list[int]:
    """The ranks of a node; ValueError for what does not belong to its kind."""
    if part.kind != "send" and part.to is not None:
        raise ValueError(f"nodes[{at}].to is {part.to}: only a send has it")
    if part.kind == "send":
        if part.to is None or part.to == part.rank:
            raise ValueError(f"nodes[{at}].to is missing: a send goes to another rank")
        ranks = [part.rank, part.to]
    elif part.kind == "compute":
        ranks = [part.rank]
    else:
        ranks = list(range(num_ranks)) if part.group is None else part.group
    if part.group is not None and part.kind in ("send", "compute"):
        raise ValueError(f"nodes[{at}].group is given: only a collective has it")
    if len(set(ranks)) < len(ranks):
        raise ValueError(f"nodes[{at}].group names a rank twice")
    if not ranks or min(ranks) < 0 or max(ranks) >= num_ranks:
        raise ValueError(f"nodes[{at}] names ranks {ranks[:8]}: they are 0 to {num_ranks - 1}")
    return ranks


def _added(
    draft: JobDraft, part: NodePart, ranks: list[int], made: dict[str, dict[int, int]], at: int
) -> dict[int, int]:
    """The node of every rank, once they are added."""
    after: dict[int, list[int]] = {rank: [] for rank in ranks}
    for name in part.after:
        before = _named(made, name, at, "after")
        if not set(before) & set(ranks):
            raise ValueError(f"nodes[{at}].after names {name!r}: it is a node of other ranks")
        for rank in ranks:
            after[rank] += [before[rank]] if rank in before else []
    ticks, size = round(part.time / _PICO), int(part.size)
    if part.kind == "compute":
        node = draft.compute(part.rank, ticks, after[part.rank], part.name, part.priority)
        return {part.rank: node}
    if part.kind == "send":
        nodes: Iterable[int] = draft.send(
            *(ranks[0], ranks[1], size, after[ranks[0]], after[ranks[1]]),
            label=part.name,
            priority=part.priority,
            work=ticks,
        )
        return dict(zip(ranks, nodes, strict=True))
    nodes = draft.collective(
        *(part.kind, ranks, size, after),
        label=part.name,
        priority=part.priority,
        is_gradient=part.gradient,
        work=ticks,
    )
    return dict(zip(sorted(ranks), nodes, strict=True))


def _named(made: dict[str, dict[int, int]], name: str, at: int, key: str) -> dict[int, int]:
    if name not in made:
        raise ValueError(f"nodes[{at}].{key} names {name!r}: no node before it has this name")
    return made[name]


Factor = Annotated[float, Field(gt=0.01, lt=100, allow_inf_nan=False)]


class FactorsPart(BaseModel):
    """What a machine of one's own does, times what is known of its software and accelerator."""

    model_config = _STRICT

    products: Factor = Field(1.0, description="What matrix products sustain.")
    elementwise: Factor = Field(1.0, description="Bytes that elementwise kernels move.")
    attention: Factor = Field(1.0, description="What attention sustains.")


class StepPart(BaseModel):
    """What is known of a step on a cluster beside degrees, and the software that computes it."""

    model_config = _STRICT

    software: str = Field("megatron", description="Whose constants are taken.")
    precision: Literal["bf16", "fp8"] = "bf16"
    attention: str | None = Field(None, description="If it is not the software's own.")
    microbatch: Count | None = Field(None, description="Sequences, instead of microbatches.")
    context: Count = 1
    expert_tensor: Count = 1
    group: Count | None = Field(None, description="Microbatches of an interleaved turn.")
    stages: list[Count] | None = Field(None, min_length=1, description="Layers of every stage.")
    recompute: Literal["none", "attention", "second", "full", "experts"] = "none"
    recompute_layers: Count | None = Field(None, description="Of every stage, all if not given.")
    replicas: Count = Field(1, description="Groups that hold all states among their ranks (HSDP).")
    offload: float = Field(0.0, ge=0, le=1, description="Share of activations that hosts keep.")
    schedule: Literal["zb-h1", "zb-h2", "dualpipe"] | None = Field(
        None, description="A pipeline's order, instead of parallel.schedule."
    )
    gradient_bytes: int = Field(4, ge=1, le=8)
    factors: FactorsPart | None = Field(None, description="As calibrate writes them.")
