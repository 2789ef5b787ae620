"""``ocs-codesign simulate``: a design on a clock, event by event."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.core.quantities import exact, parse_bandwidth, parse_time
from ocs_codesign.faces.cli import options as opt
from ocs_codesign.faces.cli.aggregation import aggregation_option, in_network
from ocs_codesign.faces.cli.commands import OptionGroup, argument, command, group, option, together
from ocs_codesign.faces.cli.files import exported_design
from ocs_codesign.faces.cli.machine_options import clock_of, machine_option
from ocs_codesign.faces.cli.message_options import message_option_of, unit_Bps, whole_ticks
from ocs_codesign.faces.cli.output import Answer, answered, asked_output
from ocs_codesign.faces.cli.progress import progress
from ocs_codesign.faces.cli.saved import design_of, own_network

if TYPE_CHECKING:
    from ocs_codesign.core.machines.machine import RealMachine
    from ocs_codesign.core.network import Network, Routes
    from ocs_codesign.core.networks.aggregation import AggregationProfile
    from ocs_codesign.faces.answers.compare import Simulation
    from ocs_codesign.schedules.files.designs import LoadedDesign
    from ocs_codesign.schedules.simulate.transfers import TimingRules, Transfers


ASTRA_SIM = "astra-sim"
ARRIVED, QUEUED, ANY = "arrived", "queued", "any"
MAX_BOUND_LINKS = 10_000
MAX_SWITCHED_BOUND_LINKS = 400


AS_ASTRA_SIM = "ASTRA-sim's nanoseconds where nothing is added up, within 5 % else"


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
    "store-and-forward": None,
    ASTRA_SIM: None,
}


class SimulateOptions(OptionGroup):
    """A design, its network and message, and the clock."""

    design: str = argument("design", type=opt.FILE, metavar="DESIGN")
    network: str | None = option(
        "--network",
        metavar="NETWORK",
        help="The network that it runs on: a file, or a builder such as a100(2) (default: the "
        "design's own links).",
    )
    collective: str = opt.collective_choice(*opt.GATHERING)
    message: float = message_option_of(required=True)
    rules: dict[str, Any] = opt.settings_option(
        "--rules",
        RULES,
        "Of the clock: overhead=TIME that a node takes for every send and receive; "
        "injection=BANDWIDTH of all ports of a node together; memory=BANDWIDTH, in which a byte is"
        " added; blocking, where a link is free when a message has arrived, not when it left; "
        "next-on-pair=arrived, queued or any: when the next transfer between two nodes may begin "
        "(default: arrived, over switches queued); store-and-forward, where switches wait for all "
        "of a message; astra-sim: arrived and store-and-forward, and bytes become ticks in doubles"
        " with GB/s of 2^30 bytes: the nanoseconds of the exported trace where nothing is added "
        "up, within 5 % where messages wait for sums.",
    )
    aggregation: AggregationProfile | None = aggregation_option(
        "DESIGN is a network, whose switches add up an allreduce packet by packet, as NAME says."
    )
    timeline: str | None = opt.timeline_option
    options: dict[str, Any] = together(
        machine=machine_option,
        latency=opt.quantity_option(
            "--latency", parse_time, "Latency of every link (default: the network's own)."
        ),
        bandwidth=opt.bandwidth_option_of(
            "Largest total egress of a host, such as 100Gbps, where the network has no unit."
        ),
        barriers=option(
            "--barrier", is_flag=True, help="Every step waits for all of the one before."
        ),
        cut_through=option(
            "--cut-through",
            is_flag=True,
            help="A message goes on when its head has come, not all of it: the default over "
            "switches.",
        ),
        delta=opt.quantity_option(
            "--delta", parse_time, "Dark time of ports that change circuits (default: 0s)."
        ),
        stops=option(
            "--serial",
            is_flag=True,
            help="Everything stops while circuits change, not their ports alone.",
        ),
    )


@command(plot="what the busiest links do when, and how long all of them are used")
def simulate(given: SimulateOptions = group(SimulateOptions)) -> Answer:
    """Simulate a DESIGN, that build or sequence saved, or a RECIPE's best schedule.

    Every transfer begins when its sender has what it sends, and waits for its links in the order of
    requests; time is in whole nanoseconds, or the network's ticks. On a NETWORK with other links
    than the design, its links take shortest paths. A host needs a nanosecond for each addition,
    but none with --barrier, where the formula holds. On a network with switches the clock is that
    of compare: switches pass on what comes at once, additions take no time, and ticks are as fine
    as it takes. Links of a NETWORK whose unit is ticks take
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
    rules = {name.replace("-", "_"): value for name, value in given.rules.items()}
    options, message = given.options | rules, exact(given.message)
    if given.aggregation is not None:
        if asked_output("plot") is not None or given.timeline is not None:
            text = "--plot and --timeline show designs: compare --aggregation shows times"
            raise click.UsageError(text)
        with progress("Simulating"):
            asked = {"network": given.network, **options}
            added = in_network(given.design, given.aggregation, message, asked)
        return answered("compare.aggregation", added)
    with progress("Simulating"):
        answer = _simulation(given, message, options)
    figure = ("simulation.simulation_figure", answer.simulated)
    files = {}
    if given.timeline is not None:
        from ocs_codesign.interop.timeline import timeline_of_run

        files[given.timeline] = timeline_of_run(answer.simulated)
    return answered("compare.simulation", answer, figure=figure, files=files)


