"""Independent answers to small demand matrix problems, by enumeration and integer programming."""

from __future__ import annotations

from fractions import Fraction
from itertools import chain, combinations, permutations

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from ocs_codesign.circuits.demand.matrix import DemandTicks

KNOWN = [[3, 5, 1, 2], [4, 1, 3, 3], [2, 4, 2, 3], [2, 1, 5, 3]]


def ticks_of(entries, setup=1):
    """A demand of these ticks."""
    return DemandTicks(np.array(entries, dtype=np.int64), setup, Fraction(1), True)


def mixed(nodes, many, seed):
    """Entries that are a sum of random permutations with times from 1 to 9."""
    random = np.random.default_rng(seed)
    entries = np.zeros((nodes, nodes), dtype=np.int64)
    for _ in range(many):
        entries[np.arange(nodes), random.permutation(nodes)] += random.integers(1, 10)
    return entries


def by_enumeration(demand, delta):
    """The least total on one switch: every set of permutations, its times by linear programming."""
    nodes = len(demand)
    flat = np.asarray(demand, dtype=float).ravel()
    columns = [np.eye(nodes)[list(p)].ravel() for p in permutations(range(nodes))]
    best = np.inf
    sets = chain.from_iterable(
        combinations(range(len(columns)), many) for many in range(1, len(columns) + 1)
    )
    for chosen in sets:
        cover = np.array([columns[at] for at in chosen]).T
        if (cover.any(1) | (flat == 0)).all() and delta * len(chosen) < best:
            found = linprog(np.ones(len(chosen)), -cover, -flat)
            best = min(best, found.fun + delta * len(chosen))
    return best


def by_integer_program(demand, delta, switches=1):
    """The least makespan: a binary and a time for every permutation on every switch."""
    nodes = len(demand)
    flat = np.asarray(demand, dtype=float).ravel()
    columns = np.array([np.eye(nodes)[list(p)].ravel() for p in permutations(range(nodes))])
    many = len(columns) * switches
    longest = np.tile((columns * flat).max(1), switches)
    # Variables: times, binaries, the makespan.
    cost = np.zeros(2 * many + 1)
    cost[-1] = 1.0
    cover = np.zeros((len(flat), 2 * many + 1))
    cover[:, :many] = np.tile(columns, (switches, 1)).T
    on = np.zeros((many, 2 * many + 1))
    on[:, :many], on[:, many : 2 * many] = np.eye(many), -np.diag(longest)
    done = np.zeros((switches, 2 * many + 1))
    for switch in range(switches):
        part = slice(switch * len(columns), (switch + 1) * len(columns))
        done[switch, :many][part] = -1.0
        done[switch, many : 2 * many][part] = -delta
    done[:, -1] = 1.0
    found = milp(
        cost,
        constraints=[
            LinearConstraint(cover, lb=flat),
            LinearConstraint(on, ub=0.0),
            LinearConstraint(done, lb=0.0),
        ],
        integrality=np.repeat([0, 1, 0], [many, many, 1]),
        bounds=Bounds(0.0, np.concatenate([longest, np.ones(many), [np.inf]])),
        options={"mip_rel_gap": 0.0},
    )
    assert found.success, found.message
    return found.fun
