"""Ports divided between circuits that stay and packets: exact times, the best of small cases."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction

import numpy as np
import pytest
from folders import DATA

from ocs_codesign.circuits.demand.matrix import DemandMatrix
from ocs_codesign.circuits.demand.split import (
    changing_circuits,
    circuits_beside,
    port_splits,
    time_of,
)
from ocs_codesign.faces.cli import main

CASES = [
    case
    for case in json.loads((DATA / "alltoall_any.json").read_text())["cases"]
    if case["group"] == "ports"
]


@pytest.mark.parametrize("case", CASES)
def test_known_circuits_beside_packets(case):
    widths = Fraction(case["circuit_width"]), Fraction(case["packet_width"])
    demand = DemandMatrix(case["demand"])
    found = circuits_beside(demand, case["circuits_a_server"], *widths)
    assert found.value == Fraction(case["time"])
    assert found.is_optimal
    assert found.greedy_s == Fraction(case["greedy_time"])
    assert (found.circuits == found.circuits.T).all()
    assert found.circuits.sum(axis=0).max() <= case["circuits_a_server"]
    best = np.array(case["one_best_choice"])
    assert time_of(np.array(case["demand"], dtype=object), best, *widths) == found.value
    assert float(found.value) >= case["relaxed"] * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_the_best_of_all_choices(seed):
    """Of four servers with up to two circuits all choices are tried."""
    rng = np.random.default_rng(seed)
    wanted = rng.integers(0, 50, (4, 4)).astype(object)
    np.fill_diagonal(wanted, 0)
    circuit, packet = Fraction(int(rng.integers(1, 5))), Fraction(int(rng.integers(1, 4)))
    pairs = list(itertools.combinations(range(4), 2))
    best = None
    for counts in itertools.product(range(3), repeat=len(pairs)):
        chosen = np.zeros((4, 4), dtype=np.int64)
        for (one, other), count in zip(pairs, counts, strict=True):
            chosen[one, other] = chosen[other, one] = count
        if chosen.sum(axis=0).max() <= 2:
            time = time_of(wanted, chosen, circuit, packet)
            best = time if best is None else min(best, time)
    assert circuits_beside(DemandMatrix(wanted), 2, circuit, packet).value == best


def test_even_demand_by_every_division():
    """The times of the reference: at equal width a packet port is never worse than a circuit."""
    even = DemandMatrix([[100 * (i != j) for j in range(8)] for i in range(8)])
    found = port_splits(even, 6, Fraction(1), Fraction(1))
    times = [None if one.value is None else float(one.value) for one in found]
    assert times[0] == pytest.approx(116.667, abs=1e-3)
    assert times[3] == pytest.approx(133.333, abs=1e-3)
    assert (times[5], times[6]) == (200.0, None)
    assert all(one.is_optimal for one in found[:6])


@pytest.mark.parametrize("delta", [0, 3, 40, 10**6])
def test_circuits_change_where_that_pays(delta):
    """Of all choices of the circuits that were tried none takes less with its changes."""
    rng = np.random.default_rng(delta)
    demands = []
    for step in range(5):
        wanted = rng.integers(1, 9, (5, 5))
        hot = (0, 1) if step in (0, 3) else (2, 3)
        wanted[hot] = wanted[hot[::-1]] = 90
        np.fill_diagonal(wanted, 0)
        demands.append(DemandMatrix(wanted.tolist()))
    widths = Fraction(3), Fraction(2)
    found = changing_circuits(demands, 1, *widths, Fraction(delta))
    totals = []
    for choice in itertools.product(found.circuits, repeat=len(demands)):
        works = [
            time_of(one.units, held, *(width / one.unit_bytes for width in widths))
            for one, held in zip(demands, choice, strict=True)
        ]
        changes = sum(one is not other for one, other in itertools.pairwise(choice))
        totals.append(sum(works) + changes * delta)
    assert found.plan.total == min(totals)
    assert found.plan.is_optimal
    assert found.least_s <= found.plan.total <= min(found.held.total, found.every.total)
    if not delta:
        assert found.plan.total == found.every.total == found.least_s
    if delta == 10**6:
        assert found.plan.num_switches == 0


def test_circuits_that_leave_no_way():
    ring = DemandMatrix([[0, 1, 1], [1, 0, 1], [1, 1, 0]])
    with pytest.raises(ValueError, match="step 1 of 1 cannot be served"):
        changing_circuits([ring], 1, Fraction(1), Fraction(0), Fraction(1))
    with pytest.raises(ValueError, match="all of the same servers"):
        changing_circuits([ring, DemandMatrix([[0]])], 1, Fraction(1), Fraction(1), Fraction(1))


def test_the_command(tmp_path, capsys):
    file = tmp_path / "demand.json"
    file.write_text(json.dumps([[0, 400, 10], [400, 0, 10], [10, 10, 0]]))
    asked = ["demand", str(file), "--ports", "2", "--bandwidth", "4GB/s"]
    assert main([*asked, "--packet-bandwidth", "1GB/s", "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["best"] == 1
    assert told["splits"][1]["circuits"] == [[0, 1, 1]]
    assert told["splits"][2]["time_s"] is not None
    assert main(asked) == 0
    assert "today" in capsys.readouterr().out
    assert main([*asked, "--delta", "1us"]) == 2
    assert main(["demand", str(file), "--bandwidth", "4GB/s"]) == 2
    assert "--ports" in capsys.readouterr().err
