"""GraphML, read with a streaming parser that knows its line and admits no entities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from xml.parsers import expat
from xml.sax.saxutils import escape

from ocs_codesign.core.files.naming import NamedLinks, speed_of
from ocs_codesign.core.shown import shown
from ocs_codesign.graphs.formats.edge_list import link_rows

if TYPE_CHECKING:
    from ocs_codesign.core.topology import Topology


_HEAD = """<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<desc>{title}</desc>
{key}<graph edgedefault="directed">"""
_MAX_DEPTH = 100
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


def read_graphml(data: bytes, name: str) -> Topology:
    """The topology of a GraphML file with one graph, whose undirected edges become two links.

    The edge attribute named ``speed`` is the relative link speed; other attributes are ignored.
    Raises ValueError with the file's name and the line, also for a document type or entities.
    """
    reader = _Reader()
    try:
        reader.parser.Parse(data, True)
    except expat.ExpatError as error:
        reason = expat.errors.messages.get(error.code, "unreadable")
        raise ValueError(f"{name}, line {error.lineno}: this is not XML ({reason})") from None
    except ValueError as error:
        line = reader.parser.CurrentLineNumber
        raise ValueError(f"{name}, line {line}: {error}") from None
    except LookupError as error:  # the declared encoding
        raise ValueError(f"{name}, line 1: {error}") from None
    return reader.topology(name)


class _Reader:
    """What has been read so far, filled by the calls of the parser."""

    def __init__(self) -> None:
        self.parser = parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = self._doctype
        self.links = NamedLinks()
        self.declared = set[str]()
        self.mentioned: dict[str, int] = {}
        self.directed: bool | None = None
        self.key = ""
        self.speed_key: str | None = None
        self.default_speed = self.speed = 1
        self.edge = ("", "", True)
        self.open: list[str] = []
        self.text: list[str] | None = None

    def topology(self, name: str) -> Topology:
        """The topology read; ValueError if there was none or a link's node is missing."""
        for node, line in self.mentioned.items():
            if node not in self.declared:
                raise ValueError(f"{name}, line {line}: there is no node {shown(node)}")
        if not self.declared:
            raise ValueError(f"{name}: there is no graph with nodes in this file")
        return self.links.topology()

    def _doctype(self, *_: Any) -> None:
        raise ValueError("a document type, and with it any entity, is refused")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition(" ")[2]
        if not self.open and tag != "graphml":
            raise ValueError(f"this is not GraphML: the document is a {shown(tag)}")
        if len(self.open) == _MAX_DEPTH:
            raise ValueError(f"more than {_MAX_DEPTH} elements in one another")
        parent = self.open[-1] if self.open else ""
        self.open.append(tag)
        match parent, tag:
            case "graphml", "graph":
                self._start_graph(attributes)
            case "graphml", "key":
                self._start_key(attributes)
            case "graph", "node":
                self._start_node(attributes)
            case "graph", "edge":
                self._start_edge(attributes)
            case ("edge", "data") if attributes.get("key") == self.speed_key:
                self.text = []
            case ("key", "default") if self.key == self.speed_key:
                self.text = []
            case _, "graph" | "hyperedge":
                raise ValueError(f"a {tag} in a {parent} is not supported: one plain graph is read")

    def _characters(self, text: str) -> None:
        if self.text is not None:
            self.text.append(text)

    def _end(self, tag: str) -> None:
        tag = self.open.pop()
        if self.text is not None and tag in ("data", "default"):
            self.speed, self.text = speed_of("".join(self.text)), None
            if tag == "default":
                self.default_speed = self.speed
        elif tag == "edge" and self.open[-1] == "graph":
            tail, head, directed = self.edge
            (self.links.link if directed else self.links.edge)(tail, head, self.speed)

    def _start_graph(self, attributes: dict[str, str]) -> None:
        if self.directed is not None:
            raise ValueError("a second graph: one file holds one graph")
        default = attributes.get("edgedefault")
        if default not in ("directed", "undirected"):
            raise ValueError(f"edgedefault is {shown(default)}: it must be directed or undirected")
        self.directed = default == "directed"

    def _start_key(self, attributes: dict[str, str]) -> None:
        self.key = attributes.get("id", "")
        if attributes.get("attr.name") == "speed" and attributes.get("for") in ("edge", "all"):
            if self.speed_key is not None:
                raise ValueError("a second key declares the edge attribute speed")
            self.speed_key = self.key

    def _start_node(self, attributes: dict[str, str]) -> None:
        name = self._attribute(attributes, "node", "id")
        if name in self.declared:
            raise ValueError(f"a second node is named {shown(name)}")
        self.links.node(name)
        self.declared.add(name)

    def _start_edge(self, attributes: dict[str, str]) -> None:
        tail, head = (self._attribute(attributes, "edge", end) for end in ("source", "target"))
        for name in (tail, head):
            if name not in self.declared:
                self.mentioned.setdefault(name, self.parser.CurrentLineNumber)
        own = attributes.get("directed", str(self.directed).lower())
        if own not in ("true", "false"):
            raise ValueError(f"directed is {shown(own)}: it must be true or false")
        self.edge, self.speed = (tail, head, own == "true"), self.default_speed

    def _attribute(self, attributes: dict[str, str], tag: str, name: str) -> str:
        if name not in attributes:
            raise ValueError(f"the {tag} has no {name}")
        return attributes[name]
