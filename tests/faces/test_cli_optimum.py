"""``optimum`` and ``build --network``: the best that trees can do, and schedules near it."""

import json
from fractions import Fraction

import pytest

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.demand import COPY, Demand
from ocs_codesign.core.network import Network
from ocs_codesign.core.networks.builders import direct, star
from ocs_codesign.core.networks.formats import FORMATS
from ocs_codesign.core.networks.products import a100, dgx1
from ocs_codesign.faces.cli import main
from ocs_codesign.graphs.text import as_recipe, parse_network
from ocs_codesign.schedules.forest.optimum import helpful_links, losses, optimum, spare_bandwidth


def answer(capsys, *arguments):
    assert main(["optimum", *arguments, "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_fixed_form(capsys, tmp_path):
    path = tmp_path / "net.json"
    path.write_text(FORMATS["json"].write(a100(2), "two boxes"), encoding="utf-8")
    found = answer(capsys, str(path))
    assert found["network"] == "net.json"
    assert (found["hosts"], found["inv_rate"], found["algbw"]) == (16, "3/65", "1040/3")
    assert (found["U"], found["k"]) == ("3/5", 13)
    cut = found["cut"]
    assert (cut["hosts"], cut["capacity"], len(cut["side"])) == (15, 325, 35)
    assert found["reduce_scatter"]["inv_rate"] == "3/65"
    assert found["allreduce"]["rate"] == found["allreduce"]["halves_rate"] == "520/3"
    assert [link["head"] for link in found["links_to_upgrade"]] == ["h0", "h0"]
    assert found["single_links_that_help"] == []


def test_plain_json_of_links(capsys, tmp_path):
    links = [[0, 2, 3], [2, 0, 3], [1, 2, 1, 500], [2, 1, 1, 500]]
    path = tmp_path / "n.json"
    path.write_text(json.dumps({"num_hosts": 2, "num_nodes": 3, "links": links}), encoding="utf-8")
    assert answer(capsys, str(path))["inv_rate"] == "1"


def test_tables(capsys):
    assert main(["optimum", "star(4, (10, 10, 10, 1))", "--losses"]) == 0
    told = capsys.readouterr().out
    assert "algbw 1 with both halves at once, 2/3 (0.666667) as a reduce-scatter" in told
    assert "3 hosts reach h3 over 1" in told
    assert "1 link: s0 > h3" in told
    assert "0.0%  cable h0 - s0" in told
    assert main(["optimum", "Torus((3, 3))", "--no-allreduce"]) == 0
    told = capsys.readouterr().out
    assert "8 hosts reach h0 over 4" in told
    assert "none: other cuts are as narrow" in told


def test_a_cut_that_proves_nothing_is_not_shown(capsys, tmp_path):
    """More leaves a switch than comes: the rate is 2/3, the narrowest cut around hosts allows 1."""
    links = [[0, 4, 2], [1, 3, 1], [2, 0, 1], [3, 0, 1], [3, 2, 3], [4, 1, 3], [4, 3, 3]]
    path = tmp_path / "n.json"
    path.write_text(json.dumps({"num_hosts": 3, "num_nodes": 5, "links": links}), encoding="utf-8")
    found = answer(capsys, str(path), "--no-allreduce")
    assert (found["inv_rate"], found["cut"], found["links_to_upgrade"]) == ("3/2", None, [])
    assert found["single_links_that_help"] == []
    assert main(["optimum", str(path), "--no-allreduce"]) == 0
    told = capsys.readouterr().out
    assert "no cut: switches out of balance" in told
    assert "reach h" not in told


@pytest.mark.parametrize(
    ("network", "rule"),
    [
        ("a100(99999999999)", "multiply to 99999999999, at most"),
        ("a100()", "a100 does not take 0 arguments: it takes num_boxes"),
        ("a101(2)", "unknown name 'a101' in a network: did you mean a100?"),
        ("a100(2", "no such file or directory"),
        ("boxes(2, 2, 3, inner=__import__('os'))", "__import__"),
        ("star(4, (1, 2))", "2 values of bandwidth"),
        ("star(2, 0)", "bandwidth is 0"),
        ("star(2, 1099511627777)", "from 1 to 1099511627776"),
        ("direct(UniRing(1, 3), 1, colour=3)", "does not take these 3 arguments"),
        ("Complete(3).topology()", "not allowed in a network"),
    ],
)
def test_bad_networks(capsys, network, rule):
    assert main(["optimum", network]) == 2
    told = capsys.readouterr().err
    assert rule in told
    assert told.count("\n") == 1


def test_what_is_lost(capsys, tmp_path):
    path = tmp_path / "net.json"
    path.write_text(FORMATS["json"].write(a100(2), "two boxes"), encoding="utf-8")
    for text in (str(path), "a100(2)"):
        found = answer(capsys, text, "--lost", "h3", "--no-allreduce")
        assert (found["hosts"], found["links"]) == (15, 96 - 4)
    assert answer(capsys, "mesh((2, 2), 6)", "--lost", "h0>h1")["links"] == 7
    assert answer(capsys, "mi250(1)", "--lost", "h0-h1", "--no-allreduce")["algbw"] == "160"
    assert main(["optimum", "mi250(1)", "--lost", "h16"]) == 2
    assert "'h16' is no node and no link of the network" in capsys.readouterr().err


def test_an_unreachable_host(capsys, tmp_path):
    path = tmp_path / "n.json"
    one_way = {"num_hosts": 3, "num_nodes": 3, "links": [[0, 1, 1], [1, 2, 1], [2, 1, 1]]}
    path.write_text(json.dumps(one_way), encoding="utf-8")
    assert main(["optimum", str(path)]) == 2
    assert "rank 0 cannot be reached" in capsys.readouterr().err


PAIR = '"num_hosts": 2, "num_nodes": 2'


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ('{"num_hosts": 3, "num_nodes": 3, "links": [[0, 1, 1], [1, 2, 1], [2, 1, 1]]}',
         "cannot be reached"),
        ('{"num_hosts": 2, "num_nodes": 2, "links": [[0, 1, 1]]}', "no link leads to it"),
        ('{"num_hosts": 3, "num_nodes": 3, "links": [[0, 1, 1], [1, 0, 1], [2, 0, 1], [1, 2, 1]]}',
         None),
        ('{"num_hosts": 4, "num_nodes": 4, "links": [[0, 1, 1], [1, 0, 1], [2, 3, 1], [3, 2, 1]]}',
         "rank 0 cannot be reached from all others"),
        ('{"num_hosts": 1, "num_nodes": 1, "links": []}', "nothing is to be sent"),
        (f'{{{PAIR}, "links": []}}', "no link leads to it"),
        (f'{{{PAIR}, "links": [[0, 1, 0], [1, 0, 1]]}}', "bandwidth is 0 at position 0"),
        (f'{{{PAIR}, "links": [[0, 1, {2**40 + 1}], [1, 0, 1]]}}', f"from 1 to {2**40}"),
        (f'{{{PAIR}, "links": [[0, 1, {2**40}], [1, 0, {2**40}]]}}', None),
        (f'{{{PAIR}, "links": [[0, 1, {10**30}], [1, 0, 1]]}}', "in whole numbers"),
        (f'{{{PAIR}, "links": [[0, 1, 1.5], [1, 0, 1]]}}', "in whole numbers"),
        (f'{{{PAIR}, "links": [[0, 1, NaN], [1, 0, 1]]}}', "NaN is not a number"),
        (f'{{{PAIR}, "links": [[0, 2, 1], [1, 0, 1]]}}', "head is 2 at position 0"),
        (f'{{{PAIR}, "links": [[0, 1], [1, 0, 1]]}}', "links[0] is [0, 1]"),
        (f'{{{PAIR}, "links": {{"0": 1}}}}', "it must be a list"),
        (f'{{{PAIR}, "links": [[0, 1, 1], [1, 0, 1]], "multicast": [0]}}', "names node 0"),
        (f'{{{PAIR}, "links": [[0, 1, 1], [1, 0, 1]], "multicast": ["s"]}}', "multicast"),
        (f'{{{PAIR}, "links": [[0, 1, 1], [1, 0, 1]], "aggregate": [[1]]}}', "aggregate"),
        (f'{{{PAIR}, "links": [[0, 1, 1], [1, 0, 1]], "colour": 1}}', "'colour' is not known"),
        (f'{{{PAIR}, "links": [[0, 1, 1], ', "this is not JSON"),
        ('{"num_hosts": 2000000000, "num_nodes": 2000000000, "links": [[0, 1, 1]]}',
         "2000000000 nodes but only 1 links"),
        ("[1, 2]", "a network is a map"),
        ("", "the file is empty"),
        ("[" * 9999, "levels of nesting"),
    ],
)  # fmt: skip
def test_network_files(capsys, tmp_path, text, rule):
    """What is no network, or has no trees, is told in a sentence, and nothing is written."""
    path, design = tmp_path / "n.json", tmp_path / "d"
    path.write_text(text, encoding="utf-8")
    build = ["build", "--network", str(path), "--out", str(design), "--collective"]
    for command in (["optimum", str(path)], [*build, "allgather"], [*build, "allreduce"]):
        assert main(command) == (2 if rule else 0)
        told = capsys.readouterr().err
        if rule:
            assert rule in told
            assert told.startswith("Error: ")
            assert told.count("\n") == 1
            assert not design.exists()


