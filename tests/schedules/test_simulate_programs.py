"""Circuits that change in the simulator: everything stops, or ports are dark while others send."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from program_samples import designs

from ocs_codesign.circuits.change import Change
from ocs_codesign.circuits.programs.designs import program_time
from ocs_codesign.core.circuits import CircuitProgram
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import CostModel
from ocs_codesign.core.networks.builders import direct
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.topology import Topology
from ocs_codesign.schedules.simulate.engine import simulate_transfers, timed
from ocs_codesign.schedules.simulate.making import transfers_of_program
from ocs_codesign.schedules.simulate.reasons import IDLE_REASONS, critical_path, idle_ticks
from ocs_codesign.schedules.simulate.transfers import TimingRules
from ocs_codesign.verification.circuits import check_timed
from ocs_codesign.verification.simulated import check_simulated

RULES = TimingRules(unit_Bps=10**9)
LATENCY, DELTA = 7, 50
NS = Fraction(1, 10**9)


def simulated(design, **how):
    """A piece is 60 bytes on a byte a ns: what it takes, and M."""
    schedule = design.schedule
    units = max(demand.message_units for demand in schedule.demands)
    message = units * schedule.chunks_per_unit * 60
    network = direct(schedule.topology, 1, LATENCY)
    made = transfers_of_program(design.program, schedule, network, message, DELTA, **how)
    return simulate_transfers(made, RULES), message


def in_use(design, done):
    """When every interval of a circuit begins its first send and has brought its last."""
    program, schedule = design.program, design.schedule
    times = timed(done, schedule)
    start, end = np.zeros((2, len(program.link)), dtype=np.int64)
    for row, link in enumerate(program.link.tolist()):
        sends = (schedule.link == link) & (schedule.step >= program.first_step[row])
        sends &= schedule.step <= program.last_step[row]
        start[row] = times.start[sends].min(initial=10**9)
        end[row] = times.end[sends].max(initial=-1)
    return start, end


@pytest.mark.parametrize("cold", [False, True])
@pytest.mark.parametrize("number", range(len(designs())))
def test_stops_make_the_formula(number, cold):
    """With barriers what a stop of everything takes is what ``program_time`` says."""
    design = designs()[number]
    how = {"stops": True, "cold_start": cold, "barriers": True, "addition_ticks": 0}
    done, message = simulated(design, **how)
    assert check_simulated(done) is None
    model = CostModel(LATENCY * NS, design.program.node_speed() * 10**9)
    change = Change(DELTA * NS, cold_start=cold, overlap=False)
    assert done.total_s == program_time(design.verdict, model, message, change).total_s


@pytest.mark.parametrize("number", range(len(designs())))
def test_ports_are_dark_between_two_circuits(number):
    design = designs()[number]
    done, message = simulated(design, barriers=True, addition_ticks=0)
    assert check_simulated(done) is None
    model = CostModel(LATENCY * NS, design.program.node_speed() * 10**9)
    change = Change(DELTA * NS, cold_start=False)
    assert done.total_s <= program_time(design.verdict, model, message, change).total_s
    free, _ = simulated(design)
    assert check_simulated(free) is None
    assert check_timed(timed(free, design.schedule), LATENCY) is None
    program, topology = design.program, design.program.topology
    start, end = in_use(design, free)
    for ends in (topology.tail, topology.head):
        port = ends[program.link].astype(np.int64) * program.num_planes
        port += program.plane[program.link]
        order = np.lexsort((program.first_step, port))
        for before, after in pairwise(order):
            if port[before] == port[after] and end[before] >= 0:
                assert start[after] >= end[before] + DELTA
    path = critical_path(free)
    assert sum(stretch.end - stretch.start for stretch in path) == free.total_ticks
    assert (idle_ticks(free).sum(axis=1) + free.link_busy() == free.total_ticks).all()


def test_two_rings_in_turn_by_hand():
    """One port a node: to the next, then to the one after it, 60 ticks a chunk and 7 to arrive."""
    own = np.arange(4)
    circuits = Topology(4, [*own, *own], [*(own + 1) % 4, *(own + 2) % 4])
    first, last = [1] * 4 + [2] * 4, [1] * 4 + [3] * 4
    program = CircuitProgram(circuits, [0] * 8, range(8), first, last, [2])
    send = [(shard, shard, 1) for shard in range(4)]
    send += [(node, 4 + node, 2) for node in range(4)]
    send += [((node - 1) % 4, 4 + node, 3) for node in range(4)]
    item, link, step = zip(*send, strict=True)
    schedule = Schedule(circuits, Collective.ALLGATHER, 1, item, [0] * 12, [1] * 12, link, step)
    network = direct(circuits, 1, LATENCY)
    made = transfers_of_program(program, schedule, network, 4 * 60, DELTA)
    done = simulate_transfers(made, RULES)
    assert done.total_ticks == 67 + DELTA + 2 * 67
    reasons = dict(zip(IDLE_REASONS, idle_ticks(done).sum(axis=0).tolist(), strict=True))
    assert reasons == {
        "data": 0,
        "link": 4 * 7,
        "barrier": 0,
        "dark": 4 * (67 + DELTA),
        "node": 0,
        "done": 4 * (done.total_ticks - 60) + 4 * 7,
    }
    parts = [(stretch.part, stretch.end - stretch.start) for stretch in critical_path(done)]
    assert parts[:3] == [("send", 60), ("latency", 7), ("dark", DELTA)]
    cold = transfers_of_program(program, schedule, network, 4 * 60, DELTA, cold_start=True)
    assert simulate_transfers(cold, RULES).total_ticks == done.total_ticks + DELTA


def test_what_is_no_program_of_the_schedule():
    design = designs()[0]
    schedule, network = design.schedule, direct(design.schedule.topology, 1)
    other = designs()[5]
    with pytest.raises(ValueError, match="are not those of the program's circuits"):
        transfers_of_program(other.program, schedule, network, 1, DELTA)
    program = design.program
    early = CircuitProgram(program.topology, *program.columns()[:3], program.first_step)
    with pytest.raises(ValueError, match=r"send \d+: the circuit of link \d+ is not up in step"):
        transfers_of_program(early, schedule, network, 1, DELTA)
