"""Recipe: the identity of a design, a value that prints, hashes, predicts and builds."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import fields
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ocs_codesign.collective import Collective
from ocs_codesign.cost import Cost
from ocs_codesign.expansions import EXPANSIONS
from ocs_codesign.expansions.profile import Profile
from ocs_codesign.schedulers.bfb.assembly import bfb
from ocs_codesign.schedulers.bfb.loads import bfb_loads

if TYPE_CHECKING:
    from ocs_codesign.families.shape import Shape
    from ocs_codesign.schedule import Schedule
    from ocs_codesign.topology import Topology


class Recipe(ABC):
    """A base graph and the expansions over it; ``repr`` prints the text that ``parse`` reads.

    All recipes give d-regular topologies of equal link speeds. Sizes are validated when a recipe is
    made (ValueError); graphs are built only on demand.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def shape(self) -> Shape:
        """Number of nodes and degree, without building."""

    @abstractmethod
    def topology(self) -> Topology:
        """The graph; ValueError if it has more links than can be held."""

    @abstractmethod
    def gather_loads(self, *, transposed: bool = False) -> tuple[Fraction, ...]:
        """Predicted largest link load, in shards, of every allgather step.

        Of the base, a stored schedule's, a closed form or exact BFB; of an expansion, by formula
        from its parts. ``transposed`` asks for the transpose.
        """

    @abstractmethod
    def gather_schedule(self, *, transposed: bool = False) -> Schedule:
        """An allgather no worse than ``gather_loads``: the base's, mapped by the expansions.

        The base's is its stored one if that beats BFB, else BFB. On ``topology()``, or on its
        transpose when ``transposed``.
        """

    def bfb_gather_loads(self, *, transposed: bool = False) -> tuple[Fraction, ...]:
        """Largest link load of every step of BFB on the graph, or on its transpose; exact."""
        return measured_gather_loads(self, transposed and not self.reverse_symmetric)

    def bfb_gather_schedule(self, *, transposed: bool = False) -> Schedule:
        """The BFB allgather on ``topology()``, or on its transpose: all routes are shortest."""
        topology = self.topology()
        return bfb(topology.transpose() if transposed else topology)

    @property
    @abstractmethod
    def reverse_symmetric(self) -> bool:
        """Whether the graph is known to be isomorphic to its transpose."""

    @property
    @abstractmethod
    def has_self_loops(self) -> bool:
        """Whether a port is wasted on a link from a node to itself."""

    @property
    @abstractmethod
    def bidirectional(self) -> bool:
        """Whether every link has one in the other direction, counted with multiplicity."""

    @abstractmethod
    def label(self) -> str:
        """The paper's notation, for pictures and tables; not parsed."""

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.shape.num_nodes

    @property
    def degree(self) -> int:
        """d, the ports of a node."""
        return self.shape.degree

    def predicted_loads(
        self, collective: Collective | str = Collective.ALLGATHER
    ) -> tuple[Fraction, ...]:
        """Predicted largest link load, in shards, of every step of a collective."""
        collective = Collective.parse_gathering(collective)
        if collective == Collective.ALLGATHER:
            return self.gather_loads()
        scatter = self.gather_loads(transposed=True)[::-1]
        return scatter if collective == Collective.REDUCE_SCATTER else scatter + self.gather_loads()

    def predict(self, collective: Collective | str = Collective.ALLGATHER) -> Cost:
        """Predicted cost of a collective: by formula from the base, never by building.

        It is an upper bound: ``expansion_schedule`` is never worse, and exact BFB on the built
        graph rarely is.
        """
        loads = self.predicted_loads(collective)
        return Cost(len(loads), sum(loads, Fraction(0)) * self.degree / self.num_nodes)

    def expansion_schedule(self, collective: Collective | str = Collective.ALLGATHER) -> Schedule:
        """The base's schedule mapped through the expansions, without solving anything more."""
        collective = Collective.parse_gathering(collective)
        if collective == Collective.ALLGATHER:
            return self.gather_schedule()
        scatter = self.gather_schedule(transposed=True).reversed()
        if collective == Collective.REDUCE_SCATTER:
            return scatter
        return scatter.then(self.gather_schedule())

    def __repr__(self) -> str:
        values = (getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(map(_text, values))})"

    def __str__(self) -> str:
        return repr(self)


class Expanded(Recipe):
    """A recipe that applies an expansion of ``ocs_codesign.expansions`` to other recipes."""

    __slots__ = ()

    @property
    @abstractmethod
    def parts(self) -> tuple[Recipe, ...]:
        """The recipes that are expanded."""

    def _sizes(self) -> tuple[int, ...]:
        return ()

    def __post_init__(self) -> None:
        for part in self.parts:
            if not isinstance(part, Recipe):
                raise ValueError(f"{part!r} is not a recipe: {type(self).__name__} expands recipes")
        _ = self.shape

    @property
    def shape(self) -> Shape:
        shapes = tuple(part.shape for part in self.parts)
        return EXPANSIONS[type(self).__name__].shape(shapes, *self._sizes())

    def topology(self) -> Topology:
        self.shape.check_buildable()
        parts = tuple(part.topology() for part in self.parts)
        return EXPANSIONS[type(self).__name__].build(parts, *self._sizes())

    def gather_loads(self, *, transposed: bool = False) -> tuple[Fraction, ...]:
        return _expanded_loads(self, transposed)

    def gather_schedule(self, *, transposed: bool = False) -> Schedule:
        expansion = EXPANSIONS[type(self).__name__]
        forward, backward = (
            tuple(_part_schedule(part, way, expansion.shortest_paths) for part in self.parts)
            if way == transposed or expansion.reads_backward
            else ()
            for way in (transposed, not transposed)
        )
        schedule = expansion.schedule(forward, backward, *self._sizes())
        topology = self.topology()
        return schedule.on_links_of(topology.transpose() if transposed else topology)

    @property
    def reverse_symmetric(self) -> bool:
        return all(part.reverse_symmetric for part in self.parts)

    @property
    def has_self_loops(self) -> bool:
        return any(part.has_self_loops for part in self.parts)

    @property
    def bidirectional(self) -> bool:
        return all(part.bidirectional for part in self.parts)


@lru_cache(maxsize=2**14)
def measured_gather_loads(recipe: Recipe, transposed: bool = False) -> tuple[Fraction, ...]:
    """Exact BFB loads of an allgather on the built graph or on its transpose, remembered."""
    topology = recipe.topology()
    return bfb_loads(topology.transpose() if transposed else topology)


@lru_cache(maxsize=2**14)
def _expanded_loads(recipe: Expanded, transposed: bool) -> tuple[Fraction, ...]:
    expansion = EXPANSIONS[type(recipe).__name__]
    forward, backward = (
        tuple(_part_profile(part, way, expansion.shortest_paths) for part in recipe.parts)
        if way == transposed or expansion.reads_backward
        else ()
        for way in (transposed, not transposed)
    )
    return expansion.loads(forward, backward, *recipe._sizes())


def _part_profile(part: Recipe, transposed: bool, shortest_paths: bool) -> Profile:
    loads_of = part.bfb_gather_loads if shortest_paths else part.gather_loads
    return Profile(part.shape, loads_of(transposed=transposed))


def _part_schedule(part: Recipe, transposed: bool, shortest_paths: bool) -> Schedule:
    schedule_of = part.bfb_gather_schedule if shortest_paths else part.gather_schedule
    return schedule_of(transposed=transposed)


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)
