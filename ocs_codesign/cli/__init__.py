"""The command line ``ocs-codesign``; everything heavy is imported when a command runs."""

from __future__ import annotations

import sys
from collections import Counter
from importlib import import_module
from typing import TYPE_CHECKING, final

import click

from ocs_codesign import __version__
from ocs_codesign.cli.interruption import interruptions

if TYPE_CHECKING:
    from collections.abc import Sequence

BAD_INPUT = 2
INTERRUPTED = 130
_LONGEST = 1200
"""Characters of a sentence; one that echoes megabytes of what was given is cut."""

COMMANDS = {
    "build": "build",
    "catalogue": "catalogue",
    "cost": "cost",
    "demand": "demand",
    "deploy": "deploy",
    "example": "example",
    "fabric": "fabric",
    "frontier": "frontier",
    "import": "graphs.import_command",
    "paths": "paths",
    "plan": "plan",
    "planes": "planes",
    "rewire": "rewire",
    "select": "select",
    "sequence": "sequence",
    "survive": "survive",
    "sweep": "sweep",
    "topology": "graphs.topology",
    "verify": "verify",
    "verify-bundle": "verify_bundle",
}
"""Every command and its module here, with its name in it where that is another."""


@final
class _Commands(click.Group):
    """The commands, each imported when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names."""
        del ctx
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, None if there is none."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(".")
        command: click.Command = getattr(import_module(f"{__name__}.{module}"), name or module)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command and its arguments, in which no option with one value may come twice."""
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            _refuse_repeated(command, ctx, rest)
        return name, command, rest


def _refuse_repeated(command: click.Command, ctx: click.Context, args: list[str]) -> None:
    """UsageError if a value would be lost in silence because a later one takes its place."""
    if isinstance(command, click.Group):
        inner = command.get_command(ctx, args[0]) if args else None
        if inner is not None:
            _refuse_repeated(inner, ctx, args[1:])
        return
    try:
        given = command.make_parser(ctx).parse_args(list(args))[2]
    except click.UsageError:  # it will be said when the command itself reads them
        return
    for option, times in Counter(given).items():
        single = isinstance(option, click.Option) and not (option.multiple or option.is_flag)
        if single and times > 1:
            raise click.UsageError(f"{option.opts[0]} is given {times} times: it has one value")


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 yes, 1 a negative verdict, 2 bad usage or input, 130 interrupted.",
)
@click.version_option(__version__, prog_name="ocs-codesign", message="%(prog)s %(version)s")
def app() -> None:
    """Co-design of topology and collective schedule for direct-connect fabrics.

    A RECIPE is a topology written as a call, such as 'Line(CompleteBipartite(4))'.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line (``sys.argv`` by default) and return its exit code.

    Whatever a user can do wrong ends in one sentence on standard error and code 2.

    >>> main(["--version"])
    ocs-codesign 0.1.0
    0
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal may lack the field's notation
    try:
        with interruptions():
            code = app.main(arguments, prog_name="ocs-codesign", standalone_mode=False)
        return int(code or 0)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return BAD_INPUT
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted: nothing was written.", err=True)
        return INTERRUPTED
    except (click.ClickException, ValueError, OSError, MemoryError, RuntimeError) as error:
        click.echo(f"Error: {_sentence(error)}", err=True)
        return BAD_INPUT


def _sentence(error: Exception) -> str:
    """What went wrong, on one line."""
    if isinstance(error, click.ClickException):
        text = error.format_message()
    elif isinstance(error, OSError) and error.strerror:
        text = error.strerror[0].lower() + error.strerror[1:]
        text = text if error.filename is None else f"{error.filename}: {text}"
    elif isinstance(error, MemoryError):
        text = f"not enough memory. {error}".strip()
    else:
        text = str(error) or type(error).__name__
    text = " ".join(text.split())
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST // 2]} [...] {text[-_LONGEST // 4 :]}"
    return text
