"""Nanoseconds of an unmodified ASTRA-sim (congestion-aware, 50 GB/s, 500 ns), each exactly."""

from __future__ import annotations

import pytest
from simulate_samples import ASTRA, GATHER, KNOWN, MIB, REDUCE, ROUTES

from ocs_codesign.schedules.classic.registry import CLASSIC
from ocs_codesign.schedules.simulate.engine import simulate_transfers
from ocs_codesign.schedules.simulate.making import transfers_of_messages
from ocs_codesign.verification.simulated import check_simulated


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
