"""Schedules in runtimes: messages, slots, rounds, and sums with the same bits everywhere."""

from __future__ import annotations

import importlib
import importlib.util
import json
import runpy
import sys
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from folders import ROOT
from runtime_samples import (
    CASES,
    KNOWN,
    bits,
    inputs_of,
    known_traffic,
    planned,
    threaded,
    uneven_inputs_of,
)

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.network import Network
from ocs_codesign.core.networks.builders import star
from ocs_codesign.core.plans import Book, Page
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.faces.cli import main
from ocs_codesign.graphs.text import parse
from ocs_codesign.interop.lowering.lowering import lower
from ocs_codesign.interop.runtimes.rounds import rounds_of
from ocs_codesign.interop.runtimes.shelf import shelves_of
from ocs_codesign.interop.runtimes.tables import tables_of
from ocs_codesign.interop.runtimes.traffic import traffic_of
from ocs_codesign.schedules.classic.registry import CLASSIC
from ocs_codesign.schedules.design import build
from ocs_codesign.schedules.files.books import save_book
from ocs_codesign.schedules.registry import Task, made_by


def rounds_of_steps(traffic):
    steps = [np.flatnonzero(traffic.step == step) for step in range(traffic.num_steps)]
    pairs = [
        list(zip(traffic.source[rows].tolist(), traffic.target[rows].tolist(), strict=True))
        for rows in steps
    ]
    return [rounds_of(each) for each in pairs]


@pytest.mark.parametrize("name", CASES)
def test_messages_slots_and_rounds(name):
    traffic, facts = known_traffic(name), CASES[name]["facts"]
    pairs = np.stack([traffic.source, traffic.target])
    counts = np.diff(traffic.start)
    used, at = np.unique(pairs, axis=1, return_inverse=True)
    assert traffic.num_steps == facts["steps"]
    assert [len(each) for each in rounds_of_steps(traffic)] == facts["rounds_per_step"]
    assert len(counts) == facts["messages"]
    assert counts.sum() == facts["chunks_moved"]
    assert used.shape[1] == facts["pairs_used"]
    assert np.bincount(at, counts).max() == facts["chunks_on_busiest_pair"]
    assert traffic.most_slots == facts["slots"]


@pytest.mark.parametrize("name", CASES)
def test_results_have_the_known_bits(name):
    case = CASES[name]
    root = case["plan"].get("root", 0)
    for run in case["runs"]:
        results = threaded(known_traffic(name), run["elements"], inputs_of(case, run))
        if case["plan"]["collective"] == "reduce":
            results = results[root : root + 1]
        wanted = run.get("sha256_16_of_all_ranks") or run["sha256_16_of_results"]
        assert bits(results) == wanted, run


@pytest.mark.parametrize("name", [name for name in CASES if "uneven" in CASES[name]])
def test_uneven_items(name):
    traffic = known_traffic(name)
    for run in CASES[name]["uneven"]:
        inputs = uneven_inputs_of(CASES[name], run)
        assert bits(threaded(traffic, run["items"], inputs)) == run["sha256_16_of_all_ranks"]


@pytest.mark.parametrize("name", CASES)
def test_a_program_says_what_its_plan_says(name):
    plan = planned(CASES[name]["plan"])
    try:
        again = traffic_of(lower(plan))
    except ValueError:  # a part of a sum that is sent twice is no schedule
        pytest.fail("a verified plan could not be lowered and raised")
    told = known_traffic(name)
    if plan.num_chunks == again.chunks_per_unit * plan.num_chunks // plan.chunks_per_unit:
        assert again.step.tolist() == told.step.tolist()
        assert again.source.tolist() == told.source.tolist()


@pytest.mark.parametrize("case", range(len(KNOWN["colouring"])))
def test_rounds_are_as_few_as_can_be(case):
    known = KNOWN["colouring"][case]
    pairs = [(source, target) for source, target, _ in known["pairs"]]
    rounds = rounds_of(pairs)
    assert len(rounds) == known["rounds_least"]
    assert sorted(pair for each in rounds for pair in each) == sorted(pairs)
    for each in rounds:
        sources, targets = zip(*each, strict=True)
        assert len(set(sources)) == len(set(targets)) == len(each)


@pytest.mark.parametrize("name", CASES)
def test_steps_by_the_same_permutations_send_at_most_three_times_as_much(name):
    traffic, facts = known_traffic(name), CASES[name]["facts"]
    alone, together = (tables_of(traffic, facts["rounds"] - less) for less in (0, 1))
    assert sum(each.num_steps for each in together) == len(alone) == facts["steps"]
    assert sum(len(each.pairs) for each in together) <= facts["rounds"]
    assert len(together) < len(alone)
    least, sent = (sum(each.num_sent for each in tables) for tables in (alone, together))
    assert facts["chunks_moved"] <= least <= sent <= 3 * least


