"""What a unit of a network's bandwidth is in bytes a second."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import click

from ocs_codesign.core.quantities import exact, parse_bandwidth

if TYPE_CHECKING:
    from ocs_codesign.core.network import Network


def unit_Bps(  # noqa: N802 - units keep their case
    network: Network, bandwidth: float | None, egress: int | None = None
) -> Fraction:
    """Bytes a second of a unit, from its name, or from --bandwidth, what leaves a host in all.

    A host lets out ``egress`` units, by default the network's. UsageError unless one of both says.

    >>> from ocs_codesign.core.networks.products import ndv2
    >>> unit_Bps(ndv2(2), None)
    Fraction(500000000, 1)
    """
    if network.unit:
        if bandwidth is not None:
            raise click.UsageError(
                f"--bandwidth is for links without a unit: these have {network.unit}"
            )
        number = "" if network.unit[0].isdigit() else "1"
        return exact(parse_bandwidth(f"{number}{network.unit}".replace(" ", "")))
    if bandwidth is None and network.chunk_ticks is not None:
        raise click.UsageError("give --bandwidth: a chunk takes the links ticks, but has no bytes")
    if bandwidth is None:
        raise click.UsageError("give --bandwidth: the links have no unit of their own")
    return exact(bandwidth) / (egress or network.host_bandwidth())


def whole_ticks(time_s: Fraction | float, network: Network, option: str) -> int:
    """A time, as ``option`` says it, in ticks of the network; ValueError unless it is whole ones.

    >>> from ocs_codesign.core.networks.products import ndv2
    >>> whole_ticks(Fraction(1, 2000000), ndv2(2), "--latency")
    500
    """
    ticks = exact(time_s) / network.tick_s
    if ticks.denominator != 1:
        raise ValueError(
            f"{option} is {float(ticks):g} ticks of {float(network.tick_s):g} s: it must be a "
            "whole number of them"
        )
    return int(ticks)
