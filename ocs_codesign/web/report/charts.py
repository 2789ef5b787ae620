"""Charts of a deployment: loads per step, ports of planes, hosts, margins of light."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.fabric.light_budget import light_paths
from ocs_codesign.web.report.svg import (
    WIDTH,
    box,
    figure_html,
    path,
    picture,
    short,
    state_keys,
    words,
)
from ocs_codesign.web.report.switches import FAILED, STATES, crosses, port_keys, port_states

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from ocs_codesign.fabric.deployments.deployment import BoundedDesign, Deployment

MAX_BARS = 64
"""Steps with a bar each; more are a line of stairs."""
MAX_HOSTS = 4096

_LEFT, _TOP, _TALL = 44.0, 24.0, 120.0


def load_figures(deployment: Deployment) -> list[str]:
    """The load of the busiest link in every step, a figure a schedule."""
    return [
        _loads(one.name, bounded) for one in deployment.configurations for bounded in one.designs
    ]


def _loads(name: str, bounded: BoundedDesign) -> str:
    loads, cost = bounded.design.loads, bounded.design.cost
    steps = f"{len(loads)} step{'' if len(loads) == 1 else 's'}"
    title = f"{name}, {bounded.collective.name}: {steps}, t_b {cost.t_b}."
    label = f"Load of the busiest link, {title.rstrip('.')}"
    if len(loads) <= MAX_BARS // 4:
        label += f": {', '.join(map(str, loads))} shards"
    numbers = [str(step) for step in range(1, len(loads) + 1)]
    texts = [str(load) for load in loads]
    chart = _bars(list(map(float, loads)), numbers, texts, "shards", "step")
    return figure_html(picture(_TOP + _TALL + 40, label, chart), title)


def _bars(
    values: Sequence[float], names: Sequence[str], texts: Sequence[str], unit: str, below: str
) -> list[str]:
    """Bars from zero, named below and with their text above where there is room."""
    most = max(values, default=0.0) or 1.0
    step = (WIDTH - _LEFT - 4) / max(1, len(values))
    floor = _TOP + _TALL
    heights = [(_TALL - 14) * value / most for value in values]
    parts = [
        words(_LEFT - 6, floor - max(heights, default=0) + 5, _short_number(most), anchor="end"),
        words(_LEFT - 6, floor + 2, "0", anchor="end"),
        words(2, 12, unit),
        words(WIDTH - 4, floor + 36, below, anchor="end"),
    ]
    if len(values) <= MAX_BARS:
        wide = min(0.75 * step, 40.0)
        boxes = [
            box(_LEFT + (at + 0.5) * step - wide / 2, floor - height, wide, height)
            for at, height in enumerate(heights)
        ]
        parts.append(path("bar", "".join(boxes)))
    else:
        stairs = "".join(
            f"V{short(floor - height)}H{_LEFT + (at + 1) * step:.2f}"
            for at, height in enumerate(heights)
        )
        parts.append(path("stroked", f"M{short(_LEFT)} {short(floor)}{stairs}"))
    parts.append(path("frame", f"M{short(_LEFT)} {short(floor)}H{WIDTH - 4}"))
    every = max(1, -(-max(map(len, names), default=1) * 9 * len(values) // int(WIDTH - _LEFT)))
    for at in range(0, len(values), every):
        x = _LEFT + (at + 0.5) * step
        parts.append(words(x, floor + 16, names[at], anchor="middle"))
    if max(map(len, texts), default=1) * 7.5 <= step:
        for at, text in enumerate(texts):
            parts.append(words(_LEFT + (at + 0.5) * step, floor - heights[at] - 4, text, "load"))
    return parts


def _short_number(value: float) -> str:
    """A number with three digits at least and a k for thousands.

    >>> _short_number(3.5), _short_number(3936), _short_number(123456)
    ('3.5', '3936', '123k')
    """
    return f"{value:.4g}" if value < 10_000 else f"{value / 1000:.3g}k"


def ports_figure(deployment: Deployment) -> str:
    """Ports of every plane, all switches and sides together, by what they are used for."""
    fabric, tall = deployment.fabric, 16.0
    counts = np.zeros((fabric.num_planes, len(STATES)), dtype=np.int64)
    for switch, states in zip(fabric.switches, port_states(deployment), strict=True):
        counts[switch.plane] += np.bincount(states.ravel(), minlength=len(STATES))
    left, most = 62.0, max(1, int(counts.sum(axis=1).max()))
    parts = []
    for plane, row in enumerate(counts.tolist()):
        x, y = left, plane * (tall + 4) + 4
        parts.append(words(left - 8, y + 12, f"plane {plane}", anchor="end"))
        for kind, number in zip(STATES, row, strict=True):
            wide = (WIDTH - left - 4) * number / most
            parts.append(path(kind, box(x, y, wide, tall) if number else ""))
            x += wide
    totals = [
        f"{number} {kind}"
        for kind, number in zip(STATES, counts.sum(axis=0).tolist(), strict=True)
        if number
    ]
    title = f"Ports of every plane: {', '.join(totals)}."
    height = fabric.num_planes * (tall + 4) + 6
    label = title.rstrip(".")
    return figure_html(picture(height, label, parts), title, port_keys(deployment))


def hosts_figure(deployment: Deployment) -> str:
    """Hosts in their order: those with a rank, spare, failed and free ones; none if very many."""
    fabric = deployment.fabric
    if len(fabric.hosts) > MAX_HOSTS:
        return ""
    number = {name: at for at, name in enumerate(fabric.hosts)}
    state = np.full(len(fabric.hosts), STATES.index("free"))
    state[fabric.num_working_hosts :] = STATES.index("spare")
    state[deployment.host] = STATES.index("used")
    state[[number[name] for name in deployment.failures.hosts]] = FAILED
    columns = next(size for size in (16, 32, 64) if len(state) <= size * size or size == 64)
    step = (WIDTH - 4) / columns
    row, column = np.divmod(np.arange(len(state)), columns)
    parts, wide = [], 0.85 * step
    for at, kind in enumerate(STATES):
        mine = np.flatnonzero(state == at).tolist()
        boxes = [box(2 + column[host] * step, 2 + row[host] * step, wide, wide) for host in mine]
        parts.append(path(kind, "".join(boxes)))
    for host in np.flatnonzero(state == FAILED).tolist():
        left = [2 + step * int(column[host])]
        parts.append(path("cross", crosses(left, 2 + row[host] * step, wide, wide)))
    totals = np.bincount(state, minlength=len(STATES)).tolist()
    names = ("with a rank", "spare", "failed", "free")
    told = [f"{count} {name}" for name, count in zip(names, totals, strict=True) if count]
    title = f"Hosts in the order of the fabric: {', '.join(told)}."
    keys = [
        (kind, names[STATES.index(text)])
        for kind, text in state_keys(STATES[each] for each in np.unique(state).tolist())
    ]
    height = 4 + step * (int(row[-1]) + 1)
    return figure_html(picture(height, title.rstrip("."), parts), title, keys)


def margins_figure(deployment: Deployment) -> str:
    """How many links of all configurations have which margin to the loss budget."""
    margins: Counter[Fraction] = Counter()
    for one in deployment.configurations:
        links = (one.configuration.link >= 0).sum(axis=1).tolist()
        for way, number in zip(light_paths(one.configuration), links, strict=True):
            margins[way.margin_db] += number
    values = sorted(margins)
    names = [f"{float(value):.4g}" for value in values]
    counts = [margins[value] for value in values]
    title = "Links of all configurations by their margin to the loss budget."
    told = ", ".join(f"{count} with {name} dB" for name, count in zip(names, counts, strict=True))
    label = f"{title.rstrip('.')}: {told}" if len(values) <= MAX_BARS // 4 else title
    chart = _bars(counts, names, list(map(str, counts)), "links", "margin in dB")
    return figure_html(picture(_TOP + _TALL + 40, label, chart), title)
