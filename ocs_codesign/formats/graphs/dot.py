"""DOT, the language of Graphviz; written only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.formats.graphs.edge_list import link_rows

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
    for tail, head, *speeds in link_rows(topology):
        labels = "".join(f" [speed={speed}, label={speed}]" for speed in speeds)
        lines.append(f"  {tail} -> {head}{labels};")
    return "\n".join([*lines, "}\n"])
