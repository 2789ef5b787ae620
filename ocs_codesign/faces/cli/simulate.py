"""``ocs-codesign simulate``: a design on a clock, event by event."""

from __future__ import annotations

from fractions import Fraction
from os.path import exists
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.core.quantities import exact, parse_bandwidth, parse_time
from ocs_codesign.faces.cli.aggregation import aggregation_option, in_network
from ocs_codesign.faces.cli.files import exported_design
from ocs_codesign.faces.cli.message_options import message_option_of
from ocs_codesign.faces.cli.options import (
    ALLTOALL,
    FILE,
    GATHERING,
    bandwidth_option_of,
    collective_choice,
    json_option,
    network_of,
    plot_option,
    quantity_option,
    settings_option,
)
from ocs_codesign.faces.cli.output import check_outputs, emit
from ocs_codesign.faces.cli.progress import progress
from ocs_codesign.faces.cli.saved import design_of, own_network
from ocs_codesign.faces.cli.units import unit_Bps, whole_ticks

if TYPE_CHECKING:
    from ocs_codesign.core.network import Network, Routes
    from ocs_codesign.core.networks.aggregation import AggregationProfile
    from ocs_codesign.faces.answers.compare import Simulation
    from ocs_codesign.schedules.files.designs import LoadedDesign
    from ocs_codesign.schedules.simulate.transfers import TimingRules, Transfers


ASTRA_SIM = "astra-sim"
ARRIVED, QUEUED, ANY = "arrived", "queued", "any"
MAX_BOUND_LINKS = 10_000
MAX_SWITCHED_BOUND_LINKS = 400


def _pair_rule(text: str) -> str:
    if text not in (ARRIVED, QUEUED, ANY):
        raise ValueError(f"{text!r} is none of {ARRIVED}, {QUEUED} and {ANY}")
    return text


RULES = {
    "overhead": parse_time,
    "injection": parse_bandwidth,
    "memory": parse_bandwidth,
    "blocking": None,
    "next-on-pair": _pair_rule,
    ASTRA_SIM: None,
}