def _simulation(given: SimulateOptions, message: Fraction, options: dict[str, Any]) -> Simulation:
    from ocs_codesign.core.network import shortest_routes
    from ocs_codesign.faces.answers.compare import Simulation
    from ocs_codesign.schedules.simulate.engine import simulate_transfers
    from ocs_codesign.schedules.simulate.machine_clock import clocks_of
    from ocs_codesign.verification.simulated import check_simulated

    text, network = given.design, given.network
    loaded = design_of(text, given.collective)
    schedule = loaded.schedule
    own = own_network(loaded) if network is None else opt.network_of(network)
    if loaded.circuits is not None and network is not None:
        raise click.UsageError("circuits that change are links of their own: no --network")
    if loaded.circuits is None and (options["delta"] is not None or options["stops"]):
        raise click.UsageError("--delta and --serial are for designs whose circuits change")
    if own.num_hosts != schedule.num_hosts:
        raise ValueError(f"a design of {schedule.num_hosts} hosts on a network of {own.num_hosts}")
    if options["latency"] is not None:
        ticks = whole_ticks(options["latency"], own, "--latency")
        own = own.changed(latency=[ticks] * own.num_links)
    machine = _machine_of(network, loaded, options)
    own, options = _with_defaults(own, {**options, "machine": machine})
    routes = shortest_routes(schedule.topology, own)
    runs = []
    for run in _orders(loaded, options):
        transfers = _transfers(loaded, routes, message, run)
        unit = _unit_Bps(own, loaded, transfers, run)
        rules = _rules(own, unit, run)
        if machine is None:
            runs.append((simulate_transfers(transfers, rules), run, Fraction(0)))
            continue
        for clock in clocks_of(machine, own, rules):
            done = simulate_transfers(clock.at(transfers), clock.rules)
            runs.append((done, {**run, "protocol": clock.protocol}, clock.launch_s))
    done, options, launch_s = min(runs, key=lambda run: run[0].total_s + run[2])
    witness = check_simulated(done)
    if witness is not None:
        raise RuntimeError(f"the simulation fails: {witness}")
    return Simulation(
        opt.name_of(text),
        schedule.collective,
        schedule.num_hosts,
        message,
        _mode(options),
        done,
        _formula_s(loaded, routes, unit, message, options),
        _bound_s(loaded, own, unit, message),
        launch_s,
        machine,
    )


def _machine_of(
    network: str | None, loaded: LoadedDesign, options: dict[str, Any]
) -> RealMachine | None:
    """Whose clock it is; a machine's is that of compare, and rules of one's own are none of it."""
    said = ("overhead", "injection", "memory", "blocking", "next_on_pair", "store_and_forward")
    own = any(options[name] for name in (*said, "astra_sim"))
    latency = 0.0 if own or options["cut_through"] else options["latency"]
    machine = clock_of(network, options["machine"], latency)
    if machine is not None and loaded.circuits is not None:
        raise click.UsageError("--machine is for designs whose circuits stay")
    return machine


def _with_defaults(network: Network, options: dict[str, Any]) -> tuple[Network, dict[str, Any]]:
    """The clock where nothing is said: over switches that of compare, else that of ASTRA-sim."""
    from ocs_codesign.schedules.simulate.transfers import with_fine_ticks

    has_switches = network.num_hosts < network.num_nodes
    as_compared = (has_switches or options["machine"] is not None) and not options["astra_sim"]
    as_compared &= not _counts_ticks(network)
    through = options["cut_through"] or (as_compared and has_switches)
    stores = options["store_and_forward"] or not through
    defaults = {
        "next_on_pair": options["next_on_pair"] or (None if as_compared else ARRIVED),
        "cut_through": not stores,
        "as_compared": as_compared,
    }
    return with_fine_ticks(network) if as_compared else network, {**options, **defaults}


