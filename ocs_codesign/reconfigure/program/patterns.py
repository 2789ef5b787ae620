"""Collectives whose every step has the circuits that it wants: direct all-to-all, halving/doubling.

* Direct: N - 1 shifts of the nodes, d at a time; every piece crosses one circuit.
* Recursive halving and doubling, N = 2^k: node v exchanges with v xor 2^b, one bit b after the
  other, the half of what it is still responsible for (reduce-scatter), then the same way back
  (allgather). Data is cut into a part a plane, and every part takes the bits in an order shifted by
  one against the one before: d planes hold d bits at a time, and from step to step one plane
  changes. Source: R. Thakur, R. Rabenseifner, W. Gropp (2005), Optimization of collective
  communication operations in MPICH.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.collective import Collective
from ocs_codesign.reconfigure.program.layers import Programmed
from ocs_codesign.reconfigure.program.wiring import DARK, check_table, wire
from ocs_codesign.schedule import Schedule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.reconfigure.program.wiring import Wired

MAX_SENDS = 50_000_000
"""Largest schedule that is made: 1 GB of columns."""


def direct_alltoall(num_nodes: int, num_planes: int = 1) -> Programmed:
    """All-to-all over direct circuits only: t_b = (N - 1) / N, the least that d ports can have.

    In every configuration each plane shifts all nodes by its own offset. If the last offsets are
    fewer than planes, they share them in steps of which each changes some planes: with r offsets
    over d planes and g = gcd(r, d), r / g steps, pieces cut into d / g chunks. Raises ValueError
    for fewer than two nodes or one plane, and if the program is too large.

    >>> made = direct_alltoall(8, 2)
    >>> [str(load) for load in made.schedule.max_loads()]
    ['1', '1', '1', '1/2']
    """
    _check_sizes(num_nodes, num_planes)
    whole, rest = divmod(num_nodes - 1, num_planes)
    common = gcd(rest, num_planes)
    shared, chunks = (rest // common, num_planes // common) if rest else (0, 1)
    steps = whole + shared
    check_table(steps, num_planes, num_nodes)
    _check_sends(steps * num_planes * num_nodes)
    # The last offsets stand in a line, chunk after chunk; plane after plane takes equal parts.
    unit = np.arange(num_planes * shared).reshape(num_planes, shared).T
    offset = np.concatenate(
        [
            1 + np.arange(whole * num_planes).reshape(whole, num_planes),
            1 + whole * num_planes + unit // chunks,
        ]
    )
    lo = np.concatenate([np.zeros((whole, num_planes), dtype=np.int64), unit % chunks])
    hi = np.concatenate([np.full((whole, num_planes), chunks), unit % chunks + 1])
    node = np.arange(num_nodes)
    target = ((node + offset[:, :, None]) % num_nodes).astype(np.int32)
    wired = wire(target)
    columns = np.broadcast_arrays(
        node,
        target.astype(np.int64) * chunks + lo[:, :, None],
        target.astype(np.int64) * chunks + hi[:, :, None],
        wired.link,
        np.arange(1, steps + 1)[:, None, None],
    )
    schedule = Schedule(
        wired.program.topology,
        Collective.ALLTOALL,
        num_nodes * chunks,
        *(column.ravel() for column in columns),
    )
    return Programmed(wired.program, schedule, ())


def halving_doubling(
    num_nodes: int,
    num_planes: int = 1,
    collective: Collective | str = Collective.ALLREDUCE,
    *,
    overlap: bool = False,
) -> Programmed:
    """Recursive halving, doubling, or both, over pairings that planes take turns to hold.

    All planes send in every step, and one changes between two: t_b is the least there is,
    2 (N - 1) / N for an allreduce. With ``overlap`` one plane fewer sends; in every step the one
    that is free makes its next pairing, so that nothing waits for it: t_b is d / (d - 1) times as
    large. No plane changes if d is a multiple of log2 N. Raises ValueError unless N is a power of
    two, for an all-to-all, for overlap on one plane, and if the program is too large.

    >>> made = halving_doubling(8, 2)
    >>> [str(load) for load in made.schedule.max_loads()]
    ['2', '1', '1/2', '1/2', '1', '2']
    >>> made.program.pauses.tolist()
    [2, 3, 5, 6]
    """
    _check_sizes(num_nodes, num_planes)
    collective = Collective.parse_gathering(collective)
    if num_nodes & (num_nodes - 1):
        raise ValueError(f"{num_nodes} nodes: halving and doubling needs a power of two")
    if overlap and num_planes < 2:
        raise ValueError("overlap needs a second plane: one changes while others send")
    pairing = _Pairings.of(num_nodes, num_planes, overlap)
    halves = 1 + (collective == Collective.ALLREDUCE)
    _check_sends(halves * num_nodes * (num_nodes - 1) * pairing.parts)
    held = pairing.held
    if collective == Collective.ALLREDUCE:
        held = np.concatenate([held, held[::-1]])
    elif collective == Collective.ALLGATHER:
        held = held[::-1]
    check_table(len(held), num_planes, num_nodes)
    node = np.arange(num_nodes, dtype=np.int32)
    partner = node ^ (1 << np.maximum(held, 0)).astype(np.int32)[:, :, None]
    wired = wire(np.where(held[:, :, None] == DARK, DARK, partner))
    return Programmed(wired.program, _exchanges(collective, pairing, wired), ())


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Pairings:
    """Which bit's pairing planes hold in the steps of the reduce-scatter, and for which part.

    ``held[step, plane]`` is a bit or DARK. In a step part j takes ``bit[step, j]`` over
    ``plane[step, j]``.
    """

    held: NDArray[np.int64]
    bit: NDArray[np.int64]
    plane: NDArray[np.int64]

    @property
    def parts(self) -> int:
        """Parts that data is cut into."""
        return int(self.bit.shape[1])

    @classmethod
    def of(cls, num_nodes: int, num_planes: int, overlap: bool) -> _Pairings:
        """Step i uses turns i .. i + parts - 1, turn t being bit log2 N - 1 - t modulo log2 N."""
        bits = num_nodes.bit_length() - 1
        parts = num_planes - overlap
        turn = np.arange(num_planes)
        held, plane = np.empty((2, bits, num_planes), dtype=np.int64)
        for step in range(bits):
            is_free = turn < step
            held[step] = turn
            plane[step] = np.lexsort((turn, is_free))
            if overlap and step < bits - 1 and num_planes % bits:
                # What is free makes the turn that the next step needs. In the last step it keeps
                # the one it had: the way back begins there.
                held[step, is_free] = DARK
            turn = np.where(is_free if overlap else turn == step, step + parts, turn)
        turns = np.arange(bits)[:, None] + np.arange(parts)
        bit_of = bits - 1 - held % bits
        return cls(np.where(held < 0, DARK, bit_of), bits - 1 - turns % bits, plane[:, :parts])


def _exchanges(collective: Collective, pairing: _Pairings, wired: Wired) -> Schedule:
    """The sends of the reduce-scatter, of the allgather that is its mirror image, or of both."""
    nodes, steps = wired.link.shape[2], len(pairing.held)
    every = np.arange(nodes, dtype=np.int32)
    rows = []
    for step in range(steps):
        for part in range(pairing.parts):
            bit, plane = 1 << int(pairing.bit[step, part]), pairing.plane[step, part]
            settled = int(np.bitwise_or.reduce(1 << pairing.bit[:step, part], initial=0))
            partner = every ^ bit
            # A node passes on what it is still responsible for and its partner will be.
            others = every[(every & (settled | bit)) == 0]
            root = ((every & settled) | (partner & bit))[:, None] | others
            sender, mate = (np.repeat(ends, len(others)) for ends in (every, partner))
            same = (np.full(root.size, value, dtype=np.int32) for value in (part, step, plane))
            rows.append(np.stack([root.ravel(), sender, mate, *same]))
    roots, sender, mate, parts, turn, plane = np.concatenate(rows, axis=1)
    halves = []
    if collective != Collective.ALLGATHER:
        halves.append((turn, wired.link[turn, plane, sender]))
    if collective != Collective.REDUCE_SCATTER:
        back = len(wired.link) - 1 - turn
        halves.append((back, wired.link[back, plane, mate]))
    phase = np.repeat([0, 1], len(roots)) if len(halves) == 2 else None
    at, link = (np.concatenate(column) for column in zip(*halves, strict=True))
    roots, parts = (np.tile(column, len(halves)) for column in (roots, parts))
    return Schedule(
        wired.program.topology,
        collective,
        pairing.parts,
        roots,
        parts,
        parts + 1,
        link,
        at + 1,
        phase,
    )


def _check_sizes(num_nodes: int, num_planes: int) -> None:
    if num_nodes < 2:
        raise ValueError(f"{num_nodes} nodes: a collective needs at least two")
    if num_planes < 1:
        raise ValueError(f"{num_planes} planes: at least one is needed")


def _check_sends(sends: int) -> None:
    if sends > MAX_SENDS:
        raise ValueError(f"a schedule of {sends:,} sends: at most {MAX_SENDS:,} are made")
