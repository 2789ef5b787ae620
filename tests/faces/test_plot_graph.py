"""Pictures of graphs and of schedules step by step."""

from __future__ import annotations

import pytest

import ocs_codesign as oc
from ocs_codesign.faces.cli import main
from ocs_codesign.faces.pictures.graph import MAX_PANELS, graph_figure, spread_figure


def words(axes):
    return [text.get_text() for text in axes.texts if text.get_text()]


def test_links_are_lines_both_ways_arrows_one_way_and_rings():
    """Complete(3) has all links both ways; its line digraph three pairs and six links one way."""
    for recipe, num_arrows, title in (
        ("Complete(3)", 3, "a graph: 3 nodes, 6 links"),
        ("Line(Complete(3))", 9, "a graph: 6 nodes, 12 links"),
    ):
        graph = oc.parse(recipe).topology()
        (axes,) = graph_figure(graph, "a graph").axes
        arrows = [text for text in axes.texts if not text.get_text()]
        assert (len(arrows), axes.get_title()) == (num_arrows, title)
        assert words(axes) == [str(node) for node in range(graph.num_nodes)]
    looped = oc.parse("GeneralizedKautz(2, 4)").topology()
    (axes,) = graph_figure(looped, "loops").axes
    loops = sum(tail == head for tail, head in zip(looped.tail, looped.head, strict=True))
    assert len(axes.collections) == 1 + loops


def test_a_panel_a_step_says_the_shares_of_links():
    """Node 0 of a ring of four reaches the node across over both sides, half each."""
    figure = spread_figure(oc.bfb(oc.parse("BiRing(2, 4)").topology()), 0)
    first, second = figure.axes
    assert [axes.get_title() for axes in (first, second)] == ["step 1: 2 links", "step 2: 2 links"]
    assert words(first) == list("0123")
    assert sorted(words(second)) == sorted([*"0123", "1/2", "1/2"])


@pytest.mark.slow
def test_the_steps_of_what_is_built_are_drawn(tmp_path, capsys):
    out, picture = str(tmp_path / "d"), tmp_path / "s.svg"
    build = ["build", "Torus((3, 3))", "--collective", "allreduce"]
    for _ in range(2):
        assert main([*build, "--out", out, "--plot", str(picture)]) == 0
    first = picture.read_bytes()
    assert b"step 4" in first
    assert main(["topology", "Torus((3, 3))", "--plot", str(tmp_path / "g.svg")]) == 0
    capsys.readouterr()


@pytest.mark.parametrize(
    ("words_of_it", "says"),
    [
        (["build", "UniRing(1, 65)", "--out", "d"], "at most 64 are drawn"),
        (["build", "BiRing(2, 40)", "--out", "d"], f"at most {MAX_PANELS} are drawn"),
        (["topology", "UniRing(1, 301)", "--out", "g.txt"], "at most 300 are drawn"),
        (["topology", "--network", "a100(2)", "--format", "slurm"], "--plot draws a RECIPE"),
        (["build", "Torus((3, 3))", "--scheduler", "greedy"], "Missing option '--out'"),
    ],
)
def test_what_is_too_large_is_not_drawn(words_of_it, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([*words_of_it, "--plot", "p.png"]) == 2
    assert says in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
