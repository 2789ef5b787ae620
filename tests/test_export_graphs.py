"""Graph files: every exporter's text, every importer's rules, and the round trips between them."""

from __future__ import annotations

import json

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import multigraphs

from ocs_codesign.export import (
    EXPORTERS,
    IMPORTERS,
    from_networkx,
    graph_facts,
    graph_files,
    import_graph,
    to_networkx,
)
from ocs_codesign.recipe import parse
from ocs_codesign.topology import Topology

FAST = Topology(3, [0, 1, 2, 0, 2], [1, 2, 0, 1, 2], [1, 2, 3, 1, 7])
BOTH_WAYS = sorted(set(EXPORTERS) & set(IMPORTERS))

any_bytes = st.binary(max_size=200)
graph_like = st.text(alphabet='0123 ab,#\n<>/="{}[]:\\', max_size=120)


def read(kind: str, text: str | bytes) -> Topology:
    return IMPORTERS[kind](text.encode() if isinstance(text, str) else text, "x")


@st.composite
def any_graphs(draw):
    """Any multigraph, also with isolated nodes or without links."""
    nodes = draw(st.integers(1, 7))
    ends = st.integers(0, nodes - 1)
    links = draw(st.lists(st.tuples(ends, ends, st.integers(1, 5)), max_size=20))
    columns = np.array(links, dtype=np.int64).reshape(-1, 3).T
    return Topology(nodes, columns[0], columns[1], columns[2])


@pytest.mark.parametrize("kind", sorted(EXPORTERS))
@given(multigraphs())
def test_exporters_are_deterministic_text(kind, topology):
    text = EXPORTERS[kind](topology, "any name")
    assert text == EXPORTERS[kind](topology, "any name")
    assert text.endswith("\n")


@pytest.mark.parametrize("kind", BOTH_WAYS)
@given(multigraphs())
def test_round_trip(kind, topology):
    assert read(kind, EXPORTERS[kind](topology, "a graph")) == topology


@pytest.mark.parametrize("kind", ["json", "graphml"])
@given(any_graphs())
def test_round_trip_with_isolated_nodes(kind, topology):
    assert read(kind, EXPORTERS[kind](topology, "a graph")) == topology


@given(any_graphs())
def test_round_trip_through_networkx(topology):
    assert from_networkx(to_networkx(topology)) == topology


@pytest.mark.parametrize("kind", sorted(EXPORTERS))
@pytest.mark.parametrize("name", ['"; } <&> \\ ]]>', "two\nlines\r0 0", "\x00\x1b\ufffe", "", "#"])
def test_hostile_names_stay_names(kind, name):
    text = EXPORTERS[kind](FAST, name)
    if kind in IMPORTERS:
        assert read(kind, text) == FAST
    else:
        assert len(text.splitlines()) == 2 + FAST.num_nodes + FAST.num_links


def test_edge_list_cannot_hold_an_isolated_node():
    with pytest.raises(ValueError, match="node 1 has no links"):
        EXPORTERS["edgelist"](Topology(3, [0, 2], [2, 0]), "x")


def test_edge_list_text():
    assert EXPORTERS["edgelist"](parse("UniRing(1, 3)").topology(), "UniRing(1, 3)") == (
        "# UniRing(1, 3)\n# 3 nodes, 3 directed links: tail head\n0 1\n1 2\n2 0\n"
    )


def test_node_link_is_what_networkx_writes():
    mine = json.loads(EXPORTERS["json"](FAST, "fast"))
    theirs = nx.node_link_data(to_networkx(FAST, "fast"), edges="edges")
    mine["edges"].sort(key=lambda edge: edge["key"])
    theirs["edges"].sort(key=lambda edge: edge["key"])
    assert mine == json.loads(json.dumps(theirs))


def test_networkx_reads_what_is_written(tmp_path):
    graph = nx.node_link_graph(json.loads(EXPORTERS["json"](FAST, "fast")), edges="edges")
    assert from_networkx(graph) == FAST
    path = tmp_path / "fast.graphml"
    path.write_text(EXPORTERS["graphml"](FAST, "fast"), encoding="utf-8")
    graph = nx.read_graphml(path, node_type=int, edge_key_type=int, force_multigraph=True)
    assert isinstance(graph, nx.MultiDiGraph)
    assert from_networkx(graph) == FAST


