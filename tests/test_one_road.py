"""One road from a graph file: every command, option and function reads the same speeds."""

import json
import random
from fractions import Fraction

import networkx as nx
import pytest

import ocs_codesign as oc
from ocs_codesign.core.given import as_topology
from ocs_codesign.core.networks.formats import import_network
from ocs_codesign.faces.cli import main
from ocs_codesign.graphs.formats.graph_files import import_graph

NAMES = {"speed": 1, "bandwidth": 1, "capacity": 1.0, "LinkSpeedRaw": 10**9}
"""Attributes that are speeds, and what the slowest link of a sample has."""


def sample(seed):
    """A connected graph with speeds of 1 to 4 at least one of which is 1; damaged and prime too."""
    draw = random.Random(seed)
    size = draw.choice([4, 5, 7, 8])
    graph = nx.cycle_graph(size)
    graph.add_edges_from(draw.sample(list(nx.complement(graph).edges), draw.randint(0, 2)))
    speeds = {edge: draw.choice([1, 1, 2, 3, 4]) for edge in graph.edges}
    return graph, speeds | {next(iter(graph.edges)): 1}


def graphml(graph, path):
    nx.write_graphml(graph, path)


def with_default(graph, path):
    """GraphML whose commonest speed is the default of its key."""
    name = next(key for *_, marks in graph.edges(data=True) for key in marks)
    values = [marks[name] for *_, marks in graph.edges(data=True)]
    usual = max(values, key=values.count)
    lines = [
        f'<graphml><key id="k" for="edge" attr.name="{name}" attr.type="double">'
        f"<default>{usual}</default>"
        '</key><graph edgedefault="undirected">'
    ]
    lines += [f'<node id="{node}"/>' for node in graph]
    lines += [
        f'<edge source="{tail}" target="{head}">'
        + (f'<data key="k">{marks[name]}</data>' if marks[name] != usual else "")
        + "</edge>"
        for tail, head, marks in graph.edges(data=True)
    ]
    path.write_text("\n".join([*lines, "</graph></graphml>"]))


def node_link(key):
    return lambda graph, path: path.write_text(json.dumps(nx.node_link_data(graph, edges=key)))


def rows(mark, heading):
    """An edge list of links each way."""

    def write(graph, path):
        name = next(key for *_, marks in graph.edges(data=True) for key in marks)
        lines = [mark.join(["source", "target", name])] if heading else []
        for tail, head, marks in graph.edges(data=True):
            value = str(marks) if heading is None else str(marks[name])
            lines += [mark.join([str(tail), str(head), value])]
            lines += [mark.join([str(head), str(tail), value])]
        path.write_text("\n".join(lines) + "\n")

    return write


FORMATS = {
    "a.graphml": graphml,
    "b.graphml": with_default,
    "c.json": node_link("edges"),
    "d.json": node_link("links"),
    "e.edges": rows(" ", heading=False),
    "f.csv": rows(",", heading=True),
    "g.txt": rows(" ", heading=True),
    "h.edgelist": rows(" ", heading=None),
}


def written(seed, file, name, folder):
    """The file of a sample with one name of speeds."""
    graph, speeds = sample(seed)
    nx.set_edge_attributes(graph, {edge: one * NAMES[name] for edge, one in speeds.items()}, name)
    path = folder / f"{name}-{file}"
    FORMATS[file](graph, path)
    return graph, path


def links(tail, head, speeds):
    unit = min(speeds.tolist())
    shares = [Fraction(one, unit) for one in speeds.tolist()]
    return sorted(zip(tail.tolist(), head.tolist(), shares, strict=True))


@pytest.mark.parametrize("file", FORMATS)
def test_formats_and_names_give_the_same_links(file, tmp_path):
    for seed in range(100):
        graph, speeds = sample(seed)
        right = sorted(
            (*ends, Fraction(one))
            for (tail, head), one in speeds.items()
            for ends in ((tail, head), (head, tail))
        )
        for name in NAMES:
            graph, path = written(seed, file, name, tmp_path)
            topology, network = import_graph(path), import_network(path)
            assert links(topology.tail, topology.head, topology.speeds()) == right
            assert links(network.tail, network.head, network.bandwidth) == right
            if seed < 5:
                given = as_topology(graph)
                assert links(given.tail, given.head, given.speeds()) == right


def said(capsys, *arguments):
    code = main([*map(str, arguments), "--json", "-"])
    read = capsys.readouterr()
    if code == 2 and "give --bandwidth" in read.err:
        code = main([*map(str, arguments), "--bandwidth", "3Gbps", "--json", "-"])
        read = capsys.readouterr()
    assert code == 0, read.err
    return json.loads(read.out)


PRIME = 7
"""The seed of a sample of seven nodes."""


@pytest.mark.parametrize(("file", "name"), list(zip(FORMATS, [*NAMES] * 2, strict=True)))
def test_commands_give_the_same_answer(capsys, tmp_path, file, name):
    """All in shares of the slowest link, as they are known from the graph in memory."""
    graph, path = written(PRIME, file, name, tmp_path)
    speeds = sample(PRIME)[1].values()
    topology = import_graph(path)
    egress = Fraction(topology.node_speed(), min(topology.speeds().tolist()))
    slowest = 1 if name == "LinkSpeedRaw" else Fraction(NAMES[name])  # which is in Gbps then
    right = oc.optimum(graph, "allgather").algbw / slowest
    assert Fraction(said(capsys, "optimum", path)["algbw"]) / slowest == right

    design = tmp_path / "design"
    said(capsys, "build", "--graph", path, "--out", design)
    said(capsys, "build", "--network", path, "--scheduler", "forest", "--out", tmp_path / "forest")
    of_graph = said(capsys, "cost", "--graph", path)
    (half,) = said(capsys, "cost", "--network", path)["halves"]
    (bfb,) = (one for one in half["schedules"] if one["schedule"] == "bfb")
    assert (bfb["steps"], bfb["t_b"]) == (of_graph["steps"], of_graph["t_b"])
    assert json.loads((design / "design.json").read_text())["cost"]["t_b"] == bfb["t_b"]
    for bound in (half["bound"], of_graph["topology_bound"]):
        assert Fraction(bound["t_b"]) == egress / right
    told = said(capsys, "import", path)["link_speeds"]
    assert Fraction(max(told), min(told)) == max(speeds)

    size, slowest_Bps = 3 * 2**20, Fraction(10**9, 8)  # noqa: N806 - units keep their case
    if name != "LinkSpeedRaw":  # where --bandwidth is all that leaves a host
        slowest_Bps = 3 * slowest_Bps / egress  # noqa: N806
    least_s = float(size / (right * slowest_Bps))
    played = said(capsys, "simulate", design, "--network", path, "--message", "3MiB")
    assert played["bound_ns"] / 1e9 == pytest.approx(least_s, rel=1e-12)
    if file in ("a.graphml", "h.edgelist"):
        compared = said(capsys, "compare", path, "--message", "3MiB", "--workers", "1")
        assert compared["networks"][0]["least_s"] == [pytest.approx(least_s, rel=1e-12)]
