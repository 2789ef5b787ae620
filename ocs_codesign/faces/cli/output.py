"""What commands print and write: JSON, tables, files that appear whole or not at all."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, field, replace
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import click

from ocs_codesign.faces.answers.sections import counted
from ocs_codesign.faces.cli.progress import QUIET, verbosity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import Console
    from rich.table import Table as RichTable

    from ocs_codesign.core.cost import Cost, MessageSizes
    from ocs_codesign.core.machines.machine import RealMachine
    from ocs_codesign.fabric.infeasible import InfeasibleError
    from ocs_codesign.faces.answers.sections import Section, Table
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.interop.wiring.wires import Reading


STDOUT = "-"
OUTPUTS = "ocs_codesign.outputs"
READ = "ocs_codesign.read"
"""Where what was read of other people's files is kept while a command runs."""

_WIDE, _PAGE = 100_000, 100
_LEAST_TEXT, _LONGEST_WORD, _LONGEST = 8, 16, 400
_PIECE = 2**16
"""What goes to standard output at once: unbuffered, the rest of a larger one that a pipe no longer
takes would be lost in silence."""
_KEPT = ("handle", "message", "rank", "steps", "t_b")
"""Columns that a narrow page has too."""
_WHOLE = ("recipe", "recipes")
"""Facts that are to be copied: they stay on one line."""


def check_outputs(*paths: str | None) -> None:
    """Refuse outputs that collide or cannot be written, before any long work."""
    from ocs_codesign.core.files.atomic import check_writable

    given = [path for path in paths if path is not None]
    if given.count(STDOUT) > 1:
        raise click.UsageError("only one output can go to standard output")
    files = [Path(path) for path in given if path != STDOUT]
    if len({file.resolve() for file in files}) < len(files):
        raise click.UsageError("two outputs go to the same file")
    for file in files:
        check_writable(file)


@final
@dataclass(frozen=True, slots=True)
class Answer:
    """What a command has found: as JSON, as people read it, and as files.

    ``figure`` is the name of a function of ``faces.pictures`` and what it draws, for --plot;
    ``error`` is said after all else, as an error.
    """

    json: Mapping[str, Any]
    sections: Iterable[Section]
    files: Mapping[str, bytes] = field(default_factory=dict)
    figure: tuple[Any, ...] = ()
    code: int = 0
    error: str = ""

    @classmethod
    def joined(cls, answers: Sequence[Answer]) -> Answer:
        """The answers to several questions, one after the other."""
        sections = [section for answer in answers for section in (*answer.sections, "")]
        errors = "; ".join(answer.error for answer in answers if answer.error)
        files = {path: content for answer in answers for path, content in answer.files.items()}
        code = max(answer.code for answer in answers)
        from ocs_codesign.faces.answers.declared import stamped

        found = stamped("sections.answers", {"answers": [answer.json for answer in answers]})
        return cls(found, sections[:-1], files, code=code, error=errors)

    def picked(self, rows: Sequence[Sequence[Recipe | str]], pick: int | None) -> Answer:
        """The same, of which people see only the recipes of the row that was picked, if any was.

        ClickException if there is no such row.
        """
        if pick is None:
            return self
        if pick > len(rows):
            there = counted(len(rows), "row")
            raise click.ClickException(f"--pick is {pick}: the answer has {there}")
        return replace(self, sections=[str(recipe) for recipe in rows[pick - 1]])

    def timed(self, asked: MessageSizes | None, cost: Cost) -> Answer:
        """The same, with the times that a cost takes, if any are asked for."""
        from ocs_codesign.faces.answers.declared import records
        from ocs_codesign.faces.answers.texts import times_sections

        times = {} if asked is None else records()["times"].json(cost, asked)
        sections = [*self.sections, *times_sections(asked, cost)]
        return replace(self, json={**self.json, **times}, sections=sections)

    def by_clock_of(self, machine: RealMachine | None) -> Answer:
        """The same with whose clock its times are by, and what of that is assumed, said first."""
        if machine is None:
            return self
        from ocs_codesign.faces.answers.declared import records
        from ocs_codesign.faces.answers.machines import clock_facts
        from ocs_codesign.faces.answers.sections import Facts

        told = {"machine": records()["machine"].json(machine)}
        sections = [Facts(*clock_facts(machine)), *self.sections]
        return replace(self, json={**self.json, **told}, sections=sections)

    def of_files(self, readings: Sequence[Reading]) -> Answer:
        """The same with what was read of other people's files, said first."""
        if not readings:
            return self
        from ocs_codesign.faces.answers.declared import records
        from ocs_codesign.faces.answers.networks import reading_facts
        from ocs_codesign.faces.answers.sections import Facts

        told = {"read": [records()["read"].json(each) for each in readings]}
        facts = (Facts(*reading_facts(each)) for each in readings)
        return replace(self, json={**self.json, **told}, sections=[*facts, "", *self.sections])


