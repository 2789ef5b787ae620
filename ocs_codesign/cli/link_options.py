"""The options --fidelity, --network, --latency and --cut-through: a job on real links."""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, final

import click

from ocs_codesign.cli.options import network_of, quantity_option
from ocs_codesign.cli.units import unit_Bps, whole_ticks
from ocs_codesign.quantities import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ocs_codesign.formats.jobs.job_files import LoadedJob
    from ocs_codesign.workload.group_books import GroupBook
    from ocs_codesign.workload.placed import PlacedMessages

FORMULA, TRANSFERS = "formula", "transfers"

_NEEDS_NETWORK = "--fidelity transfers needs --network: the links they cross"
_OPTIONS = (
    click.option(
        "--fidelity",
        type=click.Choice([FORMULA, TRANSFERS]),
        help="What messages take: alpha-beta costs, or what their transfers take over the links of "
        "--network, which they share (default: formula, or transfers with --network).",
    ),
    click.option(
        "--network",
        metavar="NETWORK",
        help="The network of --fidelity transfers, rank r on host r: a file, a builder such as "
        "star(8,400), or a recipe.",
    ),
    quantity_option("--latency", parse_time, "Latency of its links (default: the network's own)."),
    click.option(
        "--cut-through",
        is_flag=True,
        help="On it a message goes on when its head has come, not all of it.",
    ),
)


@final
@dataclass(frozen=True, slots=True)
class AskedLinks:
    """A network for the transfers of a job, as it was asked for; None: that of configurations."""

    network: str | None
    latency_s: float | None
    cut_through: bool

    def placed(
        self, job: LoadedJob, bandwidth: float | None, books: Sequence[GroupBook] = ()
    ) -> PlacedMessages:
        """The messages of a job on the network; ``bandwidth`` is what leaves a host in all."""
        from ocs_codesign.simulate.rules import TimingRules
        from ocs_codesign.workload.link_plans import LinkPlans
        from ocs_codesign.workload.on_links import on_clock
        from ocs_codesign.workload.placed import placed

        if self.network is None:
            raise click.UsageError(_NEEDS_NETWORK)
        network = network_of(self.network)
        if self.latency_s is not None:
            network = network.with_latency(whole_ticks(self.latency_s, network, "--latency"))
        if bandwidth is None and job.machine is not None and not network.unit:
            bandwidth = float(job.machine.levels[-1].model.node_bandwidth_Bps)
        unit = unit_Bps(network, None if network.unit else bandwidth)
        rules = TimingRules(unit_Bps=unit, cut_through=self.cut_through)
        plans = LinkPlans(job.machine, books)
        return placed(on_clock(job.graph, network.tick_s), network, rules, plans)


def link_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """These options, as the argument ``links``: None for the formula."""

    @wraps(command)
    def chosen(
        *arguments: Any,
        fidelity: str | None,
        network: str | None,
        latency: float | None,
        cut_through: bool,
        **others: Any,
    ) -> Any:
        links = None
        on_configurations = fidelity == TRANSFERS and bool(others.get("configurations"))
        if fidelity == TRANSFERS and network is None and not on_configurations:
            raise click.UsageError(_NEEDS_NETWORK)
        if fidelity == FORMULA or (network is None and not on_configurations):
            if network is not None or latency is not None or cut_through:
                raise click.UsageError(
                    "--network, --latency and --cut-through are for --fidelity transfers"
                )
        else:
            links = AskedLinks(network, latency, cut_through)
        return command(*arguments, links=links, **others)

    decorated: Callable[..., Any] = chosen
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated
