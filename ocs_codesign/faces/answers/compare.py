"""Comparisons as answers: who is fastest for which message, by how much, how far from the bound."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.quantities import format_bandwidth, format_size, format_time
from ocs_codesign.faces.answers.sections import Facts, Table, counted
from ocs_codesign.schedules.simulate.reasons import IDLE_REASONS, PARTS, critical_path, idle_ticks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.core.collective import Collective
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

    @property
    def bus_bandwidth_Bps(self) -> Fraction | None:  # noqa: N802 - the unit keeps its case
        """What nccl-tests call busbw: M over the time, times what a rank must send of M at least.

        None if nothing takes time, or for a collective that they do not know.
        """
        ranks, time_s = self.num_ranks, self.simulated.total_s
        once = Fraction(ranks - 1, ranks)
        share = {
            **dict.fromkeys(("allgather", "reduce-scatter", "alltoall", "scatter", "gather"), once),
            **dict.fromkeys(("broadcast", "reduce"), Fraction(1)),
            "allreduce": 2 * once,
        }.get(self.collective.name)
        return None if share is None or not time_s else share * self.message_bytes / time_s

    def ns(self, ticks: int) -> Fraction | int:
        """Ticks in nanoseconds, a whole number where it is one."""
        exact = ticks * self.simulated.transfers.network.tick_s * NS
        return int(exact) if exact.denominator == 1 else exact


def simulation_json(answer: Simulation) -> dict[str, Any]:
    """The JSON form: the time, the comparison, the critical path, and every link."""
    done, network = answer.simulated, answer.simulated.transfers.network
    path = critical_path(done)
    busy, idle = done.link_busy().tolist(), idle_ticks(done).tolist()
    links = [
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
    return {
        "design": answer.name,
        "collective": answer.collective.name,
        "num_ranks": answer.num_ranks,
        "message_bytes": answer.message_bytes,
        "mode": answer.mode,
        "time_ns": answer.ns(done.total_ticks),
        "formula_ns": answer.formula_s * NS,
        "bound_ns": None if answer.bound_s is None else answer.bound_s * NS,
        "bus_bandwidth_Bps": answer.bus_bandwidth_Bps,
        "steps": done.transfers.num_steps,
        "num_transfers": done.transfers.num_transfers,
        "critical_ns": {part: answer.ns(ticks) for part, ticks in _parts(path).items()},
        "critical_path": [_stretch_json(answer, stretch) for stretch in path],
        "links": links,
    }


def _stretch_json(answer: Simulation, stretch: Stretch) -> dict[str, Any]:
    return {
        "part": stretch.part,
        "start_ns": answer.ns(stretch.start),
        "end_ns": answer.ns(stretch.end),
        "step": int(answer.simulated.transfers.step[stretch.transfer]),
        "transfer": stretch.transfer,
        "link": None if stretch.link < 0 else stretch.link,
    }


def _parts(path: tuple[Stretch, ...]) -> dict[str, int]:
    """Ticks of the critical path by part."""
    ticks = dict.fromkeys(PARTS, 0)
    for stretch in path:
        ticks[stretch.part] += stretch.end - stretch.start
    return ticks


def simulation_sections(answer: Simulation) -> Iterator[Section]:
    """The time against the formula and the bound, what decides it, and the busiest links."""
    done = answer.simulated
    time_s, bandwidth = done.total_s, answer.bus_bandwidth_Bps
    yield Facts(
        ("design", answer.name),
        ("collective", f"{answer.collective.text} of {answer.num_ranks} ranks"),
        ("message", format_size(answer.message_bytes)),
        ("simulated", answer.mode),
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


def aggregation_json(answer: InNetwork) -> dict[str, Any]:
    """The JSON form: the time, the profile with its sources, and every tree."""
    done, profile = answer.done, answer.done.profile
    exact_ns = done.total_s * NS
    return {
        "network": answer.name,
        "collective": "allreduce",
        "num_ranks": done.network.num_hosts,
        "message_bytes": answer.message_bytes,
        "time_ns": int(exact_ns) if exact_ns.denominator == 1 else exact_ns,
        "algbw_Bps": answer.algbw_Bps,
        "rate_Bps": done.rate_Bps,
        "most_without_Bps": answer.most_Bps,
        "packets": done.num_packets,
        "packets_simulated": done.num_simulated,
        "is_exact": done.is_exact,
        "aggregation": profile_json(profile),
        "trees": [_tree_json(run, done.network.tick_s) for run in done.runs],
    }


def profile_json(profile: AggregationProfile) -> dict[str, Any]:
    """The JSON form of a profile."""
    return {
        "name": profile.name,
        "arithmetic": profile.arithmetic,
        "num_slots": profile.num_slots,
        "slot_bytes": profile.slot_bytes,
        "header_bytes": profile.header_bytes,
        "window": profile.window,
        "memory_bytes": profile.memory_bytes,
        "rate_Bps": profile.rate_Bps,
        "latency_s": profile.latency_s,
        "conversion_Bps": profile.conversion_Bps,
        "expansion": profile.expansion,
        "sources": dict(profile.sources),
    }


def _tree_json(run: TreeRun, tick_s: Fraction) -> dict[str, Any]:
    tree = run.job.tree
    return {
        "root": tree.root,
        "switches": list(tree.switches),
        "adding_hosts": list(tree.adding_hosts),
        "bandwidth": str(tree.bandwidth),
        "packets": run.job.num_packets,
        "slots": run.job.num_slots,
        "round_trip_s": run.round_trip_s,
        "limits_Bps": run.limits_Bps,
        "limit": run.limit,
        "time_s": run.total_ticks * tick_s,
    }


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


def compare_json(comparisons: Sequence[Comparison], book: str | None) -> dict[str, Any]:
    """The JSON form: every time of every entrant, and who is best from which size on."""
    first = comparisons[0].contest
    return {
        "collective": first.collective.name,
        "sizes_bytes": list(first.sizes_bytes),
        "barriers": first.barriers,
        "aggregation": None if first.aggregation is None else profile_json(first.aggregation),
        "networks": [_comparison_json(each) for each in comparisons],
        "out": book,
    }


def _comparison_json(found: Comparison) -> dict[str, Any]:
    contest = found.contest
    return {
        "network": contest.name,
        "hosts": contest.num_hosts,
        "switches": contest.network.num_nodes - contest.num_hosts,
        "unit_Bps": str(contest.unit_Bps),
        "least_s": list(found.least_s),
        "best": [
            {"from_bytes": size, "entrant": best.entrant.label} for size, best in found.ranges()
        ],
        "entrants": [
            {
                "entrant": each.entrant.label,
                "classic": each.entrant.is_classic,
                "steps": each.steps,
                "transfers": each.num_transfers,
                "times_s": list(each.times_s),
                "refusal": each.refusal,
            }
            for each in found.outcomes
        ],
    }


def compare_sections(comparisons: Sequence[Comparison]) -> Iterator[Section]:
    """A table of the best by size for every network, then all that played."""
    for number, found in enumerate(comparisons):
        if number:
            yield ""
        contest = found.contest
        latency, byte = found.floor_s
        bound = f"{format_time(latency)}, {format_time(byte * 2**20)} a MiB"
        yield Facts(
            ("network", contest.name),
            ("collective", f"{contest.collective.name} of {counted(contest.num_hosts, 'host')}"),
            ("nothing is faster than", bound),
            ("switches add up", _aggregation_text(contest)),
        )
        yield ""
        yield _by_size(found)
        yield ""
        yield _by_entrant(found)
        refused = [each for each in found.outcomes if each.refusal is not None]
        if refused:
            names = ", ".join(each.entrant.label for each in refused[:4])
            more = f" and {len(refused) - 4} more" if len(refused) > 4 else ""
            yield f"Did not play: {names}{more}; --json FILE says why."
    if len(comparisons) > 1:
        yield ""
        yield _by_network(comparisons)


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
                format_bandwidth(found.busbw_Bps(best, position)),
                f"{over:.2f}",
                best.entrant.label,
                other,
            )
        )
    columns = ("message", "time", "busbw", "over bound", "best", "best classic takes")
    return Table(columns, rows, numbers=4, texts=2)


def _by_entrant(found: Comparison) -> Table:
    """Times at the smallest, a middle and the largest size, the best of the largest first."""
    sizes = found.contest.sizes_bytes
    positions = sorted({0, len(sizes) // 2, len(sizes) - 1})
    ordered = sorted(found.played, key=lambda each: each.times_s[-1])
    rows = [
        (
            *(format_time(each.times_s[position]) for position in positions),
            str(each.steps),
            each.entrant.label,
        )
        for each in ordered[:_SHOWN]
    ]
    columns = (*(format_size(sizes[position]) for position in positions), "steps", "entrant")
    return Table(columns, rows, numbers=len(columns) - 1, texts=1)


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
