"""``ocs-codesign fabric``: check, profiles, schema and example."""

from __future__ import annotations

import json
import re

import pytest
from fabric_samples import LAB, lab

from ocs_codesign.fabric.description import fabric_facts
from ocs_codesign.fabric.files.example import example_text
from ocs_codesign.fabric.files.fabric_files import parse_fabric
from ocs_codesign.fabric.files.workload import workload_json_schema
from ocs_codesign.fabric.profiles import PROFILES
from ocs_codesign.faces.cli import main


def check(tmp_path, data, *options, name="lab.yaml"):
    path = tmp_path / name
    path.write_bytes(data)
    return main(["fabric", "check", str(path), *options])


def test_check_says_what_it_is(tmp_path, capsys):
    assert check(tmp_path, lab()) == 0
    out = capsys.readouterr().out
    assert "host000, host001, ..., host007" in out
    assert "100 Gbps, 3 ports a host" in out
    assert "3.5 over" in out  # three stages
    assert "0-1" in out  # two equal planes in a row
    assert "no price is public of: make port" in out
    assert "The description is valid" in out


def test_check_as_json(tmp_path, capsys):
    assert check(tmp_path, lab(), "--json", "-") == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["hosts"], value["switches"], value["ports_per_host"]) == (8, 3, 3)
    assert value["planes"][0]["dead_time_of_one_circuit_s"] == 0.025
    assert value["price"]["total_usd"] == 16 * 520 + 24 * 99 + 24 * 659


def test_too_few_ports_and_too_little_light(tmp_path, capsys):
    data = lab("hosts", "count", value=9).replace(b'"DR4"', b"2")
    assert check(tmp_path, data, "--json", "-") == 1
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert len(findings) == 4
    assert findings[-1] == "a circuit of plane 2 loses 2.5 dB, over the budget of 2 dB"
    assert check(tmp_path, data) == 1
    assert f"Amiss: {findings[0]}." in capsys.readouterr().out


def test_bad_files_end_in_one_sentence(tmp_path, capsys):
    assert check(tmp_path, lab("planes", 0, "switches", 0, "profile", value="polatis")) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "lab.yaml, line 1: planes[0].switches[0].profile: no switch profile is named" in err
    assert main(["fabric", "check", str(tmp_path / "none.yaml")]) == 2
    assert "no such file" in capsys.readouterr().err


def test_profiles(capsys):
    assert main(["fabric", "profiles"]) == 0
    out = capsys.readouterr().out
    for name, profile in PROFILES.items():
        assert name in out
        assert all(word in out for source in profile.sources for word in source.text.split())
    assert main(["fabric", "profiles", "palomar-136", "--json", "-"]) == 0
    (only,) = json.loads(capsys.readouterr().out)["profiles"]
    assert (only["ports"], only["power_w"], only["delta_s"]) == (136, 108, 0.01)
    assert set(only["sources"]) == {source.field for source in PROFILES["palomar-136"].sources}
    assert main(["fabric", "profiles", "palomer"]) == 2
    assert "did you mean palomar-136?" in capsys.readouterr().err


def test_schema_documents_every_key(capsys):
    assert main(["fabric", "schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert set(LAB) <= set(schema["properties"])
    for part in (schema, *schema["$defs"].values()):
        assert part["additionalProperties"] is False
        assert part["description"]
        for key, value in part["properties"].items():
            assert "description" in value or "$ref" in str(value) or key == "planes", key


def test_the_schema_of_workloads_is_that_of_their_files(capsys):
    assert main(["fabric", "schema", "workload"]) == 0
    assert json.loads(capsys.readouterr().out) == workload_json_schema()
    assert main(["select", "--help"]) == 0
    assert "fabric schema workload" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("profile", PROFILES)
def test_every_example_is_a_fabric_without_findings(profile):
    for hosts, planes in ((64, 4), (2, 1), (1500, 2)):
        text = example_text(hosts, planes, profile)
        assert text.count("#") > 10
        made = parse_fabric(text.encode(), "example.yaml")
        assert fabric_facts(made).findings == ()
        assert (len(made.hosts), made.num_planes) == (hosts, planes)
        assert {switch.profile for switch in made.switches} == {PROFILES[profile]}
        assert len(made.hosts[0]) == len(made.hosts[-1])
        served = re.sub("^# (?=servers|  )", "", text, flags=re.MULTILINE)
        (nic,) = parse_fabric(served.encode(), "example.yaml").servers.nics
        assert (nic.planes, nic.gpus) == (tuple(range(planes)), ())


def test_example(capsys):
    assert main(["fabric", "example", "--nodes", "8", "--planes", "2"]) == 0
    assert capsys.readouterr().out == example_text(8, 2)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--nodes", "0"], "0 hosts: it must be from 1 to 100000"),
        (["--profile", "rotor-128", "--nodes", "1"], "its states need at least 2"),
    ],
)
def test_no_example(options, sentence, capsys):
    assert main(["fabric", "example", *options]) == 2
    assert sentence in capsys.readouterr().err


TAKES_A_FABRIC = [
    "fabric check {}",
    "select --fabric {} --message 1MiB",
    "deploy Circulant(8,(1,2)) --fabric {} --out bundle",
    "survive Circulant(8,(1,2)) --fabric {}",
    "cluster {}",
]


@pytest.mark.parametrize("words", TAKES_A_FABRIC)
def test_switches_of_two_port_models_are_refused_at_once_by_every_command(
    words, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(["example", "."]) == 0
    two_sided = {"profile": "palomar-136", "ports": 8}
    planes = [*LAB["planes"], {"switches": [two_sided]}]
    losses = {**LAB["losses"], "circulator_db": 0.5}
    servers = {"gpus": 1, "switch": "450GB/s", "nics": [{"planes": [0, 1, 2, 3], "gpus": "switch"}]}
    text = json.dumps({**LAB, "planes": planes, "losses": losses, "servers": servers})
    (tmp_path / "mixed.json").write_text(text, encoding="utf-8")
    monkeypatch.setattr("ocs_codesign.search.frontiers.designs_serving", None)
    assert main([word.format("mixed.json") for word in words.split(" ")]) == 2
    assert "two-sided, but the fabric's first switch is simplex" in capsys.readouterr().err
