"""Options that several commands share, and the values they are read into."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import click

from ocs_codesign import collective
from ocs_codesign.quantities import parse_bandwidth, parse_size, parse_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.recipe import Recipe
    from ocs_codesign.topology import Topology


def quantity_option(name: str, parse: Callable[[str], float], text: str) -> Callable[..., Any]:
    """An option whose value is a quantity with a unit, read by ``ocs_codesign.quantities``."""

    def read(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
        try:
            return None if value is None else parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None

    return click.option(name, callback=read, metavar="QUANTITY", help=text)


alpha_option = quantity_option("--alpha", parse_time, "Time of a step, such as 10us.")
bandwidth_option = quantity_option(
    "--bandwidth", parse_bandwidth, "Total egress of a node, such as 100Gbps or 12.5GB/s."
)
message_option = quantity_option("--message", parse_size, "Size of the whole data, such as 1MiB.")

GATHERING = tuple(kind.value for kind in collective.GATHERING)


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
    "--json", "json_path", metavar="FILE", help="Write the answer as JSON; - is standard output."
)
recipe_argument = click.argument("recipe", required=False)
graph_option = click.option(
    "--graph", metavar="FILE", help="A topology from a file instead of a recipe."
)


@final
@dataclass(frozen=True, slots=True)
class Source:
    """The topology that a command works on: a recipe, or a graph file."""

    recipe: Recipe | None
    path: Path | None

    @classmethod
    def of(cls, recipe: str | None, graph: str | None) -> Source:
        """The one that was given; UsageError if both or neither."""
        if (recipe is None) == (graph is None):
            raise click.UsageError("give either a RECIPE or --graph FILE")
        if recipe is None:
            return cls(None, Path(graph or ""))
        from ocs_codesign.recipe import parse

        return cls(parse(recipe), None)

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

    def topology(self) -> Topology:
        """The topology, built or read."""
        if self.recipe is not None:
            return self.recipe.topology()
        from ocs_codesign.export import import_graph

        return import_graph(self.path or "")


def printable(name: str) -> str:
    """A file name as text that can be written anywhere."""
    return name.encode("utf-8", "replace").decode("utf-8")
