"""Co-design: what is searched, that bounds hold, and that times are those of the other commands."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest
from codesign_samples import DENSE, MODEL, cluster, planner

from ocs_codesign.circuits.legs.options import recipe_options
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import CostModel
from ocs_codesign.fabric.deployments.deploy import NamedRecipe, deploy
from ocs_codesign.fabric.selection.ranking import select
from ocs_codesign.fabric.selection.steps import Workload
from ocs_codesign.faces.answers.codesign import CodesignAnswer, codesign_sections, picture_rows
from ocs_codesign.graphs.text import parse
from ocs_codesign.jobs.cluster_design.candidates import (
    CODESIGNED,
    Joining,
    across,
    changing,
    chosen,
    held,
    with_one,
)
from ocs_codesign.jobs.cluster_design.cluster import (
    TrainedModel,
    divisions,
    memory_bytes,
    rail_designs,
)
from ocs_codesign.jobs.cluster_design.exploring import DesignBook, explored
from ocs_codesign.jobs.cluster_design.group_loads import group_costs, placements, sizes_of
from ocs_codesign.jobs.cluster_design.optics import (
    BestConceivable,
    JobPrices,
    OwnCircuits,
    least_cost,
)
from ocs_codesign.jobs.cluster_design.outcomes import LATE, late_of, passes_of, resimulated
from ocs_codesign.jobs.cluster_design.planning import codesign, in_buckets, with_usual
from ocs_codesign.jobs.files.budget_files import handovers, rail_fabric
from ocs_codesign.jobs.issue import run
from ocs_codesign.jobs.job_draft import JobDraft
from ocs_codesign.jobs.models.building import Parallel
from ocs_codesign.jobs.models.layer import Recommender, ResidualNetwork, Transformer
from ocs_codesign.jobs.prices import Level, Machine, priced

GPT3 = Transformer(96, 12288, 96, 49152, 50257, 2048, 1536)
DLRM = Recommender(8, 10_000, 16, 1, (13, 16), (52, 32, 1), 64)


def every_candidate(used, divided):
    """All candidates with their designs, nothing left out by a bound."""
    for parallel in divided:
        traffic = used.traffic(parallel)
        for placement in placements(parallel, used.cluster.accelerators_a_server):
            if placement.num_servers > used.cluster.num_servers:
                continue
            ideal = [*held(parallel, placement, used.cluster)]
            ideal += across(parallel, placement, used.cluster)
            ideal += changing(traffic, placement, used.cluster)
            made = [chosen(one, traffic, used.cluster, used.book) for one in ideal]
            if len(placement.optical) > 1:
                made += with_one(Joining.ONE, traffic, placement, used.cluster, used.book)
            yield from (one for one in made if one is not None)


@pytest.mark.parametrize(
    ("model", "on"),
    [
        (DENSE, cluster(3, 2)),
        (MODEL, cluster(4, 1, ports=3)),
        (DLRM, cluster(4, 2)),
        (ResidualNetwork((1, 1), 32, 10, 16), cluster(2, 2)),
    ],
    ids=["prime servers", "experts", "recommender", "convolutions"],
)
def test_bounds_hold_and_nothing_better_is_left_out(model, on):
    used = planner(model, on)
    divided = [one for one in divisions(used.trained, on).fitting if one.microbatches <= 2]
    everything = [used.simulated(one, used.bound_s(one)) for one in every_candidate(used, divided)]
    outcomes = [one for one in everything if one is not None]
    assert len(outcomes) > 3
    for one in outcomes:
        assert one.bound_s <= float(one.period_s)
        parallel, placement = one.candidate.parallel, one.candidate.placement
        least = JobPrices(on, parallel, placement, BestConceivable(on))
        if one.candidate.joining is not Joining.CHANGING:
            assert used.traffic(parallel).bound_s(least) <= one.bound_s * (1 + 1e-9)
        assert used.traffic(parallel).compute_bound_s() <= float(one.period_s) * (1 + 1e-9)
        spent = one.compute_s + sum(one.exposed_s.values()) + one.idle_s + one.dark_s
        assert float(spent) == pytest.approx(float(one.period_s), rel=2e-2)
    found = explored(used, divided)
    assert found.outcomes[0].period_s == min(one.period_s for one in outcomes)
    assert len(found.outcomes) <= len(outcomes)
    assert len(found.outcomes) < len(outcomes) or len(outcomes) < 10
    assert found.unseen == 0


def test_a_limit_of_simulations_says_what_it_left_out():
    used = planner()
    divided = divisions(used.trained, used.cluster).fitting
    found = explored(used, divided, CODESIGNED, 2)
    assert len(found.outcomes) == 2
    assert found.unseen > 0
    assert found.unseen_bound_s < float(found.outcomes[0].period_s)


@pytest.mark.parametrize("policy", ["fifo", "p3"])
def test_the_winner_simulated_rank_by_rank_takes_as_long(policy):
    trained = TrainedModel("sample", MODEL)
    plan = codesign(trained, cluster(), (policy,))
    used = planner()
    held_ones = [one for one in plan.ranked if not one.candidate.late_ports][:3]
    for one in held_ones:
        for alone in (False, True):
            graph, period_s = resimulated(used, one, ranks_alone=alone)
            assert period_s == one.period_s
            ranks = one.candidate.parallel.num_ranks
            assert graph.num_owners == (ranks if alone else one.candidate.parallel.pipeline)


@pytest.mark.parametrize("text", ["UniRing(1, 5)", "Line(Complete(3))", "Torus((3, 4))"])
def test_a_collective_takes_what_select_says(text):
    """Forests included, for messages where they are faster and where they are not."""
    recipe = parse(text)
    hosts, ports = recipe.num_nodes, recipe.degree
    on = replace(cluster(hosts, 1, ports))
    parallel = Parallel(data=hosts)
    (placement,) = placements(parallel, 1)
    kinds = (Collective.ALLREDUCE, Collective.ALLGATHER, Collective.ALLTOALL)
    (option,) = recipe_options([recipe], kinds)
    fabric = rail_fabric(on, hosts, ports)
    packed = set()
    for size, kind in product((10**3, 10**8), kinds):
        known = DesignBook().packed(option, on.ports_model(ports), size)
        packed.add(bool(known.contenders))
        own = OwnCircuits(on, {"replica": ports}, {"replica": known})
        told = JobPrices(on, parallel, placement, own).group_s(kind.name, "data", size)
        (best,) = select(fabric, Workload.of([kind], size), [option]).ranked
        assert sum(told) == best.alpha_s + best.bandwidth_s
    assert True in packed or text != "Line(Complete(3))"


def test_designs_are_those_of_select_and_plan():
    from ocs_codesign.fabric.selection.steps import known_options

    options, _ = known_options(rail_fabric(cluster(8, 1, 2), 8, 2), [Collective.ALLGATHER])
    mine = DesignBook().options(8, 2, exchanges=False)
    assert [one.name for one in mine] == [one.name for one in options]


@pytest.mark.parametrize(("nodes", "ports"), [(2, 3), (5, 2), (8, 2), (9, 4)])
def test_no_design_is_below_what_is_conceivable(nodes, ports):
    for option in DesignBook().options(nodes, ports, exchanges=True):
        for kind in (Collective.ALLGATHER, Collective.ALLREDUCE, Collective.ALLTOALL):
            least, cost = least_cost(kind.name, nodes, ports), option.cost(kind)
            assert least.steps <= cost.steps
            assert least.t_b <= cost.t_b


def test_a_group_beyond_a_server_works_in_levels():
    """Eight copies, two a server: by hand, with circuits of the replicas alone."""
    on, parallel = cluster(4, 2), Parallel(data=8)
    (placement,) = placements(parallel, 2)
    assert placement.text() == "replica 2 in a server x 4 over servers"
    (option,) = recipe_options([parse("UniRing(2, 4)")], [Collective.ALLGATHER])
    prices = JobPrices(
        on, parallel, placement, OwnCircuits(on, {"replica": 2}, {"replica": option})
    )
    latency, work = prices.group_s("allreduce", "data", 8_000_000)
    inside, outside = Fraction(20 * 10**9), Fraction(20 * 10**9, 8)
    assert latency == 2 * Fraction(1, 10**6) + 6 * Fraction(5, 10**6)
    assert work == 8_000_000 / inside + Fraction(3, 2) * 4_000_000 / outside


def test_groups_side_by_side_on_one_topology():
    torus = parse("Torus((4, 4))").topology()
    row, column = group_costs(torus, 4, 1), group_costs(torus, 4, 4)
    assert row == column
    # Two of four ports lead along a row: both ways round, 3/4 of M over half of the bandwidth.
    assert min(cost.t_b for cost in row.gathers) == Fraction(3, 2)
    assert row.hand_on.t_b == 4
    whole = group_costs(parse("Complete(5)").topology(), 5, 1)
    assert whole.exchange.t_b == Fraction(4, 5)
    assert whole.exchange.steps == 1
    with pytest.raises(ValueError, match="groups of 3, 1 apart, do not divide 16"):
        group_costs(torus, 3, 1)


def test_placements_never_cut_a_server_unevenly():
    for parallel, each in (
        (Parallel(data=24, tensor=4, pipeline=3, expert=6), 8),
        (Parallel(data=251), 8),
        (Parallel(data=502, tensor=2), 4),
    ):
        for placement in placements(parallel, each):
            sizes = {span.dimension: span.inside * span.outside for span in placement.spans}
            assert sizes == {name: size for name, size in sizes_of(parallel).items() if size > 1}
            inside = 1
            for span in placement.spans:
                inside *= span.inside
            assert placement.num_servers * inside == parallel.num_ranks
            assert inside == each
    assert not list(placements(Parallel(data=251), 8))
    assert len(list(placements(Parallel(data=4, tensor=2), 8))) == 1


def test_memory_by_hand():
    parameters = GPT3.num_parameters + GPT3.vocabulary * GPT3.hidden * 0
    whole = memory_bytes(GPT3, Parallel(data=1536))
    tokens, layer = 2048, 96
    activations = layer * tokens * (15 * 12288 + 3 * 12288 + 4 * 49152)
    assert whole == 16 * parameters + activations + 4 * tokens * GPT3.vocabulary
    # Korthikanti et al.: 34 s b h bytes a layer without the scores of attention.
    assert activations == layer * 34 * tokens * 12288
    first = memory_bytes(GPT3, Parallel(data=1536, zero=1))
    assert whole - first == pytest.approx(12 * parameters * 1535 / 1536, rel=1e-6)
    third = memory_bytes(GPT3, Parallel(data=1536, zero=3))
    assert third < first / 3
    eight = Parallel(data=192, tensor=8, sequence=True, microbatches=8)
    assert memory_bytes(GPT3, eight) == pytest.approx(whole / 8, rel=0.05)
    held = Parallel(data=1, pipeline=96, microbatches=96)
    assert memory_bytes(GPT3, held) > 96 * 34 * 2048 * 16 * 12288
    assert memory_bytes(DLRM, Parallel(data=8)) < memory_bytes(DLRM, Parallel(data=4))


def test_circuits_that_change_by_hand():
    """Passes without gradients, two dead times, and the gradients of the busiest stage."""
    used = planner(replace(DENSE, layers=4, batch=8), cluster(4, 1, delta=Fraction(3, 1000)))
    parallel = Parallel(data=2, pipeline=2, microbatches=2, zero=1)
    traffic = used.traffic(parallel)
    (placement, *_) = placements(parallel, 1)
    (ideal,) = changing(traffic, placement, used.cluster)
    assert (ideal.ports, ideal.late_ports) == ({"pipeline": 2}, {"replica": 2})
    candidate = chosen(ideal, traffic, used.cluster, used.book)
    outcome = used.simulated(candidate, used.bound_s(candidate))
    graph = used.graph(parallel)
    passes = run(passes_of(candidate, graph, used.cluster)).total_s
    late = late_of(candidate, graph, used.cluster)
    assert outcome.period_s == passes + late + Fraction(6, 1000)
    assert outcome.dark_s == Fraction(6, 1000)
    rate = 2 * used.cluster.port_Bps
    largest = max(
        sum(size * count for (_, _, size), count in stage.gradients.items())
        for stage in traffic.parts
    )
    assert late > largest / 2 / rate
    assert [design.recipe for design in rail_designs(candidate)] == [
        parse("UniRing(2, 2)"),
        parse("UniRing(2, 2)"),
    ]


def test_circuits_of_groups_are_a_product_in_the_order_of_servers():
    used = planner(MODEL, cluster(8, 1, ports=4))
    parallel = Parallel(data=4, pipeline=2, expert=2, zero=1, microbatches=2)
    traffic = used.traffic(parallel)
    for placement in placements(parallel, 1):
        for ideal in held(parallel, placement, used.cluster):
            assert sum(ideal.ports.values()) == 4
            candidate = chosen(ideal, traffic, used.cluster, used.book)
            (design,) = rail_designs(candidate)
            assert (design.recipe.num_nodes, design.recipe.degree) == (8, 4)
            graph = design.recipe.topology()
            # Every circuit joins servers that differ along one span only.
            for span in placement.optical:
                apart = (graph.head - graph.tail) % (span.stride * span.outside)
                along = (graph.tail // (span.stride * span.outside)) == (
                    graph.head // (span.stride * span.outside)
                )
                along &= graph.tail % span.stride == graph.head % span.stride
                along &= apart > 0
                assert along.sum() == 8 * ideal.ports[span.dimension]
            (handed,) = handovers(candidate, traffic, used.cluster)
            assert handed.fabric.num_ports_per_host == 4
    wanted = [NamedRecipe(handed.name, handed.recipe)]
    deployment = deploy(handed.fabric, wanted, handed.collectives)
    assert "Product" in repr(handed.recipe)
    assert len(deployment.configurations) == 1


def test_ddp_merges_to_buckets_and_says_if_it_does_not_fit():
    used = planner(replace(MODEL, experts=1, hidden=1024, feed_forward=4096))
    parallel = Parallel(data=8)
    (placement,) = placements(parallel, 2)
    (ideal,) = held(parallel, placement, used.cluster)
    candidate = chosen(ideal, used.traffic(parallel), used.cluster, used.book)
    outcome = in_buckets(used, candidate)
    alone = used.simulated(candidate, 0.0)
    assert outcome.setting == "buckets of 25 MiB"
    assert outcome.period_s != alone.period_s
    plan = codesign(used.trained, cluster(memory=3 * 10**8), ("fifo",))
    (ddp,) = [one for one in plan.baselines if one.name == "DDP"]
    assert ddp.note.startswith("does not fit: 8 copies need ")
    assert [one.name for one in plan.baselines] == ["torus", "ring", "fat tree", "DDP"]


def test_faster_parts_and_dead_times_that_would_pay():
    slow = replace(MODEL, layers=2, batch=16)
    plan = codesign(TrainedModel("sample", slow), cluster(4, 2), ("fifo",))
    best_s = plan.best.period_s
    assert set(plan.if_changed) == {"ports", "servers inside", "accelerators"}
    assert all(0 < seconds <= best_s for seconds in plan.if_changed.values())
    if plan.break_even_s is not None:
        assert 0 < plan.break_even_s < plan.cluster.delta_s


@pytest.mark.parametrize("ports", [1, 2])
def test_a_torus_and_a_ring_join_servers(ports):
    """A division that stays inside a server is no torus, and does not end the search for one."""
    slow = replace(cluster(4, ports), port_Bps=Fraction(10**6))
    plan = codesign(TrainedModel("sample", replace(MODEL, batch=4)), slow, ("fifo",))
    assert not plan.best.candidate.placement.optical
    for one in plan.baselines[:3]:
        if one.outcome is None:
            assert (one.name, ports) == ("torus", 1)
            assert one.note == f"no division has servers that make a {one.name} of these ports"
        else:
            assert one.outcome.candidate.placement.optical
            assert one.outcome.period_s >= plan.best.period_s


def test_torus_and_ring_join_a_ranking_that_ended_too_early():
    plan = codesign(TrainedModel("sample", MODEL), cluster(), ("fifo",))
    usual = {one.name: one.outcome for one in plan.baselines if one.outcome is not None}
    slowest = replace(plan.ranked[-1], period_s=10 * max(one.period_s for one in usual.values()))
    joined = with_usual([slowest], plan.baselines)
    circuits = [usual[name] for name in ("torus", "ring") if name in usual]
    assert circuits
    assert set(map(id, joined)) == {id(slowest), *map(id, circuits)}
    assert joined[0].period_s == min(one.period_s for one in circuits)
    assert with_usual(list(plan.ranked), plan.baselines) == list(plan.ranked)


def test_what_fits_nowhere_is_said():
    with pytest.raises(ValueError, match="sample does not fit sample: of its divisions"):
        codesign(TrainedModel("sample", MODEL), cluster(memory=10**5), ("fifo",))


SMALL = ResidualNetwork((1,), 16, 10, 8)


def shown(plan):
    return "\n".join(map(str, codesign_sections(CodesignAnswer(plan, (), "built"), 9)))


@pytest.mark.parametrize(
    "policies", [("fifo",), ("ddp", "p3"), ("priority", "ddp"), ("preemptive",)]
)
def test_only_policies_that_were_asked_for_are_simulated(policies):
    plan = codesign(TrainedModel("s", SMALL, Parallel(data=4)), cluster(2, 2), policies)
    *usual, ddp, own = plan.baselines
    outcomes = [*plan.ranked, *(one.outcome for one in (*usual, own) if one.outcome)]
    assert {one.policy for one in outcomes} <= {*policies, LATE}
    assert ddp.outcome.policy == "ddp"
    assert plan.best.is_tuned


def test_a_baseline_that_fails_is_a_row_with_its_reason():
    plan = codesign(TrainedModel("s", SMALL, Parallel(data=3)), cluster(2, 2), ("fifo",))
    own = plan.baselines[-1]
    assert own.outcome is None
    assert own.note.startswith("batch is 8")
    assert own.note in shown(plan)


def test_idle_accelerators_are_explained_and_what_does_not_fit_is_not_drawn():
    plan = codesign(TrainedModel("s", SMALL), cluster(3, 1, memory=10**7), ("fifo",))
    assert "of 3 accelerators are idle: " in shown(plan)
    tight = min(memory_bytes(SMALL, one) for one in plan.divisions.fitting)
    plan = codesign(TrainedModel("s", SMALL), cluster(2, 1, memory=tight), ("fifo",))
    assert not plan.baselines[-1].fits
    assert "DDP, does not fit" in shown(plan)
    assert "DDP" not in dict(picture_rows(plan, 5))


@pytest.mark.parametrize("num_messages", [1, 1000])
def test_ticks_are_of_what_a_job_takes_in_all(num_messages):
    """Of many kinds and nodes only those that are there count: else 2^56 ticks are soon past."""
    machine = Machine((Level(2, CostModel(0, 3)),))
    draft = JobDraft(2)
    for number in range(num_messages):
        draft.collective("allreduce", (0, 1), 100 + number, {})
    job = priced(draft.graph(), machine)
    wanted = sum(Fraction(100 + number, 3) for number in range(num_messages))
    assert int(job.work.sum()) * job.tick_s == 2 * wanted
