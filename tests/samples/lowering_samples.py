"""Plans of every kind to lower: designs, collectives with all that they may have, switches."""

from __future__ import annotations

from functools import cache

from ocs_codesign.core.collective import WITHOUT_PARAMETERS, Collective
from ocs_codesign.core.networks.builders import fat_tree, star
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.classic.registry import CLASSIC
from ocs_codesign.schedules.registry import Task, made_by

DESIGNS = [
    *("Complete(2)", "Complete(5)", "CompleteBipartite(3)", "UniRing(1, 7)", "UniRing(2, 3)"),
    *("BiRing(2, 5)", "BiRing(4, 5)", "BiRing(2, 11)", "Torus((2, 3))", "Torus((3, 3))"),
    *("Torus((4, 4))", "Torus((2, 2, 2))", "Hypercube(3)", "Kautz(2, 1)", "Kautz(2, 2)"),
    *("DeBruijn(2, 3)", "GeneralizedKautz(3, 7)", "GeneralizedKautz(2, 13)"),
    *("DirectedCirculant(8, (1, 3))", "DirectedCirculant(7, (1, 2, 4))", "Circulant(9, (1, 2))"),
    *("Line(Complete(3))", "Line(UniRing(2, 3))", "Degree(Complete(3), 2)"),
]
"""Primes, directed circulants, Kautz, tori, line graphs, parallel links, loops."""

COLLECTIVES = [
    Collective("broadcast", root=1),
    Collective("reduce", root=2),
    Collective("scatter", root=3, sizes=(3, 0, 1, 2, 1)),
    Collective("gather", root=0),
    Collective("allgather", sizes=(3, 0, 1, 2, 1)),
    Collective("reduce-scatter", sizes=(0, 2, 1, 1, 3)),
    Collective("alltoall", sizes=[[(i * j) % 3 for i in range(5)] for j in range(5)]),
    Collective("allreduce", groups=((0, 2), (4, 1, 3))),
    Collective("alltoall", groups=((3, 1), (0, 4, 2))),
    Collective("broadcast", root=1, groups=((0, 2), (4, 1))),
    Collective("gather", root=1, groups=((0, 2, 3), (4, 1))),
    Collective("allgather", groups=((0, 2), (4,), (1, 3))),
]
"""Of five hosts: with roots, sizes, none of something, groups whose data others pass on."""

NETWORKS = {
    "star": star(4, [2, 1, 1, 1]),
    "able star": star(4, 1, multicast=True, aggregate=True),
    "able tree": fat_tree((2, 3), (1, 2), [1, 2], multicast=True, aggregate=True),
    "tree": fat_tree((2, 2), (1, 2), 1),
}


@cache
def plan(design: str, collective: Collective, maker: str = ""):
    """BFB where it is for it, otherwise greedy."""
    if not maker:
        maker = "greedy" if collective.name == "alltoall" else "bfb"
    return made_by(maker, Task(parse(design).topology(), collective)).schedule


@cache
def switched(network: str, collective: Collective, maker: str):
    task = Task(NETWORKS[network].topology(), collective, network=NETWORKS[network])
    return made_by(maker, task).schedule


@cache
def classic(name: str, collective: str, ranks: int):
    return CLASSIC[name].messages(collective, ranks)


def small_plans():
    """A few plans of which every kind of operation and buffer is a part."""
    allgather, reduce_scatter, allreduce, alltoall = WITHOUT_PARAMETERS
    return [
        (plan("DirectedCirculant(5, (1, 2))", allgather), True),
        (plan("DirectedCirculant(5, (1, 2))", reduce_scatter), False),
        (plan("Torus((2, 3))", reduce_scatter), True),
        (plan("UniRing(2, 3)", allreduce), True),
        (plan("Kautz(2, 1)", allreduce), False),
        (plan("BiRing(2, 5)", alltoall), False),
        (plan("UniRing(1, 5)", COLLECTIVES[7], "greedy"), False),
        (plan("UniRing(1, 5)", COLLECTIVES[3], "greedy"), True),
        (classic("recursive-doubling-full", "allreduce", 5), False),
        (classic("swing-full", "allreduce", 4), True),
        (classic("bruck", "alltoall", 5), False),
        (switched("star", allreduce, "greedy"), False),
        (plan("UniRing(2, 3)", allreduce).with_chunks(24), True),
    ]