def answered(
    family: str, *values: Any, more: Mapping[str, Any] | None = None, **told: Any
) -> Answer:
    """The answer that ``faces.answers`` makes of values, as in ``answered("joint.gaps", gaps)``.

    It is what the record of that name makes of them, with ``more`` words, and ``gaps_sections`` of
    them and of what is ``told`` to people alone; ``files``, ``figure``, ``code`` and ``error`` are
    those of Answer.
    """
    from ocs_codesign.faces.answers.declared import answer_json

    module, _, name = family.partition(".")
    said = import_module(f"ocs_codesign.faces.answers.{module}")
    rest = {each: told.pop(each) for each in ("files", "figure", "code", "error") if each in told}
    value = answer_json(family, *values)
    shown = getattr(said, f"{name}_sections")(*values, **told)
    return Answer({**value, **(more or {})}, shown, **rest)


def told(
    name: str,
    words: Mapping[str, Any],
    sections: Iterable[Section],
    files: Mapping[str, bytes] | None = None,
    code: int = 0,
) -> Answer:
    """The answer of that name with words as they are."""
    from ocs_codesign.faces.answers.declared import stamped

    return Answer(stamped(name, words), sections, files or {}, code=code)


def refused(error: InfeasibleError, verdict: str = "fits", *sentences: str, **more: Any) -> Answer:
    """The answer that something cannot be done on a fabric."""
    from ocs_codesign.faces.answers.sections import refusal_text

    words = {verdict: False, "reason": error.reason.name.lower(), "sentence": str(error), **more}
    return told(f"deploy.{verdict}", words, [refusal_text(error, verdict), *sentences], code=1)


def asked_output(option: str) -> str | None:
    """Where the command that runs is to write ``json``, ``csv`` or ``plot``; None if nowhere."""
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(f"{OUTPUTS}.{option}")


def publish(answer: Answer) -> int:
    """Write the files, all or none, show the answer, and return its exit code.

    It is shown unless standard output is spoken for.
    """
    from ocs_codesign.core.files.atomic import write_files

    contents = dict(answer.files)
    sections = list(answer.sections)
    plot, json_path = asked_output("plot"), asked_output("json")
    if plot is not None and answer.figure:
        contents[plot] = _picture(plot, *answer.figure)
    if json_path is not None:
        contents[json_path] = json_bytes(answer.json)
    csv_path = asked_output("csv")
    if csv_path is not None:
        contents[csv_path] = _table_bytes(sections)
    on_stdout = contents.pop(STDOUT, None)
    write_files({Path(path): content for path, content in contents.items()})
    if on_stdout is not None:
        for at in range(0, len(on_stdout), _PIECE):
            click.echo(on_stdout[at : at + _PIECE], nl=False)
    elif verbosity() != QUIET:
        show_sections(console(), sections)
    sys.stdout.flush()
    if answer.error:
        raise click.ClickException(answer.error)
    return answer.code


def _picture(path: str, name: str, *drawn: Any) -> bytes:
    """A figure that a function of ``faces.pictures`` draws, as the suffix of the path says."""
    from ocs_codesign.faces.pictures.files import figure_bytes

    module, _, function = name.partition(".")
    draw = getattr(import_module(f"ocs_codesign.faces.pictures.{module}"), function)
    return figure_bytes(draw(*drawn), Path(path).suffix)


def _table_bytes(sections: Sequence[Section]) -> bytes:
    """The first table of an answer as CSV; ClickException if it has none."""
    from ocs_codesign.faces.answers.sections import Table

    for section in sections:
        if isinstance(section, Table):
            return section.csv()
    raise click.ClickException("this answer has no table for --csv: --json has all of it")


