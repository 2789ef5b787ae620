"""Groups of a given order to search: a few of many kinds, the first of each kind first."""

from __future__ import annotations

from functools import lru_cache
from itertools import count, islice, product, zip_longest
from math import comb, factorial, gcd
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.core.compute.integers import divisors
from ocs_codesign.graphs.groups.cyclic import Cyclic, DirectProduct, Permutations
from ocs_codesign.graphs.groups.semidirect import (
    Affine,
    Dicyclic,
    Dihedral,
    Semidirect,
    matrix_power,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from ocs_codesign.graphs.groups.group import Group

    Images = tuple[int, ...]


_PRIMES = (7, 11, 13)
"""Of the projective lines: up to 2,184 elements."""
_MAX_FIELD = 2048
_MAX_PRODUCTS = 16
_MAX_PRODUCTS_PER_FACTOR = 4


def groups_of_order(order: int) -> Iterator[Group]:
    """Groups of that order, taken in turn from every kind; no two by the same name.

    Groups that two kinds share are listed once where that is easy to tell.

    >>> [group.label() for group in groups_of_order(8)]
    ['Z8', 'D4', 'Dic2', 'Z4×Z2', 'Z2×Z2×Z2']
    >>> [group.label() for group in groups_of_order(21)]
    ['Z21', 'Z7⋊Z3']
    >>> [group.label() for group in islice(groups_of_order(72), 7)]
    ['Z72', 'Z9⋊Z8', 'Z3²⋊Z8', 'Z6²⋊Z2', 'D36', 'Dic18', 'Z6⋊Z6×Z2']
    """
    return _in_turn(
        [_cyclic(order), *_non_abelian(order), _with_cyclic_factor(order), _abelian(order)]
    )


def _non_abelian(order: int) -> list[Iterator[Group]]:
    """Every kind of groups that are not direct products."""
    kinds = (_permuted, _metacyclic, _affine, _wreath, _unipotent, _dihedral, _dicyclic)
    return [kind(order) for kind in kinds]


def _cyclic(order: int) -> Iterator[Group]:
    yield Cyclic(order)


def _dihedral(order: int) -> Iterator[Group]:
    if order % 2 == 0 and order >= 6:
        yield Dihedral(order // 2)


def _dicyclic(order: int) -> Iterator[Group]:
    if order % 4 == 0 and order >= 8:
        yield Dicyclic(order // 4)


def _metacyclic(order: int) -> Iterator[Group]:
    """Z_n : Z_m for every n m = order in turn, similar n and m first: most often the best."""
    sizes = sorted(divisors(order), key=lambda m: (max(m, order // m), -m))
    return _in_turn(_semidirect(order // m, m) for m in sizes)


def _semidirect(n: int, m: int) -> Iterator[Group]:
    """Z_n : Z_m with one generator of every group of actions that is listed nowhere else.

    Inversion gives the dihedral group for m = 2, and the dicyclic group for m = 4 and odd n.
    """
    if m < 2:
        return
    seen: set[frozenset[int]] = set()
    for action in range(2, n):
        if pow(action, m, n) != 1:
            continue
        if action == n - 1 and (m == 2 or (m == 4 and n % 2 == 1)):
            continue
        if not _primes_divide(n, n // gcd(n, action - 1) * m):
            continue  # a direct factor of Z_n that may as well be one of Z_m
        powers = frozenset(pow(action, k, n) for k in range(m))
        if powers not in seen:
            seen.add(powers)
            yield Semidirect(n, m, action)


def _affine(order: int) -> Iterator[Group]:
    """The affine maps x -> a x + b of the field of p^k elements for a in a subgroup; k >= 2."""
    for p, k in _powers_dividing(order):
        m = order // p**k
        if p**k <= _MAX_FIELD and m > 1 and (p**k - 1) % m == 0 and _is_prime(p):
            matrix = matrix_power(_field_generator(p, k), (p**k - 1) // m, p)
            yield Affine(p, _rows(matrix), m)


def _wreath(order: int) -> Iterator[Group]:
    """Wreath products of Z_n and Z_k, but D4 and those of Z_n and Z_2 that are metacyclic."""
    for n, k in _powers_dividing(order):
        if n**k * k == order and (k > 2 or (n > 2 and n % 2 == 0)):
            yield Affine(n, _rows(np.roll(np.eye(k, dtype=np.int64), 1, axis=1)), k)


def _unipotent(order: int) -> Iterator[Group]:
    """Z_n^k : Z_m by a Jordan block of order m; for k = 2 the Heisenberg group of Z_n.

    For a prime n and m = k it is the wreath product of Z_n and Z_k.
    """
    for n, k in _powers_dividing(order):
        m = next(m for m in count(n, n) if all(comb(m, j) % n == 0 for j in range(1, k)))
        if n**k * m == order and not (m == k and _is_prime(n)):
            yield Affine(n, _rows(np.eye(k, dtype=np.int64) + np.eye(k, k=1, dtype=np.int64)), m)


def _permuted(order: int) -> Iterator[Group]:
    """Symmetric, alternating and projective groups, SL(2, p), and affine ones of few elements.

    PSL(2, 7) and AGammaL(1, 8) have the same order, as have A5 and PSL(2, 5), which are the same.
    """
    for generators in _permutations_of(order):
        group = Permutations(*generators)
        if group.order == order:
            yield group


def _permutations_of(order: int) -> Iterator[tuple[Images, ...]]:
    """Generators of groups that may have this order."""
    for points in (4, 5, 6):
        turn, third = (*range(1, points), 0), (1, 2, 0, *range(3, points))
        if order == factorial(points):
            yield turn, (1, 0, *range(2, points))
        if points > 4 and 2 * order == factorial(points):
            yield turn if points % 2 else (0, *range(2, points), 1), third
    for p in _PRIMES:
        whole = p * (p * p - 1)
        shift = (*((x + 1) % p for x in range(p)), p)
        turned = (p, *((-pow(x, -1, p)) % p for x in range(1, p)), 0)
        if 2 * order == whole:
            yield shift, turned
        if order == whole:
            primitive = next(
                a for a in range(2, p) if len({pow(a, k, p) for k in range(p)}) == p - 1
            )
            yield shift, turned, (*(primitive * x % p for x in range(p)), p)
            yield _on_vectors(p, ((1, 1), (0, 1))), _on_vectors(p, ((0, 1), (p - 1, 0)))
    if order in (168, 504):
        add, root = tuple(x ^ 1 for x in range(8)), _of_powers(lambda number: number + 1)
        if order == 168:
            yield add, root, _of_powers(lambda number: 2 * number)
        else:
            yield (*add, 8), (*root, 8), (8, *_of_powers(lambda number: -number)[1:], 0)
    if order == 432:
        move = tuple((x + 3) % 9 for x in range(9))
        yield (
            move,
            *(
                tuple(
                    3 * ((a * (x // 3) + b * (x % 3)) % 3) + (c * (x // 3) + d * (x % 3)) % 3
                    for x in range(9)
                )
                for a, b, c, d in ((1, 1, 0, 1), (1, 0, 1, 1), (2, 0, 0, 1))
            ),
        )


def _on_vectors(p: int, matrix: tuple[Images, Images]) -> Images:
    """A matrix as a permutation of the vectors of two entries that are not zero."""
    (a, b), (c, d) = matrix
    vectors = [(x, y) for x in range(p) for y in range(p) if x or y]
    place = {vector: number for number, vector in enumerate(vectors)}
    return tuple(place[(a * x + b * y) % p, (c * x + d * y) % p] for x, y in vectors)


def _of_powers(exponent: Callable[[int], int]) -> Images:
    """What takes the k-th power of a root of x^3 + x + 1 to another, in the field of eight."""
    powers = [1]
    while len(powers) < 7:
        doubled = 2 * powers[-1]
        powers.append(doubled ^ 0b1011 if doubled & 8 else doubled)
    images = [0] * 8
    for number, power in enumerate(powers):
        images[power] = powers[exponent(number) % 7]
    return tuple(images)


def _with_cyclic_factor(order: int) -> Iterator[Group]:
    """Direct products of a non-abelian and a cyclic group, a few for every cyclic group."""
    return islice(_in_turn(_times_cyclic(order // c, c) for c in divisors(order)), _MAX_PRODUCTS)


def _times_cyclic(order: int, c: int) -> Iterator[Group]:
    if c < 2:
        return
    groups = (group for group in _in_turn(_non_abelian(order)) if _is_new_times(group, c))
    for group in islice(groups, _MAX_PRODUCTS_PER_FACTOR):
        yield DirectProduct(group, Cyclic(c))


def _is_new_times(group: Group, c: int) -> bool:
    """False if the product with Z_c is metacyclic, dihedral or one with a wreath product."""
    match group:
        case Dihedral(n):
            return _primes_divide(c, gcd(n, 2))
        case Semidirect(n, m):
            return _primes_divide(c, gcd(n, m))
        case Dicyclic(n):
            return n % 2 == 0
        case Affine(n, matrix, m):
            irreducible = {pow(n, i, m) for i in range(m)} == set(range(1, m))
            return not (irreducible and len(matrix) == m - 1 and gcd(c, n * n) == n)
    return True


def _abelian(order: int) -> Iterator[Group]:
    """Products of two or more cyclic groups, each order dividing the one before."""
    for orders in _chains(order, order):
        if len(orders) > 1:
            yield DirectProduct(*(Cyclic(n) for n in orders))


def _chains(order: int, largest: int) -> Iterator[tuple[int, ...]]:
    if order == 1:
        yield ()
        return
    for first in reversed(divisors(order)):
        if first > 1 and largest % first == 0:
            for rest in _chains(order // first, first):
                yield (first, *rest)


def _in_turn(sources: Iterable[Iterator[Group]]) -> Iterator[Group]:
    """The first group of every source, then the second of every source, and so on."""
    for row in zip_longest(*sources):
        yield from (group for group in row if group is not None)


@lru_cache
def _field_generator(p: int, k: int) -> NDArray[np.int64]:
    """Companion matrix of the first primitive polynomial of degree k over the field of p elements.

    A matrix whose order is p^k - 1 has a primitive characteristic polynomial: no product of smaller
    fields has an element of that order.
    """
    order = p**k - 1
    largest = [order // q for q in divisors(order) if _is_prime(q)]
    one = np.eye(k, dtype=np.int64)
    for coefficients in product(range(p), repeat=k):
        matrix = np.eye(k, k=-1, dtype=np.int64)
        matrix[::-1, -1] = coefficients
        if np.array_equal(matrix_power(matrix, order, p), one) and not any(
            np.array_equal(matrix_power(matrix, power, p), one) for power in largest
        ):
            return matrix
    raise ValueError(f"{p} is not a prime number")


def _rows(matrix: NDArray[np.int64]) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, matrix.tolist()))


def _powers_dividing(order: int) -> Iterator[tuple[int, int]]:
    """All n and k of at least 2 with n^k a divisor of the order."""
    for n in divisors(order):
        k = 2
        while n > 1 and order % n**k == 0:
            yield n, k
            k += 1


def _primes_divide(number: int, other: int) -> bool:
    """Whether every prime factor of the number divides the other one.

    >>> _primes_divide(12, 6), _primes_divide(12, 8)
    (True, False)
    """
    return pow(other, number.bit_length(), number) == 0


def _is_prime(number: int) -> bool:
    return len(divisors(number)) == 2
