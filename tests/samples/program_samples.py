"""Valid programs of circuits, and their columns to spoil."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from ocs_codesign.circuits.programs.designs import (
    build_direct,
    build_halving_doubling,
    build_sequence,
)
from ocs_codesign.core.circuits import CircuitProgram
from ocs_codesign.graphs.text import parse

if TYPE_CHECKING:
    import numpy as np

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
    made += [build_direct(5), build_direct(6, 2), build_direct(6, 3)]
    made += [build_halving_doubling(8, planes, overlap=o) for planes in (2, 4) for o in (0, 1)]
    return tuple(made)


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
