"""Every reader of files, on what is no file and on files that were damaged: a sentence, in time."""

from __future__ import annotations

import io
import json
import os
import random
import re
import sqlite3
import threading
from contextlib import closing, suppress
from importlib.resources import files

import numpy as np
import pytest
from small_design import SMALL

from ocs_codesign.circuits.matrix_files import read_demand
from ocs_codesign.circuits.step_files import read_steps, read_trace
from ocs_codesign.core.networks import formats as network_files
from ocs_codesign.core.networks.builders import star
from ocs_codesign.fabric.bundle.check.files import Findings, table_rows
from ocs_codesign.fabric.files.fabric_files import load_fabric, parse_fabric, save_fabric
from ocs_codesign.fabric.files.workload import load_workload
from ocs_codesign.faces.cli import main
from ocs_codesign.graphs.formats import graph_files
from ocs_codesign.schedules.files.designs import load_design, save_design
from ocs_codesign.search.catalogue.store import Catalogue

EXAMPLES = files("ocs_codesign.faces").joinpath("examples")
TOKENS = (b"9" * 5000, b"-1", b"nan", b"1e999", b"1e-999", b"0x10", b"[", b"{", b'"', b"\xff\xfe")
TOKENS += (b"null", b"x" * 200_000, b"\n", b",", b"true", b"{}", b"-9223372036854775809", b"")
MUTANTS = 40
LONGEST = 2000


def samples():
    """A reader, the file's name and its content, by what it is."""
    example = {path.name: path.read_bytes() for path in EXAMPLES.iterdir() if path.is_file()}
    graph, network = SMALL.schedule.topology, star(4, 100, 5)
    matrix = io.BytesIO()
    np.save(matrix, np.arange(16).reshape(4, 4))
    steps = {"steps": [{"configuration": "a", "size": "4MiB"}] * 2}
    jobs = {"jobs": [{"collective": "alltoall", "message": "64MiB", "gap": "1us", "count": 2}]}
    found = {
        "matrix csv": (read_demand, "m.csv", example["demand.csv"]),
        "matrix json": (read_demand, "m.json", b'{"matrix": [[0, 1], [2, 0]], "unit": "kB"}'),
        "matrix npy": (read_demand, "m.npy", matrix.getvalue()),
        "steps csv": (read_steps, "s.csv", example["steps.csv"]),
        "steps json": (read_steps, "s.json", json.dumps(steps).encode()),
        "trace csv": (read_trace, "t.csv", example["trace.csv"]),
        "trace json": (read_trace, "t.json", json.dumps(jobs).encode()),
        "fabric yaml": (load_fabric, "f.yaml", example["fabric64.yaml"]),
        "workload yaml": (load_workload, "w.yaml", example["moe_workload.yaml"]),
        "neighbours": (_neighbours, "n.csv", example["neighbours.csv"]),
    }
    for kind, module, value in (("graph", graph_files, graph), ("network", network_files, network)):
        read = module.import_graph if kind == "graph" else module.import_network
        for name, one in module.FORMATS.items():
            if one.read is not None and one.write is not None:
                found[f"{kind} {name}"] = (
                    lambda path, read=read, name=name: read(path, name),
                    f"g{(*one.suffixes, '.txt')[0]}",
                    one.write(value, "title").encode(),
                )
    return found


def _neighbours(path):
    damage = Findings(1)
    columns = ("local_host", "local_port", "remote_host", "remote_port")
    table_rows(path.read_bytes(), str(path), columns, damage)


def damaged(content: bytes, rng: random.Random) -> bytes:
    """The content with a part cut out, doubled or overwritten by what no reader expects."""
    words = [match.span() for match in re.finditer(rb"[\w.+-]+", content[:20_000])] or [(0, 0)]
    first, last = rng.choice(words)
    if rng.random() < 0.3:
        first, last = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    middle = rng.choice((*TOKENS, content[first:last] * 2, bytes([rng.randrange(256)])))
    return content[:first] + middle + content[last:]


@pytest.mark.parametrize("name", samples())
def test_damage_is_read_or_refused_in_a_sentence(tmp_path, name):
    read, file, content = samples()[name]
    path = tmp_path / file
    path.write_bytes(content)
    read(path)
    rng, refused = random.Random(name), []
    for _ in range(MUTANTS):
        path.write_bytes(damaged(content, rng))
        try:
            read(path)
        except (ValueError, OSError) as error:
            refused.append(len(str(error)))
    assert name == "neighbours" or refused  # the damage of the former is a finding
    assert max(refused, default=0) < LONGEST


