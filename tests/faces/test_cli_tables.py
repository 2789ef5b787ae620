"""Tables of any answer: what fits a narrow terminal, all of it as CSV, and ranges of numbers."""

from __future__ import annotations

import csv
import io
import re
from importlib import import_module

import click
import pytest
from folders import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from test_cli_vocabulary import EVERY

from ocs_codesign.faces.answers.declared import records
from ocs_codesign.faces.answers.sections import Table
from ocs_codesign.faces.cli import main
from ocs_codesign.faces.cli.commands import WholeNumbers, spelled
from ocs_codesign.faces.cli.output import show_table

CLI = ROOT / "ocs_codesign" / "faces" / "cli"
SHARED = {"--nodes", "--degree", "--message"}
ONE = {
    *("build --message", "deploy --message", "sequence --message", "simulate --message"),
    *("astra-sim --message", "export --message", "run --message", "allocate --message"),
    *("plan --nodes", "plan --degree", "fabric example --nodes", "library-time --nodes"),
    *("calibrate --nodes", "rehearse --message"),
}
"""Where there is one by what is asked: a design, a trace, a machine."""


@st.composite
def tables(draw: st.DrawFn) -> Table:
    numbers, others, texts = (draw(st.integers(0, most)) for most in (8, 2, 2))
    columns = [f"column {at}" for at in range(numbers + others + texts)]
    if not columns:
        columns, texts = ["only"], 1
    if others:
        columns[numbers + others - 1] = "handle"
    cell = st.text("0123456789/.#abcdef", min_size=1, max_size=12)
    words = st.lists(st.text("abcdef", min_size=1, max_size=7), min_size=1, max_size=9)
    row = [cell] * (len(columns) - texts) + [words.map(" ".join)] * texts
    rows = draw(st.lists(st.tuples(*row), min_size=1, max_size=4))
    return Table(tuple(columns), rows, numbers, texts, cut=draw(st.booleans()))


@settings(max_examples=40)
@given(st.lists(st.lists(st.text("abcdef", min_size=1, max_size=16), min_size=3, max_size=9)))
def test_words_of_texts_that_fold_are_not_broken(texts):
    """Three columns of them, at 80 characters: columns of numbers go before a word is broken."""
    cells = [" ".join(words) for words in texts]
    rows = [("1234567890", "12.5 ms", cell, cell[::-1], cell) for cell in cells]
    console = Console(width=80, force_terminal=True, color_system=None, file=io.StringIO())
    show_table(console, Table(("time", "other", "one", "two", "three"), rows, 2, 3))
    shown = console.file.getvalue().split()
    assert all(word in shown for cell in cells for word in cell.split())


@settings(max_examples=40)
@given(tables(), st.sampled_from([60, 80, 120]))
def test_numbers_and_handles_are_never_cut(table, width):
    console = Console(width=width, force_terminal=True, color_system=None, file=io.StringIO())
    show_table(console, table)
    shown = console.file.getvalue()
    assert max(map(len, shown.splitlines())) <= width or "Too narrow for" in shown
    head = next(line for line in shown.splitlines() if line.strip())
    first_text = len(table.columns) - table.texts
    for at in range(first_text):
        if table.columns[at] in head:
            assert all(row[at] in shown for row in table.rows)
        else:
            assert table.columns[at] in shown[shown.index("Too narrow for") :]
    if first_text and table.columns[first_text - 1] == "handle":
        assert "handle" in head


def own(name: str) -> dict[str, click.Option]:
    return {max(option.opts, key=len): option for option in EVERY[name].params if option.opts}


@pytest.mark.parametrize("name", [name for name in EVERY if "--json" in own(name)])
def test_every_command_has_its_tables_as_csv_and_takes_ranges(name):
    options = own(name)
    assert {"--csv", "--wide"} <= set(options)
    for option in SHARED & set(options):
        if f"{name} {option}" not in ONE:
            declared = options[option]
            told = f"{declared.type.name} {declared.help}"
            assert (
                isinstance(declared.type, WholeNumbers)
                or "1KiB-1GiB" in told
                or "RANGE" in str(declared.metavar)
            ), option


@pytest.mark.parametrize("name", EVERY)
def test_no_whole_number_is_without_an_end(name):
    for option in EVERY[name].params:
        if isinstance(option.type, type(click.INT)) and "--seed" not in option.opts:
            context = click.Context(EVERY[name], resilient_parsing=True)
            try:
                EVERY[name].parse_args(context, [option.opts[-1], "9" * 25])
            except click.BadParameter:
                continue
            assert context.params[option.name] is None


def test_csv_has_all_rows_of_the_first_table(capsys, tmp_path):
    file = tmp_path / "losses.csv"
    assert main(["optimum", "a100(4)", "--losses", "--no-allreduce", "--csv", str(file)]) == 0
    rows = list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))
    assert len(rows) > 1
    assert set(rows[0]) == {"rate left", "when this is lost"}
    capsys.readouterr()
    assert main(["build", "Complete(3)", "--out", str(tmp_path / "d"), "--csv", "-"]) == 2
    assert capsys.readouterr().err == (
        "Error: this answer has no table for --csv: --json has all of it\n"
    )


@given(st.sets(st.integers(1, 40), min_size=1))
def test_numbers_are_read_as_they_are_spelled(numbers):
    wanted = tuple(sorted(numbers))
    assert WholeNumbers().convert(spelled(wanted), None, None) == wanted


def test_several_sizes_are_several_answers(capsys):
    import json

    assert main(["frontier", "--nodes", "4,6-7", "--degree", "2-3", "--json", "-"]) == 0
    answers = json.loads(capsys.readouterr().out)["answers"]
    asked = [(each["nodes"], each["degree"]) for each in answers]
    assert asked == [(nodes, degree) for nodes in (4, 6, 7) for degree in (2, 3)]
    assert main(["frontier", "--nodes", "4,6", "--degree", "2", "--plot", "a.png"]) == 2
    assert "--plot is for one question" in capsys.readouterr().err


def test_answers_and_pictures_that_commands_name_are_there():
    sources = "".join(path.read_text(encoding="utf-8") for path in CLI.glob("*.py"))
    families = re.findall(r'answered\(\s*\*?\(?"(\w+)\.(\w+)"', sources)
    figures = re.findall(r'\("(\w+)\.(\w+_figure)"', sources)
    assert len(families) > 40
    assert len(figures) > 12
    for module, name in families:
        said = import_module(f"ocs_codesign.faces.answers.{module}")
        assert f"{module}.{name}" in records()
        assert callable(getattr(said, f"{name}_sections")), (module, name)
    for module, name in figures:
        assert callable(getattr(import_module(f"ocs_codesign.faces.pictures.{module}"), name))
