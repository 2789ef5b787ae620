"""Options of exchanges: what hosts have for each other, and in which phases it moves."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from ocs_codesign.faces.cli import options as opt
from ocs_codesign.faces.cli.commands import option

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ocs_codesign.core.network import Network


demand_option = option(
    "--demand",
    type=opt.INPUT,
    metavar="FILE",
    help="Of an alltoall: what every host has for every other, a matrix as CSV, JSON, npy, npz "
    "or Matrix Market  [default: the same for all].",
)
sketch_option = option(
    "--sketch",
    metavar="FILE|PHASES",
    help="Phases in order, each a set of links that paths or trees keep to, such as "
    "inside,rail,inside, or a file with phases, relays and parts.",
)


def matrix_of(path: str, network: Network) -> tuple[NDArray[np.int64], Fraction]:
    """The demand in a file as whole numbers of a unit, and the unit."""
    import numpy as np

    from ocs_codesign.circuits.matrix_files import read_demand

    read = read_demand(path)
    if read.num_nodes != network.num_hosts:
        raise ValueError(f"{path}: {read.num_nodes} rows for {network.num_hosts} hosts")
    if int(read.units.sum()) >= 2**53:
        raise ValueError(f"{path}: sums above 2^53 of the common unit: say less exact numbers")
    return read.units.astype(np.int64), read.unit_bytes
