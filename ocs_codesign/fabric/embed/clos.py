"""Three-stage networks of switches: a plane whose blocks are larger than its switches.

Hosts send into edge switches, these have ``trunks`` cables to every middle switch, and those as
many to the edge switches that hosts receive from. Any permutation of hosts has a way if and only
if middles times trunks are at least the hosts of an edge switch: D. Slepian (1952), A. M. Duguid
(1959). The ways of a configuration are an edge colouring of the circuits between edge switches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.fabric.infeasible import InfeasibleError, Reason
from ocs_codesign.factorisation import factorise
from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from numpy.typing import NDArray


@final
@dataclass(frozen=True, slots=True)
class Clos:
    """Switches (places in a list) by stage, hosts an edge switch, and trunks to a middle switch."""

    senders: tuple[int, ...]
    middles: tuple[int, ...]
    receivers: tuple[int, ...]
    num_hosts: int
    num_trunks: int

    @property
    def num_switches(self) -> int:
        """Switches of all stages."""
        return len(self.senders) + len(self.middles) + len(self.receivers)

    def trunks(self) -> NDArray[np.int32]:
        """Every trunk as (switch, B port, switch, A port), ports from 1.

        The edge switches' trunk ports are numbered by middle switch, then by trunk; the middle
        switches' by edge switch, then by trunk.
        """
        shape = len(self.senders), len(self.middles), self.num_trunks
        edge, middle, trunk = np.indices(shape).reshape(3, -1)
        outer, inner = 1 + middle * self.num_trunks + trunk, 1 + edge * self.num_trunks + trunk
        senders, middles, receivers = map(np.array, (self.senders, self.middles, self.receivers))
        there = np.stack([senders[edge], outer, middles[middle], inner], axis=1)
        back = np.stack([middles[middle], inner, receivers[edge], outer], axis=1)
        return np.stack([there, back], axis=1).reshape(-1, 4).astype(np.int32)


def three_stages(num_hosts: int, ports: NDArray[np.int64]) -> Clos | None:
    """The rearrangeable three-stage network for so many hosts of fewest switches, or None.

    ``ports`` are the usable ports a side of the switches there are. All edge switches serve as many
    hosts, but for the last; every one has as many trunks to every middle switch.
    """
    best: Clos | None = None
    most = len(ports) // 2
    largest = int(ports.max(initial=0))
    for edges in range(2, most + 1):
        hosts = -(-num_hosts // edges)
        if hosts > largest or -(-num_hosts // hosts) != edges:
            continue
        for trunks in range(1, min(hosts, largest // edges) + 1):
            middles = -(-hosts // trunks)
            if best is not None and 2 * edges + middles >= best.num_switches:
                continue
            best = _assigned(ports, edges, middles, trunks, hosts) or best
    return best


def _assigned(
    ports: NDArray[np.int64], edges: int, middles: int, trunks: int, hosts: int
) -> Clos | None:
    """Switches for each stage, those that need more ports from the largest ones."""
    if 2 * edges + middles > len(ports):
        return None
    order = np.argsort(-ports, kind="stable")
    edge_ports, middle_ports = max(hosts, middles * trunks), edges * trunks
    edges_first = edge_ports >= middle_ports
    cut = 2 * edges if edges_first else middles
    first, second = order[:cut], order[cut : 2 * edges + middles]
    outer, inner = (first, second) if edges_first else (second, first)
    if ports[outer].min() < edge_ports or ports[inner].min() < middle_ports:
        return None
    at_edge = sorted(int(switch) for switch in outer)
    return Clos(
        tuple(at_edge[:edges]),
        tuple(sorted(int(switch) for switch in inner)),
        tuple(at_edge[edges:]),
        hosts,
        trunks,
    )


def trunking(
    trunks: NDArray[np.int32], senders: NDArray[np.int32], receivers: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The trunks of a plane by edge switch and way: out of ``senders`` and into ``receivers``.

    Both are edges x ways x 4, rows as of ``Clos.trunks``, edge switches in order of their numbers;
    way w is through the same middle switch from all edges. Raises InfeasibleError (CABLING) if the
    trunks are not those of a three-stage network.
    """
    out, into = trunks[np.isin(trunks[:, 0], senders)], trunks[np.isin(trunks[:, 2], receivers)]
    out, into = out[np.lexsort((out[:, 1], out[:, 0]))], into[np.lexsort((into[:, 3], into[:, 2]))]
    edges = np.concatenate([2 * out[:, 0], 2 * into[:, 2] + 1])
    num_ways = np.unique(edges, return_counts=True)[1]
    if len(edges) == len(trunks) > 0 and (num_ways == num_ways[0]).all():
        out, into = out.reshape(-1, num_ways[0], 4), into.reshape(-1, num_ways[0], 4)
        middle = out[0, :, 2]
        if (out[:, :, 2] == middle).all() and (into[:, :, 0] == middle).all():
            return out, into
    raise InfeasibleError(
        Reason.CABLING,
        "trunks do not make a three-stage network: every edge switch needs as many to every middle",
    )


def ways(
    senders: NDArray[np.int64], receivers: NDArray[np.int64], num_edges: int, num_ways: int
) -> NDArray[np.int32]:
    """A way for every circuit between edge switches such that none share a trunk.

    ``senders`` and ``receivers`` number the edge switches of every circuit. Raises
    InfeasibleError (CABLING) if an edge switch has more circuits than ways.
    """
    chosen = factorise(Topology(num_edges, senders, receivers))
    if len(chosen) and int(chosen.max()) >= num_ways:
        raise InfeasibleError(
            Reason.CABLING,
            f"an edge switch has {int(chosen.max()) + 1} circuits, but {num_ways} trunks",
        )
    return chosen
