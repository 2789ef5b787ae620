"""Absurd sizes are refused, or answered in closed form, by counting before anything is built."""

from __future__ import annotations

import io
import itertools
import os
import pickle
import random
import re
import resource
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from ocs_codesign.core import topology
from ocs_codesign.core.networks.formats import import_network
from ocs_codesign.core.topology import Topology, in_neighbours
from ocs_codesign.faces.cli import COMMANDS, app, main
from ocs_codesign.graphs.formats.graph_files import FORMATS, import_graph
from ocs_codesign.graphs.registry import EXPANSIONS, FAMILIES, GROUPS
from ocs_codesign.graphs.text import parse, parse_network
from ocs_codesign.schedules.design import measure, predict
from ocs_codesign.schedules.files.archive import read_archive

ABSURD = ("1000000", "9999991", "2147483647", "1073741824", "10" * 15, "9" * 400)
NETWORKS = (
    "torus((4, 4), 1)",
    "mesh((4, 4), 1)",
    "star(8, 1)",
    "fat_tree((4, 4), (1, 2), 1)",
    "boxes(4, 8, 10, 1)",
    "leaf_spine(3, 3, 2, 4, 3)",
    *(f"{name}(2)" for name in ("a100", "h100_rail", "mi250", "ndv2", "dgx2")),
    "servers(4, star(8, 1), star(8, 1))",
)
NUM_TEXTS = 400
MEMORY_BYTES, SECONDS_A_TEXT = 300 * 2**20, 1


def absurd_texts(number: int) -> list[str]:
    """Calls of everything that has a size, some of the numbers in them absurd."""
    kinds = {**FAMILIES, **EXPANSIONS, **GROUPS}
    calls = [f"{name}({sample})" for name in kinds for sample in kinds[name].samples]
    calls = [
        f"Cayley({call}, (1,))" if call.partition("(")[0] in GROUPS else call for call in calls
    ]
    calls += NETWORKS
    draw = random.Random(19)
    texts = []
    while len(texts) < number:
        call = draw.choice(calls)
        places = [match.span() for match in re.finditer(r"\b\d+\b", call)]
        if not places:
            continue
        for begin, end in sorted(draw.sample(places, draw.randint(1, len(places))), reverse=True):
            call = call[:begin] + draw.choice(ABSURD) + call[end:]
        texts.append(call)
    return texts


def ask(text: str) -> None:
    """What commands do with a recipe or a network first."""
    try:
        if text.partition("(")[0] in {one.partition("(")[0] for one in NETWORKS}:
            parse_network(text)
            return
        recipe = parse(text)
        predict(recipe)
        measure(recipe, confirm=False, max_work=2**20)
        recipe.topology()
    except ValueError:
        pass


def limit_all(number: int) -> None:
    """From here on so much more memory, and so long for all."""
    pages = int(open("/proc/self/statm", encoding="ascii").read().split()[0])  # noqa: SIM115
    most = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CPU, (number * SECONDS_A_TEXT,) * 2)


def ask_all() -> None:
    """In a process of its own, which may take so much more than it has, and so long for all."""
    texts = absurd_texts(NUM_TEXTS)
    for text in ("GeneralizedKautz(2, 9)", "Late(GeneralizedKautz(2, 9), 4, 10, 1)"):
        ask(text)  # what is loaded once
    limit_all(NUM_TEXTS)
    for text in texts:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
        ask(text)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are those of Linux")
def test_absurd_sizes_are_refused_or_answered_by_counting():
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=False)
    last = done.stdout.splitlines()[-1] if done.stdout else ""
    assert done.returncode == 0, (last, done.stderr[-400:])
    assert done.stdout.count("\n") == NUM_TEXTS


