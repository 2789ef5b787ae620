"""Recipe: the identity of a design, a value that prints, hashes, predicts and builds.

A family is a ``Base`` and an expansion an ``Expanded``: one frozen class each, listed in
``ocs_codesign.graphs.registry``.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, final

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import Cost, total
from ocs_codesign.core.given import kind_of
from ocs_codesign.core.registry import provided
from ocs_codesign.core.topology import MAX_COSTED_STEPS

if TYPE_CHECKING:
    from ocs_codesign.core.schedule import Schedule
    from ocs_codesign.core.topology import Topology


# Call: a frozen value that prints as the call which makes it; ``parse`` reads that text back.


_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


class Call(ABC):
    """A frozen dataclass that is written as a call of its class."""

    __slots__ = ()

    samples: ClassVar[tuple[str, ...]]
    """Texts of arguments: the contract suite runs on the calls with these."""

    notation: ClassVar[str]
    """The field's notation, its blanks for the arguments."""

    def arguments(self) -> tuple[Any, ...]:
        """What the class is called with to make this value."""
        return tuple(getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]

    def label(self) -> str:
        """The field's notation, for pictures and tables; not parsed."""
        return self.notation.format(*self.arguments())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(_text, self.arguments()))})"


def superscript(number: int) -> str:
    """The digits of an exponent.

    >>> superscript(12)
    '¹²'
    """
    return str(number).translate(_SUPERSCRIPTS)


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)


_REMEMBERED = 2**14


class Recipe(Call):
    """A base graph and the expansions over it; ``repr`` prints the text that ``parse`` reads.

    All recipes give d-regular topologies of equal link speeds. Sizes are validated when a recipe is
    made (ValueError); graphs are built only on demand.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def shape(self) -> Shape:
        """Number of nodes and degree, without building; ValueError if a size is not allowed."""

    @abstractmethod
    def build(self) -> Topology:
        """The graph of a size that can be held."""

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

    def bracketed_label(self) -> str:
        """The label as an operand, in brackets if it is itself made by an operator."""
        return self.label()

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.shape.num_nodes

    @property
    def degree(self) -> int:
        """d, the ports of a node."""
        return self.shape.degree

    def topology(self) -> Topology:
        """The graph; ValueError if it has more links than can be held."""
        self.shape.check_buildable()
        return self.build()

    def bfb_gather_loads(self, *, transposed: bool = False) -> tuple[Fraction, ...]:
        """Largest link load of every step of BFB on the graph, or on its transpose; exact."""
        return measured_gather_loads(self, transposed and not self.reverse_symmetric)

    def bfb_gather_schedule(self, *, transposed: bool = False) -> Schedule:
        """The BFB allgather on ``topology()``, or on its transpose: all routes are shortest."""
        schedule: Schedule = provided("BFB")(_graph(self, transposed))
        return schedule

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
        return Cost(len(loads), total(loads) * self.degree / self.num_nodes)

    def expansion_schedule(self, collective: Collective | str = Collective.ALLGATHER) -> Schedule:
        """The base's schedule mapped through the expansions, without solving anything more."""
        collective = Collective.parse_gathering(collective)
        if collective == Collective.ALLGATHER:
            return self.gather_schedule()
        scatter = self.gather_schedule(transposed=True).reversed()
        if collective == Collective.REDUCE_SCATTER:
            return scatter
        return scatter.then(self.gather_schedule())


class Base(Recipe):
    """A graph of a family: a frozen class with the family's sizes, definition and source.

    What is not known of the family by theory is found out on the built graph.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        _ = self.shape

    def loads(self) -> tuple[Fraction, ...] | None:
        """Largest link load of every BFB allgather step in closed form, None without one.

        The graph must then be isomorphic to its transpose.
        """
        return None

    def bfb_gather_loads(self, *, transposed: bool = False) -> tuple[Fraction, ...]:
        return self.loads() or super().bfb_gather_loads(transposed=transposed)

    def stored_schedule(self, *, transposed: bool = False) -> Schedule | None:
        """The allgather of this graph in base_topologies/ if there is one and it beats BFB.

        It is verified. Its t_b is lower than that of BFB, or as low in fewer steps.
        """
        return _stored_schedule(self, transposed)

    def gather_loads(self, *, transposed: bool = False) -> tuple[Fraction, ...]:
        stored = self.stored_schedule(transposed=transposed)
        if stored is not None:
            return stored.max_loads()
        return self.bfb_gather_loads(transposed=transposed)

    def gather_schedule(self, *, transposed: bool = False) -> Schedule:
        stored = self.stored_schedule(transposed=transposed)
        return self.bfb_gather_schedule(transposed=transposed) if stored is None else stored

    @property
    def reverse_symmetric(self) -> bool:
        return False

    @property
    def has_self_loops(self) -> bool:
        return _has_self_loops(self)

    @property
    def bidirectional(self) -> bool:
        return _is_undirected(self)


class Symmetric(Base):
    """A base that is isomorphic to its transpose and has no self-loops."""

    __slots__ = ()

    reverse_symmetric = True
    has_self_loops = False


class Undirected(Symmetric):
    """A base with every link in both directions and no self-loops."""

    __slots__ = ()

    bidirectional = True


class Expanded(Recipe):
    """An expansion of other recipes: a frozen class with its definition and source.

    Expansions work on allgathers; a reduce-scatter is the reversed allgather of the transpose, so
    every expansion is asked about its parts in both directions.
    """

    __slots__ = ()

    is_operator: ClassVar[bool] = True
    """Whether the label is that of its parts with an operator, which needs brackets inside."""

    @property
    @abstractmethod
    def parts(self) -> tuple[Recipe, ...]:
        """The recipes that are expanded."""

    @abstractmethod
    def loads(self, transposed: bool) -> tuple[Fraction, ...]:
        """Largest link load of every allgather step, predicted from the parts' loads."""

    @abstractmethod
    def schedule(self, transposed: bool) -> Schedule:
        """An allgather that has these loads, mapped from the parts' allgathers."""

    def __post_init__(self) -> None:
        for part in self.parts:
            if not isinstance(part, Recipe):
                what = repr(part) if isinstance(part, str) else kind_of(part)
                raise ValueError(
                    f"{what} is not a recipe: {type(self).__name__} expands recipes, which parse "
                    "reads from texts"
                )
        _ = self.shape

    def gather_loads(self, *, transposed: bool = False) -> tuple[Fraction, ...]:
        return _expanded_loads(self, transposed)

    def gather_schedule(self, *, transposed: bool = False) -> Schedule:
        return self.schedule(transposed).on_links_of(_graph(self, transposed))

    @property
    def reverse_symmetric(self) -> bool:
        return all(part.reverse_symmetric for part in self.parts)

    @property
    def has_self_loops(self) -> bool:
        return any(part.has_self_loops for part in self.parts)

    @property
    def bidirectional(self) -> bool:
        return all(part.bidirectional for part in self.parts)

    def bracketed_label(self) -> str:
        return f"({self.label()})" if self.is_operator else self.label()


