"""What everything speaks: the values that cross packages, and the tools that make them safe.

Topology (nodes and directed links), Network (hosts, switches, bandwidths) and Routes are what
messages cross; Collective, Demand and Schedule (sends as columns) are what crosses; Timed and
CircuitProgram say when, plans.RankProgram who does what, Cost and bounds what it takes.

Read topology, collective, schedule, cost, then network and circuits; bounds proves what nobody
beats. networks/ builds machines, lp/ solves programs, files/ reads and writes safely, compute/ has
symmetry, cuts and kernels, registry what is looked up by name.

>>> import ocs_codesign as oc
>>> oc.Topology(3, [0, 1, 2], [1, 2, 0])
Topology(3 nodes, 3 links, degree 1)
"""

from __future__ import annotations

from ocs_codesign.core.registry import offer

__getattr__, __dir__, __all__ = offer(
    __name__,
    {
        "bounds": "bound hop_sum moore_steps topology_bound",
        "circuits": "CircuitProgram Timed",
        "collective": "Collective",
        "demand": "Demand demand_of",
        "compute.factorisation": "factorise",
        "cost": "Cost CostModel",
        "given": "as_topology",
        "network": "Network Routes direct_routes shortest_routes",
        "networks.builders": "damaged direct fat_tree mesh star torus",
        "networks.servers": "boxes servers",
        "plans": "Forest",
        "schedule": "Messages Schedule",
        "topology": "Topology",
    },
)
