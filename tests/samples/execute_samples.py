"""Plans of every kind for runs on real processes, by number of ranks."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from program_samples import designs

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.demand import COPY, MOVE, SUM, Demand
from ocs_codesign.core.network import Network
from ocs_codesign.core.networks.builders import damaged, fat_tree, mesh, star
from ocs_codesign.core.plans import COLUMNS, INPUT, OUTPUT, RECEIVE, SEND, RankProgram
from ocs_codesign.core.plans import COPY as COPY_HERE
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.topology import Topology
from ocs_codesign.graphs.text import parse
from ocs_codesign.interop.lowering.lowering import lower
from ocs_codesign.interop.run.launch import RunJob, steps_of_changes
from ocs_codesign.schedules.classic.registry import CLASSIC
from ocs_codesign.schedules.design import build
from ocs_codesign.schedules.registry import Task, made_by

if TYPE_CHECKING:
    from collections.abc import Callable


Made = "tuple[Plan, tuple[int, ...]]"


def best(recipe: str, collective: str) -> Made:
    return build(parse(recipe), collective).schedule, ()


def classic(name: str, collective: str, ranks: int, **options: Any) -> Made:
    return CLASSIC[name].messages(collective, ranks, **options), ()


def on(
    network: Callable[[], Network], scheduler: str, collective: Collective, **limits: Any
) -> Made:
    task = Task(network().topology(), collective, network=network(), **limits)
    schedule = made_by(scheduler, task).schedule
    assert schedule is not None
    return schedule, ()


def over(recipe: str, scheduler: str, collective: str) -> Made:
    task = Task(parse(recipe).topology(), Collective(collective), parse(recipe))
    schedule = made_by(scheduler, task).schedule
    assert schedule is not None
    return schedule, ()


def circuits(number: int) -> Made:
    """One of the circuit programs of the samples."""
    made = designs()[number]
    return made.schedule, steps_of_changes(made.program)


def torn() -> Network:
    """A torus without two of its links, one of them in one direction only, and one link slower."""
    return damaged(parse("Torus((3, 3))").topology(), ("h0-h1", "h4>h5"), ())


def unequal() -> Network:
    """A mesh whose links are fast one way and slow the other."""
    return mesh((2, 4), (25, 100), (700, 300), "GB/s")


def leaves() -> Network:
    """Two leaf switches of four hosts each, and two spines."""
    return fat_tree((4, 2), (1, 2), 10)


def mixture() -> Made:
    """A demand without a name: a sum for rank 2, a copy for three ranks, and pieces that move."""
    ring = Topology(4, [0, 1, 2, 3], [1, 2, 3, 0])
    kinds = [SUM, COPY, MOVE]
    groups = [[0, 1, 2], [1, 2, 3], [3], [0]]
    demand = Demand(
        4, kinds, [2, 0, 1], [0, 1, 2, 4], [2, 1, 1, 2], [0, 1, 2, 3],
        [0, 3, 6, 7, 8], [host for group in groups for host in group], 3,
    )  # fmt: skip
    rows = [  # item, lo, hi, link, step
        (0, 0, 2, 0, 1), (0, 0, 2, 1, 2),
        (1, 0, 1, 0, 1), (1, 0, 1, 1, 2), (1, 0, 1, 2, 3),
        (2, 0, 3, 1, 1), (2, 0, 3, 2, 2), (2, 1, 3, 3, 3),
    ]  # fmt: skip
    return Schedule(ring, demand, 3, *zip(*rows, strict=True)), ()


def of(name: str, **parts: Any) -> Collective:
    return Collective(name, **parts)


GROUPS = ((0, 5, 2), (1, 3, 4, 6, 7))
SIZES = (3, 0, 1, 2, 5, 1, 1, 4)
PLANS: dict[int, dict[str, Callable[[], Made]]] = {
    4: {
        "a mixture without a name": mixture,
        "BFB allreduce": partial(best, "Torus((2, 2))", "allreduce"),
        "time-stepped all-to-all": partial(over, "Torus((2, 2))", "stepped", "alltoall"),
    },
    5: {
        "Bruck allgather of a prime": partial(classic, "bruck", "allgather", 5),
        "Swing allreduce of a prime": partial(classic, "swing", "allreduce", 5),
        "Rabenseifner of a prime": partial(classic, "rabenseifner", "allreduce", 5),
        "BFB reduce-scatter": partial(best, "Complete(5)", "reduce-scatter"),
        "circuits of a direct all-to-all": partial(circuits, 5),
    },
    6: {
        f"circuits of sample {number}": partial(circuits, number)
        for number, made in enumerate(designs())
        if made.schedule.num_hosts == 6
    },
    7: {
        "BFB allreduce of a prime": partial(best, "DirectedCirculant(7, (1, 3))", "allreduce"),
        "PAT allgather of a prime": partial(classic, "pat", "allgather", 7),
        "double binary tree": partial(classic, "double-binary-tree", "allreduce", 7),
        "binomial broadcast": partial(classic, "binomial", "broadcast", 7, root=3),
        "binomial reduce": partial(classic, "binomial", "reduce", 7, root=6),
        "Bruck all-to-all": partial(classic, "bruck", "alltoall", 7),
    },
    8: {
        "ring allgather": partial(classic, "ring", "allgather", 8),
        "ring allreduce": partial(classic, "ring", "allreduce", 8),
        "recursive doubling": partial(classic, "recursive-doubling", "reduce-scatter", 8),
        "Swing": partial(classic, "swing", "allgather", 8),
        "scatter and allgather": partial(classic, "scatter-allgather", "broadcast", 8, root=5),
        "pairwise exchange": partial(classic, "xor", "alltoall", 8),
        "greedy scatter": partial(on, unequal, "greedy", of("scatter", root=1)),
        "greedy gather": partial(on, unequal, "greedy", of("gather", root=7)),
        "greedy allreduce": partial(on, unequal, "greedy", of("allreduce")),
        "greedy in uneven groups": partial(on, unequal, "greedy", of("allreduce", groups=GROUPS)),
        "greedy all-to-all in groups": partial(
            on, unequal, "greedy", of("alltoall", groups=GROUPS)
        ),
        "greedy allgather of unequal shards": partial(
            on, unequal, "greedy", of("allgather", sizes=SIZES)
        ),
        "greedy all-to-all of unequal pieces": partial(
            on,
            unequal,
            "greedy",
            of("alltoall", sizes=[SIZES[at:] + SIZES[:at] for at in range(8)]),
        ),
        "circuits of halving and doubling": partial(circuits, 9),
        "a forest over switches": partial(on, leaves, "forest", of("allgather")),
        "a forest over switches, from a root": partial(
            on, leaves, "forest", of("broadcast", root=6)
        ),
        "greedy over a switch": partial(on, partial(star, 8, 10), "greedy", of("allreduce")),
        "a forest on a ring": partial(over, "Torus((8,))", "forest", "allreduce"),
    },
    9: {
        "BFB on a damaged torus": partial(on, torn, "bfb", of("allreduce")),
        "greedy on a damaged torus": partial(on, torn, "greedy", of("reduce-scatter")),
        "a forest on a damaged torus": partial(on, torn, "forest", of("broadcast", root=4)),
    },
    16: {
        "bucket allreduce": partial(classic, "bucket", "allreduce", 16, dims=(4, 4)),
        "BFB allgather": partial(best, "Torus((4, 4))", "allgather"),
    },
    32: {
        "mapped through a line graph": partial(best, "Line(CompleteBipartite(4))", "allgather"),
        "BFB allreduce of 32": partial(best, "Torus((4, 8))", "allreduce"),
        "Rabenseifner of 32": partial(classic, "rabenseifner", "allreduce", 32),
    },
}
"""Plans, each with the steps before which all ranks meet."""


@cache
def job(ranks: int, name: str, elements: int, seed: int = 0, *, in_place: bool = False) -> RunJob:
    """A sample as a job."""
    plan, barriers = PLANS[ranks][name]()
    return RunJob(name, lower(plan, in_place=in_place), elements, barriers, seed)


def random_network(seed: int) -> Network:
    """Five hosts and perhaps a switch on a ring both ways, with links of any speed across."""
    rng = np.random.default_rng(seed)
    nodes = 5 + seed % 2
    order = rng.permutation(nodes)
    rows = [
        *zip(order, np.roll(order, -1), strict=True),
        *zip(order, np.roll(order, 1), strict=True),
    ]
    rows += [tuple(rng.choice(nodes, 2, replace=False)) for _ in range(seed % 5)]
    tail, head = np.array(rows).T
    return Network(5, nodes, tail, head, rng.integers(1, 5, len(rows)))


def random_job(seed: int, collective: str) -> RunJob:
    """A greedy schedule on a random network, in one or several chunks."""
    root = seed % 5 if collective in ("broadcast", "reduce", "scatter", "gather") else None
    wanted = Collective(collective, root=root)
    plan, _ = on(partial(random_network, seed), "greedy", wanted, chunks=1 + seed % 3, seed=seed)
    in_place = collective != "alltoall" and seed % 2 == 1
    return RunJob(f"{collective} {seed}", lower(plan, in_place=in_place), 97 + seed, seed=seed)


IN_PLACE = {
    7: ["BFB allreduce of a prime", "PAT allgather of a prime", "binomial reduce"],
    8: ["ring allreduce", "recursive doubling", "greedy scatter", "greedy gather", "Swing"],
}
"""Samples that are run in place as well."""


def ring_by_hand(ranks: int, *, wrong_offset: bool = False, deadlocks: bool = False) -> RankProgram:
    """The allgather on a one-way ring, not lowered from anything.

    With a ``wrong_offset`` rank 1 sends its own shard once more instead of that of rank 0. One that
    ``deadlocks`` receives everywhere before it sends.
    """
    names = ("rank", "stream", "kind", "peer", "source_buffer", "source")
    names += ("target_buffer", "target", "count", "step")
    rows: list[tuple[int, ...]] = []
    needs: list[list[int]] = []
    for rank in range(ranks):
        after, before = (rank + 1) % ranks, (rank - 1) % ranks
        rows.append((rank, 0, COPY_HERE, -1, INPUT, 0, OUTPUT, rank, 1, 0))
        needs.append([])
        held = len(rows) - 1
        for step in range(1, ranks):
            sent = (rank - step + 1) % ranks
            wrong = wrong_offset and (rank, step) == (1, 2)
            send = (rank, 1, SEND, after, OUTPUT, rank if wrong else sent, 0, 0, 1, step)
            receive = (rank, 2, RECEIVE, before, 0, 0, OUTPUT, (rank - step) % ranks, 1, step)
            if deadlocks:
                rows += [receive, send]
                needs += [[], [len(rows) - 2]]
            else:
                rows += [send, receive]
                needs += [[held], []]
                held = len(rows) - 1
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    starts = [sum(map(len, needs[:at])) for at in range(len(needs) + 1)]
    flat = [need for each in needs for need in each]
    return RankProgram(Collective.ALLGATHER, ranks, 1, False, [0] * ranks, columns, starts, flat)


def with_columns(program: RankProgram, **changed: Any) -> RankProgram:
    """The program with other columns."""
    columns = {name: changed.get(name, getattr(program, name)) for name in COLUMNS}
    return RankProgram(
        program.collective, program.num_ranks, program.chunks_per_unit, program.in_place,
        program.scratch, columns, program.need_start, program.need,
    )  # fmt: skip
