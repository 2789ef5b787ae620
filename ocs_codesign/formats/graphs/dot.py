"""DOT, the language of Graphviz; written only."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ocs_codesign.topology import Topology


def write_dot(topology: Topology, name: str) -> str:
    """A ``digraph`` with the links in order; ``speed`` and a label are given if speeds differ.

    >>> from ocs_codesign.topology import Topology
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
    ends = zip(topology.tail.tolist(), topology.head.tolist(), strict=True)
    arrows = [f"  {tail} -> {head}" for tail, head in ends]
    if topology.link_speed is None:
        lines += [f"{arrow};" for arrow in arrows]
    else:
        speeds = topology.link_speed.tolist()
        lines += [
            f"{arrow} [speed={speed}, label={speed}];"
            for arrow, speed in zip(arrows, speeds, strict=True)
        ]
    return "\n".join([*lines, "}\n"])
