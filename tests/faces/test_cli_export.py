"""``export``, and ``verify`` and ``import`` of what it wrote: the contract of every format."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lowering_samples import DESIGNS, plan

from ocs_codesign.core.collective import WITHOUT_PARAMETERS, Collective
from ocs_codesign.core.networks.builders import direct
from ocs_codesign.core.plans import Book, Page
from ocs_codesign.faces.cli import main
from ocs_codesign.graphs.text import parse
from ocs_codesign.interop.exports import exported, imported, programs_in, save_export
from ocs_codesign.interop.registry import FORMATS
from ocs_codesign.schedules.classic.registry import CLASSIC
from ocs_codesign.schedules.design import build, verified
from ocs_codesign.schedules.files.books import save_book
from ocs_codesign.schedules.files.designs import load_design, save_design
from ocs_codesign.verification.schedules import verify

WRITTEN = [name for name, one in FORMATS.items() if one.write is not None]
READ = [name for name in WRITTEN if FORMATS[name].read is not None]
SIZES = ("--message", "1MiB", "--bandwidth", "400Gbps", "--latency", "500ns")


def run(capsys, *arguments):
    code = main([*map(str, arguments)])
    streams = capsys.readouterr()
    return code, streams.out, streams.err


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    """A saved design that every format can carry: an allgather on a ring."""
    path = tmp_path_factory.mktemp("saved") / "ring"
    save_design(build("UniRing(1, 4)"), path)
    return path


@pytest.mark.parametrize("name", WRITTEN)
def test_every_format_leaves_and_is_verified(name, ring, tmp_path, capsys):
    out, answer = tmp_path / "out", tmp_path / "answer.json"
    arguments = ("export", ring, "--format", name, "--out", out, *SIZES)
    code, text, errors = run(capsys, *arguments, "--json", answer)
    assert (code, errors) == (0, "")
    assert FORMATS[name].made_for in text
    facts = json.loads(answer.read_text())
    assert set(facts["files"]) == {
        str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()
    } - {"export.json"}
    first = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert run(capsys, *arguments)[0] == 0
    assert {path: path.read_bytes() for path in first} == first
    if FORMATS[name].read is None and FORMATS[name].check is None:
        assert run(capsys, "verify", out)[2] == (
            f"Error: {out}: an export to {name} cannot be verified\n"
        )
        return
    code, text, errors = run(capsys, "verify", out, "--json", answer)
    assert (code, errors) == (0, "")
    (found,) = json.loads(answer.read_text())["files"]
    assert found["ok"]
    if FORMATS[name].read is not None:
        assert (found["steps"], found["t_b"]) == (3, "3/4")


@pytest.mark.parametrize("name", READ)
def test_what_was_imported_is_a_design(name, ring, tmp_path, capsys):
    out = tmp_path / "out"
    assert run(capsys, "export", ring, "--format", name, "--out", out, *SIZES)[0] == 0
    ((path, _),) = programs_in(out)
    saved = tmp_path / "saved"
    code, _, errors = run(capsys, "import", path, "--format", name, "--out", saved)
    assert (code, errors) == (0, "")
    assert verify(load_design(saved).schedule).cost == verify(load_design(ring).schedule).cost


def _round_trip(name, plan_, network, directory, *, in_place=False):
    """The cost of what is read back from what leaves."""
    one = exported("one", plan_, network, message_bytes=2**20, unit_Bps=1, in_place=in_place)
    save_export(FORMATS[name].write(one), {"to": name}, directory)
    ((path, _),) = programs_in(directory)
    found = imported(path, name)
    assert found.witness is None
    return found.verdict.cost


def has_parallel_links(topology):
    ends = zip(topology.tail.tolist(), topology.head.tolist(), strict=True)
    return len(set(ends)) < topology.num_links


@pytest.mark.slow
@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("collective", WITHOUT_PARAMETERS, ids=lambda each: each.name)
def test_every_design_comes_back_at_its_cost(name, collective, tmp_path):
    for number, design in enumerate(DESIGNS):
        made = plan(design, collective)
        if name == "mscclpp" and has_parallel_links(made.topology):
            continue  # a plan has one link where a design has several
        network = direct(parse(design), 1)
        in_place = number % 2 == 1 and collective.name != "alltoall"
        cost = _round_trip(name, made, network, tmp_path / str(number), in_place=in_place)
        assert cost == verify(made).cost, design


def test_a_book_leaves_page_after_page(tmp_path, capsys):
    network = direct(parse("UniRing(1, 5)"), 1)
    pages = (
        Page(0, "bfb", plan("UniRing(1, 5)", Collective.ALLGATHER)),
        Page(4096, "ring", CLASSIC["ring"].messages("allgather", 5)),
    )
    save_book(Book(network, 10**9, Collective.ALLGATHER, pages), tmp_path / "book")
    out = tmp_path / "out"
    assert (
        run(capsys, "export", tmp_path / "book", "--format", "program-json", "--out", out)[0] == 0
    )
    assert {path.name for path in out.iterdir()} == {"1-bfb", "2-ring", "export.json"}
    code, text, errors = run(capsys, "verify", out)
    assert (code, errors) == (0, "")
    assert text.count("Valid:") == 2
    one = ("--message", "1KiB", "--out", out)
    assert run(capsys, "export", tmp_path / "book", "--format", "program-json", *one)[0] == 0
    assert {path.name for path in out.iterdir()} == {"1-bfb", "export.json"}


def test_a_change_in_a_file_is_found(ring, tmp_path, capsys):
    out = tmp_path / "out"
    assert run(capsys, "export", ring, "--format", "program-json", "--out", out)[0] == 0
    ((path, _),) = programs_in(out)
    record = json.loads(path.read_text())
    record["target"][-1] = (record["target"][-1] + 1) % 4
    path.write_text(json.dumps(record))
    code, text, errors = run(capsys, "verify", out)
    assert (code, errors) == (1, "")
    assert "Not valid: " in text
    saved = tmp_path / "saved"
    assert run(capsys, "import", path, "--format", "program-json", "--out", saved)[0] == 1
    assert not saved.exists()


def test_bad_input(ring, tmp_path, capsys):
    def sentence(*arguments):
        code, _, errors = run(capsys, *arguments)
        assert code == 2
        assert errors.count("\n") == 1
        return errors

    out = tmp_path / "out"
    export = ("export", ring, "--out", out, "--format")
    assert "--message says which" in sentence(*export, "chakra")
    assert "is for books" in sentence(*export, "nccl-tuner")
    assert "no such file" in sentence("export", tmp_path / "none", "--out", out, "--format", "json")
    assert not out.exists()
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    assert "mine.txt" in sentence(*export, "json")
    (out / "export.json").write_text('{"to": "json", "files": ["../mine"]}')
    assert "index of an export" in sentence("verify", out)
    (out / "export.json").write_text('{"to": "no format", "files": []}')
    assert "cannot be verified" in sentence("verify", out)
    assert [path.name for path in out.iterdir() if path.suffix == ".txt"] == ["mine.txt"]


def test_circuits_that_change_do_not_leave(tmp_path, capsys):
    recipes = "DirectedCirculant(8, (1,))", "DirectedCirculant(8, (3,))"
    command = ("sequence", *recipes, "--steps-each", "4", "--out", tmp_path / "switched")
    assert run(capsys, *command)[0] == 0
    arguments = ("--format", "json", "--out", tmp_path / "out")
    code, _, errors = run(capsys, "export", tmp_path / "switched", *arguments)
    assert code == 2
    assert "no format can carry that" in errors
    assert not Path(tmp_path / "out").exists()


def test_a_schedule_over_switches_leaves(tmp_path, capsys):
    out = tmp_path / "trees"
    command = ("build", "--network", "star(4, 10)", "--parts", "2", "--out", out)
    assert run(capsys, *command)[0] == 0
    exports = tmp_path / "out"
    assert run(capsys, "export", out, "--format", "program-json", "--out", exports)[0] == 0
    assert run(capsys, "verify", exports)[0] == 0
    assert verified(None, load_design(out).schedule, "forest").cost is not None


@pytest.mark.parametrize("form", ["msccl", "rccl", "mscclpp", "program-npz", "json"])
def test_export_counts_operations_as_verify_does(tmp_path, capsys, form):
    words = ["export", "Torus((2,2))", "--collective", "allreduce", "--format", form]
    counts = []
    for command in ([*words, "--out", str(tmp_path / "e")], ["verify", str(tmp_path / "e")]):
        assert main([*command, "--json", "-"]) == 0
        told = json.loads(capsys.readouterr().out)
        (plan,) = told["files"] if command[0] == "verify" else told["of"]["plans"]
        counts.append(plan["operations"])
    assert counts[0] in (counts[1], None)
