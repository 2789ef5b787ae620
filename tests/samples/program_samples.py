"""Valid programs of circuits, and their columns to spoil."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.circuits.programs.designs import build_sequence, verified_program
from ocs_codesign.circuits.programs.wiring import DARK, wire
from ocs_codesign.circuits.sequences import direct_sequence
from ocs_codesign.core.circuits import CircuitProgram
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.classic.registry import CLASSIC

if TYPE_CHECKING:
    from ocs_codesign.circuits.programs.designs import ProgramDesign
    from ocs_codesign.core.topology import Topology

RINGS = ["DirectedCirculant(6, (1,))", "DirectedCirculant(6, (2,))", "DirectedCirculant(6, (5,))"]
KAUTZ = ["GeneralizedKautz(2, 6)", "DirectedCirculant(6, (1, 5))"]


@cache
def designs() -> tuple[ProgramDesign, ...]:
    """Valid programs: with pauses and with dark steps, circuits that stay, come back, are loops."""
    sequences = [(RINGS, "alltoall"), (RINGS[:2], "allreduce"), (KAUTZ, "alltoall")]
    sequences += [(KAUTZ, "allgather"), ([*KAUTZ, KAUTZ[0]], "reduce-scatter")]
    made = [
        build_sequence([parse(text) for text in texts], collective)
        for texts, collective in sequences
    ]
    made += [direct(5), direct(6, 2), direct(6, 3)]
    made += [halving_doubling(8, planes, overlap=o) for planes in (2, 4) for o in (0, 1)]
    return tuple(made)


def direct(num_nodes: int, num_planes: int = 1) -> ProgramDesign:
    """All-to-all over direct circuits only, a step a configuration."""
    return build_sequence(direct_sequence(num_nodes, num_planes), steps_each=1)


def halving_doubling(num_nodes: int, num_planes: int = 1, *, overlap: bool = False):
    """An allreduce by pairings that planes take turns to hold; one changes between two steps.

    Data is cut into a part a plane, and every part takes the exchanges in an order shifted by one.
    With ``overlap`` one plane fewer sends, and the one that is free makes its next pairing.
    """
    parts, bits = num_planes - overlap, num_nodes.bit_length() - 1
    order = [*range(bits), *reversed(range(bits))]
    steps = CLASSIC["recursive-doubling"].pattern("allreduce", num_nodes, first="near").steps
    held, plane = _turns(bits, num_planes, overlap)
    node = np.arange(num_nodes, dtype=np.int32)
    partner = node ^ (1 << (bits - 1 - held[order] % bits)).astype(np.int32)[:, :, None]
    program, port_link = wire(np.where(held[order][:, :, None] == DARK, DARK, partner))
    rows = []
    for at, step in enumerate(steps):
        for part in range(parts):
            places = part % bits
            rotated = (node >> places) | ((node & ((1 << places) - 1)) << (bits - places))
            owner = np.sort(rotated[step.item[step.source[:, 0].argsort()]], axis=1)
            sender = np.repeat(rotated, owner.shape[1])
            link = port_link[at, plane[order[at], part], sender]
            same = np.array([[part], [at + 1], [not step.adds]], dtype=np.int32)
            rows.append(np.stack([owner.ravel(), link, *np.repeat(same, len(link), axis=1)]))
    root, link, lo, turn, phase = np.concatenate(rows, axis=1)
    columns = root, lo, lo + 1, link, turn, phase
    schedule = Schedule(program.topology, Collective.ALLREDUCE, parts, *columns)
    return verified_program(program, schedule, "halving-doubling")


def _turns(bits, num_planes, overlap):
    """The turns that planes hold in the steps of a reduce-scatter, or DARK; the planes of parts."""
    parts, turn = num_planes - overlap, np.arange(num_planes)
    held, plane = np.empty((2, bits, num_planes), dtype=np.int64)
    for step in range(bits):
        is_free = turn < step
        held[step] = turn
        plane[step] = np.lexsort((turn, is_free))
        if overlap and step < bits - 1 and num_planes % bits:
            held[step, is_free] = DARK
        turn = np.where(is_free if overlap else turn == step, step + parts, turn)
    return held, plane


@dataclass
class Columns:
    """The columns of a program, writable."""

    topology: Topology
    plane: np.ndarray
    link: np.ndarray
    first_step: np.ndarray
    last_step: np.ndarray
    pauses: np.ndarray

    @classmethod
    def of(cls, program: CircuitProgram) -> Columns:
        return cls(program.topology, *(column.copy() for column in program.columns()))

    def program(self) -> CircuitProgram:
        return CircuitProgram(*(getattr(self, name) for name in self.__dataclass_fields__))


def changed(program: CircuitProgram, **columns: np.ndarray) -> CircuitProgram:
    return replace(Columns.of(program), **columns).program()
