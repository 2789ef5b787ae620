"""Graph files: every exporter's text, every importer's rules, and the round trips between them."""

from __future__ import annotations

import json

import networkx as nx
import numpy as np
import pytest
from graph_text import graphml, json_graph, read
from hypothesis import given
from hypothesis import strategies as st
from strategies import multigraphs

from ocs_codesign.formats.graphs import graph_files
from ocs_codesign.formats.graphs.graph_files import EXPORTERS, IMPORTERS, graph_facts, import_graph
from ocs_codesign.formats.graphs.networkx_graph import from_networkx, to_networkx
from ocs_codesign.graphs.text import parse
from ocs_codesign.topology import Topology

FAST = Topology(3, [0, 1, 2, 0, 2], [1, 2, 0, 1, 2], [1, 2, 3, 1, 7])
BOTH_WAYS = sorted(set(EXPORTERS) & set(IMPORTERS))

any_bytes = st.binary(max_size=200)
graph_like = st.text(alphabet='0123 ab,#\n<>/="{}[]:\\', max_size=120)


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
    monkeypatch.setattr("ocs_codesign.files.naming.MAX_LINKS", 2)
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
