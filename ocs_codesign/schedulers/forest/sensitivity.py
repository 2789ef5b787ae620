"""What a change of the network does to an optimum: upgrades that help, losses that hurt, slack."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.cuts.dissemination import first_short
from ocs_codesign.network import MAX_BANDWIDTH
from ocs_codesign.schedulers.forest.optimum import optimum

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ocs_codesign.network import Network
    from ocs_codesign.schedulers.forest.optimum import Optimum


@final
@dataclass(frozen=True, slots=True)
class RateLoss:
    """What is left of the rate, from 0 to 1, when ``what`` is lost: 0 if a host is cut off."""

    what: str
    rate_left: Fraction


def helpful_links(found: Optimum) -> list[int]:
    """Links of which one alone, were it wider, would raise the rate; they leave the cut.

    There is often none: where several cuts are as narrow, all have to be widened. Empty where
    there is no cut.

    >>> from ocs_codesign.collective import Collective
    >>> from ocs_codesign.network import Network
    >>> two = Network(2, 2, [0, 1], [1, 0], [1, 5])
    >>> helpful_links(optimum(two, Collective.ALLGATHER))
    [0]
    """
    return [link for link in found.leaving().tolist() if _wider(found, link) < found.inv_rate]


def _wider(found: Optimum, link: int) -> Fraction:
    network = found.network
    bandwidth = network.bandwidth.copy()
    bandwidth[link] = min(MAX_BANDWIDTH, 2 * int(bandwidth.sum()))
    return optimum(network.changed(bandwidth), found.demand).inv_rate


def losses(found: Optimum, on_progress: Callable[[int, int], None] | None = None) -> list[RateLoss]:
    """What is left of the rate when one cable or one switch is lost, the worst first.

    A cable is all links between two nodes, both ways. Hosts stay: a demand is of all of them.
    """
    network = found.network
    ends = np.sort([network.tail, network.head], axis=0).T
    cables, cable_of = np.unique(ends, axis=0, return_inverse=True)
    switches = range(network.num_hosts, network.num_nodes)
    total, told = len(cables) + len(switches), []
    for at, (one, other) in enumerate(cables.tolist()):
        lost = np.flatnonzero(cable_of.ravel() == at).tolist()
        what = f"cable {network.name(one)} - {network.name(other)}"
        told.append(RateLoss(what, _rate_left(found, network.without(links=lost))))
        if on_progress is not None:
            on_progress(at + 1, total)
    for at, switch in enumerate(switches):
        left = network.without(nodes=[switch])
        told.append(RateLoss(f"switch {network.name(switch)}", _rate_left(found, left)))
        if on_progress is not None:
            on_progress(len(cables) + at + 1, total)
    return sorted(told, key=lambda loss: loss.rate_left)


def _rate_left(found: Optimum, network: Network) -> Fraction:
    try:
        return found.inv_rate / optimum(network, found.demand).inv_rate
    except ValueError:
        return Fraction(0)


def spare_bandwidth(
    found: Optimum,
    links: Collection[int],
    on_progress: Callable[[int, int], None] | None = None,
) -> list[Fraction]:
    """How much of the bandwidth of each of these links alone no cut needs at the optimal rate.

    Raises ValueError where links are shared by groups or by unbalanced switches.
    """
    if found.shares is not None:
        raise ValueError("what shared links can spare is not known")
    spare = []
    for done, link in enumerate(links, 1):
        spare.append(_spare(found, link))
        if on_progress is not None:
            on_progress(done, len(links))
    return spare


def _spare(found: Optimum, link: int) -> Fraction:
    """By Newton's method: the link has what the cuts found so far need, until none is short."""
    network, task = found.network, found.tasks[0]
    problem = task.problem
    tail, head = (int(ends[link]) for ends in task.ends(network))
    width = int(network.bandwidth[link])
    if tail == head:
        return Fraction(width)
    arc = int(np.flatnonzero((problem.tail == tail) & (problem.head == head))[0])
    up, down = found.inv_rate.numerator, found.inv_rate.denominator
    # In parts of 1 / up of the bandwidth, in which all that has to pass is whole.
    capacity, own = problem.capacity.astype(object) * up, problem.weight.astype(object) * down
    full, ranks = int(capacity[arc]), np.flatnonzero(problem.is_rank)
    capacity[arc] = full - width * up
    while True:
        position, outside = first_short(problem, ranks, 0, capacity, own)
        if position == len(ranks):
            return Fraction(full - int(capacity[arc]), up)
        enters = ~outside[problem.tail] & outside[problem.head]
        capacity[arc] += int(own[~outside].sum()) - int(capacity[enters].sum())
