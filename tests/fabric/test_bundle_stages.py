"""Patches, commands and runbooks of a bundle, carried out with nothing of the product."""

from __future__ import annotations

import json
import re

import pytest
from bundle_check_samples import checked, sample, sealed, table_of

KINDS = ("simplex", "two-sided", "restricted", "stages")
TABLE = "OCS_CROSS_CONNECT"


def names_of(kind):
    return [one["name"] for one in json.loads(sample(kind)["manifest.json"])["configurations"]]


def databases(files, configuration):
    """The cross-connects in CONFIG_DB of every switch; a table without rows does not exist."""
    found = {}
    for path, data in files.items():
        place, _, switch = path.rpartition("/")
        if place == f"cross_connects/{configuration}" and path.endswith(".config_db.json"):
            rows = json.loads(data)[TABLE]
            found[switch.removesuffix(".config_db.json")] = {TABLE: rows} if rows else {}
    return found


def stages(files, folder, suffix):
    """Files of a plan by stage and switch, in order of stages."""
    pattern = re.compile(rf"{re.escape(folder)}/stage-([0-9]+)\.(.+?)\.{re.escape(suffix)}")
    matches = ((pattern.fullmatch(path), data) for path, data in files.items())
    return sorted((int(m[1]), m[2], data) for m, data in matches if m and "rollback" not in m[2])


def patched(database, operations):
    """RFC 6902 for what is used of it: a path must exist to be removed, and its parent to add."""
    for one in operations:
        *parents, last = one["path"].strip("/").split("/")
        at = database
        for key in parents:
            at = at[key]
        if one["op"] == "remove":
            del at[last]
        else:
            assert one["op"] == "add"
            assert last not in at
            at[last] = one["value"]
    assert database.get(TABLE) != {}
    rows = database.get(TABLE, {})
    ends = [end for row in rows.values() for end in row.values()]
    assert len(set(ends)) == len(ends)
    assert all(name == f"{row['a_side']}-{row['b_side']}" for name, row in rows.items())


def carried_out(names, commands):
    """Commands of SONiC on a set of cross-connects; one that is in the way is an error."""
    for line in commands.decode().splitlines():
        verb, listed = re.fullmatch(
            r"config ocs cross-connect (delete|add) ([0-9AB,-]+)(?: safe)?", line
        ).groups()
        for name in listed.split(","):
            if verb == "delete":
                names.remove(name)
                continue
            taken = {end for each in names for end in each.split("-")}
            assert not taken & set(name.split("-"))
            names.add(name)


@pytest.mark.parametrize("kind", KINDS)
def test_patches_and_commands_lead_from_one_configuration_to_the_other(kind):
    files, (first, second) = sample(kind), names_of(kind)
    for before, after in ((first, second), (second, first)):
        folder = f"plans/{before}-to-{after}"
        told = databases(files, before)
        listed = stages(files, folder, "patch.json")
        assert listed
        for _, switch, data in listed:
            patched(told[switch], json.loads(data))
        assert told == databases(files, after)
        held = {
            switch: set(rows.get(TABLE, {})) for switch, rows in databases(files, before).items()
        }
        start = {switch: set(names) for switch, names in held.items()}
        for _, switch, data in stages(files, folder, "sh"):
            carried_out(held[switch], data)
        wanted = {switch: set(rows.get(TABLE, {})) for switch, rows in told.items()}
        assert held == wanted
        backs = [
            (stage, switch, files[f"{folder}/stage-{stage}.{switch}.rollback.sh"])
            for stage, switch, _ in listed
        ]
        for _, switch, data in reversed(backs):
            carried_out(held[switch], data)
        assert held == start


def test_those_of_a_repair_are_there_too():
    files = sample("repaired")
    listed = stages(files, "work", "sh")
    deleted = sum(line.count(b",") + 1 for _, _, data in listed for line in data.splitlines()[:1])
    rows = table_of(files["work.csv"])
    assert deleted == sum(row["action"] == "delete" for row in rows) > 0
    book = files["work.md"].decode()
    for row in rows:
        what = row["cable"] or row["id"]
        assert f"{row['action']} " in book
        assert what in book


def test_switches_without_sides_have_runbooks_but_nothing_for_sonic():
    files = sample("matching")
    assert not any(path.endswith((".patch.json", ".sh", ".config_db.json")) for path in files)
    assert b"Stage 1" in files["plans/ring-to-cube.md"]


@pytest.mark.parametrize("kind", ["simplex", "restricted"])
def test_a_runbook_says_what_a_stage_leaves_to_traffic(kind):
    first, second = names_of(kind)
    book = sample(kind)[f"plans/{first}-to-{second}.md"].decode()
    plan = json.loads(sample(kind)[f"plans/{first}-to-{second}.json"])
    rows = [line.split(" | ") for line in book.splitlines() if re.match(r"\| [0-9]+ \|", line)]
    assert len(rows) == len(plan["stages"]) > 0
    for row, stage in zip(rows, plan["stages"], strict=True):
        assert row[2:4] == [str(stage["deleted"]), str(stage["created"])]
        assert row[4].startswith(f"{stage['least_circuits_of_node']} of ")
        assert row[5] == ("yes" if stage["stays_connected"] else "no")
    assert f"{second}-to-{first}.csv" in book
    for words in ("Risk: ", "## Rollback", "## Stage 1", "dead time"):
        assert words in book


def test_netbox_files_name_only_what_earlier_ones_make():
    files = sample("simplex")
    order = re.findall(r"`(dcim\.[a-z]+\.csv)`", files["netbox/README.md"].decode())[:7]
    assert sorted(order) == sorted(
        path.removeprefix("netbox/") for path in files if path.startswith("netbox/dcim")
    )
    tables = {name: table_of(files[f"netbox/{name}"]) for name in order}
    made = {name: {row.get("model", row.get("name")) for row in tables[name]} for name in order[:5]}
    needs = {
        ("dcim.devicetype.csv", "manufacturer"): "dcim.manufacturer.csv",
        ("dcim.device.csv", "role"): "dcim.devicerole.csv",
        ("dcim.device.csv", "manufacturer"): "dcim.manufacturer.csv",
        ("dcim.device.csv", "device_type"): "dcim.devicetype.csv",
        ("dcim.device.csv", "site"): "dcim.site.csv",
        ("dcim.interface.csv", "device"): "dcim.device.csv",
        ("dcim.cable.csv", "side_a_device"): "dcim.device.csv",
        ("dcim.cable.csv", "side_b_device"): "dcim.device.csv",
    }
    for (name, column), source in needs.items():
        assert order.index(source) < order.index(name)
        assert {row[column] for row in tables[name]} <= made[source]
    ends = {(row["device"], row["name"]) for row in tables["dcim.interface.csv"]}
    for row in tables["dcim.cable.csv"]:
        assert {(row[f"side_{s}_device"], row[f"side_{s}_name"]) for s in "ab"} <= ends


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("plans/cube-to-ring/stage-1.p2s0.sh", b"delete", b"remove"),
        ("plans/cube-to-ring/stage-1.p2s0.rollback.sh", b" safe", b" overwrite"),
        ("netbox/dcim.devicetype.csv", b",make,make", b",make,other"),
        ("netbox/dcim.site.csv", b"planned", b"active"),
    ],
)
def test_other_words_are_found(path, old, new):
    files = sample("simplex")
    assert old in files[path]
    verdict = checked(sealed({**files, path: files[path].replace(old, new)}))
    assert [one.file for one in verdict.findings] == [path]
