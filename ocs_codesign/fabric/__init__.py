"""Fabric: a design on real optical circuit switches, its ports, circuits, cables and changes."""

from __future__ import annotations

from ocs_codesign.fabric.blocks import Blocks, double_cover_blocks
from ocs_codesign.fabric.clos import Clos, three_stages
from ocs_codesign.fabric.description import (
    Fabric,
    FieldError,
    PortModel,
    Source,
    Switch,
    SwitchProfile,
)
from ocs_codesign.fabric.embed import Embedding, Prefer, embed
from ocs_codesign.fabric.embed_cables import Partition
from ocs_codesign.fabric.facts import FabricFacts, PlaneFacts, fabric_facts
from ocs_codesign.fabric.infeasible import InfeasibleError, Reason
from ocs_codesign.fabric.light_paths import topology_of
from ocs_codesign.fabric.planes import Certificate, Planes, Proof, given_planes
from ocs_codesign.fabric.planes_choice import (
    PlaneLoss,
    factorisations,
    loss_of_planes,
    most_survivable,
)
from ocs_codesign.fabric.planes_models import PORT_MODELS, planes_of
from ocs_codesign.fabric.prices import PriceItem, PriceList, fabric_price
from ocs_codesign.fabric.profiles import PROFILES, profile_named
from ocs_codesign.fabric.relabelling import FreeRewiring, free_rewiring
from ocs_codesign.fabric.rewiring import Optimality, Rewiring, minimum_rewiring
from ocs_codesign.fabric.rewiring_connectivity import Connectivity, connectivity
from ocs_codesign.fabric.rewiring_state import plane_state
from ocs_codesign.fabric.rotations import rotations
from ocs_codesign.fabric.stages import RewiringPlan, Service, Stage, staged
from ocs_codesign.fabric.wiring import Cabling, Configuration

__all__ = [
    "PORT_MODELS",
    "PROFILES",
    "Blocks",
    "Cabling",
    "Certificate",
    "Clos",
    "Configuration",
    "Connectivity",
    "Embedding",
    "Fabric",
    "FabricFacts",
    "FieldError",
    "FreeRewiring",
    "InfeasibleError",
    "Optimality",
    "Partition",
    "PlaneFacts",
    "PlaneLoss",
    "Planes",
    "PortModel",
    "Prefer",
    "PriceItem",
    "PriceList",
    "Proof",
    "Reason",
    "Rewiring",
    "RewiringPlan",
    "Service",
    "Source",
    "Stage",
    "Switch",
    "SwitchProfile",
    "connectivity",
    "double_cover_blocks",
    "embed",
    "fabric_facts",
    "fabric_price",
    "factorisations",
    "free_rewiring",
    "given_planes",
    "loss_of_planes",
    "minimum_rewiring",
    "most_survivable",
    "plane_state",
    "planes_of",
    "profile_named",
    "rotations",
    "staged",
    "three_stages",
    "topology_of",
]
