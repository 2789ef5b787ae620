"""Importers format by format: what is read, and which line or key is wrong."""

from __future__ import annotations

import pytest
from graph_text import graphml, json_graph, read

from ocs_codesign.core.topology import Topology


@pytest.mark.parametrize(
    ("text", "tail", "head"),
    [
        ("0 1\n1 0\n", [0, 1], [1, 0]),
        ("1 0\n0 1", [1, 0], [0, 1]),
        ("10 30\r\n30 10\r\n", [0, 1], [1, 0]),
        ("b a\na b\n", [0, 1], [1, 0]),
        ("01 1\n1 01\n", [0, 1], [1, 0]),
        ("-5 5\n5 -5\n", [0, 1], [1, 0]),
        ("# x\n\n a,b # comment\nb , a\n", [0, 1], [1, 0]),
        ("rack 1,rack 2\nrack 2,rack 1\n", [0, 1], [1, 0]),
        ("tail,head\n0,1\n1,0\n", [0, 1], [1, 0]),
        ("Source\tTarget\n0\t1\n1\t0\n", [0, 1], [1, 0]),
        ("\ufeff0 1\n1 0\n", [0, 1], [1, 0]),
        ("sw#1 sw#2\nsw#2 sw#1\n", [0, 1], [1, 0]),
        ("0 0\n", [0], [0]),
        ("99999999999999999999 1\n1 99999999999999999999\n", [0, 1], [1, 0]),
    ],
)
def test_edge_lists(text, tail, head):
    assert read("edgelist", text) == Topology(len({*tail, *head}), tail, head)


def test_edge_list_speeds():
    assert read("edgelist", "0 1 4\n1 0 1\n").speeds().tolist() == [4, 1]
    assert read("edgelist", "0 1 4.0\n1 0 0.5\n").speeds().tolist() == [8, 1]
    assert read("edgelist", "0 1 400Gbps\n1 0 100Gbps\n").speeds().tolist() == [4, 1]
    assert read("edgelist", "0 1 {}\n1 0 {}\n").link_speed is None
    assert read("edgelist", "0 1 {'capacity': 2, 'color': 'red'}\n1 0 {'capacity': 1}").degree == 1
    with pytest.raises(ValueError, match="x: the edge '1' to '0' has no 'speed', as others have"):
        read("edgelist", "0 1 4\n1 0\n")
    with pytest.raises(ValueError, match="edges differ in 'weight', which may be their speed"):
        read("edgelist", "source,target,weight\n0,1,4\n1,0,2")
    assert read("edgelist", "source target speed\n0 1 2\n1 0 2").link_speed.tolist() == [2, 2]


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("0 1\n2\n", 2, "two or three columns"),
        ("0 1 1 1\n", 1, "two or three columns"),
        ("0 1 fast\n", 1, "not a link speed"),
        ("0 1 0\n", 1, "not a link speed"),
        ("0 1 1e999\n", 1, "not a link speed"),
        ("0 1 {'weight': [2]}\n", 1, "no dict of attributes"),
        ("0 1 {'weight'\n", 1, "no dict of attributes"),
        ("0,,1\n", 1, "not a node name"),
        ("0 1\n0 \x00\n", 2, "not a node name"),
        (b"0 1\n0 \xff\n", 2, "not UTF-8"),
        (b"\x00\x01\x02\x03", 1, "two or three columns"),
    ],
)
def test_bad_edge_lists_name_the_line(text, line, reason):
    with pytest.raises(ValueError, match=f"^x, line {line}: .*{reason}"):
        read("edgelist", text)


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("src,dst\n0,1\n1,0\n", [(0, 1), (1, 0)]),
        ("From To\n0 1\n1 0\n", [(0, 1), (1, 0)]),
        ("4 4\n0 1\n1 2\n2 3\n3 0\n", [(0, 1), (1, 2), (2, 3), (3, 0)]),
        ("4 4\n1 2\n2 3\n3 4\n4 1\n", None),
        ("x,y\n0,1\n1,0\n", None),
        ("0,1\n0,1\n1,0\n", None),
        ("0,1,2\n0,1,1\n1,0,1\n", None),
        ("0,1\n1,0\n", [(0, 1), (1, 0)]),
        ("0,1\n0,1\n1,0\n1,0\n", [(0, 1), (0, 1), (1, 0), (1, 0)]),
        ("# 5 nodes, 5 directed links: tail head\n4 4\n0 1\n1 2\n2 3\n3 0\n", [(4, 4), (0, 1)]),
    ],
)
def test_headings_are_told_from_links_or_refused(text, ends):
    if ends is None:
        with pytest.raises(ValueError, match=r"^x, line 1: .* may be a heading or a link"):
            read("edgelist", text)
        return
    found = read("edgelist", text)
    links = list(zip(found.tail.tolist(), found.head.tolist(), strict=True))
    assert links[: len(ends)] == ends
    assert len(links) == len(ends) or "#" in text


