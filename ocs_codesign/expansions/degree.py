"""Degree expansion: n copies of every node. N -> n N, d -> n d, steps + 1, T_B + (n - 1)/(n N).

Copy i of node v is node v * n + i; link e = (u, v) of G becomes the links (u_i, v_j) for all i, j,
numbered e * n^2 + i * n + j. Source: Zhao et al. (arXiv 2202.03356), degree expansion.
"""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.families.shape import Shape, size
from ocs_codesign.schedule import Schedule
from ocs_codesign.topology import Symmetry, Topology

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.expansions.profile import Profile


def degree_shape(parts: tuple[Shape], n: int) -> Shape:
    """N -> n N, d -> n d."""
    (part,) = parts
    size(n, "n", 1)
    return Shape(part.num_nodes * n, part.degree * n)


def degree(parts: tuple[Topology], n: int) -> Topology:
    """The degree expansion; ValueError if G has self-loops.

    >>> degree((Topology(2, [0, 1], [1, 0]),), 2).head.tolist()
    [2, 3, 2, 3, 0, 1, 0, 1]
    """
    (base,) = parts
    if base.has_self_loops():
        raise ValueError("the degree expansion needs a graph without self-loops")
    copies = np.arange(n)
    tail = np.broadcast_to((base.tail[:, None] * n + copies)[:, :, None], (base.num_links, n, n))
    head = np.broadcast_to((base.head[:, None] * n + copies)[:, None, :], (base.num_links, n, n))
    symmetry = None
    if base.symmetry is not None:
        turn = (copies[None, :] - copies[:, None]) % n
        orbit = base.symmetry.link_orbit[:, None, None].astype(np.int64) * n + turn
        symmetry = Symmetry(np.repeat(base.symmetry.node_orbit, n), orbit.ravel().astype(np.int32))
    return Topology(base.num_nodes * n, tail.ravel(), head.ravel(), symmetry=symmetry)


def degree_loads(forward: tuple[Profile], backward: tuple[Profile], n: int) -> tuple[Fraction, ...]:
    """The loads of G, then (n - 1)/(n d): the other copies' shards from all in-neighbours."""
    del backward
    (part,) = forward
    if n == 1:
        return part.loads
    return (*part.loads, Fraction(n - 1, n * part.shape.degree))


def degree_schedule(forward: tuple[Schedule], backward: tuple[Schedule], n: int) -> Schedule:
    """Copy i receives what G's node receives, from the copies i; then the copies of a node swap.

    ((v, C), (u, w), t) becomes ((v_j, C), (u_j, w_i), t) for all i, j. In the last step u_j gets
    part a of n d parts of the shard of every other copy u_i from its a-th in-neighbour.
    """
    del backward
    (base,) = forward
    expanded = degree((base.topology,), n)
    if n == 1:
        return base
    ports = n * base.topology.degree
    chunks = lcm(base.num_chunks, ports)
    base = base.with_chunks(chunks)
    shape = (base.num_sends, n, n)
    i, j = np.arange(n), np.arange(n)[:, None]
    root = base.root.astype(np.int64)[:, None, None] * n + j
    link = base.link.astype(np.int64)[:, None, None] * n * n + j * n + i
    swap_root, swap_link, part = _swap(expanded, n, ports)
    lo, hi, step = (
        np.broadcast_to(column[:, None, None], shape).ravel()
        for column in (base.lo, base.hi, base.step)
    )
    width = chunks // ports
    return Schedule(
        expanded,
        base.collective,
        chunks,
        np.concatenate([np.broadcast_to(root, shape).ravel(), swap_root]),
        np.concatenate([lo, part * width]),
        np.concatenate([hi, (part + 1) * width]),
        np.concatenate([link.ravel(), swap_link]),
        np.concatenate([step, np.full(len(part), base.num_steps + 1)]),
    )


def _swap(
    expanded: Topology, n: int, ports: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Root, link and part of the last step: every in-link brings its part of n - 1 shards."""
    incoming = expanded.links_by_head().order.reshape(-1, ports)
    receiver = np.arange(expanded.num_nodes)
    others = receiver[:, None] // n * n + (receiver[:, None] % n + np.arange(1, n)) % n
    shape = (expanded.num_nodes, n - 1, ports)
    root = np.broadcast_to(others[:, :, None], shape)
    link = np.broadcast_to(incoming[:, None, :], shape)
    part = np.broadcast_to(np.arange(ports), shape)
    return root.ravel(), link.ravel(), part.ravel()
