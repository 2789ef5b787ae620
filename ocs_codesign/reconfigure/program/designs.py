"""Designs that change circuits: a program, the schedule over it, and what verification made of it.

``build_sequence`` goes through recipes one after the other; ``patterns`` has the circuits that
every step of an algorithm wants. Nothing leaves here unverified.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from ocs_codesign.collective import Collective
from ocs_codesign.given import as_topology
from ocs_codesign.graphs.text import as_recipe_or_topology
from ocs_codesign.lp import DEFAULT_OPTIONS
from ocs_codesign.reconfigure.in_turn import fewest_steps_each
from ocs_codesign.reconfigure.program.alltoall import sequence_alltoall
from ocs_codesign.reconfigure.program.gather import sequence_gather
from ocs_codesign.reconfigure.program.wiring import check_alike
from ocs_codesign.schedulers.alltoall.stepped import MAX_CHUNKS
from ocs_codesign.topology import Topology
from ocs_codesign.verification.programs import verify_program

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from fractions import Fraction

    from ocs_codesign.circuits import CircuitProgram
    from ocs_codesign.cost import Cost
    from ocs_codesign.given import TopologyLike
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.lp import Options
    from ocs_codesign.schedule import Schedule
    from ocs_codesign.verification.programs import ProgramVerdict

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
    on_progress: Callable[[int, int], None] | None = None,
) -> ProgramDesign:
    """The verified program that has the topologies, perhaps of recipes, up one after the other.

    Each is up for ``steps_each`` steps, one number for all or one for each (default: as few for
    all as bring everything everywhere). An all-to-all is optimal for these steps but for chunks; an
    allgather takes at every step what there is, a reduce-scatter is its mirror image, and an
    allreduce goes through the configurations and back. Steps that turn out useless are left out.
    ``on_progress(done, total)`` hears of the steps of gathering. Raises ValueError if nodes, ports
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
        made = sequence_gather(topologies, used, collective, on_progress)
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
