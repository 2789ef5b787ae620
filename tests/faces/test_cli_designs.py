"""``build`` and ``verify``: designs that are saved whole and believed only after a replay."""

from __future__ import annotations

import json
import os
import re
from fractions import Fraction

import numpy as np
import pytest
from folders import DATA

from ocs_codesign.faces.cli import main
from ocs_codesign.schedules.files.designs import load_design
from ocs_codesign.verification.schedules import verify

RECIPE = "Line(CompleteBipartite(2))"


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    return code, *capsys.readouterr()


@pytest.fixture
def design(capsys, tmp_path):
    path = tmp_path / "design"
    assert main(["build", RECIPE, "--out", str(path)]) == 0
    capsys.readouterr()
    return path


def change_schedule(path, **changes) -> None:
    with np.load(path / "schedule.npz") as archive:
        arrays = dict(archive)
    for name, (row, value) in changes.items():
        arrays[name] = arrays[name].copy()
        arrays[name][row] = value
    np.savez(path / "schedule.npz", **arrays)


def change_record(path, **changes) -> None:
    record = json.loads((path / "design.json").read_text(encoding="utf-8"))
    (path / "design.json").write_text(json.dumps({**record, **changes}), encoding="utf-8")


@pytest.mark.parametrize("collective", ["allgather", "reduce-scatter", "allreduce"])
@pytest.mark.parametrize("schedule", ["best", "bfb", "expansion"])
def test_what_is_built_verifies(capsys, tmp_path, collective, schedule):
    path = tmp_path / "d"
    options = ["--collective", collective, "--scheduler", schedule, "--out", str(path)]
    code, out, err = run(capsys, "build", RECIPE, *options, "--json", "-")
    assert (code, err) == (0, "")
    built = json.loads(out)
    record = json.loads((path / "design.json").read_text(encoding="utf-8"))
    stamped = record | {"answer": "build.built/1"}
    found = {"late": False, "topology_bound": built["topology_bound"], "out": str(path)}
    assert built == stamped | found
    assert built["recipe"] == RECIPE
    assert built["collective"] == collective
    if schedule != "best":
        assert built["schedule"] == schedule
    code, out, err = run(capsys, "verify", str(path), "--json", "-")
    assert (code, err) == (0, "")
    checked = json.loads(out)
    assert checked == {
        "answer": "build.verify/1",
        "ok": True,
        "recipe": RECIPE,
        "nodes": 8,
        "degree": 2,
        "collective": collective,
        **record["cost"],
        "max_load_per_step": record["max_load_per_step"],
        "num_chunks": record["num_chunks"],
        "num_sends": record["num_sends"],
        "claimed": {key: record["cost"][key] for key in ("steps", "t_b")},
        "witness": None,
    }


def test_tables(capsys, tmp_path):
    path = str(tmp_path / "d")
    code, out, err = run(capsys, "build", RECIPE, "--out", path)
    assert (code, err) == (0, "")
    assert re.search(r"^cost +3 steps, t_b 1, verified$", out, re.MULTILINE)
    assert re.search(rf"^saved in +{re.escape(path)}$", out, re.MULTILINE)
    code, out, err = run(capsys, "verify", path)
    assert (code, err) == (0, "")
    assert out.startswith("Valid: every send was replayed.\n")
    assert "claimed         the same" in out
    assert "   2                      2        2" in out


def test_a_graph_is_built_and_verified(capsys, tmp_path):
    graph = tmp_path / "ring.csv"
    graph.write_text("a,b,2\nb,c,1\nc,a,4\nb,a,1\n", encoding="utf-8")
    path = tmp_path / "d"
    command = ["build", "--graph", str(graph), "--collective", "allreduce", "--out", str(path)]
    assert run(capsys, *command)[0] == 0
    record = json.loads((path / "design.json").read_text(encoding="utf-8"))
    assert (record["recipe"], record["graph"]) == (None, "ring.csv")
    assert run(capsys, "verify", str(path))[0] == 0
    assert load_design(path).schedule.topology.speeds().tolist() == [2, 1, 4, 1]


