"""A bundle as one file: all of it, the same bytes, and a bundle again when it is unpacked."""

from __future__ import annotations

import json
import zipfile

import pytest
from bundle_samples import files_of, small_deployment, written

from ocs_codesign.fabric.bundle.read import read_bundle
from ocs_codesign.fabric.bundle.verify import check_bundle
from ocs_codesign.fabric.files.example import example_text
from ocs_codesign.faces.cli import main
from ocs_codesign.faces.web.report.report import write_bundle
from ocs_codesign.search.splices import best_splices


@pytest.fixture
def deployed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fabric.yaml").write_text(example_text(8, 2), encoding="utf-8")
    arguments = ["deploy", "ring=BiRing(2, 8)", "--fabric", "fabric.yaml", "--out", "bundle"]
    assert main([*arguments, "--archive", "one.zip", "--json", "answer.json"]) == 0
    assert "as one file  one.zip" in capsys.readouterr().out
    return tmp_path


def test_the_zip_is_the_bundle(deployed):
    assert json.loads((deployed / "answer.json").read_bytes())["archive"] == "one.zip"
    with zipfile.ZipFile(deployed / "one.zip") as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert names == sorted(names)
        archive.extractall(deployed / "unpacked")
    assert files_of(deployed / "unpacked" / "bundle") == files_of(deployed / "bundle")
    assert check_bundle(deployed / "unpacked" / "bundle").ok


def test_a_bundle_that_is_there_gets_the_same_zip(deployed):
    before = files_of(deployed / "bundle")
    assert main(["deploy", "--bundle", "bundle", "--archive", "again.zip", "-q"]) == 0
    assert (deployed / "again.zip").read_bytes() == (deployed / "one.zip").read_bytes()
    assert files_of(deployed / "bundle") == before


