"""Room: accelerators alike in servers, and what their wires take."""

from __future__ import annotations

from dataclasses import dataclass
from math import log2
from typing import TYPE_CHECKING, final

from ocs_codesign.jobs.training.constants import constants

if TYPE_CHECKING:
    from ocs_codesign.jobs.models.layer import Transformer
    from ocs_codesign.jobs.training.constants import Chip
    from ocs_codesign.jobs.training.division import Division
    from ocs_codesign.jobs.training.operation import Interruptions, RunningCosts


@final
@dataclass(frozen=True, slots=True)
class Room:
    """Accelerators alike in servers: bytes a second of each inside its server and out of it.

    ``slow_speed`` is that of the slowest hosts' kernels over the others'. Spare hosts are not among
    the servers.

    >>> from ocs_codesign.jobs.training.constants import chip_named
    >>> Room(chip_named("h100"), 16, 8, 450e9, 50e9).num_servers
    16
    """

    chip: Chip
    num_servers: int
    accelerators_a_server: int
    inside_Bps: float  # noqa: N815 - units keep their case
    outside_Bps: float  # noqa: N815
    slow_speed: float = 1.0
    failures: Interruptions | None = None
    costs: RunningCosts | None = None

    @property
    def num_accelerators(self) -> int:
        """Accelerators of all servers."""
        return self.num_servers * self.accelerators_a_server

    def wire_s(self, sent_bytes: float, ranks: int, stride: int = 1) -> float:
        """Seconds in which each of ``ranks``, so many apart, sends bytes round its group."""
        if ranks <= 1 or not sent_bytes:
            return 0.0
        known, server = constants(), self.accelerators_a_server
        mates = max(1, min(ranks, server // stride))
        inside = sent_bytes / (known["inside_share"] * self.inside_Bps) if mates > 1 else 0.0
        outside = sent_bytes / mates / (known["outside_share"] * self.outside_Bps)
        outside = outside if ranks > mates else 0.0
        slower, faster = max(inside, outside), min(inside, outside)
        return slower + known["smaller_wire"] * faster + known["hop_s"] * log2(ranks)

    def experts_s(self, model: Transformer, division: Division, sent_bytes: float) -> float:
        """Seconds of a dispatch or combine; a token goes once to every server it is for."""
        if division.expert == 1:
            return 0.0
        known, tensor = constants(), division.tensor
        servers = division.expert * tensor // self.accelerators_a_server
        share, hops = known["expert_share"], known["hop_s"] * log2(division.expert)
        if servers <= 1:
            return sent_bytes / (share * self.inside_Bps) + hops
        away = (servers - 1) * (1 - (1 - 1 / servers) ** model.top_k) / model.top_k
        if model.expert_servers is not None:
            limit = model.expert_servers / model.top_k * (servers - 1) / servers
            away = min(away, limit)
        whole = sent_bytes * division.expert / (division.expert - 1)
        outside = whole * away / (share * self.outside_Bps)
        inside = sent_bytes / (share * known["inside_share"] * self.inside_Bps)
        slower, faster = max(inside, outside), min(inside, outside)
        return slower + known["smaller_wire"] * faster + hops
