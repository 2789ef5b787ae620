"""Recipes longer than the name of a file can be are recipes to every command that takes one."""

from __future__ import annotations

import pytest

from ocs_codesign.faces.cli import main
from ocs_codesign.faces.cli.compare import _network_and_recipe

NODES = 24
ROWS = tuple(tuple((node + hop) % NODES for hop in (1, 5, 9)) for node in range(NODES))
LONG = f"Lift(Cyclic(1), {ROWS})"


@pytest.mark.parametrize(
    "asked",
    [
        ["cost", LONG],
        ["simulate", LONG, "--message", "1MiB", "--bandwidth", "100Gbps", "--latency", "1us"],
        ["export", LONG, "--format", "csv", "--out", "exported"],
        ["optimum", LONG],
        ["topology", LONG, "--out", "graph.graphml"],
    ],
    ids=lambda asked: asked[0],
)
def test_commands(asked, tmp_path, monkeypatch, capsys):
    assert len(LONG) > 255
    monkeypatch.chdir(tmp_path)
    assert main(asked) == 0
    assert capsys.readouterr().err == ""


def test_what_takes_files_too():
    """``compare`` takes a network of others, ``run`` a design, a book or a program."""
    network, recipe = _network_and_recipe(LONG)
    assert (network.num_hosts, repr(recipe)) == (NODES, LONG)


@pytest.mark.mpi
def test_ranks_are_counted(capsys):
    assert main(["run", LONG, "--ranks", "2"]) == 2
    assert f"is for {NODES} ranks" in capsys.readouterr().err
