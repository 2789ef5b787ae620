"""Switches unrolled: links between hosts alone, paths through switches with a part of their rate.

Parts are divided for ever, although not all links are busy at all times: what is found over them
is an upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, lcm
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.collective import Collective
from ocs_codesign.schedulers.forest.optimum import optimum
from ocs_codesign.schedulers.forest.splitting import split_off, without_common_divisor
from ocs_codesign.schedulers.greedy.links import MAX_TICKS, TickLinks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.network import Network


@final
@dataclass(frozen=True, slots=True, eq=False)
class Unrolled:
    """Links between hosts, number i over the network's links ``paths[i]``.

    A tick of the network's own ``physical`` links is the same as theirs.
    """

    links: TickLinks
    paths: tuple[tuple[int, ...], ...]
    physical: TickLinks


def unrolled(network: Network, physical: TickLinks) -> Iterator[Unrolled]:
    """The ways to do without the switches of a network, each with links at their exact rates.

    A star of equal hosts becomes links to d others each, for d that divide all others, at 1/d of
    the rate. The switches of any network are split off as those of forests are. Raises ValueError
    if hosts cannot reach each other.

    >>> from ocs_codesign.networks.switched import star
    >>> from ocs_codesign.schedulers.greedy.links import links_of_network
    >>> net = star(4, 10)
    >>> [way.links.busy.max() for way in unrolled(net, links_of_network(net, None))]
    [np.int64(1), np.int64(3)]
    """
    hosts, alike = network.num_hosts, (physical.busy == physical.busy[:1]).all()
    up, down = (
        np.flatnonzero((end < hosts) & (other == hosts))
        for end, other in ((network.tail, network.head), (network.head, network.tail))
    )
    is_star = network.num_nodes == hosts + 1 and network.num_links == 2 * hosts == 2 * len(up)
    if is_star and alike and len(np.unique(network.tail[up])) == hosts == len(down):
        out = up[np.argsort(network.tail[up])].tolist()
        into = down[np.argsort(network.head[down])].tolist()
        for offsets in (number for number in range(1, hosts) if (hosts - 1) % number == 0):
            pairs = [(i, (i + g) % hosts) for g in range(1, offsets + 1) for i in range(hosts)]
            paths = [(out[tail], into[head]) for tail, head in pairs]
            rates = [Fraction(1, offsets)] * len(pairs)
            yield _over(physical, hosts, pairs, rates, paths, network.chunk_ticks is not None)
        return
    yield _split(network, physical)


def _split(network: Network, physical: TickLinks) -> Unrolled:
    """Switches split off so that an allgather in many pieces stays as fast as it is."""
    found = optimum(network, Collective.ALLGATHER)
    problem = found.tasks[0].problem
    scale, trees = found.trees
    shares = problem.capacity.tolist() if found.shares is None else found.shares.capacity[0]
    ends = zip(problem.tail.tolist(), problem.head.tolist(), strict=True)
    whole = zip(shares, problem.capacity.tolist(), strict=True)
    part = {pair: Fraction(share) / most for pair, (share, most) in zip(ends, whole, strict=True)}
    pairs = list(zip(network.tail.tolist(), network.head.tolist(), strict=True))
    wide = network.bandwidth.tolist()
    exact = [part.get(p, Fraction(0)) * w * scale for p, w in zip(pairs, wide, strict=True)]
    factor = lcm(*(value.denominator for value in exact))
    capacity = np.array([int(value * factor) for value in exact])
    split = split_off(problem, network.tail, network.head, capacity, trees * factor)
    scale *= Fraction(split.num_trees, trees)
    smaller = without_common_divisor(split)
    scale *= Fraction(smaller.num_trees, split.num_trees)
    arcs = smaller.arcs
    is_host = (arcs.tail < network.num_hosts) & (arcs.head < network.num_hosts)
    live = np.flatnonzero((arcs.capacity > 0) & is_host & (arcs.tail != arcs.head))
    path_start, on_path = arcs.paths(live)
    paths = [tuple(path.tolist()) for path in np.split(on_path, path_start[1:-1])]
    rates = [
        Fraction(part) / scale / wide[path[0]]
        for part, path in zip(arcs.capacity[live].tolist(), paths, strict=True)
    ]
    between = list(zip(arcs.tail[live].tolist(), arcs.head[live].tolist(), strict=True))
    ticks_given = network.chunk_ticks is not None
    return _over(physical, network.num_hosts, between, rates, paths, ticks_given)


def _over(
    physical: TickLinks,
    num_hosts: int,
    pairs: list[tuple[int, int]],
    rates: list[Fraction],
    paths: Sequence[tuple[int, ...]],
    ticks_given: bool,
) -> Unrolled:
    """Links over paths with a part of the rate of their first links; in finer ticks if need be.

    Where ticks are given they stay, and links take the next whole number of them.
    """
    busy = [int(physical.busy[path[0]]) / rate for rate, path in zip(rates, paths, strict=True)]
    finer = 1 if ticks_given else lcm(*{time.denominator for time in busy})
    if finer * max(busy) > MAX_TICKS:
        finer = 1  # times are rounded up then
    delay = np.array([sum(physical.delay[list(path)].tolist()) for path in paths])
    ends: NDArray[np.int64] = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    tick = None if physical.tick_s is None else physical.tick_s / finer
    links = TickLinks(
        num_hosts,
        ends[:, 0],
        ends[:, 1],
        np.array([ceil(time * finer) for time in busy], dtype=np.int64),
        delay.astype(np.int64) * finer,
        tick,
    )
    own = TickLinks(
        physical.num_nodes,
        physical.tail,
        physical.head,
        physical.busy * finer,
        physical.delay * finer,
        tick,
    )
    return Unrolled(links, tuple(paths), own)
