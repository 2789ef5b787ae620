"""``cost --collective alltoall``: what it prints, its JSON, and what it refuses."""

from __future__ import annotations

import json
import os
from fractions import Fraction

import networkx as nx
import pytest

from ocs_codesign.faces.cli import main
from ocs_codesign.graphs.text import parse


def answer(capsys, *arguments):
    assert main(["cost", *arguments, "--collective", "alltoall", "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


def test_says_that_a_value_is_proven(capsys):
    assert main(["cost", "Circulant(12, (2, 3))", "--collective", "alltoall"]) == 0
    out = capsys.readouterr().out
    assert "14/9 (1.55556), proven optimal" in out
    assert "1.0370 times" in out
    assert "48 of 48 links" in out


def test_the_bottleneck_is_what_is_busy_for_all_of_the_bound(capsys, tmp_path):
    path = tmp_path / "chord.edges"
    path.write_text("0 1\n1 2\n2 0\n0 2\n", encoding="utf-8")
    assert main(["cost", "--graph", str(path), "--collective", "alltoall"]) == 0
    assert "bottleneck      1 of 4 links" in capsys.readouterr().out  # the only way into node 0
    whole = parse("GeneralizedKautz(3, 20)").topology()
    edges = zip(whole.tail.tolist(), whole.head.tolist(), strict=True)
    path.write_text("".join(f"{tail} {head}\n" for tail, head in edges), encoding="utf-8")
    rough = ["--graph", str(path), "--time-limit", "0s"]
    found = answer(capsys, *rough)
    least = float(Fraction(found["proven_bound"]) / Fraction(found["t_b"]))
    busy = sum(
        use >= least and price > 0
        for use, price in zip(found["link_use"], found["prices"], strict=True)
    )
    assert 0 < busy < 60
    assert main(["cost", *rough, "--collective", "alltoall"]) == 0
    assert f"bottleneck      {busy} of 60 links" in capsys.readouterr().out


def test_json_holds_the_proof(capsys):
    found = answer(capsys, "GeneralizedKautz(4, 9)")
    assert Fraction(found["t_b"]) == Fraction(found["proven_bound"]) == Fraction(5, 3)
    assert found["optimal"]
    assert found["gap"] == 0
    assert len(found["prices"]) == len(found["link_use"]) == found["num_link_orbits"] == 36
    assert max(found["link_use"]) == 1
    assert Fraction(found["t_b_bound"]) == Fraction(4 + 2 * 4, 9)


@pytest.mark.parametrize("recipe", ["GeneralizedKautz(4, 9)", "Torus((4, 6))", "UniRing(1, 5)"])
def test_the_proof_can_be_checked_from_the_file(capsys, recipe):
    """Whoever pays the prices on the cheapest paths of all pairs pays at least so much."""
    found, graph = answer(capsys, recipe), parse(recipe).topology()
    assert len(found["link_orbit"]) == graph.num_links
    price = [found["prices"][orbit] for orbit in found["link_orbit"]]
    weighted = nx.DiGraph()
    for tail, head, each in zip(graph.tail.tolist(), graph.head.tolist(), price, strict=True):
        known = weighted.get_edge_data(tail, head, {"price": each})["price"]
        weighted.add_edge(tail, head, price=min(known, each))
    lengths = nx.all_pairs_dijkstra_path_length(weighted, weight="price")
    paid = sum(sum(length.values()) for _, length in lengths)
    bound = Fraction(paid * graph.degree, sum(price) * graph.num_nodes)
    assert bound == Fraction(found["proven_bound"])


def test_any_spelling(capsys):
    assert main(["cost", "Complete(4)", "--collective", "ALLTOALL"]) == 0
    assert "3/4 (0.75)" in capsys.readouterr().out


def test_of_a_graph_file(capsys, tmp_path):
    path = tmp_path / "ring.edges"
    path.write_text("0 1\n1 2\n2 3\n3 0\n", encoding="utf-8")
    assert answer(capsys, "--graph", str(path))["t_b"] == "3/2"


def test_unreachable_nodes_are_one_sentence(capsys, tmp_path):
    path = tmp_path / "split.edges"
    path.write_text("0 1\n1 0\n2 3\n3 2\n", encoding="utf-8")
    assert main(["cost", "--graph", str(path), "--collective", "alltoall"]) == 2
    assert "strongly connected" in capsys.readouterr().err


def test_a_schedule_is_built_and_verified(capsys, tmp_path):
    out = str(tmp_path / "design")
    command = ["build", "GeneralizedKautz(4, 9)", "--collective", "alltoall", "--out", out]
    assert main([*command, "--max-steps", "3"]) == 0
    assert "no schedule of as many steps is better" in capsys.readouterr().out
    assert main(["verify", out]) == 0
    shown = capsys.readouterr().out
    assert "3 steps, t_b 5/3" in shown
    assert "largest load (pieces)" in shown


def test_fewer_chunks_cost_time_and_the_bound_says_how_much(capsys, tmp_path):
    command = ["build", "GeneralizedKautz(4, 9)", "--collective", "alltoall", "--max-steps", "3"]
    out = ["--out", str(tmp_path / "design"), "--json", "-"]
    assert main([*command, "--max-chunks", "1", *out]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["num_chunks"] == 9
    assert Fraction(found["cost"]["t_b"]) >= Fraction(found["t_b_bound"])
    assert float(Fraction(found["t_b_bound"])) == pytest.approx(5 / 3, rel=1e-6)


def test_the_solver_may_be_chosen(capsys):
    found = answer(capsys, "GeneralizedKautz(4, 9)", "--solver", "gurobi")
    assert (found["t_b"], found["method"]) == ("5/3", "exact vertex")


def test_out_of_time_it_says_what_is_known(capsys):
    found = answer(capsys, "GeneralizedKautz(4, 27)", "--time-limit", "0s")
    assert Fraction(found["proven_bound"]) <= Fraction(3044, 1377) < Fraction(found["t_b"])
    assert not found["optimal"]
    assert found["gap"] < 0.2
    assert found["method"].endswith("the time limit was reached before optimality")


def test_a_schedule_out_of_time_is_written_with_its_bound(capsys, tmp_path):
    out = ["--out", str(tmp_path / "design"), "--json", "-", "--time-limit", "0s"]
    assert main(["build", "GeneralizedKautz(4, 9)", "--collective", "alltoall", *out]) == 0
    found = json.loads(capsys.readouterr().out)
    assert Fraction(found["t_b_bound"]) <= Fraction(found["cost"]["t_b"])
    assert main(["verify", str(tmp_path / "design")]) == 0


@pytest.mark.skipif(os.environ.get("GRB_LICENSE_FILE") is not None, reason="a licence is installed")
@pytest.mark.parametrize("command", ["cost", "build"])
def test_a_licence_that_is_too_small_is_one_sentence(capsys, tmp_path, command):
    arguments = [command, "GeneralizedKautz(4, 27)", "--collective", "alltoall"]
    arguments += ["--solver", "gurobi", *(["--out", str(tmp_path / "d")] * (command == "build"))]
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Error: gurobi: the solver's licence does not allow a program of this")
    assert err.endswith("with --fallback HiGHS solves it\n")
    assert os.listdir(tmp_path) == []
    assert main([*arguments, "--fallback"]) == 0


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        (["--collective", "alltoall", "--scheduler", "bfb"], "not for alltoall"),
        (["--max-steps", "3"], "for --collective alltoall"),
        (["--max-chunks", "3"], "for --collective alltoall"),
        (["--collective", "alltoall", "--max-steps", "1"], "steps"),
        (["--collective", "alltoall", "--max-steps", "0"], "'0' is not a whole number"),
    ],
)
def test_build_refuses(capsys, tmp_path, more, rule):
    out = tmp_path / "design"
    assert main(["build", "GeneralizedKautz(4, 9)", *more, "--out", str(out)]) == 2
    assert rule in capsys.readouterr().err
    assert not out.exists()


def test_sweeps_do_not_know_it(capsys):
    assert main(["sweep", "--nodes", "8", "--collective", "alltoall"]) == 2
    assert capsys.readouterr().err