def json_bytes(value: Any) -> bytes:
    """The JSON text of a value."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=_number)
    return f"{text}\n".encode()


def _number(value: object) -> float:
    """An exact number as JSON has it: rounded only here."""
    if isinstance(value, Fraction):
        return float(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def show_sections(on: Console, sections: Iterable[Section]) -> None:
    """Print the sections of an answer, one after the other."""
    from ocs_codesign.faces.answers.sections import Facts, Recipes, Table

    for section in sections:
        if isinstance(section, Facts):
            show_facts(on, section.rows)
        elif isinstance(section, Table):
            show_table(on, section)
        elif isinstance(section, Recipes):
            show_recipes(on, section.texts)
        else:
            on.print(section, soft_wrap=True)


def console() -> Console:
    """The console: as wide as it needs to be when it is not a terminal."""
    from rich.console import Console

    width = None if sys.stdout.isatty() and not asked_output("wide") else _WIDE
    return Console(
        width=width,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        markup=False,
        emoji=False,
        highlight=False,
        soft_wrap=False,
    )


def show_facts(on: Console, facts: Iterable[tuple[str, object]]) -> None:
    """A table of names and values; values that are None are left out, recipes do not fold."""
    from rich.table import Table
    from rich.text import Text

    rows = [(name, str(value)) for name, value in facts if value is not None]
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        if name in _WHOLE:
            line = Text.assemble((name.ljust(width), "bold"), "  ", value)
            on.print(line, soft_wrap=True)
            continue
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True, style="bold", width=width)
        table.add_column(overflow="fold")
        table.add_row(name, value)
        _print(on, table)


def show_recipes(on: Console, recipes: Sequence[str]) -> None:
    """Recipes under their handles, which are remembered for later commands."""
    from ocs_codesign.faces.cli.handles import keep
    from ocs_codesign.graphs.handle import handle

    if not recipes:
        return
    on.print(
        f"\nRecipes, for which handles can stand in later commands, as in '{handle(recipes[0])}':"
    )
    for text in recipes:
        rest = f"{text[:_LONGEST]}… of {len(text)} characters; the handle stands for all of them"
        on.print(f"{handle(text)}  {text if len(text) <= _LONGEST else rest}", soft_wrap=True)
    keep(recipes)


def show_table(on: Console, shown: Table) -> None:
    """A table that fits the page, which is that of a terminal or of 100 characters.

    Its texts fold or are cut, and a terminal is spared columns that have no room; numbers and
    handles are never cut. With --wide it is as wide as it is.
    """
    from rich import box
    from rich.table import Table

    is_wide, gap = bool(asked_output("wide")), 3 if on.is_terminal else 2
    # Of a terminal's width two are edges, and two what rich reckons as the last column's padding.
    page = _WIDE if is_wide else on.width - 4 if on.is_terminal else _PAGE
    if on.is_terminal:  # what a pipe carries is complete
        shown = _narrowed(shown, page, gap)
    widths = _fitted(shown, page - gap * (len(shown.columns) - 1))
    table = Table(
        box=box.SIMPLE_HEAD if on.is_terminal else None, pad_edge=False, padding=(0, 2, 0, 0)
    )
    for at, column in enumerate(shown.columns):
        is_text = at >= len(shown.columns) - shown.texts
        table.add_column(
            column,
            justify="right" if at < shown.numbers else "left",
            overflow="ellipsis" if shown.cut else "fold",
            no_wrap=shown.cut or not is_text,
            width=widths[at],
        )
    for row in shown.rows:
        table.add_row(*row)
    _print(on, table)
    if shown.note:
        on.print(shown.note, soft_wrap=True)


def _narrowed(shown: Table, page: int, gap: int) -> Table:
    """The columns that have room where texts are short: others are left out from the right."""
    first_text = len(shown.columns) - shown.texts
    widths, least = _widths(shown), _least(shown)
    kept = list(range(len(widths)))
    for at in reversed(range(1, first_text)):
        if sum(least[each] + gap for each in kept) - gap <= page:
            break
        if shown.columns[at] not in _KEPT:
            kept.remove(at)
    return shown if len(kept) == len(widths) else shown.narrowed(kept)


def _fitted(shown: Table, room: int) -> list[int]:
    """The width of every column: texts share what numbers leave, the widest giving way first."""
    widths, least = _widths(shown), _least(shown)
    excess = sum(widths) - room
    while excess > 0 and widths != least:
        able = [at for at, width in enumerate(widths) if width > least[at]]
        widths[max(able, key=lambda at: widths[at])] -= 1
        excess -= 1
    return widths


def _least(shown: Table) -> list[int]:
    """The least widths: a text that folds keeps its words whole, up to a length."""
    widths, first_text = _widths(shown), len(shown.columns) - shown.texts
    for at in range(first_text, len(widths)):
        cells = () if shown.cut else (shown.columns[at], *(row[at] for row in shown.rows))
        words = max((len(word) for cell in cells for word in cell.split()), default=0)
        widths[at] = min(widths[at], max(_LEAST_TEXT, min(words, _LONGEST_WORD)))
    return widths


def _widths(shown: Table) -> list[int]:
    from rich.cells import cell_len

    return [max(map(cell_len, cells)) for cells in zip(shown.columns, *shown.rows, strict=True)]


def _print(on: Console, table: RichTable) -> None:
    """Print a table; where it is not read on a terminal, without the blanks that end its lines."""
    if on.is_terminal:
        on.print(table)
        return
    with on.capture() as captured:
        on.print(table)
    for line in captured.get().splitlines():
        click.echo(line.rstrip())