def test_damaged_designs_are_read_or_refused_in_a_sentence(tmp_path):
    place = tmp_path / "d"
    save_design(SMALL, place)
    load_design(place)
    rng = random.Random(1)
    for part in sorted(place.iterdir()):
        content, refused = part.read_bytes(), []
        for _ in range(MUTANTS):
            part.write_bytes(damaged(content, rng))
            try:
                load_design(place)
            except (ValueError, OSError) as error:
                refused.append(len(str(error)))
        assert 0 < max(refused) < LONGEST
        part.write_bytes(content)


FOREIGN = {
    "another column": "ALTER TABLE entry RENAME COLUMN recipe TO name",
    "no table": "DROP TABLE entry",
    "endless": "DROP TABLE question; CREATE VIEW question AS WITH RECURSIVE c(x) AS (SELECT 1 "
    "UNION ALL SELECT x + 1 FROM c) SELECT x AS num_nodes, 4 AS degree, 0 AS bidirectional, "
    "'' AS digest FROM c WHERE x < 0",
    "other types": "DROP TABLE question; CREATE TABLE question (num_nodes, degree, bidirectional, "
    "command, version, seed, time_spent_s, digest); INSERT INTO question VALUES "
    "(8, 4, 0, x'00', 1, 'x', 'y', x'ff')",
}


@pytest.mark.parametrize("case", FOREIGN)
def test_catalogues_of_another_schema_are_refused(tmp_path, capsys, case):
    path = tmp_path / "c.sqlite"
    Catalogue(path, writable=True).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(FOREIGN[case])
    assert (
        main(["catalogue", "find", "--nodes", "8", "--degree", "4", "--catalogue", str(path)]) == 2
    )
    assert "not a catalogue of version 4: its tables are others" in capsys.readouterr().err


LARGE = ["99999999999999999999999", "9" * 5000, "-1", "1e9", "x" * 100_000]


@pytest.mark.parametrize("nodes", LARGE, ids=lambda text: text[:8])
@pytest.mark.parametrize(
    "command",
    [
        ["catalogue", "find", "--degree", "4"],
        ["frontier", "--degree", "4"],
        ["sweep", "--catalogue", "c"],
        ["fabric", "example", "--planes", "4"],
    ],
    ids=" ".join,
)
def test_sizes_beyond_all_bounds_are_refused_in_a_sentence(
    capsys, monkeypatch, tmp_path, command, nodes
):
    monkeypatch.chdir(tmp_path)
    assert main([*command, "--nodes", nodes]) in (1, 2)
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert len(err) < LONGEST


ABOUT = [
    "--delta",
    "1us",
    "--alpha",
    "1us",
    "--bandwidth",
    "1Gbps",
    "--nodes",
    "8",
    "--degree",
    "2",
]
READING = {
    "graph": ["cost", "--graph", "pipe"],
    "import": ["import", "pipe"],
    "plan": ["plan", "pipe", *ABOUT],
    "demand": ["demand", "pipe", "--bandwidth", "1Gbps", "--delta", "1us"],
    "planes": ["planes", "pipe", "--planes", "2", "--bandwidth", "1Gbps", "--delta", "1us"],
    "fabric": ["fabric", "check", "pipe"],
    "workload": ["select", "--fabric", "fabric.yaml", "--workload", "pipe"],
    "verify": ["verify", "pipe"],
    "design": ["verify", "design"],
}


@pytest.mark.parametrize("case", READING)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_pipes_and_devices_are_refused(capsys, monkeypatch, tmp_path, kind, case):
    monkeypatch.chdir(tmp_path)
    save_fabric(parse_fabric(EXAMPLES.joinpath("fabric64.yaml").read_bytes(), "f"), "fabric.yaml")
    save_design(SMALL, tmp_path / "design")
    (tmp_path / "design" / "schedule.npz").unlink()
    for place in (tmp_path / "pipe", tmp_path / "design" / "schedule.npz"):
        if kind == "pipe":
            os.mkfifo(place)
        else:
            place.symlink_to("/dev/zero")
        # Somebody who waits for ever is let go, and then reads an empty file.
        threading.Thread(target=_write_later, args=(place,), daemon=True).start()
    assert main(READING[case]) == 2
    assert "no regular file: pipes and devices are not read" in capsys.readouterr().err


def _write_later(place):
    threading.Event().wait(20)
    with suppress(OSError):  # nobody waits
        os.close(os.open(place, os.O_WRONLY | os.O_NONBLOCK))


def test_the_pipe_of_a_shell_is_read():
    reading, writing = os.pipe()
    os.write(writing, b"0, 1\n1, 0\n")
    os.close(writing)
    assert read_demand(f"/dev/fd/{reading}").num_nodes == 2
    os.close(reading)
