"""The options --ranks, --alpha, --bandwidth and --algorithm: a machine where a job has none."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.cli.options import alpha_option_of, bandwidth_option_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.formats.jobs.job_files import GivenMachine

# Spelled out, since importing the prices for a help text would take too long.
ALGORITHMS = ("ring", "direct", "bruck")

_OPTIONS = (
    click.option(
        "--ranks",
        type=click.IntRange(1, 2**20),
        help="Ranks of a trace that does not say how many there are.",
    ),
    alpha_option_of("Time of a step, where the file has no machine, such as 10us."),
    bandwidth_option_of("Total egress of a rank, where the file has no machine, such as 100Gbps."),
    click.option(
        "--algorithm",
        type=click.Choice(ALGORITHMS),
        help="How collectives run, where the file has no machine (default: ring).",
    ),
)


def machine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """These options, as the argument ``given``: what messages cost, None if nothing was said."""

    @wraps(command)
    def chosen(
        *arguments: Any,
        ranks: int | None,
        alpha: float | None,
        bandwidth: float | None,
        algorithm: str | None,
        **others: Any,
    ) -> Any:
        given = _given(ranks, alpha, bandwidth, algorithm)
        return command(*arguments, given=given, **others)

    decorated: Callable[..., Any] = chosen
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def _given(
    ranks: int | None, alpha: float | None, bandwidth: float | None, algorithm: str | None
) -> GivenMachine | None:
    if alpha is None and bandwidth is None and ranks is None and algorithm is None:
        return None
    if alpha is None or bandwidth is None:
        raise click.UsageError("give --alpha and --bandwidth together: what messages cost")
    from ocs_codesign.cost import CostModel
    from ocs_codesign.formats.jobs.job_files import GivenMachine

    return GivenMachine(CostModel(alpha, bandwidth), algorithm or ALGORITHMS[0], ranks)
