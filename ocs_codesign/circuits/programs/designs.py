"""Designs that change circuits: a program, the schedule over it, and what verification made of it.

``build_sequence`` goes through recipes one after the other; ``patterns`` has the circuits that
every step of an algorithm wants. Nothing leaves here unverified.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from math import gcd, lcm
from operator import attrgetter
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.circuits.change import fewest_steps_each
from ocs_codesign.circuits.programs.gather import sequence_alltoall, sequence_gather
from ocs_codesign.circuits.programs.wiring import DARK, check_alike, check_table, wire
from ocs_codesign.core.circuits import Timed, synchronous
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.given import as_topology
from ocs_codesign.core.lp import DEFAULT_OPTIONS
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.topology import Topology
from ocs_codesign.graphs.text import as_recipe_or_topology
from ocs_codesign.schedules.classic.registry import CLASSIC
from ocs_codesign.schedules.stepped.alltoall import MAX_CHUNKS
from ocs_codesign.verification.circuits import verify_program

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.circuits.change import Change
    from ocs_codesign.core.circuits import CircuitProgram, PlaneChange
    from ocs_codesign.core.cost import Cost, CostModel
    from ocs_codesign.core.given import TopologyLike
    from ocs_codesign.core.lp import Options
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.verification.circuits import ProgramVerdict


MAX_STEPS = 2**14
"""Largest number of steps that a sequence is tried with."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class ProgramDesign:
    """A verified program: circuits, the schedule over them, and the verdict of its replay.

    ``recipes`` are the configurations and ``recipe_of_step`` says which is up in every step; both
    are empty if not all are recipes. ``bound`` is the t_b that no schedule over the
    same sequence of steps can beat, None if none is known.
    """

    program: CircuitProgram
    schedule: Schedule
    verdict: ProgramVerdict
    maker: str
    recipes: tuple[Recipe, ...] = ()
    recipe_of_step: tuple[int, ...] = ()
    bound: Fraction | None = None

    @property
    def cost(self) -> Cost:
        """Steps and t_b, recomputed from the sends."""
        return self.verdict.cost


def verified_program(
    program: CircuitProgram,
    schedule: Schedule,
    maker: str,
    recipes: tuple[Recipe, ...] = (),
    recipe_of_step: tuple[int, ...] = (),
    bound: Fraction | None = None,
) -> ProgramDesign:
    """The design of a program that verifies; RuntimeError with the witness if it does not."""
    verdict = verify_program(program, schedule)
    if not verdict.ok:
        raise RuntimeError(f"the program made by {maker} fails: {verdict.witness}")
    return ProgramDesign(program, schedule, verdict, maker, recipes, recipe_of_step, bound)


def build_sequence(
    configurations: Sequence[TopologyLike],
    collective: Collective | str = Collective.ALLTOALL,
    steps_each: int | Sequence[int] | None = None,
    max_chunks: int = MAX_CHUNKS,
    options: Options = DEFAULT_OPTIONS,
) -> ProgramDesign:
    """The verified program that has the topologies, perhaps of recipes, up one after the other.

    Each is up for ``steps_each`` steps, one number for all or one for each (default: as few for
    all as bring everything everywhere). An all-to-all is optimal for these steps but for chunks; an
    allgather takes at every step what there is, a reduce-scatter is its mirror image, and an
    allreduce goes through the configurations and back. Steps that turn out useless are left out.
    Raises ValueError if nodes, ports
    or link speeds differ, or the steps are too few.

    >>> from ocs_codesign.graphs.text import parse
    >>> rings = [parse("DirectedCirculant(8, (1,))"), parse("DirectedCirculant(8, (3,))")]
    >>> design = build_sequence(rings, steps_each=4)
    >>> str(design.cost.t_b), str(design.bound), design.verdict.num_configurations
    ('7/4', '7/4', 2)
    """
    collective = Collective.parse(collective)
    meant = [as_recipe_or_topology(each) for each in configurations]
    distinct: list[Recipe | Topology] = list(dict.fromkeys(meant))
    recipes = tuple(each for each in distinct if not isinstance(each, Topology))
    if len(recipes) < len(distinct):
        recipes = ()
    topologies = [as_topology(each) for each in distinct]
    order = [distinct.index(each) for each in meant]
    used, bound = _steps(topologies, order, collective, steps_each), None
    if collective == Collective.ALLTOALL:
        made, bound = sequence_alltoall(topologies, used, max_chunks, options)
    else:
        made = sequence_gather(topologies, used, collective)
    program, schedule, kept = made
    maker = "eager" if bound is None else "time-stepped"
    return verified_program(program, schedule, maker, recipes, kept if recipes else (), bound)


