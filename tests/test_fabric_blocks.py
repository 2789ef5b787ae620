"""Blocks of the double cover: known counts, and components found another way."""

from __future__ import annotations

from collections import Counter

import networkx as nx
import numpy as np
import pytest
from embed_samples import random_directed

from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.embed.blocks import double_cover_blocks
from ocs_codesign.fabric.planes.models import planes_of
from ocs_codesign.graphs.text import parse
from ocs_codesign.topology import Topology

BLOCKS = {
    "Kautz(2, 1)": ({(2, 2): 3}, 0),
    "Kautz(2, 2)": ({(2, 2): 6}, 0),
    "Kautz(3, 1)": ({(3, 3): 4}, 0),
    "GeneralizedKautz(2, 8)": ({(2, 2): 4}, 2),
    "GeneralizedKautz(2, 11)": ({(11, 11): 1}, 2),
    "DirectedCirculant(8, (1, 3))": ({(4, 4): 2}, 0),
    "Line(Complete(4))": ({(3, 3): 4}, 0),
}


@pytest.mark.parametrize(("text", "facts"), BLOCKS.items())
def test_known_blocks(text, facts):
    blocks = double_cover_blocks(parse(text).topology())
    assert (blocks.sizes(), blocks.num_loops) == facts


@pytest.mark.parametrize("text", ["Complete(5)", "Torus((3, 3))", "DirectedCirculant(9, (1, 2))"])
def test_line_digraphs_have_complete_blocks(text):
    base = parse(text).topology()
    blocks = double_cover_blocks(parse(f"Line({text})").topology())
    assert blocks.sizes() == {(base.degree, base.degree): base.num_nodes}
    assert (blocks.num_links == base.degree**2).all()


@pytest.mark.parametrize("copies", [2, 3])
def test_degree_expansion_multiplies_blocks(copies):
    before = double_cover_blocks(parse("DirectedCirculant(8, (1, 3))").topology())
    after = double_cover_blocks(parse(f"Degree(DirectedCirculant(8, (1, 3)), {copies})").topology())
    assert after.radix == copies * before.radix


def components(topology):
    """How many components of the double cover have how many tails and heads."""
    links = zip(topology.tail.tolist(), topology.head.tolist(), strict=True)
    cover = nx.Graph((("tail", tail), ("head", head)) for tail, head in links)
    sides = [Counter(side for side, _ in points) for points in nx.connected_components(cover)]
    return Counter((side["tail"], side["head"]) for side in sides)


@pytest.mark.parametrize("seed", range(30))
def test_random_multigraphs(seed):
    whole = random_directed(3 + seed % 9, 2, seed)
    kept = np.random.default_rng(seed).random(whole.num_links) < 0.5
    topology = Topology(whole.num_nodes, whole.tail[kept], whole.head[kept])
    blocks = double_cover_blocks(topology)
    assert blocks.sizes() == dict(components(topology))
    assert blocks.num_links.sum() == topology.num_links
    assert (blocks.tail_block[topology.tail] == blocks.head_block[topology.head]).all()
    assert ((blocks.tail_block < 0) == (topology.out_degrees() == 0)).all()
    assert ((blocks.head_block < 0) == (topology.in_degrees() == 0)).all()


def test_a_plane_by_itself_has_single_circuits():
    topology = parse("DirectedCirculant(8, (1, 2))").topology()
    planes = planes_of(topology, PortModel.SIMPLEX)
    blocks = double_cover_blocks(topology, planes.plane)
    assert blocks.sizes() == {(1, 1): 16}
    assert len(blocks.tail_block) == 16


def test_no_links():
    blocks = double_cover_blocks(Topology(3, [], []))
    assert (blocks.num_blocks, blocks.radix, blocks.sizes()) == (0, 0, {})


def test_one_plane_a_link():
    with pytest.raises(ValueError, match="1 planes for 2 links"):
        double_cover_blocks(Topology(2, [0, 1], [1, 0]), np.zeros(1, dtype=np.int32))
