"""What the catalogue stores: entries, and where the answers to a question come from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, final

from ocs_codesign.core.bounds import bound, least_t_b
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import Cost, undominated
from ocs_codesign.schedules.design import Question

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from fractions import Fraction

    from ocs_codesign.schedules.design import Design
    from ocs_codesign.search.catalogue.store import Catalogue
    from ocs_codesign.search.pool import Pools


_LARGEST = 2**63 - 1


@final
@dataclass(frozen=True, slots=True)
class Entry:
    """A design that answers a question: its recipe as text and its exact costs.

    ``schedule`` names what achieves the allgather and the reduce-scatter, as in ``bfb`` or
    ``bfb+expansion``; ``measured`` is False for costs that are upper bounds by formula.
    ``certificate`` is the least t_b that was proven of any allgather in as many steps on as many
    nodes and ports, None where nothing was. ``alltoall`` is the least time of an all-to-all on it,
    in M/B, when messages may split over paths; None where it was not worked out.
    """

    recipe: str
    label: str
    num_nodes: int
    degree: int
    bidirectional: bool
    reverse_symmetric: bool
    allgather: Cost
    reduce_scatter: Cost
    schedule: str
    measured: bool
    certificate: Fraction | None = None
    alltoall: Fraction | None = None

    def cost(self, collective: Collective) -> Cost:
        """Cost of a collective of GATHERING; an allreduce is reduce-scatter, then allgather."""
        return {
            Collective.ALLGATHER: self.allgather,
            Collective.REDUCE_SCATTER: self.reduce_scatter,
            Collective.ALLREDUCE: self.allgather + self.reduce_scatter,
        }[Collective.parse_gathering(collective)]

    def design(self) -> Design:
        """The design for allreduce and its halves; the loads of their steps are not stored."""
        from ocs_codesign.graphs.text import parse
        from ocs_codesign.schedules.design import Design, Known, of_halves

        known = Known.MEASURED if self.measured else Known.PREDICTED
        recipes = (parse(self.recipe),)
        makers = self.schedule.split("+")
        costs = ((self.reduce_scatter, makers[0]), (self.allgather, makers[-1]))
        scatter, gather = (
            Design(half, cost, maker, known, recipes)
            for half, (cost, maker) in zip(Collective.ALLREDUCE.halves(), costs, strict=True)
        )
        return of_halves(Collective.ALLREDUCE, scatter, gather)

    @property
    def late(self) -> bool:
        """Whether items arrive later than their distance in one of the halves of its allreduce."""
        from ocs_codesign.schedules.design import is_late

        return is_late(self.recipe, self.schedule)

    def is_bw_optimal(self, collective: Collective = Collective.ALLGATHER) -> bool:
        """Whether t_b is the least possible."""
        return self.cost(collective).t_b == bound(self.num_nodes, self.degree, collective).t_b

    def is_moore_optimal(self, collective: Collective = Collective.ALLGATHER) -> bool:
        """Whether the number of steps meets the directed Moore bound."""
        return self.cost(collective).steps == bound(self.num_nodes, self.degree, collective).steps


@final
@dataclass(frozen=True, slots=True)
class Provenance:
    """How a question was answered: by which command and version, from which seed, how long.

    ``work`` is that of the search's effort; 0 where only bases and expansions were searched.
    ``improved`` is the work of all passes that went on from there, on local searches alone; ``day``
    is that of the last, as in 2026-11-23, empty where it is not known. ``exchanged`` is the work of
    all passes that searched for better all-to-alls, and ``num_timed`` says how many entries, from
    the first on, a pass has worked out the all-to-all time of, unless that takes too long.
    """

    command: str
    version: str
    seed: int
    time_spent_s: float
    work: int = 0
    improved: int = 0
    day: str = ""
    exchanged: int = 0
    num_timed: int = 0


def certified(entry: Entry) -> Entry:
    """The entry with the bound that is proven now."""
    size, both = (entry.num_nodes, entry.degree), entry.bidirectional
    least = least_t_b(*size, entry.allgather.steps, bidirectional=both)
    return replace(entry, certificate=least)


def as_entry(design: Design) -> Entry:
    """A design as the catalogue stores it."""
    recipe = design.recipe
    entry = Entry(
        repr(recipe),
        recipe.label(),
        recipe.num_nodes,
        recipe.degree,
        recipe.bidirectional,
        recipe.reverse_symmetric,
        design.cost_of(Collective.ALLGATHER),
        design.cost_of(Collective.REDUCE_SCATTER),
        design.maker,
        design.measured,
    )
    return certified(entry)


def with_time(entry: Entry, time: Fraction | None) -> Entry:
    """The entry with an all-to-all time, unless there is none, or no room: 63 bits a number."""
    if time is None or max(time.as_integer_ratio()) > _LARGEST:
        return entry
    return replace(entry, alltoall=time)


def of_the_size(question: Question, entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The entries; ValueError if one does not have the size of the question."""
    entries = tuple(entries)
    for entry in entries:
        if (entry.num_nodes, entry.degree) != (question.num_nodes, question.degree):
            raise ValueError(f"{entry.recipe} does not have the size of {question}")
    return entries


