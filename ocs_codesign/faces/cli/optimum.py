"""``ocs-codesign optimum``: the best that trees can do on a network, and what proves it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.core.quantities import exact, parse_size
from ocs_codesign.faces.cli.aggregation import aggregation_option
from ocs_codesign.faces.cli.message_options import MESSAGE
from ocs_codesign.faces.cli.options import (
    GATHERING,
    INPUT,
    OUTPUT,
    alpha_option,
    bandwidth_option_of,
    collective_choice,
    json_option,
    network_of,
    pick_option,
    plot_option,
    quantity_option,
)
from ocs_codesign.faces.cli.output import check_outputs, emit, picked
from ocs_codesign.faces.cli.progress import progress
from ocs_codesign.faces.cli.units import unit_Bps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ocs_codesign.core.network import Network
    from ocs_codesign.core.networks.aggregation import AggregationProfile
    from ocs_codesign.fabric.clusters import Cluster, ClusterDesign
    from ocs_codesign.faces.answers.networks import NetworkOptimum
    from ocs_codesign.faces.answers.sections import Section
    from ocs_codesign.graphs.recipe import Recipe


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
    from ocs_codesign.faces.answers.networks import optimum_json, optimum_sections

    check_outputs(json_path, plot)
    given = network_of(network)
    if lost:
        from ocs_codesign.core.networks.builders import damaged

        given = damaged(given, lost)
    unit = None if aggregation is None else unit_Bps(given, bandwidth)
    if unit is None and bandwidth is not None:
        raise click.UsageError("--bandwidth is for --aggregation: rates are in the links' unit")
    with progress("Finding the optimum"):
        found = _found(_name(network), given, with_losses, with_slack, allreduce)
        if aggregation is not None and unit is not None:
            from ocs_codesign.schedules.compare.in_network import in_network_rates

            rates = in_network_rates(given, aggregation, unit)
            found = replace(found, aggregation=aggregation, in_network=rates)
        files = {} if plot is None else {plot: _picture(found, plot)}
    emit(optimum_json(found), json_path, optimum_sections(found), files)
    return 0


def _picture(found: NetworkOptimum, plot: str) -> bytes:
    from ocs_codesign.faces.pictures.files import figure_bytes
    from ocs_codesign.faces.pictures.network import network_figure

    return figure_bytes(network_figure(found.allgather, found.name), Path(plot).suffix)


def _name(text: str) -> str:
    """A file without its directory, a builder as it was given."""
    return Path(text).name if Path(text).exists() else text


def _found(
    name: str, network: Network, with_losses: bool, with_slack: bool, allreduce: bool | None
) -> NetworkOptimum:
    from ocs_codesign.core.collective import Collective
    from ocs_codesign.faces.answers.networks import NetworkOptimum
    from ocs_codesign.schedules.forest.optimum import helpful_links, losses, spare_bandwidth
    from ocs_codesign.schedules.forest.optimum import optimum as trees_optimum
    from ocs_codesign.schedules.forest.pipeline import MAX_LINKS, allreduce_optimum

    gather = trees_optimum(network, Collective.ALLGATHER)
    scatter = trees_optimum(network, Collective.REDUCE_SCATTER)
    if allreduce is None:
        allreduce = network.num_links <= MAX_LINKS
    rate = allreduce_optimum(network) if allreduce else None
    lost = tuple(losses(gather)) if with_losses else None
    spare = None
    if with_slack:
        spare = tuple(spare_bandwidth(gather, range(network.num_links)))
    helpful = tuple(helpful_links(gather))
    return NetworkOptimum(name, network, gather, scatter, rate, helpful, lost, spare)


# ``ocs-codesign cluster``: what joins the NICs of servers of GPUs best, by the exact optimum.


EACH_RAIL = "each-rail"
_DESCRIBING = (
    click.option("--servers", type=int, help="Number of servers."),
    click.option("--gpus", type=int, help="GPUs of a server."),
    click.option(
        "--inner",
        metavar="switch=QUANTITY|mesh=QUANTITY|NETWORK",
        help="What joins its GPUs: of each to the server's switch, between any two each way, or a "
        "network such as 'mi250(1)'.",
    ),
    click.option("--nics", type=int, help="NICs of a server  [default: one a GPU]."),
    click.option("--ports", type=int, help="Optical ports of a NIC."),
    click.option("--port-bandwidth", metavar="QUANTITY", help="Of an optical port, each way."),
    click.option(
        "--nic-on",
        type=click.Choice(["gpu", "shared", "switch"]),
        help="A NIC hangs on one GPU (default), on an equal part of them, or on the switch.",
    ),
    click.option(
        "--wiring",
        type=click.Choice(["rails", "each-rail", "across"]),
        help="A recipe for every rail (default), those of --designs for one each, in order, or "
        "one across all NICs.",
    ),
    click.option(
        "--relay",
        type=click.Choice(["gpu", "nic"]),
        help="On the way data pass a GPU (default), or only NICs, from port to port.",
    ),
    click.option(
        "--bidirectional", is_flag=True, default=None, help="Every optical link has one back."
    ),
)


def _describing(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that describe a cluster."""
    for option in reversed(_DESCRIBING):
        command = option(command)
    return command


