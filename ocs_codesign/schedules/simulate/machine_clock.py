"""The clock of a real machine: overheads, latencies and shares of the rate by class of links.

LogGP's terms: a message takes the processor of its sender and of its receiver an overhead each, one
after the other; a latency belongs to the whole way between two hosts; bytes pass at a share of a
link's rate. All depend on the protocol in which messages go, a schedule has its launch besides, and
takes the protocol in which it is fastest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, final

import numpy as np

from ocs_codesign.core.quantities import exact
from ocs_codesign.schedules.simulate.transfers import Transfers, with_fine_ticks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.core.machines.intervals import Interval
    from ocs_codesign.core.machines.machine import RealMachine
    from ocs_codesign.core.network import Network
    from ocs_codesign.schedules.simulate.transfers import TimingRules

_SHARES: Final = 10**7
"""Parts of a rate, of which a share is a whole number."""

_US: Final = Fraction(1, 10**6)


@final
@dataclass(frozen=True, slots=True, eq=False)
class ProtocolClock:
    """One protocol on a network: the network and rules that time it, and what a launch takes."""

    protocol: str
    network: Network
    rules: TimingRules
    launch_s: Fraction

    def at(self, transfers: Transfers) -> Transfers:
        """Transfers on the network of this protocol."""
        names = ("size", "path_start", "path_link", "wait_start", "wait_for", "previous")
        columns = (getattr(transfers, name) for name in (*names, "compute", "kind", "step"))
        return Transfers(self.network, transfers.chunk_bytes, *columns)


def link_classes(network: Network) -> NDArray[np.int64]:
    """The class of every link, counted from that of the shortest reach: by level where hosts end.

    Where hosts are linked to each other alone, it is by dimension if their rates differ.

    >>> from ocs_codesign.core.networks.products import h100_rail
    >>> import numpy as np
    >>> np.bincount(link_classes(h100_rail(2))).tolist()
    [32, 32]
    """
    level = np.zeros(network.num_links, dtype=np.int64)
    if network.dimension is None:
        return level
    ends = np.minimum(network.tail, network.head) < network.num_hosts
    if network.num_nodes == network.num_hosts:
        rates = {
            int(axis): tuple(np.unique(network.bandwidth[network.dimension == axis]).tolist())
            for axis in np.unique(network.dimension)
        }
        kinds = sorted(set(rates.values()), reverse=True)
        return np.array([kinds.index(rates[int(axis)]) for axis in network.dimension])
    known = np.unique(network.dimension[ends])
    return np.minimum(np.searchsorted(known, network.dimension), len(known) - 1)


def _nearest(machine: RealMachine, network: Network, rules: TimingRules) -> str:
    """The class whose peak is nearest to the rate of links that are all of one class."""
    rate = float(int(network.bandwidth.max(initial=1)) * exact(rules.unit_Bps)) / 1e9
    peaks = {name: machine.number(f"{name}_peak_GBps") for name in machine.classes}
    return min(peaks, key=lambda name: abs(np.log(rate / peaks[name])) if peaks[name] else np.inf)


def clocks_of(
    machine: RealMachine, network: Network, rules: TimingRules
) -> tuple[ProtocolClock, ...]:
    """The machine's protocols on a network whose bandwidths are peak rates.

    Raises ValueError for a network with more classes of links than the machine has.
    """
    classes = link_classes(network)
    number = int(classes.max(initial=0)) + 1
    names = machine.classes
    if number > len(names):
        raise ValueError(
            f"the network has {number} classes of links, {machine.name} {len(names)}: "
            f"{', '.join(names)}"
        )
    of_class = names if number == len(names) else (_nearest(machine, network, rules),)
    fine = with_fine_ticks(network)
    is_out = (network.tail < network.num_hosts).astype(np.int64)
    ends = is_out + (network.head < network.num_hosts)
    found = []
    for place, protocol in enumerate(machine.protocols):
        half, share = np.zeros(number, dtype=np.int64), np.zeros(number, dtype=np.int64)
        for at, name in enumerate(of_class):
            us = machine.number(f"{name}_latency_us", place)
            if name == "net":
                us += machine.number("nic_us") * (2 if protocol == "Simple" else 1)
            half[at] = round(exact(us) * _US / fine.tick_s / 2)
            share[at] = round(machine.number(f"{name}_share", place) * _SHARES)
        overhead = round(exact(machine.number("overhead_us", place)) * _US / fine.tick_s)
        timed = fine.changed(
            bandwidth=network.bandwidth * np.maximum(share, 1)[classes],
            latency=half[classes] * ends,
        )
        unit = exact(rules.unit_Bps) / _SHARES
        found.append(
            ProtocolClock(
                protocol,
                timed,
                replace(rules, unit_Bps=unit, overhead_ticks=overhead),
                exact(machine.number("launch_us", place)) * _US,
            )
        )
    return tuple(found)


def least_s(
    clocks: tuple[ProtocolClock, ...], transfers: tuple[Transfers, ...]
) -> tuple[float, str]:
    """Seconds of the fastest protocol and order of transfers, and which protocol."""
    from ocs_codesign.schedules.simulate.engine import simulate_transfers

    best = min(
        (simulate_transfers(clock.at(one), clock.rules).total_s + clock.launch_s, place)
        for place, clock in enumerate(clocks)
        for one in transfers
    )
    return float(best[0]), clocks[best[1]].protocol


class MachineClock(NamedTuple):
    """Clocks of a machine's protocols, of the ends of what its NICs may take, and their errors."""

    protocols: tuple[ProtocolClock, ...]
    ends: tuple[tuple[ProtocolClock, ...], ...]
    errors: dict[str, float]

    @classmethod
    def of(cls, machine: RealMachine, network: Network, rules: TimingRules) -> MachineClock:
        """The clock of a machine on a network, as of ``clocks_of``."""
        from ocs_codesign.core.machines.intervals import schedule_errors

        own, *ends = (clocks_of(each, network, rules) for each in (machine, *machine.ends_of_nic()))
        return cls(own, tuple(ends), schedule_errors(machine))

    def timed(
        self, message_bytes: int, orders: tuple[Transfers, ...]
    ) -> tuple[float, str, Interval]:
        """Seconds in the fastest protocol and order of transfers, the protocol, from and to."""
        from ocs_codesign.core.machines.intervals import band_of, widened

        time_s, protocol = least_s(self.protocols, orders)
        at = next(place for place, one in enumerate(self.protocols) if one.protocol == protocol)
        times = [time_s, *(least_s((clocks[at],), orders)[0] for clocks in self.ends)]
        error = self.errors[band_of(message_bytes)]
        return time_s, protocol, widened(min(times), max(times), error)


@cache
def machine_of_builder(name: str) -> RealMachine | None:
    """The machine that a builder of networks stands for, None if it stands for none."""
    from ocs_codesign.core.machines.machine import machines

    plain = name.strip().replace("_", "-")
    known = machines().values()
    return next((one for one in known if plain in one.texts.get("builders", ())), None)
