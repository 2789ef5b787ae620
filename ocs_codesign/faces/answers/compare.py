"""Comparisons as answers: who is fastest for which message, by how much, how far from the bound."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.machines.intervals import FASTER, SLOWER, TIE
from ocs_codesign.core.quantities import format_bandwidth, format_size, format_time
from ocs_codesign.faces.answers.declared import excluded, made
from ocs_codesign.faces.answers.machines import clock_facts
from ocs_codesign.faces.answers.sections import Facts, Table, counted
from ocs_codesign.schedules.simulate.reasons import IDLE_REASONS, PARTS, critical_path, idle_ticks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.core.collective import Collective
    from ocs_codesign.core.machines.machine import RealMachine
    from ocs_codesign.core.networks.aggregation import AggregationProfile
    from ocs_codesign.faces.answers.sections import Section
    from ocs_codesign.schedules.compare.comparison import Comparison
    from ocs_codesign.schedules.compare.contest import Contest
    from ocs_codesign.schedules.compare.play import Outcome
    from ocs_codesign.schedules.simulate.aggregated import Aggregated, TreeRun
    from ocs_codesign.schedules.simulate.engine import Simulated
    from ocs_codesign.schedules.simulate.reasons import Stretch


# A simulated collective as an answer: its time, what decides it, and what its links waited for.


NS = 10**9
_SHOWN_LINKS = 8


@final
@dataclass(frozen=True, slots=True)
class Simulation:
    """What was simulated, and what it is compared with.

    ``formula_s`` is alpha for every step and t_b for M, ``bound_s`` what the bytes take at least on
    these links, None where it is not known. ``mode`` says in words what the simulation goes by.
    """

    name: str
    collective: Collective
    num_ranks: int
    message_bytes: Fraction
    mode: str
    simulated: Simulated
    formula_s: Fraction
    bound_s: Fraction | None
    launch_s: Fraction = Fraction(0)
    machine: RealMachine | None = None

    @property
    def caveat(self) -> str | None:
        """That it is no time of a real machine, where bytes alone take any."""
        rules, network = self.simulated.rules, self.simulated.transfers.network
        if self.machine is not None or network.latency.any() or not rules.is_free_at_ends:
            return None
        if rules.in_doubles or network.chunk_ticks is not None:
            return None
        return "uncalibrated: bytes alone take time, until --machine or --latency is given"

    @property
    def total_s(self) -> Fraction:
        """The time, with what a launch takes on the machine."""
        return self.simulated.total_s + self.launch_s

    @property
    def bus_bandwidth_Bps(self) -> Fraction | None:  # noqa: N802 - the unit keeps its case
        """What nccl-tests call busbw: M over the time, times what a rank must send of M at least.

        None if nothing takes time, or for a collective that they do not know.
        """
        ranks, time_s = self.num_ranks, self.total_s
        once = Fraction(ranks - 1, ranks)
        share = {
            **dict.fromkeys(("allgather", "reduce-scatter", "alltoall", "scatter", "gather"), once),
            **dict.fromkeys(("broadcast", "reduce"), Fraction(1)),
            "allreduce": 2 * once,
        }.get(self.collective.name)
        return None if share is None or not time_s else share * self.message_bytes / time_s

    def ns(self, ticks: int) -> Fraction | int:
        """Ticks in nanoseconds, a whole number where it is one."""
        return _ns(ticks * self.simulated.transfers.network.tick_s)


def _ns(time_s: Fraction) -> Fraction | int:
    exact = time_s * NS
    return int(exact) if exact.denominator == 1 else exact


def _links(answer: Simulation) -> list[dict[str, Any]]:
    done, network = answer.simulated, answer.simulated.transfers.network
    busy, idle = done.link_busy().tolist(), idle_ticks(done).tolist()
    return [
        {
            "link": link,
            "tail": int(network.tail[link]),
            "head": int(network.head[link]),
            "busy_ns": answer.ns(busy[link]),
            "idle_ns": {
                why: answer.ns(ticks) for why, ticks in zip(IDLE_REASONS, idle[link], strict=True)
            },
        }
        for link in range(network.num_links)
    ]


made(
    "compare.simulation",
    time_ns=lambda answer: _ns(answer.total_s),
    formula_ns=lambda answer: answer.formula_s * NS,
    bound_ns=lambda answer: None if answer.bound_s is None else answer.bound_s * NS,
    critical_ns=lambda answer: {
        part: answer.ns(ticks) for part, ticks in _parts(critical_path(answer.simulated)).items()
    },
    critical_path=lambda answer: critical_path(answer.simulated),
    links=_links,
)
made(
    "stretch",
    start_ns=lambda stretch, answer: answer.ns(stretch.start),
    end_ns=lambda stretch, answer: answer.ns(stretch.end),
    step=lambda stretch, answer: answer.simulated.transfers.step[stretch.transfer],
    link=lambda stretch: None if stretch.link < 0 else stretch.link,
)


def _parts(path: tuple[Stretch, ...]) -> dict[str, int]:
    """Ticks of the critical path by part."""
    ticks = dict.fromkeys(PARTS, 0)
    for stretch in path:
        ticks[stretch.part] += stretch.end - stretch.start
    return ticks


def simulation_sections(answer: Simulation) -> Iterator[Section]:
    """The time against the formula and the bound, what decides it, and the busiest links."""
    done = answer.simulated
    time_s, bandwidth = answer.total_s, answer.bus_bandwidth_Bps
    yield Facts(
        ("design", answer.name),
        ("collective", f"{answer.collective.text} of {answer.num_ranks} ranks"),
        ("message", format_size(answer.message_bytes)),
        ("simulated", answer.mode),
        *clock_facts(answer.machine),
        ("but", answer.caveat),
        ("time", f"{format_time(time_s)} ({float(time_s * NS):,.9g} ns)"),
        ("steps", f"{done.transfers.num_steps}, {done.transfers.num_transfers:,} transfers"),
        ("bus bandwidth", None if bandwidth is None else f"{float(bandwidth) / NS:.4g} GB/s"),
        ("by formula", _compared(answer.formula_s, time_s)),
        (
            "bound of the links",
            None if answer.bound_s is None else _compared(answer.bound_s, time_s),
        ),
        ("critical path", _path_text(answer)),
    )
    if done.total_ticks:
        yield ""
        yield _busiest(done)


def _compared(other_s: Fraction, time_s: Fraction) -> str:
    ratio = f", the simulation takes {float(time_s / other_s):.4f} of it" if other_s else ""
    return f"{format_time(other_s)}{ratio}"


def _path_text(answer: Simulation) -> str | None:
    ticks = _parts(critical_path(answer.simulated))
    total = answer.simulated.total_ticks
    found = [f"{part} {ticks[part] / total:.1%}" for part in PARTS if ticks[part]]
    return ", ".join(found) or None


def _busiest(done: Simulated) -> Table:
    """The links that send longest, and what they wait for otherwise."""
    network = done.transfers.network
    busy, idle = done.link_busy(), idle_ticks(done)
    why = [at for at in range(len(IDLE_REASONS)) if idle[:, at].any()]
    rows = []
    for link in np.argsort(-busy, kind="stable")[:_SHOWN_LINKS].tolist():
        ends = (network.name(int(end[link])) for end in (network.tail, network.head))
        parts = [busy[link], *idle[link, why]]
        shares = [f"{part / done.total_ticks:.1%}" for part in parts]
        rows.append((str(link), *shares, " to ".join(ends)))
    names = [f"waits: {IDLE_REASONS[at]}" if IDLE_REASONS[at] != "done" else "done" for at in why]
    return Table(("busiest link", "sends", *names, "from"), rows, numbers=2 + len(names))


# An allreduce in the network as an answer: its time, what limits it, and what it gains.


_SHOWN_SWITCHES = 4
ASSUMPTION = "assumption: "


@final
@dataclass(frozen=True, slots=True)
class InNetwork:
    """What was simulated on a network called ``name``.

    ``most_Bps`` is M over the time that nothing exceeds where switches only forward, in bytes a
    second; None if it was not asked for.
    """

    name: str
    message_bytes: Fraction
    done: Aggregated
    most_Bps: Fraction | None  # noqa: N815 - units keep their case

    @property
    def algbw_Bps(self) -> Fraction | None:  # noqa: N802
        """M over the time; None if nothing takes time."""
        return self.message_bytes / self.done.total_s if self.done.total_ticks else None


made("compare.aggregation", time_ns=lambda answer: _ns(answer.done.total_s))
made("aggregation", sources=lambda profile: dict(profile.sources))
made("tree", time_s=lambda run, answer: run.total_ticks * answer.done.network.tick_s)


def aggregation_sections(answer: InNetwork) -> Iterator[Section]:
    """The time, the rate of long messages and what limits it, tree by tree, and assumptions."""
    done, profile = answer.done, answer.done.profile
    algbw, network = answer.algbw_Bps, done.network
    trees = counted(len(done.runs), "tree")
    yield Facts(
        ("network", answer.name),
        ("collective", f"allreduce of {network.num_hosts} ranks, added up by switches"),
        ("message", f"{format_size(answer.message_bytes)} in {done.num_packets:,} packets"),
        ("aggregation", profile_text(profile)),
        ("time", f"{_time_text(done)}, {trees}"),
        ("algbw", None if algbw is None else format_bandwidth(algbw)),
        ("of long messages", f"{format_bandwidth(done.rate_Bps)}, limited by {done.runs[0].limit}"),
        ("at most without it", _without(answer)),
    )
    yield ""
    names = list(done.runs[0].limits_Bps)
    rows = [
        (
            *(format_bandwidth(run.limits_Bps[name]) for name in names),
            format_time(run.round_trip_s),
            str(run.job.num_slots),
            _switches_text(answer, run),
        )
        for run in done.runs
    ]
    columns = (*names, "round trip", "slots", "switches that add up")
    yield Table(columns, rows, numbers=len(columns) - 1, texts=1).shortened("trees")
    assumed = [name for name, text in profile.sources if text.startswith(ASSUMPTION)]
    if assumed:
        yield f"Assumed, from no public source: {', '.join(assumed)}; --json FILE has the reasons."


def _time_text(done: Aggregated) -> str:
    if done.is_exact:
        return f"{format_time(done.total_s)} ({float(done.total_s * NS):,.9g} ns)"
    return f"about {format_time(done.total_s)}, by {done.num_simulated:,} packets of all trees"


def profile_text(profile: AggregationProfile) -> str:
    """A profile in a line."""
    memory = f"{profile.num_slots} slots of {format_size(profile.slot_bytes)}"
    window = "" if profile.window >= profile.num_slots else f", {profile.window} packets in flight"
    return f"{profile.name}, {profile.arithmetic}, {memory}{window}"


def _without(answer: InNetwork) -> str | None:
    most, algbw = answer.most_Bps, answer.algbw_Bps
    if most is None:
        return None
    ratio = f"; this is {float(algbw / most):.2f} times as much" if algbw is not None else ""
    return f"{format_bandwidth(most)}{ratio}"


def _switches_text(answer: InNetwork, run: TreeRun) -> str:
    tree = run.job.tree
    switches = [tree.root, *(node for node in tree.switches[::-1] if node != tree.root)]
    hosts = len(tree.adding_hosts)
    names = ", ".join(map(answer.done.network.name, switches[:_SHOWN_SWITCHES]))
    more = len(switches) - _SHOWN_SWITCHES
    names += f" and {more} more" if more > 0 else ""
    return names + (f"; in boxes {counted(hosts, 'host')}" if hosts else "")


_SHOWN = 16
"""Entrants of a network that are listed; --json FILE has all."""


made(
    "compare.compare",
    collective=lambda comparisons: comparisons[0].contest.collective.name,
    sizes_bytes=lambda comparisons: comparisons[0].contest.sizes_bytes,
    barriers=lambda comparisons: comparisons[0].contest.barriers,
    aggregation=lambda comparisons: comparisons[0].contest.aggregation,
    networks=lambda comparisons: comparisons,
)
made(
    "comparison",
    switches=lambda found: found.contest.network.num_nodes - found.contest.num_hosts,
    best=lambda found: [
        {"from_bytes": size, "entrant": best.entrant.label} for size, best in found.ranges()
    ],
    excluded=lambda found: [
        excluded(each.entrant.label, "refused", each.refusal)
        for each in found.outcomes
        if each.refusal is not None
    ],
    choices=lambda found: None if found.contest.machine is None else _choices(found),
)
made(
    "entrant",
    clock=lambda outcome, found: (
        found.contest.machine and ("library" if outcome.entrant.is_library else "schedule")
    ),
    protocols=lambda outcome, found: found.contest.machine and outcome.protocols,
    intervals_s=lambda outcome, found: found.contest.machine and outcome.intervals_s,
)


def _choices(found: Comparison) -> list[dict[str, Any]]:
    """By size what to take, and whether the best schedule is faster than the library or it ties."""
    rows = []
    for position, size in enumerate(found.contest.sizes_bytes):
        chosen = found.chosen(position)
        label = None if chosen is None else chosen.entrant.label
        verdict = found.verdict(position) or None
        rows.append({"message_bytes": size, "take": label, "schedule_is": verdict})
    return rows


def compare_sections(
    comparisons: Sequence[Comparison], book: str | None = None
) -> Iterator[Section]:
    """A table of the best by size for every network, then all that played."""
    del book
    for number, found in enumerate(comparisons):
        if number:
            yield ""
        contest = found.contest
        latency, byte = found.floor_s[:2]
        bound = f"{format_time(byte * 2**20)} a MiB"
        bound = f"{format_time(latency)}, {bound}" if latency else bound
        yield Facts(
            ("network", contest.name),
            ("collective", f"{contest.collective.name} of {counted(contest.num_hosts, 'host')}"),
            ("nothing is faster than", bound),
            ("switches add up", _aggregation_text(contest)),
            *clock_facts(contest.machine),
        )
        yield ""
        yield _by_size(found)
        yield ""
        yield _by_entrant(found)
        if found.library is not None:
            yield ""
            yield _of_library(found, found.library)
        yield from _left_out(found)
    if len(comparisons) > 1:
        yield ""
        yield _by_network(comparisons)


def raced_sections(found: Comparison) -> Iterator[Section]:
    """All that were tried for one message, the fastest first, and what nothing is faster than."""
    size, least = found.contest.sizes_bytes[-1], found.least_s[-1]
    yield ""
    yield f"Best for {format_size(size)} by the clock of compare:"
    yield _by_entrant(found)
    yield f"Nothing takes less than {format_time(least)} on these links."
    machine, library, position = found.contest.machine, found.library, len(found.least_s) - 1
    if machine is not None:
        yield Facts(*clock_facts(machine))
    if library is not None:
        took, best = format_time(library.times_s[-1]), found.best(position)
        mine = "" if best is None else _between(best, position)
        take = VERDICTS.get(found.verdict(position), "the schedule")
        told = f"{library.entrant.label} takes {took} by its own clock"
        limits = f"{_between(library, position)}, the schedule {mine}"
        yield f"{told} ({limits}): take {take}."


def _aggregation_text(contest: Contest) -> str | None:
    return None if contest.aggregation is None else profile_text(contest.aggregation)


def _by_size(found: Comparison) -> Table:
    contest = found.contest
    rows = []
    for position, size in enumerate(contest.sizes_bytes):
        best, classic = found.best(position), found.best(position, classic=True)
        if best is None:
            continue
        over = best.times_s[position] / found.least_s[position]
        other = "-"
        if classic is not None:
            slower = classic.times_s[position] / best.times_s[position]
            other = f"{slower:.2f} x {classic.entrant.label}"
        rows.append(
            (
                format_size(size),
                format_time(best.times_s[position]),
                f"{found.busbw_Bps(best, position) / 1e9:.4g} GB/s",
                f"{over:.2f}",
                " in ".join(
                    filter(None, (best.entrant.label, *best.protocols[position : position + 1]))
                ),
                other,
            )
        )
    columns = ("message", "time", "busbw", "over bound", "best", "best classic takes")
    return Table(columns, rows, numbers=4, texts=2)


def _of_library(found: Comparison, library: Outcome) -> Table:
    """What the library takes by its own clock, against the best schedule by the other."""
    rows = []
    for position, size in enumerate(found.contest.sizes_bytes):
        best = found.best(position)
        if best is not None:
            over = library.times_s[position] / best.times_s[position]
            took = format_time(library.times_s[position])
            known = [_between(each, position) for each in (library, best)]
            what = library.protocols[position] or "as measured"
            row = (format_size(size), took, f"{over:.2f}", *known, what)
            rows.append((*row, VERDICTS.get(found.verdict(position), "")))
    name = f"{library.entrant.label}, its own clock"
    columns = ("message", name, "over best", "from - to", "best from - to", "it takes", "take")
    return Table(columns, rows, numbers=5, texts=2)


VERDICTS = {FASTER: "the schedule", TIE: "the library: a tie", SLOWER: "the library"}
"""What follows from a verdict on the best schedule."""


def _between(outcome: Outcome, position: int) -> str:
    """From and to."""
    limits = outcome.intervals_s[position : position + 1]
    return "".join(f"{format_time(low)} - {format_time(high)}" for low, high in limits)


def _by_entrant(found: Comparison) -> Table:
    """Times at the smallest, a middle and the largest size, the best of the largest first."""
    sizes = found.contest.sizes_bytes
    positions = sorted({0, len(sizes) // 2, len(sizes) - 1})
    played = [each for each in found.played if not each.entrant.is_library]
    ordered = sorted(played, key=lambda each: each.times_s[-1])
    rows = [
        (
            *(format_time(each.times_s[position]) for position in positions),
            str(each.steps),
            each.entrant.label,
        )
        for each in ordered
    ]
    slower = counted(len(rows) - _SHOWN, "slower entrant")
    columns = (*(format_size(sizes[position]) for position in positions), "steps", "entrant")
    table = Table(columns, rows[:_SHOWN], numbers=len(columns) - 1, texts=1)
    if len(rows) <= _SHOWN:
        return table
    return replace(table, note=f"... {slower}: --json FILE has them all.", whole=rows)


def _left_out(found: Comparison) -> Iterator[Section]:
    """Who has no times, and why: nobody is absent in silence."""
    rows = [(each.entrant.label, each.refusal) for each in found.outcomes if each.refusal]
    if rows:
        yield ""
        yield Table(("did not play", "why"), rows, texts=2)


def _by_network(comparisons: Sequence[Comparison]) -> Table:
    """The best of every network by size, and which network that is."""
    sizes = comparisons[0].contest.sizes_bytes
    rows = []
    for position, size in enumerate(sizes):
        bests: list[tuple[float, str, Outcome]] = []
        for each in comparisons:
            best = each.best(position)
            if best is not None:
                bests.append((best.times_s[position], each.contest.name, best))
        time_s, name, best = min(bests, key=lambda entry: entry[0])
        slowest = max(bests, key=lambda entry: entry[0])
        rows.append(
            (
                format_size(size),
                format_time(time_s),
                f"{name}: {best.entrant.label}",
                f"{slowest[0] / time_s:.2f} x {slowest[1]}",
            )
        )
    columns = ("message", "time", "best of all networks", "the slowest network takes")
    return Table(columns, rows, numbers=2, texts=2)
