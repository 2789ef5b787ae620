"""All-to-all of designs as ``optimum`` answers it, for the pages of the explorer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.core.networks.builders import as_network
from ocs_codesign.faces.answers.networks import exchange_facts
from ocs_codesign.schedules.exchange.paths import exchange_paths
from ocs_codesign.schedules.exchange.program import exchange_of, refined

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ocs_codesign.core.topology import Topology
    from ocs_codesign.graphs.recipe import Recipe


EXCHANGE_NODES = 16
"""Nodes up to which all-to-all is worked out for pages that are written: 20 ms a design."""

SERVED_EXCHANGE_NODES = 256
"""The same where only what is asked for is: a tenth of a second a design."""

EXCHANGE_COLUMNS = 3000
"""Columns of a program up to which it is; more take seconds."""


def exchanges_json(recipes: Iterable[Recipe]) -> list[dict[str, Any] | None]:
    """What ``optimum --collective alltoall`` says of recipes and draws; null for large programs.

    ``facts`` are its lines. ``busiest`` are links that are busy all the time, ``leaving`` those of
    the cut, or those that have prices where no cut is as narrow, both numbered as in
    ``graphs_json``; ``side`` are the nodes of the cut, null without one.

    >>> from ocs_codesign.graphs.text import parse
    >>> (found,) = exchanges_json([parse("BiRing(2, 4)")])
    >>> found["t_b"], found["side"], found["leaving"], dict(found["facts"])["U"]
    ('1', [0, 1], [1, 3], '2, exact, by prices')
    """
    return [_exchange_json(repr(recipe), recipe.topology()) for recipe in recipes]


def _exchange_json(name: str, topology: Topology) -> dict[str, Any] | None:
    exchange = exchange_of(as_network(topology))
    if len(refined(exchange).rows) * len(exchange.tail) > EXCHANGE_COLUMNS:
        return None
    paths = exchange_paths(topology)
    found = paths.optimum
    # Links as pages number them: by tail, then by head.
    place = np.argsort(np.lexsort((topology.head, topology.tail)))
    cut = found.bottleneck
    return {
        "t_b": str(found.t_b),
        "facts": [
            [key, str(text)] for key, text in exchange_facts(name, found).rows if text is not None
        ],
        "busiest": sorted(place[paths.busiest_links()].tolist()),
        "leaving": sorted(place[found.leaving()].tolist()),
        "side": None if cut is None else np.flatnonzero(cut.side).tolist(),
    }
