"""``ocs-codesign paths``: its facts, its files, its verdicts and what it refuses."""

from __future__ import annotations

import csv
import io
import json
import os
from collections import defaultdict
from fractions import Fraction
from itertools import pairwise

import pytest
from interrupts import interrupted

from ocs_codesign.faces.cli import main
from ocs_codesign.graphs.formats.graph_files import import_graph
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.paths import table_files as path_tables
from ocs_codesign.schedules.paths.channels import up_down_table
from ocs_codesign.schedules.paths.tables import disjoint_path_table, path_table

TORUS = "Torus((3, 4))"
KAUTZ = "GeneralizedKautz(4, 9)"


def answer(capsys, *arguments, code=0):
    assert main(["paths", *arguments, "--json", "-"]) == code
    return json.loads(capsys.readouterr().out)


def rows_of_csv(text):
    """Share, nodes and links of every row, and the heading checked."""
    heading, *rows = csv.reader(io.StringIO(text))
    assert heading == ["source", "destination", "share", "hops", "nodes", "links"]
    found = []
    for source, destination, share, hops, nodes, links in rows:
        path, used = [int(v) for v in nodes.split()], [int(e) for e in links.split()]
        assert (int(source), int(destination), int(hops)) == (path[0], path[-1], len(used))
        found.append((Fraction(share), path, used))
    return found


def rows_of_json(text):
    """The same of a JSON table, and its links and times."""
    value = json.loads(text)
    rows = [(Fraction(share), nodes, links) for share, nodes, links in value.pop("paths")]
    return value, rows


def check(topology, rows):
    """Paths follow links, every pair's shares make up its message; the exact time of the table."""
    shares, load = defaultdict(Fraction), [Fraction(0)] * topology.num_links
    for share, nodes, links in rows:
        ends = [(int(topology.tail[link]), int(topology.head[link])) for link in links]
        assert ends == list(pairwise(nodes))
        assert share > 0
        shares[nodes[0], nodes[-1]] += share
        for link in links:
            load[link] += share
    pairs = topology.num_nodes * (topology.num_nodes - 1)
    assert len(shares) == pairs
    assert set(shares.values()) == {Fraction(1)}
    speeds = topology.speeds().tolist()
    return topology.t_b(max(one / speed for one, speed in zip(load, speeds, strict=True)))


class TestFacts:
    @pytest.mark.parametrize(
        ("options", "make"),
        [
            ([], path_table),
            (["--max-hops", "4"], lambda topology: path_table(topology, 4)),
            (["--routing", "disjoint"], disjoint_path_table),
            (
                ["--routing", "disjoint", "--paths", "2"],
                lambda topology: disjoint_path_table(topology, 2),
            ),
            (["--routing", "deadlock-free"], up_down_table),
        ],
    )
    def test_are_those_of_the_library(self, capsys, options, make):
        topology = parse(TORUS).topology()
        table, found = make(topology), answer(capsys, TORUS, *options)
        assert Fraction(found["t_b"]) == table.time
        assert Fraction(found["proven_bound"]) == table.bound
        assert found["gap"] == float(table.time / table.bound - 1)
        assert found["num_paths"] == table.num_paths
        assert found["longest_path"] == table.hops().max()
        busiest = found["busiest_link"]
        load = Fraction(int(table.link_loads()[busiest["link"]]), table.num_parts)
        assert topology.t_b(load) == table.time
        assert Fraction(busiest["load"]) == load

    def test_a_cycle_of_channel_dependencies_is_shown(self, capsys):
        found = answer(capsys, "UniRing(1, 5)")
        assert not found["deadlock_free"]
        assert [one["link"] for one in found["cycle"]] == [0, 1, 2, 3, 4]
        assert main(["paths", "UniRing(1, 5)"]) == 0
        out = capsys.readouterr().out
        assert "possible: a cycle of 5 channel dependencies, links 0 (0 -> 1), 1 (1 -> 2)" in out
        assert main(["paths", "UniRing(1, 12)"]) == 0
        assert "and 4 more" in capsys.readouterr().out

    def test_what_freedom_from_deadlock_costs(self, capsys):
        plain, free = (
            answer(capsys, "BiRing(2, 5)"),
            answer(capsys, "BiRing(2, 5)", "--routing", "deadlock-free"),
        )
        assert not plain["deadlock_free"]
        assert (free["deadlock_free"], free["cycle"]) == (True, None)
        assert (plain["t_b"], free["t_b"]) == ("6/5", "8/5")
        assert free["any_routing_t_b"] == free["any_routing_bound"] == "6/5"
        assert free["over_any_routing"] == pytest.approx(4 / 3)
        assert main(["paths", "BiRing(2, 5)", "--routing", "deadlock-free"]) == 0
        out = capsys.readouterr().out
        assert "none: the channel dependencies have no cycle" in out
        assert "these paths take 1.3333 times as long" in out

    def test_no_up_down_order_is_a_verdict(self, capsys, tmp_path):
        out = tmp_path / "t.csv"
        found = answer(
            capsys, "UniRing(1, 5)", "--routing", "deadlock-free", "--out", str(out), code=1
        )
        assert found["routing"] is None
        assert "no order of the nodes" in found["status"]
        assert main(["paths", "UniRing(1, 5)", "--routing", "deadlock-free"]) == 1
        assert capsys.readouterr().out.startswith("No up*/down* paths: no order of the nodes")
        assert not out.exists()

    def test_fewer_parts_cost_time(self, capsys):
        fine, coarse = answer(capsys, KAUTZ), answer(capsys, KAUTZ, "--parts", "1")
        assert coarse["num_parts"] == 1
        assert coarse["over_any_routing"] >= fine["over_any_routing"] >= 1

    def test_out_of_time_the_bound_says_how_good_it_is(self, capsys):
        for kind in ([], ["--routing", "disjoint"]):
            found = answer(capsys, KAUTZ, *kind, "--time-limit", "0s")
            assert Fraction(found["t_b"]) >= Fraction(found["proven_bound"])
            assert found["gap"] < 1


