"""The option --message of one size or several, what is asked of them, and units of networks."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.core.quantities import exact, parse_size, unit_of_bandwidth
from ocs_codesign.faces.cli.commands import OptionGroup, option
from ocs_codesign.faces.cli.options import alpha_option, bandwidth_option, quantity_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.core.cost import MessageSizes
    from ocs_codesign.core.network import Network


MESSAGE = (
    "M, the buffer of a rank, such as 1MiB: what an allgather results in, a reduction takes, one "
    "rank sends in an all-to-all"
)


def message_option_of(*, required: bool = False) -> Any:
    """The option --message of one size."""
    return quantity_option("--message", parse_size, f"{MESSAGE}.", required=required)


message_option = message_option_of()
FACTOR = 4
"""From one size of a range to the next."""


def sizes_of(text: str, parse: Callable[[str], float] = parse_size) -> list[float]:
    """Sizes with commas between them, and ranges as in 1KiB-1GiB, times four each.

    >>> sizes_of("1KiB-16KiB,1MiB")
    [1024.0, 4096.0, 16384.0, 1048576.0]
    """
    sizes: list[float] = []
    for part in text.split(","):
        low, dash, high = part.partition("-")
        size, most = parse(low), parse(high if dash else low)
        if not 0 < size <= most and dash:
            raise ValueError(f"{part!r} is no range of sizes such as 1KiB-1GiB")
        while size <= most:
            sizes.append(size)
            if not dash:
                break
            size *= FACTOR
    return sizes


def messages_option_of(
    text: str = MESSAGE, parse: Callable[[str], float] = parse_size, *, required: bool = False
) -> Any:
    """The option --message of several sizes."""

    def read(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> Any:
        try:
            return tuple(size for each in value for size in sizes_of(each, parse))
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None

    return option(
        *("--message", "messages"),
        callback=read,
        metavar="QUANTITY",
        multiple=True,
        required=required,
        help=f"{text}; may be repeated, or 1MiB,64MiB or 1KiB-1GiB, times four each.",
    )


messages_option = messages_option_of()
min_chunk_option = quantity_option(
    "--min-chunk", parse_size, "Least size of a chunk that parts may cut (default: 1KiB)."
)


class MessageOptions(OptionGroup):
    """Messages whose times are asked for, and the cost model."""

    alpha: float | None = alpha_option
    bandwidth: float | None = bandwidth_option
    messages: tuple[float, ...] = messages_option

    def asked(self, network: Network | None = None) -> MessageSizes | None:
        """The sizes and the model, if times are asked for; a network has its bandwidth."""
        alpha, bandwidth, messages = self.alpha, self.bandwidth, self.messages
        if network is not None and messages:
            bandwidth = float(network.host_bandwidth() * unit_Bps(network, bandwidth))
            alpha = alpha or 0
        if alpha is None and bandwidth is None and not messages:
            return None
        if alpha is None or bandwidth is None or not messages:
            raise click.UsageError("--alpha, --bandwidth and --message are only given together")
        from ocs_codesign.core.cost import CostModel, MessageSizes

        return MessageSizes(CostModel(alpha, bandwidth), tuple(dict.fromkeys(messages)))


# What a unit of a network's bandwidth is in bytes a second.


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
        return unit_of_bandwidth(network.unit)
    if bandwidth is None and network.chunk_ticks is not None:
        raise click.UsageError("give --bandwidth: a chunk takes the links ticks, but has no bytes")
    if bandwidth is None:
        raise click.UsageError("give --bandwidth: the links have no unit of their own")
    return exact(bandwidth) / (egress or network.host_bandwidth())


def with_latencies(network: Network, latency: float | None, alpha: float | None = None) -> Network:
    """The network with a latency on links that have none, and alpha more on all out of hosts.

    Alpha is what a host needs for a step: as it leaves one host only, a message has it once.

    >>> from ocs_codesign.core.networks.builders import star
    >>> with_latencies(star(2, 100), 1e-6, 5e-6).latency.tolist()
    [6000, 6000, 1000, 1000]
    """
    import numpy as np

    if latency is None and alpha is None:
        return network
    least, more = (round(exact(time or 0) / network.tick_s) for time in (latency, alpha))
    ticks = np.where(network.latency > 0, network.latency, least)
    return network.changed(latency=ticks + more * (network.tail < network.num_hosts))


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
