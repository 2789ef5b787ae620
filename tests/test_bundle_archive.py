"""A bundle as one file: all of it, the same bytes, and a bundle again when it is unpacked."""

from __future__ import annotations

import json
import zipfile

import pytest
from bundle_samples import files_of

from ocs_codesign.bundle.verify import check_bundle
from ocs_codesign.cli import main
from ocs_codesign.formats.fabric.example import example_text


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
