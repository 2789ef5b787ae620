"""Keep-or-switch by trying every plan, and random instances small enough for that."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np

from ocs_codesign.circuits.legs.plan import LegProblem

INFINITE = float("inf")
COSTS = [(4, 9), (4, 9), (9, 4), (4, 9), (9, 4), (9, 4)]


@dataclass(frozen=True)
class Instance:
    """Lists of exact numbers; every step is its own row."""

    costs: list
    delta: list
    first: list
    gaps: list
    start: int | None
    uniform: bool

    def problem(self) -> LegProblem:
        delta = table(self.delta)
        if self.uniform:
            delta = self.delta[0][-1] if len(self.delta) > 1 else 0
        entry = {"start": self.start} if self.start is not None else {"first": table(self.first)}
        return LegProblem(table(self.costs), delta, gaps=table(self.gaps), **entry)

    def scaled(self, factor: Fraction) -> Instance:
        delta = [[times(price, factor) for price in row] for row in self.delta]
        first = [times(price, factor) for price in self.first]
        return Instance(self.costs, delta, first, self.gaps, self.start, self.uniform)


def table(values) -> np.ndarray:
    """Numbers as they are: numpy would make floats of integers next to an infinity."""
    array = np.empty(np.shape(values), dtype=object)
    array[...] = values
    return array


def times(price, factor):
    return price if price == INFINITE else price * factor


def brute_force(one: Instance):
    """The least (total, switches) of all plans; None if there is no plan."""
    best = None
    for choice in product(range(len(one.first)), repeat=len(one.costs)):
        found = total_of(one, choice)
        if found is not None and (best is None or found < best):
            best = found
    return best


def total_of(one: Instance, choice):
    total, switches, held = Fraction(0), 0, one.start
    for step, topology in enumerate(choice):
        price = one.first[topology] if step == 0 else one.delta[held][topology]
        if INFINITE in (price, one.costs[step][topology]):
            return None
        total += max(Fraction(0), price - one.gaps[step]) + one.costs[step][topology]
        switches += held is not None and held != topology
        held = topology
    return total, switches


def random_instance(random, *, scale=1, gaps=True, metric=None, endless=True) -> Instance:
    """Up to five steps on up to four topologies, of small numbers times ``scale``.

    ``metric`` may be "uniform", "metric" or "general", drawn if None; ``endless`` allows steps and
    switches that are impossible.
    """
    steps, many = random.randint(1, 5), random.randint(1, 4)
    kind = metric or random.choice(("uniform", "metric", "general"))

    def number(most):
        return random.randint(0, most) * scale + (random.randint(0, 1) if scale != 1 else 0)

    def maybe(value, share):
        return INFINITE if endless and random.random() < share else value

    costs = [[maybe(number(9), 0.15) for _ in range(many)] for _ in range(steps)]
    for row in costs:
        if all(cost == INFINITE for cost in row):
            row[random.randrange(many)] = number(9)
    if kind == "uniform":
        price = number(6)
        delta = [[price * (a != b) for b in range(many)] for a in range(many)]
    elif kind == "metric":
        place = [(number(5), number(5)) for _ in range(many)]
        delta = [[abs(a - c) + abs(b - d) for c, d in place] for a, b in place]
    else:
        delta = [[0 if a == b else maybe(number(6), 0.1) for b in range(many)] for a in range(many)]
    waits = [random.choice((0, 0, 1, 2, 5)) * scale * gaps for _ in range(steps)]
    start = random.choice((None, random.randrange(many)))
    if start is None:
        first = random.choice(([0] * many, [number(6) for _ in range(many)]))
    else:
        first = delta[start]
    return Instance(costs, delta, first, waits, start, kind == "uniform")
