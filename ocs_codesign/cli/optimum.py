"""``ocs-codesign optimum``: the best that trees can do on a network, and what proves it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ocs_codesign.answers.optimum import NetworkOptimum, optimum_json, optimum_sections
from ocs_codesign.cli.options import json_option, network_of
from ocs_codesign.cli.output import check_outputs, emit
from ocs_codesign.cli.progress import progress

if TYPE_CHECKING:
    from ocs_codesign.cli.progress import Progress
    from ocs_codesign.network import Network

MAX_ALLREDUCE_LINKS = 400
"""Links of a network up to which the program of the allreduce is solved without being asked for."""


@click.command(short_help="The best rate of collectives on a network, with its bottleneck.")
@click.argument("network")
@click.option(
    "--losses", "with_losses", is_flag=True, help="What is left when a cable or a switch is lost."
)
@click.option(
    "--allreduce/--no-allreduce",
    default=None,
    help="Solve for allreduces with unequal roots  [default: for small networks].",
)
@json_option
def optimum(network: str, with_losses: bool, allreduce: bool | None, json_path: str | None) -> int:
    """Find the highest rate of collectives on a NETWORK, and the cut that proves it.

    NETWORK is a file (JSON, YAML, edge list, node-link JSON, GraphML), a builder with its
    arguments, such as a100(4), h100_rail(2), mi250(2), dgx1(), leaf_spine(4, 4, 2, 4, 4) or
    boxes(4, 8, 300, 25, outer=2), or a recipe, whose links are of width 1.

    The rate is exact: spanning trees in many pieces reach it where switches that only forward let
    out what they let in, and no schedule exceeds it. algbw is M over the time it takes.

    \b
    Example:
      ocs-codesign optimum 'a100(2)' --losses
    """
    check_outputs(json_path)
    given = network_of(network)
    with progress("Finding the optimum") as shown:
        found = _found(_name(network), given, with_losses, allreduce, shown)
    emit(optimum_json(found), json_path, optimum_sections(found))
    return 0


def _name(text: str) -> str:
    """A file without its directory, a builder as it was given."""
    return Path(text).name if Path(text).exists() else text


def _found(
    name: str, network: Network, with_losses: bool, allreduce: bool | None, shown: Progress
) -> NetworkOptimum:
    from ocs_codesign.collective import Collective
    from ocs_codesign.schedulers.forest import optimum as forest
    from ocs_codesign.schedulers.forest.sensitivity import helpful_links, losses

    gather = forest.optimum(network, Collective.ALLGATHER)
    scatter = forest.optimum(network, Collective.REDUCE_SCATTER)
    if allreduce is None:
        allreduce = network.num_links <= MAX_ALLREDUCE_LINKS
    rate = forest.allreduce_optimum(network) if allreduce else None
    lost = tuple(losses(gather, shown.tell)) if with_losses else None
    return NetworkOptimum(name, network, gather, scatter, rate, tuple(helpful_links(gather)), lost)
