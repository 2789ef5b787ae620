"""Which recipe suits a cluster: the exact optimum of the whole cluster with each, and its steps."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, product
from typing import TYPE_CHECKING, final

from ocs_codesign.collective import Collective
from ocs_codesign.cost import split_dominated
from ocs_codesign.networks.servers import RAILS
from ocs_codesign.question import Question
from ocs_codesign.reach import host_diameter
from ocs_codesign.schedulers.forest.optimum import optimum
from ocs_codesign.search.baselines import baseline_recipes
from ocs_codesign.search.catalogue.lookup import stored_frontier
from ocs_codesign.search.catalogue.store import Catalogue
from ocs_codesign.search.frontier import frontier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

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

    ``recipes`` are one a number of ports, or none for packet switches, which ``name`` then names.
    ``halves`` are the optima of the collective, two of an allreduce; ``steps`` are the fewest that
    any schedule has.
    """

    recipes: tuple[Recipe, ...]
    name: str
    network: Network
    halves: tuple[Optimum, ...]
    steps: int
    unit_Bps: Fraction  # noqa: N815 - the unit keeps its case

    @property
    def algbw_Bps(self) -> Fraction:  # noqa: N802
        """M over the least time of long messages, in bytes a second."""
        return self.unit_Bps / sum(1 / half.algbw for half in self.halves)

    def least_time_s(self, alpha_s: Fraction, message_bytes: Fraction) -> Fraction:
        """What no schedule of steps of alpha beats for M bytes."""
        return alpha_s * self.steps + message_bytes / self.algbw_Bps

    def point(self) -> tuple[int, Fraction]:
        """What designs are compared by: steps, and time a byte."""
        return self.steps, 1 / self.algbw_Bps


@final
@dataclass(frozen=True, slots=True, eq=False)
class ScoredCluster:
    """The designs of a cluster for a collective: undominated ones, ascending in steps, and others.

    ``baselines`` are a ring, a torus, and packet switches of the NICs' bandwidth: a rail each, and
    one of all, which no way to join the NICs beats.
    """

    cluster: Cluster
    collective: Collective
    candidates: tuple[ClusterDesign, ...]
    dominated: tuple[ClusterDesign, ...]
    baselines: tuple[ClusterDesign, ...]

    @property
    def bound(self) -> ClusterDesign:
        """One packet switch of all NICs."""
        return self.baselines[-1]

    def best(self, alpha_s: Fraction | None, messages: Sequence[Fraction]) -> ClusterDesign:
        """The candidate with the least time for the largest message, or the highest algbw."""
        if alpha_s is None or not messages:
            return min(self.candidates, key=lambda one: one.point()[::-1])
        return min(self.candidates, key=lambda one: one.least_time_s(alpha_s, max(messages)))


def score(
    cluster: Cluster,
    collective: Collective,
    recipes: Sequence[Recipe] = (),
    on_progress: Progress | None = None,
) -> ScoredCluster:
    """Score these recipes on a cluster, or those on the frontier of the sizes that it needs.

    Raises ValueError for recipes that do not fit, and if none is known.
    """
    if cluster.links_named and not recipes:
        raise ValueError(
            f"{cluster.links_named[0]} is no server and no NIC; a link is of one recipe: give the "
            "recipe too"
        )
    asked = cluster.questions()
    choices = _given(asked, recipes) if recipes else _known(asked, on_progress)
    beside = [choice for choice in _baselines(asked) if choice not in choices]
    scored = []
    for done, choice in enumerate([*choices, *beside]):
        if on_progress is not None:
            on_progress(SCORING, done, len(choices) + len(beside) + 2)
        is_asked = done < len(choices)
        network = cluster.network(dict(zip(asked, choice, strict=True)), damaged_links=is_asked)
        scored.append(_design(cluster, collective, choice, "", network))
    switches = [("one packet switch", cluster.switched(as_one=True))]
    if cluster.wiring == RAILS and len(cluster.cards) > 1:
        switches.insert(0, ("a packet switch a rail", cluster.switched()))
    packets = [_design(cluster, collective, (), name, network) for name, network in switches]
    candidates, rest = split_dominated(scored[: len(choices)], ClusterDesign.point)
    return ScoredCluster(
        cluster,
        collective,
        tuple(candidates),
        tuple(rest),
        (*scored[len(choices) :], *packets),
    )


def _design(
    cluster: Cluster,
    collective: Collective,
    recipes: tuple[Recipe, ...],
    name: str,
    network: Network,
) -> ClusterDesign:
    parts = collective.halves()
    halves = tuple(optimum(network, half) for half in parts)
    steps = host_diameter(network) * len(parts)
    return ClusterDesign(recipes, name, network, halves, steps, cluster.unit()[1])


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
    found = frontier(
        nodes, degree, bidirectional=question.bidirectional, on_progress=on_progress
    )
    return [design.recipe for design in found.candidates]


def _baselines(asked: Sequence[Question]) -> list[tuple[Recipe, ...]]:
    """The ring and the torus of every question, as many as all have."""
    return list(zip(*(baseline_recipes(question) for question in asked), strict=False))
