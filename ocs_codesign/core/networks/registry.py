"""NETWORKS: every builder of networks by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.core.networks.builders import damaged, direct, fat_tree, mesh, star, torus
from ocs_codesign.core.networks.products import a100, dgx1, dgx2, h100_rail, leaf_spine, mi250, ndv2
from ocs_codesign.core.networks.servers import boxes, servers

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.core.network import Network


NETWORKS: dict[str, Callable[..., Network]] = {
    "direct": direct,
    "torus": torus,
    "mesh": mesh,
    "star": star,
    "fat_tree": fat_tree,
    "boxes": boxes,
    "leaf_spine": leaf_spine,
    "a100": a100,
    "h100_rail": h100_rail,
    "mi250": mi250,
    "dgx1": dgx1,
    "ndv2": ndv2,
    "dgx2": dgx2,
    "servers": servers,
    "damaged": damaged,
}
