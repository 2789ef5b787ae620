"""Slices in bundles: permutations come out as they went in, and what is wrong is found."""

from __future__ import annotations

import json

import numpy as np
import pytest
from bundle_check_samples import checked, put, sealed, table_bytes, table_of
from bundle_samples import files_of

from ocs_codesign.fabric.bundle.read import read_bundle
from ocs_codesign.fabric.bundle.verify import check_bundle
from ocs_codesign.fabric.bundle.write.pods import write_pod
from ocs_codesign.fabric.pods.description import PodDescription, load_pod, slice_of
from ocs_codesign.fabric.pods.placing import place_slices
from ocs_codesign.faces.cli import main
from ocs_codesign.graphs.families.pods import PodSlice, cube_of, joined_cubes

SMALL = PodDescription((2, 3), 12, 1, 12, name="small")


def random_slice(shape, cubes, rng):
    """Any permutations that join all cubes."""
    cube = cube_of(shape)
    while True:
        circuits = np.stack([rng.permutation(cubes) for _ in range(cube.num_switches)])
        if len(joined_cubes(circuits)) == 1:
            return PodSlice(shape, cube.nested([tuple(row) for row in circuits.tolist()]))


def random_division(pod, rng):
    """Slices of random permutations on random cubes that are all cubes of a pod but three."""
    cubes = rng.permutation(pod.cubes)[3:].tolist()
    wanted = []
    while cubes:
        size = int(rng.integers(1, min(len(cubes), 16) + 1))
        slice_ = random_slice(pod.cube, size, rng)
        wanted.append((f"slice{len(wanted)}", slice_, cubes[:size]))
        cubes = cubes[size:]
    return place_slices(pod, wanted)


def links(topology):
    return sorted(zip(topology.tail.tolist(), topology.head.tolist(), strict=True))


def check_division(pod, placed, directory):
    """Every slice of a bundle is as if it were alone, in its file and by its light."""
    write_pod(pod, placed, directory)
    verdict = check_bundle(directory)
    assert verdict.ok, verdict.findings
    for each, derived in zip(placed, verdict.configurations, strict=True):
        alone = each.slice.topology()
        assert links(derived.topology) == links(alone)
        if pod.name != SMALL.name:
            again = slice_of(str(directory / "slices" / f"{each.name}.json"), pod)
            assert again.topology() == alone


@pytest.mark.parametrize("seed", range(3))
def test_slices_of_a_random_division_are_as_if_alone(tmp_path, seed):
    check_division(SMALL, random_division(SMALL, np.random.default_rng(seed)), tmp_path / "out")


@pytest.mark.slow
def test_slices_of_a_random_division_of_64_cubes_are_as_if_alone(tmp_path):
    pod = load_pod("tpu-v4")
    check_division(pod, random_division(pod, np.random.default_rng(5)), tmp_path / "out")


def small_files(directory):
    """A bundle of two slices, of 3 and of 2 cubes."""
    rng = np.random.default_rng(1)
    wanted = [("a", random_slice((2, 3), 3, rng), [7, 0, 4])]
    wanted.append(("b", random_slice((2, 3), 2, rng), None))
    write_pod(SMALL, place_slices(SMALL, wanted), directory)
    return files_of(directory)


def rules_of(files):
    return [str(each) for each in checked(files).findings]


def swapped(rows):
    """The ends of two cross-connects change places."""
    rows[0]["b_side"], rows[1]["b_side"] = rows[1]["b_side"], rows[0]["b_side"]
    for row in rows:
        row["id"] = f"{row['a_side']}-{row['b_side']}"


def to_another_slice(rows):
    rows[0] |= {"b_side": "2B", "id": f"{rows[0]['a_side']}-2B", "to_host": "cube01"}


