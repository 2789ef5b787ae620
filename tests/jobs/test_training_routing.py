"""Experts of unlike popularity in a training step: the busiest rank decides."""

from __future__ import annotations

import json
import re

import pytest

from ocs_codesign.faces.cli import main
from ocs_codesign.jobs.models.layer import ROUTINGS
from ocs_codesign.jobs.training.routing import routing_skew
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


def test_what_is_refused(written, tmp_path, capsys):
    assert (
        main(["iterate", written("deepseek_v3.yaml", "odd"), str(tmp_path / "h100x64.yaml")]) == 2
    )
    assert "model.routing is 'odd'" in capsys.readouterr().err
    assert main(["iterate", written("mixtral.yaml", "zipf")]) == 2
    assert "it is for a step on a CLUSTER" in capsys.readouterr().err
