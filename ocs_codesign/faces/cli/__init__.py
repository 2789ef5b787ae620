"""The command line ``ocs-codesign``; everything heavy is imported when a command runs."""

from __future__ import annotations

import sys
from collections import Counter
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any, final

import click

from ocs_codesign import __version__
from ocs_codesign.faces.cli.help_levels import finished
from ocs_codesign.faces.cli.interruption import (
    interruptions,
    noticed,
    open_streams,
    tell,
    until_closed,
)
from ocs_codesign.faces.cli.progress import add_verbosity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


BAD_INPUT = 2
INTERRUPTED = 130
_LONGEST = 1200
"""Characters of a sentence; one that echoes megabytes of what was given is cut."""

SECTIONS = {
    "Topologies and their costs": {
        "frontier": ("frontier", "Find the best topologies of N nodes of degree d."),
        "cost": ("cost", "Exact cost of one recipe or graph."),
        "catalogue": ("catalogue", "Look designs up in a catalogue."),
        "explore": ("sweep.explore", "Browse a catalogue's designs in a browser."),
        "sweep": ("sweep", "Search many sizes into a catalogue."),
        "exhaust": ("frontier.exhaust", "Prove a small frontier by all topologies there are."),
    },
    "Schedules": {
        "build": ("build", "Build and verify a schedule and save the design."),
        "optimum": ("optimum", "The best rate of collectives on a network, with its bottleneck."),
        "compare": ("compare", "Compare all schedulers and classic algorithms on one clock."),
        "paths": ("verify.paths", "Path tables for fabrics that route, checked for deadlock."),
        "verify": ("verify", "Check a design, book, export or schedule of others."),
        "simulate": ("simulate", "Run a design on a network's clock, event by event."),
        "astra-sim": (
            "simulate.astra_sim",
            "Ask ASTRA-sim how long a design takes, beside our clock.",
        ),
        "run": ("files.run", "Run a design on real processes: MPI, PyTorch or JAX."),
    },
    "Jobs": {
        "iterate": ("iterate", "Simulate the iterations of a training job."),
        "compare-policies": (
            "codesign.compare_policies",
            "Compare what is sent first: a job's period.",
        ),
        "place": ("place", "Which host every rank of a job is on, so that its groups take least."),
        "fuse": ("codesign.fuse", "Fuse an operator with its collective: when it pays."),
        "allocate": ("codesign.allocate", "Divide bandwidth among the dimensions of a network."),
        "codesign": ("codesign", "Choose division, mapping, fabric and policy for a job."),
    },
    "Circuits that change": {
        "sequence": ("sequence", "Build and verify a schedule whose circuits change."),
        "plan": ("plan", "Plan when to change the topology over a trace of jobs."),
        "planes": (
            "plan.planes",
            "Planes that change circuits while others send, for a list of steps.",
        ),
        "demand": ("plan.demand", "Configurations of circuit switches for a demand matrix."),
    },
    "Fabrics of switches": {
        "cluster": ("optimum.cluster", "Find what joins the NICs of servers of GPUs best."),
        "fabric": ("fabric", "Describe and check a fabric of optical circuit switches."),
        "select": ("fabric.select", "Rank designs and plans for a workload on a fabric."),
        "deploy": ("fabric.deploy", "Write cables, cross-connects and schedules for a fabric."),
        "verify-bundle": (
            "rewire.verify_bundle",
            "Check a bundle from its cables and circuits up.",
        ),
        "survive": ("survive", "What every single loss leaves, and how to repair one."),
        "rewire": ("rewire", "Change circuits from one topology to another, in stages."),
        "pod": ("pod", "Slices of pods: fixed cubes of chips, free circuits between them."),
        "rehearse": (
            "rehearse",
            "Run a bundle's fabric and schedules as processes on this machine.",
        ),
        "control": ("control", "Lead switches to what a bundle says, from whatever they hold."),
        "switch-agent": ("control.switch_agent", "The agent of an emulated switch."),
    },
    "Machines": {
        "calibrate": (
            "machines.calibrate",
            "Make a machine from logs, or fit a job to measured steps.",
        ),
        "library-time": ("machines.library_time", "What NCCL takes for a collective on a machine."),
        "measure": (
            "machines.measure",
            "Measure a machine between ranks: latency, overhead, rate.",
        ),
    },
    "Files": {
        "example": ("files.example", "Write example files: models, machines, the manual's."),
        "export": ("files.export", "Write a schedule for a runtime or simulator."),
        "topology": (
            "files.topology",
            "Write a topology in a graph format, a network for a scheduler.",
        ),
        "import": (
            "files.import_command",
            "Read a graph or schedule of others and say what it is.",
        ),
    },
}
"""Every command as help has it: its module here, with its name in it where that is another, and
what it does, so that the list of all imports none."""
COMMANDS = {name: place for section in SECTIONS.values() for name, place in section.items()}


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
        place, does = COMMANDS[cmd_name]
        module, _, name = place.partition(".")
        command: click.Command = getattr(import_module(f"{__name__}.{module}"), name or module)
        command.short_help = does
        finished(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands of every section into a help text."""
        del ctx
        for section, names in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(name, does) for name, (_, does) in names.items()])

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """The context of a command line, of which help may be all."""
        with noticed():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """What the command returns."""
        with noticed():
            return super().invoke(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command and its arguments, in which no option with one value may come twice."""
        if args and args[0][:1] != "-" and self.get_command(ctx, args[0]) is None:
            raise _no_command(args[0], COMMANDS, ctx)
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and command is not None:
            _refuse_repeated(command, ctx, rest)
        return name, command, rest


def _no_command(name: str, known: Iterable[str], ctx: click.Context) -> click.UsageError:
    near = " or ".join(get_close_matches(name, known, 2, 0.7))
    return click.UsageError(
        f"No such command '{name}'" + f": did you mean {near}?" * bool(near), ctx
    )


def _refuse_repeated(command: click.Command, ctx: click.Context, args: list[str]) -> None:
    """UsageError if a value would be lost in silence because a later one takes its place."""
    if isinstance(command, click.Group):
        inner = command.get_command(ctx, args[0]) if args else None
        if inner is None and args and args[0][:1] != "-":
            own = click.Context(command, ctx, command.name)
            raise _no_command(args[0], command.list_commands(own), own)
        if inner is not None:
            _refuse_repeated(inner, ctx, args[1:])
        return
    try:
        own = click.Context(command, parent=ctx)
        given = command.make_parser(own).parse_args(list(args))[2]
    except click.UsageError:  # it will be said when the command itself reads them
        return
    for option, times in Counter(given).items():
        single = isinstance(option, click.Option) and not (option.multiple or option.is_flag)
        if single and times > 1:
            name = max(option.opts, key=len)
            raise click.UsageError(f"{name} is given {times} times: it has one value", ctx)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 yes, 1 a negative verdict, 2 bad usage or input, 130 interrupted, 141 "
    "output that nobody reads.",
)
@click.version_option(__version__, prog_name="ocs-codesign", message="%(prog)s %(version)s")
def app() -> None:
    """Co-design of topology and collective schedule for direct-connect fabrics.

    A RECIPE is a topology written as a call, such as 'Line(CompleteBipartite(4))'.

    \b
    Example:
      ocs-codesign frontier --nodes 12 --degree 4
      ocs-codesign cost 'Line(CompleteBipartite(4))'
    """