DESIGNS = {
    "Torus((2, 3))": ("allreduce", (4, 12, 72, 180, 18)),
    "DirectedCirculant(12, (1, 7, 8, 10))": ("allreduce", (4, 16, 192, 1056, 48)),
    "Torus((4, 4))": ("allreduce", (8, 32, 512, 1920, 64)),
    "Complete(8)": ("allreduce", (2, 14, 112, 112, 8)),
    "Line(CompleteBipartite(4))": ("allgather", (3, 12, 384, 992, 32)),
}


@pytest.mark.parametrize("recipe", DESIGNS)
def test_facts_of_our_own_designs(recipe):
    collective, wanted = DESIGNS[recipe]
    traffic = traffic_of(build(parse(recipe), collective).schedule)
    rounds = sum(len(each) for each in rounds_of_steps(traffic))
    moved = (len(traffic.step), len(traffic.chunk), traffic.most_slots)
    assert (traffic.num_steps, rounds, *moved) == wanted


def test_messages_between_ranks_that_send_parts_of_sums_twice():
    """Swing of whole vectors rewrites what it has sent."""
    plan = CLASSIC["swing-full"].messages("allreduce", 8)
    data = [np.arange(11) * (rank + 1) for rank in range(8)]
    for result in threaded(traffic_of(plan), 11, data):
        assert result.tolist() == sum(data).tolist()


def test_refuses_sizes_that_do_not_fit():
    with pytest.raises(ValueError, match="or one for each of 7 pieces"):
        known_traffic("ring allgather 7").sizes([1, 2])
    with pytest.raises(ValueError, match="one vector"):
        known_traffic("ring allreduce 5").sizes([1] * 5)


def test_digests_tell_plans_apart():
    digests = {known_traffic(name).digest() for name in CASES}
    assert len(digests) == len(CASES)


def test_plans_on_a_shelf_are_verified_and_for_ranks_alone():
    ring = build(parse("Complete(4)"), "allgather").schedule
    spoiled = Schedule(
        *(ring.topology, ring.collective, ring.num_chunks, ring.item, ring.lo, ring.hi),
        *(np.roll(ring.link, 1), ring.step),
    )
    unequal = Collective("allgather", sizes=(1, 2, 1, 1))
    grouped = made_by("forest", Task(parse("Complete(4)").topology(), unequal)).schedule
    over = made_by(
        "forest", Task(star(3, 1).topology(), Collective("allgather"), network=star(3, 1))
    ).schedule
    refused = {
        "only verified plans are run": spoiled,
        "has groups or sizes of its own": grouped,
        "over switches that ranks do not see": over,
        "is no book, design or plan": 7,
        "circuits of this design change": SimpleNamespace(circuits=1, schedule=ring),
    }
    for rule, plan in refused.items():
        with pytest.raises(ValueError, match=rule):
            shelves_of([plan])


def test_pages_are_chosen_by_size(tmp_path):
    plans = [CLASSIC[name].messages("allreduce", 4) for name in ("swing-full", "ring")]
    network = parse("Complete(4)").topology()
    book = Book(
        Network(4, 4, network.tail, network.head, network.speeds()),
        Fraction(1),
        Collective("allreduce"),
        (Page(0, "swing-full", plans[0]), Page(65536, "ring", plans[1])),
    )
    save_book(book, tmp_path / "book")
    shelf = shelves_of([tmp_path / "book", build(parse("Complete(8)"), "allgather")])[4]
    assert shelf.page("allreduce", 65535).traffic.num_steps == 2
    assert shelf.page("allreduce", 65536).text == "allreduce (page 64 KiB)"
    assert shelf.page("allgather", 9) is None
    assert shelf.digest() != shelves_of(plans[:1])[4].digest()


def test_books_name_what_runs_their_pages(tmp_path, capsys):
    network = star(4, 1)
    over = made_by("forest", Task(network.topology(), Collective.ALLGATHER, network=network))
    ring = CLASSIC["ring"].messages("allgather", 4)
    bruck = CLASSIC["bruck"].messages("allgather", 4)
    pages = (Page(0, "bruck", bruck), Page(999, "ring", ring), Page(2**20, "f", over.schedule))
    save_book(Book(network, Fraction(1), Collective.ALLGATHER, pages), tmp_path / "book")
    assert main(["verify", str(tmp_path / "book"), "--json", "-"]) == 0
    answer = json.loads(capsys.readouterr().out)
    ranks = ["mpi", "torch", "jax"]
    assert [each["runs_on"] for each in answer["pages"]] == [ranks, [*ranks, "nccl"], ["mpi"]]
    assert main(["verify", str(tmp_path / "book")]) == 0
    assert "mpi, torch, jax, nccl  ring" in capsys.readouterr().out


@pytest.mark.parametrize("library", ["jax", "torch"])
def test_without_a_library_it_says_what_to_install(library, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.delitem(sys.modules, f"ocs_codesign.{library}", raising=False)
    with pytest.raises(ImportError, match=rf"pip install 'ocs-codesign\[{library}\]'"):
        importlib.import_module(f"ocs_codesign.{library}")


def test_without_torch_the_launcher_says_it_in_a_sentence(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "ocs_codesign/torch.py"), run_name="__main__")
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("Error: torch is missing: pip install")
