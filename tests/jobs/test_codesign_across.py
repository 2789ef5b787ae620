"""Circuits across rails: their bytes counted one by one, when they win, and what is deployed."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from codesign_samples import DENSE, cluster, planner

from ocs_codesign.circuits.legs.options import recipe_options
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import CostModel
from ocs_codesign.fabric.deployments.deploy import NamedRecipe, deploy
from ocs_codesign.faces.answers.codesign import (
    CodesignAnswer,
    circuits_of_exchange,
    circuits_text,
    codesign_sections,
    explanation,
)
from ocs_codesign.graphs.text import parse
from ocs_codesign.jobs.cluster_design.candidates import Joining, across, chosen, held
from ocs_codesign.jobs.cluster_design.cluster import TrainedModel
from ocs_codesign.jobs.cluster_design.exploring import DesignBook
from ocs_codesign.jobs.cluster_design.group_loads import placements
from ocs_codesign.jobs.cluster_design.optics import AcrossRails, JobPrices, OwnCircuits
from ocs_codesign.jobs.cluster_design.planning import codesign
from ocs_codesign.jobs.files.budget_files import handovers
from ocs_codesign.jobs.models.building import Parallel
from ocs_codesign.jobs.models.layer import Recommender

KINDS = (Collective.ALLGATHER, Collective.ALLREDUCE, Collective.ALLTOALL)
RECOMMENDER = Recommender(8, 10_000, 64, 4, (13, 64), (100, 32, 1), 4096)


def exchanged(topology, each, num_ports):
    """Most pieces that an accelerator moves inside, and that a port carries, in an all-to-all.

    One piece for every pair of accelerators, on the circuits of shortest paths in turn: inside to
    the accelerator of the circuit, over it, and inside to where it goes on.
    """
    servers = topology.num_nodes
    leaving = [np.flatnonzero(topology.tail == one).tolist() for one in range(servers)]
    owner = {}
    for links in leaving:
        owner |= {link: at // num_ports for at, link in enumerate(links)}
    arriving = {}
    for one in range(servers):
        came = np.flatnonzero(topology.head == one).tolist()
        arriving |= {link: at // num_ports for at, link in enumerate(came)}
    distances, carried = topology.distances(), np.zeros(topology.num_links, dtype=int)
    inside = np.zeros((2, servers, each), dtype=int)

    def move(server, begin, end):
        if begin != end:
            inside[0, server, begin] += 1
            inside[1, server, end] += 1

    everyone = list(product(range(servers), range(each)))
    for (here, chip), (there, last) in product(everyone, everyone):
        at = here
        while at != there:
            ways = [
                link
                for link in leaving[at]
                if distances[topology.head[link], there] == distances[at, there] - 1
            ]
            link = min(ways, key=lambda one: (carried[one], one))
            move(at, chip, owner[link])
            carried[link] += 1
            at, chip = int(topology.head[link]), arriving[link]
        move(at, chip, last)
    return int(inside.max()), int(carried.max())


@pytest.mark.parametrize(
    ("recipe", "servers", "each", "ports"),
    [
        ("DirectedCirculant(5, (1, 2, 3, 4))", 5, 2, 2),
        ("DirectedCirculant(7, (1, 2, 3, 4, 5, 6))", 7, 3, 2),
        ("DirectedCirculant(7, (1, 2, 4))", 7, 3, 1),
        ("DirectedCirculant(3, (1, 1, 2, 2))", 3, 2, 2),
    ],
)
def test_an_exchange_takes_what_its_bytes_counted_one_by_one_take(recipe, servers, each, ports):
    on = cluster(servers, each, ports)
    ranks = servers * each
    (placement,) = placements(Parallel(data=ranks), each)
    (option,) = recipe_options([parse(recipe)], KINDS)
    prices = JobPrices(on, Parallel(data=ranks), placement, AcrossRails(on, 4, option))
    size = ranks * 10**6
    latency, work = prices.group_s("alltoall", "data", size)
    inside, carried = exchanged(option.topology, each, ports)
    counted = Fraction(10**6 * inside) / 20_000_000_000 + 10**6 * carried / on.port_Bps
    outside = option.alltoall.t_b * size / (on.port_Bps * Fraction(option.recipe.degree, each))
    assert outside <= 10**6 * carried / on.port_Bps
    # What is counted has no better balance than the even flow, and the model never counts less
    # inside: all that arrives moves on, though some is where it should be.
    assert work - outside >= Fraction(10**6 * inside) / 20_000_000_000
    assert float(work) == pytest.approx(float(counted), rel=0.2)
    steps = option.alltoall.steps
    assert latency == Fraction(1, 10**6) + steps * Fraction(6, 10**6)


def test_collectives_by_hand():
    """Four servers of two with two ports each: one circuit to every other server, one port left."""
    on = cluster(4, 2)
    (option,) = recipe_options([parse("DirectedCirculant(4, (1, 2, 3))")], KINDS)
    (placement,) = placements(Parallel(data=8), 2)
    prices = JobPrices(on, Parallel(data=8), placement, AcrossRails(on, 4, option))
    port, inside = Fraction(10**10, 8), 20 * 10**9
    _, work = prices.group_s("allgather", "data", 8_000_000)
    # A server sends its quarter over each of three ports; half of M inside, and twice what crosses.
    assert work == 2_000_000 / port + Fraction(4_000_000 + 2 * 3_000_000, inside)
    latency, twice = prices.group_s("allreduce", "data", 8_000_000)
    assert twice == 2 * work
    assert latency == 2 * Fraction(1, 10**6) + 2 * Fraction(5, 10**6) + 4 * Fraction(1, 10**6)
    _, swapped = prices.group_s("alltoall", "data", 8_000_000)
    # Two accelerators send a million bytes to each of two over the circuit between their servers.
    assert swapped == 4_000_000 / port + Fraction(4_000_000 + 6_000_000, inside)


def test_an_exchange_is_faster_than_on_rails_that_are_alike():
    """32 servers of eight with four ports: 2 1/4 hops on each rail, one across them."""
    on = cluster(32, 8, 4)
    on = replace(on, scale_up=CostModel(2e-6, 300e9))
    parallel = Parallel(data=256)
    (placement,) = placements(parallel, 8)
    recipe = parse(f"DirectedCirculant(32, {tuple(range(1, 32))})")
    (best,) = recipe_options([recipe], [Collective.ALLTOALL])
    beside = JobPrices(on, parallel, placement, AcrossRails(on, 32, best))
    alike = JobPrices(on, parallel, placement, OwnCircuits(on, {"replica": 4}, {}))
    size = 256 * 10**5
    port = on.port_Bps
    _, work = beside.group_s("alltoall", "data", size)
    assert work == 64 * 10**5 / port + (Fraction(7, 8) + Fraction(31, 32)) * size / (300 * 10**9)
    # No topology of four ports reaches 31 servers in less than 69 hops.
    _, least = alike.group_s("alltoall", "data", size)
    assert least == Fraction(69, 32) * size / (4 * port) + Fraction(7, 8) * size / (300 * 10**9)
    assert 2 * work < least


def test_servers_with_many_ports_may_have_as_many_circuits_to_all_others():
    book = DesignBook()
    options = book.options_of_servers(3, 5, exchanges=True)
    assert options[0].recipe == parse("DirectedCirculant(3, (1, 2, 1, 2))")
    assert options[1:] == book.options(3, 5, exchanges=True)
    assert book.options_of_servers(6, 4, exchanges=True) == book.options(6, 4, exchanges=True)


def test_what_is_across_is_not_below_its_bound_and_needs_rails():
    used = planner(RECOMMENDER, cluster(4, 2))
    parallel = Parallel(data=8)
    (placement,) = placements(parallel, 2)
    (ideal,) = across(parallel, placement, used.cluster)
    made = chosen(ideal, used.traffic(parallel), used.cluster, used.book)
    assert used.bound_s(ideal) <= used.bound_s(made)
    outcome = used.simulated(made, used.bound_s(made))
    assert outcome.bound_s <= float(outcome.period_s)
    one = cluster(8, 1)
    (alone,) = placements(parallel, 1)
    assert not list(across(parallel, alone, one))
    both = Parallel(data=2, pipeline=2, tensor=2, microbatches=2, sequence=True)
    for lies in placements(both, 2):
        found = list(across(both, lies, cluster(4, 2)))
        (*light,) = lies.optical
        assert bool(found) == (len(light) == 1 and light[0].dimension != "pipeline")
    assert list(held(parallel, alone, one))


def test_a_recommender_goes_across_rails_and_its_bundle_is_right():
    on = cluster(5, 2, 2, memory=4 * 10**7)
    trained = TrainedModel("rec", replace(RECOMMENDER, rows=10**6, batch=5000))
    plan = codesign(trained, on, ("fifo",))
    best = plan.best
    assert best.candidate.joining is Joining.ACROSS
    assert best.candidate.parallel.num_ranks == 10
    (handed,) = handovers(best.candidate, plan.best_traffic, plan.cluster)
    assert handed.fabric.num_ports_per_host == 4
    assert len(handed.fabric.hosts) == 5
    largest = max(
        size
        for kind, _, size in plan.best_traffic.asked()
        if Collective.parse(kind).name != "alltoall"
    )
    assert handed.message_bytes == largest
    made = deploy(handed.fabric, [NamedRecipe(handed.name, handed.recipe)], handed.collectives)
    assert len(made.configurations) == 1


def test_dense_models_may_go_across_too():
    plan = codesign(TrainedModel("sample", DENSE), cluster(3, 2), ("fifo",))
    known = [one.outcome for one in plan.baselines if one.name in ("torus", "ring")]
    joining = [outcome.period_s for outcome in known if outcome is not None]
    assert plan.best.period_s <= min(joining)


@pytest.mark.parametrize("ports", [1, 2])
def test_why_packets_win_is_said_if_they_do(ports):
    """Seven hosts in one group: on two ports an all-to-all takes nine hops for six, on one 21."""
    trained = TrainedModel("rec", replace(RECOMMENDER, rows=10**6, batch=7 * 512))
    on = cluster(7, 1, ports, memory=5 * 10**7)
    plan = codesign(trained, on, ("fifo",))
    tree = next(one.outcome for one in plan.baselines if one.name == "fat tree")
    best = plan.best
    assert tree.period_s < best.period_s
    assert best.candidate.parallel == Parallel(data=7)
    hops = circuits_of_exchange(best.candidate)
    assert hops >= Fraction(9, 6) if ports == 2 else hops == Fraction(21, 6)
    (told,) = [one for one in explanation(plan) if one.startswith("A packet network")]
    assert f"a byte of an all-to-all crosses {float(hops):.2g} circuits" in told
    # The other way round: packets so dear that the tree has a tenth of the bandwidth.
    dear = replace(on, prices=replace(on.prices, packet_port=Fraction(10**6)))
    again = codesign(trained, dear, ("fifo",))
    assert again.best.period_s == best.period_s
    assert not [one for one in explanation(again) if one.startswith("A packet network")]


def test_what_is_joined_across_rails_is_said_so():
    on = cluster(5, 2, 2, memory=4 * 10**7)
    plan = codesign(
        TrainedModel("rec", replace(RECOMMENDER, rows=10**6, batch=5000)), on, ("fifo",)
    )
    assert circuits_text(plan.best.candidate, str).startswith("across rails replica 4 ")
    handed = handovers(plan.best.candidate, plan.best_traffic, plan.cluster)
    shown = [
        one
        for one in codesign_sections(CodesignAnswer(plan, handed, "out"), 3)
        if isinstance(one, str)
    ]
    told = [one for one in shown if one.startswith("To build it")]
    assert "on all 2 rails together: ports 2 r to 2 r + 1 of a server are those of" in told[0]