def test_a_host_that_leads_nowhere_is_no_relay():
    """Hosts outside of a group pass on what they get, where a link leads on."""
    links = ([0, 1, 2, 2, 3], [1, 2, 1, 3, 2], [1] * 5)
    group = Collective("allgather", groups=[(0, 2)])
    with pytest.raises(ValueError, match="rank 0 cannot be reached: no link leads to it"):
        optimum(Network(4, 4, *links), group)
    with pytest.raises(ValueError, match=r"rank 2 cannot .*turned round for the sum"):
        optimum(Network(3, 3, [0, 1, 0], [1, 0, 2], [1] * 3), Collective.REDUCE_SCATTER)
    dead_end = Network(4, 4, [0, 2, 1, 3], [1, 1, 3, 1], [1] * 4)
    with pytest.raises(ValueError, match=r"rank [02] cannot be reached"):
        optimum(dead_end, group)
    with pytest.raises(ValueError, match="is the root of what a group without it wants"):
        optimum(
            direct(as_recipe("BiRing(2, 3)").topology(), 1),
            Demand(3, [COPY], [0], [0, 1], [1], [0], [0, 2], [1, 2], 1),
        )


def test_networks_are_built(capsys, tmp_path):
    design = str(tmp_path / "d")
    command = ["build", "--network", "star(4, (4, 4, 4, 2))", "--out", design]
    for collective in ("allgather", "reduce-scatter", "allreduce"):
        assert main([*command, "--collective", collective, "--parts", "2"]) == 0
        assert "schedule        forest" in capsys.readouterr().out
        assert main(["verify", design]) == 0
        capsys.readouterr()
    assert main([*command, "--scheduler", "bfb"]) == 2
    assert "this network has switches" in capsys.readouterr().err
    assert main(["build", "Complete(3)", "--trees", "2", "--out", design]) == 2
    assert "--trees is for --scheduler forest" in capsys.readouterr().err
    assert main([*command, "Complete(3)"]) == 2
    assert (
        main([*command, "--scheduler", "forest", "--trees", "1", "--collective", "allgather"]) == 0
    )


