"""Fabric: a design on real optical circuit switches, its ports, circuits, cables and changes.

Names are loaded from their modules when they are first used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

_NAMES_BY_MODULE = {
    "configuration_changes": "ConfigurationChange configuration_change",
    "deployment": "Deployment NamedRecipe deploy",
    "description": "Fabric FieldError PortModel Source Switch SwitchProfile",
    "embed.blocks": "Blocks double_cover_blocks",
    "embed.cables": "Partition",
    "embed.clos": "Clos three_stages",
    "embed.embedding": "Embedding Prefer embed",
    "facts": "FabricFacts PlaneFacts fabric_facts",
    "infeasible": "InfeasibleError Reason",
    "light": "topology_of",
    "light_budget": "LightPath light_paths",
    "planes.choice": "PlaneLoss factorisations loss_of_planes most_survivable",
    "planes.models": "PORT_MODELS planes_of",
    "planes.planes": "Certificate Planes Proof given_planes",
    "port_use": "PortUse port_use",
    "prices": "PriceItem PriceList fabric_price",
    "profiles": "PROFILES profile_named",
    "relabelling": "FreeRewiring free_rewiring",
    "repair": "Port Repair repair",
    "rewiring": "Optimality Rewiring minimum_rewiring",
    "rewiring_connectivity": "Connectivity connectivity",
    "rewiring_state": "plane_state",
    "selection": "PlanKind RankedPlan Selection select",
    "selection_candidates": "candidate_recipes",
    "stages": "RewiringPlan Service Stage staged",
    "states": "rotations",
    "survivability": "LossKind Survivability survivability",
    "wiring": "Cabling Configuration",
    "workload": "AllowedChanges Part Workload",
}
_HOME = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names.split()}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


class _Names(ModuleType):
    """This module: a name of the table stays what it is when a module of that name is loaded."""

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _HOME or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Names
