"""JobCluster: servers of accelerators with optical ports, as a job is planned on them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import ceil, prod
from typing import TYPE_CHECKING, NamedTuple, final

from ocs_codesign.core.compute.integers import divisors
from ocs_codesign.core.cost import CostModel
from ocs_codesign.fabric.profiles import profile_named
from ocs_codesign.graphs.expansions.product import Product
from ocs_codesign.graphs.families.rings import BiRing, UniRing
from ocs_codesign.jobs.cluster_design.group_loads import PIPELINE
from ocs_codesign.jobs.models.building import MAX_COMPUTATIONS, Parallel, job_of, most_held
from ocs_codesign.jobs.models.layer import Recommender, ResidualNetwork, Transformer, like_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.circuits.legs.options import FabricOption
    from ocs_codesign.core.machines.machine import RealMachine
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.jobs.cluster_design.candidates import Candidate
    from ocs_codesign.jobs.cluster_design.group_loads import RankPlacement, Span
    from ocs_codesign.jobs.fused import Accelerator
    from ocs_codesign.jobs.job_graph import JobGraph
    from ocs_codesign.jobs.models.layer import Block, ModelOnRanks


FAT_TREE_RADIX = 64
"""Ports of a packet switch."""
COPPER_USD = Fraction(130)
"""A copper cable of 400 Gb/s to 2 m: a list estimate of 2025, 80 to 250."""


class PacketFabric(NamedTuple):
    """Planes of fat trees without blocking: tiers, switches and links between these of each."""

    planes: int
    tiers: int
    switches: int
    links: int


def fat_tree_of(num_ends: int, planes: int = 1) -> PacketFabric:
    """The fat tree of so many ends a plane, of whole switches and bundles of links all alike.

    One switch while they fit, then leaves with half their ports down under spines, then pods of
    these under cores; from four tiers on, switches in proportion to what three have when full.

    >>> [tuple(fat_tree_of(num_ends, 4))[1:] for num_ends in (64, 1024, 4096)]
    [(1, 1, 0), (2, 48, 1024), (3, 320, 8192)]
    """
    half = FAT_TREE_RADIX // 2
    if num_ends <= FAT_TREE_RADIX:
        return PacketFabric(planes, 1, 1, 0)
    leaves = -(-num_ends // half)
    if leaves <= FAT_TREE_RADIX:
        return PacketFabric(planes, 2, leaves + _bundled(leaves * half), leaves * half)
    pods = -(-leaves // half)
    if pods <= FAT_TREE_RADIX:
        cores = half * _bundled(pods * half)
        links = leaves * half + pods * half * half
        return PacketFabric(planes, 3, leaves + pods * half + cores, links)
    tiers = 4
    while 2 * half**tiers < num_ends:
        tiers += 1
    ports = (2 * tiers - 1) * num_ends
    return PacketFabric(planes, tiers, -(-ports // FAT_TREE_RADIX), (tiers - 1) * num_ends)


def _bundled(uplinks: int) -> int:
    """The fewest switches among which every switch below divides its links evenly."""
    half = FAT_TREE_RADIX // 2
    return next(one for one in divisors(half) if one * FAT_TREE_RADIX >= uplinks)


@final
@dataclass(frozen=True, slots=True)
class PortPrices:
    """US dollars of what a port of an accelerator hangs on: list estimates, no quotes."""

    ocs_port: Fraction
    transceiver: Fraction
    nic: Fraction
    packet_port: Fraction
    copper: Fraction = COPPER_USD

    def optical(self, num_ports: int, radix: int) -> Fraction:
        """A port on optical switches, of so many in all: card, transceiver, and whole switches."""
        whole = -(-num_ports // radix) * radix
        return self.nic + self.transceiver + self.ocs_port * whole / num_ports


@lru_cache(maxsize=64)  # asked for every candidate that a tree joins
def cheapest_fat_tree(
    prices: PortPrices, num_accelerators: int, num_ports: int = 1
) -> tuple[Fraction, PacketFabric]:
    """What a port on the cheapest fat tree without blocking costs, and that tree.

    Ports of an accelerator are on as many planes as is cheapest, down to one of all of them; in
    each a port has copper to its leaf, and a link between switches a transceiver at both ends.
    """

    def of_planes(planes: int) -> tuple[Fraction, PacketFabric]:
        tree = fat_tree_of(num_accelerators * num_ports // planes, planes)
        switches = tree.switches * FAT_TREE_RADIX * prices.packet_port
        between = 2 * tree.links * prices.transceiver
        each = planes * (switches + between) / (num_accelerators * num_ports)
        return prices.nic + prices.copper + each, tree

    return min(map(of_planes, divisors(num_ports)), key=lambda found: found[0])


@final
@dataclass(frozen=True, slots=True)
class JobCluster:
    """Servers alike, whose accelerators share a switch inside and have optical ports outside.

    ``scale_up`` is what messages inside a server cost, None where a server is one accelerator.
    Accelerators of the same number in their servers are on one rail; only these have light between
    them. ``delta_s`` is the dead time of a change of circuits, ``switch`` the make of the optical
    switches. With a ``machine`` steps over ports take what its protocols do. Raises ValueError for
    what does not fit.

    >>> from ocs_codesign.jobs.fused import Accelerator
    >>> dollars = PortPrices(*map(Fraction, (520, 99, 659, 187)))
    >>> cluster = JobCluster("c", 4, 1, Accelerator(1e12, 1e12), 10**10, None, 2, Fraction(10**9),
    ...                      Fraction(1, 10**6), Fraction(0), "polatis-384", dollars)
    >>> cluster.num_accelerators, float(cluster.port_usd), float(cluster.fat_tree_share)
    (4, 25718.0, 11.2...)
    """

    name: str
    num_servers: int
    accelerators_a_server: int
    accelerator: Accelerator
    memory_bytes: int
    scale_up: CostModel | None
    num_ports: int
    port_Bps: Fraction  # noqa: N815 - the unit keeps its case
    alpha_s: Fraction
    delta_s: Fraction
    switch: str
    prices: PortPrices
    machine: RealMachine | None = None

    def __post_init__(self) -> None:
        for name in ("num_servers", "accelerators_a_server", "memory_bytes", "num_ports"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: it is at least 1")
        if self.accelerators_a_server > 1 and self.scale_up is None:
            raise ValueError(
                f"a server has {self.accelerators_a_server} accelerators: say what joins them"
            )
        if self.port_Bps <= 0 or self.alpha_s < 0 or self.delta_s < 0:
            raise ValueError("a port has a bandwidth, and times are not negative")

    @property
    def num_accelerators(self) -> int:
        """Accelerators of all servers."""
        return self.num_servers * self.accelerators_a_server

    @property
    def port_usd(self) -> Fraction:
        """What a port and its part of whole optical switches cost."""
        ports = self.num_accelerators * self.num_ports
        return self.prices.optical(ports, profile_named(self.switch).num_ports)

    @property
    def fat_tree(self) -> PacketFabric:
        """The cheapest fat tree of as many ports."""
        return cheapest_fat_tree(self.prices, self.num_accelerators, self.num_ports)[1]

    @property
    def fat_tree_share(self) -> Fraction:
        """Bandwidth of a fat tree that costs as much as the optical ports, as a share of theirs."""
        packets, _ = cheapest_fat_tree(self.prices, self.num_accelerators, self.num_ports)
        return self.port_usd / packets

    def ports_model(self, num_ports: int | Fraction) -> CostModel:
        """What messages over so many ports of an accelerator cost."""
        bandwidth = num_ports * self.port_Bps
        if self.machine is None:
            return CostModel(self.alpha_s, bandwidth)
        return self.machine.cost_model(bandwidth, max(1, ceil(num_ports)))

    def by_clock_of(self, machine: RealMachine) -> JobCluster:
        """The cluster whose steps and rates, in servers and between, are those of a machine."""
        inside = self.scale_up
        if inside is not None and "inside" in machine.classes:
            inside = machine.cost_model(inside.node_bandwidth_Bps, 1, "inside")
        return replace(self, scale_up=inside, machine=machine)


# What an accelerator must hold to train: parameters, gradients, optimizer, activations.
#
# States are those of mixed precision with Adam (Rajbhandari et al., ZeRO, SC 2020): of every
# parameter itself, its gradient, and 12 bytes of the optimizer, each divided among copies from
# ZeRO 3, 2 or 1 on; with ZeRO 2 the gradients of several microbatches are still summed whole.
# Activations are those of Korthikanti et al. (MLSys 2023) with selective recomputation, so
# without the scores of attention: 11 hidden numbers a token for attention, 4 for two norms, and 3
# beside two feed-forward numbers a matrix for the rest; 2 bytes each as there, or in proportion.


SOURCE = "ZeRO (SC 2020) for states, Korthikanti et al. (MLSys 2023) for activations"
_FULL_PRECISION = 4


def memory_bytes(model: Transformer | ResidualNetwork | Recommender, parallel: Parallel) -> int:
    """Bytes of the accelerator that holds the most.

    A recommender's tables are divided evenly and updated in place; its dense layers have a gradient
    beside them.

    >>> from ocs_codesign.jobs.models.building import Parallel
    >>> from ocs_codesign.jobs.models.layer import Transformer
    >>> gpt3 = Transformer(96, 12288, 96, 49152, 50257, 2048, 1536)
    >>> memory_bytes(gpt3, Parallel(data=1536)) > 2_700 * 10**9
    True
    """
    if isinstance(model, Recommender):
        return _of_recommender(model, parallel.num_ranks)
    if parallel.zero == 2 and parallel.microbatches > 1:
        parallel = replace(parallel, zero=1)  # gradients stay whole until the last microbatch
    if isinstance(model, ResidualNetwork):
        return _of_residual(model, parallel)
    if model.batch % (parallel.data * parallel.microbatches):
        model.on_ranks(parallel)  # says why it cannot be divided so
    tokens = model.batch * model.sequence // (parallel.data * parallel.microbatches)
    layers = model.layers // (parallel.pipeline * parallel.chunks)
    activations = layers * _activations(model, parallel, tokens)
    logits = _FULL_PRECISION * tokens * model.vocabulary // parallel.tensor
    order = parallel.pipeline, parallel.microbatches, parallel.chunks
    return max(
        states
        + most_held(parallel.schedule, stage, *order) * activations
        + logits * (stage == parallel.pipeline - 1)
        for stage, states in _states_of_stages(model, _without_passes(parallel))
    )


def _without_passes(parallel: Parallel) -> Parallel:
    """The same with so few microbatches that it can be, whose states are the same."""
    least = parallel.pipeline if parallel.schedule == "interleaved" else 1
    return replace(parallel, microbatches=least)


@lru_cache(maxsize=2**12)
def _states_of_stages(model: Transformer, parallel: Parallel) -> tuple[tuple[int, int], ...]:
    """The first of all stages that are alike, which has the most passes before it, and its states.

    The last stage of all is there in any case.
    """
    num_stages = parallel.pipeline
    on_ranks = model.on_ranks(replace(parallel, microbatches=1, chunks=1, schedule="1f1b"))
    parts, which = like_parts(on_ranks.layers, num_stages * parallel.chunks)
    stages = [which[stage::num_stages] for stage in range(num_stages)]
    states = {
        chunks: _states(
            tuple(block for part in chunks for block in parts[part]), parallel, on_ranks
        )
        for chunks in set(stages)
    }
    firsts = [(stages.index(chunks), held) for chunks, held in states.items()]
    return *firsts, (num_stages - 1, states[stages[-1]])


def _of_residual(model: ResidualNetwork, parallel: Parallel) -> int:
    on_ranks = model.on_ranks(parallel)
    blocks = tuple(block for layer in on_ranks.layers for block in layer)
    moved = sum(block.moved_bytes for block in blocks)
    parameters = sum(block.num_parameters for block in blocks) * on_ranks.element_bytes
    return _states(blocks, parallel, on_ranks) + int(moved - parameters)


def _states(blocks: tuple[Block, ...], parallel: Parallel, model: ModelOnRanks) -> int:
    """Bytes of the states of all parameters of some blocks."""
    element_bytes = model.element_bytes
    optimizer = 12 if element_bytes < _FULL_PRECISION else 8
    parts = ((3, element_bytes), (2, element_bytes), (1, optimizer))
    total = 0
    for (parameters, copies), count in Counter(
        (block.num_parameters, parallel.size(block.copies)) for block in blocks
    ).items():
        shares = [(copies if parallel.zero >= least else 1, each) for least, each in parts]
        total += count * sum(-(-parameters * each // share) for share, each in shares)
    if parallel.zero == 3:  # a block and the next one are whole while they are used
        total += 2 * max(block.num_parameters for block in blocks) * element_bytes
    return total


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


# Divisions: all ways to divide a model among accelerators that fit their memory.


MAX_GRAPH = 80_000
"""Computations of an iteration, of all stages, that are simulated in passing."""


@final
@dataclass(frozen=True, slots=True)
class SearchSpace:
    """Which stages of ZeRO are tried where there are copies, and how many chunks a pipeline stage.

    More than one chunk is an interleaved pipeline. ZeRO 2 is for divisions of one microbatch that
    do not fit with ZeRO 1: it sends the same. Raises ValueError for none of either or unknown ones.

    >>> SearchSpace(chunks=(1, 2)).zero
    (1, 2, 3)
    """

    zero: tuple[int, ...] = (1, 2, 3)
    chunks: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        if not self.zero or not set(self.zero) <= {0, 1, 2, 3}:
            raise ValueError(f"zero is {list(self.zero)}: it has stages from 0 to 3")
        if not self.chunks or min(self.chunks) < 1:
            raise ValueError(f"chunks is {list(self.chunks)}: it has numbers from 1 on")


@final
@dataclass(frozen=True, slots=True)
class TrainedModel:
    """What is trained, and how its file divides it, if it says so.

    Raises ValueError for a recommender with fused kernels, whose work depends on the fabric.
    """

    name: str
    model: Transformer | ResidualNetwork | Recommender
    given: Parallel | None = None
    search: SearchSpace = SearchSpace()

    def __post_init__(self) -> None:
        if isinstance(self.model, Recommender) and self.model.fused:
            raise ValueError("fused kernels depend on the fabric: leave them out to choose one")

    def graph(
        self, parallel: Parallel, accelerator: Accelerator, *, ranks_alone: bool = False
    ) -> JobGraph:
        """The iteration under a division, unpriced, a class a stage or every rank alone."""
        if isinstance(self.model, Recommender):
            return self.model.job(parallel.num_ranks, accelerator, None)
        on_ranks = self.model.on_ranks(parallel)
        return job_of(on_ranks, parallel, accelerator, ranks_alone=ranks_alone)

    def num_computations(self, parallel: Parallel) -> int:
        """Computations of an iteration's graph, about."""
        if isinstance(self.model, Transformer):
            return 2 * parallel.microbatches * (2 * self.model.layers + 2)
        return 2 * parallel.microbatches * 64

    def check(self, parallel: Parallel) -> None:
        """ValueError if the model cannot be divided so."""
        if isinstance(self.model, Recommender):
            if parallel.num_ranks > parallel.data or parallel.zero:
                raise ValueError("a recommender is divided by data alone, without zero")
            if self.model.batch % parallel.num_ranks:
                raise ValueError(
                    f"batch is {self.model.batch}: {parallel.num_ranks} ranks do not divide it"
                )
        else:
            self.model.on_ranks(parallel)


