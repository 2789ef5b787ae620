"""Builders of networks against tables of links, and every format of networks there and back."""

from __future__ import annotations

import json
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from folders import DATA
from hypothesis import given
from hypothesis import strategies as st

from ocs_codesign.core.network import Network
from ocs_codesign.core.networks import formats as network_files
from ocs_codesign.core.networks import networkx_network
from ocs_codesign.core.networks.builders import direct, fat_tree, mesh, star, torus
from ocs_codesign.core.networks.products import a100, dgx1, dgx2, h100_rail, mi250, ndv2
from ocs_codesign.core.networks.registry import NETWORKS
from ocs_codesign.core.networks.servers import boxes
from ocs_codesign.graphs.text import parse

KNOWN = json.loads((DATA / "forests.json").read_text(encoding="utf-8"))
FORMATS = {name: (one.write, one.read) for name, one in network_files.FORMATS.items()}
every_format = pytest.mark.parametrize("name", sorted(FORMATS))

BUILT = {
    "a100-1": a100(1),
    "a100-4": a100(4),
    "mi250-1": mi250(1),
    "mi250-2": mi250(2),
    "h100rail-2": h100_rail(2),
    "dgx1": dgx1(),
    "dgx2-2": dgx2(2),
    "ndv2-2": ndv2(2),
    "ndv2-4": ndv2(4),
    "star-10-10-10-1": star(4, (10, 10, 10, 1)),
    "mesh-4x4": mesh((4, 4), 1),
    "torus-4x4": torus((4, 4), 1),
    "leafspine-4x4-2-4-4": fat_tree((4, 4), (1, 2), (4, 4)),
}
"""Networks whose links are known from tables made apart from the builders."""


@pytest.mark.parametrize("name", sorted(BUILT))
def test_builders_make_the_known_links(name):
    network, known = BUILT[name], KNOWN[name]
    links = np.stack([network.tail, network.head, network.bandwidth], axis=1).tolist()
    assert (network.num_hosts, network.num_nodes) == (known["num_ranks"], known["num_vertices"])
    assert sorted(links) == sorted(known["links"])


def test_unequal_dimensions():
    grid = torus((3, 2, 1), (50, 100, 7), (5, 9, 1), "GB/s")
    assert grid.num_links == 2 * (3 * 2 + 3)
    by_dimension = {int(d): set(grid.bandwidth[grid.dimension == d].tolist()) for d in (0, 1)}
    assert by_dimension == {0: {50}, 1: {100}}
    assert set(grid.latency[grid.dimension == 1].tolist()) == {9}


def test_boxes_on_a_recipe():
    outer = parse("Kautz(2, 1)").topology()
    network = boxes(6, 4, 100, 25, outer=outer)
    between = network.dimension == 1
    assert between.sum() == outer.num_links
    assert (network.tail[between] // 4).tolist() == outer.tail.tolist()
    assert (network.head[between] // 4).tolist() == outer.head.tolist()
    # The two links out of a box are of two of its hosts, and so are those into it.
    assert np.bincount(network.tail[between]).max() == np.bincount(network.head[between]).max() == 1


def test_the_fat_tree_of_ports():
    tree = fat_tree((2, 2, 4), (1, 2, 2), 10, multicast=True)
    ports = np.bincount(tree.tail, minlength=36)
    assert ports[:16].tolist() == [1] * 16
    assert ports[16:].tolist() == [4] * 20
    assert tree.multicast.tolist() == [False] * 16 + [True] * 20
    assert nx.diameter(nx.Graph(networkx_network.to_networkx(tree))) == 6


def test_losses():
    tree = fat_tree((2, 2), (1, 2), 10)
    damaged = tree.without(links=[0], nodes=[1, 4])
    assert (damaged.num_hosts, damaged.num_nodes) == (3, 6)
    assert damaged.num_links < tree.num_links - 5
    assert tree.without() == tree
    with pytest.raises(ValueError, match="no host is left"):
        tree.without(nodes=range(4))
    with pytest.raises(ValueError, match="a lost link is 99"):
        tree.without(links=[99])


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (lambda: star(3, [1, 2]), "2 values of bandwidth: give one, or 3"),
        (lambda: star(0, 1), "0 hosts"),
        (lambda: star(2, 0), "bandwidth is 0 at position 0: it is from 1"),
        (lambda: star(2, 2**41), "bandwidth is 2199023255552"),
        (lambda: mesh((3, 0), 1), "sizes are"),
        (lambda: fat_tree((2,), (1, 1), 1), "one each a level"),
        (lambda: boxes(2, 4, 1, 1, outer=5), "5 rails: a box has 1 to 4"),
        (lambda: boxes(2, 4, 1, 1, inner=parse("Complete(3)").topology()), "has 3 nodes, but"),
        (lambda: boxes(2, 4, 1, 1, outer=parse("Complete(3)").topology()), "there are 2 boxes"),
        (lambda: Network(3, 2, [], [], []), "3 hosts among 2 nodes"),
        (lambda: Network(2, 2, [0], [1], [1], multicast=[0]), "multicast names node 0"),
        (lambda: Network(2, 2, [0], [2], [1]), "head is 2 at position 0"),
        (lambda: Network(2, 2, [0], [1], [1], names=["a", "a"]), "2 different texts"),
        (lambda: Network(2, 2, [0], [1], [1], tick_s=Fraction(0)), "a tick takes some time"),
    ],
)
def test_networks_that_are_none(call, rule):
    with pytest.raises(ValueError, match=rule):
        call()


