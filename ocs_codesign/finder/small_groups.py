"""Groups of a given order to search: abelian products, dihedral, dicyclic and metacyclic ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.groups import Cyclic, Dicyclic, Dihedral, DirectProduct, Semidirect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.groups import Group


def groups_of_order(order: int) -> Iterator[Group]:
    """Groups of that order, no two of the same construction and parameters up to generators.

    >>> [group.label() for group in groups_of_order(8)]
    ['Z8', 'D4', 'Dic2', 'Z4×Z2', 'Z2×Z2×Z2']
    >>> [group.label() for group in groups_of_order(21)]
    ['Z21', 'Z7⋊Z3']
    """
    yield Cyclic(order)
    if order % 2 == 0 and order >= 6:
        yield Dihedral(order // 2)
    if order % 4 == 0 and order >= 8:
        yield Dicyclic(order // 4)
    yield from _semidirect(order)
    yield from _abelian(order)


def _semidirect(order: int) -> Iterator[Group]:
    """Z_n : Z_m for every n m = order and one generator of every group of actions but +-1."""
    for m in _divisors(order):
        n = order // m
        if m < 2 or n < 3:
            continue
        seen: set[frozenset[int]] = set()
        for action in range(2, n):
            if pow(action, m, n) != 1 or (m == 2 and action == n - 1):
                continue
            powers = frozenset(pow(action, k, n) for k in range(m))
            if powers not in seen:
                seen.add(powers)
                yield Semidirect(n, m, action)


def _abelian(order: int) -> Iterator[Group]:
    """Products of two or more cyclic groups, each order dividing the one before."""
    for orders in _chains(order, order):
        if len(orders) > 1:
            yield DirectProduct(*(Cyclic(n) for n in orders))


def _chains(order: int, largest: int) -> Iterator[tuple[int, ...]]:
    if order == 1:
        yield ()
        return
    for first in reversed(_divisors(order)):
        if first > 1 and largest % first == 0:
            for rest in _chains(order // first, first):
                yield (first, *rest)


def _divisors(number: int) -> list[int]:
    return [k for k in range(1, number + 1) if number % k == 0]
