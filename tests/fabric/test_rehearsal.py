"""Rehearsals: what hosts do of a schedule, and fabrics that really come up in namespaces."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec

import numpy as np
import pytest
from bundle_samples import TWO, named, small_deployment, small_fabric, stages_fabric, written
from embed_samples import fabric

from ocs_codesign.core.progress import heard_by
from ocs_codesign.fabric.bundle.read import read_bundle
from ocs_codesign.fabric.bundle.write.bundle import write_with_report
from ocs_codesign.fabric.deployments.deploy import deploy
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.rehearsal import sandbox
from ocs_codesign.fabric.rehearsal.jobs import jobs_of
from ocs_codesign.fabric.rehearsal.network import ends_of, ways_of
from ocs_codesign.faces.cli import main
from ocs_codesign.faces.web.report.report import write_bundle
from ocs_codesign.interop.run import launch


def played(jobs, ways):
    """The jobs of all hosts carried out in memory, step by step; the words that are wrong."""
    for step in range(len(jobs[0].sends)):
        sent = {
            link: np.concatenate([job.start[at : at + n].copy() for at, n, _ in rows])
            for job in jobs
            for link, rows in job.sends[step].items()
        }
        for job in jobs:
            for link, rows in job.gets[step].items():
                words = sent.pop(link)
                for at, n, is_added in rows:
                    part, words = words[:n], words[n:]
                    job.start[at : at + n] = part + (job.start[at : at + n] if is_added else 0)
                assert not len(words)
        assert not sent
    assert len(ways) == sum(len(job.to) for job in jobs)
    return sum(int((job.start[job.want[0]] != job.want[1]).sum()) for job in jobs)


@pytest.mark.parametrize("collective", ["allgather", "reduce-scatter", "allreduce", "alltoall"])
def test_what_hosts_do_is_what_the_collective_demands(collective):
    deployment = deploy(small_fabric(), named(TWO[1]), [collective])
    (made,) = deployment.configurations
    ways = ways_of(made.configuration, ends_of(deployment))
    schedule = made.designs[0].design.schedule
    jobs, chunk = jobs_of(schedule, ways, 100_000, 0.0, 1.0)
    assert chunk % 8 == 0
    assert chunk * schedule.num_chunks * 8 <= 100_000 * (8 if collective == "alltoall" else 1)
    assert played(jobs, ways) == 0
    jobs, _ = jobs_of(schedule, ways, 1000, 0.0, 1.0)
    np.add(jobs[0].start, np.uint64(1), out=jobs[0].start)
    assert played(jobs, ways) > 0


def test_the_way_of_a_link_is_that_of_its_light():
    deployment = small_deployment()
    for made in deployment.configurations:
        for link, way in enumerate(ways_of(made.configuration, ends_of(deployment))):
            topology, host = made.configuration.topology, made.configuration.host
            assert (way.tail, way.head) == (host[topology.tail[link]], host[topology.head[link]])
            assert (way.leaves[-1], way.arrives[-1]) == ("t", "r")


@pytest.mark.parametrize("tool", ["unshare", "ip", "tc"])
def test_a_machine_without_tools_says_which(tool, monkeypatch, tmp_path, capsys):
    bundle = written(small_deployment(), tmp_path / "bundle")
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: None if name == tool else name)
    assert main(["rehearse", str(bundle)]) == 2
    assert f"a rehearsal needs {tool}, of the package" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("tbf (sch_tbf, a kernel module)\n", "needs tbf .sch_tbf, a kernel module., which this"),
        ("", "needs user namespaces"),
    ],
)
def test_a_kernel_without_parts_says_which(said, words, monkeypatch):
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: name)
    done = subprocess.CompletedProcess([], 0, said, "")
    monkeypatch.setattr(sandbox.subprocess, "run", lambda *_, **__: done)
    with pytest.raises(ValueError, match=words):
        sandbox.in_namespaces({})


def test_faults_are_checked_first(tmp_path, capsys):
    bundle = written(small_deployment(), tmp_path / "bundle")
    for fault in ("p0s0", "fan:p0s0", "port:p0s0:1A@soon", "host@1"):
        assert main(["rehearse", str(bundle), "--fault", fault]) == 2
        assert "it must be as port:SWITCH:1A@0.5" in capsys.readouterr().err
    for words in (["--fault", "controller@1"], ["--undrained"]):
        assert main(["rehearse", str(bundle), *words]) == 2
        assert "only with --to" in capsys.readouterr().err
    for words in (["rehearse"], ["rehearse", str(bundle), "--down"]):
        assert main(words) == 2
        assert "give a bundle, or --down alone" in capsys.readouterr().err


def test_mpi_that_is_missing_is_said_first(tmp_path, monkeypatch, capsys):
    bundle = written(small_deployment(), tmp_path / "bundle")
    monkeypatch.setattr(launch, "find_spec", lambda _: None)
    assert main(["rehearse", str(bundle), "--mpi"]) == 2
    assert "mpi4py is missing: pip install mpi4py" in capsys.readouterr().err


def lacking():
    """What this machine lacks for rehearsals, by the probe that the product asks."""
    try:
        sandbox.unshared()
    except ValueError as error:
        return str(error)
    return None


def rehearsed(capsys, bundle, *arguments):
    """The exit code and the answer; None where the machine cannot rehearse and says so."""
    lacks = lacking()
    words = ("rehearse", bundle, "-m", "100kB", "--slower", 12_500, *arguments, "--json", "-")
    code = main([str(each) for each in words])
    out, err = capsys.readouterr()
    if lacks is not None:
        assert (code, out) == (2, "")
        assert lacks in err
        assert "a rehearsal needs " in lacks
        return None
    return code, json.loads(out)


CHANGED = {
    "version": (lambda told: told.update(version=2), "only version 1 is known"),
    "keys": (lambda told: told.pop("slower"), "it must be an object of"),
    "rows": (lambda told: told["circuits"].append({}), "circuits must be a list of objects of"),
    "name": (lambda told: told.update(configuration="c"), "the bundle has none of that name"),
    "id": (lambda told: told["circuits"][3].update(id="p0s0:1A-1B"), r"circuits\[3\] is 'p0s0:1A"),
    "few": (lambda told: told["circuits"].pop(), "it has 15 circuits: 16 links are up"),
    "bytes": (lambda told: told["circuits"][0].update(loaded_bytes=1), "what it lists does not"),
}


@pytest.mark.parametrize("what", [None, *CHANGED])
def test_a_bundle_keeps_its_rehearsal_which_is_checked(what, tmp_path):
    deployment = deploy(small_fabric(planes=2), named(TWO[0]))
    ways = ways_of(deployment.configurations[0].configuration, ends_of(deployment))
    circuits = [{"id": way.name, "loaded_bytes": 8, "counted_bytes": 8} for way in ways]
    collective = {"name": "allgather", "results_exact": True, "seconds": None}
    told = {"format": "ocs-codesign rehearsal", "version": 1, "ok": True, "configuration": "ring"}
    told |= {"message_bytes": 64, "slower": 1, "neighbours": "valid", "left_behind": 0}
    told |= {"collectives": [collective | {"simulated_seconds": 1.0}], "circuits": circuits}
    told |= {"change": None, "faults": [], "mpi": []}
    if what is not None:
        CHANGED[what][0](told)
        write_with_report(deployment, tmp_path / "bundle", lambda *_: "", told)
        with pytest.raises(ValueError, match=f"rehearsal.json: .*{CHANGED[what][1]}"):
            read_bundle(tmp_path / "bundle")
        return
    write_bundle(deployment, tmp_path / "bundle", told)
    assert 'id="rehearsal"' in (tmp_path / "bundle" / "report.html").read_text("utf-8")
    again = write_bundle(read_bundle(tmp_path / "bundle"), tmp_path / "again")
    assert "rehearsal.json" not in again["files"]


SHAPES = {
    "two-sided": lambda: deploy(small_fabric(PortModel.TWO_SIDED, 2), named(TWO[0])),
    "three stages": lambda: deploy(stages_fabric(), named(TWO[0])),
    "odd": lambda: deploy(fabric(7, [[7]] * 2), named(("odd", "DirectedCirculant(7, (1, 2))"))),
}


@pytest.mark.rehearsal
@pytest.mark.parametrize("shape", SHAPES)
def test_a_fabric_comes_up_and_its_bytes_are_its_loads(shape, tmp_path, capsys):
    bundle, out = written(SHAPES[shape](), tmp_path / "bundle"), tmp_path / "rehearsed"
    done = rehearsed(capsys, bundle, "--out", out)
    if done is not None:
        code, answer = done
        keys = {"up", "neighbours", "collectives", "circuits", "faults", "left_behind"}
        assert set(answer) == keys | {"answer"}
        assert (answer["up"], answer["neighbours"], answer["left_behind"]) == (True, "valid", 0)
        assert all(each["results_exact"] for each in answer["collectives"])
        for row in answer["circuits"]:
            assert row["loaded_bytes"] == row["counted_bytes"] > 0, row
        assert code == 0
        assert (main(["verify-bundle", str(out)]), (out / "rehearsal.json").exists()) == (0, True)


FAULTS = {
    "port:p0s0:3A": "port:p0s0:3A",
    "silent:p1s0:2A-3B": "port:p1s0:2A",
    "agent:p1s0": "agent:p1s0",
    "host:h3": "host:h3",
}


@pytest.mark.rehearsal
def test_what_fails_is_named_and_repaired_live(tmp_path, capsys):
    recipe = named(("ring", "DirectedCirculant(8, (1, 2))"))
    bundle = written(deploy(small_fabric(), recipe), tmp_path / "bundle")
    faults = [word for fault in FAULTS for word in ("--fault", f"{fault}@0.05")]
    done = rehearsed(capsys, bundle, *faults, "--repair")
    if done is not None:
        code, answer = done
        for row in answer["faults"]:
            assert set(row) == {"component", "named", "repaired"}
            assert (FAULTS[row["component"]] in row["named"], row["repaired"]) == (True, True), row
        for row in answer["circuits"]:
            assert row["loaded_bytes"] == row["counted_bytes"] > 0, row
        assert (code, answer["left_behind"], len(answer["faults"])) == (0, 0, len(FAULTS))


@pytest.mark.rehearsal
def test_a_change_under_traffic_loses_nothing_and_its_fabric_can_be_controlled(tmp_path, capsys):
    deployment = small_deployment()
    bundle, (first, second) = written(deployment, tmp_path / "bundle"), deployment.names
    faults = ("--fault", "controller@0.05", "--keep")
    done = rehearsed(capsys, bundle, "--to", second, *faults)
    if done is not None:
        assert (done[0], done[1]["neighbours"]) == (0, "valid")
        switches = tmp_path / "switches.yaml"
        inside = min(sandbox.left(sandbox.KEPT))
        switches.write_text(f"socket: /proc/{inside}/root/run/switches/{{switch}}.sock\n")
        for number, to in enumerate((second, first)):
            words = ["control", str(bundle), "--switches", str(switches), "--to", to, "--json", "-"]
            assert main(words) == 0
            assert bool(json.loads(capsys.readouterr().out)["commands"]) == bool(number)
        assert main(["rehearse", "--down"]) == 0
        assert "processes ended" in capsys.readouterr().out


@pytest.mark.rehearsal
@pytest.mark.skipif("lacking() is not None", reason="this machine cannot rehearse")
def test_mpi_goes_by_the_circuits(tmp_path, capsys):
    small = fabric(5, [[8]] * 2, spares=2, spare_hosts=1)
    bundle = written(deploy(small, named(("ring", "BiRing(2, 4)"))), tmp_path / "bundle")
    faults = ["--fault", "host:h3", "--repair"]  # then a rank is on a spare host
    words = ["rehearse", str(bundle), "-m", "20kB", "--slower", "5000", "--mpi", *faults]
    code, (out, err) = main(words), capsys.readouterr()
    if find_spec("mpi4py") is None or shutil.which("mpirun") is None:
        assert (code, "is missing: " in err) == (2, True)
    else:
        assert code == 0
        assert "over MPI: allreduce equal to MPI's own bit by bit" in out


@pytest.mark.rehearsal
@pytest.mark.skipif("lacking() is not None", reason="this machine cannot rehearse")
def test_what_a_change_that_nobody_drained_for_loses_is_counted(tmp_path):
    pair = named(("a", "DirectedCirculant(8, (1, 2))"), ("b", "GeneralizedKautz(2, 8)"))
    bundle = written(deploy(small_fabric(planes=2), pair), tmp_path / "bundle")
    asked = {"bundle": str(bundle), "to": "b"}
    asked |= {"kinds": [], "message": 100_000, "slower": 12_500, "faults": [], "repair": False}
    phases = []
    with heard_by(lambda phase, *_: phases.append(phase)):
        answer = sandbox.in_namespaces(asked | {"is_drained": False, "keep": False})
    told = ["Bringing up the fabric", "Leading the switches to b", "Running the allreduce"]
    assert sorted(told, key=phases.index) == told
    change = answer["change"]
    missing = change["sent_bytes"] - change["received_bytes"]
    assert missing == sum(change["lost_bytes"].values()) > 0
    assert sum(change["ended_by_stage"]) == len(change["lost_bytes"])
    assert min(change["lost_bytes"].values()) >= 0
    assert (change["num_wrong"], change["kept_named"], change["commands_again"]) == (0, 0, 0)
    assert all(row["loaded_bytes"] == row["counted_bytes"] for row in answer["circuits"])


@pytest.mark.rehearsal
@pytest.mark.skipif("lacking() is not None", reason="this machine cannot rehearse")
@pytest.mark.parametrize("word", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_of_a_rehearsal_that_was_killed(tmp_path, word):
    bundle = written(small_deployment(), tmp_path / "bundle")
    words = [sys.executable, "-m", "ocs_codesign", "rehearse", str(bundle)]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, **pipes, start_new_session=True) as process:
        while len(sandbox.left(str(process.pid))) < 10:
            assert process.poll() is None
            time.sleep(0.05)
        os.killpg(process.pid, word)  # as a terminal does: everything that is in front
        said = process.stderr.read()
    while sandbox.left(str(process.pid)):
        time.sleep(0.05)
    assert "Traceback" not in said
    assert word == signal.SIGKILL or "Interrupted" in said
