"""What makes co-design of large jobs fast: the short ways give what the long ones do."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from codesign_samples import DENSE, JOB, MODEL, cluster, planner
from hypothesis import given, settings
from hypothesis import strategies as st

from ocs_codesign.graphs.text import parse
from ocs_codesign.jobs.cluster_design.candidates import Joining, changing, chosen, held, with_one
from ocs_codesign.jobs.cluster_design.cluster import (
    PortPrices,
    SearchSpace,
    TrainedModel,
    cheapest_fat_tree,
    divisions,
    fat_tree_of,
    memory_bytes,
)
from ocs_codesign.jobs.cluster_design.group_loads import group_costs, least_group_costs, placements
from ocs_codesign.jobs.cluster_design.optics import BestConceivable, JobPrices, PacketTree
from ocs_codesign.jobs.files.job_files import parse_training
from ocs_codesign.jobs.fused import Accelerator
from ocs_codesign.jobs.models.building import SCHEDULES, Parallel, _Building, job_of, most_held
from ocs_codesign.jobs.models.layer import Transformer

TOPOLOGIES = ("Torus((4, 6))", "UniRing(2, 6)", "BiRing(2, 7)", "Complete(6)", "Kautz(2, 2)")


@given(
    operations=st.floats(0, 1e18),
    moved=st.floats(0, 1e12),
    peak=st.sampled_from([1.0, 3e9, 312e12, 989.5e12]),
)
@settings(max_examples=60, deadline=None)
def test_nanoseconds_are_the_exact_seconds_rounded(operations, moved, peak):
    chip = Accelerator(peak, 2e12)
    assert chip.nanoseconds(operations, moved) == round(chip.seconds(operations, moved) * 10**9)


@pytest.mark.parametrize("halves", [1, 3, 2**40 + 1, 10**15 + 1])
def test_ties_of_nanoseconds_are_decided_exactly(halves):
    chip = Accelerator(2e9, 1e9)
    assert chip.nanoseconds(halves, 0) == round(Fraction(halves, 2))


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "interleaved", "breadth-first"])
@pytest.mark.parametrize("zero", [0, 1, 3])
def test_passes_that_are_repeated_are_those_that_are_built(schedule, zero, monkeypatch):
    chunks = 2 if schedule in ("interleaved", "breadth-first") else 1
    model = Transformer(8, 64, 4, 256, 100, 16, 24, experts=2)
    divided = Parallel(4, 2, 2, 2, zero, sequence=True, schedule=schedule, microbatches=6)
    divided = replace(divided, chunks=chunks)
    chip = Accelerator(1e12, 1e11)
    repeated = job_of(model.on_ranks(divided), divided, chip)
    monkeypatch.setattr(_Building, "_add_or_repeat", _Building._add_pass)
    built = job_of(model.on_ranks(divided), divided, chip)
    for column in fields(built):
        one, other = getattr(repeated, column.name), getattr(built, column.name)
        assert np.array_equal(one, other), column.name


@pytest.mark.parametrize("model", [MODEL, DENSE], ids=["experts", "dense"])
@pytest.mark.parametrize(("servers", "each"), [(4, 2), (3, 1)])
def test_prices_of_bounds_are_the_exact_ones(model, servers, each):
    used = planner(model, cluster(servers, each))
    on, rates = used.cluster, {}
    compared = 0
    for parallel in divisions(used.trained, on).fitting[::3]:
        traffic = used.traffic(parallel)
        for placement in placements(parallel, each):
            if placement.num_servers > servers:
                continue
            ideal = [*held(parallel, placement, on)]
            made = [chosen(one, traffic, on, used.book) for one in ideal]
            made += with_one(Joining.ONE, traffic, placement, on, used.book)
            outsides = BestConceivable(on), PacketTree(on, on.fat_tree_share)
            priced = [JobPrices(on, parallel, placement, one, rates) for one in outsides]
            priced += [one.prices(on, rates) for one in (*ideal, *made) if one is not None]
            width = parallel.ranks_of_stage
            for prices, (kind, group, size) in product(priced, traffic.asked()):
                exact = prices.group_s(kind, group, size)
                assert prices.asked_s(kind, group, size) == pytest.approx(tuple(map(float, exact)))
                compared += 1
            for prices, stage in product(priced, range(parallel.pipeline - 1)):
                exact = prices.parts_s(1, 2, 999, stage * width, (stage + 1) * width)
                assert prices.handed_s(stage, stage + 1, 999) == pytest.approx(
                    tuple(map(float, exact))
                )
    assert compared > 50


def _groups(num_nodes):
    return [
        (size, stride)
        for size, stride in product(range(2, num_nodes + 1), range(1, num_nodes))
        if num_nodes % (size * stride) == 0
    ]


@pytest.mark.parametrize("text", TOPOLOGIES)
def test_loads_of_groups_are_those_of_all_shortest_paths(text):
    """Every pair's shortest paths listed one by one, on graphs with parallel links as well."""
    topology = parse(text).topology()
    for size, stride in _groups(topology.num_nodes):
        place = np.arange(topology.num_nodes) // stride % size
        loads = {kind: np.zeros(topology.num_links) for kind in ("all", "next", "last")}
        for source in range(topology.num_nodes):
            for step in range(1, size):
                target = source + int((place[source] + step) % size - place[source]) * stride
                paths = _shortest(topology, source, target)
                for kind, counts in (
                    ("all", True), ("next", step == 1), ("last", step == size - 1)
                ):  # fmt: skip
                    for path in paths if counts else ():
                        loads[kind][path] += 1 / len(paths)
        found, degree = group_costs(topology, size, stride), topology.degree
        assert float(found.exchange.t_b) == pytest.approx(loads["all"].max() * degree / size)
        most = max(loads["next"].max(), loads["last"].max())
        assert float(found.hand_on.t_b) == pytest.approx(most * degree)
        least = least_group_costs(topology, size, stride)
        mean = loads["all"].mean() * degree / size
        assert float(least.exchange.t_b) == pytest.approx(mean)
        for one, other in zip(
            (*least.gathers, least.exchange, least.hand_on),
            (*found.gathers, found.exchange, found.hand_on),
            strict=True,
        ):
            assert one.steps == other.steps
            assert one.t_b <= other.t_b


