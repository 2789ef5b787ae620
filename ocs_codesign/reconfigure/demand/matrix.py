"""DemandMatrix: how many bytes every node has for every node, exactly."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm
from numbers import Rational
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.quantities import exact

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_NODES = 512
_EXACT_FLOATS = 2.0**53


@final
@dataclass(frozen=True, slots=True, eq=False, init=False)
class DemandMatrix:
    """Bytes from every node (row) to every node (column), as multiples of one unit.

    ``entries``: rows of integers, fractions or floats, as sequences or as a numpy array; a float is
    read as the decimal that it prints as. Every entry counts as it is: what a node has for itself,
    on the diagonal, needs a circuit too, so set it to 0 if it does not. ``units`` (Python integers,
    num_nodes by num_nodes) times ``unit_bytes`` are the entries. Raises ValueError with the place
    for a matrix that is empty, not square or larger than MAX_NODES, and for entries that are
    negative or not finite.

    >>> demand = DemandMatrix([[0, 1.5], [3, 0]])
    >>> demand.units.tolist(), demand.unit_bytes, demand.max_line_bytes
    ([[0, 1], [2, 0]], Fraction(3, 2), Fraction(3, 1))
    """

    units: NDArray[np.object_]
    unit_bytes: Fraction

    def __init__(self, entries: Any) -> None:
        listed = _listed(entries)
        if not listed:
            raise ValueError("a demand matrix has at least one node")
        if len(listed) > MAX_NODES:
            raise ValueError(f"{len(listed)} nodes: a demand matrix has at most {MAX_NODES}")
        rows = [_numbers(row, f"row {at}") for at, row in enumerate(listed)]
        for at, row in enumerate(rows):
            if len(row) != len(rows):
                raise ValueError(
                    f"row {at} has {len(row)} entries, but there are {len(rows)} rows: "
                    "a demand matrix is square"
                )
        flat = [entry for row in rows for entry in row]
        denominator = lcm(*(entry.denominator for entry in flat))
        whole = [entry.numerator * (denominator // entry.denominator) for entry in flat]
        common = gcd(*whole) or 1
        units = np.empty(len(flat), dtype=object)
        units[:] = [entry // common for entry in whole]
        object.__setattr__(self, "units", units.reshape(len(rows), len(rows)))
        object.__setattr__(self, "unit_bytes", Fraction(common, denominator))
        self.units.flags.writeable = False

    @property
    def num_nodes(self) -> int:
        """How many nodes there are."""
        return len(self.units)

    @property
    def total_bytes(self) -> Fraction:
        """All bytes together."""
        return int(self.units.sum()) * self.unit_bytes

    @property
    def max_line_bytes(self) -> Fraction:
        """The most that a node sends or receives."""
        return int(max(self.units.sum(0).max(), self.units.sum(1).max())) * self.unit_bytes

    @property
    def max_peers(self) -> int:
        """The most nodes that a node sends to or receives from: so many configurations it takes."""
        some = self.units > 0
        return int(max(some.sum(0).max(), some.sum(1).max()))

    def entry_bytes(self, source: int, target: int) -> Fraction:
        """The bytes from one node to another."""
        return int(self.units[source, target]) * self.unit_bytes


def _listed(values: Any) -> list[Any]:
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    if not isinstance(listed, (list, tuple)):
        raise ValueError("a demand matrix is a list of rows, each a list of numbers")
    return list(listed)


def _numbers(row: Any, place: str) -> list[Fraction | int]:
    return [_number(entry, f"{place}, column {at}") for at, entry in enumerate(_listed(row))]


def _number(entry: Any, place: str) -> Fraction | int:
    """An entry as an exact number, ValueError with its place if it is no amount of bytes."""
    if isinstance(entry, (np.integer, np.floating)):
        entry = entry.item()
    if isinstance(entry, float):
        whole = entry.is_integer() and abs(entry) < _EXACT_FLOATS
        number = int(entry) if whole else exact(entry, place)
    elif isinstance(entry, bool) or not isinstance(entry, Rational):
        raise ValueError(f"{place}: {entry!r} is not a number")
    else:
        number = entry if isinstance(entry, int) else Fraction(entry)
    if number < 0:
        raise ValueError(f"{place} is {entry}: a demand cannot be negative")
    return number
