"""Rank orders: known best ones, rings on grids, bounds, files for launchers."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest

from ocs_codesign.core.network import Network
from ocs_codesign.core.networks.products import leaf_spine
from ocs_codesign.faces.cli import main
from ocs_codesign.graphs.text import parse_network
from ocs_codesign.jobs.rank_orders import _Search, merged_switches, rank_order, ring_traffic

EIGHT = {
    # Groups and bytes of every class, then hosts a leaf, widths of hosts and leaves, and what is
    # known: the given order and the best of all.
    "tp2_dp4": ((2, 8388608, 4, 2097152), (2, 100, 50), "4194304/25", "4194304/25"),
    "tp4_dp2": ((4, 8388608, 2, 2097152), (2, 100, 100), "3145728/25", "3145728/25"),
    "dp_heavy": ((2, 1048576, 4, 67108864), (2, 100, 25), "134479872/25", "69206016/25"),
    "tp4_leaf4": ((4, 8388608, 2, 2097152), (4, 400, 100), "524288/5", "524288/5"),
}


def on_leaves(ranks: int, hosts: int, host_width: int, leaf_width: int) -> Network:
    leaves = ranks // hosts
    leaf = ranks + np.arange(ranks) // hosts
    up = [*range(ranks), *range(ranks, ranks + leaves)]
    down = [*leaf, *[ranks + leaves] * leaves]
    width = [host_width] * ranks + [leaf_width] * leaves
    return Network(ranks, ranks + leaves + 1, [*up, *down], [*down, *up], width * 2)


def two_classes(ranks: int, inner: int, inner_bytes: int, outer: int, outer_bytes: int):
    number = np.arange(ranks).reshape(outer, inner)
    groups = [number.tolist(), number.T.tolist()]
    sizes = (inner_bytes, outer_bytes)
    return ring_traffic(ranks, list(zip(("tensor", "data"), groups, sizes, strict=True)))


@pytest.mark.parametrize("name", EIGHT)
def test_known_orders(name):
    sizes, network, given, best = EIGHT[name]
    inner, inner_bytes, outer, outer_bytes = sizes
    found = rank_order(
        on_leaves(8, *network), two_classes(8, inner, inner_bytes, outer, outer_bytes)
    )
    assert (found.given, found.value) == (Fraction(given), Fraction(best))
    assert found.is_optimal
    assert sorted(found.host.tolist()) == list(range(8))


@pytest.mark.parametrize("seed", range(12))
def test_all_orders_of_few_ranks(seed):
    """Against every permutation, written out."""
    rng = np.random.default_rng(seed)
    network = [
        leaf_spine(3, 2, 2, 4, int(rng.integers(1, 4))),
        parse_network("Torus((2, 3))"),
        parse_network("star(6, (4, 4, 2, 2, 1, 1))"),
    ][seed % 3]
    ranks = int(rng.integers(3, 7))
    classes = []
    for kind in range(int(rng.integers(1, 4))):
        order = rng.permutation(ranks).tolist()
        cut = int(rng.integers(1, ranks))
        classes.append((f"c{kind}", [order[:cut], order[cut:]], int(rng.integers(1, 9))))
    traffic = ring_traffic(ranks, classes)
    if not len(traffic.size):
        return
    found = rank_order(network, traffic, seed)
    search = _Search(network, traffic, 0)
    least = min(search.time(np.array(hosts)) for hosts in itertools.permutations(range(6), ranks))
    assert found.value == least == found.bound


def grid(dims, wraps) -> Network:
    graph = nx.grid_graph(dims[::-1], periodic=[bool(wrap) for wrap in wraps][::-1])
    graph = nx.convert_node_labels_to_integers(graph, ordering="sorted")
    ends = [pair for pair in graph.edges if pair[0] != pair[1]]
    tail, head = zip(*ends, strict=True)
    return Network(len(graph), len(graph), [*tail, *head], [*head, *tail], [1] * 2 * len(ends))


@pytest.mark.parametrize(
    ("dims", "wraps", "hops"),
    [
        ((4, 4), (1, 1), 16),
        ((4, 4), (0, 0), 16),
        ((3, 3), (0, 0), 10),
        ((3, 3), (1, 1), 9),
        ((2, 4), (0, 0), 8),
        ((3, 5), (0, 0), 16),
        ((3, 5), (1, 1), 15),
        ((4, 6), (0, 0), 24),
        ((4, 4, 4), (1, 1, 1), 64),
        ((2, 2, 4), (0, 0, 0), 16),
    ],
)
def test_rings_on_grids(dims, wraps, hops):
    """A tour of all nodes exists but where their number is odd and nothing wraps: a hop more."""
    network = grid(dims, wraps)
    nodes = network.num_nodes
    traffic = ring_traffic(nodes, [("ring", [list(range(nodes))], 1)])
    found = rank_order(network, traffic)
    assert found.value == 1
    assert found.is_optimal
    assert int(_Search(network, traffic, 0).loads(found.host).sum()) == hops


def test_the_given_order_stays_unless_another_takes_less():
    network = on_leaves(8, 4, 100, 100)
    found = rank_order(network, two_classes(8, 4, 100, 2, 1))
    assert found.host.tolist() == list(range(8))
    assert found.times == found.given_times


def test_the_same_seed_the_same_order():
    network, traffic = leaf_spine(8, 4, 2, 4, 3), two_classes(32, 4, 7, 8, 100)
    first, again = (rank_order(network, traffic, 5) for _ in range(2))
    assert first.host.tolist() == again.host.tolist()
    assert first.bound <= first.value < first.given


@pytest.mark.slow
@pytest.mark.parametrize("text", ["leaf_spine(64, 16, 8, 100, 100)", "Torus((8, 8, 16))"])
def test_a_thousand_ranks(text):
    number = np.arange(1024).reshape(16, 8, 8)
    axes = {"tensor": (2, 1), "pipeline": (1, 2), "data": (0, 64)}
    classes = [
        (name, np.moveaxis(number, axis, -1).reshape(-1, number.shape[axis]).tolist(), size)
        for name, (axis, size) in axes.items()
    ]
    found = rank_order(parse_network(text), ring_traffic(1024, classes))
    assert found.bound <= found.value < 0.6 * found.given
    assert sorted(found.host.tolist()) == list(range(1024))


def test_switches_that_stand_for_each_other_are_one():
    network = leaf_spine(3, 2, 4, 4, 2)
    merged = merged_switches(network)
    assert merged.num_nodes == network.num_nodes - 3
    assert int(merged.bandwidth.sum()) == int(network.bandwidth.sum())


def test_what_is_refused(tmp_path, capsys):
    with pytest.raises(ValueError, match="5 ranks: the network has 4 hosts"):
        rank_order(parse_network("star(4, 1)"), ring_traffic(5, [("c", [[0, 4]], 1)]))
    with pytest.raises(ValueError, match="any order is as good"):
        rank_order(parse_network("star(4, 1)"), ring_traffic(3, [("c", [[0], [1]], 1)]))
    with pytest.raises(ValueError, match="c: a group has different ranks below 3"):
        ring_traffic(3, [("c", [[0, 3]], 1)])
    file = tmp_path / "t.json"
    for record, rule in (
        ({"num_ranks": 2, "classes": []}, "classes"),
        ({"num_ranks": 2, "classes": [{"name": "a", "bytes": 0, "groups": [[0, 1]]}]}, "bytes"),
        ({"num_ranks": 2, "classes": [{"name": "a", "bytes": 5, "groups": [[0, 2]]}]}, "below 2"),
        ({"num_ranks": 2, "classes": [{"name": "a", "byte": 5, "groups": [[0, 1]]}]}, "byte"),
    ):
        file.write_text(json.dumps(record))
        assert main(["place", str(file), "star(4, 1)"]) == 2
        assert rule in capsys.readouterr().err


def test_the_command(tmp_path, capsys):
    file, out = tmp_path / "t.json", tmp_path / "ranks"
    number = np.arange(8).reshape(4, 2)
    classes = [
        {"name": "tensor", "bytes": 1048576, "groups": number.tolist()},
        {"name": "data", "bytes": 67108864, "groups": number.T.tolist()},
    ]
    file.write_text(json.dumps({"num_ranks": 8, "classes": classes}))
    asked = ["place", str(file), "leaf_spine(4, 2, 1, 100, 25)", "--out", str(out)]
    assert main([*asked, "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["optimal"], told["time"]) == (True, "69206016/25")
    lines = out.read_text().splitlines()
    assert lines[0] == f"rank 0=h{told['order'][0]} slot=0"
    assert main([*asked, "--format", "hostfile"]) == 0
    assert out.read_text().splitlines() == told["hosts"]
    assert main([*asked, "--format", "jax"]) == 0
    assert json.loads(out.read_text()) == told["order"]
    assert "today" in capsys.readouterr().out


def test_jobs_are_placed(tmp_path, capsys):
    assert main(["example", str(tmp_path)]) == 0
    for job in ("groups.yaml", "experts.yaml"):
        capsys.readouterr()
        assert main(["place", str(tmp_path / job), "leaf_spine(4, 4, 2, 4, 4)"]) == 0
        assert "today" in capsys.readouterr().out
    assert main(["place", str(tmp_path / "layers.yaml"), "star(4, 1)"]) == 2
    assert "no rank of this job" in capsys.readouterr().err
