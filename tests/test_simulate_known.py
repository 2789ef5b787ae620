"""Nanoseconds of an unmodified ASTRA-sim (congestion-aware, 50 GB/s, 500 ns), each exactly."""

from __future__ import annotations

import pytest
from simulate_samples import ASTRA, MIB, ROUTES

from ocs_codesign.schedulers.classic.registry import CLASSIC
from ocs_codesign.simulate.engine import simulate_transfers
from ocs_codesign.simulate.making import transfers_of_messages
from ocs_codesign.verification.simulated import check_simulated

GATHER, SCATTER, REDUCE, EXCHANGE = "allgather", "reduce-scatter", "allreduce", "alltoall"
KNOWN = [
    # algorithm, options, collective, ranks, network, M in bytes (None: a MiB a rank), ns
    ("ring", {}, GATHER, 4, "FC", None, 60_093),
    ("ring", {}, GATHER, 8, "FC", None, 140_217),
    ("ring", {}, GATHER, 16, "FC", None, 300_465),
    ("ring", {}, GATHER, 16, "R", None, 300_465),
    ("ring", {}, GATHER, 4, "FC", 4 * 1_000_003, 57_378),
    ("ring", {}, GATHER, 64, "FC", None, 1_261_953),
    ("ring", {}, GATHER, 128, "FC", None, 2_543_937),
    ("ring", {}, SCATTER, 8, "FC", None, 140_224),
    ("ring", {}, REDUCE, 8, "FC", MIB, 41_181),
    ("ring", {}, REDUCE, 8, "R", None, 280_441),
    ("ring-outward", {}, GATHER, 8, "FC", None, 70_358),
    ("ring-halves", {}, GATHER, 8, "FC", None, 71_855),
    ("neighbour-exchange", {}, GATHER, 6, "FC", None, 99_155),
    ("recursive-doubling", {"first": "near"}, GATHER, 8, "FC", None, 138_218),
    ("recursive-doubling", {"first": "near"}, GATHER, 8, "R", None, 413_655),
    ("recursive-doubling", {"first": "near"}, GATHER, 8, "SW", None, 276_436),
    ("recursive-doubling", {"first": "far"}, GATHER, 8, "R", None, 237_873),
    ("rabenseifner", {}, REDUCE, 8, "FC", None, 276_439),
    ("rabenseifner", {}, REDUCE, 8, "R", None, 475_749),
    ("rabenseifner", {}, REDUCE, 6, "FC", 4 * MIB, 276_439),
    ("pat", {"aggregation": 2}, GATHER, 8, "FC", None, 138_717),
    ("bruck", {}, GATHER, 6, "FC", None, 59_593),
    ("bruck", {}, GATHER, 6, "R", None, 99_155),
    ("bruck", {}, EXCHANGE, 8, "FC", None, 235_875),
    ("bruck", {}, EXCHANGE, 8, "R", None, 550_375),
    ("swing", {}, REDUCE, 8, "FC", None, 276_439),
    ("swing", {}, REDUCE, 8, "R", None, 356_563),
    ("bucket-multiport", {"dims": (4, 4)}, GATHER, 16, "FC", None, 76_239),
    ("bucket", {"dims": (4, 4), "order": (0, 1)}, REDUCE, 16, "FC", None, 591_942),
    ("double-binary-tree", {"chunks_per_tree": 4}, REDUCE, 8, "FC", None, 180_282),
    ("shift", {}, EXCHANGE, 6, "R", None, 118_186),
    ("direct", {}, EXCHANGE, 6, "R", None, 118_186),
]


@pytest.mark.parametrize(("name", "options", "collective", "ranks", "kind", "size", "ns"), KNOWN)
def test_known_nanoseconds(name, options, collective, ranks, kind, size, ns):
    messages = CLASSIC[name].messages(collective, ranks, **options)
    transfers = transfers_of_messages(
        messages, ROUTES[kind](ranks), ranks * MIB if size is None else size
    )
    done = simulate_transfers(transfers, ASTRA)
    assert done.total_ticks == ns
    assert check_simulated(done) is None


def test_the_custom_ring_that_astra_sim_ships():
    """Its compute nodes take 7 us each: 14 (500 + 2,441) + 7 * 7,000 ns."""
    messages = CLASSIC["ring"].messages(REDUCE, 8)
    routes = ROUTES["FC"](8)
    transfers = transfers_of_messages(messages, routes, MIB, addition_ticks=7000)
    assert simulate_transfers(transfers, ASTRA).total_ticks == 90_174


def test_direct_over_a_switch_depends_on_the_order_of_ready_sends():
    """ASTRA-sim's own order is that of a hash table: 98,655 or 118,186 ns."""
    messages = CLASSIC["direct"].messages(GATHER, 4)
    done = simulate_transfers(transfers_of_messages(messages, ROUTES["SW"](4), 4 * MIB), ASTRA)
    assert done.total_ticks in (98_655, 118_186)
    assert check_simulated(done) is None
