"""What the check of a bundle finds, where, and by which rule."""

from __future__ import annotations

import json
import os

import pytest
from bundle_check_samples import (
    MANIFEST,
    checked,
    edited,
    put,
    sample,
    sealed,
    table_bytes,
    table_of,
)
from embed_samples import fabric

from ocs_codesign.fabric.bundle.check.claims import _rank_rules
from ocs_codesign.fabric.bundle.verify import check_bundle


def findings(files, path):
    return [f"{one.place}: {one.rule}" for one in checked(files).findings if one.file == path]


def found(files, path, *words):
    """Whether a finding in a file has all of these words."""
    listed = findings(files, path)
    assert any(all(word in one for word in words) for one in listed), listed
    return True


def change(column, value, at=0):
    def edit(rows):
        rows[at][column] = value

    return edit


@pytest.mark.parametrize(
    ("column", "value", "rule"),
    [
        ("a_device", "nobody", "there is no host 'nobody'"),
        ("b_device", "nowhere", "there is no switch 'nowhere'"),
        ("a_port", "p9", "a host's port in plane 0 is p0"),
        ("a_strand", "rx", "it must be on side B"),
        ("b_strand", "rx", "it must be the host's strand, tx"),
        ("b_port", "1B", "it must be on side A"),
        ("b_port", "13A", "it has ports 1 to 12"),
        ("b_port", "0A", "ports are named as 1A"),
        ("b_port", "2A", "has a cable already, in line 2"),
        ("b_port", "A1", "ports are named as 1A"),
        ("plane", "2", "is in plane 0"),
        ("polarity", "switch-to-host", "of tx it is host-to-switch"),
        ("cable", "C00002", "the cable of this strand is C00001"),
    ],
)
def test_conflicts_of_cables_name_the_line(column, value, rule):
    files = edited("simplex", "cabling.csv", change(column, value))
    assert found(files, "cabling.csv", rule)
    lines = [one.split(":")[0] for one in findings(files, "cabling.csv") if rule in one]
    assert set(lines) <= {"line 2", "line 4"}


@pytest.mark.parametrize(
    ("kind", "edit", "words"),
    [
        ("simplex", {"b_side": "2A", "id": "1A-2A"}, ("joins two ports of side A",)),
        ("simplex", {"b_side": "12B", "id": "1A-12B"}, ("from which no cable leads",)),
        ("simplex", {"b_side": "99B", "id": "1A-99B"}, ("it has ports 1 to 12",)),
        ("simplex", {"id": "3A-3B"}, ("id is '3A-3B'",)),
        ("simplex", {"circuit": "999"}, ("circuits are numbered from 0",)),
        ("simplex", {"circuit": "x"}, ("must be a whole number",)),
        ("simplex", {"to_host": "h9"}, ("light goes from h0",)),
        ("matching", {"b_side": "1", "id": "1-1"}, ("joins a port with itself",)),
        ("matching", {"b_side": "2B", "id": "1-2B"}, ("named as 1, without sides",)),
        ("matching", {"a_side": "1A", "b_side": "2A", "id": "1A-2A"}, ("without sides",)),
        ("two-sided", {"b_side": "2A", "id": "1A-2A"}, ("joins two ports of side A",)),
    ],
)
def test_conflicts_of_circuits_name_the_line(kind, edit, words):
    name = json.loads(sample(kind)[MANIFEST])["configurations"][0]["name"]
    prefix = f"cross_connects/{name}/"
    tables = [
        path
        for path, data in sorted(sample(kind).items())
        if path.startswith(prefix) and path.endswith(".csv") and b"\n1" in data
    ]
    files = edited(kind, tables[0], lambda rows: rows[0].update(edit))
    assert found(files, tables[0], "line 2", *words)


@pytest.mark.parametrize("side", ["A", "B"])
def test_no_form_of_sonic_is_valid_for_switches_without_sides(side):
    """SONiC forbids A-A and B-B, and a bundle must not say that such switches have both sides."""
    files = dict(sample("matching"))
    assert not any(path.endswith(".config_db.json") for path in files)
    rows = table_of(files["cross_connects/ring/p0s0.csv"])
    names = [(f"{row['a_side']}{side}", f"{row['b_side']}{side}") for row in rows]
    joined = {f"{a}-{b}": {"a_side": a, "b_side": b} for a, b in names}
    path = "cross_connects/ring/p0s0.config_db.json"
    added = {**files, path: json.dumps({"OCS_PORT": {}, "OCS_CROSS_CONNECT": joined}).encode()}
    assert found(sealed(added), path, "a bundle of this manifest has no such file")

    def with_sides(table):
        for row, (a, b) in zip(table, names, strict=True):
            row.update(a_side=a, b_side=b, id=f"{a}-{b}")

    table = "cross_connects/ring/p0s0.csv"
    assert found(edited("matching", table, with_sides), table, "line 2", "without sides")


def test_a_port_in_two_circuits_is_found():
    path = "cross_connects/ring/p0s0.csv"
    files = edited("simplex", path, lambda rows: rows[1].update(b_side=rows[0]["b_side"]))
    assert found(files, path, "line 3", "is in a circuit already, in line 2")


def test_a_state_that_no_rotor_has_is_found():
    def swap(rows):
        rows[0]["b_side"], rows[1]["b_side"] = rows[1]["b_side"], rows[0]["b_side"]
        for row in rows[:2]:
            row["id"] = f"{row['a_side']}-{row['b_side']}"

    path = next(
        one
        for one in sorted(sample("restricted"))
        if one.startswith("cross_connects/one/") and one.endswith(".csv")
    )
    assert found(edited("restricted", path, swap), path, "no listed state")


