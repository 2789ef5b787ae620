"""Attributed graphs in files: GraphML, node-link JSON, and edge lists with a link a line."""

from __future__ import annotations

import re
from ast import literal_eval
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple, final
from xml.parsers import expat

import numpy as np

from ocs_codesign.core.files.atomic import errors_at
from ocs_codesign.core.files.naming import text_of_line
from ocs_codesign.core.networks.attributed import AttributedGraph
from ocs_codesign.core.shown import shown

if TYPE_CHECKING:
    from collections.abc import Mapping


# GraphML, read with a streaming parser that knows its line and admits no entities.


_MAX_DEPTH = 100


class _Key(NamedTuple):
    """What a key of GraphML says about: nodes, edges, the graph or all, and under which name."""

    domain: str
    name: str
    is_flag: bool


def read_graphml(data: bytes, name: str) -> AttributedGraph:
    """The one graph of a GraphML file; defaults of keys hold where data is missing.

    Raises ValueError with the file's name and the line, also for a document type or entities, and
    for graphs in one another, a second graph and hyperedges.
    """
    reader = _GraphmlReader(AttributedGraph(name, ", line {}"))
    try:
        reader.parser.Parse(data, True)
    except expat.ExpatError as error:
        reason = expat.errors.messages.get(error.code, "unreadable")
        raise ValueError(f"{name}, line {error.lineno}: this is not XML ({reason})") from None
    except ValueError as error:
        line = reader.parser.CurrentLineNumber
        raise ValueError(f"{name}, line {line}: {error}") from None
    except LookupError:
        raise ValueError(f"{name}, line 1: its encoding is not known") from None
    return reader.finished()


@final
class _GraphmlReader:
    """What has been read so far, filled by the calls of the parser."""

    def __init__(self, graph: AttributedGraph) -> None:
        self.parser = parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = self._doctype
        self.graph = graph
        self.declared: dict[str, dict[str, Any]] = {}
        self.mentioned: dict[str, int] = {}
        self.directed: bool | None = None
        self.keys: dict[str, _Key] = {}
        self.defaults: dict[str, dict[str, Any]] = {"node": {}, "edge": {}, "graph": {}}
        self.key = ""
        self.edge = ("", "", True)
        self.begun = 0
        self.data: dict[str, Any] = {}
        self.open: list[str] = []
        self.text: list[str] | None = None

    def finished(self) -> AttributedGraph:
        """The graph; ValueError if there was none or a link's node is missing."""
        name = self.graph.name
        for node, line in self.mentioned.items():
            if node not in self.declared:
                raise ValueError(f"{name}, line {line}: there is no node {shown(node)}")
        if not self.declared:
            raise ValueError(f"{name}: there is no graph with nodes in this file")
        for node, own in self.declared.items():
            number = self.graph.number[node]
            for key, value in (self.defaults["node"] | own).items():
                self.graph.of_nodes.setdefault(key, {})[number] = value
        self.graph.attributes = self.defaults["graph"] | self.graph.attributes
        return self.graph

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
            case (("edge" | "node" | "graph"), "data"):
                self.key, self.text = attributes.get("key", ""), []
            case "key", "default":
                self.text = []
            case _, "graph" | "hyperedge":
                raise ValueError(f"a {tag} in a {parent} is not supported: one plain graph is read")

    def _characters(self, text: str) -> None:
        if self.text is not None:
            self.text.append(text)

    def _end(self, tag: str) -> None:
        tag = self.open.pop()
        parent = self.open[-1] if self.open else ""
        if self.text is not None and tag in ("data", "default"):
            key, text = self.keys.get(self.key), "".join(self.text).strip()
            self.text = None
            if key is not None:
                value = text.lower() in ("true", "1") if key.is_flag else text
                self._keep(key, value, "" if tag == "default" else parent)
        elif (parent, tag) == ("graph", "edge"):
            tail, head, directed = self.edge
            own = {**self.defaults["edge"], **self.data}
            self.graph.edge((tail, head), self.begun, own, both_ways=not directed)

    def _keep(self, key: _Key, value: Any, parent: str) -> None:
        """Keep what a key says of the element it is in, or everywhere if that is none."""
        for domain, default in self.defaults.items():
            if key.domain in (domain, "all"):
                if not parent:
                    default[key.name] = value
                elif parent == domain:
                    into = self.graph.attributes if domain == "graph" else self.data
                    if into.setdefault(key.name, value) != value:
                        raise ValueError(f"the {parent} has two values of {shown(key.name)}")

    def _start_graph(self, attributes: dict[str, str]) -> None:
        if self.directed is not None:
            raise ValueError("a second graph: one file holds one graph")
        default = attributes.get("edgedefault")
        if default not in ("directed", "undirected"):
            raise ValueError(f"edgedefault is {shown(default)}: it must be directed or undirected")
        self.directed = default == "directed"

    def _start_key(self, attributes: dict[str, str]) -> None:
        self.key = attributes.get("id", "")
        if self.key in self.keys:
            raise ValueError(f"a second key is named {shown(self.key)}")
        domain, name = attributes.get("for", "all"), attributes.get("attr.name", self.key)
        self.keys[self.key] = _Key(domain, name, attributes.get("attr.type") == "boolean")

    def _start_node(self, attributes: dict[str, str]) -> None:
        name = self._attribute(attributes, "node", "id")
        if name in self.declared:
            raise ValueError(f"a second node is named {shown(name)}")
        self.graph.node(name)
        self.declared[name] = self.data = {}

    def _start_edge(self, attributes: dict[str, str]) -> None:
        tail, head = (self._attribute(attributes, "edge", end) for end in ("source", "target"))
        self.begun = self.parser.CurrentLineNumber
        for name in (tail, head):
            if name not in self.declared:
                self.mentioned.setdefault(name, self.begun)
        own = attributes.get("directed", str(self.directed).lower())
        if own not in ("true", "false"):
            raise ValueError(f"directed is {shown(own)}: it must be true or false")
        self.edge = (tail, head, own == "true")
        self.data = {"key": attributes["id"]} if "id" in attributes else {}

    def _attribute(self, attributes: dict[str, str], tag: str, name: str) -> str:
        if name not in attributes:
            raise ValueError(f"the {tag} has no {name}")
        return attributes[name]


