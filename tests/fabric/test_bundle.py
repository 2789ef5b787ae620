"""A bundle holds what its format says, and its tables alone give the topology back.

Everything else that tables, plans and graphs claim is for the check to find wrong, which shares
nothing with the writer and finds nothing in what is written (``test_bundle_check_mutations``).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from html.parser import HTMLParser

import pytest
from bundle_samples import (
    files_of,
    links_by_light,
    named,
    rotor_fabric,
    rows,
    small_deployment,
    stages_fabric,
    written,
)

from ocs_codesign.fabric.deployments.deploy import deploy
from ocs_codesign.fabric.description import PortModel

SWITCHES = [f"p{plane}s0" for plane in range(4)]
STAGES = ((1, "p2s0"), (2, "p3s0"))
"""Two planes change in either direction, and then a stage has one switch."""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return written(small_deployment(), tmp_path_factory.mktemp("bundle") / "out")


def expected_files():
    files = {"manifest.json", "fabric.json", "cabling.csv", "ranks.csv", "ports.csv", "prices.csv"}
    files |= {"report.html", "state.json"}
    kinds = ("site", "manufacturer", "devicerole", "devicetype", "device", "interface")
    kinds += ("rearport", "frontport", "cable", "cable.up")
    files |= {f"netbox/dcim.{kind}.csv" for kind in kinds} | {"netbox/README.md"}
    for pair in ("ring-to-cube", "cube-to-ring"):
        files |= {f"plans/{pair}.{suffix}" for suffix in ("csv", "json", "md")}
        files |= {
            f"plans/{pair}/stage-{stage}.{switch}.{suffix}"
            for stage, switch in STAGES
            for suffix in ("patch.json", "sh", "rollback.sh")
        }
    for name in ("ring", "cube"):
        files |= {f"links/{name}.csv", f"graphs/{name}.graphml", f"graphs/{name}.json"}
        for switch in SWITCHES:
            files |= {f"cross_connects/{name}/{switch}{end}" for end in (".csv", ".config_db.json")}
        files |= {
            f"schedules/{name}/{kind}/{file}"
            for kind in ("allreduce", "alltoall")
            for file in ("design.json", "schedule.npz")
        }
    return files


def test_all_files_of_the_format_are_there_and_in_the_manifest(bundle):
    files = files_of(bundle)
    assert set(files) == expected_files()
    manifest = json.loads(files.pop("manifest.json"))
    assert (manifest["format"], manifest["version"]) == ("ocs-codesign bundle", 2)
    assert manifest["files"] == {
        path: {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
        for path, content in files.items()
    }
    assert [one["name"] for one in manifest["configurations"]] == ["ring", "cube"]
    assert manifest["configurations"][0]["collectives"] == ["allreduce", "alltoall"]
    text = [content for path, content in files.items() if not path.endswith(".npz")]
    assert not any(b"\r" in content for content in text)


def test_the_same_deployment_gives_the_same_bytes(bundle, tmp_path):
    assert files_of(written(small_deployment(), tmp_path / "again")) == files_of(bundle)
    for path, content in files_of(bundle).items():
        assert str(bundle).encode() not in content, path


@pytest.mark.parametrize("model", [PortModel.SIMPLEX, PortModel.TWO_SIDED, PortModel.MATCHING])
def test_cables_and_cross_connects_alone_give_the_topology(model, tmp_path):
    check_light(small_deployment(model), tmp_path)


def test_switches_with_states_and_three_stages(tmp_path):
    rotors = deploy(rotor_fabric(), named(("c", "DirectedCirculant(8, (1, 2, 3, 5))")))
    check_light(rotors, tmp_path / "rotors")
    recipes = named(("a", "Circulant(8, (1, 2))"), ("b", "BiRing(2, 8)"))
    staged = deploy(stages_fabric(), recipes)
    assert len(staged.cabling.trunks)
    check_light(staged, tmp_path / "stages")
    stages = {row["stages"] for row in rows(tmp_path / "stages" / "out" / "links" / "a.csv")}
    assert stages == {"3"}


def check_light(deployment, directory):
    bundle = written(deployment, directory / "out")
    hosts = deployment.fabric.hosts
    for one in deployment.configurations:
        topology = one.topology
        ends = zip(topology.tail.tolist(), topology.head.tolist(), strict=True)
        claimed = Counter((hosts[tail], hosts[head]) for tail, head in ends)
        assert links_by_light(bundle, one.name) == claimed
        table = rows(bundle / "links" / f"{one.name}.csv")
        assert Counter((row["from_host"], row["to_host"]) for row in table) == claimed
        assert [int(row["link"]) for row in table] == list(range(topology.num_links))


def test_ranks_ports_and_losses(bundle):
    ranks = rows(bundle / "ranks.csv")
    assert {row["host"] for row in ranks if not row["rank"]} == {"h8", "h9"}
    assert {row["rank"]: row["host"] for row in ranks if row["rank"]} == {
        str(rank): f"h{rank}" for rank in range(8)
    }
    assert len(ranks) == len(rows(bundle / "cabling.csv")) == 10 * 4 * 2
    for row in rows(bundle / "ports.csv"):
        assert (row["ports"], row["used"], row["spare"], row["free"]) == ("12", "10", "2", "0")
        assert row["failed"] == "0"
    for row in rows(bundle / "links" / "ring.csv"):
        assert (row["loss_db"], row["budget_db"], row["margin_db"]) == ("2", "10", "8")
        assert row["flag"] == "ok"


class _Page(HTMLParser):
    """Tags that are open, and everything that a browser would fetch."""

    def __init__(self):
        super().__init__()
        self.open = []
        self.fetched = []
        self.ids = []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "img", "link", "br"):
            self.open.append(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_report_is_one_page_that_fetches_nothing(bundle):
    page = _Page()
    text = (bundle / "report.html").read_text(encoding="utf-8")
    page.feed(text)
    assert not page.open
    linked = {one for one in page.fetched if not one.startswith(("#", "data:"))}
    assert {"plans/ring-to-cube.md", "cabling.csv"} <= linked <= set(files_of(bundle))
    assert {one[1:] for one in page.fetched if one.startswith("#")} == set(page.ids)
    assert "Circulant(8, (1, 3))" in text
    assert 'name="viewport" content="width=device-width' in text
    regions = re.findall(
        r'<div class="scrolled" tabindex="0" role="region" aria-label="[^"]+"><table>', text
    )
    assert text.count("<table>") == len(set(regions)) == len(regions) > 5
    for rule in (".scrolled { overflow-x: auto;", "h1 { font-size: 1.6rem; overflow-wrap: anywh"):
        assert rule in text  # on a phone tables scroll, not the page
