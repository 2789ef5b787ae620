"""Pairs of steps and t_b that one all-to-all has: over a topology, or over several in turn.

The best routing of messages that split at will tells how fast an all-to-all can be, however many
steps it takes; the fewest steps that connect everybody tell how few it can take, however slow. A
schedule of so many steps has both, and its program says how good the best one is.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from typing import TYPE_CHECKING

from ocs_codesign.cost import Cost
from ocs_codesign.design import Design, Known
from ocs_codesign.reconfigure.phases.network import fewest_hops, phase_network
from ocs_codesign.reconfigure.program.alltoall import num_program_arcs, sequence_cost

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.topology import Topology

MAX_ARCS = 20_000
"""Columns of a program that is solved in passing: up to some seconds."""
_MORE_STEPS = 3
_MAX_ORDERED, _MAX_TRIED = 3, 4


def with_steps(design: Design, least_t_b: Fraction) -> Iterator[Design]:
    """The design with as few steps as there can be, then with more until its t_b is the least.

    Each is a pair that one schedule has, with the bound for its steps. A design whose programs are
    too large stays as it is, as a bound: no schedule has fewer steps, nor a smaller t_b.

    >>> from ocs_codesign.collective import Collective
    >>> from ocs_codesign.graphs.text import parse
    >>> recipes = (parse("GeneralizedKautz(4, 9)"),)
    >>> known = Design(Collective.ALLTOALL, Cost(2, Fraction(5, 3)), "", Known.MEASURED, recipes)
    >>> [(one.cost.steps, str(one.cost.t_b)) for one in with_steps(known, Fraction(5, 3))]
    [(2, '16/9'), (3, '5/3')]
    """
    topologies = [recipe.topology() for recipe in design.recipes]
    fewest = fewest_hops(phase_network(topologies))
    tries = list(dict.fromkeys(permutations(fewest))) if len(fewest) <= _MAX_ORDERED else [fewest]
    solved = _solved(topologies, tries)
    if not solved:
        cost = Cost(sum(fewest), least_t_b, len(topologies))
        yield replace(design, cost=cost, known=Known.BOUNDED)
    for more in range(_MORE_STEPS + 1):
        if not solved:
            return
        (t_b, bound), each = min((found, each) for each, found in solved.items())
        cost = Cost(sum(each), t_b, len(topologies))
        yield replace(design, cost=cost, least_t_b=bound)
        if t_b <= least_t_b or more == _MORE_STEPS:
            return
        solved = _solved(topologies, [_one_more(each, at) for at in range(len(each))][:_MAX_TRIED])


def _solved(
    topologies: Sequence[Topology], tries: Sequence[tuple[int, ...]]
) -> dict[tuple[int, ...], tuple[Fraction, Fraction]]:
    """The t_b and its bound by the steps in each phase, of those that are not too large."""
    costs = ((each, _cost(topologies, each)) for each in tries)
    return {each: cost for each, cost in costs if cost is not None}


def _cost(topologies: Sequence[Topology], each: Sequence[int]) -> tuple[Fraction, Fraction] | None:
    """The t_b and its bound with so many steps in each phase; None if too large or not served."""
    used = [phase for phase, steps in enumerate(each) for _ in range(steps)]
    try:
        if num_program_arcs(topologies, used) > MAX_ARCS:
            return None
        return sequence_cost(topologies, used)
    except ValueError:  # in this order not every pair is served
        return None


def _one_more(each: Sequence[int], at: int) -> tuple[int, ...]:
    return (*each[:at], each[at] + 1, *each[at + 1 :])
