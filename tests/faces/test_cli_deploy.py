"""``ocs-codesign deploy``: from a fabric file and recipes to a bundle, or to a reason."""

from __future__ import annotations

import json

import pytest
from bundle_samples import files_of, small_fabric
from embed_samples import fabric as plane_fabric
from interrupts import interrupted

from ocs_codesign.fabric.files.fabric_files import save_fabric
from ocs_codesign.faces.cli import main

RECIPES = ("ring=BiRing(2, 8)", "Circulant(8, (1, 3))")


@pytest.fixture
def fabric(tmp_path):
    path = tmp_path / "lab.yaml"
    save_fabric(small_fabric(), path)
    return str(path)


def run(capsys, *arguments):
    code = main(["deploy", *map(str, arguments)])
    streams = capsys.readouterr()
    return code, streams.out, streams.err


def test_a_bundle_is_written(fabric, tmp_path, capsys):
    out, answer = tmp_path / "new" / "bundle", tmp_path / "answer.json"
    collectives = ("--collective", "allgather", "--collective", "alltoall")
    arguments = (*RECIPES, "--fabric", fabric, "--out", out, *collectives, "--json", answer)
    code, text, errors = run(capsys, *arguments)
    assert (code, errors) == (0, "")
    assert "configuration  ring" in text
    assert "verified" in text
    facts = json.loads(answer.read_text())
    assert facts["fits"]
    assert [one["name"] for one in facts["configurations"]] == ["ring", "configuration2"]
    kinds = [one["collective"] for one in facts["configurations"][0]["schedules"]]
    assert kinds == ["allgather", "alltoall"]
    assert len(facts["plans"]) == 2
    files = files_of(out)
    assert facts["num_files"] == len(files)
    page = files["report.html"].decode()
    assert page.count("<svg") > 10


def test_a_recipe_that_does_not_fit(fabric, tmp_path, capsys):
    arguments = ("BiRing(2, 12)", "--fabric", fabric, "--out", tmp_path / "out")
    code, text, errors = run(capsys, *arguments)
    assert (code, errors) == (1, "")
    assert text == ("It does not fit: the topology has 12 nodes, but the fabric 9 working hosts.\n")
    code, text, _ = run(capsys, *arguments, "--json", "-")
    answer = json.loads(text)
    assert (code, answer["fits"], answer["reason"]) == (1, False, "hosts")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("../a=BiRing(2, 8)",), "configuration '../a' cannot be a file name"),
        ((), "give at least one RECIPE"),
    ],
)
def test_bad_input(arguments, message, fabric, tmp_path, capsys):
    out = tmp_path / "out"
    code, _, errors = run(capsys, *arguments, "--fabric", fabric, "--out", out)
    assert code == 2
    assert message in errors
    assert errors.count("\n") == 1
    assert not out.exists()


def test_where_it_cannot_be_written(fabric, tmp_path, capsys):
    start = ("BiRing(2, 8)", "--fabric", fabric)
    code, _, errors = run(capsys, *start, "--out", tmp_path)
    assert (code, "holds other files ('lab.yaml')" in errors) == (2, True)
    code, _, errors = run(capsys, *start, "--out", "-")
    assert (code, "cannot go to standard output" in errors) == (2, True)
    out = tmp_path / "out"
    out.mkdir()
    code, _, errors = run(capsys, *start, "--out", out, "--json", out / "answer.json")
    assert (code, "--json cannot go into the bundle" in errors) == (2, True)
    code, _, errors = run(capsys, "BiRing(2, 8)", "--fabric", "none.yaml", "--out", out)
    assert (code, errors.startswith("Error: none.yaml: ")) == (2, True)
    assert not files_of(out)


_SLOW = """
import sys
from pathlib import Path
from ocs_codesign.faces.cli import main
from ocs_codesign.core.files import atomic

def slow(part, target, *, swapped):
    assert len([path for path in Path().rglob("*") if path.is_file()]) > 10
    print("ready", flush=True)
    wait_for_ctrl_c()

atomic._move = slow
"""


def test_an_interrupt_leaves_nothing(fabric, tmp_path):
    """Interrupted when all files have been written beside the place where they belong."""
    place = tmp_path / "place"
    place.mkdir()
    command = ["deploy", RECIPES[0], "--fabric", fabric, "--out", "out"]
    code, _, errors = interrupted(f"{_SLOW}sys.exit(main({command!r}))", place)
    assert (code, errors) == (130, "Interrupted: nothing was written.")
    assert not list(place.iterdir())


LIFT = "Lift(Cyclic(1), ((4, 5), (0, 2), (6, 7), (5, 6), (1, 3), (2, 4), (0, 7), (1, 3)))"


@pytest.mark.parametrize("message", ["1KiB", "1GiB"])
def test_what_select_counts_is_deployed(tmp_path, capsys, message):
    """The design's own schedule for small messages, forests for large ones, at the same time."""
    path = tmp_path / "eight.yaml"
    save_fabric(plane_fabric(8, [[8]] * 2), path)
    chosen = ("--message", message, "--collective", "allreduce", "--json", "-")
    assert main(["select", "--fabric", str(path), "--designs", LIFT, *chosen]) == 0
    counted = json.loads(capsys.readouterr().out)
    (part,) = counted["ranked"][0]["parts"]
    assert ("forest_parts" in part) == (message == "1GiB")
    out = tmp_path / "bundle"
    arguments = (LIFT, "--fabric", path, "--out", out, "--message", message, "--json", "-")
    code, text, errors = run(capsys, *arguments)
    assert (code, errors) == (0, "")
    (built,) = json.loads(text)["configurations"][0]["schedules"]
    assert built["cost"] == part["cost"]
    assert ("forest" in built["schedule"]) == (message == "1GiB")
    assert main(["verify-bundle", str(out)]) == 0
    capsys.readouterr()


def test_a_message_to_deploy_for(fabric, tmp_path, capsys):
    arguments = ("BiRing(2, 8)", "--fabric", fabric, "--out", tmp_path / "out", "--message")
    for text, says in (("-1MiB", "-1MiB"), ("much", "'much'")):
        code, _, errors = run(capsys, *arguments, text)
        assert (code, errors.count("\n")) == (2, 1)
        assert says in errors
    assert not (tmp_path / "out").exists()


def test_a_message_for_what_is_added(tmp_path, capsys):
    """Only what is added is built for it; what is there stays as it is."""
    path, out = tmp_path / "eight.yaml", tmp_path / "bundle"
    save_fabric(plane_fabric(8, [[8]] * 2), path)
    assert run(capsys, "ring=BiRing(2, 8)", "--fabric", path, "--out", out)[0] == 0
    ring = next(name for name in files_of(out) if "ring" in name and name.endswith("npz"))
    before = files_of(out)[ring]
    added = (f"lift={LIFT}", "--bundle", out, "--message", "1GiB", "--json", "-")
    code, text, errors = run(capsys, *added)
    assert (code, errors) == (0, "")
    makers = [one["schedules"][0]["schedule"] for one in json.loads(text)["configurations"]]
    assert ["forest" in maker for maker in makers] == [False, True]
    assert files_of(out)[ring] == before
    assert main(["verify-bundle", str(out)]) == 0
    capsys.readouterr()
