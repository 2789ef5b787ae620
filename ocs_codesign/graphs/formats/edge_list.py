"""Edge lists: a line a link, ``tail head`` and perhaps a relative speed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ocs_codesign.core.topology import Topology


def link_rows(topology: Topology) -> list[tuple[int, ...]]:
    """(tail, head) of every link in order, or (tail, head, speed) if speeds differ.

    >>> from ocs_codesign.core.topology import Topology
    >>> link_rows(Topology(2, [0, 1], [1, 0])), link_rows(Topology(2, [0, 1], [1, 0], [1, 2]))
    ([(0, 1), (1, 0)], [(0, 1, 1), (1, 0, 2)])
    """
    columns = [topology.tail.tolist(), topology.head.tolist()]
    if topology.link_speed is not None:
        columns.append(topology.link_speed.tolist())
    return list(zip(*columns, strict=True))


def write_edge_list(topology: Topology, name: str) -> str:
    """The links in order, one a line, with the speed as third column if speeds differ.

    Raises ValueError if a node has no links at all, since an edge list could not hold it.

    >>> from ocs_codesign.core.topology import Topology
    >>> print(write_edge_list(Topology(2, [0, 1], [1, 0], [1, 2]), "pair"), end="")
    # pair
    # 2 nodes, 2 directed links: tail head speed
    0 1 1
    1 0 2
    """
    touched = np.zeros(topology.num_nodes, dtype=bool)
    touched[topology.tail] = touched[topology.head] = True
    if not touched.all():
        node = int(np.argmin(touched))
        raise ValueError(
            f"node {node} has no links, so an edge list cannot hold it: use json or graphml"
        )
    names = "tail head" if topology.link_speed is None else "tail head speed"
    lines = [
        f"# {' '.join(name.split())}",
        f"# {topology.num_nodes} nodes, {topology.num_links} directed links: {names}",
        *(" ".join(map(str, row)) for row in link_rows(topology)),
    ]
    return "\n".join(lines) + "\n"


# DOT, the language of Graphviz; written only.


def write_dot(topology: Topology, name: str) -> str:
    """A ``digraph`` with the links in order; ``speed`` and a label are given if speeds differ.

    >>> from ocs_codesign.core.topology import Topology
    >>> print(write_dot(Topology(2, [0, 1], [1, 0]), "pair"), end="")
    digraph "pair" {
      0;
      1;
      0 -> 1;
      1 -> 0;
    }
    """
    title = " ".join(name.split()).replace("\\", "\\\\").replace('"', '\\"')
    lines = [f'digraph "{title}" {{', *(f"  {node};" for node in range(topology.num_nodes))]
    for tail, head, *speeds in link_rows(topology):
        labels = "".join(f" [speed={speed}, label={speed}]" for speed in speeds)
        lines.append(f"  {tail} -> {head}{labels};")
    return "\n".join([*lines, "}\n"])