def _steps(
    topologies: Sequence[Topology],
    order: Sequence[int],
    collective: Collective,
    steps_each: int | Sequence[int] | None,
) -> tuple[int, ...]:
    """The configuration of every step."""
    check_alike(topologies)
    if steps_each is None:
        steps_each = fewest_steps_each(topologies, order)
        if collective == Collective.ALLREDUCE:
            steps_each = max(steps_each, fewest_steps_each(topologies, order[::-1]))
    counts = [steps_each] * len(order) if isinstance(steps_each, int) else list(steps_each)
    if len(counts) != len(order):
        raise ValueError(f"{len(counts)} numbers of steps for {len(order)} configurations")
    for count in counts:
        if count < 1:
            raise ValueError(f"{count} steps: a configuration is up for at least one")
    if sum(counts) > MAX_STEPS:
        raise ValueError(f"{sum(counts):,} steps: a sequence has at most {MAX_STEPS:,}")
    return tuple(number for number, count in zip(order, counts, strict=True) for _ in range(count))


# How long a verified program takes: steps, transmission, and what waits for circuits to change.


@final
@dataclass(frozen=True, slots=True)
class ProgramTime:
    """Exact times of a program: ``total_s`` is the sum of the three others.

    ``steps_s`` is alpha for every step, ``transmission_s`` t_b of the message, ``dead_s`` what
    steps wait for circuits, less than all dead times if planes change while others send.
    ``begin_s`` and ``end_s`` say when every step begins and ends.
    """

    total_s: Fraction
    steps_s: Fraction
    transmission_s: Fraction
    dead_s: Fraction
    begin_s: tuple[Fraction, ...]
    end_s: tuple[Fraction, ...]

    def timed(self, schedule: Schedule) -> Timed:
        """When every send of the program's schedule runs, in ticks that divide all times.

        Raises ValueError for a schedule of other steps, or ticks beyond 64 bits.
        """
        if schedule.num_steps != len(self.begin_s):
            raise ValueError(f"{schedule.num_steps} steps, but {len(self.begin_s)} have times")
        chunks = schedule.synchronous_cost().t_b / schedule.t_b(Fraction(1))
        chunk_s, alpha_s = self.transmission_s / chunks, self.steps_s / len(self.begin_s)
        speeds = lcm(*map(int, np.unique(schedule.topology.speeds())))
        times_s = (*self.begin_s, alpha_s, chunk_s / speeds)
        per_second = lcm(*(time_s.denominator for time_s in times_s))
        if self.total_s * per_second >= 2**63:
            raise ValueError(f"{float(self.total_s)} s in ticks of 1/{per_second} s: too many")
        begin = [int(time_s * per_second) for time_s in self.begin_s]
        ticks = int(chunk_s * per_second), int(alpha_s * per_second)
        return synchronous(schedule, begin, *ticks, Fraction(1, per_second))


def program_time(
    verdict: ProgramVerdict, model: CostModel, message_bytes: float, reconfiguration: Change
) -> ProgramTime:
    """The time of a program whose verdict this is, for ``message_bytes`` (M, the buffer of a rank).

    A step begins when all of the one before has arrived and its circuits are up. A plane begins a
    change when the last step before its dark ones has ended, and planes change side by side; where
    ``reconfiguration.overlap`` is false, the whole fabric stops for each change instead, dark steps
    or not. Without ``cold_start`` the circuits of step 1 are up already. Raises ValueError for a
    verdict with a witness, a reconfiguration without barrier (a schedule of steps has one after
    each), or a message size that is negative or not finite.

    >>> from ocs_codesign.core.cost import CostModel
    >>> from ocs_codesign.circuits.change import Change
    >>> delta = Change(10e-6, cold_start=False)
    >>> time = program_time(build_direct(8, 2).verdict, CostModel(1e-6, 12.5e9), 1_000_000, delta)
    >>> [float(part) for part in (time.steps_s, time.transmission_s, time.dead_s)]
    [4e-06, 7e-05, 3e-05]
    """
    if verdict.witness is not None:
        raise ValueError(f"a program that is not valid has no time: {verdict.witness}")
    if not reconfiguration.barrier:
        raise ValueError("a schedule of steps has a barrier after each: barrier cannot be False")
    transmission_s = model.time_s(0, verdict.cost.t_b, message_bytes)
    total_load = sum(verdict.max_loads, Fraction(0))
    # t_b is proportional to the sum of the loads, so a step's part of it is to its load.
    per_load = transmission_s / total_load if total_load else Fraction(0)
    changes = {step: list(group) for step, group in groupby(verdict.changes, attrgetter("step"))}
    ended = [Fraction(0)]
    begins = []
    for step, load in enumerate(verdict.max_loads, 1):
        begin = ended[-1]
        if step > 1 or reconfiguration.cold_start:
            ready = _ready(changes.get(step, []), ended, reconfiguration)
            begin = max((begin, *ready))
        begins.append(begin)
        ended.append(begin + model.alpha_s + load * per_load)
    steps_s = model.alpha_s * len(begins)
    dead_s = ended[-1] - steps_s - transmission_s
    return ProgramTime(ended[-1], steps_s, transmission_s, dead_s, tuple(begins), tuple(ended[1:]))


