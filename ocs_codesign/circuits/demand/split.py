"""Ports of servers divided between circuits that stay and a packet network, for a demand matrix.

A circuit takes a port of both its ends and carries so much each way; what pairs have beyond their
circuits goes over the packet network, into and out of which every server has so much. Of T = 1/x
the greatest x is an integer program in the numbers of circuits; of given circuits T is exact: what
a server sends, or gets, takes as long as that part which has least width, packet ports included.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from ocs_codesign.circuits.demand.matrix import DemandMatrix
from ocs_codesign.circuits.legs.plan import LegPlan, LegProblem, plan_legs, price_plan
from ocs_codesign.circuits.legs.trace import static_plan
from ocs_codesign.circuits.planes.uses import ProgramRows
from ocs_codesign.core.lp import Options, Status, solve
from ocs_codesign.core.progress import counted
from ocs_codesign.core.proven import Proven

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MAX_SERVERS = 64
_GAP = 1e-9
_CLOSE = Fraction(1, 10**5)
"""What solvers tell an optimum and its bound apart by, and more."""
_NODE_LIMIT = 20_000


@final
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PortSplit(Proven["Fraction | None"]):
    """Circuits beside packets and the least time, in seconds; None where some pair has no way.

    ``circuits`` (int64, servers x servers, symmetric) are how many join two servers, of the
    ``circuit_ports`` that each has, ``packet_ports`` being the others; ``greedy_s`` is what the
    circuits take that go one by one where most is left for each.
    """

    circuits: NDArray[np.int64]
    circuit_ports: int
    packet_ports: int
    greedy_s: Fraction | None


def port_splits(
    demand: DemandMatrix,
    ports: int,
    circuit_Bps: Fraction,  # noqa: N803 - units keep their case
    packet_Bps: Fraction,  # noqa: N803 - units keep their case
    options: Options | None = None,
) -> list[PortSplit]:
    """The best circuits of every division of a server's ports, from none of them to all.

    A port is a circuit of ``circuit_Bps`` each way, or ``packet_Bps`` into and out of the packet
    network, that blocks nothing else. Raises ValueError for more than MAX_SERVERS servers.

    >>> from ocs_codesign.circuits.demand.matrix import DemandMatrix
    >>> demand = DemandMatrix([[0, 4, 1], [4, 0, 1], [1, 1, 0]])
    >>> [str(one.value) for one in port_splits(demand, 2, Fraction(4), Fraction(1))]
    ['5/2', '2', '1']
    """
    if demand.num_nodes > MAX_SERVERS:
        raise ValueError(f"{demand.num_nodes} servers: ports are divided for {MAX_SERVERS} at most")
    if ports < 1 or circuit_Bps <= 0 or packet_Bps <= 0:
        raise ValueError("a server has a port or more, and ports have a bandwidth above 0")
    found = []
    for used in counted(range(ports + 1)):
        packet = (ports - used) * packet_Bps
        found.append(_split(demand, used, ports - used, circuit_Bps, packet, options))
    return found


def circuits_beside(
    demand: DemandMatrix,
    circuit_ports: int,
    circuit_Bps: Fraction,  # noqa: N803 - units keep their case
    packet_Bps: Fraction,  # noqa: N803 - units keep their case
    options: Options | None = None,
) -> PortSplit:
    """The best circuits of so many ports a server beside packet ports of ``packet_Bps`` in all."""
    return _split(demand, circuit_ports, 0, circuit_Bps, packet_Bps, options)


class ChangingCircuits(NamedTuple):
    """Circuits beside packets for demands that come one after the other, in seconds.

    ``circuits`` were tried: the best of every demand, and of all together. ``plan`` holds those in
    every step that take least with the changes, ``held`` never changes, ``every`` has each demand's
    own; either is None where it leaves some pair no way. Whatever circuits there are and changes
    take, it is ``least_s`` at least.
    """

    circuits: tuple[NDArray[np.int64], ...]
    plan: LegPlan
    held: LegPlan | None
    every: LegPlan | None
    least_s: Fraction


def changing_circuits(
    demands: Sequence[DemandMatrix],
    circuit_ports: int,
    circuit_Bps: Fraction,  # noqa: N803 - units keep their case
    packet_Bps: Fraction,  # noqa: N803 - units keep their case
    delta_s: Fraction,
    options: Options | None = None,
) -> ChangingCircuits:
    """When to change circuits of so many ports a server as layers or iterations go by.

    In the time ``delta_s`` of a change nothing is sent; the first circuits are there. Beside them
    are packet ports of ``packet_Bps`` in all. Raises ValueError for demands of other servers, and
    where a step leaves some pair no way whatever is tried.

    >>> there, back = DemandMatrix([[0, 8, 1], [0, 0, 1], [1, 0, 0]]), DemandMatrix(
    ...     [[0, 1, 8], [1, 0, 0], [0, 1, 0]]
    ... )
    >>> four, one, three = (Fraction(each) for each in (4, 1, 3))
    >>> found = changing_circuits([there, there, back, back], 1, four, one, three)
    >>> found.plan.num_switches, str(found.plan.total), str(found.held.total)
    (1, '11', '20')
    """
    if len({demand.num_nodes for demand in demands}) != 1:
        raise ValueError("circuits change for a demand or more, all of the same servers")
    units = sum(demand.units * demand.unit_bytes for demand in demands)
    given = circuit_ports, circuit_Bps, packet_Bps, options
    best = [circuits_beside(one, *given) for one in counted([*demands, DemandMatrix(units)])]
    tried = {split.circuits.tobytes(): split.circuits for split in best}
    costs: NDArray[Any] = np.full((len(demands), len(tried)), np.inf, dtype=object)
    for row, demand in enumerate(demands):
        wanted = demand.units.copy()
        np.fill_diagonal(wanted, 0)
        widths = circuit_Bps / demand.unit_bytes, packet_Bps / demand.unit_bytes
        for column, circuits in enumerate(tried.values()):
            time_s = time_of(wanted, circuits, *widths)
            costs[row, column] = np.inf if time_s is None else time_s
    problem, every = LegProblem(costs, delta_s, first=0), None
    own = [list(tried).index(split.circuits.tobytes()) for split in best[:-1]]
    if all(split.value is not None for split in best[:-1]):
        every = price_plan(problem, own)
    least = sum((split.bound for split in best[:-1]), Fraction(0))
    tables = tuple(tried.values())
    return ChangingCircuits(tables, plan_legs(problem), static_plan(problem), every, least)


def _split(
    demand: DemandMatrix,
    circuit_ports: int,
    packet_ports: int,
    circuit: Fraction,
    packet: Fraction,
    options: Options | None,
) -> PortSplit:
    wanted = demand.units.copy()
    np.fill_diagonal(wanted, 0)
    unit = demand.unit_bytes
    widths = circuit / unit, packet / unit
    greedy = _greedy(wanted, circuit_ports)
    best, value = greedy, time_of(wanted, greedy, *widths)
    bound, stopped, proof = _least(wanted, circuit_ports, *widths), None, "ports of a server"
    if circuit_ports and value != bound:
        solved = _solved(wanted, circuit_ports, *widths, options or Options())
        taken = None if solved[0] is None else time_of(wanted, solved[0], *widths)
        if solved[0] is not None and taken is not None and (value is None or taken < value):
            best, value = solved[0], taken
        bound, stopped, proof = max(bound, solved[1]), solved[2], "branch and bound, to 1e-5"
    if value is not None and bound >= value * (1 - _CLOSE):
        bound, stopped = value, None
    return PortSplit(
        value,
        bound,
        proof,
        stopped,
        circuits=best,
        circuit_ports=circuit_ports,
        packet_ports=packet_ports,
        greedy_s=time_of(wanted, greedy, *widths),
    )


def time_of(
    wanted: NDArray[np.object_], circuits: NDArray[np.int64], circuit: Fraction, packet: Fraction
) -> Fraction | None:
    """What given circuits take beside packets, exactly; None where something has no way.

    Of what a server sends, or gets, that part is slowest which has most for its circuits.
    """
    slowest = Fraction(0)
    for rows, counts in ((wanted, circuits), (wanted.T, circuits.T)):
        for row, own in zip(rows.tolist(), counts.tolist(), strict=True):
            pairs = [(size, count) for size, count in zip(row, own, strict=True) if size]
            pairs.sort(key=lambda one: (one[1] > 0, -one[0] / max(one[1], 1)))
            size, width = 0, packet
            for each, count in pairs:
                size, width = size + each, width + circuit * count
                if not width:
                    return None
                slowest = max(slowest, size / width)
    return slowest


def _least(
    wanted: NDArray[np.object_], circuit_ports: int, circuit: Fraction, packet: Fraction
) -> Fraction:
    """What all ports of the busiest server take at least."""
    width = circuit * circuit_ports + packet
    busiest = max(int(wanted.sum(axis=axis).max()) for axis in (0, 1))
    return busiest / width if width else Fraction(0)


def _greedy(wanted: NDArray[np.object_], circuit_ports: int) -> NDArray[np.int64]:
    """Circuits one by one where the larger way has most for each that is there and half a one."""
    servers = len(wanted)
    most = np.maximum(wanted, wanted.T).astype(float)
    circuits = np.zeros((servers, servers), dtype=np.int64)
    left = np.full(servers, circuit_ports)
    while True:
        gain = np.where((left[:, None] > 0) & (left[None, :] > 0), most / (circuits + 0.5), 0.0)
        one, other = divmod(int(np.argmax(gain)), servers)
        if gain[one, other] <= 0:
            return circuits
        circuits[one, other] += 1
        circuits[other, one] += 1
        left[[one, other]] -= 1


def _solved(
    wanted: NDArray[np.object_],
    circuit_ports: int,
    circuit: Fraction,
    packet: Fraction,
    options: Options,
) -> tuple[NDArray[np.int64] | None, Fraction, str | None]:
    """Circuits of the greatest x, the time that the solver proves, and what stopped it."""
    servers, rows = len(wanted), ProgramRows()
    scale = _least(wanted, circuit_ports, circuit, packet)
    rate = rows.column(-1.0)
    joined = {
        (one, other): rows.column(upper=circuit_ports, integer=True)
        for one in range(servers)
        for other in range(one + 1, servers)
        if wanted[one, other] or wanted[other, one]
    }
    # In units of what all ports of a server carry, and x times the least time that they take.
    width = float(circuit / (circuit * circuit_ports + packet))
    packets: dict[tuple[int, int], int] = {}
    for source, target in np.argwhere(wanted > 0).tolist():
        size = float(wanted[source, target] / scale / (circuit * circuit_ports + packet))
        terms = [(rate, size), (joined[min(source, target), max(source, target)], -width)]
        if packet:
            packets[source, target] = rows.column()
            terms.append((packets[source, target], -1.0))
        rows.row(terms, upper=0.0)
    for server in range(servers):
        own = [column for pair, column in joined.items() if server in pair]
        rows.row([(column, 1.0) for column in own], upper=float(circuit_ports))
        for end in (0, 1):
            used = [column for pair, column in packets.items() if pair[end] == server]
            most = float(packet / (circuit * circuit_ports + packet))
            rows.row([(column, 1.0) for column in used], upper=most)
    limits = replace(options, relative_gap=options.relative_gap or _GAP)
    if limits.node_limit is None and limits.time_limit_s is None:
        limits = replace(limits, node_limit=_NODE_LIMIT)
    solution = solve(rows.program(), options=limits).taken()
    bound = Fraction(0)
    if solution.bound is not None and solution.bound < 0:
        bound = scale / Fraction(-solution.bound) * (1 - Fraction(1, 10**8))
    if solution.values is None:
        return None, bound, solution.message
    circuits = np.zeros((servers, servers), dtype=np.int64)
    for (one, other), column in joined.items():
        circuits[one, other] = circuits[other, one] = round(solution.values[column])
    stopped = None if solution.status is Status.OPTIMAL else solution.message
    return circuits, bound, stopped