@click.command(short_help="Run a design on a network's clock, event by event.")
@click.argument("design", type=FILE, metavar="DESIGN")
@click.option(
    "--network",
    metavar="NETWORK",
    help="The network that it runs on: a file, or a builder such as a100(2) (default: the design's "
    "own links).",
)
@collective_choice(*GATHERING)
@message_option_of(required=True)
@quantity_option("--latency", parse_time, "Latency of every link (default: the network's own).")
@bandwidth_option_of(
    "Largest total egress of a host, such as 100Gbps, where the network has no unit."
)
@click.option(
    *("--barrier", "barriers"), is_flag=True, help="Every step waits for all of the one before."
)
@click.option(
    "--cut-through", is_flag=True, help="A message goes on when its head has come, not all of it."
)
@quantity_option("--delta", parse_time, "Dark time of ports that change circuits (default: 0s).")
@click.option(
    "--serial",
    "stops",
    is_flag=True,
    help="Everything stops while circuits change, not their ports alone.",
)
@settings_option(
    "--rules",
    RULES,
    "Of the clock: overhead=TIME that a node takes for every send and receive; "
    "injection=BANDWIDTH of all ports of a node together; memory=BANDWIDTH, in which a byte is "
    "added; blocking, where a link is free when a message has arrived, not when it left; "
    "next-on-pair=arrived (default), queued or any: when the next transfer between two nodes may "
    "begin; astra-sim: bytes become ticks in doubles with GB/s of 2^30 bytes, not exactly.",
)
@aggregation_option(
    "DESIGN is a network, whose switches add up an allreduce packet by packet, as NAME says."
)
@plot_option("what the busiest links do when, and how long all of them are used")
@json_option
def simulate(
    design: str,
    network: str | None,
    collective: str,
    message: float,
    aggregation: AggregationProfile | None,
    plot: str | None,
    json_path: str | None,
    rules: dict[str, Any],
    **options: Any,
) -> int:
    """Simulate a DESIGN, that build or sequence saved, or a RECIPE's best schedule.

    Every transfer begins when its sender has what it sends, and waits for its links in the order of
    requests; time is in whole nanoseconds, or the network's ticks. On a NETWORK with other links
    than the design, its links take shortest paths. A host needs a nanosecond for each addition,
    but none with --barrier, where the formula holds. Links of a NETWORK whose unit is ticks take
    those for a chunk of the design, whatever M is, and additions none, unless --bandwidth is given.

    With --aggregation, DESIGN is a network instead, and the collective an allreduce: a tree of
    switches adds up what hosts send in packets, in as many slots as NAME has, and copies the result
    back; workers stall when all slots are taken.

    The answer says what decides the time, and what links wait for: data, links (also the one
    before on the pair), barriers, dark ports or nodes.

    \b
    Example:
      ocs-codesign build 'Torus((4,4))' --collective allreduce --out torus
      ocs-codesign simulate torus --message 1MiB --bandwidth 400Gbps --latency 500ns
    """
    check_outputs(json_path, plot)
    options |= {name.replace("-", "_"): value for name, value in rules.items()}
    if aggregation is not None:
        if plot is not None:
            raise click.UsageError("--plot shows designs: compare --aggregation shows times")
        return _in_network(design, aggregation, message, json_path, {"network": network, **options})
    from ocs_codesign.faces.answers.compare import simulation_json, simulation_sections

    with progress("Simulating"):
        answer = _simulation(design, network, collective, exact(message), options)
        files = {}
        if plot is not None:
            from ocs_codesign.faces.pictures.files import figure_bytes
            from ocs_codesign.faces.pictures.simulation import simulation_figure

            files[plot] = figure_bytes(simulation_figure(answer.simulated), Path(plot).suffix)
    emit(simulation_json(answer), json_path, simulation_sections(answer), files)
    return 0


def _in_network(
    network: str,
    aggregation: AggregationProfile,
    message: float,
    json_path: str | None,
    options: dict[str, Any],
) -> int:
    from ocs_codesign.faces.answers.compare import aggregation_json, aggregation_sections

    with progress("Simulating"):
        answer = in_network(network, aggregation, exact(message), options)
    emit(aggregation_json(answer), json_path, aggregation_sections(answer), {})
    return 0


def _simulation(
    text: str, network: str | None, collective: str, message: Fraction, options: dict[str, Any]
) -> Simulation:
    from ocs_codesign.core.network import shortest_routes
    from ocs_codesign.faces.answers.compare import Simulation
    from ocs_codesign.schedules.simulate.engine import simulate_transfers
    from ocs_codesign.verification.simulated import check_simulated

    loaded = design_of(text, collective)
    schedule = loaded.schedule
    own = own_network(loaded) if network is None else network_of(network)
    if loaded.circuits is not None and network is not None:
        raise click.UsageError("circuits that change are links of their own: no --network")
    if loaded.circuits is None and (options["delta"] is not None or options["stops"]):
        raise click.UsageError("--delta and --serial are for designs whose circuits change")
    if own.num_hosts != schedule.num_hosts:
        raise ValueError(f"a design of {schedule.num_hosts} hosts on a network of {own.num_hosts}")
    if options["latency"] is not None:
        ticks = whole_ticks(options["latency"], own, "--latency")
        own = own.changed(latency=[ticks] * own.num_links)
    routes = shortest_routes(schedule.topology, own)
    transfers = _transfers(loaded, routes, message, options)
    unit = _unit_Bps(own, loaded, transfers, options)
    rules = _rules(own, unit, options)
    done = simulate_transfers(transfers, rules)
    witness = check_simulated(done)
    if witness is not None:
        raise RuntimeError(f"the simulation fails: {witness}")
    return Simulation(
        Path(text).name if exists(text) else text,
        schedule.collective,
        schedule.num_hosts,
        message,
        _mode(options),
        done,
        _formula_s(loaded, routes, unit, message, options),
        _bound_s(loaded, own, unit, message),
    )


