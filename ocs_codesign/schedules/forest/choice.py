"""Which schedule a message takes least time in: of several forests in many parts, and BFB."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import Cost, total
from ocs_codesign.core.given import as_topology
from ocs_codesign.core.networks.builders import as_network, direct
from ocs_codesign.core.shown import Brief
from ocs_codesign.schedules.breadth_first.assembly import loads_of_half
from ocs_codesign.schedules.breadth_first.loads import can_measure
from ocs_codesign.schedules.forest.building import forests_of
from ocs_codesign.schedules.forest.optimum import optimum
from ocs_codesign.schedules.forest.packing import few_trees
from ocs_codesign.schedules.forest.pipeline import Pipeline
from ocs_codesign.verification.forests import check_forest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.core.cost import CostModel
    from ocs_codesign.core.given import NetworkLike, TopologyLike
    from ocs_codesign.core.network import Network
    from ocs_codesign.core.plans import Forest
    from ocs_codesign.core.schedule import Schedule
    from ocs_codesign.core.topology import Topology
    from ocs_codesign.schedules.forest.optimum import Optimum


MIN_CHUNK_BYTES = 1024
"""What a chunk has at least, where it is not said: parts do not cut smaller."""

NEAR_OPTIMUM = Fraction(11, 10)
"""How far above the steady state of its forest a schedule may be, if sends allow."""

_MAX_HOSTS_IN_PASSING = 64
_FEW_TREES, _MAX_HOSTS_OF_SEVERAL = (1, 2, 4), 128
"""Trees a unit that are tried beside those of the optimum, and up to how many hosts."""

_RINGS = ("ring", "ring-halves", "ring-outward")
"""Classic algorithms that compete with forests where there are switches: one way, both ways."""

_MAX_TREES_LOWERED = 512
"""Trees of the optimum up to which lower ones are tried."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Contender:
    """A schedule that a message could take, with its exact cost.

    ``maker`` is a scheduler. Of a forest the ``pipeline`` is known, with so many ``num_parts``.
    """

    maker: str
    cost: Cost
    pipeline: Pipeline | None = None
    num_parts: int = 1

    @property
    def height(self) -> int:
        """Arcs from a root to its farthest leaf: the steps where nothing is cut into parts."""
        return self.cost.steps + 1 - self.num_parts


@final
@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """What a message of ``message_bytes`` could take, the fastest first; on a tie fewer steps.

    No schedule whatever has a lower t_b or fewer steps than ``least``. Where steps overlap, as over
    switches, nothing is faster than the larger of both; else what goes step by step takes the sum.
    """

    model: CostModel
    message_bytes: Fraction | float
    contenders: tuple[Contender, ...]
    least: Cost
    overlaps: bool = False

    @property
    def best(self) -> Contender:
        """What is to be built."""
        return self.contenders[0]

    def time_s(self, cost: Cost) -> Fraction:
        """Seconds that the message takes at a cost."""
        return cost.time_s(self.model, self.message_bytes)

    @property
    def least_s(self) -> Fraction:
        """Seconds that nothing beats."""
        parts = [self.time_s(replace(self.least, t_b=Fraction(0)))]
        parts.append(self.time_s(replace(self.least, steps=0)))
        return max(parts) if self.overlaps else sum(parts, Fraction(0))

    @property
    def pipelined_s(self) -> float:
        """What trees as high as the best take, (sqrt T_B + sqrt((H - 1) alpha))^2, T_B optimal.

        The least of (P + H - 1)(alpha + T_B / P): all steps counted as full, any P.
        """
        t_b_s = self.time_s(replace(self.least, steps=0))
        return (sqrt(t_b_s) + sqrt((self.best.height - 1) * self.model.alpha_s)) ** 2


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Contenders(Brief):
    """Forests of a collective on a network, as pipelines, and ``others``, such as BFB.

    No schedule has a lower t_b or fewer steps than ``least``; ``optimum`` is what proves it.
    """

    optimum: Optimum
    pipelines: tuple[Pipeline, ...]
    others: tuple[Contender, ...]
    least: Cost

    def forests(self) -> list[Contender]:
        """Every forest in one part."""
        return [Contender("forest", one.cost(1), one) for one in self.pipelines]

    def choice(
        self,
        model: CostModel,
        message_bytes: Fraction | float,
        num_parts: int | None = None,
        min_chunk_bytes: Fraction | float = MIN_CHUNK_BYTES,
    ) -> Choice:
        """The contenders for a message, every forest in its best number of parts or in so many.

        Parts do not make chunks of less than ``min_chunk_bytes``. With ``num_parts`` others are no
        contenders.
        """
        found = [*self.others] if num_parts is None else []
        for pipeline in self.pipelines:
            parts = num_parts
            if parts is None:
                most = pipeline.most_parts(message_bytes, min_chunk_bytes)
                parts = pipeline.best_parts(model, message_bytes, most)
            found.append(Contender("forest", pipeline.cost(parts), pipeline, parts))
        found.sort(key=lambda one: (one.cost.time_s(model, message_bytes), one.cost.steps))
        network = self.optimum.network
        overlaps = network.num_hosts < network.num_nodes
        return Choice(model, message_bytes, tuple(found), self.least, overlaps)


