"""Classic algorithms over circuits that every step wants: direct all-to-all, halving and doubling.

* Direct: the N - 1 steps of ``shift``, d at a time; every piece crosses one circuit.
* Halving and doubling, N = 2^k: data is cut into a part a plane, and every part takes the exchanges
  of ``recursive-doubling`` in an order shifted by one against the part before: as the same steps on
  nodes whose bits are rotated. So d planes hold d exchanges at a time, and from step to step one
  plane changes.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.collective import Collective
from ocs_codesign.reconfigure.program.designs import ProgramDesign, verified_program
from ocs_codesign.reconfigure.program.wiring import DARK, check_table, wire
from ocs_codesign.schedule import Schedule
from ocs_codesign.schedulers.classic.registry import CLASSIC

if TYPE_CHECKING:
    from numpy.typing import NDArray

DIRECT, HALVING_DOUBLING = "direct", "halving-doubling"
MAX_SENDS = 2**20
"""Largest schedule that is made, priced and verified: some ten seconds."""


def build_direct(num_nodes: int, num_planes: int = 1) -> ProgramDesign:
    """All-to-all over direct circuits only: t_b = (N - 1) / N, the least that d ports can have.

    In every configuration each plane shifts all nodes by its own offset. If the last offsets are
    fewer than planes, they share them in steps of which each changes some planes: with r offsets
    over d planes and g = gcd(r, d), r / g steps, pieces cut into d / g chunks. Raises ValueError
    for fewer than two nodes or one plane, and if the program is too large.

    >>> build_direct(8).cost
    Cost(steps=7, t_b=Fraction(7, 8))
    >>> [str(load) for load in build_direct(8, 2).schedule.max_loads()]
    ['1', '1', '1', '1/2']
    """
    _check_sizes(num_nodes, num_planes)
    whole, rest = divmod(num_nodes - 1, num_planes)
    common = gcd(rest, num_planes)
    shared, chunks = (rest // common, num_planes // common) if rest else (0, 1)
    steps = whole + shared
    check_table(steps, num_planes, num_nodes)
    _check_sends(steps * num_planes * num_nodes)
    # The last exchanges stand in a line, chunk after chunk; plane after plane takes equal parts.
    unit = np.arange(num_planes * shared).reshape(num_planes, shared).T
    full = np.arange(whole * num_planes).reshape(whole, num_planes)
    exchange = np.concatenate([full, whole * num_planes + unit // chunks])
    lo = np.concatenate([np.zeros_like(full), unit % chunks])[:, :, None]
    hi = np.concatenate([np.full_like(full, chunks), unit % chunks + 1])[:, :, None]
    peers = [
        step.target[:, 0].astype(np.int32)
        for step in CLASSIC["shift"].pattern("alltoall", num_nodes).steps
    ]
    target = np.stack(peers)[exchange]
    wired = wire(target)
    first = target.astype(np.int64) * chunks
    step = np.arange(1, steps + 1)[:, None, None]
    columns = np.broadcast_arrays(np.arange(num_nodes), first + lo, first + hi, wired.link, step)
    schedule = Schedule(
        wired.program.topology,
        Collective.ALLTOALL,
        num_nodes * chunks,
        *(column.ravel() for column in columns),
    )
    return verified_program(wired.program, schedule, DIRECT)


def build_halving_doubling(
    num_nodes: int,
    num_planes: int = 1,
    collective: Collective | str = Collective.ALLREDUCE,
    *,
    overlap: bool = False,
) -> ProgramDesign:
    """Recursive halving, doubling, or both, over pairings that planes take turns to hold.

    All planes send in every step, and one changes between two: t_b is the least there is,
    2 (N - 1) / N for an allreduce. With ``overlap`` one plane fewer sends; in every step the one
    that is free makes its next pairing, so that nothing waits for it: t_b is d / (d - 1) times as
    large. No plane changes if d is a multiple of log2 N. Raises ValueError unless N is a power of
    two, for an all-to-all, for overlap on one plane, and if the program is too large.

    >>> design = build_halving_doubling(8, 2)
    >>> design.cost, [str(load) for load in design.schedule.max_loads()]
    (Cost(steps=6, t_b=Fraction(7, 4)), ['2', '1', '1/2', '1/2', '1', '2'])
    >>> design.program.pauses.tolist()
    [2, 3, 5, 6]
    """
    _check_sizes(num_nodes, num_planes)
    collective = Collective.parse_gathering(collective)
    if overlap and num_planes < 2:
        raise ValueError("overlap needs a second plane: one changes while others send")
    parts, bits = num_planes - overlap, num_nodes.bit_length() - 1
    halves = 1 + (collective == Collective.ALLREDUCE)
    _check_sends(halves * num_nodes * (num_nodes - 1) * parts)
    order = [*range(bits), *reversed(range(bits))]  # of the turns that steps take
    if collective != Collective.ALLREDUCE:
        order = order[:bits] if collective == Collective.REDUCE_SCATTER else order[bits:]
    check_table(len(order), num_planes, num_nodes)
    exchanges = (
        CLASSIC["recursive-doubling"].pattern(collective.name, num_nodes, first="near").steps
    )
    held, plane = _turns(bits, num_planes, overlap)
    node = np.arange(num_nodes, dtype=np.int32)
    partner = node ^ (1 << (bits - 1 - held[order] % bits)).astype(np.int32)[:, :, None]
    wired = wire(np.where(held[order][:, :, None] == DARK, DARK, partner))
    rows = []
    for at, step in enumerate(exchanges):
        for part in range(parts):
            rotated = _rotated(node, part, bits)
            owner = np.sort(rotated[step.item[step.source[:, 0].argsort()]], axis=1)
            sender = np.repeat(rotated, owner.shape[1])
            link = wired.link[at, plane[order[at], part], sender]
            same = np.array([[part], [at + 1], [not step.adds]], dtype=np.int32)
            rows.append(np.stack([owner.ravel(), link, *np.repeat(same, len(link), axis=1)]))
    root, link, lo, turn, phase = np.concatenate(rows, axis=1)
    columns = [root, lo, lo + 1, link, turn, *[phase] * (halves == 2)]
    schedule = Schedule(wired.program.topology, collective, parts, *columns)
    return verified_program(wired.program, schedule, HALVING_DOUBLING)


def _turns(
    bits: int, num_planes: int, overlap: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The turns that planes hold in the steps of a reduce-scatter, or DARK; the planes of parts.

    Step i uses turns i .. i + parts - 1, turn t exchanging bit log2 N - 1 - t modulo log2 N; part j
    goes over ``plane[step, j]``.
    """
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
    return held, plane


def _rotated(node: NDArray[np.int32], places: int, bits: int) -> NDArray[np.int32]:
    """Nodes with the lowest bits of their numbers moved to the top."""
    places %= bits
    return (node >> places) | ((node & ((1 << places) - 1)) << (bits - places))


def _check_sizes(num_nodes: int, num_planes: int) -> None:
    if num_nodes < 2:
        raise ValueError(f"{num_nodes} nodes: a collective needs at least two")
    if num_planes < 1:
        raise ValueError(f"{num_planes} planes: at least one is needed")


def _check_sends(sends: int) -> None:
    if sends > MAX_SENDS:
        raise ValueError(f"a schedule of {sends:,} sends: at most {MAX_SENDS:,} are made")
