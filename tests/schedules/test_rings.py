"""Rings side by side: every ring is a Hamiltonian cycle, no link is in two, the schedules hold."""

from fractions import Fraction

import numpy as np
import pytest

from ocs_codesign import Topology, parse, verify
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.networks.builders import direct, mesh, star
from ocs_codesign.schedules.classic.rings import rings_of, rings_schedule
from ocs_codesign.schedules.compare.contest import Contest
from ocs_codesign.schedules.compare.play import Entrant, entrants, play


def check_rings(topology, rings):
    """An oracle that knows nothing of factors: walk every ring link by link."""
    assert len(set(rings.ravel().tolist())) == rings.size, "a link is in two rings"
    for links in rings:
        node, visited = 0, set()
        while node not in visited:
            visited.add(node)
            assert topology.tail[links[node]] == node
            node = int(topology.head[links[node]])
        assert node == 0
        assert len(visited) == topology.num_nodes


@pytest.mark.parametrize(
    ("recipe", "number"),
    [
        ("Torus((3, 3))", 4),
        ("Torus((8, 8))", 4),
        ("Hypercube(4)", 4),
        ("BiRing(4, 7)", 4),
        ("UniRing(3, 5)", 3),
        ("Complete(5)", 4),
        ("Circulant(13, (2, 3))", 4),
    ],
)
def test_as_many_rings_as_ports(recipe, number):
    topology = parse(recipe).topology()
    rings = rings_of(topology)
    check_rings(topology, rings)
    assert len(rings) == number == topology.degree
    assert np.array_equal(rings, rings_of(topology))


def test_parallel_links_and_unequal_degrees():
    """Three links one way round and one the other: of one node also a link too many."""
    ahead = np.repeat(np.arange(4), 3)
    tail = np.concatenate([ahead, np.arange(4), [0, 2]])
    head = np.concatenate([(ahead + 1) % 4, (np.arange(4) - 1) % 4, [2, 2]])
    rings = rings_of(Topology(4, tail, head))
    check_rings(Topology(4, tail, head), rings)
    assert len(rings) == 4


@pytest.mark.parametrize("collective", ["allgather", "reduce-scatter"])
@pytest.mark.parametrize("recipe", ["Torus((3, 4))", "UniRing(2, 5)", "Kautz(2, 2)"])
def test_what_goes_round_is_right(recipe, collective):
    topology = parse(recipe).topology()
    made = rings_schedule(topology, Collective(collective))
    verdict = verify(made)
    nodes, rings = topology.num_nodes, made.num_chunks
    assert verdict.ok
    assert made.topology == topology
    assert verdict.cost.steps == nodes - 1
    assert verdict.cost.t_b == Fraction(topology.degree * (nodes - 1), rings * nodes)


def test_where_there_is_no_ring():
    odd_grid = mesh((3, 3), 1).topology()
    assert len(rings_of(odd_grid)) == 0
    with pytest.raises(ValueError, match="takes a Hamiltonian cycle"):
        rings_schedule(odd_grid, Collective.ALLGATHER)
    with pytest.raises(ValueError, match="no option radix"):
        rings_schedule(parse("Complete(3)").topology(), Collective.ALLGATHER, {"radix": 2})
    with pytest.raises(ValueError, match="up to 1024"):
        rings_of(parse("UniRing(1, 1025)").topology())


def contest(network, collective="allgather", sizes=(2**30,), recipe=None):
    unit = Fraction(10**9)
    return Contest("n", network, Collective(collective), sizes, unit, recipe)


def test_rings_are_compared_where_hosts_are_linked():
    recipe = parse("Torus((4, 4))")
    for collective, takes in (("allgather", True), ("allreduce", True), ("alltoall", False)):
        listed = entrants(contest(direct(recipe.topology(), 1), collective, recipe=recipe))
        assert (Entrant("rings", is_classic=True) in listed) == takes
    assert Entrant("rings", is_classic=True) not in entrants(contest(star(4, 10)))


def test_four_rings_are_four_times_as_fast_as_one():
    recipe = parse("Torus((4, 4))")
    question = contest(direct(recipe.topology(), 1), recipe=recipe)
    many = play(question, Entrant("rings", is_classic=True))
    one = play(question, Entrant("ring", (("rank_to_node", "snake"),), is_classic=True))
    assert one.times_s[0] / many.times_s[0] == pytest.approx(4, rel=1e-3)


def test_a_schedule_takes_the_better_of_two_orders_on_links():
    """BFB's second half overtakes the first on a torus where links serve what asks first."""
    recipe = parse("Torus((4, 4))")
    question = contest(direct(recipe.topology(), 1), "allreduce", recipe=recipe)
    seconds = play(question, Entrant("bfb")).times_s[0]
    assert seconds == pytest.approx(2 * 15 / 16 * 2**30 / 4e9, rel=1e-3)
