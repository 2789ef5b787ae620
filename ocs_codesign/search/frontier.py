"""The finder: for N nodes of degree d, the exact latency-throughput Pareto frontier."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ocs_codesign.collective import Collective
from ocs_codesign.given import whole
from ocs_codesign.question import Question
from ocs_codesign.search.effort import Effort
from ocs_codesign.search.pareto import WITH_FORESTS, Frontier, pareto, with_forests
from ocs_codesign.search.pool import pool

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.lp import Options

MAX_NODES = 2**20


def frontier(
    num_nodes: int,
    degree: int,
    collective: Collective | str = Collective.ALLGATHER,
    *,
    bidirectional: bool = False,
    forests: bool = False,
    fresh: bool = False,
    effort: Effort | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Frontier:
    """The frontier of all recipes the finder knows for N nodes of degree d.

    Bases of theory, named graphs and a seeded search, under nested expansions; the most promising
    are measured exactly. ``bidirectional`` asks for topologies whose links come in pairs, one in
    each direction, as many fabrics force; with ``forests`` the least t_b of any schedule on a
    topology counts as well, which spanning trees come near to; sizes that the shipped catalogue has
    searched are looked up unless ``fresh``, as the answer's ``origin`` says; ``effort`` limits the
    search; ``on_progress(phase, done, total)`` is told how far it is. The same question always has
    the same answer. Raises ValueError unless 2 <= N <= MAX_NODES and 1 <= d < N, or if no topology
    of the size is known.

    >>> [(c.recipe.label(), c.cost.steps, str(c.cost.t_b)) for c in frontier(8, 4).candidates]
    [('K4,4', 2, '7/8')]
    """
    collective = Collective.parse_gathering(collective)
    question = _question(num_nodes, degree, bidirectional)
    known = pool(question, effort, on_progress, fresh=fresh, passes_for=[collective])
    scored = [design.of(collective) for design in known.designs]
    candidates, dominated = with_forests(scored) if forests else pareto(scored)
    if not candidates:
        raise ValueError(_nothing_known(question))
    criteria = WITH_FORESTS if forests else ("steps", "t_b")
    return Frontier(
        question,
        collective,
        tuple(candidates),
        tuple(dominated),
        criteria,
        origin=known.origin,
        alltoall=known.times,
    )


def joint_frontier(
    num_nodes: int,
    degree: int,
    *,
    with_allgather: bool = True,
    bidirectional: bool = False,
    fresh: bool = False,
    effort: Effort | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
    options: Options | None = None,
) -> Frontier:
    """Which topologies serve all-to-all best, and with ``with_allgather`` both collectives.

    Undominated in (steps, all-to-all time), or in (steps, allgather t_b, all-to-all time), among
    the candidates of ``frontier`` and of a search for all-to-all. Times that the shipped catalogue
    has are not solved again, and sizes that it was searched for all-to-all are looked up unless
    ``fresh``, as the answer's ``origin`` says. ``options`` are those of the solver; their time
    limit is that of all programs together, and the answer's ``stopped`` says if the solver cannot
    take a program. Other arguments and errors are those of ``frontier``.

    >>> [(c.recipe.label(), str(c.cost.t_b)) for c in joint_frontier(8, 4).candidates]
    [('K4,4', '5/4')]
    """
    from ocs_codesign.lp import DEFAULT_OPTIONS
    from ocs_codesign.search.joint import ALLTOALL_ALONE, WITH_ALLGATHER, rank_jointly

    question = _question(num_nodes, degree, bidirectional)
    collectives = [Collective.ALLTOALL] + [Collective.ALLGATHER] * with_allgather
    known = pool(question, effort, on_progress, fresh=fresh, passes_for=collectives)
    designs = [one for one in known.designs if one.measured]
    criteria = WITH_ALLGATHER if with_allgather else ALLTOALL_ALONE
    options = options or DEFAULT_OPTIONS
    found = rank_jointly(question, designs, criteria, on_progress, options, known.times)
    if not found.candidates and not found.unsolved:
        raise ValueError(_nothing_known(question))
    return replace(found, origin=known.origin, alltoall=known.times)


def _question(num_nodes: int, degree: int, bidirectional: bool) -> Question:
    num_nodes, degree = whole(num_nodes, "num_nodes"), whole(degree, "degree")
    if not 2 <= num_nodes <= MAX_NODES:
        raise ValueError(f"{num_nodes} nodes: the finder answers for 2 to {MAX_NODES}")
    if not 1 <= degree < num_nodes:
        raise ValueError(
            f"degree {degree} of {num_nodes} nodes: it must be from 1 to {num_nodes - 1}, "
            "since more ports than other nodes cannot help"
        )
    return Question(num_nodes, degree, bidirectional)


def _nothing_known(question: Question) -> str:
    nodes = question.num_nodes
    return f"no bidirectional topology of {nodes} nodes and degree {question.degree} is known" + (
        ": an odd number of nodes needs an even degree" if nodes % 2 else ""
    )
