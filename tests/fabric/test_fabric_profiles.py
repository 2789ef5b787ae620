"""Profiles and prices: a source for every number, sane ranges, sums by hand."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from fabric_samples import LAB, lab

from ocs_codesign.core.cost import CostModel
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.files.fabric_files import parse_fabric
from ocs_codesign.fabric.profiles import (
    NICS_USD,
    PROFILES,
    TRANSCEIVERS_USD,
    fabric_price,
    profile_named,
)

NUMBERS = ("num_ports", "insertion_loss_db", "change", "price_usd_per_port", "power_w")

every_profile = pytest.mark.parametrize("name", PROFILES)


@every_profile
def test_every_number_has_one_source(name):
    profile = PROFILES[name]
    stated = [field for field in NUMBERS if getattr(profile, field) is not None]
    assert sorted(source.field for source in profile.sources) == sorted(stated)


@every_profile
def test_sources_are_a_publication_or_a_class_value(name):
    for source in PROFILES[name].sources:
        assert re.search(r"class value: |\b(19|20)\d\d\b|appendix|product data", source.text)
        assert source.text.isprintable()


@every_profile
def test_sane_ranges(name):
    profile = PROFILES[name]
    assert profile.name == name
    assert re.fullmatch(r"[a-z0-9-]+", name)
    assert 16 <= profile.num_ports <= 2048
    assert 0.1 <= profile.insertion_loss_db <= 15
    assert 1e-9 <= profile.change.dead_time_s(1) <= 600
    assert profile.price_usd_per_port is None or 50 <= profile.price_usd_per_port <= 5000
    assert profile.power_w is None or 0 <= profile.power_w <= 2000


def test_numbers_that_are_known():
    palomar = PROFILES["palomar-136"]
    assert (palomar.num_ports, palomar.port_model) == (136, PortModel.TWO_SIDED)
    assert palomar.power_w == 108
    assert float(PROFILES["polatis-384"].change.fixed_s) == 0.025
    assert float(PROFILES["calient-s320"].change.fixed_s) == 0.2
    assert float(PROFILES["awgr-100"].change.fixed_s) == 3.84e-9
    assert PROFILES["robotic-panel-1008"].change.dead_time_s(3) == 180
    assert {p.port_model for p in PROFILES.values()} >= {PortModel.RESTRICTED, PortModel.SIMPLEX}


def test_near_names():
    with pytest.raises(ValueError, match=r"named 'palomar': did you mean palomar-136\?"):
        profile_named("palomar")
    with pytest.raises(ValueError, match=r"known: palomar-136, calient-s320"):
        profile_named("#")
    with pytest.raises(ValueError, match=r"named 'xxx.*\.\.\.'") as caught:
        profile_named("x" * 10**6)
    assert len(str(caught.value)) < 400


def made(*path, value=None):
    return parse_fabric(lab(*path, value=value), "lab")


def items(fabric):
    return {item.name: (item.count, item.price_usd) for item in fabric_price(fabric).items}


def test_a_price_by_hand():
    # 8 hosts with three ports of 100 Gbps; two planes of 8 piezo ports and one without a price.
    prices = fabric_price(made())
    assert items(made()) == {
        "polatis-384 port": (16, 520),
        "make port": (8, None),
        "100G transceiver": (24, 99),
        "100G NIC": (24, 659),
    }
    assert prices.total_usd == 16 * 520 + 24 * 99 + 24 * 659
    assert prices.unpriced == ("make port",)
    # Two switches of 384 ports are bought, of which the fabric has 8 each.
    assert prices.whole_switches_usd == prices.total_usd + 2 * (384 - 8) * 520


def test_two_sided_planes_take_two_transceivers_and_circulators():
    plane = {"switches": [{"profile": "palomar-136", "ports": 8}]}
    losses = {**LAB["losses"], "circulator_db": 0.5}
    text = json.dumps({**LAB, "planes": [plane], "losses": losses})
    fabric = parse_fabric(text.encode(), "two")
    assert fabric.num_ports_per_host == 2
    assert items(fabric) == {
        "palomar-136 port": (8, 520),
        "200G transceiver": (16, 239),
        "200G NIC": (16, 1079),
        "circulator": (16, None),
    }


@pytest.mark.parametrize(
    ("gbps_of_a_port", "rate", "each"),
    [(1, 100, 1), (100, 100, 1), (101, 200, 1), (400, 400, 1), (800, 800, 1), (801, 800, 2)],
)
def test_the_slowest_transceiver_that_is_enough(gbps_of_a_port, rate, each):
    fabric = replace(made(), cost_model=CostModel(1e-6, 3 * gbps_of_a_port * 10**9 / 8))
    assert items(fabric)[f"{rate}G transceiver"] == (24 * each, TRANSCEIVERS_USD[rate])
    assert items(fabric)[f"{rate}G NIC"] == (24 * each, NICS_USD[rate])
