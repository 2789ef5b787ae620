"""What commands print and write: JSON, tables, files that appear whole or not at all."""

from __future__ import annotations

import json
import os
import sys
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.cli.progress import QUIET, verbosity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rich.console import Console
    from rich.table import Table

    from ocs_codesign.answers.sections import Section

STDOUT = "-"

_WIDE = 100_000


def check_outputs(*paths: str | None) -> None:
    """Refuse outputs that collide or cannot be written, before any long work."""
    from ocs_codesign.files.atomic import check_writable

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
    from ocs_codesign.files.atomic import write_files

    contents = dict(files or {})
    if json_path is not None:
        contents[json_path] = (
            json.dumps(answer, indent=2, ensure_ascii=False, allow_nan=False, default=_number)
            + "\n"
        ).encode()
    on_stdout = contents.pop(STDOUT, None)
    write_files({Path(path): content for path, content in contents.items()})
    if on_stdout is not None:
        click.echo(on_stdout, nl=False)
    elif verbosity() == QUIET:
        return
    elif callable(show):
        show(console())
    else:
        show_sections(console(), show)
    sys.stdout.flush()


def _number(value: object) -> float:
    """An exact number as JSON has it: rounded only here."""
    if isinstance(value, Fraction):
        return float(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def show_sections(on: Console, sections: Iterable[Section]) -> None:
    """Print the sections of an answer, one after the other."""
    from ocs_codesign.answers.sections import Facts, Table

    for section in sections:
        if isinstance(section, Facts):
            show_facts(on, section.rows)
        elif isinstance(section, Table):
            show_table(on, section.columns, section.rows, section.numbers, section.texts)
        else:
            on.print(section)


def console() -> Console:
    """The console for tables: as wide as they need when it is not a terminal."""
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
    """A table of names and values; values that are None are left out."""
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for name, value in facts:
        if value is not None:
            table.add_row(name, str(value))
    _print(on, table)


def show_table(
    on: Console,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: int = 0,
    texts: int = 0,
) -> None:
    """A table whose first ``numbers`` columns are flush right and last ``texts`` ones may fold."""
    from rich import box
    from rich.table import Table

    table = Table(
        box=box.SIMPLE_HEAD if on.is_terminal else None, pad_edge=False, padding=(0, 2, 0, 0)
    )
    for at, column in enumerate(columns):
        table.add_column(
            column,
            justify="right" if at < numbers else "left",
            overflow="fold",
            no_wrap=at < len(columns) - texts,
        )
    for row in rows:
        table.add_row(*row)
    _print(on, table)


def _print(on: Console, table: Table) -> None:
    """Print a table; where it is not read on a terminal, without the blanks that end its lines."""
    if on.is_terminal:
        on.print(table)
        return
    with on.capture() as captured:
        on.print(table)
    for line in captured.get().splitlines():
        click.echo(line.rstrip())
