"""An operator's day in one file: from a description of the room to work after a lost host."""

from __future__ import annotations

import json

import pytest
from bundle_samples import files_of

from ocs_codesign.faces.cli import deployed, main

ROOM = """\
version: 2
name: lab
hosts: {count: 9, pattern: 'server{}', spares: 1}
servers: {gpus: 1, nics: [{count: 3, ports: 1, gpus: gpu}]}
accelerator: {name: a100}
switches: {profile: polatis-384, ports: 12, spares: 1}
port_bandwidth: 100Gbps
alpha: 5us
failed_ports: ['p1-s0:2A']
"""
READERS = [f"ocs_codesign.faces.cli.{room}.read" for room in ("deployed", "survive", "rewire")]


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """What a command answers, and what it says of an error; its code is the one expected."""
    monkeypatch.chdir(tmp_path)

    def answer_of(text, code=0):
        found = main([*text.split(), "--json", "-"])
        out, err = capsys.readouterr()
        assert found == code, (text, out, err)
        return json.loads(out) if out.startswith("{") else {}, err

    return answer_of


@pytest.mark.slow
def test_an_operators_day(run, tmp_path, monkeypatch):
    (tmp_path / "lab.yaml").write_text(ROOM, encoding="utf-8")
    room, _ = run("fabric check lab.yaml")
    assert (room["hosts"], room["findings"]) == (9, [])
    chosen, _ = run("select --fabric lab.yaml --message 1MiB --designs GeneralizedKautz(3,8)")
    assert len(chosen["ranked"]) == 1
    run(
        "deploy ring=BiRing(2,8) kautz=GeneralizedKautz(2,8) --fabric lab.yaml "
        "--collective allgather --out pod"
    )
    assert run("verify-bundle pod")[0]["ok"]

    # A switch is lost: its circuits go to the free plane, and nobody plans anew before they do.
    run("survive --bundle pod --repair switch:p0-s0")
    assert "was not reported done" in run("rewire --bundle pod kautz", code=2)[1]
    run("rewire --bundle pod --done")
    assert run("verify-bundle pod")[0]["ok"]

    # Two people at once: while one repairs a host, the other rewires the bundle that both read.
    before, read = files_of(tmp_path / "pod"), deployed.read

    def read_while_the_other_works(bundle):
        found = read(bundle)
        for place in READERS:
            monkeypatch.setattr(place, read)
        run("rewire --bundle pod kautz")
        return found

    for place in READERS:
        monkeypatch.setattr(place, read_while_the_other_works)
    told = run("survive --bundle pod --repair host:server3", code=2)[1]
    assert "no longer the bundle that was read: nothing was written" in told
    assert files_of(tmp_path / "pod") != before
    run("rewire --bundle pod --done")
    assert run("verify-bundle pod")[0]["ok"]

    # A host is lost: the spare one takes its place. The next one has none: the rest goes on.
    run("survive --bundle pod --repair host:server3")
    run("rewire --bundle pod --done")
    assert run("verify-bundle pod")[0]["ok"]
    run("survive --bundle pod --repair host:server5", code=1)
    run("survive --bundle pod --repair host:server5 --splice anywhere")
    run("rewire --bundle pod --done")
    assert run("verify-bundle pod")[0]["ok"]
