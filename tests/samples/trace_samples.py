"""Traces and designs of which everything is known, without any graph."""

from __future__ import annotations

from fractions import Fraction

from ocs_codesign.circuits.legs.options import FabricOption
from ocs_codesign.circuits.legs.trace import Job, Trace
from ocs_codesign.core.cost import Cost, CostModel

SECONDS = CostModel(0, 1)
"""With this model a message of a byte takes t_b seconds."""


def option(name, allreduce, alltoall):
    """A design whose collectives of a byte take so many seconds, None if it has none."""
    half = None if allreduce is None else Cost(1, Fraction(allreduce, 2))
    exchange = None if alltoall is None else Cost(1, Fraction(alltoall))
    return FabricOption(name, half, half, exchange)


OPTIONS = (option("T0", 100, 300), option("T1", 160, 180))
ALTERNATING = Trace([Job("allreduce", 1), Job("alltoall", 1)], repeat=3)
