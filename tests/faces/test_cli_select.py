"""``select``: its tables, sentences, exact JSON, picture, and odd inputs."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from ocs_codesign.circuits.legs.options import recipe_options
from ocs_codesign.circuits.legs.trace import Job
from ocs_codesign.fabric.files.fabric_files import parse_fabric
from ocs_codesign.fabric.selection.ranking import select
from ocs_codesign.fabric.selection.steps import Workload
from ocs_codesign.faces.cli import main
from ocs_codesign.faces.pictures.selection import selection_figure
from ocs_codesign.graphs.text import parse

FABRIC = """\
name: small
hosts: {count: 8}
planes:
- count: 2
  switches: [{profile: polatis-384, ports: 8, delta: 25ms}]
alpha: 1us
node_bandwidth: 100Gbps
losses: {connector_db: 0.25, circulator_db: 0, budget_db: 9}
"""
WORKLOAD = """\
name: mix
reconfiguration: between-collectives
collectives:
- {name: exchange, collective: all-to-all, message: 64MiB, count: 2}
- {name: gradients, collective: allreduce, message: 16MiB, count: 3}
"""


@pytest.fixture
def files(tmp_path):
    fabric, workload = tmp_path / "fabric.yaml", tmp_path / "workload.yaml"
    fabric.write_text(FABRIC, encoding="utf-8")
    workload.write_text(WORKLOAD, encoding="utf-8")
    return ["--fabric", str(fabric), "--workload", str(workload)]


def test_json_adds_up(capsys, files):
    assert main(["select", *files, "--json", "-"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    found = json.loads(out)
    assert (found["nodes"], found["degree"], found["collectives"]) == (8, 2, 5)
    totals = [Fraction(one["total_s"]) for one in found["ranked"]]
    assert totals == sorted(totals)
    assert len(totals) == min(10, found["num_ranked"])
    size = {"exchange": 2**26, "gradients": 2**24}
    for plan in found["ranked"]:
        parts = plan["parts"]
        keys = ("alpha_s", "bandwidth_s", "reconfiguration_s")
        whole = sum(Fraction(part[key]) for part in parts for key in keys)
        assert whole == Fraction(plan["total_s"])
        for part in parts:
            cost = part["cost"]
            assert Fraction(part["alpha_s"]) == Fraction(part["count"] * cost["steps"], 10**6)
            sent = part["count"] * Fraction(cost["t_b"]) * size[part["name"]]
            assert Fraction(part["bandwidth_s"]) == sent / (125 * 10**8)
    assert len(found["sentences"]) == 3
    (winner,) = found["ranked"][0]["designs"]
    assert (winner if len(winner) <= 64 else "Plan 1") in found["sentences"][0]


def test_text_and_top(capsys, files):
    assert main(["select", *files, "--top", "2"]) == 0
    out = capsys.readouterr().out
    words = ("rank", "exchange", "gradients", "does not pay", "These are the best of ")
    assert all(word in out for word in words)
    assert "fat tree, at least" in out
    assert any("BiRing(2,8)" in line for line in out.splitlines()[:14])


def test_pictures_are_the_same_bytes(tmp_path, files):
    designs = ["--designs", "DirectedCirculant(8, (1, 3))", "--designs", "GeneralizedKautz(2, 8)"]
    pictures = [tmp_path / name for name in ("a.svg", "b.svg")]
    for picture in pictures:
        assert main(["select", *files, *designs, "--plot", str(picture)]) == 0
    first, second = (picture.read_bytes() for picture in pictures)
    assert first == second
    assert first.startswith(b"<?xml")


def test_names_too_long_for_a_sentence_are_ranks(capsys, files):
    # The 8-cycle with steps 1 and 3, written as a lift, which is a long name.
    lift = "Lift(Cyclic(2), ((1, 2), (3, 4), (5, 6), (7, 0)))"
    assert main(["select", *files, "--designs", f"Transpose(Transpose(Transpose({lift})))"]) == 0
    name = capsys.readouterr().out
    assert f"Transpose({lift})" in name
    assert "\nPlan 1 takes " in name


def test_a_legend_of_long_names_stays_in_the_picture():
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    parts = tuple(
        Job("allgather", 2**20, name=f"a part with ${number}$ in a name that is too long")
        for number in range(9)
    )
    workload = Workload("mix", parts)
    ring = parse("DirectedCirculant(8, (1, 3))")
    options = recipe_options([ring], workload.trace.collectives)
    found = select(parse_fabric(FABRIC.encode(), "fabric"), workload, options)
    figure = selection_figure(found)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    (axes,) = figure.axes
    legend = axes.get_legend()
    inside, whole = legend.get_window_extent(renderer), figure.bbox
    assert inside.x1 <= whole.x1
    assert inside.y0 >= whole.y0
    assert inside.y1 <= axes.xaxis.label.get_window_extent(renderer).y0
    assert [label.get_text()[:3] for label in axes.get_yticklabels()] == ["1. "]


@pytest.mark.parametrize("delta", ["1us", "25ms", "40s"])
def test_however_long_circuits_take_what_works_is_seen(delta):
    """Bars that waits would fill are cut, and say how long they are."""
    workload = Workload(
        "mix", tuple(Job(one, 2**24, name=one) for one in ("allgather", "allreduce"))
    )
    options = recipe_options([parse("DirectedCirculant(8, (1, 3))")], workload.trace.collectives)
    fabric = parse_fabric(FABRIC.replace("25ms", delta).encode(), "fabric")
    plan = select(fabric, workload, options).ranked[0]
    axes = selection_figure(select(fabric, workload, options)).axes[0]
    working = float(plan.total_s - plan.reconfiguration_s)
    assert sum(bar.get_width() for bar in axes.patches) <= 1.61 * working
    is_cut = any("of it" in text.get_text() for text in axes.texts)
    assert is_cut == (plan.total_s > 1.6 * working)


def test_nothing_fits(capsys, tmp_path, files):
    narrow = FABRIC.replace("ports: 8", "ports: 4").replace("budget_db: 9", "budget_db: 3")
    (tmp_path / "fabric.yaml").write_text(narrow, encoding="utf-8")
    assert main(["select", *files]) == 1
    out = capsys.readouterr().out
    assert out == "It does not fit: plane 0 has 4 usable ports a side for 8 working hosts.\n"
    assert main(["select", *files, "--json", "-"]) == 1
    assert json.loads(capsys.readouterr().out)["reason"] == "ports"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--designs", "Circulant(9, (1,))"], "has 9 nodes of degree 2: the fabric has 8"),
        (["--plot", "x.gif"], "a figure is saved as .png, .svg or .pdf"),
        (["--catalogue", "missing.sqlite"], "there is no catalogue"),
        (["--catalogue", "a", "--designs", "b"], "give either --designs or --catalogue"),
    ],
)
def test_bad_arguments(capsys, files, arguments, error):
    assert main(["select", *files, *arguments]) == 2
    assert error in capsys.readouterr().err