def _shortest(topology, source, target):
    """All shortest paths as lists of links."""
    hops = topology.distances()[:, target]
    found = [(source, [])]
    while found[0][0] != target:
        found = [
            (int(topology.head[link]), [*path, link])
            for node, path in found
            for link in np.flatnonzero(topology.tail == node).tolist()
            if hops[topology.head[link]] == hops[node] - 1
        ]
    return [path for _, path in found]


def test_many_shortest_paths_do_not_overflow():
    """Two links a hop make 2^600 paths half round a ring: all loads are alike."""
    ring = parse("BiRing(4, 1200)").topology()
    hops = 2 * sum(range(1, 600)) + 600
    assert group_costs(ring, 1200, 1).exchange.t_b == pytest.approx(Fraction(hops, 1200))


@pytest.mark.parametrize("zero", [0, 1, 3])
def test_the_stage_that_holds_the_most_is_found_without_all_of_them(zero):
    model = Transformer(12, 64, 4, 256, 5000, 16, 24, experts=4)
    for pipeline, microbatches, expert in product((1, 2, 3, 6, 12), (1, 2, 6), (1, 2)):
        divided = Parallel(
            2, 2, pipeline, expert, zero, sequence=True, microbatches=microbatches
        )  # fmt: skip
        layers = model.on_ranks(divided).layers
        tokens = 24 * 16 // (2 * microbatches)
        activations = tokens * (15 * 64 + 3 * 64 + 4 * 256) // 2
        each, most = 12 // pipeline, 0
        for stage in range(pipeline):
            blocks = [one for part in layers[stage * each : (stage + 1) * each] for one in part]
            needs = min(microbatches, pipeline - stage) * each * activations
            for block in blocks:
                copies = divided.size(block.copies)
                for least, size in ((3, 2), (2, 2), (1, 12)):
                    share = copies if zero >= least else 1
                    needs += -(-block.num_parameters * size // share)
            if zero == 3:
                needs += 2 * 2 * max(block.num_parameters for block in blocks)
            needs += 4 * tokens * 5000 // 2 * (stage == pipeline - 1)
            most = max(most, needs)
        assert memory_bytes(model, divided) == most


def test_what_a_stage_holds_is_what_its_passes_say():
    for schedule, stages, microbatches, chunks in product(SCHEDULES, (1, 2, 4), (1, 4, 8), (1, 2)):
        several = schedule in ("interleaved", "breadth-first")
        if (chunks > 1) > several or (schedule == "interleaved" and microbatches % stages):
            continue
        order = stages, microbatches, chunks
        for stage in range(stages):
            held, most = 0, 0
            for each in SCHEDULES[schedule](stage, *order):
                held += 1 if each.is_forward else -1
                most = max(most, held)
            assert most_held(schedule, stage, *order) == most


def test_chunks_and_zero_that_a_file_asks_for_are_searched():
    job = JOB.replace("layers: 2", "layers: 4") + "search: {zero: [1, 2], chunks: [1, 2]}\n"
    trained = parse_training(job.encode(), "job.yaml")
    fitting = divisions(trained, cluster()).fitting
    assert {one.zero for one in fitting} <= {0, 1}  # ZeRO 2 sends the same and is not needed
    several = [one for one in fitting if one.chunks > 1]
    assert several
    for one in several:
        assert one.schedule == "interleaved"
        assert one.pipeline > 1
        assert not one.microbatches % one.pipeline
        assert replace(one, chunks=1, schedule="1f1b") in fitting
    wrong = b"search: {zero: [4]}\n"
    with pytest.raises(ValueError, match=r"job.yaml, line 13: search.zero\[0\] is 4"):
        parse_training(JOB.encode() + wrong, "job.yaml")


def test_zero_2_where_zero_1_does_not_fit():
    trained = TrainedModel("sample", MODEL, search=SearchSpace((1, 2)))
    needs = [memory_bytes(MODEL, Parallel(8, zero=zero)) for zero in (1, 2)]
    assert needs[1] < needs[0]
    fitting = divisions(trained, cluster(memory=needs[1])).fitting
    assert Parallel(8, zero=2) in fitting
    assert Parallel(8, zero=1) not in fitting
    two = replace(MODEL, batch=16)
    kept = [memory_bytes(two, Parallel(8, zero=zero, microbatches=2)) for zero in (1, 2)]
    assert kept[0] == kept[1]  # gradients are summed whole over microbatches


def test_bounds_hold_for_interleaved_pipelines():
    model = replace(DENSE, layers=8, batch=8)
    used = planner(model, cluster(4, 2))
    used.trained = replace(used.trained, search=SearchSpace((1,), (1, 2, 4)))
    compared = Counter()
    for parallel in divisions(used.trained, used.cluster).fitting:
        if parallel.pipeline == 1 or parallel.microbatches > 4:
            continue
        traffic = used.traffic(parallel)
        for placement, least_s in used.placed(parallel)[:2]:
            for ideal in (
                *held(parallel, placement, used.cluster),
                *changing(traffic, placement, used.cluster),
            ):
                candidate = chosen(ideal, traffic, used.cluster, used.book)
                outcome = used.simulated(candidate, used.bound_s(candidate))
                if outcome is None:
                    continue
                assert outcome.bound_s <= float(outcome.period_s)
                if not candidate.late_ports:
                    assert least_s <= outcome.bound_s * (1 + 1e-9)
                assert traffic.compute_bound_s() <= float(outcome.period_s) * (1 + 1e-9)
                compared[parallel.chunks] += 1
    assert set(compared) == {1, 2, 4}


def test_interleaving_pays_where_the_bubble_is_most_of_the_time():
    model = replace(DENSE, layers=8, batch=4, hidden=1024, feed_forward=4096)
    on = cluster(4, 1, ports=4)
    one = planner(model, on)
    divided = Parallel(pipeline=4, microbatches=4)
    bounds, periods = [], []
    for parallel in (divided, replace(divided, schedule="interleaved", chunks=2)):
        traffic = one.traffic(parallel)
        (placement,) = placements(parallel, 1)
        (ideal,) = held(parallel, placement, on)
        candidate = chosen(ideal, traffic, on, one.book)
        bounds.append(traffic.compute_bound_s())
        periods.append(one.simulated(candidate, 0.0).period_s)
    # All stages compute as long but for the head: a bubble of 3 of 4 microbatches is halved.
    assert bounds[1] < bounds[0]
    assert periods[1] < periods[0]


@pytest.mark.parametrize(
    "num_ends", [1, 64, 65, 100, 1000, 1024, 2048, 2049, 4096, 30_000, 65_536, 65_537]
)
def test_fat_trees_are_of_whole_switches_and_do_not_block(num_ends):
    tree = fat_tree_of(num_ends)
    assert num_ends + 2 * tree.links <= 64 * tree.switches
    assert tree.links >= (tree.tiers - 1) * num_ends
    assert 2 * 32**tree.tiers >= num_ends > (2 * 32 ** (tree.tiers - 1) if tree.tiers > 1 else 0)


def test_a_rival_has_planes_copper_and_whole_switches():
    """1,024 accelerators of four ports: 192 switches in planes of two tiers, not 320 in three."""
    prices = PortPrices(*map(Fraction, (520, 99, 659, 187, 130)))
    each, tree = cheapest_fat_tree(prices, 1024, 4)
    assert (tree.tiers, tree.planes * tree.switches) == (2, 192)
    assert 4096 * (each - 659 - 130) == 192 * 64 * 187 + 2 * tree.planes * tree.links * 99
    assert fat_tree_of(4096).switches == 320
    least, alone = cheapest_fat_tree(prices, 16, 4)  # one switch has room for the ports of all
    assert (alone.planes, alone.switches, least) == (1, 1, 659 + 130 + 187)
    assert prices.optical(4096, 384) == 659 + 99 + Fraction(520 * 11 * 384, 4096)
