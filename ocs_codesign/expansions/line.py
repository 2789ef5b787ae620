"""Line digraph expansion: the links of a graph become the nodes. N -> d N, steps + 1, T_B + 1/N.

Node e = (u, v) of Line(G) has links to every f = (v, w), parallel links of G staying distinct.
Source: Zhao et al. (arXiv 2202.03356), line graph expansion.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.families.shape import Shape
from ocs_codesign.reach import all_distances, in_neighbours
from ocs_codesign.schedule import Schedule
from ocs_codesign.schedulers.bfb.loads import MAX_SUBSET_WIDTH, largest_ratio, subset_sums
from ocs_codesign.topology import Symmetry, Topology

if TYPE_CHECKING:
    from ocs_codesign.expansions.profile import Profile


def line_shape(parts: tuple[Shape]) -> Shape:
    """N -> d N, d stays."""
    (part,) = parts
    return Shape(part.num_nodes * part.degree, part.degree)


def line(parts: tuple[Topology]) -> Topology:
    """Line digraph; links out of node e come in the order of G's links out of e's head.

    A group that acts on G acts on the links, so G's link orbits become node orbits.

    >>> line((Topology(2, [0, 1], [1, 0]),)).head.tolist()
    [1, 0]
    """
    (base,) = parts
    out = base.links_by_tail()
    count = np.diff(out.start)[base.head]
    tail = np.repeat(np.arange(base.num_links), count)
    within = np.arange(len(tail)) - np.repeat(np.cumsum(count) - count, count)
    head = out.order[np.repeat(out.start[base.head], count) + within]
    symmetry = None
    if base.symmetry is not None:
        orbit = base.symmetry.link_orbit.astype(np.int64)
        pairs = orbit[tail] * (int(orbit.max(initial=0)) + 1) + orbit[head]
        numbered = np.unique(pairs, return_inverse=True)[1].astype(np.int32)
        symmetry = Symmetry(base.symmetry.link_orbit, numbered)
    return Topology(base.num_links, tail, head, symmetry=symmetry)


def line_loads(forward: tuple[Profile], backward: tuple[Profile]) -> tuple[Fraction, ...]:
    """1 and then d times the loads of G: T_B + 1/N. An upper bound on BFB on the built graph."""
    del backward
    (part,) = forward
    return (Fraction(1), *(part.shape.degree * load for load in part.loads))


def line_schedule(forward: tuple[Schedule], backward: tuple[Schedule]) -> Schedule:
    """Every node sends its own shard on all links; then each send of G is made d x d times.

    ((v, C), (u, w), t) becomes ((v'v, C), (uw, ww'), t + 1) for all in-neighbours v' of v and
    out-neighbours w' of w with v'v != ww'.
    """
    del backward
    (base,) = forward
    expanded = line((base.topology,))
    degree = base.topology.degree
    into = base.topology.links_by_head().order.reshape(-1, degree)
    out = base.topology.links_by_tail().order.reshape(-1, degree)
    receiver = base.topology.head[base.link]
    shape = (base.num_sends, degree, degree)
    root = np.broadcast_to(into[base.root][:, :, None], shape)
    head = np.broadcast_to(out[receiver][:, None, :], shape)
    link = np.broadcast_to(
        (base.link.astype(np.int64) * degree)[:, None, None] + np.arange(degree), shape
    )
    kept = root != head
    own = np.flatnonzero(expanded.tail != expanded.head)
    columns = [
        np.concatenate([first, np.broadcast_to(then[:, None, None], shape)[kept]])
        for first, then in (
            (np.zeros_like(own), base.lo),
            (np.full_like(own, base.num_chunks), base.hi),
            (np.ones_like(own), base.step + 1),
        )
    ]
    lo, hi, step = columns
    return Schedule(
        expanded,
        base.collective,
        base.num_chunks,
        np.concatenate([expanded.tail[own], root[kept]]),
        lo,
        hi,
        np.concatenate([own, link[kept]]),
        step,
    )


def line_bfb_loads(base: Topology) -> tuple[Fraction, ...]:
    """Exact BFB loads of Line(base), from the d times smaller base alone.

    U'_1 = 1; U'_{t+1} = max over links (w, w') and sets W of in-links of w of
    (d #{v : dist(v, w) = t, admissible in-links inside W} - [w' itself is such a v]) / |W|,
    because the sources (v', v) of receiver (w, w') inherit the distance and the in-links of v, and
    one of them is the receiver itself. Needs a regular base of equal link speeds and at most
    MAX_SUBSET_WIDTH in-neighbours a node; ValueError otherwise.

    >>> from ocs_codesign.families.dense import complete_bipartite
    >>> [str(load) for load in line_bfb_loads(complete_bipartite(4))]
    ['1', '4', '3']
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
