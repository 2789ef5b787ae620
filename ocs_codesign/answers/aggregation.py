"""An allreduce in the network as an answer: its time, what limits it, and what it gains."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.answers.sections import Facts, Table, counted
from ocs_codesign.quantities import format_bandwidth, format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.aggregation import AggregationProfile
    from ocs_codesign.answers.sections import Section
    from ocs_codesign.simulate.aggregated import Aggregated, TreeRun

NS = 10**9
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
