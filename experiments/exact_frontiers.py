"""Exact allgather frontiers of all small 2-regular digraphs, and where BFB is not the best.

Of every connected digraph of N <= 7 nodes in which two links leave and enter each node (parallel
links allowed, self-loops not; up to isomorphism): the least t_b of any schedule in as many steps as
the diameter, one more and two more. `bound` is what no schedule can beat with any number of chunks,
by linear programming in rationals; `t_b` is reached by a schedule of `chunks` chunks a shard, the
proven best of so many by integer programming: 2, or a few more where 2 miss the bound. Of the 1987
graphs of N = 8 only those whose nodes all look the same and those of the families are solved. BFB
takes as many steps as the diameter and as many chunks as it likes.

    python experiments/exact_frontiers.py [--quick] [--out DIR]

writes figures/exact_frontiers.csv and .png in about a quarter of an hour; --quick runs N <= 5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from regular_digraphs import Digraph, of_topology, two_regular_digraphs
from reporting import KAUTZ, OURS, PUBLISHED, RING, Report, new_figure, parse_arguments, publish

from ocs_codesign import Recipe, Topology, exact_schedule, measure_topology, parse, topology_bound
from ocs_codesign.core.lp import Options

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHUNKS = 2
MORE_CHUNKS = (3, 4, 5, 6)
MOST_CHUNKS = 14
"""Largest number of chunks up to N = 6: beyond, those of MORE_CHUNKS have to do."""
MORE_STEPS = (0, 1, 2)
COMPLETE = (2, 3, 4, 5, 6, 7)
QUICK = (2, 3, 4, 5)
IN_PART = (8,)
IN_HASTE = (7, 8)
FIELDS = (
    *("nodes", "graph", "name", "vertex_transitive", "parallel_links", "steps", "least_t_b"),
    *("bfb_t_b", "verdict"),
    *(f"{kind}_plus_{more}" for more in MORE_STEPS for kind in ("t_b", "chunks", "bound")),
)
FAMILIES = (
    *("UniRing(2, {n})", "BiRing(2, {n})", "Kautz(2, {n})", "GeneralizedKautz(2, {n})"),
    *("ModifiedDeBruijn(2, {n})", "DirectedCirculant({n}, (1, {a}))", "Line(UniRing(2, {n}))"),
    *("Line(BiRing(2, {n}))", "Product(UniRing(1, {n}), UniRing(1, {a}))"),
)
BEST, OPEN, LATER, BEATEN = (
    "best of all",
    "not beaten here",
    "beaten with more steps",
    "beaten in its own steps",
)
COLOURS = {BEST: OURS, OPEN: RING, LATER: KAUTZ, BEATEN: PUBLISHED}


@dataclass(frozen=True, slots=True)
class Point:
    """The least t_b that was reached in so many steps, its chunks, and what none can beat."""

    t_b: Fraction
    chunks: int
    bound: Fraction


@dataclass(frozen=True, slots=True)
class Solved:
    """What one graph can do in as many steps as its diameter, one more and two more, and BFB."""

    graph: Digraph
    steps: int
    least: Fraction
    bfb: Fraction
    points: tuple[Point, ...]

    @property
    def best(self) -> Fraction:
        """The least t_b that was reached."""
        return min(self.bfb, *(point.t_b for point in self.points))

    @property
    def verdict(self) -> str:
        """How BFB compares with all schedules."""
        if self.bfb == self.least:
            return BEST
        if self.points[0].t_b < self.bfb:
            return BEATEN
        return LATER if self.best < self.bfb else OPEN


def solved(graph: Digraph) -> Solved:
    """The exact frontier of a graph; where the least t_b is reached, more steps have it too."""
    topology = graph.topology()
    cost, least = measure_topology(topology).cost, topology_bound(topology).t_b
    points: list[Point] = []
    for more in MORE_STEPS:
        if points and points[-1].t_b == least:
            points.append(points[-1])
            continue
        found = point(topology, cost.steps + more)
        if points and points[-1].t_b <= found.t_b:
            found = Point(points[-1].t_b, points[-1].chunks, found.bound)
        points.append(found)
    return Solved(graph, cost.steps, least, cost.t_b, tuple(points))


def point(topology: Topology, steps: int) -> Point:
    """The least t_b in so many steps, with as many chunks as it takes to meet the bound, or few."""
    best = with_chunks(topology, steps, CHUNKS)
    total = best.bound * topology.num_nodes / topology.node_speed()
    tries = [chunks for chunks in MORE_CHUNKS if chunks % total.denominator == 0]
    if not tries and total.denominator <= MOST_CHUNKS and topology.num_nodes not in IN_HASTE:
        tries = [total.denominator]
    for chunks in tries:
        if best.t_b == best.bound:
            break
        best = min(best, with_chunks(topology, steps, chunks), key=lambda one: one.t_b)
    return best


def with_chunks(topology: Topology, steps: int, chunks: int) -> Point:
    """The least t_b in so many steps and chunks; without a time limit, so it is always proven."""
    answer = exact_schedule(topology, steps, chunks, options=Options())
    if answer.limit is None or not answer.is_optimal:
        raise RuntimeError(f"{topology!r}: {answer.status}")
    return Point(answer.cost.t_b, chunks, answer.limit)


def recipes(nodes: int) -> Iterator[Recipe]:
    """Members of the families that have so many nodes and degree 2, without self-loops."""
    for text in FAMILIES:
        for n in range(1, nodes + 1):
            for a in range(1, nodes) if "{a}" in text else (0,):
                try:
                    recipe = parse(text.format(n=n, a=a))
                except ValueError:
                    continue
                if (recipe.num_nodes, recipe.degree) == (nodes, 2) and not recipe.has_self_loops:
                    yield recipe


def names(nodes: int) -> dict[Digraph, Recipe]:
    """The first recipe of every graph that has one."""
    found: dict[Digraph, Recipe] = {}
    for recipe in recipes(nodes):
        try:
            topology = recipe.topology()
            topology.diameter()
        except ValueError:
            continue
        found.setdefault(of_topology(topology), recipe)
    return found


def graphs(nodes: int, known: dict[Digraph, Recipe]) -> list[Digraph]:
    """Those that are solved: all, or of N = 8 the symmetric and the named ones."""
    every = two_regular_digraphs(nodes)
    if nodes not in IN_PART:
        return every
    return [graph for graph in every if graph.is_vertex_transitive or graph in known]


def row(one: Solved, known: dict[Digraph, Recipe]) -> dict[str, object]:
    """A graph's line of the table."""
    graph, recipe = one.graph, known.get(one.graph)
    least = [value for at in one.points for value in (at.t_b, at.chunks, at.bound)]
    return {
        "nodes": graph.num_nodes,
        "graph": str(graph),
        "name": "" if recipe is None else repr(recipe),
        "vertex_transitive": graph.is_vertex_transitive,
        "parallel_links": sum(first == second for first, second in graph.heads),
        "steps": one.steps,
        "least_t_b": one.least,
        "bfb_t_b": one.bfb,
        "verdict": one.verdict,
        **dict(zip(FIELDS[-len(least) :], least, strict=True)),
    }