def test_what_upgrades_losses_and_slack_are():
    found = optimum(star(4, [10, 10, 10, 1]), Collective.ALLGATHER)
    assert helpful_links(found) == [7]
    assert {loss.what: loss.rate_left for loss in losses(found)}["cable h3 - s0"] == 0
    # At the rate of 1/3 a host sends a shard up, and three come down to it.
    up, down = [Fraction(29, 3)] * 3 + [Fraction(2, 3)], [9, 9, 9, 0]
    assert spare_bandwidth(found, range(8)) == up + down
    ring = optimum(Network(3, 3, [0, 1, 2], [1, 2, 0], [2, 2, 2]), Collective.REDUCE_SCATTER)
    assert spare_bandwidth(ring, range(3)) == [0, 0, 0]
    box = optimum(dgx1(), Collective.ALLGATHER)
    assert len(losses(box)) == 16
    assert all(0 < loss.rate_left <= 1 for loss in losses(box))


def test_arguments_of_networks():
    assert parse_network("boxes(2, 2, 3, 1, outer=Complete(2))").num_hosts == 4
    assert parse_network("fat_tree((2, 4), (1, 2), 10)").num_hosts == 8


@pytest.mark.slow
def test_height(capsys, tmp_path):
    """The height of trees and what it costs are in the answer; too little is one sentence."""
    directory = str(tmp_path / "made")
    command = ["build", "--network", "a100(2)", "--parts", "1", "--out", directory]
    for height, loss in ((4, True), (3, False)):
        assert main([*command, "--max-hops", str(height), "--json", "-"]) == 0
        forest = json.loads(capsys.readouterr().out)["forest"]
        assert forest["height"] <= height
        assert (Fraction(forest["loss"]) == 0) is loss
    both = ["--collective", "allreduce", "--max-hops", "3"]
    assert main([*command, *both]) == 0
    told = capsys.readouterr().out
    assert "at most 3 hops high" in told
    assert "% above the bound" in told
    assert main([*command, "--max-hops", "1"]) == 2
    told = capsys.readouterr().err
    assert "height 1: there are hosts that are 2 hops apart" in told
    assert told.count("\n") == 1
    assert main(["build", "Torus((3, 3))", "--max-hops", "2", "--out", directory]) == 2
    assert "--max-hops is for --scheduler forest" in capsys.readouterr().err
