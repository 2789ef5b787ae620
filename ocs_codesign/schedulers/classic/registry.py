"""CLASSIC: every classic algorithm by name, for planners, circuits, schedulers and contracts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.schedulers.classic import alltoall, folded, gathering, grids, trees
from ocs_codesign.schedulers.classic.algorithm import EVEN, POWER_OF_TWO, Algorithm
from ocs_codesign.schedulers.classic.options import RANK_MAP, split_options
from ocs_codesign.schedulers.classic.placement import checked_ranks
from ocs_codesign.schedulers.classic.rank_maps import IDENTITY, named_map

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.collective import Collective
    from ocs_codesign.messages import Messages
    from ocs_codesign.topology import Topology

CLASSIC: dict[str, Algorithm] = {
    "direct": Algorithm(
        "direct exchange",
        {"allgather": gathering.direct, "alltoall": alltoall.direct_exchange},
    ),
    "shift": Algorithm(
        "linear shift", {"allgather": gathering.shift, "alltoall": alltoall.shift_exchange}
    ),
    "xor": Algorithm("pairwise exchange", {"alltoall": alltoall.pairwise}),
    "ring": Algorithm(
        "ring", {"allgather": gathering.ring, "reduce-scatter": gathering.ring_reduce_scatter}
    ),
    "ring-halves": Algorithm("ring both ways", {"allgather": gathering.ring_halves}),
    "ring-outward": Algorithm("ring outward", {"allgather": gathering.ring_outward}),
    "neighbour-exchange": Algorithm(
        "neighbour exchange", {"allgather": gathering.neighbour_exchange}, takes={"allgather": EVEN}
    ),
    "recursive-doubling": Algorithm(
        "halving-doubling",
        {"allgather": gathering.recursive_doubling},
        ("first",),
        {"allgather": POWER_OF_TWO},
    ),
    "bruck": Algorithm(
        "Bruck",
        {"allgather": gathering.bruck, "alltoall": alltoall.bruck_exchange},
        ("radix",),
    ),
    "pat": Algorithm("parallel aggregated trees", {"allgather": gathering.pat}, ("aggregation",)),
    "swing": Algorithm(
        "Swing",
        {"allgather": gathering.swing, "allreduce": folded.swing},
        ("first",),
        {"allgather": POWER_OF_TWO},
    ),
    "swing-multiport": Algorithm(
        "Swing on all ports", {"allgather": grids.swing_multiport}, ("dims", "parts")
    ),
    "recursive-doubling-full": Algorithm(
        "recursive doubling", {"allreduce": folded.recursive_doubling_full}
    ),
    "swing-full": Algorithm("Swing of the whole vector", {"allreduce": folded.swing_full}),
    "rabenseifner": Algorithm("Rabenseifner", {"allreduce": folded.rabenseifner}),
    "linear": Algorithm("linear broadcast", {"broadcast": trees.linear}, ("root",)),
    "binomial": Algorithm("binomial tree", {"broadcast": trees.binomial}, ("root",)),
    "bine": Algorithm(
        "Bine tree", {"broadcast": trees.bine}, ("root",), {"broadcast": POWER_OF_TWO}
    ),
    "chain": Algorithm("chain", {"broadcast": trees.chain}, ("root", "chunks")),
    "scatter-allgather": Algorithm(
        "scatter and allgather",
        {"broadcast": trees.scatter_allgather},
        ("root",),
        reversible=False,
    ),
    "double-binary-tree": Algorithm(
        "double binary tree", {"allreduce": trees.double_binary_tree}, ("chunks_per_tree",)
    ),
    "two-level": Algorithm(
        "two-level ring", {"allreduce": trees.two_level}, ("groups", "group_size")
    ),
    "parameter-server": Algorithm(
        "parameter server", {"allreduce": trees.parameter_server}, ("server",)
    ),
    "bucket": Algorithm(
        "bucket algorithm (BlueConnect, 2D torus)",
        {"allgather": grids.bucket},
        ("dims", "order", "inner"),
    ),
    "bucket-multiport": Algorithm(
        "bucket algorithm on all ports", {"allgather": grids.bucket_multiport}, ("dims", "parts")
    ),
    "themis": Algorithm(
        "bucket algorithm in the orders of Themis",
        {"allgather": grids.themis},
        ("dims", "chunks", "bandwidths"),
    ),
    "grid": Algorithm(
        "exchange by dimensions", {"alltoall": alltoall.grid_exchange}, ("dims", "order")
    ),
    "ring-relay": Algorithm("relay round a ring", {"alltoall": alltoall.ring_relay}),
}
"""Every algorithm by name; whoever reads it has them all."""


def messages_on(
    topology: Topology,
    name: str,
    collective: Collective,
    options: Mapping[str, Any],
    sides: Sequence[int] | None = None,
    *,
    num_hosts: int | None = None,
    routing: str = "even",
) -> tuple[Messages, NDArray[Any]]:
    """What an algorithm of CLASSIC sends between the hosts of a topology, and the rank map.

    The map is the option ``rank_to_node``, by name or as a list. ``sides`` are those of the grid
    that the hosts are in, if any: the ``dims`` of algorithms on grids where none are given. Raises
    ValueError as the algorithm and the map do, and for a collective with sizes or groups.

    >>> from ocs_codesign.collective import Collective
    >>> from ocs_codesign.given import as_topology
    >>> ring = messages_on(as_topology("Torus((4, 2))"), "ring", Collective.ALLGATHER, {})
    >>> ring[0].num_steps, ring[1].tolist()
    (7, [0, 1, 2, 3, 4, 5, 6, 7])
    """
    if collective.sizes is not None or collective.groups is not None:
        raise ValueError(f"classic algorithms are for equal parts and all hosts: {collective.text}")
    hosts = topology.num_nodes if num_hosts is None else num_hosts
    algorithm = CLASSIC[name]
    given, placed = split_options(options)
    if sides is not None and "dims" in algorithm.options:
        given = {"dims": sides, **given}
    if collective.root is not None and "root" in algorithm.options:
        given["root"] = collective.root
    messages = algorithm.messages(collective.name, hosts, **given)
    ranks = placed.get(RANK_MAP, IDENTITY)
    if isinstance(ranks, str):
        grid = sides or given.get("dims")
        seed = placed.get("seed", 0)
        ranks = named_map(
            ranks, messages, topology, grid, num_hosts=hosts, routing=routing, seed=seed
        )
    return messages, checked_ranks(hosts, hosts, ranks)
