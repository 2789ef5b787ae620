"""Pictures of networks and of trees: everything is drawn, named, and the same every time."""

import re

import numpy as np
import pytest

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.network import Network
from ocs_codesign.core.networks.builders import star
from ocs_codesign.core.networks.products import a100, h100_rail, leaf_spine, mi250
from ocs_codesign.faces.cli import main
from ocs_codesign.faces.pictures.files import figure_bytes
from ocs_codesign.faces.pictures.network import (
    MAX_NODES,
    _tiers,
    exchange_figure,
    network_figure,
    tallest_tree_figure,
    tree_figure,
)
from ocs_codesign.schedules.exchange.optimum import exchange_optimum
from ocs_codesign.schedules.forest.building import forests
from ocs_codesign.schedules.forest.optimum import optimum


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts if text.get_text()]


@pytest.mark.parametrize("collective", [Collective.ALLGATHER, Collective.REDUCE_SCATTER])
def test_the_cut_is_drawn(collective):
    found = optimum(star(4, [10, 10, 10, 1]), collective)
    figure = network_figure(found, "a star")
    assert sorted(texts(figure)) == ["h0", "h1", "h2", "h3", "s0"]
    title = figure.axes[0].get_title()
    verb = "out of" if collective == Collective.REDUCE_SCATTER else "into"
    assert title.startswith("a star: algbw 1.3333 at best")
    assert title.endswith(f"a bandwidth of 1 {verb} the orange host")
    arrows = [text.arrow_patch for text in figure.axes[0].texts if text.arrow_patch]
    red = [arrow for arrow in arrows if arrow.get_edgecolor()[0] > 0.7]
    assert len(arrows) == 4, "a line a cable"
    assert len(red) == len(found.leaving()) == 1


@pytest.mark.parametrize(
    "network", [h100_rail(2), a100(2), leaf_spine(3, 3, 2, 4, 3), star(5, [1, 1, 3, 3, 3])], ids=str
)
def test_switches_stand_over_what_they_join_and_the_cut_is_a_gap(network):
    """Hosts in a row, those beyond the bottleneck at an end; no two nodes in one place."""
    found = optimum(network, Collective.ALLGATHER)
    place = _tiers(network, found.cut)
    hosts, inside = place[: network.num_hosts], found.cut.side[: network.num_hosts]
    assert (hosts[:, 1] == 0).all()
    assert (place[network.num_hosts :, 1] > 0).all()
    assert len(np.unique(place.round(6), axis=0)) == network.num_nodes
    ends = sorted((hosts[inside, 0].tolist(), hosts[~inside, 0].tolist()))
    assert max(ends[0]) + 2 <= min(ends[1])


def test_large_networks_are_refused():
    with pytest.raises(ValueError, match=f"at most {MAX_NODES} are drawn"):
        network_figure(optimum(star(MAX_NODES, 1), Collective.ALLGATHER), "large")


@pytest.mark.parametrize("collective", [Collective.ALLGATHER, Collective.REDUCE_SCATTER])
def test_a_tree_has_all_hosts_each_below_its_parent(collective):
    forest = forests(mi250(1), collective)[0]
    figure = tree_figure(forest, 3)
    assert sorted(texts(figure)) == sorted(f"h{host}" for host in range(16))
    row = {text.get_text(): text.get_position()[1] for text in figure.axes[0].texts}
    mine = forest.tree == 3
    for tail, head in zip(forest.tail[mine], forest.head[mine], strict=True):
        assert row[f"h{head}"] == row[f"h{tail}"] + 1
    assert figure_bytes(figure, ".svg") == figure_bytes(tree_figure(forest, 3), ".svg")
    with pytest.raises(ValueError, match="there are trees 0 to"):
        tree_figure(forest, len(forest.root))


def test_slack_and_picture_of_the_command(tmp_path, capsys):
    out = tmp_path / "n.svg"
    given = ["optimum", "star(4, (10, 10, 10, 1))", "--no-allreduce", "--slack", "--plot", str(out)]
    assert main(given) == 0
    told = capsys.readouterr().out
    assert re.search(r"0.0% +1 +1 +s0 > h3", told), "the bottleneck has nothing to spare"
    assert re.search(r"96.7% +10 +3 +h0 > s0", told), "a host sends 1/3 of 1 while all receive 1"
    assert "the orange host" in out.read_text()