LARGE_TORUS = "Torus((1000000, 1000000))"
REFUSED = {
    "allocate": "gpt3_budget.yaml --total 600000000000GB/s --unit 1B/s",
    "astra-sim": "'Torus((1000,1000))' --message 9MiB --bandwidth 400Gbps --latency 500ns",
    "build": f"'{LARGE_TORUS}' --collective alltoall --out b",
    "catalogue alltoall": "--nodes 2-1000000 --degree 2-8 --catalogue x.sqlite",
    "catalogue find": "--nodes 999999999 --degree 4",
    "catalogue gaps": "--nodes 65-1000000 --degree 2-4",
    "catalogue improve": "--nodes 2-10000000 --degree 2-8 --catalogue x.sqlite",
    "cluster": "--gpus 1000000000000",
    "compare": "'star(100000000, 1)'",
    "compare-policies": "llama3_70b.yaml h100x64.yaml --ranks 1000000000000",
    "cost": "'GeneralizedKautz(4,10000000)'",
    "deploy": f"'{LARGE_TORUS}' --fabric fabric64.yaml --out b",
    "exhaust": "--nodes 1000000 --degree 4",
    "explore": "--nodes 2-1000000 --degree 2-8 --out e",
    "export": "'Complete(3000)' --format msccl --out e",
    "fabric example": "--nodes 1000000000 --planes 4",
    "frontier": "--nodes 1-1048576 --degree 1-1048576",
    "fuse": "gemm --ranks 800000000000 --alpha 2us --bandwidth 400Gbps",
    "iterate": "llama3_70b.yaml h100x64.yaml --ranks 1000000000000",
    "library-time": "--machine dgx-h100 --nodes 2 --ranks 16000000000 --message 1KiB",
    "optimum": "'h100_rail(100000000)'",
    "paths": f"'{LARGE_TORUS}'",
    "place": "groups.yaml 'h100_rail(100000000)'",
    "plan": "trace.csv --nodes 1000000000 --degree 4",
    "planes": "steps.csv --planes 2000000000 --bandwidth 400Gb/s --delta 200us",
    "pod cost": "4x4x400000",
    "pod design": "--cubes 1000000000",
    "pod goodput": "--cubes 1000000000 --availability 0.9",
    "pod survive": "400x400x400 --lost switch:2:5",
    "rewire": "'DirectedCirculant(99999999,(1,3))' 'GeneralizedKautz(2,99999999)' --what-if",
    "run": "'Complete(100000)'",
    "select": f"--fabric fabric64.yaml --workload moe_workload.yaml --designs '{LARGE_TORUS}'",
    "sequence": f"'{LARGE_TORUS}' '{LARGE_TORUS}' --out s",
    "simulate": "'Torus((4000,4000))' --message 1GiB --bandwidth 1Gbps",
    "sweep": "--nodes 2-1000000 --degree 2-4 --catalogue x.sqlite",
    "topology": "'Circulant(9999991, (1, 2))'",
    "verify": "'Hypercube(40)'",
}
"""A line of every command that is told a size."""
MORE_REFUSED = (
    "optimum 'Hamming(13,3)'",
    "build 'Line(Line(Line(Line(Line(Complete(9))))))' --out b",
    "frontier --nodes 100003 --degree 4 --collective alltoall",
    "pod cost rows:999999999,0,0/0,2,2/0,0,4",
)
READ_FILES = {
    *("calibrate", "control", "demand", "example", "import", "measure", "rehearse", "survive"),
    *("switch-agent", "verify-bundle", "catalogue export", "catalogue show", "catalogue verify"),
    *("codesign", "fabric check", "fabric netbox", "fabric profiles", "fabric schema", "pod pack"),
}
"""Those that are told none: what they read is counted by its readers."""


def test_every_command_is_asked():
    names = set()
    for name in COMMANDS:
        parts = getattr(app.get_command(None, name), "commands", None)
        names |= {f"{name} {part}" for part in parts} if parts else {name}
    assert names == {*REFUSED, *READ_FILES}


@pytest.mark.parametrize("line", [*(" ".join(pair) for pair in REFUSED.items()), *MORE_REFUSED])
def test_commands_refuse_absurd_sizes(monkeypatch, capsys, tmp_path, line):
    """Nothing that has the size is built: one sentence comes before."""
    monkeypatch.chdir(tmp_path)
    assert main(["example", "."]) == 0
    capsys.readouterr()
    there = {*tmp_path.iterdir()}
    monkeypatch.setattr(topology.Topology, "__init__", built)
    assert main(shlex.split(line)) == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith("Error: ")
    assert "No such option" not in told
    assert "Missing" not in told
    assert {*tmp_path.iterdir()} == there


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("frontier --nodes 1048573 --degree 4", "no topology of 1048573 .* 4194292 links"),
        ("build --network 'star(65537,1)' -c alltoall --out b", "makes alltoall .*4,295,032,832"),
        ("place groups.yaml 'star(65537,1)'", "65537 hosts: ranks are placed on 8192"),
    ],
)
def test_why_nothing_of_a_size_is_known(monkeypatch, capsys, tmp_path, line, words):
    monkeypatch.chdir(tmp_path)
    assert main(["example", "."]) == 0
    assert main(shlex.split(line)) == 2
    assert re.search(words, capsys.readouterr().err)


LARGE = [
    ["optimum", "ndv2(65537)"],
    ["optimum", "a100(100003)"],
    ["optimum", "star(65537, 1)"],
    ["optimum", "star(2048, 1)", "--losses"],
    ["optimum", "star(2048, 1)", "--slack"],
    ["compare", "ndv2(65537)", "--workers", "1"],
    ["compare", "star(65537, 1)", "--bandwidth", "1Gbps", "--workers", "1"],
    ["iterate", "groups.yaml", "--network", "a100(100003)"],
    ["iterate", "groups.yaml", "--network", "ndv2(65537)"],
    ["cost", "GeneralizedKautz(100003, 8)", "-s", "late", "--time-limit", "2s"],
    ["paths", "GeneralizedKautz(4, 8194)"],
    ["paths", "GeneralizedKautz(4, 8194)", "--routing", "disjoint"],
]
"""Of sizes that can be built, and not be solved."""


@pytest.mark.parametrize("words", LARGE, ids=" ".join)
def test_what_is_solved_is_counted_first(monkeypatch, capsys, tmp_path, words):
    """One sentence with the count and the limit, before any distance, flow or program is."""
    monkeypatch.chdir(tmp_path)
    assert main(["example", "."]) == 0
    capsys.readouterr()
    for place in ("forest.optimum._narrowest", "stepped.late.bfb_loads"):
        monkeypatch.setattr(f"ocs_codesign.schedules.{place}", built)
    if words[0] == "paths":
        monkeypatch.setattr(topology, "all_distances", built)
    assert main(words) == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith("Error: ")
    assert len(re.findall(r"\d{4,}|\d,\d{3}", told)) >= 2, told


