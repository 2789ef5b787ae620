"""Fabric: a design on real optical circuit switches, its ports, circuits, cables and changes."""

from __future__ import annotations

from ocs_codesign.fabric.blocks import Blocks, double_cover_blocks
from ocs_codesign.fabric.clos import Clos, three_stages
from ocs_codesign.fabric.deployment import Deployment, NamedRecipe, deploy
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
from ocs_codesign.fabric.light_budget import LightPath, light_paths
from ocs_codesign.fabric.light_paths import topology_of
from ocs_codesign.fabric.planes import Certificate, Planes, Proof, given_planes
from ocs_codesign.fabric.planes_choice import (
    PlaneLoss,
    factorisations,
    loss_of_planes,
    most_survivable,
)
from ocs_codesign.fabric.planes_models import PORT_MODELS, planes_of
from ocs_codesign.fabric.port_use import PortUse, port_use
from ocs_codesign.fabric.prices import PriceItem, PriceList, fabric_price
from ocs_codesign.fabric.profiles import PROFILES, profile_named
from ocs_codesign.fabric.repairs.repair import Port, Repair, repair
from ocs_codesign.fabric.rewiring.configurations import ConfigurationChange, configuration_change
from ocs_codesign.fabric.rewiring.connectivity import Connectivity, connectivity
from ocs_codesign.fabric.rewiring.hosts import FreeRewiring, free_rewiring
from ocs_codesign.fabric.rewiring.minimum import Optimality, Rewiring, minimum_rewiring
from ocs_codesign.fabric.rewiring.stages import RewiringPlan, Service, Stage, staged
from ocs_codesign.fabric.rewiring.state import plane_state
from ocs_codesign.fabric.rotations import rotations
from ocs_codesign.fabric.selection.candidates import candidate_recipes
from ocs_codesign.fabric.selection.ranking import PlanKind, RankedPlan, Selection, select
from ocs_codesign.fabric.selection.workload import AllowedChanges, Part, Workload
from ocs_codesign.fabric.survival.losses import LossKind, Survivability, survivability
from ocs_codesign.fabric.wiring import Cabling, Configuration

__all__ = [
    "PORT_MODELS",
    "PROFILES",
    "AllowedChanges",
    "Blocks",
    "Cabling",
    "Certificate",
    "Clos",
    "Configuration",
    "ConfigurationChange",
    "Connectivity",
    "Deployment",
    "Embedding",
    "Fabric",
    "FabricFacts",
    "FieldError",
    "FreeRewiring",
    "InfeasibleError",
    "LightPath",
    "LossKind",
    "NamedRecipe",
    "Optimality",
    "Part",
    "Partition",
    "PlanKind",
    "PlaneFacts",
    "PlaneLoss",
    "Planes",
    "Port",
    "PortModel",
    "PortUse",
    "Prefer",
    "PriceItem",
    "PriceList",
    "Proof",
    "RankedPlan",
    "Reason",
    "Repair",
    "Rewiring",
    "RewiringPlan",
    "Selection",
    "Service",
    "Source",
    "Stage",
    "Survivability",
    "Switch",
    "SwitchProfile",
    "Workload",
    "candidate_recipes",
    "configuration_change",
    "connectivity",
    "deploy",
    "double_cover_blocks",
    "embed",
    "fabric_facts",
    "fabric_price",
    "factorisations",
    "free_rewiring",
    "given_planes",
    "light_paths",
    "loss_of_planes",
    "minimum_rewiring",
    "most_survivable",
    "plane_state",
    "planes_of",
    "port_use",
    "profile_named",
    "repair",
    "rotations",
    "select",
    "staged",
    "survivability",
    "three_stages",
    "topology_of",
]