def test_the_matrix_and_the_busiest_links_of_an_exchange(tmp_path):
    found = exchange_optimum(star(4, [10, 10, 10, 1]))
    network, matrix, _ = exchange_figure(found, "a star").axes
    arrows = [text.arrow_patch for text in network.texts if text.arrow_patch]
    colours = {arrow.get_edgecolor() for arrow in arrows}
    assert len(colours) == 2, "the slow host's cable is of the cut, no other is busy"
    blue, red = (image.get_array() for image in matrix.images)
    assert blue.tolist() == (1 - np.eye(4)).tolist()
    inside = found.bottleneck.side[:4]
    assert (~np.ma.getmaskarray(red) == (inside[:, None] & ~inside)).all()
    legend = exchange_figure(exchange_optimum(star(3, 2)), "all").axes[0].get_legend()
    assert "link that is busy all the time" in [text.get_text() for text in legend.texts]
    file, out = tmp_path / "d.json", tmp_path / "e.svg"
    file.write_text("[[0, 3, 0], [0, 0, 4], [5, 0, 0]]")
    asked = ["optimum", "star(3, 2)", "--collective", "alltoall", "--relays", "none"]
    assert main([*asked, "--demand", str(file), "--plot", str(out)]) == 0
    assert "red across the bottleneck" in out.read_text()
    with pytest.raises(ValueError, match=f"at most {MAX_NODES} are drawn"):
        exchange_figure(exchange_optimum(h100_rail(64)), "large")


def test_a_tree_that_branches_at_a_switch():
    """The switch stands between the root and the hosts that it copies to, and is no hop."""
    links = ([0, 1, 2, 3, 4, 4, 4, 4], [4, 4, 4, 4, 0, 1, 2, 3], [1, 1, 1, 1, 3, 3, 3, 3])
    figure = tallest_tree_figure(
        forests(Network(4, 5, *links, multicast=[4]), Collective.ALLGATHER)
    )
    rows = {text.get_text(): text.get_position()[1] for text in figure.axes[0].texts}
    assert rows == {"h0": 0, "s0": 1, "h1": 2, "h2": 2, "h3": 2}
    assert figure.axes[0].get_title() == "tree 1 of 4, height 1\nall of the data of h0"
    legend = figure.axes[0].get_legend()
    assert [text.get_text() for text in legend.texts] == ["a link", "a switch that copies"]


@pytest.mark.parametrize("collective", ["reduce-scatter", "allreduce"])
def test_the_tallest_tree_of_what_is_built(collective, tmp_path, capsys):
    design, picture = tmp_path / "d", tmp_path / "t.svg"
    given = ["build", "--network", "leaf_spine(2, 2, 1, 2, 4)", "--scheduler", "forest"]
    given += ["--collective", collective, "--out", str(design), "--plot", str(picture)]
    assert main(given) == 0
    height = int(re.search(r"at most (\d+) hops high", capsys.readouterr().out)[1])
    assert f"height {height}" in picture.read_text()
    first = picture.read_bytes()
    assert main(given) == 0
    assert picture.read_bytes() == first


def test_there_is_no_tree_to_draw(tmp_path, capsys):
    """Nothing is written where BFB is faster, and of too many."""
    out, picture = str(tmp_path / "d"), str(tmp_path / "t.png")
    given = ["build", "Torus((3, 3))", "--out", out, "--plot", picture, "--scheduler", "forest"]
    assert main([*given, "--alpha", "1ms", "--bandwidth", "1Gbps", "--message", "1kB"]) == 2
    told = capsys.readouterr().err
    assert "bfb is faster for this message than forests are: --parts makes one of these" in told
    assert told.count("\n") == 1
    large = ["build", f"UniRing(1, {MAX_NODES + 1})", "--scheduler", "forest", "--parts", "1"]
    assert main([*large, "--out", out, "--plot", picture]) == 2
    assert f"at most {MAX_NODES} are drawn" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
