"""Blueprints of the package infragraph, written as YAML with the nodes and edges of its graphs.

Run by an interpreter that has infragraph 3.1.0; prints JSON: what each is, or why there is none.
"""

import json
import sys
import warnings

from infragraph import Infrastructure
from infragraph.blueprints.devices.amd.mi300x import MI300X
from infragraph.blueprints.devices.dell.xe9680L import Dellxe9680L
from infragraph.blueprints.devices.dell.xe9685L import Dellxe9685L
from infragraph.blueprints.devices.generic.generic_switch import Switch
from infragraph.blueprints.devices.generic.server import Server
from infragraph.blueprints.devices.ironwood_rack import IronwoodRack
from infragraph.blueprints.devices.nvidia.cx5 import Cx5
from infragraph.blueprints.devices.nvidia.dgx import NvidiaDGX
from infragraph.blueprints.fabrics.clos_fat_tree_fabric import ClosFatTreeFabric
from infragraph.blueprints.fabrics.closfabric import ClosFabric
from infragraph.blueprints.fabrics.dragonfly_fabric import DragonflyFabric
from infragraph.blueprints.fabrics.hybrid_debruijn_fabric import HybridDeBruijnFabric
from infragraph.blueprints.fabrics.multi_host_debruijn_fabric import MultiHostDeBruijnFabric
from infragraph.blueprints.fabrics.single_tier_fabric import SingleTierFabric
from infragraph.infragraph_service import InfraGraphService


def of(device, count=1):
    found = Infrastructure(name="of one kind", description="devices side by side")
    found.devices.append(device)
    found.instances.add(name=device.name, device=device.name, count=count)
    return found


MADE = {
    "dgx1": lambda: of(NvidiaDGX("dgx1")),
    "dgx2": lambda: of(NvidiaDGX("dgx2")),
    "dgx_a100": lambda: of(NvidiaDGX("dgx_a100")),
    "dgx_h100": lambda: of(NvidiaDGX("dgx_h100")),
    "dgx_gb200": lambda: of(NvidiaDGX("dgx_gb200")),
    "mi300x": lambda: of(MI300X()),
    "ironwood": lambda: of(IronwoodRack()),
    "xe9680L_h200": lambda: of(Dellxe9680L(xpu_type="h200", nic_device=None)),
    "xe9680L_b200": lambda: of(Dellxe9680L(xpu_type="b200", nic_device="ocp")),
    "xe9685L": lambda: of(Dellxe9685L(nic_device=None)),
    "cx5": lambda: of(Cx5()),
    "server": lambda: of(Server(), 3),
    "switch": lambda: of(Switch(8)),
    "single_tier_a100_4": lambda: SingleTierFabric(NvidiaDGX("dgx_a100"), 4, 400),
    "single_tier_server_5": lambda: SingleTierFabric(Server(2), 5, 100),
    "clos_p16_h100_2": lambda: ClosFatTreeFabric(Switch(16), NvidiaDGX("dgx_h100"), 2, []),
    "clos_p4_server_2": lambda: ClosFatTreeFabric(Switch(4), Server(1), 2, [100, 200]),
    "clos_p4_server_3": lambda: ClosFatTreeFabric(Switch(4), Server(1), 3, [100, 200, 400]),
    "closfabric": ClosFabric,
    "dragonfly_4_2_2": lambda: DragonflyFabric(Switch(16), Server(1), 4, 2, 2, [100, 200, 300]),
    "debruijn_3": lambda: MultiHostDeBruijnFabric(Switch(16), Server(1), 3),
    "hybrid_debruijn_3": lambda: HybridDeBruijnFabric(Switch(16), Server(1), 3),
}


def main():
    warnings.simplefilter("ignore")
    found = {}
    for name, make in MADE.items():
        made, service = make(), InfraGraphService()
        service.set_graph(made.serialize("json"))
        graph = service.get_networkx_graph()
        edges = sorted(sorted(edge[:2]) for edge in graph.edges)
        found[name] = {"yaml": made.serialize("yaml"), "nodes": sorted(graph.nodes), "edges": edges}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
