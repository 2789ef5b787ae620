"""Fabric, Switch and SwitchProfile as values: what they compute, and what they refuse."""

from __future__ import annotations

import pickle
from dataclasses import replace

import embed_samples
import numpy as np
import pytest

from ocs_codesign.circuits.change import Change
from ocs_codesign.core.cost import CostModel
from ocs_codesign.fabric.description import (
    Fabric,
    FieldError,
    PortModel,
    Switch,
    fabric_facts,
    rotations,
)


def profile(model=PortModel.SIMPLEX, ports=8, loss_db=1.0, **values):
    change = Change(0.025, 0.001)
    return replace(embed_samples.profile(model, ports, loss_db), change=change, **values)


def switch(number=0, plane=0, model=PortModel.SIMPLEX, ports=8, spares=0, states=None):
    return Switch(f"s{number}", plane, profile(model), ports, spares, states)


def fabric(*switches, hosts=6, spares=0, **other):
    values = {"loss_budget_db": 3.0, "connector_loss_db": 0.25, "circulator_loss_db": 0.5, **other}
    names = tuple(f"h{number}" for number in range(hosts)) if isinstance(hosts, int) else hosts
    return Fabric("test", names, spares, switches, CostModel(1e-6, 8e9), **values)


def test_what_a_fabric_says():
    made = fabric(switch(0, 0, PortModel.TWO_SIDED), switch(1, 1, PortModel.TWO_SIDED, 8, 2))
    assert made.num_planes == 2
    assert made.num_ports_per_host == 4
    assert [made.loss_db(plane) for plane in range(2)] == [2.5, 2.5]
    assert made.loss_db(0, 3) == 4.5
    assert made.switches[1].num_usable == 6


def test_facts_and_findings():
    made = fabric(switch(0, ports=4), switch(1, ports=3, spares=1), switch(2, 1), hosts=7, spares=0)
    facts = fabric_facts(made)
    assert (facts.planes[0].num_usable, facts.planes[0].num_spares) == (6, 1)
    assert facts.planes[0].three_stage_loss_db == 3.5
    assert [float(time) for time in facts.planes[1].dead_time_s] == [0.026, 0.032]
    assert facts.port_bandwidth_Bps == 4e9
    assert facts.findings == ("plane 0 has 6 usable ports a side for 7 working hosts",)
    dim = fabric_facts(replace(made, loss_budget_db=1.0))
    assert "a circuit of plane 1 loses 1.5 dB, over the budget of 1 dB" in dim.findings


def test_circuits_of_a_matching_are_half_the_hosts():
    facts = fabric_facts(fabric(switch(0, model=PortModel.MATCHING), hosts=7))
    assert [float(time) for time in facts.planes[0].dead_time_s] == [0.026, 0.028]
    assert facts.planes[0].three_stage_loss_db is None


def test_a_budget_that_is_met_exactly_is_met():
    # 2 * 0.3 + 0.1 is 0.7000000000000001 in floats.
    assert (
        fabric_facts(
            fabric(
                Switch("s", 0, profile(loss_db=0.1), 8), connector_loss_db=0.3, loss_budget_db=0.7
            )
        ).findings
        == ()
    )


@pytest.mark.parametrize(("num_ports", "num_spares"), [(2, 0), (5, 0), (8, 3)])
def test_rotations_join_every_two_ports_once(num_ports, num_spares):
    states = rotations(num_ports, num_spares)
    usable = num_ports - num_spares
    pairs = [(a + 1, b) for row in states.tolist() for a, b in enumerate(row) if b]
    every = {(a, b) for a in range(1, usable + 1) for b in range(1, usable + 1) if a != b}
    assert len(pairs) == len(every)
    assert set(pairs) == every
    switch(model=PortModel.RESTRICTED, ports=num_ports, spares=num_spares, states=states)


def test_no_rotations_of_one_port():
    with pytest.raises(ValueError, match="at least 2 are needed"):
        rotations(3, 2)


@pytest.mark.parametrize("made_for", PortModel)
@pytest.mark.parametrize("used_as", PortModel)
def test_other_uses_of_a_switch(made_for, used_as):
    crossbar = made_for in (PortModel.SIMPLEX, PortModel.TWO_SIDED)
    possible = made_for is used_as or (crossbar and used_as is not PortModel.MATCHING)
    if possible:
        assert profile(made_for).used_as(used_as) == profile(used_as)
    else:
        with pytest.raises(FieldError, match=r"cannot be used so($|; no known make joins)"):
            profile(made_for).used_as(used_as)


def test_states_are_kept_and_cannot_change():
    given = np.array([[2, 1], [0, 2]])
    made = switch(model=PortModel.RESTRICTED, ports=2, states=given)
    given[0, 0] = 0
    assert made.states.tolist() == [[2, 1], [0, 2]]
    assert not made.states.flags.writeable


RESTRICTED = PortModel.RESTRICTED
BAD = [
    (lambda: switch(ports=9), "num_ports", "is 9: make has 8 ports a side"),
    (lambda: switch(ports=2.5), "num_ports", "whole number"),
    (lambda: switch(ports=4, spares=4), "num_spares", "less than the 4 ports"),
    (lambda: switch(model=RESTRICTED), "states", "are missing"),
    (lambda: switch(states=[[1] * 8]), "states", "simplex switch has"),
    (lambda: switch(model=RESTRICTED, states=[1]), "states", "a table"),
    (lambda: switch(model=RESTRICTED, states=[[1, 2]]), "states", "the switch has 8"),
    (
        lambda: switch(model=RESTRICTED, ports=2, states=[[1, 2], [1, 3]]),
        "states",
        "join A port 2 with B port 3 in state 1: B ports are 1 to 2",
    ),
    (
        lambda: switch(model=RESTRICTED, ports=3, states=[[0, 0, 1], [2, 0, 2]]),
        "states",
        "join B port 2 twice in state 1",
    ),
    (lambda: replace(profile(), name=""), "name", "is empty"),
    (lambda: profile(loss_db=-1.0), "insertion_loss_db", "not negative"),
    (lambda: profile(loss_db=float("nan")), "insertion_loss_db", "finite"),
    (lambda: fabric(switch(), hosts=("a", "b", "a")), "hosts", "two of the name 'a'"),
    (lambda: fabric(switch(), hosts=("",)), "hosts", "empty name"),
    (lambda: fabric(switch(), hosts=("a\nb",)), "hosts", r"'a\nb': names are one line"),
    (lambda: fabric(switch(), hosts=()), "hosts", "at least one"),
    (lambda: fabric(), "switches", "at least one plane"),
    (lambda: fabric(switch(), spares=6), "num_spare_hosts", "from 0 to 5"),
    (lambda: fabric(switch(0, 0), switch(1, 2)), "switches", "of plane 1 are none"),
    (
        lambda: fabric(switch(0), switch(1, 1, model=PortModel.TWO_SIDED)),
        "switches",
        "of planes 0 and 1 mix port models, simplex and two-sided",
    ),
    (lambda: fabric(switch(), hosts=("a", "s0")), "hosts", "'s0', which is a switch too"),
    (lambda: fabric(switch(), connector_loss_db=float("inf")), "connector_loss_db", "finite"),
]


@pytest.mark.parametrize(("make", "field", "rule"), BAD)
def test_what_is_refused(make, field, rule):
    with pytest.raises(FieldError) as caught:
        make()
    assert caught.value.field == field
    assert rule in caught.value.rule
    assert str(caught.value) == f"{field} {caught.value.rule}"
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
