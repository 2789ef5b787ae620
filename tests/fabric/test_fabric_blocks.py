"""Blocks of the double cover: known sizes, and components found another way."""

from __future__ import annotations

from collections import Counter

import networkx as nx
import numpy as np
import pytest
from embed_samples import random_directed

from ocs_codesign.core.topology import Topology
from ocs_codesign.fabric.embedding.cables import double_cover_blocks
from ocs_codesign.graphs.text import parse

BLOCKS = {
    "Kautz(2, 1)": {(2, 2): 3},
    "Kautz(2, 2)": {(2, 2): 6},
    "GeneralizedKautz(2, 8)": {(2, 2): 4},
    "GeneralizedKautz(2, 11)": {(11, 11): 1},
    "DirectedCirculant(8, (1, 3))": {(4, 4): 2},
    "Degree(DirectedCirculant(8, (1, 3)), 3)": {(12, 12): 2},
    # The blocks of a line digraph are complete.
    "Line(Complete(5))": {(4, 4): 5},
    "Line(DirectedCirculant(9, (1, 2)))": {(2, 2): 9},
}


def sizes(topology):
    return Counter(map(tuple, double_cover_blocks(topology).sizes.tolist()))


@pytest.mark.parametrize(("text", "known"), BLOCKS.items())
def test_known_blocks(text, known):
    assert sizes(parse(text).topology()) == known


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
    assert sizes(topology) == components(topology)
    assert (blocks.tail_block[topology.tail] == blocks.head_block[topology.head]).all()
    assert ((blocks.tail_block < 0) == (topology.out_degrees() == 0)).all()
    assert ((blocks.head_block < 0) == (topology.in_degrees() == 0)).all()


def test_no_links():
    assert not len(double_cover_blocks(Topology(3, [], [])).sizes)