def test_edge_list_without_links():
    with pytest.raises(ValueError, match="no links"):
        read("edgelist", "# only a comment\n")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ("[]", "an object"),
        ("{\n\n,}", "line 3: this is not JSON"),
        ("[" * 100_000, "levels of nesting"),
        ("{}", "nodes must be a list"),
        (json_graph(edges=None), "edges must be a list"),
        (json_graph(links=[]), "both edges and links"),
        (json_graph(directed="yes"), "directed is 'yes'"),
        (json_graph(nodes=[]), "is not among the nodes"),
        (json_graph(nodes=[], edges=[]), "no nodes"),
        (json_graph(nodes=[0, 1]), r"nodes\[0\] is 0"),
        (json_graph(nodes=[{"id": 0}, {"id": "0"}]), r"nodes\[1\]: a second node"),
        (json_graph(nodes=[{"id": True}]), r"nodes\[0\]: id is True"),
        (json_graph(nodes=[{"id": [0]}]), r"nodes\[0\]: id is \[0\]"),
        (json_graph(nodes=[{"id": ""}]), "not a node name"),
        (json_graph(edges=[{"source": 0}]), r"edges\[0\]: target is None"),
        (json_graph(edges=[{"source": 0, "target": 9}]), r"target 9 is not among"),
        (
            json_graph(edges=[{"source": 0, "target": 1, "speed": 0}]),
            r"edges\[0\]: 0 is not a link",
        ),
        (json_graph(edges=[{"source": 0, "target": 1, "speed": True}]), "not a link speed"),
        (json_graph(edges=[{"source": 0, "target": 1}] * 2, multigraph=False), "a parallel edge"),
        ('{"nodes": [{"id": ' + "9" * 5000 + '}], "edges": []}', ""),
    ],
)
def test_bad_node_link_json(text, reason):
    with pytest.raises(ValueError, match=f"^x.*{reason}"):
        read("json", text)


def test_flags_of_node_link_json():
    assert read("json", json_graph()) == Topology(2, [0, 1], [1, 0])
    edge = [{"source": 0, "target": 1}]
    assert read("json", json_graph(directed=None, edges=edge)) == Topology(2, [0, 1], [1, 0])
    twice = json_graph(edges=edge * 2, directed=False, multigraph=None)
    assert read("json", twice) == Topology(2, [0, 1, 0, 1], [1, 0, 1, 0])
    reverse = [*edge, {"source": 1, "target": 0}]
    assert read("json", json_graph(edges=reverse, multigraph=False)).num_links == 2
    with pytest.raises(ValueError, match="a parallel edge"):
        read("json", json_graph(edges=reverse, multigraph=False, directed=False))


NODES = '<node id="a"/><node id="b"/>'
SPEED = '<key id="k" for="edge" attr.name="speed" attr.type="int">{}</key>'


def test_graphml_edges_may_differ_in_direction():
    edges = '<edge source="a" target="b"/><edge source="b" target="a" directed="false"/>'
    assert read("graphml", graphml(edges + NODES)) == Topology(2, [0, 1, 0], [1, 0, 1])


def test_graphml_speeds_and_defaults():
    edges = (
        '<edge source="a" target="b"><data key="k"> 3 </data></edge><edge source="b" target="a">'
    )
    edges += '<data key="other">fast</data></edge>'
    head = SPEED.format("<default>2</default>")
    assert read("graphml", graphml(NODES + edges, head)).speeds().tolist() == [3, 2]
    with pytest.raises(ValueError, match="x: the edge 'b' to 'a' has no 'speed', as others have"):
        read("graphml", graphml(NODES + edges, SPEED.format("")))
    twice = head + head.replace('"k"', '"other"').replace('"int"', '"double"').replace(
        ">2<", ">.5<"
    )
    with pytest.raises(ValueError, match="line 3: 'fast' is not a link speed"):
        read("graphml", graphml(NODES + edges, twice))
    twice_read = read("graphml", graphml(NODES + edges.replace("fast", "1.5"), twice))
    assert twice_read.speeds().tolist() == [2, 1]
    assert read("graphml", graphml(NODES + edges)).speeds().tolist() == [1, 1]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "line 1: this is not XML"),
        ("<a/>", "not GraphML: the document is a 'a'"),
        (graphml(""), "no graph with nodes"),
        (graphml(NODES, default=""), "edgedefault is None"),
        (graphml(NODES, default='edgedefault="maybe"'), "line 2: edgedefault is 'maybe'"),
        (graphml("<node/>"), "line 3: the node has no id"),
        (graphml(NODES + '<node id="a"/>'), "line 3: a second node"),
        (graphml(NODES + '\n<edge source="a"/>'), "line 4: the edge has no target"),
        (graphml(NODES + '\n<edge source="a" target="c"/>'), "line 4: there is no node 'c'"),
        (graphml(NODES + '<edge source="a" target="b" directed="1"/>'), "directed is '1'"),
        (graphml(NODES + "<hyperedge/>"), "a hyperedge in a graph is not supported"),
        (graphml('<node id="a"><graph edgedefault="directed"/></node>'), "a graph in a node"),
        ("<graphml>" + '<graph edgedefault="directed"/>' * 2 + "</graphml>", "a second graph"),
        (
            graphml(
                NODES + '<edge source="a" target="b"><data key="k">-2</data></edge>',
                SPEED.format(""),
            ),
            "line 3: '-2' is not a link speed",
        ),
        ("<!DOCTYPE graphml><graphml/>", "a document type"),
        ('<!DOCTYPE g [<!ENTITY a "aa">]>' + graphml("&a;"), "a document type"),
        ('<!DOCTYPE g [<!ENTITY a SYSTEM "file:///etc/passwd">]>' + graphml("&a;"), "a document"),
        ('<?xml version="1.0" encoding="klingon"?><graphml/>', "line 1: "),
        ("<graphml>" * 2 + "\x00", "not XML"),
    ],
)
def test_bad_graphml(text, reason):
    with pytest.raises(ValueError, match=f"^x.*{reason}"):
        read("graphml", text)


def test_doctype_is_refused_in_any_encoding():
    text = '<?xml version="1.0" encoding="utf-16"?><!DOCTYPE g [<!ENTITY a "aa">]><graphml/>'
    with pytest.raises(ValueError, match="a document type"):
        read("graphml", text.encode("utf-16"))
