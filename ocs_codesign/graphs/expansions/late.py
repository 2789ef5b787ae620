"""Late: the same graph under an allgather whose items may arrive later than their distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.core.registry import provided
from ocs_codesign.core.topology import MAX_COSTED_STEPS
from ocs_codesign.graphs.recipe import Recipe, Shape, Unary, size

if TYPE_CHECKING:
    from fractions import Fraction

    from ocs_codesign.core.schedule import Schedule
    from ocs_codesign.core.topology import Topology


MAX_NODES = 4096
MAX_MOVES = 2**26
"""A minute's search."""
FIRST_CUT, MAX_CUT = 256, 1024
"""Of 1,024 parts of a step's load: what a search takes off at first unless told, and at most."""


@final
@dataclass(frozen=True, slots=True, repr=False)
class Late(Unary):
    """The graph of G, its allgather in at most ``steps`` steps by a search of so many ``moves``.

    Every item arrives at a node whole, in one step, but not always in the first possible: at the
    same number of steps the busiest links often carry less than those of BFB. The search is of
    ``seed`` and counts in moves, so the recipe says all that is needed to make the schedule again.
    Where ``alike`` is 1, the symmetry that G declares holds for the arrivals too, and the search is
    of one item an orbit. Where ``all_sets`` is 1, it counts what any in-links of a node carry, not
    only the busiest. What the search tries to take off the load of a step is ``first_cut`` parts of
    1,024 at first, and less where that fails: of many nodes every failure takes long, and 16 mostly
    finds more.

    >>> from ocs_codesign.graphs.families.affine import AffineSpliced
    >>> ring = AffineSpliced(61, 3, (0, 22, 24, 2))
    >>> ring.predict(), Late(ring, 4, 100000, 0).predict()
    (Cost(steps=4, t_b=Fraction(64, 61)), Cost(steps=4, t_b=Fraction(188, 183)))
    """

    g: Recipe
    steps: int
    moves: int
    seed: int
    alike: int = 0
    all_sets: int = 0
    first_cut: int = FIRST_CUT

    is_operator = False
    samples = (
        "GeneralizedKautz(2, 9), 4, 3000, 0",
        "DirectedCirculant(8, (1, 3)), 3, 100, 7",
        "Torus((3, 4)), 4, 2000, 0",
        "ModifiedDeBruijn(2, 3), 4, 2000, 1",
        "Excise(Line(Complete(4)), ((5, (2, 1, 0)),)), 3, 1000, 0",
        "Line(Cayley(Dihedral(4), ((1, 0), (0, 1)))), 6, 500, 1, 1",
        "DirectedCirculant(8, (1, 3)), 3, 100, 7, 0, 1",
        "Torus((3, 4)), 4, 2000, 0, 0, 0, 16",
    )

    @property
    def shape(self) -> Shape:
        size(self.steps, "steps", 1, MAX_COSTED_STEPS)
        size(self.moves, "moves", 0, MAX_MOVES)
        size(self.seed, "seed", 0)
        size(self.alike, "alike", 0, 1)
        size(self.all_sets, "all_sets", 0, 1)
        size(self.first_cut, "first_cut", 1, MAX_CUT)
        size(self.g.shape.num_nodes, "the number of nodes of a late schedule", 2, MAX_NODES)
        return self.g.shape

    def arguments(self) -> tuple[Any, ...]:
        """Without the last where they are what they are unless given."""
        ways = [self.alike, self.all_sets, self.first_cut]
        for usual in (FIRST_CUT, 0, 0):
            if ways[-1] != usual:
                break
            ways.pop()
        return (self.g, self.steps, self.moves, self.seed, *ways)

    def build(self) -> Topology:
        return self.g.topology()

    def loads(self, transposed: bool) -> tuple[Fraction, ...]:
        """Those of the arrivals that the search ends with."""
        loads: tuple[Fraction, ...] = self._arrivals(transposed).loads()
        return loads

    def schedule(self, transposed: bool) -> Schedule:
        """The allgather with these arrivals."""
        schedule: Schedule = self._arrivals(transposed).schedule()
        return schedule

    def _arrivals(self, transposed: bool) -> Any:
        limits = self.steps, self.moves, self.seed
        ways = bool(self.alike), bool(self.all_sets), self.first_cut
        return provided("late arrivals")(self.g, transposed, *limits, *ways)

    def label(self) -> str:
        return f"{self.g.bracketed_label()} late"
