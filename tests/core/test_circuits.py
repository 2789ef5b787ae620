"""Programs of circuits as values, and topologies split over planes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from program_oracle import up_at
from strategies import multigraphs, permutation_digraph, regular_multigraphs, without_symmetry

from ocs_codesign.core.circuits import CircuitProgram
from ocs_codesign.core.compute.factorisation import factorise, plane_heads
from ocs_codesign.core.topology import Topology
from ocs_codesign.graphs.text import parse

PAIRS = Topology(4, [0, 1, 2, 3, 0, 2], [1, 0, 3, 2, 2, 0])
UP = ([0, 1, 2, 3, 4, 5], [1, 1, 1, 1, 2, 2], [1, 1, 1, 1, 3, 3])


def program(plane=(0,) * 6, link=UP[0], first=UP[1], last=UP[2], pauses=(2,)) -> CircuitProgram:
    return CircuitProgram(PAIRS, plane, link, first, last, pauses)


def test_rows_are_sorted_and_columns_read_only():
    made = program(link=UP[0][::-1], first=UP[1][::-1], last=UP[2][::-1], pauses=[2, 2])
    assert made == program()
    assert made.link.tolist() == UP[0]
    assert made.pauses.tolist() == [2]
    assert all(not column.flags.writeable for column in made.columns())
    assert made != program(pauses=[])
    assert "4 nodes, 1 planes, 6 circuits up in 6 intervals, 1 pauses" in repr(made)
    with pytest.raises(TypeError):
        hash(made)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"plane": [0] * 5}, "plane has 5 entries, but there are 6 links"),
        ({"plane": [0, 0, 0, 0, 2, 2]}, "no circuit is of plane 1"),
        ({"plane": [0, 0, 0, 0, 0, -1]}, "plane is -1 at position 5"),
        ({"plane": [0, 0, 0, 0, 0, 6]}, "plane is 6 at position 5: it is from 0 to 5"),
        ({"plane": [0.0] * 6}, "plane must be a one-dimensional array of integers"),
        ({"link": [0, 1, 2, 3, 4, 6]}, "link is 6 at position 5: it is from 0 to 5"),
        (
            {"link": [0, 1, 2, 3, 4, 4], "first": [1, 1, 1, 1, 2, 5], "last": [1, 1, 1, 1, 3, 5]},
            "link 5 is never up",
        ),
        ({"link": [0, 1, 2, 3, 4]}, "must be equally long"),
        ({"first": [0, 1, 1, 1, 2, 2]}, "first_step is 0 at position 0: it is from 1"),
        ({"last": [1, 1, 1, 1, 3, 2**24 + 1]}, "last_step is 16777217 at position 5"),
        ({"first": [1, 1, 1, 1, 4, 2]}, "link 4 is up from step 4 to step 3"),
        ({"pauses": [1]}, "pauses is 1 at position 0: it is from 2"),
        ({"pauses": [2, 3]}, "a pause before step 3, but no circuit comes up then"),
        ({"pauses": [[2]]}, "pauses must be a one-dimensional array"),
    ],
)
def test_nonsense_is_refused(changes, rule):
    with pytest.raises(ValueError, match=rule):
        program(**changes)


@pytest.mark.parametrize("first", [2, 3])
def test_intervals_of_a_link_that_overlap_or_touch_are_refused(first):
    with pytest.raises(
        ValueError, match=f"link 0 comes up at step {first}, but is up until step 2"
    ):
        CircuitProgram(
            PAIRS, [0] * 6, [0, 0, 1, 2, 3, 4, 5], [1, first, *[1] * 5], [2, 4, *[1] * 5]
        )


def test_a_program_has_a_circuit():
    with pytest.raises(ValueError, match="at least one circuit"):
        CircuitProgram(Topology(2, [], []), [], [], [], [])


@given(st.data())
def test_what_is_up_is_what_the_rows_say(data):
    topology = data.draw(multigraphs(max_nodes=4, max_extra=4))
    links = topology.num_links
    rows = []
    for link in range(links):
        ends = sorted(data.draw(st.sets(st.integers(1, 12), min_size=2, max_size=6)))
        if len(ends) % 2:
            ends.append(ends[-1])
        spans = [(ends[i], ends[i + 1]) for i in range(0, len(ends), 2)]
        kept = spans[:1]
        for span in spans[1:]:
            if span[0] > kept[-1][1] + 1:
                kept.append(span)
        rows += [(link, *span) for span in kept]
    link, first, last = zip(*data.draw(st.permutations(rows)), strict=True)
    made = CircuitProgram(topology, [0] * links, link, first, last)
    for step in (*range(1, 14), 2**24, 2**31):
        up = up_at(made, step)
        assert made.links_up(step).tolist() == sorted(up)
        assert made.is_up(np.arange(links), np.full(links, step)).tolist() == [
            link in up for link in range(links)
        ]


@given(multigraphs(max_nodes=6))
def test_a_program_without_changes_is_its_topology(topology):
    """Every link a plane of its own: the node's speed is that of the topology."""
    links = np.arange(topology.num_links)
    made = CircuitProgram(topology, links, links, links * 0 + 1, links * 0 + 3)
    assert made.node_speed() == topology.node_speed()


