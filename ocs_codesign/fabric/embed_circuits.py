"""Circuits over laid cables: which planes can carry them, and the cross-connects that make them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.fabric.clos import trunking, ways
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.embed_cables import check_loss
from ocs_codesign.fabric.infeasible import InfeasibleError, Reason
from ocs_codesign.fabric.planes import NO_LINK, Planes, given_planes
from ocs_codesign.fabric.planes_restricted import Offers, choose_states, planes_of_links
from ocs_codesign.fabric.wiring import NOT_CABLED, Cabling, Configuration
from ocs_codesign.lp import LinearProgram, Options, Status, solve
from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from numpy.typing import NDArray

TIME_LIMIT_S = 60.0


def trunks_of(cabling: Cabling, plane: int) -> NDArray[np.int32]:
    """The trunks between switches of a plane, trunks x 4."""
    if not len(cabling.trunks):
        return cabling.trunks
    plane_of = np.array([switch.plane for switch in cabling.fabric.switches])
    mine: NDArray[np.int32] = cabling.trunks[plane_of[cabling.trunks[:, 0]] == plane]
    return mine


def can_carry(
    cabling: Cabling, plane: int, a_host: NDArray[np.int32], b_host: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """Whether a plane's cables let light from each first host's A strand to the second's B strand.

    In a plane without sides both are A strands. A plane whose loss is over the budget carries none.
    """
    staged = len(trunks_of(cabling, plane)) > 0
    try:
        check_loss(cabling.fabric, plane, 3 if staged else 1)
    except InfeasibleError:
        return np.zeros(len(a_host), dtype=bool)
    sided = cabling.fabric.port_model(plane).has_b_side
    from_switch = cabling.a_switch[a_host, plane]
    to_switch = (cabling.b_switch if sided else cabling.a_switch)[b_host, plane]
    cabled = (from_switch != NOT_CABLED) & (to_switch != NOT_CABLED)
    fits: NDArray[np.bool_] = cabled & (staged | (from_switch == to_switch))
    return fits


def fit_to_cables(cabling: Cabling, planes: Planes, host: NDArray[np.int32]) -> Planes:
    """The circuits in planes whose cables carry them: as they are, else by an integer program.

    Raises InfeasibleError: CABLING with a link that no plane carries or if no choice of planes
    carries all links at once, NOT_FOUND if the program's time is over.
    """
    num_planes = cabling.fabric.num_planes
    fits = _fitting(cabling, planes.link, planes, host)
    everyone = np.arange(planes.num_circuits)
    if planes.num_planes <= num_planes and fits[everyone, planes.plane].all():
        return planes
    links, options = [planes.link], [fits]
    if planes.port_model is PortModel.TWO_SIDED:
        # A two-way circuit may be turned, so that its ends change sides.
        two_way = planes.link[:, 1] != NO_LINK
        links.append(np.where(two_way[:, None], planes.link[:, ::-1], planes.link))
        turned = _fitting(cabling, links[1], planes, host)
        options.append(turned & two_way[:, None])
    allowed = np.stack(options, axis=1)
    lost = np.flatnonzero(~allowed.any(axis=(1, 2)))
    if len(lost):
        link = int(planes.link[lost[0], 0])
        topology = planes.topology
        names = [cabling.fabric.hosts[host[end[link]]] for end in (topology.tail, topology.head)]
        raise InfeasibleError(
            Reason.CABLING,
            f"link {link} from {names[0]} to {names[1]}: in no plane do the cables of both lead to "
            f"one switch or to three stages within the loss budget",
        )
    return _by_program(planes, links, allowed)


def _fitting(
    cabling: Cabling, link: NDArray[np.int32], planes: Planes, host: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """Whether each plane carries each circuit, circuits x planes."""
    a_host = host[planes.topology.tail[link[:, 0]]]
    b_host = host[planes.topology.head[link[:, 0]]]
    numbers = range(cabling.fabric.num_planes)
    return np.stack([can_carry(cabling, plane, a_host, b_host) for plane in numbers], axis=1)


def _by_program(
    planes: Planes, links: list[NDArray[np.int32]], allowed: NDArray[np.bool_]
) -> Planes:
    """One orientation and plane a circuit, at most one circuit a port and plane."""
    circuit, turn, plane = np.nonzero(allowed)
    chosen_link = np.stack(links, axis=1)[circuit, turn]
    ports = replace(planes, link=chosen_link, plane=plane.astype(np.int32)).ports()
    num_planes = allowed.shape[2]
    program = _program(planes.num_circuits, circuit, ports * num_planes + plane[:, None])
    solution = solve(program, options=Options(time_limit_s=TIME_LIMIT_S)).taken()
    if solution.status is Status.INFEASIBLE:
        raise InfeasibleError(
            Reason.CABLING,
            f"no choice of {num_planes} planes carries all {planes.num_circuits} circuits at once "
            f"on these cables (integer program)",
        )
    if solution.values is None or program.violation(np.rint(solution.values)) > 0:
        raise InfeasibleError(Reason.NOT_FOUND, f"fitting circuits to cables: {solution.message}")
    taken = np.flatnonzero(np.rint(solution.values) == 1)
    return replace(
        planes,
        link=chosen_link[taken],
        plane=plane[taken].astype(np.int32),
        num_planes=int(plane[taken].max(initial=-1)) + 1,
    )


def _program(
    num_circuits: int, circuit: NDArray[np.int64], ports: NDArray[np.int64]
) -> LinearProgram:
    from scipy.sparse import csr_matrix

    columns = len(circuit)
    port, row = np.unique(ports, return_inverse=True)
    rows = np.concatenate([circuit, num_circuits + row.reshape(ports.shape).T.ravel()])
    column = np.tile(np.arange(columns), 3)
    shape = (num_circuits + len(port), columns)
    a = csr_matrix((np.ones(len(rows)), (rows, column)), shape=shape)
    a.sum_duplicates()
    ones = np.ones(shape[0])
    lower = ones.copy()
    lower[num_circuits:] = -np.inf
    return LinearProgram(
        np.zeros(columns),
        a.indptr.astype(np.int64),
        a.indices.astype(np.int64),
        a.data,
        lower,
        ones,
        np.zeros(columns),
        np.ones(columns),
        np.ones(columns, dtype=bool),
    )


def fit_to_states(
    cabling: Cabling, topology: Topology, host: NDArray[np.int32], plane: NDArray[np.int32] | None
) -> Planes:
    """The links in planes whose switches have states that offer them over these cables.

    ``plane`` (one number a link) asks for these planes. Raises InfeasibleError (STATES, NOT_FOUND).
    """
    offers = offers_of(cabling, host)
    if plane is None:
        return given_planes(
            topology,
            PortModel.RESTRICTED,
            planes_of_links(topology, offers, choose_states(topology, offers)),
        )
    for number in np.unique(plane):
        links = np.flatnonzero(plane == number)
        part = Topology(topology.num_nodes, topology.tail[links], topology.head[links])
        kept = np.flatnonzero(offers.plane == number)
        mine = np.isin(offers.state, kept)
        place = np.searchsorted(kept, offers.state[mine])
        choose_states(
            part,
            Offers(
                offers.tail[mine],
                offers.head[mine],
                place,
                offers.switch[kept],
                offers.plane[kept],
            ),
        )
    return given_planes(topology, PortModel.RESTRICTED, plane)


def offers_of(cabling: Cabling, host: NDArray[np.int32]) -> Offers:
    """The links between nodes that every state of every restricted switch offers."""
    tails, heads, states, switches, planes = [], [], [], [], []
    count = 0
    for number, switch in enumerate(cabling.fabric.switches):
        if switch.states is None:
            raise ValueError(
                f"switch {switch.name} lists no states: a restricted switch needs them"
            )
        listed = np.asarray(switch.states)
        node_at = [np.full(switch.num_ports + 1, -1, dtype=np.int64) for _ in "AB"]
        for nodes, at, port in (
            (node_at[0], cabling.a_switch, cabling.a_port),
            (node_at[1], cabling.b_switch, cabling.b_port),
        ):
            mine = np.flatnonzero(at[host, switch.plane] == number)
            nodes[port[host[mine], switch.plane]] = mine
        state, a_port = np.nonzero(listed)
        tail, head = node_at[0][a_port + 1], node_at[1][listed[state, a_port]]
        lit = (tail >= 0) & (head >= 0)
        tails.append(tail[lit])
        heads.append(head[lit])
        states.append(count + state[lit])
        switches.append(np.full(len(listed), number))
        planes.append(np.full(len(listed), switch.plane))
        count += len(listed)
    columns = (tails, heads, states, switches, planes)
    return Offers(*(np.concatenate(column).astype(np.int64) for column in columns))


def configured(
    name: str, cabling: Cabling, planes: Planes, host: NDArray[np.int32]
) -> Configuration:
    """The cross-connects that make the circuits; their planes' cables must carry them."""
    a_host, b_host = host[planes.a_node], host[planes.b_node]
    rows = [np.empty((0, 5), dtype=np.int64)]
    for plane in np.unique(planes.plane):
        mine = np.flatnonzero(planes.plane == plane)
        make = _staged_rows if len(trunks_of(cabling, int(plane))) else _direct_rows
        rows.append(make(cabling, int(plane), mine, a_host[mine], b_host[mine]))
    table = np.concatenate(rows)
    table = table[np.lexsort((table[:, 1], table[:, 0]))].astype(np.int32)
    circuit, _, switch, a_port, b_port = table.T
    return Configuration(
        name,
        cabling,
        planes.topology,
        host,
        planes.plane,
        planes.link,
        np.ascontiguousarray(circuit),
        np.ascontiguousarray(switch),
        np.ascontiguousarray(a_port),
        np.ascontiguousarray(b_port),
    )


