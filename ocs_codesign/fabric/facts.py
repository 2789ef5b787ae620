"""Facts of a fabric: ports, spares, loss and dead time of every plane, and what is amiss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from ocs_codesign.fabric.description import PortModel

if TYPE_CHECKING:
    from fractions import Fraction

    from ocs_codesign.fabric.description import Fabric

DIRECT, THREE_STAGES = 1, 3


@final
@dataclass(frozen=True, slots=True)
class PlaneFacts:
    """One plane: its switches and ports a side, and what its circuits lose and wait for.

    ``num_usable`` and ``num_spares`` are ports a side over all switches (of a MATCHING plane, all
    ports). ``three_stage_loss_db`` is what a circuit through three such switches would lose, None
    for port models of which no three stages are made (MATCHING and RESTRICTED).
    ``dead_time_s`` is that of a change of one circuit and of a circuit of every working host.
    """

    plane: int
    port_model: PortModel
    profiles: tuple[str, ...]
    num_switches: int
    num_usable: int
    num_spares: int
    loss_db: float
    three_stage_loss_db: float | None
    dead_time_s: tuple[Fraction, Fraction]


@final
@dataclass(frozen=True, slots=True)
class FabricFacts:
    """All planes, the bandwidth of a host's port, and ``findings``: sentences of what is amiss."""

    planes: tuple[PlaneFacts, ...]
    port_bandwidth_Bps: Fraction  # noqa: N815 - the unit keeps its case
    findings: tuple[str, ...]


def fabric_facts(fabric: Fabric) -> FabricFacts:
    """What can be said of a fabric before any topology is put on it."""
    planes = tuple(_plane_facts(fabric, plane) for plane in range(fabric.num_planes))
    bandwidth = fabric.cost_model.node_bandwidth_Bps / fabric.num_ports_per_host
    findings = [finding for facts in planes for finding in _findings(fabric, facts)]
    return FabricFacts(planes, bandwidth, tuple(findings))


def _plane_facts(fabric: Fabric, plane: int) -> PlaneFacts:
    switches = fabric.switches_of(plane)
    model = switches[0].profile.port_model
    staged = model.has_b_side and model is not PortModel.RESTRICTED
    num_circuits = fabric.num_working_hosts if model.has_b_side else fabric.num_working_hosts // 2
    changes = [switch.profile.change for switch in switches]
    return PlaneFacts(
        plane,
        model,
        tuple(dict.fromkeys(switch.profile.name for switch in switches)),
        len(switches),
        sum(switch.num_usable for switch in switches),
        sum(switch.num_spares for switch in switches),
        fabric.loss_db(plane, DIRECT),
        fabric.loss_db(plane, THREE_STAGES) if staged else None,
        (
            max(change.dead_time_s(1) for change in changes),
            max(change.dead_time_s(num_circuits) for change in changes),
        ),
    )


def _findings(fabric: Fabric, facts: PlaneFacts) -> list[str]:
    findings = []
    if facts.num_usable < fabric.num_working_hosts:
        side = " a side" if facts.port_model.has_b_side else ""
        findings.append(
            f"plane {facts.plane} has {facts.num_usable} usable ports{side} for "
            f"{fabric.num_working_hosts} working hosts"
        )
    if facts.loss_db > fabric.loss_budget_db:
        findings.append(
            f"a circuit of plane {facts.plane} loses {facts.loss_db:g} dB, over the budget of "
            f"{fabric.loss_budget_db:g} dB"
        )
    return findings
