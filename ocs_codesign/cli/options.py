"""Options that several commands share, and the values they are read into."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import click

from ocs_codesign.answers.cost import Subject
from ocs_codesign.cli.file_options import INPUT, OUTPUT, STDIN
from ocs_codesign.cli.output import STDOUT
from ocs_codesign.collective import GATHERING as GATHERING_COLLECTIVES
from ocs_codesign.collective import Collective
from ocs_codesign.quantities import parse_bandwidth, parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.lp import Options
    from ocs_codesign.network import Network
    from ocs_codesign.topology import Topology


def quantity_option(
    name: str,
    parse: Callable[[str], float],
    text: str,
    *names: str,
    multiple: bool = False,
    required: bool = False,
) -> Callable[..., Any]:
    """An option whose value is a quantity with a unit, read by ``ocs_codesign.quantities``.

    One that is ``multiple`` may be repeated, or have several values with commas between them.
    """

    def read(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        try:
            if multiple:
                return tuple(parse(part) for text in value for part in text.split(","))
            return None if value is None else parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None

    return click.option(
        *(name, *names),
        callback=read,
        metavar="QUANTITY",
        multiple=multiple,
        required=required,
        help=text,
    )


def alpha_option_of(text: str, *, required: bool = False) -> Callable[..., Any]:
    """The option --alpha, explained by ``text``."""
    return quantity_option("--alpha", parse_time, text, required=required)


def bandwidth_option_of(text: str, *, required: bool = False) -> Callable[..., Any]:
    """The option --bandwidth, explained by ``text``."""
    return quantity_option("--bandwidth", parse_bandwidth, text, required=required)


def delta_option(*, required: bool = False) -> Callable[..., Any]:
    """The option --delta."""
    text = "Dead time of a change of circuits, such as 10us."
    return quantity_option("--delta", parse_time, text, required=required)


ALPHA, EGRESS = "Time of a step, such as 10us.", "Total egress of a node, such as 100Gbps."
alpha_option, bandwidth_option = alpha_option_of(ALPHA), bandwidth_option_of(EGRESS)
delta_per_circuit_option = quantity_option(
    "--delta-per-circuit", parse_time, "Dead time more for every circuit that changes."
)
overlap_option = click.option(
    "--overlap/--serial",
    default=None,
    help="A plane changes while others send (default), or the whole fabric stops for every change.",
)
COLD, WARM = "cold", "warm"
GATHERING = tuple(kind.name for kind in GATHERING_COLLECTIVES)
ALLTOALL = Collective.ALLTOALL.name


def collective_choice(*names: str) -> Callable[..., Any]:
    """The option --collective with these choices, the first one the default."""
    return click.option(
        "--collective",
        type=click.Choice(names, case_sensitive=False),
        default=names[0],
        show_default=True,
        help="The collective operation.",
    )


collective_option = collective_choice(*GATHERING)
json_option = click.option(
    *("--json", "json_path"),
    type=OUTPUT,
    metavar="FILE",
    help="Write the answer as JSON; - is standard output.",
)
fabric_option = click.option(
    *("--fabric", "fabric_path"),
    type=INPUT,
    metavar="FILE",
    required=True,
    help="The fabric file; - is standard input.",
)
pick_option = click.option(
    "--pick",
    type=click.IntRange(min=1),
    metavar="ROW",
    help="Print only the recipes of this row of the answer, a line each.",
)
prefer_option = click.option(
    "--prefer",
    type=click.Choice(["any", "survivability"]),
    default="any",
    show_default=True,
    help="Which planes: any, or those whose loss leaves most nodes connected.",
)
network_option = click.option(
    "--network",
    metavar="NETWORK",
    help="A network of hosts and switches instead of a recipe: a file, or a builder such as "
    "a100(2), as optimum takes it.",
)
recipe_argument = click.argument("recipe", required=False)
graph_option = click.option(
    "--graph", type=INPUT, metavar="FILE", help="A topology from a file instead of a recipe."
)


# Spelled out, since importing ocs_codesign.lp for a help text would take too long.
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


_SOLVER_OPTIONS = (
    click.option(
        "--solver",
        type=click.Choice(SOLVERS, case_sensitive=False),
        help="Who solves: HiGHS (the default) or Gurobi, as far as its licence goes.",
    ),
    quantity_option("--time-limit", parse_time, "Time for solving, such as 60s."),
    click.option(
        "--gap",
        callback=_read_ratio,
        metavar="RATIO",
        help="Be content so close to the bound, as in 0.01 or 1%.",
    ),
    click.option(
        "--fallback", is_flag=True, help="Let HiGHS solve what Gurobi's licence does not allow."
    ),
)


def network_of(text: str) -> Network:
    """The network in a file, or the one that a call of a builder or a recipe names."""
    from ocs_codesign.graphs.handle import asked_digits

    text = STDIN if text == STDOUT else text
    is_file = Path(text).exists()
    if not is_file and asked_digits(text) is not None:
        from ocs_codesign.cli.handles import recipe_of

        text = repr(recipe_of(text))
    if is_file or not text.rstrip().endswith(")"):
        from ocs_codesign.formats.networks.network_files import import_network

        return import_network(text)
    from ocs_codesign.graphs.text import parse_network

    return parse_network(text)


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
        from ocs_codesign.cli.handles import recipe_of

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
        return Subject(self.recipe, self.graph_name, shape.num_nodes, shape.degree)

    def topology(self) -> Topology:
        """The topology, built or read."""
        if self.recipe is not None:
            return self.recipe.topology()
        if self.network is not None:
            return self.network.topology()
        from ocs_codesign.formats.graphs.graph_files import import_graph

        return import_graph(self.path or "")


@final
@dataclass(frozen=True, slots=True)
class SolverChoice:
    """What the options of ``solver_options`` say of how programs are to be solved."""

    solver: str | None
    time_limit_s: float | None
    relative_gap: float | None
    fallback: bool

    @contextmanager
    def solving(self, default_limit_s: float | None = None) -> Iterator[Options]:
        """The solver's options; ``default_limit_s`` is the time limit if none was given.

        A program inside that the solver cannot take becomes a ClickException with what to do.
        """
        from ocs_codesign.lp import Options, SolverUnavailableError

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


def solver_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options --solver, --time-limit, --gap and --fallback, as the argument ``choice``.

    >>> @click.command()
    ... @solver_options
    ... def solve(choice: SolverChoice) -> None:
    ...     click.echo(choice)
    >>> solve(["--solver", "gurobi", "--time-limit", "60s", "--gap", "1%"], standalone_mode=False)
    SolverChoice(solver='gurobi', time_limit_s=60.0, relative_gap=0.01, fallback=False)
    """

    @wraps(command)
    def chosen(
        *arguments: Any,
        solver: str | None,
        time_limit: float | None,
        gap: float | None,
        fallback: bool,
        **others: Any,
    ) -> Any:
        if fallback and solver in {None, HIGHS}:
            raise click.UsageError(
                "--fallback solves with HiGHS what another --solver cannot take: name that one"
            )
        choice = SolverChoice(solver, time_limit, gap, fallback)
        return command(*arguments, choice=choice, **others)

    decorated: Callable[..., Any] = chosen
    for option in reversed(_SOLVER_OPTIONS):
        decorated = option(decorated)
    return decorated


def printable(name: str) -> str:
    """A file name as text that can be written anywhere."""
    return name.encode("utf-8", "replace").decode("utf-8")