def _orders(loaded: LoadedDesign, options: dict[str, Any]) -> list[dict[str, Any]]:
    """The options, and those of both orders of which compare takes the faster if none is said."""
    if options["next_on_pair"] is not None:
        return [options]
    in_order = ARRIVED if _names_switches(loaded) else QUEUED
    orders = (ANY,) if options["barriers"] else (ANY, in_order)
    return [{**options, "next_on_pair": order} for order in orders]


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
        rounds_up=options["as_compared"],
        overhead_ticks=whole_ticks(options["overhead"] or 0, network, "overhead of --rules"),
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
    next_begins = options["next_on_pair"]
    is_in_ns = not (barriers or options["as_compared"] or _counts_ticks(routes.network))
    sequence: dict[str, Any] = {
        # Over switches a chain is one of arrivals; to queue needs none.
        "chained": next_begins == ARRIVED or (next_begins == QUEUED and not names_switches),
        "barriers": barriers,
        "addition_ticks": ADDITION_TICKS if is_in_ns else 0,
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
    told += [] if options["barriers"] else [pairs[options["next_on_pair"]]]
    told += [f"protocol {options['protocol']}"] if options.get("protocol") else []
    told += ["blocking links" if options["blocking"] else "pipelined links"]
    told += ["cut-through" if options["cut_through"] else "store and forward"]
    told += ["everything stops for changes"] if options["stops"] else []
    told += [f"in doubles, {AS_ASTRA_SIM}"] if options["astra_sim"] else []
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
    from ocs_codesign.schedules.compare.contest import Contest

    if loaded.circuits is not None or network.num_links > MAX_BOUND_LINKS:
        return None
    if network.num_hosts < network.num_nodes and network.num_links > MAX_SWITCHED_BOUND_LINKS:
        return None
    collective = loaded.schedule.collective
    if collective.name not in (*opt.GATHERING, opt.ALLTOALL):
        return None
    return Contest("", network, collective, (1,), unit).floor_s().at(message)


# ``ocs-codesign astra-sim``: what ASTRA-sim says of a design, beside our clock.


NEGATIVE = 1


class AstraSimOptions(OptionGroup):
    """A design and its links, as ASTRA-sim is to run them."""

    design: str = argument("design", type=opt.FILE, metavar="DESIGN")
    binary: str | None = option(
        "--astra-sim",
        type=opt.FILE,
        metavar="FILE",
        help="The congestion-aware analytical build (default: what OCS_CODESIGN_ASTRA_SIM names).",
    )
    collective: str = opt.collective_choice(*opt.GATHERING)
    message: float = message_option_of(required=True)
    bandwidth: float = opt.bandwidth_option_of(
        "Largest total egress of a host, such as 100Gbps.", required=True
    )
    latency: float | None = opt.quantity_option(
        "--latency", parse_time, "Latency of every link (default: 0s)."
    )
    time_limit: float | None = opt.quantity_option(
        "--time-limit", parse_time, "Longest run of ASTRA-sim (default: 600s)."
    )


@command()
def astra_sim(given: AstraSimOptions = group(AstraSimOptions)) -> Answer:
    """Run a DESIGN that build saved, or a RECIPE's best schedule, in ASTRA-sim.

    It is exported as a collective of one's own over links of its own (export --format astra-sim
    writes the same files), and simulated by our clock by the same rules. Links are alike, one a
    pair of ranks. Without a binary that part is skipped, and the answer says why. Exit code 1 if
    ASTRA-sim fails, or not every rank says that it finished.

    \b
    Example:
      ocs-codesign astra-sim 'Torus((3,3))' --message 9MiB --bandwidth 400Gbps --latency 500ns
    """
    from ocs_codesign.interop.run.astra_sim import FAILED, TIME_LIMIT_S, second_opinion

    limit = TIME_LIMIT_S if given.time_limit is None else float(given.time_limit)
    with progress("Simulating"):
        export = exported_design(
            given.design,
            given.collective,
            (
                given.message,
                given.bandwidth,
                None if given.latency is None else exact(given.latency),
            ),
            in_place=False,
        )
        opinion = second_opinion(
            export, None if given.binary is None else Path(given.binary), limit
        )
    code = NEGATIVE if opinion.run.status == FAILED else 0
    return answered("programs.opinion", opinion, code=code)
