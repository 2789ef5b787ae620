"""Changes of circuits inside an all-to-all: whether they can gain, and sequences that may."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import permutations
from typing import TYPE_CHECKING, final

from ocs_codesign.collective import Collective
from ocs_codesign.cost import Cost
from ocs_codesign.fabric.rewiring.stages import slowest_change
from ocs_codesign.reconfigure.hold.options import recipe_option
from ocs_codesign.reconfigure.phases.alltoall import phased_alltoall, sequence_bound
from ocs_codesign.reconfigure.phases.network import num_columns, phase_network
from ocs_codesign.reconfigure.sequences.search import MAX_NODES, search_sequences
from ocs_codesign.search.effort import Effort

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ocs_codesign.fabric.description import Fabric
    from ocs_codesign.fabric.embed.embedding import Embedding
    from ocs_codesign.fabric.selection.workload import Workload
    from ocs_codesign.reconfigure.hold.options import FabricOption
    from ocs_codesign.reconfigure.phases.alltoall import PhasedAlltoall

_MOST_CONFIGURATIONS = 4
_MAX_COLUMNS = 20_000
_MAX_MEMBERS = 3
_EFFORT = Effort(work=2**24, num_groups=6, num_measured=8)


@final
@dataclass(frozen=True, slots=True, eq=False)
class PhasedSequence:
    """Options held in turn inside an all-to-all, and the least time found for it."""

    options: tuple[FabricOption, ...]
    alltoall: PhasedAlltoall


@final
@dataclass(frozen=True, slots=True, eq=False)
class InsideVerdict:
    """What changes inside one all-to-all can save.

    ``saved_s`` is the most that a sequence of ``num_configurations`` of any topologies could save
    in the largest all-to-all, ``dead_s`` the least time that its changes take. Only where the
    former is larger are there ``sequences``.
    """

    num_configurations: int
    saved_s: Fraction
    dead_s: Fraction
    sequences: tuple[PhasedSequence, ...]

    @property
    def can_gain(self) -> bool:
        """Whether the bound leaves room for a gain."""
        return self.saved_s > self.dead_s


def phased_sequences(
    workload: Workload,
    fitting: Sequence[tuple[FabricOption, Embedding]],
    tell: Callable[[str], None],
) -> InsideVerdict:
    """Sequences for the all-to-alls of a workload, none if no sequence can pay for its changes.

    Two to four configurations are weighed against the fastest single design by the bound on walks
    (see ``sequence_bound``); those that may gain are searched for.
    """
    fabric = fitting[0][1].cabling.fabric
    verdicts = [_verdict(fabric, workload, fitting, c) for c in range(2, _MOST_CONFIGURATIONS + 1)]
    sequences: list[PhasedSequence] = []
    for verdict in verdicts:
        if verdict.can_gain:
            tell(f"Searching all-to-alls of {verdict.num_configurations} configurations")
            sequences += _searched(fabric, workload, verdict.num_configurations)
    if verdicts[0].can_gain:
        sequences += _pairs(fitting)
    best = max(verdicts, key=lambda verdict: verdict.saved_s - verdict.dead_s)
    return replace(best, sequences=tuple(sequences))


def alltoall_sizes(workload: Workload) -> set[Fraction]:
    """The different sizes of all-to-alls in a workload, in bytes."""
    jobs = (part.job for part in workload.parts)
    return {job.message_bytes for job in jobs if job.collective == Collective.ALLTOALL}


def _verdict(
    fabric: Fabric,
    workload: Workload,
    fitting: Sequence[tuple[FabricOption, Embedding]],
    num_configurations: int,
) -> InsideVerdict:
    """Every phase takes a step, and one circuit changes at least: no sequence can do better."""
    changes = [switch.profile.change for switch in fabric.switches]
    change = slowest_change(changes, 1)
    if change.overlap:
        change = min(changes, key=lambda cost: cost.dead_time_s(1))
    dead = change.dead_time_s(1) * (num_configurations - 1)
    sizes, model = alltoall_sizes(workload), fabric.cost_model
    if not sizes:
        return InsideVerdict(num_configurations, Fraction(0), dead, ())
    size = max(sizes)
    bound = sequence_bound(fabric.num_working_hosts, fabric.num_ports_per_host, num_configurations)
    costs = [option.alltoall for option, _ in fitting if option.alltoall is not None]
    now = min(cost.time_s(model, size) for cost in costs)
    at_best = Cost(num_configurations, bound).time_s(model, size)
    return InsideVerdict(num_configurations, now - at_best, dead, ())


def _searched(fabric: Fabric, workload: Workload, number: int) -> Iterator[PhasedSequence]:
    nodes, degree = fabric.num_working_hosts, fabric.num_ports_per_host
    if not (nodes <= MAX_NODES and 1 <= degree < nodes):
        return
    answer = search_sequences(nodes, degree, number, effort=_EFFORT)
    collectives = workload.trace.collectives
    options = tuple(recipe_option(recipe, collectives) for recipe in answer.recipes)
    yield PhasedSequence(options, answer.alltoall)


def _pairs(fitting: Sequence[tuple[FabricOption, Embedding]]) -> Iterator[PhasedSequence]:
    """Two of the designs that serve all-to-all best, in both orders, where that is quick."""
    able = [option for option, _ in fitting if option.alltoall is not None]
    able.sort(key=lambda option: option.alltoall.t_b if option.alltoall else Fraction(0))
    distinct = list({option.alltoall: option for option in reversed(able)}.values())[::-1]
    for first, second in permutations(distinct[:_MAX_MEMBERS], 2):
        if first.topology is None or second.topology is None:
            continue
        both = [first.topology, second.topology]
        if num_columns(phase_network(both)) <= _MAX_COLUMNS:
            yield PhasedSequence((first, second), phased_alltoall(both))
