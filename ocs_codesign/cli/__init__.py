"""The command line ``ocs-codesign``; everything heavy is imported when a command runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ocs_codesign import __version__
from ocs_codesign.cli.build import build
from ocs_codesign.cli.catalogue import catalogue
from ocs_codesign.cli.cost import cost
from ocs_codesign.cli.demand import demand
from ocs_codesign.cli.deploy import deploy
from ocs_codesign.cli.fabric import fabric
from ocs_codesign.cli.frontier import frontier
from ocs_codesign.cli.graphs import import_command, topology
from ocs_codesign.cli.interruption import interruptions
from ocs_codesign.cli.paths import paths
from ocs_codesign.cli.plan import plan
from ocs_codesign.cli.planes import planes
from ocs_codesign.cli.rewire import rewire
from ocs_codesign.cli.select import select
from ocs_codesign.cli.sequence import sequence
from ocs_codesign.cli.survive import survive
from ocs_codesign.cli.sweep import sweep
from ocs_codesign.cli.verify import verify
from ocs_codesign.cli.verify_bundle import verify_bundle

if TYPE_CHECKING:
    from collections.abc import Sequence

BAD_INPUT = 2
INTERRUPTED = 130


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 yes, 1 a negative verdict, 2 bad usage or input, 130 interrupted.",
)
@click.version_option(__version__, prog_name="ocs-codesign", message="%(prog)s %(version)s")
def app() -> None:
    """Co-design of topology and collective schedule for direct-connect fabrics.

    A RECIPE is a topology written as a call, such as 'Line(CompleteBipartite(4))'.
    """


for _command in (
    frontier,
    cost,
    build,
    sequence,
    verify,
    verify_bundle,
    paths,
    plan,
    planes,
    demand,
    topology,
    import_command,
    catalogue,
    sweep,
    fabric,
    deploy,
    rewire,
    select,
    survive,
):
    app.add_command(_command)


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
    return " ".join(text.split())
