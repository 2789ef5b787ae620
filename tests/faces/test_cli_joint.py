"""``frontier --criteria joint``, ``--collective alltoall``, ``catalogue find``: with pictures."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from fractions import Fraction

import pytest

from ocs_codesign.core.cost import CostModel, MessageSizes
from ocs_codesign.faces.answers.declared import answer_json
from ocs_codesign.faces.answers.joint import joint_sections
from ocs_codesign.faces.cli import main
from ocs_codesign.faces.cli.output import console, show_sections
from ocs_codesign.faces.pictures import figure_bytes
from ocs_codesign.faces.pictures.joint import joint_figure
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.design import Question
from ocs_codesign.schedules.paths.throughput import throughput
from ocs_codesign.search.bases import Effort
from ocs_codesign.search.catalogue.store import Catalogue
from ocs_codesign.search.frontiers import best_jointly, counts_allgather, joint_frontier
from ocs_codesign.search.pareto import proven_t_b

ASK = ["frontier", "--nodes", "8", "--degree", "4"]
MODEL = ["--alpha", "10us", "--bandwidth", "100Gbps", "--message", "1MiB"]
ASKED = MessageSizes(CostModel(1e-5, 12.5e9), (2.0**20,))


@pytest.fixture(scope="module", params=[False, True])
def answer(request):
    """A frontier of several points, with dominated ones."""
    effort = Effort(work=2**16, num_measured=8)
    return joint_frontier(21, 4, with_allgather=request.param, effort=effort)


def test_one_candidate_as_json(capsys):
    assert main([*ASK, "--criteria", "joint", *MODEL, "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["with_allgather"]
    (only,) = found["candidates"]
    assert only["alltoall_t_b"] == "5/4"
    assert only["allgather"] == {"steps": 2, "t_b": "7/8"}
    assert only["over_bound"] == 1.0
    assert only["alltoall_s"] == [pytest.approx(2e-5 + 1.25 * 2**20 / 12.5e9)]
    assert only["allgather_s"] == [pytest.approx(2e-5 + 0.875 * 2**20 / 12.5e9)]
    assert found["best"] == [only["recipe"]]
    assert found["cost_model"]["messages_bytes"] == [2**20]
    assert all(one["dominated_by"] == only["recipe"] for one in found["dominated"])


def test_table_with_all_and_picture(capsys, tmp_path):
    picture = tmp_path / "f.png"
    command = [*ASK, "--collective", "alltoall", *MODEL, "--all", "--plot", str(picture)]
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("8 nodes of degree 4, all-to-all: 1 candidate on the frontier, ")
    assert "5/4  124.9 us  exact  " in out
    assert "K4,4\n" in out
    assert "Best for 1 MiB at alpha 10 us and 100 Gbps a node: K4,4 in 124.9 us (2 steps" in out
    assert "can be below 5/4 (1.25)" in out
    assert "Dominated" in out
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def untimed(tmp_path_factory, monkeypatch):
    """A catalogue of three sizes that has no all-to-all times, as the one that is shipped."""
    path = tmp_path_factory.mktemp("untimed") / "c.sqlite"
    with Catalogue() as shipped, Catalogue(path, writable=True) as store:
        for question in (Question(8, 4), Question(16, 4), Question(256, 4)):
            entries = [replace(entry, alltoall=None) for entry in shipped.entries(question)]
            origin = shipped.provenance(question)
            store.record(question, entries, replace(origin, exchanged=0, num_timed=0))
    monkeypatch.setattr("ocs_codesign.search.catalogue.store.shipped_path", lambda: path)


@pytest.mark.usefixtures("untimed")
def test_out_of_time_the_bounds_are_left(capsys, tmp_path):
    command = [*ASK, "--criteria", "joint", "--time-limit", "0s"]
    assert main([*command, *MODEL]) == 0
    out = capsys.readouterr().out
    assert "0 candidates on the frontier, 0 dominated, " in out
    assert "Too large to solve in a search or in time" in out
    assert main([*command, "--plot", str(tmp_path / "f.png")]) == 2
    assert "nothing to draw" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_best_for_a_message_is_marked(answer, capsys):
    best = best_jointly(answer, ASKED.model, *ASKED.sizes_bytes)
    report = answer_json("joint.joint", answer, ASKED)
    seconds = {
        one["recipe"]: one["alltoall_s"][0] + counts_allgather(answer) * one["allgather_s"][0]
        for one in report["candidates"]
    }
    assert report["best"] == [repr(best.recipe)] == [min(seconds, key=seconds.get)]
    show_sections(console(), joint_sections(answer, ASKED, show_all=True))
    out = capsys.readouterr().out
    lines = out.splitlines()
    heading = "both  proof" if counts_allgather(answer) else "time  proof"
    assert " ".join(heading.split()) in " ".join(lines[1].split())
    assert f"a node: {best.recipe.label()} in " in out
    assert {len(line) <= 100 for line in lines if "#" in line and not line.startswith("#")} == {
        True
    }
    assert len(lines) > len(answer.candidates) + 5


def test_figures_of_both_kinds(answer):
    for suffix in (".png", ".svg"):
        first = figure_bytes(joint_figure(answer, ASKED), suffix)
        assert first == figure_bytes(joint_figure(answer, ASKED), suffix)
        assert first != figure_bytes(joint_figure(answer), suffix)
    axes = joint_figure(answer).axes[0]
    kind = "allgather" if counts_allgather(answer) else "diameter"
    assert kind in axes.get_xlabel()
    assert "M/B" in axes.get_ylabel()
    texts = " ".join(text.get_text() for text in axes.texts)
    assert ("steps: " in texts) == counts_allgather(answer)
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert f"least all-to-all $t_b$: {answer.bound.t_b}" in legend
    assert any(text.startswith("fat tree (bound): ") for text in legend)
    assert sum(text.startswith(one.label) for one in answer.baselines for text in legend) == 2
    low, high = axes.get_ylim()
    assert all(low < float(one.cost.t_b) < high for one in answer.candidates)


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        (["--criteria", "joint", "--collective", "allreduce"], "allgather and all-to-all"),
        (["--criteria", "joint", "--alpha", "1us"], "only given together"),
        (["--time-limit", "1s"], "--collective alltoall or --criteria joint"),
        (["--criteria", "joint", "--plot", "x.gif"], ".png, .svg or .pdf"),
    ],
)
def test_what_is_refused(capsys, more, rule):
    assert main([*ASK, *more]) == 2
    assert rule in capsys.readouterr().err


FIND = ["catalogue", "find", "--nodes", "16", "--degree", "4", "--collective", "alltoall"]


@pytest.mark.usefixtures("untimed")
def test_stored_designs_ranked_by_alltoall(capsys):
    assert main([*FIND, "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["collective"], found["exact"], found["found_nodes"]) == ("alltoall", True, 16)
    times = [Fraction(one["alltoall_t_b"]) for one in found["candidates"]]
    assert times == sorted(times, reverse=True)
    for one, time in zip(found["candidates"], times, strict=True):
        topology = parse(one["recipe"]).topology()
        assert (throughput(topology).time, topology.diameter()) == (time, one["diameter"])
    assert times[-1] < throughput(parse("GeneralizedKautz(4, 16)").topology()).time
    assert main(FIND) == 0
    assert "All-to-all is not stored" in capsys.readouterr().out


@pytest.mark.usefixtures("untimed")
def test_limits_and_sizes_of_stored_designs(capsys):
    assert main([*FIND, "--max-t-b", "1.5"]) == 1
    assert "No stored design is within the limits." in capsys.readouterr().out
    assert main([*FIND, "--max-steps", "1"]) == 1
    assert main([*FIND, "--time-limit", "0s"]) == 1
    assert "Too large to solve" in capsys.readouterr().out
    assert main([*FIND[:-1], "allgather", "--time-limit", "1s"]) == 2
    assert "--collective alltoall" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(os.environ.get("GRB_LICENSE_FILE") is not None, reason="a licence is installed")
@pytest.mark.usefixtures("untimed")
def test_what_a_licence_does_not_allow_leaves_the_rest(capsys):
    """Everything has a certified time from the rough solutions, which need no solver."""
    command = ["catalogue", "find", "--nodes", "256", "--degree", "4", "--collective", "alltoall"]
    assert main([*command, "--solver", "gurobi", "--json", "-"]) == 2
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert found["candidates"]
    assert all(0 <= one["gap"] <= 0.02 for one in found["candidates"])
    assert found["stopped"].startswith("gurobi: the solver's licence does not allow a program of")
    assert (
        err == f"Error: not all was solved: {found['stopped']}; with --fallback HiGHS solves it\n"
    )


def test_without_memory_what_was_solved_stands(monkeypatch):
    def full(*_):
        raise MemoryError

    small = Effort(work=2**18)
    whole = joint_frontier(12, 4, with_allgather=False, effort=small)
    assert whole.stopped is None
    monkeypatch.setattr("ocs_codesign.search.alltoall.solving.throughput", full)
    rough = joint_frontier(12, 4, with_allgather=False, effort=small)
    assert rough.stopped == "not enough memory"
    assert proven_t_b(rough.candidates[-1]) <= whole.candidates[-1].cost.t_b
    monkeypatch.setattr("ocs_codesign.search.alltoall.solving.soft_throughput", full)
    bare = joint_frontier(12, 4, with_allgather=False, effort=small)
    assert (bare.stopped, bare.candidates) == ("not enough memory", ())
    assert bare.unsolved
