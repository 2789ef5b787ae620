"""Exact BFB loads of a line digraph, from the smaller graph whose links are its nodes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ocs_codesign.reach import all_distances, in_neighbours
from ocs_codesign.schedulers.bfb.loads import MAX_SUBSET_WIDTH, largest_ratio, subset_sums
from ocs_codesign.topology import Topology


def line_bfb_loads(base: Topology) -> tuple[Fraction, ...]:
    """Exact BFB loads of Line(base), from the d times smaller base alone.

    U'_1 = 1; U'_{t+1} = max over links (w, w') and sets W of in-links of w of
    (d #{v : dist(v, w) = t, admissible in-links inside W} - [w' itself is such a v]) / |W|,
    because the sources (v', v) of receiver (w, w') inherit the distance and the in-links of v, and
    one of them is the receiver itself. Needs a regular base of equal link speeds and at most
    MAX_SUBSET_WIDTH in-neighbours a node; ValueError otherwise.

    >>> square = Topology(4, [0, 1, 2, 3] * 2, [1, 2, 3, 0, 3, 0, 1, 2])
    >>> [str(load) for load in line_bfb_loads(square)]
    ['1', '2', '1']
    """
    neighbours = in_neighbours(base)
    width = neighbours.node.shape[1]
    if not base.is_regular or base.link_speed is not None or width > MAX_SUBSET_WIDTH:
        raise ValueError(
            "the line predictor needs a regular graph of equal link speeds and at most "
            f"{MAX_SUBSET_WIDTH} in-neighbours a node"
        )
    to = np.ascontiguousarray(all_distances(base).T)  # row u: distance to u from every node
    if to.min() < 0:
        raise ValueError("not strongly connected: BFB does not reach every node")
    weights = subset_sums(neighbours.capacity)
    masks = np.zeros(to.shape, dtype=np.int64)
    for column in range(width):
        via = neighbours.node[:, column]
        proper = (neighbours.capacity[:, column] > 0)[:, None]
        masks |= np.where((to[via] == to - 1) & proper, 1 << column, 0)
    subsets = 1 << width
    inside = (np.arange(subsets)[:, None] & np.arange(subsets)) == np.arange(subsets)[:, None]
    receiver = np.arange(base.num_nodes)
    loads = [Fraction(1)]
    for step in range(1, int(to.max()) + 1):
        at = to == step
        classes = np.bincount(
            (receiver[:, None] * subsets + masks)[at], minlength=base.num_nodes * subsets
        ).reshape(-1, subsets)
        confined = base.degree * (classes @ inside)
        # One receiver (w, w') a link; w' is among the confined sources if its own mask is inside W.
        own = inside[masks[base.tail, base.head]] & at[base.tail, base.head][:, None]
        loads.append(largest_ratio(confined[base.tail] - own, weights[base.tail]))
    # On a one-way ring the farthest source of every receiver is the receiver itself.
    return tuple(load for load in loads if load)