def _unit_Bps(  # noqa: N802
    network: Network, loaded: LoadedDesign, transfers: Transfers, options: dict[str, Any]
) -> Fraction:
    """Bytes a second of a unit of bandwidth, which for ASTRA-sim counts in powers of two.

    Where links are known by the ticks that a chunk takes, a chunk of the design takes them.
    """
    bandwidth, circuits = options["bandwidth"], loaded.circuits
    if bandwidth is None and network.chunk_ticks is not None and network.num_links:
        of_a_chunk = int(network.bandwidth[0]) * int(network.chunk_ticks[0])
        return transfers.chunk_bytes / (of_a_chunk * network.tick_s)
    if bandwidth is None and options["astra_sim"] and network.unit == "GB/s":
        return Fraction(2**30)
    return unit_Bps(network, bandwidth, None if circuits is None else circuits.node_speed())


def _rules(network: Network, unit: Fraction, options: dict[str, Any]) -> TimingRules:
    from ocs_codesign.schedules.simulate.transfers import TimingRules

    return TimingRules(
        unit_Bps=unit,
        blocking=bool(options["blocking"]),
        pipelined=options["next_on_pair"] == QUEUED,
        cut_through=options["cut_through"],
        in_doubles=bool(options["astra_sim"]),
        overhead_ticks=whole_ticks(options["overhead"] or 0, network, "--overhead"),
        injection_Bps=options["injection"],
        memory_Bps=options["memory"],
    )


def _transfers(
    loaded: LoadedDesign, routes: Routes, message: Fraction, options: dict[str, Any]
) -> Transfers:
    from ocs_codesign.schedules.simulate.making import (
        ADDITION_TICKS,
        transfers_of_program,
        transfers_of_schedule,
    )

    barriers, names_switches = options["barriers"], _names_switches(loaded)
    next_begins = options["next_on_pair"] or ARRIVED
    sequence: dict[str, Any] = {
        # Over switches a chain is one of arrivals; to queue needs none.
        "chained": next_begins == ARRIVED or (next_begins == QUEUED and not names_switches),
        "barriers": barriers,
        "addition_ticks": 0 if barriers or _counts_ticks(routes.network) else ADDITION_TICKS,
    }
    if loaded.circuits is None:
        return transfers_of_schedule(loaded.schedule, routes, message, **sequence)
    network = routes.network
    dark = whole_ticks(options["delta"] or 0, network, "--delta")
    return transfers_of_program(
        *(loaded.circuits, loaded.schedule, network, message, dark),
        stops=options["stops"],
        **sequence,
    )


def _counts_ticks(network: Network) -> bool:
    """Whether its links are known by the ticks of a chunk, of which a nanosecond may be many."""
    return network.chunk_ticks is not None


def _names_switches(loaded: LoadedDesign) -> bool:
    return loaded.schedule.topology.num_nodes > loaded.schedule.num_hosts


def _mode(options: dict[str, Any]) -> str:
    """What the simulation goes by, in words."""
    pairs = {ARRIVED: "arrival before the next on a pair", QUEUED: "in order", ANY: "in any order"}
    told = ["steps with barriers" if options["barriers"] else "as data comes"]
    told += [] if options["barriers"] else [pairs[options["next_on_pair"] or ARRIVED]]
    told += ["blocking links" if options["blocking"] else "pipelined links"]
    told += ["cut-through" if options["cut_through"] else "store and forward"]
    told += ["everything stops for changes"] if options["stops"] else []
    told += ["in doubles"] if options["astra_sim"] else []
    return ", ".join(told)


