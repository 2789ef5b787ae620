"""Rotations: the states of rotors and gratings that lead every port to the one s further."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def rotations(num_ports: int, num_spares: int = 0) -> NDArray[np.int32]:
    """All cyclic shifts but the identity of the usable ports, as ``Switch.states``; spares dark.

    Together they join every two ports, each way once. Raises ValueError for fewer than two usable
    ports.

    >>> rotations(4, 1).tolist()
    [[2, 3, 1, 0], [3, 1, 2, 0]]
    """
    usable = num_ports - num_spares
    if usable < 2 or num_spares < 0:
        raise ValueError(f"{usable} usable ports have no rotations: at least 2 are needed")
    port = np.arange(usable)
    states = np.zeros((usable - 1, num_ports), dtype=np.int32)
    states[:, :usable] = 1 + (port + np.arange(1, usable)[:, None]) % usable
    return states