# Node-link JSON, as networkx writes and reads it.


def node_link_graph(value: Any, name: str) -> AttributedGraph:
    """The graph in a value of node-link JSON; edges may be under ``edges`` or ``links``.

    As in networkx, a graph without ``directed`` is undirected; one without ``multigraph`` may have
    parallel edges, and one where it is false must not. Ids are integers or texts. Raises ValueError
    with the file's name and the place.
    """
    with errors_at(name):
        if not isinstance(value, dict):
            raise ValueError("node-link JSON is an object with nodes and edges")
        if "edges" in value and "links" in value:
            raise ValueError("both edges and links are given: which are the graph's edges?")
        key = "links" if "links" in value else "edges"
        graph = AttributedGraph(name, f": {key}[{{}}]")
        directed = _flag(value, "directed", default=False)
        seen = set[tuple[str, str]]() if not _flag(value, "multigraph", default=True) else None
        about = value.get("graph")
        graph.attributes = about if isinstance(about, dict) else {}
        for at, node in enumerate(_objects(value, "nodes")):
            own = {name: mark for name, mark in node.items() if name != "id"}
            with errors_at(f"nodes[{at}]"):
                graph.new_node(_id(node, "id"), own)
        for at, edge in enumerate(_objects(value, key)):
            with errors_at(f"{key}[{at}]"):
                ends = (_end(edge, "source", graph), _end(edge, "target", graph))
                pair = ends if directed else (min(ends), max(ends))
                if seen is not None and pair in seen:
                    raise ValueError("a parallel edge, although multigraph is false")
                if seen is not None:
                    seen.add(pair)
                own = {name: mark for name, mark in edge.items() if name not in _ENDS}
                graph.edge(ends, at, own, both_ways=not directed)
    return graph


_ENDS = ("source", "target")


def _flag(graph: dict[str, Any], key: str, *, default: bool) -> bool:
    value = graph.get(key, default)
    if not isinstance(value, bool):
        raise ValueError(f"{key} is {shown(value)}: it must be true or false")
    return value


def _objects(graph: dict[str, Any], key: str) -> list[dict[str, Any]]:
    values = graph.get(key)
    if not isinstance(values, list):
        raise ValueError(f"{key} must be a list: node-link JSON has nodes and edges (or links)")
    for at, value in enumerate(values):
        if not isinstance(value, dict):
            raise ValueError(f"{key}[{at}] is {shown(value)}: it must be an object")
    return values


def _id(entry: dict[str, Any], key: str) -> str:
    value = entry.get(key)
    if type(value) not in (int, str):
        raise ValueError(f"{key} is {shown(value)}: it must be an integer or a text")
    return str(value)


def _end(edge: dict[str, Any], key: str, graph: AttributedGraph) -> str:
    name = _id(edge, key)
    if name not in graph.number:
        raise ValueError(f"{key} {shown(edge[key])} is not among the nodes")
    return name


# Edge lists: a link a line, ``tail head`` and perhaps a speed, or what a heading names.


