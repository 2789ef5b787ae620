"""Switches and links of a network that stand in for those that a group's pattern names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from ocs_codesign.network import Network
    from ocs_codesign.workload.patterns import GroupPattern

MAX_SWITCHES, MAX_TRIES = 256, 100_000


def links_under(
    pattern: GroupPattern, ranks: tuple[int, ...], network: Network
) -> NDArray[np.int64]:
    """The network's link for every logical link of a pattern that names switches (int64).

    Rank i of the pattern is host ``ranks[i]``; a switch of the network stands in for every switch,
    another one for each, such that links join them as the pattern has them, as many in parallel.
    Raises ValueError where there are no such switches,
    and for more than MAX_SWITCHES of them. Links that nothing is sent over have no counterpart.
    """
    used = np.unique(pattern.logical[pattern.logical >= 0])
    wanted = _by_ends(used.tolist(), pattern.tail[used].tolist(), pattern.head[used].tolist())
    ends = network.tail.tolist(), network.head.tolist()
    there = _by_ends(range(network.num_links), *ends)
    image = dict(enumerate(ranks))
    switches = _in_reach(wanted, pattern.num_ranks)
    if len(switches) > MAX_SWITCHES:
        raise ValueError(f"a plan of a book names {len(switches)} switches: at most {MAX_SWITCHES}")
    if not _found(switches, image, wanted, there, network, [MAX_TRIES]):
        shown = ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
        raise ValueError(
            f"a plan of a book names {len(switches)} switches: no switches of the network join "
            f"the hosts {shown} with links as in the book's"
        )
    found = np.zeros(len(pattern.tail), dtype=np.int64)
    for (tail, head), links in wanted.items():
        found[links] = there[image[tail], image[head]][: len(links)]
    return found


def _by_ends(
    link: Iterable[int], tail: Iterable[int], head: Iterable[int]
) -> dict[tuple[int, int], list[int]]:
    """The links from every node to every other, in order."""
    found: dict[tuple[int, int], list[int]] = {}
    for one, *ends in zip(link, tail, head, strict=True):
        found.setdefault((ends[0], ends[1]), []).append(one)
    return found


def _in_reach(wanted: dict[tuple[int, int], list[int]], num_ranks: int) -> list[int]:
    """The switches, those first that links join to hosts or to switches before them."""
    beside: dict[int, set[int]] = {}
    for tail, head in wanted:
        beside.setdefault(tail, set()).add(head)
        beside.setdefault(head, set()).add(tail)
    order = sorted(node for node in beside if node < num_ranks)
    seen = set(order)
    for node in order:
        near = sorted(beside[node] - seen)
        order += near
        seen.update(near)
    order += sorted(set(beside) - seen)
    return [node for node in order if node >= num_ranks]


def _found(
    switches: list[int],
    image: dict[int, int],
    wanted: dict[tuple[int, int], list[int]],
    there: dict[tuple[int, int], list[int]],
    network: Network,
    tries: list[int],
) -> bool:
    """Whether the rest of the switches have stand-ins, which ``image`` then has; in order."""
    rest = [switch for switch in switches if switch not in image]
    if not rest:
        return all(
            len(links) <= len(there.get((image[tail], image[head]), ()))
            for (tail, head), links in wanted.items()
        )
    switch, taken = rest[0], set(image.values())
    mine = [ends for ends in wanted if switch in ends]
    for node in range(network.num_hosts, network.num_nodes):
        tries[0] -= 1
        if node in taken or tries[0] < 0:
            continue
        image[switch] = node
        fits = all(
            len(wanted[ends]) <= len(there.get((image[ends[0]], image[ends[1]]), ()))
            for ends in mine
            if ends[0] in image and ends[1] in image
        )
        if fits and _found(switches, image, wanted, there, network, tries):
            return True
        del image[switch]
    return False
