"""CLASSIC: every classic algorithm by name, for planners, circuits, schedulers and contracts."""

from __future__ import annotations

from ocs_codesign.schedules.classic.algorithm import EVEN, POWER_OF_TWO, Algorithm

CLASSIC: dict[str, Algorithm] = {
    "direct": Algorithm(
        "direct exchange", {"allgather": "gathering.direct", "alltoall": "alltoall.direct_exchange"}
    ),
    "shift": Algorithm(
        "linear shift", {"allgather": "gathering.shift", "alltoall": "alltoall.shift_exchange"}
    ),
    "xor": Algorithm("pairwise exchange", {"alltoall": "alltoall.pairwise"}),
    "ring": Algorithm(
        "ring", {"allgather": "gathering.ring", "reduce-scatter": "gathering.ring_reduce_scatter"}
    ),
    "ring-halves": Algorithm("ring both ways", {"allgather": "gathering.ring_halves"}),
    "ring-outward": Algorithm("ring outward", {"allgather": "gathering.ring_outward"}),
    "neighbour-exchange": Algorithm(
        "neighbour exchange",
        {"allgather": "gathering.neighbour_exchange"},
        takes={"allgather": EVEN},
    ),
    "recursive-doubling": Algorithm(
        "halving-doubling",
        {"allgather": "gathering.recursive_doubling"},
        ("first",),
        {"allgather": POWER_OF_TWO},
    ),
    "bruck": Algorithm(
        "Bruck", {"allgather": "gathering.bruck", "alltoall": "alltoall.bruck_exchange"}, ("radix",)
    ),
    "pat": Algorithm("parallel aggregated trees", {"allgather": "gathering.pat"}, ("aggregation",)),
    "swing": Algorithm(
        "Swing",
        {"allgather": "gathering.swing", "allreduce": "gathering.swing_folded"},
        ("first",),
        {"allgather": POWER_OF_TWO},
    ),
    "swing-multiport": Algorithm(
        "Swing on all ports", {"allgather": "grids.swing_multiport"}, ("dims", "parts")
    ),
    "recursive-doubling-full": Algorithm(
        "recursive doubling", {"allreduce": "gathering.recursive_doubling_full"}
    ),
    "swing-full": Algorithm("Swing of the whole vector", {"allreduce": "gathering.swing_full"}),
    "rabenseifner": Algorithm("Rabenseifner", {"allreduce": "gathering.rabenseifner"}),
    "linear": Algorithm("linear broadcast", {"broadcast": "trees.linear"}, ("root",)),
    "binomial": Algorithm("binomial tree", {"broadcast": "trees.binomial"}, ("root",)),
    "bine": Algorithm(
        "Bine tree", {"broadcast": "trees.bine"}, ("root",), {"broadcast": POWER_OF_TWO}
    ),
    "chain": Algorithm("chain", {"broadcast": "trees.chain"}, ("root", "chunks")),
    "scatter-allgather": Algorithm(
        "scatter and allgather",
        {"broadcast": "trees.scatter_allgather"},
        ("root",),
        reversible=False,
    ),
    "double-binary-tree": Algorithm(
        "double binary tree", {"allreduce": "trees.double_binary_tree"}, ("chunks_per_tree",)
    ),
    "two-level": Algorithm(
        "two-level ring", {"allreduce": "trees.two_level"}, ("groups", "group_size")
    ),
    "parameter-server": Algorithm(
        "parameter server", {"allreduce": "trees.parameter_server"}, ("server",)
    ),
    "bucket": Algorithm(
        "bucket algorithm (BlueConnect, 2D torus)",
        {"allgather": "grids.bucket"},
        ("dims", "order", "inner"),
    ),
    "bucket-multiport": Algorithm(
        "bucket algorithm on all ports", {"allgather": "grids.bucket_multiport"}, ("dims", "parts")
    ),
    "themis": Algorithm(
        "bucket algorithm in the orders of Themis",
        {"allgather": "grids.themis"},
        ("dims", "chunks", "bandwidths"),
    ),
    "grid": Algorithm(
        "exchange by dimensions", {"alltoall": "alltoall.grid_exchange"}, ("dims", "order")
    ),
    "two-phase": Algorithm(
        "two phases over rails", {"alltoall": "alltoall.two_phase_exchange"}, ("dims",)
    ),
    "ring-relay": Algorithm("relay round a ring", {"alltoall": "alltoall.ring_relay"}),
}
"""Every algorithm by name; whoever reads it has them all."""
