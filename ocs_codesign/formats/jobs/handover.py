"""What a co-design hands to deploy: the fabric that its recipes go on, and the command."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, final

from ocs_codesign.collective import GATHERING, Collective
from ocs_codesign.fabric.description import Fabric, PortModel, Switch
from ocs_codesign.fabric.profiles import profile_named
from ocs_codesign.formats.fabric.example import CIRCULATOR_DB, CONNECTOR_DB
from ocs_codesign.formats.fabric.fabric_files import fabric_text
from ocs_codesign.formats.fabric.scalars import BUDGETS_DB
from ocs_codesign.reconfigure.change import ReconfigurationCost
from ocs_codesign.workload.codesign.candidates import Joining, messages_of_span
from ocs_codesign.workload.codesign.recipes import rail_designs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.workload.codesign.candidates import Candidate
    from ocs_codesign.workload.codesign.cluster import JobCluster
    from ocs_codesign.workload.codesign.recipes import RailDesign
    from ocs_codesign.workload.codesign.traffic import Traffic

MAX_STEPPED = 16
"""Largest group whose all-to-all is scheduled in whole chunks in passing."""


@final
@dataclass(frozen=True, slots=True)
class Handover:
    """A recipe with its fabric, and what deploy schedules on it.

    ``message_bytes`` is that of the largest message of ``collectives`` that gathers or reduces,
    None if messages of several groups share the circuits.
    """

    name: str
    recipe: Recipe
    fabric: Fabric
    collectives: tuple[str, ...]
    message_bytes: int | None

    def command(self, directory: str) -> str:
        """The command that writes the bundle, where the fabric's file is in a directory."""
        words = ["ocs-codesign", "deploy", f"{self.name}={self.recipe!r}"]
        words += ["--fabric", f"{directory}/{self.name}.yaml"]
        for collective in self.collectives:
            words += ["--collective", collective]
        if self.message_bytes is not None:
            words += ["--message", f"{self.message_bytes}B"]
        return shlex.join([*words, "--out", f"{directory}/{self.name}"])

    def files(self, directory: str) -> Mapping[str, bytes]:
        """The fabric's file."""
        return {f"{directory}/{self.name}.yaml": fabric_text(self.fabric).encode()}


def handovers(candidate: Candidate, traffic: Traffic, cluster: JobCluster) -> tuple[Handover, ...]:
    """What is deployed for a candidate: of one rail, whose servers are the hosts.

    Across rails, of all of them: a server has the ports of all its accelerators then.
    Where circuits change, the groups of passes and those of gradients hold different servers, so
    each has a fabric of as many hosts as a block of servers that hangs together.
    """
    return tuple(_handed(design, candidate, traffic, cluster) for design in rail_designs(candidate))


def _handed(
    design: RailDesign, candidate: Candidate, traffic: Traffic, cluster: JobCluster
) -> Handover:
    num_hosts = prod(span.outside for span in design.spans)
    fabric = rail_fabric(cluster, num_hosts, design.recipe.degree)
    messages: dict[tuple[str, Fraction], int] = {}
    if len(design.spans) == 1:
        (span,) = design.spans
        messages = messages_of_span(traffic.asked(), span.dimension, candidate.placement)
    if not messages:
        return Handover(design.name, design.recipe, fabric, ("allreduce",), None)
    gathers = {Collective.parse(kind): size for kind, size in messages}
    kinds = [kind.name for kind in GATHERING if kind in gathers]
    if Collective.ALLTOALL in gathers and num_hosts <= MAX_STEPPED:
        kinds.append(Collective.ALLTOALL.name)
    sizes = [size for kind, size in messages if Collective.parse(kind) in GATHERING]
    largest = round(servers_alike(candidate, cluster) * max(sizes)) if sizes else None
    return Handover(design.name, design.recipe, fabric, tuple(kinds) or ("allreduce",), largest)


def servers_alike(candidate: Candidate, cluster: JobCluster) -> int:
    """Accelerators of a server that are one host of what is deployed: all of them across rails."""
    return cluster.accelerators_a_server if candidate.joining is Joining.ACROSS else 1


def rail_fabric(cluster: JobCluster, num_hosts: int, num_ports: int) -> Fabric:
    """The fabric of rails: so many servers as hosts, and a plane of switches a port."""
    profile = profile_named(cluster.switch).used_as(PortModel.SIMPLEX)
    profile = replace(profile, change=ReconfigurationCost(cluster.delta_s))
    count = -(-num_hosts // profile.num_ports)
    each = -(-num_hosts // count)
    switches = tuple(
        Switch(f"p{plane}-s{number}", plane, profile, each)
        for plane in range(num_ports)
        for number in range(count)
    )
    loss_db = profile.circuit_loss_db(CONNECTOR_DB, CIRCULATOR_DB)
    budget_db = next((db for db in BUDGETS_DB.values() if loss_db <= db), loss_db)
    digits = max(2, len(str(num_hosts - 1)))
    return Fabric(
        cluster.name,
        tuple(f"server{number:0{digits}d}" for number in range(num_hosts)),
        0,
        switches,
        cluster.ports_model(num_ports),
        budget_db,
        CONNECTOR_DB,
        CIRCULATOR_DB,
    )
