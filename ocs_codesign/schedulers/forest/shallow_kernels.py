"""Loops of shallow trees: which arc brings which part of every root's data into every rank."""

import numpy as np

from ocs_codesign.schedulers.bfb.kernels import route, source_classes


def assign(
    distance_to, neighbours, arcs, capacities, wanted, out_root, out_node, out_start, out_arc
):
    """Share what every rank receives among its arcs; how many runs that makes, -1 if too much.

    Every source r sends ``wanted[r]`` units to every rank over arcs from ranks one hop nearer.
    Column i of a row of ``neighbours`` is a tail of arc ``arcs`` with a capacity in units, 0 in the
    padding. A run is units from ``out_start`` on of a root that come into a node over an arc.
    """
    nodes = distance_to.shape[1]
    width = neighbours.shape[1]
    class_of = np.empty(nodes, dtype=np.int64)
    class_step = np.empty(nodes, dtype=np.int64)
    size = np.empty(nodes, dtype=np.int64)
    allowed = np.empty((nodes, width), dtype=np.bool_)
    reached_class = np.empty(nodes, dtype=np.bool_)
    reached_link = np.empty(width, dtype=np.bool_)
    at = np.empty(nodes, dtype=np.int64)
    filled = 0
    for node in range(nodes):
        count = source_classes(
            distance_to, node, neighbours[node], class_of, class_step, size, allowed
        )
        supply = np.empty(count, dtype=np.int64)
        for c in range(count):
            supply[c] = 0
            at[c] = 0
        for root in range(nodes):
            if class_of[root] >= 0:
                supply[class_of[root]] += wanted[root]
        flow = np.empty((count, width), dtype=np.int64)
        if route(supply, allowed[:count], capacities[node], flow, reached_class, reached_link) > 0:
            return -1
        for root in range(nodes):
            c = class_of[root]
            if c < 0:
                continue
            placed = 0
            while placed < wanted[root]:
                while flow[c, at[c]] == 0:
                    at[c] += 1
                units = min(flow[c, at[c]], wanted[root] - placed)
                flow[c, at[c]] -= units
                if filled == len(out_root):
                    return -2
                out_root[filled] = root
                out_node[filled] = node
                out_start[filled] = placed
                out_arc[filled] = arcs[node, at[c]]
                placed += units
                filled += 1
    return filled
