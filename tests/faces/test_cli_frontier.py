"""``frontier``: the JSON's exact form, the table, the best candidate, the picture."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from fake_frontier import FakeFrontier, candidate

from ocs_codesign.core.collective import GATHERING, Collective
from ocs_codesign.core.files.kept import CACHE
from ocs_codesign.core.progress import tell_phase
from ocs_codesign.faces.answers.frontier import (
    MAX_DOMINATED_ROWS,
    origin_sentence,
    search_sentences,
)
from ocs_codesign.faces.cli import main
from ocs_codesign.graphs.handle import handle
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.design import measure
from ocs_codesign.search import pool as pooled
from ocs_codesign.search.catalogue.entry import Provenance
from ocs_codesign.search.frontiers import frontier

ASK = ["frontier", "--nodes", "1024", "--degree", "4"]
MODEL = ["--alpha", "10us", "--bandwidth", "100Gbps", "--message", "1MiB"]

SLOW = "Line(DirectedCirculant(64, (1, 31, 39, 57)), 2)"
QUICK = "Line(Circulant(16, (3, 4)), 3)"
WORSE = "GeneralizedKautz(4, 1024)"


@pytest.fixture
def found(monkeypatch):
    """Let the finder answer with two candidates and a number of dominated ones."""

    def arrange(dominated: int = 1):
        def find(num_nodes, degree, collective, *, bidirectional, forests, fresh):
            assert not bidirectional
            assert not fresh
            assert not forests
            tell_phase("Scoring", 1, 2)
            front = (
                candidate(QUICK, 6, Fraction(261, 256)),
                candidate(SLOW, 7, Fraction(1023, 1024)),
            )
            rest = tuple(
                candidate(WORSE, 7 + i, Fraction(341, 256), i % 2 == 0) for i in range(dominated)
            )
            return FakeFrontier(num_nodes, degree, Collective.parse(collective), front, rest)

        monkeypatch.setattr("ocs_codesign.search.frontiers.frontier", find)

    arrange()
    return arrange


def answer(capsys, *more: str) -> dict:
    assert main([*ASK, *more, "--json", "-"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


@pytest.mark.usefixtures("found")
def test_json_has_exactly_this_form(capsys):
    quick = {
        "recipe": "Line(Line(Line(Circulant(16, (3, 4)))))",
        "label": "L³(C(16,{3,4}))",
        "steps": 6,
        "t_b": "261/256",
        "t_b_float": 1.01953125,
        "measured": True,
        "bw_optimal": False,
        "moore_optimal": False,
        "schedule": "bfb",
        "late": False,
        "reverse_symmetric": True,
        "allgather": {"steps": 6, "t_b": "261/256"},
        "reduce_scatter": {"steps": 7, "t_b": "261/256"},
    }
    above = {"above_bound": "7/341"}
    given = answer(capsys)
    keys = "answer nodes degree collective candidates bound exhaustion published "
    keys += "baselines dominated"
    assert list(given) == [*keys.split(), "catalogue", "searched_here"]
    (tree,) = given["baselines"]
    least = {"steps": 1, "t_b": "1023/1024"}
    assert tree == {"label": "fat tree (bound)", "recipe": None, "known": "bounded", **least}
    assert given["nodes"] == 1024
    assert given["degree"] == 4
    assert given["collective"] == "allgather"
    assert given["bound"] == {"steps": 5, "t_b": "1023/1024"}
    assert given["candidates"][0] == quick | above
    assert given["candidates"][1]["above_bound"] == "0"
    assert given["candidates"][1]["bw_optimal"] is True
    (dominated,) = given["dominated"]
    assert set(dominated) == {*quick, "dominated_by"}
    assert dominated["recipe"] == WORSE
    assert dominated["dominated_by"] == quick["recipe"]


@pytest.mark.usefixtures("found")
def test_json_with_a_cost_model(capsys):
    given = answer(capsys, *MODEL)
    assert given["cost_model"] == {
        "alpha_s": 1e-05,
        "node_bandwidth_Bps": 12.5e9,
        "messages_bytes": [2**20],
    }
    times = [entry["times_s"][0] for entry in given["candidates"]]
    assert times[0] == pytest.approx(6e-5 + 261 / 256 * 2**20 / 12.5e9, rel=1e-12)
    assert given["best"] == [given["candidates"][0]["recipe"]]
    large = answer(capsys, *MODEL[:-1], "1GiB")
    assert large["best"] == [large["candidates"][1]["recipe"]]


@pytest.mark.usefixtures("found")
def test_table(capsys):
    assert main([*ASK, *MODEL]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert lines[0] == (
        "1024 nodes of degree 4, allgather: 2 candidates on the frontier, 1 dominated"
    )
    heading = "steps t_b decimal time reduce-scatter optimal cost handle label"
    assert lines[1].split() == heading.split()
    assert "  7, 261/256  " in lines[2]
    for value in ("6", "261/256", "1.01953", "145.5 us", "measured", "L³(C(16,{3,4}))"):
        assert value in lines[2]
    assert "  BW  " in lines[3]
    slow = "Line(Line(DirectedCirculant(64, (1, 31, 39, 57))))"
    assert f"{handle(slow)}  L" in lines[3]
    assert f"{handle(slow)}  {slow}" in lines
    assert lines[4] == (
        "t_b above the least that counting allows in as many steps: 2.05 % and 0 %."
    )
    assert lines[5] == (
        "These are the best of 3 designs known or found; no topology of this size can beat "
        "5 steps, t_b 1023/1024 (0.999023)."
    )
    (tree,) = (line.split() for line in lines if "fat tree (bound)" in line)
    assert tree[:5] == ["1", "1023/1024", "0.999023", "93.8", "us"]
    assert (
        "Best for 1 MiB at alpha 10 us and 100 Gbps a node: "
        "Line(Line(Line(Circulant(16, (3, 4))))) in 145.5 us (6 steps, t_b 261/256 (1.01953))."
    ) in out
    assert WORSE not in out


def test_all_lists_the_dominated_up_to_a_limit(capsys, found):
    found(MAX_DOMINATED_ROWS + 5)
    assert main([*ASK, "--all"]) == 0
    out, _ = capsys.readouterr()
    assert out.count(f"  {handle(WORSE)}  ") == MAX_DOMINATED_ROWS
    assert "dominated by" in out
    assert "predicted" in out
    assert "5 more dominated candidates in the JSON answer (--json)." in out
    assert len(answer(capsys)["dominated"]) == MAX_DOMINATED_ROWS + 5
    found(0)
    assert main([*ASK, "--all"]) == 0
    assert "Dominated:" not in capsys.readouterr().out


@pytest.mark.usefixtures("found")
@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf", ".SVG"])
def test_plot_and_json_files(capsys, tmp_path, suffix):
    picture, data = tmp_path / f"f{suffix}", tmp_path / "f.json"
    command = [*ASK, *MODEL, "--plot", str(picture), "--json", str(data)]
    assert main(command) == 0
    first = picture.read_bytes(), data.read_bytes()
    assert len(first[0]) > 1000
    assert main(command) == 0
    assert (picture.read_bytes(), data.read_bytes()) == first
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["f.json", picture.name])
    assert "Best for" in capsys.readouterr().out


@pytest.mark.usefixtures("found")
def test_a_failing_plot_writes_nothing(capsys, tmp_path, monkeypatch):
    def fail(*_args):
        raise RuntimeError("no ink")

    monkeypatch.setattr("ocs_codesign.faces.pictures.files.figure_bytes", fail)
    picture, data = tmp_path / "f.png", tmp_path / "f.json"
    assert main([*ASK, "--plot", str(picture), "--json", str(data)]) == 2
    assert capsys.readouterr().err == "Error: no ink\n"
    assert not list(tmp_path.iterdir())


def test_whether_a_design_is_late_is_said_wherever_it_is_told(capsys, tmp_path):
    """By frontier, catalogue, cost and build, in JSON and in words; BFB's are not."""
    size = ["--nodes", "61", "--degree", "4"]
    for command in (["frontier", *size], ["catalogue", "find", *size]):
        assert main([*command, "--json", "-"]) == 0
        designs = json.loads(capsys.readouterr().out)["candidates"]
        assert [design["late"] for design in designs] == [False, True, False]
        assert main(command) == 0
        assert [", late " in row for row in capsys.readouterr().out.splitlines()].count(True) == 1
    for moves in (0, 20_000):
        recipe = f"Late(AffineSpliced(61, 3, (0, 22, 24, 2)), 4, {moves}, 0)"
        for more in (["cost"], ["build", "--out", str(tmp_path / str(moves))]):
            assert main([*more, recipe, "--json", "-"]) == 0
            assert json.loads(capsys.readouterr().out)["late"] == (moves > 0)
    assert measure(recipe).late


