"""Inputs of ASTRA-sim: a network, a system, a memory, a workload, and a schedule as its collective.

The network is FullyConnected, which gives every pair of ranks a link of its own. A schedule sends
along the links of the design alone, so that what is simulated is the design. Ranks around one
switch are a Switch. What ASTRA-sim calls a
GB/s is 2^30 bytes a second.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.plans import SEND
from ocs_codesign.interop.chakra.check import GIB, checked_graph, clocked
from ocs_codesign.interop.chakra.reading import write_graph
from ocs_codesign.interop.chakra.workload import CollectiveNode, workload_graph

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.core.network import Network
    from ocs_codesign.interop.chakra.graph import EtGraph
    from ocs_codesign.interop.registry import Contents, Export
    from ocs_codesign.schedules.simulate.engine import Simulated


WORKLOAD = "workload"
BINARY = "AstraSim_Analytical_Congestion_Aware"
FILES = {"network": "network.yml", "system": "system.json", "memory": "memory.json"}
NANOSECONDS = 10**9
FULLY_CONNECTED, SWITCH = "FullyConnected", "Switch"

_KEYS = {
    "allgather": "all-gather",
    "reduce-scatter": "reduce-scatter",
    "allreduce": "all-reduce",
    "alltoall": "all-to-all",
}
_LOCAL_MEMORY = 50  # GB/s; a collective of one's own has no use for it

_NO_KEY = "ASTRA-sim has no key for {}: it runs in the place of its all-gather."
_README = """{name}: {collective} of {ranks} ranks, {message:,} bytes a rank, for ASTRA-sim.

In this directory, with the congestion-aware analytical build:

  {command}

