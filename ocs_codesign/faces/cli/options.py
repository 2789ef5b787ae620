"""Options that several commands share, and the values they are read into."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from os.path import exists
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import click

from ocs_codesign.core.collective import GATHERING as GATHERING_COLLECTIVES
from ocs_codesign.core.collective import Collective, plain_collective
from ocs_codesign.core.quantities import parse_bandwidth, parse_time
from ocs_codesign.faces.answers.cost import Subject
from ocs_codesign.faces.cli.commands import OUTPUT, OptionGroup, argument, group, option
from ocs_codesign.faces.cli.output import READ, STDOUT, asked_output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from click import Context, Parameter

    from ocs_codesign.core.files.records import Format
    from ocs_codesign.core.lp import Options
    from ocs_codesign.core.network import Network
    from ocs_codesign.core.topology import Topology
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.interop.wiring.wires import ReadOptions


# Choices that are looked up when they are needed: what is listed then can be chosen.


@final
class LiveChoice(click.Choice[str]):
    """A choice of names that are not listed before an argument or a help text needs them."""

    def __init__(self, names: Callable[[], Mapping[str, Any]]) -> None:
        self.names = names
        self.case_sensitive = True

    @property
    def choices(self) -> tuple[str, ...]:
        """The names that a registry has by now."""
        return tuple(self.names())

    @choices.setter
    def choices(self, names: Sequence[str]) -> None:
        """Nothing: the registry says."""


@final
class FormatOption(click.Option):
    """``--format``, of which the help lists what formats there are, as in ``Edge list or DOT``."""

    type: LiveChoice

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The option and its help, ``{}`` in which stands for the descriptions of the formats."""
        template = self.help or ""
        text = template.format(described(self.type.names()))
        self.help = text[0].upper() + text[1:]
        try:
            return super().get_help_record(ctx)
        finally:
            self.help = template


def described(formats: Mapping[str, Any]) -> str:
    """Descriptions of formats in a row: ``edge list, GraphML or DOT``."""
    *most, last = [one.description for one in formats.values()]
    return f"{', '.join(most)} or {last}" if most else last


def graph_formats(able: str) -> Callable[[], Mapping[str, Format[Any]]]:
    """The formats of topologies that can ``read`` or ``write``, listed when they are needed."""

    def names() -> Mapping[str, Format[Any]]:
        from ocs_codesign.graphs.formats.graph_files import FORMATS

        return {name: one for name, one in FORMATS.items() if getattr(one, able) is not None}

    return names


def scheduler_formats() -> Mapping[str, Any]:
    """The files of schedulers."""
    from ocs_codesign.interop.schedulers import SCHEDULER_FORMATS

    return SCHEDULER_FORMATS


def path_formats() -> Mapping[str, Any]:
    """The formats of path tables."""
    from ocs_codesign.schedules.paths.table_files import FORMATS

    return FORMATS


def program_formats(able: str) -> Callable[[], Mapping[str, Any]]:
    """The formats of programs that can ``read``, ``write`` or ``check``, listed when needed."""

    def names() -> Mapping[str, Any]:
        from ocs_codesign.interop.registry import FORMATS

        more = {"write": ("write_book",), "check": ("read",)}
        ways = (able, *more.get(able, ()))
        return {
            name: one
            for name, one in FORMATS.items()
            if any(getattr(one, way) is not None for way in ways)
        }

    return names


# Types of arguments that name files: they complete in a shell, and - is a standard stream.


STDIN = "/dev/stdin"


@final
class _Input(click.Path):
    """A file to read; - is standard input."""

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> Any:
        """The path."""
        return STDIN if value == STDOUT else super().convert(value, param, ctx)


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
        from ocs_codesign.core.files.atomic import recovered

        if recovered(Path(value)):
            click.echo(f"{value}: an interrupted command had moved it away; it is back.", err=True)
        return super().convert(value, param, ctx)


INPUT = _Input(readable=False)
FILE = click.Path(readable=False)
PLACE = click.Path(readable=False, allow_dash=True)
DIRECTORY = _Directory(readable=False)
BUNDLE = _Bundle(readable=False)
"""Whether they can be read and written is said by those who do, in their words."""

