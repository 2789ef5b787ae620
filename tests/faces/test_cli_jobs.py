"""Commands for jobs: what they print, write and refuse."""

from __future__ import annotations

import json

import pytest
from folders import EXAMPLES

from ocs_codesign.faces.cli import main
from ocs_codesign.faces.cli.codesign import FUSED_NAMES as OPERATOR_NAMES
from ocs_codesign.faces.cli.codesign import NAMES as POLICY_NAMES
from ocs_codesign.faces.cli.job_options import ALGORITHMS as SPELLED_ALGORITHMS
from ocs_codesign.jobs.fused import OPERATORS
from ocs_codesign.jobs.policies import POLICIES
from ocs_codesign.jobs.prices import ALGORITHMS

LAYERS, BUDGET = str(EXAMPLES / "layers.yaml"), str(EXAMPLES / "gpt3_budget.yaml")


FUSE = ["fuse", "gemm", "--ranks", "2", "--alpha", "0s", "--bandwidth", "1Gbps"]


def test_names_in_help_are_those_of_the_registries():
    assert tuple(POLICIES) == POLICY_NAMES
    assert tuple(OPERATORS) == OPERATOR_NAMES
    assert tuple(ALGORITHMS) == SPELLED_ALGORITHMS


def answer_of(capsys, *words):
    assert main([*words, "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


def test_compare_policies(capsys, tmp_path):
    picture = tmp_path / "p.png"
    found = answer_of(capsys, "compare-policies", LAYERS, "--plot", str(picture))
    periods = {one["policy"]: one["period_s"] for one in found["policies"]}
    assert list(periods) == list(POLICIES)
    assert found["bound_s"] <= min(periods.values()) == periods[found["best"]]
    assert max(periods.values()) == periods["serial"] == pytest.approx(26.2e-3)
    assert picture.read_bytes().startswith(b"\x89PNG")
    again = tmp_path / "again.png"
    answer_of(capsys, "compare-policies", LAYERS, "--plot", str(again))
    assert again.read_bytes() == picture.read_bytes()
    only = answer_of(
        capsys, "compare-policies", LAYERS, "--policy", "p3", "--policy", "fifo", "--slice", "500us"
    )
    assert [one["policy"] for one in only["policies"]] == ["fifo", "p3"]
    assert only["policies"][1]["setting"] == "slices of 500 us"
    assert main(["compare-policies", LAYERS, "--policy", "fifo"]) == 0
    assert "Gradients are sent as they" in capsys.readouterr().out


def test_iterate(capsys, tmp_path):
    picture = tmp_path / "i.svg"
    found = answer_of(capsys, "iterate", str(EXAMPLES / "mixtral.yaml"), "--plot", str(picture))
    assert (found["num_ranks"], len(found["owners"])) == (256, 4)
    assert found["is_steady"]
    assert found["period_s"] >= found["bound_s"]
    for owner in found["owners"]:
        assert 0 <= owner["exposed_s"] <= owner["channel_s"]
        assert owner["compute_s"] + owner["exposed_s"] <= found["period_s"] * (1 + 1e-9)
    assert "expert" in picture.read_text(encoding="utf-8")
    assert main(["iterate", LAYERS]) == 0
    assert "no order of messages is below" in capsys.readouterr().out


def test_allocate(capsys):
    words = ["allocate", BUDGET, "--total", "600GB/s"]
    found = answer_of(capsys, *words, "--unit", "20GB/s")
    assert found["time_s"] == pytest.approx(0.3603199, rel=5e-7)
    assert (found["whole"]["units"], found["whole"]["is_best"]) == ([19, 5, 4, 2], True)
    assert found["present"]["time_s"] > found["time_s"]
    cheap = answer_of(capsys, *words, "--objective", "time-cost")
    assert cheap["cost"] < found["cost"]
    torus = ["allocate", "torus((4,8),2)", "--message", "1GiB", "--bandwidth", "400Gbps"]
    divided = answer_of(capsys, *torus)
    assert sum(divided["bandwidths_Bps"]) == pytest.approx(50e9)
    assert divided["present"]["bandwidths_Bps"] == [25e9, 25e9]
    assert main([*torus, "--unit", "5GB/s"]) == 0
    assert "whole units of 5 GB/s: the best of all" in capsys.readouterr().out
    assert answer_of(capsys, "allocate", BUDGET, "--money", "5e6")["cost"] == pytest.approx(5e6)


def test_fuse(capsys):
    words = ["fuse", "gemm", "--ranks", "8", "--alpha", "2us", "--bandwidth", "400Gbps"]
    found = answer_of(capsys, *words, "--size", "8192", "--size", "1024")
    assert [one["size"] for one in found["sizes"]] == [1024, 8192]
    for one in found["sizes"]:
        assert one["fused_s"] <= one["fused_local_first_s"] <= one["unfused_s"]
    assert main([*words, "--size", "1024"]) == 0
    assert "Fusing pays at none of these sizes." in capsys.readouterr().out
    assert main([*words, "--rules", "slowdown=0.05"]) == 0
    assert "Fusing pays at sizes 2048" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["allocate", BUDGET], "give --total or --money"),
        (["allocate", BUDGET, "--total", "1GB/s", "--message", "1MiB"], "are for a NETWORK"),
        (["allocate", "torus((4,8),2)"], "give --message"),
        (["allocate", "torus((4,8),2)", "--message", "1MiB"], "give --bandwidth"),
        (["allocate", "nowhere.yaml", "--total", "1GB/s"], "nowhere.yaml"),
        (["compare-policies", LAYERS, "--slice", "0s"], "slice_s is 0"),
        (["compare-policies", LAYERS, "--policy", "best"], "'best' is not one of"),
        (["iterate", BUDGET], "dimensions is no known key"),
        (["iterate", LAYERS, "--algorithm", "ring"], "give --alpha and --bandwidth together"),
        (["fuse", "gemm", "--ranks", "1", "--alpha", "0s", "--bandwidth", "1Gbps"], "--ranks"),
        ([*FUSE, "--rules", "slowdown=nan"], "is not from 0 to 10"),
    ],
)
def test_what_is_refused_in_a_sentence(capsys, words, message):
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err