def _ready(
    changes: list[PlaneChange], ended: list[Fraction], reconfiguration: Change
) -> Iterator[Fraction]:
    """When the changes before the next step are done; ``ended`` has the steps' ends so far."""
    if not reconfiguration.overlap:
        total = sum(change.num_circuits for change in changes)
        yield ended[-1] + reconfiguration.dead_time_s(total)
        return
    for change in changes:
        dead = reconfiguration.dead_time_s(change.num_circuits)
        yield ended[change.step - change.dark_steps - 1] + dead


# Classic algorithms over circuits that every step wants: direct all-to-all, halving and doubling.
#
# * Direct: the N - 1 steps of ``shift``, d at a time; every piece crosses one circuit. * Halving
# and doubling, N = 2^k: data is cut into a part a plane, and every part takes the exchanges of
# ``recursive-doubling`` in an order shifted by one against the part before: as the same steps on
# nodes whose bits are rotated. So d planes hold d exchanges at a time, and from step to step one
# plane changes.


DIRECT, HALVING_DOUBLING = "direct", "halving-doubling"
MAX_SENDS = 2**20
"""Largest schedule that is made, priced and verified: some ten seconds."""


def build_direct(num_nodes: int, num_planes: int = 1) -> ProgramDesign:
    """All-to-all over direct circuits only: t_b = (N - 1) / N, the least that d ports can have.

    In every configuration each plane shifts all nodes by its own offset. If the last offsets are
    fewer than planes, they share them in steps of which each changes some planes: with r offsets
    over d planes and g = gcd(r, d), r / g steps, pieces cut into d / g chunks. Raises ValueError
    for fewer than two nodes or one plane, and if the program is too large.

    >>> build_direct(8).cost
    Cost(steps=7, t_b=Fraction(7, 8))
    >>> [str(load) for load in build_direct(8, 2).schedule.max_loads()]
    ['1', '1', '1', '1/2']
    """
    _check_sizes(num_nodes, num_planes)
    whole, rest = divmod(num_nodes - 1, num_planes)
    common = gcd(rest, num_planes)
    shared, chunks = (rest // common, num_planes // common) if rest else (0, 1)
    steps = whole + shared
    check_table(steps, num_planes, num_nodes)
    _check_sends(steps * num_planes * num_nodes)
    # The last exchanges stand in a line, chunk after chunk; plane after plane takes equal parts.
    unit = np.arange(num_planes * shared).reshape(num_planes, shared).T
    full = np.arange(whole * num_planes).reshape(whole, num_planes)
    exchange = np.concatenate([full, whole * num_planes + unit // chunks])
    lo = np.concatenate([np.zeros_like(full), unit % chunks])[:, :, None]
    hi = np.concatenate([np.full_like(full, chunks), unit % chunks + 1])[:, :, None]
    peers = [
        step.target[:, 0].astype(np.int32)
        for step in CLASSIC["shift"].pattern("alltoall", num_nodes).steps
    ]
    target = np.stack(peers)[exchange]
    program, link = wire(target)
    first = target.astype(np.int64) * chunks
    step = np.arange(1, steps + 1)[:, None, None]
    columns = np.broadcast_arrays(np.arange(num_nodes), first + lo, first + hi, link, step)
    schedule = Schedule(
        program.topology,
        Collective.ALLTOALL,
        num_nodes * chunks,
        *(column.ravel() for column in columns),
    )
    return verified_program(program, schedule, DIRECT)


def build_halving_doubling(
    num_nodes: int,
    num_planes: int = 1,
    collective: Collective | str = Collective.ALLREDUCE,
    *,
    overlap: bool = False,
) -> ProgramDesign:
    """Recursive halving, doubling, or both, over pairings that planes take turns to hold.

    All planes send in every step, and one changes between two: t_b is the least there is,
    2 (N - 1) / N for an allreduce. With ``overlap`` one plane fewer sends; in every step the one
    that is free makes its next pairing, so that nothing waits for it: t_b is d / (d - 1) times as
    large. No plane changes if d is a multiple of log2 N. Raises ValueError unless N is a power of
    two, for an all-to-all, for overlap on one plane, and if the program is too large.

    >>> design = build_halving_doubling(8, 2)
    >>> design.cost, [str(load) for load in design.schedule.max_loads()]
    (Cost(steps=6, t_b=Fraction(7, 4)), ['2', '1', '1/2', '1/2', '1', '2'])
    >>> design.program.pauses.tolist()
    [2, 3, 5, 6]
    """
    _check_sizes(num_nodes, num_planes)
    collective = Collective.parse_gathering(collective)
    if overlap and num_planes < 2:
        raise ValueError("overlap needs a second plane: one changes while others send")
    parts, bits = num_planes - overlap, num_nodes.bit_length() - 1
    halves = 1 + (collective == Collective.ALLREDUCE)
    _check_sends(halves * num_nodes * (num_nodes - 1) * parts)
    order = [*range(bits), *reversed(range(bits))]  # of the turns that steps take
    if collective != Collective.ALLREDUCE:
        order = order[:bits] if collective == Collective.REDUCE_SCATTER else order[bits:]
    check_table(len(order), num_planes, num_nodes)
    exchanges = (
        CLASSIC["recursive-doubling"].pattern(collective.name, num_nodes, first="near").steps
    )
    held, plane = _turns(bits, num_planes, overlap)
    node = np.arange(num_nodes, dtype=np.int32)
    partner = node ^ (1 << (bits - 1 - held[order] % bits)).astype(np.int32)[:, :, None]
    program, port_link = wire(np.where(held[order][:, :, None] == DARK, DARK, partner))
    rows = []
    for at, step in enumerate(exchanges):
        for part in range(parts):
            rotated = _rotated(node, part, bits)
            owner = np.sort(rotated[step.item[step.source[:, 0].argsort()]], axis=1)
            sender = np.repeat(rotated, owner.shape[1])
            link = port_link[at, plane[order[at], part], sender]
            same = np.array([[part], [at + 1], [not step.adds]], dtype=np.int32)
            rows.append(np.stack([owner.ravel(), link, *np.repeat(same, len(link), axis=1)]))
    root, link, lo, turn, phase = np.concatenate(rows, axis=1)
    columns = [root, lo, lo + 1, link, turn, *[phase] * (halves == 2)]
    schedule = Schedule(program.topology, collective, parts, *columns)
    return verified_program(program, schedule, HALVING_DOUBLING)


def _turns(
    bits: int, num_planes: int, overlap: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The turns that planes hold in the steps of a reduce-scatter, or DARK; the planes of parts.

    Step i uses turns i .. i + parts - 1, turn t exchanging bit log2 N - 1 - t modulo log2 N; part j
    goes over ``plane[step, j]``.
    """
    parts = num_planes - overlap
    turn = np.arange(num_planes)
    held, plane = np.empty((2, bits, num_planes), dtype=np.int64)
    for step in range(bits):
        is_free = turn < step
        held[step] = turn
        plane[step] = np.lexsort((turn, is_free))
        if overlap and step < bits - 1 and num_planes % bits:
            # What is free makes the turn that the next step needs. In the last step it keeps
            # the one it had: the way back begins there.
            held[step, is_free] = DARK
        turn = np.where(is_free if overlap else turn == step, step + parts, turn)
    return held, plane


def _rotated(node: NDArray[np.int32], places: int, bits: int) -> NDArray[np.int32]:
    """Nodes with the lowest bits of their numbers moved to the top."""
    places %= bits
    return (node >> places) | ((node & ((1 << places) - 1)) << (bits - places))


def _check_sizes(num_nodes: int, num_planes: int) -> None:
    if num_nodes < 2:
        raise ValueError(f"{num_nodes} nodes: a collective needs at least two")
    if num_planes < 1:
        raise ValueError(f"{num_planes} planes: at least one is needed")


def _check_sends(sends: int) -> None:
    if sends > MAX_SENDS:
        raise ValueError(f"a schedule of {sends:,} sends: at most {MAX_SENDS:,} are made")