def test_the_speed_of_a_port_is_that_of_its_fastest_circuit():
    topology = Topology(2, [0, 0, 0, 1], [1, 1, 1, 0], [2, 5, 3, 1])
    made = CircuitProgram(topology, [0, 0, 1, 0], [0, 1, 2, 3], [1, 3, 1, 1], [1, 3, 3, 3])
    assert made.node_speed() == 5 + 3


# Planes.


def check_planes(topology, plane, near=None):
    heads = plane_heads(topology, plane)  # raises if two links share a port
    assert len(plane) == topology.num_links
    assert heads.shape[0] <= (topology.degree if near is None else len(near))
    return heads


@given(multigraphs(max_nodes=8, speeds=False))
def test_any_topology_has_as_many_planes_as_ports(topology):
    heads = check_planes(topology, factorise(topology))
    assert len(heads) == topology.degree


@given(regular_multigraphs())
def test_a_regular_topology_is_permutations(topology):
    heads = check_planes(topology, factorise(topology))
    assert all(sorted(row) == list(range(topology.num_nodes)) for row in heads.tolist())


@given(multigraphs(max_nodes=6))
def test_links_of_one_speed_share_planes(topology):
    plane, speeds = factorise(topology), topology.speeds()
    check = plane_heads(topology, plane)
    widths = []
    for number in range(len(check)):
        assert len(set(speeds[plane == number].tolist())) == 1
    for speed in np.unique(speeds):
        part = Topology(
            topology.num_nodes, topology.tail[speeds == speed], topology.head[speeds == speed]
        )
        widths.append(part.degree)
    assert len(check) == sum(widths)


@given(regular_multigraphs(), st.randoms(use_true_random=False))
def test_planes_that_are_there_already_are_kept(topology, random):
    heads = plane_heads(topology, factorise(topology))
    order = list(range(len(heads)))
    random.shuffle(order)
    near = heads[order]
    assert np.array_equal(plane_heads(topology, factorise(topology, near)), near)


def test_what_two_topologies_share_stays():
    one = parse("DirectedCirculant(8, (1, 3))").topology()
    other = parse("DirectedCirculant(8, (3, 5))").topology()
    heads = plane_heads(one, factorise(one))
    for topology in (other, without_symmetry(other)):
        after = plane_heads(topology, factorise(topology, heads))
        assert (after == heads).sum() == 8


def test_orbits_of_a_symmetry_are_planes():
    topology = parse("DirectedCirculant(12, (1, 4, 6))").topology()
    assert np.array_equal(factorise(topology), topology.symmetry.link_orbit)


def test_large_random_graphs_split_quickly():
    topology = permutation_digraph(3000, 6, seed=3)
    heads = check_planes(topology, factorise(topology))
    near = np.roll(heads, 1, axis=0)
    assert np.array_equal(plane_heads(topology, factorise(topology, near)), near)


def test_planes_of_another_size_cannot_be_kept():
    topology = parse("DirectedCirculant(8, (1, 3))").topology()
    for shape in ((1, 8), (2, 7)):
        with pytest.raises(ValueError, match="there are 2 planes of 8 nodes to keep links in"):
            factorise(topology, np.zeros(shape, dtype=np.int32))


@pytest.mark.parametrize("plane", [[0, 0, 0, 1], [0, 1, 1, 1]])
def test_shared_ports_are_seen(plane):
    topology = Topology(3, [0, 1, 2, 2], [1, 2, 1, 0])
    with pytest.raises(ValueError, match="two links at one port"):
        plane_heads(topology, np.array(plane, dtype=np.int32))
