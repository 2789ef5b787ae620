"""``cost --scheduler`` and ``build --scheduler`` with classic algorithms."""

from __future__ import annotations

import json

import pytest
from classic_samples import CASES

from ocs_codesign.faces.cli import main
from ocs_codesign.schedules.classic.algorithm import OPTIONS, read_options
from ocs_codesign.schedules.classic.registry import CLASSIC
from ocs_codesign.schedules.files.designs import load_design


def text(value):
    """A value as one gives it on the command line."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def asked(case, routing):
    options = dict(case["params"])
    if "rank_to_node" in case:
        options["rank_to_node"] = case["rank_to_node"]
    given = [
        word for name, value in options.items() for word in ("--option", f"{name}={text(value)}")
    ]
    return [
        *("cost", case["topology"], "--scheduler", case["algorithm"]),
        *("--collective", case["collective"], *given, "--routing", routing, "--json", "-"),
    ]


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_known_cases(case, capsys):
    routing = ("even", "lowest")[int(case["id"][1:]) % 2]
    assert main(asked(case, routing)) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["steps"] == case["steps"]
    assert answer["max_load_per_step"] == case[routing]["max_link_load"]
    assert answer["hops_per_step"] == case["hops"]
    assert answer["t_b"] == case[routing]["t_b"]
    assert answer["t_b_store_and_forward"] == case[routing]["t_b_store_and_forward"]
    assert answer["one_port_t_b"] == case["one_port_t_b"]
    assert answer["note"] == case["params"].get("note")


def test_people_read_it(capsys):
    ring = ["cost", "Hypercube(3)", "--scheduler", "ring", "--option", "rank_to_node=gray"]
    model = ["--alpha", "10us", "--bandwidth", "100Gb/s", "--message", "1MB"]
    assert main([*ring, *model]) == 0
    shown = capsys.readouterr().out
    assert "7 steps, t_b 21/8 (2.625), a path a step" in shown
    assert "7 steps, t_b 7/8 (0.875), one port a host" in shown
    assert "t_b is 3 times that on a switch: paths share links, or ports are idle." in shown
    assert "280" in shown  # us: 7 * 10 + 2.625 * 80
    searched = ["--option", "rank_to_node=search", "--option", "seed=2", "--json", "-"]
    assert main([*ring[:-2], *searched]) == 0
    assert json.loads(capsys.readouterr().out)["t_b"] == "21/8"


def test_a_network(capsys):
    command = ["cost", "--network", "star(4, 10)", "--scheduler", "direct", "--json", "-"]
    assert main([*command, "--collective", "alltoall"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["nodes"], answer["steps"], answer["t_b"]) == (4, 1, "3/4")
    assert answer["hops_per_step"] == [2]
    assert answer["in_network_bound"] is None
    assert main([*command, "--collective", "allreduce"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["t_b"], answer["in_network_bound"]) == ("3/2", {"steps": 2, "t_b": "1"})
    assert main([*command[:-2], "--collective", "allreduce"]) == 0
    assert "2 steps, t_b 1 or more, a hop a step" in capsys.readouterr().out


def test_a_design_of_a_ring(capsys, tmp_path):
    command = ["build", "Torus((4, 4))", "--scheduler", "ring", "--collective", "allreduce"]
    place = ["--option", "rank_to_node=snake", "--out", str(tmp_path / "ring")]
    assert main([*command, *place]) == 0
    assert "30 steps, t_b 15/2 (7.5), verified" in capsys.readouterr().out
    assert main(["verify", str(tmp_path / "ring")]) == 0
    design = load_design(tmp_path / "ring")
    assert (design.maker, design.claimed.steps) == ("ring", 30)
    assert main([*command, "--out", str(tmp_path / "none")]) == 2
    assert "step 1 sends from node 3 to node 4, but no link leads" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--option", "radix=2"], "--option is for classic algorithms, such as --scheduler ring"),
        (["--routing", "even"], "--routing is for classic algorithms, such as --scheduler ring"),
        (["--collective", "broadcast"], "--collective broadcast is for classic algorithms"),
        (["--scheduler", "rings"], "'rings' is not one of"),
        (["--scheduler", "ring", "--exact"], "--exact asks for the best of all schedules"),
        (["--scheduler", "ring", "--chunks", "2"], "--max-steps and --chunks are for --exact"),
        (["--scheduler", "ring", "--gap", "1%"], "nothing else is given to a solver"),
        (["--scheduler", "chain"], "chain makes broadcast, reduce, allreduce, not allgather"),
        (["--scheduler", "swing"], "6 ranks: Swing takes a power of two"),
        (["--scheduler", "ring", "--option", "radix=2"], "ring has no option radix"),
        (["--scheduler", "bruck", "--option", "radix"], "must be NAME=VALUE with one of the names"),
        (
            ["--scheduler", "bruck", "--option", "base=2"],
            "must be NAME=VALUE with one of the names",
        ),
        (["--scheduler", "bruck", "--option", "radix=two"], "radix is 'two': it must be a whole"),
        (["--scheduler", "bruck", *["--option", "radix=2"] * 2], "option radix is there twice"),
        (["--scheduler", "ring", "--option", "rank_to_node=0,1"], "a node for every one of 6"),
        (["--scheduler", "ring", "--option", "rank_to_node=best"], "identity or snake or gray"),
    ],
)
def test_what_is_refused(words, says, capsys):
    assert main(["cost", "BiRing(2, 6)", *words]) == 2
    error = capsys.readouterr().err
    assert says in error.replace("\n", " ")


def test_build_takes_options_of_classics_only(capsys, tmp_path):
    for scheduler in ([], ["--scheduler", "bfb"]):
        command = ["build", "Complete(3)", *scheduler, "--option", "radix=3"]
        assert main([*command, "--out", str(tmp_path / "d")]) == 2
        assert "--option is for classic algorithms" in capsys.readouterr().err


def test_options_as_text():
    assert read_options(["dims=[4, 4]", "order=(1,0)"]) == {"dims": (4, 4), "order": (1, 0)}
    assert read_options(["dims=4x3", "group-size=4"]) == {"dims": (4, 3), "group_size": 4}
    assert read_options(["dims=8", "first=near"]) == {"dims": (8,), "first": "near"}
    for wrong in ("dims=4,,4", "dims=", "radix=2,3", "first=1", "inner=bfb", "=3"):
        with pytest.raises(ValueError, match=r"must be"):
            read_options([wrong])
    named = {name for algorithm in CLASSIC.values() for name in algorithm.options}
    assert named | {"rank_to_node", "seed", "note"} == set(OPTIONS)