def test_what_a_graph_allows_is_said(capsys, tmp_path):
    """On an MI250 box BFB takes 79/32 where the narrowest cut allows 49/48."""
    forests = DATA / "forests.json"
    links = json.loads(forests.read_text(encoding="utf-8"))["mi250-1"]["links"]
    box, out = tmp_path / "box.txt", str(tmp_path / "d")
    box.write_text("".join(f"{tail} {head} {speed}\n" for tail, head, speed in links), "utf-8")
    code, told, _ = run(capsys, "build", "--graph", str(box), "--out", out)
    assert code == 0
    assert "t_b 49/48 (1.02083) (no schedule on it can beat it), t_b is 142 % above it" in told
    assert "Large messages can be 2.42 times as fast on this graph" in told
    assert "build --scheduler forest reaches t_b 49/48" in told
    steps = int(re.search(r"its trees take (\d+) steps, t_b", told)[1])
    told = run(capsys, "build", "--graph", str(box), "--scheduler", "forest", "--out", out)[1]
    assert f"{steps} steps, t_b" in told
    assert "Large messages" not in told
    code, told, _ = run(capsys, "cost", "--graph", str(box), "--json", "-")
    answer = json.loads(told)
    assert answer["topology_bound"]["t_b"] == "49/48"
    assert answer["over_topology_bound"] == float(Fraction(79, 32) / Fraction(49, 48))
    told = run(capsys, "build", "Torus((4, 4))", "--out", out)[1]
    assert "Large messages" not in told


def test_foreign_directories_are_refused(capsys, tmp_path):
    (tmp_path / "thesis.tex").write_text("42", encoding="utf-8")
    code, out, err = run(capsys, "build", RECIPE, "--out", str(tmp_path))
    assert (code, out) == (2, "")
    assert "holds other files ('thesis.tex')" in err
    code, _, err = run(capsys, "build", RECIPE, "--out", str(tmp_path / "thesis.tex"))
    assert code == 2
    assert "is a file, not a directory" in err
    assert os.listdir(tmp_path) == ["thesis.tex"]


def test_a_schedule_that_does_not_verify_is_not_saved(capsys, tmp_path, monkeypatch):
    def broken(*_args, **_kwargs):
        raise RuntimeError("the schedule made by bfb fails: row 0")

    monkeypatch.setattr("ocs_codesign.schedules.design.build", broken)
    code, _, err = run(capsys, "build", RECIPE, "--out", str(tmp_path / "d"))
    assert (code, err) == (2, "Error: the schedule made by bfb fails: row 0\n")
    assert os.listdir(tmp_path) == []


def test_a_changed_send_is_found(capsys, design):
    honest = load_design(design).schedule
    row = honest.num_sends - 1
    change_schedule(design, step=(row, int(honest.step[row]) - 1))
    witness = verify(load_design(design).schedule).witness
    code, out, err = run(capsys, "verify", str(design), "--json", "-")
    given = json.loads(out)
    assert (code, err, given["ok"]) == (1, "", False)
    places = ("rule", "row", "step", "link", "root", "chunk", "node")
    assert {key: given["witness"][key] for key in places} == {
        key: getattr(witness, key) for key in places
    }
    code, out, err = run(capsys, "verify", str(design / "schedule.npz"))
    assert (code, err, out.count("\n")) == (1, "", 1)
    assert out.startswith("Not valid: ")
    assert witness.rule in out


def test_the_witness_names_the_ends_of_its_link(capsys, design):
    first = load_design(design).schedule
    change_schedule(design, root=(0, (int(first.root[0]) + 1) % 8))
    code, out, _ = run(capsys, "verify", str(design))
    assert code == 1
    tail, head = (int(ends[first.link[0]]) for ends in (first.topology.tail, first.topology.head))
    assert f"link {int(first.link[0])} ({tail} -> {head})" in out


def test_false_claims_are_found(capsys, design):
    change_record(design, recipe="Torus((2, 4))")
    rule = "the links are not those of the claimed recipe Torus((2, 4))"
    assert run(capsys, "verify", str(design)) == (1, f"Not valid: {rule}.\n", "")
    code, out, _ = run(capsys, "verify", str(design), "--json", "-")
    assert (code, json.loads(out)["witness"]["rule"]) == (1, rule)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"recipe": "exit()"}, "unknown name 'exit'"),
        ({"recipe": ""}, "it is empty"),
        ({"nodes": 9}, "design.json is not of this schedule"),
    ],
)
def test_records_that_cannot_be_read(capsys, design, changes, reason):
    change_record(design, **changes)
    code, out, err = run(capsys, "verify", str(design))
    assert (code, out) == (2, "")
    assert err.startswith("Error: ")
    assert reason in err


@pytest.mark.parametrize("content", [b"", b"PK\x05\x06" + bytes(18), b"\x80\x04N."])
def test_files_that_are_no_schedules(capsys, tmp_path, content):
    path = tmp_path / "schedule.npz"
    path.write_bytes(content)
    code, out, err = run(capsys, "verify", str(path))
    assert (code, out) == (2, "")
    assert err.startswith(f"Error: {path}")
    assert err.count("\n") == 1


def test_pickles_are_never_loaded(capsys, tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    path = tmp_path / "schedule.npz"
    np.savez(path, tail=np.array([Trap()], dtype=object))
    code, _, err = run(capsys, "verify", str(path))
    assert code == 2
    assert err.startswith("Error: ")
    assert not (tmp_path / "sprung").exists()