def digest(entries: Iterable[Entry], *, without: tuple[str, ...] = ()) -> str:
    """Checksum of a question's entries in order, without fields that older stores did not have."""
    names = [field.name for field in fields(Entry) if field.name not in without]
    text = "\n".join(repr(tuple(_plain_values(entry, names))) for entry in entries)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain_values(entry: Entry, names: list[str]) -> Iterator[object]:
    return (_plain(getattr(entry, name)) for name in names)


def _plain(value: object) -> object:
    """Costs as steps and t_b: stored designs never change circuits."""
    return (value.steps, value.t_b) if isinstance(value, Cost) else value


# Look-ups: the stored frontier of a question, or of the nearest larger one that has designs.


_TRIES = 256


@final
@dataclass(frozen=True, slots=True)
class LookedUp:
    """Undominated stored designs for a question, ascending in steps.

    ``question`` is the one that was answered: with more nodes than asked for when no design of the
    exact size is stored (``exact`` is then False).
    """

    asked: Question
    question: Question
    collective: Collective
    entries: tuple[Entry, ...]

    @property
    def exact(self) -> bool:
        """Whether the designs have exactly the size that was asked for."""
        return self.asked == self.question


def find(
    catalogue: Catalogue | Pools,
    question: Question,
    collective: Collective | str = Collective.ALLGATHER,
    *,
    max_steps: int | None = None,
    max_t_b: Fraction | None = None,
) -> LookedUp:
    """The stored frontier of a question within limits; of the nearest larger N if there is none.

    A bidirectional question is answered apart; a general one may have bidirectional answers too.
    Nothing is computed. Raises ValueError if nothing stored comes near the question.
    """
    collective = Collective.parse_gathering(collective)
    answered, entries = nearest(catalogue, question)
    kept = [
        entry
        for entry in stored_frontier(entries, collective)
        if (max_steps is None or entry.cost(collective).steps <= max_steps)
        and (max_t_b is None or entry.cost(collective).t_b <= max_t_b)
    ]
    return LookedUp(question, answered, collective, tuple(kept))


def nearest(catalogue: Catalogue | Pools, question: Question) -> tuple[Question, tuple[Entry, ...]]:
    """All that is stored for a question, or for the nearest larger N that has designs.

    Raises ValueError if nothing stored comes near the question.
    """
    for nodes in range(question.num_nodes, question.num_nodes + _TRIES):
        candidate = Question(nodes, question.degree, question.bidirectional)
        entries = catalogue.entries(candidate)
        if entries:
            return candidate, entries
    raise ValueError(
        f"the catalogue has no design for {question.num_nodes} nodes of degree {question.degree}"
        + (" with links in both directions" if question.bidirectional else "")
        + f", nor for up to {_TRIES - 1} nodes more"
    )


def stored_frontier(entries: tuple[Entry, ...], collective: Collective) -> list[Entry]:
    """Entries whose cost no other one dominates, one a cost, the first stored of equals."""
    measured_first = sorted(entries, key=lambda entry: not entry.measured)
    return undominated(measured_first, lambda entry: entry.cost(collective))
