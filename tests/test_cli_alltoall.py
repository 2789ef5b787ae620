"""``cost --collective alltoall``: what it prints, its JSON, and what it refuses."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from ocs_codesign.cli import main


def answer(capsys, *arguments):
    assert main(["cost", *arguments, "--collective", "alltoall", "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


def test_says_that_a_value_is_proven(capsys):
    assert main(["cost", "Circulant(12, (2, 3))", "--collective", "alltoall"]) == 0
    out = capsys.readouterr().out
    assert "14/9 (1.55556), proven optimal" in out
    assert "1.0370 times" in out
    assert "48 of 48 links" in out


def test_json_holds_the_proof(capsys):
    found = answer(capsys, "GeneralizedKautz(4, 9)")
    assert Fraction(found["t_b"]) == Fraction(found["proven_bound"]) == Fraction(5, 3)
    assert found["optimal"]
    assert found["gap"] == 0
    assert len(found["prices"]) == len(found["link_use"]) == found["num_link_orbits"] == 36
    assert max(found["link_use"]) == 1
    assert Fraction(found["bound"]) == Fraction(4 + 2 * 4, 9)


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


@pytest.mark.parametrize("command", ["frontier --nodes 8 --degree 2", "sweep --nodes 8"])
def test_commands_that_do_not_know_it_say_so(capsys, command):
    assert main([*command.split(), "--collective", "alltoall"]) == 2
    assert capsys.readouterr().err
