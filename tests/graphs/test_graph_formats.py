"""Graph files: one contract for every format that is listed, also for one listed just now."""

from __future__ import annotations

import json

import networkx as nx
import numpy as np
import pytest
from graph_text import graphml, json_graph, read
from hypothesis import given
from hypothesis import strategies as st
from strategies import multigraphs

from ocs_codesign.core.files.records import Format, readers, writers
from ocs_codesign.core.topology import Topology
from ocs_codesign.faces.cli import main
from ocs_codesign.graphs.formats import graph_files
from ocs_codesign.graphs.formats.facts import graph_facts
from ocs_codesign.graphs.formats.graph_files import FORMATS, import_graph
from ocs_codesign.graphs.formats.node_link import from_networkx, to_networkx
from ocs_codesign.graphs.text import parse

FAST = Topology(3, [0, 1, 2, 0, 2], [1, 2, 0, 1, 2], [1, 2, 3, 1, 7])
NAMES = ("a graph", '"; } <&> \\ ]]>', "two\nlines\r0 0", "\x00\x1b\ufffe", "", "#")


@st.composite
def any_graphs(draw):
    """Any multigraph, also with isolated nodes or without links."""
    nodes = draw(st.integers(1, 7))
    ends = st.integers(0, nodes - 1)
    links = draw(st.lists(st.tuples(ends, ends, st.integers(1, 5)), max_size=20))
    columns = np.array(links, dtype=np.int64).reshape(-1, 3).T
    return Topology(nodes, columns[0], columns[1], columns[2])


# The contract of a format.


def check_texts(one: Format[Topology], topology: Topology, name: str) -> None:
    """The same text each time, in lines, from which the same value comes back."""
    if one.write is None:
        return
    try:
        text = one.write(topology, name)
    except ValueError as error:
        assert "has no links" in str(error)  # noqa: PT017 - a format may not hold such nodes
        return
    assert text == one.write(topology, name)
    assert text.endswith("\n")
    if one.read is not None:
        assert one.read(text.encode(), "x") == topology


def check_refusal(one: Format[Topology], data: bytes) -> None:
    """Any bytes are a value, or a sentence that begins with the name of the file."""
    if one.read is None:
        return
    try:
        value = one.read(data, "x")
    except ValueError as error:
        rule = str(error)
        assert (rule[:1], "\n" in rule) == ("x", False)
    else:
        assert value.num_nodes


@pytest.mark.parametrize("kind", sorted(FORMATS))
@given(multigraphs() | any_graphs(), st.sampled_from(NAMES))
def test_texts_come_back(kind, topology, name):
    check_texts(FORMATS[kind], topology, name)


any_bytes = st.binary(max_size=200)
graph_like = st.text(alphabet='0123 ab,#\n<>/="{}[]:\\', max_size=120).map(str.encode)


@pytest.mark.parametrize("kind", sorted(readers(FORMATS)))
@given(any_bytes | graph_like)
def test_any_bytes_are_read_or_refused(kind, data):
    check_refusal(FORMATS[kind], data)


def write_toy(topology: Topology, _: str) -> str:
    rows = zip(topology.tail, topology.head, topology.speeds(), strict=True)
    links = [f"{tail}>{head}*{speed}" for tail, head, speed in rows]
    return f"toy {topology.num_nodes} {' '.join(links)}\n"


def read_toy(data: bytes, name: str) -> Topology:
    try:
        mark, nodes, *links = data.decode().split()
        if mark != "toy":
            raise ValueError("it does not begin with toy")
        rows = [link.replace("*", ">").split(">") for link in links]
        tail, head, speed = np.array(rows, dtype=np.int64).reshape(-1, 3).T
        return Topology(int(nodes), tail, head, speed)
    except ValueError as error:
        raise ValueError(f"{name}: {' '.join(str(error).split())}") from None


TOY = Format("toy graph", read_toy, write_toy, suffixes=(".toy",), marks=(b"toy ",))


@given(multigraphs() | any_graphs(), st.sampled_from(NAMES), any_bytes | graph_like)
def test_a_format_of_ones_own_keeps_the_contract(topology, name, data):
    check_texts(TOY, topology, name)
    check_refusal(TOY, data)