def _formula_s(
    loaded: LoadedDesign, routes: Routes, unit: Fraction, message: Fraction, options: dict[str, Any]
) -> Fraction:
    """Alpha, the longest latency of a logical link, for every step, and t_b for M."""
    import numpy as np

    from ocs_codesign.circuits.change import Change
    from ocs_codesign.circuits.programs.designs import program_time
    from ocs_codesign.core.cost import CostModel
    from ocs_codesign.verification.circuits import verify_program

    network, schedule = routes.network, loaded.schedule
    latency = np.add.reduceat(network.latency[routes.link], routes.start[:-1])
    alpha = int(latency.max(initial=0)) * network.tick_s
    if loaded.circuits is None:
        model = CostModel(alpha, network.host_bandwidth() * unit)
        return routes.synchronous_cost(schedule).time_s(model, message)
    model = CostModel(alpha, loaded.circuits.node_speed() * unit)
    verdict = verify_program(loaded.circuits, schedule)
    change = Change(options["delta"] or 0, cold_start=False, overlap=not options["stops"])
    return program_time(verdict, model, float(message), change).total_s


def _bound_s(
    loaded: LoadedDesign, network: Network, unit: Fraction, message: Fraction
) -> Fraction | None:
    """What M takes at least on these links, None where it is not known."""
    from ocs_codesign.schedules.compare.contest import most_algbw

    if loaded.circuits is not None or network.num_links > MAX_BOUND_LINKS:
        return None
    if network.num_hosts < network.num_nodes and network.num_links > MAX_SWITCHED_BOUND_LINKS:
        return None
    collective = loaded.schedule.collective
    if collective.name not in (*GATHERING, ALLTOALL):
        return None
    return message / (most_algbw(network, collective) * unit)


# ``ocs-codesign astra-sim``: what ASTRA-sim says of a design, beside our clock.


NEGATIVE = 1


@click.command(short_help="Ask ASTRA-sim how long a design takes, beside our clock.")
@click.argument("design", type=FILE, metavar="DESIGN")
@click.option(
    *("--astra-sim", "binary"),
    type=FILE,
    metavar="FILE",
    help="The congestion-aware analytical build (default: what OCS_CODESIGN_ASTRA_SIM names).",
)
@collective_choice(*GATHERING)
@message_option_of(required=True)
@bandwidth_option_of("Largest total egress of a host, such as 100Gbps.", required=True)
@quantity_option("--latency", parse_time, "Latency of every link (default: 0s).")
@quantity_option("--time-limit", parse_time, "Longest run of ASTRA-sim (default: 600s).")
@json_option
def astra_sim(
    design: str,
    binary: str | None,
    collective: str,
    message: float,
    bandwidth: float,
    latency: float | None,
    time_limit: float | None,
    json_path: str | None,
) -> int:
    """Run a DESIGN that build saved, or a RECIPE's best schedule, in ASTRA-sim.

    It is exported as a collective of one's own over links of its own (export --format astra-sim
    writes the same files), and simulated by our clock by the same rules. Links are alike, one a
    pair of ranks. Without a binary that part is skipped, and the answer says why. Exit code 1 if
    ASTRA-sim fails, or not every rank says that it finished.

    \b
    Example:
      ocs-codesign astra-sim 'Torus((3,3))' --message 9MiB --bandwidth 400Gbps --latency 500ns
    """
    check_outputs(json_path)
    from ocs_codesign.faces.answers.programs import opinion_json, opinion_sections
    from ocs_codesign.interop.run.astra_sim import FAILED, TIME_LIMIT_S, second_opinion

    limit = TIME_LIMIT_S if time_limit is None else float(time_limit)
    with progress("Simulating"):
        export = exported_design(
            design,
            collective,
            (message, bandwidth, None if latency is None else exact(latency)),
            in_place=False,
        )
        opinion = second_opinion(export, None if binary is None else Path(binary), limit)
    emit(opinion_json(opinion), json_path, opinion_sections(opinion))
    return NEGATIVE if opinion.run.status == FAILED else 0