SAMPLES = [
    *BUILT.values(),
    star(3, [10, 20, 30], 500, "Gbps", multicast=True, aggregate=True),
    direct(parse("Circulant(5, (1, 2))").topology(), 25, 7),
    fat_tree((2, 2), (1, 2), (10, 40), (1, 2)).without(links=[3], nodes=[0]),
    Network(2, 3, [0, 0, 2], [2, 2, 1], [1, 2, 3], names=["gpu a", "gpu b", "NVSwitch"]),
    Network(1, 2, [0], [1], [5], tick_s=Fraction(1, 640), unit="GiB/s", names=["x", "y"]),
]


def without_names(network: Network) -> Network:
    columns = (network.tail, network.head, network.bandwidth, network.latency, network.dimension)
    able = {
        ability: np.flatnonzero(getattr(network, ability)).tolist()
        for ability in ("multicast", "aggregate")
    }
    plain = {"unit": network.unit, "tick_s": network.tick_s}
    return Network(network.num_hosts, network.num_nodes, *columns, **able, **plain)


@every_format
@pytest.mark.parametrize("network", SAMPLES, ids=repr)
def test_there_and_back(name, network):
    write, read = FORMATS[name]
    text = write(network, "a title")
    assert text == write(network, "a title")
    back = read(text.encode(), "file")
    if name == "edgelist":
        assert without_names(back) == without_names(network)
    else:
        assert back == network


@given(st.data())
def test_damaged_files_end_in_a_sentence(data):
    name = data.draw(st.sampled_from(sorted(FORMATS)))
    write, read = FORMATS[name]
    text = bytearray(write(data.draw(st.sampled_from(SAMPLES[-4:])), "x").encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        action = data.draw(st.sampled_from(["cut", "change", "insert"]))
        if action == "cut":
            del text[at : at + data.draw(st.integers(1, 40))]
        elif action == "change":
            text[at] = data.draw(st.integers(0, 255))
        else:
            text[at:at] = data.draw(st.binary(max_size=5))
        if not text:
            break
    error = None
    try:
        read(bytes(text), "file")
    except ValueError as refusal:
        error = str(refusal)
    assert error is None or (error.startswith("file") and "\n" not in error)


@pytest.mark.parametrize(
    ("name", "text", "rule"),
    [
        ("json", '{"num_hosts": 2}', "num_nodes is None: it must be a whole number"),
        ("json", '{"num_hosts": 1, "num_nodes": 1, "links": [[0, 0]]}', r"links\[0\] is \[0, 0\]"),
        ("json", '{"num_hosts": 1, "num_nodes": 1, "link": []}', "'link' is not known"),
        ("json", "[1]", "a network is a map"),
        ("yaml", "num_hosts: 1\nnum_nodes: 1\nlinks: [[0, 0, 0]]", "bandwidth is 0"),
        ("edgelist", "host a\nlink a b 1", "line 2: there is no node 'b'"),
        ("edgelist", "host a multicast", "line 1: a host is not said to 'multicast'"),
        ("edgelist", "cable a b", "line 1: 'b' is not a link speed"),
        ("edgelist", "host a\ncable a b", "line 2: 'cable a b': a line is a host, a switch"),
        ("edgelist", "host a\nhost a", "line 2: a second node is named 'a'"),
        ("edgelist", "host a\nlink a a x", "line 2: a link is a tail, a head"),
        ("node-link", '{"nodes": [{"id": 0, "kind": "rack"}], "edges": []}', "host or switch"),
        ("node-link", "{", "line 1: this is not JSON"),
        ("graphml", "<!DOCTYPE x><graphml/>", "a document type"),
        ("graphml", "<graphml", "this is not XML"),
        ("graphml", "\u00ff", "this is not XML"),
    ],
)
def test_bad_files(name, text, rule):
    with pytest.raises(ValueError, match=rule):
        FORMATS[name][1](text.encode(), "file")


def test_graphs_of_networkx():
    graph = nx.Graph()
    graph.add_node("sw", kind="switch", multicast=True)
    graph.add_edge("a", "sw", bandwidth="10", latency=0.0)
    graph.add_edge("b", "sw", bandwidth=20, latency=3)
    network = networkx_network.from_networkx(graph)
    assert (network.num_hosts, network.num_links, network.names) == (2, 4, ("a", "b", "sw"))
    assert network.multicast.tolist() == [False, False, True]
    assert sorted(network.bandwidth.tolist()) == [10, 10, 20, 20]


def test_every_builder_is_listed():
    products = {"a100", "h100_rail", "mi250", "dgx1", "ndv2", "dgx2", "leaf_spine"}
    made = {"direct", "star", "fat_tree", "boxes", "torus", "mesh", "servers", "damaged"}
    assert made | products == set(NETWORKS)
    assert all(builder.__doc__ for builder in NETWORKS.values())


def test_files_tell_their_format(tmp_path):
    network = SAMPLES[0]
    for kind, one in network_files.FORMATS.items():
        path = tmp_path / f"n{(*one.suffixes, '.unknown')[0]}"
        path.write_text(one.write(network, "n"), encoding="utf-8")
        named = None if one.suffixes else kind
        assert network_files.import_network(path, named).num_links == network.num_links
    with pytest.raises(ValueError, match="format is 'dot': it must be one of json, edgelist"):
        network_files.import_network(path, "dot")