@pytest.mark.parametrize("collective", [kind.name for kind in GATHERING])
def test_the_real_finder(capsys, collective):
    command = ["frontier", "--nodes", "8", "--degree", "4", "--collective", collective]
    assert main([*command, "--json", "-"]) == 0
    given = json.loads(capsys.readouterr().out)
    assert given["collective"] == collective
    for entry in given["candidates"]:
        again = measure(parse(entry["recipe"]), collective)
        assert (again.cost.steps, str(again.cost.t_b)) == (entry["steps"], entry["t_b"])
    assert all(entry["dominated_by"] for entry in given["dominated"])


def test_a_graph_of_ones_own_stands_beside_the_frontier(capsys, tmp_path):
    """In units of the frontier's ports, with who is no worse; other sizes are refused."""
    file = tmp_path / "ring.txt"
    file.write_text("".join(f"{node} {(node + 1) % 12}\n" for node in range(12)))
    plot = tmp_path / "own.png"
    command = ["frontier", "--nodes", "12", "--degree", "4", "--graph", str(file)]
    assert main([*command, "--plot", str(plot), "--json", "-"]) == 0
    own = json.loads(capsys.readouterr().out)["graph"]
    assert (own["name"], own["steps"], Fraction(own["t_b"])) == ("ring.txt", 11, Fraction(11, 3))
    assert own["dominated_by"] is not None
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert main(command) == 0
    assert "ring.txt: 11 steps, t_b 11/3" in capsys.readouterr().out
    for more in (["--nodes", "13"], ["--criteria", "joint"], ["--collective", "alltoall"]):
        assert main([*command, *more]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_a_graph_says_its_size(capsys, tmp_path):
    """Nodes and ports are the file's, unless its nodes differ in them."""
    file = tmp_path / "ring.txt"
    ring = "".join(f"{node} {(node + 1) % 12}\n{node} {(node + 11) % 12}\n" for node in range(12))
    file.write_text(ring)
    assert main(["frontier", "--graph", str(file), "--json", "-"]) == 0
    given = json.loads(capsys.readouterr().out)
    assert (given["nodes"], given["degree"], given["graph"]["steps"]) == (12, 2, 6)
    file.write_text(ring + "0 5\n")
    for command in (["frontier", "--graph", str(file)], ["frontier", "--nodes", "12"]):
        assert main(command) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert main(["frontier", "--graph", str(file), "--degree", "3"]) == 0


def test_forests_are_a_criterion(capsys, tmp_path):
    picture = tmp_path / "frontier.svg"
    asked = ["frontier", "--nodes", "64", "--degree", "4", "--criteria", "forests"]
    assert main([*asked, "--plot", str(picture), "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)["candidates"]
    assert [one["forest_t_b"] for one in found] == ["63/64", "63/64"]
    assert found[0]["t_b"] == "17/16"
    assert "what forests come near to" in picture.read_text(encoding="utf-8")
    assert main(asked) == 0
    told = capsys.readouterr().out
    assert "    3  17/16    1.0625        3, 17/16    63/64  Moore" in told
    assert "forests: the t_b that spanning trees in many pieces come near to" in told


@pytest.mark.parametrize(
    "more", [["--criteria", "joint"], ["--collective", "alltoall"], ["--delta", "1us"]]
)
def test_forests_are_for_one_collective(capsys, more):
    assert main([*ASK, "--criteria", "forests", *more]) == 2
    err = capsys.readouterr().err
    assert "--criteria forests is for one collective" in err or "--criteria is given 2 times" in err


def test_what_the_catalogue_has_searched_is_said(capsys):
    assert main(["frontier", "--nodes", "64", "--degree", "4"]) == 0
    assert capsys.readouterr().out.count("From the catalogue: searched for 23 s of one core") == 1
    assert main(["frontier", "--nodes", "64", "--degree", "4", "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["catalogue"]["work"], found["searched_here"]) == (16 * 2**24, None)
    assert main(["frontier", "--nodes", "6", "--degree", "2", "--fresh"]) == 0
    assert "Searched on this machine with the default effort" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("origin", "is_open", "said"),
    [
        (Provenance("c", "0", 1, 2.0, 2**24), True, "2 s of one core; --fresh searches on."),
        (
            Provenance("c", "0", 1, 300.0, 0, 2**19, "2026-11-23"),
            True,
            "5 minutes of one core, last on 2026-11-23; --fresh searches on, up to some minutes, "
            "and may find better.",
        ),
        (
            Provenance("c", "0", 1, 0.62),
            False,
            "0.62 s of one core; nothing is left for local searches; --fresh searches all "
            "the same.",
        ),
    ],
)
def test_how_much_was_searched_and_when(origin, is_open, said):
    assert origin_sentence(origin, is_open) == f"From the catalogue: searched for {said}"


@pytest.mark.parametrize(
    ("recipe", "counts"),
    [
        ("AffineSpliced(2049, 685, (1, 682, 799, 1933))", ", 1 by affine digraphs"),
        ("GeneralizedKautz(9, 20)", ""),
    ],
)
def test_beyond_the_catalogue_it_is_said_how_little_was_looked_at(monkeypatch, recipe, counts):
    monkeypatch.setenv(CACHE, "")
    design = measure(recipe, "allreduce")
    monkeypatch.setattr(pooled, "searched", lambda *_: ([design], []))
    answer = frontier(design.recipe.num_nodes, design.recipe.degree)
    said = " ".join(search_sentences(answer))
    assert f" by families and expansions{counts}): better designs are likely" in said


def test_fresh_is_for_topologies_that_do_not_change(capsys):
    assert main(["frontier", "--nodes", "12", "--degree", "3", "--fresh", "--delta", "1ms"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    assert "--fresh" in err


def test_links_both_ways_need_more_steps_and_the_bound_says_so(capsys):
    """22 nodes are within three hops at most over three links each way, 40 over one-way links."""
    ask = ["frontier", "--nodes", "32", "--degree", "3"]
    bounds = []
    for more, ways in (([], ""), (["--bidirectional"], " with links both ways")):
        assert main([*ask, *more]) == 0
        said = capsys.readouterr().out
        assert f"no topology of this size{ways} can beat {len(bounds) + 3} steps" in said
        assert main([*ask, *more, "--json", "-"]) == 0
        bounds.append(json.loads(capsys.readouterr().out)["bound"]["steps"])
    assert bounds == [3, 4]
