"""Planes of switches that are in one of listed states, as rotors and gratings are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.infeasible import InfeasibleError, Reason
from ocs_codesign.fabric.integers import least_integers
from ocs_codesign.fabric.planes.circuits import check_equal_speeds, one_way_circuits
from ocs_codesign.fabric.planes.planes import Certificate, Planes, Proof, degree_certificate
from ocs_codesign.lp import Status

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.topology import Topology

DOING = "choosing switch states"


@final
@dataclass(frozen=True, slots=True, eq=False)
class Offers:
    """What states offer: offer i is the link from ``tail[i]`` to ``head[i]`` in state ``state[i]``.

    States are numbered through ``num_states``; ``switch`` (states) is whose state each is, and a
    switch is in one state at a time. ``plane`` (states) is its plane.
    """

    tail: NDArray[np.int64]
    head: NDArray[np.int64]
    state: NDArray[np.int64]
    switch: NDArray[np.int64]
    plane: NDArray[np.int64]

    @property
    def num_states(self) -> int:
        """States of all switches."""
        return len(self.switch)

    def of_plane(self, number: int) -> Offers:
        """What the switches of one plane offer."""
        kept = np.flatnonzero(self.plane == number)
        mine = np.isin(self.state, kept)
        state = np.searchsorted(kept, self.state[mine])
        return Offers(self.tail[mine], self.head[mine], state, self.switch[kept], self.plane[kept])


def restricted_planes(topology: Topology, states: NDArray[np.int32] | None = None) -> Planes:
    """The fewest planes, each in one of ``states`` (states x N: where circuits lead, or -1).

    Circuits of a state that no link uses stay idle. Raises InfeasibleError (STATES) that names a
    link which no state offers, NOT_FOUND if the time is over, ValueError for states that are none.
    """
    check_equal_speeds(topology)
    heads = _checked(topology, states)
    state, tail = np.nonzero(heads >= 0)
    numbers = np.arange(len(heads))
    offers = Offers(tail, heads[state, tail], state, numbers, numbers)
    times, certificate = _fewest(topology, offers)
    plane = _places(topology, offers, np.repeat(numbers, times))
    link = one_way_circuits(topology)
    return Planes(PortModel.RESTRICTED, topology, link, plane, int(times.sum()), certificate)


def choose_states(topology: Topology, offers: Offers) -> NDArray[np.int64]:
    """One state a switch (its number, by switch) such that all links of a topology are offered.

    Switches that no link needs are in the state of lowest number. Raises InfeasibleError: STATES
    with the link that is not offered, or if no choice offers all at once; NOT_FOUND.
    """
    pair, column, count = _needed_offers(topology, offers)
    switches, place = np.unique(offers.switch, return_inverse=True)
    states = np.arange(offers.num_states)
    ones = np.ones(len(switches))
    found = least_integers(
        [(pair, column, 1.0), (len(count) + place, states, 1.0)],
        [(count, np.full(len(count), np.inf)), (ones, ones)],
        np.ones(offers.num_states),
        states / max(offers.num_states, 1),
        doing=DOING,
    )
    if found is None:
        raise InfeasibleError(
            Reason.STATES,
            f"no choice of one state for each of {len(switches)} switches offers all "
            f"{topology.num_links} links at once",
        )
    return np.flatnonzero(found[0] == 1)


def planes_of_links(
    topology: Topology, offers: Offers, states: NDArray[np.int64]
) -> NDArray[np.int32]:
    """The plane of every link, parallel ones in the order of their planes, for chosen states."""
    return offers.plane[states][_places(topology, offers, states)].astype(np.int32)


def _checked(topology: Topology, states: NDArray[np.int32] | None) -> NDArray[np.int64]:
    nodes = topology.num_nodes
    heads = np.asarray(np.empty((0, nodes)) if states is None else states)
    if heads.ndim != 2 or heads.shape[1] != nodes or not len(heads) or heads.dtype.kind not in "iu":
        raise ValueError(
            f"states has shape {heads.shape}: it must be integers, a row a state and {nodes} "
            f"columns, at least one row"
        )
    if heads.min() < -1 or heads.max() >= nodes:
        raise ValueError(f"states must lead to nodes 0 to {nodes - 1}, or -1 for nowhere")
    ranked = np.sort(heads, axis=1)
    twice = ((ranked[:, 1:] == ranked[:, :-1]) & (ranked[:, 1:] >= 0)).any(axis=1)
    if twice.any():
        raise ValueError(f"state {twice.argmax()} leads to one node twice: it joins each once")
    return heads.astype(np.int64)


def _fewest(topology: Topology, offers: Offers) -> tuple[NDArray[np.int64], Certificate]:
    """How often each state is used, in the fewest planes, and how many planes are proven needed."""
    pair, column, count = _needed_offers(topology, offers)
    most = np.full(offers.num_states, count.max(initial=0))
    bounds = count, np.full(len(count), np.inf)
    found = least_integers([(pair, column, 1.0)], [bounds], most, 1.0, doing=DOING)
    if found is None:
        raise RuntimeError("states that offer every link hold all of them in planes enough")
    times, solution = found
    proven = int(times.sum())
    if solution.status is not Status.OPTIMAL:
        proven = int(np.ceil((solution.bound or 0.0) - 1e-6))
    certificate = degree_certificate(topology, PortModel.RESTRICTED)
    if proven > certificate.num_planes:
        sentence = f"an integer program proves that no {proven - 1} of {offers.num_states} states"
        certificate = Certificate(proven, Proof.SEARCH, (), f"{sentence} hold all")
    return times, certificate


def _pairs(topology: Topology) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The pairs of nodes that links join (tail * N + head), each link's, and how many each has."""
    key = topology.tail.astype(np.int64) * topology.num_nodes + topology.head
    pairs, of_link, count = np.unique(key, return_inverse=True, return_counts=True)
    return pairs, of_link, count


