"""Experts of unlike popularity in a training step: the busiest rank decides."""

from __future__ import annotations

import json
import re

import pytest

from ocs_codesign.faces.cli import main
from ocs_codesign.jobs.models.layer import ROUTINGS, Transformer
from ocs_codesign.jobs.training.constants import chip_named, software_named
from ocs_codesign.jobs.training.division import Division
from ocs_codesign.jobs.training.layers import Method
from ocs_codesign.jobs.training.places import held_places
from ocs_codesign.jobs.training.room import Room
from ocs_codesign.jobs.training.routing import routing_skew
from ocs_codesign.jobs.training.step import StepEstimate, estimate_step
from ocs_codesign.schedules.exchange.experts import KINDS


def test_routings_are_the_kinds_of_experts():
    assert tuple(KINDS) == ROUTINGS


@pytest.mark.parametrize("kind", ROUTINGS)
def test_skews(kind):
    skew = routing_skew(kind, 64, 4, 16)
    for low, middle, high in skew:
        assert 1.0 <= low <= middle <= high <= 16
    assert routing_skew(kind, 64, 4, 1).median_rows == 1.0
    if kind in ("zipf", "hot_rank", "moving"):
        assert skew.median_rows > 1.5
    if kind == "burst":  # hot in every eighth step
        assert skew.rows[1] < 1.3 < skew.rows[2]


def test_a_rank_cannot_have_more_than_all_tokens():
    assert routing_skew("hot_rank", 8, 8, 8).median_rows == pytest.approx(1.0)


@pytest.mark.parametrize("kind", ["zipf", "hot_rank"])
def test_copies_of_popular_experts_take_skew_away(kind):
    plain, placed, copied = (routing_skew(kind, 64, 4, 16, spare) for spare in (None, 0, 32))
    for number in range(2):
        assert plain[number][1] >= placed[number][1] > copied[number][1]
        assert copied[number][1] < 1.3
    assert routing_skew(kind, 64, 4, 1, 32).median_rows == 1.0


@pytest.fixture
def written(tmp_path, capsys):
    assert main(["example", str(tmp_path)]) == 0
    capsys.readouterr()

    def write(job: str, routing: str, spare: int | None = None) -> str:
        text = (tmp_path / job).read_text()
        path = tmp_path / f"{routing}.yaml"
        more = rf"\g<0>\n\1routing: {routing}"
        more += "" if spare is None else rf"\n\1spare_experts: {spare}"
        path.write_text(re.sub(r"( +)experts: .*", more, text, count=1))
        return str(path)

    return write


def step_seconds(job: str, folder: str, capsys) -> tuple[float, list[str]]:
    assert main(["iterate", job, folder, "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out)
    return told["step_seconds"], told["notes"]


def test_steps_wait_for_the_busiest_rank(written, tmp_path, capsys):
    cluster = str(tmp_path / "h100x16384.yaml")
    plain, notes = step_seconds(str(tmp_path / "deepseek_v3.yaml"), cluster, capsys)
    assert not [note for note in notes if "busiest" in note]
    even, _ = step_seconds(written("deepseek_v3.yaml", "even"), cluster, capsys)
    assert even == plain
    zipf, notes = step_seconds(written("deepseek_v3.yaml", "zipf"), cluster, capsys)
    assert 2 * even < zipf < 12 * even
    assert [note for note in notes if note.startswith("experts are zipf: the busiest rank has 6.")]
    copied, notes = step_seconds(written("deepseek_v3.yaml", "zipf", 64), cluster, capsys)
    assert 0.9 * even < copied < 1.3 * even
    assert [note for note in notes if "placed by it, 64 with copies: the busiest rank" in note]


def placed_step(routing: str, batch: int, spare: int | None = 16) -> StepEstimate:
    given = {"experts": 16, "top_k": 2, "routing": routing, "spare_experts": spare}
    model = Transformer(4, 1024, 16, 4096, 32000, 4096, batch, **given)
    room = Room(chip_named("h100"), 2, 8, 450e9, 50e9)
    return estimate_step(model, Division(16, expert=16), room, Method(software_named("nemo")))


def test_places_are_held_until_regrets_pay_for_moves():
    few, many = (held_places(placed_step("moving", batch)) for batch in (64, 1024))
    # What moves is the same, what a step loses is not.
    assert few.move_s == many.move_s > 0
    assert 0 < len(few.changed_at) < len(many.changed_at) < few.num_steps
    for places in (few, many):
        assert places.step_s < 0.7 * places.never_s
    assert few.step_s < few.always_s
    # Popularity that stays is worth no move.
    still = held_places(placed_step("zipf", 64))
    assert still.changed_at == ()
    assert still.step_s == still.never_s < still.always_s
    assert held_places(placed_step("moving", 64, None)) is None
    assert held_places(placed_step("even", 64)) is None


JOB = """
name: few experts
model: {kind: transformer, layers: 4, hidden: 1024, heads: 16, feed_forward: 4096,
  vocabulary: 32000, sequence: 4096, batch: 64, experts: 16, top_k: 2,
  routing: moving, spare_experts: 16}
parallel: {data: 16, expert: 16}
"""
CLUSTER = """
version: 1
name: 16 H100
servers: {count: 2, accelerators: 8, scale_up: 450GB/s}
accelerator: {name: h100}
network: {bandwidth: 50GB/s}
"""


def test_answers_say_when_experts_are_placed_anew(tmp_path, capsys):
    job, cluster = tmp_path / "job.yaml", tmp_path / "cluster.yaml"
    job.write_text(JOB)
    cluster.write_text(CLUSTER)
    asked = ["iterate", str(job), str(cluster)]
    assert main([*asked, "--json", "-"]) == 0
    places = json.loads(capsys.readouterr().out)["places"]
    assert places["move_s"] == held_places(placed_step("moving", 64)).move_s
    assert places["step_s"] < places["always_s"] < places["never_s"]
    assert main(asked) == 0
    shown = capsys.readouterr().out
    assert f"placed anew at steps {', '.join(map(str, places['changed_at']))} of 16" in shown
    assert "in the first places" in shown
    assert main(["codesign", *asked[1:], "--top", "1", "--json", "-"]) == 0
    best = json.loads(capsys.readouterr().out)["ranked"][0]
    assert (best["places"] is None) == (best["division"]["expert"] == 1)
    job.write_text(JOB.replace(", spare_experts: 16", ""))
    assert main([*asked, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["places"] is None


def test_what_is_refused(written, tmp_path, capsys):
    assert (
        main(["iterate", written("deepseek_v3.yaml", "odd"), str(tmp_path / "h100x64.yaml")]) == 2
    )
    assert "model.routing is 'odd'" in capsys.readouterr().err
    assert main(["iterate", written("mixtral.yaml", "zipf")]) == 2
    assert "it is for a step on a CLUSTER" in capsys.readouterr().err
