"""Sets of pieces and of hosts as bits: who spreads which of them to whom in a phase."""

from __future__ import annotations

from collections import Counter
from math import gcd, lcm
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray


class Use(NamedTuple):
    """Pieces that a host spreads in a phase so that all of ``gets`` have them; who does before.

    Hosts and pieces are sets of bits. A piece is a part of what is of one root.
    """

    source: int
    holders: int
    pieces: int
    gets: int


def senders(
    relays: NDArray[np.bool_], own: list[int], classes: list[tuple[int, int]]
) -> Iterator[tuple[int, int, list[int]]]:
    """Holders and pieces of every class, both as bits, and which of the holders may send them.

    Those are relays; a piece that is the own one of another holder is of a class by itself.
    """
    for holders, pieces in classes:
        hosts = bits(holders)
        passing = [host for host in hosts if relays[host]]
        for host in hosts:
            mine = 0 if relays[host] else pieces & own[host]
            pieces &= ~mine
            if mine:
                yield holders, mine, sorted([*passing, host])
        if pieces and passing:
            yield holders, pieces, passing


def union(masks: Iterable[int]) -> int:
    """What is in any of the sets."""
    found = 0
    for mask in masks:
        found |= mask
    return found


def bits(mask: int) -> list[int]:
    """What is in a set, in order.

    >>> bits(0b1010)
    [1, 3]
    """
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def after(uses: Sequence[Use], have: list[int]) -> list[int]:
    """What hosts have after a phase."""
    told: dict[int, int] = {}
    for use in uses:
        told[use.gets] = told.get(use.gets, 0) | use.pieces
    has = list(have)
    for gets, pieces in told.items():
        for host in bits(gets):
            has[host] |= pieces
    return has


def classes_of(members: list[int], have: list[int], every: int) -> list[tuple[int, int]]:
    """Pieces by the hosts that have them: both as bits."""
    classes = [(0, every)]
    for host in members:
        parted = [
            (holders | with_it << host, pieces & (have[host] if with_it else ~have[host]))
            for holders, pieces in classes
            for with_it in (0, 1)
        ]
        classes = [(holders, pieces) for holders, pieces in parted if pieces]
    return classes


def shared_out(holders: int, pieces: int, everyone: int, sources: Sequence[int]) -> Iterator[Use]:
    """The pieces of one class divided between those of their holders that send them."""
    every = bits(pieces)
    for at, source in enumerate(sources):
        mine = union(1 << bit for bit in every[at :: len(sources)])
        if mine:
            yield Use(source, holders, mine, everyone)


def covering(holders: int, pieces: int, reach: dict[int, int]) -> Iterator[Use]:
    """The pieces of one class from those of the senders who reach most that none reached yet."""
    sources = dict(reach)
    while any(gets & ~holders for gets in sources.values()):
        source = max(sources, key=lambda host: (sources[host] & ~holders).bit_count())
        yield Use(source, holders, pieces, sources[source])
        holders |= sources.pop(source)


def one_of_alike(
    uses: list[Use], group: NDArray[Any], relays: NDArray[np.bool_]
) -> tuple[list[Use], int]:
    """Uses of which every piece takes one only of those that lead relays to the same groups.

    And in how many parts pieces would have to be cut to load all ways alike; 0 if none are alike.
    """
    pieces = [use.pieces for use in uses]
    if sum(map(int.bit_count, pieces)) == union(pieces).bit_count():
        return uses, 0
    goes_on = {use.gets: [host for host in bits(use.gets) if relays[host]] for use in uses}
    known = {gets: frozenset(group[hosts].tolist()) for gets, hosts in goes_on.items()}
    ways: dict[tuple[frozenset[int], int], list[int]] = {}
    for at, use in enumerate(uses):
        for bit in bits(use.pieces):
            ways.setdefault((known[use.gets], bit), []).append(at)
    often = Counter(map(tuple, ways.values()))
    parts = lcm(*(len(each) // gcd(len(each), count) for each, count in often.items()))
    kept, taken = [0] * len(uses), [0] * len(uses)
    for (_, bit), each in ways.items():
        least = min(each, key=taken.__getitem__)
        taken[least] += 1
        kept[least] |= 1 << bit
    rows = zip(uses, kept, strict=True)
    return [use._replace(pieces=mine) for use, mine in rows if mine], parts
