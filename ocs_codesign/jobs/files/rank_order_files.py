"""Files of rank orders: what is communicated, as JSON, and orders for launchers and schedulers.

The traffic is ``{"num_ranks": 8, "classes": [{"name": "data", "bytes": 64, "groups": [[0, 2, 4,
6], [1, 3, 5, 7]]}]}``: every rank of a group hands so many bytes on to the next, round the group.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field

from ocs_codesign.core.files.plain_text import PlainText, checked_part, file_error
from ocs_codesign.jobs.rank_orders import MAX_RANKS, ring_traffic

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.core.files.plain_text import Place
    from ocs_codesign.jobs.rank_orders import RankOrder, RankTraffic

_STRICT = ConfigDict(extra="forbid", strict=True, frozen=True)
Rank = Annotated[int, Field(ge=0, lt=MAX_RANKS)]


class _ClassPart(BaseModel):
    model_config = _STRICT

    name: str = Field(min_length=1, max_length=80)
    bytes: int = Field(ge=1, lt=2**50)
    groups: list[list[Rank]] = Field(min_length=1, max_length=2**20)


class _TrafficPart(BaseModel):
    model_config = _STRICT

    num_ranks: int = Field(ge=1, le=MAX_RANKS)
    classes: list[_ClassPart] = Field(min_length=1, max_length=64)


def is_traffic(value: object) -> bool:
    """Whether plain data are such traffic and no job."""
    return isinstance(value, dict) and "classes" in value


def traffic_of_plain(plain: PlainText, name: str) -> RankTraffic:
    """The traffic that plain data describe; ValueError with the place and the rule if none."""

    def keys_at(place: Place) -> list[str]:
        part = _ClassPart if place and place[0] == "classes" and len(place) > 1 else _TrafficPart
        return list(part.model_fields)

    part = checked_part(plain, name, _TrafficPart, keys_at, "traffic", keys="num_ranks, classes")
    try:
        listed = [(one.name, one.groups, one.bytes) for one in part.classes]
        return ring_traffic(part.num_ranks, listed)
    except ValueError as error:
        raise file_error(name, plain, (), f": {error}", "the traffic") from None


def _rankfile(order: RankOrder) -> str:
    """Open MPI: a host and a slot of it for every rank."""
    lines = [f"rank {rank}={name} slot=0" for rank, name in enumerate(_names(order))]
    return "\n".join(lines) + "\n"


def _hostfile(order: RankOrder) -> str:
    """A host a line, in the order of ranks: for SLURM_HOSTFILE, mpirun and torchrun."""
    return "\n".join(_names(order)) + "\n"


def _devices(order: RankOrder) -> str:
    """JAX: the device of every rank, as numpy.array(jax.devices())[order]."""
    return json.dumps(order.host.tolist()) + "\n"


def _names(order: RankOrder) -> list[str]:
    return [order.network.name(host) for host in order.host.tolist()]


ORDER_FORMATS: dict[str, tuple[str, Callable[[RankOrder], str]]] = {
    "rankfile": ("rankfile of Open MPI", _rankfile),
    "hostfile": ("hosts in the order of ranks: SLURM_HOSTFILE, mpirun, torchrun", _hostfile),
    "jax": ("devices in the order of ranks, for a mesh of JAX", _devices),
}
"""How orders leave, by name: what they are, and what makes their text."""
