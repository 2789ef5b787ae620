"""What ``cost`` and ``build --scheduler forest`` do: trees beside other schedules, a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ocs_codesign.answers.choice import ForestCosts, forest_costs_json, forest_costs_sections
from ocs_codesign.cli.exact import MORE_STEPS, walked
from ocs_codesign.cli.output import emit
from ocs_codesign.cli.progress import progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.cli.options import GivenGraph, SolverChoice
    from ocs_codesign.collective import Collective
    from ocs_codesign.cost import MessageSizes
    from ocs_codesign.schedulers.forest.choice import Contender
    from ocs_codesign.schedulers.task import Made


def cost_of_forests(
    source: GivenGraph,
    collective: str,
    exact: tuple[int | None, int | None] | None,
    asked: MessageSizes | None,
    choice: SolverChoice,
    json_path: str | None,
) -> int:
    """Compare, print and write what a collective takes, an allreduce half by half; the exit code.

    ``exact`` are the most steps and the chunks of exact schedules, None where none are asked for.
    """
    from dataclasses import replace

    from ocs_codesign.collective import Collective
    from ocs_codesign.networks.direct import direct
    from ocs_codesign.schedulers.forest.choice import contenders

    topology = source.topology()
    network = source.network or direct(topology, 1)
    if exact is None:
        choice.check_unused("--exact and --collective alltoall")
    halves = Collective.parse(collective).halves()
    if exact is not None and (len(halves) > 1 or network.num_hosts < network.num_nodes):
        raise click.UsageError(
            "--exact beside forests is for allgather and reduce-scatter, and links between hosts"
        )
    fields = []
    for half in halves:
        with progress("Packing trees") as shown:
            field = contenders(network, half, None, topology, shown.tell)
        more = [*_mapped(source, half)]
        if exact is not None:
            more += _exact(source, half, field.least.steps, exact, choice)
        fields.append(replace(field, others=(*field.others, *more)))
    costs = ForestCosts(source.subject(topology), network, halves, tuple(fields), asked)
    emit(forest_costs_json(costs), json_path, forest_costs_sections(costs))
    return 0


def picture_of_trees(made: Made, path: str) -> bytes:
    """The picture of a tree of what was made, as the suffix of the path says.

    Raises ClickException if it has no trees.
    """
    if not made.forests:
        raise click.ClickException(
            f"--plot draws a tree, but {made.maker} is faster for this message than forests are: "
            "--parts makes one of these"
        )
    from ocs_codesign.plot.files import figure_bytes
    from ocs_codesign.plot.tree import tallest_tree_figure

    return figure_bytes(tallest_tree_figure(made.forests), Path(path).suffix)


def _mapped(source: GivenGraph, half: Collective) -> Iterator[Contender]:
    """The schedule mapped through the expansions of a recipe, where it is better than BFB."""
    from ocs_codesign.design import BFB, measure
    from ocs_codesign.schedulers.forest.choice import Contender

    if source.recipe is not None:
        design = measure(source.recipe, half)
        if design.maker != BFB:
            yield Contender(design.maker, design.cost)


def _exact(
    source: GivenGraph,
    half: Collective,
    least_steps: int,
    exact: tuple[int | None, int | None],
    choice: SolverChoice,
) -> Iterator[Contender]:
    """What exact schedules of more and more steps take."""
    from ocs_codesign.cost import undominated
    from ocs_codesign.schedulers.exact.answers import cost_of
    from ocs_codesign.schedulers.forest.choice import Contender

    topology, (most, chunks) = source.topology(), exact
    most = max(least_steps, least_steps + MORE_STEPS if most is None else most)
    answers, stopped, _ = walked(topology, most, chunks or topology.degree, half.name, choice)
    if stopped is not None:
        click.echo(f"Exact schedules: {stopped}", err=True)
    for answer in undominated(answers, cost_of):
        yield Contender("exact", cost_of(answer))
