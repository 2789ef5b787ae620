"""Values as data frames of pandas: what their rows and columns are, by the type of the value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pandas import DataFrame

    from ocs_codesign.core.circuits import Timed
    from ocs_codesign.core.network import Network
    from ocs_codesign.core.schedule import Schedule
    from ocs_codesign.core.topology import Topology
    from ocs_codesign.fabric.selection.ranking import Selection
    from ocs_codesign.jobs.issue import JobRun
    from ocs_codesign.schedules.compare.comparison import Comparison
    from ocs_codesign.schedules.design import Design
    from ocs_codesign.schedules.simulate.engine import Simulated
    from ocs_codesign.search.pareto import Frontier


def frame_of(value: object) -> DataFrame:
    """The data frame of a value; TypeError for one that is no table.

    >>> from ocs_codesign.schedules.breadth_first.assembly import bfb
    >>> frame_of(bfb("UniRing(1, 3)")).head(1).to_dict("records")
    [{'item': 0, 'lo': 0, 'hi': 1, 'link': 0, 'tail': 0, 'head': 1, 'step': 1}]
    """
    from pandas import DataFrame

    columns = FRAMES.get(type(value).__name__)
    if columns is None:
        raise TypeError(f"{type(value).__name__} is no table: {', '.join(FRAMES)} are")
    return DataFrame(columns(value))


def _frontier(frontier: Frontier) -> dict[str, Any]:
    """Candidates, then baselines and published designs; t_b exact, and as a number.

    Where the catalogue has all-to-all times, these too, None of designs without one.
    """
    sets = {
        "frontier": frontier.candidates,
        "baseline": frontier.baselines,
        "published": frontier.published,
        "dominated": frontier.dominated,
    }
    rows = [(name, design) for name, designs in sets.items() for design in designs]
    columns = _designs([design for _, design in rows])
    if frontier.alltoall:
        columns["alltoall_t_b"] = [
            frontier.alltoall.get(design.recipe) if design.recipes else None for _, design in rows
        ]
    return {"set": [name for name, _ in rows], **columns}


def _designs(designs: Sequence[Design]) -> dict[str, Any]:
    return {
        "steps": [design.cost.steps for design in designs],
        "t_b": [design.cost.t_b for design in designs],
        "t_b_float": [float(design.cost.t_b) for design in designs],
        "collective": [design.collective.name for design in designs],
        "known": [design.known.value for design in designs],
        "maker": [design.maker for design in designs],
        "label": [design.label for design in designs],
        "recipe": [repr(design.recipe) if design.recipes else None for design in designs],
    }


def _schedule(schedule: Schedule) -> dict[str, Any]:
    topology = schedule.topology
    columns: dict[str, Any] = {
        "item": schedule.item,
        "lo": schedule.lo,
        "hi": schedule.hi,
        "link": schedule.link,
        "tail": topology.tail[schedule.link],
        "head": topology.head[schedule.link],
        "step": schedule.step,
    }
    return columns if schedule.phase is None else {**columns, "phase": schedule.phase}


def _topology(topology: Topology) -> dict[str, Any]:
    return {"tail": topology.tail, "head": topology.head, "speed": topology.speeds()}


def _network(network: Network) -> dict[str, Any]:
    columns = {"tail": network.tail, "head": network.head, "bandwidth": network.bandwidth}
    return {**columns, "latency_ticks": network.latency}


def _timed(timed: Timed) -> dict[str, Any]:
    tick_s = float(timed.tick_s)
    times = {"start_s": timed.start * tick_s, "end_s": timed.end * tick_s}
    return {**_schedule(timed.schedule), **times}


def _simulated(simulated: Simulated) -> dict[str, Any]:
    """A row a transfer, from the first node of its path to the last; -1 where it has none."""
    transfers = simulated.transfers
    tick_s = float(transfers.network.tick_s)
    path = transfers.path_start
    has_path = np.diff(path) > 0
    ends = {"tail": path[:-1], "head": path[1:] - 1}
    nodes = {}
    for name, place in ends.items():
        nodes[name] = np.full(transfers.num_transfers, -1)
        link = transfers.path_link[place[has_path]]
        nodes[name][has_path] = getattr(transfers.network, name)[link]
    return {
        "step": transfers.step,
        **nodes,
        "size_bytes": transfers.size * float(transfers.chunk_bytes),
        "start_s": simulated.start * tick_s,
        "end_s": simulated.end * tick_s,
    }


def _job_run(job_run: JobRun) -> dict[str, Any]:
    from ocs_codesign.jobs.job_graph import KINDS

    graph = job_run.graph
    tick_s = float(graph.tick_s)
    return {
        "owner": graph.owner,
        "kind": [KINDS[kind] for kind in graph.kind.tolist()],
        "label": [graph.labels[label] for label in graph.label.tolist()],
        "size_bytes": graph.size_bytes,
        "start_s": job_run.start * tick_s,
        "end_s": job_run.end * tick_s,
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    """A row for every entrant that played and message size."""
    contest = comparison.contest
    rows = [
        (
            *(each.entrant.label, each.entrant.is_classic, each.steps, size),
            *(
                each.times_s[place],
                comparison.least_s[place],
                comparison.busbw_Bps(each, place) / 1e9,
            ),
        )
        for each in comparison.played
        for place, size in enumerate(contest.sizes_bytes)
    ]
    names = ("entrant", "is_classic", "steps", "size_bytes", "time_s", "bound_s", "busbw_GBps")
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def _selection(selection: Selection) -> dict[str, Any]:
    ranked = selection.ranked
    return {
        "rank": np.arange(1, len(ranked) + 1),
        "plan": [plan.name for plan in ranked],
        "kind": [plan.kind.value for plan in ranked],
        "time_s": [plan.total_s for plan in ranked],
        "time_s_float": [float(plan.total_s) for plan in ranked],
    }


FRAMES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "Comparison": _comparison,
    "Frontier": _frontier,
    "JobRun": _job_run,
    "Network": _network,
    "Schedule": _schedule,
    "Selection": _selection,
    "Simulated": _simulated,
    "Timed": _timed,
    "Topology": _topology,
}
"""The columns of every value that is a table, by its type."""
