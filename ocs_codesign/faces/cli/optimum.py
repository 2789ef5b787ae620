"""``ocs-codesign optimum``: the best that collectives can do on a network, and what proves it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.core.quantities import exact
from ocs_codesign.faces.cli import options as opt
from ocs_codesign.faces.cli.aggregation import aggregation_option
from ocs_codesign.faces.cli.commands import (
    OUTPUT,
    OptionGroup,
    argument,
    command,
    group,
    option,
    together,
)
from ocs_codesign.faces.cli.exchange_options import demand_option, matrix_of, sketch_option
from ocs_codesign.faces.cli.machine_options import machine_of, machine_option_of
from ocs_codesign.faces.cli.message_options import messages_option, messages_option_of, unit_Bps
from ocs_codesign.faces.cli.output import Answer, answered
from ocs_codesign.faces.cli.progress import progress

if TYPE_CHECKING:
    from ocs_codesign.core.network import Network
    from ocs_codesign.core.networks.aggregation import AggregationProfile
    from ocs_codesign.fabric.clusters import Cluster, ClusterDesign
    from ocs_codesign.faces.answers.networks import Guided, NetworkOptimum
    from ocs_codesign.graphs.recipe import Recipe


class OptimumOptions(OptionGroup):
    """The best of what on which network."""

    network: str = argument("network")
    collective: str = opt.collective_choice(
        *(*opt.GATHERING, opt.ALLTOALL),
        help="An alltoall is a question of its own; the others have one answer, but for a sketch.",
    )
    demand: str | None = demand_option
    sketch: str | None = sketch_option
    relays: str = option(
        "--relays",
        metavar="any|none|NAMES",
        default="any",
        help="Of an alltoall: which hosts pass on what is not theirs, such as h0,h1.",
    )
    messages: tuple[float, ...] = messages_option_of("Of an alltoall: say what M takes")
    lost: tuple[str, ...] = option(
        "--lost", multiple=True, metavar="NAME", help="What the network has lost; may be repeated."
    )
    with_losses: bool = option(
        "--losses", is_flag=True, help="What is left when a cable or a switch is lost."
    )
    with_slack: bool = option(
        "--slack", is_flag=True, help="How much of every link nothing needs at that rate."
    )
    allreduce: bool | None = option(
        "--allreduce/--no-allreduce",
        default=None,
        help="Solve for allreduces of both halves at once  [default: for small networks].",
    )
    aggregation: AggregationProfile | None = aggregation_option(
        "Bounds of allreduces that switches add up, with the memory that NAME has."
    )
    bandwidth: float | None = opt.bandwidth_option_of(
        "With --aggregation or --message: total egress of a host, where the network has no unit, "
        "such as 100Gbps."
    )


@command(plot="the network and its bottleneck, the matrix of an alltoall")
def optimum(given: OptimumOptions = group(OptimumOptions)) -> Answer:
    """Find the highest rate of collectives on a NETWORK, and the cut that proves it.

    NETWORK is a file (JSON, YAML, edge list, node-link JSON, GraphML), a builder with its
    arguments, such as a100(4), h100_rail(2), mi250(2), dgx1(), leaf_spine(4, 4, 2, 4, 4) or
    boxes(4, 8, 300, 25, outer=2), or a recipe, whose links are of width 1. --lost names hosts and
    switches (h3, s0, or as the file calls them), cables (h0-s0), and links one way (h0>s0).

    The rate is exact: spanning trees in many pieces reach it where switches that only forward let
    out what they let in, and no schedule exceeds it. algbw is M over the time it takes.

    With --aggregation, a table has what no allreduce exceeds without and with sums in switches: a
    slot of a pool is taken for a round trip at least, which limits what a switch adds up.

    An all-to-all splits over any paths. U is the time of a unit for every pair, or of the matrix,
    on links of a unit of bandwidth: exact, and proven by prices of links, below which none goes.

    \b
    Example:
      ocs-codesign optimum 'a100(2)' --losses
    """
    network = opt.network_of(given.network)
    if given.lost:
        from ocs_codesign.core.networks.builders import damaged

        network = damaged(network, given.lost)
    by, bandwidth = given.aggregation, given.bandwidth
    if given.collective == opt.ALLTOALL:
        if by is not None or given.with_losses or given.with_slack or given.allreduce is not None:
            raise click.UsageError(
                "--losses, --slack, --allreduce and --aggregation are not for an alltoall"
            )
        return _exchange(given, network)
    if not (given.demand is None and given.relays == "any") or given.messages:
        text = (
            "--demand, --relays and --message are for --collective alltoall; a sketch names relays"
        )
        raise click.UsageError(text)
    unit = None if by is None else unit_Bps(network, bandwidth)
    if unit is None and bandwidth is not None:
        raise click.UsageError("--bandwidth is for --aggregation: rates are in the links' unit")
    with progress("Finding the optimum"):
        found = _found(given, network)
        if by is not None and unit is not None:
            from ocs_codesign.schedules.compare.in_network import in_network_rates

            rates = in_network_rates(network, by, unit)
            found = replace(found, aggregation=by, in_network=rates)
    figure = ("network.network_figure", found.allgather, found.name)
    return answered("networks.optimum", found, figure=figure)


def _exchange(given: OptimumOptions, network: Network) -> Answer:
    """The least time of an all-to-all on a network, of a demand, a sketch and relays."""
    from ocs_codesign.schedules.exchange.optimum import exchange_optimum
    from ocs_codesign.schedules.exchange.sketches import load_sketch, relays_of

    demand, relays, messages = given.demand, given.relays, given.messages
    if demand is not None and messages:
        raise click.UsageError("--message is for the same from all to all: --demand has its bytes")
    unit = None
    if network.unit or given.bandwidth is not None:
        unit = unit_Bps(network, given.bandwidth)
    elif messages:
        unit_Bps(network, None)
    matrix, unit_bytes = (None, Fraction(1)) if demand is None else matrix_of(demand, network)
    allowed = relays_of(relays, network)
    guide = None if given.sketch is None else load_sketch(given.sketch, network)
    if guide is not None and guide.relays is not None:
        if allowed is not None:
            raise click.UsageError("--relays are those of the --sketch")
        allowed = guide.relays
        relays = _names(network, allowed)
    with progress("Finding the optimum"):
        phases = None if guide is None else guide.phases
        found = exchange_optimum(network, matrix, allowed, phases=phases)
        free = found if guide is None else exchange_optimum(network, matrix)
    sizes = tuple(exact(size) for size in messages) or (() if unit is None else _SHOWN_SIZES)
    kept = None
    if guide is not None:
        from ocs_codesign.faces.answers.networks import Guided

        free_value = free.value * unit_bytes
        kept = Guided(guide.names, free_value, found.value / free.value, relays=relays)
    name = opt.name_of(given.network)
    answer = (name, found, unit_bytes, unit, sizes if demand is None else (), relays, kept)
    figure = ("network.exchange_figure", found, name, allowed, phases)
    return answered("networks.exchange", *answer, figure=figure)


_SHOWN_SIZES = (Fraction(2**20), Fraction(2**26), Fraction(2**30))


def _found(given: OptimumOptions, network: Network) -> NetworkOptimum:
    from ocs_codesign.core.collective import Collective
    from ocs_codesign.faces.answers.networks import NetworkOptimum
    from ocs_codesign.schedules.forest.optimum import (
        check_work,
        helpful_links,
        losses,
        spare_bandwidth,
    )
    from ocs_codesign.schedules.forest.optimum import optimum as trees_optimum
    from ocs_codesign.schedules.forest.pipeline import MAX_LINKS, allreduce_optimum

    if given.with_losses or given.with_slack:
        check_work(network, network.num_links)
    gather = trees_optimum(network, Collective.ALLGATHER)
    scatter = trees_optimum(network, Collective.REDUCE_SCATTER)
    allreduce = network.num_links <= MAX_LINKS if given.allreduce is None else given.allreduce
    rate = allreduce_optimum(network) if allreduce else None
    lost = tuple(losses(gather)) if given.with_losses else None
    spare = None
    if given.with_slack:
        spare = tuple(spare_bandwidth(gather, range(network.num_links)))
    helpful = tuple(helpful_links(gather))
    name = opt.name_of(given.network)
    found = NetworkOptimum(name, network, gather, scatter, rate, helpful, lost, spare)
    return found if given.sketch is None else replace(found, sketch=_guided(given, found))


def _guided(given: OptimumOptions, found: NetworkOptimum) -> Guided:
    """What phases cost the collective that was asked for."""
    from ocs_codesign.core.collective import Collective
    from ocs_codesign.faces.answers.networks import Guided
    from ocs_codesign.schedules.exchange.sketches import load_sketch
    from ocs_codesign.schedules.forest.phases import phased_halves

    sketch = load_sketch(given.sketch or "", found.network)
    halves = phased_halves(found.network, Collective(given.collective), sketch)
    takes = sum((half.inv_rate for half in halves), Fraction(0))
    one = {"allgather": found.allgather, "reduce-scatter": found.reduce_scatter}
    free = found.network.num_hosts / (found.allreduce or found.halves_algbw)
    if given.collective in one:
        free = one[given.collective].inv_rate
    relays = _names(found.network, sketch.relays)
    return Guided(sketch.names, free, takes / free, given.collective, relays)


def _names(network: Network, relays: tuple[int, ...] | None) -> str:
    """Relays as a sketch has them: any, none or names."""
    if relays is None:
        return "any"
    return ", ".join(network.name(host) for host in relays) or "none"


# ``ocs-codesign cluster``: what joins the NICs of servers of GPUs best, by the exact optimum.


EACH_RAIL = "each-rail"
_DESCRIPTION = together(
    servers=option("--servers", type=int, help="Number of servers."),
    gpus=option("--gpus", type=int, help="GPUs of a server."),
    inner=option(
        "--inner",
        metavar="switch=QUANTITY|mesh=QUANTITY|NETWORK",
        help="What joins its GPUs: of each to the server's switch, between any two each way, or a "
        "network such as 'mi250(1)'.",
    ),
    nics=option("--nics", type=int, help="NICs of a server  [default: one a GPU]."),
    ports=option("--ports", type=int, help="Optical ports of a NIC."),
    port_bandwidth=option(
        "--port-bandwidth", metavar="QUANTITY", help="Of an optical port, each way."
    ),
    nic_on=option(
        "--nic-on",
        type=click.Choice(["gpu", "shared", "switch"]),
        help="A NIC hangs on one GPU (default), on an equal part of them, or on the switch.",
    ),
    wiring=option(
        "--wiring",
        type=click.Choice(["rails", "each-rail", "across"]),
        help="A recipe for every rail (default), those of --designs for one each, in order, or "
        "one across all NICs.",
    ),
    relay=option(
        "--relay",
        type=click.Choice(["gpu", "nic"]),
        help="On the way data pass a GPU (default), or only NICs, from port to port.",
    ),
    bidirectional=option(
        "--bidirectional", is_flag=True, default=None, help="Every optical link has one back."
    ),
)


class ClusterOptions(OptionGroup):
    """A cluster, as options or a file describe it, and what is scored on it."""

    file: str | None = argument("file", type=opt.INPUT, required=False)
    described: dict[str, Any] = _DESCRIPTION
    lost: tuple[str, ...] = option(
        "--lost", multiple=True, metavar="NAME", help="What has failed; may be repeated."
    )
    recipes: tuple[str, ...] = option(
        "--designs", multiple=True, help="Score this one; may be repeated."
    )
    collective: str = opt.collective_choice(*opt.GATHERING)
    alpha: float | None = opt.alpha_option
    messages: tuple[float, ...] = messages_option
    machine: str | None = machine_option_of(
        "With --message: a step takes the hop between nodes of a machine, and bytes pass at its "
        "share of the peak, by the fastest protocol; a name such as dgx-h100, or a file that "
        "calibrate has written."
    )
    pick: int | None = opt.pick_option
    out: str | None = option(
        "--out",
        type=OUTPUT,
        metavar="FILE",
        help="Write the network of the best, or of the row picked, as JSON.",
    )


@command()
def cluster(given: ClusterOptions = group(ClusterOptions)) -> Answer:
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
    from ocs_codesign.core.collective import Collective
    from ocs_codesign.fabric.clusters import score_cluster
    from ocs_codesign.faces.cli.handles import recipe_of

    each_rail = given.described["wiring"] == EACH_RAIL
    if each_rail:
        given.described["wiring"] = None
    described = _cluster(given.file, given.described)
    alpha, sizes = given.alpha, [exact(size) for size in dict.fromkeys(given.messages)]
    alpha_s = described.alpha_s if alpha is None else exact(alpha)
    described = replace(described, lost=(*described.lost, *given.lost), alpha_s=alpha_s)
    real = machine_of(given.machine)
    if real is not None and (alpha is not None or not sizes):
        raise click.UsageError("--machine is for --message, in place of --alpha")
    if (sizes and real is None and alpha_s is None) or (alpha is not None and not sizes):
        raise click.UsageError("--alpha and --message are only given together")
    with progress("Searching"):
        found = score_cluster(
            described,
            Collective.parse(given.collective),
            [recipe_of(text) for text in given.recipes],
            sizes,
            each_rail=each_rail,
        )
    if real is not None:
        found = replace(found, model=real.cost_model(Fraction(1), described.cards[0].num_ports))
    rows = (*found.candidates, *found.dominated)
    answer = answered("networks.cluster", found).by_clock_of(real)
    answer = answer.picked([_recipes_of(one) for one in rows], given.pick)
    best = found.best if given.pick is None else rows[given.pick - 1]
    files = {} if given.out is None else {given.out: _network_file(best.network)}
    return replace(answer, files=files)


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
