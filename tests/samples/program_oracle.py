"""A slow judge of programs of circuits, step by step in dicts, that shares nothing with them."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import TYPE_CHECKING

from replay_oracle import is_valid

if TYPE_CHECKING:
    from ocs_codesign.core.circuits import CircuitProgram
    from ocs_codesign.core.schedule import Schedule

Port = tuple[str, int, int]
"""Direction, node, plane."""


def up_at(program: CircuitProgram, step: int) -> set[int]:
    """The links whose circuits are up."""
    rows = zip(program.link, program.first_step, program.last_step, strict=True)
    return {int(link) for link, first, last in rows if first <= step <= last}


def ports_of(program: CircuitProgram, link: int) -> list[Port]:
    plane = int(program.plane[link])
    topology = program.topology
    return [("out", int(topology.tail[link]), plane), ("in", int(topology.head[link]), plane)]


def held_at(program: CircuitProgram, step: int) -> dict[Port, list[int]]:
    """What every port in use holds."""
    held = defaultdict(list)
    for link in sorted(up_at(program, step)):
        for port in ports_of(program, link):
            held[port].append(link)
    return held


def last_step(program: CircuitProgram) -> int:
    return int(max(program.last_step))


def ports_are_right(program: CircuitProgram) -> bool:
    """One circuit a port, and time to change it."""
    before: dict[Port, list[int]] = {}
    for step in range(1, last_step(program) + 1):
        now = held_at(program, step)
        if any(len(links) > 1 for links in now.values()):
            return False
        for port, links in now.items():
            if port in before and before[port] != links and step not in program.pauses:
                return False
        before = now
    return True


def is_valid_program(program: CircuitProgram, schedule: Schedule) -> bool:
    """Whether the schedule achieves its collective over circuits that are up when they are used."""
    if not ports_are_right(program):
        return False
    sends = zip(schedule.link.tolist(), schedule.step.tolist(), strict=True)
    if any(link not in up_at(program, step) for link, step in sends):
        return False
    if any(first > max(1, schedule.num_steps) for first in program.first_step):
        return False
    return is_valid(schedule)


def slow_t_b(program: CircuitProgram, schedule: Schedule) -> Fraction:
    """The busiest link of every step, in bytes over the speed of a port, B split over ports."""
    load: dict[tuple[int, int], int] = defaultdict(int)
    for lo, hi, link, step in zip(
        schedule.lo.tolist(),
        schedule.hi.tolist(),
        schedule.link.tolist(),
        schedule.step.tolist(),
        strict=True,
    ):
        load[step, link] += hi - lo
    speed = [int(value) for value in program.topology.speeds()]
    fastest: dict[Port, int] = defaultdict(int)
    for link in range(program.topology.num_links):
        port = ports_of(program, link)[0]
        fastest[port] = max(fastest[port], speed[link])
    node_speed: dict[int, int] = defaultdict(int)
    for (_, node, _), value in fastest.items():
        node_speed[node] += value
    total = Fraction(0)
    for step in range(1, schedule.num_steps + 1):
        total += max(
            (Fraction(chunks, speed[link]) for (at, link), chunks in load.items() if at == step),
            default=Fraction(0),
        )
    # A shard (all-to-all: a piece) is M/N, and a link of speed s has s / node speed of B.
    per_chunk = Fraction(1, schedule.chunks_per_unit * program.topology.num_nodes)
    return total * per_chunk * max(node_speed.values())


def slow_changes(program: CircuitProgram) -> list[tuple[int, int, int, int]]:
    """(step, plane, circuits that come up, dark steps before) if all ports are right."""
    found = []
    came_up: dict[int, int] = {}
    for step in range(1, last_step(program) + 1):
        rows = zip(program.link.tolist(), program.first_step.tolist(), strict=True)
        new = [link for link, first in rows if first == step]
        for plane in sorted({int(program.plane[link]) for link in new}):
            mine = [link for link in new if program.plane[link] == plane]
            ports = {port for link in mine for port in ports_of(program, link)}
            dark = 0
            while step - dark > came_up.get(plane, 1) and not any(
                port in held_at(program, step - dark - 1) for port in ports
            ):
                dark += 1
            found.append((step, plane, len(mine), dark))
            came_up[plane] = step
    return found