def contenders(
    network: NetworkLike,
    collective: Collective | str,
    num_trees: int | None = None,
    topology: TopologyLike | None = None,
    height: int | None = None,
) -> Contenders:
    """Forests of the optimum, lower ones, those of few trees, and BFB, as the size allows.

    ``topology`` has the same links. Where there are switches, rings of the hosts as they are
    numbered stand for BFB.

    With ``num_trees`` only the forest of at most so many, with ``height`` forests no taller. Raises
    ValueError for what ``optimum`` refuses, and where such trees cannot be built.

    >>> from ocs_codesign.core.cost import CostModel
    >>> from ocs_codesign.core.networks.products import dgx1
    >>> field = contenders(dgx1(), Collective.ALLGATHER)
    >>> best = [field.choice(CostModel(1e-5, 150e9), size).best for size in (2**20, 2**30)]
    >>> [(one.maker, one.cost.steps == one.height + one.num_parts - 1) for one in best]
    [('bfb', True), ('forest', True)]
    """
    network, collective = as_network(network), Collective.parse(collective)
    found = optimum(network, collective)
    steps = _fewest_steps(found)
    first = _checked(found, num_trees, height)
    made = [first]
    if num_trees is None and network.num_hosts <= _MAX_HOSTS_OF_SEVERAL:
        tallest = max(forest.height for forest in first)
        is_quick = found.trees[1] * network.num_hosts <= _MAX_TREES_LOWERED
        lower = _doubled(steps, tallest) if height is None and is_quick else []
        limits = [*((None, low) for low in lower), *((few, height) for few in _fewer(found))]
        for limit in limits:
            with suppress(ValueError):  # too low for the hosts, or rounded off at a switch
                made.append(_checked(found, limit[0], limit[1]))
    pipelines = tuple(Pipeline(one, collective) for one in made)
    bfb = _bfb_cost(network, collective, topology) if num_trees is None else None
    others = () if bfb is None else (Contender("bfb", bfb),)
    rings = _rings(network, collective) if num_trees is None else ()
    return Contenders(found, pipelines, (*others, *rings), Cost(steps, found.least_t_b))


def near_optimum(
    found: Optimum,
    collective: Collective,
    num_trees: int | None = None,
    num_parts: int | None = None,
    over: Fraction = NEAR_OPTIMUM,
    height: int | None = None,
) -> tuple[Pipeline, int]:
    """The forest of a known optimum, or of so many trees, and so many parts, or enough of them.

    That is the fewest parts, a power of 2, whose t_b is ``over`` times the forest's steady state at
    most, if sends allow. Raises ValueError as ``contenders`` does.
    """
    made = _checked(found, num_trees, height)
    pipeline = Pipeline(made, collective)
    return pipeline, num_parts or pipeline.parts_within(over)


