"""What makes co-design of large jobs fast: the short ways give what the long ones do."""

from __future__ import annotations

from dataclasses import fields, replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from codesign_samples import DENSE, MODEL, cluster, planner
from hypothesis import given, settings
from hypothesis import strategies as st

from ocs_codesign.graphs.text import parse
from ocs_codesign.workload.codesign.candidates import Joining, chosen, held, with_one
from ocs_codesign.workload.codesign.divisions import divisions
from ocs_codesign.workload.codesign.group_loads import group_costs, least_group_costs
from ocs_codesign.workload.codesign.memory import memory_bytes
from ocs_codesign.workload.codesign.optics import BestConceivable, JobPrices, PacketTree
from ocs_codesign.workload.codesign.placements import placements
from ocs_codesign.workload.fused import Accelerator
from ocs_codesign.workload.models.building import _Building, job_of
from ocs_codesign.workload.models.parallel import Parallel
from ocs_codesign.workload.models.transformer import Transformer

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
                assert prices.handed_s(stage, 999) == pytest.approx(tuple(map(float, exact)))
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
