"""Networks for schedulers: the tree of servers and switches as Slurm, Kueue and topograph want it.

Servers are hosts, or boxes of accelerators. Switches over the same servers, or over the same
switches, are one: parallel spines are one line. What is no tree is refused with that word.
"""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ocs_codesign.core.network import Network

_NUMBERED = re.compile(r"(.*?)(\d+)")
_MAX_LEVELS = 16
_KUEUE = "kueue.x-k8s.io/v1beta2"
_HOSTNAME = "kubernetes.io/hostname"
_TIER = "fabric.topograph.run/tier-"


class SwitchGroup(NamedTuple):
    """Switches that stand for each other: a name, what is below, ``stands_for`` how many."""

    name: str
    below: tuple[str, ...]
    stands_for: int


class ServerTree(NamedTuple):
    """Servers by name, and groups of switches by level, those over servers first."""

    servers: tuple[str, ...]
    levels: tuple[tuple[SwitchGroup, ...], ...]


def server_tree(network: Network) -> ServerTree:
    """The tree of a network; ValueError for one without switches, and for what is no tree.

    >>> from ocs_codesign.core.networks.products import leaf_spine
    >>> [[group.name for group in level] for level in server_tree(leaf_spine(3, 2, 4, 4, 4)).levels]
    [['s0', 's1', 's2'], ['s3']]
    """
    server, inner = _servers(network)
    number = {name: at for at, name in enumerate(dict.fromkeys(server))}
    if len(number) == network.num_nodes:
        raise ValueError("a network without switches is no tree: a scheduler needs one")
    beside: dict[int, set[int]] = defaultdict(set)
    switches = [s for s in range(network.num_hosts, network.num_nodes) if s not in inner]
    node = [number[name] for name in server] + [-1] * (network.num_nodes - network.num_hosts)
    for at, switch in enumerate(switches):
        node[switch] = len(number) + at
    for one, other in zip(network.tail.tolist(), network.head.tolist(), strict=True):
        tail, head = node[one], node[other]
        if min(tail, head) >= 0 and tail != head:
            beside[tail].add(head)
            beside[head].add(tail)
    if any(max(beside[at], default=0) < len(number) for at in range(len(number))) or any(
        other < len(number) for at in range(len(number)) for other in beside[at]
    ):
        raise ValueError("servers that are joined without a switch are no tree")
    names = {len(number) + at: network.name(switch) for at, switch in enumerate(switches)}
    levels: list[tuple[SwitchGroup, ...]] = []
    below = {at: name for name, at in number.items()}
    left = set(names)
    while left and len(levels) < _MAX_LEVELS:
        level = _level(left, below, beside, names)
        if not level:
            break
        # What is over one each, as cards in a server, is none of its own.
        is_alone = all(len(group.below) == 1 for group, _ in level)
        if not is_alone:
            levels.append(tuple(group for group, _ in level))
        below = {
            member: group.below[0] if is_alone else group.name
            for group, members in level
            for member in members
        }
        left -= set(below)
    if not levels:
        raise ValueError("there is no switch over several servers")
    if left:
        raise ValueError(f"{names[min(left)]} is over no servers and over no switch that is")
    return ServerTree(tuple(number), tuple(levels))


def _servers(network: Network) -> tuple[list[str], set[int]]:
    """The server of every host by name, and the switches that are inside of servers.

    By the names of hosts before the last dot, by the switch of the innermost links, or themselves.
    """
    names = [network.name(host) for host in range(network.num_hosts)]
    # Here, since the help of the command lists formats and loads nothing heavy.
    from ocs_codesign.core.compute.components import strong_components

    level = network.dimension
    if all("." in name for name in names):
        return [name.rpartition(".")[0] for name in names], _inside(network, names)
    if level is None or len(set(level.tolist())) < 2:
        return names, set()
    inside = level == level.min()
    part = strong_components(
        network.tail[inside].astype(int), network.head[inside].astype(int), network.num_nodes
    )
    apart = {*network.tail[~inside].tolist(), *network.head[~inside].tolist()}
    hosts = part[: network.num_hosts]
    inner = [
        switch for switch in range(network.num_hosts, network.num_nodes) if part[switch] in hosts
    ]
    if len(set(hosts.tolist())) < 2 or apart & set(inner):
        return names, set()
    number = {one: at for at, one in enumerate(dict.fromkeys(hosts.tolist()))}
    return [f"n{number[one]}" for one in hosts.tolist()], set(inner)


def _inside(network: Network, names: list[str]) -> set[int]:
    """Switches whose neighbours are all of one server."""
    found = set()
    servers = [name.rpartition(".")[0] for name in names]
    for switch in range(network.num_hosts, network.num_nodes):
        near = network.head[network.tail == switch].tolist()
        owners = {servers[one] if one < network.num_hosts else one for one in near}
        if len(owners) == 1 and isinstance(next(iter(owners)), str):
            found.add(switch)
    return found


def _level(
    left: set[int], below: dict[int, str], beside: dict[int, set[int]], names: dict[int, str]
) -> list[tuple[SwitchGroup, list[int]]]:
    """Groups of switches over what is below, each of which is under one of them."""
    over: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for switch in sorted(left):
        mine = tuple(dict.fromkeys(below[one] for one in sorted(beside[switch]) if one in below))
        if mine:
            over[mine].append(switch)
    owner: dict[str, str] = {}
    found = []
    for children, members in over.items():
        name = names[members[0]]
        for child in children:
            if child in owner:
                raise ValueError(
                    f"{child} is under {owner[child]} and {name}, which are over different ones: "
                    "this is no tree"
                )
            owner[child] = name
        found.append((SwitchGroup(name, children, len(members)), members))
    return found


