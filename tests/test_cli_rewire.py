"""``ocs-codesign rewire``: what it says, writes and refuses."""

from __future__ import annotations

import csv
import json

import pytest

from ocs_codesign.cli import main

BEFORE, AFTER = "DirectedCirculant(8, (1, 3))", "GeneralizedKautz(2, 8)"


def run(capsys, *arguments):
    code = main(["rewire", *arguments])
    return code, *capsys.readouterr()


def answer_of(capsys, *arguments):
    code, out, err = run(capsys, *arguments, "--json", "-")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_the_plan_leads_from_one_to_the_other(capsys, tmp_path):
    path = tmp_path / "plan.csv"
    answer = answer_of(capsys, BEFORE, AFTER, "--profile", "polatis-384", "--out", str(path))
    assert (answer["changed"], answer["fewest_changed"], answer["is_optimal"]) == (12, 12, True)
    assert answer["changed_without_choice"] >= 12
    assert answer["hitless"]
    assert all(stage["connected"] for stage in answer["stages"])
    assert answer["dead_time_s"] == pytest.approx(0.025 * len(answer["stages"]))
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows
    listed = [[*stage["deletes"], *stage["creates"]] for stage in answer["stages"]]
    named = [circuit["cross_connect"] for circuits in listed for circuit in circuits]
    assert named == [row["cross_connect"] for row in rows]


def test_free_hosts(capsys):
    rings = ["DirectedCirculant(8, (1,))", "DirectedCirculant(8, (3,))"]
    free = answer_of(capsys, *rings, "--free-hosts")
    assert (free["changed"], free["changed_with_fixed_hosts"], free["stages"]) == (0, 8, [])
    assert sorted(free["host"]) == list(range(8))


@pytest.mark.parametrize(
    ("options", "model", "planes"),
    [
        (("--profile", "palomar-136"), "two-sided", 2),
        (("--profile", "polatis-384", "--planes", "4"), "simplex", 4),
        (("--port-model", "matching"), "matching", 4),
    ],
)
def test_port_models_and_planes(capsys, options, model, planes):
    answer = answer_of(capsys, "Circulant(8, (1, 2))", "Circulant(8, (1, 3))", *options)
    assert (answer["port_model"], answer["planes"], answer["is_optimal"]) == (model, planes, True)


def test_what_is_printed(capsys):
    code, out, err = run(capsys, BEFORE, AFTER, "--delta", "25ms", "--delta-per-circuit", "1ms")
    assert (code, err) == (0, "")
    assert "12, the fewest" in out
    assert "yes" in out
    code, out, _ = run(capsys, "DirectedCirculant(8, (1,))", "DirectedCirculant(8, (3,))")
    assert code == 0
    assert "it is proven that no order" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((BEFORE, "DirectedCirculant(9, (1, 2))"), "8 nodes"),
        ((BEFORE, AFTER, "--planes", "1"), "--planes is 1, but the topologies need 2"),
        ((BEFORE, AFTER, "--profile", "rotor-128"), "rotor-128 is restricted"),
        ((BEFORE, AFTER, "--profile", "polatis-384", "--delta", "1ms"), "--profile says"),
        ((BEFORE, AFTER, "--port-model", "matching"), "circuits that carry both directions"),
        ((BEFORE, AFTER, "--seed", "-1"), "--seed is -1"),
    ],
)
def test_refusals(capsys, arguments, words):
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1
