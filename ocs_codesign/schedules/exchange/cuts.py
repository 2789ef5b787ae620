"""Cuts of a network that an exchange crosses: of every cheap family the narrowest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.core.compute.components import connected
from ocs_codesign.core.compute.cuts import Cut

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from numpy.typing import NDArray

    from ocs_codesign.core.network import Network

_SWEPT_HOSTS = 64


def cut_bound(
    network: Network, demand: NDArray[np.int64] | None = None, enough: Fraction | None = None
) -> Cut | None:
    """Of the cheap families the cut that takes longest, None if nothing crosses one.

    A cut takes ``inv_rate``, what one side has for the other over the bandwidth that leaves it.
    The first that takes ``enough`` will do. Families, each with its complements: single nodes; what
    links of some speed, levels of switches or all dimensions but one join; a switch with its hosts;
    nodes as they are numbered, behind the hosts that reach them first and by hops from hosts, up to
    each.
    """
    best: Cut | None = None
    for found in _cuts(network, demand):
        if found is not None and (best is None or found.inv_rate > best.inv_rate):
            best = found
            if enough is not None and best.inv_rate >= enough:
                break
    return best


def _cuts(network: Network, demand: NDArray[np.int64] | None) -> Iterator[Cut | None]:
    """The best cut of every family."""
    for part in _parts(network):
        yield _of_parts(network, demand, part)
    yield _of_switches(network, demand)
    for order in _orders(network):
        yield _of_order(network, demand, order)


def _of_parts(
    network: Network, demand: NDArray[np.int64] | None, part: NDArray[np.int32]
) -> Cut | None:
    """The best cut around a part, or around all others."""
    ends = part[network.tail], part[network.head]
    leaves, size = ends[0] != ends[1], int(part.max()) + 1
    widths = [_summed(end[leaves], network.bandwidth[leaves], size) for end in ends]
    of_host = part[: network.num_hosts]
    if demand is None:
        inside = np.bincount(of_host, minlength=size)
        wants = [inside * (network.num_hosts - inside)] * 2
    else:
        apart = np.where(of_host[:, None] == of_host[None, :], 0, demand)
        wants = [_summed(of_host, apart.sum(axis=axis), size) for axis in (1, 0)]
    found = _steepest(wants, widths)
    if found is None:
        return None
    way, number, weight, capacity = found
    return Cut((part == number) ^ bool(way), weight, capacity)


def _of_switches(network: Network, demand: NDArray[np.int64] | None) -> Cut | None:
    """The best cut around a switch and the hosts linked to it, or around all others."""
    hosts, switches = network.num_hosts, network.num_nodes - network.num_hosts
    side = np.zeros((switches, network.num_nodes), dtype=bool)
    side[np.arange(switches), hosts + np.arange(switches)] = True
    for host, switch in ((network.tail, network.head), (network.head, network.tail)):
        meets = (host < hosts) & (switch >= hosts)
        side[switch[meets] - hosts, host[meets]] = True
    ends = side[:, network.tail], side[:, network.head]
    widths = [(here & ~there) @ network.bandwidth for here, there in (ends, ends[::-1])]
    inside = side[:, :hosts].astype(np.int64)
    if demand is None:
        wants = [inside.sum(axis=1) * (hosts - inside.sum(axis=1))] * 2
    else:
        wants = [(inside @ each * (1 - inside)).sum(axis=1) for each in (demand, demand.T)]
    found = _steepest(wants, widths)
    if found is None:
        return None
    way, number, weight, capacity = found
    return Cut(side[number] ^ bool(way), weight, capacity)


def _of_order(
    network: Network, demand: NDArray[np.int64] | None, order: NDArray[np.int64]
) -> Cut | None:
    """The best cut around the first nodes of an order, or around the others."""
    hosts, place = network.num_hosts, np.argsort(order)
    ends = place[network.tail], place[network.head]
    widths = []
    for near, far in (ends, ends[::-1]):
        ahead, change = near < far, np.zeros(network.num_nodes, dtype=np.int64)
        np.add.at(change, near[ahead], network.bandwidth[ahead])
        np.add.at(change, far[ahead], -network.bandwidth[ahead])
        widths.append(np.cumsum(change))
    is_host = order < hosts
    inside = np.cumsum(is_host)
    if demand is None:
        wants = [inside * (hosts - inside)] * 2
    else:
        ordered = demand[np.ix_(order[is_host], order[is_host])] * ~np.eye(hosts, dtype=bool)
        within = np.cumsum(np.tril(ordered + ordered.T).sum(axis=1))
        sums = (np.cumsum(ordered.sum(axis=axis)) - within for axis in (1, 0))
        wants = [np.append(0, each)[inside] for each in sums]
    found = _steepest(wants, widths)
    if found is None:
        return None
    way, number, weight, capacity = found
    return Cut((place <= number) ^ bool(way), weight, capacity)


def _summed(number: NDArray[np.int32], values: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    total = np.zeros(size, dtype=np.int64)
    np.add.at(total, number, values)
    return total


def _steepest(
    wants: list[NDArray[np.int64]], widths: list[NDArray[np.int64]]
) -> tuple[int, int, int, int] | None:
    """The most demand over width: whether it goes into the set, which set it is, and both."""
    best: tuple[int, int, int, int] | None = None
    for way, (want, width) in enumerate(zip(wants, widths, strict=True)):
        ratio = np.where((want > 0) & (width > 0), want / np.maximum(width, 1), 0.0)
        # Close ratios differ in exact arithmetic alone.
        for number in np.flatnonzero(ratio >= ratio.max(initial=0) * (1 - 1e-12))[:_TIES].tolist():
            weight, capacity = int(want[number]), int(width[number])
            if weight and (best is None or weight * best[3] > best[2] * capacity):
                best = way, number, weight, capacity
    return best


_TIES = 8


def _parts(network: Network) -> Iterator[NDArray[np.int32]]:
    """Which part every node is in: alone, by speed of links, up to a level, in dimensions."""
    nodes, ends = network.num_nodes, (network.tail, network.head)
    yield np.arange(nodes, dtype=np.int32)
    away = _levels(network)
    joins = [network.bandwidth >= least for least in np.unique(network.bandwidth)[1:]]
    joins += [np.maximum(*(away[end] for end in ends)) < level for level in np.unique(away)[1:]]
    if network.dimension is not None:
        joins += [network.dimension != axis for axis in np.unique(network.dimension)]
    for joined in joins:
        part = connected(ends[0][joined], ends[1][joined], nodes)
        if len(np.unique(part[: network.num_hosts])) > 1:
            yield part


def _levels(network: Network) -> NDArray[np.int64]:
    """Hops from the nearest host to every node; a node that none reaches is of no level."""
    away = np.where(np.arange(network.num_nodes) < network.num_hosts, 0, -1)
    for level in range(network.num_nodes):
        reached = network.head[(away[network.tail] == level) & (away[network.head] < 0)]
        if not len(reached):
            break
        away[reached] = level + 1
    return away


def _orders(network: Network) -> Iterator[NDArray[np.int64]]:
    """Nodes as they are numbered, behind the hosts that reach them, and by hops from hosts."""
    far = network.topology().distances()[: network.num_hosts]
    yield np.argsort(far.argmin(axis=0), kind="stable")
    for host in range(0, network.num_hosts, -(-network.num_hosts // _SWEPT_HOSTS)):
        yield np.argsort(far[host], kind="stable")
