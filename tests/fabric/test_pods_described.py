"""Pods by name or file, and slices of them by the names that people use."""

from __future__ import annotations

import json
import re

import pytest
from folders import ROOT

from ocs_codesign.fabric.pods.description import is_twistable, load_pod, slice_of
from ocs_codesign.faces.cli import main
from ocs_codesign.graphs.families.pods import PodLattice, PodSlice

CASES = json.loads((ROOT / "tests" / "data" / "pods.json").read_text(encoding="utf-8"))
V4 = load_pod("tpu-v4")


def answer(capsys, *words):
    assert main(["pod", *words, "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("case", [one for one in CASES if one["kind"] == "slice"])
def test_shapes(case):
    sides = tuple(map(int, case["shape"].split("x")))
    assert is_twistable(sides) == case["twist"]
    assert slice_of(case["shape"], V4).num_cubes == case["cubes"]
    if case["twist"]:
        assert slice_of(f"{case['shape']}_twisted", V4).num_cubes == case["cubes"]
    else:
        with pytest.raises(ValueError, match="has no twist"):
            slice_of(f"{case['shape']}_twisted", V4)


def test_pods_have_sources():
    for name in ("tpu-v4", "tpu-v5p"):
        pod = load_pod(name)
        assert pod.num_switches == 48
        assert set(pod.sources) >= {"cube", "cubes", "hosts_of_a_cube"}
    assert load_pod("tpu-v5p").largest_slice == 96


def test_a_pod_of_ones_own(tmp_path):
    file = tmp_path / "small.toml"
    file.write_text("cube = [4, 4]\ncubes = 6\nhosts_of_a_cube = 4\nswitch_ports = 12\n")
    pod = load_pod(str(file))
    assert (pod.cube, pod.num_switches, pod.largest_slice) == ((4, 4), 8, 6)
    assert slice_of("8x12", pod) == PodLattice((4, 4), ((2, 0), (0, 3)))
    with pytest.raises(ValueError, match="slice of 9 cubes: the largest"):
        slice_of("12x12", pod)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("cube = [4, 4]\ncubes = 6\nhosts_of_a_cube = 4\nswitch_ports = 11\n", "switch 0:0 has 11"),
        ("cube = [4, 4]\ncubes = 6\n", "has no 'hosts_of_a_cube'"),
        ("cube = [4, 4]\ncubes = 6\nhosts_of_a_cube = 4\nspeed = 1\n", "has 'speed'"),
        ("cube = [1, 4]\ncubes = 6\nhosts_of_a_cube = 4\n", "at least 2"),
        ("cube = 4\ncubes = 6\nhosts_of_a_cube = 4\n", "the chips along every edge"),
        ("cube = [4\n", "is not TOML"),
        ("cube = [4, 4]\ncubes = 6\nhosts_of_a_cube = 4\narrangement = [2, 2]\n", "arrangement"),
    ],
)
def test_bad_pods(tmp_path, text, rule):
    file = tmp_path / "pod.toml"
    file.write_text(text)
    with pytest.raises(ValueError, match=re.escape(rule)):
        load_pod(str(file))


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("8x8", "have 3 sides"),
        ("6x8x8", "multiples of the cube's"),
        ("0x4x4", "multiples of the cube's"),
        ("16x16x24", "the largest of tpu-v4"),
        ("rows:1,0/x", "rows are integers"),
        ("Torus((4, 4, 4))", "no slice of a pod"),
        ("nothing.json", "is no slice"),
    ],
)
def test_bad_slices(text, rule):
    with pytest.raises(ValueError, match=re.escape(rule)):
        slice_of(text, V4)


def test_permutations_of_a_file(tmp_path, capsys):
    case = next(one for one in CASES if one["name"].startswith("random 2 V4I"))
    file = tmp_path / "slice.json"
    file.write_text(json.dumps({"cubes": 2, "permutations": case["permutations"]}))
    assert isinstance(slice_of(str(file), V4), PodSlice)
    found = answer(capsys, "cost", str(file))
    assert (found["U"], found["lower"], found["steps"]) == ("1552/15", "1552/15", 7)
    file.write_text(json.dumps({"cubes": 3, "permutations": case["permutations"]}))
    assert main(["pod", "cost", str(file)]) == 2
    assert "permutations of 2 cubes, but cubes is 3" in capsys.readouterr().err
    for refused in (one for one in CASES if one["kind"] == "refused"):
        file.write_text(json.dumps({"cubes": 2, "permutations": refused["permutations"]}))
        assert main(["pod", "cost", str(file)]) == 2
        assert refused["names"] in capsys.readouterr().err


def test_cost_has_what_is_asked(capsys):
    found = answer(capsys, "cost", "8x8x16_twisted")
    keys = ("U", "t_b", "steps", "bound_all", "diameter")
    assert [found[key] for key in keys] == ["3568/3", "223/32", 12, "18889/24", 12]
    gathered = answer(capsys, "cost", "4x4x8", "-c", "allgather")
    assert (gathered["steps"], gathered["t_b"]) == (8, "127/128")


def test_other_commands_take_the_recipes(capsys):
    recipe = repr(slice_of("4x4x8_twisted", V4))
    assert main(["cost", recipe, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["t_b"] == "127/128"
