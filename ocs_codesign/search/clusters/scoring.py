"""Which recipe suits a cluster: the exact optimum of the whole cluster with each, and its steps."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, product
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.collective import Collective
from ocs_codesign.cost import split_dominated
from ocs_codesign.graphs.text import as_recipe
from ocs_codesign.networks.cards import ACROSS, RAILS
from ocs_codesign.networks.servers import CARD, INNER, OUTER
from ocs_codesign.question import Question
from ocs_codesign.reach import host_diameter
from ocs_codesign.schedulers.forest.optimum import optimum
from ocs_codesign.search.baselines import baseline_recipes
from ocs_codesign.search.catalogue.lookup import stored_frontier
from ocs_codesign.search.catalogue.store import Catalogue
from ocs_codesign.search.clusters.dealing import dealt
from ocs_codesign.search.clusters.description import NO_GRAPHS
from ocs_codesign.search.frontier import frontier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.network import Network
    from ocs_codesign.schedulers.forest.optimum import Optimum
    from ocs_codesign.search.clusters.description import Cluster

    Progress = Callable[[str, int, int], None]

MAX_CHOICES = 64
"""Combinations of recipes for rails of different NICs that are scored."""

SCORING = "Scoring"


@final
@dataclass(frozen=True, slots=True, eq=False)
class ClusterDesign:
    """A cluster with something that joins its NICs, and what it can do.

    ``recipes`` are one a rail, or one across, or none for packet switches, which ``name`` then
    names; ``by_rail`` says which NICs its nodes are (see ``Cluster.network``). ``halves`` are the
    optima of the collective, two of an allreduce; ``steps`` are the fewest of any schedule.
    """

    recipes: tuple[Recipe, ...]
    name: str
    by_rail: bool
    network: Network
    halves: tuple[Optimum, ...]
    steps: int
    unit_Bps: Fraction  # noqa: N815 - the unit keeps its case

    @property
    def distinct(self) -> tuple[Recipe, ...]:
        """The recipes, each once."""
        return tuple(dict.fromkeys(self.recipes))

    @property
    def algbw_Bps(self) -> Fraction:  # noqa: N802
        """M over the least time of long messages, in bytes a second."""
        return self.unit_Bps / sum(1 / half.algbw for half in self.halves)

    @property
    def narrowest(self) -> Optimum:
        """The optimum of the slower half."""
        return min(self.halves, key=lambda half: half.algbw)

    def bottleneck_links(self) -> NDArray[np.int64]:
        """Ids of the links that leave a narrowest cut: through optical ports where it can be.

        A card whose links to GPUs are as narrow as its ports goes to the side that keeps these
        links whole: the cut stays as narrow.
        """
        network, half = self.network, self.narrowest
        leaving = half.leaving()
        if half.cut is None or network.dimension is None:
            return leaving
        ends = (network.tail, network.head)
        tail, head = ends[::-1] if half.tasks[0].is_sum else ends
        touches = np.zeros((OUTER + 1, network.num_nodes), dtype=bool)
        for end in ends:
            touches[network.dimension, end] = True
        is_card = touches[CARD] & touches[OUTER] & ~touches[INNER]
        side, capacity = half.cut.side.copy(), half.cut.capacity
        at_cards = leaving[network.dimension[leaving] == CARD]
        for card in np.unique(np.concatenate([tail[at_cards], head[at_cards]])).tolist():
            if is_card[card]:
                side[card] ^= True
                moved = int(network.bandwidth[side[tail] & ~side[head]].sum())
                side[card] ^= moved > capacity
                capacity = min(capacity, moved)
        return np.flatnonzero(side[tail] & ~side[head])

    def point(self) -> tuple[int, Fraction]:
        """What designs are compared by: steps, and time a byte."""
        return self.steps, 1 / self.algbw_Bps


@final
@dataclass(frozen=True, slots=True, eq=False)
class ScoredCluster:
    """The designs of a cluster for a collective: undominated ones, ascending in steps, and others.

    ``baselines`` are a ring, a torus, and packet switches of the NICs' bandwidth: a rail each, and
    one of all as in a fat tree, which no way to join the NICs beats. ``messages`` are sizes in
    bytes that times are asked for. Recipes that are ``cut_off`` no longer join all GPUs.
    """

    cluster: Cluster
    collective: Collective
    candidates: tuple[ClusterDesign, ...]
    dominated: tuple[ClusterDesign, ...]
    baselines: tuple[ClusterDesign, ...]
    messages: tuple[Fraction, ...]
    cut_off: tuple[tuple[Recipe, ...], ...] = ()

    @property
    def bound(self) -> ClusterDesign:
        """The fat tree."""
        return self.baselines[-1]

    def least_time_s(self, design: ClusterDesign, message_bytes: Fraction) -> Fraction:
        """What no schedule of steps beats for M bytes, if a step takes the cluster's alpha."""
        alpha_s = self.cluster.alpha_s or Fraction(0)
        return alpha_s * design.steps + message_bytes / design.algbw_Bps

    @property
    def best(self) -> ClusterDesign:
        """The candidate with the least time for the largest message, or the highest algbw."""
        if not self.messages:
            return min(self.candidates, key=lambda one: one.point()[::-1])
        largest = max(self.messages)
        return min(self.candidates, key=lambda one: self.least_time_s(one, largest))


