"""Components that failed in a rehearsal: which they can be, and what is done live about them."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

from ocs_codesign.fabric.deployments.day_two import repaired
from ocs_codesign.fabric.deployments.deploy import Failures
from ocs_codesign.fabric.rehearsal.agent import in_order
from ocs_codesign.fabric.rehearsal.controller import Refused
from ocs_codesign.fabric.rehearsal.network import ends_of
from ocs_codesign.fabric.rehearsal.targets import chains_to, work_chain
from ocs_codesign.fabric.wiring import Port

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ocs_codesign.fabric.rehearsal.controller import State
    from ocs_codesign.fabric.rehearsal.running import Rehearsal


def found_failed(
    rehearsal: Rehearsal, dark: Sequence[int], known: Collection[int], told: Collection[str]
) -> list[str]:
    """What explains the links that went dark since; else what switches say of themselves."""
    new = sorted(set(dark) - set(known))
    if new:
        return _explained(rehearsal, new, known)
    found = []
    controller = rehearsal.controller(rehearsal.deployment)
    for switch in controller.switches:
        try:
            stale = in_order(controller.held(switch).stale())
        except Refused:
            found.append(f"agent:{switch}")
        else:
            found += [f"stale:{switch}:{name}" for name in stale]
    return [name for name in found if name not in told]


def _explained(rehearsal: Rehearsal, dark: Sequence[int], known: Collection[int]) -> list[str]:
    """The components of the least kind whose circuits are those of the dark links."""
    wanted = {rehearsal.ways[link].circuit for link in dark}
    silent = {rehearsal.ways[link].circuit for link in known}
    passed: dict[str, set[int]] = {}
    plugged = {(end.host, end.device): cable for cable, end in rehearsal.fabric.ends.items()}
    for way in (each for each in rehearsal.ways if each.circuit not in silent):
        names = [f"host:{rehearsal.deployment.fabric.hosts[host]}" for host in (way.tail, way.head)]
        for crossed in way.name.split():
            switch, _, name = crossed.partition(":")
            names += [f"switch:{switch}", *(f"port:{switch}:{port}" for port in name.split("-"))]
        ends = (way.tail, way.leaves), (way.head, way.arrives)
        names += [f"cable:{plugged[end]}" for end in ends]
        for name in names:
            passed.setdefault(name, set()).add(way.circuit)
    fitting = sorted(name for name, circuits in passed.items() if circuits == wanted)
    for kinds in (("cable", "port"), ("host",), ("switch",)):
        least = [name for name in fitting if name.partition(":")[0] in kinds]
        if least:
            return least
    return []


def repair(rehearsal: Rehearsal, component: str) -> None:
    """Do live what ``survive --repair`` answers; Refused or ValueError with what is missing.

    An agent is started again; what is lit and not intended, the controller takes down.
    """
    kind, _, name = component.partition(":")
    if kind in ("agent", "stale"):
        if kind == "agent":
            rehearsal.fabric.start_agents([name])
        rehearsal.controller(rehearsal.deployment).control(
            chains_to(rehearsal.deployment, rehearsal.deployment.up)
        )
        return
    after = repaired(rehearsal.deployment, _lost(component))[0]
    chain, hands = work_chain(after) if after.work and after.work.steps else ([], {})
    controller = rehearsal.controller(after)

    def by_hand(number: int, _: State) -> None:
        for step in hands.pop(number, ()):
            rehearsal.fabric.by_hand(step.action.value, step.switch, step.id, step.cable)

    controller.drain = by_hand
    if chain:
        controller.control([chain])
    for number in sorted(hands):  # what no circuit waits for
        by_hand(number, {})
    rehearsal.deployment = after.reported() if after.standing == "planned" else after
    rehearsal.fabric.deployment, rehearsal.fabric.ends = (
        rehearsal.deployment,
        ends_of(rehearsal.deployment),
    )
    rehearsal.routed()


def _lost(component: str) -> Failures:
    kind, _, name = component.partition(":")
    if kind == "port":
        switch, _, port = name.partition(":")
        side = port.lstrip("0123456789")
        return Failures(ports=(Port(switch, side, int(port.rstrip("AB"))),))
    names = {kind: (name,)}
    return Failures(
        names.get("host", ()), (), names.get("switch", ()), cables=names.get("cable", ())
    )


_AT_ONCE_S = 1e-6
"""No seconds would be no clock."""


def killed_on_its_way(rehearsal: Rehearsal, to: str, after_s: float) -> dict[str, Any]:
    """Kill a controller on its way to a configuration; another goes on, and all the way back.

    A third has nothing left to do.
    """
    chains, up = chains_to(rehearsal.deployment, to), rehearsal.deployment.up
    pid = os.fork()
    if not pid:
        # Its own clock ends it: one who waits to kill may come late on a busy machine.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, max(after_s, _AT_ONCE_S))
        try:
            rehearsal.controller(rehearsal.deployment).control(chains)
        finally:
            os._exit(0)
    is_killed = os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    rehearsal.bring_up(to)
    third = rehearsal.controller(rehearsal.deployment)
    third.control(chains)
    rehearsal.bring_up(up)
    named = ["controller"] if is_killed else []
    row = {"component": "controller", "named": named, "repaired": not third.commands}
    return {**row, "sentence": None}
