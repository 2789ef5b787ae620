"""NETWORKS: every builder of networks by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.networks.boxes import boxes
from ocs_codesign.networks.direct import direct, mesh, torus
from ocs_codesign.networks.switched import fat_tree, star

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.network import Network

NETWORKS: dict[str, Callable[..., Network]] = {
    "direct": direct,
    "torus": torus,
    "mesh": mesh,
    "star": star,
    "fat_tree": fat_tree,
    "boxes": boxes,
}
