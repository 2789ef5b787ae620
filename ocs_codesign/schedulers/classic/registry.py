"""CLASSIC: every classic algorithm by name, for planners, circuits and the contracts."""

from __future__ import annotations

from ocs_codesign.collective import Collective
from ocs_codesign.schedulers.classic.algorithm import Algorithm
from ocs_codesign.schedulers.classic.alltoall import bruck, direct_exchange
from ocs_codesign.schedulers.classic.gathering import halving_doubling, recursive_doubling, ring

CLASSIC: dict[str, Algorithm] = {
    "bruck": Algorithm("Bruck", Collective.ALLTOALL, bruck),
    "direct-exchange": Algorithm("direct exchange", Collective.ALLTOALL, direct_exchange),
    "ring": Algorithm("ring", Collective.ALLREDUCE, ring),
    "halving-doubling": Algorithm("halving-doubling", Collective.ALLREDUCE, halving_doubling),
    "recursive-doubling": Algorithm("recursive doubling", Collective.ALLREDUCE, recursive_doubling),
}
"""Every algorithm by name; whoever reads it has them all."""