def note(found: Sequence[Solved]) -> str:
    """How often and by how much BFB is beaten, in a sentence."""
    count = Counter(one.verdict for one in found)
    points = [at for one in found for at in one.points]
    settled = sum(at.t_b == at.bound for at in points)
    own = max((one.bfb / one.points[0].t_b for one in found), default=Fraction(1))
    most = max((one.bfb / one.best for one in found), default=Fraction(1))
    return (
        f"{settled} of {len(points)} points meet their bound; of {len(found)} graphs BFB is best "
        f"of all on {count[BEST]}, beaten in its own steps on {count[BEATEN]} (by up to {own} "
        f"times) and only with more steps on {count[LATER]} (up to {most} times)"
    )


def picture(table: Sequence[dict[str, object]]) -> Figure:
    """How many graphs of every size BFB is best on, and by how much it is beaten on the others."""
    figure, (shares, excess) = new_figure(8.2, 7.0, 2, 1)
    nodes = [int(str(line["nodes"])) for line in table]
    sizes = sorted(set(nodes))
    count = Counter(zip(nodes, (str(line["verdict"]) for line in table), strict=True))
    total = np.array([sum(count[size, verdict] for verdict in COLOURS) for size in sizes])
    base = np.zeros(len(sizes))
    for verdict, colour in COLOURS.items():
        share = np.array([count[size, verdict] for size in sizes]) / total
        if share.any():
            shares.bar(sizes, share, 0.62, base, color=colour, label=verdict)
        base += share
    for size, number in zip(sizes, total, strict=True):
        text = f"{number}{'*' * (size in IN_PART)}"
        shares.text(size, 1.01, text, ha="center", va="bottom", fontsize=9)
    own = Counter(zip(nodes, (excess_of(line, MORE_STEPS[:1]) for line in table), strict=True))
    later = Counter(zip(nodes, (excess_of(line, MORE_STEPS) for line in table), strict=True))
    for cells, aside, colour in ((own, -0.14, COLOURS[BEATEN]), (later, 0.14, COLOURS[LATER])):
        kept = sorted(cell for cell in cells if cell[1] > 1)
        excess.scatter(
            [size + aside for size, _ in kept],
            [float(factor) for _, factor in kept],
            [16 * cells[cell] ** 0.7 for cell in kept],
            color=colour,
            alpha=0.75,
            linewidths=0,
            label="in its own steps" if cells is own else "in up to 2 more steps",
        )
    shares.set_title("BFB against all allgathers of 2-regular digraphs (their number above)")
    shares.set_ylabel("share of the graphs on which BFB is")
    shares.set_ylim(0, 1.1)
    shares.legend(
        frameon=False, fontsize=9, ncols=4, loc="lower center", bbox_to_anchor=(0.5, -0.16)
    )
    excess.set_ylabel("BFB's $t_b$ over the least (×)\nlarger dots: more graphs")
    excess.set_xlabel("nodes N   (* vertex-transitive graphs and those of the families only)")
    excess.set_xticks(sizes)
    excess.legend(frameon=False, fontsize=9, loc="upper left")
    return figure


def excess_of(line: dict[str, object], more_steps: Sequence[int]) -> Fraction:
    """BFB's t_b over the least, its own included, in so many more steps."""
    bfb = Fraction(str(line["bfb_t_b"]))
    return bfb / min(bfb, *(Fraction(str(line[f"t_b_plus_{more}"])) for more in more_steps))


def main() -> None:
    """Run, print and write."""
    arguments = parse_arguments(__doc__)
    found: list[Solved] = []
    table: list[dict[str, object]] = []
    for nodes in QUICK if arguments.quick else COMPLETE + IN_PART:
        known = names(nodes)
        of_size = [solved(graph) for graph in graphs(nodes, known)]
        found += of_size
        table += [row(one, known) for one in of_size]
    publish(Report("exact_frontiers", FIELDS, table, picture(table), note(found)), arguments)


if __name__ == "__main__":
    main()