GROUPS = str(EXAMPLES / "groups.yaml")
ON_LINKS = ["iterate", GROUPS, "--network", "leaf_spine(2,2,1,1,1)", "--latency", "125ns"]


def test_iterate_on_links(capsys, tmp_path):
    picture = tmp_path / "links.svg"
    found = answer_of(capsys, *ON_LINKS, "--cut-through", "--plot", str(picture))
    assert found["fidelity"] == "transfers"
    even, odd = found["messages"][1:]
    # Alone the formula is right; together the second waits until the first has crossed.
    for group in (even, odd):
        assert group["alone_s"] == pytest.approx(group["formula_s"], rel=1e-3)
    assert even["label"] == "sum even"
    assert odd["factor"] == pytest.approx(1.95, abs=0.01)
    assert found["period_s"] > found["formula"]["period_s"] > 0
    assert found["bound_s"] <= found["period_s"]
    waited = [link for link in found["links"] if link["waited_s"]]
    assert {link["name"] for link in waited} == {"s0 to s2", "s1 to s2"}
    for link in waited:
        assert link["groups"] == {"tokens": 1, "sum even": 1, "sum odd": 1}
    text = picture.read_text(encoding="utf-8")
    assert "sum odd" in text
    assert main([*ON_LINKS, "--cut-through"]) == 0
    assert "at 2 messages wait behind others" in capsys.readouterr().out
    formula = answer_of(capsys, "iterate", GROUPS)
    assert formula["period_s"] == found["formula"]["period_s"]


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["--fidelity", "transfers"], "needs --network"),
        (["--fidelity", "formula", "--network", "star(4,1)"], "are for --fidelity transfers"),
        (["--cut-through"], "are for --fidelity transfers"),
        (["--network", "star(2,1)"], "4 ranks on a network of 2 hosts"),
        (["--network", "star(4,1)", "--book", "none"], "none"),
        (["--network", "star(4,1)", "--latency", "1500ps"], "1.5 ticks"),
    ],
)
def test_iterate_on_links_refuses(capsys, words, rule):
    assert main(["iterate", GROUPS, *words]) == 2
    assert rule in capsys.readouterr().err


def test_iterate_with_a_book(capsys, tmp_path):
    book = str(tmp_path / "made" / "book")
    words = ["compare", "Complete(4)", "--collective", "alltoall", "--message", "4MiB"]
    rates = ["--bandwidth", "150GB/s"]
    assert main([*words, *rates, "--out", str(tmp_path / "made")]) == 0
    capsys.readouterr()
    on = ["iterate", GROUPS, "--network", "Complete(4)", "--latency", "500ns"]
    found = answer_of(capsys, *on, "--book", book)
    tokens = found["messages"][0]
    assert tokens["label"] == "tokens"
    assert tokens["alone_s"] == pytest.approx(21.47e-6, rel=1e-3)
    assert main([*on, "--book", book, "--book", book]) == 2
    assert "another book of 4 ranks is of alltoall" in capsys.readouterr().err


def test_iterate_gives_groups_books_by_what_messages_are_called(capsys):
    words = ["--network", "leaf_spine(2,2,1,1,1)", "--cut-through", "--latency", "125ns"]
    by_ring = answer_of(capsys, "iterate", GROUPS, *words)
    recipe = "sum even=UniRing(1,2)"
    found = answer_of(capsys, "iterate", GROUPS, *words, "--book", recipe)
    # Of two ranks the schedule of a ring is the ring: the times are those without the book.
    assert found["period_s"] == by_ring["period_s"]
    assert found["messages"] == by_ring["messages"]
    formula = answer_of(capsys, "iterate", GROUPS, "--book", recipe)
    assert formula["period_s"] == found["formula"]["period_s"]
    for book, rule in [
        ("sum=UniRing(1,2)", "called 'sum': there are 'sum even', 'sum odd', 'tokens'"),
        ("UniRing(1,3)", "of groups of 3 ranks"),
        ("level3=UniRing(1,2)", "a book is for level 3: the machine has 0 to 0"),
        ("UniRing(1,2", "UniRing(1,2"),
    ]:
        assert main(["iterate", GROUPS, "--book", book]) == 2
        assert rule in capsys.readouterr().err
    assert main(["iterate", LAYERS, "--book", recipe]) == 2
    assert "have times instead" in capsys.readouterr().err
