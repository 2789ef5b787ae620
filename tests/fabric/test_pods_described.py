"""Pods by name or file, and slices of them by the names that people use."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from folders import ROOT

from ocs_codesign.fabric.pods.description import is_twistable, load_pod, slice_of
from ocs_codesign.fabric.pods.packing import PodJob, goodput, pack_anywhere, pack_boxes, read_jobs
from ocs_codesign.fabric.pods.survival import channelled_paths, survived, with_paths, without
from ocs_codesign.faces.cli import main
from ocs_codesign.graphs.families.pods import PodLattice, PodSlice, cube_of
from ocs_codesign.graphs.text import parse
from ocs_codesign.search.pods.cost import pod_cost

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
        assert cube_of(pod.cube).num_switches == 48
        assert set(pod.sources) >= {"cube", "cubes", "hosts_of_a_cube"}
    assert load_pod("tpu-v5p").largest_slice == 96


def test_a_pod_of_ones_own(tmp_path):
    file = tmp_path / "small.toml"
    file.write_text("cube = [4, 4]\ncubes = 6\nhosts_of_a_cube = 4\nswitch_ports = 12\n")
    pod = load_pod(str(file))
    assert (pod.cube, pod.switch_ports, pod.largest_slice) == ((4, 4), 12, 6)
    assert slice_of("8x12", pod) == PodLattice((4, 4), ((2, 0), (0, 3)))
    with pytest.raises(ValueError, match="slice of 9 cubes: the largest"):
        slice_of("12x12", pod)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("cube = [4, 4]\ncubes = 6\nhosts_of_a_cube = 4\nswitch_ports = 11\n", "switch 0:0 has 11"),
        ("cube = [4, 4]\ncubes = 6\n", "there is no hosts_of_a_cube: every pod has one"),
        ("cube = [4, 4]\ncubes = 6\nhosts_of_a_cube = 4\nspeed = 1\n", "the pod names 'speed'"),
        ("cube = [1, 4]\ncubes = 6\nhosts_of_a_cube = 4\n", "at least 2"),
        (
            "cube = 4\ncubes = 6\nhosts_of_a_cube = 4\n",
            "cube is 4: it must be a list of whole numbers",
        ),
        ("cube = [4\n", "this is no TOML"),
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


def test_other_commands_take_the_recipes(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recipe = repr(slice_of("4x4x8_twisted", V4))
    assert main(["cost", recipe, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["t_b"] == "127/128"
    recipe = "PodSlice((2, 2), (((1, 2, 0), (0, 1, 2)), ((0, 1, 2), (2, 0, 1))))"
    assert repr(parse(recipe)) == recipe
    for words in (
        ["build", recipe, "-c", "alltoall", "--out", "design"],
        ["verify", "design"],
        ["export", "design", "--format", "msccl", "--out", "program.xml"],
        ["paths", recipe, "--virtual-channels"],
    ):
        assert main(words) == 0, words


def test_paths_without_deadlock():
    """With all switches and without one, on few virtual channels, near the best routing."""
    slice_ = PodLattice((2, 2), ((1, 1), (0, 3)))
    found = survived(slice_, "switch:1:0")
    before, after = with_paths(slice_, "switch:1:0", found).paths
    for paths, cost in ((before, found.before), (after, found.kept)):
        assert paths.least_channels <= paths.channels <= 4
        assert cost.t_b <= paths.t_b < Fraction(1002, 1000) * cost.t_b
    assert before.t_b < after.t_b


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["4x4x8", "4x8x8"])
def test_a_torus_of_many_chips_is_exact_on_four_channels(shape):
    torus = slice_of(shape, V4)
    cost = pod_cost(torus.cube, torus.circuits())
    paths = channelled_paths(torus.cube, torus.circuits(), cost)
    assert paths.channels <= 4
    assert paths.t_b == cost.t_b


def described(*kinds):
    return [pytest.param(case, id=case["name"]) for case in CASES if case["kind"] in kinds]


def jobs_of(case):
    return [
        PodJob(f"job {number}", tuple(job["shape"]), job["most"])
        for number, job in enumerate(case["jobs"])
    ]


def is_possible(found, jobs, failed):
    """No cube twice, none that has failed, and no more slices than asked for."""
    cubes = [cube for each in found.placed for cube in each.cubes]
    assert len(cubes) == len(set(cubes)) == found.used
    assert not set(cubes) & set(failed)
    assert not set(found.spare) & {*cubes, *failed}
    assert len(found.spare) in {0, found.healthy - found.used}
    for job in jobs:
        mine = [each for each in found.placed if each.job == job.name]
        assert len(mine) <= job.most
        assert {len(each.cubes) for each in mine} <= {job.cubes}


@pytest.mark.parametrize("case", described("packing"))
def test_packings(case):
    jobs, failed = jobs_of(case), case["failed"]
    for key, found in (
        ("any_cubes", pack_anywhere(jobs, V4, failed)),
        ("boxes", pack_boxes(jobs, V4, failed)),
        ("boxes_with_wrap", pack_boxes(jobs, V4, failed, wrap=True)),
    ):
        assert found.used == case[key]
        is_possible(found, jobs, failed)


def test_random_packings_are_those_of_an_integer_program():
    """The knapsack against all numbers of slices."""
    rng = np.random.default_rng(2)
    for _ in range(200):
        jobs = [
            PodJob(str(i), (1, 1, int(rng.integers(1, 20))), int(rng.integers(0, 4)))
            for i in range(int(rng.integers(1, 5)))
        ]
        failed = rng.choice(64, int(rng.integers(0, 30)), replace=False).tolist()
        found = pack_anywhere(jobs, V4, failed)
        is_possible(found, jobs, failed)
        sums = [
            sum(n * job.cubes for n, job in zip(times, jobs, strict=True))
            for times in product(*(range(job.most + 1) for job in jobs))
        ]
        assert found.used == max(each for each in sums if each <= found.healthy)


@pytest.mark.parametrize("case", described("goodput"))
def test_goodput(case):
    share = Fraction(str(case["host_availability"]))
    found = goodput(V4, case["cubes_of_a_slice"], share)
    assert abs(float(found) - case["any_cubes"]) < 1e-9


DOWN = [one for one in described("ocs_down") if "4x4x8" in one.id or "best lattice" in one.id]


@pytest.mark.parametrize("case", DOWN[:3])
def test_switches_down(case):
    slice_ = PodLattice((4, 4, 4), tuple(map(tuple, case["rows"])))
    circuits = slice_.circuits()
    for dimension, position in case["down"]:
        circuits[16 * dimension + position] = -1
    found = pod_cost(slice_.cube, circuits)
    assert found.value == found.bound == Fraction(case["U"])
    assert found.diameter == case["diameter"]


@pytest.mark.slow
@pytest.mark.parametrize("case", [one for one in described("ocs_down") if "8x8x8" not in one.id])
def test_all_switches_down(case):
    test_switches_down(case)


def test_what_is_lost_is_named():
    slice_ = slice_of("4x4x8_twisted", V4)
    for lost, left in (("switch:2:5", 94), ("port:2:5:+1", 95), ("port:2:5:-1", 95)):
        circuits, replaced = without(slice_, lost)
        assert ((circuits >= 0).sum(), replaced) == (left, 0)
    assert without(slice_, "cube:1")[1] == 96
    assert survived(slice_, "cube:1").kept.value == Fraction(220, 3)
    for lost, rule in (
        ("switch:2:16", "switches are 0:0 to 2:15"),
        ("switch:2", "is no loss"),
        ("cube:1:2", "is no loss"),
        ("port:2:5", "is no loss"),
        ("cube:2", "cubes of the slice are 0 to 1"),
    ):
        with pytest.raises(ValueError, match=rule):
            without(slice_, lost)


@pytest.mark.slow
def test_circuits_anew():
    """A torus that is cut is better over other circuits, and the answer says which change."""
    torus = slice_of("4x4x8", V4)
    found = survived(torus, "switch:2:0", anew=True, draws=4)
    assert found.kept.value == Fraction(2048, 15)
    assert found.kept.bound_all <= found.anew.value < found.kept.value
    after = found.slice.circuits()
    after[32] = -1
    assert {each.switch for each in found.changed} == {
        switch for stage in found.stages for switch in stage.switches
    }
    assert all(stage.stays_joined for stage in found.stages)
    assert sum(stage.created for stage in found.stages) == len(found.changed)
    before, _ = without(torus, "switch:2:0")
    for each in found.changed:
        dimension, position = map(int, each.switch.split(":"))
        assert before[16 * dimension + position, each.plus] == each.before
        before[16 * dimension + position, each.plus] = each.after
    assert (before == after).all()
    again = pod_cost(torus.cube, after)
    assert again.bound <= found.anew.value


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("shape\n1x1x2\n", "there is no most: every job has one"),
        ("shape,most\n1x1xz,3\n", "line 2: shape is 'z': it must be a whole number"),
        ("shape,most\n1x1x2\n", "line 2: 1 cells, but the heading has 2"),
        ("shape,most\n0x1x2,1\n", "line 2: shape is 0: it must be from 1"),
        ("shape,most\n1x1x2,-1\n", "line 2: most is -1: it must be from 0"),
    ],
)
def test_bad_jobs(tmp_path, text, rule):
    file = tmp_path / "jobs.csv"
    file.write_text(text)
    with pytest.raises(ValueError, match=rule):
        read_jobs(str(file))


def test_commands_for_jobs(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.csv").write_text("job,shape,most\nlarge,2x2x4,3\nsmall,1x1x2,10\n")
    found = answer(capsys, "pack", "jobs.csv", "--failed", "3,17")
    assert (found["used"], found["healthy"], found["spare"]) == (62, 62, [])
    assert answer(capsys, "pack", "jobs.csv", "--failed", "3,17", "--boxes")["used"] <= 62
    assert main(["pod", "pack", "jobs.csv", "--failed", "64"]) == 2
    assert "cubes of tpu-v4 are 0 to 63" in capsys.readouterr().err
    assert main(["pod", "pack", "jobs.csv", "--failed", "x"]) == 2
    assert main(["pod", "pack", "jobs.csv", "--wrap", "--pod", "tpu-v5p"]) == 2
    assert "has no arrangement" in capsys.readouterr().err
    found = answer(capsys, "goodput", "--cubes", "8", "--availability", "0.99")
    assert abs(found["goodput"] - 0.795664506) < 1e-9


@pytest.mark.slow
def test_design_and_its_file(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("--cubes", "4", "--family", "lattice", "--out", "best.json")
    found = answer(capsys, "design", *words)
    assert (found["U"], found["lower"], found["diameter"]) == ("184", "184", 6)
    assert answer(capsys, "cost", "best.json")["U"] == "184"
    gathered = answer(capsys, "design", "--cubes", "6", "--family", "lattice", "-c", "allgather")
    assert (gathered["t_b"], gathered["steps"]) == ("383/384", 8)
    found = answer(capsys, "design", "--cubes", "2", "--family", "lift", "--time-limit", "3s")
    assert Fraction(found["bound_all"]) <= Fraction(found["lower"]) <= Fraction(found["U"])
    assert main(["pod", "design", "--cubes", "65"]) == 2
    assert "the largest of tpu-v4 has 64" in capsys.readouterr().err
