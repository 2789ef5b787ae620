"""Cross-connects that switches hold now, whoever made them, as a configuration to change from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.collective import GATHERING, Collective
from ocs_codesign.core.compute.factorisation import NO_LINK
from ocs_codesign.core.progress import tell_phase
from ocs_codesign.core.topology import Topology
from ocs_codesign.fabric.deployments.deploy import Deployment, all_changes, designed
from ocs_codesign.fabric.deployments.work import Work, change_steps
from ocs_codesign.fabric.infeasible import InfeasibleError
from ocs_codesign.fabric.repairs.repair import JoinedPorts
from ocs_codesign.fabric.repairs.splicing import Where, spliced_configuration
from ocs_codesign.fabric.rewiring.configurations import ConfigurationChange, configuration_change
from ocs_codesign.fabric.rewiring.stages import Stage, connectivity
from ocs_codesign.fabric.wiring import Configuration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.fabric.deployments.deploy import DeployedConfiguration, Failures
    from ocs_codesign.fabric.repairs.splicing import SplicedConfiguration
    from ocs_codesign.fabric.wiring import Cabling


HELD = "held"
_NO_CIRCUIT = -1


def change_from_held(held: Sequence[JoinedPorts], after: Configuration) -> ConfigurationChange:
    """The stages that lead from what the switches hold to a configuration.

    Cross-connects that lead no light from a node to a node go first, in a stage of their own.
    Raises ValueError for switches and ports that the fabric does not have, and a port that is in
    two cross-connects.
    """
    cabling = after.cabling
    ends = _ports(cabling, held)
    if not cabling.fabric.port_model.has_b_side:
        ends[:, 1:].sort(axis=1)
    ways = _ways(cabling, ends, after.host)
    before = _configuration(after, ends, ways)
    change = configuration_change(before, after)
    crossed = {row for way in ways for row in way}
    stray = np.array([row for row in range(len(ends)) if row not in crossed], dtype=np.int64)
    if not len(stray):
        return change
    rows = ends[stray]
    table = np.stack([before.circuit, before.switch, before.a_port, before.b_port])
    more = np.concatenate([np.full((1, len(rows)), _NO_CIRCUIT), rows.T])
    circuit, switch, a_port, b_port = np.concatenate([table, more], axis=1).astype(np.int32)
    whole = replace(before, circuit=circuit, switch=switch, a_port=a_port, b_port=b_port)
    first = len(before.circuit) + np.arange(len(rows))
    return replace(change, before=whole, stages=(_stage(before, rows, first), *change.stages))


def joined_ports(configuration: Configuration) -> list[JoinedPorts]:
    """What the switches hold when a configuration is up."""
    switches = configuration.cabling.fabric.switches
    columns = (configuration.switch, configuration.a_port, configuration.b_port)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [JoinedPorts(switches[switch].name, a, b) for switch, a, b in rows]


def _ports(cabling: Cabling, held: Sequence[JoinedPorts]) -> NDArray[np.int64]:
    """Switch, A port and B port of every cross-connect."""
    switches, model = cabling.fabric.switches, cabling.fabric.port_model
    number = {switch.name: at for at, switch in enumerate(switches)}
    taken: dict[tuple[str, str], str] = {}
    for joined in held:
        if joined.switch not in number:
            raise ValueError(f"the fabric has no switch {joined.switch!r}")
        there = switches[number[joined.switch]]
        pair = (joined.a_port, joined.b_port)
        name = model.joined(*pair)
        for side, port in enumerate(pair):
            if not 1 <= port <= there.num_ports:
                raise ValueError(f"{name} of {joined.switch}: it has ports 1 to {there.num_ports}")
            place = (joined.switch, model.port(port, side))
            if place in taken:
                raise ValueError(
                    f"port {place[1]} of {joined.switch} is in {taken[place]} and in {name}: a "
                    "port is in one cross-connect"
                )
            taken[place] = name
    rows = [(number[joined.switch], joined.a_port, joined.b_port) for joined in held]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def _ways(
    cabling: Cabling, ends: NDArray[np.int64], host: NDArray[np.int32]
) -> list[tuple[int, ...]]:
    """The rows that light crosses one after the other from a node's strand to a node's strand."""
    sided = cabling.fabric.port_model.has_b_side
    at_a, at_b = _strands(cabling, host)
    at_end = at_b if sided else at_a
    row_at = {(int(switch), int(port)): row for row, (switch, port, _) in enumerate(ends)}
    trunk = {tuple(row[:2]): tuple(row[2:]) for row in cabling.trunks.tolist()}
    ways = []
    for row, (switch, a_port, b_port) in enumerate(ends.tolist()):
        if (switch, a_port) not in at_a:
            continue
        way, out = [row], (switch, b_port)
        while out not in at_end and trunk.get(out) in row_at and len(way) < len(ends):
            way.append(row_at[trunk[out]])
            out = (int(ends[way[-1], 0]), int(ends[way[-1], 2]))
        if out in at_end:
            ways.append(tuple(way))
    return ways


def _strands(
    cabling: Cabling, host: NDArray[np.int32]
) -> tuple[dict[tuple[int, int], int], dict[tuple[int, int], int]]:
    """The node at every port, on side A and on side B."""
    sides = (cabling.a_switch, cabling.a_port), (cabling.b_switch, cabling.b_port)
    found: list[dict[tuple[int, int], int]] = []
    for switch, port in sides:
        nodes, planes = np.nonzero(switch[host] >= 0)
        places = zip(
            switch[host][nodes, planes].tolist(), port[host][nodes, planes].tolist(), strict=True
        )
        found.append(dict(zip(places, nodes.tolist(), strict=True)))
    return found[0], found[1]


def _configuration(
    after: Configuration, ends: NDArray[np.int64], ways: Sequence[tuple[int, ...]]
) -> Configuration:
    """What the ways make, on the hosts of another configuration."""
    cabling = after.cabling
    model = cabling.fabric.port_model
    at_a, at_b = _strands(cabling, after.host)
    at_end = at_b if model.has_b_side else at_a
    tail = [at_a[int(ends[way[0], 0]), int(ends[way[0], 1])] for way in ways]
    head = [at_end[int(ends[way[-1], 0]), int(ends[way[-1], 2])] for way in ways]
    count = len(ways)
    link = np.full((count, 2), NO_LINK, dtype=np.int32)
    link[:, 0] = np.arange(count)
    if model.is_bidirectional:
        link[:, 1] = count + np.arange(count)
        tail, head = tail + head, head + tail
    circuit = np.repeat(np.arange(count), [len(way) for way in ways]).astype(np.int32)
    rows = ends[[row for way in ways for row in way]] if ways else ends[:0]
    plane_of = np.array([switch.plane for switch in cabling.fabric.switches], dtype=np.int32)
    plane = plane_of[rows[np.searchsorted(circuit, np.arange(count)), 0]]
    topology = Topology(after.topology.num_nodes, tail, head)
    columns = (column.astype(np.int32) for column in rows.T)
    return Configuration(HELD, cabling, topology, after.host, plane, link, circuit, *columns)


def _stage(before: Configuration, rows: NDArray[np.int64], first: NDArray[np.int64]) -> Stage:
    """The stage in which what carries no light goes; all circuits stay up."""
    fabric = before.cabling.fabric
    planes = sorted({fabric.switches[switch].plane for switch in rows[:, 0].tolist()})
    link = before.link[:, 0]
    ends = (before.plane, before.topology.tail[link], before.topology.head[link])
    up = np.stack(ends, axis=1).astype(np.int32)
    proof = connectivity(up, fabric.port_model, before.topology.num_nodes)
    return Stage(tuple(planes), first, first[:0], up, proof, Fraction(0))


# Going on without hosts: their circuits joined in every configuration, and fewer nodes left.


@final
@dataclass(frozen=True, slots=True, eq=False)
class SplicedDeployment:
    """A deployment without lost hosts, the change that led to it, and how circuits were joined.

    ``up`` tells of the configuration that is up. ``torn_down`` are configurations whose circuits
    could not be joined, with the reason of each.
    """

    deployment: Deployment
    change: ConfigurationChange
    up: SplicedConfiguration
    torn_down: tuple[tuple[str, str], ...]


def spliced(
    deployment: Deployment, lost: Failures, where: Where | str = Where.IN_PLACE, *, seed: int = 0
) -> SplicedDeployment:
    """The same configurations on the hosts that are left, with schedules built and verified.

    No strand moves; only cross-connects change. The circuits of each configuration are joined for
    the first of its collectives that gathers, an allgather if it has none; ``seed`` draws what is
    looked at where not all ways can be. Raises InfeasibleError
    if those of the configuration that is up cannot be joined, ValueError if anything but hosts is
    lost, or a host that has no node.
    """
    failures = deployment.settled().failures.and_also(lost)
    up = spliced_up(deployment, lost, where, seed=seed)
    made: list[DeployedConfiguration] = []
    torn_down = []
    for old in deployment.configurations:
        try:
            if old.name == deployment.up:
                new = up
            else:
                tell_phase(f"Joining circuits of {old.name}")
                new = _spliced_one(old, lost, where, seed)
        except InfeasibleError as error:
            torn_down.append((old.name, str(error)))
            continue
        kinds = [bounded.collective for bounded in old.designs]
        recipe = new.choice.splices.recipe(old.recipe, new.choice.way)
        made.append(designed(recipe, new.configuration, kinds))
    tell_phase("Planning changes")
    before = deployment.configuration(deployment.up).configuration
    change = change_from_held(joined_ports(before), up.configuration)
    change = replace(change, before=replace(change.before, name=before.name))
    title = f"go on without {' '.join(lost.hosts)}"
    changed = Deployment(
        deployment.cabling,
        tuple(made),
        all_changes(made),
        deployment.up,
        failures,
        Work(title, change_steps(change, change.before, change.after)),
    )
    return SplicedDeployment(changed, change, up, tuple(torn_down))


def spliced_up(
    deployment: Deployment,
    lost: Failures,
    where: Where | str = Where.IN_PLACE,
    most_scored: int | None = None,
    *,
    seed: int = 0,
) -> SplicedConfiguration:
    """What is up without lost hosts, as ``spliced`` would make it."""
    if lost.has_parts or not lost.hosts:
        raise ValueError(
            "circuits are joined in place of lost hosts: switches and ports have spares"
        )
    deployment.settled().failures.and_also(lost)
    tell_phase("Joining circuits")
    up = deployment.configuration(deployment.up)
    return _spliced_one(up, lost, where, seed, most_scored)


def _spliced_one(
    made: DeployedConfiguration,
    lost: Failures,
    where: Where | str,
    seed: int,
    most_scored: int | None = None,
) -> SplicedConfiguration:
    kinds = [bounded.collective for bounded in made.designs if bounded.collective in GATHERING]
    collective = kinds[0] if kinds else Collective.ALLGATHER
    return spliced_configuration(
        made.configuration, lost.hosts, collective, where, seed=seed, most_scored=most_scored
    )