_COMMENT = re.compile(r"(?:^|(?<=\s))#.*")
_HEADINGS = {("tail", "head"), ("source", "target"), ("src", "dst"), ("from", "to")}
_WHOLE = re.compile(r"[0-9]{1,9}")
_MAX_DICT, _MAX_COLUMNS = 2000, 64
_SPEED = "speed"
_OURS = re.compile(rb"^# [0-9]+ nodes, [0-9]+ directed links", re.MULTILINE)
"""The comment of the files that are written here, whose first line is a link."""


def read_edge_list(data: bytes, name: str) -> AttributedGraph:
    """The graph of an edge list; every line is one directed link.

    Columns are separated by spaces or, in a line with a comma, by commas; a third one is the link's
    speed, or a dict as networkx writes it. ``#`` at the start of a line or after a space begins a
    comment. A first line ``tail head``, ``source target``, ``src dst`` or ``from to`` is a heading,
    which may name more columns; one that counts the nodes and links is skipped, and one that may be
    either a heading or a link is refused. Raises ValueError with the file's name and the line.
    """
    first, graph = _edge_list(data, name, 0)
    if first is not None and not _OURS.search(data) and _counts(first, graph):
        return _edge_list(data, name, graph.at[0])[1]
    return graph


def _edge_list(data: bytes, name: str, skipped: int) -> tuple[str | None, AttributedGraph]:
    """The first line if it is no heading, and the graph of all lines behind the one skipped."""
    graph = AttributedGraph(name, ", line {}")
    first: str | None = None
    columns: list[str] | None = None
    for number, line in enumerate(BytesIO(data), 1):
        with errors_at(f"{name}, line {number}"):
            text = text_of_line(line, number)
            text = _COMMENT.sub("", text).rstrip() if "#" in text else text
            if not text or number <= skipped:
                continue
            fields = _fields(text)
            if first is None and tuple(map(str.lower, fields[:2])) in _HEADINGS:
                columns = [field.lower() for field in fields[2:]] or [_SPEED]
                first = text
                continue
            first = first or text
            own = _own(text, fields, columns)
            graph.edge((fields[0], fields[1]), number, own, both_ways=False)
    if not graph.tail:
        raise ValueError(f"{name}: there are no links in this edge list")
    return (first if columns is None else None), graph


def _fields(text: str) -> list[str]:
    """The columns of a line; a dict is one, though it has spaces and commas."""
    pair = text.split(None, 2)
    if len(pair) == 3 and pair[2].startswith("{"):
        return pair
    fields = text.split(",", _MAX_COLUMNS) if "," in text else text.split(None, _MAX_COLUMNS)
    return [field.strip() for field in fields]


def _own(text: str, fields: list[str], columns: list[str] | None) -> Mapping[str, Any]:
    """What a line says of its link beside the ends."""
    if not 2 <= len(fields) <= (3 if columns is None else 2 + len(columns)):
        listed = "tail, head and speed" if columns is None else "as the heading has them"
        raise ValueError(f"a line has two or three columns, {listed}: {shown(text)} does not")
    more = fields[2:]
    if more and more[0].startswith("{"):
        return _dict(more[0])
    return {key: field for key, field in zip(columns or [_SPEED], more, strict=False) if field}


def _dict(text: str) -> dict[str, Any]:
    """A flat dict as networkx writes it: nothing that a short text could make large or deep."""
    try:
        is_flat = len(text) <= _MAX_DICT and not re.search(r"[(\[{]", text[1:])
        value = literal_eval(text) if is_flat else None
    except (ValueError, SyntaxError):
        value = None
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ValueError(f"{shown(text)} is no dict of attributes as networkx writes them")
    return value


def _counts(first: str, graph: AttributedGraph) -> bool:
    """Whether the first line counts nodes and links; ValueError if it may be a heading."""
    tail, head = (np.frombuffer(each, dtype=np.intc) for each in (graph.tail, graph.head))
    if len(tail) < 2:
        return False
    later = np.unique([tail[1:], head[1:]])
    is_new = ~np.isin([tail[0], head[0]], later)
    names = list(graph.number)[: int(max(tail[0], head[0])) + 1]
    ends = names[tail[0]], names[head[0]]
    rule = f"{graph.name}, line {graph.at[0]}: {shown(first)} may be a heading or a link"
    if all(map(_WHOLE.fullmatch, ends)) and (*map(int, ends),) == (len(later), len(tail) - 1):
        if is_new.any():
            return True
        raise ValueError(f"{rule}: there are so many nodes and links below; begin with tail head")
    if is_new.all():
        raise ValueError(f"{rule}: no other line has its nodes; a heading is tail head")
    if "," in first and first.replace(" ", "") in ("0,1", "0,1,2"):
        pairs = tail.astype(np.int64) * len(graph.number) + head
        again = (pairs[1:] == pairs[0]).any()
        if again and len(np.unique(pairs[1:])) == len(pairs) - 1:
            raise ValueError(f"{rule}: 0 to 1 comes again below; begin with tail,head")
    return False