Every rank prints one line that ends in "finished, ... cycles": count {ranks} of them, since a
receive without a send still ends with exit code 0. A cycle is a nanosecond. By the same rules our
own clock says {ticks:,}.
{remark}"""


@final
@dataclass(frozen=True, slots=True)
class AstraLinks:
    """The rate of every link in ASTRA-sim's GB/s, a float as it reads one, and its nanoseconds.

    ``topology`` is FullyConnected, or Switch, where every rank has a link to one switch and back.
    """

    bandwidth: float
    latency_ns: int
    topology: str = FULLY_CONNECTED

    def clocked(self, graph: EtGraph) -> Simulated:
        """A graph on such links, by our clock."""
        return clocked(graph, self.bandwidth, self.latency_ns, switched=self.topology == SWITCH)


def links_of(export: Export) -> AstraLinks:
    """What all links of an export's network have in common.

    Raises ValueError for networks that are neither one link between two ranks each, all alike, nor
    such a link from every rank to one switch and back, and for plans that send where no link is.
    """
    network = export.network
    is_star = network.num_nodes == network.num_hosts + 1
    if network.num_nodes > network.num_hosts and not is_star:
        raise ValueError(
            f"{network.num_nodes - network.num_hosts} switches: ASTRA-sim has links between ranks, "
            "or one switch"
        )
    pair = network.tail.astype(np.int64) * network.num_nodes + network.head
    pairs, times = np.unique(pair, return_counts=True)
    if (times > 1).any():
        tail, head = divmod(int(pairs[(times > 1).argmax()]), network.num_nodes)
        raise ValueError(f"{times.max()} links from {tail} to {head}: ASTRA-sim has one a pair")
    for name, column in (("bandwidth", network.bandwidth), ("latency", network.latency)):
        unlike = column != column[:1]
        if unlike.any():
            link = int(unlike.argmax())
            raise ValueError(
                f"link {link} has a {name} of {column[link]}, link 0 of {column[0]}: links of "
                "ASTRA-sim are alike"
            )
    if is_star:
        _check_star(network)
    else:
        _check_pairs(export, pairs)
    latency = int(network.latency[0]) * network.tick_s * NANOSECONDS
    if latency.denominator != 1:
        raise ValueError(f"a latency of {float(latency):g} ns: ASTRA-sim counts whole ones")
    rate = export.checked_unit_Bps() * int(network.bandwidth[0]) / GIB
    topology = SWITCH if is_star else FULLY_CONNECTED
    return AstraLinks(float(rate), int(latency), topology)


def _check_star(network: Network) -> None:
    """ValueError unless every rank has a link to the switch and one from it, and no others."""
    switch = network.num_hosts
    ends = np.sort(network.tail), np.sort(network.head)
    wanted = np.append(np.arange(switch), np.full(switch, switch))
    if not all(np.array_equal(end, wanted) for end in ends):
        raise ValueError("with a switch every rank has a link to it and one from it, and no others")


def _check_pairs(export: Export, pairs: NDArray[np.int64]) -> None:
    """ValueError for a send between ranks that no link joins."""
    program, nodes = export.program, export.network.num_nodes
    sends = program.kind == SEND
    wanted = np.unique(program.rank[sends].astype(np.int64) * nodes + program.peer[sends])
    lacks = ~np.isin(wanted, pairs)
    if lacks.any():
        tail, head = divmod(int(wanted[lacks.argmax()]), nodes)
        raise ValueError(f"rank {tail} sends to {head}, but the network has no link between them")
    if not len(pairs):
        raise ValueError("the network has no links")


def write_astra_sim(export: Export) -> Contents:
    """The traces of an export and what runs them, with the command in ``README.txt``.

    A collective for which ASTRA-sim has no key (broadcast and the like, groups, demands of one's
    own) runs in the place of its all-gather: it simulates sends, whatever they are for. Raises
    ValueError for networks that FullyConnected is not, and without sizes and rates.
    """
    links, graph = links_of(export), checked_graph(export)
    ticks = links.clocked(graph).total_ticks
    return contents_of(export, graph, links, ticks)


def contents_of(export: Export, graph: EtGraph, links: AstraLinks, ticks: int) -> Contents:
    """The files of a graph on such links, for which our clock says so many nanoseconds."""
    collective, ranks = export.program.collective, export.program.num_ranks
    plain = collective.sizes is None and collective.groups is None
    is_known = collective.name in _KEYS and plain
    place = Collective(collective.name) if is_known else Collective.ALLGATHER
    message_bytes = export.checked_message_bytes()
    workload = workload_graph([CollectiveNode(place, message_bytes)], ranks)
    name = "schedule" if export.name == WORKLOAD else export.name
    remark = "" if is_known else f"\n{_NO_KEY.format(collective.text)}\n"
    texts = {
        "README.txt": _README.format(
            name=export.name,
            collective=collective.text,
            ranks=ranks,
            message=message_bytes,
            command=" ".join(command(BINARY)),
            ticks=ticks,
            remark=remark,
        ),
        FILES["network"]: network_text(ranks, links),
        FILES["system"]: system_text(place, name),
        FILES["memory"]: json.dumps({"memory-type": "NO_MEMORY_EXPANSION"}) + "\n",
    }
    return {
        **write_graph(graph, name),
        **write_graph(workload, WORKLOAD),
        **{file: text.encode() for file, text in texts.items()},
    }


def command(binary: str) -> list[str]:
    """The command line that runs the files of a directory, in that directory."""
    return [
        binary,
        f"--workload-configuration={WORKLOAD}",
        f"--system-configuration={FILES['system']}",
        f"--network-configuration={FILES['network']}",
        f"--remote-memory-configuration={FILES['memory']}",
    ]


def network_text(num_ranks: int, links: AstraLinks) -> str:
    """The network of so many ranks.

    >>> network_text(4, AstraLinks(50.0, 500)).splitlines()[2:]
    ['bandwidth: [ 50.0 ]', 'latency: [ 500.0 ]']
    """
    values = {
        "topology": links.topology,
        "npus_count": num_ranks,
        "bandwidth": repr(links.bandwidth),
        "latency": repr(float(links.latency_ns)),
    }
    return "".join(f"{key}: [ {value} ]\n" for key, value in values.items())


def system_text(collective: Collective, prefix: str) -> str:
    """The system, in which traces of this prefix are the collective."""
    first = {
        "scheduling-policy": "FIFO",
        "endpoint-delay": 1,
        "active-chunks-per-dimension": 1,
        "preferred-dataset-splits": 1,
    }
    second = {
        f"{_KEYS[collective.name]}-implementation-custom": [prefix],
        "local-mem-bw": _LOCAL_MEMORY,
    }
    return f"{json.dumps(first)[:-1]},\n {json.dumps(second)[1:]}\n"