add_verbosity(app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line (``sys.argv`` by default) and return its exit code.

    Whatever a user can do wrong ends in one sentence on standard error and code 2, and output that
    nobody reads, as after ``| head``, in silence and code 141.

    >>> main(["--version"])
    ocs-codesign 0.1.0
    0
    """
    open_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal may lack the field's notation
    return until_closed(lambda: _run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    try:
        with interruptions():
            code = app.main(arguments, prog_name="ocs-codesign", standalone_mode=False)
            sys.stdout.flush()
        return int(code or 0)
    except click.exceptions.NoArgsIsHelpError as error:
        tell(error.format_message())
        return BAD_INPUT
    except (click.Abort, KeyboardInterrupt):
        tell("Interrupted: nothing was written.")
        return INTERRUPTED
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx is not None else "ocs-codesign"
        sentence = _sentence(error).removesuffix(".")
        tell(f"Error: {sentence} (try '{command} --help')")
        return BAD_INPUT
    except (click.ClickException, ValueError, OSError, MemoryError, RuntimeError) as error:
        tell(f"Error: {_sentence(error)}")
        return BAD_INPUT


def _sentence(error: Exception) -> str:
    """What went wrong, on one line."""
    if isinstance(error, click.ClickException):
        text = _usage(error)
    elif isinstance(error, OSError) and error.strerror:
        text = error.strerror[0].lower() + error.strerror[1:]
        text = text if error.filename is None else f"{error.filename}: {text}"
    elif isinstance(error, MemoryError):
        text = f"not enough memory ({error})" if str(error) else "not enough memory"
    else:
        text = str(error) or type(error).__name__
    text = " ".join(text.split())
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST // 2]} [...] {text[-_LONGEST // 4 :]}"
    return text


def _usage(error: click.ClickException) -> str:
    """What is wrong with a command line, in words that do not change with click."""
    param = getattr(error, "param", None)
    if isinstance(error, click.NoSuchOption):
        near = " or ".join(sorted(error.possibilities or ()))
        return f"No such option '{error.option_name}'" + f": did you mean {near}?" * bool(near)
    if isinstance(error, click.BadOptionUsage):
        params = [] if error.ctx is None else error.ctx.command.params
        is_flag = any(
            error.option_name in each.opts and getattr(each, "is_flag", False) for each in params
        )
        return f"'{error.option_name}' {'takes no' if is_flag else 'needs a'} value"
    if not isinstance(param, click.Parameter):
        return error.message
    is_option = isinstance(param, click.Option)
    name = max(param.opts, key=len) if is_option else param.human_readable_name
    if isinstance(error, click.MissingParameter):
        choices = ", ".join(map(str, getattr(param.type, "choices", ())))
        return f"Missing {param.param_type_name} '{name}'" + f": one of {choices}" * bool(choices)
    return f"Invalid value for '{name}': {error.message}"
