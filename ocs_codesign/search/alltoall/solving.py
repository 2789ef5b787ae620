"""All-to-all times of many topologies, no more exact than needed to tell which are the best.

Hops bound a time from below at once. A rough solution, to about a fiftieth, comes with link prices
that prove a bound far closer than that, and costs a fraction of a good one. So a search bounds
everything by hops, sketches what these do not rule out, and settles what is left.
"""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.compute.symmetry import quotient
from ocs_codesign.core.lp import SolverUnavailableError
from ocs_codesign.core.proven import Proven
from ocs_codesign.core.quantities import exact
from ocs_codesign.graphs.expansions.line import Line
from ocs_codesign.graphs.expansions.reverse import Transpose
from ocs_codesign.graphs.families.shifts import GeneralizedKautz
from ocs_codesign.graphs.recipe import Recipe
from ocs_codesign.schedules.paths.certificates import price_bound
from ocs_codesign.schedules.paths.planes import MAX_ORBITS
from ocs_codesign.schedules.paths.throughput import (
    MAX_VERTEX_COLUMNS,
    num_columns,
    soft_throughput,
    throughput,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ocs_codesign.core.compute.symmetry import Quotient
    from ocs_codesign.core.lp import Options
    from ocs_codesign.schedules.paths.certificates import Throughput


STORED = "stored"
"""How a time was found that was known before."""
_MAX_COLUMNS = (2**21, 2**20)
_MAX_PROGRAM = (5 * 2**20, 2**20)
"""Of rough solutions and of good ones: columns in all, and of the largest program there is."""
_FEW = 1024
_SKETCH_GAP = 0.02
_ERROR = Fraction(1, 1000)


@final
class Solving:
    """Times of one search, remembered by topology up to reversal, which takes as long.

    ``times`` are exact ones that are known already: they are never solved.

    What it solves is limited by the columns of the programs, a flow a source and link: once they
    are spent, by the last more than there were, only small topologies are solved. The options'
    time limit is that of all programs together: once it is spent, none is begun. ``stopped`` says
    what else a program was not solved for, the first time: a solver that cannot take it, or no
    memory.
    """

    def __init__(self, options: Options, times: Mapping[Recipe, Fraction] | None = None) -> None:
        self.stopped: str | None = None
        self._options = options
        self._quotients: dict[Recipe, Quotient] = {}
        self._sketches: dict[Recipe, Proven[Fraction]] = {}
        self._settled = {
            alltoall_graph(recipe): Proven(time, time, STORED)
            for recipe, time in (times or {}).items()
        }
        self._columns_left = list(_MAX_COLUMNS)

    def size(self, recipe: Recipe) -> int:
        """Columns of its program."""
        return num_columns(self._quotient(recipe))

    def hop_bound(self, recipe: Recipe) -> Fraction:
        """What the hops of all pairs prove: least time in M/B."""
        whole = self._quotient(recipe)
        bound, _ = price_bound(whole, whole.is_useful.astype(np.int64))
        return bound

    def is_settled(self, recipe: Recipe) -> bool:
        """Whether its time is known, as well as it is found here."""
        return alltoall_graph(recipe) in self._settled

    def sketch(self, recipe: Recipe) -> Proven[Fraction] | None:
        """A time to about a fiftieth, and a better bound; None if that takes too long.

        What is known better is told as it is known.
        """
        graph, whole = alltoall_graph(recipe), self._quotient(recipe)
        if graph in self._settled:
            return self._settled[graph]
        if graph not in self._sketches:
            if not self._may_spend(0, whole):
                return None
            gap = max(_SKETCH_GAP, self._options.relative_gap or 0)
            found = self._tried(
                lambda options: soft_throughput(whole, replace(options, relative_gap=gap))
            )
            if found is None:
                return None
            self._sketches[graph] = found
        return self._sketches[graph]

    def settle(self, recipe: Recipe) -> Proven[Fraction] | None:
        """The exact time, or to about a thousandth if the program is large; None if too large.

        None too if the solver cannot take it or memory ends: ``stopped`` says so.
        """
        graph, whole = alltoall_graph(recipe), self._quotient(recipe)
        if graph not in self._settled:
            if not self._may_spend(1, whole):
                return None
            found = self._tried(
                lambda options: (
                    throughput(whole.topology, options)
                    if _is_small(whole)
                    else soft_throughput(whole, options)
                )
            )
            if found is None:
                return None
            self._settled[graph] = found
        return self._settled[graph]

    def is_small(self, recipe: Recipe) -> bool:
        """Whether an exact time takes about a second: few orbits of links, or a small program."""
        return _is_small(self._quotient(recipe))

    def exact_time(self, recipe: Recipe) -> Fraction | None:
        """The least time, proven; None if that takes long, or was not proven."""
        if not self.is_settled(recipe) and not self.is_small(recipe):
            return None
        found = self.settle(recipe)
        return found.value if found is not None and found.is_optimal else None

    def error(self, recipe: Recipe) -> Fraction:
        """How far a settled time may be above the least, relative to it."""
        gap = exact(self._options.relative_gap or 0)
        return gap if _is_small(self._quotient(recipe)) else max(gap, _ERROR)

    def _quotient(self, recipe: Recipe) -> Quotient:
        graph = alltoall_graph(recipe)
        if graph not in self._quotients:
            self._quotients[graph] = quotient(graph.topology())
        return self._quotients[graph]

    def _tried(self, solve: Callable[[Options], Throughput]) -> Proven[Fraction] | None:
        """What is solved in what is left of the time, which is taken from it; None if refused."""
        began = time.monotonic()
        try:
            found = solve(self._options)
            return Proven(found.value, found.bound, found.proof)
        except SolverUnavailableError as error:
            self.stopped = self.stopped or str(error)
        except MemoryError:
            self.stopped = self.stopped or "not enough memory"
        finally:
            self._options = self._options.after(time.monotonic() - began)
        return None

    def _may_spend(self, purse: int, whole: Quotient) -> bool:
        if self._options.time_limit_s == 0:
            return False
        columns = num_columns(whole)
        is_spent = self._columns_left[purse] <= 0
        if columns > _MAX_PROGRAM[purse] or (is_spent and columns > _FEW):
            return False
        self._columns_left[purse] -= columns
        return True


def _is_small(whole: Quotient) -> bool:
    return whole.num_orbits <= MAX_ORBITS or num_columns(whole) <= MAX_VERTEX_COLUMNS


def alltoall_graph(recipe: Recipe) -> Recipe:
    """A recipe whose all-to-all takes as long: without reversal, and known line digraphs by name.

    The line digraph of a generalized Kautz digraph is one d times as large: let d x + a - 1 be the
    number of link a out of x.

    >>> alltoall_graph(Transpose(Line(GeneralizedKautz(4, 9), 2)))
    GeneralizedKautz(4, 144)
    """
    if isinstance(recipe, Transpose):
        return alltoall_graph(recipe.g)
    if isinstance(recipe, Line):
        part = alltoall_graph(recipe.g)
        if isinstance(part, GeneralizedKautz):
            return GeneralizedKautz(part.d, part.d * part.m)
    return recipe
