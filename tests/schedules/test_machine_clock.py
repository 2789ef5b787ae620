"""The clock of machines: LogGP's terms by protocol, and what becomes best by it."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import pytest
from folders import DATA

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.machines.machine import Number, machine_named
from ocs_codesign.core.machines.nccl import PROTOCOLS, terms
from ocs_codesign.core.network import direct_routes
from ocs_codesign.core.networks.builders import torus
from ocs_codesign.core.networks.products import h100_rail
from ocs_codesign.core.networks.servers import boxes
from ocs_codesign.faces.cli import main
from ocs_codesign.faces.cli.machine_options import clock_of
from ocs_codesign.interop.nccl.tuner import rules_of
from ocs_codesign.schedules.compare.comparison import Comparison, book_of
from ocs_codesign.schedules.compare.contest import Contest
from ocs_codesign.schedules.compare.play import (
    Entrant,
    Outcome,
    entrants,
    plan_of,
    play,
    transfers_of,
)
from ocs_codesign.schedules.files.books import load_book, save_book
from ocs_codesign.schedules.simulate.machine_clock import least_s, link_classes
from ocs_codesign.schedules.simulate.making import transfers_of_schedule

KNOWN = json.loads((DATA / "calibration.json").read_text(encoding="utf-8"))
H100 = machine_named("h100")
GB = Fraction(10**9)
SIZES = tuple(KNOWN["entrants_on_this_clock"]["sizes"])


def without_nic():
    return replace(H100, numbers={**H100.numbers, "nic_us": Number(0.0, "none", "assumed")})


def rings(hosts, sizes):
    """us of a ring of so many H100 in every protocol and size."""
    network = boxes(1, hosts, 450, 50, outer=8, unit="GB/s") if hosts <= 8 else h100_rail(2)
    contest = Contest("", network, Collective.ALLREDUCE, sizes, GB, machine=without_nic())
    transfers = transfers_of(contest, plan_of(contest, Entrant("ring", (), is_classic=True)), 1)
    return {
        (clock.protocol, size): 1e6
        * least_s((clock,), (transfers.with_chunk_bytes(transfers.chunk_bytes * size),))[0]
        for clock in contest.protocols()
        for size in sizes
    }


@pytest.mark.parametrize("hosts", [2, 4, 8])
def test_a_ring_inside_takes_what_nccl_expects(hosts):
    sizes = (2**10, 2**16, 2**20, 2**24, 2**30)
    offered = terms(H100.shape(hosts, 1, with_nic=False), "allreduce", "2.27")
    for (protocol, size), time_us in rings(hosts, sizes).items():
        latency, rate = offered["ring", protocol]
        assert time_us == pytest.approx(latency + size / 1000 / rate, rel=1e-6)


def test_rings_as_published():
    rows = [row for row in KNOWN["schedule_clock"] if row["what"] == "ring allreduce"]
    for hosts in {row["ranks"] for row in rows}:
        found = rings(hosts, tuple(sorted({row["bytes"] for row in rows})))
        for row in rows:
            if row["ranks"] == hosts:
                close = 6e-6 if hosts <= 8 else 0.07
                assert found[row["protocol"], row["bytes"]] == pytest.approx(row["us"], rel=close)


def test_classes_of_links():
    assert set(link_classes(h100_rail(2)).tolist()) == {0, 1}
    assert set(link_classes(torus((3, 3), 10)).tolist()) == {0}
    assert set(link_classes(torus((3, 3), (10, 20))).tolist()) == {0, 1}
    with pytest.raises(ValueError, match=r"2 classes of links, roce-400g 1: net"):
        Contest(
            *("", h100_rail(2), Collective.ALLREDUCE, (1,), GB), machine=machine_named("roce-400g")
        )


@pytest.mark.slow
def test_sixteen_h100_without_options():
    """Few steps for small messages, no fine pieces before 4 MiB, nothing slower than published."""
    sizes = (*SIZES[:3], 2**21, *SIZES[3:])
    contest = Contest("", h100_rail(2), Collective.ALLREDUCE, sizes, GB, machine=H100)
    outcomes = tuple(play(contest, one) for one in entrants(contest))
    found = Comparison(contest, outcomes, contest.floor_s())
    known = KNOWN["entrants_on_this_clock"]
    for place, size in enumerate(sizes):
        best = found.best(place)
        if size in SIZES:
            at = SIZES.index(size)
            wanted = min(known[protocol][at] for protocol in PROTOCOLS)
            fastest = min(each.times_s[place] for each in found.played if each != found.library)
            assert 1e6 * fastest <= 1.05 * wanted
            assert best.times_s[place] <= 1.1 * fastest
            if size <= 2**16:
                assert 1e6 * best.times_s[place] >= 0.95 * wanted
                assert best.entrant.label == known["winner"][at]
        if size < 2**22:
            assert best.steps <= 8
            assert dict(best.entrant.options).get("parts", 1) <= 1
    (doubling,) = (one for one in outcomes if one.entrant.label == "recursive-doubling")
    for at in (2, 3):
        place = sizes.index(SIZES[at])
        assert 1e6 * doubling.times_s[place] == pytest.approx(known["LL128"][at], rel=0.05)
    assert found.library.protocols[0] == "tree LL"


def answer(capsys, *words):
    assert main([*words, "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


def test_builders_carry_their_machine(capsys, tmp_path):
    """compare, build and simulate go by one clock; with none or a latency it is the plain one."""
    asked = ("h100_rail(1)", "--message", "1KiB", "--collective", "allgather", "--workers", "1")
    (network,) = answer(capsys, "compare", *asked)["networks"]
    assert network["machine"]["name"] == "dgx-h100"
    times = {each["entrant"]: each["times_s"] for each in network["entrants"]}
    clocks = {each["entrant"]: each["clock"] for each in network["entrants"]}
    assert clocks["nccl model=2.30"] == "library"
    assert network["best"][0]["entrant"] != "nccl model=2.30"
    assert 8e-6 < min(time[0] for time in times.values() if time) < 20e-6
    assert clock_of("h100_rail(1)", "none") is None
    assert clock_of("h100_rail(1)", None, None, 0.0) is None
    assert clock_of("star(8, 450)", None) is None
    assert main(["compare", *asked, "--machine", "h100", "--latency", "1us"]) == 2
    assert "of a clock without a --machine" in capsys.readouterr().err
    design = str(tmp_path / "design")
    words = ("--network", "h100_rail(1)", "--message", "1KiB")
    built = answer(capsys, "build", *words, "--out", design)["compared"]
    best = built["best"][0]["entrant"]
    assert built["choices"][0] == {
        **{"message_bytes": 1024, "take": "nccl model=2.30", "schedule_is": "tie"}
    }
    played = answer(capsys, "simulate", design, *words)
    (time_s,) = next(each["times_s"] for each in built["entrants"] if each["entrant"] == best)
    assert played["time_ns"] / 1e9 == pytest.approx(time_s, rel=1e-9)
    assert played["machine"]["name"] == "dgx-h100"


def outcome(entrant, *intervals):
    times = tuple((low + high) / 2 for low, high in intervals)
    protocols = ("LL",) * len(times)
    return Outcome(entrant, 1, 1, times, None, protocols, intervals)


def test_of_what_the_clock_cannot_tell_apart_the_fewest_steps_are_best():
    contest = Contest("", h100_rail(1), Collective.ALLREDUCE, (1,), GB, machine=H100)
    made = [
        Outcome(Entrant(name), steps, 1, (time,), None, ("LL",), ((time, time),))
        for name, steps, time in (("a", 9, 1.0), ("b", 2, 1.09), ("c", 2, 1.08), ("d", 1, 1.11))
    ]
    found = Comparison(contest, tuple(made), contest.floor_s())
    assert found.best(0).entrant.maker == "c"
    plain = replace(contest, machine=None)
    assert Comparison(plain, tuple(made), plain.floor_s()).best(0).entrant.maker == "a"


LIBRARY, RIVAL = Entrant("nccl", (("model", "2.30"),)), Entrant("ring", is_classic=True)


def test_the_library_stays_in_a_tie():
    """A schedule is taken only where it is faster whatever both intervals allow."""
    contest = Contest("", h100_rail(1), Collective.ALLREDUCE, (1, 2, 3), GB, machine=H100)
    rival = outcome(RIVAL, (1.0, 2.0), (1.0, 3.0), (5.0, 6.0))
    library = outcome(LIBRARY, (3.0, 4.0), (2.5, 4.0), (3.0, 4.0))
    found = Comparison(contest, (rival, library), contest.floor_s())
    assert [found.verdict(at) for at in range(3)] == ["faster", "tie", "slower"]
    assert [found.chosen(at).entrant.maker for at in range(3)] == ["ring", "nccl", "nccl"]
    assert {found.best(at).entrant.maker for at in range(3)} == {"ring"}
    alone = Comparison(contest, (rival,), contest.floor_s())
    assert (alone.verdict(1), alone.chosen(1)) == ("", rival)
    book = book_of(found)
    assert book.advice.verdicts() == ("faster", "tie", "slower")
    assert [rule.line() for rule in rules_of(book)] == ["allreduce,0,1,ring,ll,2,-1,8,-1,-1"]
    stays = book.advice._replace(plan_s=((1.0, 9.0),) * 3)
    with pytest.raises(ValueError, match="NCCL's own choice stands: nothing it has is faster"):
        rules_of(replace(book, advice=stays))
    told = stays._replace(tuned=("", "tree LL128", "tree LL128"))
    assert [rule.line() for rule in rules_of(replace(book, advice=told))] == [
        "allreduce,2,4294967295,tree,ll128,2,-1,8,-1,-1"
    ]
    with pytest.raises(ValueError, match="advice has not a protocol and an interval a size"):
        replace(book, advice=stays._replace(tuned=("",)))
    with pytest.raises(ValueError, match="an interval that ends before it begins"):
        replace(book, advice=stays._replace(library_s=((2.0, 1.0),) * 3))


def _another(value):
    if isinstance(value, str):
        return f"{value}x"
    if isinstance(value, list):
        return [value[0], 2 * value[1]]
    return not value if isinstance(value, bool) else value + 1


def test_books_keep_their_advice(tmp_path, capsys):
    out = tmp_path / "played"
    words = ('star(4, 450, unit="GB/s")', "--machine", "h100", "--workers", "1", "--out", str(out))
    (network,) = answer(capsys, "compare", *words, "--message", "1KiB,64KiB")["networks"]
    assert network["machine"]["caveat"].startswith("uncalibrated")
    assert {each["take"] for each in network["choices"]} == {"nccl model=2.30"}
    assert {each["schedule_is"] for each in network["choices"]} == {"tie"}
    for each in network["entrants"]:
        assert each["refusal"] or len(each["intervals_s"]) == 2
        for time, (low, high) in zip(each["times_s"], each["intervals_s"], strict=True):
            assert low <= time <= high
    book = load_book(out / "book")
    assert book.advice.machine == "dgx-h100"
    save_book(book, tmp_path / "again")
    record = json.loads((out / "book" / "book.json").read_text(encoding="utf-8"))
    assert record == json.loads((tmp_path / "again" / "book.json").read_text(encoding="utf-8"))
    found = answer(capsys, "verify", str(out / "book"))
    assert found["advice"]["schedule_is"] == ["tie", "tie"]
    rules = ("export", str(out / "book"), "--format", "nccl-tuner", "--out", str(tmp_path / "r"))
    assert main(rules) == 2
    assert "NCCL's own choice stands" in capsys.readouterr().err
    assert found["sizes_bytes"] == [1024, 65536]
    path, changed = out / "book" / "book.json", json.dumps(record)
    for name, value in record["advice"].items():
        for place in range(len(value)) if isinstance(value, list) else [None]:
            other = json.loads(changed)
            at = other["advice"] if place is None else other["advice"][name]
            key = name if place is None else place
            at[key] = _another(at[key])
            path.write_text(json.dumps(other), encoding="utf-8")
            code = main(["verify", str(out / "book")])
            assert code in (1, 2) or name == "barriers", (name, place)  # one step waits for none
            assert main(["verify", str(out / "book"), "--machine", "none"]) == 0
    path.write_text(changed.replace("dgx-h100", "lab"), encoding="utf-8")
    capsys.readouterr()
    assert main(["verify", str(out / "book")]) == 2
    assert "'lab' is no machine and no file" in capsys.readouterr().err
    assert main(["verify", str(out / "book"), "--machine", "h100"]) == 2
    assert "the advice is of lab, not of dgx-h100" in capsys.readouterr().err
    record["advice"]["library_s"].pop()
    path.write_text(json.dumps(record), encoding="utf-8")
    assert main(["verify", str(out / "book")]) == 2
    assert "advice has not a protocol" in capsys.readouterr().err


def test_every_command_with_a_clock_takes_a_machine(capsys, tmp_path, monkeypatch):
    """Select, cluster, codesign and iterate say whose clock it is and what of it is assumed."""
    monkeypatch.chdir(tmp_path)
    assert main(["example", "."]) == 0
    capsys.readouterr()
    asked = ("select", "--fabric", "fabric64.yaml", "--message", "64KiB")
    recipes = ("--designs", "Torus((8,8))", "--designs", "BiRing(4,64)")
    plain = answer(capsys, *asked, *recipes)
    rails = answer(capsys, *asked, *recipes, "--machine", "roce-400g")
    assert rails["machine"] == {
        **{"name": "roce-400g", "title": "Hosts on rails of 400 Gb/s RoCE", "caveat": None}
    }
    assert "machine" not in plain
    assert plain == answer(capsys, *asked, *recipes, "--machine", "none")
    design = next(each for each in rails["ranked"] if "Torus" in each["designs"][0])
    (part,) = design["parts"]
    model = machine_named("roce-400g").cost_model(GB * 50, 4)
    cost = Cost(part["cost"]["steps"], Fraction(part["cost"]["t_b"]))
    assert design["total_s_float"] == pytest.approx(float(cost.time_s(model, 2**16)))
    words = ("--servers", "4", "--gpus", "8", "--inner", "switch=450GB/s", "--ports", "2")
    scored = ("cluster", *words, "--port-bandwidth", "200Gbps", "--message", "1MiB")
    found = answer(capsys, *scored, "--machine", "h100")
    assert found["machine"]["caveat"].startswith("uncalibrated")
    assert found["candidates"][0]["least_time_s"][0] > 30e-6
    assert main([*scored, "--machine", "h100", "--alpha", "1us"]) == 2
    assert "--machine is for --message, in place of --alpha" in capsys.readouterr().err
    told = answer(capsys, "iterate", "groups.yaml", "--machine", "h100")
    (time,) = machine_named("h100").clocked_library("allreduce", 2, 1, [2**22], "2.30")
    assert told["machine"]["name"] == "dgx-h100"
    assert told["messages_s"]["sum even"] == pytest.approx(time.seconds, rel=1e-9)
    for wrong in (
        ("iterate", "groups.yaml", "--machine", "h100", "--alpha", "1us", "--bandwidth", "1GB/s"),
        ("iterate", "groups.yaml", "--machine", "h100", "--network", "star(4, 400)"),
        ("codesign", "llama3_70b.yaml", "h100x64.yaml", "--machine", "h100"),
        ("iterate", "layers.yaml", "--machine", "h100"),
        ("select", "--fabric", "fabric64.yaml", "--message", "1MiB", "--machine", "h1000"),
    ):
        assert main(wrong) == 2, wrong
        assert capsys.readouterr().err.count("\n") == 1, wrong


def test_a_simulation_without_a_machine_says_so(capsys):
    words = ("UniRing(1, 4)", "--message", "1KiB", "--bandwidth", "400Gbps")
    assert "uncalibrated" in answer(capsys, "simulate", *words)["caveat"]
    assert "caveat" not in answer(capsys, "simulate", *words, "--latency", "1us")
    timed = answer(capsys, "simulate", *words, "--machine", "roce-400g")
    assert "caveat" not in timed
    assert timed["machine"]["name"] == "roce-400g"
    assert timed["time_ns"] > 3 * 13_000


FORESTS = [
    (4, "LL", 2**24, 553.6),
    (4, "LL128", 2**27, 774.2),
    (16, "LL", 2**27, 3658.3),
    (16, "LL128", 2**30, 5782.8),
    (16, "Simple", 2**30, 5320.9),
]
"""Parts, protocol, size and us of published forests of one tree a root, hop after hop."""


@pytest.mark.slow
def test_forests_are_faster_than_published_by_what_switches_do_not_do():
    """Where a switch takes an overhead for every message as hosts do, times are those published.

    It has no processor that would: from host to host messages take less, but never less than a
    launch and the bytes over all links of a host.
    """
    known = KNOWN["entrants_on_this_clock"]
    contest = Contest("", h100_rail(2), Collective.ALLREDUCE, (1,), GB, machine=H100)
    clocks = {clock.protocol: clock for clock in contest.protocols()}
    played = {}
    for parts, protocol, size, published in FORESTS:
        if parts not in played:
            plan = plan_of(contest, Entrant("forest", (("trees", 1), ("parts", parts))))
            routes = direct_routes(plan.topology, contest.clocked())
            options = {"chained": False, "addition_ticks": 0}
            played[parts] = [
                transfers_of_schedule(plan, routes, 1, **options, hop_by_hop=hop_by_hop)
                for hop_by_hop in (True, False)
            ]
        assert any(published == known[protocol][at] for at in range(len(SIZES)))
        orders = [each.with_chunk_bytes(each.chunk_bytes * size) for each in played[parts]]
        by_hops, by_hosts = (1e6 * least_s((clocks[protocol],), (each,))[0] for each in orders)
        assert by_hops == pytest.approx(published, rel=1e-4)
        at = H100.protocols.index(protocol)
        rate = 450 * H100.number("inside_share", at) + 50 * H100.number("net_share", at)
        least = H100.number("launch_us", at) + 2 * 15 / 16 * size / 1000 / rate
        assert least < by_hosts < by_hops
        # What is left over the bytes are messages: a host sends and gets so many in turn.
        own = played[parts][1].num_transfers / 16 * 2 * H100.number("overhead_us", at)
        assert by_hosts > H100.number("launch_us", at) + own


@pytest.mark.slow
def test_codesign_by_protocols_keeps_its_bounds(capsys, tmp_path, monkeypatch):
    """Another protocol may have less to transfer: no bound is above what a division takes."""
    monkeypatch.chdir(tmp_path)
    assert main(["example", "."]) == 0
    capsys.readouterr()
    words = ("codesign", "resnet50.yaml", "cluster256.yaml", "--policy", "ddp", "--top", "50")
    plain, found = answer(capsys, *words), answer(capsys, *words, "--machine", "h100")
    assert found["machine"]["caveat"].startswith("uncalibrated")
    assert "machine" not in plain
    assert found["ranking"][0]["period_s"] > plain["ranking"][0]["period_s"]
    for row in found["ranking"]:
        bounds = (row["bound_s"], row["compute_bound_s"], row["communication_bound_s"])
        assert max(bounds) <= row["period_s"]
