"""The least time of an all-to-all when messages may split over paths, by whichever method suits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.given import takes_topology
from ocs_codesign.lp import DEFAULT_OPTIONS
from ocs_codesign.schedulers.alltoall.large import soft_throughput
from ocs_codesign.schedulers.alltoall.master import MAX_COLUMNS, master_throughput, num_columns
from ocs_codesign.schedulers.alltoall.orbits import MAX_ORBITS, orbit_throughput
from ocs_codesign.symmetry.quotient import quotient

if TYPE_CHECKING:
    from ocs_codesign.lp import Options
    from ocs_codesign.schedulers.alltoall.result import Throughput
    from ocs_codesign.topology import Topology


@takes_topology
def throughput(topology: Topology, options: Options = DEFAULT_OPTIONS) -> Throughput:
    """The all-to-all time of a topology, its bound and the routing's link loads.

    Cutting planes where the declared symmetry leaves few link orbits, else a linear program with
    one source an orbit: exact while it is small, with a first-order method beyond, and mirror
    descent to about a thousandth where no solver gets far, or where it is out of time or memory;
    always with a certified gap. Raises ValueError if the topology is not strongly
    connected, SolverUnavailableError if the solver cannot take a program.

    >>> from ocs_codesign.graphs.text import parse
    >>> throughput(parse("CompleteBipartite(4)").topology()).time
    Fraction(5, 4)
    """
    whole = quotient(topology)
    if whole.num_orbits <= MAX_ORBITS:
        return orbit_throughput(whole, options)
    if num_columns(whole) <= MAX_COLUMNS:
        return master_throughput(whole, options)
    return soft_throughput(whole, options)


def columns_to_solve(topology: Topology) -> int:
    """Columns of the program that ``throughput`` solves, 0 for cutting planes, which take no time.

    >>> from ocs_codesign.graphs.text import parse
    >>> columns_to_solve(parse("GeneralizedKautz(4, 16)").topology())
    513
    """
    whole = quotient(topology)
    return 0 if whole.num_orbits <= MAX_ORBITS else num_columns(whole)