@pytest.mark.parametrize("make", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
@pytest.mark.parametrize("edges_key", ["edges", "links"])
def test_networkx_files_are_read(tmp_path, make, edges_key):
    graph = make([("a", "b"), ("b", "c"), ("c", "a"), ("c", "c")])
    if graph.is_multigraph():
        graph.add_edge("a", "b")
    nx.set_edge_attributes(graph, 2, "speed")
    nx.set_edge_attributes(graph, 0.5, "weight")
    expected = from_networkx(graph)
    assert expected.num_links == graph.number_of_edges() * (1 if graph.is_directed() else 2)
    data = nx.node_link_data(graph, edges=edges_key)
    (tmp_path / "g.json").write_text(json.dumps(data), encoding="utf-8")
    nx.write_graphml(graph, tmp_path / "g.graphml")
    for path in tmp_path.iterdir():
        assert import_graph(path) == expected, path.name


def test_networkx_edge_list_is_read(tmp_path):
    graph = nx.DiGraph([(0, 1), (1, 2), (2, 0)])
    nx.write_edgelist(graph, tmp_path / "g.txt")
    assert import_graph(tmp_path / "g.txt") == from_networkx(graph)


@pytest.mark.parametrize(
    ("text", "tail", "head"),
    [
        ("0 1\n1 0\n", [0, 1], [1, 0]),
        ("1 0\n0 1", [1, 0], [0, 1]),
        ("10 30\r\n30 10\r\n", [0, 1], [1, 0]),
        ("30 10\n10 30\n", [1, 0], [0, 1]),
        ("b a\na b\n", [0, 1], [1, 0]),
        ("b 1\n1 b\n", [0, 1], [1, 0]),
        ("01 1\n1 01\n", [0, 1], [1, 0]),
        ("-5 5\n5 -5\n", [0, 1], [1, 0]),
        ("# x\n\n a,b # comment\nb , a\n", [0, 1], [1, 0]),
        ("rack 1,rack 2\nrack 2,rack 1\n", [0, 1], [1, 0]),
        ("tail,head\n0,1\n1,0\n", [0, 1], [1, 0]),
        ("Source\tTarget\n0\t1\n1\t0\n", [0, 1], [1, 0]),
        ("\ufeff0 1\n1 0\n", [0, 1], [1, 0]),
        ("ä β\nβ ä\n", [0, 1], [1, 0]),
        ("sw#1 sw#2\nsw#2 sw#1\n", [0, 1], [1, 0]),
        ("0 0\n", [0], [0]),
        ("99999999999999999999 1\n1 99999999999999999999\n", [0, 1], [1, 0]),
    ],
)
def test_edge_lists(text, tail, head):
    assert read("edgelist", text) == Topology(len({*tail, *head}), tail, head)


def test_edge_list_speeds():
    assert read("edgelist", "0 1 4\n1 0\n0 1 {}\n").speeds().tolist() == [4, 1, 1]
    assert read("edgelist", "source target speed\n0 1 2\n1 0 2").link_speed.tolist() == [2, 2]


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("0 1\n2\n", 2, "two or three columns"),
        ("0 1 1 1\n", 1, "two or three columns"),
        ("0 1 fast\n", 1, "not a link speed"),
        ("0 1 0\n", 1, "not a link speed"),
        ("0 1 -2\n", 1, "not a link speed"),
        ("0 1 1.5\n", 1, "not a link speed"),
        ("0 1 2147483648\n", 1, "not a link speed"),
        ("0 1 {'weight': 2}\n", 1, "two or three columns"),
        ("0,,1\n", 1, "not a node name"),
        ("0,\n", 1, "not a node name"),
        ("0 1\n0 \x00\n", 2, "not a node name"),
        (b"0 1\n0 \xff\n", 2, "not UTF-8"),
        (b"\x00\x01\x02\x03", 1, "two or three columns"),
    ],
)
def test_bad_edge_lists_name_the_line(text, line, reason):
    with pytest.raises(ValueError, match=f"^x, line {line}: .*{reason}"):
        read("edgelist", text)


def test_edge_list_without_links():
    with pytest.raises(ValueError, match="no links"):
        read("edgelist", "# only a comment\n")


def json_graph(**changes):
    graph = {
        "directed": True,
        "multigraph": True,
        "nodes": [{"id": 0}, {"id": 1}],
        "edges": [{"source": 0, "target": 1}, {"source": 1, "target": 0}],
    }
    graph.update(changes)
    return json.dumps({key: value for key, value in graph.items() if value is not None})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ("[]", "an object"),
        ("{\n\n,}", "line 3: this is not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("{}", "nodes must be a list"),
        (json_graph(edges=None), "edges must be a list"),
        (json_graph(links=[]), "both edges and links"),
        (json_graph(directed="yes"), "directed is 'yes'"),
        (json_graph(multigraph=1), "multigraph is 1"),
        (json_graph(nodes=[]), "is not among the nodes"),
        (json_graph(nodes=[], edges=[]), "no nodes"),
        (json_graph(nodes=[0, 1]), r"nodes\[0\] is 0"),
        (json_graph(nodes=[{"id": 0}, {"id": "0"}]), r"nodes\[1\]: a second node"),
        (json_graph(nodes=[{"id": True}]), r"nodes\[0\]: id is True"),
        (json_graph(nodes=[{"id": 1.0}]), r"nodes\[0\]: id is 1.0"),
        (json_graph(nodes=[{"id": [0]}]), r"nodes\[0\]: id is \[0\]"),
        (json_graph(nodes=[{"name": 0}]), r"nodes\[0\]: id is None"),
        (json_graph(nodes=[{"id": ""}]), "not a node name"),
        (json_graph(edges=[{"source": 0}]), r"edges\[0\]: target is None"),
        (json_graph(edges=[{"source": 0, "target": 9}]), r"target 9 is not among"),
        (
            json_graph(edges=[{"source": 0, "target": 1, "speed": 0}]),
            r"edges\[0\]: 0 is not a link",
        ),
        (json_graph(edges=[{"source": 0, "target": 1, "speed": True}]), "not a link speed"),
        (json_graph(edges=[{"source": 0, "target": 1, "speed": 1.5}]), "not a link speed"),
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


def graphml(inside: str, head: str = "", default: str = 'edgedefault="directed"') -> str:
    return f"<graphml>\n{head}<graph {default}>\n{inside}\n</graph></graphml>"


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
    assert read("graphml", graphml(NODES + edges, SPEED.format(""))).speeds().tolist() == [3, 1]
    assert read("graphml", graphml(NODES + edges)).speeds().tolist() == [1, 1]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "line 1: this is not XML"),
        ("<graphml>", "line 1: this is not XML"),
        ("<a/>", "not GraphML: the document is a 'a'"),
        ("<graphml/>", "no graph with nodes"),
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
                NODES + '<edge source="a" target="b"><data key="k">2.5</data></edge>',
                SPEED.format(""),
            ),
            "line 3: '2.5' is not a link speed",
        ),
        ("<!DOCTYPE graphml><graphml/>", "a document type"),
        ('<!DOCTYPE g [<!ENTITY a "aa">]>' + graphml("&a;"), "a document type"),
        ('<!DOCTYPE g [<!ENTITY a SYSTEM "file:///etc/passwd">]>' + graphml("&a;"), "a document"),
        (graphml("&a;"), "not XML"),
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


