"""What clusters of GPU servers can do at best, and what the usual algorithms do there.

algbw (M over the time of long messages) by number of servers. "best" is the exact optimum of trees
in many pieces, proven by a cut. Ring: as many rings as a server has network cards, ring c entering
every server by card c, through all GPUs on links between them (chosen among random ones where there
is no switch inside). Hierarchical: between servers card by card, then inside them at their own
optimum, in turn or pipelined. Double tree, of allreduces: two binary trees of servers a card, and a
chain of the GPUs below. Of allreduces at best both halves in turn are shown.

    python experiments/algbw_by_boxes.py [--quick] [--out DIR]

writes figures/algbw_by_boxes.csv and .png in a minute; --quick has two servers of each kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
from reporting import KAUTZ, OURS, PUBLISHED, TREE, Report, new_figure, parse_arguments, publish

from ocs_codesign import Topology
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.network import shortest_routes
from ocs_codesign.core.networks.products import a100, h100_rail, mi250
from ocs_codesign.core.networks.servers import _INNER_LEVEL as INNER
from ocs_codesign.schedules.classic.trees import double_tree_parents
from ocs_codesign.schedules.forest.optimum import optimum

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ocs_codesign.core.network import Network

SERVERS: dict[str, tuple[Callable[[int], Network], int, int]] = {
    "A100": (a100, 8, 25),
    "H100-rail": (h100_rail, 8, 50),
    "MI250": (mi250, 16, 16),
}
"""Builder, GPUs of a server, and GB/s of each one's network card."""

BOXES, QUICK = (2, 3, 4, 5, 6, 8), (2,)
TRIES, SEED = 60, 1
FIELDS = (
    *("servers", "boxes", "gpus", "allgather_best", "allgather_ring", "allgather_hierarchical"),
    *("allgather_pipelined", "allreduce_best", "allreduce_ring", "allreduce_double_tree"),
)
LINES = {
    "allgather": {
        "best": ("best (trees, proven)", OURS, "-"),
        "pipelined": ("hierarchical, pipelined", KAUTZ, "-"),
        "hierarchical": ("hierarchical, in turn", KAUTZ, "--"),
        "ring": ("rings", PUBLISHED, "-"),
    },
    "allreduce": {
        "best": ("best halves (trees)", OURS, "-"),
        "ring": ("rings", PUBLISHED, "-"),
        "double_tree": ("double binary trees", TREE, "-"),
    },
}


def busiest(network: Network, pairs: Sequence[tuple[int, int]]) -> Fraction:
    """The largest load / bandwidth of a link if a unit goes over a shortest path of each pair."""
    ends, count = np.unique(np.array(pairs), axis=0, return_counts=True)
    routes = shortest_routes(Topology(network.num_hosts, *ends.T), network)
    load = routes.link_loads(count)
    return max(
        Fraction(int(load[network.bandwidth == width].max()), width)
        for width in np.unique(network.bandwidth).tolist()
    )


def paths_inside(network: Network, gpus: int, ends: Sequence[tuple[int, int]]) -> list[list[int]]:
    """A path through all GPUs of the first server for each of these (first, last) of its GPUs."""
    inner = network.dimension == INNER if network.dimension is not None else slice(None)
    links: dict[tuple[int, int], int] = {}
    for tail, head, width in zip(
        *(column[inner].tolist() for column in (network.tail, network.head, network.bandwidth)),
        strict=True,
    ):
        if max(tail, head) < gpus:
            links[tail, head] = links.get((tail, head), 0) + width
    if not links:  # a switch inside: any order will do
        return [
            [
                first,
                *((first + k) % gpus for k in range(1, gpus) if (first + k) % gpus != last),
                last,
            ]
            for first, last in ends
        ]
    random, used = Random(SEED), dict.fromkeys(links, 0)
    found = []
    for first, last in ends:
        tried = [path for _ in range(TRIES) if (path := _walk(links, gpus, first, last, random))]
        best = min(
            tried,
            key=lambda path: sorted(
                ((used[pair] + 1) / links[pair] for pair in pairwise(path)), reverse=True
            ),
        )
        for pair in pairwise(best):
            used[pair] += 1
        found.append(best)
    return found


def _walk(
    links: dict[tuple[int, int], int], gpus: int, first: int, last: int, random: Random
) -> list[int] | None:
    """A random path over links that visits every GPU once, None after too many dead ends."""
    path, choices, steps = [first], [], 0
    near = {gpu: [head for tail, head in links if tail == gpu] for gpu in range(gpus)}
    choices.append(random.sample(near[first], len(near[first])))
    while steps < 2000:
        steps += 1
        if len(path) == gpus:
            return path
        while choices[-1]:
            gpu = choices[-1].pop()
            if gpu not in path and (gpu == last) == (len(path) == gpus - 1):
                path.append(gpu)
                choices.append(random.sample(near[gpu], len(near[gpu])))
                break
        else:
            path.pop()
            choices.pop()
            if not path:
                return None
    return None


