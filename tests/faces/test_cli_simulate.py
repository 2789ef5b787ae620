"""The command simulate: fixed form, modes, other networks, circuits, pictures, bad input."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction

import pytest

from ocs_codesign.core.networks.builders import direct, star
from ocs_codesign.core.networks.formats import write_json
from ocs_codesign.faces.cli import main
from ocs_codesign.graphs.text import parse

LATENCY = ["--latency", "500ns"]
MESSAGE = ["--message", "8MiB"]


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A directory with an allgather of a ring, an allreduce, and one whose circuits change."""
    place = tmp_path_factory.mktemp("designs")
    ring = "UniRing(1, 8)"
    assert main(["build", ring, "--out", str(place / "ring"), "-q"]) == 0
    words = ["--collective", "allreduce", "--out", str(place / "both"), "-q"]
    assert main(["build", ring, *words]) == 0
    turns = ["DirectedCirculant(8, (1,))", "DirectedCirculant(8, (3,))", "--steps-each", "4"]
    assert main(["sequence", *turns, "--out", str(place / "turns"), "-q"]) == 0
    network = direct(parse(ring).topology(), 50, unit="GiB/s")
    (place / "ring.json").write_text(write_json(network, ""), encoding="utf-8")
    alike = direct(parse(ring).topology(), 50, unit="GB/s")
    (place / "astra.json").write_text(write_json(alike, ""), encoding="utf-8")
    (place / "star.json").write_text(write_json(star(8, 50, unit="GiB/s"), ""), encoding="utf-8")
    return place