def cost_near_optimum(
    topology: Topology, collective: Collective, over_bound: Fraction
) -> Cost | None:
    """What forests take that are worth it for who takes ``over_bound`` times the bound.

    Those of ``near_optimum`` in parts enough to be half as far above it; an allreduce's one after
    the other. None for more hosts than one wants to wait for.
    """
    if topology.num_nodes > _MAX_HOSTS_IN_PASSING:
        return None
    network, over = direct(topology, 1), min(NEAR_OPTIMUM, (over_bound + 1) / 2)
    halves = ((optimum(network, half), half) for half in collective.halves())
    made = (near_optimum(found, half, over=over) for found, half in halves)
    costs = [pipeline.cost(parts) for pipeline, parts in made]
    return sum(costs[1:], costs[0])


def _checked(found: Optimum, num_trees: int | None, height: int | None) -> tuple[Forest, ...]:
    """The forests that ``forests_of`` builds; RuntimeError if one is wrong."""
    made = forests_of(found, num_trees, height)
    for forest in made:
        witness = check_forest(forest)
        if witness is not None:
            raise RuntimeError(f"the forest is wrong: {witness}")
    return made


def _doubled(low: int, high: int) -> list[int]:
    """Heights below ``high``: the least that there can be, and twice as much as long as it goes."""
    return [low << double for double in range(high.bit_length()) if low << double < high]


def _fewer(found: Optimum) -> list[int]:
    """Numbers of trees below the optimum's that are worth a try."""
    if found.shares is not None:
        return []
    few = {few_trees(found, number).num_trees for number in _FEW_TREES if number < found.trees[1]}
    return sorted(few)


def _bfb_cost(
    network: Network, collective: Collective, topology: TopologyLike | None
) -> Cost | None:
    """What BFB takes where it applies: between hosts alone, all data to all."""
    if network.num_hosts < network.num_nodes or collective not in Collective.ALLREDUCE.halves():
        return None
    topology = network.topology() if topology is None else as_topology(topology)
    if not can_measure(topology):
        return None
    loads = loads_of_half(topology, collective)
    return Cost(len(loads), topology.t_b(total(loads)))


def _rings(network: Network, collective: Collective) -> Iterator[Contender]:
    """Rings of the hosts in the order of their numbers, through switches: what people have."""
    if (
        network.num_hosts == network.num_nodes
        or network.num_hosts > _MAX_HOSTS_OF_SEVERAL
        or collective not in Collective.ALLREDUCE.halves()
    ):
        return
    for name in _RINGS:
        with suppress(ValueError):  # not for so many hosts, or paths lead through hosts
            yield Contender(name, through_switches(name, network, collective).synchronous_cost())


def through_switches(name: str, network: Network, collective: Collective) -> Schedule:
    """The schedule of a classic algorithm by name; ValueError as ``schedule_through`` raises it."""
    from ocs_codesign.schedules.classic.conversion import schedule_through
    from ocs_codesign.schedules.classic.registry import CLASSIC

    messages = CLASSIC[name].messages(collective.name, network.num_hosts)
    return schedule_through(messages, network)


def _fewest_steps(found: Optimum) -> int:
    """Links into hosts on the longest of the shortest ways from the roots: switches pass on."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import dijkstra

    network, most = found.network, 0.0
    for task in found.tasks:
        problem = task.problem
        pairs = np.unique(np.stack([problem.tail, problem.head]), axis=1)
        # So little for a switch that all of them on a way are less than one host.
        length = np.where(pairs[1] < network.num_hosts, network.num_nodes, 1)
        graph = csr_matrix((length, pairs), shape=(network.num_nodes, network.num_nodes))
        ways = dijkstra(graph, indices=np.flatnonzero(problem.weight > 0))
        most = max(most, float(ways[:, problem.is_rank].max()))
    return int(most) // network.num_nodes
