"""Files of schedulers: trees of servers, parallel switches as one, what is no tree."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ocs_codesign.core.network import Network
from ocs_codesign.faces.cli import main
from ocs_codesign.graphs.text import parse_network
from ocs_codesign.interop.schedulers import SCHEDULER_FORMATS, hostlist, server_tree

TREES = {
    "leaf_spine(3, 4, 2, 4, 4)": (12, [3, 1]),
    "h100_rail(4)": (4, [1]),
    "a100(3)": (3, [1]),
    "mi250(2)": (2, [1]),
    "star(5, 1)": (5, [1]),
    "fat_tree((4, 4, 2), (1, 2, 1), (10, 10, 20))": (32, [8, 2, 1]),
}


@pytest.mark.parametrize("text", TREES)
def test_trees(text):
    servers, levels = TREES[text]
    tree = server_tree(parse_network(text))
    assert len(tree.servers) == servers
    assert [len(level) for level in tree.levels] == levels
    under = list(tree.servers)
    for level in tree.levels:
        assert sorted(child for group in level for child in group.below) == sorted(under)
        under = [group.name for group in level]


def read_slurm(text: str) -> dict[str, tuple[str, list[str]]]:
    """Switches as slurmctld reads them, by its rules: one kind of children, all of them there."""
    found: dict[str, tuple[str, list[str]]] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, kind, listed = re.fullmatch(r"SwitchName=(\S+) (Nodes|Switches)=(\S+)", line).groups()
        assert name not in found
        found[name] = kind, unfolded(listed)
    for name, (kind, children) in found.items():
        assert kind == "Nodes" or all(child in found and child != name for child in children)
    return found


def unfolded(text: str) -> list[str]:
    names = []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\])?", text):
        prefix, _, ranges = part.partition("[")
        if not ranges:
            names.append(prefix)
            continue
        for each in ranges.rstrip("]").split(","):
            first, _, last = each.partition("-")
            numbers = range(int(first), int(last or first) + 1)
            names += [f"{prefix}{number:0{len(first)}d}" for number in numbers]
    return names


@pytest.mark.parametrize("text", TREES)
def test_slurm_reads_every_server_once(text):
    network = parse_network(text)
    tree = server_tree(network)
    found = read_slurm(SCHEDULER_FORMATS["slurm"].text(tree))
    nodes = [node for kind, children in found.values() if kind == "Nodes" for node in children]
    assert sorted(nodes) == sorted(tree.servers)
    (record,) = yaml.safe_load(SCHEDULER_FORMATS["slurm-yaml"].text(tree))
    switches = {one["switch"]: one for one in record["tree"]["switches"]}
    assert set(switches) == set(found)
    for name, (kind, children) in found.items():
        key = "nodes" if kind == "Nodes" else "children"
        assert unfolded(switches[name][key]) == children
    kueue = yaml.safe_load(SCHEDULER_FORMATS["kueue"].text(tree))["spec"]["levels"]
    assert len(kueue) == len(tree.levels) + 1
    assert kueue[-1]["nodeLabel"] == "kubernetes.io/hostname"
    model = yaml.safe_load(SCHEDULER_FORMATS["topograph"].text(tree))
    assert set(model["nodes"]) == set(tree.servers)
    assert all(len(one["labels"]) == len(tree.levels) for one in model["nodes"].values())
    block = SCHEDULER_FORMATS["slurm-block"].text(tree)
    assert block.count("BlockName=") == len(tree.levels[0])


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "n-", "x1y"]), st.integers(0, 120), st.sampled_from([0, 2, 4])
        ),
        min_size=1,
        max_size=20,
    )
)
def test_hostlists_unfold_to_the_names(parts):
    names = {f"{prefix}{number:0{width}d}" for prefix, number, width in parts}
    assert sorted(unfolded(hostlist(sorted(names)))) == sorted(names)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("Torus((3, 3))", "a network without switches is no tree"),
        ("dgx1()", "no tree"),
        ("boxes(3, 2, 100, 25, outer=Complete(3))", "joined without a switch"),
    ],
)
def test_what_is_no_tree(text, rule, tmp_path, capsys):
    asked = ["topology", "--network", text, "--format", "slurm", "--out", str(tmp_path / "t")]
    assert main(asked) == 2
    assert rule in capsys.readouterr().err
    assert not (tmp_path / "t").exists()


def test_a_leaf_under_two_that_differ_is_no_tree():
    links = [(0, 3), (1, 4), (2, 5), (3, 6), (4, 6), (4, 7), (5, 7)]
    tail, head = zip(*[*links, *[pair[::-1] for pair in links]], strict=True)
    with pytest.raises(ValueError, match="h1 is under s3 and s4"):
        server_tree(Network(3, 8, tail, head, [1] * len(tail)))


def test_the_command(tmp_path, capsys):
    out = tmp_path / "topology.conf"
    asked = ["topology", "--network", "leaf_spine(2, 2, 2, 4, 4)"]
    assert main([*asked, "--format", "slurm", "--out", str(out), "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["servers"], told["switches"]) == (4, [2, 1])
    assert "SwitchName=s0 Nodes=h[0-1]" in out.read_text()
    assert main([*asked, "--format", "dot"]) == 2
    assert main(["topology", "Torus((3, 3))", "--format", "slurm"]) == 2
    capsys.readouterr()