@pytest.mark.parametrize(
    ("path", "edit", "rule"),
    [
        ("cross_connects/a/d1q1.csv", swapped, "recipe 'PodSlice"),
        ("cross_connects/a/d1q1.csv", swapped, "not those that light makes"),
        ("cross_connects/a/d0q2.csv", to_another_slice, "comes to cube01, which is none of its"),
        ("cross_connects/a/d0q2.csv", lambda rows: rows.pop(), "no light makes the claimed link"),
        ("cross_connects/a/d0q2.csv", lambda rows: rows.pop(), "it is in no CSV of the bundle"),
        ("cabling.csv", lambda rows: rows[0].update(b_port="3A"), "has a cable already"),
        ("manifest.json", {"cube": [3, 2]}, "its switches are d0q0 to d1q2"),
        ("manifest.json", {"cube": [2, 3.0]}, "edges are whole numbers of at least 2"),
        ("manifest.json", {"cube": [2**11, 2**11]}, "at most 4096 chips"),
        ("manifest.json", {"slices": 3}, "it must be a list of 1 to"),
        ("manifest.json", {"slices": [3]}, "it must have name, recipe and cubes"),
        ("manifest.json", ("cubes", [7, 0, 7]), "they are different numbers from 0 to 11"),
        ("manifest.json", ("cubes", [7, 0, 1]), "cube 1 is one of 'a'"),
        ("manifest.json", ("cubes", [7, 0]), "which is none of its cubes"),
        ("manifest.json", ("name", "../a"), "it must be that of a file"),
        ("manifest.json", ("name", "b"), "a second one is named 'b'"),
        ("manifest.json", ("recipe", "BiRing(2, 18)"), "it has 18 nodes of degree 2"),
        ("manifest.json", ("recipe", None), "it must be text"),
    ],
)
def test_what_is_wrong_is_found(tmp_path, path, edit, rule):
    files = small_files(tmp_path / "bundle")
    if path.endswith(".csv"):
        rows = table_of(files[path])
        edit(rows)
        files[path] = table_bytes(rows, files[path])
    else:
        manifest = json.loads(files[path])
        if isinstance(edit, dict):
            manifest |= edit
        else:
            manifest["slices"][0][edit[0]] = edit[1]
        files[path] = json.dumps(manifest).encode()
    rules = rules_of(sealed(files))
    assert any(rule in each for each in rules), rules


def test_a_file_too_many_and_a_bundle_without_state(tmp_path):
    files = small_files(tmp_path / "bundle")
    rules = rules_of(sealed({**files, "slices/c.json": b"{}"}))
    assert rules == ["slices/c.json: a bundle of this manifest has no such file"]
    with pytest.raises(ValueError, match="is the bundle of a pod"):
        read_bundle(tmp_path / "bundle")


def test_where_slices_can_be():
    pod = load_pod("tpu-v4")
    small = slice_of("4x4x8", pod)
    placed = place_slices(pod, [("a", small, None), ("b", small, [9, 0])], [1])
    assert [each.cubes for each in placed] == [(2, 3), (9, 0)]
    for wanted, failed, rule in (
        ([("a", small, [1, 2])], [2], "cube 2 of a has failed"),
        ([("a", small, [1, 2]), ("b", small, [2, 3])], [], "cube 2 of b is one of a"),
        ([("a", small, [1])], [], "a is put on 1 cubes: it has 2"),
        ([("a", small, [1, 64])], [], "cubes of tpu-v4 are 0 to 63"),
        ([("a", small, None)], range(63), "a has 2 cubes: 1 are free"),
    ):
        with pytest.raises(ValueError, match=rule):
            place_slices(pod, wanted, failed)


def test_deploy_and_verify(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "cube = [4, 4]\ncubes = 6\nhosts_of_a_cube = 4\nswitch_ports = 12\n"
    (tmp_path / "small.toml").write_text(text)
    words = ["deploy", "a@5,0=8x4", "4x8", "--pod", "small.toml", "--failed", "1"]
    assert main([*words, "--out", "slices", "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(each["name"], each["cubes"]) for each in told["slices"]] == [
        ("a", [5, 0]),
        ("slice2", [2, 3]),
    ]
    assert main(["verify-bundle", "slices"]) == 0
    assert "Valid: the light makes" in capsys.readouterr().out
    assert main(["pod", "cost", "slices/slices/a.json", "--pod", "small.toml"]) == 0
    capsys.readouterr()
    for more, rule in (
        (["--message", "1MiB"], "--pod takes --failed, --out and --archive"),
        (["--failed", "x"], "cubes are numbers"),
    ):
        assert main([*words[:5], "--out", "other", *more]) == 2
        assert rule in capsys.readouterr().err
    assert main(["deploy", "BiRing(1, 4)", "--failed", "1"]) == 2
    assert "--failed is for --pod" in capsys.readouterr().err
    assert main(["survive", "--bundle", "slices", "--lost", "host:cube0", "--what-if"]) == 2


def test_slices_are_observed_together(tmp_path):
    bundle = put(small_files(tmp_path / "bundle"), tmp_path / "again")
    rows = ["local_host,local_port,remote_host,remote_port"]
    for circuit in (each for one in check_bundle(bundle).configurations for each in one.circuits):
        ends = (f"{circuit.from_host},p{circuit.plane}-a", f"{circuit.to_host},p{circuit.plane}-b")
        rows += [",".join(ends), ",".join(ends[::-1])]
    heard = tmp_path / "heard.csv"
    heard.write_text("\n".join(rows) + "\n")
    assert check_bundle(bundle, heard).ok
    heard.write_text("\n".join(rows[:-1]) + "\n")
    (missing,) = check_bundle(bundle, heard).observed[0].differences
    assert missing.kind == "missing"
