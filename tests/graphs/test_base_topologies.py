"""The stored graphs: their files, their declared facts, and the script that makes them."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from folders import ROOT

from ocs_codesign.graphs.base_topologies import base_topologies_path
from ocs_codesign.graphs.families import named
from ocs_codesign.graphs.families.named import Named, named_graph, named_graphs
from ocs_codesign.schedules.design import measure, measure_topology

NAMES = sorted(named_graphs())


def test_index_lists_exactly_the_files_of_the_folder():
    files = {path.name for path in base_topologies_path().glob("*.json")} - {"index.json"}
    assert files == {entry.file for entry in named_graphs().values()}
    assert len(files) == len(NAMES) >= 39


@pytest.mark.parametrize("name", NAMES)
def test_checksum_and_header(name):
    entry = named_graph(name)
    data = (base_topologies_path() / entry.file).read_bytes()
    assert hashlib.sha256(data).hexdigest() == entry.sha256
    content = json.loads(data)
    assert {key: content[key] for key in ("name", "nodes", "degree", "directed")} == {
        "name": name,
        "nodes": entry.nodes,
        "degree": entry.degree,
        "directed": entry.directed,
    }
    assert content["edges"] == sorted(content["edges"])
    assert entry.source
    assert entry.label


@pytest.mark.parametrize("name", NAMES)
def test_declared_facts_are_what_the_package_finds(name):
    entry, topology = named_graph(name), Named(name).topology()
    assert (topology.num_nodes, topology.degree) == (entry.nodes, entry.degree)
    assert topology.is_regular
    assert topology.is_undirected() != entry.directed
    assert not topology.has_self_loops()
    links = topology.tail.astype(np.int64) * entry.nodes + topology.head
    assert len(np.unique(links)) == topology.num_links
    for collective in ("allgather", "reduce-scatter"):
        cost = measure_topology(topology, collective).cost
        assert (cost.steps, cost.t_b) == (entry.steps, entry.t_b)
    is_optimal = entry.t_b == Fraction(entry.nodes - 1, entry.nodes)
    assert is_optimal == (name != "delorme")  # the largest known of five steps; 94/91


def test_recipe_takes_label_and_cost_from_the_index():
    recipe = Named("hoffman_singleton")
    assert recipe.label() == "Hoffman-Singleton"
    assert measure(recipe).cost == recipe.predict()


def test_the_script_finds_every_file_as_it_would_make_it():
    script = ROOT / "experiments" / "make_base_topologies.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture
def copied_folder(tmp_path, monkeypatch):
    """A folder of stored graphs that a test may damage."""
    for path in base_topologies_path().glob("*.json"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(named, "base_topologies_path", lambda: tmp_path)
    return tmp_path


def test_intact_copy_is_read(copied_folder):
    assert Named("k4").topology().num_links == 12
    assert (copied_folder / "k4.json").is_file()


@pytest.mark.parametrize("damage", [b"", b"{}", b"[1,0]"])
def test_damaged_file_is_refused(copied_folder, damage):
    path = copied_folder / "k4.json"
    path.write_bytes(path.read_bytes().replace(b"[0,1]", damage) if damage else b"")
    with pytest.raises(ValueError, match=r"k4\.json does not match its checksum.*damaged"):
        Named("k4").topology()


def test_missing_file_says_which(copied_folder):
    (copied_folder / "k4.json").unlink()
    with pytest.raises(OSError, match=r"k4\.json"):
        Named("k4").topology()


def test_unknown_version_of_the_index_is_refused(copied_folder):
    named_graphs.cache_clear()
    (copied_folder / "index.json").write_text('{"version": 2, "graphs": []}')
    try:
        with pytest.raises(ValueError, match="version 2"):
            named_graphs()
    finally:
        named_graphs.cache_clear()


@pytest.mark.parametrize("name", ["petersn", "Petersen", "", "../k4", "index"])
def test_unknown_name(name):
    with pytest.raises(ValueError, match="no graph is named"):
        named_graph(name)


def test_unknown_name_suggests_near_ones():
    with pytest.raises(ValueError, match="did you mean petersen"):
        Named("petersn")


@pytest.mark.parametrize("name", [3, None, ("k4",)])
def test_name_must_be_a_text(name):
    with pytest.raises(ValueError, match="no graph is named"):
        Named(name)