class Unary(Expanded):
    """An expansion of one recipe, ``g``."""

    __slots__ = ()

    g: Recipe

    @property
    def parts(self) -> tuple[Recipe, ...]:
        return (self.g,)


@lru_cache(maxsize=_REMEMBERED)
def measured_gather_loads(recipe: Recipe, transposed: bool = False) -> tuple[Fraction, ...]:
    """Exact BFB loads of an allgather on the built graph or on its transpose, remembered."""
    loads: tuple[Fraction, ...] = provided("BFB loads")(_graph(recipe, transposed))
    return loads


@lru_cache(maxsize=_REMEMBERED)
def _expanded_loads(recipe: Expanded, transposed: bool) -> tuple[Fraction, ...]:
    return recipe.loads(transposed)


@lru_cache(maxsize=_REMEMBERED)
def _stored_schedule(base: Base, transposed: bool) -> Schedule | None:
    stored: Schedule | None = provided("stored allgather")(
        repr(base), transposed, lambda: _graph(base, transposed)
    )
    if stored is None:
        return None
    mine, eager = stored.max_loads(), base.bfb_gather_loads(transposed=transposed)
    return stored if (sum(mine), len(mine)) < (sum(eager), len(eager)) else None


@lru_cache(maxsize=_REMEMBERED)
def _is_undirected(base: Base) -> bool:
    return base.topology().is_undirected()


@lru_cache(maxsize=_REMEMBERED)
def _has_self_loops(base: Base) -> bool:
    return base.topology().has_self_loops()


def _graph(recipe: Recipe, transposed: bool) -> Topology:
    topology = recipe.topology()
    return topology.transpose() if transposed else topology


# Number of nodes and degree of a graph, and the checks that sizes must pass.


MAX_NODES = 2**64
MAX_BUILT_LINKS = 2**21
"""Links that a recipe's graph may have: some 200 MB while it is built and looked at."""


@final
@dataclass(frozen=True, slots=True)
class Shape:
    """What is known of a regular graph before it is built."""

    num_nodes: int
    degree: int

    def __post_init__(self) -> None:
        if self.num_nodes > MAX_NODES or self.degree > MAX_NODES:
            raise ValueError("a topology has at most 2^64 nodes and as many ports")

    @property
    def is_buildable(self) -> bool:
        """Whether the graph has few enough links to hold in memory."""
        return self.num_nodes * self.degree <= MAX_BUILT_LINKS

    def check_buildable(self) -> None:
        """ValueError if the graph has too many links to hold in memory."""
        if not self.is_buildable:
            raise ValueError(
                f"{self.num_nodes} nodes of degree {self.degree} have too many links to build: "
                f"at most {MAX_BUILT_LINKS} are supported"
            )


def checked_steps(number: int) -> int:
    """The number if so many steps can be listed; ValueError if not."""
    if number > MAX_COSTED_STEPS:
        raise ValueError(f"a schedule of {number} steps: at most {MAX_COSTED_STEPS} are supported")
    return number


def size(value: Any, name: str, least: int, most: int = 2**31 - 1) -> int:
    """The value if it is an int from ``least`` to ``most``; ValueError with the rule if not."""
    if type(value) is not int or not least <= value <= most:
        upper = "" if most == 2**31 - 1 else f" and at most {most}"
        raise ValueError(f"{name} is {value!r}: it must be an integer of at least {least}{upper}")
    return value


def sizes(values: Any, name: str, least: int, most: int = 2**31 - 1) -> tuple[int, ...]:
    """The values if they are a non-empty tuple of such ints."""
    if not isinstance(values, tuple) or not values:
        raise ValueError(f"{name} is {values!r}: it must be a non-empty tuple of integers")
    return tuple(size(value, f"an entry of {name}", least, most) for value in values)
