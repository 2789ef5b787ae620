"""The option --aggregation, and what ``simulate`` does with it: sums in a network's switches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.faces.cli.commands import option
from ocs_codesign.faces.cli.message_options import unit_Bps, whole_ticks
from ocs_codesign.faces.cli.options import name_of, network_of

if TYPE_CHECKING:
    from fractions import Fraction

    from ocs_codesign.core.networks.aggregation import AggregationProfile
    from ocs_codesign.faces.answers.compare import InNetwork


MAX_BOUND_LINKS = 400
_OF_DESIGNS = (
    "machine",
    *("network", "barriers", "blocking", "cut_through", "overhead", "injection", "memory"),
    *("delta", "stops", "next_on_pair", "astra_sim"),
)
_SPELLED = {
    **{name: f"--rules {name}" for name in ("blocking", "overhead", "injection", "memory")},
    "next_on_pair": "--rules next-on-pair",
    "astra_sim": "--rules astra-sim",
    "barriers": "--barrier",
    "stops": "--serial",
}


def _read(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> AggregationProfile | None:
    if value is None:
        return None
    from ocs_codesign.core.networks.aggregation import aggregation_named

    try:
        return aggregation_named(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def aggregation_option(text: str) -> Any:
    """The option --aggregation, whose help begins with a text, as the argument ``aggregation``."""
    return option(
        "--aggregation",
        callback=_read,
        metavar="NAME",
        help=f"{text} NAME is switchml, sharp or nvls (one box), or one with other numbers, such "
        "as switchml(num_slots=128).",
    )


def in_network(
    text: str, profile: AggregationProfile, message: Fraction, options: dict[str, Any]
) -> InNetwork:
    """An allreduce that the switches of the network ``text`` add up; UsageError for other options.

    It is simulated packet by packet, and compared with what nothing exceeds without it.
    """
    from ocs_codesign.core.collective import Collective
    from ocs_codesign.core.networks.aggregation_trees import only_forwarding
    from ocs_codesign.faces.answers.compare import InNetwork
    from ocs_codesign.schedules.compare.contest import most_algbw
    from ocs_codesign.schedules.compare.in_network import aggregation_forest
    from ocs_codesign.schedules.simulate.aggregated import simulate_aggregation

    given = [name for name in _OF_DESIGNS if options[name]]
    if given:
        names = ", ".join(_SPELLED.get(name, f"--{name.replace('_', '-')}") for name in given)
        raise click.UsageError(f"with --aggregation, packets have rules of their own: no {names}")
    network = network_of(text)
    if options["latency"] is not None:
        ticks = whole_ticks(options["latency"], network, "--latency")
        network = network.changed(latency=[ticks] * network.num_links)
    unit = unit_Bps(network, options["bandwidth"])
    trees, slots = aggregation_forest(network, profile, unit)
    done = simulate_aggregation(network, profile, unit, message, trees, slots)
    most = None
    if network.num_links <= MAX_BOUND_LINKS:
        most = most_algbw(only_forwarding(network), Collective.ALLREDUCE) * unit
    return InNetwork(name_of(text), message, done, most)
