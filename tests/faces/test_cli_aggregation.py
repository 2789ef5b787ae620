"""--aggregation of simulate, compare, optimum and iterate, and bounds with a pool of slots."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocs_codesign.core.cost import CostModel
from ocs_codesign.core.networks.aggregation import FIXED, AggregationProfile, aggregation_named
from ocs_codesign.core.networks.builders import fat_tree, star
from ocs_codesign.core.networks.products import a100, dgx1
from ocs_codesign.faces.cli import main
from ocs_codesign.jobs.job_draft import JobDraft
from ocs_codesign.jobs.prices import Level, Machine, added_up, priced
from ocs_codesign.schedules.compare.in_network import in_network_rates, pooled_bound, switch_rates
from ocs_codesign.schedules.simulate.aggregated import simulate_aggregation

GBps = Fraction(10**9)
STAR = 'star(4, 100, 500, "Gbps")'
JOB = """name: j
machine: {levels: [{ranks: 4, alpha: 1us, bandwidth: 1GB/s%s}]}
ranks: 4
nodes:
- {name: a, kind: compute, time: 1ms}
- {name: r, kind: allreduce, size: 4MB, after: [a]}
"""


def pool(num_slots, **more):
    return AggregationProfile(
        name="pool", arithmetic=FIXED, num_slots=num_slots, slot_bytes=1000, **more
    )


def answer(capsys, *arguments):
    assert main([*arguments, "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


def refusal(capsys, *arguments):
    assert main(list(arguments)) == 2
    return " ".join(capsys.readouterr().err.split())


class TestSimulate:
    def test_the_answer(self, capsys):
        found = answer(capsys, "simulate", STAR, "--aggregation", "switchml", "--message", "1MB")
        profile = aggregation_named("switchml")
        done = simulate_aggregation(star(4, 100, 500, "Gbps"), profile, Fraction(10**9, 8), 10**6)
        assert found["time_ns"] == float(done.total_s * 10**9)
        assert found["packets"] == 977
        assert found["sum_trees"][0]["limit"] == "link"
        assert found["aggregation"]["memory_bytes"] == 2**20
        assert float(found["most_without_Bps"]) == 12.5e9 * 4 / 6

    def test_what_people_read(self, capsys):
        command = ["simulate", STAR, "--aggregation", "sharp(num_slots=2)", "--message", "1MB"]
        assert main(command) == 0
        shown = capsys.readouterr().out
        assert "limited by pool and round trip" in shown
        assert "Assumed, from no public source: slot_bytes" in shown

    @pytest.mark.parametrize(
        ("more", "rule"),
        [
            (["--aggregation", "magic"], "no aggregation is named 'magic'"),
            (["--aggregation", "sharp", "--barrier"], "no --barrier"),
            (["--aggregation", "sharp", "--network", STAR], "no --network"),
            (["--aggregation", "sharp", "--plot", "a.png"], "--plot and --timeline show designs"),
        ],
    )
    def test_nonsense(self, capsys, more, rule):
        assert rule in refusal(capsys, "simulate", STAR, "--message", "1MB", *more)

    def test_hosts_that_no_switches_join(self, capsys):
        told = refusal(capsys, "simulate", "dgx1()", "--message", "1MB", "--aggregation", "sharp")
        assert "no switch that adds up" in told

    def test_boxes_add_up_first(self, capsys):
        words = ["simulate", "a100(2)", "--message", "30kB", "--aggregation", "switchml"]
        found = answer(capsys, *words)
        assert all(len(tree["adding_hosts"]) >= 2 for tree in found["sum_trees"])
        assert {34, 35} <= {switch for tree in found["sum_trees"] for switch in tree["switches"]}


class TestCompare:
    def test_it_plays_and_the_book_is_of_plans(self, capsys, tmp_path):
        out = tmp_path / "out"
        command = ["compare", 'star(3, 100, 500, "Gbps")', "--collective", "allreduce"]
        command += ["--workers", "1", "--message", "1KiB,1MiB", "--out", str(out)]
        command += ["--aggregation", "switchml"]
        found = answer(capsys, *command)
        network = found["networks"][0]
        assert network["best"][-1]["entrant"] == "in-network by=switchml"
        times = {each["entrant"]: each["times_s"] for each in network["entrants"]}
        # Of long messages a ring of three sends 4/3 of what goes up and down, but has no headers.
        gain = times["ring"][1] / times["in-network by=switchml"][1]
        assert 1.25 < gain < 4 / 3
        assert all(
            time >= least
            for time, least in zip(times["in-network by=switchml"], network["least_s"], strict=True)
        )
        assert main(["verify", str(out / "book")]) == 0

    def test_an_allgather_has_no_sums(self, capsys):
        told = refusal(capsys, "compare", STAR, "--aggregation", "sharp", "--message", "1KiB")
        assert "add up an allreduce, not allgather" in told


class TestBounds:
    def test_by_hand(self):
        # A round of 2 x (1000 + 3000) ns; 8 hosts of 1 GB/s send 14 messages a piece, and each sum
        # saves 6 of them.
        network = star(8, 1, 3000)
        rates = switch_rates(network, pool(4), GBps)
        assert rates == {8: Fraction(1, 2)}
        assert pooled_bound(network, rates) == (8 + 6 * Fraction(1, 2)) / 14

    def test_a_ring_beside_the_pool_meets_it(self):
        # Half of the links for the pool, a ring on the other half: 1/2 + 1/2 x 8/14.
        network = star(8, 1, 3000)
        bound = pooled_bound(network, switch_rates(network, pool(4), GBps))
        assert bound == Fraction(1, 2) + Fraction(1, 2) * Fraction(4, 7)

    def test_racks_and_a_narrow_spine(self):
        # Two racks joined by a link of 1 each: only the spine's sums count for them.
        network = fat_tree((4, 2), (1, 1), (4, 1), (3000, 3000))
        free = in_network_rates(network, pool(10**6), GBps)
        assert (free.forwarding, free.adding, free.pooled) == (1, 1, 1)

    def test_no_tree_and_no_latency(self):
        found = in_network_rates(a100(1), pool(1), GBps)
        assert found.trees is not None
        assert in_network_rates(a100(2), pool(1), GBps).trees is not None
        assert in_network_rates(dgx1(), pool(1), GBps).trees is None

    @settings(max_examples=6)
    @given(
        hosts=st.integers(2, 4),
        racks=st.integers(1, 3),
        speed=st.integers(1, 4),
        num_slots=st.integers(1, 40),
        turn=st.integers(0, 2000),
        adding=st.sampled_from([None, 1, 3]),
    )
    def test_trees_are_within_bounds_that_rise_with_the_pool(
        self, hosts, racks, speed, num_slots, turn, adding
    ):
        network = fat_tree((hosts, racks), (1, 2), (speed, 2), (500, 700))
        latency = turn * Fraction(1, 10**9)
        rate = None if adding is None else adding * GBps
        found, more = (
            in_network_rates(network, pool(slots, latency_s=latency, rate_Bps=rate), GBps)
            for slots in (num_slots, 2 * num_slots)
        )
        assert found.trees <= found.pooled <= more.pooled <= found.adding
        assert found.forwarding <= found.pooled

    def test_optimum(self, capsys):
        command = ["optimum", 'star(8, 100, 500, "Gbps")', "--aggregation"]
        found = answer(capsys, *command, "switchml(num_slots=8)")["in_network"]
        assert found["forwarding"] == "400/7"
        assert found["adding"] == "100"
        assert Fraction(found["tree_rate"]) < Fraction(found["pooled"]) < 100
        assert main([*command, "switchml"]) == 0
        assert "1.750" in capsys.readouterr().out
        told = refusal(capsys, "optimum", "star(3, 1)", "--bandwidth", "1Gbps")
        assert "--bandwidth is for --aggregation" in told
        assert "--bandwidth" in refusal(capsys, "optimum", "star(3, 1)", "--aggregation", "sharp")


class TestJobs:
    model = CostModel(Fraction(1, 10**6), 10**9)

    def test_a_second_price_that_is_taken_if_it_is_less(self):
        machine = Machine((Level(4, self.model, aggregation=pool(64)),))
        draft = JobDraft(4)
        draft.collective("allreduce", range(4), 4_000_000, {})
        draft.collective("allgather", range(4), 4_000_000, {})
        graph = priced(draft.graph(), machine)
        # A step and two packets round, then 3999 more of 1 us; a ring of allgathers as ever.
        whole = (graph.latency + graph.work) * graph.tick_s
        assert whole.tolist()[:4] == [(1 + 2 + 3999) * Fraction(1, 10**6)] * 4
        assert whole.tolist()[4:] == [(3 + 3000) * Fraction(1, 10**6)] * 4
        assert added_up(draft.graph(), machine) == (4, 4)

    def test_it_is_not_taken_where_ranks_are_faster(self):
        # One slot: a packet of 1000 bytes a round of 3 us; a ring takes 1.5 us of them.
        machine = Machine((Level(4, self.model, aggregation=pool(1)),))
        assert machine.parts_s(2, 4, 10**6, 0, 3) == Machine((Level(4, self.model),)).parts_s(
            2, 4, 10**6, 0, 3
        )

    def test_iterate(self, capsys, tmp_path):
        path = tmp_path / "job.yaml"
        path.write_text(JOB % "", encoding="utf-8")
        plain = answer(capsys, "iterate", str(path))
        assert plain["in_network"] is None
        faster = answer(capsys, "iterate", str(path), "--aggregation", "switchml")
        assert faster["in_network"] == [4, 4]
        assert faster["period_s"] < plain["period_s"]
        assert main(["iterate", str(path), "--aggregation", "sharp"]) == 0
        assert "4 of 4 messages of allreduces" in capsys.readouterr().out
        path.write_text(JOB % ", aggregation: switchml", encoding="utf-8")
        assert answer(capsys, "iterate", str(path))["period_s"] == faster["period_s"]
        path.write_text(JOB % ", aggregation: magic", encoding="utf-8")
        assert "no aggregation is named 'magic'" in refusal(capsys, "iterate", str(path))
