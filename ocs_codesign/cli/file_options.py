"""Types of arguments that name files: they complete in a shell, and - is a standard stream."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import click

from ocs_codesign.cli.output import STDOUT

if TYPE_CHECKING:
    from collections.abc import Callable

    from click import Context, Parameter

STDIN = "/dev/stdin"


@final
class _Input(click.Path):
    """A file to read; - is standard input."""

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> Any:
        """The path."""
        return STDIN if value == STDOUT else super().convert(value, param, ctx)


@final
class _Picture(click.Path):
    """A file for a picture, whose suffix says what kind."""

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> Any:
        """The path; BadParameter if its suffix names no kind of picture."""
        if value == STDOUT:
            self.fail("a picture is a file: it cannot go to standard output", param, ctx)
        from ocs_codesign.plot.files import check_suffix

        try:
            check_suffix(Path(value).suffix)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return super().convert(value, param, ctx)


@final
class _Directory(click.Path):
    """A directory to write."""

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> Any:
        """The path."""
        if value == STDOUT:
            self.fail("a directory cannot go to standard output", param, ctx)
        return super().convert(value, param, ctx)


@final
class _Bundle(click.Path):
    """The directory of a bundle, or its zip."""

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> Any:
        """The path."""
        if value == STDOUT:
            self.fail("a bundle is a directory or a zip: it cannot come from a pipe", param, ctx)
        return super().convert(value, param, ctx)


INPUT = _Input(readable=False)
FILE = click.Path(readable=False)
OUTPUT = click.Path(readable=False, allow_dash=True)
PICTURE = _Picture(readable=False)
DIRECTORY = _Directory(readable=False)
BUNDLE = _Bundle(readable=False)
"""Whether they can be read and written is said by those who do, in their words."""

design_directory_option = click.option(
    *("--out", "directory"),
    type=DIRECTORY,
    metavar="DIR",
    required=True,
    help="Where to save the design.",
)


def plot_option(what: str) -> Callable[..., Any]:
    """The option --plot, a file for a picture of ``what``, as the argument ``plot``."""
    return click.option(
        "--plot", type=PICTURE, metavar="FILE", help=f"Draw {what}: .png, .svg or .pdf."
    )
