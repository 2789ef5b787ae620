"""Stored schedules of bases: their files, what is refused, and that any base may carry one."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from folders import ROOT

from ocs_codesign.core.cost import Cost
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.graphs import recipe as recipes
from ocs_codesign.graphs.expansions.line import Line
from ocs_codesign.graphs.expansions.product import Power, Product
from ocs_codesign.graphs.families.dense import Complete
from ocs_codesign.graphs.families.shifts import Kautz, ModifiedDeBruijn
from ocs_codesign.graphs.text import parse as parse_recipe
from ocs_codesign.schedules import stored
from ocs_codesign.schedules.breadth_first.assembly import bfb
from ocs_codesign.schedules.design import build, measure
from ocs_codesign.schedules.stepped.exact import exact_schedule
from ocs_codesign.schedules.stored import read_allgather, stored_schedules
from ocs_codesign.verification.schedules import verify

DIRECTORY = ROOT / "base_topologies" / "schedules"
ENTRIES = list(stored_schedules().values())
RECIPE = ModifiedDeBruijn(2, 3)

every_entry = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.file)


def graph_of(entry: stored.StoredSchedule):
    topology = parse_recipe(entry.recipe).topology()
    return topology.transpose() if entry.transposed else topology


def forget() -> None:
    """Nothing read from another folder is remembered."""
    stored_schedules.cache_clear()
    recipes.__dict__["_stored_schedule"].cache_clear()
    recipes.__dict__["_expanded_loads"].cache_clear()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A copy of the stored schedules that a test may change."""
    copied = tmp_path / "schedules"
    copied.mkdir()
    for path in DIRECTORY.glob("*.json"):
        (copied / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(stored, "base_topologies_path", lambda: tmp_path)
    forget()
    yield copied
    forget()


def change_index(folder: Path, file: str, **changes: object) -> None:
    content = json.loads((folder / "index.json").read_text())
    (entry,) = (entry for entry in content["schedules"] if entry["file"] == file)
    entry.update(changes)
    (folder / "index.json").write_text(json.dumps(content))


def rewrite(folder: Path, file: str, arrivals: list) -> None:
    """Other arrivals in a file, and the index agrees."""
    content = json.loads((folder / file).read_text())
    data = json.dumps({**content, "arrivals": arrivals}).encode()
    (folder / file).write_bytes(data)
    change_index(folder, file, sha256=hashlib.sha256(data).hexdigest())


def arrivals_of(schedule: Schedule) -> list:
    """In-link * steps + step - 1 of every root, chunk and node, by looking for every one."""
    topology, steps = schedule.topology, schedule.num_steps
    nodes = range(topology.num_nodes)
    into = [np.flatnonzero(topology.head == node).tolist() for node in nodes]
    found = [[[-1 for _ in nodes] for _ in range(schedule.num_chunks)] for _ in nodes]
    for root, lo, hi, link, step in zip(*schedule.columns(), strict=True):
        node = int(topology.head[link])
        for chunk in range(lo, hi):
            found[root][chunk][node] = into[node].index(link) * steps + int(step) - 1
    return found


def store(folder: Path, recipe: str, transposed: bool, schedule: Schedule) -> None:
    """Add a schedule to the folder."""
    file = f"added_{int(transposed)}.json"
    data = json.dumps({"arrivals": arrivals_of(schedule)}).encode()
    (folder / file).write_bytes(data)
    cost, topology = verify(schedule).cost, schedule.topology
    entry = {
        "recipe": recipe,
        "transposed": transposed,
        "nodes": topology.num_nodes,
        "degree": topology.degree,
        "steps": cost.steps,
        "t_b": str(cost.t_b),
        "chunks": schedule.num_chunks,
        "source": "a test",
        "file": file,
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    content = json.loads((folder / "index.json").read_text())
    content["schedules"].append(entry)
    (folder / "index.json").write_text(json.dumps(content))
    forget()


class TestFiles:
    def test_index_lists_exactly_the_files_of_the_folder(self):
        files = {path.name for path in DIRECTORY.glob("*.json")} - {"index.json"}
        assert files == {entry.file for entry in ENTRIES}
        assert len(files) == len(ENTRIES) >= 14

    @every_entry
    def test_entry(self, entry):
        data = (DIRECTORY / entry.file).read_bytes()
        assert hashlib.sha256(data).hexdigest() == entry.sha256
        content, topology = json.loads(data), graph_of(entry)
        assert (content["recipe"], content["transposed"]) == (entry.recipe, entry.transposed)
        assert (content["steps"], content["chunks"]) == (entry.steps, entry.chunks)
        assert (topology.num_nodes, topology.degree) == (entry.nodes, entry.degree)
        assert repr(parse_recipe(entry.recipe)) == entry.recipe
        schedule = read_allgather(entry, topology)
        assert verify(schedule, Cost(entry.steps, entry.t_b)).ok
        every = arrivals_of(schedule)
        roots = stored.stored_roots(topology, len(content["arrivals"])).tolist()
        assert [every[root] for root in roots] == content["arrivals"]

    @every_entry
    def test_it_beats_bfb_and_both_directions_are_alike(self, entry):
        schedule = parse_recipe(entry.recipe).stored_schedule(transposed=entry.transposed)
        assert (schedule.num_steps, schedule.num_chunks) == (entry.steps, entry.chunks)
        if entry.source.startswith("late_schedule"):
            return  # of the transpose there may be another one, or none that beats BFB
        other = stored_schedules()[entry.recipe, not entry.transposed]
        assert (other.steps, other.t_b) == (entry.steps, entry.t_b)
        if parse_recipe(entry.recipe).reverse_symmetric:
            assert read_allgather(other, graph_of(other)).max_loads() == schedule.max_loads()

    def test_a_root_an_orbit_says_as_much_as_all(self, folder):
        entry = stored_schedules()[repr(RECIPE), False]
        topology = graph_of(entry)
        schedule = read_allgather(entry, topology)
        assert len(json.loads((folder / entry.file).read_text())["arrivals"]) == 4
        rewrite(folder, entry.file, arrivals_of(schedule))
        stored_schedules.cache_clear()
        again = read_allgather(stored_schedules()[repr(RECIPE), False], topology)
        for one, other in zip(schedule.columns(), again.columns(), strict=True):
            assert np.array_equal(one, other)

    def test_it_is_read_and_verified_once(self):
        assert RECIPE.stored_schedule() is RECIPE.stored_schedule()


class TestRefused:
    FILE = "modified_de_bruijn_2_3.json"

    def test_intact_copy_is_read(self, folder):
        assert (folder / self.FILE).is_file()
        assert measure(RECIPE).maker == "stored"

    @pytest.mark.parametrize("damage", [b"", b"1", b"]"])
    def test_damaged_file(self, folder, damage):
        path = folder / self.FILE
        path.write_bytes(path.read_bytes().replace(b"0", damage, 1) if damage else b"")
        for function in (measure, build, ModifiedDeBruijn.predict):
            with pytest.raises(ValueError, match=r"_2_3\.json does not match its checksum"):
                function(RECIPE)

    def test_missing_file_says_which(self, folder):
        (folder / self.FILE).unlink()
        with pytest.raises(OSError, match=r"modified_de_bruijn_2_3\.json"):
            measure(RECIPE)

    @pytest.mark.parametrize("changes", [{"t_b": "3/4"}, {"t_b": "1"}])
    def test_a_cost_that_it_does_not_have(self, folder, changes):
        change_index(folder, self.FILE, **changes)
        with pytest.raises(ValueError, match=r"is refused: the claimed cost is 4 steps and t_b"):
            measure(RECIPE)

    def test_a_schedule_that_does_not_verify(self, folder):
        arrivals = json.loads((folder / self.FILE).read_text())["arrivals"]
        node = next(v for v in range(1, 8) if arrivals[0][0][v] % 4)
        arrivals[0][0][node] -= arrivals[0][0][node] % 4  # at the first step, before it is there
        rewrite(folder, self.FILE, arrivals)
        with pytest.raises(ValueError, match=r"is refused: row .*the sender does not hold"):
            measure(RECIPE)

    def test_a_chunk_that_never_comes(self, folder):
        arrivals = json.loads((folder / self.FILE).read_text())["arrivals"]
        arrivals[2][0][3] = -1
        rewrite(folder, self.FILE, arrivals)
        with pytest.raises(ValueError, match="must have -1 where a node is the root itself"):
            measure(RECIPE)

    def test_an_in_link_that_there_is_not(self, folder):
        arrivals = json.loads((folder / self.FILE).read_text())["arrivals"]
        arrivals[0][0][1] = 2 * 4
        rewrite(folder, self.FILE, arrivals)
        with pytest.raises(ValueError, match="names an in-link that a node"):
            measure(RECIPE)

    def test_too_few_roots(self, folder):
        arrivals = json.loads((folder / self.FILE).read_text())["arrivals"]
        rewrite(folder, self.FILE, arrivals[1:])
        with pytest.raises(ValueError, match=r"of shape \(3, 2, 8\): here it must be \(8, 2, 8\)"):
            measure(RECIPE)

    @pytest.mark.parametrize("name", ["modified_de_bruijn_2_3", "modified_de_bruijn_3_3"])
    def test_the_schedule_of_the_transpose_is_not_one_of_the_graph(self, folder, name):
        change_index(folder, f"{name}.json", transposed=True)
        change_index(folder, f"{name}_transposed.json", transposed=False)
        with pytest.raises(ValueError, match="is refused"):
            measure(ModifiedDeBruijn(*map(int, name[-3:].split("_"))))

    def test_unknown_version_of_the_index(self, folder):
        (folder / "index.json").write_text('{"version": 2, "schedules": []}')
        with pytest.raises(ValueError, match="version 2"):
            measure(RECIPE)


class TestAnyBase:
    """A base of any family may carry a schedule."""

    def test_kautz_in_three_steps(self, folder):
        recipe = Kautz(2, 1)
        assert measure(recipe).maker == "bfb"
        store(folder, "Kautz(2, 1)", False, exact_schedule(recipe.topology(), 3, 2).schedule)
        candidate = measure(recipe, "allreduce")
        assert (candidate.maker, candidate.measured) == ("bfb+stored", True)
        assert (candidate.cost_of("allgather"), candidate.cost_of("reduce-scatter")) == (
            Cost(3, recipe.topology().t_b(sum(build(recipe).loads))),
            Cost(2, 1),
        )
        assert str(candidate.cost_of("allgather").t_b) == "5/6"
        assert build(recipe, "allreduce").cost == candidate.cost
        with pytest.raises(ValueError, match="no reduce-scatter of Kautz"):
            build(recipe, "allreduce", "stored")

    def test_its_expansions_map_it(self, folder):
        recipe = Kautz(2, 1)
        store(folder, "Kautz(2, 1)", False, exact_schedule(recipe.topology(), 3, 2).schedule)
        for expanded in (Line(recipe), Power(recipe, 2)):
            verdict = verify(expanded.expansion_schedule())
            assert verdict.ok
            assert verdict.cost.steps == 3 + (1 if isinstance(expanded, Line) else 3)
            assert verdict.cost.t_b <= expanded.predict().t_b
        assert Product(recipe, Complete(2)).expansion_schedule().num_steps == 3

    def test_one_no_better_than_bfb_is_not_used(self, folder):
        store(folder, "Complete(3)", False, bfb(Complete(3).topology()))
        assert Complete(3).stored_schedule() is None
        assert measure(Complete(3)).maker == build(Complete(3)).maker == "bfb"
