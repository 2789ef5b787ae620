"""What a collective has beside its name, as arrays: a root, sizes, groups, or a whole demand."""

from __future__ import annotations

from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.collective import CUSTOM, Collective
from ocs_codesign.demand import MAX_PIECES, Demand

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

_DEMAND = ("kind", "root", "piece_start", "weight", "group", "group_start", "member")

DEMAND_COLUMNS = (
    *("size", "collective_group", "collective_group_start"),
    *(f"demand_{name}" for name in _DEMAND),
)
DEMAND_SCALARS = ("collective_root", "message_units")


def demand_arrays(
    collective: Collective, demands: Sequence[Demand]
) -> Iterator[tuple[str, NDArray[Any]]]:
    """What is to be said of a collective beside its name; of a custom one, its demand."""
    if collective.name == CUSTOM:
        (demand,) = demands
        yield "message_units", np.array(demand.message_units, dtype=np.int64)
        for name in _DEMAND:
            yield f"demand_{name}", getattr(demand, name)
    if collective.root is not None:
        yield "collective_root", np.array(collective.root, dtype=np.int64)
    if collective.sizes is not None:
        yield "size", np.ravel(np.array(collective.sizes, dtype=np.int64))
    if collective.groups is not None:
        yield "collective_group", np.concatenate([np.array(each) for each in collective.groups])
        starts = np.cumsum([0, *map(len, collective.groups)], dtype=np.int64)
        yield "collective_group_start", starts


def demanded(arrays: Mapping[str, NDArray[Any]], num_hosts: int) -> Collective | Demand:
    """What arrays demand of so many hosts; ValueError for what is no collective."""
    name = str(arrays["collective"])
    if name == CUSTOM:
        return _demand(arrays, num_hosts)
    if name == "alltoall" and num_hosts**2 > MAX_PIECES:
        raise ValueError(f"{num_hosts} hosts: an all-to-all has at most {MAX_PIECES} pieces")
    groups = _parts(arrays, "collective_group")
    sizes = arrays["size"].tolist() if "size" in arrays else None
    if sizes is not None and name == "alltoall":
        ranks = isqrt(len(sizes))
        sizes = [sizes[at : at + ranks] for at in range(0, len(sizes), max(ranks, 1))]
    root = int(arrays["collective_root"]) if "collective_root" in arrays else None
    if (root, sizes, groups) == (None, None, None):
        return Collective.parse(name)
    return Collective(name, root, sizes, groups)


def _demand(arrays: Mapping[str, NDArray[Any]], num_hosts: int) -> Demand:
    for array in (*(f"demand_{column}" for column in _DEMAND), "message_units"):
        if array not in arrays:
            raise ValueError(f"the array {array} is missing: a custom collective needs it")
    kind, root, start, weight, group, group_start, member = (
        arrays[f"demand_{column}"] for column in _DEMAND
    )
    units = int(arrays["message_units"])
    return Demand(num_hosts, kind, root, start, weight, group, group_start, member, units)


def _parts(arrays: Mapping[str, NDArray[Any]], name: str) -> list[list[int]] | None:
    """A column cut up where another says, None if both are missing."""
    column, start = arrays.get(name), arrays.get(f"{name}_start")
    if column is None and start is None:
        return None
    if column is None or start is None or not len(start):
        raise ValueError(f"the arrays {name} and {name}_start belong together")
    if start[0] != 0 or start[-1] != len(column) or (np.diff(start.astype(np.int64)) < 1).any():
        raise ValueError(f"{name}_start does not cut up {name}")
    return [part.tolist() for part in np.split(column, start[1:-1].astype(np.int64))]