def test_tables_of_all_pairs_are_counted_first():
    """Of neighbours where one node has all, and of distances: neither takes memory first."""
    nodes = np.arange(2**15)
    star = Topology(2**15, [*np.zeros_like(nodes), *nodes], [*nodes, *np.zeros_like(nodes)])
    with pytest.raises(ValueError, match="32768 nodes with 32767 neighbours each is too large"):
        in_neighbours(star)
    with pytest.raises(ValueError, match="32768 nodes with 32768 nodes at all distances each"):
        Topology(2**15, nodes, np.roll(nodes, 1)).distances()


HUGE = 10**11
CONTENTS = {
    "cut short": b"0 1\n",
    "cut short in JSON": b'{"nodes": [',
    "cut short in XML": b"<graphml>",
    "as large as is read": b"0 1\n1 0\n" + bytes(2**26 - 8),
    "as large, JSON": b'{"directed": ' + bytes(2**26 - 13),
    "lines": b"0 1\n" * 2**24,
    "values": b"[" + b"0," * (2**25 - 1) + b"0",
    "lists": b'{"nodes": ' + b"[]," * (2**24),
    "tags": b"<graphml>" + b"<a/>" * (2**24 - 3),
    "deep tags": b"<graphml>" + b"<a>" * 2**22,
    "deep lists": b'{"nodes": ' + b"[" * 2**22,
    "a long name": b"0 " + b"1" * (2**26 - 2),
    "a long name in JSON": b'{"nodes": [{"id": "' + b"n" * 2**25 + b'"}], "links": []}',
    "a long number": b'{"nodes": [{"id": ' + b"9" * 10**6 + b'}], "links": []}',
    "a long name in XML": b'<graphml><graph edgedefault="directed"><node id="'
    + b"n" * 2**25
    + b'"/></graph></graphml>',
    "a claim": b'{"num_hosts": 1000000000000, "num_nodes": 1000000000000, "links": [[0, 1, 1]]}',
    "a header that claims": b"%%MatrixMarket matrix coordinate pattern general\n"
    b"1000000000000 1000000000000 2\n1 2\n2 1\n",
    "a pickle": pickle.dumps({0: {1: {}}, 1: {0: {}}}),
    "DOT": b"digraph{0->1000000000000}",
    "GML": b"graph [ node [ id 1000000000000 ] ]",
    "inflated": b"",
}
READERS = [
    *itertools.product((import_graph, import_network), (".edges", ".json", ".graphml")),
    (read_archive, ".npz"),
]


def inflated() -> bytes:
    """An npz of half a megabyte whose columns become so much that no memory holds them."""
    content, header = io.BytesIO(), io.BytesIO()
    columns = {"descr": "<i8", "fortran_order": False, "shape": (2**24,)}
    np.lib.format.write_array_header_1_0(header, columns)
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in ("root", "tail", "head", "lo", "hi"):
            archive.writestr(f"{name}.npy", header.getvalue() + bytes(2**27))
    return content.getvalue()


def read_all(directory: Path) -> None:
    """Every content as a graph, a network and a schedule, under every suffix."""
    sound = Topology(2, [0, 1], [1, 0])
    for form in ("edgelist", "graphml", "json"):  # what is loaded once
        text = FORMATS[form].write(sound, "sound").encode()
        assert FORMATS[form].read(text, "sound") == sound
    limit_all(len(CONTENTS) * len(READERS))
    for content, data in CONTENTS.items():
        path = directory / "absurd"
        path.write_bytes(inflated() if content == "inflated" else data)
        if content.startswith("cut short"):
            os.truncate(path, HUGE)
        for read, suffix in READERS:
            sys.stdout.write(f"{read.__name__} {suffix} {content}\n")
            sys.stdout.flush()
            try:
                read(path.rename(path.with_suffix(suffix)))
            except ValueError as error:
                if "\n" in str(error) or len(str(error)) > 500:
                    raise AssertionError(str(error)) from None
            else:
                raise AssertionError("it was read")
            path.with_suffix(suffix).rename(path)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are those of Linux")
def test_absurd_files_are_refused_by_counting(tmp_path):
    command = [sys.executable, __file__, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout.splitlines()[-1:], done.stderr[-400:])
    assert done.stdout.count("\n") == len(CONTENTS) * len(READERS)


def test_far_numbers_of_nodes_are_names(tmp_path):
    """Who numbers nodes by 10^12 has as many as there are names."""
    path = tmp_path / "far.edges"
    path.write_text("0 999999999999\n999999999999 0\n", encoding="utf-8")
    assert import_graph(path).num_nodes == 2


def built(*_args, **_options):
    raise AssertionError("a topology was built")


if __name__ == "__main__":
    read_all(Path(sys.argv[1])) if sys.argv[1:] else ask_all()