def score_cluster(
    cluster: Cluster,
    collective: Collective,
    recipes: Sequence[Recipe | str] = (),
    messages: Sequence[Fraction] = (),
    on_progress: Progress | None = None,
    *,
    each_rail: bool = False,
) -> ScoredCluster:
    """Score these recipes on a cluster, or those on the frontier of the sizes that it needs.

    ``each_rail`` if the recipes are those of one design, a rail each; else every rail has the same,
    and where none are given, a design whose rails differ is beside the frontier. Raises ValueError
    for recipes that do not fit, and if none is known.
    """
    given = [as_recipe(one, NO_GRAPHS) for one in recipes]
    if cluster.links_named and not given:
        raise ValueError(
            f"{cluster.links_named[0]} is no server and no NIC; a link is of one recipe: give the "
            "recipe too"
        )
    asked = cluster.questions()
    has_rails = cluster.wiring == RAILS and len(cluster.cards) > 1
    if each_rail:
        choices = [_one_each(cluster, given)]
    else:
        wanted = _given(asked, given) if given else _known(asked, on_progress)
        choices = [cluster.of_cards(choice) for choice in wanted]
    if has_rails and not given:
        ports = [card.num_ports for card in cluster.cards]
        spread = dealt(len(cluster.names), ports, bidirectional=cluster.bidirectional)
        choices += [spread] if spread else []
    beside = [cluster.of_cards(choice) for choice in _baselines(asked)]
    orders = (False, True) if cluster.wiring == ACROSS else (False,)
    plans = [(choice, order) for choice in choices for order in orders]
    compared = [(one, order) for one in beside if one not in choices for order in orders]
    scoring = _Scoring(cluster, collective, len(plans) + len(compared) + 2, on_progress)
    scored = [scoring.joined(*plan, damaged_links=True) for plan in plans]
    others = [scoring.joined(*plan, damaged_links=False) for plan in compared]
    if has_rails:
        others.append(scoring.design((), "packet switch a rail", cluster.switched()))
    others.append(scoring.design((), "fat tree of the same NICs", cluster.switched(as_one=True)))
    candidates, rest = split_dominated(filter(None, scored), ClusterDesign.point)
    if not candidates or others[-1] is None:
        raise ValueError(f"nothing joins all GPUs: {scoring.cut_off[0][1]}")
    designs = tuple(candidates), tuple(rest), tuple(filter(None, others))
    cut_off = tuple(recipes for recipes, _ in scoring.cut_off)
    return ScoredCluster(cluster, collective, *designs, tuple(messages), cut_off)


class _Scoring:
    """Makes designs of a cluster one by one, and tells how far it is."""

    def __init__(
        self, cluster: Cluster, collective: Collective, total: int, on_progress: Progress | None
    ) -> None:
        self.cluster, self.collective, self.unit_Bps = cluster, collective, cluster.unit()[1]
        self.done, self.total, self.on_progress = 0, total, on_progress
        self.cut_off: list[tuple[tuple[Recipe, ...], str]] = []

    def joined(
        self, recipes: tuple[Recipe, ...], by_rail: bool, *, damaged_links: bool
    ) -> ClusterDesign | None:
        """The design of a recipe for every rail, or one across; None as in ``design``."""
        network = self.cluster.network(recipes, by_rail=by_rail, damaged_links=damaged_links)
        return self.design(recipes, "", network, by_rail)

    def design(
        self, recipes: tuple[Recipe, ...], name: str, network: Network, by_rail: bool = False
    ) -> ClusterDesign | None:
        """The design of a network; None, and noted, if a GPU is cut off."""
        if self.on_progress is not None:
            self.on_progress(SCORING, self.done, self.total)
        self.done += 1
        parts = self.collective.halves()
        try:
            steps = host_diameter(network) * len(parts)
        except ValueError as error:
            self.cut_off.append((recipes, str(error)))
            return None
        halves = tuple(optimum(network, half) for half in parts)
        return ClusterDesign(recipes, name, by_rail, network, halves, steps, self.unit_Bps)


def _one_each(cluster: Cluster, recipes: Sequence[Recipe]) -> tuple[Recipe, ...]:
    rails = 1 if cluster.wiring == ACROSS else len(cluster.cards)
    if len(recipes) != rails:
        raise ValueError(f"{len(recipes)} recipes are given, but there are {rails} rails")
    return tuple(recipes)


def _given(asked: Sequence[Question], recipes: Sequence[Recipe]) -> list[tuple[Recipe, ...]]:
    """All choices among the recipes; where NICs differ, one for every number of ports."""
    if len(asked) == 1:
        return [(recipe,) for recipe in dict.fromkeys(recipes)]
    fitting = [[one for one in recipes if one.degree == each.degree] for each in asked]
    for question, found in zip(asked, fitting, strict=True):
        if not found:
            raise ValueError(f"no recipe was given for the NICs of {question.degree} ports")
    return _products(fitting)


def _products(each: Iterable[Sequence[Recipe]]) -> list[tuple[Recipe, ...]]:
    return list(islice(product(*each), MAX_CHOICES))


def _known(asked: Sequence[Question], on_progress: Progress | None) -> list[tuple[Recipe, ...]]:
    """The frontiers of the questions, and all combinations where these are several."""
    return _products([_frontier(question, on_progress) for question in asked])


def _frontier(question: Question, on_progress: Progress | None) -> list[Recipe]:
    """The frontier, what is stored of it if anything is; of fewer ports if these are too many."""
    nodes, ports = question.num_nodes, question.degree
    degree = next(d for d in range(min(ports, nodes - 1), 0, -1) if ports % d == 0)
    question = Question(nodes, degree, question.bidirectional)
    with Catalogue() as store:
        stored = stored_frontier(store.entries(question), Collective.ALLGATHER)
    if stored:
        return [entry.design().recipe for entry in stored]
    found = frontier(nodes, degree, bidirectional=question.bidirectional, on_progress=on_progress)
    return [design.recipe for design in found.candidates]


def _baselines(asked: Sequence[Question]) -> list[tuple[Recipe, ...]]:
    """The ring and the torus of every question, as many as all have."""
    return list(zip(*(baseline_recipes(question) for question in asked), strict=False))
