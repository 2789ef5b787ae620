"""Fitting circuits to laid cables: the planes that can carry them, by program if need be."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.fabric.embed.cables import check_loss
from ocs_codesign.fabric.embed.cross_connects import trunks_of
from ocs_codesign.fabric.infeasible import InfeasibleError, Reason
from ocs_codesign.fabric.integers import least_integers
from ocs_codesign.fabric.wiring import NOT_CABLED, Cabling
from ocs_codesign.factorisation import NO_LINK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.fabric.planes.planes import Planes


def can_carry(
    cabling: Cabling, plane: int, a_host: NDArray[np.int32], b_host: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """Whether a plane's cables let light from each first host's A strand to the second's B strand.

    In a plane without sides both are A strands. A plane whose loss is over the budget carries none.
    """
    staged = len(trunks_of(cabling, plane)) > 0
    try:
        check_loss(cabling.fabric, plane, 3 if staged else 1)
    except InfeasibleError:
        return np.zeros(len(a_host), dtype=bool)
    sided = cabling.fabric.port_model(plane).has_b_side
    from_switch = cabling.a_switch[a_host, plane]
    to_switch = (cabling.b_switch if sided else cabling.a_switch)[b_host, plane]
    cabled = (from_switch != NOT_CABLED) & (to_switch != NOT_CABLED)
    fits: NDArray[np.bool_] = cabled & (staged | (from_switch == to_switch))
    return fits


def fit_to_cables(cabling: Cabling, planes: Planes, host: NDArray[np.int32]) -> Planes:
    """The circuits in planes whose cables carry them: as they are, else by an integer program.

    Raises InfeasibleError: CABLING with a link that no plane carries or if no choice of planes
    carries all links at once, NOT_FOUND if the program's time is over.
    """
    fits = _fitting(cabling, planes, host)
    everyone = np.arange(planes.num_circuits)
    if planes.num_planes <= cabling.fabric.num_planes and fits[everyone, planes.plane].all():
        return planes
    links, allowed = [planes.link], [fits]
    if planes.port_model.can_turn:
        two_way = planes.link[:, 1:] != NO_LINK
        turned = replace(planes, link=np.where(two_way, planes.link[:, ::-1], planes.link))
        links.append(turned.link)
        allowed.append(_fitting(cabling, turned, host) & two_way)
    lost = np.flatnonzero(~np.any(allowed, axis=(0, 2)))
    if len(lost):
        link = int(planes.link[lost[0], 0])
        ends = (planes.topology.tail, planes.topology.head)
        names = [cabling.fabric.hosts[host[end[link]]] for end in ends]
        raise InfeasibleError(
            Reason.CABLING,
            f"link {link} from {names[0]} to {names[1]}: in no plane do the cables of both lead to "
            f"one switch or to three stages within the loss budget",
        )
    return _by_program(planes, links, np.stack(allowed, axis=1))


def _fitting(cabling: Cabling, planes: Planes, host: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Whether each plane carries each circuit, circuits x planes."""
    ends = host[planes.a_node], host[planes.b_node]
    numbers = range(cabling.fabric.num_planes)
    return np.stack([can_carry(cabling, plane, *ends) for plane in numbers], axis=1)


def _by_program(
    planes: Planes, links: list[NDArray[np.int32]], allowed: NDArray[np.bool_]
) -> Planes:
    """One orientation and plane a circuit, at most one circuit a port and plane."""
    circuit, turn, plane = np.nonzero(allowed)
    link, num_planes = np.stack(links, axis=1)[circuit, turn], allowed.shape[2]
    ports = replace(planes, link=link, plane=plane.astype(np.int32)).ports()
    used, port = np.unique(ports * num_planes + plane[:, None], return_inverse=True)
    port = port.reshape(ports.shape)
    column, once = np.arange(len(circuit)), np.ones(planes.num_circuits)
    found = least_integers(
        [(circuit, column, 1.0), *((len(once) + port[:, at], column, 1.0) for at in (0, 1))],
        [(once, once), (np.full(len(used), -np.inf), np.ones(len(used)))],
        np.ones(len(column)),
        doing="fitting circuits to cables",
    )
    if found is None:
        raise InfeasibleError(
            Reason.CABLING,
            f"no choice of {num_planes} planes carries all {planes.num_circuits} circuits at once "
            f"on these cables (integer program)",
        )
    taken = np.flatnonzero(found[0] == 1)
    return replace(
        planes,
        link=link[taken],
        plane=plane[taken].astype(np.int32),
        num_planes=int(plane[taken].max(initial=-1)) + 1,
    )
