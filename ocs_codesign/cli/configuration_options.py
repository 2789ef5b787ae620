"""The options --configuration, --delta and --delta-per-circuit: circuits that change in a job."""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, final

import click

from ocs_codesign.cli.options import delta_per_circuit_option, quantity_option
from ocs_codesign.quantities import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.formats.jobs.job_files import LoadedJob
    from ocs_codesign.workload.prices import Machine
    from ocs_codesign.workload.reconfigured.prices import ConfiguredJob

_OPTIONS = (
    click.option(
        "--configuration",
        "configurations",
        metavar="RECIPE",
        multiple=True,
        help="What the circuits can hold between ranks, or blocks of them; given twice or more.",
    ),
    quantity_option(
        "--delta",
        parse_time,
        "Dead time of a change of configuration, such as 10us.",
        "--reconfiguration-delay",
    ),
    delta_per_circuit_option,
)


@final
@dataclass(frozen=True, slots=True)
class AskedCircuits:
    """Configurations of circuits, and what a change takes, as they were asked for."""

    recipes: tuple[str, ...]
    delta_s: float
    per_circuit_s: float

    def configured(
        self, job: LoadedJob, on_progress: Callable[[int, int], None] | None = None
    ) -> ConfiguredJob:
        """The job on these circuits; ValueError as in ``machine_of``."""
        from ocs_codesign.cli.handles import recipe_of
        from ocs_codesign.reconfigure.change import ReconfigurationCost
        from ocs_codesign.workload.reconfigured.prices import configured

        machine = machine_of(job)
        change = ReconfigurationCost(self.delta_s, self.per_circuit_s)
        recipes = [recipe_of(text) for text in self.recipes]
        return configured(job.graph, machine, recipes, change, on_progress)


def machine_of(job: LoadedJob) -> Machine:
    """The machine of a job; ValueError if its messages have times of their own."""
    if job.machine is None:
        raise ValueError(
            f"{job.name}: its messages have times of their own, which no configuration changes: "
            "give them bytes, and a machine"
        )
    return job.machine


def configuration_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """These options, as the argument ``circuits``: None without configurations."""

    @wraps(command)
    def chosen(
        *arguments: Any,
        configurations: tuple[str, ...],
        delta: float | None,
        delta_per_circuit: float | None,
        **others: Any,
    ) -> Any:
        circuits = None
        if configurations:
            if delta is None:
                raise click.UsageError("--configuration needs --delta: how long a change takes")
            circuits = AskedCircuits(configurations, delta, delta_per_circuit or 0)
        elif delta is not None or delta_per_circuit is not None:
            raise click.UsageError(
                "--delta and --delta-per-circuit are for --configuration: what changes"
            )
        return command(*arguments, circuits=circuits, **others)

    decorated: Callable[..., Any] = chosen
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated
