"""Charts of a deployment: loads per step, ports of planes, hosts, margins of light."""

from __future__ import annotations

from collections import Counter
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.fabric.light import light_paths
from ocs_codesign.fabric.wiring import used_ports

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from fractions import Fraction

    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.fabric.deployments.deploy import (
        BoundedDesign,
        DeployedConfiguration,
        Deployment,
    )


# Pictures as inline SVG: texts, figures with captions, figures with captions, grids of cells.


WIDTH = 340
"""Units of a picture's width: pixels, nearly, on a phone, so that its texts can be read there."""

GRID_CELLS = 48
_SHADES = 4
_STATES = ("used", "spare", "failed", "free")


def short(value: float) -> str:
    """A coordinate with a decimal place at most.

    >>> short(2.0), short(2.26), short(-0.01)
    ('2', '2.3', '0')
    """
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def picture(height: float, label: str, parts: Iterable[str]) -> str:
    """A picture, ``WIDTH`` wide, and what those hear of it who do not see it."""
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {short(height)}" role="img" '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def figure_html(svg: str, caption: str, keys: Iterable[tuple[str, str]] = ()) -> str:
    """A picture with its caption and the keys of its colours: classes and texts."""
    shown = "".join(f'<span class="key {kind}">{escape(text)}</span>' for kind, text in keys)
    return f"<figure>{svg}<figcaption><span>{escape(caption)}</span>{shown}</figcaption></figure>"


def state_keys(present: Iterable[str]) -> list[tuple[str, str]]:
    """The keys of the states of ports or hosts that are there, always in one order."""
    there = set(present)
    return [(state, state) for state in _STATES if state in there]


def words(x: float, y: float, text: str, kind: str = "name", anchor: str = "") -> str:
    """A text at a place; ``anchor`` is the part of it that is there, if not its start."""
    at = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text class="{kind}" x="{short(x)}" y="{short(y)}"{at}>{escape(text)}</text>'


def path(kind: str, line: str, more: str = "") -> str:
    """A path of a class, nothing if it is empty."""
    return f'<path class="{kind}" d="{line}"{more}/>' if line else ""


def box(x: float, y: float, width: float, height: float) -> str:
    """A rectangle as part of a path.

    >>> box(1, 2, 3, 4)
    'M1 2h3v4h-3z'
    """
    across = short(width)
    return f"M{short(x)} {short(y)}h{across}v{short(height)}h-{across}z"