@final
@dataclass(frozen=True, slots=True)
class Divisions:
    """Divisions that fit, and how many there are that need too much memory or are too long."""

    fitting: tuple[Parallel, ...]
    num_too_large: int
    num_too_long: int


def divisions(trained: TrainedModel, cluster: JobCluster) -> Divisions:
    """Every division by the model's rules in the model's search space.

    Pipelines are 1F1B, or interleaved with several chunks. Tensor ranks divide the sequence too. A
    division may leave accelerators idle.
    """
    fitting, too_large, too_long = [], 0, 0
    fits_with_less = False
    for parallel in _all(trained, cluster.num_accelerators):
        if parallel.zero == 2 and (fits_with_less or parallel.microbatches > 1):
            continue
        fits = memory_bytes(trained.model, parallel) <= cluster.memory_bytes
        fits_with_less = fits and parallel.zero == 1
        if not fits:
            too_large += 1
        elif trained.num_computations(parallel) > min(MAX_GRAPH, MAX_COMPUTATIONS):
            too_long += 1
        else:
            fitting.append(parallel)
    return Divisions(tuple(fitting), too_large, too_long)


def pure_data(trained: TrainedModel, cluster: JobCluster) -> Parallel:
    """Data parallelism alone without ZeRO on as many ranks as divide the batch.

    With as few microbatches as fit the memory, or one if none do.
    """
    batch = trained.model.batch
    data = max(divisors(batch, cluster.num_accelerators))
    whole = Parallel(data=data)
    if isinstance(trained.model, Recommender):
        return whole
    for microbatches in divisors(batch // data, batch):
        parallel = replace(whole, microbatches=microbatches)
        if memory_bytes(trained.model, parallel) <= cluster.memory_bytes:
            return parallel
    return whole


def _all(trained: TrainedModel, most: int) -> Iterator[Parallel]:
    model, search = trained.model, trained.search
    if isinstance(model, Recommender):
        yield from (Parallel(data=data) for data in divisors(model.batch, most))
    elif isinstance(model, ResidualNetwork):
        for data in divisors(model.batch, most):
            yield from _with_zero(Parallel(data=data), search)
    else:
        for parallel in _of_transformer(model, most):
            for pipelined in _with_chunks(parallel, model.layers, search):
                yield from _with_zero(pipelined, search)


def _of_transformer(model: Transformer, most: int) -> Iterator[Parallel]:
    for tensor in divisors(model.heads, most):
        if model.feed_forward % tensor:
            continue
        for pipeline in divisors(model.layers, most // tensor):
            for data in divisors(model.batch, most // (tensor * pipeline)):
                for expert in divisors(model.experts, data):
                    if data % expert:
                        continue
                    for microbatches in divisors(model.batch // data, model.batch):
                        yield Parallel(
                            *(data, tensor, pipeline, expert),
                            sequence=tensor > 1,
                            microbatches=microbatches,
                        )


def _with_chunks(parallel: Parallel, layers: int, search: SearchSpace) -> Iterator[Parallel]:
    """One chunk a stage, or several where layers and microbatches allow it."""
    stages = parallel.pipeline
    for chunks in sorted(set(search.chunks)):
        if chunks == 1:
            yield parallel
        elif stages > 1 and not layers % (stages * chunks) and not parallel.microbatches % stages:
            yield replace(parallel, schedule="interleaved", chunks=chunks)


def _with_zero(parallel: Parallel, search: SearchSpace) -> Iterator[Parallel]:
    for zero in sorted(set(search.zero)) if parallel.data > 1 else (0,):
        yield replace(parallel, zero=zero)


# The recipes of a candidate: what circuits the servers of a rail hang on.


class RailDesign(NamedTuple):
    """What the servers of a rail, or of a block of it, hang on, and the spans that it is for."""

    name: str
    recipe: Recipe
    spans: tuple[Span, ...]


def rail_designs(candidate: Candidate) -> tuple[RailDesign, ...]:
    """The configurations of a candidate: none without light, two where circuits change.

    Circuits of several groups are the product of theirs, whose nodes are the servers in order.
    """
    optical = candidate.placement.optical
    if not optical:
        return ()
    if "" in candidate.designs:
        return (RailDesign("fabric", recipe_of(candidate.designs[""]), optical),)
    if not candidate.ports:
        return ()
    name = "passes" if candidate.late_ports else "fabric"
    found = [_of_spans(name, candidate.placement, candidate.ports, candidate.designs)]
    if candidate.late_ports:
        late = candidate.late_ports, candidate.late_designs
        found.append(_of_spans("gradients", candidate.placement, *late))
    return tuple(found)


def recipe_of(option: FabricOption) -> Recipe:
    """The recipe of an option; ValueError if it has none."""
    if option.recipe is None:
        raise ValueError(f"{option.name} has no recipe")
    return option.recipe


def _of_spans(
    name: str, placement: RankPlacement, ports: dict[str, int], designs: dict[str, FabricOption]
) -> RailDesign:
    spans = tuple(span for span in placement.optical if span.dimension in ports)
    factors = [
        ring_of_stages(span.outside, ports[PIPELINE])
        if span.dimension == PIPELINE
        else recipe_of(designs[span.dimension])
        for span in spans
    ]
    # The last coordinate of a product counts fastest, as the first span does.
    recipe = factors[0] if len(factors) == 1 else Product(*factors[::-1])
    if recipe.num_nodes != prod(span.outside for span in spans):
        raise RuntimeError(f"{recipe!r} is not on the servers of {name}")
    return RailDesign(name, recipe, spans)


def ring_of_stages(num_stages: int, num_ports: int) -> Recipe:
    """What stages of a pipeline hang on: a two-way ring, or links between two.

    >>> ring_of_stages(2, 3), ring_of_stages(4, 2)
    (UniRing(3, 2), BiRing(2, 4))
    """
    if num_stages == 2:
        return UniRing(num_ports, 2)
    return BiRing(num_ports - num_ports % 2, num_stages)
