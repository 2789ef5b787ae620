"""Where the controller leads switches: plans and planned work as chains of states."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from ocs_codesign.fabric.deployments.work import Action, change_steps, joined_names
from ocs_codesign.fabric.wiring import port_at, used_ports

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ocs_codesign.fabric.deployments.deploy import Deployment
    from ocs_codesign.fabric.deployments.work import WorkStep
    from ocs_codesign.fabric.rehearsal.controller import State


def live_switches(deployment: Deployment) -> list[str]:
    """The switches that have not failed."""
    failed = deployment.failures.switches
    return [each.name for each in deployment.fabric.switches if each.name not in failed]


def ports_of_cables(deployment: Deployment) -> dict[str, frozenset[str]]:
    """The ports of every live switch that a cable is plugged into, or was before planned work."""
    fabric = deployment.fabric
    ports: dict[str, set[str]] = {name: set() for name in live_switches(deployment)}
    for place in used_ports(deployment.cabling):
        port = port_at(fabric, *place)
        ports.get(port.switch, set()).add(port.name)
    for step in () if deployment.work is None else deployment.work.steps:
        ports.get(step.switch, set()).update(step.id.split("-"))
    return {name: frozenset(each) for name, each in ports.items()}


def state_of(deployment: Deployment, joined: Iterable[tuple[str, str]]) -> State:
    """Cross-connects, given as switch and id, by live switch."""
    held: dict[str, set[str]] = {name: set() for name in live_switches(deployment)}
    for switch, name in joined:
        held.get(switch, set()).add(name)
    return {switch: frozenset(ids) for switch, ids in held.items()}


def chains_to(deployment: Deployment, to: str) -> list[list[State]]:
    """The plans that lead to a configuration, from the one that is up first, then from dark."""
    target = deployment.configuration(to).configuration
    changes = [change for change in deployment.changes if change.after.name == to]
    chains = []
    for change in sorted(changes, key=lambda each: each.before.name != deployment.up):
        steps = change_steps(change, change.before, change.after)
        joined = joined_names(change.before)
        chains.append(_chain(deployment, set(joined), steps))
    end = state_of(deployment, joined_names(target))
    return [*chains, [state_of(deployment, ()), end]]


def work_chain(deployment: Deployment) -> tuple[list[State], dict[int, tuple[WorkStep, ...]]]:
    """The states of the last work, and what hands do before the state of each number is reached.

    Raises ValueError if there is no work.
    """
    steps = () if deployment.work is None else deployment.work.steps
    if not steps:
        raise ValueError("the bundle has no planned work: rewire and survive plan some")
    held = set(joined_names(deployment.configuration(deployment.up).configuration))
    for step in reversed(steps):
        place = {(step.switch, step.id)}
        if step.action is Action.CREATE:
            held -= place
        elif step.action is Action.DELETE:
            held |= place
    hands: dict[int, list[WorkStep]] = {}
    chain = _chain(deployment, held, steps, hands)
    return chain, {number: tuple(rows) for number, rows in hands.items()}


def _chain(
    deployment: Deployment,
    held: set[tuple[str, str]],
    steps: Sequence[WorkStep],
    hands: dict[int, list[WorkStep]] | None = None,
) -> list[State]:
    """The states that steps lead through; where hands work, one state before and one after it."""
    states = [state_of(deployment, held)]
    for _, stage in groupby(steps, lambda step: step.stage):
        moved = []
        for step in stage:
            place = {(step.switch, step.id)}
            if step.cable:
                moved.append(step)
            elif step.action is Action.DELETE:
                held = held - place
            else:
                if moved and hands is not None:
                    states.append(state_of(deployment, held))
                    hands[len(states)] = moved
                    moved = []
                held = held | place
        states.append(state_of(deployment, held))
        if moved and hands is not None:
            hands.setdefault(len(states), []).extend(moved)
            states.append(states[-1])
    return states