def hostlist(names: Iterable[str]) -> str:
    """Names folded as Slurm has them, by prefix and width of digits.

    >>> hostlist(["a1", "a2", "a3", "a04", "a05", "b"])
    'a[1-3],a[04-05],b'
    """
    folded: dict[tuple[str, int], list[int]] = {}
    alone = []
    for name in names:
        told = _NUMBERED.fullmatch(name)
        if told is None:
            alone.append(name)
            continue
        width = len(told[2]) if told[2][0] == "0" and len(told[2]) > 1 else 0
        folded.setdefault((told[1], width), []).append(int(told[2]))
    parts = []
    for (prefix, width), numbers in folded.items():
        ranges = []
        runs = groupby(enumerate(sorted(set(numbers))), key=lambda one: one[1] - one[0])
        for _, run in runs:
            listed = [number for _, number in run]
            first, last = (f"{one:0{width}d}" for one in (listed[0], listed[-1]))
            ranges.append(first if first == last else f"{first}-{last}")
        single = len(ranges) == 1 and "-" not in ranges[0]
        parts.append(f"{prefix}{ranges[0]}" if single else f"{prefix}[{','.join(ranges)}]")
    return ",".join([*parts, *alone])


def _slurm(tree: ServerTree) -> str:
    """topology.conf of Slurm's tree plugin."""
    lines = ["# TopologyPlugin=topology/tree"]
    for at, level in enumerate(tree.levels):
        kind = "Switches" if at else "Nodes"
        for group in level:
            if group.stands_for > 1:
                lines.append(f"# {group.name} stands for {group.stands_for} switches side by side")
            lines.append(f"SwitchName={group.name} {kind}={hostlist(group.below)}")
    return "\n".join(lines) + "\n"


def _slurm_block(tree: ServerTree) -> str:
    """topology.conf of Slurm's block plugin, from 23.11 on: a block a switch over servers."""
    leaves = tree.levels[0]
    sizes = {len(group.below) for group in leaves}
    lines = ["# TopologyPlugin=topology/block, of Slurm 23.11 and later"]
    lines += [f"BlockName={group.name} Nodes={hostlist(group.below)}" for group in leaves]
    return "\n".join([*lines, f"BlockSizes={min(sizes)}"]) + "\n"


def _slurm_yaml(tree: ServerTree) -> str:
    """topology.yaml of Slurm 25.05 and later."""
    lines = ["# Slurm 25.05 and later; it hides topology.conf"]
    lines += ["- topology: fabric", "  cluster_default: true", "  tree:", "    switches:"]
    for at, level in enumerate(tree.levels):
        for group in level:
            key = "children" if at else "nodes"
            lines += [f"      - switch: {group.name}", f"        {key}: {hostlist(group.below)}"]
    return "\n".join(lines) + "\n"


def _kueue(tree: ServerTree) -> str:
    """A Topology of Kueue: labels of nodes, the outermost first; pods keep the order of ranks."""
    tiers = range(len(tree.levels) - 1, -1, -1)
    labels = [*(f"{_TIER}{tier}" for tier in tiers), _HOSTNAME]
    head = [f"apiVersion: {_KUEUE}", "kind: Topology", "metadata:", "  name: fabric"]
    levels = [f"  - nodeLabel: {label}" for label in labels]
    return "\n".join([*head, "spec:", "  levels:", *levels]) + "\n"


def _topograph(tree: ServerTree) -> str:
    """A model of topograph, with labels of every server."""
    lines = ["switches:"]
    for at, level in reversed(list(enumerate(tree.levels))):
        for group in level:
            key = "switches" if at else "nodes"
            lines += [f"  {group.name}:", f"    {key}: [{', '.join(group.below)}]"]
    lines.append("nodes:")
    for server, above in _above(tree).items():
        lines += [f"  {server}:", "    labels:"]
        lines += [f"      {_TIER}{tier}: {name}" for tier, name in enumerate(above)]
    return "\n".join(lines) + "\n"


def _above(tree: ServerTree) -> dict[str, list[str]]:
    """Of every server the groups above it, the nearest first."""
    owner = [
        {child: group.name for group in level for child in group.below} for level in tree.levels
    ]
    found: dict[str, list[str]] = {}
    for server in tree.servers:
        found[server] = []
        name: str | None = server
        for level in owner:
            name = level.get(name) if name is not None else None
            if name is not None:
                found[server].append(name)
    return found


class SchedulerFormat(NamedTuple):
    """A file of a scheduler: what it is, and what makes its text of a tree."""

    description: str
    text: Callable[[ServerTree], str]


SCHEDULER_FORMATS: dict[str, SchedulerFormat] = {
    "slurm": SchedulerFormat("topology.conf of Slurm, a tree", _slurm),
    "slurm-block": SchedulerFormat("the same of blocks, from Slurm 23.11 on", _slurm_block),
    "slurm-yaml": SchedulerFormat("topology.yaml of Slurm, from 25.05 on", _slurm_yaml),
    "kueue": SchedulerFormat("Topology of Kueue", _kueue),
    "topograph": SchedulerFormat("model of topograph, with labels of nodes", _topograph),
}
"""Files of schedulers by name."""
