"""Light budget: what every link loses on its way, and which transceivers that is too much for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.quantities import exact

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.fabric.wiring import Configuration

DR4_DB, FR4_DB = 3, 4
"""What links of transceivers of the DR4 and of the FR4 class may lose."""


@final
class LossFlag(Enum):
    """What to think of a loss: over the fabric's budget, over that of a class, or nothing."""

    OVER = "over"
    FR4 = "fr4"
    DR4 = "dr4"
    OK = "ok"

    @property
    def sentence(self) -> str:
        """The flag in words."""
        return {
            LossFlag.OVER: "more than the fabric's loss budget",
            LossFlag.FR4: f"more than {FR4_DB} dB, the budget of FR4-class transceivers",
            LossFlag.DR4: f"more than {DR4_DB} dB, the budget of DR4-class transceivers",
            LossFlag.OK: "within the budget",
        }[self]


@final
@dataclass(frozen=True, slots=True)
class LightPath:
    """The way of a circuit: its switches in order, what it loses and what that is over."""

    plane: int
    switches: tuple[int, ...]
    loss_db: Fraction
    budget_db: Fraction

    @property
    def margin_db(self) -> Fraction:
        """What may still be lost, negative if it is too much already."""
        return self.budget_db - self.loss_db

    @property
    def flag(self) -> LossFlag:
        """The worst that holds of OVER, FR4 and DR4."""
        if self.loss_db > self.budget_db:
            return LossFlag.OVER
        if self.loss_db > FR4_DB:
            return LossFlag.FR4
        return LossFlag.DR4 if self.loss_db > DR4_DB else LossFlag.OK


def rows_of_circuits(configuration: Configuration) -> list[NDArray[np.int64]]:
    """The cross-connects (row numbers) of every circuit, in the order of its way."""
    order = np.argsort(configuration.circuit, kind="stable")
    ends = np.cumsum(np.bincount(configuration.circuit, minlength=configuration.num_circuits))
    return np.split(order, ends[:-1])


def light_paths(configuration: Configuration) -> tuple[LightPath, ...]:
    """The way of every circuit: two connectors, its switches, and circulators if it is two-way."""
    fabric = configuration.cabling.fabric
    loss = [exact(switch.profile.insertion_loss_db) for switch in fabric.switches]
    ends = 2 * exact(fabric.connector_loss_db)
    circulators = 2 * exact(fabric.circulator_loss_db)
    two_way = [fabric.port_model(plane).is_bidirectional for plane in range(fabric.num_planes)]
    budget = exact(fabric.loss_budget_db)
    paths = []
    for plane, rows in zip(
        configuration.plane.tolist(), rows_of_circuits(configuration), strict=True
    ):
        switches = tuple(configuration.switch[rows].tolist())
        lost = sum((loss[switch] for switch in switches), ends)
        paths.append(LightPath(plane, switches, lost + circulators * two_way[plane], budget))
    return tuple(paths)
