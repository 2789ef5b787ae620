"""Networks with known optima, and small random ones."""

from __future__ import annotations

import json

import numpy as np
import pytest
from folders import DATA
from hypothesis import strategies as st

from ocs_codesign.core.network import Network

KNOWN = json.loads((DATA / "forests.json").read_text(encoding="utf-8"))
every_known = pytest.mark.parametrize("name", sorted(KNOWN))


def known_network(name, *, able=False):
    facts = KNOWN[name]
    hosts, nodes = facts["num_ranks"], facts["num_vertices"]
    switches = range(hosts, nodes) if able else ()
    links = np.array(facts["links"]).T
    return Network(hosts, nodes, *links, multicast=switches, aggregate=switches)


@st.composite
def networks(draw):
    nodes = draw(st.integers(2, 6))
    hosts = draw(st.integers(2, nodes))
    rows = [(a, (a + 1) % hosts, 1) for a in range(hosts)] if draw(st.booleans()) else []
    node = st.integers(0, nodes - 1)
    rows += draw(st.lists(st.tuples(node, node, st.integers(1, 6)), min_size=1, max_size=16))
    if draw(st.booleans()):
        rows += [(b, a, c) for a, b, c in rows]
    return Network(hosts, nodes, *np.array(rows).T)