@click.command(short_help="Find what joins the NICs of servers of GPUs best.")
@click.argument("file", type=INPUT, required=False)
@_describing
@click.option("--lost", multiple=True, metavar="NAME", help="What has failed; may be repeated.")
@click.option("--designs", "recipes", multiple=True, help="Score this one; may be repeated.")
@collective_choice(*GATHERING)
@alpha_option
@quantity_option("--message", parse_size, f"{MESSAGE}; may be repeated.", "messages", multiple=True)
@pick_option
@click.option(
    "--out",
    type=OUTPUT,
    metavar="FILE",
    help="Write the network of the best, or of the row picked, as JSON.",
)
@json_option
def cluster(
    file: str | None,
    lost: tuple[str, ...],
    recipes: tuple[str, ...],
    collective: str,
    alpha: float | None,
    messages: tuple[float, ...],
    pick: int | None,
    out: str | None,
    json_path: str | None,
    **described: Any,
) -> None:
    """Score what may join the NICs of servers of GPUs, by the exact optimum of the whole cluster.

    The cluster is described by options, by a cluster FILE (YAML or JSON; 'ocs-codesign fabric
    schema cluster' documents its keys), or by a fabric file that says which servers its hosts
    are. Recipes are those given, or the frontier of as many nodes and ports and a circulant a rail
    whose offsets differ, beside a ring, a torus and packet switches of the NICs' bandwidth, which
    nothing beats.

    algbw is M over the time of long messages. With --alpha and --message it says the least time
    that any schedule takes. --lost names servers (server3), NICs (server3.nic1) and, with
    --designs, links (server0.nic1-server3.nic1, or > for one way). What --out writes is for optimum
    and build.

    \b
    Example:
      ocs-codesign cluster --servers 16 --gpus 8 --inner switch=450GB/s --ports 2 \\
          --port-bandwidth 200Gbps --out cluster.json
      ocs-codesign optimum cluster.json --no-allreduce
    """
    check_outputs(json_path, out)
    from ocs_codesign.core.collective import Collective
    from ocs_codesign.fabric.clusters import score_cluster
    from ocs_codesign.faces.answers.networks import cluster_json, cluster_sections
    from ocs_codesign.faces.cli.handles import recipe_of

    each_rail = described["wiring"] == EACH_RAIL
    if each_rail:
        described["wiring"] = None
    given = _cluster(file, described)
    alpha_s = given.alpha_s if alpha is None else exact(alpha)
    given = replace(given, lost=(*given.lost, *lost), alpha_s=alpha_s)
    if (messages and alpha_s is None) or (alpha is not None and not messages):
        raise click.UsageError("--alpha and --message are only given together")
    with progress("Searching"):
        found = score_cluster(
            given,
            Collective.parse(collective),
            [recipe_of(text) for text in recipes],
            [exact(size) for size in dict.fromkeys(messages)],
            each_rail=each_rail,
        )
    sections: Iterable[Section] = cluster_sections(found)
    best = found.best
    if pick is not None:
        rows = (*found.candidates, *found.dominated)
        sections = picked([_recipes_of(one) for one in rows], pick)
        best = rows[pick - 1]
    files = {} if out is None else {out: _network_file(best.network)}
    emit(cluster_json(found), json_path, sections, files)


def _recipes_of(design: ClusterDesign) -> tuple[Recipe, ...]:
    """The recipe of every rail, one if they are the same."""
    return design.recipes if len(design.distinct) > 1 else design.distinct


def _cluster(file: str | None, described: dict[str, Any]) -> Cluster:
    """The cluster of a file or of options."""
    from ocs_codesign.core.files.plain_text import PlainText
    from ocs_codesign.fabric.files.cluster_files import cluster_of_plain, load_cluster

    given = {name: value for name, value in described.items() if value is not None}
    if file is not None:
        relay = {"relay": given.pop("relay")} if "relay" in given else {}
        if given:
            option = next(iter(given)).replace("_", "-")
            raise click.UsageError(f"give either a FILE or --{option}: the FILE describes it")
        return replace(load_cluster(file), **relay)
    for name in ("servers", "ports", "port_bandwidth"):
        if name not in given:
            raise click.UsageError(f"give a FILE, or --{name.replace('_', '-')}")
    plain = PlainText(_plain(given), {})
    return cluster_of_plain(plain, "the options")


def _plain(given: dict[str, Any]) -> dict[str, Any]:
    """What a cluster file would say."""
    from ocs_codesign.fabric.clusters import Inner

    servers = {"count": given["servers"]}
    kind, _, rate = given.get("inner", "").partition("=")
    servers |= {"gpus": given["gpus"]} if "gpus" in given else {}
    nics = given.get("nics", given.get("gpus"))
    if kind in ("switch", "mesh"):
        servers[kind] = rate
    elif "inner" in given:
        servers["network"] = given["inner"]
        nics = given.get("nics") or Inner.of_network(given["inner"]).num_gpus
    card = {key: given[key] for key in ("ports", "port_bandwidth")}
    card |= {"count": nics or 1, "gpus": given.get("nic_on", "gpu")}
    more: dict[str, Any] = {
        key: given[key] for key in ("wiring", "relay", "bidirectional") if key in given
    }
    return {"name": f"{given['servers']} servers", "servers": servers, "nics": [card], **more}


def _network_file(network: Network) -> bytes:
    """A network as JSON: links with their bandwidths alone, and the names of nodes."""
    from ocs_codesign.core.networks.formats import write_json

    return write_json(network.changed(network.bandwidth, with_dimension=False), "").encode()
