"""Lifts: derived graphs of voltage digraphs, and any digraph as the lift over the trivial group.

Source: Gross (1974), voltage graphs. A voltage digraph has one node an orbit and an element of the
group on every link; its lift is regular if it is, and left multiplication by the group moves the
nodes of the lift freely, so one receiver an orbit tells the cost of all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ocs_codesign.families.shape import Shape
from ocs_codesign.groups import Group
from ocs_codesign.topology import Symmetry, Topology

MAX_ORBITS = 2**16


def lift_shape(group: Any, heads: Any) -> Shape:
    """Group order times the number of rows; ValueError unless every orbit has d links in and out.

    ``heads[u]`` lists the nodes that links lead to from (u, identity), where node (v, g) has the
    number v * order + g.
    """
    if not isinstance(group, Group):
        raise ValueError(f"{group!r} is not a group")
    if not isinstance(heads, tuple) or not 1 <= len(heads) <= MAX_ORBITS:
        raise ValueError(f"heads of a lift must be a tuple of 1 to {MAX_ORBITS} rows")
    nodes = group.order * len(heads)
    degree = len(heads[0]) if isinstance(heads[0], tuple) else 0
    links_in = [0] * len(heads)
    for u, row in enumerate(heads):
        if not isinstance(row, tuple) or not row or len(row) != degree:
            raise ValueError(f"row {u} of a lift is {row!r}: all rows are tuples of one length")
        for head in row:
            if type(head) is not int or not 0 <= head < nodes:
                raise ValueError(
                    f"row {u} of a lift names node {head!r}: nodes are 0 to {nodes - 1}"
                )
            links_in[head // group.order] += 1
    for v, number in enumerate(links_in):
        if number != degree:
            raise ValueError(
                f"orbit {v} of a lift has {number} links in but {degree} out: it must have as many"
            )
    return Shape(nodes, degree)


def lift(group: Group, heads: tuple[tuple[int, ...], ...]) -> Topology:
    """The lift with links (u, g) -> (v, g * a) for every entry v * order + a of row u.

    The link by the i-th entry out of node v is v * d + i.

    >>> from ocs_codesign.groups import Cyclic
    >>> lift(Cyclic(3), ((1, 3), (2, 4))).head.reshape(6, 2).tolist()
    [[1, 3], [2, 4], [0, 5], [2, 4], [0, 5], [1, 3]]
    """
    shape = lift_shape(group, heads)
    shape.check_buildable()
    order, degree = group.order, shape.degree
    elements = np.arange(order, dtype=np.int64)
    head = np.empty((len(heads), order, degree), dtype=np.int64)
    for u, row in enumerate(heads):
        for i, number in enumerate(row):
            v, voltage = divmod(number, order)
            head[u, :, i] = v * order + group.right_multiply(elements, voltage)
    orbits = np.arange(len(heads), dtype=np.int32)
    link_orbit = np.arange(len(heads) * degree, dtype=np.int32).reshape(len(heads), 1, degree)
    return Topology(
        shape.num_nodes,
        np.repeat(np.arange(shape.num_nodes, dtype=np.int32), degree),
        head.ravel().astype(np.int32),
        symmetry=Symmetry(np.repeat(orbits, order), np.repeat(link_orbit, order, axis=1).ravel()),
    )
