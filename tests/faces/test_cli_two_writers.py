"""Two commands that change one bundle: neither's work is lost, and each is told."""

from __future__ import annotations

import fcntl
import os
import shutil

import pytest
from bundle_samples import files_of, named, small_fabric, written

from ocs_codesign.fabric.bundle.write.bundle import write_archive
from ocs_codesign.fabric.deployments.deploy import deploy
from ocs_codesign.faces.cli import deployed, main

CHANGES = [
    "survive --bundle {} --repair host:h3",
    "survive --bundle {} --repair host:h3 --splice anywhere",
    "rewire --bundle {} kautz",
    "rewire --bundle {} --without h3",
    "deploy --bundle {} --remove kautz",
    "deploy --bundle {} more=UniRing(2,8)",
]


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """Two bundles of a name and their zips, the second with a configuration less."""
    recipes = named(("ring", "BiRing(2, 8)"), ("kautz", "GeneralizedKautz(2, 8)"))
    made = []
    for number in (2, 1):
        place = tmp_path_factory.mktemp("bundles")
        deployment = deploy(small_fabric(planes=2), recipes[:number], ["allgather"])
        directory = written(deployment, place / "bundle")
        files = [path for path in files_of(directory) if path != "manifest.json"]
        write_archive(directory, files, place / "bundle.zip")
        made.append(place)
    return made


@pytest.mark.parametrize(
    ("words", "kind"), [*((words, "bundle") for words in CHANGES), (CHANGES[2], "bundle.zip")]
)
def test_neither_of_two_that_change_a_bundle_is_lost(
    words, kind, bundles, tmp_path, monkeypatch, capsys
):
    place = tmp_path / "place"
    shutil.copytree(bundles[0], place)
    command = [word.format(place / kind) for word in words.split(" ")]
    before = files_of(place)
    lock = os.open(place / kind, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert main(command) == 2
    assert "another command is changing it; try again" in capsys.readouterr().err
    assert files_of(place) == before
    os.close(lock)

    def read_and_lose(bundle):
        """The bundle is read, and then somebody puts another one in its place."""
        found = read(bundle)
        shutil.rmtree(place)
        shutil.copytree(bundles[1], place)
        return found

    read = deployed.read
    for room in ("deployed", "survive", "rewire", "fabric"):
        monkeypatch.setattr(f"ocs_codesign.faces.cli.{room}.read", read_and_lose)
    assert main(command) == 2
    assert "no longer the bundle that was read: nothing was written" in capsys.readouterr().err
    assert files_of(place) == files_of(bundles[1])