def matrix(
    row: ArrayLike, column: ArrayLike, shape: tuple[int, int], ends: tuple[str, str], first: int = 0
) -> tuple[float, list[str]]:
    """The height and parts of a picture of which row meets which column; darker where more do.

    Rows and columns (from 0) of a large ``shape`` are put together, at most GRID_CELLS of either.
    ``ends`` say what they are, and ``first`` is the number of the first.
    """
    counts = binned(row, column, shape)
    cells, left, top = max(counts.shape), 24.0, 24.0
    side = (WIDTH - left - 4) / cells
    size = side * counts.shape[1], side * counts.shape[0]
    level = -(-counts * _SHADES // max(1, int(counts.max(initial=0))))
    parts = [path("frame", box(left, top, *size))]
    place = f' transform="translate({short(left)} {short(top)}) scale({side:.4f})"'
    for shade in range(1, _SHADES + 1):
        more = f'{place} fill-opacity="{0.25 + 0.75 * shade / _SHADES:.2g}"'
        parts.append(path("cells", "".join(_runs(level, shade)), more))
    last = [str(length - 1 + first) for length in shape]
    parts += [
        words(left, top - 8, ends[1]),
        words(left + size[0], top - 8, last[1], anchor="end"),
        words(left - 6, top + 10, str(first), anchor="end"),
        f'<text class="name" transform="translate({short(left - 8)} {short(top + size[1] / 2)}) '
        f'rotate(-90)" text-anchor="middle">{escape(ends[0])}</text>',
    ]
    return top + size[1] + 4, parts


def binned(row: ArrayLike, column: ArrayLike, shape: tuple[int, int]) -> NDArray[np.int64]:
    """How many pairs are in every cell, those of a large shape put together.

    >>> binned([0, 1, 1], [0, 2, 2], (2, 3)).tolist()
    [[1, 0, 0], [0, 0, 2]]
    """
    cells = tuple(min(length, GRID_CELLS) for length in shape)
    places = [
        np.asarray(ends, dtype=np.int64) * number // length
        for ends, number, length in zip((row, column), cells, shape, strict=True)
    ]
    flat = np.bincount(places[0] * cells[1] + places[1], minlength=cells[0] * cells[1])
    return flat.reshape(cells).astype(np.int64)


def _runs(level: NDArray[np.int64], shade: int) -> Iterable[str]:
    """Cells of a shade as boxes, those side by side as one."""
    for row, line in enumerate((level == shade).tolist()):
        at = 0
        for is_shade, group in groupby(line):
            number = len(list(group))
            if is_shade:
                yield box(at, row, number, 1)
            at += number


# Pictures of switches: their ports with what is in use, spare or failed, and what joins them.


MAX_SWITCHES = 16
"""Switches of a configuration that are drawn one by one."""
MAX_PORTS = 136
"""Ports of a side of a switch that are drawn one by one."""

STATES = ("used", "spare", "failed", "free")
USED, SPARE, FAILED, FREE = range(4)
_SWITCH_LEFT, _SWITCH_TALL = 22.0, 110.0


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
        figures.append(figure_html(picture(_SWITCH_TALL + 46, label, parts), title))
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
    step = (WIDTH - _SWITCH_LEFT - 2) / states.shape[1]
    top, bottom = 18.0, 18.0 + _SWITCH_TALL
    lines = [
        f"M{short(_SWITCH_LEFT + (a + 0.5) * step)} {short(top + 12)}"
        f"L{short(_SWITCH_LEFT + (b + 0.5) * step)} {short(bottom)}"
        for a, b in pairs
    ]
    yield path("lines link", "".join(lines))
    yield from _row(states[0], step, top, "A")
    yield from _row(states[1], step, bottom, "B")
    yield words(_SWITCH_LEFT, 12, "1")
    yield words(WIDTH - 2, 12, str(states.shape[1]), anchor="end")


def _arcs(states: NDArray[np.int8], pairs: list[tuple[int, int]]) -> Iterator[str]:
    """The ports of a switch without sides, and an arc for every two that are joined."""
    step = (WIDTH - _SWITCH_LEFT - 2) / states.shape[1]
    bottom = 18.0 + _SWITCH_TALL
    lines = []
    for one, other in pairs:
        low, high = (_SWITCH_LEFT + (port + 0.5) * step for port in sorted((one, other)))
        up = min(
            2 * _SWITCH_TALL, 12 + 2 * (_SWITCH_TALL - 12) * (high - low) / (WIDTH - _SWITCH_LEFT)
        )
        turn = f"{short((low + high) / 2)} {short(bottom - up)}"
        lines.append(f"M{short(low)} {short(bottom)}Q{turn} {short(high)} {short(bottom)}")
    yield path("lines link", "".join(lines))
    yield from _row(states[0], step, bottom, "")
    yield words(_SWITCH_LEFT, bottom + 26, "1")
    yield words(WIDTH - 2, bottom + 26, str(states.shape[1]), anchor="end")


def _row(states: NDArray[np.int8], step: float, y: float, name: str) -> Iterator[str]:
    """A side of a switch, a box a port; failed ones are crossed."""
    wide = max(step - 1, 0.8 * step)
    for number, kind in enumerate(STATES):
        ports = np.flatnonzero(states == number).tolist()
        yield path(kind, "".join(box(_SWITCH_LEFT + port * step, y, wide, 12) for port in ports))
    failed = np.flatnonzero(states == FAILED).tolist()
    yield path("cross", crosses([_SWITCH_LEFT + port * step for port in failed], y, wide, 12))
    yield words(_SWITCH_LEFT - 6, y + 11, name, anchor="end") if name else ""


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
