"""What commands print and write: JSON, tables, files that appear whole or not at all."""

from __future__ import annotations

import json
import os
import sys
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.faces.answers.sections import counted
from ocs_codesign.faces.cli.progress import QUIET, verbosity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rich.console import Console
    from rich.table import Table as RichTable

    from ocs_codesign.faces.answers.sections import Section, Table
    from ocs_codesign.graphs.recipe import Recipe


STDOUT = "-"

_WIDE, _PAGE = 100_000, 100
_LEAST_TEXT, _LONGEST = 8, 400
_PIECE = 2**16
"""What goes to standard output at once: unbuffered, the rest of a larger one that a pipe no longer
takes would be lost in silence."""
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


def emit(
    answer: Mapping[str, Any],
    json_path: str | None,
    show: Callable[[Console], None] | Iterable[Section],
    files: Mapping[str, bytes] | None = None,
) -> None:
    """Write the files, all or none, and show the answer unless standard output is spoken for."""
    from ocs_codesign.core.files.atomic import write_files

    contents = dict(files or {})
    if json_path is not None:
        contents[json_path] = (
            json.dumps(answer, indent=2, ensure_ascii=False, allow_nan=False, default=_number)
            + "\n"
        ).encode()
    on_stdout = contents.pop(STDOUT, None)
    write_files({Path(path): content for path, content in contents.items()})
    if on_stdout is not None:
        for at in range(0, len(on_stdout), _PIECE):
            click.echo(on_stdout[at : at + _PIECE], nl=False)
    elif verbosity() == QUIET:
        return
    elif callable(show):
        show(console())
    else:
        show_sections(console(), show)
    sys.stdout.flush()


def picked(rows: Sequence[Sequence[Recipe | str]], pick: int) -> list[str]:
    """The recipes of the row that was picked, a line each; ClickException if there is none."""
    if pick > len(rows):
        raise click.ClickException(f"--pick is {pick}: the answer has {counted(len(rows), 'row')}")
    return [str(recipe) for recipe in rows[pick - 1]]


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

    width = None if sys.stdout.isatty() else _WIDE
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

    Its texts fold or are cut; numbers never are.
    """
    from rich import box
    from rich.table import Table

    rows = [tuple(row) for row in shown.rows]
    gaps = len(shown.columns) - 1
    widths = _fitted(shown, on.width - 3 * gaps - 2 if on.is_terminal else _PAGE - 2 * gaps)
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
    for row in rows:
        table.add_row(*row)
    _print(on, table)
    if shown.note:
        on.print(shown.note, soft_wrap=True)


def _fitted(shown: Table, room: int) -> list[int]:
    """The width of every column: texts share what numbers leave, the widest giving way first."""
    from rich.cells import cell_len

    widths = [max(map(cell_len, cells)) for cells in zip(shown.columns, *shown.rows, strict=True)]
    texts = range(len(widths) - shown.texts, len(widths))
    excess = sum(widths) - room
    while excess > 0 and texts:
        widest = max(texts, key=lambda at: widths[at])
        if widths[widest] <= _LEAST_TEXT:
            break
        widths[widest] -= 1
        excess -= 1
    return widths


def _print(on: Console, table: RichTable) -> None:
    """Print a table; where it is not read on a terminal, without the blanks that end its lines."""
    if on.is_terminal:
        on.print(table)
        return
    with on.capture() as captured:
        on.print(table)
    for line in captured.get().splitlines():
        click.echo(line.rstrip())
