"""Planes of switches that are in one of listed states, as rotors and gratings are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.infeasible import InfeasibleError, Reason
from ocs_codesign.fabric.planes import (
    Certificate,
    Planes,
    Proof,
    check_equal_speeds,
    degree_certificate,
    one_way_circuits,
)
from ocs_codesign.lp import LinearProgram, Options, Status, solve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.topology import Topology

TIME_LIMIT_S = 60.0


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


@final
@dataclass(frozen=True, slots=True, eq=False)
class Need:
    """The pairs of nodes that links join (keys tail * N + head) and how many links join each."""

    pair: NDArray[np.int64]
    count: NDArray[np.int64]
    of_link: NDArray[np.int64]

    @staticmethod
    def of(topology: Topology) -> Need:
        """What a topology needs."""
        key = topology.tail.astype(np.int64) * topology.num_nodes + topology.head
        pair, of_link, count = np.unique(key, return_inverse=True, return_counts=True)
        return Need(pair, count, of_link)


def restricted_planes(topology: Topology, states: NDArray[np.int32] | None = None) -> Planes:
    """The fewest planes, each in one of ``states`` (states x N: where circuits lead, or -1).

    Circuits of a state that no link uses stay idle. Raises InfeasibleError (STATES) that names a
    link which no state offers, NOT_FOUND if the time is over, ValueError for states that are none.
    """
    check_equal_speeds(topology)
    heads = _checked(topology, states)
    state, tail = np.nonzero(heads >= 0)
    numbers = np.arange(len(heads))
    offers = Offers(tail, heads[state, tail].astype(np.int64), state, numbers, numbers)
    need = Need.of(topology)
    chosen, proven = _fewest(topology, offers, need)
    plane = _planes_of_links(topology, offers, need, np.repeat(numbers, chosen))
    certificate = degree_certificate(topology, PortModel.RESTRICTED)
    if proven > certificate.num_planes:
        sentence = f"an integer program proves that no {proven - 1} of {len(heads)} states hold all"
        certificate = Certificate(proven, Proof.SEARCH, (), sentence)
    return Planes(
        PortModel.RESTRICTED,
        topology,
        one_way_circuits(topology),
        plane,
        int(chosen.sum()),
        certificate,
    )


def choose_states(topology: Topology, offers: Offers) -> NDArray[np.int64]:
    """One state a switch (its number, by switch) such that all links of a topology are offered.

    Switches that no link needs are in the state of lowest number. Raises InfeasibleError: STATES
    with the link that is not offered, or if no choice offers all at once; NOT_FOUND.
    """
    need = Need.of(topology)
    matrix = _offer_matrix(topology, offers, need)
    switches = np.unique(offers.switch)
    one = np.searchsorted(switches, offers.switch)
    program = _program(
        matrix,
        need.count,
        np.arange(offers.num_states, dtype=float) / max(offers.num_states, 1),
        np.ones(offers.num_states),
        one,
        len(switches),
    )
    solution = solve(program, options=Options(time_limit_s=TIME_LIMIT_S)).taken()
    if solution.status is Status.INFEASIBLE:
        raise InfeasibleError(
            Reason.STATES,
            f"no choice of one state for each of {len(switches)} switches offers all "
            f"{topology.num_links} links at once",
        )
    if solution.values is None or program.violation(np.rint(solution.values)) > 0:
        raise InfeasibleError(Reason.NOT_FOUND, f"choosing switch states: {solution.message}")
    return np.flatnonzero(np.rint(solution.values) == 1)


def planes_of_links(
    topology: Topology, offers: Offers, states: NDArray[np.int64]
) -> NDArray[np.int32]:
    """The plane of every link, parallel ones in the order of their planes, for chosen states."""
    place = _planes_of_links(topology, offers, Need.of(topology), states)
    return offers.plane[states][place].astype(np.int32)


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
    for number, row in enumerate(heads):
        used = row[row >= 0]
        if len(np.unique(used)) < len(used):
            raise ValueError(f"state {number} leads to one node twice: it joins each once")
    return heads.astype(np.int64)


def _offer_matrix(
    topology: Topology, offers: Offers, need: Need
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows (pairs that links need) and columns (states) of the offers that are needed."""
    key = offers.tail * topology.num_nodes + offers.head
    place = np.searchsorted(need.pair, key)
    place[place == len(need.pair)] = 0
    wanted = need.pair[place] == key if len(need.pair) else np.zeros(len(key), dtype=bool)
    row, column = place[wanted], offers.state[wanted]
    # States of one switch exclude each other, so a switch counts once for a pair.
    by_switch = np.unique(row * (offers.switch.max(initial=0) + 1) + offers.switch[column])
    most = np.bincount(by_switch // (offers.switch.max(initial=0) + 1), minlength=len(need.pair))
    offered = np.bincount(row, minlength=len(need.pair)) > 0
    repeats = len(np.unique(offers.switch)) < offers.num_states
    short = np.flatnonzero(~offered | (repeats & (most < need.count)))
    if len(short):
        tail, head = divmod(int(need.pair[short[0]]), topology.num_nodes)
        links, planes = int(need.count[short[0]]), int(most[short[0]])
        raise InfeasibleError(
            Reason.STATES,
            f"no state offers a circuit from node {tail} to {head}"
            if not planes
            else f"{links} links lead from node {tail} to {head}, but the states of only {planes} "
            f"switches offer a circuit there",
        )
    return row, column


def _program(
    matrix: tuple[NDArray[np.int64], NDArray[np.int64]],
    count: NDArray[np.int64],
    cost: NDArray[np.float64],
    upper: NDArray[np.float64],
    group: NDArray[np.int64] | None,
    num_groups: int,
) -> LinearProgram:
    from scipy.sparse import csr_matrix

    row, column = matrix
    if group is not None:
        row = np.concatenate([row, len(count) + group])
        column = np.concatenate([column, np.arange(len(cost))])
    shape = (len(count) + num_groups, len(cost))
    a = csr_matrix((np.ones(len(row)), (row, column)), shape=shape)
    ones = np.ones(num_groups)
    return LinearProgram(
        cost,
        a.indptr.astype(np.int64),
        a.indices.astype(np.int64),
        a.data,
        np.concatenate([count.astype(float), ones]),
        np.concatenate([np.full(len(count), np.inf), ones]),
        np.zeros(len(cost)),
        upper,
        np.ones(len(cost), dtype=bool),
    )


def _fewest(topology: Topology, offers: Offers, need: Need) -> tuple[NDArray[np.int64], int]:
    """How often each state is used, in the fewest planes, and how many planes are proven needed."""
    matrix = _offer_matrix(topology, offers, need)
    most = np.full(offers.num_states, float(need.count.max(initial=0)))
    program = _program(matrix, need.count, np.ones(offers.num_states), most, None, 0)
    solution = solve(program, options=Options(time_limit_s=TIME_LIMIT_S)).taken()
    if solution.values is None or program.violation(np.rint(solution.values)) > 0:
        raise InfeasibleError(Reason.NOT_FOUND, f"choosing switch states: {solution.message}")
    chosen = np.rint(solution.values).astype(np.int64)
    if solution.status is Status.OPTIMAL:
        return chosen, int(chosen.sum())
    return chosen, int(np.ceil((solution.bound or 0.0) - 1e-6))


def _planes_of_links(
    topology: Topology, offers: Offers, need: Need, states: NDArray[np.int64]
) -> NDArray[np.int32]:
    """For every link the place in ``states`` of one that offers it, each place once a pair."""
    place_of_pair: list[list[int]] = [[] for _ in need.pair]
    wanted = {int(key): number for number, key in enumerate(need.pair)}
    for place, state in enumerate(states):
        mine = offers.state == state
        for key in offers.tail[mine] * topology.num_nodes + offers.head[mine]:
            number = wanted.get(int(key))
            if number is not None:
                place_of_pair[number].append(place)
    taken = [iter(places) for places in place_of_pair]
    return np.array([next(taken[number]) for number in need.of_link], dtype=np.int32)
