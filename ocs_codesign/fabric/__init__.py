"""Real switches: what can be cabled, lit, deployed, repaired and rewired, and bundles of files.

A Fabric has hosts and planes of optical switches with ports and losses; ``embed`` puts a topology
on it, ``deploy`` several, ``survivability`` and ``repair`` answer what failures do,
``minimum_rewiring`` what day two takes, ``select`` which design to take.

Read description, wiring and embedding.embed; then deployments.deploy. bundle/write and bundle/check
share nothing; files/ reads the YAML.

>>> from pathlib import Path
>>> import ocs_codesign as oc
>>> examples = Path(oc.__file__).parent / "faces" / "examples"
>>> oc.load_fabric(examples / "fabric64.yaml")
Fabric(fabric64: 64 hosts, 0 spare, 4 switches)
"""

from __future__ import annotations

from ocs_codesign.core.registry import offer

__getattr__, __dir__, __all__ = offer(
    __name__,
    {
        "bundle.read": "read_bundle",
        "bundle.verify": "check_bundle",
        "clusters": "Cluster score_cluster",
        "deployments.day_two": "extended repaired restored rewired torn_down",
        "deployments.deploy": "Deployment Failures NamedRecipe deploy",
        "description": "Fabric fabric_facts",
        "embedding.embed": "embed",
        "files.cluster_files": "load_cluster",
        "files.fabric_files": "load_fabric save_fabric",
        "files.workload": "load_workload",
        "infeasible": "InfeasibleError",
        "light": "topology_of",
        "repairs.repair": "repair",
        "rewiring.hosts": "free_rewiring",
        "rewiring.minimum": "minimum_rewiring",
        "selection.ranking": "select",
        "selection.steps": "Workload",
        "survival": "survivability",
    },
)
