"""``ocs-codesign optimum``: the best that trees can do on a network, and what proves it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ocs_codesign.answers.optimum import NetworkOptimum, optimum_json, optimum_sections
from ocs_codesign.cli.aggregation import aggregation_option
from ocs_codesign.cli.file_options import plot_option
from ocs_codesign.cli.options import bandwidth_option_of, json_option, network_of
from ocs_codesign.cli.output import check_outputs, emit
from ocs_codesign.cli.progress import progress
from ocs_codesign.cli.units import unit_Bps

if TYPE_CHECKING:
    from ocs_codesign.aggregation import AggregationProfile
    from ocs_codesign.cli.progress import Progress
    from ocs_codesign.network import Network


@click.command(short_help="The best rate of collectives on a network, with its bottleneck.")
@click.argument("network")
@click.option(
    "--lost", multiple=True, metavar="NAME", help="What the network has lost; may be repeated."
)
@click.option(
    "--losses", "with_losses", is_flag=True, help="What is left when a cable or a switch is lost."
)
@click.option(
    "--slack", "with_slack", is_flag=True, help="How much of every link nothing needs at that rate."
)
@click.option(
    "--allreduce/--no-allreduce",
    default=None,
    help="Solve for allreduces of both halves at once  [default: for small networks].",
)
@aggregation_option("Bounds of allreduces that switches add up, with the memory that NAME has.")
@bandwidth_option_of(
    "With --aggregation: total egress of a host, where the network has no unit, such as 100Gbps."
)
@plot_option("the network and its bottleneck")
@json_option
def optimum(
    network: str,
    lost: tuple[str, ...],
    with_losses: bool,
    with_slack: bool,
    allreduce: bool | None,
    aggregation: AggregationProfile | None,
    bandwidth: float | None,
    plot: str | None,
    json_path: str | None,
) -> int:
    """Find the highest rate of collectives on a NETWORK, and the cut that proves it.

    NETWORK is a file (JSON, YAML, edge list, node-link JSON, GraphML), a builder with its
    arguments, such as a100(4), h100_rail(2), mi250(2), dgx1(), leaf_spine(4, 4, 2, 4, 4) or
    boxes(4, 8, 300, 25, outer=2), or a recipe, whose links are of width 1. --lost names hosts and
    switches (h3, s0, or as the file calls them), cables (h0-s0), and links one way (h0>s0).

    The rate is exact: spanning trees in many pieces reach it where switches that only forward let
    out what they let in, and no schedule exceeds it. algbw is M over the time it takes.

    With --aggregation, a table has what no allreduce exceeds without and with sums in switches: a
    slot of a pool is taken for a round trip at least, which limits what a switch adds up.

    \b
    Example:
      ocs-codesign optimum 'a100(2)' --losses
    """
    check_outputs(json_path, plot)
    given = network_of(network)
    if lost:
        from ocs_codesign.networks.damaged import damaged

        given = damaged(given, lost)
    unit = None if aggregation is None else unit_Bps(given, bandwidth)
    if unit is None and bandwidth is not None:
        raise click.UsageError("--bandwidth is for --aggregation: rates are in the links' unit")
    with progress("Finding the optimum") as shown:
        found = _found(_name(network), given, with_losses, with_slack, allreduce, shown)
        if aggregation is not None and unit is not None:
            from ocs_codesign.comparison.in_network import in_network_rates

            rates = in_network_rates(given, aggregation, unit)
            found = replace(found, aggregation=aggregation, in_network=rates)
        files = {} if plot is None else {plot: _picture(found, plot)}
    emit(optimum_json(found), json_path, optimum_sections(found), files)
    return 0


def _picture(found: NetworkOptimum, plot: str) -> bytes:
    from ocs_codesign.plot.files import figure_bytes
    from ocs_codesign.plot.network import network_figure

    return figure_bytes(network_figure(found.allgather, found.name), Path(plot).suffix)


def _name(text: str) -> str:
    """A file without its directory, a builder as it was given."""
    return Path(text).name if Path(text).exists() else text


def _found(
    name: str,
    network: Network,
    with_losses: bool,
    with_slack: bool,
    allreduce: bool | None,
    shown: Progress,
) -> NetworkOptimum:
    from ocs_codesign.collective import Collective
    from ocs_codesign.schedulers.forest.allreduce import MAX_LINKS, allreduce_optimum
    from ocs_codesign.schedulers.forest.optimum import optimum as trees_optimum
    from ocs_codesign.schedulers.forest.sensitivity import helpful_links, losses, spare_bandwidth

    gather = trees_optimum(network, Collective.ALLGATHER)
    scatter = trees_optimum(network, Collective.REDUCE_SCATTER)
    if allreduce is None:
        allreduce = network.num_links <= MAX_LINKS
    rate = allreduce_optimum(network) if allreduce else None
    lost = tuple(losses(gather, shown.tell)) if with_losses else None
    spare = None
    if with_slack:
        spare = tuple(spare_bandwidth(gather, range(network.num_links), shown.tell))
    helpful = tuple(helpful_links(gather))
    return NetworkOptimum(name, network, gather, scatter, rate, helpful, lost, spare)
