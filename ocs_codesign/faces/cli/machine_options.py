"""The option --machine, and whose clock a command goes by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.faces.cli.commands import option

if TYPE_CHECKING:
    from ocs_codesign.core.machines.machine import RealMachine

NONE = "none"


def machine_option_of(text: str, *, required: bool = False) -> Any:
    """The option --machine, explained by ``text``."""
    return option("--machine", metavar="NAME|FILE", required=required, help=text)


machine_option = machine_option_of(
    "Go by the clock of a machine: a name such as dgx-h100, a file that calibrate has written, or "
    "none (default: that of the builder, as of h100_rail(2), unless --latency or --alpha is given)."
)


def machine_of(text: str | None) -> RealMachine | None:
    """The machine of a name or file, None if none is said."""
    if text is None or text.lower() == NONE:
        return None
    from ocs_codesign.core.machines.machine import machine_named

    return machine_named(text)


def clock_of(network: str | None, text: str | None, *times: float | None) -> RealMachine | None:
    """Whose clock a network goes by: the machine said, or that of its builder.

    ``times`` are latencies that are said instead; UsageError for both.

    >>> clock_of("h100_rail(2)", None).name, clock_of("h100_rail(2)", None, 1e-6)
    ('dgx-h100', None)
    """
    has_times = any(time is not None for time in times)
    machine = machine_of(text)
    if machine is not None and has_times:
        raise click.UsageError("--latency and --alpha are of a clock without a --machine")
    if text is not None or has_times or network is None:
        return machine
    from ocs_codesign.schedules.simulate.machine_clock import machine_of_builder

    return machine_of_builder(network.partition("(")[0])
