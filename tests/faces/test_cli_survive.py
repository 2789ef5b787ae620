"""``ocs-codesign survive``: tables of losses, repairs, verdicts and what is refused."""

from __future__ import annotations

import json
import re

import pytest
from bundle_samples import small_fabric

from ocs_codesign.fabric.files.fabric_files import save_fabric
from ocs_codesign.faces.cli import main


@pytest.fixture
def fabric(tmp_path):
    path = tmp_path / "lab.yaml"
    save_fabric(small_fabric(), path)
    return str(path)


def run(capsys, *arguments):
    code = main(["survive", *arguments])
    streams = capsys.readouterr()
    return code, streams.out, streams.err


def test_all_kinds(fabric, capsys):
    arguments = ("Circulant(8, (1, 3))", "--fabric", fabric)
    code, text, errors = run(capsys, *arguments)
    assert (code, errors) == (0, "")
    assert "chosen for this question; --bundle DIR" in text
    rows = [line.split() for line in text.splitlines() if re.match(" *[0-9]+ +[0-9]+  ", line)]
    kinds = [row[2] for row in rows]
    assert kinds == ["plane", "switch", "link", "host"]
    answer = json.loads(run(capsys, *arguments, "--json", "-")[1])
    assert [worst["losses"] for worst in answer["worst"]] == [4, 4, 32, 8]
    assert len(answer["losses"]) == 48 > answer["measured"]


def test_a_ring_does_not_survive(fabric, capsys):
    arguments = ("UniRing(1, 8)", "--fabric", fabric, "--lost", "link, plane", "--json", "-")
    code, text, _ = run(capsys, *arguments)
    assert code == 1
    answer = json.loads(text)
    worst = [(each["kind"], each["left"]["components"]) for each in answer["worst"]]
    assert worst == [("plane", 8), ("link", 8)]
    assert answer["losses"][0]["cost"] is None
    grid = ("UniRing(2, 8)", "--fabric", fabric, "--lost", "plane", "--prefer", "survivability")
    code, text, _ = run(capsys, *grid, "--collective", "allreduce", "--json", "-")
    assert (code, {each["cost"]["steps"] for each in json.loads(text)["losses"]}) == (0, {14})


def test_a_repair(fabric, capsys):
    arguments = ("UniRing(1, 8)", "--fabric", fabric, "--what-if", "--repair", "host:h3")
    code, text, errors = run(capsys, *arguments, "--repair", "port:p0s0:1a")
    assert (code, errors) == (0, "")
    assert text.startswith("What if: no bundle was read, the embedding is invented")
    assert "followed" in text
    code, text, _ = run(capsys, *arguments, "--repair", "port:p0s0:1a", "--json", "-")
    answer = json.loads(text)
    assert answer["hosts"] == [{"node": 3, "before": "h3", "after": "h9"}]
    assert answer["moves"] == [
        {"strand": "h0 tx plane 0", "cable": "C00001", "before": "p0s0:1A", "after": "p0s0:11A"}
    ]
    # Three circuits change: to and from the host, and that of the port.
    assert [(one["a_port"], one["b_port"]) for one in answer["made"]] == [(3, 10), (10, 5), (11, 2)]
    code, text, _ = run(capsys, *arguments, "--repair", "switch:p0s0", "--json", "-")
    assert {one["switch"] for one in json.loads(text)["made"]} == {"p1s0"}


def test_no_repair(fabric, capsys):
    lost = [part for host in ("h0", "h1", "h2") for part in ("--repair", f"host:{host}")]
    code, text, errors = run(capsys, "UniRing(1, 8)", "--fabric", fabric, "--what-if", *lost)
    assert (code, errors) == (1, "")
    refused, offer = text.splitlines()
    assert refused == "It cannot be repaired: no spare host is left for the node of host h2."
    assert offer.startswith("Without spares: --splice in-place goes on without h0, h1, h2 on 5")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--lost", "port"], "--lost has 'port'"),
        (
            ["--repair", "host:h3"],
            "give --bundle DIR or ZIP to work on what is deployed, or --what-if",
        ),
        (["--what-if", "--repair", "h3"], "'h3' is no component: it must be host:NAME"),
        (["--what-if", "--repair", "port:p0s0:¹A"], "'port:p0s0:¹A' is no port"),
        (["--what-if", "--repair", "port:p0s0:1"], "p0s0:1 does not exist"),
        (["--what-if", "--repair", "host:x"], "no host of the fabric"),
        (["--repair", "host:h1", "--lost", "plane"], "--lost is for single losses"),
        (["--out", "x"], "--out is for a repaired bundle"),
        (["--bundle", "x"], "give --bundle DIR or ZIP, or a RECIPE"),
        (["--what-if", "--restore", "host:h1"], "--restore is for a --bundle"),
    ],
)
def test_bad_input(fabric, capsys, arguments, sentence):
    code, text, errors = run(capsys, "UniRing(1, 8)", "--fabric", fabric, *arguments)
    assert (code, text) == (2, "")
    assert sentence in errors
