"""All-to-alls of small messages on one switch: in how many phases, and with which radices.

In a phase of radix r a rank sends r - 1 messages, each with all pieces that have a digit in common:
fewer messages than to everybody, each piece as often as there are phases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator


class MessageCost(NamedTuple):
    """What a message takes out of a rank, and a phase beside that: seconds, and bytes a second."""

    overhead_s: float
    alpha_s: float
    bandwidth_Bps: float  # noqa: N815 - units keep their case

    def time_s(self, messages: float, num_bytes: float) -> float:
        """The time of a phase."""
        return self.alpha_s + messages * self.overhead_s + num_bytes / self.bandwidth_Bps


def factorings(number: int, least: int = 2) -> Iterator[tuple[int, ...]]:
    """A number as products of factors that grow, itself among them.

    >>> list(factorings(12))
    [(12,), (2, 6), (2, 2, 3), (3, 4)]
    """
    yield (number,)
    factor = least
    while factor * factor <= number:
        if number % factor == 0:
            yield from ((factor, *rest) for rest in factorings(number // factor, factor))
        factor += 1


def phases_time_s(radices: tuple[int, ...], message_bytes: float, wire: MessageCost) -> float:
    """The time of phases of these radices, whose product is the number of ranks."""
    return sum(wire.time_s(each - 1, message_bytes * (each - 1) / each) for each in radices)


def bruck_time_s(num_ranks: int, radix: int, message_bytes: float, wire: MessageCost) -> float:
    """The time of a Bruck all-to-all, which takes any number of ranks."""
    away, place, total = np.arange(num_ranks), 1, 0.0
    while place < num_ranks:
        digit = away // place % radix
        moved = np.count_nonzero(digit) / num_ranks
        peers = int(np.count_nonzero(np.unique(digit)))
        total += wire.time_s(peers, message_bytes * moved)
        place *= radix
    return total


def best_phases(num_ranks: int, message_bytes: float, wire: MessageCost) -> tuple[int, ...]:
    """The radices of phases that take least, one of all ranks for a direct exchange.

    >>> wire = MessageCost(1e-6, 4e-6, 50e9)
    >>> [best_phases(512, size, wire) for size in (2**10, 2**18, 2**22, 2**26)]
    [(4, 4, 4, 8), (8, 8, 8), (16, 32), (512,)]
    """
    return min(factorings(num_ranks), key=lambda one: phases_time_s(one, message_bytes, wire))


def best_bruck_radix(num_ranks: int, message_bytes: float, wire: MessageCost) -> int:
    """The radix of the Bruck all-to-all that takes least."""
    tried = range(2, max(num_ranks, 2) + 1)
    return min(tried, key=lambda one: bruck_time_s(num_ranks, one, message_bytes, wire))


def even_phases(num_ranks: int) -> list[tuple[int, ...]]:
    """Of every number of phases above one the factors that make fewest messages.

    >>> even_phases(24)
    [(4, 6), (2, 3, 4), (2, 2, 2, 3)]
    """
    best: dict[int, tuple[int, ...]] = {}
    for each in factorings(num_ranks):
        known = best.get(len(each))
        if known is None or (sum(each), each[::-1]) < (sum(known), known[::-1]):
            best[len(each)] = each
    return [best[count] for count in sorted(best) if count > 1]


def even_radices(num_ranks: int) -> list[int]:
    """Of every number of phases between one and that of radix 2 the least radix that it takes.

    >>> even_radices(24)
    [5, 3, 2]
    """
    found: dict[int, int] = {}
    for count in range(2, max(num_ranks - 1, 1).bit_length() + 1):
        radix = next(one for one in range(2, num_ranks + 1) if one**count >= num_ranks)
        found[radix] = count
    return list(found)