@pytest.mark.parametrize("kind", sorted(IMPORTERS))
@given(any_bytes | graph_like.map(str.encode))
def test_any_bytes_are_read_or_refused(kind, data):
    try:
        topology = IMPORTERS[kind](data, "x")
    except ValueError as error:
        reason = str(error)
    else:
        reason = "x" if topology.num_nodes else ""
    assert reason.startswith("x")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("g.txt", "0 1\n1 0\n"),
        ("g.dat", json_graph()),
        ("g", "  " + json_graph()),
        (
            "g.bin",
            graphml(
                '<node id="0"/><node id="1"/>' + '<edge source="0" target="1"/>'
                '<edge source="1" target="0"/>'
            ),
        ),
    ],
)
def test_content_tells_the_format(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert import_graph(tmp_path / name) == Topology(2, [0, 1], [1, 0])


def test_suffix_and_argument_tell_the_format(tmp_path):
    path = tmp_path / "g.json"
    path.write_text("0 1\n1 0\n", encoding="utf-8")
    with pytest.raises(ValueError, match="not JSON"):
        import_graph(path)
    assert import_graph(path, "edgelist").num_nodes == 2
    with pytest.raises(ValueError, match="format is 'gexf': it must be one of edgelist"):
        import_graph(path, "gexf")


def test_files_that_are_not_graphs(tmp_path, monkeypatch):
    (tmp_path / "empty.txt").write_bytes(b" \n")
    with pytest.raises(ValueError, match="the file is empty"):
        import_graph(tmp_path / "empty.txt")
    with pytest.raises(FileNotFoundError):
        import_graph(tmp_path / "none.txt")
    with pytest.raises(IsADirectoryError):
        import_graph(tmp_path)
    monkeypatch.setattr(graph_files, "MAX_FILE_BYTES", 4)
    (tmp_path / "long.txt").write_text("0 1\n1 0\n", encoding="utf-8")
    with pytest.raises(ValueError, match="MiB are not read"):
        import_graph(tmp_path / "long.txt")


def test_too_many_links(monkeypatch):
    monkeypatch.setattr("ocs_codesign.export.naming.MAX_LINKS", 2)
    with pytest.raises(ValueError, match="line 3: more than 2 links"):
        read("edgelist", "0 1\n1 0\n0 1\n")


@given(multigraphs(max_nodes=6))
def test_facts(topology):
    facts, graph = graph_facts(topology), to_networkx(topology)
    assert facts.num_links == graph.number_of_edges()
    assert facts.self_loops == nx.number_of_selfloops(graph)
    assert facts.parallel_links == graph.number_of_edges() - nx.DiGraph(graph).number_of_edges()
    assert facts.strongly_connected
    assert facts.diameter == nx.diameter(nx.DiGraph(graph))


@given(any_graphs())
def test_strong_connection_is_recognised(topology):
    facts = graph_facts(topology)
    assert facts.strongly_connected == nx.is_strongly_connected(to_networkx(topology))
    assert (facts.diameter is not None) == facts.strongly_connected


def test_from_networkx_refuses_what_is_no_topology():
    with pytest.raises(ValueError, match="no nodes"):
        from_networkx(nx.Graph())
    with pytest.raises(ValueError, match="not a link speed"):
        from_networkx(nx.DiGraph([(0, 1, {"speed": -1})]))
    graph = nx.DiGraph([(0, 1, {"speed": np.int64(3)}), (1, 0)])
    assert from_networkx(graph).speeds().tolist() == [3, 1]
