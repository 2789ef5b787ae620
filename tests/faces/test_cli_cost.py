"""``cost``: exact costs of recipes and of graph files."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from ocs_codesign.faces.cli import main
from ocs_codesign.graphs.formats.graph_files import FORMATS
from ocs_codesign.graphs.text import parse

KEYS = [
    "answer",
    "recipe",
    "label",
    "graph",
    "nodes",
    "degree",
    "collective",
    "steps",
    "t_b",
    "t_b_float",
    "measured",
    "schedule",
    "late",
    "max_load_per_step",
    "num_chunks",
    "predicted",
    "bound",
    "topology_bound",
    "over_topology_bound",
    "forest",
    "bw_optimal",
    "moore_optimal",
    "allgather",
    "reduce_scatter",
]


def answer(capsys, *arguments: str) -> dict:
    assert main(["cost", *arguments, "--json", "-"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


def test_json_has_exactly_this_form(capsys):
    given = answer(capsys, "GeneralizedKautz(2, 9)")
    assert list(given) == KEYS
    assert given == {
        "answer": "cost.measured/1",
        "recipe": "GeneralizedKautz(2, 9)",
        "label": "Π(2,9)",
        "graph": None,
        "nodes": 9,
        "degree": 2,
        "collective": "allgather",
        "steps": 3,
        "t_b": "14/9",
        "t_b_float": 14 / 9,
        "measured": True,
        "schedule": "bfb",
        "late": False,
        "max_load_per_step": given["max_load_per_step"],
        "num_chunks": 1,
        "predicted": {"steps": 3, "t_b": "14/9"},
        "bound": {"steps": 3, "t_b": "8/9"},
        "topology_bound": given["topology_bound"],
        "over_topology_bound": given["over_topology_bound"],
        "forest": given["forest"],
        "bw_optimal": False,
        "moore_optimal": True,
        "allgather": {"steps": 3, "t_b": "14/9"},
        "reduce_scatter": given["reduce_scatter"],
    }
    assert given["reduce_scatter"]["t_b"] == "10/9"
    assert Fraction(8, 9) < Fraction(given["forest"]["t_b"]) <= Fraction(8, 9) * Fraction(11, 10)


def test_allreduce_is_both_halves(capsys):
    both = answer(capsys, "GeneralizedKautz(2, 9)", "--collective", "allreduce")
    assert both["t_b"] == "8/3"
    assert both["steps"] == both["allgather"]["steps"] + both["reduce_scatter"]["steps"]
    assert len(both["max_load_per_step"]) == both["steps"]
    assert both["bound"] == {"steps": 6, "t_b": "16/9"}


@pytest.mark.parametrize("collective", ["allgather", "reduce-scatter", "allreduce"])
@pytest.mark.parametrize("kind", ["edgelist", "json", "graphml"])
def test_a_graph_costs_what_its_recipe_costs_by_bfb(capsys, tmp_path, kind, collective):
    recipe = "GeneralizedKautz(2, 9)"
    path = tmp_path / "some.graph"
    path.write_text(FORMATS[kind].write(parse(recipe).topology(), recipe), encoding="utf-8")
    given = answer(capsys, "--graph", str(path), "--collective", collective)
    same = answer(capsys, recipe, "--collective", collective)
    assert list(given) == KEYS
    assert (given.pop("graph"), given.pop("recipe")) == ("some.graph", None)
    assert given.pop("label") is None
    assert given.pop("predicted") is None
    assert given == {key: same[key] for key in given}


def test_unequal_links_have_their_own_bound(capsys, tmp_path):
    path = tmp_path / "g.txt"
    path.write_text("0 1 3\n1 0 1\n", encoding="utf-8")
    given = answer(capsys, "--graph", str(path))
    assert given["bound"] == {"steps": 1, "t_b": "1/2"}
    assert given["topology_bound"] == {"steps": 1, "t_b": "3/2"}
    assert (given["t_b"], given["bw_optimal"], given["moore_optimal"]) == ("3/2", False, True)


def test_table(capsys):
    assert main(["cost", 'Named("petersen")']) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for line in (
        'recipe               Named("petersen")',
        "nodes, degree        10, 3",
        "cost                 2 steps, t_b 9/10 (0.9), measured",
        "optimal              BW Moore",
        "   2                      2        2",
    ):
        assert line in out.splitlines()


def test_long_lists_of_loads_are_cut(capsys):
    assert main(["cost", "UniRing(1, 200)"]) == 0
    out, _ = capsys.readouterr()
    assert "167 more steps" in out
    assert len(out.splitlines()) < 60


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0 1\n1 2\n", "not strongly connected"),
        ("0 1\n1 0\n2 3\n3 2\n", "not strongly connected"),
        ("0 0\n", "at least two nodes"),
        ("0 1 fast\n", "g.txt, line 1: 'fast' is not a link speed"),
        ("", "the file is empty"),
    ],
)
def test_graphs_without_a_cost(capsys, tmp_path, text, reason):
    path = tmp_path / "g.txt"
    path.write_text(text, encoding="utf-8")
    assert main(["cost", "--graph", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Error: ")
    assert reason in err


def test_json_file_and_table_together(capsys, tmp_path):
    path = tmp_path / "c.json"
    path.write_text("old", encoding="utf-8")
    assert main(["cost", "Complete(4)", "--json", str(path)]) == 0
    assert json.loads(path.read_text(encoding="utf-8"))["t_b"] == "3/4"
    assert "Complete(4)" in capsys.readouterr().out
    assert [one.name for one in tmp_path.iterdir()] == ["c.json"]


def test_of_an_irregular_graph_it_is_said_whose_bandwidth_b_is(capsys, tmp_path):
    file = tmp_path / "star.txt"
    file.write_text("".join(f"0 {leaf}\n{leaf} 0\n" for leaf in range(1, 5)))
    found = answer(capsys, "--graph", str(file))
    assert (found["degree"], found["mean_degree"], found["links"]) == (4, 1.6, 8)
    assert main(["cost", "--graph", str(file)]) == 0
    assert "of the 1.6 of the mean one, t_b is 0.4 times this" in capsys.readouterr().out