def answer(capsys, *words):
    assert main(["simulate", *map(str, words), "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


def on(places, design, network, *words):
    return (places / design, "--network", places / network, *MESSAGE, *LATENCY, *words)


def test_known_nanoseconds(places, capsys):
    """A ring allgather and a ring allreduce of 8 shards of 1 MiB, as ASTRA-sim has them."""
    found = answer(capsys, *on(places, "ring", "ring.json"))
    assert found["time_ns"] == 140_217 == 7 * 20_031
    assert found["steps"] == 7
    assert found["num_transfers"] == 56
    share = Fraction(7, 8) * 8 * 2**20
    assert found["bus_bandwidth_Bps"] == pytest.approx(
        float(share / (140_217 * Fraction(1, 10**9)))
    )
    assert found["formula_ns"] == pytest.approx(7 * (500 + 19531.25))
    assert found["bound_ns"] == pytest.approx(500 + 7 * 19531.25)
    both = answer(capsys, *on(places, "both", "ring.json"))
    assert both["time_ns"] == 2 * 140_217 + 7
    assert both["bound_ns"] == pytest.approx(2 * 7 * 19531.25)
    rules = ("--rules", "astra-sim")
    assert answer(capsys, *on(places, "ring", "astra.json", *rules))["time_ns"] == 140_217
    assert answer(capsys, *on(places, "ring", "astra.json"))["time_ns"] == 7 * (20_971 + 500)


def test_the_answer_adds_up(places, capsys):
    found = answer(capsys, *on(places, "ring", "ring.json"))
    assert sum(found["critical_ns"].values()) == found["time_ns"]
    path = found["critical_path"]
    ends = [stretch["end_ns"] for stretch in path]
    assert [stretch["start_ns"] for stretch in path] == [0, *ends[:-1]]
    for link in found["links"]:
        assert link["busy_ns"] + sum(link["idle_ns"].values()) == found["time_ns"]
        assert link["busy_ns"] == 7 * 19_531


def test_a_recipe_and_its_bandwidth(capsys):
    """B is the egress of a host: two ports of a bidirectional ring have half of it each."""
    words = ["--bandwidth", "16Gbps", "--message", "8kB", "--latency", "100ns"]
    found = answer(capsys, "BiRing(2, 4)", *words, "--collective", "reduce-scatter", "--barrier")
    assert found["time_ns"] == found["formula_ns"] == 2 * 100 + 3 * 1000
    assert answer(capsys, "BiRing(2, 4)", *words)["collective"] == "allgather"
    long = "Transpose(" * 25 + "DirectedCirculant(5, (1, 2))" + ")" * 25
    assert answer(capsys, long, *words)["num_ranks"] == 5


def test_over_a_switch(places, capsys):
    """Store and forward takes both links in turn, cut-through one of them and both latencies."""
    stored = answer(capsys, *on(places, "ring", "star.json", "--rules", "store-and-forward"))
    assert stored["time_ns"] == 14 * 20_031.25
    through = answer(capsys, *on(places, "ring", "star.json"))
    assert through["time_ns"] == 7 * 20_531.25
    in_ns = answer(capsys, *on(places, "ring", "star.json", "--rules", "astra-sim"))
    assert in_ns["time_ns"] == 14 * 20_031


def test_modes_change_what_they_say(places, capsys):
    for words in (
        ["--rules", "blocking"],
        ["--rules", "next-on-pair=queued"],
        ["--rules", "next-on-pair=any"],
    ):
        found = answer(capsys, *on(places, "ring", "ring.json", *words))
        assert found["time_ns"] == 140_217
    slow = answer(capsys, *on(places, "ring", "ring.json", "--rules", "overhead=1us"))
    assert slow["time_ns"] == 7 * (1000 + 20_031 + 1000)
    slow = answer(capsys, *on(places, "ring", "ring.json", "--rules", "injection=25GiB/s"))
    assert slow["time_ns"] == 7 * (39_062 + 500)
    slow = answer(capsys, *on(places, "both", "ring.json", "--rules", "memory=3GiB/s"))
    assert slow["critical_ns"]["node"] == 7 * (2**20 * 10**9 // 2**30)


def test_circuits_that_change(places, capsys):
    words = [places / "turns", *MESSAGE, *LATENCY, "--bandwidth", "100Gbps"]
    still = answer(capsys, *words)
    dark = answer(capsys, *words, "--delta", "10us", "--serial", "--barrier")
    assert dark["time_ns"] == pytest.approx(dark["formula_ns"], abs=10)
    assert dark["critical_ns"]["dark"] == 10_000
    assert dark["time_ns"] - still["time_ns"] in range(9_990, 10_010)
    assert "dark" in {stretch["part"] for stretch in dark["critical_path"]}


def test_what_people_read(places, capsys, tmp_path):
    picture = tmp_path / "clock.svg"
    assert (
        main(["simulate", *map(str, on(places, "ring", "ring.json")), "--plot", str(picture)]) == 0
    )
    out = capsys.readouterr().out
    assert "140.2 us (140,217 ns)" in out
    assert "critical path" in out
    assert "busiest link" in out
    first = picture.read_bytes()
    assert b"<svg" in first
    assert (
        main(["simulate", *map(str, on(places, "ring", "ring.json")), "--plot", str(picture)]) == 0
    )
    assert picture.read_bytes() == first


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["ring"], "Missing option '--message'"),
        (["ring", *MESSAGE], "give --bandwidth: the links have no unit of their own"),
        (["ring", *MESSAGE, "--network", "ring.json", "--bandwidth", "1Gbps"], "these have GiB/s"),
        (["ring", *MESSAGE, "--bandwidth", "1Gbps", "--delta", "1us"], "--delta and --serial are"),
        (["ring", *MESSAGE, "--bandwidth", "1Gbps", "--serial"], "--delta and --serial are"),
        (["turns", *MESSAGE, "--network", "ring.json"], "links of their own: no --network"),
        (
            ["ring", *MESSAGE, "--bandwidth", "1Gbps", "--latency", "0.5ns"],
            "--latency is 0.5 ticks",
        ),
        (
            ["ring", *MESSAGE, "--network", "ring.json", "--rules", "overhead=1ps"],
            "overhead of --rules is 0.001",
        ),
        (["ring", *MESSAGE, "--network", "a100(2)"], "a design of 8 hosts on a network of 16"),
        (["nothing", *MESSAGE, "--bandwidth", "1Gbps"], "nothing"),
        (["Comlete(8)", *MESSAGE, "--bandwidth", "1Gbps"], "Comlete"),
        (["ring", *MESSAGE, "--bandwidth", "1Gbps", "--plot", "x.gif"], "saved as .png, .svg"),
    ],
)
def test_bad_input(places, capsys, monkeypatch, words, rule):
    monkeypatch.chdir(places)
    assert main(["simulate", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert rule in err
    assert err.count("\n") == 1


def test_a_design_that_is_wrong_is_not_simulated(places, capsys, tmp_path):
    shutil.copytree(places / "ring", tmp_path / "bad")
    record = tmp_path / "bad/design.json"
    text = record.read_text(encoding="utf-8")
    other = text.replace("UniRing(1, 8)", "DirectedCirculant(8, (3,))")
    record.write_text(other, encoding="utf-8")
    assert main(["simulate", str(tmp_path / "bad"), *MESSAGE, "--bandwidth", "1Gbps"]) == 2
    assert "bad is no valid design: the links are not those" in capsys.readouterr().err


def test_links_known_by_ticks(capsys, tmp_path):
    """A ring of 2, 2 and 4 ticks a chunk: greedy matching and the clock agree, whatever M is."""
    network, design = tmp_path / "ticks.json", str(tmp_path / "design")
    links = [[0, 1, 2], [1, 2, 2], [2, 0, 4]]
    network.write_text(
        json.dumps({"num_hosts": 3, "num_nodes": 3, "unit": "ticks", "links": links}),
        encoding="utf-8",
    )
    build = ["build", "--network", str(network), "--scheduler", "greedy"]
    assert main([*build, "--collective", "allgather", "--json", "-"]) == 0
    ticks = json.loads(capsys.readouterr().out)["ticks"]
    assert ticks == 8, "two chunks go over the link of four ticks"
    assert main([*build, "--collective", "allgather", "--out", design]) == 0
    clock = ["simulate", design, "--network", str(network), "--rules", "next-on-pair=queued"]
    for message in ("3MiB", "1kB"):
        capsys.readouterr()
        assert main([*clock, "--message", message, "--json", "-"]) == 0
        assert json.loads(capsys.readouterr().out)["time_ns"] == ticks
    with_bandwidth = [*clock, "--message", "3MB", "--bandwidth", "2GB/s", "--json", "-"]
    assert main(with_bandwidth) == 0
    assert json.loads(capsys.readouterr().out)["time_ns"] > 10**5
    assert main(["compare", str(network)]) == 2
    assert "but has no bytes" in capsys.readouterr().err
