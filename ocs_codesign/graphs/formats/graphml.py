"""Topologies as GraphML."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from ocs_codesign.graphs.formats.edge_list import link_rows

if TYPE_CHECKING:
    from ocs_codesign.core.topology import Topology


_HEAD = """<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<desc>{title}</desc>
{key}<graph edgedefault="directed">"""
_SPEED_KEY = '<key id="speed" for="edge" attr.name="speed" attr.type="long"/>\n'


def write_graphml(topology: Topology, name: str) -> str:
    """A directed graph whose edge ids are the link ids; ``speed`` is given if speeds differ."""
    title = escape("".join(c if c.isprintable() else " " for c in name))
    key = "" if topology.link_speed is None else _SPEED_KEY
    lines = [_HEAD.format(title=title, key=key)]
    lines += [f'<node id="{node}"/>' for node in range(topology.num_nodes)]
    for link, (tail, head, *speeds) in enumerate(link_rows(topology)):
        data = "".join(f'<data key="speed">{speed}</data>' for speed in speeds)
        end = f">{data}</edge>" if data else "/>"
        lines.append(f'<edge id="{link}" source="{tail}" target="{head}"{end}')
    return "\n".join([*lines, "</graph>", "</graphml>\n"])
