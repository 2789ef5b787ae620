"""``ocs-codesign verify-bundle``: exit codes, text, JSON and observed neighbours."""

from __future__ import annotations

import csv
import json

import pytest
from bundle_check_samples import MANIFEST, edited, put, sample

from ocs_codesign.fabric.bundle.verify import check_bundle
from ocs_codesign.faces.cli import main

HEADER = ["local_host", "local_port", "remote_host", "remote_port"]


def heard(kind, configuration):
    """What hosts should hear, from the table of links alone."""
    rows = []
    for link in csv.DictReader(sample(kind)[f"links/{configuration}.csv"].decode().splitlines()):
        port = f"p{link['plane']}"
        names = {"forward": ("-a", "-b"), "backward": ("-b", "-a")}[link["direction"]]
        sent, got = names if kind == "two-sided" else ("", "")
        rows.append([link["to_host"], port + got, link["from_host"], port + sent])
    return rows


def observe(tmp_path, rows):
    path = tmp_path / "neighbours.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([HEADER, *rows])
    return str(path)


def answer(capsys, *arguments):
    code = main(["verify-bundle", *arguments, "--json", "-"])
    return code, json.loads(capsys.readouterr().out)


def test_a_valid_bundle(tmp_path, capsys):
    directory = str(put(sample("simplex"), tmp_path))
    assert main(["verify-bundle", directory]) == 0
    assert capsys.readouterr().out.startswith("Valid: the light makes what the bundle claims.")
    code, value = answer(capsys, directory)
    assert code == 0
    assert value["ok"]
    assert [one["name"] for one in value["configurations"]] == ["ring", "cube"]
    assert set(value["configurations"][0]["schedules"]) == {"allreduce", "alltoall"}


def test_findings_end_in_code_1(tmp_path, capsys):
    files = edited("simplex", "cabling.csv", lambda rows: rows[0].update(b_port="3A"))
    directory = str(put(files, tmp_path))
    assert main(["verify-bundle", directory, "--top", "2"]) == 1
    text = capsys.readouterr().out
    assert "cabling.csv, line 6: port 3A of p0s0 has a cable already, in line 2" in text
    assert "more, see --top" in text
    code, value = answer(capsys, directory)
    assert code == 1
    assert value["num_findings"] == len(value["findings"])
    assert set(value["findings"][0]) == {"file", "place", "rule"}


def test_no_bundle_ends_in_code_2(tmp_path, capsys):
    assert main(["verify-bundle", str(tmp_path)]) == 2
    assert f"there is no {MANIFEST}" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["simplex", "two-sided", "matching"])
@pytest.mark.parametrize("configuration", ["ring", "cube"])
def test_neighbours_of_one_configuration_are_valid(kind, configuration, tmp_path, capsys):
    directory = str(put(sample(kind), tmp_path / "bundle"))
    path = observe(tmp_path, heard(kind, configuration))
    code, value = answer(capsys, directory, "--observed", path)
    assert code == 0
    counts = {one["configuration"]: one["num_differences"] for one in value["observed"]}
    assert counts[configuration] == 0
    assert sum(counts.values()) > 0


def test_neighbours_that_differ_are_listed_link_by_link(tmp_path, capsys):
    directory = str(put(sample("simplex"), tmp_path / "bundle"))
    rows = heard("simplex", "cube")
    gone = rows.pop()
    first, second = rows[0], next(row for row in rows if row[3] == rows[0][3] and row != rows[0])
    first[2], second[2] = second[2], first[2]
    code, value = answer(capsys, directory, "--observed", observe(tmp_path, rows))
    assert code == 1
    listed = next(one for one in value["observed"] if one["configuration"] == "cube")
    kinds = {(one["kind"], one["local"]["host"]) for one in listed["differences"]}
    assert kinds == {("missing", gone[0]), ("swapped", first[0]), ("swapped", second[0])}
    assert value["num_findings"] == 3
    assert all(one["file"].endswith("neighbours.csv") for one in value["findings"])


def test_a_neighbour_that_should_be_dark_is_unexpected(tmp_path):
    directory = put(sample("simplex"), tmp_path / "bundle")
    rows = [*heard("simplex", "cube"), ["h8", "p0", "h0", "p0"]]
    verdict = check_bundle(directory, observe(tmp_path, rows))
    assert [one.rule for one in verdict.findings] == [
        "unexpected: h8 p0 hears h0 p0, it should hear nothing (configuration cube)"
    ]


def test_neighbours_that_cannot_be(tmp_path, capsys):
    directory = put(sample("simplex"), tmp_path / "bundle")
    rows = heard("simplex", "cube")
    rows[0] = ["h0", "p77", "nobody", "p0"]
    rows[1] = rows[2]
    rules = " ".join(one.rule for one in check_bundle(directory, observe(tmp_path, rows)).findings)
    assert "'h0' has no port 'p77'" in rules
    assert "'nobody' has no port 'p0'" in rules
    assert "has a row already" in rules
    bad = tmp_path / "bad.csv"
    bad.write_text("a,b\n")
    assert main(["verify-bundle", str(directory), "--observed", str(bad)]) == 2
    assert "the columns must be local_host" in capsys.readouterr().err
    assert main(["verify-bundle", str(directory), "--observed", str(tmp_path / "no.csv")]) == 2