class TestFiles:
    @pytest.mark.parametrize("options", [[], ["--routing", "disjoint"]])
    @pytest.mark.parametrize("recipe", [KAUTZ, TORUS, "UniRing(2, 3)"])
    def test_csv_and_json_hold_the_same_table(self, capsys, tmp_path, recipe, options):
        topology = parse(recipe).topology()
        for name in ("t.csv", "t.json"):
            found = answer(capsys, recipe, *options, "--out", str(tmp_path / name))
            assert found["out"] == str(tmp_path / name)
        rows = rows_of_csv((tmp_path / "t.csv").read_text(encoding="utf-8"))
        value, same = rows_of_json((tmp_path / "t.json").read_text(encoding="utf-8"))
        assert rows == same
        assert len(rows) == found["num_paths"]
        assert check(topology, rows) == Fraction(found["t_b"]) == Fraction(value["t_b"])
        links = zip(topology.tail.tolist(), topology.head.tolist(), strict=True)
        assert value["links"] == [list(link) for link in links]
        assert value["nodes"] == topology.num_nodes

    def test_a_graph_with_speeds(self, capsys, tmp_path):
        path, out = tmp_path / "g.edges", tmp_path / "t.json"
        path.write_text("0 1 3\n1 2 3\n2 0 3\n1 0 1\n2 1 1\n0 2 1\n", encoding="utf-8")
        found = answer(capsys, "--graph", str(path), "--out", str(out))
        value, rows = rows_of_json(out.read_text(encoding="utf-8"))
        assert value["links"][0] == [0, 1, 3]
        assert check(import_graph(path), rows) == Fraction(found["t_b"])

    def test_on_standard_output_the_table_stands_alone(self, capsys):
        assert main(["paths", KAUTZ, "--out", "-"]) == 0
        assert check(parse(KAUTZ).topology(), rows_of_csv(capsys.readouterr().out)) > 0
        assert main(["paths", KAUTZ, "--out", "-", "--format", "json"]) == 0
        _, rows = rows_of_json(capsys.readouterr().out)
        assert rows

    def test_many_blocks_are_one_table(self, monkeypatch, tmp_path):
        table = disjoint_path_table(parse(KAUTZ).topology())
        for name in path_tables.FORMATS:
            path_tables.save_path_table(table, tmp_path / f"whole.{name}")
        monkeypatch.setattr(path_tables, "_BLOCK", 7)
        for name in path_tables.FORMATS:
            path_tables.save_path_table(table, tmp_path / f"parts.{name}")
            whole, parts = (tmp_path / f"{kind}.{name}" for kind in ("whole", "parts"))
            assert whole.read_bytes() == parts.read_bytes()

    def test_a_table_that_is_too_large_leaves_the_old_one(self, capsys, monkeypatch, tmp_path):
        out = tmp_path / "t.csv"
        out.write_text("old", encoding="utf-8")
        monkeypatch.setattr(path_tables, "MAX_PATHS", 5)
        assert main(["paths", "Complete(3)", "--out", str(out)]) == 2
        assert capsys.readouterr().err == "Error: a table of 6 paths: at most 5 are written\n"
        assert main(["paths", "Complete(3)", "--out", "-"]) == 2
        assert capsys.readouterr().out == ""
        assert (out.read_text(encoding="utf-8"), os.listdir(tmp_path)) == ("old", ["t.csv"])

    def test_a_full_disk_leaves_nothing(self, capsys, monkeypatch, tmp_path):
        def full(_table):
            yield b"source"
            raise OSError(28, "No space left on device")

        monkeypatch.setitem(path_tables.FORMATS, "csv", full)
        assert main(["paths", "Complete(3)", "--out", str(tmp_path / "t.csv")]) == 2
        assert capsys.readouterr().err.endswith("t.csv: no space left on device\n")
        assert os.listdir(tmp_path) == []

    def test_devices_are_written_to_and_formats_named(self, capsys, tmp_path):
        out = tmp_path / "table.txt"
        for place in (os.devnull, str(out)):
            assert main(["paths", "Complete(3)", "--out", place, "--format", "csv"]) == 0
        assert out.read_text(encoding="utf-8").splitlines()[1] == "0,1,1,1,0 1,0"
        capsys.readouterr()

    def test_ctrl_c_while_writing_leaves_nothing(self, tmp_path):
        script = (
            "import sys\nfrom ocs_codesign.schedules.paths import table_files\n"
            "def slow(table):\n    yield b'source'\n    print('ready', flush=True)\n"
            "    wait_for_ctrl_c()\n"
            "table_files.FORMATS['csv'] = slow\n"
            "from ocs_codesign.faces.cli import main\n"
            "sys.exit(main(['paths', 'Complete(3)', '--out', 't.csv', '--json', 'j']))"
        )
        code, _, err = interrupted(script, tmp_path)
        assert (code, err) == (130, "Interrupted: nothing was written.")
        assert os.listdir(tmp_path) == []


