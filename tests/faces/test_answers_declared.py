"""Every word of every JSON answer is declared: its kind, its unit, what it means, where it is."""

from __future__ import annotations

import importlib
import json
import re

import click
import pytest
from answer_schema import check_answer
from folders import ROOT
from jsonschema import Draft202012Validator

from ocs_codesign.faces.answers.declared import SCHEMA_FILE, answers_schema, records, table, words
from ocs_codesign.faces.cli import COMMANDS, app, main

UNITS = {"_s": "s", "_ns": "ns", "_us": "us", "_Bps": "B/s", "_GBps": "GB/s", "_bytes": "B"}
PLAIN = {"int", "number", "float", "exact", "text", "bool", "len", "any"}


def declared_words() -> dict[str, str]:
    """The keys of words that records have, with the kinds that they have there."""
    known = words()
    return {
        name if name in known else field.name: record.kind(field)
        for record in records().values()
        for field in record.fields
        if not field.is_spliced
        for name in [f"{record.name}:{field.name}"]
    }


def test_every_word_is_used_and_has_a_sentence():
    assert set(words()) - set(declared_words()) == {"answer", "read"}
    for name, word in words().items():
        assert re.fullmatch(r"[A-Z].+[^.]\.", word.meaning), name
        assert word.kind.rstrip("[]{}?"), name


@pytest.mark.parametrize(("end", "unit"), UNITS.items())
def test_a_unit_in_a_name_is_the_declared_one(end, unit):
    named = [name for name in words() if name.endswith(end) and not name.endswith("per" + end)]
    assert [name for name in named if words()[name].unit not in (unit, "-", "moves")] == []


def test_every_record_is_spoken_of_and_known():
    spoken = {name for name in records() if "." in name}
    for record in records().values():
        for field in record.fields:
            kinds = field.name if field.is_spliced else record.kind(field).rstrip("[]{}?")
            spoken |= set(kinds.split("|")) - PLAIN
    assert spoken | {"read"} == set(records())


def test_the_schema_is_one_that_example_writes(tmp_path):
    Draft202012Validator.check_schema(answers_schema())
    assert main(["example", str(tmp_path)]) == 0
    assert json.loads((tmp_path / SCHEMA_FILE).read_text()) == answers_schema()


def test_a_page_has_every_word(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    lines = importlib.import_module("pages").answer_page()
    for name, record in records().items():
        start = lines.index(f"### {name}")
        rows = lines[start + 6 : start + 6 + len(record.flat())]
        for row, (owner, field, _) in zip(rows, record.flat(), strict=True):
            assert row.startswith(f"| `{field.name}` | ")
            assert row.endswith(f" | {owner.word(field).meaning} |")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"answer": "frontier.exhaustion/2"}, "exhaustion/1' was expected"),
        ({"labelled": "9"}, "is not of type 'integer'"),
        ({"more": 1}, "Additional properties"),
        ({"classes": ...}, "'classes' is a required property"),
    ],
)
def test_what_is_not_as_declared_is_found(changed, told, tmp_path):
    file = tmp_path / "answer.json"
    assert main(["exhaust", "--nodes", "3", "--degree", "1", "--json", str(file)]) == 0
    answer = json.loads(file.read_text())
    check_answer(answer)
    wrong = {word: value for word, value in (answer | changed).items() if value is not ...}
    with pytest.raises(AssertionError, match=told):
        check_answer(wrong)


def json_commands(command: click.Command, name: str) -> set[str]:
    if isinstance(command, click.Group):
        inner = (json_commands(each, name) for each in command.commands.values())
        return set().union(*inner)
    return {name} if any("--json" in each.opts for each in command.params) else set()


def test_every_command_has_answers_and_every_answer_a_command():
    context = click.Context(app)
    commands = {name: app.get_command(context, name) for name in COMMANDS}
    asked = set().union(*(json_commands(each, name) for name, each in commands.items() if each))
    told = {
        command
        for name, record in records().items()
        if "." in name
        for command in re.findall(r"`([a-z-]+)`", record.meaning.partition(":")[0])
    }
    assert told == asked


def test_a_table_has_dashes_for_what_is_not_there():
    shown = table(
        [{"steps": 2, "t_b": None}],
        "steps; t_b:.2f; *time:time | who || why",
        spread={"time": ("1 MiB", "2 MiB")},
        time=lambda row: (row["steps"], None),
        who=lambda _: "me",
        why=lambda _: ["no", "reason"],
    )
    assert shown.columns == ("steps", "t_b", "1 MiB", "2 MiB", "who", "why")
    assert (shown.numbers, shown.texts) == (4, 1)
    assert shown.rows == [("2", "-", "2 s", "-", "me", "['no', 'reason']")]
