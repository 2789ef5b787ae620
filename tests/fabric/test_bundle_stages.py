"""Patches, commands and runbooks of a bundle, carried out with nothing of the product."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest
from bundle_check_samples import checked, sample, sealed, table_of
from bundle_samples import TWO, named, rows, small_fabric, written

from ocs_codesign.fabric.bundle.verify import check_bundle
from ocs_codesign.fabric.deployments.day_two import repaired
from ocs_codesign.fabric.deployments.deploy import Failures, deploy
from ocs_codesign.fabric.deployments.work import Action
from ocs_codesign.faces.cli import main

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
    steps = table_of(files["work.csv"])
    assert deleted == sum(row["action"] == "delete" for row in steps) > 0
    book = files["work.md"].decode()
    assert "`work.csv`" in book
    done = Counter((row["switch"], row["action"]) for row in steps)
    lines = re.findall(
        r"^[0-9]+\. ([^:]+): (.+) (?:cable ends|cross-connects)\.$", book, re.MULTILINE
    )
    told = Counter()
    for switch, counts in lines:
        for count in counts.split(", "):
            action, number = count.split(" ")
            told[switch, action] += int(number)
    assert told == done
    assert len(lines) <= 4 * len({row["switch"] for row in steps})


def test_strands_that_are_idle_after_a_repair_are_unplugged_last(tmp_path):
    """What is in a lost switch without a circuit is no cable of the bundle any more."""
    before = deploy(small_fabric(planes=5), named(*TWO[:1]), ["allgather"])
    after, made = repaired(before, Failures(switches=("p0s0",)))
    assert made.idle
    last = after.work.steps[-len(made.idle) :]
    assert {(step.action, step.cable) for step in last} == {
        (Action.UNPLUG, move.cable) for move in made.idle
    }
    gone = {row["cable"]: row for row in rows(written(before, tmp_path / "a") / "cabling.csv")}
    for row in rows(written(after, tmp_path / "b") / "cabling.csv"):
        del gone[row["cable"]]
    assert set(gone) == {step.cable for step in last}
    assert {(gone[step.cable]["b_device"], gone[step.cable]["b_port"]) for step in last} == {
        (step.switch, step.id) for step in last
    }
    assert check_bundle(tmp_path / "b").ok


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
    book = files["netbox/README.md"].decode()
    order = re.findall(r"^[0-9]+\. `(dcim\.[a-z.]+\.csv)`", book, re.MULTILINE)
    assert sorted(order) == sorted(
        path.removeprefix("netbox/") for path in files if path.startswith("netbox/dcim")
    )
    tables = {name: table_of(files[f"netbox/{name}"]) for name in order}
    made = {name: {row.get("model", row.get("name")) for row in tables[name]} for name in order[:7]}
    needs = {
        ("dcim.devicetype.csv", "manufacturer"): "dcim.manufacturer.csv",
        ("dcim.device.csv", "role"): "dcim.devicerole.csv",
        ("dcim.device.csv", "manufacturer"): "dcim.manufacturer.csv",
        ("dcim.device.csv", "device_type"): "dcim.devicetype.csv",
        ("dcim.device.csv", "site"): "dcim.site.csv",
        ("dcim.interface.csv", "device"): "dcim.device.csv",
        ("dcim.rearport.csv", "device"): "dcim.device.csv",
        ("dcim.frontport.csv", "rear_port"): "dcim.rearport.csv",
        ("dcim.cable.csv", "side_a_device"): "dcim.device.csv",
        ("dcim.cable.csv", "side_b_device"): "dcim.device.csv",
    }
    for (name, column), source in needs.items():
        assert order.index(source) < order.index(name)
        assert {row[column] for row in tables[name]} <= made[source]
    kinds = ("interface", "frontport", "rearport")
    ends = {
        (row["device"], f"dcim.{kind}", row["name"])
        for kind in kinds
        for row in tables[f"dcim.{kind}.csv"]
    }
    used = Counter(
        tuple(row[f"side_{side}_{field}"] for field in ("device", "type", "name"))
        for name in ("dcim.cable.csv", "dcim.cable.up.csv")
        for row in tables[name]
        for side in "ab"
    )
    assert set(used) <= ends
    assert set(used.values()) == {1}  # one cable ends in one place
    assert traced(tables) == links_by_light_of(files)


def traced(tables):
    """From interface to interface as NetBox does: along cables, and from front to rear ports."""
    other = {}
    for name in ("dcim.cable.csv", "dcim.cable.up.csv"):
        for row in tables[name]:
            a, b = (
                tuple(row[f"side_{side}_{field}"] for field in ("device", "type", "name"))
                for side in "ab"
            )
            other[a], other[b] = b, a
    found = set()
    for start in [end for end in other if end[1] == "dcim.interface" and end[2].endswith("-tx")]:
        at = other[start]
        while at[1] != "dcim.interface":
            turned = {"dcim.frontport": "dcim.rearport", "dcim.rearport": "dcim.frontport"}[at[1]]
            at = other.get((at[0], turned, at[2]))
            if at is None:
                break
        else:
            found.add((start[0], at[0]))
    return found


def links_by_light_of(files):
    """The pairs of hosts of the configuration that is up, by its table of links."""
    up = json.loads(files["state.json"])["up"]
    return {(row["from_host"], row["to_host"]) for row in table_of(files[f"links/{up}.csv"])}


def test_netbox_updates_what_it_has_by_its_ids(tmp_path, capsys):
    """Whatever NetBox exported gets its id, whatever the order; the rest is made anew."""
    bundle = written(deploy(small_fabric(planes=2), named(*TWO[:1]), ["allgather"]), tmp_path / "b")
    exported, out = tmp_path / "exported", tmp_path / "imports"
    exported.mkdir()
    known = {}
    for path in sorted((bundle / "netbox").glob("*.csv")):
        table = table_of(path.read_bytes())[::2]
        known[path.name] = {tuple(row.values()): str(7 + at) for at, row in enumerate(table)}
        header = ",".join(["ID", *(column.replace("_", " ").title() for column in table[0])])
        lines = [f"{7 + at},{','.join(row.values())}" for at, row in enumerate(table)]
        (exported / path.name).write_text("\n".join([header, *lines[::-1]]), encoding="utf-8")
    (exported / "dcim.site.csv").unlink()
    assert main(["fabric", "netbox", str(bundle), str(exported), "--out", str(out)]) == 0
    assert "dcim.frontport.csv" in capsys.readouterr().out
    for path in sorted((bundle / "netbox").glob("*.csv")):
        before, after = (table_of((place / path.name).read_bytes()) for place in (path.parent, out))
        if path.name == "dcim.site.csv":
            assert after == before
            continue
        ids = known[path.name]
        assert after == [{"id": ids.get(tuple(row.values()), ""), **row} for row in before]
    (exported / "dcim.cable.csv").write_text("ID,Name\n1,a\n", encoding="utf-8")
    assert main(["fabric", "netbox", str(bundle), str(exported), "--out", str(out)]) == 2
    assert "dcim.cable.csv: what NetBox exported has no column 'label'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("plans/cube-to-ring/stage-1.p2s0.sh", b"delete", b"remove"),
        ("plans/cube-to-ring/stage-1.p2s0.rollback.sh", b" safe", b" overwrite"),
        ("netbox/dcim.devicetype.csv", b",make,make,", b",make,other,"),
        ("netbox/dcim.site.csv", b"planned", b"active"),
    ],
)
def test_other_words_are_found(path, old, new):
    files = sample("simplex")
    assert old in files[path]
    verdict = checked(sealed({**files, path: files[path].replace(old, new)}))
    assert [one.file for one in verdict.findings] == [path]