def told(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    return code, *capsys.readouterr()


def test_the_zip_is_verified_as_the_directory_is(deployed, capsys):
    answers = {}
    for bundle in ("bundle", "one.zip"):
        assert main(["verify-bundle", bundle, "--json", "-"]) == 0
        answers[bundle] = capsys.readouterr().out
    assert answers["bundle"] == answers["one.zip"]
    assert check_bundle("one.zip").ok
    again = deployed / "again"
    write_bundle(read_bundle("one.zip"), again)
    assert files_of(again) == files_of(deployed / "bundle")


def changed_zip(source, target, change):
    """A zip whose files are those of another, one of them or its name changed."""
    with zipfile.ZipFile(source) as before, zipfile.ZipFile(target, "w") as after:
        for name in before.namelist():
            for new_name, content in change(name, before.read(name)):
                after.writestr(new_name, content)


@pytest.mark.usefixtures("deployed")
def test_what_is_wrong_in_a_zip_is_found(capsys):
    def spoiled(name, content):
        yield name, content.replace(b"A", b"B") if name.endswith("/cabling.csv") else content

    changed_zip("one.zip", "wrong.zip", spoiled)
    code, out, err = told(capsys, "verify-bundle", "wrong.zip", "--json", "-")
    findings = json.loads(out)["findings"]
    assert (code, err) == (1, "")
    assert any(finding["file"] == "cabling.csv" for finding in findings)
    code, out, err = told(capsys, "survive", "--bundle", "wrong.zip")
    assert (code, out) == (2, "")
    assert "Error: wrong.zip is not a valid bundle: cabling.csv" in err


def test_broken_zips_are_no_bundles(deployed, capsys):
    data = (deployed / "one.zip").read_bytes()
    (deployed / "half.zip").write_bytes(data[: len(data) // 2])
    changed_zip("one.zip", "evil.zip", lambda name, content: [(f"../{name}", content)])
    changed_zip("one.zip", "other.zip", lambda name, _: [(name.replace("manifest", "m"), b"")])
    spoiled = bytearray(data)
    spoiled[data.index(b"cabling.csv") + 40] ^= 1
    (deployed / "bits.zip").write_bytes(spoiled)
    for bundle, rule in (
        ("half.zip", "half.zip: a bundle is a directory or a zip: File is not a zip file"),
        ("evil.zip", "evil.zip: '../bundle/cabling.csv' leads out of the archive"),
        ("other.zip", "other.zip: "),
        ("bits.zip", "bits.zip: a bundle is a directory or a zip: "),
        ("fabric.yaml", "fabric.yaml: a bundle is a directory or a zip: File is not a zip file"),
        ("none.zip", "none.zip: there is no such directory"),
    ):
        for command in (["verify-bundle", bundle], ["rewire", "--bundle", bundle, "ring"]):
            before = files_of(deployed)
            code, out, err = told(capsys, *command)
            assert (code, out) == (2, ""), err
            assert err.startswith(f"Error: {rule}"), err
            assert err.count("\n") == 1
            assert "/tmp" not in err
            assert files_of(deployed) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["deploy", "other=DirectedCirculant(8, (1, 3))"],
        ["survive", "--repair", "host:host03", "--splice", "anywhere"],
        ["rewire", "--without", "host03", "--splice", "anywhere"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_what_changes_a_bundle_changes_its_zip(deployed, arguments, capsys):
    command = [arguments[0], "--bundle"], arguments[1:]
    first = files_of(deployed)
    code, out, err = told(capsys, *command[0], "one.zip", *command[1], "--archive", "a.zip")
    assert (code, err) == (0, "")
    assert "as one file" in out
    after = files_of(deployed)
    assert after.pop("a.zip")
    assert after == first
    assert told(capsys, *command[0], "one.zip", *command[1], "--out", "d")[0] == 0
    assert told(capsys, *command[0], "bundle", *command[1], "--archive", "b.zip")[0] == 0
    assert told(capsys, *command[0], "one.zip", *command[1])[0] == 0
    same = (deployed / "one.zip").read_bytes()
    assert (deployed / "a.zip").read_bytes() == (deployed / "b.zip").read_bytes() == same
    assert same != first["one.zip"]
    assert files_of(deployed / "bundle") == files_of(deployed / "d")
    assert told(capsys, "verify-bundle", "one.zip")[0] == 0


@pytest.mark.usefixtures("deployed")
def test_changes_of_circuits_in_a_zip(capsys):
    assert told(capsys, "deploy", "--bundle", "one.zip", "k=DirectedCirculant(8, (1, 3))")[0] == 0
    code, out, _ = told(capsys, "rewire", "--bundle", "one.zip", "k", "--json", "-")
    answer = json.loads(out)
    assert (code, answer["out"], answer["archive"], answer["planned"]) == (0, None, "one.zip", "k")
    assert read_bundle("one.zip").standing == "planned"
    assert told(capsys, "rewire", "--bundle", "one.zip", "--done")[0] == 0
    assert (read_bundle("one.zip").standing, read_bundle("one.zip").up) == ("up", "k")
    asked = told(capsys, "rewire", "--bundle", "one.zip", "ring", "--what-if", "--json", "-")
    assert json.loads(asked[1])["archive"] is None
    assert read_bundle("one.zip").up == "k"
    assert told(capsys, "survive", "--bundle", "one.zip", "--lost", "link")[0] in (0, 1)


def test_repairs_in_a_zip_until_all_works_again(deployed, capsys):
    written(small_deployment(), deployed / "spares")
    assert told(capsys, "deploy", "--bundle", "spares", "--archive", "spares.zip")[0] == 0
    before = files_of(deployed / "spares")
    for change, failed in (("--repair", ("h3",)), ("--restore", ())):
        code, _, err = told(capsys, "survive", "--bundle", "spares.zip", change, "host:h3")
        assert (code, err) == (0, "")
        told(capsys, "rewire", "--bundle", "spares.zip", "--done")
        assert read_bundle("spares.zip").failures.hosts == failed
        assert check_bundle("spares.zip").ok
    assert files_of(deployed / "spares") == before


def test_a_zip_alone(deployed, capsys):
    recipe = ["ring=BiRing(2, 8)", "--fabric", "fabric.yaml"]
    assert told(capsys, "deploy", *recipe, "--archive", "bundle2.zip")[0] == 0
    assert check_bundle("bundle2.zip").ok
    assert not (deployed / "bundle2").exists()
    with zipfile.ZipFile("bundle2.zip") as alone, zipfile.ZipFile("one.zip") as first:
        names = [name.replace("bundle2/", "bundle/") for name in alone.namelist()]
        assert names == first.namelist()
    assert told(capsys, "deploy", "--bundle", "one.zip", "--archive", "again.zip")[0] == 0
    assert (deployed / "again.zip").read_bytes() == (deployed / "one.zip").read_bytes()


@pytest.mark.usefixtures("deployed")
def test_the_same_seed_gives_the_same_answer(capsys, monkeypatch):
    searched = []

    def noted(*given, seed, **more):
        searched.append(seed)
        return best_splices(*given, seed=seed, **more)

    monkeypatch.setattr("ocs_codesign.fabric.repairs.splicing.best_splices", noted)
    lost = [part for host in ("host01", "host03", "host06") for part in ("--without", host)]
    ask = ["rewire", "--bundle", "one.zip", *lost, "--splice", "anywhere", "--json", "-"]
    answers = {}
    for seed in (None, 0, 5):
        drawn = [] if seed is None else ["--seed", seed]
        searched.clear()
        answer = {}
        for what in (["--what-if"], ["--archive", f"{seed}.zip"]):
            code, out, err = told(capsys, *ask, *what, *drawn)
            assert code == 0, err
            answer[what[0]] = json.loads(out)
        told_of, done = answer["--what-if"], answer["--archive"]
        assert told_of["splice"]["seed"] == (seed or 0)
        for key in told_of.keys() - {"what_if", "archive"}:
            assert told_of[key] == done[key], key
        answers[seed] = told_of["splice"]
        repairs = [part for host in lost[1::2] for part in ("--repair", f"host:{host}")]
        survive = ["survive", "--bundle", "one.zip", *repairs, "--splice", "anywhere", "--what-if"]
        code, out, _ = told(capsys, *survive, *drawn, "--json", "-")
        assert (code, json.loads(out)["splice"]) == (0, told_of["splice"])
        assert set(searched) == {seed or 0}
    assert answers[None] == answers[0]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--archive", "bundle/one.zip"], "--archive cannot go into the bundle"),
        (["--archive", "-"], "--archive cannot go to standard output"),
        (["--archive", "none/one.zip"], "there is no such directory"),
        (["--archive", "x", "--json", "x"], "two outputs go to the same file"),
        ([], "give at least one RECIPE"),
    ],
)
def test_bad_input(deployed, arguments, says, capsys):
    before = files_of(deployed)
    assert main(["deploy", "--bundle", "bundle", *arguments]) == 2
    assert says in capsys.readouterr().err
    assert files_of(deployed) == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["rewire", "--bundle", "one.zip", "ring", "--seed", "3"], "--seed cannot be given with"),
        (["rewire", "--bundle", "one.zip", "ring", "--seed", "-3"], "Invalid value for '--seed'"),
        (["rewire", "--bundle", "one.zip", "--what-if", "x", "--archive", "b"], "leave out --arch"),
        (["rewire", "UniRing(1, 4)", "UniRing(1, 4)", "--what-if", "--archive", "b"], "--archive "),
        (["survive", "--bundle", "one.zip", "--archive", "b"], "--archive is for a repaired"),
        (["rewire", "--bundle", "one.zip", "--without", "host03", "--archive", "-"], "a zip is a"),
        (["rewire", "--bundle", "one.zip", "ring", "--archive", "none/b"], "no such directory"),
        (["rewire", "--bundle", "-", "ring"], "it cannot come from a pipe"),
        (["rewire", "--bundle", "one.zip", "ring", "--out", "fabric.yaml"], "is a file, not a dir"),
    ],
)
def test_bad_input_with_a_zip(deployed, arguments, says, capsys):
    before = files_of(deployed)
    assert main(arguments) == 2
    assert says in capsys.readouterr().err
    assert files_of(deployed) == before