def ring_algbw(network: Network, boxes: int, gpus: int) -> Fraction:
    """algbw of an allgather by as many rings as cards, all at once."""
    shift = [box % 2 for box in range(boxes)]
    shift[-1] = 2 if boxes % 2 else shift[-1]
    inside = {
        (a, b): paths_inside(network, gpus, [((c + a) % gpus, (c + b) % gpus) for c in range(gpus)])
        for a, b in {(shift[box], shift[(box + 1) % boxes]) for box in range(boxes)}
    }
    pairs = []
    for ring in range(gpus):
        order: list[int] = []
        for box in range(boxes):
            path = inside[shift[box], shift[(box + 1) % boxes]][ring]
            order += [box * gpus + gpu for gpu in path]
        pairs += list(pairwise([*order, order[0]]))
    hosts = boxes * gpus
    return 1 / (Fraction(hosts - 1, hosts * gpus) * busiest(network, pairs))


def tree_algbw(network: Network, boxes: int, gpus: int) -> Fraction:
    """algbw of an allreduce by two binary trees of servers a card, up and down at once."""
    pairs = []
    chains = paths_inside(network, gpus, [(card, (card - 1) % gpus) for card in range(gpus)])
    for card, chain in enumerate(chains):
        for parent in double_tree_parents(boxes):
            for box, above in enumerate(parent.tolist()):
                own = [(box * gpus + one, box * gpus + other) for one, other in pairwise(chain)]
                if above >= 0 and above != box:
                    own.append((above * gpus + card, box * gpus + card))
                pairs += own + [(head, tail) for tail, head in own]
    return 1 / (Fraction(1, 2 * gpus) * busiest(network, pairs))


def rows(numbers: Sequence[int]) -> Iterator[dict[str, object]]:
    """A row for every kind and number of servers."""
    for name, (build, gpus, card) in SERVERS.items():
        for boxes in numbers:
            network = build(boxes)
            best = optimum(network, Collective.ALLGATHER).algbw
            back = optimum(network, Collective.REDUCE_SCATTER).algbw
            ring = ring_algbw(network, boxes, gpus)
            across = Fraction(boxes - 1, boxes * gpus * card)
            within = 1 / optimum(build(1), Collective.ALLGATHER).algbw
            yield {
                "servers": name,
                "boxes": boxes,
                "gpus": boxes * gpus,
                "allgather_best": places(best),
                "allgather_ring": places(ring),
                "allgather_hierarchical": places(1 / (across + within)),
                "allgather_pipelined": places(1 / max(across, within)),
                "allreduce_best": places(1 / (1 / best + 1 / back)),
                "allreduce_ring": places(ring / 2),
                "allreduce_double_tree": places(tree_algbw(network, boxes, gpus)),
            }


def places(value: Fraction) -> str:
    """GB/s to two places."""
    return f"{float(value):.2f}"


def picture(table: Sequence[dict[str, object]]) -> Figure:
    """A column a kind of server: allgather above, allreduce below."""
    figure, panels = new_figure(11.0, 6.4, 2, len(SERVERS))
    for column, name in enumerate(SERVERS):
        mine = [line for line in table if line["servers"] == name]
        boxes = [int(str(line["boxes"])) for line in mine]
        for row, (collective, lines) in enumerate(LINES.items()):
            axes = panels[row * len(SERVERS) + column]
            for key, (label, colour, style) in lines.items():
                values = [float(str(line[f"{collective}_{key}"])) for line in mine]
                look: dict[str, Any] = {"color": colour, "linestyle": style, "marker": "o"}
                axes.plot(boxes, values, markersize=4, label=label, **look)
            axes.set_xticks(boxes)
        panels[column].set_title(f"{name} servers", fontsize=10)
        panels[len(SERVERS) + column].set_xlabel("servers")
    for row, collective in enumerate(LINES):
        panels[row * len(SERVERS)].set_ylim(bottom=0)
        panels[row * len(SERVERS)].set_ylabel(f"{collective}: algbw (GB/s)")
        panels[(row + 1) * len(SERVERS) - 1].legend(frameon=False, fontsize=8.5)
    return figure


def main() -> None:
    """Run, print and write."""
    arguments = parse_arguments(__doc__)
    table = list(rows(QUICK if arguments.quick else BOXES))
    publish(Report("algbw_by_boxes", FIELDS, table, picture(table)), arguments)


if __name__ == "__main__":
    main()