design_directory_option = option(
    *("--out", "directory"),
    type=DIRECTORY,
    metavar="DIR",
    required=True,
    help="Where to save the design.",
)


def quantity_option(
    name: str,
    parse: Callable[[str], float],
    text: str,
    *names: str,
    multiple: bool = False,
    required: bool = False,
) -> Any:
    """An option whose value is a quantity with a unit, read by ``ocs_codesign.core.quantities``.

    One that is ``multiple`` may be repeated, or have several values with commas between them.
    """

    def read(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        try:
            if multiple:
                return tuple(parse(part) for text in value for part in text.split(","))
            return None if value is None else parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None

    return option(
        *(name, *names),
        callback=read,
        metavar="QUANTITY",
        multiple=multiple,
        required=required,
        help=text,
    )


def settings_option(
    name: str, readers: Mapping[str, Callable[[str], Any] | None], text: str
) -> Any:
    """An option of several settings, ``a=1us,b``; those without a reader are said by their name.

    The argument is a dict of all settings, with True or None where they have no reader.
    """

    def read(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, Any]:
        found: dict[str, Any] = dict.fromkeys(readers)
        for setting in (part.strip() for value in values for part in value.split(",")):
            key, equals, value = setting.partition("=")
            reader = readers.get(key)
            if key not in readers or bool(equals) != (reader is not None):
                known = ", ".join(each + "=..." * (readers[each] is not None) for each in readers)
                raise click.BadParameter(f"{setting!r} is none of {known}", ctx, param)
            try:
                found[key] = True if reader is None else reader(value)
            except ValueError as error:
                raise click.BadParameter(f"{key}: {error}", ctx, param) from None
        return found

    return option(name, callback=read, multiple=True, metavar="SETTING,...", help=text)


def positive_time(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Seconds of a time that is more than none, such as 10s."""
    if value is None:
        return None
    try:
        time_s = parse_time(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None
    if time_s <= 0:
        raise click.BadParameter(f"{value} is no time", ctx, param)
    return float(time_s)


def alpha_option_of(text: str, *, required: bool = False) -> Any:
    """The option --alpha, explained by ``text``."""
    return quantity_option("--alpha", parse_time, text, required=required)


def bandwidth_option_of(text: str, *, required: bool = False) -> Any:
    """The option --bandwidth, explained by ``text``."""
    return quantity_option("--bandwidth", parse_bandwidth, text, required=required)


def delta_option(*, required: bool = False) -> Any:
    """The option --delta."""
    text = "Dead time of a change of circuits, such as 10us."
    return quantity_option("--delta", parse_time, text, required=required)


timeline_option = option(
    "--timeline",
    type=OUTPUT,
    metavar="FILE",
    help="Write what happens when as trace events, for Perfetto and chrome://tracing.",
)
ALPHA, EGRESS = "Time of a step, such as 10us.", "Total egress of a node, such as 100Gbps."
alpha_option, bandwidth_option = alpha_option_of(ALPHA), bandwidth_option_of(EGRESS)
latency_option = quantity_option(
    "--latency", parse_time, "Latency of a link of a network that has none of its own, such as 1us."
)
delta_per_circuit_option = quantity_option(
    "--delta-per-circuit", parse_time, "Dead time more for every circuit that changes."
)
overlap_option = option(
    "--overlap/--serial",
    default=None,
    help="A plane changes while others send (default), or the whole fabric stops for every change.",
)
COLD, WARM = "cold", "warm"
GATHERING = tuple(kind.name for kind in GATHERING_COLLECTIVES)
ALLTOALL = Collective.ALLTOALL.name


class _CollectiveName(click.Choice[str]):
    """One of these collectives in any spelling: all-reduce, AllReduce, all_reduce."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert(plain_collective(value), param, ctx)


def collective_choice(*names: str, short: str = "", **settings: Any) -> Any:
    """The option --collective with these choices, the first one the default; ``short`` as -c."""
    settings = {"help": "The collective operation."} | settings
    if not {"default", "multiple"} & set(settings):
        settings["default"] = names[0]
    called = (short, "--collective") if short else ("--collective",)
    declared = (*called, "collectives") if "multiple" in settings else called
    kind = _CollectiveName(names, case_sensitive=False)
    return option(*declared, type=kind, **settings)


collective_option = collective_choice(*GATHERING)
fabric_option = option(
    *("--fabric", "fabric_path"),
    type=INPUT,
    metavar="FILE",
    required=True,
    help="The fabric file; - is standard input.",
)
pick_option = option(
    "--pick",
    type=click.IntRange(min=1),
    metavar="ROW",
    help="Print only the recipes of this row of the answer, a line each.",
)
prefer_option = option(
    "--prefer",
    type=click.Choice(["any", "survivability"]),
    default="any",
    help="Which planes: any, or those whose loss leaves most nodes connected.",
)
network_option = option(
    "--network",
    metavar="NETWORK",
    help="A network of hosts and switches instead of a recipe: a file, or a builder such as "
    "a100(2), as optimum takes it.",
)
recipe_argument = argument("recipe", required=False)
graph_option = option(
    "--graph", type=INPUT, metavar="FILE", help="A topology from a file instead of a recipe."
)


# Spelled out, since importing ocs_codesign.core.lp for a help text would take too long.
HIGHS = "highs"
SOLVERS = (HIGHS, "gurobi")

_RATIO = re.compile(r"([0-9]{1,9}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})(e-[0-9]{1,2})?(%?)")


def _read_ratio(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """A ratio as in 0.01 or 1%."""
    if value is None:
        return None
    found = _RATIO.fullmatch(value.strip())
    if found is None:
        raise click.BadParameter(f"{value!r} is not a ratio such as 0.01 or 1%", ctx, param)
    digits, exponent, percent = found.groups()
    return float(digits + (exponent or "")) / (100 if percent else 1)


def name_of(text: str) -> str:
    """A file without its directory, a builder or a recipe as it was given."""
    return Path(text).name if exists(text) else text


def network_of(text: str) -> Network:
    """The network in a file, or the one that a call of a builder or a recipe names."""
    from ocs_codesign.graphs.handle import asked_digits

    text = STDIN if text == STDOUT else text
    is_file = exists(text)
    if not is_file and asked_digits(text) is not None:
        from ocs_codesign.faces.cli.handles import recipe_of

        text = repr(recipe_of(text))
    asked = _asked_beside()
    if is_file or not text.rstrip().endswith(")"):
        return _read_network(text, asked)
    if any(asked):
        raise click.UsageError("--speed, --speed-attribute and --without are for files")
    from ocs_codesign.faces.sites import is_builder
    from ocs_codesign.graphs.text import parse_network

    if is_builder(text):
        from ocs_codesign.jobs.files.site_files import load_site

        return load_site(text).network()
    return parse_network(text)


def _asked_beside() -> ReadOptions:
    """What --speed, --without and --speed-attribute say."""
    from ocs_codesign.interop.wiring.wires import ReadOptions

    return ReadOptions.of(
        asked_output("link_speed") or (), asked_output("without_link") or (), speed_attribute()
    )


def speed_attribute() -> str | None:
    """What --speed-attribute says."""
    return asked_output("speed_attribute")


def graph_of(path: str | Path) -> Topology:
    """The topology in a file."""
    from ocs_codesign.graphs.formats.graph_files import import_graph

    return import_graph(path, speed_attribute=speed_attribute())


def _read_network(path: str, asked: ReadOptions) -> Network:
    """The network in a file; what was read of somebody else's is said with the answer."""
    from ocs_codesign.interop.wiring.registry import read_network

    network, reading = read_network(path, asked)
    context = click.get_current_context(silent=True)
    if reading is not None and context is not None:
        known = context.meta.setdefault(READ, [])
        known += [reading] * (reading not in known)
    return network


@final
@dataclass(frozen=True, slots=True)
class GivenGraph:
    """The topology that a command works on: a recipe, a graph file, or a network's."""

    recipe: Recipe | None
    path: Path | None
    network: Network | None = None

    @classmethod
    def of(cls, recipe: str | None, graph: str | None, network: str | None = None) -> GivenGraph:
        """The one that was given; UsageError if several or none."""
        if network is not None and recipe is None and graph is None:
            return cls(None, Path(network), network_of(network))
        if network is not None or (recipe is None) == (graph is None):
            raise click.UsageError("give either a RECIPE or --graph FILE")
        if recipe is None:
            return cls(None, Path(graph or ""))
        from ocs_codesign.faces.cli.handles import recipe_of

        return cls(recipe_of(recipe), None)

    @property
    def recipe_text(self) -> str | None:
        """The recipe as text, None for a graph file."""
        return None if self.recipe is None else repr(self.recipe)

    @property
    def graph_name(self) -> str | None:
        """The graph file's name without its directory, None for a recipe."""
        return None if self.path is None else printable(self.path.name)

    @property
    def name(self) -> str:
        """What to call the topology in a title."""
        return self.recipe_text or self.graph_name or ""

    def subject(self, topology: Topology | None) -> Subject:
        """What an answer about this topology begins with; a recipe knows its size unbuilt."""
        shape = topology if self.recipe is None else self.recipe
        if shape is None:
            raise ValueError("a graph file has a topology")
        # The degree of a recipe's node is that of all; a network has bandwidths of its own.
        is_graph = topology is not None and self.recipe is None and self.network is None
        links = topology.num_links if topology is not None and is_graph else None
        return Subject(self.recipe, self.graph_name, shape.num_nodes, shape.degree, links)

    def topology(self) -> Topology:
        """The topology, built or read."""
        if self.recipe is not None:
            return self.recipe.topology()
        if self.network is not None:
            return self.network.topology()
        return graph_of(self.path or "")


class GraphOptions(OptionGroup):
    """The topology that a command works on, as it is asked for."""

    recipe: str | None = recipe_argument
    graph: str | None = graph_option
    network: str | None = network_option

    @cached_property
    def source(self) -> GivenGraph:
        """The one that was given; UsageError if several or none."""
        return GivenGraph.of(self.recipe, self.graph, self.network)


class SolverChoice(OptionGroup):
    """How programs are to be solved."""

    solver: str | None = option(
        "--solver",
        type=click.Choice(SOLVERS, case_sensitive=False),
        help="Who solves: HiGHS (the default) or Gurobi, as far as its licence goes.",
    )
    time_limit_s: float | None = quantity_option(
        "--time-limit", parse_time, "Time for solving, such as 60s."
    )
    relative_gap: float | None = option(
        "--gap",
        callback=_read_ratio,
        metavar="RATIO",
        help="Be content so close to the bound, as in 0.01 or 1%.",
    )
    fallback: bool = option(
        "--fallback", is_flag=True, help="Let HiGHS solve what Gurobi's licence does not allow."
    )

    def __post_init__(self) -> None:
        if self.fallback and self.solver in {None, HIGHS}:
            raise click.UsageError(
                "--fallback solves with HiGHS what another --solver cannot take: name that one"
            )

    @contextmanager
    def solving(self, default_limit_s: float | None = None) -> Iterator[Options]:
        """The solver's options; ``default_limit_s`` is the time limit if none was given.

        A program inside that the solver cannot take becomes a ClickException with what to do.
        """
        from ocs_codesign.core.lp import Options, SolverUnavailableError

        limit = default_limit_s if self.time_limit_s is None else self.time_limit_s
        try:
            yield Options(
                time_limit_s=limit,
                relative_gap=self.relative_gap,
                solver=self.solver or HIGHS,
                fallback=HIGHS if self.fallback else None,
            )
        except SolverUnavailableError as error:
            raise click.ClickException(self.advised(str(error))) from None

    def advised(self, refusal: str) -> str:
        """What a solver said when it could not take a program, and what to do."""
        may_fall_back = self.solver not in {None, HIGHS} and not self.fallback
        return f"{refusal}{'; with --fallback HiGHS solves it' if may_fall_back else ''}"

    def check_unused(self, where: str) -> None:
        """UsageError if an option was given although nothing is solved but ``where``."""
        if self != NO_CHOICE:
            raise click.UsageError(
                f"--solver, --time-limit, --gap and --fallback are for {where}: "
                "nothing else is given to a solver"
            )


NO_CHOICE = SolverChoice(None, None, None, False)


solving_options = group(SolverChoice)
"""Of commands that solve programs."""


def printable(name: str) -> str:
    """A file name as text that can be written anywhere."""
    return name.encode("utf-8", "replace").decode("utf-8")
