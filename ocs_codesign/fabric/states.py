"""States that a restricted switch can be in: tables of ports, and the shifts of rotors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def rotations(num_ports: int, num_spares: int = 0) -> NDArray[np.int32]:
    """All cyclic shifts but the identity of the usable ports, as ``Switch.states``; spares dark.

    Together they join every two ports, each way once, as rotors and gratings do. Raises ValueError
    for fewer than two usable ports.

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


def checked_states(states: ArrayLike, num_ports: int) -> NDArray[np.int32]:
    """States (see ``Switch``) as a table that cannot change, or ValueError with the rule broken."""
    listed = np.array(states)
    if listed.ndim != 2 or not len(listed) or not np.issubdtype(listed.dtype, np.integer):
        raise ValueError("must be a table of whole numbers, a row a state")
    if listed.shape[1] != num_ports:
        raise ValueError(
            f"have {listed.shape[1]} ports in a row: the switch has {num_ports}, each with the B "
            "port it is joined with, or 0"
        )
    outside = np.argwhere((listed < 0) | (listed > num_ports))
    if len(outside):
        state, port = outside[0]
        raise ValueError(
            f"join A port {port + 1} with B port {listed[state, port]} in state {state}: "
            f"B ports are 1 to {num_ports}, and 0 is dark"
        )
    ranked = np.sort(listed, axis=1)
    twice = np.argwhere((ranked[:, 1:] == ranked[:, :-1]) & (ranked[:, 1:] > 0))
    if len(twice):
        state, place = twice[0]
        raise ValueError(
            f"join B port {ranked[state, place]} twice in state {state}: a port is in one circuit"
        )
    table = listed.astype(np.int32)
    table.setflags(write=False)
    return table
