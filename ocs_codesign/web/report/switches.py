"""Pictures of switches: their ports with what is in use, spare or failed, and what joins them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.fabric.port_use import used_ports
from ocs_codesign.web.report.svg import (
    WIDTH,
    box,
    figure_html,
    matrix,
    path,
    picture,
    short,
    state_keys,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from ocs_codesign.fabric.deployments.deployment import DeployedConfiguration, Deployment

MAX_SWITCHES = 16
"""Switches of a configuration that are drawn one by one."""
MAX_PORTS = 136
"""Ports of a side of a switch that are drawn one by one."""

STATES = ("used", "spare", "failed", "free")
USED, SPARE, FAILED, FREE = range(4)
_LEFT, _TALL = 22.0, 110.0


def switch_figures(deployment: Deployment, one: DeployedConfiguration) -> list[str]:
    """What every switch joins, as figures; many switches as one picture of all."""
    switches = deployment.fabric.switches
    states = port_states(deployment)
    joined = np.unique(one.configuration.switch)
    failed = {at for at, sides in enumerate(states) if (sides == FAILED).any()}
    shown = sorted({*joined.tolist(), *failed})
    if len(shown) > MAX_SWITCHES:
        return [_overview(deployment, one, states)]
    figures = []
    for switch in shown:
        mine = one.configuration.switch == switch
        a_port, b_port = one.configuration.a_port[mine], one.configuration.b_port[mine]
        has_b_side = switches[switch].profile.port_model.has_b_side
        counts = _counts(states[switch])
        title = f"{switches[switch].name}: {len(a_port)} cross-connects; {counts}."
        label = f"{one.name}, {title.rstrip('.')}"
        if switches[switch].num_ports > MAX_PORTS:
            ends = ("A port", "B port") if has_b_side else ("port", "port")
            shape = (switches[switch].num_ports,) * 2
            height, parts = matrix(a_port - 1, b_port - 1, shape, ends, 1)
            figures.append(figure_html(picture(height, label, parts), title))
            continue
        pairs = list(zip((a_port - 1).tolist(), (b_port - 1).tolist(), strict=True))
        drawn = _ladder if has_b_side else _arcs
        parts = list(drawn(states[switch], pairs))
        figures.append(figure_html(picture(_TALL + 46, label, parts), title))
    return figures


def port_states(deployment: Deployment) -> list[NDArray[np.int8]]:
    """USED, SPARE, FAILED or FREE of every port: by switch an array (int8, sides x ports)."""
    used, failed = used_ports(deployment.cabling), deployment.failed_ports()
    states = []
    for switch in deployment.fabric.switches:
        sides = 2 if switch.profile.port_model.has_b_side else 1
        state = np.full((sides, switch.num_ports), FREE, dtype=np.int8)
        state[:, switch.num_usable :] = SPARE
        states.append(state)
    for number, ports in ((USED, used), (FAILED, failed)):
        for switch_at, side, port in ports:
            states[switch_at][side, port - 1] = number
    return states


def port_keys(deployment: Deployment) -> list[tuple[str, str]]:
    """The keys of the states that ports of a deployment are in."""
    present = np.unique(np.concatenate([each.ravel() for each in port_states(deployment)]))
    return state_keys(STATES[number] for number in present.tolist())


def _counts(states: NDArray[np.int8]) -> str:
    """How many ports are in which state, of A and B together."""
    numbers = np.bincount(states.ravel(), minlength=len(STATES)).tolist()
    told = [f"{count} {name}" for name, count in zip(STATES, numbers, strict=True) if count]
    return f"ports {', '.join(told)}"


def _ladder(states: NDArray[np.int8], pairs: list[tuple[int, int]]) -> Iterator[str]:
    """A ports above, B ports below, and a line for every two that are joined."""
    step = (WIDTH - _LEFT - 2) / states.shape[1]
    top, bottom = 18.0, 18.0 + _TALL
    lines = [
        f"M{short(_LEFT + (a + 0.5) * step)} {short(top + 12)}"
        f"L{short(_LEFT + (b + 0.5) * step)} {short(bottom)}"
        for a, b in pairs
    ]
    yield path("lines link", "".join(lines))
    yield from _row(states[0], step, top, "A")
    yield from _row(states[1], step, bottom, "B")
    yield words(_LEFT, 12, "1")
    yield words(WIDTH - 2, 12, str(states.shape[1]), anchor="end")


def _arcs(states: NDArray[np.int8], pairs: list[tuple[int, int]]) -> Iterator[str]:
    """The ports of a switch without sides, and an arc for every two that are joined."""
    step = (WIDTH - _LEFT - 2) / states.shape[1]
    bottom = 18.0 + _TALL
    lines = []
    for one, other in pairs:
        low, high = (_LEFT + (port + 0.5) * step for port in sorted((one, other)))
        up = min(2 * _TALL, 12 + 2 * (_TALL - 12) * (high - low) / (WIDTH - _LEFT))
        turn = f"{short((low + high) / 2)} {short(bottom - up)}"
        lines.append(f"M{short(low)} {short(bottom)}Q{turn} {short(high)} {short(bottom)}")
    yield path("lines link", "".join(lines))
    yield from _row(states[0], step, bottom, "")
    yield words(_LEFT, bottom + 26, "1")
    yield words(WIDTH - 2, bottom + 26, str(states.shape[1]), anchor="end")


def _row(states: NDArray[np.int8], step: float, y: float, name: str) -> Iterator[str]:
    """A side of a switch, a box a port; failed ones are crossed."""
    wide = max(step - 1, 0.8 * step)
    for number, kind in enumerate(STATES):
        ports = np.flatnonzero(states == number).tolist()
        yield path(kind, "".join(box(_LEFT + port * step, y, wide, 12) for port in ports))
    failed = np.flatnonzero(states == FAILED).tolist()
    yield path("cross", crosses([_LEFT + port * step for port in failed], y, wide, 12))
    yield words(_LEFT - 6, y + 11, name, anchor="end") if name else ""


def crosses(left: Iterable[float], y: float, wide: float, tall: float) -> str:
    """Crosses over boxes that begin there, wide enough to be seen."""
    if wide < 4:
        return ""
    return "".join(
        f"M{short(x)} {short(y)}l{short(wide)} {short(tall)}M{short(x + wide)} {short(y)}"
        f"l-{short(wide)} {short(tall)}"
        for x in left
    )


def _overview(
    deployment: Deployment, one: DeployedConfiguration, states: list[NDArray[np.int8]]
) -> str:
    """All switches as boxes, a row a plane: fuller by ports joined, red by failures."""
    fabric = deployment.fabric
    rows = [
        [at for at, each in enumerate(fabric.switches) if each.plane == plane]
        for plane in range(fabric.num_planes)
    ]
    counts = np.bincount(one.configuration.switch, minlength=len(fabric.switches))
    left, tall = 62.0, 16.0
    step = (WIDTH - left - 2) / max(map(len, rows))
    wide, parts = max(step - 1, 0.8 * step), []
    for plane, row in enumerate(rows):
        y = plane * (tall + 3) + 4
        parts.append(words(left - 8, y + 12, f"plane {plane}", anchor="end"))
        for at, switch in enumerate(row):
            x = left + at * step
            parts.append(path("free", box(x, y, wide, tall)))
            joined = 1 if states[switch].shape[0] == 2 else 2
            share = min(1.0, joined * int(counts[switch]) / fabric.switches[switch].num_ports)
            full = tall * share
            parts.append(path("used", box(x, y + tall - full, wide, full) if share else ""))
            broken = float((states[switch] == FAILED).mean())
            parts.append(path("failed", box(x, y, wide, max(3.0, tall * broken)) if broken else ""))
    title = (
        f"{len(fabric.switches)} switches, {int(counts.sum())} cross-connects: every box is filled "
        "by the share of a switch's ports that are joined, and from above by that which has failed."
    )
    height = len(rows) * (tall + 3) + 6
    return figure_html(picture(height, f"{one.name}, {title.rstrip('.')}", parts), title)
