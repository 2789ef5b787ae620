"""De Bruijn digraphs without self-loops, whose best schedules are not BFB."""

from __future__ import annotations

import numpy as np

from ocs_codesign.topology import Symmetry, Topology


def modified_de_bruijn(d: int, n: int) -> Topology:
    """The de Bruijn digraph of d letters and n-letter words, its d self-loops made a cycle.

    d^n nodes of degree d >= 2, n >= 2. The constant words are joined in a cycle in place of their
    loops; with two letters the 2-cycle of the alternating words is opened too and they join in:
    00.. -> 1010.. -> 11.. -> 0101.. -> 00... Without that (2, 4) needs t_b >= 79/80 in 5 steps,
    while with this cycle (2, 3), (2, 4), (3, 2) and (4, 2) have t_b = (N - 1)/N in n + 1 steps, as
    published for the modified de Bruijn graphs (Zhao et al., arXiv 2202.03356), whose definition is
    not at hand. Declares the symmetry that adds 1 to all letters. Raises ValueError for d or n < 2.

    >>> modified_de_bruijn(2, 2).head.tolist()
    [2, 1, 0, 3, 0, 3, 2, 1]
    """
    if d < 2 or n < 2:
        raise ValueError(f"d = {d}, n = {n}: both must be at least 2")
    nodes = np.arange(d**n)
    letters = nodes[:, None] // d ** np.arange(n - 1, -1, -1) % d
    head = (d * nodes[:, None] + np.arange(d)) % d**n
    constant = np.arange(d) * ((d**n - 1) // (d - 1))
    head[constant, np.arange(d)] = np.roll(constant, -1)
    if d == 2:
        zeros, ones = constant.tolist()
        first_one = int("10" * n, 2) >> n
        first_zero = ones - first_one
        head[zeros, 0], head[ones, 1] = first_one, first_zero
        head[first_one, head[first_one] == first_zero] = ones
        head[first_zero, head[first_zero] == first_one] = zeros
    # Words that differ by a constant are an orbit: shift each to begin with 0.
    shifted = (letters - letters[:, :1]) % d @ d ** np.arange(n - 1, -1, -1)
    orbit = np.unique(shifted, return_inverse=True)[1]
    link_orbit = orbit[:, None] * d + (np.arange(d) - letters[:, :1]) % d
    symmetry = Symmetry(orbit.astype(np.int32), link_orbit.ravel().astype(np.int32))
    return Topology(d**n, np.repeat(nodes, d), head.ravel(), None, symmetry)
