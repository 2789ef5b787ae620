"""Links on switches that are in one of listed states, as rotors and gratings are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.fabric.infeasible import InfeasibleError, Reason
from ocs_codesign.fabric.integers import least_integers
from ocs_codesign.fabric.planes.planes import Planes, given_planes
from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.fabric.wiring import Cabling


def fit_to_states(
    cabling: Cabling, topology: Topology, host: NDArray[np.int32], plane: NDArray[np.int32] | None
) -> Planes:
    """The links in planes whose switches have states that offer them over these cables.

    ``plane`` (one number a link) asks for these planes. Raises InfeasibleError (STATES, NOT_FOUND).
    """
    offers = _offers(cabling, host)
    if plane is None:
        plane = _planes_of_links(topology, offers, _chosen_states(topology, offers))
    else:
        for number in np.unique(plane).tolist():
            mine = plane == number
            part = Topology(topology.num_nodes, topology.tail[mine], topology.head[mine])
            _chosen_states(part, offers.of_plane(number))
    return given_planes(topology, cabling.fabric.port_model(0), plane)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Offers:
    """What states offer: offer i is the link from ``tail[i]`` to ``head[i]`` in state ``state[i]``.

    ``switch`` (states) is whose state each is, and a switch is in one state at a time. ``plane``
    (states) is its plane.
    """

    tail: NDArray[np.int64]
    head: NDArray[np.int64]
    state: NDArray[np.int64]
    switch: NDArray[np.int64]
    plane: NDArray[np.int64]

    def of_plane(self, number: int) -> _Offers:
        kept = np.flatnonzero(self.plane == number)
        mine = np.isin(self.state, kept)
        state = np.searchsorted(kept, self.state[mine])
        return _Offers(self.tail[mine], self.head[mine], state, self.switch[kept], self.plane[kept])


def _offers(cabling: Cabling, host: NDArray[np.int32]) -> _Offers:
    columns: list[tuple[NDArray[np.int64], ...]] = []
    count = 0
    for number, switch in enumerate(cabling.fabric.switches):
        if switch.states is None:
            raise ValueError(
                f"switch {switch.name} lists no states: a restricted switch needs them"
            )
        node_at = np.full((2, switch.num_ports + 1), -1)
        sides = (cabling.a_switch, cabling.a_port), (cabling.b_switch, cabling.b_port)
        for nodes, (at, port) in zip(node_at, sides, strict=True):
            mine = np.flatnonzero(at[host, switch.plane] == number)
            nodes[port[host[mine], switch.plane]] = mine
        state, a_port = np.nonzero(switch.states)
        tail, head = node_at[0][a_port + 1], node_at[1][switch.states[state, a_port]]
        lit = (tail >= 0) & (head >= 0)
        states = np.ones(len(switch.states), dtype=np.int64)
        columns.append(
            (tail[lit], head[lit], count + state[lit], number * states, switch.plane * states)
        )
        count += len(states)
    return _Offers(*(np.concatenate(column) for column in zip(*columns, strict=True)))


def _chosen_states(topology: Topology, offers: _Offers) -> NDArray[np.int64]:
    """One state a switch (its number, by switch) such that all links of a topology are offered.

    Switches that no link needs are in the state of lowest number. Raises InfeasibleError: STATES
    with the link that is not offered, or if no choice offers all at once; NOT_FOUND.
    """
    pair, column, count = _needed_offers(topology, offers)
    switches, place = np.unique(offers.switch, return_inverse=True)
    states, once = np.arange(len(offers.switch)), np.ones(len(switches))
    found = least_integers(
        [(pair, column, 1.0), (len(count) + place, states, 1.0)],
        [(count, np.full(len(count), np.inf)), (once, once)],
        np.ones(len(states)),
        states / max(len(states), 1),
        doing="choosing switch states",
    )
    if found is None:
        raise InfeasibleError(
            Reason.STATES,
            f"no choice of one state for each of {len(switches)} switches offers all "
            f"{topology.num_links} links at once",
        )
    return np.flatnonzero(found[0] == 1)


def _needed_offers(
    topology: Topology, offers: _Offers
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The offers that links need as (pair of nodes, state), and how many links join each pair."""
    pairs, _, count = _pairs(topology)
    key = offers.tail * topology.num_nodes + offers.head
    wanted = np.isin(key, pairs)
    pair, state = np.searchsorted(pairs, key[wanted]), offers.state[wanted]
    # States of one switch exclude each other, so a switch counts once for a pair.
    once = np.unique(np.stack([pair, offers.switch[state]]), axis=1)
    num_switches = np.bincount(once[0], minlength=len(pairs))
    short = np.flatnonzero(num_switches < count)
    if len(short):
        tail, head = divmod(int(pairs[short[0]]), topology.num_nodes)
        there = int(num_switches[short[0]])
        raise InfeasibleError(
            Reason.STATES,
            f"no state offers a circuit from node {tail} to {head}"
            if not there
            else f"{count[short[0]]} links lead from node {tail} to {head}, but the states of only "
            f"{there} switches offer a circuit there",
        )
    return pair, state, count


def _planes_of_links(
    topology: Topology, offers: _Offers, states: NDArray[np.int64]
) -> NDArray[np.int32]:
    """The plane of every link, parallel ones in the order of their planes, for chosen states."""
    pairs, of_link, _ = _pairs(topology)
    planes: list[list[int]] = [[] for _ in pairs]
    for state in states:
        mine = offers.state == state
        key = offers.tail[mine] * topology.num_nodes + offers.head[mine]
        for number in np.searchsorted(pairs, key[np.isin(key, pairs)]):
            planes[number].append(int(offers.plane[state]))
    taken = [iter(offered) for offered in planes]
    return np.array([next(taken[number]) for number in of_link], dtype=np.int32)


def _pairs(topology: Topology) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The pairs of nodes that links join (tail * N + head), each link's, and how many each has."""
    key = topology.tail.astype(np.int64) * topology.num_nodes + topology.head
    pairs, of_link, count = np.unique(key, return_inverse=True, return_counts=True)
    return pairs, of_link, count
