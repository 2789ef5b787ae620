"""``ocs-codesign rewire``: what it says, writes and refuses."""

from __future__ import annotations

import csv
import json

import pytest

from ocs_codesign.faces.cli import main

BEFORE, AFTER = "DirectedCirculant(8, (1, 3))", "GeneralizedKautz(2, 8)"


def run(capsys, *arguments):
    code = main(["rewire", *arguments])
    return code, *capsys.readouterr()


def asked(capsys, *arguments):
    return run(capsys, *arguments, "--what-if")


def answer_of(capsys, *arguments):
    code, out, err = asked(capsys, *arguments, "--json", "-")
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
    code, out, err = asked(capsys, BEFORE, AFTER, "--delta", "25ms", "--delta-per-circuit", "1ms")
    assert (code, err) == (0, "")
    assert out.startswith("What if: no bundle was read, the embedding is invented")
    assert "12, the fewest" in out
    assert "yes" in out
    code, out, _ = asked(capsys, "DirectedCirculant(8, (1,))", "DirectedCirculant(8, (3,))")
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
        ((BEFORE, AFTER, "--seed", "-1"), "Invalid value for '--seed'"),
        (
            (BEFORE, AFTER, "--profile", "polatis-384", "--port-model", "matching"),
            "port_model: matching, ports: 64",
        ),
        ((BEFORE,), "give FROM, or --start FILE, and TO"),
        ((BEFORE, AFTER, AFTER), "3 arguments are given"),
        ((BEFORE, "no.graphml"), "no.graphml: no such file"),
        ((BEFORE, AFTER, "--start", "x.csv"), "--start takes the place of FROM"),
    ],
)
def test_refusals(capsys, arguments, words):
    code, out, err = asked(capsys, *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_without_a_bundle_it_is_a_question(capsys):
    code, out, err = run(capsys, BEFORE, AFTER)
    assert (code, out) == (2, "")
    assert "give --bundle DIR or ZIP to work on what is deployed, or --what-if" in err


def test_graph_files_are_read_wherever_recipes_are(capsys, tmp_path):
    path = tmp_path / "after.graphml"
    assert main(["topology", AFTER, "--out", str(path)]) == 0
    capsys.readouterr()
    answer = answer_of(capsys, BEFORE, str(path))
    assert (answer["changed"], answer["to"]) == (12, "after.graphml")
    assert answer_of(capsys, str(path), BEFORE)["from"] == "after.graphml"


def test_what_is_held_can_be_given(capsys, tmp_path):
    """The cross-connects of a plan, written as a table, are where the next plan begins."""
    plan = answer_of(capsys, AFTER, BEFORE)
    creates = [row for stage in plan["stages"] for row in stage["creates"]]
    path = tmp_path / "held.csv"
    rows = [f"{row['plane']},{row['cross_connect']}" for row in creates]
    path.write_text("\n".join(["plane,id", *rows]) + "\n")
    again = answer_of(capsys, BEFORE, "--start", str(path))
    assert again["kept"] == len(rows) == 12
    assert again["changed"] == 16 - 12
    for text, words in (
        ("plane,id\n0,1A-9B\n", "held.csv, line 2: id is '1A-9B': there are 8 nodes"),
        ("plane,id\n0,1-2\n", "held.csv, line 2: id is '1-2': it must be as 1A-2B"),
        ("plane,id\n0,1A-2B\n0,1A-3B\n", "a port is in two cross-connects"),
        ("plane,id\nx,1A-2B\n", "planes are 0 to"),
        ("port\n1\n", "known are switch, plane, id"),
    ):
        path.write_text(text)
        code, out, err = asked(capsys, BEFORE, "--start", str(path))
        assert (code, out) == (2, "")
        assert words in err
