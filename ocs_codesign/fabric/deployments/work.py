"""Work on a deployed fabric, step by step: cross-connects go and come, cable ends move."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.fabric.wiring import port_of_cable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.fabric.deployments.deploy import Failures
    from ocs_codesign.fabric.description import Fabric
    from ocs_codesign.fabric.repairs.repair import JoinedPorts, Repair, StrandMove
    from ocs_codesign.fabric.rewiring.stages import Staged
    from ocs_codesign.fabric.wiring import Cabling, Configuration


@final
class Action(Enum):
    """What is done: to a cross-connect, or by hands to the end of a cable, or to all of it."""

    DELETE = "delete"
    REPLACE = "replace"
    UNPLUG = "unplug"
    PLUG = "plug"
    CREATE = "create"


@final
@dataclass(frozen=True, slots=True)
class WorkStep:
    """One thing to do: to the cross-connect, or at the port, ``id`` of a switch.

    Stages count from 1. ``cable`` is what is plugged or unplugged, or has a new one laid in its
    place that takes its name; empty for cross-connects.
    """

    stage: int
    action: Action
    switch: str
    id: str
    plane: int
    cable: str = ""


@final
@dataclass(frozen=True, slots=True)
class Work:
    """The last work in a few words, and its steps in order; ``is_done`` once that was reported."""

    title: str
    steps: tuple[WorkStep, ...]
    is_done: bool = False


def change_steps(plan: Staged, before: Configuration, after: Configuration) -> tuple[WorkStep, ...]:
    """The steps of a change of configuration, whose stages are rows of cross-connects."""
    return tuple(
        step
        for number, stage in enumerate(plan.stages, 1)
        for action, configuration, rows in (
            (Action.DELETE, before, stage.delete),
            (Action.CREATE, after, stage.create),
        )
        for step in _row_steps(number, action, configuration, rows)
    )


def joined_names(configuration: Configuration) -> list[tuple[str, str]]:
    """Its cross-connects as switch and id, in their order."""
    every = np.arange(len(configuration.switch))
    steps = _row_steps(1, Action.CREATE, configuration, every)
    return [(step.switch, step.id) for step in steps]


def answered_steps(steps: Sequence[WorkStep], lost: Sequence[str]) -> tuple[WorkStep, ...]:
    """The steps without the cross-connects of lost switches, which answer no one; stages anew."""
    left = [step for step in steps if step.cable or step.switch not in lost]
    stages = sorted({step.stage for step in left})
    return tuple(replace(step, stage=1 + stages.index(step.stage)) for step in left)


def repair_steps(cabling: Cabling, repair: Repair, lost: Failures) -> tuple[WorkStep, ...]:
    """The steps of a repair, all in one stage, from old cables; idle strands come last."""
    fabric = cabling.fabric
    planes = {switch.name: switch.plane for switch in fabric.switches}
    ends = [(port_of_cable(cabling, name), name) for name in sorted(lost.cables)]
    steps = (
        *(
            WorkStep(1, Action.REPLACE, end.switch, end.name, planes[end.switch], name)
            for end, name in ends
        ),
        *_joined_steps(fabric, Action.DELETE, repair.removed),
        *move_steps(fabric, repair.moves),
        *_joined_steps(fabric, Action.CREATE, repair.made),
        *move_steps(fabric, repair.idle),
    )
    return answered_steps(steps, lost.switches)


def move_steps(fabric: Fabric, moves: Sequence[StrandMove]) -> tuple[WorkStep, ...]:
    """The steps of cable ends that move, in their order."""
    planes = {switch.name: switch.plane for switch in fabric.switches}
    return tuple(
        WorkStep(1, action, port.switch, port.name, planes[port.switch], move.cable)
        for move in moves
        for action, port in ((Action.UNPLUG, move.before), (Action.PLUG, move.after))
        if port is not None
    )


def _row_steps(
    stage: int, action: Action, configuration: Configuration, rows: NDArray[Any]
) -> Iterator[WorkStep]:
    fabric = configuration.cabling.fabric
    columns = (configuration.switch, configuration.a_port, configuration.b_port)
    for number, a_port, b_port in sorted(zip(*(c[rows].tolist() for c in columns), strict=True)):
        there, name = fabric.switches[number], fabric.port_model.joined(a_port, b_port)
        yield WorkStep(stage, action, there.name, name, there.plane)


def _joined_steps(
    fabric: Fabric, action: Action, joined: Sequence[JoinedPorts]
) -> Iterator[WorkStep]:
    planes = {switch.name: switch.plane for switch in fabric.switches}
    for pair in joined:
        name = fabric.port_model.joined(pair.a_port, pair.b_port)
        yield WorkStep(1, action, pair.switch, name, planes[pair.switch])