REFUSED = [
    ([], "give either a RECIPE or --graph FILE"),
    ([KAUTZ, "--paths", "2"], "--paths is for --routing disjoint and deadlock-free"),
    ([KAUTZ, "--routing", "disjoint", "--max-hops", "2"], "--max-hops is not for"),
    ([KAUTZ, "--format", "csv"], "--format is for --out"),
    ([KAUTZ, "--out", "t.xml"], "t.xml: the suffix of a path table must be .csv or .json"),
    ([KAUTZ, "--out", "no/t.csv"], "there is no such directory"),
    ([KAUTZ, "--out", "-", "--json", "-"], "only one output can go to standard output"),
    ([KAUTZ, "--out", "a.json", "--json", "./a.json"], "go to the same file"),
    ([KAUTZ, "--max-hops", "1"], "max_hops is 1: it must be at least the diameter, 2"),
    ([KAUTZ, "--parts", "0"], "'0' is not a whole number"),
    ([KAUTZ, "--routing", "disjoint", "--paths", "0"], "'0' is not a whole number"),
    (["--graph", "split.edges"], "not strongly connected"),
    (["--graph", "split.edges", "--routing", "deadlock-free"], "not strongly connected"),
    (["--graph", "split.edges", "--routing", "disjoint"], "not strongly connected"),
]


@pytest.mark.parametrize(("arguments", "rule"), REFUSED, ids=[" ".join(r[0]) for r in REFUSED])
def test_refused(capsys, monkeypatch, tmp_path, arguments, rule):
    (tmp_path / "split.edges").write_text("0 1\n1 0\n2 3\n3 2\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["paths", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert rule in err
    assert err.count("\n") == 1
    assert os.listdir(tmp_path) == ["split.edges"]


@pytest.mark.skipif(os.environ.get("GRB_LICENSE_FILE") is not None, reason="a licence is installed")
def test_a_licence_that_is_too_small(capsys, tmp_path):
    command = ["paths", "GeneralizedKautz(4, 27)", "--solver", "gurobi"]
    assert main([*command, "--out", str(tmp_path / "t.csv")]) == 2
    assert capsys.readouterr().err.endswith("with --fallback HiGHS solves it\n")
    assert os.listdir(tmp_path) == []
    assert main([*command, "--fallback"]) == 0
    assert "3044/1377 (2.2106), proven the best shares" in capsys.readouterr().out
