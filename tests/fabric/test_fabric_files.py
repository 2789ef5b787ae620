"""Fabric files: what they say, and that what is written reads back the same."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from fabric_samples import ROTORS, content, lab
from hypothesis import given, settings
from hypothesis import strategies as st

from ocs_codesign.circuits.change import Change
from ocs_codesign.core.cost import CostModel
from ocs_codesign.fabric.description import Fabric, PortModel, Switch, SwitchProfile, rotations
from ocs_codesign.fabric.files.fabric_files import (
    fabric_text,
    load_fabric,
    parse_fabric,
    save_fabric,
)
from ocs_codesign.fabric.profiles import PROFILES


def test_what_a_file_says():
    made = parse_fabric(lab(), "lab")
    assert made.hosts == tuple(f"host{number:03d}" for number in range(8))
    assert [(s.name, s.plane, s.num_ports) for s in made.switches] == [
        ("p0-s0", 0, 8),
        ("p1-s0", 1, 8),
        ("p2-s0", 2, 8),
    ]
    assert made.switches[0].profile == PROFILES["polatis-384"]
    rotors = parse_fabric(lab(base=ROTORS), "rotors")
    assert rotors.switches[2].states.tolist() == rotations(8).tolist()
    assert made.cost_model == CostModel(1e-5, 37.5e9)
    assert (made.loss_budget_db, made.connector_loss_db) == (3.0, 0.25)


def test_what_can_be_said_otherwise():
    text = """
name: 'other'            # a comment
hosts: {names: [a, b, "3"], spares: 1}
planes:
- switches:
  - {profile: palomar-136, count: 2, spares: 8, delta: 3 ms, delta_per_circuit: 10us}
  - profile:
      {name: make, technology: piezo, port_model: P2, ports: 16, insertion_loss_db: 1.5e-0,
       delta: 5ms, sources: [{field: change, text: measured}]}
    names: [special]
alpha: 1.5us
port_bandwidth: 12.5GB/s
losses: {connector_db: 0.2, circulator_db: 0.7, budget_db: 3.25}
reconfiguration: {cold_start: no, barrier: false}
"""
    made = parse_fabric(text.encode(), "other.yaml")
    assert (made.hosts, made.num_working_hosts) == (("a", "b", "3"), 2)
    assert [s.name for s in made.switches] == ["p0-s0", "p0-s1", "special"]
    change = made.switches[0].profile.change
    assert (change.fixed_s, change.per_circuit_s) == (Fraction(3, 1000), Fraction(1, 100_000))
    assert (change.cold_start, change.overlap, change.barrier) == (False, True, False)
    assert made.port_model is PortModel.TWO_SIDED
    assert made.cost_model.node_bandwidth_Bps == 25e9  # two ports of a two-sided plane
    assert content(parse_fabric(fabric_text(made).encode(), "again")) == content(made)


@pytest.mark.parametrize("name", ["lab.yaml", "lab.json", "lab"])
def test_saved_and_loaded(name, tmp_path):
    made = parse_fabric(lab(), "lab")
    save_fabric(made, tmp_path / name)
    again = load_fabric(tmp_path / name)
    assert content(again) == content(made)
    save_fabric(again, tmp_path / f"again-{name}")
    assert (tmp_path / name).read_bytes() == (tmp_path / f"again-{name}").read_bytes()


names = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=6)
times = st.sampled_from([0, 3.84e-9, 0.85e-6, 1e-5, 0.025, 1.5, 60, 1 / 3])
losses = st.floats(0, 20)


@st.composite
def fabrics(draw):
    flags = draw(st.fixed_dictionaries({"overlap": st.booleans(), "barrier": st.booleans()}))
    switches = []
    model = draw(st.sampled_from(PortModel))
    for plane in range(draw(st.integers(1, 3))):
        for number in range(draw(st.integers(1, 3))):
            change = Change(draw(times), draw(times), **flags)
            known = draw(st.sampled_from(list(PROFILES.values())))
            if known.port_model.can_be_used_as(model) and draw(st.booleans()):
                profile = replace(known.used_as(model), change=change)
            else:
                price = draw(st.none() | st.floats(0, 1e4))
                profile = SwitchProfile(
                    draw(names), draw(names), model, 20, draw(losses), change, price, None, ()
                )
            ports = draw(st.integers(2, 8))
            spares = draw(st.integers(0, ports - 1))
            states = None
            if model is PortModel.RESTRICTED:
                rows = st.permutations(range(1, ports + 1))
                states = draw(st.lists(rows, min_size=1, max_size=3))
                if ports - spares > 1 and draw(st.booleans()):
                    states = rotations(ports, spares)
            name = draw(st.sampled_from([f"p{plane}-s{number}", f"x{plane}{number}"]))
            switches.append(Switch(name, plane, profile, ports, spares, states))
    hosts = draw(st.lists(names, min_size=1, max_size=5, unique=True))
    if draw(st.booleans()):
        first, width = draw(st.integers(0, 120)), draw(st.integers(0, 4))
        hosts = [f"r{number:0{width}d}-x" for number in range(first, first + 5)]
    spare = draw(st.integers(0, len(hosts) - 1))
    cost = CostModel(draw(times), draw(st.sampled_from([12.5e9, 1.0, 37.5e9, 1e17 / 3])))
    return Fabric(
        draw(names),
        tuple(hosts),
        spare,
        tuple(switches),
        cost,
        draw(losses),
        draw(losses),
        draw(losses),
    )


@settings(max_examples=150, deadline=None)
@given(fabrics(), st.booleans())
def test_round_trip(made, as_json):
    text = fabric_text(made, as_json=as_json)
    again = parse_fabric(text.encode(), "made", is_json=as_json)
    assert content(again) == content(made)
    assert fabric_text(again, as_json=as_json) == text


def test_what_a_file_cannot_say():
    made = parse_fabric(lab(), "lab")
    slow = replace(made.switches[0].profile, change=Change(Fraction(1, 3)))
    with pytest.raises(ValueError, match="1000/3 has no finite decimal"):
        fabric_text(replace(made, switches=(replace(made.switches[0], profile=slow),)))
    alone = replace(slow, change=Change(1, overlap=False))
    switches = (replace(made.switches[0], profile=alone), made.switches[1])
    with pytest.raises(ValueError, match="switches differ in cold_start, overlap, barrier"):
        fabric_text(replace(made, switches=switches))
    with pytest.raises(ValueError, match=r"name is 'a\\nb': it must be one line"):
        fabric_text(replace(made, name="a\nb"))
