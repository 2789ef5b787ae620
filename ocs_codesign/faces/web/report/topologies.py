"""Pictures of topologies: small ones on a circle, large ones as who has a link to whom."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import atan2, cos, pi, sin
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.faces.web.report.charts import WIDTH, figure_html, matrix, path, picture, short

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.fabric.deployments.deploy import DeployedConfiguration


MAX_CIRCLE_NODES, MAX_CIRCLE_LINKS = 64, 640
"""What is drawn on a circle; of more one would see nothing but lines."""
MAX_PLANES = 16
"""Planes that are drawn one by one."""

_COLOURS = 5
_MAX_NAMED, _MAX_ARROWS = 36, 200
_TOWARDS_CENTRE, _ASIDE, _ARROW = 0.18, 0.14, 6.0

Place = tuple[float, float]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """Some links of a topology: their ends, and the class of their lines."""

    tail: NDArray[np.int32]
    head: NDArray[np.int32]
    kind: str


def topology_figures(one: DeployedConfiguration) -> list[str]:
    """The whole topology, then what every plane makes of it, as figures."""
    topology, plane = one.topology, plane_of_link(one)
    numbers = np.unique(plane).tolist()
    title = f"{topology.num_nodes} ranks, {topology.num_links} links"
    is_small = is_on_circle(one)
    by_plane = is_small and 1 < len(numbers) <= _COLOURS
    kinds = {number: f"plane-{at}" if by_plane else "plain" for at, number in enumerate(numbers)}
    parts = [_of_plane(one, plane, number, kinds[number]) for number in numbers]
    keys = [(kinds[number], f"plane {number}") for number in numbers] if by_plane else []
    figures = [figure_html(_drawing(one, parts, title, is_small=is_small), f"{title}.", keys)]
    if len(numbers) < 2:
        return figures
    for number in numbers[:MAX_PLANES]:
        part = _of_plane(one, plane, number, kinds[number] if by_plane else "link")
        caption = f"Plane {number}: {len(part.tail)} links."
        figures.append(figure_html(_drawing(one, [part], caption, is_small=is_small), caption))
    return figures


def is_on_circle(one: DeployedConfiguration) -> bool:
    """Whether its pictures are of nodes and lines, not matrices."""
    topology = one.topology
    return topology.num_nodes <= MAX_CIRCLE_NODES and topology.num_links <= MAX_CIRCLE_LINKS


def plane_of_link(one: DeployedConfiguration) -> NDArray[np.int32]:
    """The plane of every link (int32, links)."""
    configuration = one.configuration
    circuit, side = np.nonzero(configuration.link >= 0)
    plane = np.full(one.topology.num_links, -1, dtype=np.int32)
    plane[configuration.link[circuit, side]] = configuration.plane[circuit]
    return plane


def _of_plane(
    one: DeployedConfiguration, plane: NDArray[np.int32], number: int, kind: str
) -> Drawn:
    mine = plane == number
    return Drawn(one.topology.tail[mine], one.topology.head[mine], kind)


def _drawing(one: DeployedConfiguration, parts: list[Drawn], title: str, *, is_small: bool) -> str:
    nodes = one.topology.num_nodes
    label = f"{one.name}: {title.rstrip('.')}"
    if is_small:
        return picture(WIDTH, f"{label}, on a circle", _circle(nodes, parts))
    tail, head = (
        np.concatenate([getattr(part, end) for part in parts]) for end in ("tail", "head")
    )
    ends = "from rank", "to rank"
    height, shapes = matrix(tail, head, (nodes, nodes), ends)
    return picture(height, f"{label}, as a matrix of ranks", shapes)


def _circle(nodes: int, parts: Sequence[Drawn]) -> Iterator[str]:
    """Lines under discs, at the places that the explorer gives them."""
    middle = WIDTH / 2
    radius = max(2.5, min(11.0, 1.3 * WIDTH / nodes))
    angles = [2 * pi * node / nodes - pi / 2 for node in range(nodes)]
    away = middle - 20
    places = [(middle + away * cos(angle), middle + away * sin(angle)) for angle in angles]
    drawn = [
        dict.fromkeys(zip(part.tail.tolist(), part.head.tolist(), strict=True)) for part in parts
    ]
    times = Counter(pair for ends in drawn for pair in {(min(each), max(each)) for each in ends})
    before: Counter[tuple[int, int]] = Counter()
    for part, ends in zip(parts, drawn, strict=True):
        is_bare, lines = len(ends) > _MAX_ARROWS, []
        for tail, head in ends:
            pair, is_two_way = (min(tail, head), max(tail, head)), (head, tail) in ends
            if tail == head:
                lines.append(_loop(places[tail], middle, radius))
                continue
            if is_two_way and tail > head:
                continue
            aside = _ASIDE * (before[pair] - (times[pair] - 1) / 2) * (1 if tail < head else -1)
            line = Curve(places[tail], places[head], aside)
            lines.append(line.text() + ("" if is_bare or is_two_way else line.arrow(radius)))
        before.update({(min(each), max(each)) for each in ends})
        yield path(f"lines {part.kind}", "".join(lines))
    for node, (x, y) in enumerate(places):
        yield f'<circle class="node" cx="{short(x)}" cy="{short(y)}" r="{short(radius)}"/>'
        if nodes <= _MAX_NAMED:
            yield f'<text class="rank" x="{short(x)}" y="{short(y)}">{node}</text>'


@final
@dataclass(frozen=True, slots=True)
class Curve:
    """A line between two places, bent towards the centre and ``aside`` of others of the two."""

    tail: Place
    head: Place
    aside: float

    def turn(self) -> Place:
        """Where it bends."""
        (x, y), (there, below), centre = self.tail, self.head, WIDTH / 2
        across, down = (x + there) / 2, (y + below) / 2
        return (
            across + _TOWARDS_CENTRE * (centre - across) + self.aside * (y - below),
            down + _TOWARDS_CENTRE * (centre - down) + self.aside * (there - x),
        )

    def text(self) -> str:
        """It as part of a path."""
        (x, y), (over, under), (there, below) = self.tail, self.turn(), self.head
        return f"M{short(x)} {short(y)}Q{short(over)} {short(under)} {short(there)} {short(below)}"

    def arrow(self, radius: float) -> str:
        """The two strokes of an arrow at the rim of the head's disc."""
        turn, to = self.turn(), self.head
        angle = atan2(to[1] - turn[1], to[0] - turn[0])
        x, y = to[0] - radius * cos(angle), to[1] - radius * sin(angle)
        (left, up), (right, down) = (
            (x - _ARROW * cos(angle + side), y - _ARROW * sin(angle + side)) for side in (-0.4, 0.4)
        )
        return f"M{short(left)} {short(up)}L{short(x)} {short(y)}L{short(right)} {short(down)}"


def _loop(place: Place, middle: float, radius: float) -> str:
    """A link from a node to itself, outside of the circle."""
    away = (radius + 3) / (middle - 20)
    x, y = (each + away * (each - middle) for each in place)
    return f"M{short(x - 5)} {short(y)}a5 5 0 1 0 10 0a5 5 0 1 0 -10 0"