def test_loss_over_the_budget_is_found_although_the_table_admits_it():
    def dim(value):
        value["losses"]["budget_db"] = 0.5

    files = edited("simplex", "fabric.json", dim)
    assert found(files, "links/ring.csv", "line 2", "is over the budget")
    rows = table_of(files["links/ring.csv"])
    for row in rows:
        row.update(budget_db="0.5", flag="over")
        row["margin_db"] = f"{0.5 - float(row['loss_db']):g}"
    files["links/ring.csv"] = table_bytes(rows, files["links/ring.csv"])
    assert {one.split(": ", 1)[1][:8] for one in findings(sealed(files), "links/ring.csv")} == {
        "the loss"
    }


def test_a_schedule_is_replayed_on_the_light_and_not_on_its_own_links():
    """Cross-connects, CONFIG_DB, links and graphs agree with each other, the schedule does not."""
    files = dict(sample("simplex"))
    for path in list(files):
        if "ring" in path and not path.startswith(("schedules/", "plans/")):
            files[path] = sample("simplex")[path.replace("ring", "cube")]
    value = json.loads(files[MANIFEST])
    for claim in value["configurations"]:
        claim["recipe"] = None
    files[MANIFEST] = json.dumps(value).encode()
    path = "schedules/ring/allreduce/schedule.npz"
    assert found(sealed(files), path, "light", "so that it cannot run")


def test_plans_are_carried_out():
    path = "plans/one-to-two.csv"
    actions = [row["action"] for row in table_of(sample("restricted")[path])]
    delete, create = actions.index("delete"), actions.index("create")
    files = edited("restricted", path, lambda rows: rows.pop(delete))
    assert found(files, path, "is left over")
    files = edited("restricted", path, lambda rows: rows.pop(create))
    assert found(files, path, "is never created")
    files = edited("restricted", path, lambda rows: rows[delete].update(id="9A-9B"))
    assert found(files, path, f"line {delete + 2}", "it does not exist then")
    files = edited("restricted", path, lambda rows: rows[delete].update(action="create"))
    assert found(files, path, f"line {delete + 2}", "still has a port of it")


def test_certificates_are_of_links_that_stay_up():
    path = "plans/ring-to-cube.json"

    def lie(value):
        for stage in value["stages"]:
            stage["stays_connected"] = True
            stage["certificate"] = {
                "root": 0,
                "before": " ".join(["-1"] + ["0"] * 7),
                "after": " ".join(["-1"] + ["0"] * 7),
            }

    assert found(edited("simplex", path, lie), path, "certificate", "is up all the time")


def test_links_out_of_the_directory_are_not_followed(tmp_path):
    outside = tmp_path / "outside.csv"
    outside.write_bytes(sample("simplex")["cabling.csv"])
    directory = put(sample("simplex"), tmp_path / "bundle")
    (directory / "cabling.csv").unlink()
    (directory / "cabling.csv").symlink_to(outside)
    os.mkfifo(directory / "pipe")
    rules = {one.file: one.rule for one in check_bundle(directory).findings[:2]}
    assert all("which is not read" in rules[path] for path in ("cabling.csv", "pipe"))


def test_names_in_the_manifest_lead_nowhere_else():
    value = json.loads(sample("simplex")[MANIFEST])
    value["configurations"][0]["name"] = "../../etc"
    files = {**sample("simplex"), MANIFEST: json.dumps(value).encode()}
    assert found(files, MANIFEST, "configurations[0]", "it must be that of a file")


def test_all_findings_are_counted_and_some_are_listed(tmp_path):
    files = edited("simplex", "links/ring.csv", lambda rows: [r.update(plane="x") for r in rows])
    directory = put(files, tmp_path)
    verdict = check_bundle(directory, limit=3)
    assert len(verdict.findings) == 3
    assert verdict.num_findings >= len(table_of(files["links/ring.csv"]))
    with pytest.raises(ValueError, match="limit is 0"):
        check_bundle(directory, limit=0)


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (None, "there is no manifest.json"),
        (b"{", "this is not JSON"),
        (b"\xff", "not UTF-8"),
        (b"[]", "not the manifest of a bundle"),
        (b'{"format": "ocs-codesign bundle", "version": 1}', "only version 2"),
        (b"[" * 100_000, "nesting"),
    ],
)
def test_what_is_not_a_bundle_is_refused(tmp_path, content, rule):
    if content is not None:
        (tmp_path / MANIFEST).write_bytes(content)
    with pytest.raises(ValueError, match=rule):
        check_bundle(tmp_path)
    with pytest.raises(ValueError, match="there is no such directory"):
        check_bundle(tmp_path / "none")


def test_a_host_that_a_spare_stands_for_may_be_without_cable():
    """As after a loss of the switch where its only cable was left; every rank has a host."""
    plan = fabric(10, [[8]] * 4, spare_hosts=2)
    ranks = {host: rank for rank, host in enumerate(plan.hosts[:8])}
    assert list(_rank_rules(plan, (), ranks, {r: h for h, r in ranks.items()}, 8)) == []
    first, *others = ranks
    replaced = {host: ranks[host] for host in others} | {plan.hosts[9]: 0}
    held = {rank: host for host, rank in replaced.items()}
    assert list(_rank_rules(plan, (), replaced, held, 8)) == []
    del replaced[plan.hosts[9]], held[0]
    assert list(_rank_rules(plan, (), replaced, held, 8)) == [
        "no host has rank 0: 1 of 8 ranks have none",
        f"host {first} is missing",
    ]
    assert len(list(_rank_rules(plan, (first,), replaced, held, 8))) == 1