def _direct_rows(
    cabling: Cabling,
    plane: int,
    circuit: NDArray[np.int64],
    a_host: NDArray[np.int32],
    b_host: NDArray[np.int32],
) -> NDArray[np.int64]:
    """Circuit, stage, switch, A port and B port of circuits through one switch each."""
    sided = cabling.fabric.port_model(plane).has_b_side
    b_port = cabling.b_port if sided else cabling.a_port
    columns = (
        circuit,
        0 * circuit,
        cabling.a_switch[a_host, plane],
        cabling.a_port[a_host, plane],
        b_port[b_host, plane],
    )
    return np.stack(columns, axis=1)


def _staged_rows(
    cabling: Cabling,
    plane: int,
    circuit: NDArray[np.int64],
    a_host: NDArray[np.int32],
    b_host: NDArray[np.int32],
) -> NDArray[np.int64]:
    """Circuit, stage, switch, A port and B port of circuits through three switches each."""
    cabled = cabling.a_switch[:, plane] != NOT_CABLED
    through = trunking(
        trunks_of(cabling, plane),
        cabling.a_switch[cabled, plane],
        cabling.b_switch[cabled, plane],
    )
    sender, receiver = cabling.a_switch[a_host, plane], cabling.b_switch[b_host, plane]
    out = np.searchsorted(through.senders, sender)
    into = np.searchsorted(through.receivers, receiver)
    edges = max(len(through.senders), len(through.receivers))
    way = ways(out, into, edges, len(through.middle))
    stages = (
        (sender, cabling.a_port[a_host, plane], through.sender_b[out, way]),
        (through.middle[way], through.middle_a[out, way], through.middle_b[into, way]),
        (receiver, through.receiver_a[into, way], cabling.b_port[b_host, plane]),
    )
    rows = [
        np.stack([circuit, np.full_like(circuit, stage), *ends], axis=1)
        for stage, ends in enumerate(stages)
    ]
    return np.concatenate(rows)
