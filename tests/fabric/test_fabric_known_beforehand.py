"""Ports that had failed before a cable was laid, and prices of one's own."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace

import numpy as np
import pytest
from bundle_samples import carried, named, rotor_fabric, rows, small_fabric, stages_fabric, written
from embed_samples import random_undirected
from fabric_samples import LAB

from ocs_codesign.fabric.bundle.read import read_bundle
from ocs_codesign.fabric.bundle.verify import check_bundle
from ocs_codesign.fabric.deployments.day_two import repaired
from ocs_codesign.fabric.deployments.deploy import Failures, deploy
from ocs_codesign.fabric.description import FieldError, PortModel, fabric_facts
from ocs_codesign.fabric.embedding.embed import embed
from ocs_codesign.fabric.files.fabric_files import fabric_text, parse_fabric
from ocs_codesign.fabric.infeasible import InfeasibleError
from ocs_codesign.fabric.profiles import fabric_price
from ocs_codesign.fabric.selection.steps import fabric_question

TWO = named(("ring", "BiRing(2, 8)"), ("cube", "Circulant(8, (1, 3))"))
FABRICS = {
    "simplex": (small_fabric(), ("p0s0:1A", "p0s0:4B", "p2s0:7A")),
    "two-sided": (small_fabric(PortModel.TWO_SIDED, 2), ("p0s0:2A", "p1s0:1B")),
    "matching": (small_fabric(PortModel.MATCHING), ("p0s0:1", "p3s0:8")),
    "stages": (stages_fabric(), ("p0s0:4A", "p0s7:1B")),
}


@pytest.mark.parametrize("kind", FABRICS)
def test_ports_known_to_have_failed_get_no_cable_now_or_later(kind, tmp_path):
    there, ports = FABRICS[kind]
    fabric = replace(there, failed_ports=ports)
    deployment = deploy(fabric, TWO if kind != "stages" else TWO[:1], ["allgather"])
    assert deployment.failures.components() == tuple(f"port:{port}" for port in ports)
    made = [deployment]
    if there.num_spare_hosts:
        made.append(carried(repaired(deployment, Failures(hosts=("h3",)))[0]))
    for at, each in enumerate(made):
        directory = written(each, tmp_path / str(at))
        assert check_bundle(directory).ok
        used = {f"{row['b_device']}:{row['b_port']}" for row in rows(directory / "cabling.csv")}
        assert not used & set(ports)
        assert read_bundle(directory).fabric.failed_ports == ports
        state = json.loads((directory / "state.json").read_text(encoding="utf-8"))
        assert state["failed"]["ports"] == list(ports)
        assert sum(int(row["failed"]) for row in rows(directory / "ports.csv")) == len(ports)


HALVES = ("h0", "h1", "h2", "h3", "h8"), ("h4", "h5", "h6", "h7", "h9")
PLANES = {
    PortModel.SIMPLEX: (None, None, *HALVES),
    PortModel.MATCHING: (None, None, *HALVES),
    PortModel.TWO_SIDED: (None, *HALVES),
}


@pytest.mark.parametrize("model", PLANES)
def test_planes_that_only_some_hosts_have_get_cables_and_circuits_of_these(model, tmp_path):
    parts = PLANES[model]
    fabric = replace(small_fabric(model, len(parts)), plane_hosts=parts)
    each = fabric.port_model.ports_per_host
    assert fabric.num_ports_per_host == each * (len(parts) - 1)
    assert fabric_price(fabric).items[1].count == each * (10 * (len(parts) - 2) + 10)
    deployment = deploy(fabric, named(("cube", "Hypercube(3)")), ["allgather"])
    fixed = carried(repaired(deployment, Failures(hosts=("h1",)))[0])
    for at, made in enumerate((deployment, fixed)):
        directory = written(made, tmp_path / str(at))
        assert check_bundle(directory).ok
        for row in rows(directory / "cabling.csv"):
            assert row["a_device"] in (parts[int(row["plane"])] or fabric.hosts)
        assert read_bundle(directory).fabric.plane_hosts == parts
    assert "h8" in {fabric.hosts[host] for host in fixed.host}  # h9 has no port in that plane
    with pytest.raises(InfeasibleError, match="no spare host has ports in the planes"):
        repaired(fixed, Failures(hosts=("h2",)))
    cabling = (tmp_path / "0" / "cabling.csv").read_text(encoding="utf-8")
    stray = re.sub(r"(C\d+),h0,p(\d),", r"\1,h4,p\2,", cabling)
    assert stray != cabling
    (tmp_path / "0" / "cabling.csv").write_text(stray, encoding="utf-8")
    told = " ".join(str(one) for one in check_bundle(tmp_path / "0").findings)
    assert "'h4' has no port in plane" in told


@pytest.mark.parametrize("seed", range(12))
def test_circuits_are_put_in_planes_that_both_ends_have_or_it_is_said(seed):
    rng = random.Random(seed)
    model = rng.choice([PortModel.SIMPLEX, PortModel.TWO_SIDED, PortModel.MATCHING])
    there = small_fabric(model, 4)
    some = [tuple(rng.sample(there.hosts, rng.randint(6, 9))) for _ in range(2)]
    fabric = replace(there, plane_hosts=(None, None, *some))
    topology = random_undirected(8, rng.choice([2, 3]), seed)
    try:
        made = embed(fabric, topology)
    except InfeasibleError:
        return
    for plane, a_end, b_end in zip(
        made.configuration.plane, *made.configuration.ends.T, strict=True
    ):
        assert fabric.members(plane)[[a_end, b_end]].all()
    cabled = made.cabling.a_switch >= 0
    assert not (cabled & ~np.stack([fabric.members(plane) for plane in range(4)], axis=1)).any()


def test_a_selection_says_at_once_that_hosts_differ_in_ports():
    fabric = replace(small_fabric(), plane_hosts=PLANES[PortModel.SIMPLEX])
    assert fabric_question(fabric).degree == 3
    parts = (*PLANES[PortModel.SIMPLEX][:3], HALVES[0])
    with pytest.raises(ValueError, match="working hosts differ in ports"):
        fabric_question(replace(fabric, plane_hosts=parts))
    with pytest.raises(FieldError, match="of plane 3 have 'h77'"):
        replace(fabric, plane_hosts=(None, None, None, ("h77",)))
    with pytest.raises(FieldError, match="of restricted switches are of all"):
        replace(rotor_fabric(), plane_hosts=(None, None, None, ("h1",)))


def test_too_many_failed_ports_are_found_before_any_search():
    fabric = replace(small_fabric(), failed_ports=("p1s0:1A", "p1s0:2A"))
    assert fabric_facts(fabric).findings == (
        "plane 1 has 8 usable ports a side for 9 working hosts",
    )
    rotors = replace(rotor_fabric(), failed_ports=("p0s0:1A",))
    with pytest.raises(InfeasibleError, match="in the order of the listed states"):
        deploy(rotors, TWO[:1])


@pytest.mark.parametrize(
    ("ports", "rule"),
    [
        (("p0s0:13A",), "p0s0 has ports 1 to 12"),
        (("p9s0:1A",), "ports are as p0s0:3A"),
        (("p0s0:1",), "ports are as p0s0:3A"),
        (("p0s0:1A", "p0s0:1A"), "twice"),
    ],
)
def test_ports_that_there_are_not_are_refused(ports, rule):
    with pytest.raises(FieldError, match=rule):
        replace(small_fabric(), failed_ports=ports)


@pytest.mark.parametrize("model", [PortModel.SIMPLEX, PortModel.TWO_SIDED])
def test_prices_of_ones_own_take_the_place_of_estimates(model, tmp_path):
    own = {"nic": 1200.0, "transceiver": 500.5, "circulator": 90.0, "fibre": 12.0}
    planes = 4 if model is PortModel.SIMPLEX else 2
    fabric = replace(small_fabric(model, planes), prices=tuple(own.items()))
    items = {item.name.split()[-1].lower(): item for item in fabric_price(fabric).items}
    used = set(own) - ({"circulator"} if model is PortModel.SIMPLEX else set())
    assert {name: items[name].price_usd for name in used} == {name: own[name] for name in used}
    assert items["fibre"].count == 10 * planes * 2
    directory = written(deploy(fabric, TWO, ["allgather"]), tmp_path / "bundle")
    assert check_bundle(directory).ok
    sources = {
        row["item"].split()[-1].lower(): row["source"] for row in rows(directory / "prices.csv")
    }
    assert {sources[name] for name in used} == {"fabric description"}
    plain = fabric_price(replace(fabric, prices=()))
    assert "fibre" not in {item.name for item in plain.items}


def test_a_file_says_both_and_keeps_them():
    text = json.dumps({**LAB, "prices": {"nic": 10, "fibre": 1.5}, "failed_ports": ["p0-s0:3A"]})
    made = parse_fabric(text.encode(), "lab")
    assert (made.prices, made.failed_ports) == ((("nic", 10), ("fibre", 1.5)), ("p0-s0:3A",))
    again = parse_fabric(fabric_text(made).encode(), "again")
    assert (again.prices, again.failed_ports) == (made.prices, made.failed_ports)
    with pytest.raises(ValueError, match=r"bad, line 1: failed_ports has 'p0-s0:9A'"):
        parse_fabric(text.replace("3A", "9A").encode(), "bad")
    plane = {"switches": LAB["planes"][0]["switches"], "hosts": ["host001", "host007"]}
    text = json.dumps({**LAB, "planes": [*LAB["planes"], plane]})
    made = parse_fabric(text.encode(), "lab")
    assert made.plane_hosts == (None, None, None, ("host001", "host007"))
    assert parse_fabric(fabric_text(made).encode(), "again").plane_hosts == made.plane_hosts
    with pytest.raises(ValueError, match=r"bad, line 1: planes of plane 3 have 'host01'"):
        parse_fabric(text.replace("host001", "host01").encode(), "bad")


def test_prices_are_not_negative():
    text = json.dumps({**LAB, "prices": {"nic": 10, "fibre": 1.5}})
    with pytest.raises(ValueError, match=r"bad, line 1: prices.nic is -1"):
        parse_fabric(text.replace("10,", "-1,").encode(), "bad")
