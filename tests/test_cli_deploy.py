"""``ocs-codesign deploy``: from a fabric file and recipes to a bundle, or to a reason."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from bundle_samples import files_of, rows, small_fabric
from interrupts import interrupted

from ocs_codesign.cli import main
from ocs_codesign.formats.fabric.fabric_files import save_fabric

if TYPE_CHECKING:
    from pathlib import Path

RECIPES = ("ring=BiRing(2, 8)", "Circulant(8, (1, 3))")


@pytest.fixture
def fabric(tmp_path: Path) -> str:
    path = tmp_path / "lab.yaml"
    save_fabric(small_fabric(), path)
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main(["deploy", *map(str, arguments)])
    streams = capsys.readouterr()
    return code, streams.out, streams.err


def test_a_bundle_is_written(
    fabric: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    assert page.count("data:image/svg+xml;base64,") == 3
    run(capsys, *arguments)
    assert files_of(out) == files


def test_a_recipe_that_does_not_fit(
    fabric: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
        (("BiRing(2, 8)", "BiRing(2, 9)"), "are of the same nodes"),
        (("a=BiRing(2, 8)", "A=UniRing(2, 8)"), "must differ in more than capitals"),
        (("../a=BiRing(2, 8)",), "configuration '../a' cannot be a file name"),
        (("=BiRing(2, 8)",), "=BiRing"),
        (("Ring(2, 8)",), "Ring"),
        ((), "Missing argument"),
    ],
)
def test_bad_input(
    arguments: tuple[str, ...],
    message: str,
    fabric: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    code, _, errors = run(capsys, *arguments, "--fabric", fabric, "--out", out)
    assert code == 2
    assert message in errors
    assert errors.count("\n") == 1
    assert not out.exists()


def test_where_it_cannot_be_written(
    fabric: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
from ocs_codesign.cli import main
from ocs_codesign.files import atomic

def slow(part, target, *, swapped):
    assert len([path for path in Path().rglob("*") if path.is_file()]) > 10
    print("ready", flush=True)
    wait_for_ctrl_c()

atomic._move = slow
"""


def test_an_interrupt_leaves_nothing(fabric: str, tmp_path: Path) -> None:
    """Interrupted when all files have been written beside the place where they belong."""
    place = tmp_path / "place"
    place.mkdir()
    command = ["deploy", RECIPES[0], "--fabric", fabric, "--out", "out"]
    code, _, errors = interrupted(f"{_SLOW}sys.exit(main({command!r}))", place)
    assert (code, errors) == (130, "Interrupted: nothing was written.")
    assert not list(place.iterdir())


@pytest.mark.slow
def test_a_thousand_nodes_on_small_switches(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """1024 nodes of degree 4 on planes of 4 x 4 switches, which line growth needs only."""
    path = tmp_path / "big.yaml"
    path.write_text(
        "version: 1\nname: big\nhosts: {count: 1024, pattern: 'host{:04d}'}\n"
        "planes:\n- count: 4\n  switches:\n  - {profile: polatis-384, count: 256, ports: 4}\n"
        "alpha: 10us\nnode_bandwidth: 400Gbps\n"
        "losses: {connector_db: 0.25, circulator_db: 0.5, budget_db: DR4}\n"
    )
    out = tmp_path / "out"
    recipe = "Line(Line(Line(Circulant(16, (3, 4)))))"
    code, _, errors = run(capsys, recipe, "--fabric", path, "--out", out)
    assert (code, errors) == (0, "")
    links = rows(out / "links" / "configuration1.csv")
    assert len(links) == 4096
    assert {(row["stages"], row["flag"]) for row in links} == {("1", "ok")}
