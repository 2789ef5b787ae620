"""``topology`` and ``import``: graphs for other tools, and what theirs are."""

from __future__ import annotations

import json

import pytest

from ocs_codesign.core.files.records import writers
from ocs_codesign.faces.cli import main
from ocs_codesign.graphs.formats.graph_files import FORMATS, import_graph
from ocs_codesign.graphs.text import parse

RECIPE = "Line(Complete(3))"


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    return code, *capsys.readouterr()


@pytest.mark.parametrize("kind", sorted(writers(FORMATS)))
def test_every_format_on_stdout_and_in_a_file(capsys, tmp_path, kind):
    text = FORMATS[kind].write(parse(RECIPE).topology(), RECIPE)
    assert run(capsys, "topology", RECIPE, "--format", kind) == (0, text, "")
    assert run(capsys, "topology", RECIPE, "--format", kind, "--out", "-") == (0, text, "")
    path = tmp_path / "g"
    code, out, err = run(capsys, "topology", RECIPE, "--format", kind, "--out", str(path))
    assert (code, err) == (0, "")
    assert f"written to  {path}" in out
    assert path.read_text(encoding="utf-8") == text
    assert [one.name for one in tmp_path.iterdir()] == ["g"]


def test_topology_json(capsys, tmp_path):
    path = tmp_path / "g"
    command = ["topology", RECIPE, "--out", str(path), "--json", "-"]
    code, out, err = run(capsys, *command)
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "answer": "programs.topology/1",
        "recipe": RECIPE,
        "label": "L(K3)",
        "graph": None,
        "nodes": 6,
        "degree": 2,
        "links": 12,
        "format": "edgelist",
        "out": str(path),
    }


def test_formats_are_converted(capsys, tmp_path):
    (tmp_path / "a.graphml").write_text(
        FORMATS["graphml"].write(parse(RECIPE).topology(), "a"), encoding="utf-8"
    )
    command = ["topology", "--graph", str(tmp_path / "a.graphml"), "--format", "json"]
    code, out, _ = run(capsys, *command)
    assert code == 0
    (tmp_path / "b.json").write_text(out, encoding="utf-8")
    assert import_graph(tmp_path / "b.json") == parse(RECIPE).topology()
    assert '"name": "a.graphml"' in out


def test_import_says_what_a_graph_is(capsys, tmp_path):
    path = tmp_path / "g.csv"
    path.write_text("source,target,speed\nx,y,2\ny,x,1\nx,y,2\ny,y,1\n", encoding="utf-8")
    code, out, err = run(capsys, "import", str(path), "--json", "-")
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "answer": "programs.import/1",
        "file": "g.csv",
        "format": "edgelist",
        "nodes": 2,
        "links": 4,
        "degree": 3,
        "regular": False,
        "undirected": False,
        "one_way_links": 1,
        "self_loops": 1,
        "parallel_links": 1,
        "strongly_connected": True,
        "diameter": 1,
        "link_speeds": [1, 2],
        "out": None,
    }
    code, out, err = run(capsys, "import", str(path))
    assert (code, err) == (0, "")
    for line in ("parallel links      1", "diameter            1", "link speeds         1, 2"):
        assert line in out.splitlines()


def test_import_normalises(capsys, tmp_path):
    path, out_path = tmp_path / "g.csv", tmp_path / "out.edges"
    path.write_text("x,y,2\ny,x,1\n", encoding="utf-8")
    expected = "# g.csv\n# 2 nodes, 2 directed links: tail head speed\n0 1 2\n1 0 1\n"
    assert run(capsys, "import", str(path), "--out", "-") == (0, expected, "")
    assert run(capsys, "import", str(path), "--out", str(out_path))[0] == 0
    assert out_path.read_text(encoding="utf-8") == expected
    assert import_graph(out_path) == import_graph(path)


def test_a_bad_file_leaves_the_output_alone(capsys, tmp_path):
    path, out_path = tmp_path / "g.txt", tmp_path / "out.edges"
    path.write_text("0 1\n1 zero zero\n", encoding="utf-8")
    out_path.write_text("precious", encoding="utf-8")
    code, out, err = run(capsys, "import", str(path), "--out", str(out_path))
    assert (code, out) == (2, "")
    assert err == (
        f"Error: {path}, line 2: 'zero' is not a link speed: "
        "it must be a positive number, perhaps with a unit such as 100Gbps\n"
    )
    assert out_path.read_text(encoding="utf-8") == "precious"


def test_odd_file_names(capsys, tmp_path):
    for name in ("a b\n[red].txt", "ünï□.txt", b"\xff.txt".decode("utf-8", "surrogateescape")):
        path = tmp_path / name
        path.write_text("0 1\n1 0\n", encoding="utf-8")
        out = str(tmp_path / "out")
        assert run(capsys, "import", str(path))[0] == 0
        assert run(capsys, "cost", "--graph", str(path), "--json", out)[0] == 0
        assert run(capsys, "topology", "--graph", str(path), "--out", out)[0] == 0
        assert import_graph(out).num_links == 2


def test_the_suffix_tells_the_format(capsys, tmp_path):
    for suffix, kind in ((".graphml", "graphml"), (".gv", "dot"), (".json", "json"), (".x", None)):
        path = tmp_path / f"t{suffix}"
        assert run(capsys, "topology", RECIPE, "--out", str(path))[0] == 0
        text = FORMATS[kind or "edgelist"].write(parse(RECIPE).topology(), RECIPE)
        assert path.read_text(encoding="utf-8") == text
    code, _, err = run(capsys, "topology", RECIPE, "--out", "t.graphml", "--format", "json")
    assert (code, "t.graphml tells graphml, --format json: which is it?" in err) == (2, True)


def test_undirected_edge_lists(capsys, tmp_path):
    """What networkx writes of an undirected graph has every edge once."""
    path, out_path = tmp_path / "g.edges", str(tmp_path / "both.edges")
    path.write_text("0 1 {}\n1 2 {}\n2 0 {}\n", encoding="utf-8")
    code, out, _ = run(capsys, "import", str(path))
    assert code == 0
    assert "read as             edge list, every line a link one way" in out
    assert "3 links of 3 have no link back; if every line was meant to be an edge" in out
    code, out, _ = run(capsys, "import", str(path), "--bidirectional", "--out", out_path)
    assert (code, "no link back" in out) == (0, False)
    both = import_graph(out_path)
    assert (both.is_undirected(), both.num_links) == (True, 6)
    path = tmp_path / "g.json"
    path.write_text(FORMATS["json"].write(parse(RECIPE).topology(), "g"), encoding="utf-8")
    code, _, err = run(capsys, "import", str(path), "--bidirectional")
    assert code == 2
    assert err == f"Error: {path}: node-link JSON says itself whether its edges are directed\n"
