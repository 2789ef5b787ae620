"""Entrants: every way to make a plan that a comparison tries, with its choices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.comparison.contest import Contest
from ocs_codesign.schedulers.classic.options import RANK_MAP, SEARCH, SNAKE
from ocs_codesign.schedulers.classic.registry import CLASSIC
from ocs_codesign.schedulers.registry import SCHEDULERS

if TYPE_CHECKING:
    from collections.abc import Iterator

RINGS = "rings"
IN_NETWORK = "in-network"
MAX_EXACT_NODES = 6
MAX_SEARCHED_HOSTS = 128
FOREST_PARTS = (1, 4, 16, 64)
MAX_FOREST_SENDS = 2**25
"""Sends of a forest up to which it is made; twice as many take gigabytes."""

CHUNKS = (1, 4, 16, 64)


@final
@dataclass(frozen=True, slots=True)
class Entrant:
    """A maker by name with its ``options``: a scheduler, or, if ``is_classic``, an algorithm."""

    maker: str
    options: tuple[tuple[str, Any], ...] = ()
    is_classic: bool = False

    @property
    def has_plan(self) -> bool:
        """Whether it makes a plan that can be kept, and not packets of which switches make sums."""
        return self.maker != IN_NETWORK

    @property
    def label(self) -> str:
        """The maker with its options, as in ``forest parts=4``."""
        return " ".join([self.maker, *(f"{name}={_text(value)}" for name, value in self.options)])

    @property
    def key(self) -> str:
        """A file name of its own."""
        plain = self.label.replace("=", "-").replace(",", "x").replace("/", "over")
        return "-".join(plain.split())


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def entrants(contest: Contest) -> list[Entrant]:
    """All that may make the contest's collective, most of them in several ways."""
    in_network = _in_network(contest)
    return [*in_network, *_schedulers(contest), *_classics(contest), *_rings(contest)]


def _in_network(contest: Contest) -> Iterator[Entrant]:
    """Switches that add up, as the contest's profile says."""
    if contest.aggregation is not None:
        yield Entrant(IN_NETWORK, (("by", contest.aggregation.name),))


def _schedulers(contest: Contest) -> Iterator[Entrant]:
    for name, scheduler in SCHEDULERS.items():
        if scheduler.is_classic or not scheduler.can_make(contest.collective):
            continue
        if scheduler.needs_recipe and contest.recipe is None:
            continue
        if contest.has_switches and not scheduler.knows_switches:
            continue
        if name == "exact" and contest.num_hosts > MAX_EXACT_NODES:
            continue
        for options in _choices(name, contest):
            yield Entrant(name, options)


def _choices(name: str, contest: Contest) -> Iterator[tuple[tuple[str, Any], ...]]:
    if name == "forest":
        roots = contest.num_hosts if contest.collective.root is None else 1
        for trees in (None, 1):
            for parts in FOREST_PARTS:
                if parts > 1 and parts * roots * contest.num_hosts > MAX_FOREST_SENDS:
                    continue
                limits = {"trees": trees, "parts": parts}
                yield tuple((key, value) for key, value in limits.items() if value is not None)
        return
    yield ()


def _classics(contest: Contest) -> Iterator[Entrant]:
    for name, algorithm in CLASSIC.items():
        if contest.collective.name not in algorithm.collectives:
            continue
        for options in _variants(algorithm.options, contest):
            yield Entrant(name, options, is_classic=True)
        for rank_map in _rank_maps(name, contest):
            yield Entrant(name, ((RANK_MAP, rank_map),), is_classic=True)


def _rings(contest: Contest) -> Iterator[Entrant]:
    """Rings side by side on the ports of hosts that are linked to each other."""
    if not contest.has_switches and SCHEDULERS[RINGS].can_make(contest.collective):
        yield Entrant(RINGS, is_classic=True)


def _rank_maps(name: str, contest: Contest) -> Iterator[str]:
    """Rank maps beside the identity: along a grid's rows to and fro, and for rings a search."""
    if "dims" in CLASSIC[name].options or contest.collective.root is not None:
        return
    if contest.sides:
        yield SNAKE
    if name == "ring" and contest.num_hosts <= MAX_SEARCHED_HOSTS:
        yield SEARCH


def _variants(names: tuple[str, ...], contest: Contest) -> Iterator[tuple[tuple[str, Any], ...]]:
    """The options of an algorithm worth trying: numbers of chunks, and the sides of the grid."""
    sides = contest.sides
    if "dims" in names and not sides:
        return
    grid: tuple[tuple[str, Any], ...] = (("dims", sides),) if "dims" in names else ()
    counted = next((name for name in ("chunks", "chunks_per_tree") if name in names), None)
    if counted is None:
        yield grid
        return
    for chunks in CHUNKS:
        yield (*grid, (counted, chunks))
