"""The options --ranks, --alpha, --bandwidth, --algorithm and --aggregation: a job's machine."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.cli.aggregation import aggregation_option
from ocs_codesign.cli.options import alpha_option_of, bandwidth_option_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.aggregation import AggregationProfile
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
    aggregation_option("Switches between ranks, of the outermost level, add up allreduces."),
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
        aggregation: AggregationProfile | None,
        **others: Any,
    ) -> Any:
        given = _given(ranks, alpha, bandwidth, algorithm, aggregation)
        return command(*arguments, given=given, **others)

    decorated: Callable[..., Any] = chosen
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def _given(
    ranks: int | None,
    alpha: float | None,
    bandwidth: float | None,
    algorithm: str | None,
    aggregation: AggregationProfile | None,
) -> GivenMachine | None:
    others = alpha, bandwidth, ranks, algorithm
    if all(each is None for each in others):
        if aggregation is None:
            return None
        from ocs_codesign.formats.jobs.job_files import GivenMachine

        return GivenMachine(None, aggregation=aggregation)
    if alpha is None or bandwidth is None:
        raise click.UsageError("give --alpha and --bandwidth together: what messages cost")
    from ocs_codesign.cost import CostModel
    from ocs_codesign.formats.jobs.job_files import GivenMachine

    model = CostModel(alpha, bandwidth)
    return GivenMachine(model, algorithm or ALGORITHMS[0], ranks, aggregation)
