"""Hops over switches as hops from host to host: a switch keeps nothing and lasts no step."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.demand import SUM
from ocs_codesign.lowering.placement import cut
from ocs_codesign.runs import distinct

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.lowering.hops import Hops


def between_hosts(hops: Hops, num_hosts: int) -> Hops:
    """The same hops from host to host; nodes from ``num_hosts`` on are switches.

    What is copied comes from the host where its last hop began, so that a switch that sends it to
    several is as if its host did; what is summed goes to the host where its first hop ends up, so
    that what a switch adds up is added there. A channel of two hosts is a link out of the first.
    Raises ValueError if a switch sends what it does not get in the step, or keeps what it gets.
    """
    through = (hops.sender >= num_hosts) | (hops.receiver >= num_hosts)
    if not through.any():
        return hops
    passed = _passed(hops.at(np.flatnonzero(through)), num_hosts)
    joined = _joined(hops.at(np.flatnonzero(~through)), passed)
    joined = joined.at(np.lexsort((joined.lo, joined.line, joined.receiver, joined.step)))
    ends = joined.sender.astype(np.int64) * num_hosts + joined.receiver
    links = int(hops.line.max(initial=0)) + 1
    lines, line = np.unique(ends * links + joined.line, return_inverse=True)
    pair = lines // links
    channel = np.arange(len(lines)) - np.searchsorted(pair, pair)
    joined = replace(joined, line=line, channel=channel[line].astype(np.int32))
    return joined.at(np.lexsort((joined.line, joined.step)))


def _joined(direct: Hops, passed: Hops) -> Hops:
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in (direct, passed)])
        for name in direct.names()
    }
    return replace(direct, **columns)


def _passed(hops: Hops, num_hosts: int) -> Hops:
    """What hops to and from switches bring from host to host."""
    row, cell, lo, hi = cut(hops.lo, hops.hi, distinct(np.concatenate([hops.lo, hops.hi])))
    hops = hops.at(row, lo, hi)
    moment = (hops.step.astype(np.int64) * 3 + hops.kind) * (int(cell.max()) + 1) + cell
    moment = np.unique(moment, return_inverse=True)[1]
    switches = int(max(hops.sender.max(), hops.receiver.max())) + 1
    enters = np.where(hops.receiver >= num_hosts, moment * switches + hops.receiver, -1)
    leaves = np.where(hops.sender >= num_hosts, moment * switches + hops.sender, -1)
    adds = hops.kind == SUM
    begin = _followed(hops, np.where(adds, -1, leaves), np.where(adds, -1, enters))
    end = _followed(hops, np.where(adds, enters, -1), np.where(adds, leaves, -1))
    sender, line = hops.sender[begin], hops.line[begin]
    whole = replace(hops, sender=sender, line=line, receiver=hops.receiver[end])
    complete = np.where(adds, hops.sender < num_hosts, hops.receiver < num_hosts)
    return whole.at(np.flatnonzero(complete))


def _followed(hops: Hops, wanted: NDArray[Any], known: NDArray[Any]) -> NDArray[np.int64]:
    """Of every hop the far end of its chain: the hop with no stay ``wanted`` any more.

    The k-th hop that wants a stay continues in the k-th that is ``known`` for it, or in the last of
    fewer. Hops without a stay are their own end.
    """
    far = np.arange(len(wanted))
    going, there = np.flatnonzero(wanted >= 0), np.flatnonzero(known >= 0)
    if not len(going):
        return far
    going = going[np.argsort(wanted[going], kind="stable")]
    there = there[np.argsort(known[there], kind="stable")]
    stays, stay = known[there], wanted[going]
    first, end = np.searchsorted(stays, stay), np.searchsorted(stays, stay, side="right")
    if (first == end).any():
        _refuse(hops, int(going[(first == end).argmax()]))
    number = np.arange(len(going)) - np.searchsorted(stay, stay)
    onward = far.copy()
    onward[going] = there[first + np.minimum(number, end - first - 1)]
    for _ in range(len(going)):
        further = onward[far]
        if np.array_equal(further, far):
            return far
        far = further
        if (rounds := far[going] == going).any():
            _refuse(hops, int(going[rounds.argmax()]))
    return far


def _refuse(hops: Hops, row: int) -> None:
    raise ValueError(
        f"step {int(hops.step[row])}: what goes from node {int(hops.sender[row])} to "
        f"{int(hops.receiver[row])} does not pass a switch from host to host in this step: "
        "only verified plans can be lowered"
    )