def _needed_offers(
    topology: Topology, offers: Offers
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The offers that links need as (pair of nodes, state), and how many links join each pair."""
    pairs, _, count = _pairs(topology)
    key = offers.tail * topology.num_nodes + offers.head
    wanted = np.isin(key, pairs)
    pair, state = np.searchsorted(pairs, key[wanted]), offers.state[wanted]
    # States of one switch exclude each other, so a switch counts once for a pair.
    once = np.unique(np.stack([pair, offers.switch[state]]), axis=1)
    num_switches = np.bincount(once[0], minlength=len(pairs))
    repeats = len(np.unique(offers.switch)) < offers.num_states
    short = np.flatnonzero((num_switches == 0) | (repeats & (num_switches < count)))
    if len(short):
        tail, head = divmod(int(pairs[short[0]]), topology.num_nodes)
        planes = int(num_switches[short[0]])
        raise InfeasibleError(
            Reason.STATES,
            f"no state offers a circuit from node {tail} to {head}"
            if not planes
            else f"{count[short[0]]} links lead from node {tail} to {head}, but the states of only "
            f"{planes} switches offer a circuit there",
        )
    return pair, state, count


def _places(topology: Topology, offers: Offers, states: NDArray[np.int64]) -> NDArray[np.int32]:
    """For every link the place in ``states`` of one that offers it, each place once a pair."""
    pairs, of_link, _ = _pairs(topology)
    places: list[list[int]] = [[] for _ in pairs]
    for place, state in enumerate(states):
        mine = offers.state == state
        key = offers.tail[mine] * topology.num_nodes + offers.head[mine]
        for number in np.searchsorted(pairs, key[np.isin(key, pairs)]):
            places[number].append(place)
    taken = [iter(at) for at in places]
    return np.array([next(taken[number]) for number in of_link], dtype=np.int32)
