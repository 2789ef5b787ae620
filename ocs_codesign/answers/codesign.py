"""A co-design as an answer: the ranking, baselines beside it, why it is so, and how to build it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.answers.codesign_texts import (
    circuits_text,
    division_text,
    explanation,
    parts_json,
    search_text,
)
from ocs_codesign.answers.sections import Facts, Recipes, Table, counted
from ocs_codesign.graphs.handle import handle
from ocs_codesign.quantities import format_bandwidth, format_time
from ocs_codesign.workload.codesign.candidates import Joining
from ocs_codesign.workload.codesign.memory import SOURCE, memory_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.formats.jobs.handover import Handover
    from ocs_codesign.workload.codesign.outcomes import JobOutcome
    from ocs_codesign.workload.codesign.planning import CodesignPlan


@final
@dataclass(frozen=True, slots=True)
class CodesignAnswer:
    """A plan, what is handed to deploy, and where the files of it are or would be."""

    plan: CodesignPlan
    handed: tuple[Handover, ...]
    directory: str
    is_written: bool = False


def codesign_json(answer: CodesignAnswer, top: int) -> dict[str, Any]:
    """The JSON form: so many of the ranking, and every baseline."""
    plan = answer.plan
    best_s = plan.best.period_s
    explored = plan.explored
    return {
        "job": plan.trained.name,
        "cluster": plan.cluster.name,
        "num_accelerators": plan.cluster.num_accelerators,
        "ranking": [
            {
                "rank": rank,
                **_outcome_json(plan, one),
                "compute_bound_s": bounds.compute_s,
                "communication_bound_s": bounds.communication_s,
            }
            for rank, (one, bounds) in enumerate(
                zip(plan.ranked[:top], plan.bounds[:top], strict=True), 1
            )
        ],
        "baselines": [
            {
                "baseline": one.name,
                "note": one.note,
                **({} if one.outcome is None else _outcome_json(plan, one.outcome)),
                "over_best": None if one.outcome is None else one.outcome.period_s / best_s,
            }
            for one in plan.baselines
        ],
        "explanation": explanation(plan),
        "if_twice_as_fast_s": plan.if_changed,
        "break_even_delta_s": plan.break_even_s,
        "search": {
            "divisions": len(plan.divisions.fitting),
            "need_more_memory": plan.divisions.num_too_large,
            "too_long_to_simulate": plan.divisions.num_too_long,
            "simulated": len(explored.outcomes),
            "skipped_by_bounds": dict(sorted(explored.skipped.items())),
            "unseen": explored.unseen,
            "unseen_bound_s": explored.unseen_bound_s,
            "stuck": explored.num_stuck,
            "unsolved": explored.num_unsolved,
            "not_proven_worse": plan.num_unproven,
            "sizes_without_search": [list(size) for size in plan.unsearched],
        },
        "fat_tree_share": plan.cluster.fat_tree_share,
        "memory_model": SOURCE,
        "deploy": [one.command(answer.directory) for one in answer.handed],
    }


def _outcome_json(plan: CodesignPlan, outcome: JobOutcome) -> dict[str, Any]:
    candidate = outcome.candidate
    parallel = candidate.parallel
    return {
        "period_s": outcome.period_s,
        "period_exact_s": str(outcome.period_s),
        "bound_s": outcome.bound_s,
        **parts_json(outcome),
        "policy": outcome.policy,
        "setting": outcome.setting,
        "joining": candidate.joining.value,
        "num_ranks": parallel.num_ranks,
        "division": {name: getattr(parallel, name) for name in parallel.__slots__},
        "memory_bytes": memory_bytes(plan.trained.model, parallel),
        "placement": [
            {"dimension": span.dimension, "inside": span.inside, "outside": span.outside}
            for span in candidate.placement.spans
        ],
        "ports": candidate.ports,
        "designs": {name: str(option.recipe) for name, option in candidate.designs.items()},
        "gradient_ports": candidate.late_ports,
        "gradient_designs": {
            name: str(option.recipe) for name, option in candidate.late_designs.items()
        },
    }


def codesign_sections(answer: CodesignAnswer, top: int) -> Iterator[Section]:
    """The same to read."""
    plan = answer.plan
    cluster, best = plan.cluster, plan.best
    ports = f"{counted(cluster.num_ports, 'port')} of {format_bandwidth(cluster.port_Bps)}"
    used = best.candidate.parallel.num_ranks
    yield Facts(
        ("job", plan.trained.name),
        (
            "cluster",
            f"{cluster.name}: {cluster.num_servers} x {cluster.accelerators_a_server} "
            f"accelerators with {ports} each",
        ),
        ("iteration", f"{format_time(best.period_s)} on {used} of {cluster.num_accelerators}"),
        ("bound", f"{format_time(best.bound_s)}: under no policy is this division faster here"),
        ("compute alone", format_time(plan.bounds[0].compute_s)),
        ("messages alone", format_time(plan.bounds[0].communication_s)),
        ("memory", _memory_text(plan, best)),
    )
    yield ""
    rows = [_row(plan, str(rank), one) for rank, one in enumerate(plan.ranked[:top], 1)]
    yield Table(("rank", *_COLUMNS), rows, numbers=5, texts=3)
    yield "What is left of | is inside servers, what is right of it over light with so many ports."
    more = len(plan.ranked) - top
    if more > 0:
        yield f"{more} more were simulated: --top shows them."
    yield ""
    rows = [_row(plan, one.name, one.outcome) for one in plan.baselines if one.outcome is not None]
    yield Table(("baseline", *_COLUMNS), rows, numbers=5, texts=3)
    yield ""
    yield from search_text(plan)
    yield ""
    yield from explanation(plan)
    yield ""
    yield from _deploy(answer)
    yield Recipes.of(
        option.recipe
        for one in plan.ranked[:top]
        for options in (one.candidate.designs, one.candidate.late_designs)
        for option in options.values()
    )


def _memory_text(plan: CodesignPlan, outcome: JobOutcome) -> str:
    needed = memory_bytes(plan.trained.model, outcome.candidate.parallel)
    return f"{needed / 1e9:.3g} of {plan.cluster.memory_bytes / 1e9:.3g} GB, after {SOURCE}"


_COLUMNS = (
    *("iteration", "over best", "bound", "exposed"),
    *("policy", "division", "joined by"),
)


def _row(plan: CodesignPlan, name: str, outcome: JobOutcome) -> tuple[str, ...]:
    exposed = sum(outcome.exposed_s.values()) + outcome.dark_s
    return (
        name,
        format_time(outcome.period_s),
        f"{float(outcome.period_s / plan.best.period_s):.3f}",
        format_time(outcome.bound_s),
        format_time(exposed),
        outcome.policy,
        division_text(outcome.candidate),
        circuits_text(outcome.candidate, handle),
    )


def _deploy(answer: CodesignAnswer) -> Iterator[Section]:
    if not answer.handed:
        yield "The winner needs no light: all ranks are in one server."
        return
    cluster = answer.plan.cluster
    each = cluster.accelerators_a_server
    rails = f", on each of the {each} rails alike" * (each > 1)
    if answer.plan.best.candidate.joining is Joining.ACROSS:
        rails = (
            f", on all {each} rails together: ports {cluster.num_ports} r to "
            f"{cluster.num_ports} r + {cluster.num_ports - 1} of a server are those of accelerator "
            "r, and what changes rail in a server is not in the schedule"
        )
    where = "" if answer.is_written else f" (--out {answer.directory} writes the fabric's file)"
    yield f"To build it{rails}{where}:"
    yield from (one.command(answer.directory) for one in answer.handed)
