"""``ocs-codesign cluster``: what joins the NICs of servers of GPUs best, by the exact optimum."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.cli.file_options import INPUT, OUTPUT
from ocs_codesign.cli.message_options import MESSAGE
from ocs_codesign.cli.options import (
    GATHERING,
    alpha_option,
    collective_choice,
    json_option,
    pick_option,
    quantity_option,
)
from ocs_codesign.cli.output import check_outputs, emit, picked
from ocs_codesign.cli.progress import progress
from ocs_codesign.quantities import exact, parse_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.network import Network
    from ocs_codesign.search.clusters.description import Cluster
    from ocs_codesign.search.clusters.scoring import ClusterDesign

_DESCRIBING = (
    click.option("--servers", type=int, help="Number of servers."),
    click.option("--gpus", type=int, help="GPUs of a server."),
    click.option("--switch", metavar="QUANTITY", help="Of every GPU to the server's switch."),
    click.option("--mesh", metavar="QUANTITY", help="Between any two GPUs of a server, each way."),
    click.option("--inner", metavar="NETWORK", help="What joins its GPUs, such as 'mi250(1)'."),
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
        type=click.Choice(["rails", "across"]),
        help="A recipe for every rail (default), or one across all NICs.",
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
@click.option("--recipe", "recipes", multiple=True, help="Score this one; may be repeated.")
@click.option("--each-rail", is_flag=True, help="The recipes given are of one rail each, in order.")
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
    each_rail: bool,
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
    schema --cluster' documents its keys), or by a fabric file that says which servers its hosts
    are. Recipes are those given, or the frontier of as many nodes and ports and a circulant a rail
    whose offsets differ, beside a ring, a torus and packet switches of the NICs' bandwidth, which
    nothing beats.

    algbw is M over the time of long messages. With --alpha and --message it says the least time
    that any schedule takes. --lost names servers (server3), NICs (server3.nic1) and, with --recipe,
    links (server0.nic1-server3.nic1, or > for one way). What --out writes is for optimum and build.

    \b
    Example:
      ocs-codesign cluster --servers 16 --gpus 8 --switch 450GB/s --ports 2 \\
          --port-bandwidth 200Gbps --out cluster.json
      ocs-codesign optimum cluster.json --no-allreduce
    """
    check_outputs(json_path, out)
    from ocs_codesign.answers.cluster import cluster_json, cluster_sections
    from ocs_codesign.cli.handles import recipe_of
    from ocs_codesign.collective import Collective
    from ocs_codesign.search.clusters.scoring import score_cluster

    given = _cluster(file, described)
    alpha_s = given.alpha_s if alpha is None else exact(alpha)
    given = replace(given, lost=(*given.lost, *lost), alpha_s=alpha_s)
    if (messages and alpha_s is None) or (alpha is not None and not messages):
        raise click.UsageError("--alpha and --message are only given together")
    with progress("Searching") as shown:
        found = score_cluster(
            given,
            Collective.parse(collective),
            [recipe_of(text) for text in recipes],
            [exact(size) for size in dict.fromkeys(messages)],
            shown.tell_phase,
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
    from ocs_codesign.files.plain_text import PlainText
    from ocs_codesign.formats.cluster_files import cluster_of_plain, load_cluster

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
    from ocs_codesign.search.clusters.description import Inner

    servers = {"count": given["servers"]}
    servers |= {key: given[key] for key in ("gpus", "switch", "mesh") if key in given}
    nics = given.get("nics", given.get("gpus"))
    if "inner" in given:
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
    from ocs_codesign.formats.networks.record import write_json

    return write_json(network.changed(network.bandwidth, with_dimension=False), "").encode()