def test_what_is_listed_works_everywhere(capsys, monkeypatch, tmp_path):
    assert main(["topology", "Complete(3)", "--format", "toy"]) == 2
    assert "'toy' is not one of" in capsys.readouterr().err
    monkeypatch.setitem(FORMATS, "toy", TOY)
    path = tmp_path / "g.toy"
    assert main(["topology", "Complete(3)", "--format", "toy", "--out", str(path)]) == 0
    told, named = tmp_path / "told", tmp_path / "named.json"
    for copy in (told, named):
        copy.write_bytes(path.read_bytes())
    assert main(["import", str(path)]) == main(["import", str(told)]) == 0
    assert main(["import", str(named), "--format", "toy"]) == 0
    assert main(["cost", "--graph", str(path)]) == 0
    assert import_graph(told) == parse("Complete(3)").topology()
    path.write_text("toy x\n")
    capsys.readouterr()
    assert main(["import", str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"Error: {path}: ")
    for command in ("topology", "import"):
        assert main([command, "--help"]) == 0
        text = " ".join(capsys.readouterr().out.split())
        assert "|toy]" in text
        assert " or toy graph" in text
    monkeypatch.undo()
    assert main(["topology", "--help"]) == 0
    assert "toy" not in capsys.readouterr().out


# What the formats are beside that.


@given(any_graphs())
def test_round_trip_through_networkx(topology):
    assert from_networkx(to_networkx(topology)) == topology


@pytest.mark.parametrize("name", NAMES)
def test_dot_has_a_line_a_node_and_link(name):
    lines = writers(FORMATS)["dot"](FAST, name).splitlines()
    assert len(lines) == 2 + FAST.num_nodes + FAST.num_links


def test_the_file_of_a_slice_says_its_cubes_and_switches(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    slice_ = parse("PodSlice((2, 2), (((1, 0), (0, 1)), ((0, 1), (1, 0))))")
    assert main(["topology", repr(slice_), "--out", "x.json", "-q"]) == 0
    assert import_graph("x.json") == slice_.topology()
    told = json.loads((tmp_path / "x.json").read_bytes())
    assert [node["cube"] for node in told["nodes"]] == [0] * 4 + [1] * 4
    led = {
        (edge["source"], edge["target"]): edge["switch"]
        for edge in told["edges"]
        if "switch" in edge
    }
    circuits = {(1, 4): "0:0", (5, 0): "0:0", (3, 2): "0:1", (2, 0): "1:0", (3, 5): "1:1"}
    assert {ends: led[ends] for ends in circuits} == circuits
    assert sum("switch" in edge for edge in told["edges"]) == 16


def test_edge_lists():
    write = writers(FORMATS)["edgelist"]
    with pytest.raises(ValueError, match="node 1 has no links"):
        write(Topology(3, [0, 2], [2, 0]), "x")
    assert write(parse("UniRing(1, 3)").topology(), "UniRing(1, 3)") == (
        "# UniRing(1, 3)\n# 3 nodes, 3 directed links: tail head\n0 1\n1 2\n2 0\n"
    )


def test_networkx_reads_what_is_written(tmp_path):
    text = writers(FORMATS)["json"](FAST, "fast")
    mine, theirs = json.loads(text), nx.node_link_data(to_networkx(FAST, "fast"), edges="edges")
    for data in (mine, theirs):
        data["edges"].sort(key=lambda edge: edge["key"])
    assert mine == json.loads(json.dumps(theirs))
    assert from_networkx(nx.node_link_graph(json.loads(text), edges="edges")) == FAST
    path = tmp_path / "fast.graphml"
    path.write_text(writers(FORMATS)["graphml"](FAST, "fast"), encoding="utf-8")
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


PAIR = '<node id="0"/><node id="1"/><edge source="0" target="1"/><edge source="1" target="0"/>'


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("g.txt", "0 1\n1 0\n"),
        ("g.dat", json_graph()),
        ("g", "  " + json_graph()),
        ("g.bin", graphml(PAIR)),
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
    monkeypatch.setattr("ocs_codesign.core.networks.attributed.MAX_LINKS", 2)
    with pytest.raises(ValueError, match="line 3: more than 2 links"):
        read("edgelist", "0 1\n1 0\n0 1\n")


@given(any_graphs())
def test_facts(topology):
    facts, graph = graph_facts(topology), to_networkx(topology)
    simple = nx.DiGraph(graph)
    assert facts.num_links == graph.number_of_edges()
    assert facts.self_loops == nx.number_of_selfloops(graph)
    assert facts.parallel_links == graph.number_of_edges() - simple.number_of_edges()
    assert facts.strongly_connected == nx.is_strongly_connected(graph)
    assert facts.diameter == (nx.diameter(simple) if facts.strongly_connected else None)


def test_from_networkx_refuses_what_is_no_topology():
    with pytest.raises(ValueError, match="no nodes"):
        from_networkx(nx.Graph())
    with pytest.raises(ValueError, match="not a link speed"):
        from_networkx(nx.DiGraph([(0, 1, {"speed": -1})]))
    with pytest.raises(ValueError, match="the same name as text"):
        from_networkx(nx.DiGraph([(1, "1")]))
    graph = nx.DiGraph([(0, 1, {"speed": np.int64(3)}), (1, 0, {"speed": 1.0})])
    assert from_networkx(graph).speeds().tolist() == [3, 1]
    del graph.edges[1, 0]["speed"]
    with pytest.raises(ValueError, match="the edge '1' to '0' has no 'speed', as others have"):
        from_networkx(graph)
    graph.add_node(0, kind="switch")
    with pytest.raises(ValueError, match="1 of its nodes are switches: it is a network"):
        from_networkx(graph)


@pytest.mark.parametrize("name", ["weight", "linkWidth", "rate"])
def test_attributes_that_may_be_meant_as_speeds_are_not_ignored_in_silence(name):
    graph = nx.cycle_graph(4)
    nx.set_edge_attributes(graph, {edge: at for at, edge in enumerate(graph.edges, 1)}, name)
    with pytest.raises(ValueError, match=f"edges differ in '{name}', which may be their speed"):
        from_networkx(graph)
    assert from_networkx(graph, name).speeds().tolist() == [1, 1, 2, 2, 3, 3, 4, 4]
    assert from_networkx(graph, "none") == from_networkx(nx.cycle_graph(4))
    nx.set_edge_attributes(graph, 2, "speed")
    assert from_networkx(graph).speeds().tolist() == [2] * 8
    graph.edges[0, 1]["capacity"] = 1
    with pytest.raises(ValueError, match="has no 'capacity', as others have"):
        from_networkx(graph)
    nx.set_edge_attributes(graph, 3, "capacity")
    assert from_networkx(graph).num_links == 8
    graph.edges[0, 1]["capacity"] = 1
    with pytest.raises(ValueError, match="edges have 'capacity' and 'speed', which differ"):
        from_networkx(graph)
    with pytest.raises(ValueError, match=f"no edge has the attribute 'x', they have: '{name}'"):
        from_networkx(graph, "x")
